//! Both kernels for machines with AVX2 and BMI2 but no IFMA.
//!
//! Vectors do not win here: four field products in vectors of 25.5-bit limbs take 100 `vpmuludq` and as
//! many additions, where `mulx` takes 25 for one, and curve25519-dalek's AVX2 sums, measured beside
//! these in `alphorn bench broadcast`, are slower than the portable kernel. So these are the portable kernels
//! once more, compiled for `mulx`, which every CPU with AVX2 has: a few percent.
#![allow(unsafe_code)]

use crate::kernel::portable;
use crate::kernel::table::{Digits, Table};
use crate::point::Point;
use crate::row::Row;
use crate::scalar::Scalar;

/// Proof that this CPU has AVX2, BMI1 and BMI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(crate) fn detect() -> Option<Avx2> {
        let present = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        present.then_some(Avx2(()))
    }

    /// See [`super::Backend::accumulate`].
    pub(crate) fn accumulate(self, table: &Table, vectors: &[Digits], sums: &mut [Vec<Point>]) {
        // SAFETY: `self` exists only where `detect` found the instructions.
        unsafe { accumulate(table, vectors, sums) }
    }

    /// See [`super::Backend::combine_into`].
    pub(crate) fn combine(self, factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]) {
        // SAFETY: `self` exists only where `detect` found the instructions.
        unsafe { combine(factors, rows, out) }
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn accumulate(table: &Table, vectors: &[Digits], sums: &mut [Vec<Point>]) {
    portable::accumulate(table, vectors, sums);
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn combine(factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]) {
    portable::combine(factors, rows, out);
}
