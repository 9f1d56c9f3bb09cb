//! The known answers of `vectors/bls` on every kernel, each among others so that the lanes take it.

use std::path::{Path, PathBuf};

use alphorn_bls::{
    G2Affine, KERNELS, POP_DST, PublicKey, Rlc, SIGNATURE_DST, Signature, decode_public_keys,
    decode_signatures, encode_g2, encode_g2_uncompressed, hash_many_to_g2, hash_to_g2,
};
use alphorn_exec::{Backend, Exec};
use serde_json::Value;

/// The cases of a category: file name, input, output.
fn cases(category: &str) -> Vec<(PathBuf, Value, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/bls");
    let files = std::fs::read_dir(folder.join(category)).unwrap();
    let mut out: Vec<_> = files
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let mut case: Value = serde_json::from_str(&text).unwrap();
            (path, case["input"].take(), case["output"].take())
        })
        .collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("a hex string");
    hex::decode(text.strip_prefix("0x").unwrap_or(text)).expect("hex digits")
}

/// A coordinate as the vectors write it: c0 and c1 of an uncompressed form that has c1 first.
fn coordinate(bytes: &[u8]) -> String {
    let (c1, c0) = bytes.split_at(48);
    format!("0x{},0x{}", hex::encode(c0), hex::encode(c1))
}

#[test]
fn vectors_of_rfc_9380_hash_to_their_points_in_lanes() {
    let cases = cases("hash_to_G2");
    assert!(cases.len() >= 5);
    let tag = "QUUX-V01-CS02-with-BLS12381G2_XMD:SHA-256_SSWU_RO_";
    for backend in KERNELS.available() {
        // Each message several times, so that it comes to several lanes.
        let repeated: Vec<_> = cases.iter().cycle().take(7 * cases.len()).collect();
        let messages: Vec<&str> = repeated
            .iter()
            .map(|(_, input, _)| input["msg"].as_str().unwrap())
            .collect();
        let points = hash_many_to_g2(&messages, tag.as_bytes(), Exec::new(backend, None));
        for ((path, input, output), point) in repeated.into_iter().zip(points) {
            assert_eq!(input["dst"].as_str().unwrap_or(tag), tag);
            let bytes = encode_g2_uncompressed(&point);
            let (x, y) = bytes.split_at(96);
            let found = serde_json::json!({ "x": coordinate(x), "y": coordinate(y) });
            assert_eq!(found, *output, "{backend}, {}", path.display());
        }
    }
}

/// Every encoding of the vectors in every lane, beside itself and beside good ones.
#[test]
fn vectors_of_encodings_have_their_verdicts_in_lanes() {
    let rlc = Rlc::reproducible();
    for backend in KERNELS.available() {
        for (category, field) in [
            ("deserialization_G1", "pubkey"),
            ("deserialization_G2", "signature"),
        ] {
            let cases = cases(category);
            assert!(cases.len() >= 13);
            for shift in 0..16 {
                let order = || cases.iter().cycle().skip(shift).take(cases.len() + 16);
                let encoded: Vec<Vec<u8>> =
                    order().map(|(_, input, _)| unhex(&input[field])).collect();
                let good: Vec<bool> = if category == "deserialization_G1" {
                    let keys = decode_public_keys(&encoded, &rlc, Exec::new(backend, None));
                    let alone = encoded.iter().map(|bytes| PublicKey::from_bytes(bytes));
                    assert!(keys.iter().copied().eq(alone), "{backend}");
                    keys.iter().map(Result::is_ok).collect()
                } else {
                    let points = decode_signatures(&encoded, &rlc, Exec::new(backend, None));
                    let alone = encoded.iter().map(|bytes| Signature::from_bytes(bytes));
                    assert!(points.iter().copied().eq(alone), "{backend}");
                    points.iter().map(Result::is_ok).collect()
                };
                for ((path, _, output), good) in order().zip(good) {
                    // The suite allows the identity, which is no key.
                    let identity = path.to_string_lossy().contains("infinity_with_true");
                    if category == "deserialization_G2" || !identity {
                        assert_eq!(Value::from(good), *output, "{backend}, {}", path.display());
                    }
                }
            }
        }
    }
}

/// No tag, no message and no count changes a point.
#[test]
fn counts_that_do_not_fill_the_lanes_hash_alike() {
    for count in [0, 1, 7, 8, 15, 16, 17, 31, 40] {
        let messages: Vec<Vec<u8>> = (0..count).map(|i| vec![i as u8; i]).collect();
        for tag in [SIGNATURE_DST, POP_DST] {
            let expected: Vec<G2Affine> = messages.iter().map(|m| hash_to_g2(m, tag)).collect();
            for backend in KERNELS.available() {
                let found = hash_many_to_g2(&messages, tag, Exec::new(backend, None));
                assert_eq!(found, expected, "{backend}, {count}");
            }
        }
    }
}

/// Signatures that decode are bytes that encode to themselves.
#[test]
fn decoding_on_threads_keeps_the_order() {
    let messages: Vec<[u8; 2]> = (0..300u16).map(u16::to_le_bytes).collect();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    let exec = Exec::new(Backend::Portable, Some(&pool));
    for backend in KERNELS.available() {
        let points = hash_many_to_g2(&messages, SIGNATURE_DST, exec.on(backend));
        let mut encoded: Vec<[u8; 96]> = points.iter().map(encode_g2).collect();
        encoded[77][0] ^= 0x80;
        let rlc = Rlc::reproducible();
        let decoded = decode_signatures(&encoded, &rlc, exec.on(backend));
        for (i, (decoded, bytes)) in decoded.iter().zip(&encoded).enumerate() {
            match decoded {
                Ok(signature) => assert_eq!(signature.to_bytes(), *bytes),
                Err(_) => assert_eq!(i, 77),
            }
        }
    }
}
