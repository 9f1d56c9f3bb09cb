//! Eight words in a vector of 512 bits.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::{ByteOrder, LANES, States, Words};
use crate::instructions::{Avx512F, Avx512Vbmi2};

/// See [`super::Shakes::permute`].
pub(super) fn permute(_: Avx512F, states: &mut States) {
    // SAFETY: the callee is compiled for AVX-512 F, which the witness shows that this processor has.
    unsafe { permute_compiled(states) }
}

#[target_feature(enable = "avx512f")]
fn permute_compiled(states: &mut States) {
    super::permute::<Eight>(states);
}

/// See [`super::Shakes::below`].
pub(super) fn below(
    _: Avx512Vbmi2,
    rows: &[[u64; LANES]],
    lane: usize,
    limit: u16,
    order: ByteOrder,
    out: &mut [u16],
) -> usize {
    // SAFETY: the callee is compiled for what the witness shows that this processor has.
    unsafe { below_compiled(rows, lane, limit, order, out) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
fn below_compiled(
    rows: &[[u64; LANES]],
    lane: usize,
    limit: u16,
    order: ByteOrder,
    out: &mut [u16],
) -> usize {
    let limit = _mm512_set1_epi16(limit as i16);
    let mut filled = 0;
    for rows in rows.chunks(8) {
        // Words that were just stored one by one could not be loaded as a vector without a stall.
        let word = |k: usize| rows.get(k).map_or(0, |row| row[lane] as i64);
        let (a, b, c, d) = (word(0), word(1), word(2), word(3));
        let mut numbers = _mm512_set_epi64(word(7), word(6), word(5), word(4), d, c, b, a);
        if order == ByteOrder::Big {
            let (low, high) = (
                _mm512_srli_epi16::<8>(numbers),
                _mm512_slli_epi16::<8>(numbers),
            );
            numbers = _mm512_or_si512(low, high);
        }
        // Four numbers per word; a chunk is never empty, so the shift is below 32.
        let there = u32::MAX >> (32 - 4 * rows.len());
        let kept = _mm512_mask_cmplt_epu16_mask(there, numbers, limit);
        let count = kept.count_ones() as usize;
        let to = &mut out[filled..filled + count];
        if count > 0 {
            let front = u32::MAX >> (32 - count);
            let numbers = _mm512_maskz_compress_epi16(kept, numbers);
            // SAFETY: writes the numbers of the slice and no others.
            unsafe { _mm512_mask_storeu_epi16(to.as_mut_ptr().cast(), front, numbers) }
        }
        filled += count;
    }
    filled
}

/// Private and used only by [`permute_compiled`]: code that holds a value of it runs only where AVX-512 is
/// available.
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
