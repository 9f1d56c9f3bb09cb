//! Vectors of 512 bits, with those of AVX2 for shorter rows.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use alphorn_exec::Avx512Vnni;

use super::avx2::Row;
use super::{
    ColumnSums, Pass, RowWeights, SIGN_ROWS, SQUARE, SignPlanes, SignTimes, Signs, Square, Vector,
    Vectors,
};

mod signs;
mod subsets;

use signs::SignWeights;

/// See [`super::Dispatch::run`].
#[inline]
pub(super) fn run<P: Pass>(_: Avx512Vnni, pass: P) -> P::Output {
    // SAFETY: the witness shows that this processor has all that the callee is compiled for.
    unsafe { enter(pass) }
}

#[inline(never)]
#[target_feature(enable = "bmi2,avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn enter<P: Pass>(pass: P) -> P::Output {
    pass.run::<Lanes>()
}

/// See [`super::sign_times`].
pub(super) fn sign_times(_: Avx512Vnni) -> SignTimes {
    *signs::times()
}

/// The vectors of this level. Only [`run`] and [`sign_times`] name it, so methods of its types run on CPUs
/// that have the instructions.
struct Lanes;

impl Vectors for Lanes {
    #[inline(always)]
    fn call<P: Pass>(pass: P) -> P::Output {
        // SAFETY: only code that has the instructions of `enter` names this type.
        unsafe { enter(pass) }
    }

    #[inline(always)]
    fn prefetch(numbers: &[i16]) {
        super::avx2::prefetch(numbers);
    }

    type Wide = Wide;
    type Row = Row;

    type SignWeights = SignWeights;

    #[inline(always)]
    fn sign_weights(weights: &RowWeights) -> Box<SignWeights> {
        Box::new(SignWeights::new(weights, signs::times().subsets_win()))
    }

    #[inline(always)]
    fn weigh_signs(planes: &SignPlanes, weights: &SignWeights, sums: &mut ColumnSums) {
        weights.weigh(planes, sums);
    }

    /// The bits of a row are every fourth bit of four words of a plane: the mask of 64 columns.
    #[inline(always)]
    fn unpack_signs(planes: &SignPlanes, out: &mut Signs) {
        for (group, rows) in out.as_chunks_mut::<SIGN_ROWS>().0.iter_mut().enumerate() {
            let mut words = [[0u64; 4]; 2];
            for (words, plane) in words.iter_mut().zip(planes) {
                let bytes = plane[32 * group..32 * (group + 1)].as_chunks::<8>().0;
                for (word, &bytes) in words.iter_mut().zip(bytes) {
                    *word = u64::from_le_bytes(bytes);
                }
            }
            for (k, row) in rows.iter_mut().enumerate() {
                let mut masks = [0u64; 2];
                for (mask, words) in masks.iter_mut().zip(&words) {
                    for (quarter, &word) in words.iter().enumerate() {
                        // SAFETY: none of it touches memory, and only code that has its
                        // instructions reaches this point.
                        let bits = unsafe { _pext_u64(word, 0x1111_1111_1111_1111 << k) };
                        *mask |= bits << (16 * quarter);
                    }
                }
                for (half, out) in row.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                    // SAFETY: 32 numbers are 64 bytes; the store needs no alignment. AVX-512 is
                    // available: only code compiled for it names this type.
                    unsafe {
                        let ones = _mm512_set1_epi16(1);
                        let plus = _mm512_maskz_mov_epi16((masks[0] >> (32 * half)) as u32, ones);
                        let minus = (masks[1] >> (32 * half)) as u32;
                        let signs = _mm512_mask_sub_epi16(plus, minus, plus, ones);
                        _mm512_storeu_si512(out.as_mut_ptr().cast(), signs);
                    }
                }
            }
        }
    }

    /// Processes all numbers of a row at once.
    #[inline(always)]
    fn add_products<const N: usize>(
        sums: &mut [[i64; SQUARE]; N],
        factors: &[[[i32; SQUARE]; N]],
        x: &[Square],
    ) {
        // SAFETY: eight sums are 64 bytes; the load needs no alignment. AVX-512 is available: only
        // code compiled for it names this type.
        let mut totals = sums
            .each_ref()
            .map(|sums| unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) });
        for (factors, x) in factors.iter().zip(x) {
            for (k, x) in x.iter().enumerate() {
                // SAFETY: eight numbers are 16 bytes; the load needs no alignment, and the rest touches no memory.
                // AVX-512 is available, as above.
                let x = unsafe { _mm512_cvtepi16_epi64(_mm_loadu_si128(x.as_ptr().cast())) };
                for (total, factors) in totals.iter_mut().zip(factors) {
                    // SAFETY: none of it touches memory. AVX-512 is available, as above.
                    unsafe {
                        let product = _mm512_mul_epi32(x, _mm512_set1_epi32(factors[k]));
                        *total = _mm512_add_epi64(*total, product);
                    }
                }
            }
        }
        for (sums, total) in sums.iter_mut().zip(totals) {
            // SAFETY: eight sums are 64 bytes; the store needs no alignment. AVX-512 is available, as above.
            unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), total) }
        }
    }
}

/// Returns the first eight numbers, each as 64 bits.
#[inline(always)]
fn low_half(x: __m512i) -> __m512i {
    // SAFETY: none of it touches memory, and its operand comes from code that has its instructions.
    unsafe { _mm512_cvtepi32_epi64(_mm512_castsi512_si256(x)) }
}

/// Returns the other eight.
#[inline(always)]
fn high_half(x: __m512i) -> __m512i {
    // SAFETY: none of it touches memory, and its operand comes from code that has its instructions.
    unsafe { _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64::<1>(x)) }
}

/// Thirty-two numbers; see [`Lanes`].
#[derive(Clone, Copy)]
struct Wide(__m512i);

/// 32-bit sums of two vectors.
#[derive(Clone, Copy)]
struct WideSums([__m512i; 2]);

impl Vector for Wide {
    type Sums = WideSums;

    const LANES: usize = 32;

    #[inline(always)]
    fn load(values: &[i16]) -> Self {
        let values: &[i16; 32] = values[..32].try_into().expect("32 numbers");
        // SAFETY: 32 numbers are 64 bytes; the load needs no alignment. AVX-512 is available: only
        // code compiled for it names this type.
        Wide(unsafe { _mm512_loadu_si512(values.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, values: &mut [i16]) {
        let values: &mut [i16; 32] = (&mut values[..32]).try_into().expect("32 numbers");
        // SAFETY: 32 numbers are 64 bytes; the store needs no alignment. AVX-512 is available: only
        // code compiled for it names this type.
        unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn repeat(row: &[i16; 8]) -> Self {
        // SAFETY: eight numbers are 16 bytes; the load needs no alignment. AVX-512 is available:
        // only code compiled for it names this type.
        Wide(unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(row.as_ptr().cast())) })
    }

    #[inline(always)]
    fn spread(values: &[i16]) -> Self {
        let values: &[i16; 4] = values[..4].try_into().expect("four numbers");
        // SAFETY: four numbers are 8 bytes; the load needs no alignment. AVX-512 is available: only
        // code compiled for it names this type.
        Wide(unsafe {
            let four = _mm512_castsi128_si512(_mm_loadl_epi64(values.as_ptr().cast()));
            // The number for each 128 bits, eight times.
            let index = _mm512_set_epi64(
                0x0003_0003_0003_0003,
                0x0003_0003_0003_0003,
                0x0002_0002_0002_0002,
                0x0002_0002_0002_0002,
                0x0001_0001_0001_0001,
                0x0001_0001_0001_0001,
                0,
                0,
            );
            _mm512_permutexvar_epi16(index, four)
        })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: `_mm512_add_epi16` touches no memory, and its operands come from code that has
        // its instruction.
        Wide(unsafe { _mm512_add_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: `_mm512_sub_epi16` touches no memory, and its operands come from code that has
        // its instruction.
        Wide(unsafe { _mm512_sub_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_low(self, other: Self) -> Self {
        // SAFETY: `_mm512_mullo_epi16` touches no memory, and its operands come from code that has
        // its instruction.
        Wide(unsafe { _mm512_mullo_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_high(self, other: Self) -> Self {
        // SAFETY: `_mm512_mulhi_epi16` touches no memory, and its operands come from code that has
        // its instruction.
        Wide(unsafe { _mm512_mulhi_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn shift_right_11(self) -> Self {
        // SAFETY: `_mm512_srai_epi16` touches no memory, and its operands come from code that has
        // its instruction.
        Wide(unsafe { _mm512_srai_epi16::<11>(self.0) })
    }

    #[inline(always)]
    fn interleave(self, other: Self) -> (Self, Self) {
        // SAFETY: `_mm512_unpacklo_epi16` and `_mm512_unpackhi_epi16` touch no memory, and their
        // operands come from code that has their instructions.
        unsafe {
            (
                Wide(_mm512_unpacklo_epi16(self.0, other.0)),
                Wide(_mm512_unpackhi_epi16(self.0, other.0)),
            )
        }
    }

    #[inline(always)]
    fn exchange(self, other: Self, length: usize) -> (Self, Self) {
        // SAFETY: none of it touches memory, and its operands come from code that has its
        // instructions.
        unsafe {
            if length == 2 {
                return (
                    Wide(_mm512_shuffle_i64x2::<0x44>(self.0, other.0)),
                    Wide(_mm512_shuffle_i64x2::<0xee>(self.0, other.0)),
                );
            }
            let even = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0);
            let odd = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
            (
                Wide(_mm512_permutex2var_epi64(self.0, even, other.0)),
                Wide(_mm512_permutex2var_epi64(self.0, odd, other.0)),
            )
        }
    }

    #[inline(always)]
    fn no_sums() -> WideSums {
        // SAFETY: `_mm512_setzero_si512` touches no memory, and only code that has its instruction
        // reaches this point.
        WideSums([unsafe { _mm512_setzero_si512() }; 2])
    }

    #[inline(always)]
    fn accumulate(sums: WideSums, a: (Self, Self), b: (Self, Self)) -> WideSums {
        // SAFETY: `_mm512_dpwssd_epi32` touches no memory, and its operands come from code that has
        // its instruction.
        WideSums(unsafe {
            [
                _mm512_dpwssd_epi32(sums.0[0], a.0.0, b.0.0),
                _mm512_dpwssd_epi32(sums.0[1], a.1.0, b.1.0),
            ]
        })
    }

    #[inline(always)]
    fn halves(sums: WideSums) -> (Self, Self) {
        let [first, second] = sums.0;
        // Packing works within 128 bits, as interleaving did, and never saturates 16-bit values. No closures:
        // they would not be compiled for this instruction set.
        // SAFETY: none of it touches memory, and its operands come from code that has its
        // instructions.
        unsafe {
            let lower = _mm512_set1_epi32(0xffff);
            let low = _mm512_packus_epi32(
                _mm512_and_si512(first, lower),
                _mm512_and_si512(second, lower),
            );
            let high = _mm512_packus_epi32(
                _mm512_srli_epi32::<16>(first),
                _mm512_srli_epi32::<16>(second),
            );
            (Wide(low), Wide(high))
        }
    }

    #[inline(always)]
    fn store_sums(sums: WideSums, out: &mut [i32]) {
        let (first, second) = out[..32].split_at_mut(16);
        // SAFETY: sixteen sums are 64 bytes each time; the stores need no alignment. AVX-512 is
        // available: only code compiled for it names this type.
        unsafe {
            _mm512_storeu_si512(first.as_mut_ptr().cast(), sums.0[0]);
            _mm512_storeu_si512(second.as_mut_ptr().cast(), sums.0[1]);
        }
    }

    #[inline(always)]
    fn totals(sums: [WideSums; 4]) -> [i64; 4] {
        // No closures: they would not be compiled for this instruction set.
        let [a, b, c, d] = [
            eight(sums[0]),
            eight(sums[1]),
            eight(sums[2]),
            eight(sums[3]),
        ];
        let mut totals = [0; 4];
        // SAFETY: four totals are 32 bytes, and the store needs no alignment; the rest touches no memory. AVX-512 is
        // available: only code compiled for it names this type.
        unsafe {
            // The sums of neighbours of two vectors in turn, then of their halves.
            let ab = _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
            let cd = _mm512_add_epi64(_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
            let halves = _mm512_add_epi64(
                _mm512_shuffle_i64x2::<0x44>(ab, cd),
                _mm512_shuffle_i64x2::<0xee>(ab, cd),
            );
            // `halves` has two parts of (a, b), then two of (c, d). Once these are added, the first and the third 128
            // bits hold the four totals.
            let turned = _mm512_shuffle_i64x2::<0xb1>(halves, halves);
            let all = _mm512_add_epi64(halves, turned);
            let all = _mm512_shuffle_i64x2::<0x08>(all, all);
            _mm256_storeu_si256(totals.as_mut_ptr().cast(), _mm512_castsi512_si256(all));
        }
        totals
    }
}

/// Returns eight numbers whose total is the total of all sums.
#[inline(always)]
fn eight(sums: WideSums) -> __m512i {
    // SAFETY: none of it touches memory, and its operands come from code that has its instructions.
    unsafe {
        let two = _mm512_add_epi32(sums.0[0], sums.0[1]);
        _mm512_add_epi64(low_half(two), high_half(two))
    }
}
