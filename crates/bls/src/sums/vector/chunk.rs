//! Reduces one chunk of segments to its sums, level by level.

use core::marker::PhantomData;
use core::ops::Range;

use super::convert::{Coefficients, invert};
use super::element::{Level, Narrow, Pair, Slot, Temporaries, Wide};
use super::rows::{LaneGroup, Row};
use super::{Point, Scratch};
use crate::vector::{LANES, Multiplier, Routine};

/// Rows of sixteen pairs whose level 0 sums share an inversion: 4,096 points of G1 are 512 KiB.
const BLOCK_ROWS: usize = 128;
/// Number of rows of sixteen pairs to prefetch.
const PREFETCH_ROWS: usize = 2;

impl<M: Multiplier, const N: usize> Scratch<M, N> {
    /// Sums the segments of `groups`; the sums end up in each group's first slot.
    #[inline(always)]
    fn chunk<F: Coefficients<N>>(&mut self, m: M, rows: &[Row<'_, N>]) {
        let slots = rows.len();
        if self.slots.len() < slots {
            let zero = Wide::zero(m);
            self.slots.resize(slots, Slot { x: zero, y: zero });
            self.infinite.resize(slots, 0);
            self.pairs.resize(slots, Pair::new(m));
        }
        let mut temporaries = Temporaries::new(m);
        self.level_zero::<F>(m, rows, &mut temporaries);
        let longest = self.groups.iter().map(|group| group.longest).max();
        let longest = longest.unwrap_or(0);
        let mut level = 1;
        while longest > 1 << level {
            let bounds = Level::new(m, level);
            let mut product = Narrow::one(m);
            let pairs = self.forward(m, level, &bounds, &mut product);
            // One denominator that is 0 makes the product 0, so a single test covers all pairs of the level.
            if product.is_zero() != 0 {
                m.run(Repair {
                    m,
                    scratch: self,
                    level,
                    bounds: &bounds,
                    product: &mut product,
                });
            }
            let inverse = invert::<M, F, N>(&product);
            self.backward(level, &bounds, inverse, pairs, &mut temporaries);
            level += 1;
        }
    }

    /// Level 0: operands come from the table. Blocks of rows are small enough that the points of pass 1 are
    /// still in the second-level cache for pass 2.
    #[inline(always)]
    fn level_zero<F: Coefficients<N>>(
        &mut self,
        m: M,
        rows: &[Row<'_, N>],
        temporaries: &mut Temporaries<M, N>,
    ) {
        let bounds = Level::new(m, 0);
        let mut start = 0;
        while start < rows.len() {
            let block = start..rows.len().min(start + BLOCK_ROWS);
            let product = self.gather_denominators(m, rows, block.clone(), &bounds);
            let inverse = invert::<M, F, N>(&product);
            self.gather_sums(m, rows, block.clone(), &bounds, inverse, temporaries);
            start = block.end;
        }
    }

    /// Pass 1 of level 0: computes the denominators of a block of rows and returns their product.
    ///
    /// Coordinates are canonical here, so operands of equal x are visible in their lowest limbs, and the
    /// product is never 0.
    #[inline(always)]
    fn gather_denominators(
        &mut self,
        m: M,
        rows: &[Row<'_, N>],
        block: Range<usize>,
        bounds: &Level<M>,
    ) -> Narrow<M, N> {
        let Self {
            slots,
            infinite,
            pairs,
            ..
        } = self;
        let mut product = Narrow::one(m);
        for a in block {
            let (row, slot, pair) = (&rows[a], &mut slots[a], &mut pairs[a]);
            // Half of the lines before the gather and half after it: the processor has some sixteen misses in
            // flight, and stalls on more.
            let ahead = rows.get(a + PREFETCH_ROWS);
            if let Some(row) = ahead {
                row.prefetch_x(m, 0);
            }
            row.gather_x(0, &mut slot.x);
            // An odd row out: its points are its sums.
            if row.is_single() {
                row.gather_y(0, &mut slot.y);
                infinite[a] = row.missing[0];
                continue;
            }
            // Pass 2 finds both x here, transposed.
            row.gather_x(1, &mut slot.y);
            pair.d.set_difference(&slot.y, &slot.x, bounds);
            if let Some(row) = ahead {
                row.prefetch_x(m, 1);
            }
            (pair.doubled, pair.opposite) = (0, 0);
            let missing = row.missing[0] | row.missing[1];
            // Equal lowest limbs are rare without equal x; whether x are equal, `except` finds out.
            if slot.x.lowest_equal(&slot.y) & !missing != 0 {
                let (mut ya, mut yb) = (Wide::zero(m), Wide::zero(m));
                row.gather_y(0, &mut ya);
                row.gather_y(1, &mut yb);
                pair.except(&ya, &yb, missing, bounds);
            }
            // A lane without two operands has no denominator, and must not spoil the product.
            if missing != 0 {
                pair.d = pair.d.select(missing, &Narrow::one(m));
            }
            pair.before = product;
            product.set_product(&pair.before, &pair.d, bounds);
        }
        product
    }

    /// Passes 2 and 3 of level 0, from the last row of the block to the first.
    #[inline(always)]
    fn gather_sums(
        &mut self,
        m: M,
        rows: &[Row<'_, N>],
        block: Range<usize>,
        bounds: &Level<M>,
        inverse: Narrow<M, N>,
        temporaries: &mut Temporaries<M, N>,
    ) {
        let Self {
            slots,
            infinite,
            pairs,
            ..
        } = self;
        let mut inverses = [inverse; 2];
        let mut turn = false;
        let mut other = Slot {
            x: Wide::zero(m),
            y: Wide::zero(m),
        };
        for a in block.rev() {
            let (row, slot, pair) = (&rows[a], &mut slots[a], &pairs[a]);
            if row.is_single() {
                continue;
            }
            // Below the first row the index wraps around, and nothing is prefetched.
            if let Some(row) = rows.get(a.wrapping_sub(PREFETCH_ROWS)) {
                row.prefetch_y(m, 0);
                row.prefetch_y(m, 1);
            }
            temporaries.step(&mut inverses, &mut turn, pair, bounds);
            // Pass 1 left the second x there, so it is not gathered again.
            other.x = slot.y;
            row.gather_y(0, &mut slot.y);
            row.gather_y(1, &mut other.y);
            infinite[a] = temporaries.add(slot, &other, pair, row.missing, bounds);
        }
    }

    /// Pass 1 of a level above 0: computes the denominators of all pairs, and returns the number of pairs and
    /// the product. The product is 0 in a lane where operands have equal x.
    #[inline(always)]
    fn forward(
        &mut self,
        m: M,
        level: usize,
        bounds: &Level<M>,
        product: &mut Narrow<M, N>,
    ) -> usize {
        let Self {
            groups,
            slots,
            infinite,
            pairs,
            ..
        } = self;
        let mut k = 0;
        for group in groups.iter() {
            for i in 0..group.pairs(level) {
                let (a, b) = group.slots_of(level, i);
                let pair = &mut pairs[k];
                (pair.doubled, pair.opposite) = (0, 0);
                pair.d.set_difference(&slots[b].x, &slots[a].x, bounds);
                let missing = infinite[a] | infinite[b];
                if missing != 0 {
                    pair.d = pair.d.select(missing, &Narrow::one(m));
                }
                pair.before = *product;
                product.set_product(&pair.before, &pair.d, bounds);
                k += 1;
            }
        }
        k
    }

    /// Passes 2 and 3, from the last pair to the first: each pair's inverse, then its sum.
    #[inline(always)]
    fn backward(
        &mut self,
        level: usize,
        bounds: &Level<M>,
        inverse: Narrow<M, N>,
        pairs: usize,
        temporaries: &mut Temporaries<M, N>,
    ) {
        let mut k = pairs;
        let mut inverses = [inverse; 2];
        let mut turn = false;
        for g in (0..self.groups.len()).rev() {
            let group = self.groups[g];
            if bounds.carries {
                self.carry_tail(&group, level);
            }
            for i in (0..group.pairs(level)).rev() {
                k -= 1;
                let (a, b) = group.slots_of(level, i);
                let pair = &self.pairs[k];
                temporaries.step(&mut inverses, &mut turn, pair, bounds);
                let missing = [self.infinite[a], self.infinite[b]];
                let (left, right) = self.slots.split_at_mut(b);
                self.infinite[a] = temporaries.add(&mut left[a], &right[0], pair, missing, bounds);
            }
        }
    }

    /// An odd row out respects the bounds on limbs, too.
    #[inline(always)]
    fn carry_tail(&mut self, group: &LaneGroup, level: usize) {
        let rows = group.longest.div_ceil(1 << level);
        if rows % 2 == 1 {
            let (last, _) = group.slots_of(level, (rows - 1) / 2);
            self.slots[last].carry();
        }
    }

    /// Writes the canonical sums of the groups to the slots of their segments.
    #[inline(always)]
    fn write(&self, out: &mut [Point<N>]) {
        for group in &self.groups {
            let slot = &self.slots[group.slot];
            let level = group.levels();
            let (x, y) = (slot.x.canonical(level), slot.y.canonical(level));
            for lane in 0..LANES {
                if group.lengths[lane] > 0 {
                    let infinite = self.infinite[group.slot] >> lane & 1 == 1;
                    out[group.segments[lane] as usize] = match infinite {
                        true => Point::IDENTITY,
                        false => Point::of_lane(&x, &y, lane),
                    };
                }
            }
        }
    }
}

/// One chunk, from rows of pairs, described by groups, to sums.
pub(super) struct Chunk<'a, 'r, M: Multiplier, F, const N: usize> {
    pub(super) m: M,
    pub(super) scratch: &'a mut Scratch<M, N>,
    pub(super) rows: &'a [Row<'r, N>],
    pub(super) out: &'a mut [Point<N>],
    pub(super) field: PhantomData<F>,
}

impl<M: Multiplier, F: Coefficients<N>, const N: usize> Routine for Chunk<'_, '_, M, F, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.scratch.chunk::<F>(self.m, self.rows);
        self.scratch.write(self.out);
    }
}

/// Finds the pairs whose operands have equal x, sets the denominators of their case, and multiplies again.
/// Rare, and therefore not inlined.
struct Repair<'a, M: Multiplier, const N: usize> {
    m: M,
    scratch: &'a mut Scratch<M, N>,
    level: usize,
    bounds: &'a Level<M>,
    product: &'a mut Narrow<M, N>,
}

impl<M: Multiplier, const N: usize> Routine for Repair<'_, M, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Repair {
            m,
            scratch,
            level,
            bounds,
            product,
        } = self;
        *product = Narrow::one(m);
        let mut k = 0;
        for group in &scratch.groups {
            for i in 0..group.pairs(level) {
                let (a, b) = group.slots_of(level, i);
                let pair = &mut scratch.pairs[k];
                if pair.d.is_zero() != 0 {
                    let missing = scratch.infinite[a] | scratch.infinite[b];
                    let (ya, yb) = (&scratch.slots[a].y, &scratch.slots[b].y);
                    pair.except(ya, yb, missing, bounds);
                }
                pair.before = *product;
                product.set_product(&pair.before, &pair.d, bounds);
                k += 1;
            }
        }
    }
}
