//! The scalars: integers modulo the group order ℓ, in four limbs of 64 bits, always canonical.

use std::ops::{Add, Mul, Neg, Sub};

use rand_chacha::rand_core::Rng;

use crate::inverse::{ORDER, vartime_inverse};

/// -1/ℓ modulo 2^64.
const ORDER_NEG_INVERSE: u64 = 0xd2b5_1da3_1254_7e1b;
/// 2^512 modulo ℓ.
const R2: Scalar = Scalar([
    0xa406_11e3_449c_0f01,
    0xd00e_1ba7_6885_9347,
    0xceec_73d2_17f5_be65,
    0x0399_411b_7c30_9a3d,
]);
/// 2^516 modulo ℓ: a Montgomery product with it multiplies by 2^260.
#[cfg(target_arch = "x86_64")]
const R_260: Scalar = Scalar([
    0x3829_f4e5_32df_7449,
    0xc244_ccda_9f72_5df7,
    0xeec7_3d21_7f5b_e65c,
    0x0994_11b7_c309_a3dc,
]);
/// 2^562 modulo ℓ: a Montgomery product with it multiplies by 2^306.
#[cfg(target_arch = "x86_64")]
const R_306: Scalar = Scalar([
    0xda08_b394_4420_6ed2,
    0xd285_c8b8_35dd_579e,
    0xf997_2d71_8eaa_5e8c,
    0x08f7_3bb1_cf48_5fd6,
]);

/// An integer modulo ℓ, the prime order of Ristretto255, as its canonical representative.
///
/// Its arithmetic takes variable time: all coded data is public.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scalar(pub(crate) [u64; 4]);

impl Scalar {
    /// 0.
    pub const ZERO: Scalar = Scalar([0; 4]);
    /// 1.
    pub const ONE: Scalar = Scalar([1, 0, 0, 0]);

    /// Reads 32 little-endian bytes; `None` unless the integer is below ℓ.
    pub(crate) fn from_canonical_bytes(bytes: &[u8; 32]) -> Option<Scalar> {
        let mut limbs = [0; 4];
        for (limb, word) in limbs.iter_mut().zip(bytes.chunks_exact(8)) {
            *limb = u64::from_le_bytes(word.try_into().expect("chunks of eight bytes"));
        }
        is_canonical(&limbs).then_some(Scalar(limbs))
    }

    /// The 32 little-endian bytes of the canonical representative.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut out = [0; 32];
        for (chunk, limb) in out.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&limb.to_le_bytes());
        }
        out
    }

    /// Uniform, by rejection of 253-bit integers (two draws on average).
    pub fn random<R: Rng + ?Sized>(rng: &mut R) -> Scalar {
        loop {
            let mut limbs = [
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
            ];
            limbs[3] &= (1 << 61) - 1;
            if is_canonical(&limbs) {
                return Scalar(limbs);
            }
        }
    }

    /// Whether this is 0.
    pub fn is_zero(self) -> bool {
        self.0 == [0; 4]
    }

    /// self · 2^256 modulo ℓ: the form in which the portable row kernel takes its factors, which
    /// are few.
    pub(crate) fn times_2_256(self) -> Scalar {
        self.montgomery_mul(R2)
    }

    /// self · 2^260 modulo ℓ: the form in which the AVX-512 row kernel takes its factors, which are
    /// few.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn times_2_260(self) -> Scalar {
        self.montgomery_mul(R_260)
    }

    /// self · 2^306 modulo ℓ: the form in which the AVX2 row kernel takes its factors, which are
    /// few.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn times_2_306(self) -> Scalar {
        self.montgomery_mul(R_306)
    }

    /// self · other / 2^256 modulo ℓ.
    fn montgomery_mul(self, other: Scalar) -> Scalar {
        let mut wide = [0; 8];
        multiply_add(&mut wide, &self.0, &other.0);
        montgomery_reduce(wide)
    }

    /// The inverse modulo ℓ. Panics for 0.
    #[must_use]
    pub(crate) fn vartime_invert(self) -> Scalar {
        assert!(!self.is_zero(), "zero has no inverse");
        Scalar(vartime_inverse(self.0))
    }
}

/// A factor for which a kernel may use fewer limbs: r / 2^104, r below 2^96.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short(u128);

impl Short {
    /// Bits of r.
    const BITS: u32 = 96;
    #[cfg(test)]
    pub(crate) const GREATEST: Short = Short((1 << Self::BITS) - 1);

    /// With uniform r.
    pub(crate) fn random<R: Rng + ?Sized>(rng: &mut R) -> Short {
        let mut bytes = [0; 16];
        rng.fill_bytes(&mut bytes[..Self::BITS as usize / 8]);
        Short(u128::from_le_bytes(bytes))
    }

    /// r, the form in which the AVX-512 row kernel takes it.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn times_2_104(self) -> u128 {
        self.0
    }

    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Short> for Scalar {
    fn from(short: Short) -> Scalar {
        // The product also divides by 2^256: with 2^152, r is divided by 2^104 in all.
        Scalar::from(short.0).montgomery_mul(power_of_two(256 - 104))
    }
}

/// 2^exponent for exponents up to 251.
fn power_of_two(exponent: u32) -> Scalar {
    let mut limbs = [0; 4];
    limbs[(exponent / 64) as usize] = 1 << (exponent % 64);
    Scalar(limbs)
}

impl Add for Scalar {
    type Output = Scalar;

    fn add(self, other: Scalar) -> Scalar {
        // Both are below 2^253, so the sum has no carry out of 256 bits.
        let (sum, _) = add_limbs(&self.0, &other.0);
        Scalar(reduce_once(sum))
    }
}

impl Sub for Scalar {
    type Output = Scalar;

    fn sub(self, other: Scalar) -> Scalar {
        let (difference, borrow) = sub_limbs(&self.0, &other.0);
        if borrow {
            Scalar(add_limbs(&difference, &ORDER).0)
        } else {
            Scalar(difference)
        }
    }
}

impl Neg for Scalar {
    type Output = Scalar;

    fn neg(self) -> Scalar {
        Scalar::ZERO - self
    }
}

impl Mul for Scalar {
    type Output = Scalar;

    fn mul(self, other: Scalar) -> Scalar {
        // The second product makes up for the division by 2^256 in the first.
        self.montgomery_mul(other).montgomery_mul(R2)
    }
}

impl From<u64> for Scalar {
    fn from(value: u64) -> Scalar {
        Scalar([value, 0, 0, 0])
    }
}

impl From<u128> for Scalar {
    fn from(value: u128) -> Scalar {
        Scalar([value as u64, (value >> 64) as u64, 0, 0])
    }
}

/// Whether the integer is below ℓ.
#[inline(always)]
pub(crate) fn is_canonical(limbs: &[u64; 4]) -> bool {
    // Nearly all canonical integers have a smaller top word, and need no subtraction.
    limbs[3] < ORDER[3] || sub_limbs(limbs, &ORDER).1
}

#[inline(always)]
fn add_limbs(a: &[u64; 4], b: &[u64; 4]) -> ([u64; 4], bool) {
    let mut out = [0; 4];
    let mut carry = false;
    for i in 0..4 {
        let (sum, first) = a[i].overflowing_add(b[i]);
        let (sum, second) = sum.overflowing_add(u64::from(carry));
        (out[i], carry) = (sum, first | second);
    }
    (out, carry)
}

#[inline(always)]
fn sub_limbs(a: &[u64; 4], b: &[u64; 4]) -> ([u64; 4], bool) {
    let mut out = [0; 4];
    let mut borrow = false;
    for i in 0..4 {
        let (difference, first) = a[i].overflowing_sub(b[i]);
        let (difference, second) = difference.overflowing_sub(u64::from(borrow));
        (out[i], borrow) = (difference, first | second);
    }
    (out, borrow)
}

#[inline(always)]
fn reduce_once(a: [u64; 4]) -> [u64; 4] {
    let (difference, borrow) = sub_limbs(&a, &ORDER);
    if borrow { a } else { difference }
}

/// acc += a·b; exact as long as the sum stays below 2^512.
#[inline(always)]
pub(crate) fn multiply_add(acc: &mut [u64; 8], a: &[u64; 4], b: &[u64; 4]) {
    for i in 0..4 {
        let mut carry = 0_u64;
        for j in 0..4 {
            let t =
                u128::from(a[i]) * u128::from(b[j]) + u128::from(acc[i + j]) + u128::from(carry);
            acc[i + j] = t as u64;
            carry = (t >> 64) as u64;
        }
        // To the very end, because earlier products may have filled the upper words.
        for limb in &mut acc[i + 4..] {
            let (sum, overflow) = limb.overflowing_add(carry);
            *limb = sum;
            carry = u64::from(overflow);
        }
    }
}

/// value / 2^256 modulo ℓ for value < 2^511, which holds for sums of 64 products below ℓ² < 2^504.1.
///
/// Before the last step the quotient is below 2^511/2^256 + ℓ; sums of 64 products give less than 5ℓ.
#[inline(always)]
pub(crate) fn montgomery_reduce(mut value: [u64; 8]) -> Scalar {
    for i in 0..4 {
        let q = value[i].wrapping_mul(ORDER_NEG_INVERSE);
        let mut carry = 0_u64;
        for j in 0..4 {
            let t =
                u128::from(q) * u128::from(ORDER[j]) + u128::from(value[i + j]) + u128::from(carry);
            value[i + j] = t as u64;
            carry = (t >> 64) as u64;
        }
        for limb in &mut value[i + 4..] {
            let (sum, overflow) = limb.overflowing_add(carry);
            *limb = sum;
            carry = u64::from(overflow);
        }
    }
    let mut out = [value[4], value[5], value[6], value[7]];
    while !is_canonical(&out) {
        out = sub_limbs(&out, &ORDER).0;
    }
    Scalar(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve25519_dalek::scalar::Scalar as Dalek;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    fn dalek(x: Scalar) -> Dalek {
        Dalek::from_canonical_bytes(x.to_bytes()).unwrap()
    }

    fn samples() -> Vec<Scalar> {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut out: Vec<Scalar> = (0..60).map(|_| Scalar::random(&mut rng)).collect();
        out.extend([Scalar::ZERO, Scalar::ONE, -Scalar::ONE, Scalar::from(7_u64)]);
        out.push(Scalar::from(u128::MAX));
        out
    }

    #[test]
    fn arithmetic_agrees_with_dalek() {
        for a in samples() {
            for b in samples() {
                assert_eq!(dalek(a + b), dalek(a) + dalek(b));
                assert_eq!(dalek(a - b), dalek(a) - dalek(b));
                assert_eq!(dalek(a * b), dalek(a) * dalek(b));
            }
            assert_eq!(dalek(-a), -dalek(a));
            if !a.is_zero() {
                assert_eq!(a * a.vartime_invert(), Scalar::ONE);
            }
        }
    }

    #[test]
    fn only_integers_below_the_order_are_canonical() {
        let bytes = |limbs: [u64; 4]| Scalar(limbs).to_bytes();
        let mut below = ORDER;
        below[0] -= 1;
        let mut above = ORDER;
        above[0] += 1;
        assert!(Scalar::from_canonical_bytes(&bytes(below)).is_some());
        for limbs in [ORDER, above, [u64::MAX; 4], [0, 0, 1, ORDER[3]]] {
            assert!(Scalar::from_canonical_bytes(&bytes(limbs)).is_none());
        }
    }

    #[test]
    fn short_factors_are_over_a_power_of_two() {
        let power = (0..104).fold(Scalar::ONE, |x, _| x + x);
        let mut rng = ChaCha20Rng::seed_from_u64(15);
        for _ in 0..50 {
            let short = Short::random(&mut rng);
            assert!(short.0 >> Short::BITS == 0 && !short.is_zero());
            assert_eq!(Scalar::from(short) * power, Scalar::from(short.0));
        }
    }
}
