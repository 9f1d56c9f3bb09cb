//! Products of matrices of ring elements: commitments, and the garbage of all pairs of pieces.

use std::cell::RefCell;

use alphorn_exec::Backend;

use super::Rq;
use super::ntt::{Bound, Ntt};
use super::product::{LINES, Line, Pair, Product, pack};
use super::rows::{self, PRODUCTS_MAX, Rows, SIZE};
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::ring::Transforms;

/// Number of terms that are added to a sum at a time.
pub(crate) const DEPTH: usize = PRODUCTS_MAX;

/// `sum_k a[i][k] b[j][k]` for every row `i` and column `j`.
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
    /// For each line of a polynomial, that line of all sums, row by row.
    sums: Vec<Line>,
    /// Bound on the coefficients of all sums.
    bound: Bound,
}

/// The elements of the rows or columns of a product, in the layout that [`Matrix::add_packed`] reads.
pub(crate) struct Packed {
    count: usize,
    terms: usize,
    pairs: Vec<Pair>,
    bound: Bound,
}

thread_local! {
    /// Buffers that a thread packed into before, at most two at a time: allocating memory for each sum would
    /// cost as much as the sum.
    static BUFFERS: RefCell<Vec<Vec<Pair>>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Packed {
    fn drop(&mut self) {
        let pairs = std::mem::take(&mut self.pairs);
        // A thread that is ending keeps nothing.
        let _ = BUFFERS.try_with(|buffers| buffers.borrow_mut().push(pairs));
    }
}

impl Packed {
    /// Packs up to [`DEPTH`] terms: `of(i, k)` is element `k` of row or column `i`.
    ///
    /// # Panics
    /// If there are more terms.
    pub(crate) fn new<'a>(
        count: usize,
        terms: usize,
        of: impl Fn(usize, usize) -> &'a Ntt,
        backend: Backend,
    ) -> Self {
        assert!(terms <= DEPTH, "{terms} terms at a time");
        let depth = terms.next_multiple_of(2);
        let mut bound = Bound::ZERO;
        let mut elements = Vec::with_capacity(count * depth);
        for i in 0..count {
            for k in 0..terms {
                let element = of(i, k);
                bound = bound.or(element.bound());
                elements.push(element.rows());
            }
            // Products are added two at a time, so an odd number of terms ends with a zero.
            elements.resize((i + 1) * depth, &Rows::ZERO);
        }
        let mut pairs = BUFFERS
            .with(|buffers| buffers.borrow_mut().pop())
            .unwrap_or_default();
        // What an old buffer holds need not be cleared: packing overwrites every pair.
        pairs.resize(elements.len() / 2 * LINES, Pair::ZERO);
        backend.run(Pack(&mut pairs, &elements));
        Self {
            count,
            terms,
            pairs,
            bound,
        }
    }
}

impl Matrix {
    pub(crate) fn zero(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            sums: vec![Line::ZERO; rows * columns * LINES],
            bound: Bound::ZERO,
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
        if self.columns == 1 {
            return self.add_column(terms, a, b, backend);
        }
        self.add_packed(a, &Packed::new(self.columns, terms, b, backend), backend);
    }

    /// [`Matrix::add`] for one column, where every `a(i, k)` is read only once and packing it would gain
    /// nothing.
    fn add_column<'a>(
        &mut self,
        terms: usize,
        a: impl Fn(usize, usize) -> &'a Ntt,
        b: impl Fn(usize, usize) -> &'a Ntt,
        backend: Backend,
    ) {
        assert!(terms <= DEPTH, "{terms} terms at a time");
        let mut bound = Bound::ZERO;
        for i in 0..self.rows {
            let terms: Vec<(&Ntt, &Ntt)> = (0..terms).map(|k| (a(i, k), b(0, k))).collect();
            let bounds = terms.iter().map(|(a, b)| a.bound().times(b.bound()));
            bound = bound.or(bounds.fold(Bound::ZERO, Bound::plus));
            let pairs: Vec<_> = terms.iter().map(|(a, b)| (a.rows(), b.rows())).collect();
            let mut sum = self.sum(i);
            backend.run(AddProducts(&mut sum, &pairs));
            // There is one column, so the lines of a sum are `rows` apart.
            let lines = self.sums[i..].iter_mut().step_by(self.rows);
            for (line, from) in lines.zip(sum.0.as_chunks().0) {
                line.0 = *from;
            }
        }
        self.bound = self.bound.plus(bound);
    }

    /// Returns the residues of sum `index`.
    fn sum(&self, index: usize) -> Rows {
        let mut rows = Rows([0; SIZE]);
        let lines = self.sums[index..].iter().step_by(self.rows * self.columns);
        for (to, line) in rows.0.as_chunks_mut().0.iter_mut().zip(lines) {
            *to = line.0;
        }
        rows
    }

    /// Adds the products of the rows `a(i, k)` and packed columns.
    ///
    /// # Panics
    /// If the number of columns differs from that of the matrix.
    pub(crate) fn add_packed<'a>(
        &mut self,
        a: impl Fn(usize, usize) -> &'a Ntt,
        b: &Packed,
        backend: Backend,
    ) {
        assert_eq!(b.count, self.columns, "columns of a product");
        let a = Packed::new(self.rows, b.terms, a, backend);
        if a.pairs.is_empty() || b.pairs.is_empty() {
            return;
        }
        self.bound = self.bound.plus(a.bound.times(b.bound).many(a.terms));
        backend.run(AddProduct(Product {
            out: &mut self.sums,
            a: &a.pairs,
            b: &b.pairs,
            pairs: a.terms.div_ceil(2),
            rows: self.rows,
            columns: self.columns,
        }));
    }

    /// Adds another matrix of the same shape.
    pub(crate) fn merge(&mut self, other: &Self, backend: Backend) {
        self.bound = self.bound.plus(other.bound);
        backend.run(AddAll(&mut self.sums, &other.sums));
    }

    /// Returns the sum of row `i` and column `j`.
    pub(crate) fn get(&self, i: usize, j: usize) -> Ntt {
        Ntt::of_rows(self.sum(i * self.columns + j), self.bound)
    }

    /// Returns all sums, row by row.
    pub(crate) fn elements(&self, backend: Backend) -> Vec<Rq> {
        let places = (0..self.rows).flat_map(|i| (0..self.columns).map(move |j| (i, j)));
        let sums: Vec<Ntt> = places.map(|(i, j)| self.get(i, j)).collect();
        backend.elements(&sums)
    }
}

struct Pack<'a>(&'a mut [Pair], &'a [&'a Rows]);

impl Pass for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        pack::<V>(self.0, self.1);
    }
}

struct AddProduct<'a>(Product<'a>);

impl Pass for AddProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        self.0.add::<V>();
    }
}

struct AddProducts<'a>(&'a mut Rows, &'a [(&'a Rows, &'a Rows)]);

impl Pass for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        rows::add_products::<V>(self.0, self.1);
    }
}

struct AddAll<'a>(&'a mut [Line], &'a [Line]);

impl Pass for AddAll<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        for (a, b) in self.0.iter_mut().zip(self.1) {
            rows::add::<V>(&mut a.0, &b.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KERNELS;
    use crate::transcript::Seed;

    #[test]
    fn matrices_are_sums_of_products_on_every_level() {
        let mut stream = Seed::of_name("matrix").stream();
        let mut many = |count: usize| -> Vec<Ntt> {
            let mut one = || stream.element().centred().map(|c| c % 30_000);
            (0..count)
                .map(|_| Ntt::from_integers(&one(), 30_000, Backend::Portable))
                .collect()
        };
        for (rows, columns, terms) in [(1, 1, 1), (4, 2, 32), (5, 3, 7), (3, 5, 31), (6, 6, 2)] {
            let (a, b) = (many(rows * terms), many(columns * terms));
            let row = |i: usize| a[i * terms..(i + 1) * terms].iter();
            let column = |j: usize| b[j * terms..(j + 1) * terms].iter();
            let expected = |i, j| Ntt::dot(row(i).zip(column(j))).to_rq();
            for backend in KERNELS.available() {
                let mut matrix = Matrix::zero(rows, columns);
                let (left, right) = (|i, k| &a[i * terms + k], |j, k| &b[j * terms + k]);
                matrix.add(terms, left, right, backend);
                let mut twice = Matrix::zero(rows, columns);
                twice.merge(&matrix, backend);
                let every = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
                let expect: Vec<Rq> = every.map(|(i, j)| expected(i, j)).collect();
                assert_eq!(twice.elements(backend), expect);
            }
        }
    }
}
