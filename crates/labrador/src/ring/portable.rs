//! The transforms in plain Rust: the oracle of every other kernel.
//!
//! Bounds, for `p <= 13697`: a reduced residue is at most `p/2 + 10` (6858) in absolute value. A
//! Montgomery product of `|a| <= A` and a centred constant is at most `A p / 2^17 + p/2 + 1`, so
//! a layer of butterflies turns a bound `A` into `1.1045 A + 6850`: 6858, 14425, 22783, 32014,
//! which is why the forward transform reduces after three layers. The inverse doubles sums:
//! 6858, 13716, 27432, so it reduces after two. With the bounds shown, arithmetic is wrapping:
//! checks would keep builds that test from using vectors.

use super::residues::{MODULI, PRIMES, PRODUCT_MOD_Q, TABLES, Tables};
use super::{DEGREE, Small, reduce};

/// One residue plane.
pub(super) type Plane = [i16; DEGREE];

/// At most this many products of reduced residues fit an accumulator: `32 * 6858^2 < 2^31`.
pub(super) const PRODUCTS_MAX: usize = 32;

fn high(a: i16, b: i16) -> i16 {
    (i32::from(a).wrapping_mul(i32::from(b)) >> 16) as i16
}

/// `a b / 2^16` modulo `p`, for `|a b| < 2^15 p`.
fn mont(a: i16, b: i16, t: &Tables) -> i16 {
    let quotient = a.wrapping_mul(b).wrapping_mul(t.p_inv);
    // The low halves of a b and quotient p agree, so the high halves subtract exactly.
    high(a, b).wrapping_sub(high(quotient, t.p))
}

/// A representative at most `p/2 + 10` in absolute value, of any `i16`.
fn barrett(a: i16, t: &Tables) -> i16 {
    let quotient = high(a, t.barrett).wrapping_add(1 << 10) >> 11;
    a.wrapping_sub(quotient.wrapping_mul(t.p))
}

fn reduce_plane(plane: &mut Plane, t: &Tables) {
    for x in plane {
        *x = barrett(*x, t);
    }
}

/// Evaluates a plane of reduced coefficients at the 64 roots; output reduced.
pub(super) fn forward(plane: &mut Plane, t: &Tables) {
    let mut length = DEGREE / 2;
    let mut root = 1;
    while length > 0 {
        for block in plane.chunks_exact_mut(2 * length) {
            let zeta = t.roots[root];
            root += 1;
            let (low, upper) = block.split_at_mut(length);
            for (a, b) in low.iter_mut().zip(upper) {
                let product = mont(*b, zeta, t);
                *b = a.wrapping_sub(product);
                *a = a.wrapping_add(product);
            }
        }
        if length == 8 {
            reduce_plane(plane, t);
        }
        length /= 2;
    }
    reduce_plane(plane, t);
}

/// Recovers the coefficients of a reduced plane of evaluations; output reduced.
pub(super) fn inverse(plane: &mut Plane, t: &Tables) {
    let mut length = 1;
    let mut root = DEGREE - 1;
    while length < DEGREE {
        // The roots of a layer, walked backwards, are the negated inverses of its forward roots.
        for block in plane.chunks_exact_mut(2 * length) {
            let zeta = t.roots[root];
            root -= 1;
            let (low, upper) = block.split_at_mut(length);
            for (a, b) in low.iter_mut().zip(upper) {
                let difference = b.wrapping_sub(*a);
                *a = a.wrapping_add(*b);
                *b = mont(difference, zeta, t);
            }
        }
        if matches!(length, 2 | 8) {
            reduce_plane(plane, t);
        }
        length *= 2;
    }
    for x in plane {
        *x = barrett(mont(*x, t.degree_inv, t), t);
    }
}

/// The residues of a short element.
pub(super) fn residues_of_small(x: &Small, t: &Tables) -> Plane {
    x.0.map(|c| barrett(c, t))
}

/// The residues of centred integers below `2^47` in absolute value.
///
/// Four limbs of 12 bits, the top one signed: the sum is at most `4096 + 3 (429 + 6850)`, below
/// `2^15`.
pub(super) fn residues_of_centred(x: &[i64; DEGREE], t: &Tables) -> Plane {
    let mut out = [0; DEGREE];
    for (r, &c) in out.iter_mut().zip(x) {
        let limb = |k: u32| ((c >> (12 * k)) & 0xfff) as i16;
        let sum = limb(0)
            .wrapping_add(mont(limb(1), t.limbs[0], t))
            .wrapping_add(mont(limb(2), t.limbs[1], t))
            .wrapping_add(mont((c >> 36) as i16, t.limbs[2], t));
        *r = barrett(sum, t);
    }
    out
}

/// The product of two reduced planes, reduced.
pub(super) fn multiply(a: &Plane, b: &Plane, t: &Tables) -> Plane {
    let mut out = [0; DEGREE];
    for ((o, &x), &y) in out.iter_mut().zip(a).zip(b) {
        *o = barrett(mont(mont(x, y, t), t.square, t), t);
    }
    out
}

/// Adds the products of two planes to an accumulator.
pub(super) fn accumulate(sums: &mut [i32; DEGREE], a: &Plane, b: &Plane) {
    for ((s, &x), &y) in sums.iter_mut().zip(a).zip(b) {
        *s = s.wrapping_add(i32::from(x).wrapping_mul(i32::from(y)));
    }
}

/// Adds an accumulator of at most [`PRODUCTS_MAX`] products to a reduced plane; output reduced.
///
/// `32 * 6858^2 / 2^16 + p/2` is below `2^15`, the second product below 10,300, the sum below
/// 17,200.
pub(super) fn settle(plane: &mut Plane, sums: &[i32; DEGREE], t: &Tables) {
    for (x, &sum) in plane.iter_mut().zip(sums) {
        let quotient = (sum as i16).wrapping_mul(t.p_inv);
        let once = ((sum >> 16) as i16).wrapping_sub(high(quotient, t.p));
        *x = barrett(x.wrapping_add(mont(once, t.square, t)), t);
    }
}

/// The sum of two reduced planes, reduced.
pub(super) fn add(a: &mut Plane, b: &Plane, t: &Tables) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = barrett(x.wrapping_add(*y), t);
    }
}

/// The integers modulo `Q` with these residues, by the explicit Chinese remainder theorem; exact
/// for integers up to [`super::residues::BOUND`] in absolute value.
///
/// Digits are below `2^12.8` and cofactors below `2^47`, so eight products stay below `2^63`. The
/// quotient has 40 fractional bits and an error below `2^-23`.
pub(super) fn lift(planes: &[Plane; PRIMES]) -> [u64; DEGREE] {
    let mut sums = [0i64; DEGREE];
    let mut quotients = [1i64 << 39; DEGREE];
    for (plane, t) in planes.iter().zip(&TABLES) {
        for ((sum, quotient), &x) in sums.iter_mut().zip(&mut quotients).zip(plane) {
            let digit = i64::from(barrett(mont(x, t.crt, t), t));
            *sum = sum.wrapping_add(digit.wrapping_mul(t.cofactor));
            *quotient = quotient.wrapping_add(digit.wrapping_mul(t.reciprocal));
        }
    }
    let mut out = [0; DEGREE];
    for ((o, sum), quotient) in out.iter_mut().zip(sums).zip(quotients) {
        let high = (quotient >> 40) * PRODUCT_MOD_Q;
        *o = reduce(reduce(sum) as i64 - high);
    }
    out
}

const _: () = {
    let mut i = 0;
    while i < PRIMES {
        let reduced = MODULI[i] as i64 / 2 + 10;
        assert!(PRODUCTS_MAX as i64 * reduced * reduced < 1 << 31);
        i += 1;
    }
};
