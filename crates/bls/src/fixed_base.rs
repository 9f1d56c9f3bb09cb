//! Many multiples of one point: interop keys and signatures for a whole registry.

use core::fmt;

use alphorn_exec::Backend;

use crate::blst_ffi::curve::Affine;
use crate::blst_ffi::curve_field::CurveField;
use crate::blst_ffi::field::{Fp, Fp2};
use crate::dispatch::with_multiplier;
use crate::sums::segments::{Entry, Points, SegmentList, SumBuffers, SumKernel, append_sums};
use crate::sums::{KernelField, Portable};

/// Bits of a digit. Signed digits halve the table: with eleven bits, 24 windows of 2^10 points are 2.4 MB (G1)
/// or 4.8 MB (G2), and a multiple costs at most 23 additions. Wider digits save additions but lose more than
/// that because the table no longer fits the cache.
const DIGIT_BITS: core::ops::RangeInclusive<usize> = 6..=11;
/// Bits of a scalar below 2^255 plus the carry of signed digits.
const SCALAR_BITS: usize = 256;
/// Scalars per kernel call: enough to spread its inversions over many additions.
const BLOCK: usize = 2048;

/// Multiples of one fixed point B.
///
/// **Variable time**: tables are indexed by the scalars' digits, so cache timing reveals them. Use only for
/// scalars that are public anyway, such as interop keys.
pub(crate) struct FixedBase<F: KernelField>(Box<dyn Multiples<F>>);

/// The table of a kernel.
trait Multiples<F>: Send + Sync {
    /// Appends `scalars[i] * B` to `out`.
    fn multiply(&self, scalars: &[[u8; 32]], out: &mut Vec<Affine<F>>);
}

impl<F: KernelField> fmt::Debug for FixedBase<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedBase").finish_non_exhaustive()
    }
}

/// Multiples of a point of G1: public keys.
pub(crate) type FixedBaseG1 = FixedBase<Fp>;
/// Multiples of a point of G2: signatures of one message.
pub(crate) type FixedBaseG2 = FixedBase<Fp2>;

impl<F: KernelField> FixedBase<F> {
    /// Builds the tables for `base`, a point of the subgroup that is not the identity. They are as large as
    /// this many multiples justify: at most 2.4 MB in G1 and 4.8 MB in G2.
    pub(crate) fn new(backend: Backend, base: &Affine<F>, multiples: usize) -> Self {
        assert!(!base.is_infinity(), "the base is not the identity");
        let digits = Digits::for_multiples(multiples);
        FixedBase(with_multiplier!(
            backend,
            m => Box::new(Table::new(F::vector(m), base, digits)),
            _ => Box::new(Table::new(Portable::default(), base, digits)),
        ))
    }

    /// Appends `scalars[i] * B` to `out`; scalars are 32 bytes little-endian, below the group order.
    ///
    /// Panics if a scalar has bit 255 set.
    pub(crate) fn vartime_mul_many(&self, scalars: &[[u8; 32]], out: &mut Vec<Affine<F>>) {
        self.0.multiply(scalars, out);
    }
}

/// Signed digits of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digits {
    bits: usize,
}

impl Digits {
    /// The width that needs the fewest additions for the table and this many multiples together.
    fn for_multiples(multiples: usize) -> Digits {
        // For each window, `max` points of the table, and one addition per multiple.
        let additions = |digits: &Digits| digits.windows() * (digits.max() + multiples);
        DIGIT_BITS
            .map(|bits| Digits { bits })
            .min_by_key(additions)
            .expect("some widths")
    }

    /// Number of digits of a scalar.
    fn windows(self) -> usize {
        SCALAR_BITS.div_ceil(self.bits)
    }

    /// Largest digit; the smallest is its negative plus one.
    fn max(self) -> usize {
        1 << (self.bits - 1)
    }

    /// The digits, lowest first, with Σ digit_w · 2^(bits·w) = scalar.
    fn of(self, scalar: &[u8; 32]) -> impl Iterator<Item = i32> {
        assert!(scalar[31] < 0x80, "scalars are below 2^255");
        let (max, mut carry) = (self.max() as i32, 0);
        (0..self.windows()).map(move |window| {
            let bit = window * self.bits;
            // Three bytes hold eleven bits from any bit of the first on.
            let byte = |i: usize| i32::from(scalar.get(bit / 8 + i).copied().unwrap_or(0));
            let bits = (byte(0) | byte(1) << 8 | byte(2) << 16) >> (bit % 8);
            let value = (bits & (2 * max - 1)) + carry;
            carry = i32::from(value > max);
            value - carry * 2 * max
        })
    }
}

/// d · 2^(bits·w) · B at index `max`·w + d - 1.
struct Table<K: SumKernel> {
    kernel: K,
    digits: Digits,
    points: Vec<K::Point>,
}

impl<K: SumKernel> Table<K> {
    fn new(kernel: K, base: &Affine<K::Field>, digits: Digits) -> Self {
        let (windows, max) = (digits.windows(), digits.max());
        // 2^bits times a point, computed by blst.
        // Only the last point is set, so the sum of 2^j times point j is 2^bits times that one.
        let mut doubled = vec![Affine::INFINITY; digits.bits + 1];
        let next = |power: &Affine<K::Field>| {
            doubled[digits.bits] = *power;
            Some(K::Field::sum_of_doubled(&doubled))
        };
        let powers: Vec<Affine<K::Field>> = core::iter::successors(Some(*base), next)
            .take(windows)
            .collect();
        // Built by doubling the range of digits: d = ⌊d/2⌋ + ⌈d/2⌉, all windows at once. Digit d of window w is
        // built at index (d - 1) · windows + w.
        let mut points = Vec::with_capacity(windows * max);
        kernel.encode(&powers, &mut points);
        let (mut list, mut buffers, mut sums) =
            (SegmentList::default(), SumBuffers::default(), Vec::new());
        let mut known = 1;
        while known < max {
            list.clear();
            for digit in known + 1..=2 * known {
                for window in 0..windows {
                    let part = |d: usize| Entry::new((d - 1) * windows + window, false);
                    list.entries
                        .extend([part(digit / 2), part(digit - digit / 2)]);
                    list.close();
                }
            }
            let operands = Points {
                table: &points,
                sums: &[],
            };
            append_sums(kernel, operands, &list, &mut buffers, &mut sums);
            points.append(&mut sums);
            known *= 2;
        }
        // Ordered by window, so that the points of one window are contiguous.
        let of_window = |window: usize| (0..max).map(move |d| d * windows + window);
        let points = (0..windows).flat_map(of_window).map(|i| points[i]);
        Table {
            kernel,
            digits,
            points: points.collect(),
        }
    }
}

impl<K: SumKernel> Multiples<K::Field> for Table<K> {
    fn multiply(&self, scalars: &[[u8; 32]], out: &mut Vec<Affine<K::Field>>) {
        let (mut list, mut buffers, mut sums) =
            (SegmentList::default(), SumBuffers::default(), Vec::new());
        for block in scalars.chunks(BLOCK) {
            list.clear();
            for scalar in block {
                let digits = self.digits.of(scalar).enumerate();
                // Zero digits are left out: no entry may refer to the identity.
                list.entries
                    .extend(
                        digits
                            .filter(|(_, digit)| *digit != 0)
                            .map(|(window, digit)| {
                                let point = digit.unsigned_abs() as usize - 1;
                                Entry::new(window * self.digits.max() + point, digit < 0)
                            }),
                    );
                list.close();
            }
            sums.clear();
            let operands = Points {
                table: &self.points,
                sums: &[],
            };
            append_sums(self.kernel, operands, &list, &mut buffers, &mut sums);
            self.kernel.decode(&sums, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blst_ffi::points::{g1, g2};
    use crate::kernel::KERNELS;

    /// Scalars at the edges of digits, and unrelated ones, all below r.
    fn scalars() -> Vec<[u8; 32]> {
        let mut scalars = vec![[0; 32]];
        for byte in [0x01, 0x7f, 0x80, 0xff] {
            for at in [0, 1, 13, 30] {
                let mut scalar = [0; 32];
                scalar[at] = byte;
                scalars.push(scalar);
                scalar[..at].fill(byte);
                scalars.push(scalar);
            }
        }
        let mut x = 7u64;
        for _ in 0..40 {
            scalars.push(core::array::from_fn(|i| {
                x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                if i < 31 {
                    (x >> 56) as u8
                } else {
                    (x >> 58) as u8 % 0x73
                }
            }));
        }
        scalars
    }

    fn check<F: KernelField>(base: &Affine<F>) {
        let scalars = scalars();
        let expected: Vec<Affine<F>> = scalars.iter().map(|s| F::multiply(base, s)).collect();
        for backend in KERNELS.available() {
            let mut out = Vec::new();
            // The narrowest and the widest digits.
            for multiples in [0, 1000, 1 << 20] {
                out.clear();
                FixedBase::new(backend, base, multiples).vartime_mul_many(&scalars, &mut out);
                assert_eq!(out, expected, "{backend}");
            }
        }
    }

    #[test]
    fn multiples_equal_blst() {
        check(&g1::generator());
        check(&g2::generator());
        check(&g2::mul(&g2::generator(), &[77, 3], 16));
    }

    #[test]
    fn digits_make_up_the_scalar() {
        for scalar in scalars() {
            for bits in DIGIT_BITS {
                let digits = Digits { bits };
                let mut sum = [0i64; 34];
                for (window, digit) in digits.of(&scalar).enumerate() {
                    assert!((1 - digits.max() as i32..=digits.max() as i32).contains(&digit));
                    sum[window * bits / 8] += i64::from(digit) << (window * bits % 8);
                }
                let mut carry = 0;
                for (i, limb) in sum.into_iter().enumerate() {
                    let value = limb + carry;
                    assert_eq!(value & 0xff, scalar.get(i).copied().map_or(0, i64::from));
                    carry = value >> 8;
                }
                assert_eq!(carry, 0);
            }
        }
    }

    #[test]
    fn tables_grow_with_what_they_are_for() {
        let bits = |multiples| Digits::for_multiples(multiples).bits;
        let widths: Vec<usize> = [0, 64, 1 << 10, 1 << 15, 1 << 20].map(bits).into();
        assert!(
            widths.is_sorted() && widths[0] == *DIGIT_BITS.start(),
            "{widths:?}"
        );
        assert_eq!(widths[4], *DIGIT_BITS.end());
    }
}
