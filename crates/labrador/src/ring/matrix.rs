//! Products of matrices of ring elements: commitments, and the garbage of all pairs of pieces.

use super::Rq;
use super::ntt::{Bound, Ntt};
use super::rows::{self, PRODUCTS_MAX, Rows};
use crate::kernel::{Backend, Pass, Vectors};

/// Terms of a sum that are added at a time.
pub(crate) const DEPTH: usize = PRODUCTS_MAX;

/// `sum_k a[i][k] b[j][k]` for every row `i` and column `j`.
pub(crate) struct Matrix {
    columns: usize,
    triangle: bool,
    sums: Vec<Rows>,
    /// Of the coefficients of all sums.
    bound: Bound,
}

impl Matrix {
    pub(crate) fn zero(rows: usize, columns: usize) -> Self {
        Self {
            columns,
            triangle: false,
            sums: vec![Rows::ZERO; rows * columns],
            bound: Bound::ZERO,
        }
    }

    /// A matrix of which only the columns from the row's own on are needed.
    pub(crate) fn triangle(rows: usize) -> Self {
        Self {
            triangle: true,
            ..Self::zero(rows, rows)
        }
    }

    /// Adds up to [`DEPTH`] terms: `a(i, k)` and `b(j, k)` are the elements of rows and columns.
    ///
    /// # Panics
    /// If there are more terms.
    pub(crate) fn add<'a>(
        &mut self,
        terms: usize,
        a: impl Fn(usize, usize) -> &'a Ntt,
        b: impl Fn(usize, usize) -> &'a Ntt,
        backend: Backend,
    ) {
        assert!(terms <= DEPTH, "{terms} terms at a time");
        let depth = terms.next_multiple_of(2);
        let rows = self.sums.len() / self.columns.max(1);
        let gather = |count: usize, of: &dyn Fn(usize, usize) -> &'a Ntt| {
            let mut bound = Bound::ZERO;
            let mut out = Vec::with_capacity(count * depth);
            for i in 0..count {
                for k in 0..terms {
                    let element = of(i, k);
                    bound = bound.or(element.bound());
                    out.push(element.rows());
                }
                out.resize((i + 1) * depth, &Rows::ZERO);
            }
            (out, bound)
        };
        let (left, left_bound) = gather(rows, &a);
        let (right, right_bound) = gather(self.columns, &b);
        if left.is_empty() || right.is_empty() {
            return;
        }
        let sum = left_bound.times(right_bound).many(terms);
        self.bound = self.bound.plus(sum);
        backend.run(AddMatrix {
            out: &mut self.sums,
            a: &left,
            b: &right,
            depth,
            triangle: self.triangle,
        });
    }

    /// Adds another matrix of the same shape.
    pub(crate) fn merge(&mut self, other: &Self, backend: Backend) {
        self.bound = self.bound.plus(other.bound);
        backend.run(AddAll(&mut self.sums, &other.sums));
    }

    /// Adds an element to each row of a matrix of one column.
    ///
    /// # Panics
    /// If the numbers of both differ.
    pub(crate) fn add_to_rows(&mut self, elements: &[Ntt], backend: Backend) {
        assert!(self.columns == 1 && elements.len() == self.sums.len());
        let bounds = elements.iter().map(Ntt::bound);
        self.bound = self.bound.plus(bounds.fold(Bound::ZERO, Bound::or));
        for (sum, element) in self.sums.iter_mut().zip(elements) {
            let (to, from) = (
                std::slice::from_mut(sum),
                std::slice::from_ref(element.rows()),
            );
            backend.run(AddAll(to, from));
        }
    }

    /// The sum of row `i` and column `j`.
    pub(crate) fn get(&self, i: usize, j: usize) -> Ntt {
        Ntt::of_rows(self.sums[i * self.columns + j].clone(), self.bound)
    }

    /// All sums, row by row; of a triangle those that are needed.
    pub(crate) fn elements(&self, backend: Backend) -> Vec<Rq> {
        let rows = self.sums.len() / self.columns.max(1);
        let places = (0..rows).flat_map(|i| {
            let first = if self.triangle { i } else { 0 };
            (first..self.columns).map(move |j| (i, j))
        });
        let sums: Vec<Ntt> = places.map(|(i, j)| self.get(i, j)).collect();
        backend.elements(&sums)
    }
}

struct AddMatrix<'a> {
    out: &'a mut [Rows],
    a: &'a [&'a Rows],
    b: &'a [&'a Rows],
    depth: usize,
    triangle: bool,
}

impl Pass for AddMatrix<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        rows::add_matrix::<V>(self.out, self.a, self.b, self.depth, self.triangle);
    }
}

struct AddAll<'a>(&'a mut [Rows], &'a [Rows]);

impl Pass for AddAll<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        for (a, b) in self.0.iter_mut().zip(self.1) {
            rows::add::<V>(a, b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Seed;

    #[test]
    fn matrices_are_sums_of_products_on_every_level() {
        let mut stream = Seed::of_name("matrix").stream();
        let mut many = |count: usize| -> Vec<Ntt> {
            let mut one = || stream.element().centred().map(|c| c % 30_000);
            (0..count)
                .map(|_| Ntt::from_integers(&one(), 30_000))
                .collect()
        };
        for (rows, columns, terms) in [(1, 1, 1), (4, 2, 32), (5, 3, 7), (3, 5, 31), (6, 6, 2)] {
            let (a, b) = (many(rows * terms), many(columns * terms));
            let row = |i: usize| a[i * terms..(i + 1) * terms].iter();
            let column = |j: usize| b[j * terms..(j + 1) * terms].iter();
            let expected = |i, j| Ntt::dot(row(i).zip(column(j))).to_rq();
            for backend in Backend::available() {
                let mut matrix = Matrix::zero(rows, columns);
                let (left, right) = (|i, k| &a[i * terms + k], |j, k| &b[j * terms + k]);
                matrix.add(terms, left, right, backend);
                let mut twice = Matrix::zero(rows, columns);
                twice.merge(&matrix, backend);
                let every = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
                let expect: Vec<Rq> = every.map(|(i, j)| expected(i, j)).collect();
                assert_eq!(twice.elements(backend), expect);
                if rows == columns {
                    let mut upper = Matrix::triangle(rows);
                    upper.add(terms, left, right, backend);
                    let every = (0..rows).flat_map(|i| (i..rows).map(move |j| (i, j)));
                    let expect: Vec<Rq> = every.map(|(i, j)| expected(i, j)).collect();
                    assert_eq!(upper.elements(backend), expect);
                }
            }
        }
    }
}
