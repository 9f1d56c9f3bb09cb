//! The prime field F_p with p = 2^31 − 2^24 + 1, called KoalaBear.
//!
//! An element is stored as x·2^32 mod p (Montgomery form), always below p. So equal elements have equal words, and
//! a product takes two multiplications and no division. p − 1 = 127·2^24, so there are roots of unity of order
//! 2^24, and cubing is a permutation, since 3 does not divide p − 1.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// The modulus p = 2^31 − 2^24 + 1.
pub const P: u32 = 0x7f00_0001;

/// 1/p mod 2^32.
pub(crate) const P_INVERSE: u32 = 0x8100_0001;

/// 2^64 mod p: a product with it puts a word into Montgomery form.
const R_SQUARED: u64 = ((1u128 << 64) % P as u128) as u64;

/// An element of F_p.
///
/// ```
/// # use alphorn_stark::Fp;
/// assert_eq!(Fp::new(3) * Fp::new(5) - Fp::new(16), -Fp::ONE);
/// assert_eq!(Fp::from_canonical(2_130_706_433), None);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Fp(u32);

impl Fp {
    /// 0.
    pub const ZERO: Fp = Fp(0);
    /// 1.
    pub const ONE: Fp = Fp::new(1);

    /// The element of an integer, reduced modulo p.
    #[inline]
    pub const fn new(value: u32) -> Fp {
        Fp(reduce(value as u64 * R_SQUARED))
    }

    /// The element of an integer of 128 bits, reduced modulo p.
    pub const fn reduced(value: u128) -> Fp {
        // 2^64 = 2^64 mod p, and two words below p have a product below 2^62.
        const FOLD_64: u64 = ((1u128 << 64) % P as u128) as u64;
        let (high, low) = ((value >> 64) as u64 % P as u64, value as u64 % P as u64);
        Fp::new(((high * FOLD_64 + low) % P as u64) as u32)
    }

    /// The element whose canonical integer this is; none if `value` >= p.
    #[inline]
    pub const fn from_canonical(value: u32) -> Option<Fp> {
        if value < P {
            Some(Fp::new(value))
        } else {
            None
        }
    }

    /// The integer below p.
    #[inline]
    pub const fn canonical(self) -> u32 {
        reduce(self.0 as u64)
    }

    /// The four little-endian bytes of the canonical integer.
    pub const fn to_bytes(self) -> [u8; 4] {
        self.canonical().to_le_bytes()
    }

    /// The element of four little-endian bytes; none if they are an integer >= p.
    pub const fn from_bytes(bytes: [u8; 4]) -> Option<Fp> {
        Fp::from_canonical(u32::from_le_bytes(bytes))
    }

    /// The word in Montgomery form, below p.
    #[inline]
    pub(crate) const fn word(self) -> u32 {
        self.0
    }

    /// The element of a word in Montgomery form computed by a kernel, below p.
    #[inline]
    pub(crate) const fn from_word(word: u32) -> Fp {
        debug_assert!(word < P);
        Fp(word)
    }

    /// Σ_i x_i · y_i with one reduction.
    #[inline]
    pub(crate) fn products<const N: usize>(x: [Fp; N], y: [Fp; N]) -> Fp {
        let mut sum = 0u64;
        for (x, y) in x.into_iter().zip(y) {
            // Below p·2^32 before the product, which is below (p − 1)² < p·2^32.
            sum += u64::from(x.0) * u64::from(y.0);
            sum = sum.min(sum.wrapping_sub(u64::from(P) << 32));
        }
        Fp(reduce(sum))
    }

    /// x^exponent; the time depends on the exponent.
    pub(crate) fn pow(self, mut exponent: u64) -> Fp {
        let (mut power, mut result) = (self, Fp::ONE);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result *= power;
            }
            power *= power;
            exponent >>= 1;
        }
        result
    }

    /// 1/x; none for 0.
    pub(crate) fn inverse(self) -> Option<Fp> {
        (self != Fp::ZERO).then(|| self.pow(u64::from(P) - 2))
    }

    /// A primitive root of unity of order 2^`log2`: a power of 3^127, which has order 2^24.
    ///
    /// # Panics
    /// If `log2` is above 24.
    pub(crate) fn root_of_unity(log2: u32) -> Fp {
        assert!(log2 <= 24, "the field has no root of order 2^{log2}");
        Fp::new(3).pow(127 << (24 - log2))
    }
}

/// value / 2^32 mod p, for value < p·2^32.
#[inline]
pub(crate) const fn reduce(value: u64) -> u32 {
    debug_assert!(value < (P as u64) << 32);
    // With 1/p, and not −1/p, the multiple of p is subtracted: the low words cancel without a carry into the high
    // ones.
    let q = (value as u32).wrapping_mul(P_INVERSE);
    // value − q·p is a multiple of 2^32, and lies between −p·2^32 and p·2^32.
    let qp = ((q as u64 * P as u64) >> 32) as u32;
    let (difference, borrow) = ((value >> 32) as u32).overflowing_sub(qp);
    if borrow {
        difference.wrapping_add(P)
    } else {
        difference
    }
}

impl Add for Fp {
    type Output = Fp;
    #[inline]
    fn add(self, other: Fp) -> Fp {
        let sum = self.0 + other.0;
        Fp(sum.min(sum.wrapping_sub(P)))
    }
}

impl Sub for Fp {
    type Output = Fp;
    #[inline]
    fn sub(self, other: Fp) -> Fp {
        let difference = self.0.wrapping_sub(other.0);
        Fp(difference.min(difference.wrapping_add(P)))
    }
}

impl Mul for Fp {
    type Output = Fp;
    #[inline]
    fn mul(self, other: Fp) -> Fp {
        Fp(reduce(u64::from(self.0) * u64::from(other.0)))
    }
}

impl Neg for Fp {
    type Output = Fp;
    #[inline]
    fn neg(self) -> Fp {
        Fp::ZERO - self
    }
}

impl AddAssign for Fp {
    #[inline]
    fn add_assign(&mut self, other: Fp) {
        *self = *self + other;
    }
}

impl SubAssign for Fp {
    #[inline]
    fn sub_assign(&mut self, other: Fp) {
        *self = *self - other;
    }
}

impl MulAssign for Fp {
    #[inline]
    fn mul_assign(&mut self, other: Fp) {
        *self = *self * other;
    }
}

impl Sum for Fp {
    fn sum<I: Iterator<Item = Fp>>(iter: I) -> Fp {
        iter.fold(Fp::ZERO, Add::add)
    }
}

impl fmt::Debug for Fp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p3_field::{Field, PrimeCharacteristicRing, PrimeField32};
    use p3_koala_bear::KoalaBear;
    use proptest::prelude::*;

    const EDGES: [u32; 6] = [0, 1, 2, P - 2, P - 1, 1 << 24];

    fn agrees(a: u32, b: u32) {
        let (x, y) = (Fp::new(a), Fp::new(b));
        let (u, v) = (KoalaBear::from_u32(a % P), KoalaBear::from_u32(b % P));
        assert_eq!((x + y).canonical(), (u + v).as_canonical_u32());
        assert_eq!((x - y).canonical(), (u - v).as_canonical_u32());
        assert_eq!((x * y).canonical(), (u * v).as_canonical_u32());
        assert_eq!((-x).canonical(), (-u).as_canonical_u32());
        let inverse = u.try_inverse().map(|i| i.as_canonical_u32());
        assert_eq!(x.inverse().map(Fp::canonical), inverse);
    }

    #[test]
    fn edges_agree_with_plonky3() {
        for a in EDGES {
            EDGES.into_iter().for_each(|b| agrees(a, b));
        }
        assert_eq!(Fp::new(P), Fp::ZERO);
        assert_eq!(Fp::new(u32::MAX).canonical(), u32::MAX % P);
        assert_eq!(
            Fp::reduced(u128::MAX).canonical(),
            (u128::MAX % u128::from(P)) as u32
        );
    }

    #[test]
    fn only_integers_below_p_are_canonical() {
        assert_eq!(Fp::from_canonical(P - 1).map(Fp::canonical), Some(P - 1));
        for value in [P, P + 1, u32::MAX] {
            assert_eq!(Fp::from_canonical(value), None);
            assert_eq!(Fp::from_bytes(value.to_le_bytes()), None);
        }
    }

    #[test]
    fn roots_of_unity_have_their_order() {
        assert_eq!(Fp::root_of_unity(24).canonical(), 0x6ac4_9f88);
        for log2 in 1..=24 {
            let root = Fp::root_of_unity(log2);
            assert_eq!(root.pow(1 << (log2 - 1)), -Fp::ONE, "order 2^{log2}");
        }
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_plonky3(a: u32, b: u32) {
            agrees(a, b);
        }
    }
}
