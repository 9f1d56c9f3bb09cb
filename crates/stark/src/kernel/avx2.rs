//! Eight elements in a vector of 256 bits.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use alphorn_exec::Avx2;

use super::Pass;
use super::words::{Lanes, Words};
use crate::field::Fp;

/// See [`super::Dispatch::run`].
#[inline]
pub(super) fn run<W: Pass>(_: Avx2, pass: W) -> W::Output {
    // SAFETY: the witness shows that this processor has everything the callee is compiled for.
    unsafe { enter(pass) }
}

#[target_feature(enable = "avx2")]
fn enter<W: Pass>(pass: W) -> W::Output {
    pass.run::<Lanes<Eight>>()
}

/// Eight words.
///
/// The type is private to this file and only [`run`] names it, so its methods run only on CPUs that have the
/// instructions.
#[derive(Clone, Copy)]
struct Eight(__m256i);

/// A method that is one instruction, or a few, without memory access.
macro_rules! instructions {
    ($(fn $name:ident($($operand:ident: $type:ty),*) $body:block)*) => {
        $(#[inline(always)]
        fn $name($($operand: $type),*) -> Self {
            // SAFETY: the instructions touch no memory, and only code that is compiled for them names this type.
            Eight(unsafe { $body })
        })*
    };
}

impl Words for Eight {
    const LANES: usize = 8;

    #[inline(always)]
    fn load(values: &[Fp]) -> Self {
        let values: &[Fp] = &values[..Self::LANES];
        // SAFETY: this many elements are present, each a transparent 32-bit word. The instructions are available:
        // only code compiled for them names this type.
        Eight(unsafe { _mm256_loadu_si256(values.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, values: &mut [Fp]) {
        let values: &mut [Fp] = &mut values[..Self::LANES];
        // SAFETY: there is room for this many elements, each a transparent 32-bit word, and all words are below p.
        // The instructions are available: only code compiled for them names this type.
        unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), self.0) }
    }

    instructions! {
        fn splat32(word: u32) { _mm256_set1_epi32(word as i32) }
        fn splat64(word: i64) { _mm256_set1_epi64x(word) }
        fn add32(a: Self, b: Self) { _mm256_add_epi32(a.0, b.0) }
        fn sub32(a: Self, b: Self) { _mm256_sub_epi32(a.0, b.0) }
        fn min32(a: Self, b: Self) { _mm256_min_epu32(a.0, b.0) }
        fn add64(a: Self, b: Self) { _mm256_add_epi64(a.0, b.0) }
        fn sub64(a: Self, b: Self) { _mm256_sub_epi64(a.0, b.0) }
        fn and(a: Self, b: Self) { _mm256_and_si256(a.0, b.0) }
        fn product(a: Self, b: Self) { _mm256_mul_epu32(a.0, b.0) }
        fn signed_product(a: Self, b: Self) { _mm256_mul_epi32(a.0, b.0) }
        fn right(bits: u32, a: Self) { _mm256_srlv_epi64(a.0, _mm256_set1_epi64x(i64::from(bits))) }
        fn right32(a: Self, bits: u32) { _mm256_srlv_epi32(a.0, _mm256_set1_epi32(bits as i32)) }
        fn left32(a: Self, bits: u32) { _mm256_sllv_epi32(a.0, _mm256_set1_epi32(bits as i32)) }
        fn join_low(even: Self, odd: Self) { _mm256_blend_epi32::<0xaa>(even.0, _mm256_slli_epi64::<32>(odd.0)) }
        fn join_high(even: Self, odd: Self) { _mm256_blend_epi32::<0xaa>(_mm256_srli_epi64::<32>(even.0), odd.0) }
    }
}
