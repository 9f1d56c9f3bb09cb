//! The way between blst's elements and the kernel's, and the inversion that blst does.

use core::arch::x86_64::*;

use super::element::Narrow;
use super::field::{DIGITS, Fe, LANES, LIMBS, join, products, split, transpose, words};
use crate::blst_ffi::curve::CurveField;
use crate::blst_ffi::field::{Field, Fp, Fp2, P};

/// A field whose elements are `N` coefficients of Fp.
pub(crate) trait Coefficients<const N: usize>: CurveField {
    /// The coefficients.
    fn split(&self) -> [Fp; N];
    /// From the coefficients.
    fn join(coefficients: [Fp; N]) -> Self;
}

impl Coefficients<1> for Fp {
    fn split(&self) -> [Fp; 1] {
        [*self]
    }

    fn join([c0]: [Fp; 1]) -> Fp {
        c0
    }
}

impl Coefficients<2> for Fp2 {
    fn split(&self) -> [Fp; 2] {
        self.coefficients()
    }

    fn join([c0, c1]: [Fp; 2]) -> Fp2 {
        Fp2::new(c0, c1)
    }
}

/// 2^416 mod p: one in the kernel's Montgomery form.
pub(crate) const ONE: [u64; LIMBS] = split(&power_of_two(416));
/// Multiplying by this number (and dividing by 2^416) takes a·2^384 to a·2^416.
const ENTER: [u64; LIMBS] = split(&power_of_two(448));
/// Multiplying by this number (and dividing by 2^416) takes a·2^416 to a·2^384.
const LEAVE: [u64; LIMBS] = split(&power_of_two(384));
/// 2^448 mod p, read by blst as 2^64: takes the inverse of a·2^416 as blst computes it to a^-1·2^416.
const AFTER_INVERSE: Fp = Fp::from_limbs_reduced(power_of_two(448));

/// 2^exponent mod p.
const fn power_of_two(exponent: usize) -> [u64; 6] {
    times_power_of_two([1, 0, 0, 0, 0, 0], exponent)
}

/// value · 2^exponent mod p, by doubling; the value is below p.
pub(crate) const fn times_power_of_two(mut value: [u64; 6], exponent: usize) -> [u64; 6] {
    let mut step = 0;
    while step < exponent {
        let mut doubled = [0u64; 6];
        let mut less = [0u64; 6];
        let (mut carry, mut borrow) = (0, false);
        let mut i = 0;
        while i < 6 {
            doubled[i] = value[i] << 1 | carry;
            carry = value[i] >> 63;
            let (a, first) = doubled[i].overflowing_sub(P[i]);
            let (a, second) = a.overflowing_sub(borrow as u64);
            less[i] = a;
            borrow = first | second;
            i += 1;
        }
        value = if borrow { doubled } else { less };
        step += 1;
    }
    value
}

/// Elements as blst keeps them, in the stored form of the kernel: canonical, R = 2^416, one register
/// per coefficient.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn enter<F: Coefficients<N>, const N: usize>(
    elements: &[F; LANES],
) -> [[__m512i; N]; LANES] {
    convert(
        elements.map(|e| e.split().map(|c| register(split(c.limbs())))),
        &ENTER,
    )
}

/// The way back.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn leave<F: Coefficients<N>, const N: usize>(
    stored: &[[__m512i; N]; LANES],
) -> [F; LANES] {
    let out = convert(*stored, &LEAVE);
    out.map(|e| F::join(e.map(|c| Fp::from_limbs_reduced(join(&words(c))))))
}

/// Multiplies every coefficient by a constant and reduces it.
#[target_feature(enable = "avx512f,avx512ifma")]
fn convert<const N: usize>(
    elements: [[__m512i; N]; LANES],
    factor: &[u64; LIMBS],
) -> [[__m512i; N]; LANES] {
    let mut out = [[_mm512_setzero_si512(); N]; LANES];
    let (factor, mut lanes, mut reduced) = (Fe::broadcast(factor), Fe::zero(), Fe::zero());
    for c in 0..N {
        for v in 0..2 {
            lanes.0[v] = transpose(&core::array::from_fn(|i| elements[8 * v + i][c]));
        }
        products::<1, DIGITS>([(&lanes, &factor)], &mut reduced);
        scatter(&reduced.reduce(), c, &mut out);
    }
    out
}

/// Writes sixteen numbers as coefficient `c` of sixteen elements.
#[target_feature(enable = "avx512f")]
pub(super) fn scatter<const N: usize>(numbers: &Fe, c: usize, out: &mut [[__m512i; N]; LANES]) {
    for v in 0..2 {
        for (lane, out) in transpose(&numbers.0[v]).into_iter().zip(&mut out[8 * v..]) {
            out[c] = lane;
        }
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn register(words: [u64; 8]) -> __m512i {
    let [a, b, c, d, e, f, g, h] = words.map(|word| word as i64);
    _mm512_setr_epi64(a, b, c, d, e, f, g, h)
}

/// The inverses of sixteen products, none of them 0: one scalar inversion.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn invert<F: Coefficients<N>, const N: usize>(factors: &Narrow<N>) -> Narrow<N> {
    // Lane i times lane i + 8: 1/a = b·1/(a·b), and scalar products for half the lanes only.
    let swapped = Narrow(factors.0.map(|Fe([low, high])| Fe([high, low])));
    let joined = invert_lanes::<F, N>(&factors.times(&swapped));
    joined.times(&swapped)
}

/// The inverses of lanes 0 to 7, which stand in lanes 8 to 15 once more.
#[target_feature(enable = "avx512f,avx512ifma")]
fn invert_lanes<F: Coefficients<N>, const N: usize>(factors: &Narrow<N>) -> Narrow<N> {
    const HALF: usize = LANES / 2;
    let mut reduced = factors.0;
    for fe in &mut reduced {
        *fe = fe.digits().reduce();
    }
    let lanes: [F; HALF] = core::array::from_fn(|lane| {
        F::join(core::array::from_fn(|c| {
            Fp::from_limbs_reduced(join(&reduced[c].lane(lane)))
        }))
    });
    let mut before = [F::ONE; HALF];
    let mut product = F::ONE;
    for (before, lane) in before.iter_mut().zip(&lanes) {
        *before = product;
        product = product.mul(lane);
    }
    let factor = F::join(core::array::from_fn(|c| {
        if c == 0 { AFTER_INVERSE } else { Fp::ZERO }
    }));
    let (mut inverse, mut columns) = (product.inverse(), [[[0u64; HALF]; LIMBS]; N]);
    for lane in (0..HALF).rev() {
        let inverted = inverse.mul(&before[lane]).mul(&factor).split();
        inverse = inverse.mul(&lanes[lane]);
        for (coefficient, column) in inverted.iter().zip(&mut columns) {
            for (limb, column) in split(coefficient.limbs()).into_iter().zip(column) {
                column[lane] = limb;
            }
        }
    }
    let mut out = [Fe::zero(); N];
    for (fe, column) in out.iter_mut().zip(&columns) {
        for j in 0..LIMBS {
            let limb = register(column[j]);
            (fe.0[0][j], fe.0[1][j]) = (limb, limb);
        }
    }
    Narrow(out)
}
