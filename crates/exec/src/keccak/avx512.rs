//! Eight words in a vector of 512 bits.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::{States, Words};
use crate::instructions::Avx512F;

/// See [`super::Shakes::permute`].
pub(super) fn permute(_: Avx512F, states: &mut States) {
    // SAFETY: the callee is compiled for AVX-512 F, which the witness shows that this processor has.
    unsafe { permute_compiled(states) }
}

#[target_feature(enable = "avx512f")]
fn permute_compiled(states: &mut States) {
    super::permute::<Eight>(states);
}

/// Private, and named by [`permute_compiled`] alone: code with a value of it runs where AVX-512 is.
#[derive(Clone, Copy)]
struct Eight(__m512i);

impl Words for Eight {
    const COUNT: usize = 8;

    #[inline(always)]
    fn load(words: &[u64]) -> Self {
        let words: &[u64; 8] = words[..8].try_into().expect("eight words");
        // SAFETY: reads the 64 bytes of the array, at any alignment, by AVX-512: nobody calls this but
        // `permute_compiled`, which has it.
        Eight(unsafe { _mm512_loadu_si512(words.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        let words: &mut [u64; 8] = (&mut words[..8]).try_into().expect("eight words");
        // SAFETY: writes the 64 bytes of the array, at any alignment, by AVX-512, under which `self`
        // was made.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: `vpxorq` touches no memory and needs AVX-512 F, under which `self` was made.
        Eight(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        // SAFETY: `vpandnq` touches no memory and needs AVX-512 F, under which `self` was made.
        Eight(unsafe { _mm512_andnot_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn turn(self, bits: u32) -> Self {
        // SAFETY: `vprolvq` turns by any number of bits modulo 64, touches no memory and needs AVX-512
        // F, under which `self` was made.
        Eight(unsafe { _mm512_rolv_epi64(self.0, _mm512_set1_epi64(i64::from(bits))) })
    }
}
