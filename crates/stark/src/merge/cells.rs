//! eq of a point of cells, evaluated where a circuit needs it.
//!
//! The weight of a cell is the product of an element of an outer table and one of an inner table. Most of what
//! circuits need are variables, Σ_t X^t·weight(cell + t·distance). Those sums of the inner table are tabulated as
//! well, so a variable takes one product instead of five, and nothing as long as all cells is written.

use alphorn_exec::Exec;

use crate::extension::{DEGREE, Ext};
use crate::kernel::{Dispatch, Packed, Pass};
use crate::multilinear::eq_table;
use crate::vector::{Planes, Vector, eq_planes};

/// Number of coordinates of the inner table.
const INNER_LOG2: usize = 12;
const INNER: usize = 1 << INNER_LOG2;

/// Number of zeros before and after the inner table: as many as a vector of any kernel has elements.
const MARGIN: usize = 16;

/// eq of a point of cells.
pub(super) struct CellWeights {
    /// One element for each block of cells as long as the inner table, and a zero after the last.
    outer: Vec<Ext>,
    /// The inner table between margins.
    inner: Planes,
    /// Element by element: the inner table, and the variables of neighbouring cells.
    single: [Vec<Ext>; 2],
    /// A table of variables for each distance of their cells.
    tables: Vec<(usize, Planes)>,
}

impl CellWeights {
    /// The weights at a point, and those of variables whose cells have the given distances.
    pub(super) fn new(exec: Exec<'_>, point: &[Ext], distances: &[usize]) -> CellWeights {
        let (outer, of_inner) = point.split_at(point.len() - INNER_LOG2);
        let mut outer = eq_table(Ext::ONE, outer);
        // A vector that begins in the last block reaches beyond all cells.
        outer.push(Ext::ZERO);
        let mut inner = Planes::zero(INNER + 2 * MARGIN);
        inner.add_at(MARGIN, &eq_planes(exec, Ext::ONE, of_inner));
        let table = |distance: usize| {
            exec.backend().run(Join {
                inner: &inner,
                distance,
            })
        };
        let list =
            |table: &Planes, from: usize| (from..from + INNER).map(|i| table.get(i)).collect();
        CellWeights {
            outer,
            single: [list(&inner, MARGIN), list(&table(1), 0)],
            tables: distances.iter().map(|d| (*d, table(*d))).collect(),
            inner,
        }
    }

    /// The weight of a cell.
    fn one(&self, cell: usize) -> Ext {
        self.outer[cell >> INNER_LOG2] * self.single[0][cell % INNER]
    }

    /// The weights of successive cells.
    #[inline(always)]
    fn load_cells<V: Packed>(&self, cell: usize) -> Vector<V> {
        let (outer, at) = (cell >> INNER_LOG2, cell % INNER);
        let inner = self.inner.load::<V>(MARGIN + at);
        let first = Vector::splat(self.outer[outer]).mul(inner);
        match at + V::LANES <= INNER {
            true => first,
            // A margin of zeros precedes and follows the table.
            false => {
                let inner = self.inner.load::<V>(MARGIN + at - INNER);
                first.add(Vector::splat(self.outer[outer + 1]).mul(inner))
            }
        }
    }

    /// The table of variables whose cells have this distance.
    pub(super) fn table(&self, distance: usize) -> Option<&Planes> {
        let of_distance = self.tables.iter().find(|(d, _)| *d == distance);
        of_distance.map(|(_, table)| table)
    }

    /// The weights of `count` cells, 1 or those of a variable, as one element.
    pub(super) fn get(&self, first: usize, count: usize) -> Ext {
        let cells = (first..first + count).rev();
        cells.fold(Ext::ZERO, |sum, cell| sum * Ext::X + self.one(cell))
    }

    /// The weights of `count` cells, 1 or those of a variable, at a distance, for successive first cells. The
    /// table is that of the distance.
    #[inline(always)]
    pub(super) fn load<V: Packed>(
        &self,
        table: Option<&Planes>,
        first: usize,
        count: usize,
        distance: usize,
    ) -> Vector<V> {
        let at = first % INNER;
        match table {
            Some(table) if count > 1 && at + (DEGREE - 1) * distance + V::LANES <= INNER => {
                let outer = Vector::<V>::splat(self.outer[first >> INNER_LOG2]);
                outer.mul(table.load(at))
            }
            _ => {
                let mut sum = Vector::<V>::zero();
                for t in (0..count).rev() {
                    let cells = self.load_cells::<V>(first + t * distance);
                    sum = sum.times_x().add(cells);
                }
                sum
            }
        }
    }

    /// The factors for `count` neighbouring cells, 1 or those of a variable, one from each table; none if the
    /// cells do not lie in the same inner table.
    #[inline(always)]
    pub(super) fn factors(&self, first: usize, count: usize) -> Option<[&Ext; 2]> {
        let at = first % INNER;
        let single = &self.single[usize::from(count > 1)];
        let outer = &self.outer[first >> INNER_LOG2];
        (at + count <= INNER).then(|| [outer, &single[at]])
    }
}

/// Σ_t X^t·inner(i + t·distance) for all i for which it stays within the table, and zeros.
struct Join<'a> {
    inner: &'a Planes,
    distance: usize,
}

impl Pass for Join<'_> {
    type Output = Planes;

    #[inline(always)]
    fn run<V: Packed>(self) -> Planes {
        let inner = self.inner;
        let mut out = Planes::zero(INNER);
        let last = (DEGREE - 1) * self.distance;
        for i in (0..INNER.saturating_sub(last)).step_by(V::LANES) {
            let mut sum = Vector::<V>::zero();
            for t in (0..DEGREE).rev() {
                // Elements beyond the table are not needed.
                let at = (MARGIN + i + t * self.distance).min(inner.len() - V::LANES);
                sum = sum.times_x().add(inner.load(at));
            }
            out.store(i, sum);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::layout::CELLS_LOG2;
    use crate::poseidon::kernels::KERNELS;
    use crate::test_random::Random;

    /// Vectors at some cells, with the elements that they have.
    struct Loaded<'a>(&'a CellWeights, &'a [(usize, usize, usize)]);

    impl Pass for Loaded<'_> {
        type Output = Vec<Vec<Ext>>;

        #[inline(always)]
        fn run<V: Packed>(self) -> Vec<Vec<Ext>> {
            let mut all = Vec::new();
            for (first, count, distance) in self.1 {
                let mut planes = Planes::zero(V::LANES);
                let table = self.0.table(*distance);
                planes.store(0, self.0.load::<V>(table, *first, *count, *distance));
                all.push((0..V::LANES).map(|i| planes.get(i)).collect());
            }
            all
        }
    }

    #[test]
    fn weights_are_those_of_the_whole_table() {
        let mut random = Random::new(7);
        let point = random.exts(CELLS_LOG2);
        let all = eq_table(Ext::ONE, &point);
        let expected = |first: usize, count: usize, distance: usize| {
            let cells = (0..count).rev();
            cells.fold(Ext::ZERO, |sum, t| sum * Ext::X + all[first + t * distance])
        };
        let distances = [1, 44, 74, 112];
        let mut asked = Vec::new();
        for around in [0, INNER, 7 * INNER, (1 << CELLS_LOG2) - INNER] {
            // Also across the boundary of two inner tables.
            for first in (around..around + INNER - 500)
                .step_by(97)
                .chain((around + INNER).saturating_sub(480)..around + INNER - 470)
            {
                let known = distances.map(|distance| (first, DEGREE, distance));
                asked.extend(
                    known
                        .into_iter()
                        .chain([(first, 1, 1), (first, DEGREE, 90)]),
                );
            }
        }
        for near in 0..40 {
            asked.extend([(3 * INNER - near, 1, 1), (3 * INNER - near, DEGREE, 1)]);
        }
        for backend in KERNELS.available() {
            let weights = CellWeights::new(Exec::new(backend, None), &point, &distances);
            let got = backend.run(Loaded(&weights, &asked));
            for ((first, count, distance), got) in asked.iter().zip(got) {
                for (l, got) in got.into_iter().enumerate() {
                    let expected = expected(first + l, *count, *distance);
                    assert_eq!(got, expected, "{backend} {first} {count} {distance} {l}");
                    if *distance == 1 {
                        assert_eq!(weights.get(first + l, *count), expected);
                        if let Some([a, b]) = weights.factors(first + l, *count) {
                            assert_eq!(*a * *b, expected);
                        }
                    }
                }
            }
        }
    }
}
