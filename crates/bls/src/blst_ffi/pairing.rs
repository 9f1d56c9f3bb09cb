//! Hashing to the curve, Miller loops, the final exponentiation and values in GT.

#[cfg(target_arch = "x86_64")]
use blst::blst_fp6;
use blst::{
    blst_final_exp, blst_fp12, blst_fp12_conjugate, blst_fp12_is_one, blst_fp12_mul,
    blst_hash_to_g1, blst_hash_to_g2, blst_miller_loop_n, blst_p1, blst_p1_affine,
    blst_p1_to_affine, blst_p2, blst_p2_affine, blst_p2_to_affine,
};

use super::curve::{G1Affine, G2Affine};
#[cfg(target_arch = "x86_64")]
use super::field::Fp2;
use super::points::{from_raw_g1, from_raw_g2, raw_g1, raw_g2};

/// `hash_to_curve` of RFC 9380 for `BLS12381G1_XMD:SHA-256_SSWU_RO_`.
pub(crate) fn hash_to_g1(message: &[u8], dst: &[u8]) -> G1Affine {
    let mut point = blst_p1::default();
    let mut affine = blst_p1_affine::default();
    // SAFETY: pointers and lengths come from slices; `aug` is null with length 0; blst hashes a
    // tag longer than 255 bytes as RFC 9380, section 5.3.3 says.
    unsafe {
        blst_hash_to_g1(
            &mut point,
            message.as_ptr(),
            message.len(),
            dst.as_ptr(),
            dst.len(),
            core::ptr::null(),
            0,
        );
        blst_p1_to_affine(&mut affine, &point);
    }
    from_raw_g1(affine)
}

/// `hash_to_curve` of RFC 9380 for `BLS12381G2_XMD:SHA-256_SSWU_RO_`.
pub(crate) fn hash_to_g2(message: &[u8], dst: &[u8]) -> G2Affine {
    let mut point = blst_p2::default();
    let mut affine = blst_p2_affine::default();
    // SAFETY: as in `hash_to_g1`.
    unsafe {
        blst_hash_to_g2(
            &mut point,
            message.as_ptr(),
            message.len(),
            dst.as_ptr(),
            dst.len(),
            core::ptr::null(),
            0,
        );
        blst_p2_to_affine(&mut affine, &point);
    }
    from_raw_g2(affine)
}

/// A value of the target group after the final exponentiation: one, or an element of order r.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gt(blst_fp12);

impl Gt {
    /// Returns whether this is the identity.
    pub(crate) fn is_one(&self) -> bool {
        // SAFETY: the pointer is to an initialised value.
        unsafe { blst_fp12_is_one(&self.0) }
    }

    /// The product.
    pub(crate) fn mul(&self, other: &Gt) -> Gt {
        let mut out = blst_fp12::default();
        // SAFETY: the pointers are to initialised values.
        unsafe { blst_fp12_mul(&mut out, &self.0, &other.0) };
        Gt(out)
    }

    /// The inverse, which in GT is the conjugate.
    pub(crate) fn inverse(&self) -> Gt {
        let mut out = self.0;
        // SAFETY: the pointer is to an initialised value.
        unsafe { blst_fp12_conjugate(&mut out) };
        Gt(out)
    }
}

/// A product of Miller loops before the final exponentiation.
#[derive(Clone, Copy)]
pub(crate) struct Miller(blst_fp12);

impl Miller {
    /// Σ c_k·w^k, where w⁶ = 1 + u.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn from_coefficients(c: [Fp2; 6]) -> Miller {
        // blst has w² = v: the even powers of w are powers of v, the odd ones are powers of v times w.
        let half = |first: usize| blst_fp6 {
            fp2: [c[first].0, c[first + 2].0, c[first + 4].0],
        };
        Miller(blst_fp12 {
            fp6: [half(0), half(1)],
        })
    }

    /// The conjugate over Fp6, which is an inverse after the final exponentiation.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn conjugate(&self) -> Miller {
        Miller(Gt(self.0).inverse().0)
    }

    /// The product.
    pub(crate) fn mul(&self, other: &Miller) -> Miller {
        Miller(Gt(self.0).mul(&Gt(other.0)).0)
    }

    /// The value in GT.
    pub(crate) fn final_exp(&self) -> Gt {
        let mut out = blst_fp12::default();
        // SAFETY: the pointers are to initialised values.
        unsafe { blst_final_exp(&mut out, &self.0) };
        Gt(out)
    }
}

/// The product of the Miller loops of the pairs; one if there are no pairs.
///
/// A pair with an infinite point contributes one. `blst_miller_loop_n` has no test for infinity, so such pairs
/// are left out here.
pub(crate) fn miller_product(pairs: &[(G1Affine, G2Affine)]) -> Miller {
    let finite = || {
        pairs
            .iter()
            .filter(|(p, q)| !p.is_infinity() && !q.is_infinity())
    };
    let ps: Vec<*const blst_p1_affine> = finite().map(|(p, _)| raw_g1(p)).collect();
    let qs: Vec<*const blst_p2_affine> = finite().map(|(_, q)| raw_g2(q)).collect();
    // blst's default of this type is one, the value without pairs.
    let mut out = blst_fp12::default();
    if !ps.is_empty() {
        // SAFETY: both lists have `ps.len()` valid pointers into `pairs`, none of them null, and
        // blst reads exactly as many of each.
        unsafe { blst_miller_loop_n(&mut out, qs.as_ptr(), ps.as_ptr(), ps.len()) };
    }
    Miller(out)
}

/// The product of e(P, Q) over the pairs.
pub(crate) fn pairing_product(pairs: &[(G1Affine, G2Affine)]) -> Gt {
    miller_product(pairs).final_exp()
}
