//! Subgroup checks of many points at once.
//!
//! Let H be the prime-order subgroup of the curve group E, and let some of the points lie outside H.
//! A sum over a random subset of the points lies outside H with probability at least 1/2: for a bad
//! point P and any choice for the others, at most one of "with P" and "without P" lies in H, whatever
//! the cofactor. 64 independent subsets miss with probability at most 2^-64, 128 with 2^-128: as many
//! are taken as the weights of the batch have bits, so that a verdict which must hold without a secret
//! does not rest on fewer. Their sums are columns of random bits, which the digit tree of the key sums
//! adds at some eight additions per point and 64 subsets. Its additions hold on the whole of E.

use core::ops::Range;

use alphorn_exec::Backend;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::blst_ffi::curve::Affine;
use crate::kernel::with_multiplier;
use crate::lanes::{LaneField, outside_group};
use crate::rlc::RlcBits;
use crate::sums::segments::SumKernel;
use crate::sums::tree::Tree;
use crate::sums::{Costs, KernelField, Portable, random_groups};
use crate::weighted::column_sums;

/// Random subsets whose sums share additions.
const SUBSETS: usize = 64;
/// Up to this many points per 64 subsets are checked singly: a test costs 64 single checks and the
/// sums.
const SINGLE_MAX: usize = 160;
/// Points of one test, so that its buffers stay small.
const BLOCK: usize = 1 << 15;

/// Positions of the points that are not in the prime-order subgroup, in increasing order.
///
/// All points are on the curve; the identity is in the subgroup. `seed` must be unpredictable to
/// whoever chose the points. A point outside is missed with probability at most 2^-64 per test, and
/// one test is made per 2^15 points and per halving of a range with such a point; no point of the
/// subgroup is ever named.
// The kernels are nobody else's business.
#[allow(private_bounds)]
pub fn outside_subgroup<F: KernelField + LaneField>(
    backend: Backend,
    points: &[Affine<F>],
    seed: &[u8; 32],
) -> Vec<usize> {
    outside_subgroup_with(backend, points, seed, RlcBits::Bits64)
}

/// As [`outside_subgroup`] with an error of 2^-bits; where the seed is a public function of the
/// points, so that their maker can try many, this takes 128 bits.
pub(crate) fn outside_subgroup_with<F: KernelField + LaneField>(
    backend: Backend,
    points: &[Affine<F>],
    seed: &[u8; 32],
    bits: RlcBits,
) -> Vec<usize> {
    with_multiplier!(
        backend,
        m => Search::new(backend, F::vector(m), points, seed, bits).run(),
        _ => Search::new(backend, Portable::<F>::default(), points, seed, bits).run(),
    )
}

struct Search<'a, K: SumKernel> {
    backend: Backend,
    kernel: K,
    points: &'a [Affine<K::Field>],
    stored: Vec<K::Point>,
    random: ChaCha20Rng,
    /// Sixty-fours of subsets in a test.
    rounds: usize,
    tree: Tree<K>,
    outside: Vec<usize>,
}

impl<'a, K: SumKernel<Field: LaneField>> Search<'a, K> {
    fn new(
        backend: Backend,
        kernel: K,
        points: &'a [Affine<K::Field>],
        seed: &[u8; 32],
        bits: RlcBits,
    ) -> Self {
        let rounds = bits.bits() / SUBSETS;
        let mut stored = Vec::new();
        if points.len() > rounds * SINGLE_MAX {
            kernel.encode(points, &mut stored);
        }
        let random = ChaCha20Rng::from_seed(*seed);
        Search {
            backend,
            kernel,
            points,
            stored,
            random,
            rounds,
            tree: Tree::default(),
            outside: Vec::new(),
        }
    }

    fn run(mut self) -> Vec<usize> {
        let mut start = 0;
        while start < self.points.len() {
            let end = self.points.len().min(start + BLOCK);
            self.search(start..end);
            start = end;
        }
        self.outside
    }

    /// Tests a range; if some point is outside, both halves. Left first, so the positions come in
    /// order.
    fn search(&mut self, range: Range<usize>) {
        if range.len() <= self.rounds * SINGLE_MAX {
            let outside = outside_group(self.backend, &self.points[range.clone()]);
            self.outside
                .extend(outside.into_iter().map(|i| range.start + i));
        } else if !outside_group(self.backend, &self.subset_sums(range.clone())).is_empty() {
            let middle = range.start + range.len() / 2;
            self.search(range.start..middle);
            self.search(middle..range.end);
        }
    }

    /// The sums over as many random subsets as the test has bits.
    fn subset_sums(&mut self, range: Range<usize>) -> Vec<Affine<K::Field>> {
        let Self {
            kernel,
            points,
            stored,
            random,
            rounds,
            tree,
            ..
        } = self;
        let groups = random_groups(SUBSETS, range.len(), &Costs::default());
        let columns: Vec<Range<usize>> = (0..*rounds).flat_map(|_| groups.clone()).collect();
        let (mut bits, mut left) = (0u64, 0);
        let draw = |_, columns: &Range<usize>| {
            let width = columns.len();
            if left < width {
                (bits, left) = (random.next_u64(), 64);
            }
            let value = (bits & ((1 << width) - 1)) as u16;
            (bits, left) = (bits >> width, left - width);
            value
        };
        let finite = range.filter(|i| !points[*i].is_infinity());
        column_sums(*kernel, stored, tree, &columns, finite, draw)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::blst_ffi::curve::CurveField;
    use crate::blst_ffi::curve::{G1Affine, G2Affine};
    use crate::blst_ffi::field::{Field, Fp, Fp2};
    use crate::blst_ffi::points::{g1, g2};
    use crate::kernel::KERNELS;

    /// #E'(Fp2) / 13², big-endian: h2·r / 169 with h2 of the draft "Pairing-Friendly Curves". The part
    /// of the group that 13 divides is a product of two cyclic groups of order 13.
    const ORDER_OVER_169: &str = "04005449cda731a7136c440a0c65b728ba1c1fa6b6708356f3b9bdc84396cab33907d71557a7d336\
        77f5d45f7cedb8cfdac10ff1fc5b48d6461e907737d78e96568f2d18c750b4b3ca5c33c3fd8ff8a7\
        0629888281914529f4e3380941cfdd";

    /// The point times (order of the curve group) / 169: of order 13, or the identity.
    pub(crate) fn times_order_over_169(point: &G2Affine) -> G2Affine {
        let mut sum = G2Affine::INFINITY;
        for digit in ORDER_OVER_169.chars() {
            let digit = digit.to_digit(16).expect("a hexadecimal digit");
            for bit in (0..4).rev() {
                sum = Fp2::sum_naive(&[sum, sum]);
                if digit >> bit & 1 == 1 {
                    sum = Fp2::sum_naive(&[sum, *point]);
                }
            }
        }
        sum
    }

    /// A point of order 13 on E'(Fp2).
    pub(crate) fn point_of_order_13() -> G2Affine {
        let found = (1..=u8::MAX).find_map(|x| {
            let mut bytes = [0; g2::COMPRESSED_BYTES];
            (bytes[0], bytes[95]) = (0x80, x);
            let point = times_order_over_169(&g2::decompress(&bytes).ok()?);
            (!point.is_infinity()).then_some(point)
        });
        found.expect("168 of 169 points have a part of order 13")
    }

    fn many<F: KernelField + LaneField>(generator: &Affine<F>, count: usize) -> Vec<Affine<F>> {
        let mut out = vec![*generator];
        while out.len() < count {
            out.push(F::sum_naive(&[out[out.len() - 1], *generator]));
        }
        out
    }

    fn check<F: KernelField + LaneField>(good: &[Affine<F>], torsion: &Affine<F>) {
        assert!(!F::in_group(torsion));
        for backend in KERNELS.available() {
            let run =
                |points: &[Affine<F>], seed: u8| outside_subgroup(backend, points, &[seed; 32]);
            assert!(run(good, 1).is_empty());
            assert!(run(&[], 1).is_empty());
            for (seed, bad) in [vec![0], vec![good.len() - 1], vec![3, 4, 200, 400]]
                .iter()
                .enumerate()
            {
                let mut points = good.to_vec();
                points[7] = Affine::INFINITY;
                for i in bad {
                    points[*i] = F::sum_naive(&[points[*i], *torsion]);
                }
                assert_eq!(run(&points, seed as u8), *bad, "{backend}");
            }
            let all_bad: Vec<_> = good.iter().map(|p| F::sum_naive(&[*p, *torsion])).collect();
            assert_eq!(run(&all_bad, 9), (0..good.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn points_of_order_3_are_found_in_g1() {
        // (0, 2) is on y² = x³ + 4.
        let torsion: G1Affine = Affine {
            x: Fp::ZERO,
            y: Fp::ONE.add(&Fp::ONE),
        };
        check(&many(&g1::generator(), 700), &torsion);
    }

    #[test]
    fn points_of_order_13_are_found_in_g2() {
        check(&many(&g2::generator(), 512), &point_of_order_13());
    }

    #[test]
    fn a_test_has_as_many_subsets_as_its_error_has_bits() {
        let torsion = point_of_order_13();
        let good = many(&g2::generator(), 700);
        let mut points = good.clone();
        points[500] = Fp2::sum_naive(&[points[500], torsion]);
        for bits in [RlcBits::Bits64, RlcBits::Bits128] {
            let kernel = Portable::<Fp2>::default();
            let sums =
                Search::new(Backend::Portable, kernel, &good, &[7; 32], bits).subset_sums(0..700);
            let different = |i: usize| !sums[..i].contains(&sums[i]);
            assert_eq!(sums.len(), bits.bits());
            assert!((0..sums.len()).all(different));
            for backend in KERNELS.available() {
                let outside = outside_subgroup_with(backend, &points, &[8; 32], bits);
                assert_eq!(outside, [500], "{backend}");
            }
        }
    }

    /// Two bad points whose bad parts cancel are still found: their subsets differ.
    #[test]
    fn opposite_parts_do_not_hide_each_other() {
        let torsion = point_of_order_13();
        let mut points = many(&g2::generator(), 300);
        points[10] = Fp2::sum_naive(&[points[10], torsion]);
        points[290] = Fp2::sum_naive(&[points[290], torsion.neg()]);
        for backend in KERNELS.available() {
            assert_eq!(outside_subgroup(backend, &points, &[5; 32]), [10, 290]);
        }
    }
}
