//! Four words in a vector of 256 bits.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::{States, Words};
use crate::Avx2;

/// See [`super::Shakes::permute`].
pub(super) fn permute(_: Avx2, states: &mut States) {
    // SAFETY: the callee is compiled for AVX2, which the witness shows that this processor has.
    unsafe { permute_compiled(states) }
}

#[target_feature(enable = "avx2")]
fn permute_compiled(states: &mut States) {
    super::permute::<Four>(states);
}

/// Private and used only by [`permute_compiled`]: code that holds a value of it runs only where AVX2 is
/// available.
#[derive(Clone, Copy)]
struct Four(__m256i);

impl Words for Four {
    const COUNT: usize = 4;

    #[inline(always)]
    fn load(words: &[u64]) -> Self {
        let words: &[u64; 4] = words[..4].try_into().expect("four words");
        // SAFETY: reads the 32 bytes of the array, at any alignment, by AVX2: nobody calls this but
        // `permute_compiled`, which has it.
        Four(unsafe { _mm256_loadu_si256(words.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        let words: &mut [u64; 4] = (&mut words[..4]).try_into().expect("four words");
        // SAFETY: writes the 32 bytes of the array, at any alignment, by AVX2, under which `self`
        // was made.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: `vpxor` touches no memory and needs AVX2, under which `self` was made.
        Four(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        // SAFETY: `vpandn` touches no memory and needs AVX2, under which `self` was made.
        Four(unsafe { _mm256_andnot_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn turn(self, bits: u32) -> Self {
        // SAFETY: shifts of AVX2 by any number of bits are defined, and touch no memory; `self` was
        // made under AVX2.
        Four(unsafe {
            let left = _mm256_sllv_epi64(self.0, _mm256_set1_epi64x(i64::from(bits)));
            let right = _mm256_srlv_epi64(self.0, _mm256_set1_epi64x(64 - i64::from(bits)));
            _mm256_or_si256(left, right)
        })
    }
}
