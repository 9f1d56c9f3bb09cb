//! Both kernels for machines with AVX2 and BMI2 but no IFMA.
//!
//! Vectors do not win here: four field products in vectors of 25.5-bit limbs take 100 `vpmuludq` and as
//! many additions, where `mulx` takes 25 for one, and curve25519-dalek's AVX2 sums, measured beside
//! these in `alphorn bench broadcast`, are slower than the portable kernel. So these are the portable kernels
//! once more, compiled for `mulx`, which every CPU with AVX2 has: a few percent.
#![allow(unsafe_code)]

use alphorn_exec::Avx2Bmi;

use crate::kernel::portable;
use crate::kernel::table::{Digits, Table};
use crate::point::Point;
use crate::row::Row;
use crate::scalar::Scalar;

/// See [`super::Dispatch::accumulate`].
pub(super) fn accumulate(_: Avx2Bmi, table: &Table, vectors: &[Digits], sums: &mut [Vec<Point>]) {
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn compiled(table: &Table, vectors: &[Digits], sums: &mut [Vec<Point>]) {
        portable::accumulate(table, vectors, sums);
    }
    // SAFETY: the witness shows that this processor has AVX2, BMI1 and BMI2, all that the portable
    // kernel is compiled for here.
    unsafe { compiled(table, vectors, sums) }
}

/// See [`super::Dispatch::combine_into`].
pub(super) fn combine(_: Avx2Bmi, factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]) {
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn compiled(factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]) {
        portable::combine(factors, rows, out);
    }
    // SAFETY: the witness shows that this processor has AVX2, BMI1 and BMI2, all that the portable
    // kernel is compiled for here.
    unsafe { compiled(factors, rows, out) }
}
