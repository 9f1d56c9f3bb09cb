//! From residues back to integers modulo `Q`.

use super::residues::{LIFT_PARTS, PRIMES, PRODUCT_MOD_Q, TABLES};
use super::rows::Rows;
use super::transform::inverse;
use super::{DEGREE, reduce};
use crate::kernel::{Pass, Vector, Vectors};

/// Writes the integers modulo `Q` with these values at the roots, by the explicit Chinese remainder
/// theorem. Exact for integers up to [`super::residues::BOUND`] in absolute value.
///
/// Digits are below `2^12.8`, limbs of cofactors have 12 bits and reciprocals are below `2^13`, so eight
/// products stay below `2^29`. The quotient has 25 fractional bits and an error of less than
/// `8 * 6858 / 2^26 < 0.001`.
#[inline(always)]
pub(super) fn lift<V: Vectors>(values: &Rows, out: &mut [u64; DEGREE]) {
    V::call(Lift(values, out));
}

struct Lift<'a>(&'a Rows, &'a mut [u64; DEGREE]);

impl Pass for Lift<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        recover::<V>(self.0, self.1);
    }
}

/// See [`lift`].
#[inline(always)]
fn recover<V: Vectors>(values: &Rows, out: &mut [u64; DEGREE]) {
    let mut rows = Rows::ZERO;
    // These are the digits `d_p` of `x = sum d_p (P / p) - P round(sum d_p / p)`, where `P` is the product of the
    // primes: the constant includes the inverse of `P / p`.
    inverse::<V>(values, &mut rows, &TABLES.crt);
    let lanes = <V::Wide as Vector>::LANES;
    for (block, rows) in rows.0.chunks_exact(PRIMES * lanes).enumerate() {
        let sums = sums_of_primes::<V::Wide>(rows);
        let mut numbers = [0u64; 32];
        for (k, number) in numbers[..lanes].iter_mut().enumerate() {
            let sum = |part: usize| i64::from(sums[part][k]);
            let quotient = (sum(4) + (1 << 24)) >> 25;
            // The upper limbs and the multiple of the product stay below 2^53, times 2^24 reduced.
            let low = sum(0) + (sum(1) << 12);
            let high = sum(2) + (sum(3) << 12);
            let shifted = ((high & 0xff_ffff) << 24) + 59 * (high >> 24);
            *number = reduce(low + shifted - quotient * PRODUCT_MOD_Q);
        }
        for (k, &number) in numbers[..lanes].iter().enumerate() {
            out[block * lanes + place_of_sum(lanes, k)] = number;
        }
    }
}

/// Returns the position of the row of sum `k` among `lanes` rows. Vectors hold `lanes / 8` rows side by side, the
/// transposition gathers one from each, and sums come in two vectors.
#[inline(always)]
const fn place_of_sum(lanes: usize, k: usize) -> usize {
    let (each, half) = (lanes / PRIMES, lanes / 2);
    let (within, lane) = (4 * (k / half) + k % 4, k % half / 4);
    each * within + lane
}

/// Returns, for each part of [`super::residues::Tables::parts`], its sums over all primes, for eight vectors
/// of rows, in the order of [`place_of_sum`].
#[inline(always)]
fn sums_of_primes<V: Vector>(rows: &[i16]) -> [[i32; 32]; LIFT_PARTS] {
    let mut planes = [V::load(rows); PRIMES];
    for (plane, row) in planes.iter_mut().zip(rows.chunks_exact(V::LANES)) {
        *plane = V::load(row);
    }
    // Three perfect shuffles of eight vectors transpose 8-by-8 squares of numbers.
    for _ in 0..3 {
        let before = planes;
        for k in 0..PRIMES / 2 {
            (planes[2 * k], planes[2 * k + 1]) = before[k].interleave(before[k + PRIMES / 2]);
        }
    }
    let mut out = [[0; 32]; LIFT_PARTS];
    for (out, factors) in out.iter_mut().zip(&TABLES.parts) {
        let mut sums = V::no_sums();
        for (k, factor) in factors.iter().enumerate() {
            let two = planes[2 * k].interleave(planes[2 * k + 1]);
            let factor = V::repeat(factor);
            sums = V::accumulate(sums, two, (factor, factor));
        }
        V::store_sums(sums, out);
    }
    out
}
