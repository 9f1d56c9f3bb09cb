//! Sums of columns of signs under weights, by products of bytes or by sums of subsets, whichever is faster on
//! this processor.

use core::arch::x86_64::*;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::subsets::SubsetSums;
use super::{Lanes, high_half, low_half};
use crate::kernel::{
    ColumnSums, Pass, RowWeights, SIGN_GROUPS, SIGN_LIFTS, SIGN_ROWS, SignPlanes, SignTimes,
    Vectors,
};
use crate::ring::Q;
use crate::transcript::Seed;

/// Bytes per weight.
const WEIGHT_BYTES: usize = 6;

/// Weights per row, of eight bits each.
const SIGN_PARTS: usize = SIGN_LIFTS * WEIGHT_BYTES;

/// Weights in signed bytes.
pub(super) struct ByteWeights {
    /// For each group of rows and each part, the byte of its four rows, from the lowest on.
    parts: [[i32; SIGN_PARTS]; SIGN_GROUPS],
    /// For each lift, the sum of all weights.
    totals: [i64; SIGN_LIFTS],
}

impl ByteWeights {
    #[inline(always)]
    fn new(weights: &RowWeights) -> Self {
        let mut out = Self {
            parts: [[0; SIGN_PARTS]; SIGN_GROUPS],
            totals: [0; SIGN_LIFTS],
        };
        for (lift, weights) in weights.iter().enumerate() {
            for (group, of_rows) in weights.as_chunks::<SIGN_ROWS>().0.iter().enumerate() {
                let centred = of_rows.map(centred_in_bytes);
                out.totals[lift] += centred.iter().sum::<i64>();
                let bytes = centred.map(signed_bytes);
                let parts = &mut out.parts[group][WEIGHT_BYTES * lift..][..WEIGHT_BYTES];
                for (byte, part) in parts.iter_mut().enumerate() {
                    *part = i32::from_le_bytes(bytes.map(|bytes| bytes[byte] as u8));
                }
            }
        }
        out
    }

    /// Processes sixteen columns at a time: a word of each plane is the mask of 16 columns by four rows, and
    /// one instruction adds the products of four rows for one part. Signs plus one are not negative, as the
    /// instruction requires of one operand, so the weights may be read where they are multiplied.
    #[inline(always)]
    fn weigh(&self, planes: &SignPlanes, sums: &mut ColumnSums) {
        let words = planes.each_ref().map(|plane| plane.as_chunks::<8>().0);
        for columns in 0..4 {
            // SAFETY: `_mm512_setzero_si512` touches no memory, and its operands come from code
            // that has its instruction.
            let mut parts = [unsafe { _mm512_setzero_si512() }; SIGN_PARTS];
            for (group, weights) in self.parts.iter().enumerate() {
                let word = |k: usize| u64::from_le_bytes(words[k][4 * group + columns]);
                // SAFETY: none of it touches memory, and its operands come from code that has its
                // instructions.
                unsafe {
                    let ones = _mm512_set1_epi8(1);
                    // A sign is the difference of two bits; plus one, it is 0, 1 or 2.
                    let plus = _mm512_mask_add_epi8(ones, word(0), ones, ones);
                    let signs = _mm512_mask_sub_epi8(plus, word(1), plus, ones);
                    for (part, &weights) in parts.iter_mut().zip(weights) {
                        *part = _mm512_dpbusd_epi32(*part, signs, _mm512_set1_epi32(weights));
                    }
                }
            }
            let of_lifts = parts.as_chunks::<WEIGHT_BYTES>().0.iter();
            // The products are of signs plus one, which adds every weight once too often: `store_eight` takes the
            // total away.
            for ((sums, parts), &total) in sums.iter_mut().zip(of_lifts).zip(&self.totals) {
                let [a, b, c, d, e, f] = *parts;
                let words = [two_bytes(a, b), two_bytes(c, d), two_bytes(e, f)];
                let sums = sums[16 * columns..].as_chunks_mut::<8>().0;
                let [x, y, z] = words;
                store_eight([low_half(x), low_half(y), low_half(z)], total, &mut sums[0]);
                store_eight(
                    [high_half(x), high_half(y), high_half(z)],
                    total,
                    &mut sums[1],
                );
            }
        }
    }
}

/// Weights of rows for one of the two ways to sum columns of signs, which give the same residues.
pub(super) enum SignWeights {
    Bytes(Box<ByteWeights>),
    Subsets(Box<SubsetSums>),
}

impl SignWeights {
    #[inline(always)]
    pub(super) fn new(weights: &RowWeights, by_subsets: bool) -> Self {
        if by_subsets {
            Self::Subsets(SubsetSums::new(weights))
        } else {
            Self::Bytes(Box::new(ByteWeights::new(weights)))
        }
    }

    #[inline(always)]
    pub(super) fn weigh(&self, planes: &SignPlanes, sums: &mut ColumnSums) {
        match self {
            Self::Bytes(weights) => weights.weigh(planes, sums),
            Self::Subsets(weights) => weights.weigh(planes, sums),
        }
    }
}

/// Returns the times of both ways on this processor, measured once, in 0.1 ms.
pub(super) fn times() -> &'static SignTimes {
    static TIMES: OnceLock<SignTimes> = OnceLock::new();
    TIMES.get_or_init(|| SignTimes {
        subsets: Lanes::call(Measure(true)),
        bytes: Lanes::call(Measure(false)),
    })
}

/// Measures the time per element of one of the two ways, the least of several runs.
struct Measure(bool);

/// Elements per run.
const MEASURED: u32 = 4;

impl Pass for Measure {
    type Output = Duration;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Duration {
        let mut stream = Seed::of_name("alphorn/labrador/signs").stream();
        let mut planes = [[0; 2048]; 2];
        stream.fill(planes.as_flattened_mut());
        let mut weights = [[0; SIGN_ROWS * SIGN_GROUPS]; SIGN_LIFTS];
        for weight in weights.as_flattened_mut() {
            *weight = stream.residue();
        }
        let weights = SignWeights::new(&weights, self.0);
        let mut sums = [[0; 64]; SIGN_LIFTS];
        let mut least = Duration::MAX;
        for _ in 0..8 {
            let start = Instant::now();
            for _ in 0..MEASURED {
                weights.weigh(std::hint::black_box(&planes), &mut sums);
            }
            std::hint::black_box(&sums);
            least = least.min(start.elapsed());
        }
        least / MEASURED
    }
}

/// The largest number that six signed bytes can hold.
const SIGNED_MAX: u64 = 0x7f7f_7f7f_7f7f;

/// Returns the number in a residue's class that fits six signed bytes, which go down to
/// `SIGNED_MAX + 1 - Q` and further.
fn centred_in_bytes(residue: u64) -> i64 {
    if residue <= SIGNED_MAX {
        residue as i64
    } else {
        residue as i64 - Q as i64
    }
}

const _: () = assert!(Q - SIGNED_MAX - 1 <= 0x8080_8080_8080);

/// Returns such a number as signed bytes, from the lowest on.
fn signed_bytes(mut x: i64) -> [i8; WEIGHT_BYTES] {
    std::array::from_fn(|_| {
        let byte = x as i8;
        x = (x - i64::from(byte)) >> 8;
        byte
    })
}

/// Joins the sums for two bytes of a weight, each of products of at most `2^8` over 256 rows: below `2^25`.
#[inline(always)]
fn two_bytes(low: __m512i, high: __m512i) -> __m512i {
    // SAFETY: none of it touches memory, and its operands come from code that has its instructions.
    unsafe { _mm512_add_epi32(low, _mm512_slli_epi32::<8>(high)) }
}

/// Writes the numbers given by three 16-bit words each, minus `total`.
#[inline(always)]
fn store_eight(words: [__m512i; 3], total: i64, out: &mut [i64; 8]) {
    let [low, middle, high] = words;
    // SAFETY: eight numbers are 64 bytes, and the store needs no alignment; the rest touches no memory, and its
    // operands come from code that has its instructions.
    unsafe {
        let upper = _mm512_add_epi64(
            _mm512_slli_epi64::<16>(middle),
            _mm512_slli_epi64::<32>(high),
        );
        let all = _mm512_add_epi64(_mm512_sub_epi64(low, _mm512_set1_epi64(total)), upper);
        _mm512_storeu_si512(out.as_mut_ptr().cast(), all);
    }
}

const _: () = assert!(
    SIGN_GROUPS * 32 == 2048,
    "a group has four words of a plane"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Dispatch, KERNELS};
    use alphorn_exec::Backend;

    /// The sums of given signs, by subsets and by bytes.
    struct Weigh<'a>(&'a SignPlanes, &'a RowWeights);

    impl Pass for Weigh<'_> {
        type Output = [ColumnSums; 2];

        #[inline(always)]
        fn run<V: Vectors>(self) -> [ColumnSums; 2] {
            let mut out = [[[0; 64]; SIGN_LIFTS]; 2];
            for (by_subsets, out) in [true, false].into_iter().zip(&mut out) {
                SignWeights::new(self.1, by_subsets).weigh(self.0, out);
            }
            out
        }
    }

    /// Sets the rounding mode of this thread for doubles.
    fn round(control: u32) {
        // SAFETY: the instruction reads four bytes; the values of these tests hide all exceptions.
        unsafe {
            core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack));
        }
    }

    /// Rounding to nearest, which is the default, down, up, and towards zero, which makes the longest digits.
    #[test]
    fn both_ways_give_the_sums_by_definition_at_the_limits_in_every_mode_of_rounding() {
        for control in [0x1f80, 0x3f80, 0x5f80, 0x7f80] {
            round(control);
            check_limits();
            round(0x1f80);
        }
    }

    fn check_limits() {
        let half = Q / 2;
        let mut stream = Seed::of_name("limits").stream();
        let mut random = [[0; 2048]; 2];
        stream.fill(random.as_flattened_mut());
        let weights: Vec<RowWeights> = [0, 1, half, half + 1, Q - 1]
            .map(|weight| [[weight; 256]; SIGN_LIFTS])
            .into_iter()
            .chain([std::array::from_fn(|_| {
                std::array::from_fn(|_| stream.residue())
            })])
            .collect();
        let planes = [[0xff; 2048], [0; 2048]];
        let planes = [planes, [planes[1], planes[0]], [planes[0]; 2], random];
        let kernels = KERNELS.available().into_iter();
        for backend in kernels.filter(|kernel| matches!(kernel, Backend::Avx512Vnni(_))) {
            for (planes, weights) in planes
                .iter()
                .flat_map(|p| weights.iter().map(move |w| (p, w)))
            {
                let sums = backend.run(Weigh(planes, weights));
                for (lift, weights) in weights.iter().enumerate() {
                    for column in 0..64 {
                        let sign = |row: usize| {
                            let bit = 256 * (row / 4) + 4 * column + row % 4;
                            let [plus, minus] =
                                planes.map(|plane| i128::from(plane[bit / 8] >> (bit % 8) & 1));
                            plus - minus
                        };
                        let terms = weights.iter().enumerate();
                        let sum: i128 = terms.map(|(row, &w)| sign(row) * i128::from(w)).sum();
                        for sums in &sums {
                            let found = sums[lift][column];
                            assert!(found.unsigned_abs() < 1 << 57);
                            let difference = i128::from(found) - sum;
                            assert_eq!(difference % i128::from(Q), 0, "{lift} {column}");
                        }
                    }
                }
            }
        }
    }
}
