//! The base field Fp and its quadratic extension Fp2, over blst's scalar routines.

use core::fmt::Debug;

use blst::{
    blst_fp, blst_fp_add, blst_fp_cneg, blst_fp_inverse, blst_fp_mul, blst_fp_sqr, blst_fp_sub,
    blst_fp2, blst_fp2_add, blst_fp2_cneg, blst_fp2_inverse, blst_fp2_mul, blst_fp2_sqr,
    blst_fp2_sub,
};

/// What a sum of points needs from the field of its coordinates: Fp for G1, Fp2 for G2.
///
/// Not constant-time: everything summed in this crate is public.
pub trait Field: Copy + Eq + Debug + Default + Send + Sync + 'static {
    /// The neutral element of addition.
    const ZERO: Self;
    /// The neutral element of multiplication.
    const ONE: Self;

    /// `self + other`.
    #[must_use]
    fn add(&self, other: &Self) -> Self;
    /// `self - other`.
    #[must_use]
    fn sub(&self, other: &Self) -> Self;
    /// `-self`.
    #[must_use]
    fn neg(&self) -> Self;
    /// `self * other`.
    #[must_use]
    fn mul(&self, other: &Self) -> Self;
    /// `self * self`.
    #[must_use]
    fn square(&self) -> Self;
    /// `1 / self`, and 0 for 0.
    #[must_use]
    fn inverse(&self) -> Self;

    /// Whether this is zero.
    fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

/// An element of Fp: six 64-bit limbs, least significant first, below p, in Montgomery form with
/// R = 2^384.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Fp(pub(super) blst_fp);

/// An element c0 + c1·u of Fp2, u² = -1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Fp2(pub(super) blst_fp2);

/// 2^384 mod p: the Montgomery form of one.
const ONE_LIMBS: [u64; 6] = [
    0x7609_0000_0002_fffd,
    0xebf4_000b_c40c_0002,
    0x5f48_9857_53c7_58ba,
    0x77ce_5853_7052_5745,
    0x5c07_1a97_a256_ec6d,
    0x15f6_5ec3_fa80_e493,
];

impl Fp {
    /// The limbs of the Montgomery form.
    pub(crate) fn limbs(&self) -> &[u64; 6] {
        &self.0.l
    }

    /// From limbs of a Montgomery form; the caller vouches that they are below p.
    pub(crate) const fn from_limbs_reduced(limbs: [u64; 6]) -> Self {
        Fp(blst_fp { l: limbs })
    }
}

impl Fp2 {
    /// `c0 + c1·u`.
    pub(crate) const fn new(c0: Fp, c1: Fp) -> Self {
        Fp2(blst_fp2 { fp: [c0.0, c1.0] })
    }

    /// The coefficients c0 and c1.
    pub(crate) fn coefficients(&self) -> [Fp; 2] {
        [Fp(self.0.fp[0]), Fp(self.0.fp[1])]
    }
}

macro_rules! field {
    ($name:ident, $raw:ident, $zero:expr, $one:expr, $add:ident, $sub:ident, $cneg:ident, $mul:ident,
     $sqr:ident, $inverse:ident) => {
        impl Field for $name {
            const ZERO: Self = $zero;
            const ONE: Self = $one;

            #[inline]
            fn add(&self, other: &Self) -> Self {
                let mut out = $raw::default();
                // SAFETY: three pointers to initialised values of blst's type.
                unsafe { $add(&mut out, &self.0, &other.0) };
                $name(out)
            }

            #[inline]
            fn sub(&self, other: &Self) -> Self {
                let mut out = $raw::default();
                // SAFETY: as in `add`.
                unsafe { $sub(&mut out, &self.0, &other.0) };
                $name(out)
            }

            #[inline]
            fn neg(&self) -> Self {
                let mut out = $raw::default();
                // SAFETY: as in `add`.
                unsafe { $cneg(&mut out, &self.0, true) };
                $name(out)
            }

            #[inline]
            fn mul(&self, other: &Self) -> Self {
                let mut out = $raw::default();
                // SAFETY: as in `add`.
                unsafe { $mul(&mut out, &self.0, &other.0) };
                $name(out)
            }

            #[inline]
            fn square(&self) -> Self {
                let mut out = $raw::default();
                // SAFETY: as in `add`.
                unsafe { $sqr(&mut out, &self.0) };
                $name(out)
            }

            fn inverse(&self) -> Self {
                let mut out = $raw::default();
                // SAFETY: as in `add`.
                unsafe { $inverse(&mut out, &self.0) };
                $name(out)
            }
        }
    };
}

field!(
    Fp,
    blst_fp,
    Fp(blst_fp { l: [0; 6] }),
    Fp(blst_fp { l: ONE_LIMBS }),
    blst_fp_add,
    blst_fp_sub,
    blst_fp_cneg,
    blst_fp_mul,
    blst_fp_sqr,
    blst_fp_inverse
);

field!(
    Fp2,
    blst_fp2,
    Fp2(blst_fp2 {
        fp: [blst_fp { l: [0; 6] }, blst_fp { l: [0; 6] }]
    }),
    Fp2(blst_fp2 {
        fp: [blst_fp { l: ONE_LIMBS }, blst_fp { l: [0; 6] }]
    }),
    blst_fp2_add,
    blst_fp2_sub,
    blst_fp2_cneg,
    blst_fp2_mul,
    blst_fp2_sqr,
    blst_fp2_inverse
);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<F: Field>(a: F) {
        assert_eq!(a.mul(&F::ONE), a);
        assert_eq!(a.add(&a.neg()), F::ZERO);
        assert_eq!(a.mul(&a), a.square());
        assert_eq!(a.mul(&a.inverse()), F::ONE);
        assert_eq!(F::ZERO.inverse(), F::ZERO);
        assert_eq!(a.sub(&a), F::ZERO);
        assert!(F::ZERO.is_zero() && !F::ONE.is_zero());
    }

    #[test]
    fn field_axioms_hold_for_both_fields() {
        let two = Fp::ONE.add(&Fp::ONE);
        check(two);
        check(Fp2::new(two, Fp::ONE));
        let i = Fp2::new(Fp::ZERO, Fp::ONE);
        assert_eq!(i.square(), Fp2::ONE.neg(), "u² = -1");
    }
}
