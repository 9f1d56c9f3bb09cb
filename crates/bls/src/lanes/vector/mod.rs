//! Sixteen lanes, with any multiplier.
//!
//! The lanes never reject. They check whatever they accept, and if a check fails, or a formula met an
//! exceptional case, the caller asks blst. So wrong arithmetic here cannot reject a point, and a negative
//! verdict is always blst's. Miller loops are the exception, because only another computation could check their
//! product: see [`miller`].
// Limbs, lanes and coefficients of several operands are traversed with one index.
#![allow(clippy::needless_range_loop)]

mod bound;
mod curve;
mod element;
mod hash;
pub(super) mod miller;
mod multiples;
mod roots;
#[cfg(test)]
mod tests;
pub(super) mod tower;

use super::Compressed;
use super::expand::WideInteger;
use crate::blst_ffi::curve::{Affine, G1Affine, G2Affine};
use crate::blst_ffi::field::{Fp, Fp2};
use crate::sums::vector::convert::Coefficients;
use crate::vector::{LANES, Multiplier, Routine};
use element::Element;

/// Lanes that request the larger y.
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

#[inline(always)]
fn coordinates<M: Multiplier, F: Coefficients<N>, const N: usize>(
    m: M,
    points: &[Affine<F>; LANES],
) -> (Element<M, N>, Element<M, N>) {
    let (mut x, mut y) = ([F::ZERO; LANES], [F::ZERO; LANES]);
    for lane in 0..LANES {
        (x[lane], y[lane]) = (points[lane].x, points[lane].y);
    }
    (Element::enter(m, &x), Element::enter(m, &y))
}

/// Sixteen points of E(Fp) from their compressed forms, and the lanes that are correct.
pub(super) struct DecompressG1<'a, M>(pub(super) M, pub(super) &'a [Compressed; LANES]);

impl<M: Multiplier> Routine for DecompressG1<'_, M> {
    type Output = ([G1Affine; LANES], u16);

    #[inline(always)]
    fn run(self) -> ([G1Affine; LANES], u16) {
        let DecompressG1(m, forms) = self;
        let mut x = [[[0; 6]; LANES]];
        for lane in 0..LANES {
            x[0][lane] = forms[lane].x[0];
        }
        let x = Element::from_integers(m, &x);
        let (y, good) = roots::decompress_g1(&x, larger(forms));
        (points(x.leave::<Fp>(), y.leave()), good)
    }
}

/// Sixteen points of E'(Fp2) from their compressed forms, and the lanes that are correct.
pub(super) struct DecompressG2<'a, M>(pub(super) M, pub(super) &'a [Compressed; LANES]);

impl<M: Multiplier> Routine for DecompressG2<'_, M> {
    type Output = ([G2Affine; LANES], u16);

    #[inline(always)]
    fn run(self) -> ([G2Affine; LANES], u16) {
        let DecompressG2(m, forms) = self;
        let mut x = [[[0; 6]; LANES]; 2];
        for lane in 0..LANES {
            for c in 0..2 {
                x[c][lane] = forms[lane].x[c];
            }
        }
        let x = Element::from_integers(m, &x);
        let (y, good) = roots::decompress_g2(&x, larger(forms));
        (points(x.leave::<Fp2>(), y.leave()), good)
    }
}

/// Lanes whose point of E(Fp) is in G1; other lanes may be in it too.
pub(super) struct InG1<'a, M>(pub(super) M, pub(super) &'a [G1Affine; LANES]);

impl<M: Multiplier> Routine for InG1<'_, M> {
    type Output = u16;

    #[inline(always)]
    fn run(self) -> u16 {
        let (x, y) = coordinates(self.0, self.1);
        curve::in_g1(&x, &y)
    }
}

/// Lanes whose point of E'(Fp2) is in G2; other lanes may be in it too.
pub(super) struct InG2<'a, M>(pub(super) M, pub(super) &'a [G2Affine; LANES]);

impl<M: Multiplier> Routine for InG2<'_, M> {
    type Output = u16;

    #[inline(always)]
    fn run(self) -> u16 {
        let (x, y) = coordinates(self.0, self.1);
        curve::in_g2(&x, &y)
    }
}

/// The points of G2 for the four integers of each of sixteen messages, and the lanes that are correct.
pub(super) struct HashToG2<'a, M>(pub(super) M, pub(super) &'a [[WideInteger; 4]; LANES]);

impl<M: Multiplier> Routine for HashToG2<'_, M> {
    type Output = ([G2Affine; LANES], u16);

    #[inline(always)]
    fn run(self) -> ([G2Affine; LANES], u16) {
        let HashToG2(m, integers) = self;
        let mut halves = [Element::zero(m); 4];
        for i in 0..4 {
            let (mut high, mut low) = ([[0; 6]; LANES], [[0; 6]; LANES]);
            for lane in 0..LANES {
                high[lane] = integers[lane][i].high;
                low[lane] = integers[lane][i].low;
            }
            halves[i] = Element::from_wide_integers(m, &high, &low);
        }
        let u = [
            Element::from_halves(&halves[0], &halves[1]),
            Element::from_halves(&halves[2], &halves[3]),
        ];
        let (x, y, good) = hash::map(&u);
        (points(x.leave::<Fp2>(), y.leave()), good)
    }
}

/// weights[i] · points[i], and the lanes that are correct: all if the points have prime order. Weights are not
/// 0 and have `bits` bits, an even number.
pub(super) struct Multiply<'a, M, F, const N: usize> {
    pub(super) m: M,
    pub(super) points: &'a [Affine<F>; LANES],
    pub(super) weights: &'a [u128; LANES],
    pub(super) bits: usize,
}

impl<M: Multiplier, F: Coefficients<N>, const N: usize> Routine for Multiply<'_, M, F, N> {
    type Output = ([Affine<F>; LANES], u16);

    #[inline(always)]
    fn run(self) -> ([Affine<F>; LANES], u16) {
        let (x, y) = coordinates(self.m, self.points);
        let multiple =
            curve::Jacobian::from_affine(&x, &y).vartime_multiply(self.weights, self.bits);
        let (x, y, finite) = multiple.affine::<F>();
        (points(x.leave::<F>(), y.leave()), finite)
    }
}

/// Multiples of sixteen points of G2 by scalars of 32 little-endian bytes, and the lanes that are correct: all
/// but those with a scalar above the group order, or with few and small digits.
pub(super) struct TimesScalars<'a, M> {
    pub(super) m: M,
    pub(super) points: &'a [G2Affine; LANES],
    pub(super) scalars: &'a [[u8; 32]; LANES],
}

impl<M: Multiplier> Routine for TimesScalars<'_, M> {
    type Output = ([G2Affine; LANES], u16);

    #[inline(always)]
    fn run(self) -> ([G2Affine; LANES], u16) {
        let (x, y) = coordinates(self.m, self.points);
        let digits = self.scalars.map(|scalar| multiples::digits(&scalar));
        let small = (0..LANES).fold(0, |lanes, lane| {
            lanes | u16::from(digits[lane].is_some()) << lane
        });
        // Lanes without digits are computed like the others, and the mask discards them.
        let digits = digits.map(Option::unwrap_or_default);
        let multiple = curve::Jacobian::from_affine(&x, &y).vartime_times_digits(&digits);
        let (x, y, finite) = multiple.affine::<Fp2>();
        (points(x.leave::<Fp2>(), y.leave()), finite & small)
    }
}
