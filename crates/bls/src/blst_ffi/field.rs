//! The base field Fp and its quadratic extension Fp2, over blst's scalar routines.

use core::fmt::Debug;

use blst::{
    blst_fp, blst_fp_inverse, blst_fp_mul, blst_fp_sqr, blst_fp2, blst_fp2_inverse, blst_fp2_mul,
    blst_fp2_sqr,
};

/// Operations that a sum of points needs from its coordinate field: Fp for G1, Fp2 for G2.
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

    /// Returns whether this is zero.
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

    /// Builds an element from the limbs of its Montgomery form; the caller guarantees that they are below p.
    #[cfg(any(test, target_arch = "x86_64"))]
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

/// The modulus, least significant limb first.
pub(crate) const P: [u64; 6] = [
    0xb9fe_ffff_ffff_aaab,
    0x1eab_fffe_b153_ffff,
    0x6730_d2a0_f6b0_f624,
    0x6477_4b84_f385_12bf,
    0x4b1b_a7b6_434b_acd7,
    0x1a01_11ea_397f_e69a,
];

/// a + b + carry, and the carry out.
#[inline(always)]
fn carrying_add(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(u64::from(carry));
    (sum, first | second)
}

/// a - b - borrow, and the borrow out.
#[inline(always)]
fn borrowing_sub(a: u64, b: u64, borrow: bool) -> (u64, bool) {
    let (difference, first) = a.overflowing_sub(b);
    let (difference, second) = difference.overflowing_sub(u64::from(borrow));
    (difference, first | second)
}

// Additions are written out here because a call into blst costs three times as much as the work itself. Limbs
// of three operands and a carry are traversed with one index.
#[allow(clippy::needless_range_loop)]
impl Field for Fp {
    const ZERO: Self = Fp(blst_fp { l: [0; 6] });
    const ONE: Self = Fp(blst_fp { l: ONE_LIMBS });

    #[inline(always)]
    fn add(&self, other: &Self) -> Self {
        let (mut sum, mut carry) = ([0; 6], false);
        for i in 0..6 {
            (sum[i], carry) = carrying_add(self.0.l[i], other.0.l[i], carry);
        }
        // Both are below p < 2^381, so there is no carry out of 384 bits.
        let (mut reduced, mut borrow) = ([0; 6], false);
        for i in 0..6 {
            (reduced[i], borrow) = borrowing_sub(sum[i], P[i], borrow);
        }
        let keep = 0u64.wrapping_sub(u64::from(borrow));
        Fp(blst_fp {
            l: core::array::from_fn(|i| (sum[i] & keep) | (reduced[i] & !keep)),
        })
    }

    #[inline(always)]
    fn sub(&self, other: &Self) -> Self {
        let (mut out, mut borrow) = ([0; 6], false);
        for i in 0..6 {
            (out[i], borrow) = borrowing_sub(self.0.l[i], other.0.l[i], borrow);
        }
        let mask = 0u64.wrapping_sub(u64::from(borrow));
        let mut carry = false;
        for i in 0..6 {
            (out[i], carry) = carrying_add(out[i], P[i] & mask, carry);
        }
        Fp(blst_fp { l: out })
    }

    #[inline]
    fn neg(&self) -> Self {
        Self::ZERO.sub(self)
    }

    #[inline]
    fn mul(&self, other: &Self) -> Self {
        let mut out = blst_fp::default();
        // SAFETY: three pointers to initialised values of blst's type.
        unsafe { blst_fp_mul(&mut out, &self.0, &other.0) };
        Fp(out)
    }

    #[inline]
    fn square(&self) -> Self {
        let mut out = blst_fp::default();
        // SAFETY: two pointers to initialised values of blst's type.
        unsafe { blst_fp_sqr(&mut out, &self.0) };
        Fp(out)
    }

    fn inverse(&self) -> Self {
        let mut out = blst_fp::default();
        // SAFETY: two pointers to initialised values of blst's type.
        unsafe { blst_fp_inverse(&mut out, &self.0) };
        Fp(out)
    }
}

impl Fp2 {
    #[inline(always)]
    fn map2(&self, other: &Self, f: impl Fn(&Fp, &Fp) -> Fp) -> Self {
        let ([a0, a1], [b0, b1]) = (self.coefficients(), other.coefficients());
        Fp2::new(f(&a0, &b0), f(&a1, &b1))
    }
}

impl Field for Fp2 {
    const ZERO: Self = Fp2::new(Fp::ZERO, Fp::ZERO);
    const ONE: Self = Fp2::new(Fp::ONE, Fp::ZERO);

    #[inline(always)]
    fn add(&self, other: &Self) -> Self {
        self.map2(other, Fp::add)
    }

    #[inline(always)]
    fn sub(&self, other: &Self) -> Self {
        self.map2(other, Fp::sub)
    }

    #[inline]
    fn neg(&self) -> Self {
        Self::ZERO.sub(self)
    }

    #[inline]
    fn mul(&self, other: &Self) -> Self {
        let mut out = blst_fp2::default();
        // SAFETY: three pointers to initialised values of blst's type.
        unsafe { blst_fp2_mul(&mut out, &self.0, &other.0) };
        Fp2(out)
    }

    #[inline]
    fn square(&self) -> Self {
        let mut out = blst_fp2::default();
        // SAFETY: two pointers to initialised values of blst's type.
        unsafe { blst_fp2_sqr(&mut out, &self.0) };
        Fp2(out)
    }

    fn inverse(&self) -> Self {
        let mut out = blst_fp2::default();
        // SAFETY: two pointers to initialised values of blst's type.
        unsafe { blst_fp2_inverse(&mut out, &self.0) };
        Fp2(out)
    }
}

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
    fn additions_wrap_at_the_modulus() {
        let top = Fp::ZERO.sub(&Fp::from_limbs_reduced([1, 0, 0, 0, 0, 0]));
        assert_eq!(top.limbs()[0], P[0] - 1);
        assert_eq!(top.limbs()[1..], P[1..]);
        let one = Fp::from_limbs_reduced([1, 0, 0, 0, 0, 0]);
        assert_eq!(top.add(&one), Fp::ZERO);
        assert_eq!(top.add(&top).add(&one).add(&one), Fp::ZERO);
        assert_eq!(Fp::ZERO.neg(), Fp::ZERO);
        let mut a = Fp::ONE;
        for _ in 0..200 {
            let (b, c) = (a.square(), a.mul(&top));
            assert_eq!(a.add(&b).sub(&b), a);
            assert_eq!(a.add(&b).mul(&c), a.mul(&c).add(&b.mul(&c)));
            a = b.sub(&c);
        }
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
