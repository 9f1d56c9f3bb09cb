//! Key and signature vectors: the encoders' output and its meaning, and bytes with one defect each.

use super::*;
use crate::basis::{basis_bytes, numbers, short_bytes};
use crate::{Aggregator, SecretKey, SigningKey, split_salts};
use alphorn_labrador::sis::Profile;
use alphorn_scheme::{MemoryWatermark, Role, SignItem, Watermark, list};
use alphorn_types::{DecodeError as DecodeFieldError, Slot, Validator};
use serde_json::json;

#[path = "../../../../vectors/formats/writer.rs"]
mod writer;
use writer::{Vectors, with};

/// Returns the name used in files.
fn name(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::FnDsa => "fndsa04",
        Flavour::Original => "r3",
        Flavour::Slot => "slot",
    }
}

/// Returns the class of a refusal.
fn class(error: &DecodeError) -> &'static str {
    match error {
        DecodeError::Length { .. } => "length",
        DecodeError::Header { .. } => "tag",
        DecodeError::Residue { .. } | DecodeError::Coefficient { .. } => "range",
        DecodeError::NegativeZero { .. } | DecodeError::Padding => "canonical",
    }
}

/// Returns bytes with one bit of their code changed, in the bit order of a flavour.
fn flipped(flavour: Flavour, bytes: &[u8], bit: usize) -> Vec<u8> {
    let shift = match flavour.is_little_endian() {
        true => bit % 8,
        false => 7 - bit % 8,
    };
    let at = 1 + flavour.salt_bytes() + bit / 8;
    with(bytes, at, &[bytes[at] ^ 1 << shift])
}

fn key(out: &mut Vectors, flavour: Flavour, bytes: &[u8]) {
    let given = json!({"flavour": name(flavour)});
    let numbers = codec::decode_key::<DEGREE>(flavour, bytes).unwrap();
    assert_eq!(codec::encode_key(flavour, &numbers), bytes);
    let title = format!("public_key.{}", name(flavour));
    let says = json!({"numbers": numbers.as_slice()});
    out.valid(&title, "falcon_public_key", &given, bytes, says);
    let mut other = numbers;
    other[3] = crate::MODULUS;
    for (what, wrong) in [
        ("a byte less", bytes[1..].to_vec()),
        ("another degree", with(bytes, 0, &[10])),
        ("a number that is q", codec::encode_key(flavour, &other)),
    ] {
        let error = codec::decode_key::<DEGREE>(flavour, &wrong).expect_err(what);
        let title = format!("{title}: {what}");
        out.refused(&title, "falcon_public_key", &given, &wrong, class(&error));
    }
}

/// The key of an interop validator, which protects nothing.
fn secret_key(out: &mut Vectors, flavour: Flavour, bytes: &[u8]) {
    let given = json!({"flavour": name(flavour)});
    let (basis, digest) = bytes.split_at(basis_bytes(DEGREE));
    let (f, more) = basis[1..].split_at(short_bytes(DEGREE));
    let (g, long) = more.split_at(short_bytes(DEGREE));
    let numbers = |bytes, bits| numbers::<DEGREE>(flavour, bytes, bits).to_vec();
    let short_bits = Parameters::of(DEGREE).short_bits;
    let says = json!({
        "f": numbers(f, short_bits), "g": numbers(g, short_bits), "F": numbers(long, 8),
        "digest": hex::encode(digest),
    });
    let title = format!("secret_key.{}", name(flavour));
    out.valid(&title, "falcon_secret_key", &given, bytes, says);
    for (what, wrong, class) in [
        ("a byte less", bytes[1..].to_vec(), "length"),
        ("another header", with(bytes, 0, &[0x5a]), "tag"),
    ] {
        assert!(
            SigningKey::<DEGREE>::from_bytes(flavour, &wrong).is_err(),
            "{what}"
        );
        let title = format!("{title}: {what}");
        out.refused(&title, "falcon_secret_key", &given, &wrong, class);
    }
}

fn signature(out: &mut Vectors, flavour: Flavour, bytes: &[u8]) {
    let given = json!({"flavour": name(flavour)});
    let (salt, s2) = codec::decode_signature::<DEGREE>(flavour, bytes).unwrap();
    let again = codec::encode_signature(flavour, salt.as_ref(), &s2);
    assert_eq!(again.as_deref(), Some(bytes));
    let title = format!("signature.{}", name(flavour));
    let says = json!({"salt": salt.map(hex::encode), "s2": s2.as_slice()});
    out.valid(&title, "falcon_signature", &given, bytes, says);
    let mut zero = s2;
    zero[5] = 0;
    let zeroed = codec::encode_signature(flavour, salt.as_ref(), &zero).unwrap();
    let before = s2[..5]
        .iter()
        .map(|c| 9 + usize::from(c.unsigned_abs() >> 7));
    let code = 1 + flavour.salt_bytes();
    let last = 8 * (bytes.len() - code) - 1;
    for (what, wrong) in [
        ("a byte more", [bytes, &[0]].concat()),
        ("another header", with(bytes, 0, &[0x49])),
        ("a negative zero", flipped(flavour, &zeroed, before.sum())),
        ("a bit behind the end", flipped(flavour, bytes, last)),
        ("cut off", with(bytes, code + 300, &[0; 300])),
    ] {
        let error = codec::decode_signature::<DEGREE>(flavour, &wrong).expect_err(what);
        let title = format!("{title}: {what}");
        out.refused(&title, "falcon_signature", &given, &wrong, class(&error));
    }
}

/// Evidence of two signers: a list, and their salts followed by a proof.
fn evidence(out: &mut Vectors) {
    let given = json!({"flavour": name(Flavour::FnDsa), "signers": 2});
    let secrets = [3, 4].map(SecretKey::<DEGREE>::interop);
    let signatures = secrets
        .each_ref()
        .map(|secret| secret.sign(b"hello", &[5; 32]));
    let list = [&[list::TAG_LIST][..], &signatures.concat()].concat();
    let says = json!({"tag": 0, "signatures": signatures.each_ref().map(hex::encode)});
    out.valid("evidence.list", "falcon_evidence", &given, &list, says);
    let mut refused = |what: &str, bytes: &[u8], class| {
        let name = format!("evidence: {what}");
        out.refused(&name, "falcon_evidence", &given, bytes, class);
    };
    let split = |bytes: &[u8]| {
        list::split(bytes, 2, SIGNATURE_BYTES)
            .map(|_| ())
            .unwrap_err()
    };
    for (what, bytes) in [
        ("nothing", &list[..0]),
        ("a list cut off", &list[..list.len() - 1]),
    ] {
        assert!(
            matches!(split(bytes), DecodeFieldError::Truncated { .. }),
            "{what}"
        );
        refused(what, bytes, "length");
    }
    let merge = with(&list, 0, &[list::TAG_MERGE]);
    assert!(matches!(split(&merge), DecodeFieldError::UnknownTag { .. }));
    refused("the tag of a merge", &merge, "tag");

    let items: Vec<Item<'_>> = (secrets.iter().zip(&signatures))
        .map(|(secret, signature)| item(secret.public(), b"hello", signature))
        .collect();
    let aggregator = Aggregator::new(2, Profile::Core128, KERNELS.measured()).unwrap();
    let (salts, proof) = aggregator.prove(&items, b"context").unwrap();
    let bytes = [&[list::TAG_PROOF][..], salts.as_flattened(), &proof].concat();
    let (read, rest) = split_salts(Flavour::FnDsa, 2, &bytes[1..]).unwrap();
    let read: Vec<String> = read.into_iter().flatten().map(hex::encode).collect();
    assert_eq!((rest, read.len()), (&proof[..], 2));
    let cut = &bytes[..1 + salts.as_flattened().len() - 1];
    assert!(split_salts(Flavour::FnDsa, 2, &cut[1..]).is_none());
    refused("salts cut off", cut, "length");
    let digest = <sha2::Sha256 as sha2::Digest>::digest(&proof);
    let says = json!({
        "tag": 1, "salts": read, "proof": {"bytes": proof.len(), "sha256": hex::encode(digest)},
    });
    out.valid("evidence.proof", "falcon_evidence", &given, &bytes, says);
}

#[test]
fn formats_are_those_of_the_vectors() {
    let mut out = Vectors::default();
    for flavour in Flavour::ALL {
        let secret = SigningKey::<DEGREE>::interop(flavour, 3);
        key(&mut out, flavour, secret.public().bytes());
        secret_key(&mut out, flavour, secret.bytes());
        let marks = MemoryWatermark::new(4);
        let item = SignItem::new(Validator(3), Role::Vote, [0x56; 32]);
        let permit = marks.reserve(Slot(5), &item).unwrap();
        signature(&mut out, flavour, &secret.sign(permit, &[0; 32]).unwrap());
    }
    evidence(&mut out);
    out.check("falcon.json");
}
