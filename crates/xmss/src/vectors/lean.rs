//! Signatures made by the lean consensus specification's own code, and inputs it rejects.

use super::*;
use crate::PublicKey;

const PROD: &str = include_str!("../../../../vectors/xmss/lean-prod.json");
const TEST: &str = include_str!("../../../../vectors/xmss/lean-test.json");

fn cases(text: &str, kind: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(text).unwrap();
    all[kind].as_array().unwrap().clone()
}

fn read(set: Set, case: &Value) -> Option<(PublicKey, Signature)> {
    let bytes = |name: &str| hex::decode(text(&case[name])).unwrap();
    let key = PublicKey::from_bytes(set, &bytes("pk")).ok()?;
    let signature = Signature::from_bytes(set, &bytes("sig")).ok()?;
    Some((key, signature))
}

/// Whether a signature holds; what cannot be decoded is rejected.
fn holds(set: Set, case: &Value, exec: Exec<'_>) -> bool {
    let Some((key, signature)) = read(set, case) else {
        return false;
    };
    let message = bytes32(&case["message"]);
    let item = Item {
        key: &key,
        index: u32::try_from(case["slot"].as_u64().unwrap()).unwrap(),
        message: &message,
        signature: &signature,
    };
    verify_batch(set, &[item], exec) == [true]
}

#[test]
fn what_the_specification_signs_is_valid_and_what_it_refuses_is_not() {
    for (set, text) in [(Set::Prod, PROD), (Set::Test, TEST)] {
        let (valid, mutated) = (cases(text, "valid"), cases(text, "mutated"));
        assert!(valid.len() >= 8 && mutated.len() >= 60);
        for backend in KERNELS.available() {
            let exec = Exec::new(backend, None);
            for (cases, expected) in [(&valid, true), (&mutated, false)] {
                for (i, case) in cases.iter().enumerate() {
                    assert_eq!(case["expect"], expected);
                    assert_eq!(holds(set, case, exec), expected, "{set} {i} {backend}");
                }
            }
        }
    }
}

/// Signatures are decoded and encoded as in the specification, byte by byte.
#[test]
fn bytes_are_those_of_the_specification() {
    for (set, text) in [(Set::Prod, PROD), (Set::Test, TEST)] {
        for case in cases(text, "valid") {
            let (key, signature) = read(set, &case).unwrap();
            assert_eq!(hex::encode(key.to_bytes()), super::text(&case["pk"]));
            assert_eq!(hex::encode(signature.to_bytes()), super::text(&case["sig"]));
        }
    }
}

/// The other direction: with the key of a case and its parameter, our signer computes the same randomness and the
/// same digest for every chain. The path belongs to the tree around it, whose padding the specification draws at
/// random.
#[test]
fn our_signer_makes_what_the_specification_does() {
    let exec = Exec::new(KERNELS.measured(), None);
    for case in cases(PROD, "valid") {
        let (public, theirs) = read(Set::Prod, &case).unwrap();
        let slot = case["slot"].as_u64().unwrap();
        let prf = Prf::new(Set::Prod, &bytes32(&case["key"]));
        let own = SecretKey::with_parameter(
            Purpose::Vote,
            prf,
            Set::Prod,
            public.parameter,
            slot..slot + 1,
            exec,
            &|_| (),
        );
        let message = bytes32(&case["message"]);
        let ours = own
            .unwrap()
            .sign_index(slot as u32, &message, exec)
            .unwrap();
        assert_eq!(ours.randomness, theirs.randomness, "slot {slot}");
        assert_eq!(ours.hashes, theirs.hashes, "slot {slot}");
    }
}
