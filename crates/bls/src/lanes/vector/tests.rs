//! Compares elements, maps and points in lanes with blst's, including exceptional cases.

use super::*;
use crate::blst_ffi::curve_field::CurveField;
use crate::blst_ffi::field::Field;
use crate::blst_ffi::points::map_to_g2;
use crate::vector::tests::with_each_multiplier;

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

struct Arithmetic<'a, M>(M, &'a [Fp2; LANES], &'a [Fp2; LANES]);

impl<M: Multiplier> Routine for Arithmetic<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Arithmetic(m, a, b) = self;
        let (x, y) = (Element::enter(m, a), Element::enter(m, b));
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

        // Roots of squares are recovered up to sign, and so are those of -1 times a square, whose norm is the
        // same. This fails where the radicand is in Fp and its root is not.
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
}

#[test]
fn elements_behave_as_blst_s() {
    with_each_multiplier!(m => {
        m.run(Arithmetic(m, &elements(1), &elements(50)));
        m.run(Arithmetic(m, &elements(9), &elements(9)));
    });
}

struct Map<'a, M>(M, &'a [Fp2; LANES], &'a [Fp2; LANES]);

impl<M: Multiplier> Routine for Map<'_, M> {
    type Output = ([G2Affine; LANES], u16);

    #[inline(always)]
    fn run(self) -> ([G2Affine; LANES], u16) {
        let Map(m, u, v) = self;
        let (x, y, good) = hash::map(&[Element::enter(m, u), Element::enter(m, v)]);
        (points(x.leave::<Fp2>(), y.leave()), good)
    }
}

/// Lanes with u = 0, or with equal or opposite u, meet an exception and must report it.
fn check_maps<M: Multiplier>(m: M) {
    let (mut u, mut v) = (elements(1), elements(70));
    (u[3], u[4], u[5]) = (v[3], v[4].neg(), Fp2::ZERO);
    v[6] = Fp2::ZERO;
    let exceptional = |lane: usize| matches!(lane, 3..=6 | 13..=15);
    let (points, good) = m.run(Map(m, &u, &v));
    for lane in 0..LANES {
        assert_eq!(good >> lane & 1 == 0, exceptional(lane), "lane {lane}");
        if !exceptional(lane) {
            assert_eq!(points[lane], map_to_g2(&u[lane], &v[lane]), "lane {lane}");
        }
    }
    // Both cases of the map, each in both signs.
    for seed in 2..20 {
        let (u, v) = (elements(seed), elements(seed + 31));
        let (points, good) = m.run(Map(m, &u, &v));
        assert_eq!(good & 0x1fff, 0x1fff);
        for lane in 0..13 {
            assert_eq!(points[lane], map_to_g2(&u[lane], &v[lane]));
        }
    }
}

#[test]
fn maps_equal_blst_s_or_report_their_exception() {
    with_each_multiplier!(m => check_maps(m));
}

/// No point of the subgroup is left to blst as well, so that the lanes save the intended work.
fn check_groups<M: Multiplier>(m: M) {
    let (g1, g2) = (G1Affine::generator(), G2Affine::generator());
    let many = |k: usize| (Fp::sum_naive(&vec![g1; k]), Fp2::sum_naive(&vec![g2; k]));
    let points: [_; LANES] = core::array::from_fn(|i| many(i + 1));
    assert_eq!(m.run(InG1(m, &points.map(|(p, _)| p))), !0);
    assert_eq!(m.run(InG2(m, &points.map(|(_, q)| q))), !0);
}

#[test]
fn points_of_the_groups_are_found_inside() {
    with_each_multiplier!(m => check_groups(m));
}
