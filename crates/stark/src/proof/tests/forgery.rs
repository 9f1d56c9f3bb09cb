//! Provers that break one part of a relation, and relations that lack it.
//!
//! Each lie must be rejected by the check it is meant for, and with the part removed from the relation the same
//! lie must be accepted. The second half tests the tests: a lie that would be rejected anyway shows nothing.

use super::*;
use crate::chains::cells::CellLie;
use crate::chains::tests::opening;
use crate::chains::{HALF, kind};
use crate::claims::Column;
use crate::relation::{Entry, Form, ROW_CUBES};

/// Changes to all the cells of one group of four instances.
type Lies = Vec<CellLie>;

fn lie(cell: usize, instance: usize, delta: Fp) -> CellLie {
    CellLie {
        cell,
        instance,
        delta,
    }
}

/// Four openings in one group.
fn honest() -> Example {
    Example::new(MINI, 4, SLOT)
}

/// The cells of a lying group, whose roots follow from the lies; its keys are registered.
fn forged(example: &Example, lies: &[CellLie]) -> (Example, Vec<Fp>) {
    let chains = &example.chains;
    let mut openings = example.openings.clone();
    let (_, roots) = chains.lying_group(SLOT, &MESSAGE, &openings, lies);
    for (opening, root) in openings.iter_mut().zip(roots) {
        opening.root = root;
    }
    let (cells, _) = chains.lying_group(SLOT, &MESSAGE, &openings, lies);
    for (lane, opening) in openings.iter_mut().enumerate() {
        for x in 0..HALF {
            opening.root[x] = cells[chains.at.root(x) * 4 + lane];
            opening.parameter[x] = cells[chains.at.parameter(x) * 4 + lane];
        }
    }
    (Example::of(chains.clone(), SLOT, openings), cells)
}

/// The verifier's verdict on a forgery.
fn outcome(example: &Example, lies: &[CellLie]) -> Result<(), VerifyError> {
    let (example, cells) = forged(example, lies);
    let relation = example.chains.relation();
    let public = example.chains.public(&example.statement, &example.registry);
    said_to(relation, &public, cells)
}

/// Asserts that the lie is rejected with `error`, and accepted once `weaken` has removed what it breaks.
fn needs(example: &Example, lies: &Lies, error: VerifyError, weaken: impl Fn(&mut Chains)) {
    assert_eq!(outcome(example, lies), Err(error));
    let mut weak = example.clone();
    weaken(&mut weak.chains);
    assert_eq!(outcome(&weak, lies), Ok(()), "instead of {error}");
}

/// The cells of an honest group.
fn cells_of(example: &Example) -> Vec<Fp> {
    let openings = &example.openings;
    example.chains.lying_group(SLOT, &MESSAGE, openings, &[]).0
}

#[test]
fn each_wire_is_needed() {
    let example = honest();
    let chains = &example.chains;
    let publics = chains.publics(SLOT, &MESSAGE);
    let encode = chains.at.sponge_row(chains.last_sponge() + 1);
    for (index, wire) in chains.relation().wires.iter().enumerate() {
        // The cell that the output flows into: of two, the one chosen by the slot's bit.
        let chosen = |public: Option<usize>| public.is_none_or(|i| publics[i] == Fp::ONE);
        let term = wire.form.0.iter().find(|term| chosen(term.public)).unwrap();
        let cell = term.cell.unwrap();
        let mut lies = vec![lie(cell, index % 4, Fp::ONE)];
        if wire.row == encode {
            lies = before_digits(&example, cell, index % 4);
        }
        needs(&example, &lies, VerifyError::PoseidonLayer(27), |chains| {
            chains.relation_mut().wires.remove(index);
        });
    }
}

/// A lie before the digits that leaves the number of steps as required.
fn before_digits(example: &Example, cell: usize, instance: usize) -> Lies {
    let chains = &example.chains;
    for delta in 1.. {
        let lies = vec![lie(cell, instance, Fp::new(delta))];
        let (cells, _) = chains.lying_group(SLOT, &MESSAGE, &example.openings, &lies);
        let digit = |i: usize| cells[chains.at.digit(i) * 4 + instance].canonical() as usize;
        if (0..MINI.chains).map(|i| 7 - digit(i)).sum::<usize>() == MINI.steps {
            return lies;
        }
    }
    Lies::new()
}

/// Removes the tuple that puts a single cell on the bus.
fn remove_look_up(chains: &mut Chains, cell: usize) {
    let looks_up = |tuple: &crate::relation::Tuple| match &tuple.entries[..] {
        [Entry::Form(form)] => *form == Form::cell(cell),
        _ => false,
    };
    for position in &mut chains.relation_mut().bus {
        if position.as_ref().is_some_and(looks_up) {
            *position = None;
        }
    }
}

#[test]
fn each_digit_that_no_chain_uses_must_be_octal() {
    let example = honest();
    let (chains, cells) = (&example.chains, cells_of(&example));
    let digit = |i: usize, lane: usize| cells[chains.at.digit(i) * 4 + lane].canonical();
    let mut found = 0;
    for i in (MINI.chains..63).step_by(5).filter(|i| i % 8 < 7) {
        // 8 more here and 1 less in the next digit represent the same number.
        let Some(lane) = (0..4).find(|lane| digit(i + 1, *lane) > 0) else {
            continue;
        };
        let lies = vec![
            lie(chains.at.digit(i), lane, Fp::new(8)),
            lie(chains.at.digit(i + 1), lane, -Fp::ONE),
        ];
        let cell = chains.at.digit(i);
        needs(&example, &lies, VerifyError::BusSum, |chains| {
            remove_look_up(chains, cell)
        });
        found += 1;
    }
    assert!(found > 8, "{found} digits");
}

/// 127·2^24 + 1 = 0: a quotient greater by 127 and a number greater by 1 give the same element.
#[test]
fn each_quotient_must_be_below_127() {
    let example = honest();
    let (chains, cells) = (&example.chains, cells_of(&example));
    for limb in 1..8 {
        let low = chains.at.digit(8 * limb);
        let lane = (0..4)
            .find(|lane| cells[low * 4 + lane].canonical() < 7)
            .unwrap();
        let quotient = chains.at.limb(limb);
        let lies = vec![lie(quotient, lane, Fp::new(127)), lie(low, lane, Fp::ONE)];
        needs(&example, &lies, VerifyError::BusSum, |chains| {
            remove_look_up(chains, quotient)
        });
    }
}

/// Makes a component of all chain tuples zero.
fn blind(chains: &mut Chains, component: usize) {
    for tuple in chains.relation_mut().bus.iter_mut().flatten() {
        if tuple.tag == kind::CHAIN {
            tuple.entries[component] = Entry::Form(Form::default());
        }
    }
}

#[test]
fn each_component_of_a_chain_tuple_is_needed() {
    let example = honest();
    let chains = &example.chains;
    for t in (0..MINI.steps).step_by(3) {
        let x = t % HALF;
        // A digest, or a place, that differs from the previous step's.
        let digest = vec![lie(chains.at.step(x, t), t % 4, Fp::ONE)];
        needs(&example, &digest, VerifyError::BusSum, |chains| {
            blind(chains, 2 + x)
        });
        let place = vec![lie(chains.at.step(HALF, t), t % 4, Fp::ONE)];
        needs(&example, &place, VerifyError::BusSum, |chains| {
            blind(chains, 1)
        });
    }
}

/// Two instances exchange the digests at one place.
#[test]
fn segments_of_two_openings_cannot_be_exchanged() {
    let example = honest();
    let (chains, cells) = (&example.chains, cells_of(&example));
    let at = |column, t, lane| cells[chains.at.step(column, t) * 4 + lane];
    let steps = (0..MINI.steps).flat_map(|a| (0..MINI.steps).map(move |b| (a, b)));
    let mut common = steps.filter(|(a, b)| at(HALF, *a, 0) == at(HALF, *b, 1));
    let (a, b) = common
        .next_back()
        .expect("two openings have a place in common");
    let exchange = |x: usize| {
        let difference = at(x, b, 1) - at(x, a, 0);
        [
            lie(chains.at.step(x, a), 0, difference),
            lie(chains.at.step(x, b), 1, -difference),
        ]
    };
    let lies: Lies = (0..HALF).flat_map(exchange).collect();
    needs(&example, &lies, VerifyError::BusSum, |chains| {
        blind(chains, 0)
    });
}

/// A code with another sum: the number of chain rows is what enforces it.
#[test]
fn another_sum_of_digits_is_refused() {
    for steps in [MINI.steps - 1, MINI.steps + 1] {
        let chains = Chains::new(MINI);
        let openings = (0..4)
            .map(|i| opening(&chains, SLOT, &MESSAGE, i, steps))
            .collect();
        let example = Example::of(chains, SLOT, openings);
        assert_eq!(
            outcome(&example, &[]),
            Err(VerifyError::BusSum),
            "{steps} steps"
        );
        // A relation with this many rows accepts it.
        let chains = Chains::new(Parameters { steps, ..MINI });
        let example = Example::of(chains, SLOT, example.openings);
        assert_eq!(outcome(&example, &[]), Ok(()), "{steps} steps");
    }
}

#[test]
fn a_key_that_is_not_registered_there_is_refused() {
    let example = honest();
    for x in 0..8 {
        let mut other = example.clone();
        let mut rows: Vec<_> = (0..5).map(|i| example.registry.row(i)).collect();
        rows[2][x] += Fp::ONE;
        other.registry = Registry::new(&rows, DIGEST, 9).unwrap();
        let proof = proved(&other, exec());
        assert_eq!(
            verified(&other, &proof),
            Err(VerifyError::BusSum),
            "element {x}"
        );
    }
    let wrong_index = vec![lie(example.chains.at.index(), 3, Fp::ONE)];
    assert_eq!(outcome(&example, &wrong_index), Err(VerifyError::BusSum));
    let far_index = vec![lie(example.chains.at.index(), 3, Fp::new(1 << 20))];
    assert_eq!(outcome(&example, &far_index), Err(VerifyError::BusSum));
}

/// Every cell, one at a time: only cells that the prover fills in and spare ones are free.
#[test]
fn every_cell_counts() {
    let example = honest();
    let chains = &example.chains;
    let cells = cells_of(&example);
    let relation = chains.relation();
    let public = chains.public(&example.statement, &example.registry);
    let mut free = 0;
    for cell in 0..relation.cells {
        let mut changed = cells.clone();
        changed[cell * 4 + cell % 4] += Fp::ONE;
        let witness = Witness::new(relation, vec![changed]).unwrap();
        // Cells of cubes are filled in by the prover, so a change there has no effect.
        free += usize::from(check(exec(), relation, &public, &witness).is_ok());
    }
    let rows = MINI.steps + MINI.levels + MINI.chains / 2 + 3;
    // Unused chain rows, and cells of the sponge that no row reads.
    let unread = 2 * 24 + 3 * 35 + 16 + 10 + 8;
    let free_cells = HALF * MINI.chains + 72 + 9;
    let end = 24 * 16 + 27 * 2 + 35 * 8 + free_cells - 48;
    assert_eq!(free, rows * ROW_CUBES + unread - 48 + relation.cells - end);
}

/// A change of one element in the slices used by one side of a proof.
type Change = (usize, usize, Fp);

/// The claims that fail when the sides of a proof use different data.
fn failing(
    example: &Example,
    [bus, union, committed]: [&[Change]; 3],
    lies: Vec<Lie>,
) -> Result<Vec<(Claimed, Ext)>, VerifyError> {
    let relation = example.chains.relation();
    let public = example.chains.public(&example.statement, &example.registry);
    let (_, cells) = forged(example, &[]);
    let witness = Witness::new(relation, vec![cells]).unwrap();
    let run = Run::new(exec(), relation, &public.values, &witness).unwrap();
    let honest = run.slices(exec(), &public.statement.bitfield).unwrap();
    let [bus, union, committed] = [bus, union, committed].map(|changes| {
        let mut slices = honest.clone();
        for (slice, index, delta) in changes {
            slices[*slice][*index] += *delta;
        }
        slices
    });
    let sides = Sides {
        bus: &bus,
        union: &union,
        committed: &committed,
    };
    let mut sender = Sender::new(parameters(relation, TRANSPARENT));
    sender.lies = lies;
    prove_sides(exec(), &public, &run, sides, &mut sender).unwrap();
    let elements = sender.finish();
    let known = Known {
        digest: public.digest,
        publics: public.values.clone(),
        used: vec![Fp::ONE],
    };
    let (reduced, arith) = reduce(Native::new(&elements), relation, &known)?;
    arith.finish()?;
    check_public(exec(), &public, &reduced.deferred)?;
    Ok(false_claims(reduced.ledger, relation, &committed))
}

fn names(failed: Result<Vec<(Claimed, Ext)>, VerifyError>) -> Vec<Claimed> {
    failed.unwrap().into_iter().map(|(name, _)| name).collect()
}

/// Slice and index of a cell of instance 1.
fn place(cell: usize) -> (usize, usize) {
    (2 + cell / 256, cell % 256 * 4 + 1)
}

fn change(cell: usize) -> [Change; 1] {
    let (slice, index) = place(cell);
    [(slice, index, Fp::ONE)]
}

/// The committed data differs from the data argued about: for each claim there is a lie that only this claim
/// rejects, so none may be left out.
#[test]
fn each_claim_is_needed() {
    let example = honest();
    let chains = &example.chains;
    let commit = |changes: &[Change]| failing(&example, [&[], &[], changes], Vec::new());
    assert_eq!(names(commit(&[])), []);
    let cube = chains.relation().rows[3].as_ref().unwrap().cubes[7];
    assert_eq!(names(commit(&change(cube))), [Claimed::Cubes]);
    let tip = change(chains.at.tip(2, 1));
    let of_tip = commit(&tip).unwrap();
    assert_eq!(of_tip.len(), 1);
    assert_eq!(of_tip[0].0, Claimed::BusCells);

    // The prover claims that outputs compensate for the tip, and subtracts it from the wired sum.
    let excess = of_tip[0].1;
    let said = 8 + 5 * (MINI.shape.bus().sent() + 8);
    let lies = (0..5).flat_map(|k| {
        let [delta, at] = [excess.0[k], Fp::ZERO];
        [(said + k, delta), (said + 5 + k, at - delta)]
    });
    let lies = lies.map(|(index, delta)| Lie { index, delta }).collect();
    assert_eq!(
        names(failing(&example, [&[], &[], &tip], lies)),
        [Claimed::Outputs]
    );

    // The randomness of the encoding is an input next to an unused lane.
    let random = chains.at.sponge(8 + 2, chains.last_sponge() + 1);
    assert_eq!(names(commit(&change(random))), [Claimed::Inputs]);

    let table = [(1, 3, Fp::ONE)];
    assert_eq!(names(commit(&table)), [Claimed::BusNumerators]);
    let inverse = [(0, 512 + 1, Fp::ONE)];
    assert_eq!(names(commit(&inverse)), [Claimed::UnionInverses]);
}

/// A bit for a registry row that no opening has, with false count and inverse in turn.
#[test]
fn a_bit_of_an_absent_key_is_refused_by_each_argument() {
    let mut example = honest();
    let absent = example.openings.len();
    let of = |example: &Example, sides: [&[Change]; 3]| failing(example, sides, Vec::new());
    let (count, inverse) = ((0, absent, Fp::ONE), (0, 512 + absent, Fp::ONE));
    example.statement.bitfield[absent] = true;
    // `forged` states the bits of its openings; here everything is as in the example.
    let both = [count, inverse];
    let refused = of(&example, [&[], &[inverse], &[inverse]]);
    assert_eq!(refused.unwrap_err(), VerifyError::Union);
    let refused = of(&example, [&[], &both, &[inverse]]);
    assert_eq!(names(refused), [Claimed::UnionCounts]);
    let refused = of(&example, [&[], &both, &both]);
    assert_eq!(names(refused), [Claimed::BusNumerators]);
    let refused = of(&example, [&both, &both, &both]);
    assert_eq!(refused.unwrap_err(), VerifyError::BusSum);
    let column = Committed {
        shape: MINI.shape,
        slices: &proved(&example, exec()).slices,
    };
    assert_eq!(column.column(Column::Counts)[absent], Fp::ZERO);
}
