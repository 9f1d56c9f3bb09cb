//! The known answers of `vectors/xmss`: those made by the lean specification's code, and those of a second
//! implementation for what that code lacks.

mod formats;
mod lean;

use std::ops::Range;

use alphorn_exec::Exec;
use alphorn_stark::{Fp, KERNELS, Permutations};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::hash::{Children, Digest, Parameter, Tips, Walk};
use crate::prf;
use crate::prf::Prf;
use crate::{Item, Purpose, SecretKey, Set, Signature, verify_batch};

const ANSWERS: &str = include_str!("../../../vectors/xmss/known-answers.json");

fn answers() -> Value {
    serde_json::from_str(ANSWERS).unwrap()
}

fn numbers(value: &Value) -> Vec<u32> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|x| x.as_u64().unwrap() as u32).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn bytes32(value: &Value) -> [u8; 32] {
    hex::decode(text(value)).unwrap().try_into().unwrap()
}

/// The elements that are not padding.
fn canonical(elements: &[Fp], count: usize) -> Vec<u32> {
    assert!(elements[count..].iter().all(|x| *x == Fp::ZERO));
    elements[..count].iter().map(|x| x.canonical()).collect()
}

/// start, start + 1, … in the first `count` elements, the others zero.
fn counting<const N: usize>(start: u32, count: usize) -> [Fp; N] {
    std::array::from_fn(|i| match i < count {
        true => Fp::new(start + i as u32),
        false => Fp::ZERO,
    })
}

fn set(value: &Value) -> Set {
    text(value).parse().unwrap()
}

/// The chains, nodes and leaves of a set, with the inputs that reference.py uses.
struct Inputs {
    set: Set,
    parameter: Parameter,
    walk: (u32, u8, u8, Digest),
    children: (u32, Digest, Digest),
    slot: u32,
}

fn check_hashes(known: &Value, names: [&str; 3], inputs: &Inputs) {
    let (instance, digest) = (inputs.set.instance(), inputs.set.params().digest);
    for backend in KERNELS.available() {
        let (slot, chain, from, start) = inputs.walk;
        let walk = Walk {
            // The chain of the lean sets was generated with a parameter of ones.
            parameter: match inputs.set {
                Set::Compact => inputs.parameter,
                Set::Prod | Set::Test => [Fp::ONE; 5],
            },
            slot,
            chain,
            from,
            to: from + 1,
            digest: start,
        };
        let mut walks = [walk];
        instance.walk(backend, &mut walks);
        let (index, left, right) = inputs.children;
        let children = Children {
            parameter: inputs.parameter,
            level: 1,
            index,
            left,
            right,
        };
        let digests: Vec<Digest> = (0..inputs.set.params().chains)
            .map(|i| counting((i * digest) as u32, digest))
            .collect();
        let tips = Tips {
            parameter: inputs.parameter,
            slot: inputs.slot,
            digests: &digests,
        };
        let found = [
            walks[0].digest,
            instance.nodes(backend, &[children])[0],
            instance.leaves(backend, &[tips])[0],
        ];
        for (name, found) in names.iter().zip(found) {
            assert_eq!(
                canonical(&found, digest),
                numbers(&known[*name]),
                "{name} {backend}"
            );
        }
    }
}

#[test]
fn hashes_are_the_known_ones() {
    let known = &answers()["hashes"];
    let lean = Inputs {
        set: Set::Prod,
        parameter: counting(1, 5),
        walk: (0, 1, 0, counting(0, 8)),
        children: (0, counting(0, 8), counting(8, 8)),
        slot: 7,
    };
    check_hashes(known, ["lean_chain", "lean_node", "prod_leaf"], &lean);
    let slot = 123_456_789;
    let compact = Inputs {
        set: Set::Compact,
        parameter: counting(1, 4),
        walk: (slot, 5, 3, counting(10, 4)),
        children: (slot >> 1, counting(1, 4), counting(5, 4)),
        slot,
    };
    let names = ["compact_chain", "compact_node", "compact_leaf"];
    check_hashes(known, names, &compact);
    let message = std::array::from_fn(|i| i as u8);
    for backend in KERNELS.available() {
        let limbs = Set::Prod.instance().message(backend, &message);
        assert_eq!(canonical(&limbs, 9), numbers(&known["message_limbs"]));
        let hash = Set::Compact.instance().message(backend, &message);
        assert_eq!(canonical(&hash, 8), numbers(&known["compact_message"]));
        let mut narrow = [counting::<16>(0, 16)];
        backend.permute_16(&mut narrow);
        assert_eq!(canonical(&narrow[0], 16), numbers(&known["permute_16"]));
        let mut wide = [counting::<24>(0, 24)];
        backend.permute_24(&mut wide);
        assert_eq!(canonical(&wide[0], 24), numbers(&known["permute_24"]));
    }
}

#[test]
fn derived_values_are_the_known_ones() {
    let (known, seed) = (answers(), std::array::from_fn(|i| i as u8));
    let prf = Prf::new(Set::Prod, &seed);
    for backend in KERNELS.available() {
        let start = prf.value(backend, prf::Value::Start { slot: 5, chain: 3 });
        assert_eq!(canonical(&start, 8), numbers(&known["prf_chain_start"]));
        let randomness = prf.value(
            backend,
            prf::Value::Randomness {
                slot: 5,
                message: &seed,
                counter: 0,
            },
        );
        assert_eq!(canonical(&randomness, 7), numbers(&known["prf_randomness"]));
    }
}

/// The key of a case, with the parameter of its seed or another one chosen by the case.
fn key(case: &Value) -> SecretKey {
    let exec = Exec::new(KERNELS.measured(), None);
    let (set, seed) = (set(&case["set"]), bytes32(&case["seed"]));
    let bound = |i: usize| case["active"][i].as_u64().unwrap();
    let active: Range<u64> = bound(0)..bound(1);
    let parameter = numbers(&case["parameter"]);
    let wanted = std::array::from_fn(|i| parameter.get(i).map_or(Fp::ZERO, |x| Fp::new(*x)));
    let key = SecretKey::generate(set, Purpose::Vote, &seed, active.clone(), exec, &|_| ());
    let key = key.unwrap();
    if key.public_key().parameter == wanted {
        return key;
    }
    let prf = Prf::new(set, &seed);
    SecretKey::with_parameter(Purpose::Vote, prf, set, wanted, active, exec, &|_| ()).unwrap()
}

#[test]
fn signatures_are_the_known_ones_byte_by_byte() {
    let exec = Exec::new(KERNELS.measured(), None);
    let known = answers();
    let cases = known["signatures"].as_array().unwrap();
    assert!(cases.len() >= 3, "{} cases", cases.len());
    for case in cases {
        let key = key(case);
        assert_eq!(
            hex::encode(key.public_key().to_bytes()),
            text(&case["public_key"])
        );
        let (slot, message) = (case["slot"].as_u64().unwrap(), bytes32(&case["message"]));
        let signature = key.sign_index(slot as u32, &message, exec).unwrap();
        let bytes = signature.to_bytes();
        let name = format!("{} slot {slot}", case["set"]);
        assert_eq!(bytes.len() as u64, case["signature_bytes"], "{name}");
        let found = hex::encode(Sha256::digest(&bytes));
        assert_eq!(found, text(&case["signature_sha256"]), "{name}");
        let set = set(&case["set"]);
        let randomness = canonical(&signature.randomness, set.params().randomness);
        assert_eq!(randomness, numbers(&case["randomness"]), "{name}");
        let again = Signature::from_bytes(set, &bytes).unwrap();
        let item = Item {
            key: key.public_key(),
            index: slot as u32,
            message: &message,
            signature: &again,
        };
        assert_eq!(verify_batch(set, &[item], exec), [true], "{name}");
    }
}
