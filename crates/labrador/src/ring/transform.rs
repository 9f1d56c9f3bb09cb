//! The transforms between coefficients and values, two layers at a time: each number is loaded and
//! stored three times.
//!
//! For the bounds see [`super::rows`]: a layer of butterflies turns a bound `A` into `1.1045 A + 6850`,
//! that is 6858, 14425, 22783, 32014, which is why the forward transform reduces after three layers. The
//! inverse doubles sums, 6858, 13716, 27432, so it reduces after two. The code uses neither closures, which
//! would not be compiled for the instruction set of the pass, nor zipped iterators, which are not always
//! inlined.

use super::DEGREE;
use super::residues::{self, Factor, PRIMES, Roots, TABLES};
use super::rows::{Rows, SIZE, barrett, by_factor};
use crate::kernel::{Pass, Vector, Vectors};

/// Constants of the butterflies of one or more rows.
#[derive(Clone, Copy)]
struct Zeta<V> {
    value: V,
    scaled: V,
}

/// Returns the same constants for all rows of a vector.
#[inline(always)]
fn zeta<V: Vector>(roots: &residues::Rows, row: usize) -> Zeta<V> {
    let at = PRIMES * row;
    let (mut value, mut scaled) = ([0; PRIMES], [0; PRIMES]);
    value.copy_from_slice(&roots.values[at..at + PRIMES]);
    scaled.copy_from_slice(&roots.scaled[at..at + PRIMES]);
    Zeta {
        value: V::repeat(&value),
        scaled: V::repeat(&scaled),
    }
}

/// Returns the constants from row `row` on, one row of them for each row of a vector.
#[inline(always)]
fn zetas<V: Vector>(roots: &residues::Rows, row: usize) -> Zeta<V> {
    Zeta {
        value: V::load(&roots.values[PRIMES * row..]),
        scaled: V::load(&roots.scaled[PRIMES * row..]),
    }
}

/// `a b / 2^16` modulo `p` for a constant `b`: see [`by_factor`].
#[inline(always)]
fn by_zeta<V: Vector>(a: V, b: Zeta<V>) -> V {
    let quotient = a.mul_low(b.scaled);
    a.mul_high(b.value)
        .sub(quotient.mul_high(V::repeat(&TABLES.p)))
}

/// Writes the products of a reduced polynomial's values and those of `X`; output reduced.
#[inline(always)]
pub(super) fn by_x<V: Vector>(rows: &Rows, out: &mut Rows) {
    let mut at = 0;
    while at < SIZE {
        let x = zetas(&TABLES.turn, at / PRIMES);
        barrett(by_zeta(V::load(&rows.0[at..]), x)).store(&mut out.0[at..]);
        at += V::LANES;
    }
}

/// The same, but not reduced: the output is below [`super::rows::LOOSE_MAX`] in absolute value, which is enough for
/// products with reduced values.
#[inline(always)]
pub(super) fn by_x_loosely<V: Vector>(rows: &Rows, out: &mut Rows) {
    let mut at = 0;
    while at < SIZE {
        let x = zetas(&TABLES.turn, at / PRIMES);
        by_zeta(V::load(&rows.0[at..]), x).store(&mut out.0[at..]);
        at += V::LANES;
    }
}

/// A butterfly of the forward transform.
#[inline(always)]
fn turn<V: Vector>((x, y): (V, V), zeta: Zeta<V>) -> (V, V) {
    let product = by_zeta(y, zeta);
    (x.add(product), x.sub(product))
}

/// A butterfly of the inverse transform.
#[inline(always)]
fn turn_back<V: Vector>((x, y): (V, V), zeta: Zeta<V>) -> (V, V) {
    // `y - x` instead of `x - y`, because the constants are the negated inverses.
    (x.add(y), by_zeta(y.sub(x), zeta))
}

#[inline(always)]
fn barrett_two<V: Vector>((x, y): (V, V)) -> (V, V) {
    (barrett(x), barrett(y))
}

/// Loads the four vectors of a two-layer step: those at `at` and at one, two and three times `step` after it.
#[inline(always)]
fn load_four<V: Vector>(rows: &Rows, at: usize, step: usize) -> [V; 4] {
    [
        V::load(&rows.0[at..]),
        V::load(&rows.0[at + step..]),
        V::load(&rows.0[at + 2 * step..]),
        V::load(&rows.0[at + 3 * step..]),
    ]
}

#[inline(always)]
fn store_four<V: Vector>(rows: &mut Rows, at: usize, step: usize, four: [V; 4]) {
    let [a, b, c, d] = four;
    a.store(&mut rows.0[at..]);
    b.store(&mut rows.0[at + step..]);
    c.store(&mut rows.0[at + 2 * step..]);
    d.store(&mut rows.0[at + 3 * step..]);
}

/// Evaluates reduced coefficients at the 64 roots; output reduced. Works on two layers at a time, so that
/// numbers are loaded and stored three times, with a reduction after three layers.
#[inline(always)]
pub(super) fn forward<V: Vectors>(rows: &mut Rows) {
    V::call(Forward(rows));
}

struct Forward<'a>(&'a mut Rows);

impl Pass for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        forward_in::<V::Wide>(self.0);
    }
}

#[inline(always)]
fn forward_in<V: Vector>(rows: &mut Rows) {
    let roots = &TABLES.roots.each;
    let (first, low, high) = (zeta(roots, 1), zeta(roots, 2), zeta(roots, 3));
    let mut at = 0;
    while at < SIZE / 4 {
        let [a, b, c, d] = load_four::<V>(rows, at, SIZE / 4);
        let ((a, c), (b, d)) = (turn((a, c), first), turn((b, d), first));
        let ((a, b), (c, d)) = (turn((a, b), low), turn((c, d), high));
        store_four(rows, at, SIZE / 4, [a, b, c, d]);
        at += V::LANES;
    }
    let mut block = 0;
    while block < 4 {
        let (first, low, high) = (
            zeta(roots, 4 + block),
            zeta(roots, 8 + 2 * block),
            zeta(roots, 9 + 2 * block),
        );
        let mut at = block * SIZE / 4;
        while at < block * SIZE / 4 + SIZE / 16 {
            let [a, b, c, d] = load_four::<V>(rows, at, SIZE / 16);
            // The third layer: up to 32014 here, and another layer would overflow.
            let (a, c) = barrett_two(turn((a, c), first));
            let (b, d) = barrett_two(turn((b, d), first));
            let ((a, b), (c, d)) = (turn((a, b), low), turn((c, d), high));
            store_four(rows, at, SIZE / 16, [a, b, c, d]);
            at += V::LANES;
        }
        block += 1;
    }
    forward_last::<V>(rows);
}

/// Applies the layers with blocks of two rows and of one row, then reduces.
#[inline(always)]
fn forward_last<V: Vector>(rows: &mut Rows) {
    let Roots { each, twice } = &TABLES.roots;
    let mut block = 0;
    while block < DEGREE / 4 {
        let at = 4 * PRIMES * block;
        if V::LANES == PRIMES {
            let [a, b, c, d] = load_four::<V>(rows, at, PRIMES);
            let first = zeta(each, 16 + block);
            let ((a, c), (b, d)) = (turn((a, c), first), turn((b, d), first));
            let (a, b) = barrett_two(turn((a, b), zeta(each, 32 + 2 * block)));
            let (c, d) = barrett_two(turn((c, d), zeta(each, 33 + 2 * block)));
            store_four(rows, at, PRIMES, [a, b, c, d]);
        } else {
            let whole = V::LANES > 2 * PRIMES;
            // One layer after a reduction, two more fit before the next. A vector holds two rows or four, so partners
            // of a butterfly may be in one vector: exchanges bring them to the same position of two, and back.
            let mut two = (V::load(&rows.0[at..]), V::load(&rows.0[at + V::LANES..]));
            if whole {
                two = turn(two.0.exchange(two.1, 2), zetas(twice, 2 * block));
            } else {
                two = turn(two, zeta(each, 16 + block));
            }
            two = turn(two.0.exchange(two.1, 1), zetas(each, 32 + 2 * block));
            two = barrett_two(two.0.exchange(two.1, 1));
            if whole {
                two = two.0.exchange(two.1, 2);
            }
            two.0.store(&mut rows.0[at..]);
            two.1.store(&mut rows.0[at + V::LANES..]);
        }
        block += (V::LANES / (2 * PRIMES)).max(1);
    }
}

/// Writes 64 times the coefficients of reduced values, times the constant `last`; output reduced. Works on
/// two layers at a time, with a reduction after each pair.
#[inline(always)]
pub(super) fn inverse<V: Vectors>(values: &Rows, rows: &mut Rows, last: &Factor) {
    inverse_in::<V::Wide>(values, rows, last);
}

#[inline(always)]
fn inverse_in<V: Vector>(values: &Rows, rows: &mut Rows, last: &Factor) {
    inverse_first::<V>(values, rows);
    let roots = &TABLES.inverse_roots.each;
    let mut block = 0;
    while block < 4 {
        let (low, high, next) = (
            zeta(roots, 48 + 2 * block),
            zeta(roots, 49 + 2 * block),
            zeta(roots, 56 + block),
        );
        let mut at = block * SIZE / 4;
        while at < block * SIZE / 4 + SIZE / 16 {
            let [a, b, c, d] = load_four::<V>(rows, at, SIZE / 16);
            let ((a, b), (c, d)) = (turn_back((a, b), low), turn_back((c, d), high));
            let (a, c) = barrett_two(turn_back((a, c), next));
            let (b, d) = barrett_two(turn_back((b, d), next));
            store_four(rows, at, SIZE / 16, [a, b, c, d]);
            at += V::LANES;
        }
        block += 1;
    }
    let (low, high, next) = (zeta(roots, 60), zeta(roots, 61), zeta(roots, 62));
    let mut at = 0;
    while at < SIZE / 4 {
        let [a, b, c, d] = load_four::<V>(rows, at, SIZE / 4);
        let ((a, b), (c, d)) = (turn_back((a, b), low), turn_back((c, d), high));
        let ((a, c), (b, d)) = (turn_back((a, c), next), turn_back((b, d), next));
        // Up to 27432 after these two layers: a product with a centred constant takes any 16-bit number, so they need
        // no reduction first.
        let (a, b) = barrett_two((by_factor(a, last), by_factor(b, last)));
        let (c, d) = barrett_two((by_factor(c, last), by_factor(d, last)));
        store_four(rows, at, SIZE / 4, [a, b, c, d]);
        at += V::LANES;
    }
}

/// Applies the layers with blocks of one row and of two rows, then reduces.
#[inline(always)]
fn inverse_first<V: Vector>(values: &Rows, rows: &mut Rows) {
    let Roots { each, twice } = &TABLES.inverse_roots;
    let mut block = 0;
    while block < DEGREE / 4 {
        let at = 4 * PRIMES * block;
        if V::LANES == PRIMES {
            let [a, b, c, d] = load_four::<V>(values, at, PRIMES);
            let (a, b) = turn_back((a, b), zeta(each, 2 * block));
            let (c, d) = turn_back((c, d), zeta(each, 2 * block + 1));
            let next = zeta(each, 32 + block);
            let (a, c) = barrett_two(turn_back((a, c), next));
            let (b, d) = barrett_two(turn_back((b, d), next));
            store_four(rows, at, PRIMES, [a, b, c, d]);
        } else {
            let whole = V::LANES > 2 * PRIMES;
            let mut two = (
                V::load(&values.0[at..]),
                V::load(&values.0[at + V::LANES..]),
            );
            if whole {
                two = two.0.exchange(two.1, 2);
            }
            two = turn_back(two.0.exchange(two.1, 1), zetas(each, 2 * block));
            two = two.0.exchange(two.1, 1);
            if whole {
                two = barrett_two(turn_back(two, zetas(twice, 2 * block)));
                two = two.0.exchange(two.1, 2);
            } else {
                two = barrett_two(turn_back(two, zeta(each, 32 + block)));
            }
            two.0.store(&mut rows.0[at..]);
            two.1.store(&mut rows.0[at + V::LANES..]);
        }
        block += (V::LANES / (2 * PRIMES)).max(1);
    }
}
