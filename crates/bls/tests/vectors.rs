//! Runs every file of `vectors/bls` through the interface on bytes; official files of the
//! consensus specifications' suite may lie beside ours.

use std::path::{Path, PathBuf};

use alphorn_bls::{
    Rlc, bytes, decode_g1, decode_g2, encode_g1_uncompressed, encode_g2_uncompressed, hash_to_g1,
    hash_to_g2,
};
use alphorn_exec::Exec;
use serde_json::Value;

/// Cases that each category has at least: those of the official suite v0.1.1.
const CATEGORIES: [(&str, usize); 10] = [
    ("sign", 10),
    ("verify", 29),
    ("aggregate", 6),
    ("aggregate_verify", 5),
    ("fast_aggregate_verify", 12),
    ("batch_verify", 2),
    ("hash_to_G1", 5),
    ("hash_to_G2", 4),
    ("deserialization_G1", 13),
    ("deserialization_G2", 15),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/bls")
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("a hex string");
    hex::decode(text.strip_prefix("0x").unwrap_or(text)).expect("hex digits")
}

fn unhex_list(value: &Value) -> Vec<Vec<u8>> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(unhex)
        .collect()
}

fn hexed<const N: usize>(result: Result<[u8; N], alphorn_bls::BlsError>) -> Value {
    result.map_or(Value::Null, |bytes| {
        format!("0x{}", hex::encode(bytes)).into()
    })
}

/// The coordinates of an uncompressed point, each as `0x..`; of two halves as `c0,c1`.
fn coordinates(bytes: &[u8]) -> Value {
    let (x, y) = bytes.split_at(bytes.len() / 2);
    let coordinate = |bytes: &[u8]| {
        let parts: Vec<String> = bytes
            .chunks(48)
            .rev()
            .map(|part| format!("0x{}", hex::encode(part)))
            .collect();
        parts.join(",")
    };
    serde_json::json!({ "x": coordinate(x), "y": coordinate(y) })
}

fn run(category: &str, input: &Value) -> Value {
    let field = |name: &str| unhex(&input[name]);
    let list = |name: &str| unhex_list(&input[name]);
    match category {
        "sign" => hexed(bytes::sign(&field("privkey"), &field("message"))),
        "verify" => bytes::verify(&field("pubkey"), &field("message"), &field("signature")).into(),
        "aggregate" => hexed(bytes::aggregate(&unhex_list(input))),
        "aggregate_verify" => {
            bytes::aggregate_verify(&list("pubkeys"), &list("messages"), &field("signature")).into()
        }
        "fast_aggregate_verify" => {
            bytes::fast_aggregate_verify(&list("pubkeys"), &field("message"), &field("signature"))
                .into()
        }
        "batch_verify" => {
            let sets = (list("pubkeys"), list("messages"), list("signatures"));
            bytes::batch_verify(&sets.0, &sets.1, &sets.2, &Rlc::reproducible()).into()
        }
        "hash_to_G1" | "hash_to_G2" => hash(category, input),
        "deserialization_G1" => decode_g1(&field("pubkey")).is_ok().into(),
        "deserialization_G2" => decode_g2(&field("signature")).is_ok().into(),
        other => panic!("no category {other}"),
    }
}

fn hash(category: &str, input: &Value) -> Value {
    let message = input["msg"].as_str().unwrap().as_bytes();
    // Official files leave the tag out: it is that of RFC 9380.
    let group = category.strip_prefix("hash_to_").unwrap();
    let usual = format!("QUUX-V01-CS02-with-BLS12381{group}_XMD:SHA-256_SSWU_RO_");
    let tag = input["dst"].as_str().unwrap_or(&usual).as_bytes();
    match group {
        "G1" => coordinates(&encode_g1_uncompressed(&hash_to_g1(message, tag))),
        _ => coordinates(&encode_g2_uncompressed(&hash_to_g2(message, tag))),
    }
}

#[test]
fn every_vector_gives_its_answer() {
    for (category, least) in CATEGORIES {
        let mut count = 0;
        for entry in std::fs::read_dir(folder().join(category)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let case: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                run(category, &case["input"]),
                case["output"],
                "{}",
                path.display()
            );
            count += 1;
        }
        assert!(
            count >= least,
            "{category}: {count} cases, the official suite has {least}"
        );
    }
}

#[test]
fn eth_fast_aggregate_verify_differs_in_the_empty_list_alone() {
    let mut infinity = [0; 96];
    infinity[0] = 0xc0;
    let none: [Vec<u8>; 0] = [];
    assert!(bytes::eth_fast_aggregate_verify(&none, b"m", &infinity));
    assert!(!bytes::eth_fast_aggregate_verify(&none, b"m", &[0; 96]));
    for entry in std::fs::read_dir(folder().join("fast_aggregate_verify")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let case: Value = serde_json::from_str(&text).unwrap();
        let input = &case["input"];
        let (keys, message) = (unhex_list(&input["pubkeys"]), unhex(&input["message"]));
        if !keys.is_empty() {
            let answer =
                bytes::eth_fast_aggregate_verify(&keys, &message, &unhex(&input["signature"]));
            assert_eq!(Value::from(answer), case["output"]);
        }
    }
}

#[test]
fn real_keys_of_mainnet_decode_and_pass() {
    let path = folder().join("../mainnet-genesis-keys/pubkeys.bin");
    let file = std::fs::read(path).unwrap();
    let (keys, rest) = file.as_chunks::<48>();
    assert_eq!((keys.len(), rest.len()), (21_063, 0));
    let rlc = Rlc::new([1; 32], alphorn_bls::RlcBits::Bits64);
    let registry = alphorn_bls::Registry::from_proven(keys, &rlc, Exec::serial()).unwrap();
    for (key, encoded) in registry.keys().iter().zip(keys).step_by(17) {
        assert_eq!(key.to_bytes(), *encoded);
        assert_eq!(alphorn_bls::key_validate(encoded), Ok(*key));
    }
}
