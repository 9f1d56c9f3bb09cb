//! Sixteen elements of Fp (`N` = 1) or Fp2 (`N` = 2) at once.

use core::arch::x86_64::*;

use super::convert::{ONE, scatter};
use super::field::{
    DIGITS, Fe, LANES, LIMBS, MULTIPLES_MAX, NARROW, Offset, P_LIMBS, WIDE, advance_x, advance_y,
    products, square, sub_carry, words,
};

/// Sixteen numbers that may be added: limbs are signed, values are bounded per level.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Wide<const N: usize>(pub(super) [Fe; N]);

/// Sixteen operands of products: only the low 52 bits of a limb count (for `N` = 2 the rest is 0).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Narrow<const N: usize>(pub(super) [Fe; N]);

/// The multiples of p of one level of the tree (`LECTURE.md`).
pub(super) struct Level {
    /// B_L·p, more than any coordinate of this level.
    bound: Offset,
    /// 2·B_L·p.
    bound_doubled: Offset,
    /// B_(L+1)·p.
    bound_next: Offset,
    /// 4·p, more than any product.
    product: Offset,
    /// Whether this level carries its results, so that limbs do not outgrow 64 bits.
    pub(super) carries: bool,
    /// B_L, for the checks of debug builds.
    multiple: u64,
}

/// B_L: coordinates at level L are below B_L·p.
const fn level_bound(level: usize) -> u64 {
    (1 << (level + 2)) - 2
}

/// Levels whose bounds hold: segments of up to 2^24 points.
const LEVELS_MAX: usize = 24;

impl Level {
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(level: usize) -> Level {
        assert!(
            level < LEVELS_MAX,
            "segments have at most 2^{LEVELS_MAX} points"
        );
        let multiple = level_bound(level);
        Level {
            bound: Offset::new(multiple),
            bound_doubled: Offset::new(2 * multiple),
            bound_next: Offset::new(level_bound(level + 1)),
            product: Offset::new(4),
            carries: level % 4 == 3,
            multiple,
        }
    }
}

impl<const N: usize> Wide<N> {
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn zero() -> Self {
        Wide([Fe::zero(); N])
    }

    #[target_feature(enable = "avx512f")]
    fn add(&self, other: &Self) -> Self {
        let mut out = *self;
        for c in 0..N {
            out.0[c] = self.0[c].add(&other.0[c]);
        }
        out
    }

    /// `p - self`, for canonical numbers.
    #[target_feature(enable = "avx512f")]
    pub(super) fn negated(&self) -> Self {
        let mut out = *self;
        for c in 0..N {
            advance_y(&mut out.0[c], &Fe::zero(), &Offset::new(1));
        }
        out
    }

    /// As an operand of products. `bound`: the value is below bound·p and not negative.
    #[target_feature(enable = "avx512f")]
    fn narrow(&self, bound: u64) -> Narrow<N> {
        self.check(bound);
        Narrow(self.carried().0)
    }

    /// The same value with limbs below 2^52.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn carried(&self) -> Self {
        let mut out = *self;
        for c in 0..N {
            out.0[c] = self.0[c].carried();
        }
        out
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn select(&self, mask: u16, other: &Self) -> Self {
        let mut out = *self;
        for c in 0..N {
            out.0[c] = self.0[c].select(mask, &other.0[c]);
        }
        out
    }

    /// Lanes whose lowest limbs are equal: a quick look at canonical numbers.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn lowest_equal(&self, other: &Self) -> u16 {
        let mut mask = !0;
        for c in 0..N {
            for v in 0..2 {
                let (a, b) = (self.0[c].0[v][0], other.0[c].0[v][0]);
                mask &= u16::from(_mm512_cmpeq_epi64_mask(a, b)) << (8 * v) | 0xff00 >> (8 * v);
            }
        }
        mask
    }

    /// The numbers below p of coordinates of a level, one register per lane and coefficient.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn canonical(&self, level: usize) -> [[__m512i; N]; LANES] {
        debug_assert!(level_bound(level) <= MULTIPLES_MAX, "level {level}");
        self.check(level_bound(level));
        let mut out = [[_mm512_setzero_si512(); N]; LANES];
        for c in 0..N {
            scatter(&self.0[c].canonical(), c, &mut out);
        }
        out
    }

    /// Debug builds: every lane is from 0 to bound·p, and limbs leave room for one more sum.
    #[inline]
    fn check(&self, bound: u64) {
        if cfg!(debug_assertions) {
            for limbs in self.0.iter().flat_map(|fe| fe.0) {
                check_lanes(limbs.map(words), bound);
            }
        }
    }
}

/// Values are computed in floating point: exact enough to see a multiple of p go astray.
fn check_lanes(limbs: [[u64; 8]; LIMBS], bound: u64) {
    let shift = (1u64 << 52) as f64;
    let p = P_LIMBS
        .iter()
        .rev()
        .fold(0.0, |sum, limb| sum * shift + *limb as f64);
    let (mut multiples, mut largest) = ([0.0; 8], 0);
    for limb in limbs.iter().rev() {
        for (multiple, word) in multiples.iter_mut().zip(limb) {
            *multiple = *multiple * shift + (*word as i64) as f64 / p;
            largest |= (*word as i64).unsigned_abs();
        }
    }
    assert!(largest < 1 << 62, "a limb is too large");
    for multiple in multiples {
        assert!(
            (-1e-9..bound as f64).contains(&multiple),
            "{multiple} p, bound {bound} p"
        );
    }
}

impl<const N: usize> Narrow<N> {
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn one() -> Self {
        let mut out = [Fe::zero(); N];
        out[0] = Fe::broadcast(&ONE);
        Narrow(out)
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn select(&self, mask: u16, other: &Self) -> Self {
        Narrow(Wide(self.0).select(mask, &Wide(other.0)).0)
    }

    /// Lanes that are 0 mod p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn is_zero(&self) -> u16 {
        self.0.iter().fold(!0, |mask, fe| mask & fe.is_zero_mod_p())
    }

    /// `self = b - a` for coordinates of a level.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn set_difference(&mut self, b: &Wide<N>, a: &Wide<N>, level: &Level) {
        a.check(level.multiple);
        b.check(level.multiple);
        for c in 0..N {
            if N == 1 {
                sub_carry::<false>(&mut self.0[c], &b.0[c], &a.0[c], &level.bound);
            } else {
                sub_carry::<true>(&mut self.0[c], &b.0[c], &a.0[c], &level.bound);
            }
        }
    }

    /// `self · b`, where `self` is a product, so below 4 p; the result is below 1.02 p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn times(&self, b: &Self) -> Self {
        let mut out = Narrow::one();
        if N == 1 {
            products::<1, NARROW>([(&self.0[0], &b.0[0])], &mut out.0[0]);
        } else {
            products_over_fp2::<N, DIGITS>(&mut out.0, &self.0, &b.0, &Offset::new(4));
        }
        out
    }

    /// `self = a · b`, where `a` is a product, so below 4 p; the result is below 1.02 p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn set_product(&mut self, a: &Self, b: &Self, level: &Level) {
        if N == 1 {
            products::<1, NARROW>([(&a.0[0], &b.0[0])], &mut self.0[0]);
        } else {
            products_over_fp2::<N, DIGITS>(&mut self.0, &a.0, &b.0, &level.product);
        }
    }
}

impl<const N: usize> Wide<N> {
    /// `self = a · b`, where `a` is a product, so below 4 p; the result is below 1.02 p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn set_product(&mut self, a: &Narrow<N>, b: &Narrow<N>, offset: &Offset) {
        if N == 1 {
            products::<1, WIDE>([(&a.0[0], &b.0[0])], &mut self.0[0]);
        } else {
            products_over_fp2::<N, WIDE>(&mut self.0, &a.0, &b.0, offset);
        }
    }
}

impl<const N: usize> Wide<N> {
    /// `self = a²`, as `set_product(a, a, offset)`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn set_square(&mut self, a: &Narrow<N>, offset: &Offset) {
        if N == 1 {
            square::<WIDE>(&a.0[0], &mut self.0[0]);
        } else {
            products_over_fp2::<N, WIDE>(&mut self.0, &a.0, &a.0, offset);
        }
    }
}

/// u² = -1: a0·b0 + (-a1)·b1, and a0·b1 + a1·b0. `offset` is more than a1, which is cleared.
#[target_feature(enable = "avx512f,avx512ifma")]
fn products_over_fp2<const N: usize, const FORM: u8>(
    out: &mut [Fe; N],
    a: &[Fe; N],
    b: &[Fe; N],
    offset: &Offset,
) {
    let mut minus_a1 = Fe::zero();
    sub_carry::<true>(&mut minus_a1, &Fe::zero(), &a[1], offset);
    products::<2, FORM>([(&a[0], &b[0]), (&minus_a1, &b[1])], &mut out[0]);
    products::<2, FORM>([(&a[0], &b[1]), (&a[1], &b[0])], &mut out[1]);
}

/// Sixteen points on their way through the tree.
#[derive(Clone, Copy)]
pub(super) struct Slot<const N: usize> {
    pub(super) x: Wide<N>,
    pub(super) y: Wide<N>,
}

/// The denominators of sixteen slopes.
#[derive(Clone, Copy)]
pub(super) struct Pair<const N: usize> {
    /// What the slope is divided by, never 0.
    pub(super) d: Narrow<N>,
    /// The product of the denominators before this one.
    pub(super) before: Narrow<N>,
    /// Lanes whose operands are equal, and lanes whose operands are opposite.
    pub(super) doubled: u16,
    pub(super) opposite: u16,
}

impl<const N: usize> Pair<N> {
    /// The operands have equal x in the lanes where `d` is 0: the denominator of a tangent where they
    /// are equal, any non-zero one where they are opposite.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[cold]
    pub(super) fn except(&mut self, ya: &Wide<N>, yb: &Wide<N>, missing: u16, level: &Level) {
        let mut dy = Narrow::one();
        dy.set_difference(yb, ya, level);
        let (same_x, same_y) = (self.d.is_zero() & !missing, dy.is_zero());
        self.doubled = same_x & same_y;
        self.opposite = same_x & !same_y;
        self.d = self
            .d
            .select(self.doubled, &ya.add(ya).narrow(2 * level.multiple));
        self.d = self.d.select(self.opposite, &Narrow::one());
    }
}

/// Intermediate values of an addition, kept from row to row.
pub(super) struct Temporaries<const N: usize> {
    inverse_d: Narrow<N>,
    numerator: Narrow<N>,
    slope: Narrow<N>,
    run: Narrow<N>,
    product: Wide<N>,
}

impl<const N: usize> Temporaries<N> {
    #[target_feature(enable = "avx512f")]
    pub(super) fn new() -> Self {
        let (narrow, product) = (Narrow::one(), Wide::zero());
        Temporaries {
            inverse_d: narrow,
            numerator: narrow,
            slope: narrow,
            run: narrow,
            product,
        }
    }

    /// Pass 2: from the inverse of the product up to this pair to 1/d of the pair, and to the inverse of
    /// the product before it. The two places of `inverses` take turns, so that nothing is copied.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn step(
        &mut self,
        inverses: &mut [Narrow<N>; 2],
        turn: &mut bool,
        pair: &Pair<N>,
        level: &Level,
    ) {
        let [even, odd] = inverses;
        let (inverse, next) = if *turn { (odd, even) } else { (even, odd) };
        self.inverse_d.set_product(inverse, &pair.before, level);
        next.set_product(inverse, &pair.d, level);
        *turn = !*turn;
    }

    /// Adds b to a, given 1/d. Lanes of `missing` have no such operand; the lanes of the sum that are
    /// the identity are returned.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn add(
        &mut self,
        a: &mut Slot<N>,
        b: &Slot<N>,
        pair: &Pair<N>,
        missing: (u16, u16),
        level: &Level,
    ) -> u16 {
        let Self {
            inverse_d,
            numerator,
            slope,
            run,
            product,
        } = self;
        numerator.set_difference(&b.y, &a.y, level);
        if pair.doubled != 0 {
            *numerator = numerator.select(pair.doubled, &tangent(&a.x, level));
        }
        slope.set_product(inverse_d, numerator, level);
        let before = (missing.0 | missing.1 != 0).then_some(*a);
        product.set_square(slope, &level.product);
        for c in 0..N {
            let (offset, next) = (&level.bound_doubled, &level.bound_next);
            let (x, run) = (&mut a.x.0[c], &mut run.0[c]);
            if N == 1 {
                advance_x::<false>(x, run, &b.x.0[c], &product.0[c], offset, next);
            } else {
                advance_x::<true>(x, run, &b.x.0[c], &product.0[c], offset, next);
            }
        }
        product.set_product(slope, run, &level.product);
        for c in 0..N {
            advance_y(&mut a.y.0[c], &product.0[c], &level.bound);
        }
        if let Some(before) = before {
            a.x = a.x.select(missing.0, &b.x).select(missing.1, &before.x);
            a.y = a.y.select(missing.0, &b.y).select(missing.1, &before.y);
        }
        if level.carries {
            a.carry();
        }
        a.x.check(2 * level.multiple + 2);
        a.y.check(2 * level.multiple + 2);
        missing.0 & missing.1 | pair.opposite
    }
}

impl<const N: usize> Slot<N> {
    /// Brings the limbs back below 2^52.
    #[target_feature(enable = "avx512f")]
    pub(super) fn carry(&mut self) {
        *self = Slot {
            x: self.x.carried(),
            y: self.y.carried(),
        };
    }
}

/// The numerator of a tangent's slope, 3·x².
#[target_feature(enable = "avx512f,avx512ifma")]
#[cold]
fn tangent<const N: usize>(x: &Wide<N>, level: &Level) -> Narrow<N> {
    let x = x.narrow(level.multiple);
    let mut square = Wide::zero();
    square.set_square(&x, &level.bound);
    // 3·(1 + N·B²·p / R).
    let bound = 4 + ((3 * N as u64 * level.multiple * level.multiple) >> 35);
    square.add(&square).add(&square).narrow(bound)
}
