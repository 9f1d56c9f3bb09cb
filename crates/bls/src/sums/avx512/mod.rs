#![doc = include_str!("LECTURE.md")]
#![allow(unsafe_code)]

mod element;
mod field;
#[cfg(test)]
mod tests;

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::segments::{Entry, Points, SegmentList, SumKernel};
use crate::blst_ffi::curve::Affine;
use crate::blst_ffi::field::{Fp, Fp2};
use crate::kernel::Avx512Witness;
use element::{Coefficients, Level, Narrow, Wide, enter, invert, leave};
use field::{LANES, Offset, transpose};

/// Entries that are worked on at a time.
const CHUNK_ENTRIES: usize = 16384;
/// Rows of sixteen pairs that are fetched ahead of their use.
const PREFETCH_ROWS: usize = 2;

/// The AVX-512 kernel over a field of `N` coefficients.
#[derive(Debug)]
pub(crate) struct Avx512<F, const N: usize>(Avx512Witness, PhantomData<F>);

/// The kernel of G1.
pub(crate) type Avx512G1 = Avx512<Fp, 1>;
/// The kernel of G2.
pub(crate) type Avx512G2 = Avx512<Fp2, 2>;

impl<F, const N: usize> Avx512<F, N> {
    pub(crate) fn new(witness: Avx512Witness) -> Self {
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
#[repr(C, align(64))]
pub(crate) struct Point<const N: usize> {
    x: [__m512i; N],
    y: [__m512i; N],
}

/// Sixteen points on their way through the tree.
#[derive(Clone, Copy)]
struct Slot<const N: usize> {
    x: Wide<N>,
    y: Wide<N>,
}

/// Sixteen segments that are added up side by side, one in each lane.
#[derive(Clone, Copy, Debug)]
struct LaneGroup {
    /// Where the segment of each lane starts in the list.
    starts: [u32; LANES],
    /// Points of each segment; 0 for a lane without one.
    lengths: [u32; LANES],
    /// Place of each lane's sum among the segments of the list.
    segments: [u32; LANES],
    /// Longest length.
    longest: usize,
    /// First slot; there are ⌈longest / 2⌉.
    slot: usize,
}

/// What pass 2 needs of a pair of rows.
#[derive(Clone, Copy)]
struct Pair<const N: usize> {
    /// The denominator of the slope, never 0.
    d: Narrow<N>,
    /// The product of the denominators before this one.
    before: Narrow<N>,
    /// Lanes whose operands are equal, and lanes whose operands are opposite.
    doubled: u16,
    opposite: u16,
}

/// Buffers of one thread.
pub(crate) struct Scratch<const N: usize> {
    /// Segments of the list, longest first.
    order: Vec<u32>,
    groups: Vec<LaneGroup>,
    slots: Vec<Slot<N>>,
    /// Lanes of each slot that hold the identity.
    infinite: Vec<u16>,
    pairs: Vec<Pair<N>>,
}

impl<const N: usize> Default for Scratch<N> {
    fn default() -> Self {
        Scratch {
            order: Vec::new(),
            groups: Vec::new(),
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

    fn is_infinity(point: &Point<N>) -> bool {
        let zero = |register: &__m512i| field::words(*register) == [0; 8];
        point.y.iter().all(zero) && point.x.iter().all(zero)
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
        out: &mut Vec<Point<N>>,
    ) {
        let start = out.len();
        // SAFETY: the witness shows that the processor has these instructions.
        unsafe {
            let identity = Point {
                x: [_mm512_setzero_si512(); N],
                y: [_mm512_setzero_si512(); N],
            };
            out.resize(start + pieces.len(), identity);
            scratch.sum::<F>(points, pieces, &mut out[start..]);
        }
    }
}

/// Start and end of segment `i`.
fn bounds(list: &SegmentList, i: usize) -> (usize, usize) {
    (if i == 0 { 0 } else { list.ends[i - 1] }, list.ends[i])
}

impl<const N: usize> Scratch<N> {
    /// Writes the sum of each segment of the list to its place in `out`, where the identity stands.
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
        self.order.clear();
        self.order
            .extend((0..list.len() as u32).filter(|i| length(i) > 0));
        self.order
            .sort_unstable_by_key(|i| core::cmp::Reverse(length(i)));
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
            self.chunk::<F>(points, &list.entries, slots);
            self.write(out);
        }
    }

    /// Adds up the segments of `groups`: the sums end in each group's first slot.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn chunk<F: Coefficients<N>>(
        &mut self,
        points: Points<'_, Point<N>>,
        entries: &[Entry],
        slots: usize,
    ) {
        if self.slots.len() < slots {
            self.slots.resize(
                slots,
                Slot {
                    x: Wide::zero(),
                    y: Wide::zero(),
                },
            );
            self.infinite.resize(slots, 0);
        }
        let source = Source { points, entries };
        let longest = self
            .groups
            .iter()
            .map(|group| group.longest)
            .max()
            .unwrap_or(0);
        let mut level = 0;
        while longest > 1 << level || level == 0 {
            let bounds = Level::new(level);
            self.pairs.clear();
            let product = self.forward(&source, level, &bounds);
            let product = if product.is_zero() == 0 {
                product
            } else {
                self.repair(&source, level, &bounds)
            };
            if !self.pairs.is_empty() {
                let inverse = invert::<F, N>(&product);
                self.backward(&source, level, &bounds, inverse);
            }
            level += 1;
        }
    }

    /// Pass 1: the denominators of all pairs of this level and their running product, which is
    /// returned. It is 0 in some lane if operands have equal x there and that went unnoticed.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn forward(&mut self, source: &Source<'_, N>, level: usize, bounds: &Level) -> Narrow<N> {
        let mut product = Narrow::one();
        for g in 0..self.groups.len() {
            let group = self.groups[g];
            if level == 0 {
                self.load_tail(source, &group);
            }
            for row in 0..group.pairs(level) {
                let (a, b) = group.slots_of(level, row);
                let mut pair = Pair {
                    d: product,
                    before: product,
                    doubled: 0,
                    opposite: 0,
                };
                let (xa, xb, missing);
                if level == 0 {
                    let rows = source.rows(&group, row);
                    source.prefetch(&group, row + PREFETCH_ROWS);
                    xa = source.gather_x(&rows[0].0);
                    xb = source.gather_x(&rows[1].0);
                    // Pass 2 finds them here, transposed.
                    self.slots[a] = Slot { x: xa, y: xb };
                    missing = rows[0].1 | rows[1].1;
                } else {
                    (xa, xb) = (self.slots[a].x, self.slots[b].x);
                    missing = self.infinite[a] | self.infinite[b];
                }
                pair.d = xb.sub(&xa, &bounds.bound).narrow(2 * bounds.multiple);
                if level == 0 && xa.lowest_equal(&xb) & !missing != 0 {
                    let (ya, yb) = self.operands_y(source, &group, level, row);
                    pair.except(&ya, &yb, missing, bounds);
                }
                if missing != 0 {
                    pair.d = pair.d.select(missing, &Narrow::one());
                }
                product = product.mul(&pair.d, bounds);
                self.pairs.push(pair);
            }
        }
        product
    }

    /// Finds the pairs whose operands have equal x, gives them the denominators of their case, and
    /// multiplies again.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[cold]
    fn repair(&mut self, source: &Source<'_, N>, level: usize, bounds: &Level) -> Narrow<N> {
        let mut product = Narrow::one();
        let mut k = 0;
        for g in 0..self.groups.len() {
            let group = self.groups[g];
            for row in 0..group.pairs(level) {
                let mut pair = self.pairs[k];
                if pair.d.is_zero() != 0 {
                    let missing = self.missing(source, &group, level, row);
                    let (ya, yb) = self.operands_y(source, &group, level, row);
                    pair.except(&ya, &yb, missing, bounds);
                }
                pair.before = product;
                product = product.mul(&pair.d, bounds);
                self.pairs[k] = pair;
                k += 1;
            }
        }
        product
    }

    /// Passes 2 and 3, from the last pair to the first: each pair's inverse, then its sum.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn backward(
        &mut self,
        source: &Source<'_, N>,
        level: usize,
        bounds: &Level,
        mut inverse: Narrow<N>,
    ) {
        let mut k = self.pairs.len();
        for g in (0..self.groups.len()).rev() {
            let group = self.groups[g];
            if bounds.carries {
                self.carry_tail(&group, level);
            }
            for row in (0..group.pairs(level)).rev() {
                k -= 1;
                let (a, b) = group.slots_of(level, row);
                if level == 0 && row >= PREFETCH_ROWS {
                    source.prefetch_y(&group, row - PREFETCH_ROWS);
                }
                let (ya, yb) = self.operands_y(source, &group, level, row);
                let (xa, xb) = match level {
                    0 => (self.slots[a].x, self.slots[a].y),
                    _ => (self.slots[a].x, self.slots[b].x),
                };
                let pair = &self.pairs[k];
                let inverse_d = inverse.mul(&pair.before, bounds);
                inverse = inverse.mul(&pair.d, bounds);
                let mut numerator = yb.sub(&ya, &bounds.bound).narrow(2 * bounds.multiple);
                if pair.doubled != 0 {
                    numerator = numerator.select(pair.doubled, &tangent(&xa, bounds));
                }
                let mut sum = chord(&xa, &ya, &xb, &inverse_d, &numerator, bounds);
                let (missing_a, missing_b) = self.missing_each(source, &group, level, row);
                let opposite = pair.opposite;
                if missing_a | missing_b != 0 {
                    sum.x = sum.x.select(missing_a, &xb).select(missing_b, &xa);
                    sum.y = sum.y.select(missing_a, &yb).select(missing_b, &ya);
                }
                self.slots[a] = sum;
                self.infinite[a] = missing_a & missing_b | opposite;
            }
        }
    }

    /// Lanes of the operands that are the identity or do not exist.
    #[inline]
    fn missing_each(
        &self,
        source: &Source<'_, N>,
        group: &LaneGroup,
        level: usize,
        row: usize,
    ) -> (u16, u16) {
        if level == 0 {
            let rows = source.rows(group, row);
            (rows[0].1, rows[1].1)
        } else {
            let (a, b) = group.slots_of(level, row);
            (self.infinite[a], self.infinite[b])
        }
    }

    fn missing(&self, source: &Source<'_, N>, group: &LaneGroup, level: usize, row: usize) -> u16 {
        let (a, b) = self.missing_each(source, group, level, row);
        a | b
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn operands_y(
        &self,
        source: &Source<'_, N>,
        group: &LaneGroup,
        level: usize,
        row: usize,
    ) -> (Wide<N>, Wide<N>) {
        if level == 0 {
            let rows = source.rows(group, row);
            (source.gather_y(&rows[0].0), source.gather_y(&rows[1].0))
        } else {
            let (a, b) = group.slots_of(level, row);
            (self.slots[a].y, self.slots[b].y)
        }
    }

    /// Level 0: an odd row out goes to its slot as it is.
    #[target_feature(enable = "avx512f")]
    fn load_tail(&mut self, source: &Source<'_, N>, group: &LaneGroup) {
        if group.longest % 2 == 1 {
            let row = group.longest / 2;
            let [(entries, missing), _] = source.rows(group, row);
            let slot = Slot {
                x: source.gather_x(&entries),
                y: source.gather_y(&entries),
            };
            self.slots[group.slot + row] = slot;
            self.infinite[group.slot + row] = missing;
        }
    }

    /// An odd row out keeps to the bounds on limbs, too.
    #[target_feature(enable = "avx512f")]
    fn carry_tail(&mut self, group: &LaneGroup, level: usize) {
        let rows = group.longest.div_ceil(1 << level);
        if level > 0 && rows % 2 == 1 {
            let (last, _) = group.slots_of(level, (rows - 1) / 2);
            let slot = &mut self.slots[last];
            *slot = Slot {
                x: slot.x.carried(),
                y: slot.y.carried(),
            };
        }
    }

    /// Writes the sums of the groups, canonical, to the places of their segments.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn write(&self, out: &mut [Point<N>]) {
        for group in &self.groups {
            let slot = &self.slots[group.slot];
            let (x, y) = (slot.x.canonical(), slot.y.canonical());
            for lane in (0..LANES).filter(|lane| group.lengths[*lane] > 0) {
                if self.infinite[group.slot] >> lane & 1 == 0 {
                    out[group.segments[lane] as usize] = Point {
                        x: x[lane],
                        y: y[lane],
                    };
                }
            }
        }
    }
}

impl LaneGroup {
    /// Pairs of rows that are added at a level; an odd row out stays where it is.
    fn pairs(&self, level: usize) -> usize {
        self.longest.div_ceil(1 << level) / 2
    }

    /// Where the operands of a pair are, and its sum goes to the first place. At level 0 both come
    /// from the table. No slot moves: at level L points are 2^(L-1) slots apart.
    fn slots_of(&self, level: usize, row: usize) -> (usize, usize) {
        if level == 0 {
            return (self.slot + row, self.slot + row);
        }
        let a = self.slot + (row << level);
        (a, a + (1 << (level - 1)))
    }
}

/// Where the operands of level 0 come from.
struct Source<'a, const N: usize> {
    points: Points<'a, Point<N>>,
    entries: &'a [Entry],
}

impl<const N: usize> Source<'_, N> {
    /// The entries of a pair of rows, and their lanes without one: these read any point.
    #[inline]
    fn rows(&self, group: &LaneGroup, row: usize) -> [([Entry; LANES], u16); 2] {
        let mut rows = [([self.entries[group.starts[0] as usize]; LANES], 0); 2];
        for lane in 0..LANES {
            let (start, length) = (group.starts[lane] as usize, group.lengths[lane] as usize);
            for (i, (entries, missing)) in rows.iter_mut().enumerate() {
                if 2 * row + i < length {
                    entries[lane] = self.entries[start + 2 * row + i];
                } else {
                    *missing |= 1 << lane;
                }
            }
        }
        rows
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn gather(
        &self,
        entries: &[Entry; LANES],
        coordinate: impl Fn(&Point<N>) -> &[__m512i; N],
    ) -> Wide<N> {
        let mut out = Wide::zero();
        for v in 0..2 {
            for c in 0..N {
                let mut rows = [_mm512_setzero_si512(); 8];
                for (row, entry) in rows.iter_mut().zip(&entries[8 * v..]) {
                    *row = coordinate(self.points.get(entry.index()))[c];
                }
                out.0[c].0[v] = transpose(&rows);
            }
        }
        out
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn gather_x(&self, entries: &[Entry; LANES]) -> Wide<N> {
        self.gather(entries, |point| &point.x)
    }

    /// y, or p - y where the entry is negative.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn gather_y(&self, entries: &[Entry; LANES]) -> Wide<N> {
        let y = self.gather(entries, |point| &point.y);
        let negative = entries.iter().enumerate();
        let negative = negative.fold(0, |mask, (lane, e)| {
            mask | u16::from(e.is_negative()) << lane
        });
        if negative == 0 {
            return y;
        }
        y.select(negative, &Wide::zero().sub(&y, &Offset::new(1)))
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn prefetch(&self, group: &LaneGroup, row: usize) {
        self.prefetch_lines(group, row, |point| point.x.as_ptr());
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn prefetch_y(&self, group: &LaneGroup, row: usize) {
        self.prefetch_lines(group, row, |point| point.y.as_ptr());
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn prefetch_lines(
        &self,
        group: &LaneGroup,
        row: usize,
        coordinate: impl Fn(&Point<N>) -> *const __m512i,
    ) {
        for lane in 0..LANES {
            let (start, length) = (group.starts[lane] as usize, group.lengths[lane] as usize);
            for i in 2 * row..length.min(2 * row + 2) {
                let line = coordinate(self.points.get(self.entries[start + i].index()));
                for c in 0..N {
                    // SAFETY: `line` points to `N` registers of a point; a prefetch reads nothing.
                    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.add(c).cast()) };
                }
            }
        }
    }
}

impl<const N: usize> Pair<N> {
    /// The operands have equal x in the lanes where `d` is 0: the denominator of a tangent where they
    /// are equal, any non-zero one where they are opposite.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[cold]
    fn except(&mut self, ya: &Wide<N>, yb: &Wide<N>, missing: u16, level: &Level) {
        let same_x = self.d.is_zero() & !missing;
        let same_y = yb
            .sub(ya, &level.bound)
            .narrow(2 * level.multiple)
            .is_zero();
        self.doubled = same_x & same_y;
        self.opposite = same_x & !same_y;
        self.d = self
            .d
            .select(self.doubled, &ya.add(ya).narrow(2 * level.multiple));
        self.d = self.d.select(self.opposite, &Narrow::one());
    }
}

/// The numerator of a tangent's slope, 3·x².
#[target_feature(enable = "avx512f,avx512ifma")]
#[cold]
fn tangent<const N: usize>(x: &Wide<N>, level: &Level) -> Narrow<N> {
    let square = x.digits(level.multiple).square_of_coordinate(level);
    square.add(&square).add(&square).narrow(4)
}

/// The sum of two points, given the slope's numerator and the inverse of its denominator.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn chord<const N: usize>(
    xa: &Wide<N>,
    ya: &Wide<N>,
    xb: &Wide<N>,
    inverse: &Narrow<N>,
    numerator: &Narrow<N>,
    level: &Level,
) -> Slot<N> {
    let next = element::level_bound_next(level);
    let slope = inverse.mul(numerator, level);
    let x = slope
        .mul_wide(&slope, level)
        .sub(xa, &level.bound_doubled)
        .minus(xb);
    x.check(next);
    let run = xa.sub(&x, &level.bound_next).narrow(level.multiple + next);
    let y = slope.mul_wide(&run, level).sub(ya, &level.bound);
    y.check(next);
    if level.carries {
        Slot {
            x: x.carried(),
            y: y.carried(),
        }
    } else {
        Slot { x, y }
    }
}
