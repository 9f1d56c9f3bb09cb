//! Sixteen elements of Fp (`N` = 1) or Fp2 (`N` = 2), one in each lane, with their bounds.

use core::arch::x86_64::*;

use super::bound::Bound;
use crate::blst_ffi::field::{Fp, P};
use crate::sums::avx512::convert::{Coefficients, ONE, times_power_of_two};
use crate::sums::avx512::field::{
    DIGITS, Fe, LANES, LIMBS, NARROW, P_LIMBS, WIDE, join, products, split, square, transpose,
    words,
};

/// Sixteen numbers that may be added: limbs are signed 64-bit words.
#[derive(Clone, Copy)]
pub(super) struct Wide<const N: usize> {
    pub(super) c: [Fe; N],
    bound: Bound,
}

/// Sixteen operands of products: every limb is below 2^52.
#[derive(Clone, Copy)]
pub(super) struct Element<const N: usize>(Wide<N>);

impl<const N: usize> core::ops::Deref for Element<N> {
    type Target = Wide<N>;

    fn deref(&self) -> &Wide<N> {
        &self.0
    }
}

/// A constant of Fp in the lanes' Montgomery form, from a number below p.
pub(super) const fn constant(words: [u64; 6]) -> [u64; LIMBS] {
    split(&times_power_of_two(words, 416))
}

/// A small constant of Fp.
pub(super) const fn small(value: u64) -> [u64; LIMBS] {
    constant([value, 0, 0, 0, 0, 0])
}

/// The negative of a number below p and not 0.
pub(super) const fn negative(words: [u64; 6]) -> [u64; 6] {
    let mut out = [0; 6];
    let (mut i, mut borrow) = (0, false);
    while i < 6 {
        let (a, first) = P[i].overflowing_sub(words[i]);
        let (a, second) = a.overflowing_sub(borrow as u64);
        out[i] = a;
        borrow = first | second;
        i += 1;
    }
    out
}

/// multiple · p in limbs below 2^52, for a multiple below 2^28.
const fn multiple_of_p(multiple: u64) -> [u64; LIMBS] {
    let mut out = [0; LIMBS];
    let (mut j, mut carry) = (0, 0u128);
    while j < LIMBS {
        let sum = carry + P_LIMBS[j] as u128 * multiple as u128;
        out[j] = sum as u64 & ((1 << 52) - 1);
        carry = sum >> 52;
        j += 1;
    }
    out
}

/// Multiplying by this number (and dividing by 2^416) takes an integer to its Montgomery form.
const FROM_INTEGER: [u64; LIMBS] = split(&times_power_of_two([1, 0, 0, 0, 0, 0], 832));
/// The same for 2^256 times an integer.
const FROM_HIGH_INTEGER: [u64; LIMBS] = split(&times_power_of_two([1, 0, 0, 0, 0, 0], 832 + 256));
/// Multiplying by this number (and dividing by 2^416) takes blst's a·2^384 to a·2^416.
const ENTER: [u64; LIMBS] = split(&times_power_of_two([1, 0, 0, 0, 0, 0], 448));
/// Multiplying by this number (and dividing by 2^416) takes a·2^416 to blst's a·2^384.
const LEAVE: [u64; LIMBS] = split(&times_power_of_two([1, 0, 0, 0, 0, 0], 384));
/// Multiplying by one and dividing by 2^416 leaves Montgomery form.
const INTEGER_ONE: [u64; LIMBS] = [1, 0, 0, 0, 0, 0, 0, 0];
/// What is added to a number before it is subtracted from 0 inside a product over Fp2.
const NEGATION: u64 = 64;

/// Sixteen integers of six words, limb-major.
#[target_feature(enable = "avx512f")]
fn load(integers: &[[u64; 6]; LANES]) -> Fe {
    let mut out = Fe::zero();
    for v in 0..2 {
        let mut rows = [_mm512_setzero_si512(); 8];
        for (row, integer) in rows.iter_mut().zip(&integers[8 * v..]) {
            let [a, b, c, d, e, f, g, h] = split(integer).map(|limb| limb as i64);
            *row = _mm512_setr_epi64(a, b, c, d, e, f, g, h);
        }
        out.0[v] = transpose(&rows);
    }
    out
}

/// Sixteen integers below 2^384 in digits, as six words each.
#[target_feature(enable = "avx512f")]
fn store(numbers: &Fe) -> [[u64; 6]; LANES] {
    let mut out = [[0; 6]; LANES];
    for v in 0..2 {
        for (row, out) in transpose(&numbers.0[v]).into_iter().zip(&mut out[8 * v..]) {
            *out = join(&words(row));
        }
    }
    out
}

impl<const N: usize> Wide<N> {
    /// `self + other`.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn add(&self, other: &Wide<N>) -> Wide<N> {
        let mut out = *self;
        for c in 0..N {
            out.c[c] = self.c[c].add(&other.c[c]);
        }
        out.bound = self.bound.plus(other.bound);
        out
    }

    /// `self - other + K·p`; `other` is at most K·p.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn sub<const K: u64>(&self, other: &Wide<N>) -> Wide<N> {
        let offset = const { multiple_of_p(K) };
        let mut out = *self;
        for c in 0..N {
            for v in 0..2 {
                for j in 0..LIMBS {
                    let difference = _mm512_sub_epi64(self.c[c].0[v][j], other.c[c].0[v][j]);
                    let offset = _mm512_set1_epi64(offset[j] as i64);
                    out.c[c].0[v][j] = _mm512_add_epi64(difference, offset);
                }
            }
        }
        out.bound = self.bound.minus(other.bound, K);
        out
    }

    /// `self · 2^S`.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn shl<const S: u32>(&self) -> Wide<N> {
        let mut out = *self;
        for register in out.c.iter_mut().flat_map(|fe| fe.0.iter_mut().flatten()) {
            *register = _mm512_slli_epi64::<S>(*register);
        }
        out.bound = self.bound.shifted(S);
        out
    }

    /// The same value as an operand of products.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn carry(&self) -> Element<N> {
        let mut out = *self;
        for c in 0..N {
            out.c[c] = self.c[c].carried();
        }
        out.bound = self.bound.carried();
        Element(out)
    }
}

impl<const N: usize> Element<N> {
    /// Coefficients whose limbs are digits.
    #[inline(always)]
    fn from_digits(c: [Fe; N], multiple: u64) -> Element<N> {
        let bound = Bound::new(multiple, 1);
        Element(Wide { c, bound })
    }

    /// The same element in all lanes: coefficients in Montgomery form, below p.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn broadcast(coefficients: &[[u64; LIMBS]; N]) -> Element<N> {
        let mut c = [Fe::zero(); N];
        for (c, limbs) in c.iter_mut().zip(coefficients) {
            *c = Fe::broadcast(limbs);
        }
        Element::from_digits(c, 1)
    }

    /// One in all lanes.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn one() -> Element<N> {
        let mut c = [Fe::zero(); N];
        c[0] = Fe::broadcast(&ONE);
        Element::from_digits(c, 1)
    }

    /// Zero in all lanes.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn zero() -> Element<N> {
        Element::from_digits([Fe::zero(); N], 0)
    }

    /// From integers below 2^384, one array of lanes per coefficient.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn from_integers(integers: &[[[u64; 6]; LANES]; N]) -> Element<N> {
        Element::entered(integers, &FROM_INTEGER)
    }

    /// From elements as blst keeps them.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn enter<F: Coefficients<N>>(elements: &[F; LANES]) -> Element<N> {
        let mut integers = [[[0; 6]; LANES]; N];
        for (lane, element) in elements.iter().enumerate() {
            for (integers, coefficient) in integers.iter_mut().zip(element.split()) {
                integers[lane] = *coefficient.limbs();
            }
        }
        Element::entered(&integers, &ENTER)
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn entered(integers: &[[[u64; 6]; LANES]; N], factor: &[u64; LIMBS]) -> Element<N> {
        let factor = Fe::broadcast(factor);
        let mut c = [Fe::zero(); N];
        for (c, integers) in c.iter_mut().zip(integers) {
            products::<1, DIGITS>([(&load(integers), &factor)], c);
        }
        // 2^384 < 2^4·p, and the factor is below p.
        Element::from_digits(c, 2)
    }

    /// As blst keeps them.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn leave<F: Coefficients<N>>(&self) -> [F; LANES] {
        let mut integers = [[[0; 6]; LANES]; N];
        for (integers, reduced) in integers.iter_mut().zip(self.reduced(&LEAVE)) {
            *integers = store(&reduced);
        }
        core::array::from_fn(|lane| {
            F::join(core::array::from_fn(|c| {
                Fp::from_limbs_reduced(integers[c][lane])
            }))
        })
    }

    /// The integers below p that the lanes stand for, in digits.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn integers(&self) -> [Fe; N] {
        self.reduced(&INTEGER_ONE)
    }

    /// self · factor / 2^416, below p. A product is below 2p, which `reduce` asks for.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn reduced(&self, factor: &[u64; LIMBS]) -> [Fe; N] {
        let factor = Fe::broadcast(factor);
        let mut out = [Fe::zero(); N];
        for (out, c) in out.iter_mut().zip(&self.c) {
            let mut product = Fe::zero();
            products::<1, DIGITS>([(c, &factor)], &mut product);
            *out = product.reduce();
        }
        out
    }

    /// Lanes that are 1.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn is_one(&self) -> u16 {
        let mut lanes = !0;
        for (i, integer) in self.integers().iter().enumerate() {
            lanes &= integer.equals(if i == 0 { &INTEGER_ONE } else { &[0; LIMBS] });
        }
        lanes
    }

    /// Lanes that are 0.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn is_zero(&self) -> u16 {
        self.c.iter().fold(!0, |mask, c| mask & c.is_zero_mod_p())
    }

    /// Lanes where both are equal; other is at most 64p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn equals(&self, other: &Wide<N>) -> u16 {
        self.sub::<NEGATION>(other).carry().is_zero()
    }

    /// `other` in the lanes of `mask`, `self` in the others.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn select(&self, mask: u16, other: &Element<N>) -> Element<N> {
        let mut out = *self;
        for c in 0..N {
            out.0.c[c] = self.c[c].select(mask, &other.c[c]);
        }
        out.0.bound = self.bound.either(other.bound);
        out
    }

    /// `-self`; it is at most K·p.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn neg<const K: u64>(&self) -> Element<N> {
        Element::zero().sub::<K>(self).carry()
    }

    /// `self · other`. Over Fp2 self is at most 64p; the result is below 2p in any case.
    ///
    /// u² = -1: a0·b0 + (-a1)·b1, and a0·b1 + a1·b0.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn mul(&self, other: &Element<N>) -> Wide<N> {
        let (a, b) = (&self.c, &other.c);
        let mut c = [Fe::zero(); N];
        if N == 1 {
            products::<1, WIDE>([(&a[0], &b[0])], &mut c[0]);
            let bound = Bound::of_products([(self.bound, other.bound)]);
            return Wide { c, bound };
        }
        let minus = self.neg::<NEGATION>();
        products::<2, WIDE>([(&a[0], &b[0]), (&minus.c[1], &b[1])], &mut c[0]);
        products::<2, WIDE>([(&a[0], &b[1]), (&a[1], &b[0])], &mut c[1]);
        let bound = Bound::of_products([(self.bound, other.bound), (minus.bound, other.bound)]);
        Wide { c, bound }
    }

    /// `self²`; over Fp2 self is at most 64p.
    ///
    /// u² = -1: (a0 + a1)·(a0 - a1), and 2·a0·a1.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn square(&self) -> Wide<N> {
        let a = &self.c;
        let mut c = [Fe::zero(); N];
        if N == 1 {
            square::<WIDE>(&a[0], &mut c[0]);
            let bound = Bound::of_products([(self.bound, self.bound)]);
            return Wide { c, bound };
        }
        let (a0, a1) = (self.coefficient(0), self.coefficient(1));
        let (sum, difference) = (a0.add(&a1).carry(), a0.sub::<NEGATION>(&a1).carry());
        c[0] = sum.mul(&difference).c[0];
        let cross = a0.mul(&a1).shl::<1>();
        c[1] = cross.c[0];
        Wide {
            c,
            bound: cross.bound,
        }
    }

    /// One coefficient.
    #[inline(always)]
    pub(super) fn coefficient(&self, c: usize) -> Element<1> {
        let (c, bound) = ([self.c[c]], self.bound);
        Element(Wide { c, bound })
    }
}

impl Element<2> {
    /// c0 + c1·u.
    #[inline(always)]
    pub(super) fn from_halves(c0: &Element<1>, c1: &Element<1>) -> Element<2> {
        let (c, bound) = ([c0.c[0], c1.c[0]], c0.bound.either(c1.bound));
        Element(Wide { c, bound })
    }

    /// c0 - c1·u; self is at most K·p.
    #[target_feature(enable = "avx512f")]
    pub(super) fn conjugate<const K: u64>(&self) -> Element<2> {
        Element::from_halves(&self.coefficient(0), &self.coefficient(1).neg::<K>())
    }
}

/// (p - 3)/4, least significant word first.
const INVERSE_ROOT: [u64; 6] = {
    let mut out = [0; 6];
    let mut i = 0;
    while i < 6 {
        let above = if i < 5 { P[i + 1] } else { 0 };
        // The lowest two bits of p are ones: the shift subtracts 3.
        out[i] = P[i] >> 2 | above << 62;
        i += 1;
    }
    out
};
/// Bits of (p - 3)/4.
const INVERSE_ROOT_BITS: usize = 379;
/// Bits of a window.
const WINDOW_BITS: usize = 5;

/// The uppermost window of what is left of an exponent.
struct Window {
    bits: usize,
    /// Half of the digit, which is odd; none for a zero.
    odd: Option<usize>,
}

/// The window below bit `top` of (p - 3)/4.
fn window(top: usize) -> Window {
    let bit = |i: usize| (INVERSE_ROOT[i / 64] >> (i % 64) & 1) as usize;
    if bit(top - 1) == 0 {
        return Window { bits: 1, odd: None };
    }
    let mut low = top.saturating_sub(WINDOW_BITS);
    while bit(low) == 0 {
        low += 1;
    }
    let digit = (low..top).rev().fold(0, |digit, i| 2 * digit + bit(i));
    Window {
        bits: top - low,
        odd: Some(digit / 2),
    }
}

impl Element<1> {
    /// high·2^256 + low for integers below 2^256.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn from_wide_integers(
        high: &[[u64; 6]; LANES],
        low: &[[u64; 6]; LANES],
    ) -> Element<1> {
        let (high, low) = (load(high), load(low));
        let factors = (
            Fe::broadcast(&FROM_HIGH_INTEGER),
            Fe::broadcast(&FROM_INTEGER),
        );
        let mut c = [Fe::zero()];
        products::<2, DIGITS>([(&high, &factors.0), (&low, &factors.1)], &mut c[0]);
        Element::from_digits(c, 2)
    }

    /// self^((p - 3)/4): the inverse of a square root where self is a square, with a sign; of a square
    /// root of -self where it is not; and 0 for 0.
    ///
    /// Sliding windows of five bits: 375 squarings and 82 products.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline(never)]
    pub(super) fn inverse_root(&self) -> Element<1> {
        let squared = self.square().carry();
        let mut odd = [self.c[0]; 16];
        let mut power = *self;
        for odd in &mut odd[1..] {
            power = power.mul(&squared).carry();
            *odd = power.c[0];
        }
        // Two buffers take turns, so that nothing is copied.
        let mut buffers = (Fe::zero(), Fe::zero());
        let (mut power, mut next) = (&mut buffers.0, &mut buffers.1);
        let first = window(INVERSE_ROOT_BITS);
        *power = odd[first.odd.expect("the uppermost bit is set")];
        let mut top = INVERSE_ROOT_BITS - first.bits;
        while top > 0 {
            let window = window(top);
            for _ in 0..window.bits {
                square::<NARROW>(power, next);
                core::mem::swap(&mut power, &mut next);
            }
            if let Some(digit) = window.odd {
                products::<1, NARROW>([(power, &odd[digit])], next);
                core::mem::swap(&mut power, &mut next);
            }
            top -= window.bits;
        }
        Element::from_digits([power.digits()], 2)
    }
}

/// Lanes of integers in digits that are above (p - 1)/2.
#[target_feature(enable = "avx512f")]
pub(super) fn above_half(integer: &Fe) -> u16 {
    // p - 2·integer is negative.
    let mut difference = Fe::broadcast(&P_LIMBS);
    let mut lanes = [0u8; 2];
    for v in 0..2 {
        for j in 0..LIMBS {
            let twice = _mm512_slli_epi64::<1>(integer.0[v][j]);
            difference.0[v][j] = _mm512_sub_epi64(difference.0[v][j], twice);
        }
    }
    let carried = difference.carried();
    for v in 0..2 {
        lanes[v] = _mm512_cmplt_epi64_mask(carried.0[v][LIMBS - 1], _mm512_setzero_si512());
    }
    u16::from(lanes[0]) | u16::from(lanes[1]) << 8
}

/// Lanes of integers in digits that are odd.
#[target_feature(enable = "avx512f")]
pub(super) fn odd(integer: &Fe) -> u16 {
    let one = _mm512_set1_epi64(1);
    let lanes = [0, 1].map(|v| _mm512_test_epi64_mask(integer.0[v][0], one));
    u16::from(lanes[0]) | u16::from(lanes[1]) << 8
}
