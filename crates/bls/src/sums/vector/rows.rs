//! Assigns segments to lanes, and locates their points.

use super::Point;
use super::element::Wide;
use crate::sums::segments::{Entry, Points};
use crate::vector::{Fe, LANES, Line, Multiplier};

/// Sixteen segments that are summed side by side, one per lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneGroup {
    /// Start of each lane's segment in the list.
    pub(super) starts: [u32; LANES],
    /// Number of points of each segment; 0 for a lane without one.
    pub(super) lengths: [u32; LANES],
    /// Index of each lane's sum among the segments of the list.
    pub(super) segments: [u32; LANES],
    /// Maximum length.
    pub(super) longest: usize,
    /// First slot; there are ⌈longest / 2⌉.
    pub(super) slot: usize,
}

impl LaneGroup {
    /// The level of the final sums.
    pub(super) fn levels(&self) -> usize {
        self.longest.next_power_of_two().ilog2() as usize
    }

    /// Number of pairs of rows that are added at a level; an odd row out stays where it is.
    pub(super) fn pairs(&self, level: usize) -> usize {
        self.longest.div_ceil(1 << level) / 2
    }

    /// Slots of the operands of a pair above level 0; the sum goes to the first slot. No slot moves: at level
    /// L, points are 2^(L-1) slots apart.
    pub(super) fn slots_of(&self, level: usize, pair: usize) -> (usize, usize) {
        let a = self.slot + (pair << level);
        (a, a + (1 << (level - 1)))
    }

    /// The operands of a row of pairs.
    #[inline(always)]
    pub(super) fn row<'a, const N: usize>(&self, places: &Places<'a, N>, row: usize) -> Row<'a, N> {
        // Lane 0 has the longest segment, which is not empty.
        let any = places.get(self.starts[0] as usize).0;
        let mut out = Row {
            points: [[any; LANES]; 2],
            negative: [0; 2],
            missing: [0; 2],
        };
        for lane in 0..LANES {
            let (start, length) = (self.starts[lane] as usize, self.lengths[lane] as usize);
            for operand in 0..2 {
                if 2 * row + operand < length {
                    let (point, negative) = places.get(start + 2 * row + operand);
                    out.points[operand][lane] = point;
                    out.negative[operand] |= u16::from(negative) << lane;
                } else {
                    out.missing[operand] |= 1 << lane;
                }
            }
        }
        out
    }
}

/// The points that the entries of a list refer to.
pub(super) struct Places<'a, const N: usize> {
    /// The table, and the sums.
    points: [&'a [Point<N>]; 2],
    entries: &'a [Entry],
}

impl<'a, const N: usize> Places<'a, N> {
    pub(super) fn new(points: Points<'a, Point<N>>, entries: &'a [Entry]) -> Self {
        Places {
            points: [points.table, points.sums],
            entries,
        }
    }

    /// The point of an entry, and whether its negative is meant.
    ///
    /// # Panics
    /// If the entry refers to no point.
    #[inline(always)]
    pub(super) fn get(&self, i: usize) -> (&'a Point<N>, bool) {
        let entry = self.entries[i];
        // Keys and sums come in an unpredictable order, so the only branches here are ones that are never
        // taken.
        let table_len = self.points[0].len();
        let is_sum = entry.index() >= table_len;
        let index = entry.index() - if is_sum { table_len } else { 0 };
        (
            &self.points[usize::from(is_sum)][index],
            entry.is_negative(),
        )
    }
}

/// The operands of sixteen pairs at level 0.
#[derive(Clone, Copy)]
pub(super) struct Row<'a, const N: usize> {
    /// The points of both operands; lanes without a point refer to an arbitrary one.
    pub(super) points: [[&'a Point<N>; LANES]; 2],
    /// Lanes whose point is to be negated.
    pub(super) negative: [u16; 2],
    /// Lanes without a point.
    pub(super) missing: [u16; 2],
}

/// Reuses the memory of a list of rows as an empty one: `Vec` keeps the allocation, as no element is left to
/// convert.
pub(super) fn recycle<'b, const N: usize>(mut rows: Vec<Row<'_, N>>) -> Vec<Row<'b, N>> {
    rows.clear();
    rows.into_iter()
        .map(|_| unreachable!("the list is empty"))
        .collect()
}

impl<const N: usize> Row<'_, N> {
    /// Returns whether no lane has a second operand: the odd last row of a group.
    pub(super) fn is_single(&self) -> bool {
        self.missing[1] == !0
    }

    #[inline(always)]
    pub(super) fn gather_x<M: Multiplier>(&self, operand: usize, out: &mut Wide<M, N>) {
        let m = out.0[0].m;
        for c in 0..N {
            let mut lines = [&Line::ZERO; LANES];
            for lane in 0..LANES {
                lines[lane] = &self.points[operand][lane].x[c];
            }
            out.0[c] = Fe::gather(m, &lines);
        }
    }

    /// y, or p - y where the point is to be negated.
    #[inline(always)]
    pub(super) fn gather_y<M: Multiplier>(&self, operand: usize, out: &mut Wide<M, N>) {
        let m = out.0[0].m;
        for c in 0..N {
            let mut lines = [&Line::ZERO; LANES];
            for lane in 0..LANES {
                lines[lane] = &self.points[operand][lane].y[c];
            }
            out.0[c] = Fe::gather(m, &lines);
        }
        if self.negative[operand] != 0 {
            *out = out.select(self.negative[operand], &out.negated());
        }
    }

    #[inline(always)]
    pub(super) fn prefetch_x<M: Multiplier>(&self, m: M, operand: usize) {
        for lane in 0..LANES {
            for c in 0..N {
                m.prefetch(&self.points[operand][lane].x[c]);
            }
        }
    }

    #[inline(always)]
    pub(super) fn prefetch_y<M: Multiplier>(&self, m: M, operand: usize) {
        for lane in 0..LANES {
            for c in 0..N {
                m.prefetch(&self.points[operand][lane].y[c]);
            }
        }
    }
}
