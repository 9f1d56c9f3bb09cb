//! Vectors of keys, signatures, files and proof headers: what real encoders write and what it means, and bytes
//! with one error each.

use super::{KERNELS, canonical};
use crate::proof::{BundleEntry, Claimed, EvidenceError, Preset, ProofRegistry, Proofs, Signed};
use crate::signature::{BytesError, PublicKey, Signature};
use crate::{KeyFileError, KeyName, Marks, MarksError, Purpose, SecretKey, Set};
use alphorn_exec::Exec;
use alphorn_scheme::{MemoryWatermark, Role, SignItem, Watermark, list};
use alphorn_stark::Fp;
use alphorn_types::support_code::{CellBounds, Reference, SupportCode};
use alphorn_types::{Bitfield, Coding, DecodeError, Slot, Support, Validator};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

#[path = "../../../../vectors/formats/writer.rs"]
mod writer;
use writer::{Vectors, with};

const MESSAGE: [u8; 32] = [0x56; 32];

/// The message of the stored proofs: 0, 1, 2, ...
const KEPT_MESSAGE: [u8; 32] = {
    let mut out = [0; 32];
    let mut i = 0;
    while i < 32 {
        out[i] = i as u8;
        i += 1;
    }
    out
};

/// The relation of the set `compact`.
const RELATION: u8 = 3;

fn exec() -> Exec<'static> {
    Exec::new(KERNELS.measured(), None)
}

fn key(set: Set) -> SecretKey {
    SecretKey::interop(set, Purpose::Vote, 3, 0..8, exec()).unwrap()
}

fn signature(key: &SecretKey) -> Signature {
    let marks = MemoryWatermark::new(4);
    let item = SignItem::new(Validator(3), Role::Vote, MESSAGE);
    key.sign(marks.reserve(Slot(5), &item).unwrap(), exec())
        .unwrap()
}

fn rows(digests: &[[Fp; 8]], count: usize) -> Vec<Vec<u32>> {
    digests
        .iter()
        .map(|digest| canonical(digest, count))
        .collect()
}

/// The class of a decoding error.
fn class(error: &BytesError) -> &'static str {
    match error {
        BytesError::Length { .. } => "length",
        BytesError::Offset { .. } | BytesError::PaddingBits => "canonical",
        BytesError::NotCanonical { .. } => "range",
    }
}

fn class_of_field(error: &DecodeError) -> &'static str {
    match error {
        DecodeError::UnknownTag { .. } => "tag",
        DecodeError::OutOfRange { .. } | DecodeError::NotCanonical { .. } => "range",
        _ => "length",
    }
}

fn class_of_file(error: &KeyFileError) -> &'static str {
    match error {
        KeyFileError::Checksum => "digest",
        KeyFileError::Magic(_) => "tag",
        KeyFileError::Decode(error) => class_of_field(error),
        KeyFileError::Mismatch | KeyFileError::Key(_) => "range",
    }
}

fn keys_and_signatures(out: &mut Vectors) {
    for set in Set::ALL {
        let (params, secret) = (set.params(), key(set));
        let (given, public) = (json!({"set": set.name()}), *secret.public_key());
        let bytes = public.to_bytes();
        let says = json!({
            "root": canonical(&public.root, params.digest),
            "parameter": canonical(&public.parameter, params.parameter),
        });
        let name = format!("public_key.{set}");
        out.valid(&name, "xmss_public_key", &given, &bytes, says);
        for (what, bytes) in [
            ("a byte less", bytes[1..].to_vec()),
            (
                "an element that is p",
                with(&bytes, 8, &alphorn_stark::field::P.to_le_bytes()),
            ),
        ] {
            let error = PublicKey::from_bytes(set, &bytes).expect_err(what);
            let name = format!("{name}: {what}");
            out.refused(&name, "xmss_public_key", &given, &bytes, class(&error));
        }

        let signature = signature(&secret);
        let bytes = signature.to_bytes();
        let says = json!({
            "randomness": canonical(&signature.randomness, params.randomness),
            "hashes": rows(&signature.hashes, params.digest),
            "path": rows(&signature.path, params.digest),
        });
        let name = format!("signature.{set}");
        out.valid(&name, "xmss_signature", &given, &bytes, says);
        let mut wrong = vec![("a byte more", [&bytes[..], &[0]].concat())];
        match set {
            Set::Compact => {
                wrong.push(("an element above p", with(&bytes, 0, &[0xff; 4])));
                let last = bytes.len() - 1;
                wrong.push(("padding", with(&bytes, last, &[bytes[last] | 0x80])));
            }
            Set::Prod | Set::Test => {
                wrong.push(("an element above p", with(&bytes, 4, &[0xff; 4])));
                wrong.push(("an offset", with(&bytes, 0, &[37])));
            }
        }
        for (what, bytes) in wrong {
            let error = Signature::from_bytes(set, &bytes).expect_err(what);
            let name = format!("{name}: {what}");
            out.refused(&name, "xmss_signature", &given, &bytes, class(&error));
        }
    }
}

/// Bytes with the checksum recomputed.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let content = &bytes[..bytes.len() - 32];
    [content, &Sha256::digest(content)].concat()
}

fn files(out: &mut Vectors) {
    let (given, secret) = (json!({}), key(Set::Compact));
    let (secret_file, tree) = (secret.to_secret_file(), secret.to_tree_file());
    let about = json!({"set": "compact", "purpose": "vote", "first": 0, "end": 8});
    let mut says = about.clone();
    says["seed"] = json!(hex::encode(&secret_file[22..54]));
    out.valid("secret", "xmss_secret_file", &given, &secret_file, says);
    let mut wrong = vec![
        ("magic", with(&secret_file, 0, b"AXS2")),
        ("checksum", with(&secret_file, 30, &[secret_file[30] ^ 1])),
        ("set 4", sealed(&with(&secret_file, 4, &[4]))),
        ("purpose 2", sealed(&with(&secret_file, 5, &[2]))),
        (
            "no index",
            sealed(&with(&secret_file, 6, &8_u64.to_le_bytes())),
        ),
        (
            "too many indices",
            sealed(&with(&secret_file, 14, &(1_u64 << 29).to_le_bytes())),
        ),
    ];
    let content = [&secret_file[..54], &[0]].concat();
    wrong.push((
        "a byte more",
        [&content[..], &Sha256::digest(&content)].concat(),
    ));
    for (what, bytes) in wrong {
        let error = SecretKey::from_secret_file(&bytes, exec(), &|_| ());
        let error = error.err().expect(what);
        let name = format!("secret: {what}");
        out.refused(
            &name,
            "xmss_secret_file",
            &given,
            &bytes,
            class_of_file(&error),
        );
    }
    let mut says = about;
    says["parameter"] = json!(canonical(&secret.public_key().parameter, 4));
    says["nodes"] = json!(rows(secret.resident().lowest_row(), 4));
    out.valid("tree", "xmss_tree_file", &given, &tree, says);
    for (what, bytes) in [
        ("magic", with(&tree, 0, b"AXS1")),
        ("checksum", with(&tree, 25, &[tree[25] ^ 1])),
        (
            "an element that is p",
            sealed(&with(&tree, 22, &alphorn_stark::field::P.to_le_bytes())),
        ),
    ] {
        let error = SecretKey::from_files(&bytes, &secret_file, KERNELS.measured());
        let error = error.err().expect(what);
        let name = format!("tree: {what}");
        out.refused(
            &name,
            "xmss_tree_file",
            &given,
            &bytes,
            class_of_file(&error),
        );
    }

    let marks = Marks::new(KeyName::of(&secret.public_key().to_bytes()), Slot(9));
    let bytes = marks.to_bytes();
    let mark = json!({"slot_next": 9, "source_max": 0, "target_max": 0, "last": "00".repeat(32)});
    let says = json!({
        "key": hex::encode(Sha256::digest(secret.public_key().to_bytes())),
        "roles": vec![mark; Role::ALL.len()],
    });
    out.valid("marks", "marks_file", &given, &bytes, says);
    for (what, bytes) in [
        ("magic", with(&bytes, 0, b"AXW2")),
        ("checksum", with(&bytes, 40, &[7])),
        ("a role less", sealed(&bytes[..bytes.len() - 56])),
    ] {
        let class = match Marks::from_bytes(&bytes).expect_err(what) {
            MarksError::Checksum => "digest",
            MarksError::Magic => "tag",
            MarksError::OtherKey => "range",
            MarksError::Decode(error) => class_of_field(&error),
        };
        out.refused(
            &format!("marks: {what}"),
            "marks_file",
            &given,
            &bytes,
            class,
        );
    }
}

fn evidence(out: &mut Vectors) {
    let secret = key(Set::Test);
    let signature = signature(&secret);
    let bytes = [&[list::TAG_LIST], &signature.to_bytes()[..]].concat();
    let given = json!({"set": "test", "signers": 1});
    let says = json!({"tag": 0, "signatures": [Value::from(hex::encode(signature.to_bytes()))]});
    out.valid("evidence.list", "xmss_evidence", &given, &bytes, says);
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("another tag", with(&bytes, 0, &[9])),
        ("a byte less", bytes[..bytes.len() - 1].to_vec()),
    ] {
        let error = list::split(&bytes, 1, 424).err().expect(what);
        let name = format!("evidence.list: {what}");
        out.refused(
            &name,
            "xmss_evidence",
            &given,
            &bytes,
            class_of_field(&error),
        );
    }
    let proofs = Proofs::new(Set::Test, Preset::FAST);
    let registry = proofs
        .registry(exec(), vec![*secret.public_key()], 0)
        .unwrap();
    let signed = Signed {
        position: 0,
        signature: &signature,
    };
    let proof = proofs
        .prove_evidence(exec(), &registry, 5, &MESSAGE, &[signed])
        .unwrap();
    let decoded = proofs.decode(&proof[1..]).unwrap();
    let slices = u16::from_le_bytes([proof[13], proof[14]]);
    let says = json!({"tag": 1, "proofs": [{
        "relation": proof[5],
        "preset": "fast",
        "kind": "leaf",
        "groups": decoded.groups,
        "slices": (0..slices).map(|i| proof[15 + usize::from(i)]).collect::<Vec<u8>>(),
        "elements": decoded.elements.len(),
        "sha256": hex::encode(Sha256::digest(&proof[1..])),
    }]});
    out.valid("evidence.proof", "xmss_evidence", &given, &proof, says);
    merge(out);
    parts(out);
}

/// The header of a leaf over one group, and one element.
fn leaf() -> (Vec<u8>, Value) {
    let shape = [RELATION, 1, 0, 0, 1, 0, 0, 0];
    let proof = [
        &b"AHP3"[..],
        &shape,
        &[1, 0, 0],
        &4_u32.to_le_bytes(),
        &[0x2a, 0, 0, 0],
    ]
    .concat();
    let says = json!({
        "relation": RELATION, "preset": "fast", "kind": "leaf", "groups": 1, "slices": [0], "elements": 1,
        "sha256": hex::encode(Sha256::digest(&proof)),
    });
    (proof, says)
}

/// Signers in two parts, because they are one too many for a single proof. The proofs are headers only: what
/// follows the tag does not depend on whether they hold.
fn parts(out: &mut Vectors) {
    let proofs = Proofs::new(Set::Compact, Preset::FAST);
    let most = |set| Proofs::new(set, Preset::FAST).signatures_max();
    assert_eq!(
        [Set::Compact, Set::Prod, Set::Test].map(most),
        [1472, 1024, 1536]
    );
    let (registry, most) = (proofs.signatures_max() + 8, proofs.signatures_max());
    let bits = |range: std::ops::Range<usize>| {
        let mut bits = Bitfield::new(registry);
        bits.set_range(range);
        bits
    };
    let cells = CellBounds::one(registry as u32);
    let code = SupportCode::new(Coding::Rice, 1, &cells, Reference::None);
    let (proof, proof_says) = leaf();
    let encode = |parts: &[Bitfield]| {
        let mut bytes = vec![list::TAG_PROOFS];
        for signers in parts {
            bytes.extend(code.encode(&Support::from_bits(signers.clone())));
            bytes.extend((proof.len() as u32).to_le_bytes());
            bytes.extend(&proof);
        }
        bytes
    };
    let all = bits(0..most + 1);
    let (low, high) = (bits(0..700), bits(700..most + 1));
    let bytes = encode(&[low.clone(), high.clone()]);
    let found = proofs.evidence_parts(&all, &bytes).unwrap();
    let says: Vec<Value> = found
        .iter()
        .map(|part| {
            assert_eq!(part.proof, &proof[..]);
            let mut says = proof_says.clone();
            says["signers"] = json!(hex::encode(part.signers.to_bytes()));
            says
        })
        .collect();
    let given = json!({
        "set": "compact", "signers": most + 1, "registry": registry, "proof_signers_max": most,
    });
    let says = json!({"tag": 2, "proofs": says});
    out.valid("evidence.proofs", "xmss_evidence", &given, &bytes, says);
    let signers = |part| EvidenceError::Signers { part };
    let (needed, left) = (proof.len(), proof.len() - 1);
    let cut = |part| EvidenceError::Decode {
        part,
        error: DecodeError::Truncated { needed, left },
    };
    let missing = EvidenceError::Missing { missing: 1 };
    for (what, bytes, error, class) in [
        (
            "another order",
            encode(&[high.clone(), low.clone()]),
            signers(1),
            "canonical",
        ),
        (
            "a signer twice",
            encode(&[low.clone(), bits(699..most + 1)]),
            signers(1),
            "range",
        ),
        (
            "a signer missing",
            encode(&[low.clone(), bits(701..most + 1)]),
            missing,
            "range",
        ),
        (
            "more than a proof takes",
            encode(&[all.clone(), high]),
            signers(0),
            "range",
        ),
        (
            "a byte less",
            bytes[..bytes.len() - 1].to_vec(),
            cut(1),
            "length",
        ),
    ] {
        assert_eq!(proofs.evidence_parts(&all, &bytes), Err(error), "{what}");
        let name = format!("evidence.proofs: {what}");
        out.refused(&name, "xmss_evidence", &given, &bytes, class);
    }
}

/// One of the proofs that all bindings verify.
struct Kept {
    registry: ProofRegistry,
    slot: u32,
    signers: Bitfield,
    proof: Vec<u8>,
}

/// Path of the stored proofs.
fn kept_path(name: &str) -> std::path::PathBuf {
    writer::folder().join("../proofs").join(name)
}

impl Kept {
    fn read(proofs: &Proofs, name: &str) -> Self {
        let text = std::fs::read_to_string(kept_path(name)).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let bytes = |value: &Value| hex::decode(value.as_str().unwrap()).unwrap();
        let keys = file["keys"].as_array().unwrap().iter();
        let keys: Vec<PublicKey> = keys
            .map(|key| PublicKey::from_bytes(Set::Compact, &bytes(key)).unwrap())
            .collect();
        assert_eq!(bytes(&file["message"]), KEPT_MESSAGE);
        Self {
            signers: Bitfield::from_bytes(&bytes(&file["signers"]), keys.len()).unwrap(),
            registry: proofs.registry(exec(), keys, 0).unwrap(),
            slot: file["slot"].as_u64().unwrap() as u32,
            proof: bytes(&file["proof"]),
        }
    }

    fn entry(&self) -> BundleEntry<'_> {
        BundleEntry {
            registry: &self.registry,
            claimed: Claimed {
                slot: self.slot,
                message: &KEPT_MESSAGE,
                signers: &self.signers,
            },
        }
    }
}

/// A bundle of both stored proofs: `vectors/proofs/bundle.hex`, which must hold, and its header.
fn bundle(out: &mut Vectors) {
    let proofs = Proofs::new(Set::Compact, Preset::FAST);
    let kept = ["leaf.json", "merged.json"].map(|name| Kept::read(&proofs, name));
    let path = kept_path("bundle.hex");
    if std::env::var_os("ALPHORN_WRITE_VECTORS").is_some() {
        let parts = kept.each_ref().map(|kept| (kept.entry(), &kept.proof[..]));
        let bundle = proofs.bundle(exec(), &parts).unwrap();
        std::fs::write(&path, hex::encode(bundle) + "\n").unwrap();
    }
    let proof = hex::decode(std::fs::read_to_string(&path).unwrap().trim()).unwrap();
    let entries = kept.each_ref().map(Kept::entry);
    assert_eq!(proofs.verify_bundle(exec(), &entries, &proof), Ok(()));
    let shape = proofs.bundle_shape(&proof).unwrap().expect("a bundle");
    let slices = usize::from(u16::from_le_bytes([proof[12], proof[13]]));
    let says = json!({
        "relation": proof[4], "preset": "merge", "kind": "bundle", "level": shape.level,
        "children": ["leaf", "merge"], "slices": &proof[14..14 + slices], "elements": shape.elements,
        "sha256": hex::encode(Sha256::digest(&proof)),
    });
    out.valid("bundle", "xmss_bundle", &json!({}), &proof, says);
}

/// The merged proof that all bindings verify: its header, field by field.
fn merge(out: &mut Vectors) {
    let path = writer::folder().join("../proofs/merged.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let proof = hex::decode(file["proof"].as_str().unwrap()).unwrap();
    let slices = usize::from(u16::from_le_bytes([proof[12], proof[13]]));
    let body = proof.len() - (14 + slices + 4);
    let says = json!({"tag": 3, "proofs": [{
        "relation": proof[4],
        "preset": "merge",
        "kind": "merge",
        "level": 1,
        "children": ["leaf", "leaf"],
        "slices": &proof[14..14 + slices],
        "elements": body * 8 / 31,
        "sha256": hex::encode(Sha256::digest(&proof)),
    }]});
    let given = json!({"set": file["set"], "signers": 11});
    let bytes = [&[list::TAG_MERGE], &proof[..]].concat();
    out.valid("evidence.merge", "xmss_evidence", &given, &bytes, says);
}

#[test]
fn vectors_of_keys_and_evidence_are_what_the_encoders_write() {
    let mut out = Vectors::default();
    keys_and_signatures(&mut out);
    files(&mut out);
    evidence(&mut out);
    bundle(&mut out);
    out.check("xmss.json");
}
