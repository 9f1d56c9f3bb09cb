//! Sixteen elements in a vector of 512 bits.
#![allow(unsafe_code)]

mod ifma;

use core::arch::x86_64::*;

use alphorn_exec::Avx512Dq;

use super::Pass;
use super::words::{Lanes, Words};
use crate::field::Fp;

pub(super) use ifma::run as run_ifma;

/// See [`super::Dispatch::run`].
#[inline]
pub(super) fn run<W: Pass>(_: Avx512Dq, pass: W) -> W::Output {
    // SAFETY: the witness shows that this processor has everything the callee is compiled for.
    unsafe { enter(pass) }
}

/// Without DQ: the compiler would turn a product of which only the low words count into a 64-bit one, which takes
/// three instructions instead of one.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn enter<W: Pass>(pass: W) -> W::Output {
    pass.run::<Lanes<Sixteen>>()
}

/// Sixteen words.
///
/// The type is private to this file and only [`run`] names it, so its methods run only on CPUs that have the
/// instructions.
#[derive(Clone, Copy)]
struct Sixteen(__m512i);

/// The odd positions of 32-bit words.
const ODD: __mmask16 = 0xaaaa;

/// The even positions of 32-bit words.
const EVEN: __mmask16 = 0x5555;

/// A method that is one instruction, or a few, without memory access.
macro_rules! instructions {
    ($(fn $name:ident($($operand:ident: $type:ty),*) $body:block)*) => {
        $(#[inline(always)]
        fn $name($($operand: $type),*) -> Self {
            // SAFETY: the instructions touch no memory, and only code that is compiled for them names
            // this type.
            Sixteen(unsafe { $body })
        })*
    };
}

impl Words for Sixteen {
    const LANES: usize = 16;

    #[inline(always)]
    fn load(values: &[Fp]) -> Self {
        let values: &[Fp] = &values[..Self::LANES];
        // SAFETY: this many elements are present, each a transparent 32-bit word. The instructions are available:
        // only code compiled for them names this type.
        Sixteen(unsafe { _mm512_loadu_si512(values.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, values: &mut [Fp]) {
        let values: &mut [Fp] = &mut values[..Self::LANES];
        // SAFETY: there is room for this many elements, each a transparent 32-bit word, and all words are below p.
        // The instructions are available: only code compiled for them names this type.
        unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), self.0) }
    }

    instructions! {
        fn splat32(word: u32) { _mm512_set1_epi32(word as i32) }
        fn splat64(word: i64) { _mm512_set1_epi64(word) }
        fn add32(a: Self, b: Self) { _mm512_add_epi32(a.0, b.0) }
        fn sub32(a: Self, b: Self) { _mm512_sub_epi32(a.0, b.0) }
        fn min32(a: Self, b: Self) { _mm512_min_epu32(a.0, b.0) }
        fn add64(a: Self, b: Self) { _mm512_add_epi64(a.0, b.0) }
        fn sub64(a: Self, b: Self) { _mm512_sub_epi64(a.0, b.0) }
        fn and(a: Self, b: Self) { _mm512_and_si512(a.0, b.0) }
        fn product(a: Self, b: Self) { _mm512_mul_epu32(a.0, b.0) }
        fn signed_product(a: Self, b: Self) { _mm512_mul_epi32(a.0, b.0) }
        fn right(bits: u32, a: Self) { _mm512_srlv_epi64(a.0, _mm512_set1_epi64(i64::from(bits))) }
        fn right32(a: Self, bits: u32) { _mm512_srlv_epi32(a.0, _mm512_set1_epi32(bits as i32)) }
        fn left32(a: Self, bits: u32) { _mm512_sllv_epi32(a.0, _mm512_set1_epi32(bits as i32)) }
        fn join_low(even: Self, odd: Self) { _mm512_mask_blend_epi32(ODD, even.0, _mm512_slli_epi64::<32>(odd.0)) }
        fn join_high(even: Self, odd: Self) { _mm512_mask_shuffle_epi32::<0b11_11_01_01>(odd.0, EVEN, even.0) }
    }
}
