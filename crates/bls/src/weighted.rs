//! Σ weight·point for the random weights of a batch, computed from the sums of its columns of bits by the
//! kernel of the key sums.
//!
//! With w_i = Σ 2^j·w_ij, Σ w_i·P_i = Σ 2^j·S_j, where S_j is the sum of the points with bit j set. There are
//! as many columns of random bits as the weights have bits. The digit tree shares their additions (some nine
//! per point and 64 columns at 512 points), its kernel adds sixteen at a time, and 64 doublings join the
//! columns. Variable time.

use core::ops::Range;

use alphorn_exec::{Backend, Exec};

use crate::blst_ffi::curve::Affine;
#[cfg(target_arch = "x86_64")]
use crate::blst_ffi::curve_field::CurveField;
use crate::dispatch::with_multiplier;
use crate::lanes::LaneField;
#[cfg(target_arch = "x86_64")]
use crate::lanes::vartime_multiply;
use crate::sums::KernelField;
use crate::sums::segments::{Entry, SumKernel};
use crate::sums::tree::{Item, Tree};
use crate::sums::{Costs, random_groups};

/// Number of points from which columns are faster than blst's buckets.
const COLUMNS_MIN: usize = 64;
/// Single multiples that are worth a thread, and the maximum between two reads of the stop flag: some 5 ms.
#[cfg(target_arch = "x86_64")]
const MULTIPLES: (usize, usize) = (64, 512);

/// The sum over each column of bits; the identity for an empty column. `bits` returns the bits of a position in
/// a range of columns, lowest first; `stored` has a point for each position.
pub(crate) fn column_sums<K: SumKernel>(
    kernel: K,
    stored: &[K::Point],
    tree: &mut Tree<K>,
    columns: &[Range<usize>],
    positions: impl Iterator<Item = usize> + Clone,
    mut bits: impl FnMut(usize, &Range<usize>) -> u16,
) -> Vec<Affine<K::Field>> {
    tree.clear();
    for group in columns {
        tree.push_group(group.len(), |items| {
            items.extend(positions.clone().filter_map(|i| {
                let value = bits(i, group);
                let entry = Entry::new(i, false);
                (value != 0).then_some(Item { value, entry })
            }));
        });
    }
    tree.run(kernel, stored);
    // Empty columns have no point to decode, and are filled in below.
    let points: Vec<K::Point> = tree
        .slots
        .iter()
        .flatten()
        .map(|entry| match entry.index().checked_sub(stored.len()) {
            None => stored[entry.index()],
            Some(sum) => tree.sums.made()[sum],
        })
        .collect();
    let mut finite = Vec::with_capacity(points.len());
    kernel.decode(&points, &mut finite);
    let mut finite = finite.into_iter();
    let slots = tree.slots.iter();
    slots
        .map(|slot| slot.and_then(|_| finite.next()).unwrap_or(Affine::INFINITY))
        .collect()
}

/// Returns Σ weights[i]·points[i], with `bits` / 8 little-endian bytes per weight. The points must be in the
/// subgroup of prime order, and none may be the identity.
pub(crate) fn vartime_weighted_sum<F: KernelField + LaneField>(
    backend: Backend,
    points: &[Affine<F>],
    weights: &[u8],
    bits: usize,
) -> Affine<F> {
    if points.len() < COLUMNS_MIN {
        return F::vartime_msm(points, weights, bits);
    }
    with_multiplier!(
        backend,
        m => by_columns(F::vector(m), points, weights, bits),
        _ => F::vartime_msm(points, weights, bits),
    )
}

/// The weighted sum over each of several consecutive ranges. If the task was asked to stop, the points are
/// arbitrary.
pub(crate) fn vartime_weighted_sums<F: KernelField + LaneField>(
    points: &[Affine<F>],
    weights: &[u8],
    bits: usize,
    ranges: &[Range<usize>],
    exec: Exec<'_>,
) -> Vec<Affine<F>> {
    let bytes = bits / 8;
    let by_range = |range: &Range<usize>| {
        if exec.stopped() {
            return Affine::INFINITY;
        }
        let weights = &weights[range.start * bytes..range.end * bytes];
        vartime_weighted_sum(exec.backend(), &points[range.clone()], weights, bits)
    };
    with_multiplier!(
        exec.backend(),
        m => {
            // Ranges too short for columns: multiply each point by its weight, in lanes.
            let short = |range: &Range<usize>| range.len() < COLUMNS_MIN;
            let items: Vec<(Affine<F>, u128)> = ranges
                .iter()
                .filter(|range| short(range))
                .flat_map(|range| range.clone())
                .map(|i| (points[i], weight(&weights[i * bytes..(i + 1) * bytes])))
                .collect();
            let pieces = exec.pieces(items.len(), MULTIPLES.0, MULTIPLES.1);
            let multiples = exec.map(pieces.len(), |p| match exec.stopped() {
                true => vec![Affine::INFINITY; pieces[p].len()],
                false => vartime_multiply(m, &items[pieces[p].clone()], bits),
            });
            let multiples = multiples.concat();
            let mut next = 0;
            let starts = ranges.iter().map(|range| {
                let start = next;
                next += if short(range) { range.len() } else { 0 };
                start
            });
            let starts: Vec<usize> = starts.collect();
            exec.map(ranges.len(), |r| {
                let (range, start) = (&ranges[r], starts[r]);
                match &multiples[start..] {
                    [one, ..] if range.len() == 1 => *one,
                    multiples if short(range) => F::sum_naive(&multiples[..range.len()]),
                    _ => by_range(range),
                }
            })
        },
        _ => exec.map(ranges.len(), |r| by_range(&ranges[r])),
    )
}

/// Reads at most sixteen little-endian bytes.
#[cfg(target_arch = "x86_64")]
fn weight(bytes: &[u8]) -> u128 {
    let shift = |weight: u128, byte: &u8| weight << 8 | u128::from(*byte);
    bytes.iter().rev().fold(0, shift)
}

/// The sums over the columns of the weights' bits, lowest bit first; the identity for an empty column. `stored`
/// has a point for each weight; only those at `positions` count.
pub(crate) fn sums_of_bits<K: SumKernel>(
    kernel: K,
    stored: &[K::Point],
    tree: &mut Tree<K>,
    positions: impl ExactSizeIterator<Item = usize> + Clone,
    weights: &[u8],
    bits: usize,
) -> Vec<Affine<K::Field>> {
    let bytes = bits / 8;
    // Default costs, so that the groups are the same on every host.
    let columns = random_groups(bits, positions.len(), &Costs::default());
    let bits_of = |i: usize, group: &Range<usize>| {
        let weight = &weights[i * bytes..(i + 1) * bytes];
        // Sixteen bits from any bit of the first byte on lie in three bytes.
        let word = |byte: usize| weight.get(byte).map_or(0, |b| u32::from(*b));
        let first = group.start / 8;
        let from = word(first) | word(first + 1) << 8 | word(first + 2) << 16;
        (from >> (group.start % 8) & ((1 << group.len()) - 1)) as u16
    };
    column_sums(kernel, stored, tree, &columns, positions, bits_of)
}

#[cfg(target_arch = "x86_64")]
fn by_columns<K: SumKernel>(
    kernel: K,
    points: &[Affine<K::Field>],
    weights: &[u8],
    bits: usize,
) -> Affine<K::Field> {
    assert_eq!(weights.len(), points.len() * bits / 8, "one weight a point");
    let (mut stored, mut tree) = (Vec::new(), Tree::default());
    kernel.encode(points, &mut stored);
    let positions = 0..points.len();
    let sums = sums_of_bits(kernel, &stored, &mut tree, positions, weights, bits);
    K::Field::sum_of_doubled(&sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blst_ffi::field::{Fp, Fp2};
    use crate::kernel::KERNELS;

    fn check<F: KernelField + LaneField>(generator: Affine<F>) {
        let mut points = vec![generator];
        while points.len() < COLUMNS_MIN + 3 {
            points.push(F::sum_naive(&[points[points.len() - 1], generator]));
        }
        // Equal and opposite points, whose columns hit the exceptional additions.
        (points[5], points[6]) = (points[4], points[4].neg());
        for bytes in [8, 16] {
            let mut state = 3u64;
            let mut random = || {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                (state >> 56) as u8
            };
            let mut weights: Vec<u8> = (0..points.len() * bytes).map(|_| random()).collect();
            // A small weight, the largest, and two equal ones for the opposite points.
            weights[..bytes].fill(0);
            weights[0] = 1;
            weights[bytes..2 * bytes].fill(0xff);
            weights.copy_within(4 * bytes..5 * bytes, 6 * bytes);
            let expected = F::vartime_msm(&points, &weights, 8 * bytes);
            for backend in KERNELS.available() {
                let sum = vartime_weighted_sum(backend, &points, &weights, 8 * bytes);
                assert_eq!(sum, expected, "{backend}");
                let none = vec![0; points.len() * bytes];
                let sum = vartime_weighted_sum(backend, &points, &none, 8 * bytes);
                assert!(sum.is_infinity());
            }
        }
    }

    /// Ranges of one point, a few points and many points, with weights at their limits.
    fn check_ranges<F: KernelField + LaneField>(generator: Affine<F>) {
        let mut points = vec![generator];
        while points.len() < 150 {
            points.push(F::sum_naive(&[points[points.len() - 1], generator]));
        }
        // Points that cancel within a range.
        (points[20], points[21]) = (points[4], points[4].neg());
        let ranges = [0..1, 1..2, 2..9, 9..22, 20..22, 22..23, 23..100, 100..150];
        for bytes in [8, 16] {
            let mut weights: Vec<u8> = (0..points.len() * bytes)
                .map(|i| (i * i + 7 * i + 1) as u8)
                .collect();
            for (i, weight) in weights.chunks_mut(bytes).enumerate().take(8) {
                // 1, 2, .. and the largest ones.
                weight.fill(if i < 4 { 0 } else { 0xff });
                weight[0] = if i < 4 { i as u8 + 1 } else { 0xf8 | i as u8 };
            }
            weights.copy_within(20 * bytes..21 * bytes, 21 * bytes);
            let expected = ranges.each_ref().map(|range| {
                let weights = &weights[range.start * bytes..range.end * bytes];
                F::vartime_msm(&points[range.clone()], weights, 8 * bytes)
            });
            for backend in KERNELS.available() {
                let sums = vartime_weighted_sums(
                    &points,
                    &weights,
                    8 * bytes,
                    &ranges,
                    Exec::new(backend, None),
                );
                assert_eq!(sums, expected, "{backend}");
            }
        }
    }

    #[test]
    fn ranges_of_any_length_have_their_weighted_sums() {
        check_ranges(Affine::<Fp>::generator());
        check_ranges(Affine::<Fp2>::generator());
    }

    #[test]
    fn sums_of_columns_are_the_weighted_sum() {
        check(Affine::<Fp>::generator());
        check(Affine::<Fp2>::generator());
    }
}
