//! The vector arithmetic against blst's, at ordinary and at extreme representatives.

use super::field::{
    DIGITS, Fe, LIMBS, NARROW, P_LIMBS, WIDE, multiple_of_p, products, square, transpose, words,
};
use super::*;
use crate::CurveField;
use crate::blst_ffi::field::Field;
use crate::kernel::tests::witness;

const LIMB_MAX: u64 = (1 << 52) - 1;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Limbs of a number below 2^416; every fourth has extreme limbs.
    fn limbs(&mut self) -> [u64; LIMBS] {
        let extreme = self.next() & 3 == 0;
        core::array::from_fn(|_| match (extreme, self.next()) {
            (true, limb) => [0, 1, LIMB_MAX - 1, LIMB_MAX][limb as usize % 4],
            (false, limb) => limb & LIMB_MAX,
        })
    }
}

/// Σ limb_j·2^(52j) mod p for signed limbs.
fn value(limbs: [u64; LIMBS]) -> Fp {
    // Reading a small integer as it is gives it divided by 2^384; doubling 384 times mends that.
    let small = |limb: u64| {
        (0..384).fold(Fp::from_limbs_reduced([limb, 0, 0, 0, 0, 0]), |x, _| {
            x.add(&x)
        })
    };
    limbs.iter().rev().fold(Fp::ZERO, |sum, limb| {
        let sum = (0..52).fold(sum, |x, _| x.add(&x));
        let magnitude = small((*limb as i64).unsigned_abs());
        if (*limb as i64) < 0 {
            sum.sub(&magnitude)
        } else {
            sum.add(&magnitude)
        }
    })
}

#[target_feature(enable = "avx512f")]
fn load(lanes: &[[u64; LIMBS]; LANES]) -> Fe {
    let mut fe = Fe::zero();
    for v in 0..2 {
        for j in 0..LIMBS {
            let [a, b, c, d, e, f, g, h] = core::array::from_fn(|i| lanes[8 * v + i][j] as i64);
            fe.0[v][j] = _mm512_setr_epi64(a, b, c, d, e, f, g, h);
        }
    }
    fe
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn check_products(rounds: usize) {
    let mut random = Random(1);
    let r = (0..416).fold(Fp::ONE, |x, _| x.add(&x));
    for _ in 0..rounds {
        let [a, b, c, d]: [[[u64; LIMBS]; LANES]; 4] =
            core::array::from_fn(|_| core::array::from_fn(|_| random.limbs()));
        let operands = [load(&a), load(&b), load(&c), load(&d)];
        let mut out = [Fe::zero(); 3];
        products::<1, WIDE>([(&operands[0], &operands[1])], &mut out[0]);
        products::<1, DIGITS>([(&operands[0], &operands[1])], &mut out[1]);
        let pairs = [(&operands[0], &operands[1]), (&operands[2], &operands[3])];
        products::<2, WIDE>(pairs, &mut out[2]);
        let (mut narrow, mut squared, mut expected) = (Fe::zero(), Fe::zero(), Fe::zero());
        products::<1, NARROW>([(&operands[0], &operands[1])], &mut narrow);
        square::<DIGITS>(&operands[0], &mut squared);
        products::<1, DIGITS>([(&operands[0], &operands[0])], &mut expected);
        for lane in 0..LANES {
            let product = value(a[lane]).mul(&value(b[lane]));
            assert_eq!(value(out[0].lane(lane)).mul(&r), product);
            assert_eq!(value(out[1].lane(lane)).mul(&r), product);
            assert!(out[1].lane(lane)[..7].iter().all(|limb| *limb <= LIMB_MAX));
            assert_eq!(narrow.digits().lane(lane), out[1].digits().lane(lane));
            assert_eq!(squared.lane(lane), expected.lane(lane));
            let both = product.add(&value(c[lane]).mul(&value(d[lane])));
            assert_eq!(value(out[2].lane(lane)).mul(&r), both);
            assert!(
                out[2].lane(lane).iter().all(|limb| *limb < 1 << 58),
                "K = 2: limbs below 2^58"
            );
        }
    }
}

#[test]
fn products_equal_blst() {
    if witness().is_some() {
        // SAFETY: the witness shows that the processor has these instructions.
        unsafe { check_products(if cfg!(feature = "soak") { 62_500 } else { 60 }) };
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn check_small_operations() {
    let rows: [__m512i; 8] = core::array::from_fn(|i| {
        let [a, b, c, d, e, f, g, h] = core::array::from_fn(|j| (8 * i + j) as i64);
        _mm512_setr_epi64(a, b, c, d, e, f, g, h)
    });
    for (j, column) in transpose(&rows).into_iter().enumerate() {
        assert_eq!(words(column), core::array::from_fn(|i| (8 * i + j) as u64));
    }
    // 0 and multiples of p are zero, their neighbours are not; reduction ends below p.
    let lane = |i: usize| match i {
        0..8 => multiple_of_p([0, 1, 2, 3, 1000, 1 << 20, (1 << 27) - 1, 1 << 27][i]),
        _ => {
            let mut limbs =
                multiple_of_p([0, 1, 2, 3, 1000, 1 << 20, (1 << 27) - 1, 1 << 27][i - 8]);
            limbs[0] ^= 1;
            limbs
        }
    };
    let numbers = load(&core::array::from_fn(lane));
    assert_eq!(numbers.is_zero_mod_p(), 0x00ff);
    let one_less = |limbs: [u64; LIMBS]| core::array::from_fn(|j| limbs[j] - u64::from(j == 0));
    let edges = [
        [0; LIMBS],
        one_less(P_LIMBS),
        P_LIMBS,
        one_less(multiple_of_p(2)),
    ];
    let reduced = load(&core::array::from_fn(|i| edges[i % 4])).reduce();
    for i in 0..LANES {
        let expected = [edges[0], edges[1], [0; LIMBS], edges[1]][i % 4];
        assert_eq!(reduced.lane(i), expected);
    }
}

#[test]
fn transposes_zeros_and_reductions() {
    if witness().is_some() {
        // SAFETY: the witness shows that the processor has these instructions.
        unsafe { check_small_operations() };
    }
}

#[test]
fn points_survive_the_way_in_and_out() {
    let Some(witness) = witness() else { return };
    let kernel = Avx512G1::new(witness);
    let generator = Affine::<Fp>::generator();
    let mut points = vec![Affine::INFINITY, generator, generator.neg()];
    for i in 1..37 {
        points.push(Fp::sum_naive(&[points[i], generator, generator]));
    }
    let (mut stored, mut out) = (Vec::new(), Vec::new());
    kernel.encode(&points, &mut stored);
    kernel.decode(&stored, &mut out);
    assert_eq!(out, points);
    assert!(Avx512G1::is_infinity(&stored[0]) && !Avx512G1::is_infinity(&stored[1]));
}

/// One addition of sixteen pairs at `level`, coordinates as large as the level allows: c + (B - 1)·p
/// for canonical c.
#[target_feature(enable = "avx512f,avx512ifma")]
fn check_extreme_addition<F: Coefficients<N>, const N: usize>(
    kernel: Avx512<F, N>,
    points: &[Affine<F>; 2 * LANES],
    level: usize,
) {
    let mut stored = Vec::new();
    kernel.encode(points, &mut stored);
    let top = multiple_of_p((1 << (level + 2)) - 3);
    let raise = |coordinate: &dyn Fn(&Point<N>) -> [__m512i; N], points: &[Point<N>]| {
        let coefficient = |c: usize| {
            load(&core::array::from_fn(|lane| {
                let limbs = words(coordinate(&points[lane])[c]);
                core::array::from_fn(|j| limbs[j] + top[j])
            }))
        };
        Wide(core::array::from_fn(coefficient)).carried()
    };
    let slot = |points: &[Point<N>]| Slot {
        x: raise(&|p| p.x, points),
        y: raise(&|p| p.y, points),
    };
    let (mut a, b) = (slot(&stored[..LANES]), slot(&stored[LANES..]));
    let bounds = Level::new(level);
    let one = Narrow::one();
    let mut pair = Pair {
        d: one,
        before: one,
        doubled: 0,
        opposite: 0,
    };
    pair.d.set_difference(&b.x, &a.x, &bounds);
    pair.except(&a.y, &b.y, 0, &bounds);
    let mut product = one;
    product.set_product(&one, &pair.d, &bounds);
    let mut temporaries = Temporaries::new();
    let inverse = invert::<F, N>(&product);
    temporaries.step(&mut [inverse; 2], &mut false, &pair, &bounds);
    let infinite = temporaries.add(&mut a, &b, &pair, (0, 0), &bounds);
    let (x, y) = if level < 10 {
        (a.x.canonical(level + 1), a.y.canonical(level + 1))
    } else {
        // No piece of a segment reaches such levels: a product by one brings the number down first.
        let small = |wide: &Wide<N>| {
            let number = Narrow(wide.carried().0).times(&one).0;
            Wide(number.map(|fe| fe.digits())).canonical(0)
        };
        (small(&a.x), small(&a.y))
    };
    let sums: Vec<Point<N>> = x.into_iter().zip(y).map(|(x, y)| Point { x, y }).collect();
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

fn check_extremes<F: Coefficients<N>, const N: usize>(kernel: Avx512<F, N>, generator: Affine<F>) {
    // kG and lG for different k and l, and for equal and opposite ones in some lanes.
    let multiple = |k: usize| F::sum_naive(&vec![generator; k]);
    let points: [Affine<F>; 2 * LANES] = core::array::from_fn(|i| match i {
        0..LANES => multiple(i + 1),
        _ if i % 5 == 0 => multiple(i - LANES + 1),
        _ if i % 7 == 0 => multiple(i - LANES + 1).neg(),
        _ => multiple(3 * i),
    });
    for level in 0..24 {
        // SAFETY: a kernel holds the witness that the processor has these instructions.
        unsafe { check_extreme_addition(kernel, &points, level) };
    }
}

#[test]
fn additions_hold_at_the_bounds_of_every_level() {
    if let Some(witness) = witness() {
        check_extremes(Avx512G1::new(witness), Affine::<Fp>::generator());
        check_extremes(Avx512G2::new(witness), Affine::<Fp2>::generator());
    }
}
