//! Secret keys, signatures and proofs of possession of BLS12-381, as in Ethereum's consensus layer.
//!
//! A secret key is 32 bytes in big-endian order; the caller wipes them. Messages are of any
//! length.

use alphorn_bls::{InteropKey, SecretKey};

pub use alphorn_bls::bytes::{
    aggregate_public_keys as sum_public_keys, fast_aggregate_verify, pop_prove, pop_verify,
    public_key, sign, verify,
};
pub use alphorn_bls::{
    KEY_MATERIAL_BYTES_MIN, PUBLIC_KEY_BYTES, SECRET_KEY_BYTES, SIGNATURE_BYTES,
};

use crate::Error;

/// Derives a secret key from keying material that is secret and at least 32 bytes long (`KeyGen` of the draft).
///
/// # Errors
/// [`crate::Code::Argument`] for shorter material.
pub fn key_gen(material: &[u8]) -> Result<[u8; SECRET_KEY_BYTES], Error> {
    Ok(SecretKey::key_gen(material)?.to_bytes())
}

/// The secret key for a number, which anyone can compute: for tests and devnets.
pub fn interop_secret_key(index: u64) -> [u8; SECRET_KEY_BYTES] {
    InteropKey::new(index).to_secret_key().to_bytes()
}

/// Sums signatures, which gives the aggregate of their signers: 96 bytes each, concatenated.
///
/// # Errors
/// [`crate::Code::Argument`] if there are none or the length is wrong, [`crate::Code::Decode`] if one does not
/// decode.
pub fn aggregate(signatures: &[u8]) -> Result<[u8; SIGNATURE_BYTES], Error> {
    let (signatures, rest) = signatures.as_chunks::<SIGNATURE_BYTES>();
    if !rest.is_empty() {
        let got = SIGNATURE_BYTES * signatures.len() + rest.len();
        return Err(Error::length("signatures", got, "a multiple of 96"));
    }
    Ok(alphorn_bls::bytes::aggregate(signatures)?)
}
