//! Keys, signatures and proofs of possession, with their strict encodings.

use core::fmt;

use crate::blst_ffi::curve::{G1Affine, G2Affine};
use crate::blst_ffi::points::{g1, g2};
use crate::blst_ffi::scalar::SecretScalar;
use crate::error::{BlsError, DecodeError};

/// Bytes of a secret key.
pub const SECRET_KEY_BYTES: usize = 32;
/// Bytes of a compressed public key.
pub const PUBLIC_KEY_BYTES: usize = g1::COMPRESSED_BYTES;
/// Bytes of a compressed signature.
pub const SIGNATURE_BYTES: usize = g2::COMPRESSED_BYTES;
/// Bytes of keying material that `KeyGen` of the IETF draft asks for at least.
pub const KEY_MATERIAL_BYTES_MIN: usize = 32;

/// A slice as an array of the encoding's length.
fn sized<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], DecodeError> {
    bytes.try_into().map_err(|_| DecodeError::Length {
        got: bytes.len(),
        expected: N,
    })
}

/// A secret key: a scalar in 1 .. r.
///
/// It is wiped when dropped, and is neither `Clone` nor printed. Key derivation, public keys and
/// signatures go through blst's constant-time paths; nothing of this type reaches a `vartime_`
/// function.
pub struct SecretKey(
    /// Boxed: a move of the key, into a map for instance, leaves no copy behind.
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

    /// From 32 big-endian bytes.
    ///
    /// # Errors
    /// A wrong length, zero, and values not below the group order.
    pub fn from_bytes(bytes: &[u8]) -> Result<SecretKey, DecodeError> {
        let scalar = SecretScalar::from_be_bytes(sized(bytes)?)?;
        Ok(SecretKey(Box::new(scalar)))
    }

    /// 32 bytes big-endian; the caller wipes them.
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
    /// From 48 compressed bytes: `KeyValidate` of the IETF draft.
    ///
    /// # Errors
    /// Any malformed or non-canonical encoding, a point off the curve or outside G1, the identity.
    pub fn from_bytes(bytes: &[u8]) -> Result<PublicKey, DecodeError> {
        PublicKey::from_point(decode_g1(bytes)?)
    }

    /// 48 compressed bytes.
    pub fn to_bytes(&self) -> [u8; PUBLIC_KEY_BYTES] {
        g1::compress(&self.0)
    }

    /// The point.
    pub fn point(&self) -> &G1Affine {
        &self.0
    }

    /// A point that is known to be in G1, for instance a sum of keys.
    ///
    /// # Errors
    /// The identity.
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
/// The identity is representable, because aggregation and `eth_fast_aggregate_verify` of the
/// consensus specifications need it. No verification under one key, or under one sum of keys, accepts
/// it; [`crate::aggregate_verify`] follows the draft and does where the keys of each message cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature(G2Affine);

impl Signature {
    /// From 96 compressed bytes, subgroup checked.
    ///
    /// # Errors
    /// Any malformed or non-canonical encoding, a point off the curve or outside G2.
    pub fn from_bytes(bytes: &[u8]) -> Result<Signature, DecodeError> {
        decode_g2(bytes).map(Signature)
    }

    /// 96 compressed bytes.
    pub fn to_bytes(&self) -> [u8; SIGNATURE_BYTES] {
        g2::compress(&self.0)
    }

    /// Whether this is the identity.
    pub fn is_infinity(&self) -> bool {
        self.0.is_infinity()
    }

    /// The point.
    pub fn point(&self) -> &G2Affine {
        &self.0
    }

    /// A point that is known to be in G2.
    pub(crate) fn from_point(point: G2Affine) -> Signature {
        Signature(point)
    }
}

/// A proof of possession: the signature of a key over itself, with its own domain tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofOfPossession(pub(crate) Signature);

impl ProofOfPossession {
    /// From 96 compressed bytes, subgroup checked.
    ///
    /// # Errors
    /// As [`Signature::from_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<ProofOfPossession, DecodeError> {
        Signature::from_bytes(bytes).map(ProofOfPossession)
    }

    /// 96 compressed bytes.
    pub fn to_bytes(&self) -> [u8; SIGNATURE_BYTES] {
        self.0.to_bytes()
    }
}

/// A point of G1 from its 48 compressed bytes, subgroup checked; the identity is allowed.
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

/// A point of G2 from its 96 compressed bytes, subgroup checked; the identity is allowed.
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

/// A point of G1 from its 96 uncompressed bytes, subgroup checked; the identity is allowed.
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

/// A point of G2 from its 192 uncompressed bytes, subgroup checked; the identity is allowed.
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

/// As [`decode_g1`] without the subgroup check, for callers that make it in bulk.
pub(crate) fn decode_g1_unchecked(bytes: &[u8]) -> Result<G1Affine, DecodeError> {
    g1::decompress(sized(bytes)?)
}

/// As [`decode_g2`] without the subgroup check, for callers that make it in bulk.
pub(crate) fn decode_g2_unchecked(bytes: &[u8]) -> Result<G2Affine, DecodeError> {
    g2::decompress(sized(bytes)?)
}

/// 48 compressed bytes of a point of G1.
pub fn encode_g1(point: &G1Affine) -> [u8; PUBLIC_KEY_BYTES] {
    g1::compress(point)
}

/// 96 uncompressed bytes of a point of G1.
pub fn encode_g1_uncompressed(point: &G1Affine) -> [u8; g1::UNCOMPRESSED_BYTES] {
    g1::serialize(point)
}

/// 192 uncompressed bytes of a point of G2.
pub fn encode_g2_uncompressed(point: &G2Affine) -> [u8; g2::UNCOMPRESSED_BYTES] {
    g2::serialize(point)
}

/// 96 compressed bytes of a point of G2.
pub fn encode_g2(point: &G2Affine) -> [u8; SIGNATURE_BYTES] {
    g2::compress(point)
}
