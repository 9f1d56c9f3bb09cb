#![doc = include_str!("LECTURE.md")]
// Lanes and coefficients of several operands are traversed with one index.
#![allow(clippy::needless_range_loop)]

mod chunk;
pub(crate) mod convert;
mod element;
mod pages;
mod rows;
#[cfg(test)]
mod tests;

use core::marker::PhantomData;

use super::segments::{Points, SegmentList, SumKernel};
use crate::blst_ffi::curve::Affine;
use crate::vector::{LANES, Line, Multiplier};
use chunk::Chunk;
use convert::{Coefficients, Decode, Encode};
use element::{Pair, Slot};
pub(crate) use pages::PointPages;
use rows::{LaneGroup, Places, Row, recycle};

/// Entries processed at a time.
const CHUNK_ENTRIES: usize = 16384;
/// The kernel of a multiplier over a field of `N` coefficients.
#[derive(Debug)]
pub(crate) struct VectorSums<M, F, const N: usize>(M, PhantomData<F>);

impl<M: Multiplier, F, const N: usize> VectorSums<M, F, N> {
    pub(crate) fn new(m: M) -> Self {
        VectorSums(m, PhantomData)
    }
}

impl<M: Multiplier, F, const N: usize> Clone for VectorSums<M, F, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Multiplier, F, const N: usize> Copy for VectorSums<M, F, N> {}

/// A stored point: canonical coordinates of eight 52-bit limbs, a cache line per coefficient. The
/// identity is (0, 0).
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub(crate) struct Point<const N: usize> {
    x: [Line; N],
    y: [Line; N],
}

impl<const N: usize> Point<N> {
    const IDENTITY: Self = Point {
        x: [Line::ZERO; N],
        y: [Line::ZERO; N],
    };

    /// The point of a lane.
    fn of_lane(x: &[[Line; LANES]; N], y: &[[Line; LANES]; N], lane: usize) -> Self {
        Point {
            x: core::array::from_fn(|c| x[c][lane]),
            y: core::array::from_fn(|c| y[c][lane]),
        }
    }
}

/// Buffers of one thread.
pub(crate) struct Scratch<M: Multiplier, const N: usize> {
    /// Segments of the list, longest first.
    order: Vec<u32>,
    /// Next position for a segment of each length.
    places: Vec<u32>,
    groups: Vec<LaneGroup>,
    /// Empty between calls.
    rows: Vec<Row<'static, N>>,
    slots: Vec<Slot<M, N>>,
    /// Lanes of each slot that hold the identity.
    infinite: Vec<u16>,
    pairs: Vec<Pair<M, N>>,
}

impl<M: Multiplier, const N: usize> Default for Scratch<M, N> {
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

impl<M: Multiplier, F: Coefficients<N>, const N: usize> SumKernel for VectorSums<M, F, N> {
    type Field = F;
    type Point = Point<N>;
    type Scratch = Scratch<M, N>;

    fn encode(self, points: &[Affine<F>], out: &mut Vec<Point<N>>) {
        for block in points.chunks(LANES) {
            let lane = |i: usize| block.get(i).copied().unwrap_or(Affine::INFINITY);
            let stored = self.0.run(Encode(self.0, &core::array::from_fn(lane)));
            out.extend(stored.into_iter().take(block.len()));
        }
    }

    fn decode(self, points: &[Point<N>], out: &mut Vec<Affine<F>>) {
        for block in points.chunks(LANES) {
            let lane = |i: usize| block[i.min(block.len() - 1)];
            let decode = Decode(self.0, &core::array::from_fn(lane), PhantomData);
            out.extend(self.0.run(decode).into_iter().take(block.len()));
        }
    }

    fn identity(self) -> Point<N> {
        Point::IDENTITY
    }

    fn is_infinity(point: &Point<N>) -> bool {
        // No point has y = 0: the order of either curve is odd.
        point.y.iter().all(|line| *line == Line::ZERO)
    }

    fn piece_max(self, entries: usize) -> usize {
        // Sixteen equal lanes at least: a lone long segment is cut until all lanes are busy.
        (entries / LANES).clamp(32, CHUNK_ENTRIES / LANES)
    }

    fn sum_pieces(
        self,
        points: Points<'_, Point<N>>,
        pieces: &SegmentList,
        scratch: &mut Scratch<M, N>,
        out: &mut [Point<N>],
    ) {
        scratch.sum::<F>(self.0, points, pieces, out);
    }
}

/// Start and end of segment `i`.
fn bounds(list: &SegmentList, i: usize) -> (usize, usize) {
    (if i == 0 { 0 } else { list.ends[i - 1] }, list.ends[i])
}

impl<M: Multiplier, const N: usize> Scratch<M, N> {
    /// Writes the sum of each segment of the list to its slot in `out`.
    fn sum<F: Coefficients<N>>(
        &mut self,
        m: M,
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
        // Empty segments get no lane, so their sums are written here.
        if self.order.len() < list.len() {
            let empty = (0..list.len()).filter(|i| {
                let (start, end) = bounds(list, *i);
                start == end
            });
            empty.for_each(|i| out[i] = Point::IDENTITY);
        }
        let mut next = 0;
        while next < self.order.len() {
            // Lane groups of one chunk, longest segments first, so that lanes have similar lengths.
            self.groups.clear();
            let mut slots = 0;
            while next < self.order.len() {
                let longest = length(&self.order[next]);
                // A chunk takes at least one group, whatever its length.
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
            let mut rows = recycle(core::mem::take(&mut self.rows));
            for group in &self.groups {
                rows.extend((0..group.longest.div_ceil(2)).map(|row| group.row(&places, row)));
            }
            m.run(Chunk {
                m,
                scratch: self,
                rows: &rows,
                out,
                field: PhantomData::<F>,
            });
            self.rows = recycle(rows);
        }
    }

    /// Orders the segments longest first, keeps equal ones in order, and leaves out empty ones.
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
        // From counts to positions, from the longest on; length 0 is skipped.
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
}
