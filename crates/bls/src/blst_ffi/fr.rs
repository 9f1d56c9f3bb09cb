//! The scalar field, integers mod the group order r, and bases folded by one scalar. Everything here is
//! variable time or public: secret scalars live in `scalar`.

use blst::{
    blst_fr, blst_fr_add, blst_fr_from_scalar, blst_fr_from_uint64, blst_fr_inverse, blst_fr_mul,
    blst_fr_sub, blst_p1, blst_p1_add_or_double_affine, blst_p1_affine, blst_p1_from_affine,
    blst_p1_mult, blst_p1s_to_affine, blst_scalar, blst_scalar_fr_check, blst_scalar_from_fr,
};

use super::curve::G1Affine;
use super::points::{from_raw_g1, raw_g1};

/// Size of a scalar in bytes.
pub(crate) const SCALAR_BYTES: usize = 32;

/// An integer mod r, in Montgomery form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fr(blst_fr);

impl Fr {
    /// Zero.
    pub(crate) const ZERO: Fr = Fr(blst_fr { l: [0; 4] });

    fn from_limbs(limbs: [u64; 4]) -> Fr {
        let mut out = blst_fr::default();
        // SAFETY: the input has the four words that blst reads.
        unsafe { blst_fr_from_uint64(&mut out, limbs.as_ptr()) };
        Fr(out)
    }

    /// One.
    pub(crate) fn one() -> Fr {
        Fr::from_u128(1)
    }

    /// A small integer.
    pub(crate) fn from_u128(value: u128) -> Fr {
        Fr::from_limbs([value as u64, (value >> 64) as u64, 0, 0])
    }

    /// Decodes a big-endian integer; `None` if it is not below r.
    pub(crate) fn from_be_bytes(bytes: &[u8; SCALAR_BYTES]) -> Option<Fr> {
        let mut scalar = blst_scalar { b: *bytes };
        scalar.b.reverse();
        // SAFETY: the pointer is to an initialised scalar.
        if !unsafe { blst_scalar_fr_check(&scalar) } {
            return None;
        }
        let mut out = blst_fr::default();
        // SAFETY: both pointers are to initialised values; the scalar is below r.
        unsafe { blst_fr_from_scalar(&mut out, &scalar) };
        Some(Fr(out))
    }

    /// Encodes as 32 bytes, least significant first.
    pub(crate) fn to_le_bytes(self) -> [u8; SCALAR_BYTES] {
        let mut out = blst_scalar::default();
        // SAFETY: both pointers are to initialised values.
        unsafe { blst_scalar_from_fr(&mut out, &self.0) };
        out.b
    }

    /// Encodes as 32 bytes, most significant first.
    pub(crate) fn to_be_bytes(self) -> [u8; SCALAR_BYTES] {
        let mut bytes = self.to_le_bytes();
        bytes.reverse();
        bytes
    }

    /// Returns whether this is zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.0.l == [0; 4]
    }

    /// `self + other`.
    #[must_use]
    pub(crate) fn add(&self, other: &Fr) -> Fr {
        let mut out = blst_fr::default();
        // SAFETY: the pointers are to initialised values.
        unsafe { blst_fr_add(&mut out, &self.0, &other.0) };
        Fr(out)
    }

    /// `self - other`.
    #[must_use]
    pub(crate) fn sub(&self, other: &Fr) -> Fr {
        let mut out = blst_fr::default();
        // SAFETY: the pointers are to initialised values.
        unsafe { blst_fr_sub(&mut out, &self.0, &other.0) };
        Fr(out)
    }

    /// `self * other`.
    #[must_use]
    pub(crate) fn mul(&self, other: &Fr) -> Fr {
        let mut out = blst_fr::default();
        // SAFETY: the pointers are to initialised values.
        unsafe { blst_fr_mul(&mut out, &self.0, &other.0) };
        Fr(out)
    }

    /// `-self`.
    #[must_use]
    pub(crate) fn neg(&self) -> Fr {
        Fr::ZERO.sub(self)
    }

    /// `1 / self`, and 0 for 0.
    #[must_use]
    pub(crate) fn inverse(&self) -> Fr {
        let mut out = blst_fr::default();
        // SAFETY: the pointers are to initialised values.
        unsafe { blst_fr_inverse(&mut out, &self.0) };
        Fr(out)
    }
}

/// `low[i] + scalar * high[i]` for all i; all points have prime order or are the identity.
pub(crate) fn vartime_fold(low: &[G1Affine], high: &[G1Affine], scalar: &Fr) -> Vec<G1Affine> {
    assert_eq!(low.len(), high.len(), "halves of one vector");
    if low.is_empty() {
        return Vec::new();
    }
    let bytes = scalar.to_le_bytes();
    // blst's window method for 128 bits is faster than its endomorphism for 255.
    let bits = if bytes[16..] == [0; 16] { 128 } else { 255 };
    let folded: Vec<blst_p1> = low
        .iter()
        .zip(high)
        .map(|(low, high)| {
            let (mut base, mut product) = (blst_p1::default(), blst_p1::default());
            let mut sum = blst_p1::default();
            // SAFETY: the pointers are to initialised values; the scalar has 32 bytes, which are at
            // least `bits` bits.
            unsafe {
                blst_p1_from_affine(&mut base, raw_g1(high));
                blst_p1_mult(&mut product, &base, bytes.as_ptr(), bits);
                blst_p1_add_or_double_affine(&mut sum, &product, raw_g1(low));
            }
            sum
        })
        .collect();
    let mut affine = vec![blst_p1_affine::default(); folded.len()];
    let list = [folded.as_ptr(), core::ptr::null()];
    // SAFETY: a null behind the first pointer tells blst that the points are consecutive; input and
    // output have `folded.len()` initialised points.
    unsafe { blst_p1s_to_affine(affine.as_mut_ptr(), list.as_ptr(), folded.len()) };
    affine.into_iter().map(from_raw_g1).collect()
}

#[cfg(test)]
mod tests {
    use super::super::points::g1;
    use super::*;

    #[test]
    fn scalars_wrap_at_the_group_order() {
        let minus_one = Fr::one().neg();
        assert!(minus_one.add(&Fr::one()).is_zero());
        assert_eq!(Fr::from_be_bytes(&minus_one.to_be_bytes()), Some(minus_one));
        let mut order = minus_one.to_be_bytes();
        order[31] += 1;
        assert_eq!(Fr::from_be_bytes(&order), None, "r itself");
        assert_eq!(Fr::from_be_bytes(&[0xff; 32]), None);
        let seven = Fr::from_u128(7);
        assert_eq!(seven.mul(&seven.inverse()), Fr::one());
        assert!(Fr::ZERO.inverse().is_zero());
        assert_eq!(seven.sub(&Fr::from_u128(5)), Fr::from_u128(2));
        let wide = Fr::from_u128(u128::MAX);
        assert_eq!(wide.to_le_bytes()[..16], [0xff; 16]);
        assert_eq!(wide.to_le_bytes()[16..], [0; 16]);
    }

    #[test]
    fn folding_agrees_with_single_products() {
        let multiple = |n: u128| g1::mul(&g1::generator(), &Fr::from_u128(n).to_le_bytes(), 255);
        let low = [multiple(3), multiple(5), G1Affine::INFINITY, multiple(9)];
        let high = [
            multiple(2),
            multiple(5).neg(),
            multiple(4),
            G1Affine::INFINITY,
        ];
        for scalar in [Fr::one(), Fr::from_u128(11), Fr::from_u128(6).neg()] {
            let folded = vartime_fold(&low, &high, &scalar);
            for i in 0..low.len() {
                let product = g1::mul(&high[i], &scalar.to_le_bytes(), 255);
                assert_eq!(folded[i], g1::sum_naive(&[low[i], product]), "{i}");
            }
        }
        assert!(vartime_fold(&[], &[], &Fr::one()).is_empty());
    }
}
