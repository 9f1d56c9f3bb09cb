//! Eight elements in a vector of 256 bits.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use alphorn_exec::Avx2;

use super::{Circulant, DOT_MAX, MIXED, PRODUCTS_MAX, Packed, Pass};
use crate::field::{Fp, P, P_INVERSE};

/// See [`super::Dispatch::run`].
#[inline]
pub(super) fn run<W: Pass>(_: Avx2, pass: W) -> W::Output {
    // SAFETY: the witness shows that this processor has all that the callee is compiled for.
    unsafe { enter(pass) }
}

#[target_feature(enable = "avx2")]
fn enter<W: Pass>(pass: W) -> W::Output {
    pass.run::<Lanes>()
}

/// Eight words in Montgomery form, each below p.
///
/// The type is private to this file, and only [`run`] names it: so its methods run on CPUs
/// that have the instructions.
#[derive(Clone, Copy)]
struct Lanes(__m256i);

/// Products of two words below p that a sum of 64 bits takes: 4·(p − 1)² < 2^64.
const RUN: usize = 4;

/// floor(2^47 / p), for quotients of words below 2^40 shifted right by 16.
const BARRETT: u32 = ((1u64 << 47) / P as u64) as u32;

/// The words of even and of odd positions, each in the low half of 64 bits.
#[derive(Clone, Copy)]
struct Halves([__m256i; 2]);

#[inline(always)]
fn splat32(value: u32) -> __m256i {
    // SAFETY: `_mm256_set1_epi32` touches no memory, and only code that has its instruction comes
    // here.
    unsafe { _mm256_set1_epi32(value as i32) }
}

#[inline(always)]
fn splat64(value: i64) -> __m256i {
    // SAFETY: `_mm256_set1_epi64x` touches no memory, and only code that has its instruction comes
    // here.
    unsafe { _mm256_set1_epi64x(value) }
}

/// One vector of the low words of `even` and those of `odd`.
#[inline(always)]
fn join_low(even: __m256i, odd: __m256i) -> __m256i {
    // SAFETY: `_mm256_blend_epi32` and `_mm256_slli_epi64` touch no memory, and their operands come
    // from code that has their instructions.
    unsafe { _mm256_blend_epi32::<0xaa>(even, _mm256_slli_epi64::<32>(odd)) }
}

/// One vector of the high words of `even` and those of `odd`.
#[inline(always)]
fn join_high(even: __m256i, odd: __m256i) -> __m256i {
    // SAFETY: `_mm256_blend_epi32` and `_mm256_srli_epi64` touch no memory, and their operands come
    // from code that has their instructions.
    unsafe { _mm256_blend_epi32::<0xaa>(_mm256_srli_epi64::<32>(even), odd) }
}

/// The words / 2^32 mod p, for words below p·2^32 at even and odd positions.
#[inline(always)]
fn montgomery(even: __m256i, odd: __m256i) -> __m256i {
    // SAFETY: all of it touches no memory, and its operands come from code that has its
    // instructions.
    unsafe {
        let (inverse, p) = (splat32(P_INVERSE), splat32(P));
        let q_even = _mm256_mul_epu32(_mm256_mul_epu32(even, inverse), p);
        let q_odd = _mm256_mul_epu32(_mm256_mul_epu32(odd, inverse), p);
        // The low words of both are equal, so the difference of the high words is exact.
        let difference = _mm256_sub_epi32(join_high(even, odd), join_high(q_even, q_odd));
        _mm256_min_epu32(difference, _mm256_add_epi32(difference, p))
    }
}

/// A value below 2p made one below p.
#[inline(always)]
fn correct(value: __m256i) -> __m256i {
    // SAFETY: `_mm256_min_epu32` and `_mm256_sub_epi32` touch no memory, and their operands come
    // from code that has their instructions.
    unsafe { _mm256_min_epu32(value, _mm256_sub_epi32(value, splat32(P))) }
}

/// Words below 2^40 modulo p, of even and odd positions.
#[inline(always)]
fn barrett(words: [__m256i; 2]) -> __m256i {
    // Loops, not closures: what a closure is called from may lack the instruction set.
    let mut rests = words;
    for rest in &mut rests {
        // SAFETY: all of it touches no memory, and its operands come from code that has its
        // instructions.
        unsafe {
            // The quotient is at most one too small: the two roundings lose less than one together.
            let shifted = _mm256_mul_epu32(_mm256_srli_epi64::<16>(*rest), splat64(BARRETT.into()));
            let q = _mm256_srli_epi64::<31>(shifted);
            *rest = _mm256_sub_epi64(*rest, _mm256_mul_epu32(q, splat64(P.into())));
        }
    }
    correct(join_low(rests[0], rests[1]))
}

impl Packed for Lanes {
    type Split = Halves;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(value: Fp) -> Self {
        Lanes(splat32(value.word()))
    }

    #[inline(always)]
    fn load(values: &[Fp]) -> Self {
        let values: &[Fp] = &values[..Self::LANES];
        // SAFETY: eight elements are there, each a transparent 32-bit word. AVX2 is there: only
        // code compiled for it names this type.
        Lanes(unsafe { _mm256_loadu_si256(values.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, values: &mut [Fp]) {
        let values: &mut [Fp] = &mut values[..Self::LANES];
        // SAFETY: there is room for eight elements, each a transparent 32-bit word, and all words
        // are below p. AVX2 is there: only code compiled for it names this type.
        unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: `_mm256_add_epi32` touches no memory, and its operands come from code that has
        // its instruction.
        Lanes(correct(unsafe { _mm256_add_epi32(self.0, other.0) }))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: all of it touches no memory, and its operands come from code that has its
        // instructions.
        unsafe {
            let difference = _mm256_sub_epi32(self.0, other.0);
            let wrapped = _mm256_add_epi32(difference, splat32(P));
            Lanes(_mm256_min_epu32(difference, wrapped))
        }
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: `_mm256_mul_epu32` and `_mm256_srli_epi64` touch no memory, and their operands
        // come from code that has their instructions.
        unsafe {
            let even = _mm256_mul_epu32(self.0, other.0);
            let a = _mm256_srli_epi64::<32>(self.0);
            let b = _mm256_srli_epi64::<32>(other.0);
            Lanes(montgomery(even, _mm256_mul_epu32(a, b)))
        }
    }

    /// Both reductions stay within words of even and odd positions. The first leaves a number between
    /// −p and p, so the second product has a sign, and so has what is taken from it: at most
    /// (p² + 2^31·p)/2^32 is left on either side, which is below p.
    #[inline(always)]
    fn cube(self) -> Self {
        // SAFETY: all of it touches no memory, and its operands come from code that has its
        // instructions.
        unsafe {
            let (inverse, p) = (splat32(P_INVERSE), splat32(P));
            let mut cubes = [self.0, _mm256_srli_epi64::<32>(self.0)];
            let mut taken = cubes;
            for (cube, taken) in cubes.iter_mut().zip(&mut taken) {
                let x = *cube;
                let square = _mm256_mul_epu32(x, x);
                let q = _mm256_mul_epu32(_mm256_mul_epu32(square, inverse), p);
                let square = _mm256_srli_epi64::<32>(_mm256_sub_epi64(square, q));
                *cube = _mm256_mul_epi32(square, x);
                *taken = _mm256_mul_epi32(_mm256_mul_epu32(*cube, inverse), p);
            }
            let high = join_high(cubes[0], cubes[1]);
            let difference = _mm256_sub_epi32(high, join_high(taken[0], taken[1]));
            Lanes(_mm256_min_epu32(
                difference,
                _mm256_add_epi32(difference, p),
            ))
        }
    }

    #[inline(always)]
    fn over<const N: u32>(self) -> Self {
        // SAFETY: all of it touches no memory, and its operands come from code that has its
        // instructions.
        unsafe {
            let low = _mm256_sllv_epi32(self.0, splat32(32 - N));
            // 127·2^(24 − N)·low, which is below p.
            let taken = _mm256_sub_epi32(_mm256_srli_epi32::<1>(low), _mm256_srli_epi32::<8>(low));
            let high = _mm256_srlv_epi32(self.0, splat32(N));
            let difference = _mm256_sub_epi32(high, taken);
            Lanes(_mm256_min_epu32(
                difference,
                _mm256_add_epi32(difference, splat32(P)),
            ))
        }
    }

    #[inline(always)]
    fn split(self) -> Halves {
        // SAFETY: `_mm256_srli_epi64` touches no memory, and its operands come from code that has
        // its instruction.
        Halves([self.0, unsafe { _mm256_srli_epi64::<32>(self.0) }])
    }

    #[inline(always)]
    fn dot<const M: usize>(x: &[Halves], rows: [&[u64]; M]) -> [Self; M] {
        debug_assert!(x.len() <= DOT_MAX);
        // Σ = low + 2^32·high, both below 2^36 for 12 runs.
        let zero = [[splat64(0); 2]; M];
        let (mut low, mut high) = (zero, zero);
        for (run, xs) in x.chunks(RUN).enumerate() {
            for m in 0..M {
                let mut sum = [splat64(0); 2];
                for (Halves(x), w) in xs.iter().zip(&rows[m][run * RUN..]) {
                    let w = splat64(*w as i64);
                    for h in 0..2 {
                        // SAFETY: `_mm256_add_epi64` and `_mm256_mul_epu32` touch no memory, and
                        // their operands come from code that has their instructions.
                        sum[h] = unsafe { _mm256_add_epi64(sum[h], _mm256_mul_epu32(x[h], w)) };
                    }
                }
                for h in 0..2 {
                    // SAFETY: all of it touches no memory, and its operands come from code that has
                    // its instructions.
                    unsafe {
                        let word = _mm256_and_si256(sum[h], splat64(0xffff_ffff));
                        low[m][h] = _mm256_add_epi64(low[m][h], word);
                        let word = _mm256_srli_epi64::<32>(sum[h]);
                        high[m][h] = _mm256_add_epi64(high[m][h], word);
                    }
                }
            }
        }
        let mut out = [Lanes(splat64(0)); M];
        for m in 0..M {
            let reduced = montgomery(low[m][0], low[m][1]);
            out[m] = Lanes(reduced).add(Lanes(barrett(high[m])));
        }
        out
    }

    #[inline(always)]
    fn products<const N: usize>(x: [Halves; N], y: [Halves; N]) -> Self {
        const { assert!(N <= PRODUCTS_MAX) };
        // Two products stay below p·2^32, what a reduction takes: 2·(p − 1)² < p·2^32.
        let mut out = Lanes(splat64(0));
        for i in (0..N).step_by(2) {
            let mut sum = [splat64(0); 2];
            for (h, sum) in sum.iter_mut().enumerate() {
                // SAFETY: `_mm256_mul_epu32` and `_mm256_add_epi64` touch no memory, and their
                // operands come from code that has their instructions.
                unsafe {
                    *sum = _mm256_mul_epu32(x[i].0[h], y[i].0[h]);
                    if i + 1 < N {
                        let next = _mm256_mul_epu32(x[i + 1].0[h], y[i + 1].0[h]);
                        *sum = _mm256_add_epi64(*sum, next);
                    }
                }
            }
            let reduced = Lanes(montgomery(sum[0], sum[1]));
            out = if i == 0 { reduced } else { out.add(reduced) };
        }
        out
    }

    #[inline(always)]
    fn dot_small<const M: usize>(x: &[Halves], rows: [&[u64]; M]) -> [Self; M] {
        let mut sums = [[splat64(0); 2]; M];
        for (i, Halves(x)) in x.iter().enumerate() {
            for m in 0..M {
                let w = splat64(rows[m][i] as i64);
                for h in 0..2 {
                    // SAFETY: `_mm256_add_epi64` and `_mm256_mul_epu32` touch no memory, and their
                    // operands come from code that has their instructions.
                    sums[m][h] = unsafe { _mm256_add_epi64(sums[m][h], _mm256_mul_epu32(x[h], w)) };
                }
            }
        }
        let mut out = [Lanes(splat64(0)); M];
        for m in 0..M {
            out[m] = Lanes(barrett(sums[m]));
        }
        out
    }

    /// With s = x_low + x_high and d = x_low − x_high the halves of the result are
    /// ((A + B)·s ± (A − B)·d)/2: half of the products. All integers are exact: s < 2p < 2^32 and
    /// |d| < p are words for products without and with sign, and both results are sums of entries
    /// of the matrix times x, so not negative, and below 512·p < 2^40.
    #[inline(always)]
    fn mix(matrix: &Circulant, x: &[Halves; MIXED]) -> [Self; MIXED] {
        const HALF: usize = MIXED / 2;
        let mut halves = [[splat64(0); MIXED]; 2];
        for (h, out) in halves.iter_mut().enumerate() {
            let mut sums = [splat64(0); HALF];
            let mut differences = [splat64(0); HALF];
            for j in 0..HALF {
                let (low, high) = (x[j].0[h], x[HALF + j].0[h]);
                // Words of other positions may stand above: products do not read them.
                // SAFETY: `_mm256_add_epi32` and `_mm256_sub_epi32` touch no memory, and their
                // operands come from code that has their instructions.
                unsafe {
                    sums[j] = _mm256_add_epi32(low, high);
                    differences[j] = _mm256_sub_epi32(low, high);
                }
            }
            for start in (0..HALF).step_by(2) {
                let mut of_sums = [splat64(0); 2];
                let mut of_differences = [splat64(0); 2];
                for j in 0..HALF {
                    for m in 0..2 {
                        // SAFETY: all of it touches no memory, and its operands come from code that
                        // has its instructions.
                        unsafe {
                            let w = splat64(matrix.sums[start + m][j] as i64);
                            let product = _mm256_mul_epu32(sums[j], w);
                            of_sums[m] = _mm256_add_epi64(of_sums[m], product);
                            let w = splat64(matrix.signed[start + m][j]);
                            let product = _mm256_mul_epi32(differences[j], w);
                            of_differences[m] = _mm256_add_epi64(of_differences[m], product);
                        }
                    }
                }
                for m in 0..2 {
                    // SAFETY: all of it touches no memory, and its operands come from code that has
                    // its instructions.
                    unsafe {
                        let low = _mm256_add_epi64(of_sums[m], of_differences[m]);
                        let high = _mm256_sub_epi64(of_sums[m], of_differences[m]);
                        out[start + m] = _mm256_srli_epi64::<1>(low);
                        out[HALF + start + m] = _mm256_srli_epi64::<1>(high);
                    }
                }
            }
        }
        let mut mixed = [Lanes(splat64(0)); MIXED];
        for i in 0..MIXED {
            mixed[i] = Lanes(barrett([halves[0][i], halves[1][i]]));
        }
        mixed
    }
}
