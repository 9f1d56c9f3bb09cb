//! Subgroup checks of many points at once, and the weighted sum that comes with one.
//!
//! Let H be the prime-order subgroup of the curve group E, and let some of the points lie outside H. A sum over
//! a random subset of the points lies outside H with probability at least 1/2: for a bad point P and any choice
//! of the others, at most one of "with P" and "without P" lies in H, whatever the cofactor. 64 independent
//! subsets miss with probability at most 2^-64, 128 subsets with 2^-128. There are as many subsets as the
//! weights of the batch have bits, so that a verdict which must hold without a secret does not rest on fewer.
//! Their sums are columns of random bits, which the digit tree of the key sums adds with some eight additions
//! per point and 64 subsets. Its additions are valid on the whole of E.
//!
//! The bits of a batch's own weights are such subsets. With S_j the sum of bit j, the batch needs Σ 2^j·S_j, so
//! where both are needed the check costs only a look at the S_j ([`crate::lecture`], section 5).

use core::ops::Range;

use alphorn_exec::Backend;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::blst_ffi::curve::Affine;
use crate::blst_ffi::curve_field::CurveField;
use crate::dispatch::with_multiplier;
use crate::lanes::{LaneField, outside_group};
use crate::rlc::RlcBits;
use crate::sums::segments::SumKernel;
use crate::sums::tree::Tree;
use crate::sums::{KernelField, Portable};
use crate::weighted::{sums_of_bits, vartime_weighted_sum};

/// Up to this many points per 64 subsets are checked one by one: a test costs 64 single checks plus the sums.
const SINGLE_MAX: usize = 160;
/// Points per test, limited to keep its buffers small.
const BLOCK: usize = 1 << 15;

/// Returns the positions of the points that are not in the prime-order subgroup, in increasing order.
///
/// All points must be on the curve; the identity is in the subgroup. `seed` must be unpredictable to the party
/// that chose the points. A point outside is missed with probability at most 2^-64 per test, and there is one
/// test per 2^15 points and per halving of a range with such a point. No point of the subgroup is ever
/// reported.
// The kernels are private to this crate.
#[allow(private_bounds)]
pub fn outside_subgroup<F: KernelField + LaneField>(
    backend: Backend,
    points: &[Affine<F>],
    seed: &[u8; 32],
) -> Vec<usize> {
    let bits = RlcBits::Bits64;
    outside_subgroup_with(backend, points, &subsets(seed, points.len(), bits), bits)
}

/// Draws random subsets for this many points, as weights: bit j says whether the point is in subset j.
pub(crate) fn subsets(seed: &[u8; 32], points: usize, bits: RlcBits) -> Vec<u8> {
    let mut weights = vec![0; points * bits.bits() / 8];
    ChaCha20Rng::from_seed(*seed).fill_bytes(&mut weights);
    weights
}

/// Like [`outside_subgroup`], with the subsets given by the bits of `weights` and an error of 2^-bits. If the
/// weights are a public function of the points, so that the maker of the points can try many, this needs 128
/// bits.
pub(crate) fn outside_subgroup_with<F: KernelField + LaneField>(
    backend: Backend,
    points: &[Affine<F>],
    weights: &[u8],
    bits: RlcBits,
) -> Vec<usize> {
    with_multiplier!(
        backend,
        m => Search::new(backend, F::vector(m), points, weights, bits).run().outside,
        _ => Search::new(backend, Portable::<F>::default(), points, weights, bits).run().outside,
    )
}

/// Returns Σ weights[i]·points[i], or the positions of the points outside the subgroup as found by
/// [`outside_subgroup_with`]. The check uses the sums over the bits of the weights, and the weighted sum is
/// built from them. No point may be the identity.
pub(crate) fn vartime_checked_sum<F: KernelField + LaneField>(
    backend: Backend,
    points: &[Affine<F>],
    weights: &[u8],
    bits: RlcBits,
) -> Result<Affine<F>, Vec<usize>> {
    with_multiplier!(
        backend,
        m => Search::new(backend, F::vector(m), points, weights, bits).run().sum(),
        _ => Search::new(backend, Portable::<F>::default(), points, weights, bits).run().sum(),
    )
}

struct Search<'a, K: SumKernel> {
    backend: Backend,
    kernel: K,
    points: &'a [Affine<K::Field>],
    stored: Vec<K::Point>,
    weights: &'a [u8],
    bits: usize,
    /// Up to this many points are checked one by one.
    single_max: usize,
    tree: Tree<K>,
    outside: Vec<usize>,
    /// Ranges that were checked point by point.
    singles: Vec<Range<usize>>,
    /// The sums of tests that found nothing.
    passed: Vec<Vec<Affine<K::Field>>>,
}

impl<'a, K: SumKernel<Field: KernelField + LaneField>> Search<'a, K> {
    fn new(
        backend: Backend,
        kernel: K,
        points: &'a [Affine<K::Field>],
        weights: &'a [u8],
        bits: RlcBits,
    ) -> Self {
        let bits = bits.bits();
        assert_eq!(weights.len(), points.len() * bits / 8, "one weight a point");
        let single_max = bits / 64 * SINGLE_MAX;
        let mut stored = Vec::new();
        // Fewer points are all checked one by one, without sums.
        if points.len() > single_max {
            kernel.encode(points, &mut stored);
        }
        Search {
            backend,
            kernel,
            points,
            stored,
            weights,
            bits,
            single_max,
            tree: Tree::default(),
            outside: Vec::new(),
            singles: Vec::new(),
            passed: Vec::new(),
        }
    }

    fn run(mut self) -> Self {
        let mut start = 0;
        while start < self.points.len() {
            let end = self.points.len().min(start + BLOCK);
            self.search(start..end);
            start = end;
        }
        self
    }

    /// Tests a range, and both halves if some point is outside. The left half goes first, so positions come out
    /// in order.
    fn search(&mut self, range: Range<usize>) {
        if range.len() <= self.single_max {
            let outside = outside_group(self.backend, &self.points[range.clone()]);
            self.outside
                .extend(outside.into_iter().map(|i| range.start + i));
            self.singles.push(range);
            return;
        }
        let sums = self.subset_sums(range.clone());
        if outside_group(self.backend, &sums).is_empty() {
            self.passed.push(sums);
            return;
        }
        let middle = range.start + range.len() / 2;
        self.search(range.start..middle);
        self.search(middle..range.end);
    }

    /// The sums over the subsets given by the bits of the weights.
    fn subset_sums(&mut self, range: Range<usize>) -> Vec<Affine<K::Field>> {
        // The identity is in the subgroup, and no entry of a sum may refer to it.
        let finite: Vec<usize> = range.filter(|i| !self.points[*i].is_infinity()).collect();
        sums_of_bits(
            self.kernel,
            &self.stored,
            &mut self.tree,
            finite.iter().copied(),
            self.weights,
            self.bits,
        )
    }

    /// The weighted sum, if no point is outside.
    fn sum(self) -> Result<Affine<K::Field>, Vec<usize>> {
        if !self.outside.is_empty() {
            return Err(self.outside);
        }
        let tested = self
            .passed
            .iter()
            .map(|sums| K::Field::sum_of_doubled(sums));
        let singles = self.singles.iter().map(|range| {
            let weights = &self.weights[range.start * self.bits / 8..range.end * self.bits / 8];
            vartime_weighted_sum(
                self.backend,
                &self.points[range.clone()],
                weights,
                self.bits,
            )
        });
        Ok(K::Field::sum_naive(
            &tested.chain(singles).collect::<Vec<_>>(),
        ))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::blst_ffi::curve::{G1Affine, G2Affine};
    use crate::blst_ffi::curve_field::CurveField;
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
            let weights = subsets(&[7; 32], 700, bits);
            let sums =
                Search::new(Backend::Portable, kernel, &good, &weights, bits).subset_sums(0..700);
            let different = |i: usize| !sums[..i].contains(&sums[i]);
            assert_eq!(sums.len(), bits.bits());
            assert!((0..sums.len()).all(different));
            for backend in KERNELS.available() {
                let weights = subsets(&[8; 32], 700, bits);
                let outside = outside_subgroup_with(backend, &points, &weights, bits);
                assert_eq!(outside, [500], "{backend}");
            }
        }
    }

    /// Two bad points whose bad parts cancel are still found, because their subsets differ.
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

    /// The sum of a check equals blst's, both for tested points and for points checked one by one. A point
    /// outside is reported instead.
    #[test]
    fn a_checked_sum_is_the_weighted_sum_or_names_who_is_outside() {
        let torsion = point_of_order_13();
        let good = many(&g2::generator(), 400);
        for bits in [RlcBits::Bits64, RlcBits::Bits128] {
            for count in [1, 2, SINGLE_MAX, SINGLE_MAX + 1, 400] {
                let weights = subsets(&[3; 32], count, bits);
                let expected = Fp2::vartime_msm(&good[..count], &weights, bits.bits());
                let mut points = good[..count].to_vec();
                points[count / 2] = Fp2::sum_naive(&[points[count / 2], torsion]);
                for backend in KERNELS.available() {
                    let sum =
                        |points: &[G2Affine]| vartime_checked_sum(backend, points, &weights, bits);
                    assert_eq!(sum(&good[..count]), Ok(expected), "{backend}");
                    assert_eq!(sum(&points), Err(vec![count / 2]), "{backend}");
                }
            }
        }
    }
}
