//! The vector arithmetic against blst's.

use super::*;
use crate::blst_ffi::field::Field;
use crate::kernel::{Backend, Level as KernelLevel};

fn witness() -> Option<Avx512Witness> {
    match Backend::avx512().map(Backend::level) {
        Some(KernelLevel::Avx512(witness)) => Some(witness),
        _ => {
            println!("skipped: no avx512ifma");
            None
        }
    }
}

#[test]
fn points_survive_the_way_in_and_out() {
    let Some(witness) = witness() else { return };
    let kernel = Avx512G1::new(witness);
    let generator = Affine::<Fp>::generator();
    let mut points = vec![Affine::INFINITY, generator, generator.neg()];
    for i in 1..37 {
        let sum = <Fp as crate::CurveField>::sum_naive(&[points[i], generator, generator]);
        points.push(sum);
    }
    let (mut stored, mut out) = (Vec::new(), Vec::new());
    kernel.encode(&points, &mut stored);
    kernel.decode(&stored, &mut out);
    assert_eq!(out, points);
    assert!(Avx512G1::is_infinity(&stored[0]) && !Avx512G1::is_infinity(&stored[1]));
    let _ = Fp::ONE;
}
