//! Sixteen elements of Fp (`N` = 1) or Fp2 (`N` = 2), one in each lane, with their bounds.

use super::bound::Bound;
use crate::blst_ffi::field::{Fp, P};
use crate::sums::vector::convert::Coefficients;
use crate::vector::montgomery::{ENTER, LEAVE, ONE, times_power_of_two};
use crate::vector::{
    DIGITS, Fe, LANES, LIMBS, Line, Multiplier, NARROW, Offset, P_LIMBS, Routine, WIDE, join,
    multiple_of_p, split,
};

/// Sixteen numbers that may be added: limbs are signed 64-bit words.
#[derive(Clone, Copy)]
pub(super) struct Wide<M: Multiplier, const N: usize> {
    pub(super) c: [Fe<M>; N],
    pub(super) bound: Bound,
}

/// Sixteen operands of products: every limb is below 2^52.
#[derive(Clone, Copy)]
pub(super) struct Element<M: Multiplier, const N: usize>(Wide<M, N>);

impl<M: Multiplier, const N: usize> core::ops::Deref for Element<M, N> {
    type Target = Wide<M, N>;

    fn deref(&self) -> &Wide<M, N> {
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

/// Multiplying by this number (and dividing by 2^416) takes an integer to its Montgomery form.
const FROM_INTEGER: [u64; LIMBS] = split(&times_power_of_two([1, 0, 0, 0, 0, 0], 832));
/// The same for 2^256 times an integer.
const FROM_HIGH_INTEGER: [u64; LIMBS] = split(&times_power_of_two([1, 0, 0, 0, 0, 0], 832 + 256));
/// Multiplying by one and dividing by 2^416 leaves Montgomery form.
const INTEGER_ONE: [u64; LIMBS] = [1, 0, 0, 0, 0, 0, 0, 0];
/// Multiple of p added to a number before it is subtracted from 0 inside a product over Fp2.
const NEGATION: u64 = 64;

/// Transposes sixteen integers of six words, limb-major.
#[inline(always)]
fn load<M: Multiplier>(m: M, integers: &[[u64; 6]; LANES]) -> Fe<M> {
    let mut lines = [Line::ZERO; LANES];
    for lane in 0..LANES {
        lines[lane] = Line(split(&integers[lane]));
    }
    Fe::gather(m, &lines.each_ref())
}

/// Sixteen integers below 2^384 in digits, as six words each.
#[inline(always)]
fn store<M: Multiplier>(numbers: &Fe<M>) -> [[u64; 6]; LANES] {
    let lines = numbers.scatter();
    let mut out = [[0; 6]; LANES];
    for lane in 0..LANES {
        out[lane] = join(&lines[lane].0);
    }
    out
}

impl<M: Multiplier, const N: usize> Wide<M, N> {
    /// The multiplier it computes with.
    #[inline(always)]
    pub(super) fn m(&self) -> M {
        self.c[0].m
    }

    /// `self + other`.
    #[inline(always)]
    pub(super) fn add(&self, other: &Wide<M, N>) -> Wide<M, N> {
        let mut out = *self;
        for c in 0..N {
            out.c[c] = self.c[c].add(&other.c[c]);
        }
        out.bound = self.bound.plus(other.bound);
        out
    }

    /// `self - other + K·p`; `other` is at most K·p.
    #[inline(always)]
    pub(super) fn sub<const K: u64>(&self, other: &Wide<M, N>) -> Wide<M, N> {
        let offset = Offset::new(self.m(), &const { multiple_of_p(K) });
        let mut out = *self;
        for c in 0..N {
            out.c[c] = self.c[c].sub(&other.c[c], &offset);
        }
        out.bound = self.bound.minus(other.bound, K);
        out
    }

    /// `self · 2^S`.
    #[inline(always)]
    pub(super) fn shl<const S: u32>(&self) -> Wide<M, N> {
        let mut out = *self;
        for c in 0..N {
            out.c[c] = self.c[c].shl::<S>();
        }
        out.bound = self.bound.shifted(S);
        out
    }

    /// Converts the same value to an operand of products.
    #[inline(always)]
    pub(super) fn carry(&self) -> Element<M, N> {
        let mut out = *self;
        for c in 0..N {
            out.c[c] = self.c[c].carried();
        }
        out.bound = self.bound.carried();
        Element(out)
    }
}

impl<M: Multiplier, const N: usize> Element<M, N> {
    /// Builds an element from coefficients whose limbs are digits.
    #[inline(always)]
    fn from_digits(c: [Fe<M>; N], multiple: u64) -> Element<M, N> {
        let bound = Bound::new(multiple, 1);
        Element(Wide { c, bound })
    }

    /// Broadcasts one element to all lanes: coefficients in Montgomery form, below p.
    #[inline(always)]
    pub(super) fn broadcast(m: M, coefficients: &[[u64; LIMBS]; N]) -> Element<M, N> {
        let mut c = [Fe::zero(m); N];
        for (c, limbs) in c.iter_mut().zip(coefficients) {
            *c = Fe::broadcast(m, limbs);
        }
        Element::from_digits(c, 1)
    }

    /// One in all lanes.
    #[inline(always)]
    pub(super) fn one(m: M) -> Element<M, N> {
        let mut c = [Fe::zero(m); N];
        c[0] = Fe::broadcast(m, &ONE);
        Element::from_digits(c, 1)
    }

    /// Zero in all lanes.
    #[inline(always)]
    pub(super) fn zero(m: M) -> Element<M, N> {
        Element::from_digits([Fe::zero(m); N], 0)
    }

    /// Converts integers below 2^384, one array of lanes per coefficient.
    #[inline(always)]
    pub(super) fn from_integers(m: M, integers: &[[[u64; 6]; LANES]; N]) -> Element<M, N> {
        Element::entered(m, integers, &FROM_INTEGER)
    }

    /// Converts elements from blst's form.
    #[inline(always)]
    pub(super) fn enter<F: Coefficients<N>>(m: M, elements: &[F; LANES]) -> Element<M, N> {
        let mut integers = [[[0; 6]; LANES]; N];
        for (lane, element) in elements.iter().enumerate() {
            for (integers, coefficient) in integers.iter_mut().zip(element.split()) {
                integers[lane] = *coefficient.limbs();
            }
        }
        Element::entered(m, &integers, &ENTER)
    }

    #[inline(always)]
    fn entered(m: M, integers: &[[[u64; 6]; LANES]; N], factor: &[u64; LIMBS]) -> Element<M, N> {
        let factor = Fe::broadcast(m, factor);
        let mut c = [Fe::zero(m); N];
        for (c, integers) in c.iter_mut().zip(integers) {
            m.products::<1, DIGITS>([(&load(m, integers), &factor)], c);
        }
        // 2^384 < 2^4·p, and the factor is below p.
        Element::from_digits(c, 2)
    }

    /// Converts to blst's form.
    #[inline(always)]
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

    /// The integers below p that the lanes represent, in digits.
    #[inline(always)]
    pub(super) fn integers(&self) -> [Fe<M>; N] {
        self.reduced(&INTEGER_ONE)
    }

    /// self · factor / 2^416, below p. A product is below 2p, as `reduce` requires.
    #[inline(always)]
    fn reduced(&self, factor: &[u64; LIMBS]) -> [Fe<M>; N] {
        let m = self.m();
        let factor = Fe::broadcast(m, factor);
        let mut out = [Fe::zero(m); N];
        for (out, c) in out.iter_mut().zip(&self.c) {
            let mut product = Fe::zero(m);
            m.products::<1, DIGITS>([(c, &factor)], &mut product);
            *out = product.reduce();
        }
        out
    }

    /// Lanes that are 1.
    #[inline(always)]
    pub(super) fn is_one(&self) -> u16 {
        let mut lanes = !0;
        for (i, integer) in self.integers().iter().enumerate() {
            lanes &= integer.equals(if i == 0 { &INTEGER_ONE } else { &[0; LIMBS] });
        }
        lanes
    }

    /// Lanes that are 0.
    #[inline(always)]
    pub(super) fn is_zero(&self) -> u16 {
        let mut mask = !0;
        for c in 0..N {
            mask &= self.c[c].is_zero_mod_p();
        }
        mask
    }

    /// Lanes where both are equal; `other` is at most 64p.
    #[inline(always)]
    pub(super) fn equals(&self, other: &Wide<M, N>) -> u16 {
        self.sub::<NEGATION>(other).carry().is_zero()
    }

    /// `other` in the lanes of `mask`, `self` in the others.
    #[inline(always)]
    pub(super) fn select(&self, mask: u16, other: &Element<M, N>) -> Element<M, N> {
        let mut out = *self;
        for c in 0..N {
            out.0.c[c] = self.c[c].select(mask, &other.c[c]);
        }
        out.0.bound = self.bound.either(other.bound);
        out
    }

    /// `-self`; self is at most K·p.
    #[inline(always)]
    pub(super) fn neg<const K: u64>(&self) -> Element<M, N> {
        Element::zero(self.m()).sub::<K>(self).carry()
    }

    /// `self · other`. Over Fp2 self is at most 64p; the result is below 2p in any case.
    ///
    /// u² = -1: a0·b0 + (-a1)·b1, and a0·b1 + a1·b0.
    #[inline(always)]
    pub(super) fn mul(&self, other: &Element<M, N>) -> Wide<M, N> {
        let m = self.m();
        let (a, b) = (&self.c, &other.c);
        let mut c = [Fe::zero(m); N];
        if N == 1 {
            m.products::<1, WIDE>([(&a[0], &b[0])], &mut c[0]);
            let bound = Bound::of_products([(self.bound, other.bound)]);
            return Wide { c, bound };
        }
        let minus = self.neg::<NEGATION>();
        m.products::<2, WIDE>([(&a[0], &b[0]), (&minus.c[1], &b[1])], &mut c[0]);
        m.products::<2, WIDE>([(&a[0], &b[1]), (&a[1], &b[0])], &mut c[1]);
        let bound = Bound::of_products([(self.bound, other.bound), (minus.bound, other.bound)]);
        Wide { c, bound }
    }

    /// `self²`; over Fp2 self is at most 64p.
    ///
    /// u² = -1: (a0 + a1)·(a0 - a1), and 2·a0·a1.
    #[inline(always)]
    pub(super) fn square(&self) -> Wide<M, N> {
        let m = self.m();
        let a = &self.c;
        let mut c = [Fe::zero(m); N];
        if N == 1 {
            m.square::<WIDE>(&a[0], &mut c[0]);
            let bound = Bound::of_products([(self.bound, self.bound)]);
            return Wide { c, bound };
        }
        let (a0, a1) = (self.coefficient(0), self.coefficient(1));
        let (sum, difference) = (a0.add(&a1).carry(), a0.sub::<NEGATION>(&a1).carry());
        c[0] = sum.mul(&difference).c[0];
        let cross = a0.mul(&a1).shl::<1>();
        c[1] = cross.c[0];
        // The second coefficient has the larger bound.
        Wide {
            c,
            bound: cross.bound,
        }
    }

    /// One coefficient.
    #[inline(always)]
    pub(super) fn coefficient(&self, c: usize) -> Element<M, 1> {
        let (c, bound) = ([self.c[c]], self.bound);
        Element(Wide { c, bound })
    }
}

impl<M: Multiplier> Element<M, 2> {
    /// c0 + c1·u.
    #[inline(always)]
    pub(super) fn from_halves(c0: &Element<M, 1>, c1: &Element<M, 1>) -> Element<M, 2> {
        let (c, bound) = ([c0.c[0], c1.c[0]], c0.bound.either(c1.bound));
        Element(Wide { c, bound })
    }

    /// c0 - c1·u; self is at most K·p.
    #[inline(always)]
    pub(super) fn conjugate<const K: u64>(&self) -> Element<M, 2> {
        Element::from_halves(&self.coefficient(0), &self.coefficient(1).neg::<K>())
    }
}

/// (p - 3)/4, least significant word first.
pub(super) const INVERSE_ROOT: [u64; 6] = {
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

/// The uppermost window of the remaining exponent.
struct Window {
    bits: usize,
    /// Half of the digit, which is odd; `None` for a zero.
    odd: Option<usize>,
}

/// The window below bit `top` of (p - 3)/4.
fn window(top: usize) -> Window {
    let bit = |i: usize| (INVERSE_ROOT[i / 64] >> (i % 64) & 1) as usize;
    if bit(top - 1) == 0 {
        return Window { bits: 1, odd: None };
    }
    let mut low = top.saturating_sub(WINDOW_BITS);
    // A window ends with a one, so that a table of odd powers is enough.
    while bit(low) == 0 {
        low += 1;
    }
    let digit = (low..top).rev().fold(0, |digit, i| 2 * digit + bit(i));
    Window {
        bits: top - low,
        odd: Some(digit / 2),
    }
}

impl<M: Multiplier> Element<M, 1> {
    /// high·2^256 + low for integers below 2^256.
    #[inline(always)]
    pub(super) fn from_wide_integers(
        m: M,
        high: &[[u64; 6]; LANES],
        low: &[[u64; 6]; LANES],
    ) -> Element<M, 1> {
        let (high, low) = (load(m, high), load(m, low));
        let factors = (
            Fe::broadcast(m, &FROM_HIGH_INTEGER),
            Fe::broadcast(m, &FROM_INTEGER),
        );
        let mut c = [Fe::zero(m)];
        m.products::<2, DIGITS>([(&high, &factors.0), (&low, &factors.1)], &mut c[0]);
        Element::from_digits(c, 2)
    }

    /// self^((p - 3)/4): the inverse of a square root, up to sign, if self is a square; the inverse of a square
    /// root of -self if it is not; and 0 for 0.
    ///
    /// Sliding windows of five bits: 375 squarings and 82 products.
    #[inline(always)]
    pub(super) fn inverse_root(&self) -> Element<M, 1> {
        self.m().run(InverseRoot(self))
    }
}

/// See [`Element::inverse_root`].
struct InverseRoot<'a, M: Multiplier>(&'a Element<M, 1>);

impl<M: Multiplier> Routine for InverseRoot<'_, M> {
    type Output = Element<M, 1>;

    #[inline(always)]
    fn run(self) -> Element<M, 1> {
        let InverseRoot(base) = self;
        let m = base.m();
        let squared = base.square().carry();
        let mut odd = [base.c[0]; 16];
        let mut power = *base;
        for odd in &mut odd[1..] {
            power = power.mul(&squared).carry();
            *odd = power.c[0];
        }
        // Two buffers alternate, so that nothing is copied.
        let mut buffers = (Fe::zero(m), Fe::zero(m));
        let (mut power, mut next) = (&mut buffers.0, &mut buffers.1);
        let first = window(INVERSE_ROOT_BITS);
        *power = odd[first.odd.expect("the uppermost bit is set")];
        let mut top = INVERSE_ROOT_BITS - first.bits;
        while top > 0 {
            let window = window(top);
            for _ in 0..window.bits {
                m.square::<NARROW>(power, next);
                core::mem::swap(&mut power, &mut next);
            }
            if let Some(digit) = window.odd {
                m.products::<1, NARROW>([(power, &odd[digit])], next);
                core::mem::swap(&mut power, &mut next);
            }
            top -= window.bits;
        }
        Element::from_digits([power.digits()], 2)
    }
}

/// Lanes of integers in digits that are above (p - 1)/2.
#[inline(always)]
pub(super) fn above_half<M: Multiplier>(integer: &Fe<M>) -> u16 {
    // p - 2·integer is negative.
    let m = integer.m;
    let twice = integer.shl::<1>();
    Fe::zero(m)
        .sub(&twice, &Offset::new(m, &P_LIMBS))
        .carried()
        .negative()
}

/// Lanes of integers in digits that are odd.
#[inline(always)]
pub(super) fn odd<M: Multiplier>(integer: &Fe<M>) -> u16 {
    integer.lowest_has(1)
}
