//! Sixteen elements of Fp (`N` = 1) or Fp2 (`N` = 2) at once.

use crate::vector::montgomery::ONE;
use crate::vector::{
    DIGITS, Fe, LANES, Line, MULTIPLES_MAX, Multiplier, NARROW, Offset, P_LIMBS, Routine, WIDE,
    advance_x, advance_y, sub_carry,
};

/// Sixteen numbers that may be added: limbs are signed, and values are bounded per level.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Wide<M: Multiplier, const N: usize>(pub(super) [Fe<M>; N]);

/// Sixteen operands of products: only the low 52 bits of a limb count (for `N` = 2 the rest is 0).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Narrow<M: Multiplier, const N: usize>(pub(super) [Fe<M>; N]);

/// The multiples of p of one level of the tree (`LECTURE.md`).
pub(super) struct Level<M: Multiplier> {
    m: M,
    /// B_L·p, larger than any coordinate of this level.
    bound: Offset<M>,
    /// 2·B_L·p.
    bound_doubled: Offset<M>,
    /// B_(L+1)·p.
    bound_next: Offset<M>,
    /// 4·p, larger than any product.
    product: Offset<M>,
    /// Whether this level carries its results, so that limbs stay within 64 bits.
    pub(super) carries: bool,
    /// B_L, for the checks of debug builds.
    multiple: u64,
}

/// B_L: coordinates at level L are below B_L·p.
const fn level_bound(level: usize) -> u64 {
    (1 << (level + 2)) - 2
}

/// Number of levels for which the bounds hold: segments of up to 2^24 points.
const LEVELS_MAX: usize = 24;

impl<M: Multiplier> Level<M> {
    #[inline(always)]
    pub(super) fn new(m: M, level: usize) -> Self {
        assert!(
            level < LEVELS_MAX,
            "segments have at most 2^{LEVELS_MAX} points"
        );
        let multiple = level_bound(level);
        Level {
            m,
            bound: Offset::multiple(m, multiple),
            bound_doubled: Offset::multiple(m, 2 * multiple),
            bound_next: Offset::multiple(m, level_bound(level + 1)),
            product: Offset::multiple(m, 4),
            carries: level % 4 == 3,
            multiple,
        }
    }
}

impl<M: Multiplier, const N: usize> Wide<M, N> {
    #[inline(always)]
    pub(super) fn zero(m: M) -> Self {
        Wide([Fe::zero(m); N])
    }

    #[inline(always)]
    fn add(&self, other: &Self) -> Self {
        let mut out = *self;
        for c in 0..N {
            out.0[c] = self.0[c].add(&other.0[c]);
        }
        out
    }

    /// `p - self`, for canonical numbers.
    #[inline(always)]
    pub(super) fn negated(&self) -> Self {
        let mut out = *self;
        for c in 0..N {
            let m = self.0[c].m;
            advance_y(&mut out.0[c], &Fe::zero(m), &Offset::multiple(m, 1));
        }
        out
    }

    /// Converts to an operand of products. `bound`: the value is below bound·p and not negative.
    #[inline(always)]
    fn narrow(&self, bound: u64) -> Narrow<M, N> {
        self.check(bound);
        Narrow(self.carried().0)
    }

    /// The same value with limbs below 2^52.
    #[inline(always)]
    pub(super) fn carried(&self) -> Self {
        let mut out = *self;
        for c in 0..N {
            out.0[c] = self.0[c].carried();
        }
        out
    }

    #[inline(always)]
    pub(super) fn select(&self, mask: u16, other: &Self) -> Self {
        let mut out = *self;
        for c in 0..N {
            out.0[c] = self.0[c].select(mask, &other.0[c]);
        }
        out
    }

    /// Lanes whose lowest limbs are equal: a quick check for canonical numbers.
    #[inline(always)]
    pub(super) fn lowest_equal(&self, other: &Self) -> u16 {
        let mut mask = !0;
        for c in 0..N {
            mask &= self.0[c].lowest_equal(&other.0[c]);
        }
        mask
    }

    /// The coordinates of a level reduced below p, one line per coefficient and lane.
    #[inline(always)]
    pub(super) fn canonical(&self, level: usize) -> [[Line; LANES]; N] {
        debug_assert!(level_bound(level) <= MULTIPLES_MAX, "level {level}");
        self.check(level_bound(level));
        let mut out = [[Line::ZERO; LANES]; N];
        for c in 0..N {
            out[c] = self.0[c].canonical().scatter();
        }
        out
    }

    /// In debug builds, checks that every lane is from 0 to bound·p and that limbs leave room for one more sum.
    #[inline(always)]
    fn check(&self, bound: u64) {
        if cfg!(debug_assertions) {
            for c in 0..N {
                check_lanes(&self.0[c].scatter(), bound);
            }
        }
    }
}

/// Values are computed in floating point, which is precise enough to notice a wrong multiple of p.
fn check_lanes(lanes: &[Line; LANES], bound: u64) {
    let shift = (1u64 << 52) as f64;
    let p = P_LIMBS
        .iter()
        .rev()
        .fold(0.0, |sum, limb| sum * shift + *limb as f64);
    for Line(limbs) in lanes {
        let signed = |limb: &u64| *limb as i64;
        let largest = limbs.iter().map(|limb| signed(limb).unsigned_abs()).max();
        assert!(largest < Some(1 << 62), "a limb is too large");
        let multiple = (limbs.iter().rev()).fold(0.0, |multiple, limb| {
            multiple * shift + signed(limb) as f64 / p
        });
        assert!(
            (-1e-9..bound as f64).contains(&multiple),
            "{multiple} p, bound {bound} p"
        );
    }
}

impl<M: Multiplier, const N: usize> Narrow<M, N> {
    #[inline(always)]
    pub(super) fn one(m: M) -> Self {
        let mut out = [Fe::zero(m); N];
        out[0] = Fe::broadcast(m, &ONE);
        Narrow(out)
    }

    #[inline(always)]
    pub(super) fn select(&self, mask: u16, other: &Self) -> Self {
        Narrow(Wide(self.0).select(mask, &Wide(other.0)).0)
    }

    /// Lanes that are 0 mod p.
    #[inline(always)]
    pub(super) fn is_zero(&self) -> u16 {
        let mut mask = !0;
        for c in 0..N {
            mask &= self.0[c].is_zero_mod_p();
        }
        mask
    }

    /// `self = b - a` for coordinates of a level.
    #[inline(always)]
    pub(super) fn set_difference(&mut self, b: &Wide<M, N>, a: &Wide<M, N>, level: &Level<M>) {
        a.check(level.multiple);
        b.check(level.multiple);
        for c in 0..N {
            // Only over Fp2 are the bits above 52 cleared, see [`Narrow`].
            if N == 1 {
                sub_carry::<_, false>(&mut self.0[c], &b.0[c], &a.0[c], &level.bound);
            } else {
                sub_carry::<_, true>(&mut self.0[c], &b.0[c], &a.0[c], &level.bound);
            }
        }
    }

    /// `self · b`, where `self` is a product and therefore below 4 p; the result is below 1.02 p.
    #[inline(always)]
    pub(super) fn times(&self, b: &Self) -> Self {
        let m = self.0[0].m;
        let mut out = Narrow::one(m);
        if N == 1 {
            m.products::<1, NARROW>([(&self.0[0], &b.0[0])], &mut out.0[0]);
        } else {
            products_over_fp2::<M, N, DIGITS>(&mut out.0, &self.0, &b.0, &Offset::multiple(m, 4));
        }
        out
    }

    /// `self = a · b`, where `a` is a product and therefore below 4 p; the result is below 1.02 p.
    #[inline(always)]
    pub(super) fn set_product(&mut self, a: &Self, b: &Self, level: &Level<M>) {
        if N == 1 {
            let m = a.0[0].m;
            m.products::<1, NARROW>([(&a.0[0], &b.0[0])], &mut self.0[0]);
        } else {
            products_over_fp2::<M, N, DIGITS>(&mut self.0, &a.0, &b.0, &level.product);
        }
    }
}

impl<M: Multiplier, const N: usize> Wide<M, N> {
    /// `self = a · b`, where `a` is a product and therefore below 4 p; the result is below 1.02 p.
    #[inline(always)]
    fn set_product(&mut self, a: &Narrow<M, N>, b: &Narrow<M, N>, offset: &Offset<M>) {
        if N == 1 {
            let m = a.0[0].m;
            m.products::<1, WIDE>([(&a.0[0], &b.0[0])], &mut self.0[0]);
        } else {
            products_over_fp2::<M, N, WIDE>(&mut self.0, &a.0, &b.0, offset);
        }
    }
}

impl<M: Multiplier, const N: usize> Wide<M, N> {
    /// `self = a²`, like `set_product(a, a, offset)`.
    #[inline(always)]
    fn set_square(&mut self, a: &Narrow<M, N>, offset: &Offset<M>) {
        if N == 1 {
            let m = a.0[0].m;
            m.square::<WIDE>(&a.0[0], &mut self.0[0]);
        } else {
            products_over_fp2::<M, N, WIDE>(&mut self.0, &a.0, &a.0, offset);
        }
    }
}

/// u² = -1: a0·b0 + (-a1)·b1, and a0·b1 + a1·b0. `offset` is larger than a1, which is cleared.
#[inline(always)]
fn products_over_fp2<M: Multiplier, const N: usize, const FORM: u8>(
    out: &mut [Fe<M>; N],
    a: &[Fe<M>; N],
    b: &[Fe<M>; N],
    offset: &Offset<M>,
) {
    let m = a[0].m;
    let mut minus_a1 = Fe::zero(m);
    sub_carry::<_, true>(&mut minus_a1, &Fe::zero(m), &a[1], offset);
    m.products::<2, FORM>([(&a[0], &b[0]), (&minus_a1, &b[1])], &mut out[0]);
    m.products::<2, FORM>([(&a[0], &b[1]), (&a[1], &b[0])], &mut out[1]);
}

/// Sixteen points being processed by the tree.
#[derive(Clone, Copy)]
pub(super) struct Slot<M: Multiplier, const N: usize> {
    pub(super) x: Wide<M, N>,
    pub(super) y: Wide<M, N>,
}

/// The denominators of sixteen slopes.
#[derive(Clone, Copy)]
pub(super) struct Pair<M: Multiplier, const N: usize> {
    /// Denominator of the slope, never 0.
    pub(super) d: Narrow<M, N>,
    /// Product of the denominators before this one.
    pub(super) before: Narrow<M, N>,
    /// Lanes whose operands are equal, and lanes whose operands are opposite.
    pub(super) doubled: u16,
    pub(super) opposite: u16,
}

impl<M: Multiplier, const N: usize> Pair<M, N> {
    /// A pair about which nothing is known yet.
    #[inline(always)]
    pub(super) fn new(m: M) -> Self {
        Pair {
            d: Narrow::one(m),
            before: Narrow::one(m),
            doubled: 0,
            opposite: 0,
        }
    }

    /// The operands have equal x in the lanes where `d` is 0. Sets the denominator of a tangent where they are
    /// equal, and an arbitrary non-zero one where they are opposite.
    #[inline(always)]
    pub(super) fn except(
        &mut self,
        ya: &Wide<M, N>,
        yb: &Wide<M, N>,
        missing: u16,
        level: &Level<M>,
    ) {
        level.m.run(Except {
            pair: self,
            ya,
            yb,
            missing,
            level,
        });
    }
}

/// See [`Pair::except`]: rare, and therefore not inlined.
struct Except<'a, M: Multiplier, const N: usize> {
    pair: &'a mut Pair<M, N>,
    ya: &'a Wide<M, N>,
    yb: &'a Wide<M, N>,
    missing: u16,
    level: &'a Level<M>,
}

impl<M: Multiplier, const N: usize> Routine for Except<'_, M, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Except {
            pair,
            ya,
            yb,
            missing,
            level,
        } = self;
        let mut dy = Narrow::one(level.m);
        dy.set_difference(yb, ya, level);
        let (same_x, same_y) = (pair.d.is_zero() & !missing, dy.is_zero());
        pair.doubled = same_x & same_y;
        // Points with the same x have the same y or opposite ones.
        pair.opposite = same_x & !same_y;
        let twice = ya.add(ya).narrow(2 * level.multiple);
        pair.d = pair.d.select(pair.doubled, &twice);
        pair.d = pair.d.select(pair.opposite, &Narrow::one(level.m));
    }
}

/// Intermediate values of an addition, kept from row to row.
pub(super) struct Temporaries<M: Multiplier, const N: usize> {
    inverse_d: Narrow<M, N>,
    numerator: Narrow<M, N>,
    slope: Narrow<M, N>,
    run: Narrow<M, N>,
    product: Wide<M, N>,
}

impl<M: Multiplier, const N: usize> Temporaries<M, N> {
    #[inline(always)]
    pub(super) fn new(m: M) -> Self {
        let (narrow, product) = (Narrow::one(m), Wide::zero(m));
        Temporaries {
            inverse_d: narrow,
            numerator: narrow,
            slope: narrow,
            run: narrow,
            product,
        }
    }

    /// Pass 2: from the inverse of the product up to this pair, computes 1/d of the pair and the inverse of the
    /// product before it. The two slots of `inverses` alternate, so that nothing is copied.
    #[inline(always)]
    pub(super) fn step(
        &mut self,
        inverses: &mut [Narrow<M, N>; 2],
        turn: &mut bool,
        pair: &Pair<M, N>,
        level: &Level<M>,
    ) {
        let [even, odd] = inverses;
        let (inverse, next) = if *turn { (odd, even) } else { (even, odd) };
        self.inverse_d.set_product(inverse, &pair.before, level);
        next.set_product(inverse, &pair.d, level);
        *turn = !*turn;
    }

    /// Adds b to a, given 1/d. Lanes of `missing` have no second operand. Returns the lanes whose sum is the
    /// identity.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        a: &mut Slot<M, N>,
        b: &Slot<M, N>,
        pair: &Pair<M, N>,
        missing: [u16; 2],
        level: &Level<M>,
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
            let tangent = level.m.run(Tangent { x: &a.x, level });
            *numerator = numerator.select(pair.doubled, &tangent);
        }
        slope.set_product(inverse_d, numerator, level);
        let before = (missing[0] | missing[1] != 0).then_some(*a);
        product.set_square(slope, &level.product);
        for c in 0..N {
            let (offset, next) = (&level.bound_doubled, &level.bound_next);
            let (x, run) = (&mut a.x.0[c], &mut run.0[c]);
            if N == 1 {
                advance_x::<_, false>(x, run, &b.x.0[c], &product.0[c], offset, next);
            } else {
                advance_x::<_, true>(x, run, &b.x.0[c], &product.0[c], offset, next);
            }
        }
        product.set_product(slope, run, &level.product);
        for c in 0..N {
            advance_y(&mut a.y.0[c], &product.0[c], &level.bound);
        }
        // A lane without a first operand takes the second; one without a second keeps the first.
        if let Some(before) = before {
            a.x = a.x.select(missing[0], &b.x).select(missing[1], &before.x);
            a.y = a.y.select(missing[0], &b.y).select(missing[1], &before.y);
        }
        if level.carries {
            a.carry();
        }
        // 2·B_L + 2 is the bound of the next level.
        a.x.check(2 * level.multiple + 2);
        a.y.check(2 * level.multiple + 2);
        missing[0] & missing[1] | pair.opposite
    }
}

impl<M: Multiplier, const N: usize> Slot<M, N> {
    /// Reduces the limbs below 2^52 again.
    #[inline(always)]
    pub(super) fn carry(&mut self) {
        *self = Slot {
            x: self.x.carried(),
            y: self.y.carried(),
        };
    }
}

/// The numerator of a tangent's slope, 3·x²: rare, and therefore not inlined.
struct Tangent<'a, M: Multiplier, const N: usize> {
    x: &'a Wide<M, N>,
    level: &'a Level<M>,
}

impl<M: Multiplier, const N: usize> Routine for Tangent<'_, M, N> {
    type Output = Narrow<M, N>;

    #[inline(always)]
    fn run(self) -> Narrow<M, N> {
        let level = self.level;
        let x = self.x.narrow(level.multiple);
        let mut square = Wide::zero(level.m);
        square.set_square(&x, &level.bound);
        // 3·(1 + N·B²·p / R).
        let bound = 4 + ((3 * N as u64 * level.multiple * level.multiple) >> 35);
        square.add(&square).add(&square).narrow(bound)
    }
}
