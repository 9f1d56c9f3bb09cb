//! Merges of the lean specification's production set: messages of two blocks, registry rows of thirteen
//! elements, permutations of two widths in a leaf.

use std::sync::LazyLock;

use super::super::bundle::{BundleProof, Item};
use super::bundle::child_of;
use super::*;
use crate::chains::lean::LeanParameters;
use crate::chains::lean::tests::{Example, SPOKEN};

static EXAMPLE: LazyLock<Example> = LazyLock::new(|| Example::new(LeanParameters::PROD, 6, SLOT));

static SETUP: LazyLock<Setup> = LazyLock::new(|| {
    let example = &*EXAMPLE;
    Setup::new(
        &example.statement,
        &example.registry,
        &example.chains,
        |members| {
            let statement = statement_of(&example.statement, members.clone(), 0);
            let (chains, openings) = (&example.chains, &example.openings[members]);
            let opened = chains.opened(exec(), SLOT, &SPOKEN, openings).unwrap();
            let public = chains.public(&statement, &example.registry);
            let (relation, preset) = (chains.relation(), &Preset::FAST);
            let proof = prove_succinct(exec(), relation, preset, &public, &opened.witness).unwrap();
            (proof, statement.bitfield)
        },
    )
});

/// Both leaves in a bundle, which is in another bundle together with the merge.
struct Bundles {
    statements: [Statement; 3],
    lower: BundleProof,
    proof: BundleProof,
}

const LEVELS: [u32; 2] = [1, 2];

impl Bundles {
    fn with_items<T>(&self, run: impl FnOnce(&[Item<'_>]) -> T) -> T {
        with_items(&self.statements, run)
    }

    fn verify(&self, proof: &BundleProof) -> Result<(), VerifyError> {
        let registries = [&SETUP.registry; 3];
        self.with_items(|items| {
            let merges = &SETUP.merges;
            merges.verify_bundle(exec(), &Preset::MERGE, items, &registries, proof)
        })
    }
}

fn with_items<T>(statements: &[Statement; 3], run: impl FnOnce(&[Item<'_>]) -> T) -> T {
    run(&[Item::Bundle(&statements[..2]), Item::Entry(&statements[2])])
}

static BUNDLES: LazyLock<Bundles> = LazyLock::new(|| {
    let setup = &*SETUP;
    let statements = [0..4, 2..6, 0..6].map(|bits| setup.statement(bits, 0));
    let preset = &Preset::MERGE;
    let items = [&statements[0], &statements[1]].map(Item::Entry);
    let leaves = setup
        .leaves
        .each_ref()
        .map(|leaf| ChildProof::Leaf(&leaf.0));
    let lower = setup
        .merges
        .bundle(exec(), preset, LEVELS[0], &items, &leaves)
        .unwrap();
    let children = [ChildProof::Bundle(&lower), ChildProof::Merge(&setup.merge)];
    let proof = with_items(&statements, |items| {
        setup
            .merges
            .bundle(exec(), preset, LEVELS[1], items, &children)
    });
    Bundles {
        statements,
        lower,
        proof: proof.unwrap(),
    }
});

#[test]
fn the_production_set_merges() {
    let setup = &*SETUP;
    let digest = wiring::digest(&setup.merges.wiring().plans);
    assert_eq!(setup.merges.key(), digest, "the pinned digest");
    let below = setup.statement(0..6, 1);
    assert_eq!(setup.verify(&below, &setup.merge), Ok(()));
    let statement = setup.statement(1..6, 2);
    let children = [
        merge_child(&setup.merge, &below),
        leaf_child(&setup.leaves[1]),
    ];
    let proof = setup.prove(&statement, &children).unwrap();
    assert_eq!(setup.verify(&statement, &proof), Ok(()));
    let preset = &Preset::MERGE;
    let bytes = setup.merges.to_bytes(preset, &proof);
    assert!(bytes.len() <= setup.merges.bytes_max(preset));
    assert_eq!(setup.merges.from_bytes(preset, &bytes), Ok(proof.clone()));
    // Each part of the statement; the last element of the message is in a block of its own.
    let changes: [fn(&mut Statement); 5] = [
        |statement| statement.message[8] += Fp::ONE,
        |statement| statement.message[0] += Fp::ONE,
        |statement| statement.slot += 1,
        |statement| statement.committee += 1,
        |statement| statement.bitfield[0] = true,
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut other = statement.clone();
        change(&mut other);
        assert!(setup.verify(&other, &proof).is_err(), "change {i}");
    }
    // The last element of a key.
    let rows = (0..setup.registry.size()).map(|i| setup.registry.row(i));
    let mut rows: Vec<Vec<Fp>> = rows.collect();
    rows[2][12] += Fp::ONE;
    let registry = Registry::new(&rows, 13, REGISTRY_LOG2).unwrap();
    let refused = setup
        .merges
        .verify(exec(), preset, &registry, &statement, &proof);
    assert_eq!(refused, Err(VerifyError::Registry));
    let most = setup.merges.leaf_groups_max();
    let too_large = SuccinctProof {
        groups: most + 1,
        ..setup.leaves[0].0.clone()
    };
    let refused = setup.prove(
        &statement,
        &[leaf_child(&(too_large, setup.leaves[0].1.clone()))],
    );
    assert!(matches!(refused, Err(ProveError::Capacity { max, .. }) if max == most));
}

#[test]
fn bundles_of_the_production_set_are_split() {
    let (setup, bundles) = (&*SETUP, &*BUNDLES);
    assert_eq!(bundles.verify(&bundles.proof), Ok(()));
    for kept in [1, 2] {
        let mut statement = bundles.statements[kept].clone();
        statement.level = LEVELS[1] + 1;
        bundles.with_items(|items| {
            let child = child_of(&bundles.proof, items, kept);
            let split = setup.prove(&statement, &[child]).unwrap();
            assert_eq!(setup.verify(&statement, &split), Ok(()), "entry {kept}");
            // A different vote from the listed one.
            let mut other = statement.clone();
            other.message[8] += Fp::ONE;
            let refused = setup.prove(&other, &[child]);
            let error = VerifyError::Entry;
            assert!(
                matches!(refused, Err(ProveError::Child { error: got, .. }) if got == error),
                "{refused:?}"
            );
        });
    }
    let mut other = bundles.proof.clone();
    other.left[0][3] += Ext::ONE;
    assert_eq!(bundles.verify(&other), Err(VerifyError::Left));
}

#[test]
fn no_cell_of_a_child_of_the_production_set_is_free() {
    let (setup, bundles) = (&*SETUP, &*BUNDLES);
    let statement = setup.statement(0..6, 3);
    let below = setup.statement(0..6, 1);
    let children = [
        leaf_child(&setup.leaves[0]),
        merge_child(&setup.merge, &below),
    ];
    let mut hints = setup.merges.hints(&statement, &children);
    bundles.with_items(|items| {
        let (merges, item) = (&setup.merges, &items[0]);
        let whole = Child {
            proof: ChildProof::Bundle(&bundles.lower),
            bitfield: &vec![false; 1 << REGISTRY_LOG2],
        };
        let inputs = merges.inputs_of_item(item, LEVELS[1]);
        hints.push(merges.hints_of(inputs, &whole, item.entries()));
        let kept = merges.hints(&statement, &[child_of(&bundles.proof, items, 2)]);
        hints.extend(kept);
    });
    let kinds = [
        ChildKind::Leaf,
        ChildKind::Merge,
        ChildKind::Bundle,
        ChildKind::Bundle,
    ];
    let prover = setup.prover_of(&statement, &kinds);
    setup.assert_no_free_cell(&prover.witnesses(&hints).unwrap());
}

/// The circuit of leaves rejects what their verifier rejects, and for the same reason.
#[test]
fn the_circuit_agrees_with_the_verifier_on_mutated_leaves() {
    let setup = &*SETUP;
    let statement = setup.statement(0..6, 1);
    let prover = setup.prover_of(&statement, &[ChildKind::Leaf]);
    let of_leaf = setup.statement(0..4, 0);
    let public = EXAMPLE.chains.public(&of_leaf, &setup.registry);
    let (leaf, bitfield) = &setup.leaves[0];
    let mut random = Random::new(41);
    for i in 0..20 {
        let mut leaf = leaf.clone();
        let at = random.fp().canonical() as usize % leaf.elements.len();
        leaf.elements[at] += Fp::ONE;
        let native = verify_succinct(
            exec(),
            setup.merges.relation(),
            &Preset::FAST,
            &public,
            &leaf,
        );
        let hints = setup
            .merges
            .hints(&statement, &[leaf_child(&(leaf, bitfield.clone()))]);
        let circuit = prover.witness(&hints[0]).map(|_| ());
        match native {
            Err(VerifyError::Registry | VerifyError::Bitfield) => {}
            native => {
                assert!(native.is_err());
                assert_eq!(circuit, native, "mutation {i} at {at}");
            }
        }
    }
}
