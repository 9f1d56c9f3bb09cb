//! Aggregates and collections.

use super::{Fixture, MESSAGE, SLOT, World};
use crate::{Bytes, Evidence, Form, Layer, Overlap, Part, Scheme, SchemeError, Statement};
use alphorn_types::{Cell, Slot, Support, Unit};
use std::sync::Arc;

const CELL: Cell = Cell {
    committee: 1,
    subcommittee: 1,
};

fn with_support(evidence: &Evidence, multiplicities: &[u8]) -> Evidence {
    let support = Support::from_multiplicities(multiplicities).expect("within the limit");
    Evidence {
        support: Arc::new(support),
        bytes: evidence.bytes.clone(),
    }
}

fn multiplicities(evidence: &Evidence) -> Vec<u8> {
    (0..evidence.support.len())
        .map(|i| evidence.support.multiplicity(i))
        .collect()
}

/// Each claim that differs from the truth in one place is false.
fn binds<F: Fixture>(world: &World<F::S>, statement: &Statement, evidence: &Evidence) {
    assert!(world.holds(statement, evidence));
    binds_support::<F>(world, statement, evidence);
    binds_statement::<F>(world, statement, evidence);
    binds_bytes::<F>(world, statement, evidence);
}

fn binds_support<F: Fixture>(world: &World<F::S>, statement: &Statement, evidence: &Evidence) {
    let truth = multiplicities(evidence);
    for i in 0..truth.len() {
        // One more and, modulo 16, one less.
        for delta in [1u8, 15] {
            let mut lie = truth.clone();
            lie[i] = (lie[i] + delta) % 16;
            let lied = with_support(evidence, &lie);
            assert!(!world.holds(statement, &lied), "{lie:?} for {truth:?}");
        }
    }
}

fn binds_statement<F: Fixture>(world: &World<F::S>, statement: &Statement, evidence: &Evidence) {
    let truth = *statement;
    let mut lies = vec![
        (
            "another message",
            Statement {
                message: [9; 32],
                ..truth
            },
        ),
        (
            "other validators",
            Statement {
                first: truth.first - 4,
                ..truth
            },
        ),
        ("no validators there", Statement { first: 23, ..truth }),
        (
            "no validators there",
            Statement {
                first: u32::MAX - 2,
                ..truth
            },
        ),
        (
            "another length",
            Statement {
                len: truth.len + 1,
                ..truth
            },
        ),
    ];
    // Only one-time keys sign over the slot.
    if world.scheme().abilities().one_time {
        lies.push((
            "another slot",
            Statement {
                slot: Slot(SLOT.0 + 1),
                ..truth
            },
        ));
    }
    for (what, lie) in lies {
        assert!(!world.holds(&lie, evidence), "{what}");
    }
}

fn binds_bytes<F: Fixture>(world: &World<F::S>, statement: &Statement, evidence: &Evidence) {
    let bytes = evidence.bytes.to_vec();
    let mut tampered: Vec<Vec<u8>> = vec![
        vec![],
        bytes[..bytes.len() - 1].to_vec(),
        [&bytes[..], &[0]].concat(),
        vec![0; bytes.len()],
    ];
    for i in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        let mut flipped = bytes.clone();
        flipped[i] ^= 0x41;
        tampered.push(flipped);
    }
    for bytes in tampered {
        let support = evidence.support.clone();
        let lie = Evidence {
            support,
            bytes: bytes.into(),
        };
        assert!(!world.holds(statement, &lie), "tampered bytes");
    }
}

/// An aggregate proves its support, no more and no less.
pub(crate) fn aggregates_name_exactly_their_signers<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let statement = world.statement(CELL);
    let votes = world.votes(&statement, &[0, 1, 2, 3]);
    for signers in [&[1][..], &[0, 2], &[0, 1, 2, 3]] {
        let chosen: Vec<_> = signers.iter().map(|i| votes[*i as usize].clone()).collect();
        let evidence = world.aggregate(&statement, &chosen);
        let expected: Vec<u8> = (0..4).map(|i| u8::from(signers.contains(&i))).collect();
        assert_eq!(multiplicities(&evidence), expected);
        let length = world.scheme().evidence_length(Layer::Aggregate, 4);
        assert!(length.fits(evidence.bytes.len()));
        binds::<F>(&world, &statement, &evidence);
    }
    let unordered = [votes[1].clone(), votes[0].clone()];
    let twice = [votes[0].clone(), votes[0].clone()];
    let outside = [(4, votes[0].1.clone())];
    for wrong in [&unordered[..], &twice, &outside] {
        let made = World::<F::S>::with_ctx(|ctx| {
            world
                .scheme()
                .aggregate(world.keys(), &statement, wrong, ctx)
        });
        assert!(
            matches!(made, Err(SchemeError::Malformed(_))),
            "positions {:?}",
            wrong.iter().map(|v| v.0).collect::<Vec<_>>()
        );
    }
}

/// The aggregates of a committee's cells, with the offsets of the cells.
fn cells<F: Fixture>(world: &World<F::S>, committee: u16, signers: &[&[u32]]) -> Vec<Part> {
    let parts = signers.iter().enumerate().map(|(s, positions)| {
        let cell = Cell {
            committee,
            subcommittee: s as u16,
        };
        let statement = world.statement(cell);
        let evidence = world.aggregate(&statement, &world.votes(&statement, positions));
        Part {
            offset: world.assignment.layout().cell_in_committee(cell).start,
            layer: Layer::Aggregate,
            evidence,
        }
    });
    parts.collect()
}

/// A collection of aggregates of different cells proves the union of their supports.
pub(crate) fn collections_of_disjoint_cells<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let statement = world.committee_statement(1);
    let parts = cells::<F>(&world, 1, &[&[0, 1, 2, 3], &[2], &[1, 3]]);
    let evidence = world
        .combine(&statement, &parts, 1)
        .expect("disjoint cells combine under every scheme");
    assert_eq!(
        multiplicities(&evidence),
        [1, 1, 1, 1, 0, 0, 1, 0, 0, 1, 0, 1]
    );
    let length = world
        .scheme()
        .evidence_length(Layer::Collection, statement.len);
    assert!(length.fits(evidence.bytes.len()));
    binds::<F>(&world, &statement, &evidence);
    let outside = [Part {
        offset: 9,
        ..parts[0].clone()
    }];
    assert_eq!(
        world.combine(&statement, &outside, 1),
        Err(SchemeError::Malformed(0))
    );
}

/// Evidence of a unit between cell and committee is made from its parts, proves only its own votes,
/// and can be combined into that of the committee. If proofs do not merge, it has the form of
/// aggregates.
pub(crate) fn groups_are_between_cells_and_committees<F: Fixture>(fixture: &F) {
    let world = World::with_fan_out(fixture, &[2, 3]);
    let layout = *world.assignment.layout();
    let abilities = world.scheme().abilities();
    let layer = match (
        abilities.form(Layer::Collection),
        abilities.overlap(Layer::Collection),
    ) {
        (Form::Proof, Overlap::None) if abilities.form(Layer::Aggregate) == Form::List => {
            Layer::Aggregate
        }
        _ => Layer::Collection,
    };
    let combined = |unit: Unit, statement: &Statement, parts: &[(Unit, Layer, Evidence)]| {
        let start = layout.unit_range(unit).start;
        let part = |(unit, layer, evidence): &(Unit, Layer, Evidence)| Part {
            offset: layout.unit_range(*unit).start - start,
            layer: *layer,
            evidence: evidence.clone(),
        };
        let parts: Vec<Part> = parts.iter().map(part).collect();
        world.combine(statement, &parts, 1).expect("disjoint parts")
    };
    let groups: Vec<(Unit, Layer, Evidence)> = layout
        .parts(layout.committee(1))
        .map(|group| {
            let cell = |(i, unit): (usize, Unit)| {
                let statement = world.unit_statement(Layer::Aggregate, unit);
                let positions = if i == 1 { &[1][..] } else { &[0, 1] };
                let evidence = world.aggregate(&statement, &world.votes(&statement, positions));
                (unit, Layer::Aggregate, evidence)
            };
            let cells: Vec<_> = layout.parts(group).enumerate().map(cell).collect();
            let statement = world.unit_statement(layer, group);
            (group, layer, combined(group, &statement, &cells))
        })
        .collect();
    let (first, second) = (&groups[0], &groups[1]);
    let statement = world.unit_statement(layer, second.0);
    assert_eq!(multiplicities(&second.2), [1, 1, 0, 1, 1, 1]);
    let length = world.scheme().evidence_length(layer, statement.len);
    assert!(length.fits(second.2.bytes.len()));
    binds::<F>(&world, &statement, &second.2);
    // From the other group, and from two and a half cells.
    assert!(!world.holds(&world.unit_statement(layer, first.0), &second.2));
    let beside = Statement {
        first: statement.first - 1,
        ..statement
    };
    assert!(!world.holds(&beside, &second.2));
    let committee = world.committee_statement(1);
    let whole = combined(layout.committee(1), &committee, &groups);
    assert_eq!(multiplicities(&whole), [1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1]);
    assert!(world.holds(&committee, &whole));
    assert!(!world.holds(&statement, &whole));
}

/// Overlapping aggregates of one cell combine as the scheme declares.
pub(crate) fn overlap_is_as_declared<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let statement = world.committee_statement(1);
    let votes = world.votes(&world.statement(CELL), &[0, 1, 2, 3]);
    let offset = world.assignment.layout().cell_in_committee(CELL).start;
    let part = |signers: &[usize]| {
        let chosen: Vec<_> = signers.iter().map(|i| votes[*i].clone()).collect();
        Part {
            offset,
            layer: Layer::Aggregate,
            evidence: world.aggregate(&world.statement(CELL), &chosen),
        }
    };
    let parts = [part(&[0, 1, 2]), part(&[1, 2, 3])];
    let combined = world.combine(&statement, &parts, 15);
    let abilities = world.scheme().abilities();
    let expected: [u8; 4] = match (
        abilities.form(Layer::Collection),
        abilities.overlap(Layer::Aggregate),
    ) {
        (Form::List, _) | (_, Overlap::Union) => [1, 1, 1, 1],
        (_, Overlap::Counted { .. }) => [1, 2, 2, 1],
        (_, Overlap::None) => {
            assert!(
                matches!(combined, Err(SchemeError::Overlap { max: 1, .. })),
                "{combined:?}"
            );
            return;
        }
    };
    let combined = combined.expect("overlap is an ability");
    assert_eq!(multiplicities(&combined)[offset as usize..][..4], expected);
    binds::<F>(&world, &statement, &combined);
    if let Overlap::Counted { max } = abilities.overlap(Layer::Collection) {
        let limited = world.combine(&statement, &parts, 1);
        assert!(
            matches!(limited, Err(SchemeError::Overlap { max: 1, .. })),
            "{limited:?}"
        );
        // The same vote once more than may be counted.
        let many = vec![part(&[3]); usize::from(max) + 1];
        assert!(matches!(
            world.combine(&statement, &many, max),
            Err(SchemeError::Overlap { .. })
        ));
        let most = world
            .combine(&statement, &many[1..], max)
            .expect("the greatest multiplicity");
        assert_eq!(most.support.max_multiplicity(), max);
        assert!(world.holds(&statement, &most));
    }
}

/// Aggregating nothing is an error, and an empty support proves nothing.
pub(crate) fn empty_is_refused<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let statement = world.statement(CELL);
    let none = World::<F::S>::with_ctx(|ctx| {
        world
            .scheme()
            .aggregate::<Bytes>(world.keys(), &statement, &[], ctx)
    });
    assert_eq!(none, Err(SchemeError::Empty));
    assert_eq!(
        world.combine(&world.committee_statement(1), &[], 1),
        Err(SchemeError::Empty)
    );
    let some = world.aggregate(&statement, &world.votes(&statement, &[0]));
    assert!(!world.holds(&statement, &with_support(&some, &[0; 4])));
    assert!(!world.holds(
        &Statement {
            len: 0,
            ..statement
        },
        &with_support(&some, &[])
    ));
    assert_eq!(MESSAGE, statement.message);
}
