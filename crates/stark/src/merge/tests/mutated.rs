//! Circuits and verifiers reject the same inputs.

use super::bundle::{BUNDLE, child_of, entries, verify_on};
use super::nested::NESTED;
use super::*;

/// The verdict of a circuit on a child of a merge, and that of the child's own verifier.
type Said = [Result<(), VerifyError>; 2];

/// The verdict of the circuit on its hints.
fn witnessed(hints: &Verified) -> Result<(), VerifyError> {
    let setup = &*SETUP;
    let prover = setup.prover_of(&setup.statement(0..6, LEVEL_MAX), &[ChildKind::Leaf]);
    prover.witness(hints).map(|_| ())
}

/// The verdict of the circuit on a child of a merge of the highest level.
fn witnessed_child(child: Child<'_>) -> Result<(), VerifyError> {
    let setup = &*SETUP;
    let hints = setup
        .merges
        .hints(&setup.statement(0..6, LEVEL_MAX), &[child]);
    witnessed(&hints[0])
}

fn leaf_said(proof: SuccinctProof) -> Said {
    let setup = &*SETUP;
    let of_leaf = setup.statement(0..4, 0);
    let public = EXAMPLE.chains.public(&of_leaf, &setup.registry);
    let relation = setup.merges.relation();
    let native = verify_succinct(exec(), relation, &Preset::FAST, &public, &proof);
    let leaf = (proof, setup.leaves[0].1.clone());
    [witnessed_child(leaf_child(&leaf)), native]
}

fn merge_said(proof: &MergeProof) -> Said {
    let below = SETUP.statement(0..6, proof.level);
    let circuit = witnessed_child(merge_child(proof, &below));
    [circuit, SETUP.verify(&below, proof)]
}

/// The circuits reject what the verifiers reject, and for the same reason. Mutations change an element of a proof,
/// or the data alongside the elements. Their number is the environment variable MUTATIONS, or a small default.
#[test]
fn circuits_and_verifiers_agree_on_mutated_proofs() {
    let setup = &*SETUP;
    let count = std::env::var("MUTATIONS")
        .ok()
        .and_then(|count| count.parse().ok());
    let (bundle, nested) = (&*BUNDLE, &*NESTED);
    let honest = bundle.entries();
    let mut random = Random::new(17);
    let mut refused = 0;
    for i in 0..count.unwrap_or(108) {
        let (index, delta) = (random.fp().canonical() as usize, random.fp());
        let [circuit, native] = match i % 9 {
            0 => {
                let mut leaf = setup.leaves[0].0.clone();
                let at = index % leaf.elements.len();
                leaf.elements[at] += delta;
                leaf_said(leaf)
            }
            1 => {
                let mut other = bundle.proof.clone();
                let at = index % other.elements.len();
                other.elements[at] += delta;
                let circuit = witnessed_child(child_of(&other, &honest, 2));
                [circuit, bundle.verify(&other)]
            }
            2 => {
                let mut other = nested.proof.clone();
                let at = index % other.elements.len();
                other.elements[at] += delta;
                [witnessed(&nested.keeps(&other, 1)), nested.verify(&other)]
            }
            3 => {
                let mut merge = setup.merge.clone();
                let at = index % merge.elements.len();
                merge.elements[at] += delta;
                merge_said(&merge)
            }
            4 => leaf_said(SuccinctProof {
                groups: 1 + index % setup.merges.leaf_groups_max(),
                ..setup.leaves[0].0.clone()
            }),
            5 => {
                let kinds = [ChildKind::Leaf, ChildKind::Merge, ChildKind::Bundle];
                let mut merge = setup.merge.clone();
                merge.kinds = vec![kinds[index % 3], kinds[index / 3 % 3]];
                merge.kinds.resize(1 + index / 9 % 3, kinds[index / 27 % 3]);
                merge_said(&merge)
            }
            6 => merge_said(&MergeProof {
                level: 1 + index as u32 % (LEVEL_MAX - 1),
                ..setup.merge.clone()
            }),
            7 => {
                let mut parts = bundle.parts.clone();
                let statement = &mut parts[index % 2].statement;
                match index / 2 % 5 {
                    0 => statement.slot ^= 1 << (index / 10 % 32),
                    1 => statement.message[index / 10 % 8] += delta,
                    2 => statement.registry[index / 10 % 8] += delta,
                    3 => statement.committee += 1,
                    _ => statement.bitfield[index / 10 % 2] ^= true,
                }
                let circuit = witnessed_child(child_of(&bundle.proof, &entries(&parts), 2));
                [circuit, verify_on(&parts, &bundle.proof)]
            }
            // The merge states the last entry.
            _ => {
                let kept = index % 3;
                let states = match kept {
                    2 => Ok(()),
                    _ => Err(VerifyError::Entry),
                };
                let child = Child {
                    bitfield: &bundle.parts[2].statement.bitfield,
                    ..bundle.child(&honest, kept)
                };
                [witnessed_child(child), states]
            }
        };
        refused += usize::from(circuit.is_err());
        match native {
            // Values of registry, bitfield and wiring are outputs of a circuit; the verifier of a root checks
            // them.
            Err(VerifyError::Registry | VerifyError::Bitfield | VerifyError::Wiring) => {}
            // Too long for what it claims to be, which a circuit detects once it has read it.
            Err(VerifyError::Length { .. }) => assert!(circuit.is_err(), "mutation {i} at {index}"),
            native => assert_eq!(circuit, native, "mutation {i} at {index}"),
        }
    }
    println!("{refused} refused");
    assert!(refused > 80);
}
