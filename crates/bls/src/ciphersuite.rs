//! The functions of `draft-irtf-cfrg-bls-signature` in the ciphersuite of Ethereum's consensus
//! specifications: minimal public keys, hash to G2, proofs of possession.

use alphorn_exec::Exec;

use crate::blst_ffi::curve::{G1Affine, G2Affine};
use crate::blst_ffi::pairing::{self, pairing_product};
use crate::blst_ffi::points::{g1, g2};
use crate::error::{BlsError, DecodeError};
use crate::keys::{ProofOfPossession, PublicKey, SecretKey, Signature};
use crate::lanes;

/// Domain separation tag of signatures.
pub const SIGNATURE_DST: &[u8] = b"BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_";
/// Domain separation tag of proofs of possession.
pub const POP_DST: &[u8] = b"BLS_POP_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_";

/// `hash_to_curve` of RFC 9380, suite `BLS12381G2_XMD:SHA-256_SSWU_RO_`, with any tag.
pub fn hash_to_g2(message: &[u8], dst: &[u8]) -> G2Affine {
    pairing::hash_to_g2(message, dst)
}

/// [`hash_to_g2`] for many messages on a kernel; gives the same points.
pub fn hash_many_to_g2<B: AsRef<[u8]> + Sync>(
    messages: &[B],
    dst: &[u8],
    exec: Exec<'_>,
) -> Vec<G2Affine> {
    lanes::hash_to_g2(messages, dst, exec)
}

/// `hash_to_curve` of RFC 9380, suite `BLS12381G1_XMD:SHA-256_SSWU_RO_`, with any tag.
pub fn hash_to_g1(message: &[u8], dst: &[u8]) -> G1Affine {
    pairing::hash_to_g1(message, dst)
}

/// `KeyValidate`: 48 bytes that decode to a point of G1 other than the identity.
///
/// # Errors
/// If the bytes do not encode such a point.
pub fn key_validate(public_key: &[u8]) -> Result<PublicKey, DecodeError> {
    PublicKey::from_bytes(public_key)
}

/// Signs a message; constant time in the secret key.
pub fn sign(secret_key: &SecretKey, message: &[u8]) -> Signature {
    sign_hash(secret_key, &hash_to_g2(message, SIGNATURE_DST))
}

/// Signs a message by its hash; constant time in the secret key.
pub(crate) fn sign_hash(secret_key: &SecretKey, hash: &G2Affine) -> Signature {
    Signature::from_point(secret_key.scalar().sign(hash))
}

/// Returns whether e(key, hash) = e(g1, signature); a key at infinity never verifies.
pub(crate) fn core_verify(key: &G1Affine, hash: &G2Affine, signature: &G2Affine) -> bool {
    // The infinite signature would verify every message under it.
    if key.is_infinity() {
        return false;
    }
    let minus_generator = g1::generator().neg();
    pairing_product(&[(*key, *hash), (minus_generator, *signature)]).is_one()
}

/// Verifies one signature of one key.
pub fn verify(public_key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    core_verify(
        public_key.point(),
        &hash_to_g2(message, SIGNATURE_DST),
        signature.point(),
    )
}

/// Sums signatures.
///
/// # Errors
/// [`BlsError::Empty`] for an empty list, as the draft and the consensus specifications say.
pub fn aggregate(signatures: &[Signature]) -> Result<Signature, BlsError> {
    if signatures.is_empty() {
        return Err(BlsError::Empty);
    }
    let points: Vec<&G2Affine> = signatures.iter().map(Signature::point).collect();
    Ok(Signature::from_point(g2::sum_bulk(&points)))
}

/// Sums public keys (`eth_aggregate_pubkeys`).
///
/// # Errors
/// [`BlsError::Empty`] for an empty list; [`DecodeError::Infinity`] if the keys cancel.
pub fn aggregate_public_keys(public_keys: &[PublicKey]) -> Result<PublicKey, BlsError> {
    if public_keys.is_empty() {
        return Err(BlsError::Empty);
    }
    Ok(PublicKey::from_point(sum_keys(public_keys))?)
}

fn sum_keys(public_keys: &[PublicKey]) -> G1Affine {
    let points: Vec<&G1Affine> = public_keys.iter().map(PublicKey::point).collect();
    g1::sum_bulk(&points)
}

/// Verifies an aggregate of one message per key; `false` for empty lists and unequal lengths.
///
/// Messages may repeat, because this ciphersuite proves possession of the keys. As in the draft
/// (`CoreAggregateVerify`), keys of one message that cancel verify with a signature at infinity: an owner of
/// both P and -P has signed nothing with the pair.
pub fn aggregate_verify(
    public_keys: &[PublicKey],
    messages: &[&[u8]],
    signature: &Signature,
) -> bool {
    if public_keys.is_empty() || public_keys.len() != messages.len() {
        return false;
    }
    let mut pairs: Vec<(G1Affine, G2Affine)> = public_keys
        .iter()
        .zip(messages)
        .map(|(key, message)| (*key.point(), hash_to_g2(message, SIGNATURE_DST)))
        .collect();
    pairs.push((g1::generator().neg(), *signature.point()));
    pairing_product(&pairs).is_one()
}

/// Verifies an aggregate of one message signed by all keys; `false` for an empty list and for keys
/// whose sum is the identity.
pub fn fast_aggregate_verify(
    public_keys: &[PublicKey],
    message: &[u8],
    signature: &Signature,
) -> bool {
    if public_keys.is_empty() {
        return false;
    }
    let hash = hash_to_g2(message, SIGNATURE_DST);
    core_verify(&sum_keys(public_keys), &hash, signature.point())
}

/// Like [`fast_aggregate_verify`], but also true for no keys with the signature at infinity
/// (`eth_fast_aggregate_verify` of the Altair specification; Horn does not use it).
pub fn eth_fast_aggregate_verify(
    public_keys: &[PublicKey],
    message: &[u8],
    signature: &Signature,
) -> bool {
    if public_keys.is_empty() {
        return signature.is_infinity();
    }
    fast_aggregate_verify(public_keys, message, signature)
}

/// Proves possession of a secret key; constant time in the key.
pub fn pop_prove(secret_key: &SecretKey) -> ProofOfPossession {
    // A tag of its own: no signature of a message is a proof, and no proof a signature.
    let hash = hash_to_g2(&secret_key.public_key().to_bytes(), POP_DST);
    ProofOfPossession(Signature::from_point(secret_key.scalar().sign(&hash)))
}

/// Verifies a proof of possession.
pub fn pop_verify(public_key: &PublicKey, proof: &ProofOfPossession) -> bool {
    let hash = hash_to_g2(&public_key.to_bytes(), POP_DST);
    core_verify(public_key.point(), &hash, proof.0.point())
}
