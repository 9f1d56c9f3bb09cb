//! A bundle of bundles: verified, split at any depth, and forged.

use std::sync::LazyLock;

use super::super::bundle::{BundleProof, Item};
use super::bundle::{BUNDLE, Part, child_of, entries, prove, statements, verify_items};
use super::*;
use crate::merge::hints::{Bundled, Kept};

/// Two leaves in a bundle, a leaf next to it, and a merge in a bundle of its own.
pub(super) struct Nested {
    parts: [Part; 4],
    lower: [BundleProof; 2],
    pub(super) proof: BundleProof,
}

/// The entries of each item of the bundle: the first and the last are bundles.
const ITEMS: [std::ops::Range<usize>; 3] = [0..2, 2..3, 3..4];

/// Levels of the bundles in the bundle, and its own.
const LEVELS: [u32; 2] = [2, 3];

pub(super) static NESTED: LazyLock<Nested> = LazyLock::new(|| {
    let (setup, flat) = (&*SETUP, &*BUNDLE);
    let mut beside = flat.parts[0].clone();
    beside.statement.bitfield.clone_from(&setup.leaves[1].1);
    let [first, second, merge] = flat.parts.clone();
    let parts = [first, second, beside, merge];
    let leaves = [
        ChildProof::Leaf(&setup.leaves[0].0),
        ChildProof::Leaf(&flat.second.0),
    ];
    let lower = [
        prove(LEVELS[0], &entries(&parts[..2]), &leaves).unwrap(),
        prove(
            LEVELS[0],
            &entries(&parts[3..]),
            &[ChildProof::Merge(&setup.merge)],
        )
        .unwrap(),
    ];
    let children = children(&lower);
    let proof = with_items(&parts, |items| prove(LEVELS[1], items, &children)).unwrap();
    Nested {
        parts,
        lower,
        proof,
    }
});

fn children(lower: &[BundleProof; 2]) -> [ChildProof<'_>; 3] {
    [
        ChildProof::Bundle(&lower[0]),
        ChildProof::Leaf(&SETUP.leaves[1].0),
        ChildProof::Bundle(&lower[1]),
    ]
}

/// Runs a function on the list of the bundle of these parts.
pub(super) fn with_items<T>(parts: &[Part], run: impl FnOnce(&[Item<'_>]) -> T) -> T {
    let entries = statements(parts);
    let [first, beside, last] = ITEMS.map(|range| &entries[range]);
    run(&[
        Item::Bundle(first),
        Item::Entry(&beside[0]),
        Item::Bundle(last),
    ])
}

fn verify_on(parts: &[Part], proof: &BundleProof) -> Result<(), VerifyError> {
    with_items(parts, |items| verify_items(items, parts, proof))
}

impl Nested {
    pub(super) fn with_items<T>(&self, run: impl FnOnce(&[Item<'_>]) -> T) -> T {
        with_items(&self.parts, run)
    }

    pub(super) fn verify(&self, proof: &BundleProof) -> Result<(), VerifyError> {
        verify_on(&self.parts, proof)
    }

    /// The hints for the circuit of the first nested bundle as a whole.
    pub(super) fn whole(&self) -> Verified {
        self.with_items(|items| {
            let (merges, item) = (&SETUP.merges, &items[0]);
            let child = Child {
                proof: ChildProof::Bundle(&self.lower[0]),
                bitfield: &vec![false; 1 << REGISTRY_LOG2],
            };
            let inputs = merges.inputs_of_item(item, LEVELS[1]);
            merges.hints_of(inputs, &child, item.entries())
        })
    }

    /// The hints for the circuit that keeps an entry.
    pub(super) fn keeps(&self, proof: &BundleProof, kept: usize) -> Verified {
        let mut statement = self.parts[kept].statement.clone();
        statement.level = LEVELS[1] + 1;
        self.with_items(|items| {
            let kept = child_of(proof, items, kept);
            let hints = SETUP.merges.hints(&statement, &[kept]);
            hints[0].clone()
        })
    }
}

/// The verdict of a circuit on its hints.
fn refused(hints: &Verified) -> Result<(), VerifyError> {
    let statement = SETUP.statement(0..6, LEVEL_MAX);
    let prover = SETUP.prover_of(&statement, &[ChildKind::Bundle]);
    prover.witness(hints).map(|_| ())
}

fn bundled(hints: &mut Verified) -> &mut Bundled {
    match &mut hints.hints.header {
        Header::Bundled(bundled) => bundled,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bundle_of_bundles_is_split_and_merged_again() {
    let (setup, nested) = (&*SETUP, &*NESTED);
    let kinds = [ChildKind::Bundle, ChildKind::Leaf, ChildKind::Bundle];
    assert_eq!(nested.proof.kinds, kinds);
    assert_eq!(nested.verify(&nested.proof), Ok(()));
    let preset = &Preset::MERGE;
    let bytes = setup.merges.bundle_to_bytes(preset, &nested.proof);
    assert!(bytes.len() <= SETUP.merges.bundle_bytes_max(preset, CHILDREN_MAX, true));
    let decoded = setup.merges.bundle_from_bytes(preset, &bytes);
    assert_eq!(decoded, Ok(nested.proof.clone()));
    // A single split, whether the entry is in a nested bundle or next to it.
    for (kept, part) in nested.parts.iter().enumerate() {
        nested.with_items(|items| {
            let child = child_of(&nested.proof, items, kept);
            let (statement, proof) = part.split(LEVELS[1] + 1, child);
            let proof = proof.unwrap();
            assert_eq!(part.verify(&statement, &proof), Ok(()), "entry {kept}");
            if kept > 0 {
                return;
            }
            let all = setup.statement(0..6, LEVELS[1] + 2);
            let children = [
                merge_child(&proof, &statement),
                leaf_child(&setup.leaves[1]),
            ];
            let again = setup.prove(&all, &children).unwrap();
            assert_eq!(setup.verify(&all, &again), Ok(()));
        });
    }
}

#[test]
fn a_bundle_of_bundles_is_of_its_entries_only() {
    let nested = &*NESTED;
    let changes: [fn(&mut [Part; 4]); 11] = [
        |parts| parts[0].statement.slot ^= 1,
        |parts| parts[1].statement.message[3] += Fp::ONE,
        |parts| parts[3].statement.committee += 1,
        |parts| parts[0].statement.registry[7] += Fp::ONE,
        |parts| parts[1].statement.bitfield[0] = false,
        |parts| parts[0].statement.bitfield[4] = true,
        |parts| parts[3].statement.bitfield[4] = false,
        |parts| parts.swap(0, 1),
        |parts| parts.swap(1, 2),
        |parts| parts.swap(0, 3),
        |parts| parts[1].statement.message.truncate(7),
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut other = nested.parts.clone();
        change(&mut other);
        assert!(verify_on(&other, &nested.proof).is_err(), "change {i}");
    }
    // A key of one entry's registry is different.
    for part in 0..4 {
        let mut other = nested.parts.clone();
        let size = other[part].registry.size();
        let mut rows: Vec<Vec<Fp>> = (0..size).map(|i| other[part].registry.row(i)).collect();
        rows[1][0] += Fp::ONE;
        other[part].registry = Registry::new(&rows, 8, REGISTRY_LOG2).unwrap();
        let refused = verify_on(&other, &nested.proof);
        assert_eq!(refused, Err(VerifyError::Registry), "registry {part}");
    }
    // The same entries in other bundles, and as a list without bundles.
    let entries = statements(&nested.parts);
    let of = |items: &[Item<'_>]| verify_items(items, &nested.parts, &nested.proof);
    let moved = [
        Item::Bundle(&entries[..1]),
        Item::Entry(&entries[1]),
        Item::Bundle(&entries[2..]),
    ];
    assert!(of(&moved).is_err());
    let listed: Vec<Item<'_>> = entries[..3].iter().map(Item::Entry).collect();
    let refused = verify_items(&listed, &nested.parts[..3], &nested.proof);
    assert_eq!(refused, Err(VerifyError::Item));
    for level in [0, 1, 2, 4, LEVEL_MAX + 1] {
        let mut other = nested.proof.clone();
        other.level = level;
        assert!(nested.verify(&other).is_err(), "level {level}");
    }
}

/// The remaining registry claims of a nested bundle are stored next to the proof. The digest in the proof binds
/// them, including positions without an entry.
#[test]
fn what_is_left_of_registries_is_bound() {
    let nested = &*NESTED;
    for (bundle, at) in [(0, 18), (0, 37), (1, 3), (1, 18), (1, 19), (1, 132)] {
        let mut other = nested.proof.clone();
        other.left[bundle][at] += Ext::ONE;
        assert_eq!(nested.verify(&other), Err(VerifyError::Left), "{at}");
        if bundle == 0 {
            let hints = nested.keeps(&other, 0);
            assert_eq!(refused(&hints), Err(VerifyError::Left), "{at}");
        }
    }
    let changes: [fn(&mut BundleProof); 4] = [
        |proof| proof.left.swap(0, 1),
        |proof| proof.left.truncate(1),
        |proof| proof.left[1].truncate(19),
        |proof| proof.left.push(proof.left[0].clone()),
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut other = nested.proof.clone();
        change(&mut other);
        let refused = nested.verify(&other);
        assert_eq!(refused, Err(VerifyError::Left), "change {i}");
    }
    // The circuit of the bundle does not accept another list than the one its children leave either.
    let mut whole = nested.whole();
    assert_eq!(refused(&whole), Ok(()));
    bundled(&mut whole).left[18] += Ext::ONE;
    assert_eq!(refused(&whole), Err(VerifyError::Left));
}

/// Each check of the circuit of bundles: as a whole, and if an entry is kept.
#[test]
fn the_circuit_of_bundles_keeps_what_is_listed() {
    let nested = &*NESTED;
    let at = SETUP.merges.dimensions;
    // As a whole: another statement, a level that is not the one just below, bundles in it.
    let changed = |change: &dyn Fn(&mut Verified)| {
        let mut hints = nested.whole();
        change(&mut hints);
        refused(&hints)
    };
    let other = changed(&|hints| hints.hints.inputs[at.message().start - 1] += Fp::ONE);
    assert_eq!(other, Err(VerifyError::Entry));
    let above = changed(&|hints| hints.hints.inputs[at.level() - 1] += Fp::ONE);
    assert_eq!(above, Err(VerifyError::Level));
    let mut deep = nested.keeps(&nested.proof, 0);
    assert_eq!(refused(&deep), Ok(()));
    deep.hints.inputs[at.whole() - 1] = Fp::ONE;
    assert_eq!(refused(&deep), Err(VerifyError::Bundle));
    // An entry: another one of the bundle, one that it does not have, another bundle, an index without an entry,
    // and the second index of a child that is not a bundle.
    let kept = |kept: usize, change: &dyn Fn(&mut Kept)| {
        let mut hints = nested.keeps(&nested.proof, kept);
        change(&mut bundled(&mut hints).kept);
        refused(&hints)
    };
    assert_eq!(kept(1, &|_| ()), Ok(()));
    assert_eq!(kept(0, &|kept| kept.entry = 1), Err(VerifyError::Entry));
    let other = kept(0, &|kept| kept.entries[0][5] += Fp::ONE);
    assert_eq!(other, Err(VerifyError::Entry));
    assert_eq!(kept(0, &|kept| kept.child = 2), Err(VerifyError::Entry));
    assert_eq!(kept(0, &|kept| kept.entry = 2), Err(VerifyError::Flag));
    let beyond = kept(0, &|kept| kept.entries.push([Fp::ONE; DIGEST]));
    assert_eq!(beyond, Err(VerifyError::Entry));
    let place = kept(2, &|kept| {
        kept.entries = vec![[Fp::ZERO; DIGEST]; 2];
        kept.entry = 1;
    });
    assert_eq!(place, Err(VerifyError::Flag));
    // A bundle is listed by its message only.
    let mut hints = nested.keeps(&nested.proof, 0);
    bundled(&mut hints).listed[0].inputs[at.message().start - 1] += Fp::ONE;
    assert_eq!(refused(&hints), Err(VerifyError::Entry));
}

/// The proof above decides whether a bundle is proved as a whole: a bundle has no child that keeps an entry, since
/// it would list another one, and a merge has none that is whole and states nothing about its bits.
#[test]
fn the_parent_says_whether_a_bundle_is_whole() {
    let (setup, nested) = (&*SETUP, &*NESTED);
    let at = SETUP.merges.dimensions;
    let whole = nested.whole();
    let keeps = nested.keeps(&nested.proof, 3);
    let kinds = [ChildKind::Bundle];
    let known = nested.with_items(|items| {
        let known = setup.merges.known_bundle(LEVELS[1], &items[..1], &kinds);
        known.unwrap()
    });
    let prover = setup.merges.prover(exec(), None, known);
    let none = vec![false; 1 << REGISTRY_LOG2];
    let lied = |hints: &Verified| {
        let hints = std::slice::from_ref(hints);
        let witness = prover.witnesses(hints).unwrap();
        let proved = prover.prove_witness(&Preset::MERGE, witness, hints, &none);
        let Header::Bundled(bundled) = &whole.hints.header else {
            panic!("a bundle");
        };
        let proof = BundleProof {
            level: LEVELS[1],
            kinds: kinds.to_vec(),
            elements: proved.unwrap(),
            left: vec![bundled.left.clone()],
        };
        nested.with_items(|items| verify_items(&items[..1], &nested.parts[..2], &proof))
    };
    assert_eq!(lied(&whole), Ok(()));
    assert_eq!(lied(&keeps), Err(VerifyError::Weights));
    let statement = setup.statement(0..4, LEVELS[1] + 1);
    nested.with_items(|items| {
        let children = [child_of(&nested.proof, items, 0)];
        let refused = setup.lied(&statement, &children, |witness, _| {
            let input = layout::input(at.whole());
            witness[0].cells[input] = Fp::ONE;
        });
        assert!(refused.is_err(), "{refused:?}");
        // The prover rejects both as well.
        let refused = prove(LEVELS[1] + 1, &items[..1], &[children[0].proof]);
        assert!(
            matches!(refused, Err(ProveError::Capacity { .. })),
            "{refused:?}"
        );
        let whole = Child {
            proof: ChildProof::Bundle(&nested.lower[0]),
            bitfield: &statement.bitfield,
        };
        let refused = setup.prove(&statement, &[whole]);
        assert!(
            matches!(refused, Err(ProveError::Capacity { .. })),
            "{refused:?}"
        );
        // A bundle of bundles in a bundle, and a bundle whose level is not the one just below.
        let entries = items[0].entries();
        let above = [ChildProof::Bundle(&nested.proof)];
        let refused = prove(LEVELS[1] + 1, &[Item::Bundle(entries)], &above);
        assert!(
            matches!(refused, Err(ProveError::Capacity { .. })),
            "{refused:?}"
        );
        let above = [ChildProof::Bundle(&nested.lower[0])];
        let refused = prove(LEVELS[1] + 1, &[Item::Bundle(entries)], &above);
        assert_eq!(refused, Err(ProveError::Statement(VerifyError::Level)));
    });
}
