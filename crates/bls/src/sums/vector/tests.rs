//! Additions at the bounds of every level, with every multiplier.

use super::convert::invert;
use super::element::{Level, Narrow, Temporaries, Wide};
use super::*;
use crate::CurveField;
use crate::blst_ffi::field::{Fp, Fp2};
use crate::vector::tests::{load, with_each_multiplier};
use crate::vector::{LIMBS, Routine, multiple_of_p};

fn check_way_in_and_out<M: Multiplier>(m: M) {
    let kernel = VectorSums::<M, Fp, 1>::new(m);
    let generator = Affine::<Fp>::generator();
    let mut points = vec![Affine::INFINITY, generator, generator.neg()];
    for i in 1..37 {
        points.push(Fp::sum_naive(&[points[i], generator, generator]));
    }
    let (mut stored, mut out) = (Vec::new(), Vec::new());
    kernel.encode(&points, &mut stored);
    kernel.decode(&stored, &mut out);
    assert_eq!(out, points);
    let infinite = |i: usize| VectorSums::<M, Fp, 1>::is_infinity(&stored[i]);
    assert!(infinite(0) && !infinite(1));
}

#[test]
fn points_survive_the_way_in_and_out() {
    with_each_multiplier!(m => check_way_in_and_out(m));
}

struct ExtremeAddition<'a, M, F, const N: usize> {
    m: M,
    stored: &'a [Point<N>],
    level: usize,
    field: PhantomData<F>,
}

impl<M: Multiplier, F: Coefficients<N>, const N: usize> Routine for ExtremeAddition<'_, M, F, N> {
    type Output = (Vec<Point<N>>, u16);

    #[inline(always)]
    fn run(self) -> Self::Output {
        let (m, level) = (self.m, self.level);
        let top = multiple_of_p((1 << (level + 2)) - 3);
        let raise = |coordinate: &dyn Fn(&Point<N>) -> [Line; N], points: &[Point<N>]| {
            let coefficient = |c: usize| {
                load(
                    m,
                    &core::array::from_fn(|lane| {
                        let Line(limbs) = coordinate(&points[lane])[c];
                        core::array::from_fn::<_, LIMBS, _>(|j| limbs[j] + top[j])
                    }),
                )
            };
            Wide(core::array::from_fn(coefficient)).carried()
        };
        let slot = |points: &[Point<N>]| Slot {
            x: raise(&|p| p.x, points),
            y: raise(&|p| p.y, points),
        };
        let (mut a, b) = (slot(&self.stored[..LANES]), slot(&self.stored[LANES..]));
        let bounds = Level::new(m, level);
        let one = Narrow::one(m);
        let mut pair = Pair::new(m);
        pair.d.set_difference(&b.x, &a.x, &bounds);
        pair.except(&a.y, &b.y, 0, &bounds);
        let mut product = one;
        product.set_product(&one, &pair.d, &bounds);
        let mut temporaries = Temporaries::new(m);
        let inverse = invert::<M, F, N>(&product);
        temporaries.step(&mut [inverse; 2], &mut false, &pair, &bounds);
        let infinite = temporaries.add(&mut a, &b, &pair, [0; 2], &bounds);
        let (x, y) = if level < 10 {
            (a.x.canonical(level + 1), a.y.canonical(level + 1))
        } else {
            // No piece of a segment reaches such levels, so a product by one reduces the number first.
            let small = |wide: &Wide<M, N>| {
                let number = Narrow(wide.carried().0).times(&one).0;
                Wide(number.map(|fe| fe.digits())).canonical(0)
            };
            (small(&a.x), small(&a.y))
        };
        let sums = (0..LANES).map(|lane| Point::of_lane(&x, &y, lane));
        (sums.collect(), infinite)
    }
}

/// One addition of sixteen pairs at each level, coordinates as large as the level allows: c + (B - 1)·p
/// for canonical c.
fn check_extremes<M: Multiplier, F: Coefficients<N>, const N: usize>(m: M, generator: Affine<F>) {
    // kG and lG for different k and l, and for equal and opposite ones in some lanes.
    let multiple = |k: usize| F::sum_naive(&vec![generator; k]);
    let points: [Affine<F>; 2 * LANES] = core::array::from_fn(|i| match i {
        0..LANES => multiple(i + 1),
        _ if i % 5 == 0 => multiple(i - LANES + 1),
        _ if i % 7 == 0 => multiple(i - LANES + 1).neg(),
        _ => multiple(3 * i),
    });
    let kernel = VectorSums::<M, F, N>::new(m);
    let mut stored = Vec::new();
    kernel.encode(&points, &mut stored);
    for level in 0..24 {
        let (sums, infinite) = m.run(ExtremeAddition {
            m,
            stored: &stored,
            level,
            field: PhantomData::<F>,
        });
        let mut affine = Vec::new();
        kernel.decode(&sums, &mut affine);
        for lane in 0..LANES {
            let expected = F::sum_naive(&[points[lane], points[LANES + lane]]);
            assert_eq!(infinite >> lane & 1 == 1, expected.is_infinity());
            if !expected.is_infinity() {
                assert_eq!(affine[lane], expected, "lane {lane}, level {level}");
            }
        }
    }
}

#[test]
fn additions_hold_at_the_bounds_of_every_level() {
    with_each_multiplier!(m => {
        check_extremes::<_, Fp, 1>(m, Affine::<Fp>::generator());
        check_extremes::<_, Fp2, 2>(m, Affine::<Fp2>::generator());
    });
}
