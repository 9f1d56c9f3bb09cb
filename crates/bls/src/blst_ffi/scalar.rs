//! Secret scalars: created, checked and used through blst's constant-time paths.

use core::ptr::from_ref;

use blst::{
    blst_keygen, blst_p1, blst_p1_affine, blst_p1_to_affine, blst_p2, blst_p2_affine,
    blst_p2_from_affine, blst_p2_to_affine, blst_scalar, blst_scalar_from_le_bytes,
    blst_sign_pk_in_g1, blst_sk_check, blst_sk_to_pk_in_g1,
};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::curve::{G1Affine, G2Affine};
use super::points::{from_raw_g1, from_raw_g2, raw_g2};
use crate::error::DecodeError;

/// A scalar in 1 .. r, 32 bytes little-endian; wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct SecretScalar([u8; 32]);

impl SecretScalar {
    fn raw(&self) -> *const blst_scalar {
        from_ref(&self.0).cast()
    }

    /// Decodes 32 big-endian bytes; zero and values of r or above are errors.
    pub(crate) fn from_be_bytes(bytes: &[u8; 32]) -> Result<SecretScalar, DecodeError> {
        let mut scalar = SecretScalar(*bytes);
        scalar.0.reverse();
        // SAFETY: `raw` points to 32 initialised bytes, the layout of `blst_scalar`.
        if unsafe { blst_sk_check(scalar.raw()) } {
            return Ok(scalar);
        }
        let zero = scalar.0.iter().fold(0, |any, byte| any | byte) == 0;
        Err(if zero {
            DecodeError::ZeroScalar
        } else {
            DecodeError::ScalarTooLarge
        })
    }

    /// Encodes as 32 bytes, big-endian.
    pub(crate) fn to_be_bytes(&self) -> [u8; 32] {
        let mut bytes = self.0;
        bytes.reverse();
        bytes
    }

    /// Encodes as 32 bytes, little-endian.
    pub(crate) fn as_le_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reduces a little-endian integer mod r; `None` if the result is zero.
    pub(crate) fn reduced_from_le_bytes(bytes: &[u8]) -> Option<SecretScalar> {
        let mut scalar = SecretScalar([0; 32]);
        // SAFETY: the output has 32 bytes and `blst_scalar` is a plain byte array; the input is
        // read for its own length, any length is reduced.
        let nonzero = unsafe {
            blst_scalar_from_le_bytes(scalar.0.as_mut_ptr().cast(), bytes.as_ptr(), bytes.len())
        };
        nonzero.then_some(scalar)
    }

    /// `KeyGen` of the IETF draft with an empty `key_info`; the material must have at least 32 bytes.
    pub(crate) fn key_gen(material: &[u8]) -> SecretScalar {
        assert!(
            material.len() >= 32,
            "the caller checks the minimum of the draft"
        );
        let mut scalar = SecretScalar([0; 32]);
        // SAFETY: the output has 32 bytes, the input `material.len()`; a null `info` has length 0.
        unsafe {
            blst_keygen(
                scalar.0.as_mut_ptr().cast(),
                material.as_ptr(),
                material.len(),
                core::ptr::null(),
                0,
            );
        }
        scalar
    }

    /// sk * g1.
    pub(crate) fn public_key(&self) -> G1Affine {
        let mut point = blst_p1::default();
        let mut affine = blst_p1_affine::default();
        // SAFETY: all pointers are to initialised values of the named types.
        unsafe {
            blst_sk_to_pk_in_g1(&mut point, self.raw());
            blst_p1_to_affine(&mut affine, &point);
        }
        from_raw_g1(affine)
    }

    /// sk * hash.
    pub(crate) fn sign(&self, hash: &G2Affine) -> G2Affine {
        let mut base = blst_p2::default();
        let mut point = blst_p2::default();
        let mut affine = blst_p2_affine::default();
        // SAFETY: all pointers are to initialised values of the named types.
        unsafe {
            blst_p2_from_affine(&mut base, raw_g2(hash));
            blst_sign_pk_in_g1(&mut point, &base, self.raw());
            blst_p2_to_affine(&mut affine, &point);
        }
        from_raw_g2(affine)
    }
}
