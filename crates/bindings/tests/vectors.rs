//! Proofs that are kept: `vectors/proofs/leaf.json` and `merged.json`, which every binding must verify as they are.
//!
//! `ALPHORN_WRITE_VECTORS=1` makes them anew, where the proofs of this version have other bytes (`just vectors`).

use std::path::{Path, PathBuf};

use alphorn_bindings::proofs::{Members, Part, preset_of};
use alphorn_bindings::xmss::{Key, Marks, Purpose, Set};
use alphorn_bindings::{Code, Context, Error};
use serde_json::{Value, json};

const SET: Set = Set::Compact;
const SLOT: u32 = 5;
const KEYS: u32 = 16;
/// Who signed in each of the two proofs that are merged: they overlap in two.
const PARTS: [&[u32]; 2] = [&[0, 1, 2, 5, 6, 9, 12], &[5, 7, 8, 12, 13, 15]];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vectors/proofs")
        .join(name)
}

fn context() -> Context {
    Context::with_secret(1, [7; 32]).unwrap()
}

fn message() -> [u8; 32] {
    std::array::from_fn(|i| i as u8)
}

fn bitfield(positions: &[u32]) -> Vec<u8> {
    let mut bits = vec![0; KEYS.div_ceil(8) as usize];
    for &position in positions {
        bits[position as usize / 8] |= 1 << (position % 8);
    }
    bits
}

/// A proof with all that its verifier must know.
struct Vector {
    number: u32,
    keys: Vec<u8>,
    slot: u32,
    message: Vec<u8>,
    signers: Vec<u8>,
    proof: Vec<u8>,
}

impl Vector {
    fn write(&self, name: &str, key_bytes: usize) {
        let keys: Vec<String> = self.keys.chunks(key_bytes).map(hex::encode).collect();
        let value = json!({
            "set": "compact", "preset": "fast", "number": self.number, "keys": keys, "slot": self.slot,
            "message": hex::encode(&self.message), "signers": hex::encode(&self.signers),
            "proof": hex::encode(&self.proof),
        });
        std::fs::create_dir_all(path("")).unwrap();
        std::fs::write(
            path(name),
            format!("{}\n", serde_json::to_string_pretty(&value).unwrap()),
        )
        .unwrap();
    }

    fn read(name: &str) -> Vector {
        let text = std::fs::read_to_string(path(name)).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&value["set"], &value["preset"]),
            (&json!("compact"), &json!("fast"))
        );
        let bytes = |value: &Value| hex::decode(value.as_str().unwrap()).unwrap();
        let number = |name: &str| value[name].as_u64().unwrap().try_into().unwrap();
        Vector {
            number: number("number"),
            keys: value["keys"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(bytes)
                .collect(),
            slot: number("slot"),
            message: bytes(&value["message"]),
            signers: bytes(&value["signers"]),
            proof: bytes(&value["proof"]),
        }
    }

    fn members(&self) -> Members {
        Members::new(
            &context(),
            SET,
            preset_of(1).unwrap(),
            &self.keys,
            self.number,
        )
        .unwrap()
    }

    fn verified(&self, members: &Members) -> Result<(), Error> {
        members.verify(self.slot, &self.message, &self.signers, &self.proof)
    }
}

/// Makes the files.
fn write() {
    let context = Context::with_secret(0, [7; 32]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (mut keys, mut signatures) = (Vec::new(), Vec::new());
    for validator in 0..KEYS {
        let active = SLOT.into()..u64::from(SLOT) + 1;
        let key = Key::interop(&context, SET, Purpose::Vote, validator, active).unwrap();
        let marks = folder.path().join(validator.to_string());
        let marks = Marks::create(&marks, None, &key, 0).unwrap();
        let permit = marks.reserve(SLOT.into(), 0, &message()).unwrap();
        keys.push(key.public_key());
        signatures.push(key.sign(permit).unwrap());
    }
    let (key_bytes, keys) = (keys[0].len(), keys.concat());
    let members = Members::new(&context, SET, preset_of(1).unwrap(), &keys, 0).unwrap();
    let proofs = PARTS.map(|positions| {
        let own: Vec<u8> = (positions.iter())
            .flat_map(|&position| signatures[position as usize].clone())
            .collect();
        (members.prove(SLOT, &message(), positions, &own, None)).unwrap()
    });
    let signers = PARTS.map(bitfield);
    let parts = [0, 1].map(|i| Part {
        signers: &signers[i],
        proof: &proofs[i],
    });
    let merged = members.merge(SLOT, &message(), &parts, None).unwrap();
    let vector = |signers: Vec<u8>, proof| Vector {
        number: 0,
        keys: keys.clone(),
        slot: SLOT,
        message: message().to_vec(),
        signers,
        proof,
    };
    let union: Vec<u8> = signers[0]
        .iter()
        .zip(&signers[1])
        .map(|(a, b)| a | b)
        .collect();
    let [first, _] = proofs;
    vector(signers[0].clone(), first).write("leaf.json", key_bytes);
    vector(union, merged).write("merged.json", key_bytes);
}

#[test]
fn proofs_that_are_kept_hold_and_nothing_else_does() {
    if std::env::var_os("ALPHORN_WRITE_VECTORS").is_some() {
        write();
    }
    let signers = [bitfield(PARTS[0]), bitfield(&PARTS.concat())];
    for (name, signers) in ["leaf.json", "merged.json"].into_iter().zip(signers) {
        let good = Vector::read(name);
        let statement = (good.slot, &good.message[..], &good.signers);
        assert_eq!(statement, (SLOT, &message()[..], &signers), "{name}");
        let members = good.members();
        let held = good.verified(&members);
        assert_eq!(held, Ok(()), "{name}: `just vectors` makes it anew");

        let changed = |change: fn(&mut Vector)| {
            let mut other = Vector::read(name);
            change(&mut other);
            let refused = other.verified(&members).unwrap_err();
            (refused.code(), refused.to_string())
        };
        let cases = [
            changed(|other| other.slot += 1),
            changed(|other| other.message[31] ^= 1),
            changed(|other| other.signers[1] ^= 0x40),
            changed(|other| {
                let at = other.proof.len() / 2;
                other.proof[at] ^= 1;
            }),
        ];
        for (code, text) in cases {
            assert!(
                matches!(code, Code::Invalid | Code::Decode),
                "{name}: {text}"
            );
        }
        let (code, text) = changed(|other| other.proof.truncate(100));
        assert_eq!(code, Code::Decode, "{name}: {text}");
        let mut other = Vector::read(name);
        other.number += 1;
        let refused = other.verified(&other.members()).unwrap_err();
        assert_eq!(refused.code(), Code::Invalid, "{name}: {refused}");
    }
}
