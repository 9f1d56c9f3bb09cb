//! Structured commitment keys: Ajtai commitments whose matrix is generated from a few random elements.

use std::ops::Range;

use alphorn_exec::Backend;

use crate::kernel::Vectors;
use crate::ring::{Diagonals, Ntt, Rq, Scaled, Transforms};
use crate::sis::ROWS_MAX;
use crate::transcript::Seed;

/// Stream names of the keys, pairwise different so that no two keys are equal.
pub(crate) const INNER: &str = "alphorn/labrador/key/v1/A";
/// Key of the commitment to the first part of `t`, for front ends that make two commitments.
pub(crate) const FIRST: &str = "alphorn/labrador/key/v1/B0";
/// Key of the outer commitment to `t` and `g`.
pub(crate) const OUTER: &str = "alphorn/labrador/key/v1/B1";
/// Key of the outer commitment to `h`.
pub(crate) const GARBAGE: &str = "alphorn/labrador/key/v1/B2";

/// A key for vectors up to a fixed length, usable with any number of rows up to 32.
///
/// Each run of `group = 2^e >= rows` consecutive elements of a vector forms one element
/// `sum_i s_i Y^i` of `R[Y]/(Y^group - X)`, which is multiplied by a random element of that ring.
/// The commitment is the first `rows` coordinates of the sum over all groups. A short last group
/// is padded with zeros. For `rows = group` this is ring-SIS in `Z[W]/(W^(64 group) + 1)`,
/// otherwise a truncation of it.
pub(crate) struct Key {
    elements: Vec<Ntt>,
}

/// Some columns of a key's matrix.
pub(crate) struct Columns<'a> {
    key: &'a Key,
    rows: usize,
    /// The elements of these columns' groups times `X`, for products that wrap around `Y^group = X`.
    by_x: Vec<Ntt>,
    /// First column of the first group.
    first: usize,
}

impl Key {
    /// Draws the key named `name` for vectors of up to `length` elements.
    #[must_use]
    pub(crate) fn expand(name: &str, length: usize, backend: Backend) -> Self {
        // So that the last group is complete for every number of rows.
        let padded = length.next_multiple_of(ROWS_MAX);
        let mut stream = Seed::of_name(name).stream();
        let elements: Vec<Rq> = (0..padded).map(|_| stream.element()).collect();
        Self {
            elements: backend.transforms(&elements),
        }
    }

    /// Length of the longest vector that the key can commit to.
    #[must_use]
    pub(crate) fn length(&self) -> usize {
        self.elements.len()
    }

    /// Returns some columns, for a commitment of `rows` rows.
    pub(crate) fn columns(
        &self,
        rows: usize,
        columns: Range<usize>,
        backend: Backend,
    ) -> Columns<'_> {
        let (first, _) = group_of(rows, columns.start);
        let end = columns.end.next_multiple_of(rows.next_power_of_two());
        Columns {
            key: self,
            rows,
            by_x: backend.many_by_x(&self.elements[first..end]),
            first,
        }
    }

    /// Adds to each sum the product of the row weights and one column, for the columns from `first` on.
    ///
    /// # Panics
    /// If there are more than [`ROWS_MAX`] rows.
    #[inline(always)]
    pub(crate) fn add_columns_in<V: Vectors>(
        &self,
        weights: &[Scaled],
        first: usize,
        sums: &mut [Ntt],
        scratch: &mut Scratch<V>,
    ) {
        let Scratch { by_x, diagonals } = scratch;
        let rows = weights.len();
        let group = rows.next_power_of_two();
        let mut done = 0;
        while done < sums.len() {
            let (start, within) = group_of(rows, first + done);
            let count = (group - within).min(sums.len() - done);
            // Entry (r, c) is number group + r - c in the sequence of the elements times X followed by the elements.
            // The sums take one vector of each element in turn. The elements to be multiplied by X are read front to
            // back beforehand, since sequential reads give the highest memory bandwidth.
            let elements = &self.elements[start..start + group];
            let length = count - 1 + rows;
            let wrapped = &elements[group + 1 - within - count..];
            let wrapped = &wrapped[..length.min(wrapped.len())];
            for element in self.elements[start + group..].iter().take(group) {
                element.prefetch_in::<V>();
            }
            for (element, by_x) in wrapped.iter().zip(&mut *by_x) {
                element.by_x_loosely_in::<V>(by_x);
            }
            let mut line = [&elements[0]; 2 * ROWS_MAX];
            let both = by_x[..wrapped.len()].iter().chain(elements);
            for (place, element) in line[..length].iter_mut().zip(both) {
                *place = element;
            }
            let line = &line[..length];
            let sums = &mut sums[done..done + count];
            Ntt::add_diagonals_in::<V>(sums, line, weights, diagonals);
            done += count;
        }
    }
}

/// Scratch space for [`Key::add_columns_in`], which overwrites it.
pub(crate) struct Scratch<V: Vectors> {
    by_x: [Ntt; ROWS_MAX],
    diagonals: Diagonals<V>,
}

impl<V: Vectors> Scratch<V> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            by_x: [const { Ntt::zero() }; ROWS_MAX],
            diagonals: Diagonals::new(),
        }
    }
}

impl Columns<'_> {
    /// Returns the matrix entry in `row` and `column`.
    #[inline(always)]
    pub(crate) fn entry(&self, row: usize, column: usize) -> &Ntt {
        let (start, within) = group_of(self.rows, column);
        // Coordinate `row` of a product collects `s_within` times the key's coordinate `row - within`, or times
        // `group + row - within` where `Y^group = X` wraps around.
        if row >= within {
            &self.key.elements[start + row - within]
        } else {
            &self.by_x[start - self.first + self.rows.next_power_of_two() + row - within]
        }
    }
}

/// Returns the first column of the group that contains a column, and the index within it, for `rows` rows.
#[inline(always)]
fn group_of(rows: usize, column: usize) -> (usize, usize) {
    let within = column & (rows.next_power_of_two() - 1);
    (column - within, within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Dispatch, KERNELS, Pass};
    use crate::ring::Small;
    use alphorn_exec::Exec;

    fn committed(key: &Key, rows: usize, vector: &[Small]) -> Vec<Rq> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        let pool = pool.expect("two threads");
        let exec = Exec::new(KERNELS.measured(), Some(&pool));
        key.commit(rows, vector, exec).expect("never stopped")
    }

    fn times_x(x: &Rq) -> Rq {
        let mut turned = x.centred();
        turned.rotate_right(1);
        turned[0] = -turned[0];
        Rq::from_integers(&turned)
    }

    /// The product in `R[Y]/(Y^group - X)`, computed by the definition.
    fn by_definition(name: &str, rows: usize, vector: &[Small]) -> Vec<Rq> {
        let group = rows.next_power_of_two();
        let mut stream = Seed::of_name(name).stream();
        let mut sums = vec![Rq::ZERO; group];
        for part in vector.chunks(group) {
            let key: Vec<Rq> = (0..group).map(|_| stream.element()).collect();
            for (i, s) in part.iter().enumerate() {
                for (j, k) in key.iter().enumerate() {
                    let product = Ntt::from_rq(k).times(&Ntt::from_small(s)).to_rq();
                    if i + j < group {
                        sums[i + j].add(&product);
                    } else {
                        sums[i + j - group].add(&times_x(&product));
                    }
                }
            }
        }
        sums.truncate(rows);
        sums
    }

    fn vector(length: usize) -> Vec<Small> {
        let mut stream = Seed::of_name("vector").stream();
        (0..length)
            .map(|_| {
                let wide = stream.element().centred();
                Small(std::array::from_fn(|i| (wide[i] % 1000) as i16))
            })
            .collect()
    }

    #[test]
    fn commitments_are_products_of_the_extension() {
        for (rows, length) in [(1, 3), (5, 20), (8, 8), (19, 41)] {
            let vector = vector(length);
            let key = Key::expand(INNER, length, KERNELS.measured());
            assert_eq!(
                committed(&key, rows, &vector),
                by_definition(INNER, rows, &vector)
            );
        }
    }

    struct AddColumns<'a>(&'a Key, &'a [Scaled], usize, &'a mut [Ntt]);

    impl Pass for AddColumns<'_> {
        type Output = ();

        #[inline(always)]
        fn run<V: Vectors>(self) {
            let mut scratch = Scratch::new();
            self.0
                .add_columns_in::<V>(self.1, self.2, self.3, &mut scratch);
        }
    }

    /// The transpose in two parts, where the second may begin inside a group. Covers complete and incomplete
    /// groups, and sums of few and of most products.
    #[test]
    fn the_transpose_belongs_to_the_matrix() {
        for (rows, length, first) in [(5, 11, 3), (8, 40, 8), (17, 70, 5), (32, 96, 32)] {
            transpose_belongs(rows, length, first);
        }
    }

    fn transpose_belongs(rows: usize, length: usize, first: usize) {
        let vector = vector(length);
        let residues: Vec<Ntt> = vector.iter().map(Ntt::from_small).collect();
        let weights: Vec<Ntt> = self::vector(rows).iter().map(Ntt::from_small).collect();
        let key = Key::expand(OUTER, vector.len(), Backend::Portable);
        let commitment = committed(&key, rows, &vector);
        let commitment: Vec<Ntt> = commitment.iter().map(Ntt::from_rq).collect();
        let left = Ntt::dot(weights.iter().zip(&commitment)).to_rq();
        for backend in KERNELS.available() {
            let scaled = backend.scaled(&weights);
            let mut columns = vec![Ntt::zero(); vector.len()];
            for range in [0..first, first..vector.len()] {
                let sums = &mut columns[range.clone()];
                backend.run(AddColumns(&key, &scaled, range.start, sums));
            }
            assert_eq!(left, Ntt::dot(columns.iter().zip(&residues)).to_rq());
            let matrix = key.columns(rows, 0..vector.len(), backend);
            for (c, column) in columns.iter().enumerate() {
                let entries = (0..rows).map(|row| matrix.entry(row, c));
                let alone = Ntt::dot(entries.zip(&weights));
                assert_eq!(column.to_rq(), alone.to_rq(), "{backend}: {c} of {rows}");
            }
        }
    }

    #[test]
    fn no_key_repeats_another() {
        let mut seen = std::collections::BTreeSet::new();
        for name in [INNER, FIRST, OUTER, GARBAGE] {
            let mut stream = Seed::of_name(name).stream();
            for _ in 0..2500 {
                assert!(seen.insert(*stream.element().coefficients()), "{name}");
            }
        }
        assert_eq!(seen.len(), 10_000);
    }
}
