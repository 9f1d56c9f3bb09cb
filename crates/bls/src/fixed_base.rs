//! Many multiples of one point: interop keys and signatures at the scale of a whole registry.

use core::fmt;

use alphorn_exec::Backend;

use crate::blst_ffi::curve::{Affine, CurveField};
use crate::blst_ffi::field::{Fp, Fp2};
use crate::kernel::with_multiplier;
use crate::sums::segments::{Entry, Points, SegmentList, SumBuffers, SumKernel, append_sums};
use crate::sums::{KernelField, Portable};

/// Bits of a digit. Signed digits halve the table: 26 windows of 2^9 points are 1.3 MB (G1) or
/// 2.6 MB (G2), and a multiple costs at most 25 additions; unsigned bytes would cost 31.
const DIGIT_BITS: usize = 10;
/// Largest digit; the smallest is its negative.
const DIGIT_MAX: usize = 1 << (DIGIT_BITS - 1);
/// Windows of a scalar below 2^255 with the carry of signed digits.
const WINDOWS: usize = 256usize.div_ceil(DIGIT_BITS);
/// Scalars per call of the kernel: enough for its inversions to be spread over many additions.
const BLOCK: usize = 2048;

/// Multiples of one fixed point B.
///
/// **Variable time**: tables are indexed by the scalars' digits, so cache timing shows them. Only for
/// scalars that are public anyway, such as interop keys.
// The kernels are nobody else's business.
#[allow(private_bounds)]
pub struct FixedBase<F: KernelField>(Box<dyn Multiples<F>>);

/// The table of some kernel.
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
pub type FixedBaseG1 = FixedBase<Fp>;
/// Multiples of a point of G2: signatures of one message.
pub(crate) type FixedBaseG2 = FixedBase<Fp2>;

// The kernels are nobody else's business.
#[allow(private_bounds)]
impl<F: KernelField> FixedBase<F> {
    /// Builds the tables for `base`, a point of the subgroup that is not the identity.
    pub fn new(backend: Backend, base: &Affine<F>) -> Self {
        assert!(!base.is_infinity(), "the base is not the identity");
        FixedBase(with_multiplier!(
            backend,
            m => Box::new(Table::new(F::vector(m), base)),
            _ => Box::new(Table::new(Portable::default(), base)),
        ))
    }

    /// Appends `scalars[i] * B` to `out`; scalars are 32 bytes little-endian, below the group order.
    ///
    /// Panics if a scalar has bit 255 set.
    pub fn vartime_mul_many(&self, scalars: &[[u8; 32]], out: &mut Vec<Affine<F>>) {
        self.0.multiply(scalars, out);
    }
}

/// d · 2^(10 w) · B at index `DIGIT_MAX` w + d - 1.
struct Table<K: SumKernel> {
    kernel: K,
    points: Vec<K::Point>,
}

impl<K: SumKernel> Table<K> {
    fn new(kernel: K, base: &Affine<K::Field>) -> Self {
        let powers: Vec<Affine<K::Field>> = (0..WINDOWS)
            .map(|window| {
                let mut scalar = [0; 32];
                scalar[DIGIT_BITS * window / 8] = 1 << (DIGIT_BITS * window % 8);
                K::Field::multiply(base, &scalar)
            })
            .collect();
        // Built by doubling the range of digits: d = ⌊d/2⌋ + ⌈d/2⌉, all windows at once. Digit d of
        // window w is made at place (d - 1) · WINDOWS + w.
        let mut points = Vec::with_capacity(WINDOWS * DIGIT_MAX);
        kernel.encode(&powers, &mut points);
        let (mut list, mut buffers, mut sums) =
            (SegmentList::default(), SumBuffers::default(), Vec::new());
        let mut known = 1;
        while known < DIGIT_MAX {
            list.clear();
            for digit in known + 1..=2 * known {
                for window in 0..WINDOWS {
                    let part = |d: usize| Entry::new((d - 1) * WINDOWS + window, false);
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
        // In order of windows, so that one window's points lie together.
        let digits = |window: usize| (0..DIGIT_MAX).map(move |d| d * WINDOWS + window);
        let points = (0..WINDOWS).flat_map(digits).map(|i| points[i]).collect();
        Table { kernel, points }
    }
}

impl<K: SumKernel> Multiples<K::Field> for Table<K> {
    fn multiply(&self, scalars: &[[u8; 32]], out: &mut Vec<Affine<K::Field>>) {
        let (mut list, mut buffers, mut sums) =
            (SegmentList::default(), SumBuffers::default(), Vec::new());
        for block in scalars.chunks(BLOCK) {
            list.clear();
            for scalar in block {
                let digits = digits(scalar).into_iter().enumerate();
                list.entries
                    .extend(
                        digits
                            .filter(|(_, digit)| *digit != 0)
                            .map(|(window, digit)| {
                                let place = usize::from(digit.unsigned_abs()) - 1;
                                Entry::new(window * DIGIT_MAX + place, digit < 0)
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

/// Σ digit_w · 2^(10 w) = scalar, digits from -511 to 512.
fn digits(scalar: &[u8; 32]) -> [i16; WINDOWS] {
    assert!(scalar[31] < 0x80, "scalars are below 2^255");
    let mut digits = [0; WINDOWS];
    let mut carry = 0;
    for (window, digit) in digits.iter_mut().enumerate() {
        let bit = window * DIGIT_BITS;
        let byte = |i: usize| u32::from(scalar.get(bit / 8 + i).copied().unwrap_or(0));
        let bits = (byte(0) | byte(1) << 8) >> (bit % 8);
        let value = (bits as i16 & (2 * DIGIT_MAX as i16 - 1)) + carry;
        carry = i16::from(value > DIGIT_MAX as i16);
        *digit = value - carry * 2 * DIGIT_MAX as i16;
    }
    debug_assert_eq!(carry, 0);
    digits
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
            FixedBase::new(backend, base).vartime_mul_many(&scalars, &mut out);
            assert_eq!(out, expected, "{backend}");
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
            let mut sum = [0i64; 33];
            for (window, digit) in digits(&scalar).into_iter().enumerate() {
                let bit = window * DIGIT_BITS;
                sum[bit / 8] += i64::from(digit) << (bit % 8);
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
