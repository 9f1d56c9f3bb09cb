#![doc = include_str!("LECTURE.md")]
// Limbs and lanes of several operands are traversed with one index.
#![allow(clippy::needless_range_loop)]

mod avx2;
mod avx512;
mod doubles;
pub(crate) mod montgomery;
#[cfg(test)]
pub(crate) mod tests;

use core::fmt;
use core::ops::IndexMut;

use crate::blst_ffi::field::P;
pub(crate) use avx2::Avx2Doubles;
pub(crate) use avx512::{Avx512Doubles, Avx512Ifma52};

/// Bits of a limb.
pub(crate) const LIMB_BITS: usize = 52;
/// Limbs of an element: R = 2^416.
pub(crate) const LIMBS: usize = 8;
/// Elements of a vector, whatever the width of a register: two registers of 512 bits per limb hide the latency
/// of `vpmadd52`.
pub(crate) const LANES: usize = 16;
const MASK: u64 = (1 << LIMB_BITS) - 1;
/// -1/p mod 2^52.
const P_INVERSE: u64 = inverse_mod_2_52();
/// floor(2^52 / (p_7 + 1)), for estimating the quotient by p from a number's top limb.
const TOP_INVERSE: u64 = (1 << LIMB_BITS) / (P_LIMBS[LIMBS - 1] + 1);

/// Newton's iteration doubles the number of correct bits.
const fn inverse_mod_2_52() -> u64 {
    let mut inverse = 1u64;
    let mut i = 0;
    // One bit is right at first, so six steps make 64, more than the 52 that are kept.
    while i < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(P[0].wrapping_mul(inverse)));
        i += 1;
    }
    inverse.wrapping_neg() & MASK
}

/// Splits six words (384 bits) into eight limbs.
pub(crate) const fn split(words: &[u64; 6]) -> [u64; LIMBS] {
    let mut limbs = [0; LIMBS];
    let mut j = 0;
    while j < LIMBS {
        let (word, bit) = (j * LIMB_BITS / 64, j * LIMB_BITS % 64);
        limbs[j] = words[word] >> bit;
        if bit > 64 - LIMB_BITS && word < 5 {
            limbs[j] |= words[word + 1] << (64 - bit);
        }
        limbs[j] &= MASK;
        j += 1;
    }
    limbs
}

/// Joins eight limbs below 2^52, of a value below 2^384, into six words.
pub(crate) fn join(limbs: &[u64; LIMBS]) -> [u64; 6] {
    let mut words = [0; 6];
    for (j, limb) in limbs.iter().enumerate() {
        let (word, bit) = (j * LIMB_BITS / 64, j * LIMB_BITS % 64);
        words[word] |= limb << bit;
        if bit > 64 - LIMB_BITS && word < 5 {
            words[word + 1] |= limb >> (64 - bit);
        }
    }
    words
}

pub(crate) const P_LIMBS: [u64; LIMBS] = split(&P);

/// `multiple` · p in limbs below 2^52, for a multiple below 2^28.
pub(crate) const fn multiple_of_p(multiple: u64) -> [u64; LIMBS] {
    let mut out = [0; LIMBS];
    let (mut j, mut carry) = (0, 0u128);
    while j < LIMBS {
        let sum = carry + P_LIMBS[j] as u128 * multiple as u128;
        out[j] = sum as u64 & MASK;
        carry = sum >> LIMB_BITS;
        j += 1;
    }
    assert!(carry == 0, "the last limb stays below 2^52");
    out
}

/// Largest multiple of p that [`Fe::canonical`] reduces.
pub(crate) const MULTIPLES_MAX: u64 = 1 << 12;

/// The limbs of one number, in a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u64; LIMBS]);

impl Line {
    pub(crate) const ZERO: Line = Line([0; LIMBS]);
}

/// A computation over vectors, independent of their instruction set.
pub(crate) trait Routine {
    /// The type it returns.
    type Output;

    /// Runs it; must be `#[inline(always)]`, as must everything that it calls.
    fn run(self) -> Self::Output;
}

/// Registers of 64-bit words. A value holds the witness that the processor has the instructions, so its holder
/// may call every method.
pub(crate) trait Vector: Copy + Send + Sync + fmt::Debug + 'static {
    /// A register of [`Vector::WIDTH`] words.
    type Word: Copy + Send + Sync;
    /// A number in each of [`LANES`] lanes: `limbs[v][j]` is limb j of the lanes from `WIDTH`·v on.
    type Limbs: Copy + Send + Sync + IndexMut<usize, Output = [Self::Word; LIMBS]>;

    /// Registers per limb.
    const REGISTERS: usize;
    /// Words of a register.
    const WIDTH: usize = LANES / Self::REGISTERS;

    /// Runs a routine inside a function that is compiled for the instruction set and never inlined.
    fn run<T: Routine>(self, routine: T) -> T::Output;

    /// Zero in all lanes.
    fn zero(self) -> Self::Limbs;
    /// A register of equal words.
    fn splat(self, word: u64) -> Self::Word;
    /// a + b.
    fn add(self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// a - b.
    fn sub(self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// Bitwise and.
    fn and(self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// a · 2^S.
    fn shl<const S: u32>(self, a: Self::Word) -> Self::Word;
    /// `b` in the lanes of `mask`, `a` in the others; only the low `WIDTH` bits of a mask count.
    fn select(self, mask: u8, a: Self::Word, b: Self::Word) -> Self::Word;
    /// Lanes where both are equal.
    fn equal(self, a: Self::Word, b: Self::Word) -> u8;
    /// Lanes below 0.
    fn negative(self, a: Self::Word) -> u8;
    /// Carries signed limbs: afterwards the low 52 bits of each limb are its digit, and with `CLEAR` only the
    /// sign of the last limb is left in addition. Without `CLEAR`, the bits above the digits are undefined.
    fn carry<const CLEAR: bool>(self, limbs: [Self::Word; LIMBS]) -> [Self::Word; LIMBS];

    /// One number in each lane.
    fn gather(self, lines: &[&Line; LANES]) -> Self::Limbs;
    /// The numbers of the lanes.
    fn scatter(self, limbs: &Self::Limbs) -> [Line; LANES];
    /// Prefetches a line.
    fn prefetch(self, line: &Line);
}

/// Registers and the multiplier: everything that differs between kernels.
pub(crate) trait Multiplier: Vector {
    /// Σ a·b / R mod p over up to six pairs; operands are narrow, limbs before a carry at most K·2^57
    /// in magnitude.
    ///
    /// With Σ a·b < c·p·R the result is below (1 + c)·p.
    fn products<const K: usize, const FORM: u8>(
        self,
        pairs: [(&Fe<Self>, &Fe<Self>); K],
        out: &mut Fe<Self>,
    );

    /// a² / R mod p, like [`Multiplier::products`].
    fn square<const FORM: u8>(self, a: &Fe<Self>, out: &mut Fe<Self>);

    /// Subtracts a multiple of p from a carried number of at most [`MULTIPLES_MAX`]·p, so that less than 1.55·p
    /// remains and the result is not negative; limbs are not carried.
    fn take_multiple(self, limbs: [Self::Word; LIMBS]) -> [Self::Word; LIMBS];
}

/// Sixteen numbers in limbs.
///
/// It is read in one of two ways: *wide*, where a limb is a signed 64-bit number and the value is
/// Σ limb_j·2^(52j), or *narrow*, an operand of products, where only the low 52 bits of a limb count.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Fe<M: Multiplier> {
    pub(crate) limbs: M::Limbs,
    pub(crate) m: M,
}

impl<M: Multiplier> Fe<M> {
    #[inline(always)]
    pub(crate) fn zero(m: M) -> Self {
        Fe { limbs: m.zero(), m }
    }

    #[inline(always)]
    pub(crate) fn broadcast(m: M, limbs: &[u64; LIMBS]) -> Self {
        let mut out = Fe::zero(m);
        for j in 0..LIMBS {
            let word = m.splat(limbs[j]);
            for v in 0..M::REGISTERS {
                out.limbs[v][j] = word;
            }
        }
        out
    }

    /// One number in each lane.
    #[inline(always)]
    pub(crate) fn gather(m: M, lines: &[&Line; LANES]) -> Self {
        let limbs = m.gather(lines);
        Fe { limbs, m }
    }

    /// The numbers of the lanes.
    #[inline(always)]
    pub(crate) fn scatter(&self) -> [Line; LANES] {
        self.m.scatter(&self.limbs)
    }

    /// `self + other`, wide.
    #[inline(always)]
    pub(crate) fn add(&self, other: &Self) -> Self {
        let mut out = *self;
        for v in 0..M::REGISTERS {
            for j in 0..LIMBS {
                out.limbs[v][j] = self.m.add(self.limbs[v][j], other.limbs[v][j]);
            }
        }
        out
    }

    /// `self · 2^S`, wide.
    #[inline(always)]
    pub(crate) fn shl<const S: u32>(&self) -> Self {
        let mut out = *self;
        for v in 0..M::REGISTERS {
            for j in 0..LIMBS {
                out.limbs[v][j] = self.m.shl::<S>(self.limbs[v][j]);
            }
        }
        out
    }

    /// `self - other + offset`, wide.
    #[inline(always)]
    pub(crate) fn sub(&self, other: &Self, offset: &Offset<M>) -> Self {
        let mut out = *self;
        for v in 0..M::REGISTERS {
            for j in 0..LIMBS {
                let difference = self.m.sub(self.limbs[v][j], other.limbs[v][j]);
                out.limbs[v][j] = self.m.add(difference, offset.0[j]);
            }
        }
        out
    }

    /// Carries, and clears everything but the digits. The value must not be negative.
    #[inline(always)]
    pub(crate) fn carried(mut self) -> Self {
        for v in 0..M::REGISTERS {
            self.limbs[v] = self.m.carry::<true>(self.limbs[v]);
        }
        self
    }

    /// Clears everything but the digits of a narrow number.
    #[inline(always)]
    pub(crate) fn digits(mut self) -> Self {
        let mask = self.m.splat(MASK);
        for v in 0..M::REGISTERS {
            for j in 0..LIMBS {
                self.limbs[v][j] = self.m.and(self.limbs[v][j], mask);
            }
        }
        self
    }

    /// `other` in the lanes of `mask`, `self` in the others.
    #[inline(always)]
    pub(crate) fn select(&self, mask: u16, other: &Self) -> Self {
        let mut out = *self;
        for v in 0..M::REGISTERS {
            let mask = (mask >> (M::WIDTH * v)) as u8;
            for j in 0..LIMBS {
                out.limbs[v][j] = self.m.select(mask, self.limbs[v][j], other.limbs[v][j]);
            }
        }
        out
    }

    /// Returns which lanes hold exactly these digits.
    #[inline(always)]
    pub(crate) fn equals(&self, limbs: &[u64; LIMBS]) -> u16 {
        let mut lanes = 0;
        for v in 0..M::REGISTERS {
            let mut mask = !0;
            for j in 0..LIMBS {
                mask &= self.m.equal(self.limbs[v][j], self.m.splat(limbs[j]));
            }
            lanes |= u16::from(mask) << (M::WIDTH * v);
        }
        lanes
    }

    /// Returns which lanes have the same lowest limb.
    #[inline(always)]
    pub(crate) fn lowest_equal(&self, other: &Self) -> u16 {
        let mut lanes = 0;
        for v in 0..M::REGISTERS {
            let mask = self.m.equal(self.limbs[v][0], other.limbs[v][0]);
            lanes |= u16::from(mask) << (M::WIDTH * v);
        }
        lanes
    }

    /// Returns which lanes have a bit of `bits` in the lowest limb.
    #[inline(always)]
    pub(crate) fn lowest_has(&self, bits: u64) -> u16 {
        let mut lanes = 0;
        for v in 0..M::REGISTERS {
            let found = self.m.and(self.limbs[v][0], self.m.splat(bits));
            let mask = self.m.equal(found, self.m.splat(0));
            lanes |= u16::from(mask) << (M::WIDTH * v);
        }
        !lanes
    }

    /// Returns which lanes are negative once carried and cleared.
    #[inline(always)]
    pub(crate) fn negative(&self) -> u16 {
        let mut lanes = 0;
        for v in 0..M::REGISTERS {
            let mask = self.m.negative(self.limbs[v][LIMBS - 1]);
            lanes |= u16::from(mask) << (M::WIDTH * v);
        }
        lanes
    }

    /// Reduces a carried and cleared number below 2p to the number below p.
    #[inline(always)]
    pub(crate) fn reduce(&self) -> Self {
        let mut less = *self;
        for v in 0..M::REGISTERS {
            for j in 0..LIMBS {
                less.limbs[v][j] = self.m.sub(self.limbs[v][j], self.m.splat(P_LIMBS[j]));
            }
        }
        let less = less.carried();
        less.select(less.negative(), self)
    }

    /// Reduces a wide number from 0 to [`MULTIPLES_MAX`]·p to the number below p.
    ///
    /// The quotient by p is estimated from the top limb t: t·M / 2^52 with M = floor(2^52 / (p_7 + 1)) is never
    /// too large, and too small by less than (t + 1)/p_7 - t/(p_7 + 1) + t/2^52 < 0.05. Rounded down to an
    /// integer, or to the nearest and minus one, it leaves less than 1.55·p.
    #[inline(always)]
    pub(crate) fn canonical(&self) -> Self {
        let mut left = self.carried();
        for v in 0..M::REGISTERS {
            let limbs = self.m.take_multiple(left.limbs[v]);
            left.limbs[v] = self.m.carry::<true>(limbs);
        }
        left.reduce()
    }

    /// Returns which lanes are 0 mod p; narrow.
    #[inline(always)]
    pub(crate) fn is_zero_mod_p(&self) -> u16 {
        // (self · 1 + q · p) / R is at most p, and 0 mod p only if it is 0 or p.
        let one = Fe::broadcast(self.m, &[1, 0, 0, 0, 0, 0, 0, 0]);
        let mut reduced = Fe::zero(self.m);
        self.m.products::<1, DIGITS>([(self, &one)], &mut reduced);
        reduced.equals(&[0; LIMBS]) | reduced.equals(&P_LIMBS)
    }
}

/// A multiple of p that keeps differences from being negative, the same in all lanes.
#[derive(Clone, Copy)]
pub(crate) struct Offset<M: Multiplier>([M::Word; LIMBS]);

impl<M: Multiplier> Offset<M> {
    #[inline(always)]
    pub(crate) fn new(m: M, limbs: &[u64; LIMBS]) -> Self {
        let mut out = [m.splat(0); LIMBS];
        for j in 0..LIMBS {
            out[j] = m.splat(limbs[j]);
        }
        Offset(out)
    }

    #[inline(always)]
    pub(crate) fn multiple(m: M, multiple: u64) -> Self {
        Offset::new(m, &multiple_of_p(multiple))
    }
}

/// The accumulators of a product stay as they are.
pub(crate) const WIDE: u8 = 0;
/// Carried: can be used as an operand of further products.
pub(crate) const NARROW: u8 = 1;
/// Carried, with only the digits left.
pub(crate) const DIGITS: u8 = 2;

/// Converts the accumulators to one of these forms.
#[inline(always)]
fn finish<M: Multiplier, const FORM: u8>(m: M, t: [M::Word; LIMBS]) -> [M::Word; LIMBS] {
    match FORM {
        WIDE => t,
        NARROW => m.carry::<false>(t),
        _ => m.carry::<true>(t),
    }
}

/// `out = a - b + offset`, carried.
#[inline(always)]
pub(crate) fn sub_carry<M: Multiplier, const CLEAR: bool>(
    out: &mut Fe<M>,
    a: &Fe<M>,
    b: &Fe<M>,
    offset: &Offset<M>,
) {
    let m = out.m;
    for v in 0..M::REGISTERS {
        let mut limbs = a.limbs[v];
        for j in 0..LIMBS {
            limbs[j] = m.sub(limbs[j], b.limbs[v][j]);
            limbs[j] = m.add(limbs[j], offset.0[j]);
        }
        out.limbs[v] = m.carry::<CLEAR>(limbs);
    }
}

/// Computes x = λ² - xa - xb + `offset` from xa and λ², wide, in place of xa, and
/// `run` = xa - x + `offset_next`, carried.
#[inline(always)]
pub(crate) fn advance_x<M: Multiplier, const CLEAR: bool>(
    xa: &mut Fe<M>,
    run: &mut Fe<M>,
    xb: &Fe<M>,
    square: &Fe<M>,
    offset: &Offset<M>,
    offset_next: &Offset<M>,
) {
    let m = xa.m;
    for v in 0..M::REGISTERS {
        let mut limbs = xa.limbs[v];
        for j in 0..LIMBS {
            let operands = m.add(limbs[j], xb.limbs[v][j]);
            let x = m.add(m.sub(square.limbs[v][j], operands), offset.0[j]);
            xa.limbs[v][j] = x;
            limbs[j] = m.add(m.sub(limbs[j], x), offset_next.0[j]);
        }
        run.limbs[v] = m.carry::<CLEAR>(limbs);
    }
}

/// Computes y = `product` - ya + `offset`, wide, in place of ya.
#[inline(always)]
pub(crate) fn advance_y<M: Multiplier>(ya: &mut Fe<M>, product: &Fe<M>, offset: &Offset<M>) {
    let m = ya.m;
    for v in 0..M::REGISTERS {
        for j in 0..LIMBS {
            let y = m.sub(product.limbs[v][j], ya.limbs[v][j]);
            ya.limbs[v][j] = m.add(y, offset.0[j]);
        }
    }
}
