//! Merges of small leaves: trees, statements, and lying provers.

mod bound;
mod bundle;
mod lanes;
mod lean;
mod mutated;
mod nested;
mod stated;

use std::ops::Range;
use std::sync::LazyLock;

use super::*;
use crate::chains::Parameters;
use crate::chains::tests::{Example, MESSAGE};
use crate::extension::Ext;
use crate::merge::witness::Child as ChildWitness;
use crate::poseidon::kernels::KERNELS;
use crate::proof::{prove_succinct, verify_succinct};
use crate::test_random::Random;

const SLOT: u32 = 123_456_789;

fn exec() -> Exec<'static> {
    Exec::new(KERNELS.measured(), None)
}

/// Six members, and the circuits.
struct Setup {
    statement: Statement,
    registry: Registry,
    merges: Merges<'static>,
    leaves: [Leaf; 2],
    /// The merge of both leaves.
    merge: MergeProof,
}

/// A leaf and its bitfield.
type Leaf = (SuccinctProof, Vec<bool>);

/// Six members of the compact set.
static EXAMPLE: LazyLock<Example> = LazyLock::new(|| Example::new(Parameters::COMPACT, 6, SLOT));

static SETUP: LazyLock<Setup> = LazyLock::new(|| {
    let example = &*EXAMPLE;
    Setup::new(
        &example.statement,
        &example.registry,
        &example.chains,
        |members| leaf(example, members),
    )
});

fn statement_of(of: &Statement, bits: Range<usize>, level: u32) -> Statement {
    let mut statement = of.clone();
    statement.level = level;
    statement.bitfield.fill(false);
    statement.bitfield[bits].fill(true);
    statement
}

fn leaf(example: &Example, members: Range<usize>) -> Leaf {
    let statement = statement_of(&example.statement, members.clone(), 0);
    let (chains, openings) = (&example.chains, &example.openings[members]);
    let slot = statement.slot;
    let opened = chains.opened(exec(), slot, &MESSAGE, openings).unwrap();
    let public = chains.public(&statement, &example.registry);
    let relation = chains.relation();
    let proof = prove_succinct(exec(), relation, &Preset::FAST, &public, &opened.witness).unwrap();
    (proof, statement.bitfield)
}

impl Setup {
    fn new(
        statement: &Statement,
        registry: &Registry,
        of: &'static dyn Statements,
        leaf: impl Fn(Range<usize>) -> Leaf,
    ) -> Setup {
        let mut setup = Setup {
            statement: statement.clone(),
            registry: registry.clone(),
            merges: Merges::new(of),
            leaves: [0..4, 2..6].map(leaf),
            merge: MergeProof {
                level: 1,
                kinds: Vec::new(),
                elements: Vec::new(),
            },
        };
        let statement = setup.statement(0..6, 1);
        setup.merge = setup
            .prove(&statement, &setup.leaves.each_ref().map(leaf_child))
            .unwrap();
        setup
    }

    /// The prover of a merge of such children.
    fn prover_of(&self, statement: &Statement, kinds: &[ChildKind]) -> Prover<'_> {
        let known = self.merges.known(statement, kinds);
        let registry = Some(&self.registry);
        self.merges.prover(exec(), registry, known.unwrap())
    }

    fn statement(&self, bits: Range<usize>, level: u32) -> Statement {
        statement_of(&self.statement, bits, level)
    }

    fn prove(
        &self,
        statement: &Statement,
        children: &[Child<'_>],
    ) -> Result<MergeProof, ProveError> {
        let registry = &self.registry;
        self.merges
            .prove(exec(), &Preset::MERGE, registry, statement, children)
    }

    fn verify(&self, statement: &Statement, proof: &MergeProof) -> Result<(), VerifyError> {
        let registry = &self.registry;
        self.merges
            .verify(exec(), &Preset::MERGE, registry, statement, proof)
    }

    /// The result of a prover from altered witnesses.
    fn lied(
        &self,
        statement: &Statement,
        children: &[Child<'_>],
        lie: impl FnOnce(&mut [ChildWitness], &mut [Verified]),
    ) -> Result<(), VerifyError> {
        let kinds: Vec<ChildKind> = children.iter().map(|child| child.proof.kind()).collect();
        let prover = self.prover_of(statement, &kinds);
        let mut hints = self.merges.hints(statement, children);
        let mut witness = prover.witnesses(&hints).unwrap();
        lie(&mut witness, &mut hints);
        let preset = &Preset::MERGE;
        let elements = prover.prove_witness(preset, witness, &hints, &statement.bitfield);
        let elements = elements.map_err(|error| match error {
            ProveError::Statement(error) => error,
            other => panic!("{other}"),
        })?;
        let level = statement.level;
        self.verify(
            statement,
            &MergeProof {
                level,
                kinds,
                elements,
            },
        )
    }
}

fn leaf_child((proof, bitfield): &Leaf) -> Child<'_> {
    Child {
        proof: ChildProof::Leaf(proof),
        bitfield,
    }
}

fn merge_child<'a>(proof: &'a MergeProof, statement: &'a Statement) -> Child<'a> {
    Child {
        proof: ChildProof::Merge(proof),
        bitfield: &statement.bitfield,
    }
}

#[test]
fn a_tree_to_level_four_names_the_union_and_stays_as_long() {
    let setup = &*SETUP;
    let single = leaf(&EXAMPLE, 5..6);
    let mut below = (setup.merge.clone(), setup.statement(0..6, 1));
    assert_eq!(setup.verify(&below.1, &below.0), Ok(()));
    // From here on, one more leaf at each level; a merge of two, of a merge and a leaf, and of overlapping sets.
    for level in 2..=LEVEL_MAX {
        let statement = setup.statement(0..6, level);
        let children = [merge_child(&below.0, &below.1), leaf_child(&single)];
        let proof = setup.prove(&statement, &children).unwrap();
        assert_eq!(setup.verify(&statement, &proof), Ok(()), "level {level}");
        let most = |proof: &MergeProof| {
            setup
                .merges
                .elements(&Preset::MERGE, Form::Merge, &proof.kinds)
        };
        // One element for the child that is a merge, and the rounds that bind the circuit.
        let more = 1 + 2 * layout::CIRCUITS_LOG2;
        assert_eq!(most(&proof), most(&setup.merge) + more * DEGREE);
        assert!(proof.elements.len() <= most(&proof), "level {level}");
        for bit in [0, 5, 6] {
            let mut other = statement.clone();
            other.bitfield[bit] ^= true;
            assert!(
                setup.verify(&other, &proof).is_err(),
                "level {level}, bit {bit}"
            );
        }
        below = (proof, statement);
    }
    let beyond = setup.statement(0..6, LEVEL_MAX + 1);
    let refused = setup.prove(&beyond, &[merge_child(&below.0, &below.1)]);
    assert_eq!(refused, Err(ProveError::Statement(VerifyError::Level)));
}

/// Levels of merges begin at 1 and ascend: a merge that claims level 0, or p − 1, cannot be a child, and neither
/// can one of its parent's level.
#[test]
fn levels_ascend_from_one() {
    let setup = &*SETUP;
    let statement = setup.statement(0..6, 2);
    let below = setup.statement(0..6, 1);
    let prover = setup.prover_of(&statement, &[ChildKind::Merge]);
    for level in [0, 2, 3, crate::field::P - 1] {
        let labelled = MergeProof {
            level,
            ..setup.merge.clone()
        };
        let hints = setup
            .merges
            .hints(&statement, &[merge_child(&labelled, &below)]);
        let refused = prover.witness(&hints[0]).map(|_| ());
        assert_eq!(refused, Err(VerifyError::Level), "level {level}");
    }
}

/// A merge may claim fewer bits, but no others.
#[test]
fn a_merge_claims_bits_of_its_children_only() {
    let setup = &*SETUP;
    let children = setup.leaves.each_ref().map(leaf_child);
    let fewer = setup.statement(1..3, 1);
    let proof = setup.prove(&fewer, &children).unwrap();
    assert_eq!(setup.verify(&fewer, &proof), Ok(()));
    let more = setup.statement(0..6, 1);
    let refused = setup.prove(&more, &children[..1]);
    assert_eq!(refused, Err(ProveError::Statement(VerifyError::Children)));
    // A prover that skips the check does not get away with it either.
    assert_eq!(
        setup.lied(&more, &children[..1], |_, _| ()),
        Err(VerifyError::Children)
    );
}

#[test]
fn a_merge_is_of_one_statement_only() {
    let setup = &*SETUP;
    let changes: [fn(&mut Statement); 6] = [
        |s| s.slot ^= 1,
        |s| s.message[3] += Fp::ONE,
        |s| s.set += 1,
        |s| s.committee += 1,
        |s| s.registry[7] += Fp::ONE,
        |s| s.bitfield[2] = false,
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut statement = setup.statement(0..6, 1);
        change(&mut statement);
        assert!(
            setup.verify(&statement, &setup.merge).is_err(),
            "change {i}"
        );
    }
    let statement = setup.statement(0..6, 2);
    assert_eq!(
        setup.verify(&statement, &setup.merge),
        Err(VerifyError::Level)
    );
    let relabelled = MergeProof {
        level: 2,
        ..setup.merge.clone()
    };
    assert!(setup.verify(&statement, &relabelled).is_err());
    let statement = setup.statement(0..6, 1);
    let kinds = MergeProof {
        kinds: vec![ChildKind::Merge, ChildKind::Leaf],
        ..setup.merge.clone()
    };
    assert!(setup.verify(&statement, &kinds).is_err());
    let beyond = setup.statement(0..8, 1);
    let refused = setup.verify(&beyond, &setup.merge);
    assert_eq!(
        refused,
        Err(VerifyError::BitBeyondRegistry { bit: 7, size: 7 })
    );
    // One key of the registry is different, so the remaining registry claim has another value.
    let mut rows: Vec<Vec<Fp>> = (0..7).map(|i| setup.registry.row(i)).collect();
    rows[3][0] += Fp::ONE;
    let registry = Registry::new(&rows, 8, REGISTRY_LOG2).unwrap();
    let refused = setup
        .merges
        .verify(exec(), &Preset::MERGE, &registry, &statement, &setup.merge);
    assert_eq!(refused, Err(VerifyError::Registry));
}

/// A prover that states one thing of its children and proves another. What is stated enters the transcript either
/// way, so changing a statement under an honest proof would not show what binds it.
#[test]
fn a_merge_states_what_its_children_prove() {
    let setup = &*SETUP;
    let children = setup.leaves.each_ref().map(leaf_child);
    let truth = setup.statement(0..6, 1);
    let forged = |statement: &Statement| {
        let kinds = [ChildKind::Leaf; 2];
        let known = setup.merges.known(statement, &kinds).unwrap();
        let prover = setup.merges.prover(exec(), Some(&setup.registry), known);
        let hints = setup.merges.hints(&truth, &children);
        let witness = prover.witnesses(&hints).unwrap();
        let preset = &Preset::MERGE;
        let elements = prover.prove_witness(preset, witness, &hints, &truth.bitfield);
        let proof = MergeProof {
            level: 1,
            kinds: kinds.to_vec(),
            elements: elements.unwrap(),
        };
        let (merges, registry) = (&setup.merges, &setup.registry);
        merges.verify(exec(), preset, registry, statement, &proof)
    };
    assert_eq!(forged(&truth), Ok(()));
    let lies: [fn(&mut Statement); 5] = [
        |s| s.slot ^= 1,
        |s| s.slot ^= 1 << 20,
        |s| s.message[3] += Fp::ONE,
        |s| s.registry[7] += Fp::ONE,
        |s| s.committee += 1,
    ];
    for (i, lie) in lies.iter().enumerate() {
        let mut statement = truth.clone();
        lie(&mut statement);
        let refused = forged(&statement);
        assert_eq!(refused, Err(VerifyError::Weights), "lie {i}");
    }
    // The bits are bound by the value that the argument of the union leaves of them.
    let mut more = truth.clone();
    more.bitfield[6] = true;
    assert_eq!(forged(&more), Err(VerifyError::Bitfield));
}

/// A merge with other circuits, as an older version would have made it, is rejected by the digest that represents
/// them, and so is one whose matrices are not those that the verifier evaluates.
#[test]
fn the_circuits_are_bound() {
    let setup = &*SETUP;
    let digest = wiring::digest(&setup.merges.wiring().plans);
    assert_eq!(setup.merges.key(), digest, "the pinned digest");
    let mut other = Merges::new(setup.merges.of);
    other.make_circuits();
    let wiring = |other: &mut Merges<'static>| other.wiring.take().unwrap();
    let mut changed = wiring(&mut other);
    changed.key[0] += Fp::ONE;
    other.wiring = changed.into();
    let statement = setup.statement(0..6, 1);
    let registry = &setup.registry;
    let refused = other.verify(exec(), &Preset::MERGE, registry, &statement, &setup.merge);
    assert!(refused.is_err());
    let mut changed = wiring(&mut other);
    changed.key = setup.merges.key();
    changed.change_an_entry();
    other.wiring = changed.into();
    let refused = other.verify(exec(), &Preset::MERGE, registry, &statement, &setup.merge);
    assert_eq!(refused, Err(VerifyError::Wiring));
    let children = setup.leaves.each_ref().map(leaf_child);
    let proof = other.prove(exec(), &Preset::MERGE, registry, &statement, &children);
    let refused = proof.map(|proof| setup.verify(&statement, &proof));
    assert!(!matches!(refused, Ok(Ok(()))), "{refused:?}");
}

/// Offsets in a header of the children that are bundles, the level, and the children that are merges.
const SAID_AT: [usize; 3] = [8, 10, 11];

/// A header costs its writer nothing, while circuits cost the reader seconds, so everything that can be rejected
/// without them is.
#[test]
fn what_is_no_merge_is_refused_without_circuits() {
    let setup = &*SETUP;
    let merges = Merges::new(setup.merges.of);
    let bytes = setup.merges.to_bytes(&Preset::MERGE, &setup.merge);
    let header = bytes.len() - (setup.merge.elements.len() * 31).div_ceil(8);
    let decode = |bytes: &[u8]| merges.from_bytes(&Preset::MERGE, bytes);
    for length in [0, 8, header, 224, bytes.len() - 1] {
        assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    for index in 0..header {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        // The level is compared with that of the statement, and other children have other kinds.
        let refused = decode(&changed).is_err();
        assert!(refused || SAID_AT.contains(&index), "byte {index}");
    }
    let registry = &setup.registry;
    let verify = |statement: &Statement, proof: &MergeProof| {
        merges.verify(exec(), &Preset::MERGE, registry, statement, proof)
    };
    let statement = setup.statement(0..6, 1);
    let mut changes: Vec<(Statement, MergeProof)> = Vec::new();
    let mut change = |f: &dyn Fn(&mut Statement, &mut MergeProof)| {
        let mut changed = (statement.clone(), setup.merge.clone());
        f(&mut changed.0, &mut changed.1);
        changes.push(changed);
    };
    change(&|statement, _| statement.set += 1);
    change(&|statement, _| statement.level += 1);
    change(&|_, proof| proof.level = 0);
    change(&|_, proof| proof.kinds.clear());
    change(&|statement, _| statement.bitfield.truncate(64));
    change(&|statement, _| statement.bitfield[6..].fill(true));
    change(&|_, proof| proof.elements.extend(setup.merge.elements.clone()));
    for (i, (statement, proof)) in changes.iter().enumerate() {
        assert!(verify(statement, proof).is_err(), "change {i}");
    }
    // From here on the transcript needs the circuits' digest, which is a constant for the compact set.
    let mut empty = bytes[..header].to_vec();
    empty[header - 4..].fill(0);
    let empty = decode(&empty).unwrap();
    let mut short = setup.merge.clone();
    short.elements.truncate(9);
    for cut in [empty, short] {
        let refused = verify(&statement, &cut);
        assert!(matches!(refused, Err(VerifyError::Length { .. })));
    }
    let mut other = setup.merge.clone();
    other.kinds[0] = ChildKind::Merge;
    assert!(verify(&statement, &other).is_err());
    assert!(merges.wiring.get().is_none(), "circuits were made");
    let decoded = decode(&bytes).unwrap();
    assert_eq!(verify(&statement, &decoded), Ok(()));
}

#[test]
fn children_must_be_proofs_of_their_statements() {
    let setup = &*SETUP;
    let [first, second] = &setup.leaves;
    let statement = setup.statement(0..6, 1);
    let swapped = [
        Child {
            proof: ChildProof::Leaf(&first.0),
            bitfield: &second.1,
        },
        leaf_child(second),
    ];
    let refused = setup.prove(&statement, &swapped);
    let Err(ProveError::Statement(_) | ProveError::Child { child: 0, .. }) = refused else {
        panic!("{refused:?}");
    };
    let mut moved = statement.clone();
    moved.slot += 1;
    let refused = setup.prove(&moved, &[leaf_child(first), leaf_child(second)]);
    assert!(
        matches!(refused, Err(ProveError::Child { child: 0, .. })),
        "{refused:?}"
    );
    let groups = SuccinctProof {
        groups: setup.merges.leaf_groups_max() + 1,
        elements: Vec::new(),
    };
    let refused = setup.prove(&statement, &[leaf_child(&(groups, first.1.clone()))]);
    assert!(
        matches!(refused, Err(ProveError::Capacity { .. })),
        "{refused:?}"
    );
    let none = setup.prove(&statement, &[]);
    let count = VerifyError::ChildCount {
        got: 0,
        max: CHILDREN_MAX,
    };
    assert_eq!(none, Err(ProveError::Statement(count)));
}

/// A change to what a prover holds for a child, and the error that rejects it: any error if none is given.
type Lie = (
    fn(&mut ChildWitness, &mut Verified, usize),
    usize,
    Option<VerifyError>,
);

/// Each class of cells is changed after the fact: the claim that binds it, or the row, is false. The quick tier
/// tries a sample of the lies, `soak` all of them.
#[test]
fn a_witness_that_was_changed_proves_nothing() {
    let setup = &*SETUP;
    let statement = setup.statement(0..6, 2);
    let below = setup.statement(0..6, 1);
    let children = [
        merge_child(&setup.merge, &below),
        leaf_child(&setup.leaves[0]),
    ];
    let at = setup.merges.dimensions;
    let cell: fn(&mut ChildWitness, &mut Verified, usize) =
        |witness, _, cell| witness.cells[cell] += Fp::ONE;
    let mut lies: Vec<Lie> = vec![
        // The constant one, with which a child could be switched off.
        (cell, layout::input(0), Some(VerifyError::Rows)),
        (cell, at.output(3)[2], Some(VerifyError::Rows)),
        (cell, layout::word(5), None),
        (
            |witness, _, at| witness.permuted[at][3] += Fp::ONE,
            77,
            Some(VerifyError::Weights),
        ),
        // All cells are zero: no row is violated, but the constant is.
        (
            |witness, _, _| {
                witness.cells.fill(Fp::ZERO);
                witness.permuted.clear();
            },
            0,
            Some(VerifyError::Weights),
        ),
        (
            |_, hints, at| hints.bits[at] ^= true,
            0,
            Some(VerifyError::Weights),
        ),
    ];
    let inputs = [1, at.slot(), at.registry(), at.level(), at.key(), at.end()];
    lies.extend(inputs.map(|input| (cell, layout::input(input), None)));
    let free = [0, 1000, 100_000, 200_000];
    lies.extend(free.map(|at| (cell, layout::LAYOUT.free + at, None)));
    // Each child is tested with different lies.
    let step = if cfg!(feature = "soak") { 1 } else { 4 };
    let mut hints = 0;
    for (i, (change, at, want)) in lies.iter().enumerate() {
        for child in (0..2).filter(|child| (i + 2 * child) % step == 0) {
            let refused = setup.lied(&statement, &children, |witness, hints| {
                change(&mut witness[child], &mut hints[child], *at);
            });
            let refused = refused.expect_err("a lie");
            assert!(
                want.as_ref().is_none_or(|want| refused == *want),
                "lie {i} of child {child}: {refused:?}"
            );
            hints += 1;
        }
    }
    assert_eq!(hints, 2 * lies.len() / step);
}

#[test]
fn bytes_have_one_form() {
    let setup = &*SETUP;
    let preset = &Preset::MERGE;
    let bytes = setup.merges.to_bytes(preset, &setup.merge);
    assert!(is_merge(&bytes));
    assert_eq!(
        setup.merges.from_bytes(preset, &bytes),
        Ok(setup.merge.clone())
    );
    let statement = setup.statement(0..6, 1);
    let mut changed = 0;
    for at in (0..40).chain((40..bytes.len()).step_by(bytes.len() / 60)) {
        let mut other = bytes.clone();
        other[at] ^= 1 << (at % 8);
        let Ok(proof) = setup.merges.from_bytes(preset, &other) else {
            continue;
        };
        changed += 1;
        assert!(setup.verify(&statement, &proof).is_err(), "byte {at}");
    }
    assert!(changed > 50);
    for len in [0, 8, 12, bytes.len() - 1] {
        assert!(setup.merges.from_bytes(preset, &bytes[..len]).is_err());
    }
    assert!(
        setup
            .merges
            .from_bytes(preset, &[bytes.clone(), vec![0]].concat())
            .is_err()
    );
}
