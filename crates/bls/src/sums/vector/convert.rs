//! Conversion between blst's elements and the kernel's, and the inversion done by blst.

use core::marker::PhantomData;

use super::Point;
use super::element::Narrow;
use crate::blst_ffi::curve::Affine;
use crate::blst_ffi::curve_field::CurveField;
use crate::blst_ffi::field::{Field, Fp, Fp2};
use crate::vector::montgomery::{ENTER, LEAVE, power_of_two};
use crate::vector::{DIGITS, Fe, LANES, LIMBS, Line, Multiplier, Routine, join, split};

/// A field whose elements are `N` coefficients of Fp.
pub(crate) trait Coefficients<const N: usize>: CurveField {
    /// Splits an element into its coefficients.
    fn split(&self) -> [Fp; N];
    /// Builds an element from its coefficients.
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

/// 2^448 mod p, read by blst as 2^64: takes the inverse of a·2^416 as computed by blst to a^-1·2^416.
const AFTER_INVERSE: Fp = Fp::from_limbs_reduced(power_of_two(448));

/// Converts elements from blst's form to the stored form of the kernel: canonical, R = 2^416, one line per
/// coefficient.
#[inline(always)]
fn enter<M: Multiplier, F: Coefficients<N>, const N: usize>(
    m: M,
    elements: &[F; LANES],
) -> [[Line; LANES]; N] {
    let mut out = [[Line::ZERO; LANES]; N];
    for (lane, element) in elements.iter().enumerate() {
        for (out, coefficient) in out.iter_mut().zip(element.split()) {
            out[lane] = Line(split(coefficient.limbs()));
        }
    }
    for lines in &mut out {
        *lines = convert(m, lines, &ENTER);
    }
    out
}

/// The reverse conversion.
#[inline(always)]
fn leave<M: Multiplier, F: Coefficients<N>, const N: usize>(
    m: M,
    stored: &[[Line; LANES]; N],
) -> [F; LANES] {
    let mut out = *stored;
    for lines in &mut out {
        *lines = convert(m, lines, &LEAVE);
    }
    elements(&out)
}

/// Builds elements from the canonical numbers of their coefficients.
fn elements<F: Coefficients<N>, const N: usize>(lines: &[[Line; LANES]; N]) -> [F; LANES] {
    core::array::from_fn(|lane| {
        F::join(core::array::from_fn(|c| {
            Fp::from_limbs_reduced(join(&lines[c][lane].0))
        }))
    })
}

/// Multiplies sixteen numbers by a constant and reduces them.
#[inline(always)]
fn convert<M: Multiplier>(m: M, lines: &[Line; LANES], factor: &[u64; LIMBS]) -> [Line; LANES] {
    let mut reduced = Fe::zero(m);
    let lanes = Fe::gather(m, &lines.each_ref());
    m.products::<1, DIGITS>([(&lanes, &Fe::broadcast(m, factor))], &mut reduced);
    reduced.reduce().scatter()
}

/// Converts blst points to stored form.
pub(super) struct Encode<'a, M, F, const N: usize>(pub(super) M, pub(super) &'a [Affine<F>; LANES]);

impl<M: Multiplier, F: Coefficients<N>, const N: usize> Routine for Encode<'_, M, F, N> {
    type Output = [Point<N>; LANES];

    #[inline(always)]
    fn run(self) -> [Point<N>; LANES] {
        let Encode(m, points) = self;
        let (mut x, mut y) = ([F::ZERO; LANES], [F::ZERO; LANES]);
        for lane in 0..LANES {
            (x[lane], y[lane]) = (points[lane].x, points[lane].y);
        }
        let (x, y) = (enter(m, &x), enter(m, &y));
        let mut out = [Point::IDENTITY; LANES];
        for lane in 0..LANES {
            out[lane] = Point::of_lane(&x, &y, lane);
        }
        out
    }
}

/// The reverse conversion.
pub(super) struct Decode<'a, M, F, const N: usize>(
    pub(super) M,
    pub(super) &'a [Point<N>; LANES],
    pub(super) PhantomData<F>,
);

impl<M: Multiplier, F: Coefficients<N>, const N: usize> Routine for Decode<'_, M, F, N> {
    type Output = [Affine<F>; LANES];

    #[inline(always)]
    fn run(self) -> [Affine<F>; LANES] {
        let Decode(m, points, _) = self;
        let (mut x, mut y) = ([[Line::ZERO; LANES]; N], [[Line::ZERO; LANES]; N]);
        for lane in 0..LANES {
            for c in 0..N {
                (x[c][lane], y[c][lane]) = (points[lane].x[c], points[lane].y[c]);
            }
        }
        let (x, y): ([F; LANES], [F; LANES]) = (leave(m, &x), leave(m, &y));
        let mut out = [Affine::INFINITY; LANES];
        for lane in 0..LANES {
            (out[lane].x, out[lane].y) = (x[lane], y[lane]);
        }
        out
    }
}

/// The inverses of sixteen products, none of them 0, with one scalar inversion.
///
/// Half of the lanes are multiplied by the other half: 1/a = b·1/(a·b), so few scalar products are needed.
#[inline(always)]
pub(super) fn invert<M: Multiplier, F: Coefficients<N>, const N: usize>(
    factors: &Narrow<M, N>,
) -> Narrow<M, N> {
    let mut swapped = *factors;
    for c in 0..N {
        for v in 0..M::REGISTERS {
            let other = (v + M::REGISTERS / 2) % M::REGISTERS;
            swapped.0[c].limbs[v] = factors.0[c].limbs[other];
        }
    }
    let joined = invert_lanes::<M, F, N>(&factors.times(&swapped));
    joined.times(&swapped)
}

/// The inverses of lanes 0 to 7, which are repeated in lanes 8 to 15.
#[inline(always)]
fn invert_lanes<M: Multiplier, F: Coefficients<N>, const N: usize>(
    factors: &Narrow<M, N>,
) -> Narrow<M, N> {
    let mut lines = [[Line::ZERO; LANES]; N];
    for c in 0..N {
        lines[c] = factors.0[c].digits().reduce().scatter();
    }
    invert_lines::<F, N>(&mut lines);
    let mut out = *factors;
    for c in 0..N {
        out.0[c] = Fe::gather(factors.0[c].m, &lines[c].each_ref());
    }
    out
}

/// The same with canonical numbers, by blst.
#[inline(never)]
fn invert_lines<F: Coefficients<N>, const N: usize>(lines: &mut [[Line; LANES]; N]) {
    const HALF: usize = LANES / 2;
    let lanes = elements::<F, N>(lines);
    let mut before = [F::ONE; HALF];
    let mut product = F::ONE;
    for (before, lane) in before.iter_mut().zip(&lanes) {
        *before = product;
        product = product.mul(lane);
    }
    let factor = F::join(core::array::from_fn(|c| {
        if c == 0 { AFTER_INVERSE } else { Fp::ZERO }
    }));
    let mut inverse = product.inverse();
    for lane in (0..HALF).rev() {
        let inverted = inverse.mul(&before[lane]).mul(&factor).split();
        inverse = inverse.mul(&lanes[lane]);
        for (coefficient, lines) in inverted.iter().zip(lines.iter_mut()) {
            let line = Line(split(coefficient.limbs()));
            (lines[lane], lines[lane + HALF]) = (line, line);
        }
    }
}
