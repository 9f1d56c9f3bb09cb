//! Sums over a table of multiples, eight windows of a scalar at a time: what the vector kernels share,
//! whatever their registers and products are.

use crate::field::Fe;
use crate::kernel::table::{Digits, Table, TableRow};
use crate::point::Point;
use crate::row::LANES;

/// Eight sums of points, and what is added to them. Implemented by witnesses of instruction sets.
pub(super) trait Lanes: Copy {
    /// A point in each lane.
    type Sum: Copy;

    /// The identity in each lane.
    fn identity(self) -> Self::Sum;

    /// Adds the row of its lane to each sum, or the row's negative where the digit is negative.
    fn add(self, sum: &mut Self::Sum, rows: &[&TableRow; LANES], digits: &[i8; LANES]);

    /// Fetches both cache lines of a row.
    fn fetch(self, row: &TableRow);

    /// The sums one by one.
    fn points(self, sum: &Self::Sum) -> [Point; LANES];
}

/// See [`super::Dispatch::accumulate`]. Inlined into a function that is compiled for the instructions.
#[inline(always)]
pub(super) fn accumulate<L: Lanes>(
    lanes: L,
    table: &Table,
    vectors: &[Digits],
    sums: &mut [Vec<Point>],
) {
    /// Generators ahead of the current one whose rows are fetched into the cache.
    const AHEAD: usize = 2;
    /// Vectors that are summed at once: the sums of more would not stay in the first-level cache.
    const TOGETHER: usize = 4;
    let groups = table.window.groups();
    let rows_per_point = table.window.rows_per_point();
    let identity = table.identity();
    for (vectors, sums) in vectors.chunks(TOGETHER).zip(sums.chunks_mut(TOGETHER)) {
        let scalars = vectors.iter().map(Digits::len).max().unwrap_or(0);
        let mut sums8 = vec![lanes.identity(); vectors.len() * groups];
        for j in 0..scalars {
            let rows = &table.rows[j * rows_per_point..(j + 1) * rows_per_point];
            let later = table
                .rows
                .get((j + AHEAD) * rows_per_point..)
                .unwrap_or_default();
            for (vector, sums8) in vectors.iter().zip(sums8.chunks_exact_mut(groups)) {
                if j >= vector.len() {
                    continue;
                }
                for (group, sum) in sums8.iter_mut().enumerate() {
                    if let Some(digits) = vector.digits.get((j + AHEAD) * groups + group) {
                        fetch(lanes, later, digits);
                    }
                    let digits = &vector.digits[j * groups + group];
                    if *digits != [0; LANES] {
                        lanes.add(sum, &select(rows, identity, digits), digits);
                    }
                }
            }
        }
        for (sums8, sums) in sums8.chunks_exact(groups).zip(sums) {
            for (sum, points) in sums8.iter().zip(sums.chunks_exact_mut(LANES)) {
                points.copy_from_slice(&lanes.points(sum));
            }
        }
    }
}

/// Lane λ gets rows[|d_λ|-1], or the identity for d_λ = 0.
#[inline(always)]
fn select<'a>(
    rows: &'a [TableRow],
    identity: &'a TableRow,
    digits: &[i8; LANES],
) -> [&'a TableRow; LANES] {
    std::array::from_fn(|lane| match usize::from(digits[lane].unsigned_abs()) {
        0 => identity,
        magnitude => &rows[magnitude - 1],
    })
}

/// Fetches the rows that digits will select.
#[inline(always)]
fn fetch<L: Lanes>(lanes: L, rows: &[TableRow], digits: &[i8; LANES]) {
    for digit in digits {
        lanes.fetch(&rows[usize::from(digit.unsigned_abs()).saturating_sub(1)]);
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
