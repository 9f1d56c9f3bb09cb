//! Lists of points to add, and the interface of the kernels that add them.

use crate::blst_ffi::curve::Affine;
use crate::blst_ffi::curve_field::CurveField;

/// A summand: the index of a point, and whether its negative is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u32);

impl Entry {
    /// Indices are below this.
    pub(crate) const INDEX_END: usize = 1 << 30;
    /// Placeholder in a list until an entry is written there.
    pub(crate) const NONE: Entry = Entry(0);

    pub(crate) fn new(index: usize, negative: bool) -> Entry {
        debug_assert!(index < Self::INDEX_END);
        Entry((index as u32) << 1 | u32::from(negative))
    }

    pub(crate) fn index(self) -> usize {
        (self.0 >> 1) as usize
    }

    pub(crate) fn is_negative(self) -> bool {
        self.0 & 1 == 1
    }

    /// The same point with the sign changed.
    pub(crate) fn negated(self) -> Entry {
        Entry(self.0 ^ 1)
    }
}

/// The points that entries refer to: a fixed table, followed by sums made in the meantime.
///
/// An entry never refers to the identity: the builder of a list leaves such summands out.
#[derive(Debug)]
pub(crate) struct Points<'a, P> {
    pub(crate) table: &'a [P],
    pub(crate) sums: &'a [P],
}

impl<P> Clone for Points<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Points<'_, P> {}

impl<'a, P> Points<'a, P> {
    #[inline]
    pub(crate) fn get(&self, index: usize) -> &'a P {
        match index.checked_sub(self.table.len()) {
            None => &self.table[index],
            Some(sum) => &self.sums[sum],
        }
    }
}

/// Segments: runs of entries, each to be summed on its own.
#[derive(Debug, Default)]
pub(crate) struct SegmentList {
    pub(crate) entries: Vec<Entry>,
    /// End of each segment in `entries`.
    pub(crate) ends: Vec<usize>,
}

impl SegmentList {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.ends.clear();
    }

    /// Ends the segment of the entries pushed since the last call.
    pub(crate) fn close(&mut self) {
        self.ends.push(self.entries.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The segments in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Entry]> {
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.entries[start..*end])
    }
}

/// A kernel that sums segments of points over one field.
///
/// A value is made from a `Backend`, which has checked the processor.
pub(crate) trait SumKernel: Copy + Send + Sync + 'static {
    /// The field of the coordinates.
    type Field: CurveField;
    /// A stored point: canonical, or the identity.
    type Point: Copy + Send + Sync + 'static;
    /// Buffers of one thread.
    type Scratch: Default + Send;

    /// Converts points to stored form.
    fn encode(self, points: &[Affine<Self::Field>], out: &mut Vec<Self::Point>);
    /// Converts stored points back.
    fn decode(self, points: &[Self::Point], out: &mut Vec<Affine<Self::Field>>);
    /// The identity in stored form.
    fn identity(self) -> Self::Point;
    /// Returns whether a stored point is the identity.
    fn is_infinity(point: &Self::Point) -> bool;
    /// Maximum length of a piece of a segment in a list of `entries` entries; at least 2.
    fn piece_max(self, entries: usize) -> usize;
    /// Writes the sum of each segment to its slot in `out`, overwriting the old value; no segment is longer
    /// than `piece_max`.
    fn sum_pieces(
        self,
        points: Points<'_, Self::Point>,
        pieces: &SegmentList,
        scratch: &mut Self::Scratch,
        out: &mut [Self::Point],
    );
}

/// Buffers of one thread for summing one list.
pub(crate) struct SumBuffers<K: SumKernel> {
    scratch: K::Scratch,
    pieces: SegmentList,
    joins: SegmentList,
    partial: Vec<K::Point>,
    partial_next: Vec<K::Point>,
    /// Number of pieces of each segment.
    counts: Vec<usize>,
}

impl<K: SumKernel> Default for SumBuffers<K> {
    fn default() -> Self {
        SumBuffers {
            scratch: K::Scratch::default(),
            pieces: SegmentList::default(),
            joins: SegmentList::default(),
            partial: Vec::new(),
            partial_next: Vec::new(),
            counts: Vec::new(),
        }
    }
}

/// Appends the sum of each segment to `out`; the identity for an empty segment.
pub(crate) fn append_sums<K: SumKernel>(
    kernel: K,
    points: Points<'_, K::Point>,
    list: &SegmentList,
    buffers: &mut SumBuffers<K>,
    out: &mut Vec<K::Point>,
) {
    let start = out.len();
    out.resize(start + list.len(), kernel.identity());
    sum_segments(kernel, points, list, buffers, &mut out[start..]);
}

/// Writes the sum of each segment to its slot in `out`, overwriting the old value; the identity for an empty
/// segment.
///
/// Long segments are cut into pieces, whose sums are combined in further rounds.
pub(crate) fn sum_segments<K: SumKernel>(
    kernel: K,
    points: Points<'_, K::Point>,
    list: &SegmentList,
    buffers: &mut SumBuffers<K>,
    out: &mut [K::Point],
) {
    assert_eq!(out.len(), list.len(), "a place for each segment");
    let SumBuffers {
        scratch,
        pieces,
        joins,
        partial,
        partial_next,
        counts,
    } = buffers;
    if !cut(list, kernel.piece_max(list.entries.len()), pieces, counts) {
        kernel.sum_pieces(points, list, scratch, out);
        return;
    }
    partial.resize(pieces.len(), kernel.identity());
    kernel.sum_pieces(points, pieces, scratch, partial);
    loop {
        joins.clear();
        let mut next = 0;
        for count in counts.iter() {
            // No entry may refer to the identity.
            let finite = (next..next + count).filter(|i| !K::is_infinity(&partial[*i]));
            joins.entries.extend(finite.map(|i| Entry::new(i, false)));
            joins.close();
            next += count;
        }
        let points = Points {
            table: partial,
            sums: &[],
        };
        if !cut(joins, kernel.piece_max(joins.entries.len()), pieces, counts) {
            kernel.sum_pieces(points, joins, scratch, out);
            return;
        }
        partial_next.resize(pieces.len(), kernel.identity());
        kernel.sum_pieces(points, pieces, scratch, partial_next);
        core::mem::swap(partial, partial_next);
    }
}

/// Cuts segments longer than `piece_max` into equal pieces. Returns false and does nothing if there are none.
fn cut(
    list: &SegmentList,
    piece_max: usize,
    pieces: &mut SegmentList,
    counts: &mut Vec<usize>,
) -> bool {
    if list.iter().all(|segment| segment.len() <= piece_max) {
        return false;
    }
    pieces.clear();
    counts.clear();
    for segment in list.iter() {
        // An empty segment keeps one empty piece, so that it still has a sum.
        let count = segment.len().div_ceil(piece_max).max(1);
        for piece in 0..count {
            let (from, to) = (
                segment.len() * piece / count,
                segment.len() * (piece + 1) / count,
            );
            pieces.entries.extend_from_slice(&segment[from..to]);
            pieces.close();
        }
        counts.push(count);
    }
    true
}
