//! Compares the arithmetic of every multiplier with blst's, at ordinary and extreme representatives.

use super::*;
use crate::blst_ffi::field::{Field, Fp};

/// Runs the check with every multiplier that this processor has.
macro_rules! with_each_multiplier {
    ($m:ident => $body:expr) => {
        #[allow(unused_imports)]
        use $crate::vector::Vector as _;
        for backend in $crate::kernel::tests::vector_backends() {
            $crate::dispatch::with_multiplier!(backend, $m => $body, _ => {});
        }
    };
}
pub(crate) use with_each_multiplier;

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
    // Reading a small integer as it is yields it divided by 2^384; doubling 384 times corrects that.
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

pub(crate) fn load<M: Multiplier>(m: M, lanes: &[[u64; LIMBS]; LANES]) -> Fe<M> {
    let lines = lanes.map(Line);
    Fe::gather(m, &lines.each_ref())
}

fn lanes<M: Multiplier>(fe: &Fe<M>) -> [[u64; LIMBS]; LANES] {
    fe.scatter().map(|line| line.0)
}

pub(super) struct Products<M>(pub(super) M, pub(super) usize);

impl<M: Multiplier> Routine for Products<M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Products(m, rounds) = self;
        let mut random = Random(1);
        let r = (0..416).fold(Fp::ONE, |x, _| x.add(&x));
        for round in 0..rounds {
            let [mut a, mut b, c, d]: [[[u64; LIMBS]; LANES]; 4] =
                core::array::from_fn(|_| core::array::from_fn(|_| random.limbs()));
            if round == 0 {
                // Halves of products that lie between two integers, and the largest of all.
                (a[0], b[0]) = ([1 << 51; LIMBS], [1; LIMBS]);
                (a[1], b[1]) = ([1 << 51; LIMBS], [(1 << 51) + 1; LIMBS]);
                (a[2], b[2]) = ([1 << 26; LIMBS], [1 << 25; LIMBS]);
                (a[3], b[3]) = ([LIMB_MAX; LIMBS], [LIMB_MAX; LIMBS]);
                (a[4], b[4]) = ([0; LIMBS], [LIMB_MAX; LIMBS]);
            }
            let [a_fe, b_fe] = [load(m, &a), load(m, &b)];
            let [c_fe, d_fe] = [load(m, &c), load(m, &d)];
            let mut out = [Fe::zero(m); 4];
            m.products::<1, WIDE>([(&a_fe, &b_fe)], &mut out[0]);
            m.products::<1, DIGITS>([(&a_fe, &b_fe)], &mut out[1]);
            m.products::<2, WIDE>([(&a_fe, &b_fe), (&c_fe, &d_fe)], &mut out[2]);
            let (ab, cd) = ((&a_fe, &b_fe), (&c_fe, &d_fe));
            m.products::<6, WIDE>([ab, cd, ab, ab, cd, ab], &mut out[3]);
            let [wide, digits, both, six] = out.map(|fe| lanes(&fe));
            let (mut narrow, mut squared) = (Fe::zero(m), Fe::zero(m));
            let mut expected = Fe::zero(m);
            m.products::<1, NARROW>([(&a_fe, &b_fe)], &mut narrow);
            m.square::<DIGITS>(&a_fe, &mut squared);
            m.products::<1, DIGITS>([(&a_fe, &a_fe)], &mut expected);
            assert_eq!(lanes(&squared), lanes(&expected));
            assert_eq!(lanes(&narrow.digits()), lanes(&out[1].digits()));
            for lane in 0..LANES {
                let product = value(a[lane]).mul(&value(b[lane]));
                assert_eq!(value(wide[lane]).mul(&r), product, "lane {lane}");
                assert_eq!(value(digits[lane]).mul(&r), product);
                assert!(digits[lane][..7].iter().all(|limb| *limb <= LIMB_MAX));
                let sum = product.add(&value(c[lane]).mul(&value(d[lane])));
                assert_eq!(value(both[lane]).mul(&r), sum);
                let twice = product.add(&product);
                assert_eq!(value(six[lane]).mul(&r), sum.add(&sum).add(&twice));
                let magnitude = |limb: &u64| (*limb as i64).unsigned_abs();
                assert!(
                    both[lane].iter().all(|limb| magnitude(limb) < 1 << 58),
                    "K = 2: limbs below 2^58"
                );
                assert!(
                    six[lane].iter().all(|limb| magnitude(limb) < 6 << 57),
                    "K = 6: limbs below 6 · 2^57"
                );
            }
        }
    }
}

#[test]
fn products_equal_blst() {
    let rounds = if cfg!(feature = "soak") { 62_500 } else { 60 };
    with_each_multiplier!(m => m.run(Products(m, rounds)));
}

/// The digits are the same for every multiplier: all add the same multiple of p.
#[test]
fn digits_are_those_of_every_other_multiplier() {
    struct Digits<M>(M);
    impl<M: Multiplier> Routine for Digits<M> {
        type Output = Vec<[[u64; LIMBS]; LANES]>;

        #[inline(always)]
        fn run(self) -> Self::Output {
            let mut random = Random(2);
            let mut one = |_| {
                let operands: [[[u64; LIMBS]; LANES]; 2] =
                    core::array::from_fn(|_| core::array::from_fn(|_| random.limbs()));
                let [a, b] = operands.map(|lanes| load(self.0, &lanes));
                let mut out = Fe::zero(self.0);
                self.0.products::<1, DIGITS>([(&a, &b)], &mut out);
                lanes(&out)
            };
            (0..50).map(&mut one).collect()
        }
    }
    let mut found = Vec::new();
    with_each_multiplier!(m => found.push(m.run(Digits(m))));
    for pair in found.windows(2) {
        assert_eq!(pair[0], pair[1]);
    }
}

struct SmallOperations<M>(M);

impl<M: Multiplier> Routine for SmallOperations<M> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let m = self.0;
        let numbers: [[u64; LIMBS]; LANES] =
            core::array::from_fn(|i| core::array::from_fn(|j| (8 * i + j) as u64));
        let fe = load(m, &numbers);
        assert_eq!(lanes(&fe), numbers);
        assert_eq!(fe.lowest_has(8), 0b1010_1010_1010_1010);
        assert_eq!(fe.select(0x8421, &Fe::zero(m)).equals(&[0; LIMBS]), 0x8421);
        assert_eq!(fe.lowest_equal(&fe.select(0x7ffe, &fe.add(&fe))), 0x8001);
        // Carries of both signs.
        let signed = load(m, &[[5, u64::MAX - 2, 3, 0, 0, 1 << 60, 7, 9]; LANES]);
        let carried = [5, LIMB_MAX - 2, 2, 0, 0, 0, 7 + (1 << 8), 9];
        assert_eq!(lanes(&signed.carried())[7], carried);
        let negative = load(m, &[[1, 0, 0, 0, 0, 0, 0, u64::MAX]; LANES]);
        let positive = load(m, &[[u64::MAX, 0, 0, 0, 0, 0, 0, 1]; LANES]);
        let mixed = negative.select(0xf00f, &positive).carried();
        assert_eq!(mixed.negative(), 0x0ff0);
        // 0 and multiples of p are zero, their neighbours are not; reduction ends below p.
        let multiples = [0, 1, 2, 3, 1000, 1 << 20, (1 << 27) - 1, 1 << 27];
        let lane = |i: usize| {
            let mut limbs = multiple_of_p(multiples[i % 8]);
            limbs[0] ^= (i / 8) as u64;
            limbs
        };
        let numbers = load(m, &core::array::from_fn(lane));
        assert_eq!(numbers.is_zero_mod_p(), 0x00ff);
        let one_less = |limbs: [u64; LIMBS]| core::array::from_fn(|j| limbs[j] - u64::from(j == 0));
        let edges = [
            [0; LIMBS],
            one_less(P_LIMBS),
            P_LIMBS,
            one_less(multiple_of_p(2)),
        ];
        let reduced = load(m, &core::array::from_fn(|i| edges[i % 4])).reduce();
        for (i, limbs) in lanes(&reduced).into_iter().enumerate() {
            let expected = [edges[0], edges[1], [0; LIMBS], edges[1]][i % 4];
            assert_eq!(limbs, expected);
        }
        // Numbers next to multiples of p, up to the largest.
        let multiples = [0, 1, 2, 3, 100, 2047, MULTIPLES_MAX - 2, MULTIPLES_MAX - 1];
        for offset in [0, 1, LIMB_MAX] {
            let lane = |i: usize| {
                let mut limbs = multiple_of_p(multiples[i % 8]);
                limbs[i / 8] += offset;
                limbs
            };
            let reduced = load(m, &core::array::from_fn(lane)).canonical();
            for (i, limbs) in lanes(&reduced).into_iter().enumerate() {
                let mut expected = [0; LIMBS];
                expected[i / 8] = offset;
                assert_eq!(limbs, expected, "lane {i}");
            }
        }
    }
}

#[test]
fn transposes_masks_carries_zeros_and_reductions() {
    with_each_multiplier!(m => m.run(SmallOperations(m)));
}
