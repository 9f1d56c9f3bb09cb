//! The product of two matrices of polynomial values, one cache line at a time.
//!
//! Data that is used together is stored together. The same position in different polynomials, whose distances
//! are large powers of two, would map to few sets of a cache, and no prefetcher would fetch it.

use super::residues::PRIMES;
use super::rows::{PRODUCTS_MAX, Rows, SIZE, add_sums};
use crate::kernel::{Vector, Vectors};

/// Numbers per line, and lines per polynomial.
const LINE: usize = 32;
pub(super) const LINES: usize = SIZE / LINE;

/// A line of a polynomial: reduced values modulo all primes at a few roots.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [i16; LINE]);

impl Line {
    pub(super) const ZERO: Self = Self([0; LINE]);
}

/// The same line of two polynomials, with their vectors interleaved.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Pair([i16; 2 * LINE]);

impl Pair {
    pub(super) const ZERO: Self = Self([0; 2 * LINE]);
}

/// Interleaves polynomials in pairs: first the first line of all pairs, then the second, and so on.
#[inline(always)]
pub(super) fn pack<V: Vectors>(to: &mut [Pair], elements: &[&Rows]) {
    let pairs = elements.as_chunks::<2>().0;
    let lanes = <V::Wide as Vector>::LANES;
    for (index, [x, y]) in pairs.iter().enumerate() {
        for line in 0..LINES {
            let to = &mut to[line * pairs.len() + index].0;
            for at in (0..LINE).step_by(lanes) {
                let place = line * LINE + at;
                let (x, y) = (V::Wide::load(&x.0[place..]), V::Wide::load(&y.0[place..]));
                let (low, high) = x.interleave(y);
                low.store(&mut to[2 * at..]);
                high.store(&mut to[2 * at + lanes..]);
            }
        }
    }
}

/// The operands, and where the sums are written.
pub(super) struct Product<'a> {
    /// For each line of a polynomial, the sums row by row.
    pub(super) out: &'a mut [Line],
    /// The rows of the left and of the right matrix, packed, each of `pairs` pairs.
    pub(super) a: &'a [Pair],
    pub(super) b: &'a [Pair],
    /// At most half of [`PRODUCTS_MAX`].
    pub(super) pairs: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Product<'_> {
    /// Computes `out[i][j] += sum_k a[i][k] b[j][k]`, four rows times two columns at a time, whose sums stay
    /// in registers.
    #[inline(always)]
    pub(super) fn add<V: Vectors>(self) {
        let (rows, columns, pairs) = (self.rows, self.columns, self.pairs);
        debug_assert!(pairs > 0 && pairs <= PRODUCTS_MAX / 2);
        for line in 0..LINES {
            let out = &mut self.out[line * rows * columns..][..rows * columns];
            let a = &self.a[line * rows * pairs..][..rows * pairs];
            let b = &self.b[line * columns * pairs..][..columns * pairs];
            for at in (0..LINE).step_by(<V::Wide as Vector>::LANES) {
                let mut row = 0;
                while row < rows {
                    let a = &a[row * pairs..];
                    let out = &mut out[row * columns..];
                    if row + 4 <= rows {
                        add_rows::<V::Wide, 4>(out, columns, a, b, pairs, at);
                        row += 4;
                    } else {
                        add_rows::<V::Wide, 1>(out, columns, a, b, pairs, at);
                        row += 1;
                    }
                }
            }
        }
    }
}

/// Multiplies `H` rows by all columns.
#[inline(always)]
fn add_rows<V: Vector, const H: usize>(
    out: &mut [Line],
    columns: usize,
    a: &[Pair],
    b: &[Pair],
    pairs: usize,
    at: usize,
) {
    let count = b.len() / pairs;
    let mut column = 0;
    while column < count {
        let (b, out) = (&b[column * pairs..], &mut out[column..]);
        if column + 2 <= count {
            add_block::<V, H, 2>(out, columns, a, b, pairs, at);
            column += 2;
        } else {
            add_block::<V, H, 1>(out, columns, a, b, pairs, at);
            column += 1;
        }
    }
}

/// Loads the vectors of two polynomials from position `at` of a line on.
#[inline(always)]
fn load<V: Vector>(pair: &Pair, at: usize) -> (V, V) {
    let numbers = &pair.0[2 * at..];
    (V::load(numbers), V::load(&numbers[V::LANES..]))
}

/// Multiplies `H` rows by `W` columns, starting with the first.
#[inline(always)]
fn add_block<V: Vector, const H: usize, const W: usize>(
    out: &mut [Line],
    columns: usize,
    a: &[Pair],
    b: &[Pair],
    pairs: usize,
    at: usize,
) {
    let mut left = [&a[..pairs]; H];
    for (row, left) in left.iter_mut().enumerate() {
        *left = &a[row * pairs..][..pairs];
    }
    let mut right = [&b[..pairs]; W];
    for (column, right) in right.iter_mut().enumerate() {
        *right = &b[column * pairs..][..pairs];
    }
    let mut sums = [[V::no_sums(); W]; H];
    for pair in 0..pairs {
        let mut vectors = [load::<V>(&Pair::ZERO, 0); W];
        for (vectors, right) in vectors.iter_mut().zip(&right) {
            *vectors = load(&right[pair], at);
        }
        for (left, sums) in left.iter().zip(&mut sums) {
            let left = load(&left[pair], at);
            for (sums, &vectors) in sums.iter_mut().zip(&vectors) {
                *sums = V::accumulate(*sums, left, vectors);
            }
        }
    }
    for (row, sums) in sums.into_iter().enumerate() {
        for (column, sums) in sums.into_iter().enumerate() {
            let line = &mut out[row * columns + column].0;
            add_sums::<V>(&mut line[at..at + V::LANES], sums);
        }
    }
}

const _: () = assert!(
    LINE.is_multiple_of(4 * PRIMES),
    "a vector of any level divides a line"
);
