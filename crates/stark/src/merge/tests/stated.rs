//! The components that a statement must match: the public values of its slot and message, a committee, a registry.

use super::bundle::{BUNDLE, entries, verify_items};
use super::*;

/// A prover whose public values are those of the previous slot.
#[derive(Debug)]
struct SlotBefore;

impl Statements for SlotBefore {
    fn relation(&self) -> &Relation {
        EXAMPLE.chains.relation()
    }

    fn publics(&self, slot: u32, message: &[Fp]) -> Vec<Fp> {
        EXAMPLE.chains.publics(slot - 1, message)
    }
}

/// Openings of one slot, stated for the next: as a leaf, in a merge, and as the entry of a bundle.
#[test]
fn public_values_are_those_of_the_slot_that_is_stated() {
    let (setup, chains) = (&*SETUP, &EXAMPLE.chains);
    let (preset, registry) = (&Preset::MERGE, &setup.registry);
    let mut statement = setup.statement(0..4, 0);
    statement.slot += 1;
    let opened = chains.opened(exec(), SLOT, &MESSAGE, &EXAMPLE.openings[..4]);
    let (relation, witness) = (chains.relation(), opened.unwrap().witness);
    let public = SlotBefore.public(&statement, registry);
    let leaf = prove_succinct(exec(), relation, &Preset::FAST, &public, &witness).unwrap();
    let verify = |of: &dyn Statements| {
        let public = of.public(&statement, registry);
        verify_succinct(exec(), relation, &Preset::FAST, &public, &leaf)
    };
    assert_eq!(verify(&SlotBefore), Ok(()));
    assert!(verify(chains).is_err());

    let lying = Merges::new(&SlotBefore);
    let child = Child {
        proof: ChildProof::Leaf(&leaf),
        bitfield: &statement.bitfield,
    };
    let merged = Statement {
        level: 1,
        ..statement.clone()
    };
    let merge = lying
        .prove(exec(), preset, registry, &merged, &[child])
        .unwrap();
    let verify = |merges: &Merges<'_>| merges.verify(exec(), preset, registry, &merged, &merge);
    assert_eq!(verify(&lying), Ok(()));
    assert_eq!(verify(&setup.merges), Err(VerifyError::Weights));
    let refused = setup.prove(&merged, &[child]);
    assert!(matches!(refused, Err(ProveError::Child { child: 0, .. })));

    let items = [Item::Entry(&statement)];
    let bundle = lying
        .bundle(exec(), preset, 1, &items, &[child.proof])
        .unwrap();
    let verify =
        |merges: &Merges<'_>| merges.verify_bundle(exec(), preset, &items, &[registry], &bundle);
    assert_eq!(verify(&lying), Ok(()));
    assert!(verify(&setup.merges).is_err());
}

/// A statement holds its committee as a field element, so a committee p higher has the same digest.
#[test]
fn a_committee_is_below_p() {
    let (setup, bundle) = (&*SETUP, &*BUNDLE);
    let got = 7 + crate::field::P;
    let refused = VerifyError::Committee { got };
    let mut statement = setup.statement(0..6, 1);
    assert_eq!(statement.committee, 7);
    statement.committee = got;
    assert_eq!(setup.verify(&statement, &setup.merge), Err(refused));
    let children = setup.leaves.each_ref().map(leaf_child);
    let proved = setup.prove(&statement, &children);
    assert_eq!(proved, Err(ProveError::Statement(refused)));
    let mut parts = bundle.parts.clone();
    parts[1].statement.committee = got;
    let listed = entries(&parts);
    let said = verify_items(&listed, &parts, &bundle.proof);
    assert_eq!(said, Err(refused));
    // It is not accepted either in a bundle of which another entry is kept.
    let (_, split) = parts[0].split(3, bundle.child(&listed, 0));
    assert_eq!(split, Err(ProveError::Statement(refused)));
    let mut statement = setup.statement(0..4, 0);
    statement.committee = got;
    let public = EXAMPLE.chains.public(&statement, &setup.registry);
    let (relation, leaf) = (setup.merges.relation(), &setup.leaves[0].0);
    let said = verify_succinct(exec(), relation, &Preset::FAST, &public, leaf);
    assert_eq!(said, Err(refused));
}

/// A registry with fewer rows, or fewer elements per row, than the relation's does not belong to the relation.
#[test]
fn a_registry_has_the_shape_of_the_relation() {
    let (setup, bundle) = (&*SETUP, &*BUNDLE);
    let rows: Vec<Vec<Fp>> = (0..7).map(|i| setup.registry.row(i)).collect();
    let fewer: Vec<&[Fp]> = rows.iter().map(|row| &row[..7]).collect();
    let (got, want) = (1 << 14, 1 << REGISTRY_LOG2);
    let cases = [
        (
            Registry::new(&rows, 8, 14),
            VerifyError::StatementSize { got, want },
        ),
        (
            Registry::new(&fewer, 7, REGISTRY_LOG2),
            VerifyError::RegistryWidth { got: 7, want: 8 },
        ),
    ];
    let (preset, statement) = (&Preset::MERGE, setup.statement(0..6, 1));
    let children = setup.leaves.each_ref().map(leaf_child);
    for (registry, refused) in cases {
        let registry = &registry.unwrap();
        let merges = &setup.merges;
        let said = merges.verify(exec(), preset, registry, &statement, &setup.merge);
        assert_eq!(said, Err(refused));
        let proved = merges.prove(exec(), preset, registry, &statement, &children);
        assert_eq!(proved, Err(ProveError::Statement(refused)));
        let mut parts = bundle.parts.clone();
        parts[2].registry = registry.clone();
        let said = verify_items(&bundle.entries(), &parts, &bundle.proof);
        assert_eq!(said, Err(refused));
    }
}
