//! Sums over a table of multiples, eight windows of a scalar at a time: code shared by the vector kernels, independent
//! of register width and form of products.

use crate::field::Fe;
use crate::kernel::table::{Digits, Table, TableRow};
use crate::point::Point;
use crate::row::LANES;

/// Eight sums of points, and their additions. Implemented by witnesses of instruction sets.
pub(super) trait Lanes<'t>: Copy {
    /// A point in each lane.
    type Sum: Copy;
    /// The addresses of the table rows selected by eight digits.
    type Located: Copy;
    /// The rows themselves.
    type Loaded;

    /// The identity in each lane.
    fn identity(self) -> Self::Sum;

    /// Locates sign(d_λ) times the row selected by lane λ, rows[|d_λ|-1] or the identity for d_λ = 0, and prefetches
    /// both of its cache lines.
    fn locate(self, ahead: Ahead<'_, 't, Self::Located>);

    /// The same row, located for all lanes.
    fn same(self, row: &'t TableRow) -> Self::Located;

    /// Loads rows.
    fn load(self, located: &Self::Located) -> Self::Loaded;

    /// Adds its lane's row to each sum, and replaces the rows by the next ones. Meanwhile, rows further ahead are
    /// located, as by [`Lanes::locate`].
    fn add(
        self,
        sum: &mut Self::Sum,
        rows: &mut Self::Loaded,
        next: &Self::Located,
        ahead: Ahead<'_, 't, Self::Located>,
    );

    /// The individual sums.
    fn points(self, sum: &Self::Sum) -> [Point; LANES];
}

/// Rows needed later, and where to store their location.
pub(super) struct Ahead<'a, 't, P> {
    pub(super) rows: Rows<'t>,
    pub(super) digits: &'a [i8; LANES],
    pub(super) located: &'a mut P,
}

/// The rows of one point, and that of the identity.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) rows: &'a [TableRow],
    pub(super) identity: &'a TableRow,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn of(table: &'a Table, point: usize) -> Rows<'a> {
        let count = table.window.rows_per_point();
        Rows {
            rows: &table.rows[point * count..][..count],
            identity: table.identity(),
        }
    }
}

/// See [`super::Dispatch::sums`]. Inlined into a function compiled for the required instructions.
#[inline(always)]
pub(super) fn accumulate<'t, L: Lanes<'t>>(
    lanes: L,
    table: &'t Table,
    vectors: &[Digits],
    sums: &mut [Vec<Point>],
) {
    /// Number of vectors summed at once: more sums would not stay in the first-level cache.
    const TOGETHER: usize = 4;
    let groups = table.window.groups();
    for (vectors, sums) in vectors.chunks(TOGETHER).zip(sums.chunks_mut(TOGETHER)) {
        let scalars = vectors.iter().map(Digits::len).max().unwrap_or(0);
        if scalars == 0 {
            continue;
        }
        let mut sums8 = vec![lanes.identity(); vectors.len() * groups];
        // Located rows of the current point and of the next one. Used where they are: copies go through vector
        // registers, from which addresses are extracted one by one.
        let mut now = vec![lanes.same(table.identity()); sums8.len()];
        let mut next = now.clone();
        let mut loaded = lanes.load(&now[0]);
        // Whether these are the rows of the next addition. They are not if a sum has nothing to add.
        let mut is_loaded = false;
        // Round j locates the rows of point j and adds those of point j - 1, hence one round more than points.
        for j in 0..=scalars {
            // The last round has only zero digits, whatever the rows.
            let rows = Rows::of(table, j.min(table.len() - 1));
            for (vector, first) in vectors.iter().zip((0..).step_by(groups)) {
                let before = match j {
                    0 => &[],
                    _ => vector
                        .digits
                        .get((j - 1) * groups..j * groups)
                        .unwrap_or_default(),
                };
                let digits = vector.digits.get(j * groups..).unwrap_or_default();
                for group in 0..groups {
                    let slot = first + group;
                    let digits = digits.get(group).unwrap_or(&[0; LANES]);
                    // One slot is written while the first one may be read; slot 0 itself never reads it.
                    let (next_first, next) = next.split_at_mut(slot.min(1));
                    let ahead = Ahead {
                        rows,
                        digits,
                        located: &mut next[slot - slot.min(1)],
                    };
                    match before.get(group) {
                        // A short scalar has only zeros in its upper groups, and whole additions are saved.
                        Some(before) if *before != [0; LANES] => {
                            if !is_loaded {
                                loaded = lanes.load(&now[slot]);
                            }
                            // The last slot is followed by the first one of the next point.
                            let later = now.get(slot + 1).or(next_first.first());
                            let later = later.expect("more than one group");
                            lanes.add(&mut sums8[slot], &mut loaded, later, ahead);
                            is_loaded = true;
                        }
                        _ => {
                            lanes.locate(ahead);
                            is_loaded = false;
                        }
                    }
                }
            }
            std::mem::swap(&mut now, &mut next);
        }
        for (sums8, sums) in sums8.chunks_exact(groups).zip(sums) {
            for (sum, points) in sums8.iter().zip(sums.chunks_exact_mut(LANES)) {
                points.copy_from_slice(&lanes.points(sum));
            }
        }
    }
}

/// The point (2x : 2y : 2z : 2t) of y-x, y+x, z and t, with limbs below 2^53.
#[inline(always)]
pub(super) fn point(minus: Fe, plus: Fe, z: Fe, t: Fe) -> Point {
    Point {
        x: plus.sub(minus),
        y: plus.add(minus).carried(),
        z: z.add(z).carried(),
        t: t.add(t).carried(),
    }
}
