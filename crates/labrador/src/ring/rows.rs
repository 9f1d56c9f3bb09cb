//! Rows of residues: row `j` holds coefficient (or value) `j` of one polynomial modulo each of the
//! eight primes. One operation on a row therefore works for all primes, and vectors of any length hold
//! whole rows.
//!
//! Bounds, for `p <= 13697`: a reduced residue is at most `p/2 + 10` (6858) in absolute value. A
//! Montgomery product of `|a| <= A` and a centred constant is at most `A p / 2^17 + p/2 + 1`. Given these
//! bounds, the arithmetic is wrapping.

use super::DEGREE;
use super::residues::{Factor, MODULI, PRIMES, TABLES};
use crate::kernel::{Pass, Vector, Vectors};

/// Numbers per polynomial: [`PRIMES`] for each coefficient.
pub(super) const SIZE: usize = DEGREE * PRIMES;

/// All rows of a polynomial.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Rows(pub(super) [i16; SIZE]);

impl Rows {
    pub(super) const ZERO: Self = Self([0; SIZE]);
}

/// Maximum number of products of reduced residues that fit an accumulator. One factor of each may instead be below
/// [`LOOSE_MAX`]: `32 * 6858 * 7568 < 2^31`.
pub(super) const PRODUCTS_MAX: usize = 32;

/// Bound on Montgomery products of reduced residues and centred constants: `6858 p / 2^17 + p/2 + 1`.
pub(super) const LOOSE_MAX: i64 = 7568;

/// Returns `a b / 2^16` modulo `p` for a constant `b`, where `|a b| < 2^15 p`. The low halves of `a b` and of
/// the multiple of `p` agree, so the high halves subtract exactly.
#[inline(always)]
pub(super) fn by_factor<V: Vector>(a: V, b: &Factor) -> V {
    let quotient = a.mul_low(V::repeat(&b.scaled));
    let high = a.mul_high(V::repeat(&b.value));
    high.sub(quotient.mul_high(V::repeat(&TABLES.p)))
}

/// Returns `a b / 2^16` modulo `p`.
#[inline(always)]
fn mont<V: Vector>(a: V, b: V) -> V {
    let quotient = a.mul_low(b).mul_low(V::repeat(&TABLES.p_inv));
    a.mul_high(b).sub(quotient.mul_high(V::repeat(&TABLES.p)))
}

/// Returns a representative of any `i16` of at most `p/2 + 10` in absolute value.
#[inline(always)]
pub(super) fn barrett<V: Vector>(a: V) -> V {
    // Half of what the shift divides by, so the quotient is rounded to nearest.
    let half = V::repeat(&[1 << 10; PRIMES]);
    let high = a.mul_high(V::repeat(&TABLES.barrett));
    let quotient = high.add(half).shift_right_11();
    a.sub(quotient.mul_low(V::repeat(&TABLES.p)))
}

/// Writes the residues of short coefficients.
#[inline(always)]
pub(super) fn of_small<V: Vectors>(x: &[i16; DEGREE], rows: &mut Rows) {
    let mut at = 0;
    while at < SIZE {
        barrett(V::Wide::spread(&x[at / PRIMES..])).store(&mut rows.0[at..]);
        at += <V::Wide as Vector>::LANES;
    }
}

/// Writes the residues of centred integers below `2^47` in absolute value.
///
/// Uses four limbs of 12 bits, the top one signed: the sum is at most `4096 + 3 (429 + 6850)`, below
/// `2^15`.
#[inline(always)]
pub(super) fn of_centred<V: Vectors>(x: &[i64; DEGREE], rows: &mut Rows) {
    V::call(OfCentred(x, rows));
}

struct OfCentred<'a>(&'a [i64; DEGREE], &'a mut Rows);

impl Pass for OfCentred<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        of_limbs::<V>(self.0, self.1);
    }
}

/// See [`of_centred`].
#[inline(always)]
fn of_limbs<V: Vectors>(x: &[i64; DEGREE], rows: &mut Rows) {
    let mut limbs = [[0i16; DEGREE]; 4];
    for (k, limbs) in limbs.iter_mut().enumerate() {
        for (limb, &c) in limbs.iter_mut().zip(x) {
            let mask = if k == 3 { -1 } else { 0xfff };
            *limb = ((c >> (12 * k)) & mask) as i16;
        }
    }
    let mut at = 0;
    while at < SIZE {
        let mut sum = V::Wide::spread(&limbs[0][at / PRIMES..]);
        let mut k = 0;
        while k < 3 {
            let limb = V::Wide::spread(&limbs[k + 1][at / PRIMES..]);
            sum = sum.add(by_factor(limb, &TABLES.limbs[k]));
            k += 1;
        }
        barrett(sum).store(&mut rows.0[at..]);
        at += <V::Wide as Vector>::LANES;
    }
}

/// Returns the products of two reduced polynomials' values, reduced.
#[inline(always)]
pub(super) fn multiply<V: Vectors>(a: &Rows, b: &Rows) -> Rows {
    let mut out = Rows([0; SIZE]);
    let mut at = 0;
    while at < SIZE {
        let product = mont(V::Wide::load(&a.0[at..]), V::Wide::load(&b.0[at..]));
        // The first product is divided by `2^16`; the constant is `2^32`, which undoes that and its own division.
        barrett(by_factor(product, &TABLES.square)).store(&mut out.0[at..]);
        at += <V::Wide as Vector>::LANES;
    }
    out
}

/// Multiplies reduced values by `2^16`, reduced, for use as factors of [`add_scaled_sums`].
#[inline(always)]
pub(super) fn scale<V: Vectors>(rows: &mut Rows) {
    let mut at = 0;
    while at < SIZE {
        let scaled = by_factor(V::Wide::load(&rows.0[at..]), &TABLES.square);
        barrett(scaled).store(&mut rows.0[at..]);
        at += <V::Wide as Vector>::LANES;
    }
}

/// Adds reduced values to the same number of reduced values, reduced.
#[inline(always)]
pub(super) fn add<V: Vectors>(a: &mut [i16], b: &[i16]) {
    let mut at = 0;
    while at < a.len() {
        let sum = V::Wide::load(&a[at..]).add(V::Wide::load(&b[at..]));
        barrett(sum).store(&mut a[at..]);
        at += <V::Wide as Vector>::LANES;
    }
}

/// Adds the products of reduced values and [scaled](scale) ones to reduced values; output reduced. A product is
/// below 7,568, the sum below 14,500.
#[inline(always)]
pub(super) fn add_scaled<V: Vectors>(out: &mut Rows, x: &Rows, by: &Rows) {
    let mut at = 0;
    while at < SIZE {
        let product = mont(V::Wide::load(&x.0[at..]), V::Wide::load(&by.0[at..]));
        barrett(V::Wide::load(&out.0[at..]).add(product)).store(&mut out.0[at..]);
        at += <V::Wide as Vector>::LANES;
    }
}

/// Adds the products of up to [`PRODUCTS_MAX`] pairs of reduced values to reduced values; output
/// reduced. The sums of one vector stay in registers.
#[inline(always)]
pub(super) fn add_products<V: Vectors>(out: &mut Rows, pairs: &[(&Rows, &Rows)]) {
    debug_assert!(pairs.len() <= PRODUCTS_MAX);
    let mut at = 0;
    while at < SIZE {
        let mut sums = V::Wide::no_sums();
        let mut k = 0;
        while k < pairs.len() {
            let (a, b) = pairs[k];
            let (x, y) = if k + 1 < pairs.len() {
                pairs[k + 1]
            } else {
                (&ZERO, &ZERO)
            };
            let left = V::Wide::load(&a.0[at..]).interleave(V::Wide::load(&x.0[at..]));
            let right = V::Wide::load(&b.0[at..]).interleave(V::Wide::load(&y.0[at..]));
            sums = V::Wide::accumulate(sums, left, right);
            k += 2;
        }
        add_sums::<V::Wide>(&mut out.0[at..], sums);
        at += <V::Wide as Vector>::LANES;
    }
}

pub(super) static ZERO: Rows = Rows::ZERO;

/// Adds sums of at most [`PRODUCTS_MAX`] products to reduced values; output reduced.
///
/// `32 * 6858 * 7568 / 2^16 + p/2` is below `2^15`, the second product below 10,300, and the sum below
/// 17,200.
#[inline(always)]
pub(super) fn add_sums<V: Vector>(values: &mut [i16], sums: V::Sums) {
    let twice = by_factor(divided::<V>(sums), &TABLES.square);
    barrett(V::load(values).add(twice)).store(values);
}

/// The same for sums of at most `products` products with [scaled](scale) factors. The result of the division is added
/// directly, or reduced first if it might overflow together with the values.
#[inline(always)]
pub(super) fn add_scaled_sums<V: Vector>(values: &mut [i16], sums: V::Sums, products: usize) {
    let mut once = divided::<V>(sums);
    if products > PRODUCTS_MAX / 2 {
        once = barrett(once);
    }
    barrett(V::load(values).add(once)).store(values);
}

/// Divides sums of at most [`PRODUCTS_MAX`] products by 2^16: the result is below `2^15`, and for half as many
/// products below 19,600.
#[inline(always)]
fn divided<V: Vector>(sums: V::Sums) -> V {
    let (low, high) = V::halves(sums);
    let quotient = low.mul_low(V::repeat(&TABLES.p_inv));
    high.sub(quotient.mul_high(V::repeat(&TABLES.p)))
}

const _: () = {
    let mut i = 0;
    while i < PRIMES {
        let p = MODULI[i] as i64;
        let reduced = p / 2 + 10;
        assert!(((reduced * p) >> 17) + p / 2 + 2 <= LOOSE_MAX);
        let sum = PRODUCTS_MAX as i64 * reduced * LOOSE_MAX;
        assert!(sum < 1 << 31);
        let once = (sum >> 16) + p / 2 + 2;
        assert!(once < 1 << 15);
        let twice = ((once * p) >> 17) + p / 2 + 2;
        assert!(twice < 10_300 && reduced + twice < 17_200);
        let half = (sum >> 17) + p / 2 + 2;
        assert!(half < 19_600 && reduced + half < 1 << 15);
        i += 1;
    }
};
