//! Vectors of 512 bits, with those of AVX2 for rows that are shorter.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::avx2::{Half, Row};
use super::{Pass, SIGN_GROUPS, SIGN_PARTS, SignPlanes, SignSums, SignWeights, Vector, Vectors};

/// Proof that this CPU has AVX2 and AVX-512 F, BW, DQ, VL and VNNI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Avx512(());

impl Avx512 {
    pub(super) fn detect() -> Option<Avx512> {
        let all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        all.then_some(Avx512(()))
    }

    /// See [`super::Backend::run`].
    #[inline]
    pub(super) fn run<P: Pass>(self, pass: P) -> P::Output {
        // SAFETY: `self` exists only where `detect` found the instructions.
        unsafe { enter(pass) }
    }
}

#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn enter<P: Pass>(pass: P) -> P::Output {
    pass.run::<Lanes>()
}

/// The vectors of this level. Only [`Avx512::run`] names it, so methods of its types run on CPUs
/// that have the instructions.
struct Lanes;

impl Vectors for Lanes {
    type Wide = Wide;
    type Half = Half;
    type Row = Row;

    /// Sixteen columns at a time: a word of each plane is the mask of 16 columns by four rows, and
    /// one instruction adds the products of four rows for one part.
    #[inline(always)]
    fn weigh_signs(planes: &SignPlanes, weights: &SignWeights, sums: &mut SignSums) {
        let words = planes.each_ref().map(|plane| plane.as_chunks::<8>().0);
        for columns in 0..4 {
            // SAFETY: see `Lanes`.
            let mut parts = [unsafe { _mm512_setzero_si512() }; SIGN_PARTS];
            for (group, weights) in weights.iter().enumerate() {
                let word = |k: usize| u64::from_le_bytes(words[k][4 * group + columns]);
                // SAFETY: see `Lanes`.
                unsafe {
                    let ones = _mm512_set1_epi8(1);
                    let plus = _mm512_maskz_mov_epi8(word(0), ones);
                    let signs = _mm512_mask_sub_epi8(plus, word(1), plus, ones);
                    for (part, &weights) in parts.iter_mut().zip(weights) {
                        let weights = _mm512_set1_epi32(weights as i32);
                        *part = _mm512_dpbusd_epi32(*part, weights, signs);
                    }
                }
            }
            for (sums, part) in sums.iter_mut().zip(parts) {
                let place: &mut [i32; 16] = (&mut sums[16 * columns..16 * (columns + 1)])
                    .try_into()
                    .expect("sixteen sums");
                // SAFETY: sixteen sums are 64 bytes; the store needs no alignment. See `Lanes`.
                unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), part) }
            }
        }
    }
}

const _: () = assert!(
    SIGN_GROUPS * 32 == 2048,
    "a group has four words of a plane"
);

/// Thirty-two numbers; see [`Lanes`].
#[derive(Clone, Copy)]
struct Wide(__m512i);

/// Sums of 32 bits: those of the lower and of the upper half of each 128 bits.
#[derive(Clone, Copy)]
struct WideSums([__m512i; 2]);

impl Vector for Wide {
    type Sums = WideSums;

    const LANES: usize = 32;

    #[inline(always)]
    fn load(values: &[i16]) -> Self {
        let values: &[i16; 32] = values[..32].try_into().expect("32 numbers");
        // SAFETY: 32 numbers are 64 bytes; the load needs no alignment. See `Lanes`.
        Wide(unsafe { _mm512_loadu_si512(values.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, values: &mut [i16]) {
        let values: &mut [i16; 32] = (&mut values[..32]).try_into().expect("32 numbers");
        // SAFETY: 32 numbers are 64 bytes; the store needs no alignment. See `Lanes`.
        unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn repeat(row: &[i16; 8]) -> Self {
        // SAFETY: eight numbers are 16 bytes; the load needs no alignment. See `Lanes`.
        Wide(unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(row.as_ptr().cast())) })
    }

    #[inline(always)]
    fn spread(values: &[i16]) -> Self {
        let values: &[i16; 4] = values[..4].try_into().expect("four numbers");
        // SAFETY: four numbers are 8 bytes; the load needs no alignment. See `Lanes`.
        Wide(unsafe {
            let four = _mm512_castsi128_si512(_mm_loadl_epi64(values.as_ptr().cast()));
            // The number of each 128 bits, eight times.
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
        // SAFETY: see `Lanes`.
        Wide(unsafe { _mm512_add_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see `Lanes`.
        Wide(unsafe { _mm512_sub_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_low(self, other: Self) -> Self {
        // SAFETY: see `Lanes`.
        Wide(unsafe { _mm512_mullo_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_high(self, other: Self) -> Self {
        // SAFETY: see `Lanes`.
        Wide(unsafe { _mm512_mulhi_epi16(self.0, other.0) })
    }

    #[inline(always)]
    fn shift_right_11(self) -> Self {
        // SAFETY: see `Lanes`.
        Wide(unsafe { _mm512_srai_epi16::<11>(self.0) })
    }

    #[inline(always)]
    fn madd(self, other: Self, out: &mut [i32]) {
        let out: &mut [i32; 16] = (&mut out[..16]).try_into().expect("sixteen sums");
        // SAFETY: sixteen sums are 64 bytes; the store needs no alignment. See `Lanes`.
        unsafe {
            let sums = _mm512_madd_epi16(self.0, other.0);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), sums);
        }
    }

    #[inline(always)]
    fn no_sums() -> WideSums {
        // SAFETY: see `Lanes`.
        WideSums([unsafe { _mm512_setzero_si512() }; 2])
    }

    #[inline(always)]
    fn accumulate(sums: WideSums, a: Self, b: Self) -> WideSums {
        // SAFETY: see `Lanes`.
        unsafe {
            let (low, high) = (a.mul_low(b).0, a.mul_high(b).0);
            WideSums([
                _mm512_add_epi32(sums.0[0], _mm512_unpacklo_epi16(low, high)),
                _mm512_add_epi32(sums.0[1], _mm512_unpackhi_epi16(low, high)),
            ])
        }
    }

    #[inline(always)]
    fn halves(sums: WideSums) -> (Self, Self) {
        // SAFETY: see `Lanes`.
        unsafe {
            let low = (sums.0).map(|x| _mm512_srai_epi32::<16>(_mm512_slli_epi32::<16>(x)));
            let high = sums.0.map(|x| _mm512_srai_epi32::<16>(x));
            // Packing works within 128 bits, as unpacking did, and saturates nothing.
            (
                Wide(_mm512_packs_epi32(low[0], low[1])),
                Wide(_mm512_packs_epi32(high[0], high[1])),
            )
        }
    }
}
