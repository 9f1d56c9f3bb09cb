//! Sixteen elements in a vector of 512 bits, with the 52-bit multiply-add.
//!
//! Products of 32-bit words use `vpmuludq` on even and odd positions. Sums of products use the 52-bit multiply-add
//! of AVX-512-IFMA: it adds the low or the high part of a product to 64-bit words in one instruction, and 48 parts
//! cannot overflow.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use alphorn_exec::Avx512Ifma;

use crate::field::{Fp, P, P_INVERSE};
use crate::kernel::{Circulant, DOT_MAX, MIXED, PRODUCTS_MAX, Packed, Pass};

/// See [`crate::kernel::Dispatch::run`].
#[inline]
pub(in crate::kernel) fn run<W: Pass>(_: Avx512Ifma, pass: W) -> W::Output {
    // SAFETY: the witness shows that this processor has everything the callee is compiled for.
    unsafe { enter(pass) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn enter<W: Pass>(pass: W) -> W::Output {
    pass.run::<Lanes>()
}

/// Sixteen words in Montgomery form, each below p.
///
/// The type is private to this file and only [`run`] names it, so its methods run only on CPUs that have the
/// instructions.
#[derive(Clone, Copy)]
struct Lanes(__m512i);

/// The odd positions of 32-bit words.
const ODD: __mmask16 = 0xaaaa;

/// The even positions of 32-bit words.
const EVEN: __mmask16 = 0x5555;

/// floor(2^52 / p): the quotient of words below 2^52 by p is at most one too small.
const BARRETT: i64 = ((1u64 << 52) / P as u64) as i64;

/// 2^52 mod p.
const FOLD_52: i64 = ((1u64 << 52) % P as u64) as i64;

/// The words of even and of odd positions, each in 64 bits.
#[derive(Clone, Copy)]
struct Halves([__m512i; 2]);

#[inline(always)]
fn splat32(value: u32) -> __m512i {
    // SAFETY: `_mm512_set1_epi32` touches no memory, and only code that has its instruction gets here.
    unsafe { _mm512_set1_epi32(value as i32) }
}

#[inline(always)]
fn splat64(value: i64) -> __m512i {
    // SAFETY: `_mm512_set1_epi64` touches no memory, and only code that has its instruction gets here.
    unsafe { _mm512_set1_epi64(value) }
}

/// One vector of the words at even positions (low halves of `even`) and odd ones (`odd`).
#[inline(always)]
fn join_low(even: __m512i, odd: __m512i) -> __m512i {
    // SAFETY: `_mm512_mask_blend_epi32` and `_mm512_slli_epi64` touch no memory, and their operands
    // come from code that has their instructions.
    unsafe { _mm512_mask_blend_epi32(ODD, even, _mm512_slli_epi64::<32>(odd)) }
}

/// One vector of the words at odd positions: those of `even` at even positions.
#[inline(always)]
fn join_high(even: __m512i, odd: __m512i) -> __m512i {
    // SAFETY: `_mm512_mask_shuffle_epi32` touches no memory, and its operands come from code that
    // has its instruction.
    unsafe { _mm512_mask_shuffle_epi32::<0b11_11_01_01>(odd, EVEN, even) }
}

/// The words / 2^32 mod p, for words below p·2^32 at even and odd positions.
#[inline(always)]
fn montgomery(even: __m512i, odd: __m512i) -> __m512i {
    // SAFETY: nothing here touches memory, and the operands come from code that has the instructions.
    unsafe {
        let (inverse, p, zero) = (splat64(P_INVERSE as i64), splat32(P), splat64(0));
        // Only the low 32 bits of the quotients count. The compiler would turn a plain product into a 64-bit one,
        // which takes three instructions instead of one.
        let q_even = _mm512_mul_epu32(_mm512_madd52lo_epu64(zero, even, inverse), p);
        let q_odd = _mm512_mul_epu32(_mm512_madd52lo_epu64(zero, odd, inverse), p);
        let high = join_high(even, odd);
        let q_high = join_high(q_even, q_odd);
        // The low words of both are equal, so the difference of the high words is exact.
        let difference = _mm512_sub_epi32(high, q_high);
        _mm512_min_epu32(difference, _mm512_add_epi32(difference, p))
    }
}

/// Reduces a value below 2p to one below p.
#[inline(always)]
fn correct(value: __m512i) -> __m512i {
    // SAFETY: `_mm512_min_epu32` and `_mm512_sub_epi32` touch no memory, and their operands come
    // from code that has their instructions.
    unsafe { _mm512_min_epu32(value, _mm512_sub_epi32(value, splat32(P))) }
}

impl Packed for Lanes {
    type Split = Halves;
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(value: Fp) -> Self {
        Lanes(splat32(value.word()))
    }

    #[inline(always)]
    fn load(values: &[Fp]) -> Self {
        let values: &[Fp] = &values[..Self::LANES];
        // SAFETY: sixteen elements are present, each a transparent 32-bit word. AVX-512 is available: only code
        // compiled for it names this type.
        Lanes(unsafe { _mm512_loadu_si512(values.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, values: &mut [Fp]) {
        let values: &mut [Fp] = &mut values[..Self::LANES];
        // SAFETY: there is room for sixteen elements, each a transparent 32-bit word, and all words are below p.
        // AVX-512 is available: only code compiled for it names this type.
        unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: `_mm512_add_epi32` touches no memory, and its operands come from code that has
        // its instruction.
        Lanes(correct(unsafe { _mm512_add_epi32(self.0, other.0) }))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: nothing here touches memory, and the operands come from code that has the instructions.
        unsafe {
            let difference = _mm512_sub_epi32(self.0, other.0);
            let wrapped = _mm512_add_epi32(difference, splat32(P));
            Lanes(_mm512_min_epu32(difference, wrapped))
        }
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: `_mm512_mul_epu32` and `_mm512_srli_epi64` touch no memory, and their operands
        // come from code that has their instructions.
        unsafe {
            let even = _mm512_mul_epu32(self.0, other.0);
            let a = _mm512_srli_epi64::<32>(self.0);
            let b = _mm512_srli_epi64::<32>(other.0);
            Lanes(montgomery(even, _mm512_mul_epu32(a, b)))
        }
    }

    /// Both reductions stay within words of even and odd positions. The first leaves a number between −p and p, so
    /// the second product is signed, and so is what is subtracted from it: at most (p² + 2^31·p)/2^32 is left on
    /// either side, which is below p.
    #[inline(always)]
    fn cube(self) -> Self {
        // SAFETY: nothing here touches memory, and the operands come from code that has the instructions.
        unsafe {
            let (inverse, p) = (splat64(P_INVERSE as i64), splat32(P));
            let mut cubes = [self.0, _mm512_srli_epi64::<32>(self.0)];
            let mut taken = cubes;
            for (cube, taken) in cubes.iter_mut().zip(&mut taken) {
                let x = *cube;
                let square = _mm512_mul_epu32(x, x);
                let q = _mm512_mul_epu32(_mm512_madd52lo_epu64(splat64(0), square, inverse), p);
                let square = _mm512_srli_epi64::<32>(_mm512_sub_epi64(square, q));
                *cube = _mm512_mul_epi32(square, x);
                *taken = _mm512_mul_epi32(_mm512_madd52lo_epu64(splat64(0), *cube, inverse), p);
            }
            let high = join_high(cubes[0], cubes[1]);
            let difference = _mm512_sub_epi32(high, join_high(taken[0], taken[1]));
            Lanes(_mm512_min_epu32(
                difference,
                _mm512_add_epi32(difference, p),
            ))
        }
    }

    #[inline(always)]
    fn over<const N: u32>(self) -> Self {
        // SAFETY: nothing here touches memory, and the operands come from code that has the instructions.
        unsafe {
            let low = _mm512_sllv_epi32(self.0, splat32(32 - N));
            // 127·2^(24 − N)·low, which is below p.
            let taken = _mm512_sub_epi32(_mm512_srli_epi32::<1>(low), _mm512_srli_epi32::<8>(low));
            let high = _mm512_srlv_epi32(self.0, splat32(N));
            let difference = _mm512_sub_epi32(high, taken);
            Lanes(_mm512_min_epu32(
                difference,
                _mm512_add_epi32(difference, splat32(P)),
            ))
        }
    }

    #[inline(always)]
    fn split(self) -> Halves {
        // SAFETY: `_mm512_and_si512` and `_mm512_srli_epi64` touch no memory, and their operands
        // come from code that has their instructions.
        unsafe {
            // Masked, unlike in `words`: the multiply-add reads 52 bits of a word.
            let even = _mm512_and_si512(self.0, splat64(0xffff_ffff));
            Halves([even, _mm512_srli_epi64::<32>(self.0)])
        }
    }

    #[inline(always)]
    fn dot<const M: usize>(x: &[Halves], rows: [&[u64]; M]) -> [Self; M] {
        debug_assert!(x.len() <= DOT_MAX);
        let zero = [[splat64(0); 2]; M];
        let (mut low, mut high) = (zero, zero);
        for (i, Halves(x)) in x.iter().enumerate() {
            for m in 0..M {
                let w = splat64(rows[m][i] as i64);
                for h in 0..2 {
                    // SAFETY: `_mm512_madd52lo_epu64` and `_mm512_madd52hi_epu64` touch no memory,
                    // and their operands come from code that has their instructions.
                    unsafe {
                        low[m][h] = _mm512_madd52lo_epu64(low[m][h], x[h], w);
                        high[m][h] = _mm512_madd52hi_epu64(high[m][h], x[h], w);
                    }
                }
            }
        }
        // Loops, not closures: the function that calls a closure may lack the instruction set.
        let mut out = [Lanes(splat64(0)); M];
        for m in 0..M {
            for h in 0..2 {
                // Low parts sum up to 48·2^52, high parts to 48·2^10, times 2^52 mod p below 2^47.
                // SAFETY: `_mm512_madd52lo_epu64` touches no memory, and its operands come from code that has its
                // instruction.
                low[m][h] =
                    unsafe { _mm512_madd52lo_epu64(low[m][h], high[m][h], splat64(FOLD_52)) };
            }
            out[m] = Lanes(montgomery(low[m][0], low[m][1]));
        }
        out
    }

    #[inline(always)]
    fn products<const N: usize>(x: [Halves; N], y: [Halves; N]) -> Self {
        const { assert!(N <= PRODUCTS_MAX) };
        let mut sums = [splat64(0); 2];
        for (h, sum) in sums.iter_mut().enumerate() {
            // Two products stay below p·2^32, the limit of a reduction: 2·(p − 1)² < p·2^32. Four stay below
            // 2·p·2^32 < 2^64, and so does one more after a correction.
            // SAFETY: nothing here touches memory, and the operands come from code that has the instructions.
            unsafe {
                let modulus = splat64((u64::from(P) << 32) as i64);
                for i in 0..N {
                    let product = _mm512_mul_epu32(x[i].0[h], y[i].0[h]);
                    *sum = _mm512_add_epi64(*sum, product);
                    if i == N - 1 || i == 3 {
                        *sum = _mm512_min_epu64(*sum, _mm512_sub_epi64(*sum, modulus));
                    }
                }
            }
        }
        Lanes(montgomery(sums[0], sums[1]))
    }

    #[inline(always)]
    fn dot_small<const M: usize>(x: &[Halves], rows: [&[u64]; M]) -> [Self; M] {
        let mut sums = [[splat64(0); 2]; M];
        for (i, Halves(x)) in x.iter().enumerate() {
            for m in 0..M {
                let w = splat64(rows[m][i] as i64);
                for h in 0..2 {
                    // SAFETY: `_mm512_madd52lo_epu64` touches no memory, and its operands come from
                    // code that has its instruction.
                    sums[m][h] = unsafe { _mm512_madd52lo_epu64(sums[m][h], x[h], w) };
                }
            }
        }
        let mut out = [Lanes(splat64(0)); M];
        for m in 0..M {
            for sum in &mut sums[m] {
                *sum = barrett(*sum);
            }
            out[m] = Lanes(correct(join_low(sums[m][0], sums[m][1])));
        }
        out
    }

    /// With s = x_low + x_high and d = x_low − x_high the sum of the halves of the result is (A + B)·s, and their
    /// difference is (A − B)·d: half of the multiply-adds, which run on a single port.
    ///
    /// All integers are exact up to multiples of 2p, which are added where a difference could be
    /// negative; so a sum that is halved stays even. Bounds: s < 2p, d < 3p, entries of A − B plus
    /// `shift` at most 1,024: below 8·1024·3p < 2^46, and everything below 2^49.
    #[inline(always)]
    fn mix(matrix: &Circulant, x: &[Halves; MIXED]) -> [Self; MIXED] {
        const HALF: usize = MIXED / 2;
        // 2^15·p: more than what is subtracted from it, shift·Σ d < 512·8·3p. Four times as much exceeds a lifted
        // sum of differences, which is below (2^15 + 8·1024·3)·p.
        const LIFT: i64 = (2 * P as i64) << 14;
        let mut halves = [[splat64(0); MIXED]; 2];
        for (h, out) in halves.iter_mut().enumerate() {
            let mut sums = [splat64(0); HALF];
            let mut differences = [splat64(0); HALF];
            // SAFETY: nothing here touches memory, and the operands come from code that has the instructions.
            unsafe {
                let mut shifted = splat64(0);
                for j in 0..HALF {
                    let (low, high) = (x[j].0[h], x[HALF + j].0[h]);
                    sums[j] = _mm512_add_epi64(low, high);
                    let lifted = _mm512_add_epi64(low, splat64(2 * i64::from(P)));
                    differences[j] = _mm512_sub_epi64(lifted, high);
                    shifted = _mm512_add_epi64(shifted, differences[j]);
                }
                let shift = splat64(matrix.parts.shift as i64);
                let shifted = _mm512_madd52lo_epu64(splat64(0), shifted, shift);
                let lift = _mm512_sub_epi64(splat64(LIFT), shifted);
                for start in (0..HALF).step_by(4) {
                    let mut of_sums = [splat64(0); 4];
                    let mut of_differences = [lift; 4];
                    for j in 0..HALF {
                        for m in 0..4 {
                            let w = splat64(matrix.parts.sums[start + m][j] as i64);
                            of_sums[m] = _mm512_madd52lo_epu64(of_sums[m], sums[j], w);
                            let w = splat64(matrix.parts.differences[start + m][j] as i64);
                            of_differences[m] =
                                _mm512_madd52lo_epu64(of_differences[m], differences[j], w);
                        }
                    }
                    for m in 0..4 {
                        let low = _mm512_add_epi64(of_sums[m], of_differences[m]);
                        let lifted = _mm512_add_epi64(of_sums[m], splat64(4 * LIFT));
                        let high = _mm512_sub_epi64(lifted, of_differences[m]);
                        out[start + m] = _mm512_srli_epi64::<1>(low);
                        out[HALF + start + m] = _mm512_srli_epi64::<1>(high);
                    }
                }
            }
        }
        let mut mixed = [Lanes(splat64(0)); MIXED];
        for i in 0..MIXED {
            let (even, odd) = (barrett(halves[0][i]), barrett(halves[1][i]));
            mixed[i] = Lanes(correct(join_low(even, odd)));
        }
        mixed
    }
}

/// Reduces words below 2^52 to below 2p: the quotient is at most one too small.
#[inline(always)]
fn barrett(word: __m512i) -> __m512i {
    // SAFETY: nothing here touches memory, and the operands come from code that has the instructions.
    unsafe {
        let q = _mm512_madd52hi_epu64(splat64(0), word, splat64(BARRETT));
        _mm512_sub_epi64(word, _mm512_mul_epu32(q, splat64(P as i64)))
    }
}
