//! Bundles of small proofs: split, merged again, and forged.

use std::sync::LazyLock;

use super::super::bundle::{BundleProof, Item};
use super::super::codec::{is_bundle, is_merge};
use super::*;

/// The statement of an entry, and its registry.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) statement: Statement,
    pub(super) registry: Registry,
}

/// Four members in one slot, two of another registry in the next slot, and all six of the first slot again.
pub(super) struct Bundle {
    pub(super) parts: [Part; 3],
    /// The proof of the second entry.
    pub(super) second: Leaf,
    pub(super) proof: BundleProof,
}

pub(super) static BUNDLE: LazyLock<Bundle> = LazyLock::new(|| {
    let setup = &*SETUP;
    let other = Example::new(Parameters::COMPACT, 2, SLOT + 1);
    let second = leaf(&other, 0..2);
    let part = |example: &Example, statement: Statement| Part {
        registry: example.registry.clone(),
        statement,
    };
    let parts = [
        part(&EXAMPLE, setup.statement(0..4, 0)),
        part(&other, statement_of(&other.statement, 0..2, 0)),
        part(&EXAMPLE, setup.statement(0..6, 1)),
    ];
    let children = [
        ChildProof::Leaf(&setup.leaves[0].0),
        ChildProof::Leaf(&second.0),
        ChildProof::Merge(&setup.merge),
    ];
    let proof = prove(2, &entries(&parts), &children).unwrap();
    Bundle {
        parts,
        second,
        proof,
    }
});

/// All parts as entries, one by one.
pub(super) fn entries(parts: &[Part]) -> Vec<Item<'_>> {
    parts
        .iter()
        .map(|part| Item::Entry(&part.statement))
        .collect()
}

/// The statements of all parts.
pub(super) fn statements(parts: &[Part]) -> Vec<Statement> {
    parts.iter().map(|part| part.statement.clone()).collect()
}

pub(super) fn prove(
    level: u32,
    items: &[Item<'_>],
    children: &[ChildProof<'_>],
) -> Result<BundleProof, ProveError> {
    SETUP
        .merges
        .bundle(exec(), &Preset::MERGE, level, items, children)
}

pub(super) fn verify_on(parts: &[Part], proof: &BundleProof) -> Result<(), VerifyError> {
    verify_items(&entries(parts), parts, proof)
}

/// Verifies a bundle of items, whose entries are these parts.
pub(super) fn verify_items(
    items: &[Item<'_>],
    parts: &[Part],
    proof: &BundleProof,
) -> Result<(), VerifyError> {
    let registries: Vec<&Registry> = parts.iter().map(|part| &part.registry).collect();
    SETUP
        .merges
        .verify_bundle(exec(), &Preset::MERGE, items, &registries, proof)
}

/// An entry of a bundle, as the child of a merge.
pub(super) fn child_of<'a>(
    proof: &'a BundleProof,
    items: &'a [Item<'a>],
    kept: usize,
) -> Child<'a> {
    let mut entries = items.iter().flat_map(Item::entries);
    Child {
        bitfield: &entries.nth(kept).unwrap().bitfield,
        proof: ChildProof::Entry { proof, items, kept },
    }
}

impl Bundle {
    pub(super) fn entries(&self) -> Vec<Item<'_>> {
        entries(&self.parts)
    }

    pub(super) fn child<'a>(&'a self, entries: &'a [Item<'a>], kept: usize) -> Child<'a> {
        child_of(&self.proof, entries, kept)
    }

    pub(super) fn verify(&self, proof: &BundleProof) -> Result<(), VerifyError> {
        verify_on(&self.parts, proof)
    }
}

impl Part {
    /// The statement that keeps this part of a bundle, at a level, and its proof.
    pub(super) fn split(
        &self,
        level: u32,
        child: Child<'_>,
    ) -> (Statement, Result<MergeProof, ProveError>) {
        let mut statement = self.statement.clone();
        statement.level = level;
        let proof =
            SETUP
                .merges
                .prove(exec(), &Preset::MERGE, &self.registry, &statement, &[child]);
        (statement, proof)
    }

    pub(super) fn verify(
        &self,
        statement: &Statement,
        proof: &MergeProof,
    ) -> Result<(), VerifyError> {
        let merges = &SETUP.merges;
        merges.verify(exec(), &Preset::MERGE, &self.registry, statement, proof)
    }
}

#[test]
fn a_bundle_is_split_and_merged_again() {
    let (setup, bundle) = (&*SETUP, &*BUNDLE);
    assert_eq!(bundle.verify(&bundle.proof), Ok(()));
    let entries = bundle.entries();
    for (kept, part) in bundle.parts.iter().enumerate() {
        let (statement, proof) = part.split(3, bundle.child(&entries, kept));
        let proof = proof.unwrap();
        assert_eq!(proof.kinds, [ChildKind::Bundle]);
        assert_eq!(part.verify(&statement, &proof), Ok(()), "entry {kept}");
        if kept > 0 {
            continue;
        }
        // The result of a split is a proof like others, and merges with an overlapping one.
        let all = setup.statement(0..6, 4);
        let children = [
            merge_child(&proof, &statement),
            leaf_child(&setup.leaves[1]),
        ];
        let again = setup.prove(&all, &children).unwrap();
        assert_eq!(setup.verify(&all, &again), Ok(()));
    }
    // One merge can keep an entry and include other proofs.
    let all = setup.statement(0..6, 3);
    let children = [bundle.child(&entries, 0), leaf_child(&setup.leaves[1])];
    let proof = setup.prove(&all, &children).unwrap();
    assert_eq!(setup.verify(&all, &proof), Ok(()));
}

#[test]
fn a_bundle_is_of_its_entries_only() {
    let bundle = &*BUNDLE;
    let parts = || bundle.parts.clone();
    let changes: [fn(&mut [Part; 3]); 8] = [
        |parts| parts[0].statement.slot ^= 1,
        |parts| parts[1].statement.message[3] += Fp::ONE,
        |parts| parts[2].statement.committee += 1,
        |parts| parts[0].statement.registry[7] += Fp::ONE,
        |parts| parts[1].statement.bitfield[0] = false,
        |parts| parts[0].statement.bitfield[4] = true,
        |parts| parts.swap(0, 1),
        |parts| parts[1].statement.message.truncate(7),
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut other = parts();
        change(&mut other);
        assert!(verify_on(&other, &bundle.proof).is_err(), "change {i}");
    }
    let mut other = parts();
    other[1].statement.set += 1;
    let refused = verify_on(&other, &bundle.proof);
    assert!(
        matches!(refused, Err(VerifyError::Set { .. })),
        "{refused:?}"
    );
    let mut other = parts();
    let beyond = VerifyError::BitBeyondRegistry { bit: 3, size: 3 };
    other[1].statement.bitfield[3] = true;
    assert_eq!(verify_on(&other, &bundle.proof), Err(beyond));
    other[1].statement.bitfield.fill(false);
    assert_eq!(verify_on(&other, &bundle.proof), Err(VerifyError::EmptySet));
    // Without its last entry, and at another level.
    let fewer = verify_on(&parts()[..2], &bundle.proof);
    let count = VerifyError::ChildCount { got: 3, max: 2 };
    assert_eq!(fewer, Err(count));
    for level in [0, 1, 3, LEVEL_MAX + 1] {
        let mut other = bundle.proof.clone();
        other.level = level;
        assert!(bundle.verify(&other).is_err(), "level {level}");
    }
    // A key of one entry's registry is different.
    for part in 0..3 {
        let mut other = parts();
        let size = other[part].registry.size();
        let mut rows: Vec<Vec<Fp>> = (0..size).map(|i| other[part].registry.row(i)).collect();
        rows[1][0] += Fp::ONE;
        other[part].registry = Registry::new(&rows, 8, REGISTRY_LOG2).unwrap();
        let refused = verify_on(&other, &bundle.proof);
        assert_eq!(refused, Err(VerifyError::Registry), "registry {part}");
    }
}

/// A merge keeps an entry that the bundle has, and states it as the bundle does.
#[test]
fn what_is_split_is_the_entry_that_is_kept() {
    let (setup, bundle) = (&*SETUP, &*BUNDLE);
    let entries = bundle.entries();
    let refusal = |part: &Part, child: Child<'_>| {
        let (_, proof) = part.split(3, child);
        match proof {
            Err(ProveError::Child { child: 0, error }) => error,
            other => panic!("{other:?}"),
        }
    };
    // The statement of one entry, while another one is kept.
    let wrong = Child {
        bitfield: &bundle.parts[0].statement.bitfield,
        ..bundle.child(&entries, 2)
    };
    assert_eq!(refusal(&bundle.parts[0], wrong), VerifyError::Entry);
    // More bits than the entry has.
    let more = Child {
        bitfield: &bundle.parts[2].statement.bitfield,
        ..bundle.child(&entries, 0)
    };
    assert_eq!(refusal(&bundle.parts[2], more), VerifyError::Entry);
    // An entry that the bundle does not have.
    let mut moved = bundle.parts[0].statement.clone();
    moved.slot += 2;
    let mut others = bundle.entries();
    others[0] = Item::Entry(&moved);
    let (_, proof) = bundle.parts[0].split(3, bundle.child(&others, 0));
    assert!(
        matches!(proof, Err(ProveError::Child { child: 0, .. })),
        "{proof:?}"
    );
    // A list in which the entry that is not kept is different.
    let mut others = bundle.entries();
    others[1] = Item::Entry(&moved);
    let (_, proof) = bundle.parts[0].split(3, bundle.child(&others, 0));
    assert!(
        matches!(proof, Err(ProveError::Child { child: 0, .. })),
        "{proof:?}"
    );
    // An entry that does not exist, and a level that is not above the bundle's.
    let (_, proof) = bundle.parts[0].split(
        3,
        Child {
            bitfield: &bundle.parts[0].statement.bitfield,
            proof: ChildProof::Entry {
                proof: &bundle.proof,
                items: &entries,
                kept: 3,
            },
        },
    );
    assert!(
        matches!(proof, Err(ProveError::Capacity { got: 3, .. })),
        "{proof:?}"
    );
    let (_, proof) = bundle.parts[0].split(2, bundle.child(&entries, 0));
    assert_eq!(proof, Err(ProveError::Statement(VerifyError::Level)));
    // A bundle where an entry is listed.
    let refused = prove(3, &entries[..1], &[ChildProof::Bundle(&bundle.proof)]);
    assert_eq!(refused, Err(ProveError::Statement(VerifyError::Item)));
    // A bundle as the proof of a merge, and a merge as a bundle: the transcripts begin differently.
    let preset = &Preset::MERGE;
    let bytes = setup.merges.bundle_to_bytes(preset, &bundle.proof);
    assert!(setup.merges.from_bytes(preset, &bytes).is_err());
    let bytes = setup.merges.to_bytes(preset, &setup.merge);
    assert!(setup.merges.bundle_from_bytes(preset, &bytes).is_err());
}

/// An attacker's key in place of a member's: the circuits accept the proof, since they do not see the registry,
/// but the remaining registry claim is false, both in the bundle and in the merge that keeps the entry. It does
/// not spoil any other entry, and no other entry repairs it.
#[test]
fn a_false_registry_is_seen_in_the_entry_that_is_kept() {
    let bundle = &*BUNDLE;
    let honest = &bundle.parts[0];
    let mut openings = EXAMPLE.openings.clone();
    openings[5].index = 6;
    let mut forged = Example::of(EXAMPLE.chains.clone(), SLOT, openings);
    forged.statement.registry = honest.statement.registry;
    forged.statement.bitfield.fill(false);
    forged.statement.bitfield[6] = true;
    let witness = forged
        .chains
        .opened(exec(), SLOT, &MESSAGE, &forged.openings[5..])
        .unwrap()
        .witness;
    let public = forged.chains.public(&forged.statement, &forged.registry);
    let relation = forged.chains.relation();
    let proof = prove_succinct(exec(), relation, &Preset::FAST, &public, &witness).unwrap();
    let false_part = Part {
        statement: forged.statement.clone(),
        registry: honest.registry.clone(),
    };
    let parts = [false_part, bundle.parts[1].clone()];
    let entries = entries(&parts);
    let children = [ChildProof::Leaf(&proof), ChildProof::Leaf(&bundle.second.0)];
    let made = prove(1, &entries, &children).unwrap();
    assert_eq!(verify_on(&parts, &made), Err(VerifyError::Registry));
    // A prover that reduces with the false registry, and one that uses the true one.
    let own = Part {
        statement: parts[0].statement.clone(),
        registry: forged.registry.clone(),
    };
    let wants = [
        (&own, 0, Err(VerifyError::Registry)),
        (&parts[0], 0, Err(VerifyError::RegistryClaims)),
        (&parts[1], 1, Ok(())),
    ];
    for (prover, kept, want) in wants {
        let child = child_of(&made, &entries, kept);
        let (statement, split) = prover.split(2, child);
        assert_eq!(parts[kept].verify(&statement, &split.unwrap()), want);
    }
    // The same in a bundle of bundles.
    let lower = statements(&parts);
    let items = [Item::Bundle(&lower)];
    let above = prove(2, &items, &[ChildProof::Bundle(&made)]).unwrap();
    let refused = verify_items(&items, &parts, &above);
    assert_eq!(refused, Err(VerifyError::Registry));
    for (prover, kept, want) in wants {
        let child = child_of(&above, &items, kept);
        let (statement, split) = prover.split(3, child);
        assert_eq!(parts[kept].verify(&statement, &split.unwrap()), want);
    }
}

/// A bundle that states bits of its own, and one whose children's bits are not boolean.
#[test]
fn a_bundle_has_no_bits_of_its_own() {
    let bundle = &*BUNDLE;
    let setup = &*SETUP;
    let entries = bundle.entries();
    let known = setup
        .merges
        .known_bundle(2, &entries[..2], &[ChildKind::Leaf; 2])
        .unwrap();
    let inputs = |item: &Item<'_>| setup.merges.inputs_of_item(item, 2);
    let leaves = [&setup.leaves[0], &bundle.second];
    let hints: Vec<Verified> = entries[..2]
        .iter()
        .zip(leaves)
        .map(|(item, leaf)| setup.merges.hints_of(inputs(item), &leaf_child(leaf), &[]))
        .collect();
    let prover = setup.merges.prover(exec(), None, known);
    let lied = |hints: &[Verified], bits: &[bool]| {
        let witness = prover.witnesses(hints).unwrap();
        let proved = prover.prove_witness(&Preset::MERGE, witness, hints, bits);
        let proof = BundleProof {
            level: 2,
            kinds: vec![ChildKind::Leaf; 2],
            left: Vec::new(),
            elements: proved.unwrap(),
        };
        verify_on(&bundle.parts[..2], &proof)
    };
    let none = vec![false; 1 << REGISTRY_LOG2];
    assert_eq!(lied(&hints, &none), Ok(()));
    let own = &bundle.parts[0].statement.bitfield;
    assert_eq!(lied(&hints, own), Err(VerifyError::Bundle));
    let mut other = hints.clone();
    other[0].bits[0] ^= true;
    assert_eq!(lied(&other, &none), Err(VerifyError::Weights));
    // The inputs of a child are those of its own entry.
    let mut other = hints.clone();
    other.swap(0, 1);
    assert_eq!(lied(&other, &none), Err(VerifyError::Weights));
}

/// A prover that states one thing of a child and proves another. What is stated enters the transcript either way,
/// so changing a statement under an honest proof shows nothing. Here the prover hashes the lie, and only the claim
/// on the inputs of the child's circuit prevents it.
#[test]
fn an_entry_states_what_its_child_proves() {
    let (setup, bundle) = (&*SETUP, &*BUNDLE);
    let merges = &setup.merges;
    let kinds = [ChildKind::Leaf; 2];
    let truth = entries(&bundle.parts[..2]);
    let leaves = [&setup.leaves[0], &bundle.second];
    let hints = truth.iter().zip(leaves);
    let hints = hints.map(|(item, leaf)| {
        merges.hints_of(merges.inputs_of_item(item, 2), &leaf_child(leaf), &[])
    });
    let hints: Vec<Verified> = hints.collect();
    let none = vec![false; 1 << REGISTRY_LOG2];
    let forged = |parts: &[Part]| {
        let known = merges.known_bundle(2, &entries(parts), &kinds).unwrap();
        let prover = merges.prover(exec(), None, known);
        let witness = prover.witnesses(&hints).unwrap();
        let elements = prover.prove_witness(&Preset::MERGE, witness, &hints, &none);
        BundleProof {
            level: 2,
            kinds: kinds.to_vec(),
            left: Vec::new(),
            elements: elements.unwrap(),
        }
    };
    let honest = &bundle.parts[..2];
    assert_eq!(verify_on(honest, &forged(honest)), Ok(()));
    let lies: [fn(&mut Part); 7] = [
        |part| part.statement.slot ^= 1,
        |part| part.statement.slot ^= 1 << 20,
        |part| part.statement.message[3] += Fp::ONE,
        |part| part.statement.registry[7] += Fp::ONE,
        |part| part.statement.committee += 1,
        |part| part.statement.bitfield[3] = false,
        // Members that did not sign: four signatures would count for all.
        |part| part.statement.bitfield[4..6].fill(true),
    ];
    let refused = Err(VerifyError::Weights);
    for (i, lie) in lies.iter().enumerate() {
        let mut parts = honest.to_vec();
        lie(&mut parts[0]);
        let proof = forged(&parts);
        assert_eq!(verify_on(&parts, &proof), refused, "lie {i}");
        // It is not an entry that can be kept either, or a child of another bundle: the circuits detect it too.
        let entries = entries(&parts);
        let (_, split) = parts[0].split(3, child_of(&proof, &entries, 0));
        let split = split.map_err(|error| match error {
            ProveError::Child { child: 0, error } => error,
            other => panic!("{other}"),
        });
        assert_eq!(split.map(|_| ()), refused, "lie {i}");
        let lower = statements(&parts);
        let above = prove(3, &[Item::Bundle(&lower)], &[ChildProof::Bundle(&proof)]);
        let error = VerifyError::Weights;
        let child = ProveError::Child { child: 0, error };
        assert_eq!(above.map(|_| ()), Err(child), "lie {i}");
    }
}

#[test]
fn bundles_have_one_form_as_bytes() {
    let (setup, bundle) = (&*SETUP, &*BUNDLE);
    let preset = &Preset::MERGE;
    let merges = &setup.merges;
    let bytes = merges.bundle_to_bytes(preset, &bundle.proof);
    assert!(is_bundle(&bytes) && !is_merge(&bytes));
    assert!(bytes.len() <= SETUP.merges.bytes_max(preset));
    let decoded = merges.bundle_from_bytes(preset, &bytes);
    assert_eq!(decoded, Ok(bundle.proof.clone()));
    let mut changed = 0;
    for at in (0..40).chain((40..bytes.len()).step_by(bytes.len() / 60)) {
        let mut other = bytes.clone();
        other[at] ^= 1 << (at % 8);
        let Ok(proof) = merges.bundle_from_bytes(preset, &other) else {
            continue;
        };
        changed += 1;
        assert!(bundle.verify(&proof).is_err(), "byte {at}");
    }
    assert!(changed > 50);
    for len in [0, 8, 12, bytes.len() - 1] {
        assert!(merges.bundle_from_bytes(preset, &bytes[..len]).is_err());
    }
    // A merge of a bundle is marked as such in its header, in one way only.
    let entries = bundle.entries();
    let (_, split) = bundle.parts[1].split(3, bundle.child(&entries, 1));
    let split = split.unwrap();
    let bytes = merges.to_bytes(preset, &split);
    assert_eq!(merges.from_bytes(preset, &bytes), Ok(split));
    let mut both = bytes.clone();
    both[11] |= 1;
    assert!(merges.from_bytes(preset, &both).is_err());
}
