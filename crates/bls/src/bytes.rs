//! The same functions on bytes, as used by test vectors and foreign callers.
//!
//! Verification returns `false` for anything that does not decode, as the consensus specifications define it.
//! Functions that return a `Result` report what is wrong.

use alphorn_exec::Exec;

use crate::ciphersuite as suite;
use crate::error::{BlsError, DecodeError};
use crate::keys::{ProofOfPossession, PublicKey, SecretKey, Signature};
use crate::rlc::Rlc;
use crate::{PUBLIC_KEY_BYTES, SIGNATURE_BYTES, SignatureSet};

fn decode_keys(keys: &[impl AsRef<[u8]>]) -> Result<Vec<PublicKey>, DecodeError> {
    keys.iter()
        .map(|key| PublicKey::from_bytes(key.as_ref()))
        .collect()
}

/// The public key of a 32-byte big-endian secret key.
///
/// # Errors
/// If the secret key has the wrong length, is zero, or is not below the group order.
pub fn public_key(secret_key: &[u8]) -> Result<[u8; PUBLIC_KEY_BYTES], BlsError> {
    Ok(SecretKey::from_bytes(secret_key)?.public_key().to_bytes())
}

/// Signs a message with a 32-byte big-endian secret key.
///
/// # Errors
/// As [`public_key`].
pub fn sign(secret_key: &[u8], message: &[u8]) -> Result<[u8; SIGNATURE_BYTES], BlsError> {
    Ok(suite::sign(&SecretKey::from_bytes(secret_key)?, message).to_bytes())
}

/// Verifies one signature.
pub fn verify(public_key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    match (
        PublicKey::from_bytes(public_key),
        Signature::from_bytes(signature),
    ) {
        (Ok(key), Ok(signature)) => suite::verify(&key, message, &signature),
        _ => false,
    }
}

/// Sums signatures.
///
/// # Errors
/// [`BlsError::Empty`] if there are none; [`BlsError::Decode`] if one does not decode.
pub fn aggregate(signatures: &[impl AsRef<[u8]>]) -> Result<[u8; SIGNATURE_BYTES], BlsError> {
    let decoded: Result<Vec<_>, _> = signatures
        .iter()
        .map(|signature| Signature::from_bytes(signature.as_ref()))
        .collect();
    Ok(suite::aggregate(&decoded?)?.to_bytes())
}

/// Sums public keys.
///
/// # Errors
/// [`BlsError::Empty`] if there are none; [`BlsError::Decode`] if one does not decode or the keys cancel.
pub fn aggregate_public_keys(
    keys: &[impl AsRef<[u8]>],
) -> Result<[u8; PUBLIC_KEY_BYTES], BlsError> {
    Ok(suite::aggregate_public_keys(&decode_keys(keys)?)?.to_bytes())
}

/// Verifies an aggregate with one message per key.
pub fn aggregate_verify(
    public_keys: &[impl AsRef<[u8]>],
    messages: &[impl AsRef<[u8]>],
    signature: &[u8],
) -> bool {
    let messages: Vec<&[u8]> = messages.iter().map(AsRef::as_ref).collect();
    match (decode_keys(public_keys), Signature::from_bytes(signature)) {
        (Ok(keys), Ok(signature)) => suite::aggregate_verify(&keys, &messages, &signature),
        _ => false,
    }
}

/// Verifies an aggregate of one message.
pub fn fast_aggregate_verify(
    public_keys: &[impl AsRef<[u8]>],
    message: &[u8],
    signature: &[u8],
) -> bool {
    match (decode_keys(public_keys), Signature::from_bytes(signature)) {
        (Ok(keys), Ok(signature)) => suite::fast_aggregate_verify(&keys, message, &signature),
        _ => false,
    }
}

/// Like [`fast_aggregate_verify`], but also true for no keys with the signature at infinity.
pub fn eth_fast_aggregate_verify(
    public_keys: &[impl AsRef<[u8]>],
    message: &[u8],
    signature: &[u8],
) -> bool {
    match (decode_keys(public_keys), Signature::from_bytes(signature)) {
        (Ok(keys), Ok(signature)) => suite::eth_fast_aggregate_verify(&keys, message, &signature),
        _ => false,
    }
}

/// Verifies signatures of one key each in one test. False for unequal lengths, true for an empty list.
pub fn batch_verify(
    public_keys: &[impl AsRef<[u8]>],
    messages: &[impl AsRef<[u8]>],
    signatures: &[impl AsRef<[u8]>],
    rlc: &Rlc,
) -> bool {
    if public_keys.len() != messages.len() || messages.len() != signatures.len() {
        return false;
    }
    let sets: Result<Vec<SignatureSet<'_>>, DecodeError> = public_keys
        .iter()
        .zip(messages)
        .zip(signatures)
        .map(|((key, message), signature)| {
            Ok(SignatureSet {
                key: PublicKey::from_bytes(key.as_ref())?,
                message: message.as_ref(),
                signature: Signature::from_bytes(signature.as_ref())?,
            })
        })
        .collect();
    sets.is_ok_and(|sets| crate::verify_sets(&sets, rlc, Exec::serial()))
}

/// Proves possession of a 32-byte big-endian secret key.
///
/// # Errors
/// As [`public_key`].
pub fn pop_prove(secret_key: &[u8]) -> Result<[u8; SIGNATURE_BYTES], BlsError> {
    Ok(suite::pop_prove(&SecretKey::from_bytes(secret_key)?).to_bytes())
}

/// Verifies a proof of possession.
pub fn pop_verify(public_key: &[u8], proof: &[u8]) -> bool {
    match (
        PublicKey::from_bytes(public_key),
        ProofOfPossession::from_bytes(proof),
    ) {
        (Ok(key), Ok(proof)) => suite::pop_verify(&key, &proof),
        _ => false,
    }
}
