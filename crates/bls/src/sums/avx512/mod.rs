#![doc = include_str!("LECTURE.md")]
#![allow(unsafe_code)]
// Limbs, lanes and coefficients of several operands are walked through by one index.
#![allow(clippy::needless_range_loop)]

pub(crate) mod convert;
mod element;
pub(crate) mod field;
mod pages;
mod rows;
#[cfg(test)]
mod tests;

use core::arch::x86_64::*;
use core::marker::PhantomData;
use core::ops::Range;

use super::segments::{Points, SegmentList, SumKernel};
use crate::blst_ffi::curve::Affine;
use crate::blst_ffi::field::{Fp, Fp2};
use alphorn_exec::Avx512Ifma;
use convert::{Coefficients, enter, invert, leave};
use element::{Level, Narrow, Pair, Slot, Temporaries, Wide};
use field::LANES;
pub(crate) use pages::PointPages;
use rows::{LaneGroup, Places, Row, recycle};

/// Entries that are worked on at a time.
const CHUNK_ENTRIES: usize = 16384;
/// Rows of sixteen pairs whose sums of level 0 share an inversion: 4,096 points of G1 are 512 KiB.
const BLOCK_ROWS: usize = 128;
/// Rows of sixteen pairs that are fetched ahead of their use.
const PREFETCH_ROWS: usize = 2;

/// The AVX-512 kernel over a field of `N` coefficients.
#[derive(Debug)]
pub(crate) struct Avx512<F, const N: usize>(Avx512Ifma, PhantomData<F>);

/// The kernel of G1.
pub(crate) type Avx512G1 = Avx512<Fp, 1>;
/// The kernel of G2.
pub(crate) type Avx512G2 = Avx512<Fp2, 2>;

impl<F, const N: usize> Avx512<F, N> {
    pub(crate) fn new(witness: Avx512Ifma) -> Self {
        Avx512(witness, PhantomData)
    }
}

impl<F, const N: usize> Clone for Avx512<F, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F, const N: usize> Copy for Avx512<F, N> {}

/// A stored point: canonical coordinates of eight 52-bit limbs, a cache line per coefficient. The
/// identity is (0, 0).
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub(crate) struct Point<const N: usize> {
    x: [__m512i; N],
    y: [__m512i; N],
}

impl<const N: usize> Point<N> {
    #[target_feature(enable = "avx512f")]
    fn identity() -> Self {
        let zero = [_mm512_setzero_si512(); N];
        Point { x: zero, y: zero }
    }
}

/// Buffers of one thread.
pub(crate) struct Scratch<const N: usize> {
    /// Segments of the list, longest first.
    order: Vec<u32>,
    /// Where the next segment of each length goes.
    places: Vec<u32>,
    groups: Vec<LaneGroup>,
    /// Empty between calls.
    rows: Vec<Row<'static, N>>,
    slots: Vec<Slot<N>>,
    /// Lanes of each slot that hold the identity.
    infinite: Vec<u16>,
    pairs: Vec<Pair<N>>,
}

impl<const N: usize> Default for Scratch<N> {
    fn default() -> Self {
        Scratch {
            order: Vec::new(),
            places: Vec::new(),
            groups: Vec::new(),
            rows: Vec::new(),
            slots: Vec::new(),
            infinite: Vec::new(),
            pairs: Vec::new(),
        }
    }
}

impl<F: Coefficients<N>, const N: usize> SumKernel for Avx512<F, N> {
    type Field = F;
    type Point = Point<N>;
    type Scratch = Scratch<N>;

    fn encode(self, points: &[Affine<F>], out: &mut Vec<Point<N>>) {
        for block in points.chunks(LANES) {
            let lane = |i: usize| block.get(i).copied().unwrap_or(Affine::INFINITY);
            let points: [Affine<F>; LANES] = core::array::from_fn(lane);
            // SAFETY: the witness shows that the processor has these instructions.
            let (x, y) = unsafe { (enter(&points.map(|p| p.x)), enter(&points.map(|p| p.y))) };
            let stored = x.into_iter().zip(y).map(|(x, y)| Point { x, y });
            out.extend(stored.take(block.len()));
        }
    }

    fn decode(self, points: &[Point<N>], out: &mut Vec<Affine<F>>) {
        for block in points.chunks(LANES) {
            let lane = |i: usize| block[i.min(block.len() - 1)];
            let points: [Point<N>; LANES] = core::array::from_fn(lane);
            // SAFETY: the witness shows that the processor has these instructions.
            let (x, y): ([F; LANES], [F; LANES]) =
                unsafe { (leave(&points.map(|p| p.x)), leave(&points.map(|p| p.y))) };
            out.extend(
                x.into_iter()
                    .zip(y)
                    .map(|(x, y)| Affine { x, y })
                    .take(block.len()),
            );
        }
    }

    fn identity(self) -> Point<N> {
        // SAFETY: the witness shows that the processor has these instructions.
        unsafe { Point::identity() }
    }

    fn is_infinity(point: &Point<N>) -> bool {
        // No point has y = 0: the order of either curve is odd.
        let any = |register: &__m512i| field::words(*register).into_iter().fold(0, |a, b| a | b);
        point.y.iter().all(|register| any(register) == 0)
    }

    fn piece_max(self, entries: usize) -> usize {
        // Sixteen equal lanes at least: a lone long segment is cut until all lanes work.
        (entries / LANES).clamp(32, CHUNK_ENTRIES / LANES)
    }

    fn sum_pieces(
        self,
        points: Points<'_, Point<N>>,
        pieces: &SegmentList,
        scratch: &mut Scratch<N>,
        out: &mut [Point<N>],
    ) {
        // SAFETY: the witness shows that the processor has these instructions.
        unsafe { scratch.sum::<F>(points, pieces, out) };
    }
}

/// Start and end of segment `i`.
fn bounds(list: &SegmentList, i: usize) -> (usize, usize) {
    (if i == 0 { 0 } else { list.ends[i - 1] }, list.ends[i])
}

impl<const N: usize> Scratch<N> {
    /// Writes the sum of each segment of the list to its place in `out`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn sum<F: Coefficients<N>>(
        &mut self,
        points: Points<'_, Point<N>>,
        list: &SegmentList,
        out: &mut [Point<N>],
    ) {
        let length = |i: &u32| {
            let (start, end) = bounds(list, *i as usize);
            end - start
        };
        let places = Places::new(points, &list.entries);
        self.sort_by_length(list);
        if self.order.len() < list.len() {
            let empty = (0..list.len()).filter(|i| {
                let (start, end) = bounds(list, *i);
                start == end
            });
            empty.for_each(|i| out[i] = Point::identity());
        }
        let mut next = 0;
        while next < self.order.len() {
            // Lane groups of one chunk: the longest segments first, so that lanes are alike.
            self.groups.clear();
            let mut slots = 0;
            while next < self.order.len() {
                let longest = length(&self.order[next]);
                if slots > 0 && (slots + longest.div_ceil(2)) * 2 * LANES > CHUNK_ENTRIES {
                    break;
                }
                let members = &self.order[next..self.order.len().min(next + LANES)];
                let mut group = LaneGroup {
                    starts: [0; LANES],
                    lengths: [0; LANES],
                    segments: [0; LANES],
                    longest,
                    slot: slots,
                };
                for (lane, segment) in members.iter().enumerate() {
                    let (start, end) = bounds(list, *segment as usize);
                    group.starts[lane] = start as u32;
                    group.lengths[lane] = (end - start) as u32;
                    group.segments[lane] = *segment;
                }
                self.groups.push(group);
                slots += longest.div_ceil(2);
                next += LANES;
            }
            self.chunk::<F>(&places, slots);
            self.write(out);
        }
    }

    /// Orders the segments, the longest first, and equal ones as they come: without those of no entry.
    fn sort_by_length(&mut self, list: &SegmentList) {
        let Self { order, places, .. } = self;
        places.clear();
        for i in 0..list.len() {
            let (start, end) = bounds(list, i);
            if places.len() <= end - start {
                places.resize(end - start + 1, 0);
            }
            places[end - start] += 1;
        }
        let mut next = 0;
        for place in places.iter_mut().skip(1).rev() {
            next += core::mem::replace(place, next);
        }
        order.clear();
        order.resize(next as usize, 0);
        for i in 0..list.len() {
            let (start, end) = bounds(list, i);
            if end > start {
                order[places[end - start] as usize] = i as u32;
                places[end - start] += 1;
            }
        }
    }

    /// Adds up the segments of `groups`: the sums end in each group's first slot.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn chunk<F: Coefficients<N>>(&mut self, places: &Places<'_, N>, slots: usize) {
        if self.slots.len() < slots {
            self.slots.resize(
                slots,
                Slot {
                    x: Wide::zero(),
                    y: Wide::zero(),
                },
            );
            self.infinite.resize(slots, 0);
            let one = Narrow::one();
            self.pairs.resize(
                slots,
                Pair {
                    d: one,
                    before: one,
                    doubled: 0,
                    opposite: 0,
                },
            );
        }
        let mut rows = recycle(core::mem::take(&mut self.rows));
        for group in &self.groups {
            rows.extend((0..group.longest.div_ceil(2)).map(|row| group.row(places, row)));
        }
        let mut temporaries = Temporaries::new();
        self.level_zero::<F>(&rows, &mut temporaries);
        self.rows = recycle(rows);
        let longest = self
            .groups
            .iter()
            .map(|group| group.longest)
            .max()
            .unwrap_or(0);
        let mut level = 1;
        while longest > 1 << level {
            let bounds = Level::new(level);
            let mut product = Narrow::one();
            let pairs = self.forward(level, &bounds, &mut product);
            if product.is_zero() != 0 {
                self.repair(level, &bounds, &mut product);
            }
            self.backward(
                level,
                &bounds,
                invert::<F, N>(&product),
                pairs,
                &mut temporaries,
            );
            level += 1;
        }
    }

    /// Level 0: operands come from the table. Blocks of rows are small enough that the points of pass 1
    /// are still in the second-level cache for pass 2.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn level_zero<F: Coefficients<N>>(
        &mut self,
        rows: &[Row<'_, N>],
        temporaries: &mut Temporaries<N>,
    ) {
        let bounds = Level::new(0);
        let mut start = 0;
        while start < rows.len() {
            let block = start..rows.len().min(start + BLOCK_ROWS);
            let product = self.gather_denominators(rows, block.clone(), &bounds);
            self.gather_sums(
                rows,
                block.clone(),
                &bounds,
                invert::<F, N>(&product),
                temporaries,
            );
            start = block.end;
        }
    }

    /// Pass 1 of level 0: the denominators of a block of rows; their product is returned.
    ///
    /// Coordinates are canonical here: operands of equal x show in their lowest limbs, and the product
    /// is never 0.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn gather_denominators(
        &mut self,
        rows: &[Row<'_, N>],
        block: Range<usize>,
        bounds: &Level,
    ) -> Narrow<N> {
        let Self {
            slots,
            infinite,
            pairs,
            ..
        } = self;
        let mut product = Narrow::one();
        for a in block {
            let (row, slot, pair) = (&rows[a], &mut slots[a], &mut pairs[a]);
            // Half of the lines before the gather and half behind: the processor has some sixteen
            // misses in flight, and waits if asked for more.
            let ahead = rows.get(a + PREFETCH_ROWS);
            if let Some(row) = ahead {
                row.prefetch(0);
            }
            row.gather_x(0, &mut slot.x);
            if row.is_single() {
                row.gather_y(0, &mut slot.y);
                infinite[a] = row.missing[0];
                continue;
            }
            // Pass 2 finds both x here, transposed.
            row.gather_x(1, &mut slot.y);
            pair.d.set_difference(&slot.y, &slot.x, bounds);
            if let Some(row) = ahead {
                row.prefetch(1);
            }
            (pair.doubled, pair.opposite) = (0, 0);
            let missing = row.missing[0] | row.missing[1];
            if slot.x.lowest_equal(&slot.y) & !missing != 0 {
                let (mut ya, mut yb) = (Wide::zero(), Wide::zero());
                row.gather_y(0, &mut ya);
                row.gather_y(1, &mut yb);
                pair.except(&ya, &yb, missing, bounds);
            }
            if missing != 0 {
                pair.d = pair.d.select(missing, &Narrow::one());
            }
            pair.before = product;
            product.set_product(&pair.before, &pair.d, bounds);
        }
        product
    }

    /// Passes 2 and 3 of level 0, from the last row of the block to the first.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn gather_sums(
        &mut self,
        rows: &[Row<'_, N>],
        block: Range<usize>,
        bounds: &Level,
        inverse: Narrow<N>,
        temporaries: &mut Temporaries<N>,
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
            x: Wide::zero(),
            y: Wide::zero(),
        };
        for a in block.rev() {
            let (row, slot, pair) = (&rows[a], &mut slots[a], &pairs[a]);
            if row.is_single() {
                continue;
            }
            if let Some(row) = rows.get(a.wrapping_sub(PREFETCH_ROWS)) {
                row.prefetch_y(0);
                row.prefetch_y(1);
            }
            temporaries.step(&mut inverses, &mut turn, pair, bounds);
            other.x = slot.y;
            row.gather_y(0, &mut slot.y);
            row.gather_y(1, &mut other.y);
            let missing = (row.missing[0], row.missing[1]);
            infinite[a] = temporaries.add(slot, &other, pair, missing, bounds);
        }
    }

    /// Pass 1 of a level above 0: the denominators of all pairs, whose number is returned, and their
    /// product. That is 0 in some lane if operands have equal x there.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn forward(&mut self, level: usize, bounds: &Level, product: &mut Narrow<N>) -> usize {
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
                    pair.d = pair.d.select(missing, &Narrow::one());
                }
                pair.before = *product;
                product.set_product(&pair.before, &pair.d, bounds);
                k += 1;
            }
        }
        k
    }

    /// Finds the pairs whose operands have equal x, gives them the denominators of their case, and
    /// multiplies again.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[cold]
    fn repair(&mut self, level: usize, bounds: &Level, product: &mut Narrow<N>) {
        let Self {
            groups,
            slots,
            infinite,
            pairs,
            ..
        } = self;
        *product = Narrow::one();
        let mut k = 0;
        for group in groups.iter() {
            for i in 0..group.pairs(level) {
                let (a, b) = group.slots_of(level, i);
                let pair = &mut pairs[k];
                if pair.d.is_zero() != 0 {
                    let missing = infinite[a] | infinite[b];
                    pair.except(&slots[a].y, &slots[b].y, missing, bounds);
                }
                pair.before = *product;
                product.set_product(&pair.before, &pair.d, bounds);
                k += 1;
            }
        }
    }

    /// Passes 2 and 3, from the last pair to the first: each pair's inverse, then its sum.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn backward(
        &mut self,
        level: usize,
        bounds: &Level,
        inverse: Narrow<N>,
        pairs: usize,
        temporaries: &mut Temporaries<N>,
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
                let missing = (self.infinite[a], self.infinite[b]);
                let (left, right) = self.slots.split_at_mut(b);
                self.infinite[a] = temporaries.add(&mut left[a], &right[0], pair, missing, bounds);
            }
        }
    }

    /// An odd row out keeps to the bounds on limbs, too.
    #[target_feature(enable = "avx512f")]
    fn carry_tail(&mut self, group: &LaneGroup, level: usize) {
        let rows = group.longest.div_ceil(1 << level);
        if rows % 2 == 1 {
            let (last, _) = group.slots_of(level, (rows - 1) / 2);
            self.slots[last].carry();
        }
    }

    /// Writes the sums of the groups, canonical, to the places of their segments.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn write(&self, out: &mut [Point<N>]) {
        for group in &self.groups {
            let slot = &self.slots[group.slot];
            let level = group.levels();
            let (x, y) = (slot.x.canonical(level), slot.y.canonical(level));
            for lane in (0..LANES).filter(|lane| group.lengths[*lane] > 0) {
                let infinite = self.infinite[group.slot] >> lane & 1 == 1;
                out[group.segments[lane] as usize] = match infinite {
                    true => Point::identity(),
                    false => Point {
                        x: x[lane],
                        y: y[lane],
                    },
                };
            }
        }
    }
}
