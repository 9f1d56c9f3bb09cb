//! Keys, signatures and proofs of possession with their strict encodings.

use core::fmt;

use crate::blst_ffi::curve::{G1Affine, G2Affine};
use crate::blst_ffi::points::{g1, g2};
use crate::blst_ffi::scalar::SecretScalar;
use crate::error::{BlsError, DecodeError};

/// Size of a secret key in bytes.
pub const SECRET_KEY_BYTES: usize = 32;
/// Size of a compressed public key in bytes.
pub const PUBLIC_KEY_BYTES: usize = g1::COMPRESSED_BYTES;
/// Size of a compressed signature in bytes.
pub const SIGNATURE_BYTES: usize = g2::COMPRESSED_BYTES;
/// Minimum size in bytes of the keying material for `KeyGen` of the IETF draft.
pub const KEY_MATERIAL_BYTES_MIN: usize = 32;

/// Converts a slice to an array of the encoding's length.
fn sized<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], DecodeError> {
    bytes.try_into().map_err(|_| DecodeError::Length {
        got: bytes.len(),
        expected: N,
    })
}

/// A secret key: a scalar in 1 .. r.
///
/// It is wiped when dropped, and implements neither `Clone` nor printing. Key derivation, public keys and
/// signatures go through blst's constant-time paths; values of this type never reach a `vartime_` function.
pub struct SecretKey(
    /// Boxed, so that moving the key, for instance into a map, leaves no copy behind.
    Box<SecretScalar>,
);

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

impl SecretKey {
    /// `KeyGen` of the IETF draft (`draft-irtf-cfrg-bls-signature`, version 4 and later) with empty
    /// `key_info`, from at least 32 bytes of secret, uniformly random material.
    ///
    /// # Errors
    /// [`BlsError::KeyMaterial`] for shorter material.
    pub fn key_gen(material: &[u8]) -> Result<SecretKey, BlsError> {
        if material.len() < KEY_MATERIAL_BYTES_MIN {
            return Err(BlsError::KeyMaterial {
                got: material.len(),
                min: KEY_MATERIAL_BYTES_MIN,
            });
        }
        Ok(SecretKey(Box::new(SecretScalar::key_gen(material))))
    }

    /// Decodes a secret key from 32 big-endian bytes.
    ///
    /// # Errors
    /// If the length is wrong, or the value is zero or not below the group order.
    pub fn from_bytes(bytes: &[u8]) -> Result<SecretKey, DecodeError> {
        let scalar = SecretScalar::from_be_bytes(sized(bytes)?)?;
        Ok(SecretKey(Box::new(scalar)))
    }

    /// Encodes the key as 32 big-endian bytes; the caller wipes them.
    pub fn to_bytes(&self) -> [u8; SECRET_KEY_BYTES] {
        self.0.to_be_bytes()
    }

    /// The public key sk * g1.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.public_key())
    }

    pub(crate) fn scalar(&self) -> &SecretScalar {
        &self.0
    }
}

/// A public key: a point of G1 that is not the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(G1Affine);

impl PublicKey {
    /// Decodes a public key from 48 compressed bytes: `KeyValidate` of the IETF draft.
    ///
    /// # Errors
    /// Any malformed or non-canonical encoding, a point off the curve or outside G1, the identity.
    pub fn from_bytes(bytes: &[u8]) -> Result<PublicKey, DecodeError> {
        PublicKey::from_point(decode_g1(bytes)?)
    }

    /// Encodes the key as 48 compressed bytes.
    pub fn to_bytes(&self) -> [u8; PUBLIC_KEY_BYTES] {
        g1::compress(&self.0)
    }

    /// The point.
    pub fn point(&self) -> &G1Affine {
        &self.0
    }

    /// Wraps a point that is known to be in G1, for instance a sum of keys.
    ///
    /// # Errors
    /// If the point is the identity.
    pub(crate) fn from_point(point: G1Affine) -> Result<PublicKey, DecodeError> {
        if point.is_infinity() {
            Err(DecodeError::Infinity)
        } else {
            Ok(PublicKey(point))
        }
    }
}

/// A signature: a point of G2.
///
/// The identity is representable, because aggregation and `eth_fast_aggregate_verify` of the consensus
/// specifications need it. No verification under a single key or a single sum of keys accepts it.
/// [`crate::aggregate_verify`] follows the draft and accepts it when the keys of each message cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature(G2Affine);

impl Signature {
    /// Decodes a signature from 96 compressed bytes and checks the subgroup.
    ///
    /// # Errors
    /// Any malformed or non-canonical encoding, a point off the curve or outside G2.
    pub fn from_bytes(bytes: &[u8]) -> Result<Signature, DecodeError> {
        decode_g2(bytes).map(Signature)
    }

    /// Encodes the signature as 96 compressed bytes.
    pub fn to_bytes(&self) -> [u8; SIGNATURE_BYTES] {
        g2::compress(&self.0)
    }

    /// Returns whether this is the identity.
    pub fn is_infinity(&self) -> bool {
        self.0.is_infinity()
    }

    /// The point.
    pub fn point(&self) -> &G2Affine {
        &self.0
    }

    /// Wraps a point that is known to be in G2.
    pub(crate) fn from_point(point: G2Affine) -> Signature {
        Signature(point)
    }
}

/// A proof of possession: a key's signature over itself, under its own domain tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofOfPossession(pub(crate) Signature);

impl ProofOfPossession {
    /// Decodes a proof from 96 compressed bytes and checks the subgroup.
    ///
    /// # Errors
    /// As [`Signature::from_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<ProofOfPossession, DecodeError> {
        Signature::from_bytes(bytes).map(ProofOfPossession)
    }

    /// Encodes the proof as 96 compressed bytes.
    pub fn to_bytes(&self) -> [u8; SIGNATURE_BYTES] {
        self.0.to_bytes()
    }
}

/// Decodes a point of G1 from 48 compressed bytes and checks the subgroup; the identity is allowed.
///
/// # Errors
/// Any malformed or non-canonical encoding, a point off the curve or outside G1.
pub fn decode_g1(bytes: &[u8]) -> Result<G1Affine, DecodeError> {
    let point = decode_g1_unchecked(bytes)?;
    if g1::in_group(&point) {
        Ok(point)
    } else {
        Err(DecodeError::NotInSubgroup)
    }
}

/// Decodes a point of G2 from 96 compressed bytes and checks the subgroup; the identity is allowed.
///
/// # Errors
/// Any malformed or non-canonical encoding, a point off the curve or outside G2.
pub fn decode_g2(bytes: &[u8]) -> Result<G2Affine, DecodeError> {
    let point = decode_g2_unchecked(bytes)?;
    if g2::in_group(&point) {
        Ok(point)
    } else {
        Err(DecodeError::NotInSubgroup)
    }
}

/// Decodes a point of G1 from 96 uncompressed bytes and checks the subgroup; the identity is allowed.
///
/// # Errors
/// As [`decode_g1`].
pub fn decode_g1_uncompressed(bytes: &[u8]) -> Result<G1Affine, DecodeError> {
    let point = g1::deserialize(sized(bytes)?)?;
    if g1::in_group(&point) {
        Ok(point)
    } else {
        Err(DecodeError::NotInSubgroup)
    }
}

/// Decodes a point of G2 from 192 uncompressed bytes and checks the subgroup; the identity is allowed.
///
/// # Errors
/// As [`decode_g2`].
pub fn decode_g2_uncompressed(bytes: &[u8]) -> Result<G2Affine, DecodeError> {
    let point = g2::deserialize(sized(bytes)?)?;
    if g2::in_group(&point) {
        Ok(point)
    } else {
        Err(DecodeError::NotInSubgroup)
    }
}

/// The generator g1 of G1.
pub fn g1_generator() -> G1Affine {
    g1::generator()
}

/// The generator g2 of G2.
pub fn g2_generator() -> G2Affine {
    g2::generator()
}

/// Like [`decode_g1`] without the subgroup check, for callers that check in bulk.
pub(crate) fn decode_g1_unchecked(bytes: &[u8]) -> Result<G1Affine, DecodeError> {
    g1::decompress(sized(bytes)?)
}

/// Like [`decode_g2`] without the subgroup check, for callers that check in bulk.
pub(crate) fn decode_g2_unchecked(bytes: &[u8]) -> Result<G2Affine, DecodeError> {
    g2::decompress(sized(bytes)?)
}

/// Encodes a point of G1 as 48 compressed bytes.
pub fn encode_g1(point: &G1Affine) -> [u8; PUBLIC_KEY_BYTES] {
    g1::compress(point)
}

/// Encodes a point of G1 as 96 uncompressed bytes.
pub fn encode_g1_uncompressed(point: &G1Affine) -> [u8; g1::UNCOMPRESSED_BYTES] {
    g1::serialize(point)
}

/// Encodes a point of G2 as 192 uncompressed bytes.
pub fn encode_g2_uncompressed(point: &G2Affine) -> [u8; g2::UNCOMPRESSED_BYTES] {
    g2::serialize(point)
}

/// Encodes a point of G2 as 96 compressed bytes.
pub fn encode_g2(point: &G2Affine) -> [u8; SIGNATURE_BYTES] {
    g2::compress(point)
}
