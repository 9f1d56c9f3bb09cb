//! Elements, maps and points in lanes against blst's, exceptional cases included.

use blst::{blst_fp2, blst_map_to_g2, blst_p2, blst_p2_affine, blst_p2_to_affine};

use super::*;
use crate::blst_ffi::curve::CurveField;
use crate::blst_ffi::field::Field;
use crate::blst_ffi::points::from_raw_g2;
use crate::kernel::tests::witness;

/// Unrelated elements, and after them 0, 1 and -1.
fn elements(seed: u64) -> [Fp2; LANES] {
    let power = |n: u64| (0..n).fold(Fp::ONE, |x, _| x.add(&x)).inverse();
    core::array::from_fn(|lane| match lane {
        13 => Fp2::ZERO,
        14 => Fp2::ONE,
        15 => Fp2::ONE.neg(),
        _ => {
            let base = Fp2::new(
                power(seed + lane as u64),
                power(3 * seed + 100 + lane as u64),
            );
            base.mul(&base).mul(&base)
        }
    })
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn check_arithmetic(a: &[Fp2; LANES], b: &[Fp2; LANES]) {
    let (x, y) = (Element::enter(a), Element::enter(b));
    let zip = |f: &dyn Fn(&Fp2, &Fp2) -> Fp2| -> [Fp2; LANES] {
        core::array::from_fn(|lane| f(&a[lane], &b[lane]))
    };
    assert_eq!(x.leave::<Fp2>(), *a);
    assert_eq!(x.mul(&y).carry().leave::<Fp2>(), zip(&|a, b| a.mul(b)));
    assert_eq!(x.square().carry().leave::<Fp2>(), zip(&|a, _| a.square()));
    assert_eq!(x.add(&y).carry().leave::<Fp2>(), zip(&|a, b| a.add(b)));
    assert_eq!(x.sub::<2>(&y).carry().leave::<Fp2>(), zip(&|a, b| a.sub(b)));
    assert_eq!(x.neg::<2>().leave::<Fp2>(), zip(&|a, _| a.neg()));
    let conjugate = |a: &Fp2, _: &Fp2| {
        let [c0, c1] = a.coefficients();
        Fp2::new(c0, c1.neg())
    };
    assert_eq!(x.conjugate::<2>().leave::<Fp2>(), zip(&conjugate));
    let lanes = |f: &dyn Fn(usize) -> bool| (0..LANES).fold(0, |m, i| m | u16::from(f(i)) << i);
    assert_eq!(x.is_zero(), lanes(&|i| a[i].is_zero()));
    assert_eq!(x.is_one(), lanes(&|i| a[i] == Fp2::ONE));
    assert_eq!(x.equals(&y), lanes(&|i| a[i] == b[i]));

    // Roots of squares come back up to the sign; so do those of -1 times a square, whose norm is the
    // same. Not so where the radicand is in Fp and its root is not.
    for radicand in [x.square().carry(), x.square().carry().neg::<4>()] {
        let norm = radicand.norm();
        let norm_root = norm.inverse_root().mul(&norm).carry();
        let root = radicand.root(&norm_root).leave::<Fp2>();
        for (root, radicand) in root.iter().zip(radicand.leave::<Fp2>()) {
            let [_, c1] = radicand.coefficients();
            assert!(root.square() == radicand || c1.is_zero());
        }
    }
}

#[test]
fn elements_behave_as_blst_s() {
    if witness().is_some() {
        // SAFETY: the witness shows that the processor has these instructions.
        unsafe {
            check_arithmetic(&elements(1), &elements(50));
            check_arithmetic(&elements(9), &elements(9));
        }
    }
}

fn blst_map(u: &Fp2, v: &Fp2) -> G2Affine {
    let raw = |u: &Fp2| blst_fp2 {
        fp: u.coefficients().map(|c| blst::blst_fp { l: *c.limbs() }),
    };
    let (mut point, mut affine) = (blst_p2::default(), blst_p2_affine::default());
    // SAFETY: all pointers are to initialised values of the named types.
    unsafe {
        blst_map_to_g2(&mut point, &raw(u), &raw(v));
        blst_p2_to_affine(&mut affine, &point);
    }
    from_raw_g2(affine)
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn map_lanes(u: &[Fp2; LANES], v: &[Fp2; LANES]) -> ([G2Affine; LANES], u16) {
    let (x, y, good) = hash::map(&[Element::enter(u), Element::enter(v)]);
    (points(x.leave::<Fp2>(), y.leave()), good)
}

/// Lanes with u = 0, or with equal or opposite u, meet an exception; they must say so.
#[test]
fn maps_equal_blst_s_or_report_their_exception() {
    if witness().is_none() {
        return;
    }
    let (mut u, mut v) = (elements(1), elements(70));
    (u[3], u[4], u[5]) = (v[3], v[4].neg(), Fp2::ZERO);
    v[6] = Fp2::ZERO;
    let exceptional = |lane: usize| matches!(lane, 3..=6 | 13..=15);
    // SAFETY: the witness shows that the processor has these instructions.
    let (points, good) = unsafe { map_lanes(&u, &v) };
    for lane in 0..LANES {
        assert_eq!(good >> lane & 1 == 0, exceptional(lane), "lane {lane}");
        if !exceptional(lane) {
            assert_eq!(points[lane], blst_map(&u[lane], &v[lane]), "lane {lane}");
        }
    }
    // Both cases of the map, each in both signs.
    for seed in 2..20 {
        let (u, v) = (elements(seed), elements(seed + 31));
        // SAFETY: as above.
        let (points, good) = unsafe { map_lanes(&u, &v) };
        assert_eq!(good & 0x1fff, 0x1fff);
        for lane in 0..13 {
            assert_eq!(points[lane], blst_map(&u[lane], &v[lane]));
        }
    }
}

/// No point of the subgroup is asked about twice, so that the lanes save what they should.
#[test]
fn points_of_the_groups_are_found_inside() {
    let Some(witness) = witness() else { return };
    let (g1, g2) = (G1Affine::generator(), G2Affine::generator());
    let many = |k: usize| (Fp::sum_naive(&vec![g1; k]), Fp2::sum_naive(&vec![g2; k]));
    let points: [_; LANES] = core::array::from_fn(|i| many(i + 1));
    assert_eq!(in_g1(witness, &points.map(|(p, _)| p)), !0);
    assert_eq!(in_g2(witness, &points.map(|(_, q)| q)), !0);
}
