//! Which segments run in which lanes, and where their points are.

use core::arch::x86_64::*;

use super::Point;
use super::element::Wide;
use super::field::{LANES, transpose};
use crate::sums::segments::{Entry, Points};

/// Sixteen segments that are added up side by side, one in each lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneGroup {
    /// Where the segment of each lane starts in the list.
    pub(super) starts: [u32; LANES],
    /// Points of each segment; 0 for a lane without one.
    pub(super) lengths: [u32; LANES],
    /// Place of each lane's sum among the segments of the list.
    pub(super) segments: [u32; LANES],
    /// Longest length.
    pub(super) longest: usize,
    /// First slot; there are ⌈longest / 2⌉.
    pub(super) slot: usize,
}

impl LaneGroup {
    /// The level that the sums have in the end.
    pub(super) fn levels(&self) -> usize {
        self.longest.next_power_of_two().ilog2() as usize
    }

    /// Pairs of rows that are added at a level; an odd row out stays where it is.
    pub(super) fn pairs(&self, level: usize) -> usize {
        self.longest.div_ceil(1 << level) / 2
    }

    /// Where the operands of a pair above level 0 are; its sum takes the first place. No slot moves: at
    /// level L points are 2^(L-1) slots apart.
    pub(super) fn slots_of(&self, level: usize, pair: usize) -> (usize, usize) {
        let a = self.slot + (pair << level);
        (a, a + (1 << (level - 1)))
    }

    /// The operands of a row of pairs.
    #[inline]
    pub(super) fn row<'a, const N: usize>(&self, places: &Places<'a, N>, row: usize) -> Row<'a, N> {
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

/// The points that the entries of a list name.
pub(super) struct Places<'a, const N: usize> {
    /// The table, and the sums, moved back to where their first index would be 0.
    bases: [*const Point<N>; 2],
    /// Indices below this are of the table.
    table_len: usize,
    entries: &'a [Entry],
}

impl<'a, const N: usize> Places<'a, N> {
    /// # Panics
    /// If an entry names no point.
    pub(super) fn new(points: Points<'a, Point<N>>, entries: &'a [Entry]) -> Self {
        let table_len = points.table.len();
        let last = entries.iter().map(|entry| entry.index()).max();
        assert!(
            last.is_none_or(|last| last < table_len + points.sums.len()),
            "an entry names no point"
        );
        Places {
            bases: [
                points.table.as_ptr(),
                points.sums.as_ptr().wrapping_sub(table_len),
            ],
            table_len,
            entries,
        }
    }

    /// The point of an entry, and whether its negative is meant.
    #[inline]
    pub(super) fn get(&self, i: usize) -> (&'a Point<N>, bool) {
        let entry = self.entries[i];
        // Keys and sums come in no order that a processor could foresee: this has no branch.
        let base = self.bases[usize::from(entry.index() >= self.table_len)];
        let point = base.wrapping_add(entry.index());
        // SAFETY: `new` has checked that the index is one of the table or of the sums, whose slices
        // live for 'a; the address is inside the one that `base` belongs to.
        (unsafe { &*point }, entry.is_negative())
    }
}

/// The operands of sixteen pairs at level 0.
#[derive(Clone, Copy)]
pub(super) struct Row<'a, const N: usize> {
    /// The points of both operands; lanes without one name any point.
    pub(super) points: [[&'a Point<N>; LANES]; 2],
    /// Lanes whose point is meant with the other sign.
    pub(super) negative: [u16; 2],
    /// Lanes without a point.
    pub(super) missing: [u16; 2],
}

/// An empty list of rows in the memory of another: `Vec` reuses it, as no element is left to convert.
pub(super) fn recycle<'b, const N: usize>(mut rows: Vec<Row<'_, N>>) -> Vec<Row<'b, N>> {
    rows.clear();
    rows.into_iter()
        .map(|_| unreachable!("the list is empty"))
        .collect()
}

/// One coordinate of sixteen points, one point in each lane.
#[target_feature(enable = "avx512f")]
#[inline]
fn gather<const N: usize>(
    points: &[&Point<N>; LANES],
    coordinate: impl Fn(&Point<N>) -> &[__m512i; N],
    out: &mut Wide<N>,
) {
    for v in 0..2 {
        for c in 0..N {
            let lanes = core::array::from_fn(|i| coordinate(points[8 * v + i])[c]);
            out.0[c].0[v] = transpose(&lanes);
        }
    }
}

impl<const N: usize> Row<'_, N> {
    /// Whether no lane has a second operand: the odd last row of a group.
    pub(super) fn is_single(&self) -> bool {
        self.missing[1] == !0
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn gather_x(&self, operand: usize, out: &mut Wide<N>) {
        gather(&self.points[operand], |point| &point.x, out);
    }

    /// y, or p - y where the point is meant with the other sign.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn gather_y(&self, operand: usize, out: &mut Wide<N>) {
        gather(&self.points[operand], |point| &point.y, out);
        if self.negative[operand] != 0 {
            *out = out.select(self.negative[operand], &out.negated());
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn prefetch(&self, operand: usize) {
        for point in &self.points[operand] {
            prefetch(&point.x);
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn prefetch_y(&self, operand: usize) {
        for point in &self.points[operand] {
            prefetch(&point.y);
        }
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn prefetch<const N: usize>(coordinate: &[__m512i; N]) {
    for line in coordinate {
        // SAFETY: the pointer comes from a reference, and a prefetch reads nothing. Newer compilers
        // know that it is safe.
        #[allow(unused_unsafe)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(line).cast());
        }
    }
}
