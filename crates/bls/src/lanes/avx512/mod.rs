//! Sixteen lanes with AVX-512 IFMA.
//!
//! The lanes never refuse: what they accept they have checked themselves, and where a check fails, or an
//! exceptional case of a formula was met, the caller asks blst. So wrong arithmetic here could not
//! turn a point away, and a verdict "no" is always blst's.
#![allow(unsafe_code)]
// Limbs, lanes and coefficients of several operands are walked through by one index.
#![allow(clippy::needless_range_loop)]

mod bound;
mod curve;
mod element;
mod hash;
mod roots;
#[cfg(test)]
mod tests;

use super::Compressed;
use super::expand::WideInteger;
use crate::blst_ffi::curve::{Affine, G1Affine, G2Affine};
use crate::blst_ffi::field::{Fp, Fp2};
use crate::sums::avx512::convert::Coefficients;
use crate::sums::avx512::field::LANES;
use alphorn_exec::Avx512Ifma;
use element::Element;

/// Lanes that ask for the larger y.
fn larger(forms: &[Compressed; LANES]) -> u16 {
    let bit = |lane: usize| u16::from(forms[lane].larger) << lane;
    (0..LANES).fold(0, |lanes, lane| lanes | bit(lane))
}

fn points<F: Copy>(x: [F; LANES], y: [F; LANES]) -> [Affine<F>; LANES] {
    core::array::from_fn(|lane| Affine {
        x: x[lane],
        y: y[lane],
    })
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn decompress_g1_lanes(forms: &[Compressed; LANES]) -> ([G1Affine; LANES], u16) {
    let x = Element::from_integers(&[forms.map(|form| form.x[0])]);
    let (y, good) = roots::decompress_g1(&x, larger(forms));
    (points(x.leave::<Fp>(), y.leave()), good)
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn decompress_g2_lanes(forms: &[Compressed; LANES]) -> ([G2Affine; LANES], u16) {
    let x = Element::from_integers(&[0, 1].map(|c| forms.map(|form| form.x[c])));
    let (y, good) = roots::decompress_g2(&x, larger(forms));
    (points(x.leave::<Fp2>(), y.leave()), good)
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn coordinates<F: Coefficients<N>, const N: usize>(
    points: &[Affine<F>; LANES],
) -> (Element<N>, Element<N>) {
    let (x, y) = (points.map(|p| p.x), points.map(|p| p.y));
    (Element::enter(&x), Element::enter(&y))
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn in_g1_lanes(points: &[G1Affine; LANES]) -> u16 {
    let (x, y) = coordinates(points);
    curve::in_g1(&x, &y)
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn in_g2_lanes(points: &[G2Affine; LANES]) -> u16 {
    let (x, y) = coordinates(points);
    curve::in_g2(&x, &y)
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn hash_to_g2_lanes(integers: &[[WideInteger; 4]; LANES]) -> ([G2Affine; LANES], u16) {
    let coefficient = |i: usize| {
        let high = integers.map(|of_message| of_message[i].high);
        let low = integers.map(|of_message| of_message[i].low);
        Element::from_wide_integers(&high, &low)
    };
    let u = [0, 2].map(|i| Element::from_halves(&coefficient(i), &coefficient(i + 1)));
    let (x, y, good) = hash::map(&u);
    (points(x.leave::<Fp2>(), y.leave()), good)
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply_lanes<F: Coefficients<N>, const N: usize>(
    of: &[Affine<F>; LANES],
    weights: &[u128; LANES],
    bits: usize,
) -> ([Affine<F>; LANES], u16) {
    let (x, y) = coordinates(of);
    let multiple = curve::Jacobian::from_affine(&x, &y).vartime_multiply(weights, bits);
    let (x, y, finite) = multiple.affine::<F>();
    (points(x.leave::<F>(), y.leave()), finite)
}

/// weights[i] · points[i], and the lanes that are right: all if the points have prime order. Weights are
/// not 0 and have `bits` bits, an even number.
pub(super) fn vartime_multiply<F: Coefficients<N>, const N: usize>(
    _witness: Avx512Ifma,
    points: &[Affine<F>; LANES],
    weights: &[u128; LANES],
    bits: usize,
) -> ([Affine<F>; LANES], u16) {
    // SAFETY: the witness shows that the processor has these instructions.
    unsafe { multiply_lanes(points, weights, bits) }
}

/// Sixteen points of E(Fp) from their compressed forms, and the lanes that are right.
pub(super) fn decompress_g1(
    _witness: Avx512Ifma,
    forms: &[Compressed; LANES],
) -> ([G1Affine; LANES], u16) {
    // SAFETY: the witness shows that the processor has these instructions.
    unsafe { decompress_g1_lanes(forms) }
}

/// Sixteen points of E'(Fp2) from their compressed forms, and the lanes that are right.
pub(super) fn decompress_g2(
    _witness: Avx512Ifma,
    forms: &[Compressed; LANES],
) -> ([G2Affine; LANES], u16) {
    // SAFETY: the witness shows that the processor has these instructions.
    unsafe { decompress_g2_lanes(forms) }
}

/// Lanes whose point of E(Fp) is in G1; the others may be.
pub(super) fn in_g1(_witness: Avx512Ifma, points: &[G1Affine; LANES]) -> u16 {
    // SAFETY: the witness shows that the processor has these instructions.
    unsafe { in_g1_lanes(points) }
}

/// Lanes whose point of E'(Fp2) is in G2; the others may be.
pub(super) fn in_g2(_witness: Avx512Ifma, points: &[G2Affine; LANES]) -> u16 {
    // SAFETY: the witness shows that the processor has these instructions.
    unsafe { in_g2_lanes(points) }
}

/// The points of G2 behind the four integers of each of sixteen messages, and the lanes that are right.
pub(super) fn hash_to_g2(
    _witness: Avx512Ifma,
    integers: &[[WideInteger; 4]; LANES],
) -> ([G2Affine; LANES], u16) {
    // SAFETY: the witness shows that the processor has these instructions.
    unsafe { hash_to_g2_lanes(integers) }
}
