//! What blst does with points of either curve, by the field of their coordinates.

use super::curve::{Affine, G1Affine, G2Affine};
use super::field::{Field, Fp, Fp2};
use super::points::{g1, g2};

impl G1Affine {
    /// The generator of G1.
    #[cfg(test)]
    pub(crate) fn generator() -> G1Affine {
        g1::generator()
    }
}

impl G2Affine {
    /// The generator of G2.
    #[cfg(test)]
    pub(crate) fn generator() -> G2Affine {
        g2::generator()
    }
}

/// A field whose curve blst supports: the one-point routines that bulk sums are compared with.
pub trait CurveField: Field {
    /// The sum by one mixed addition per point.
    fn sum_naive(points: &[Affine<Self>]) -> Affine<Self>;
    /// The sum by blst's bulk addition.
    fn sum_blst(points: &[&Affine<Self>]) -> Affine<Self>;
    /// Returns whether one point lies in the subgroup of prime order; true for the identity.
    fn in_group(point: &Affine<Self>) -> bool;
    /// `scalar * point`, 32 bytes little-endian; the time depends on no secret.
    fn multiply(point: &Affine<Self>, scalar: &[u8; 32]) -> Affine<Self>;
    /// `sum scalars[i] * points[i]` by blst's buckets, with `bits` / 8 little-endian bytes per scalar.
    fn vartime_msm(points: &[Affine<Self>], scalars: &[u8], bits: usize) -> Affine<Self>;
    /// `sum 2^j * points[j]`.
    fn sum_of_doubled(points: &[Affine<Self>]) -> Affine<Self>;
}

impl CurveField for Fp {
    fn sum_naive(points: &[G1Affine]) -> G1Affine {
        g1::sum_naive(points)
    }

    fn sum_blst(points: &[&G1Affine]) -> G1Affine {
        g1::sum_bulk(points)
    }

    fn in_group(point: &G1Affine) -> bool {
        g1::in_group(point)
    }

    fn multiply(point: &G1Affine, scalar: &[u8; 32]) -> G1Affine {
        g1::mul(point, scalar, 256)
    }

    fn vartime_msm(points: &[G1Affine], scalars: &[u8], bits: usize) -> G1Affine {
        g1::vartime_msm(points, scalars, bits)
    }

    fn sum_of_doubled(points: &[G1Affine]) -> G1Affine {
        g1::sum_of_doubled(points)
    }
}

impl CurveField for Fp2 {
    fn sum_naive(points: &[G2Affine]) -> G2Affine {
        g2::sum_naive(points)
    }

    fn sum_blst(points: &[&G2Affine]) -> G2Affine {
        g2::sum_bulk(points)
    }

    fn in_group(point: &G2Affine) -> bool {
        g2::in_group(point)
    }

    fn multiply(point: &G2Affine, scalar: &[u8; 32]) -> G2Affine {
        g2::mul(point, scalar, 256)
    }

    fn vartime_msm(points: &[G2Affine], scalars: &[u8], bits: usize) -> G2Affine {
        g2::vartime_msm(points, scalars, bits)
    }

    fn sum_of_doubled(points: &[G2Affine]) -> G2Affine {
        g2::sum_of_doubled(points)
    }
}
