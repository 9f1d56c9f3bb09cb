//! Vectors of 128 and 256 bits.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use alphorn_exec::Avx2;

use super::{
    ColumnSums, Pass, RowWeights, SQUARE, SignPlanes, Signs, Square, Vector, Vectors, portable,
};

/// See [`super::Dispatch::run`].
#[inline]
pub(super) fn run<P: Pass>(_: Avx2, pass: P) -> P::Output {
    // SAFETY: the witness shows that this processor has all that the callee is compiled for.
    unsafe { enter(pass) }
}

#[inline(never)]
#[target_feature(enable = "avx2")]
fn enter<P: Pass>(pass: P) -> P::Output {
    pass.run::<Lanes>()
}

/// Numbers per cache line.
const CACHED: usize = 32;

/// See [`Vectors::prefetch`]: every x86-64 processor has the instruction.
#[inline(always)]
pub(super) fn prefetch(numbers: &[i16]) {
    for line in numbers.chunks(CACHED) {
        alphorn_exec::prefetch(line);
    }
}

/// The vectors of this level. Only [`run`] and the level above name it, so methods of its
/// types run on CPUs that have the instructions.
struct Lanes;

impl Vectors for Lanes {
    #[inline(always)]
    fn call<P: Pass>(pass: P) -> P::Output {
        // SAFETY: only code that has the instructions of `enter` names this type.
        unsafe { enter(pass) }
    }

    #[inline(always)]
    fn prefetch(numbers: &[i16]) {
        prefetch(numbers);
    }

    type Wide = Half;
    type Row = Row;

    type SignWeights = portable::SubsetSums;

    fn sign_weights(weights: &RowWeights) -> Box<portable::SubsetSums> {
        portable::subset_sums(weights)
    }

    /// Runs the portable loops, compiled for the vectors of this level.
    #[inline(always)]
    fn weigh_signs(planes: &SignPlanes, weights: &portable::SubsetSums, sums: &mut ColumnSums) {
        portable::weigh_signs(planes, weights, sums);
    }

    #[inline(always)]
    fn unpack_signs(planes: &SignPlanes, out: &mut Signs) {
        portable::unpack_signs(planes, out);
    }

    /// Processes four numbers at a time.
    #[inline(always)]
    fn add_products<const N: usize>(
        sums: &mut [[i64; SQUARE]; N],
        factors: &[[[i32; SQUARE]; N]],
        x: &[Square],
    ) {
        for half in 0..2 {
            let quarters = sums
                .each_mut()
                .map(|sums| &mut sums.as_chunks_mut::<4>().0[half]);
            // SAFETY: four sums are 32 bytes; the load needs no alignment. AVX2 is available: only
            // code compiled for it names this type.
            let mut totals = quarters
                .each_ref()
                .map(|sums| unsafe { _mm256_loadu_si256(sums.as_ptr().cast()) });
            for (factors, x) in factors.iter().zip(x) {
                for (k, x) in x.iter().enumerate() {
                    let four = &x.as_chunks::<4>().0[half];
                    // SAFETY: four numbers are eight bytes; the load needs no alignment, and the rest touches no
                    // memory. AVX2 is available, as above.
                    let x = unsafe { _mm256_cvtepi16_epi64(_mm_loadl_epi64(four.as_ptr().cast())) };
                    for (total, factors) in totals.iter_mut().zip(factors) {
                        // SAFETY: none of it touches memory. AVX2 is available, as above.
                        unsafe {
                            let product = _mm256_mul_epi32(x, _mm256_set1_epi32(factors[k]));
                            *total = _mm256_add_epi64(*total, product);
                        }
                    }
                }
            }
            for (sums, total) in quarters.into_iter().zip(totals) {
                // SAFETY: four sums are 32 bytes; the store needs no alignment. AVX2 is available, as above.
                unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), total) }
            }
        }
    }
}

/// Eight numbers; see [`Lanes`].
#[derive(Clone, Copy)]
pub(super) struct Row(__m128i);

/// Sixteen numbers; see [`Lanes`].
#[derive(Clone, Copy)]
pub(super) struct Half(__m256i);

/// 32-bit sums of two vectors.
#[derive(Clone, Copy)]
pub(super) struct RowSums([__m128i; 2]);

/// See [`RowSums`].
#[derive(Clone, Copy)]
pub(super) struct HalfSums([__m256i; 2]);

impl Vector for Row {
    type Sums = RowSums;

    const LANES: usize = 8;

    #[inline(always)]
    fn load(values: &[i16]) -> Self {
        let values: &[i16; 8] = values[..8].try_into().expect("eight numbers");
        // SAFETY: eight numbers are 16 bytes; the load needs no alignment. AVX2 is available: only
        // code compiled for it names this type.
        Row(unsafe { _mm_loadu_si128(values.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, values: &mut [i16]) {
        let values: &mut [i16; 8] = (&mut values[..8]).try_into().expect("eight numbers");
        // SAFETY: eight numbers are 16 bytes; the store needs no alignment. AVX2 is available: only
        // code compiled for it names this type.
        unsafe { _mm_storeu_si128(values.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn repeat(row: &[i16; 8]) -> Self {
        Self::load(row)
    }

    #[inline(always)]
    fn spread(values: &[i16]) -> Self {
        // SAFETY: `_mm_set1_epi16` touches no memory, and only code that has its instruction
        // reaches this point.
        Row(unsafe { _mm_set1_epi16(values[0]) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: `_mm_add_epi16` touches no memory, and its operands come from code that has its
        // instruction.
        Row(unsafe { _mm_add_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: `_mm_sub_epi16` touches no memory, and its operands come from code that has its
        // instruction.
        Row(unsafe { _mm_sub_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_low(self, other: Self) -> Self {
        // SAFETY: `_mm_mullo_epi16` touches no memory, and its operands come from code that has its
        // instruction.
        Row(unsafe { _mm_mullo_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_high(self, other: Self) -> Self {
        // SAFETY: `_mm_mulhi_epi16` touches no memory, and its operands come from code that has its
        // instruction.
        Row(unsafe { _mm_mulhi_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn shift_right_11(self) -> Self {
        // SAFETY: `_mm_srai_epi16` touches no memory, and its operands come from code that has its
        // instruction.
        Row(unsafe { _mm_srai_epi16::<11>(self.0) })
    }

    #[inline(always)]
    fn interleave(self, other: Self) -> (Self, Self) {
        // SAFETY: `_mm_unpacklo_epi16` and `_mm_unpackhi_epi16` touch no memory, and their operands
        // come from code that has their instructions.
        unsafe {
            (
                Row(_mm_unpacklo_epi16(self.0, other.0)),
                Row(_mm_unpackhi_epi16(self.0, other.0)),
            )
        }
    }

    /// No power of two is below the one row of a vector.
    #[inline(always)]
    fn exchange(self, other: Self, _: usize) -> (Self, Self) {
        (self, other)
    }

    #[inline(always)]
    fn no_sums() -> RowSums {
        // SAFETY: `_mm_setzero_si128` touches no memory, and only code that has its instruction
        // reaches this point.
        RowSums([unsafe { _mm_setzero_si128() }; 2])
    }

    #[inline(always)]
    fn accumulate(sums: RowSums, a: (Self, Self), b: (Self, Self)) -> RowSums {
        // SAFETY: `_mm_add_epi32` and `_mm_madd_epi16` touch no memory, and their operands come
        // from code that has their instructions.
        RowSums(unsafe {
            [
                _mm_add_epi32(sums.0[0], _mm_madd_epi16(a.0.0, b.0.0)),
                _mm_add_epi32(sums.0[1], _mm_madd_epi16(a.1.0, b.1.0)),
            ]
        })
    }

    #[inline(always)]
    fn halves(sums: RowSums) -> (Self, Self) {
        let [first, second] = sums.0;
        // Packing works within 128 bits, as interleaving did, and never saturates 16-bit values. No closures:
        // they would not be compiled for this instruction set.
        // SAFETY: none of it touches memory, and its operands come from code that has its
        // instructions.
        unsafe {
            let lower = _mm_set1_epi32(0xffff);
            let low = _mm_packus_epi32(_mm_and_si128(first, lower), _mm_and_si128(second, lower));
            let high = _mm_packus_epi32(_mm_srli_epi32::<16>(first), _mm_srli_epi32::<16>(second));
            (Row(low), Row(high))
        }
    }

    #[inline(always)]
    fn store_sums(sums: RowSums, out: &mut [i32]) {
        let (first, second) = out[..8].split_at_mut(4);
        // SAFETY: four sums are 16 bytes each time; the stores need no alignment. AVX2 is
        // available: only code compiled for it names this type.
        unsafe {
            _mm_storeu_si128(first.as_mut_ptr().cast(), sums.0[0]);
            _mm_storeu_si128(second.as_mut_ptr().cast(), sums.0[1]);
        }
    }
}

impl Vector for Half {
    type Sums = HalfSums;

    const LANES: usize = 16;

    #[inline(always)]
    fn load(values: &[i16]) -> Self {
        let values: &[i16; 16] = values[..16].try_into().expect("sixteen numbers");
        // SAFETY: sixteen numbers are 32 bytes; the load needs no alignment. AVX2 is available:
        // only code compiled for it names this type.
        Half(unsafe { _mm256_loadu_si256(values.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, values: &mut [i16]) {
        let values: &mut [i16; 16] = (&mut values[..16]).try_into().expect("sixteen numbers");
        // SAFETY: sixteen numbers are 32 bytes; the store needs no alignment. AVX2 is available:
        // only code compiled for it names this type.
        unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn repeat(row: &[i16; 8]) -> Self {
        // SAFETY: `_mm256_broadcastsi128_si256` touches no memory, and only code that has its
        // instruction reaches this point.
        Half(unsafe { _mm256_broadcastsi128_si256(Row::load(row).0) })
    }

    #[inline(always)]
    fn spread(values: &[i16]) -> Self {
        // SAFETY: `_mm256_set_m128i` and `_mm_set1_epi16` touch no memory, and only code that has
        // their instructions reaches this point.
        Half(unsafe { _mm256_set_m128i(_mm_set1_epi16(values[1]), _mm_set1_epi16(values[0])) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: `_mm256_add_epi16` touches no memory, and its operands come from code that has
        // its instruction.
        Half(unsafe { _mm256_add_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: `_mm256_sub_epi16` touches no memory, and its operands come from code that has
        // its instruction.
        Half(unsafe { _mm256_sub_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_low(self, other: Self) -> Self {
        // SAFETY: `_mm256_mullo_epi16` touches no memory, and its operands come from code that has
        // its instruction.
        Half(unsafe { _mm256_mullo_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_high(self, other: Self) -> Self {
        // SAFETY: `_mm256_mulhi_epi16` touches no memory, and its operands come from code that has
        // its instruction.
        Half(unsafe { _mm256_mulhi_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn shift_right_11(self) -> Self {
        // SAFETY: `_mm256_srai_epi16` touches no memory, and its operands come from code that has
        // its instruction.
        Half(unsafe { _mm256_srai_epi16::<11>(self.0) })
    }

    #[inline(always)]
    fn interleave(self, other: Self) -> (Self, Self) {
        // SAFETY: `_mm256_unpacklo_epi16` and `_mm256_unpackhi_epi16` touch no memory, and their
        // operands come from code that has their instructions.
        unsafe {
            (
                Half(_mm256_unpacklo_epi16(self.0, other.0)),
                Half(_mm256_unpackhi_epi16(self.0, other.0)),
            )
        }
    }

    /// Blocks of one row: no other power of two is below two rows.
    #[inline(always)]
    fn exchange(self, other: Self, _: usize) -> (Self, Self) {
        // SAFETY: `_mm256_permute2x128_si256` touches no memory, and its operands come from code
        // that has its instruction.
        unsafe {
            (
                Half(_mm256_permute2x128_si256::<0x20>(self.0, other.0)),
                Half(_mm256_permute2x128_si256::<0x31>(self.0, other.0)),
            )
        }
    }

    #[inline(always)]
    fn no_sums() -> HalfSums {
        // SAFETY: `_mm256_setzero_si256` touches no memory, and only code that has its instruction
        // reaches this point.
        HalfSums([unsafe { _mm256_setzero_si256() }; 2])
    }

    #[inline(always)]
    fn accumulate(sums: HalfSums, a: (Self, Self), b: (Self, Self)) -> HalfSums {
        // SAFETY: `_mm256_add_epi32` and `_mm256_madd_epi16` touch no memory, and their operands
        // come from code that has their instructions.
        HalfSums(unsafe {
            [
                _mm256_add_epi32(sums.0[0], _mm256_madd_epi16(a.0.0, b.0.0)),
                _mm256_add_epi32(sums.0[1], _mm256_madd_epi16(a.1.0, b.1.0)),
            ]
        })
    }

    #[inline(always)]
    fn halves(sums: HalfSums) -> (Self, Self) {
        let [first, second] = sums.0;
        // Packing works within 128 bits, as interleaving did, and never saturates 16-bit values. No closures:
        // they would not be compiled for this instruction set.
        // SAFETY: none of it touches memory, and its operands come from code that has its
        // instructions.
        unsafe {
            let lower = _mm256_set1_epi32(0xffff);
            let low = _mm256_packus_epi32(
                _mm256_and_si256(first, lower),
                _mm256_and_si256(second, lower),
            );
            let high = _mm256_packus_epi32(
                _mm256_srli_epi32::<16>(first),
                _mm256_srli_epi32::<16>(second),
            );
            (Half(low), Half(high))
        }
    }

    #[inline(always)]
    fn store_sums(sums: HalfSums, out: &mut [i32]) {
        let (first, second) = out[..16].split_at_mut(8);
        // SAFETY: eight sums are 32 bytes each time; the stores need no alignment. AVX2 is
        // available: only code compiled for it names this type.
        unsafe {
            _mm256_storeu_si256(first.as_mut_ptr().cast(), sums.0[0]);
            _mm256_storeu_si256(second.as_mut_ptr().cast(), sums.0[1]);
        }
    }
}
