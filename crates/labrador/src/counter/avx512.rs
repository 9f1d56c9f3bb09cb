//! Thirty-two AES blocks side by side.
//!
//! The crates `aes` and `ctr` take four times as long for the 4 kB of an element, since keys and states
//! pass through memory between their closures.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use alphorn_exec::Avx512Vaes;

use super::BLOCK_BYTES;

/// Bytes of a vector: four blocks.
const VECTOR_BYTES: usize = 4 * BLOCK_BYTES;

/// Vectors side by side.
const VECTORS: usize = 8;

/// Number of round keys: the rounds with a 128-bit key, and the initial key addition.
const KEYS: usize = 11;

/// A key, and the counter of the first block.
pub(super) struct Wide {
    witness: Avx512Vaes,
    keys: [__m128i; KEYS],
    high: u64,
    low: u64,
}

impl Wide {
    /// Returns None if the processor lacks the instructions.
    pub(super) fn new(key: &[u8; BLOCK_BYTES], first: &[u8; BLOCK_BYTES]) -> Option<Self> {
        let witness = Avx512Vaes::detect()?;
        let first = u128::from_be_bytes(*first);
        Some(Self {
            witness,
            // SAFETY: the witness shows that this processor has all that the callee is compiled for.
            keys: unsafe { expand(key) },
            high: (first >> 64) as u64,
            low: first as u64,
        })
    }

    /// Overwrites whole blocks with those of the stream from number `block` on. Returns false, and writes
    /// nothing, if the lower half of the counter would overflow.
    ///
    /// # Panics
    /// If the length is not a multiple of a block.
    #[must_use]
    pub(super) fn fill(&self, block: u64, out: &mut [u8]) -> bool {
        assert!(out.len().is_multiple_of(BLOCK_BYTES), "whole blocks");
        // The vectors at the end may count past their blocks.
        let blocks = out.len().div_ceil(VECTOR_BYTES) as u64 * 4;
        // Lanes of 64 bits carry nothing from the lower half of a counter to the upper one.
        let first = self.low.checked_add(block);
        let Some(first) = first.filter(|first| first.checked_add(blocks).is_some()) else {
            return false;
        };
        let Self { witness, .. } = self;
        fill(*witness, self, first, out);
        true
    }
}

#[inline]
fn fill(_: Avx512Vaes, wide: &Wide, first: u64, out: &mut [u8]) {
    // SAFETY: the witness shows that this processor has all that the callee is compiled for.
    unsafe { enter(wide, first, out) }
}

/// Expands the key for all rounds (FIPS 197, section 5.2).
#[target_feature(enable = "aes")]
fn expand(key: &[u8; BLOCK_BYTES]) -> [__m128i; KEYS] {
    // SAFETY: a key is 16 bytes; the load needs no alignment.
    let mut keys = [unsafe { _mm_loadu_si128(key.as_ptr().cast()) }; KEYS];
    macro_rules! round {
        ($($number:literal $constant:literal),*) => {$(
            let before = keys[$number - 1];
            let word = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<$constant>(before));
            // Each word is the XOR of all words before it.
            let two = _mm_xor_si128(before, _mm_slli_si128::<4>(before));
            let four = _mm_xor_si128(two, _mm_slli_si128::<8>(two));
            keys[$number] = _mm_xor_si128(four, word);
        )*};
    }
    round!(1 1, 2 2, 3 4, 4 8, 5 16, 6 32, 7 64, 8 128, 9 0x1b, 10 0x36);
    keys
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,aes,vaes")]
fn enter(wide: &Wide, first: u64, out: &mut [u8]) {
    let mut keys = [_mm512_setzero_si512(); KEYS];
    for (all, &key) in keys.iter_mut().zip(&wide.keys) {
        *all = _mm512_broadcast_i32x4(key);
    }
    // Counters of four blocks as numbers, and the byte order that makes them big endian.
    let high = wide.high as i64;
    let low = |k: u64| first.wrapping_add(k) as i64;
    let mut counters = _mm512_set_epi64(low(3), high, low(2), high, low(1), high, low(0), high);
    let four = _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0);
    let (first, second) = (0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    let reversed = _mm512_broadcast_i32x4(_mm_set_epi64x(second, first));
    let mut done = 0;
    while done < out.len() {
        let rest = &mut out[done..];
        let vectors = VECTORS.min(rest.len().div_ceil(VECTOR_BYTES));
        // The XOR with the counters below is the initial key addition.
        let mut states = [keys[0]; VECTORS];
        for state in &mut states[..vectors] {
            *state = _mm512_xor_si512(_mm512_shuffle_epi8(counters, reversed), *state);
            counters = _mm512_add_epi64(counters, four);
        }
        for &key in &keys[1..KEYS - 1] {
            for state in &mut states {
                *state = _mm512_aesenc_epi128(*state, key);
            }
        }
        for state in &mut states {
            *state = _mm512_aesenclast_epi128(*state, keys[KEYS - 1]);
        }
        for (out, &state) in rest.chunks_mut(VECTOR_BYTES).zip(&states) {
            let mut bytes = [0; VECTOR_BYTES];
            let to = match out.len() == VECTOR_BYTES {
                true => out.as_mut_ptr(),
                false => bytes.as_mut_ptr(),
            };
            // SAFETY: both have 64 bytes where they are written to; the store needs no alignment.
            unsafe { _mm512_storeu_si512(to.cast(), state) }
            if out.len() < VECTOR_BYTES {
                out.copy_from_slice(&bytes[..out.len()]);
            }
        }
        done += (vectors * VECTOR_BYTES).min(rest.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::Aes128;
    use aes::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
    use ctr::Ctr128BE;

    /// All lengths up to three rounds of vectors, starting at any block, and across the ends of both halves of the
    /// counter.
    #[test]
    fn the_stream_is_that_of_the_crate() {
        let key: [u8; 16] = std::array::from_fn(|i| (37 * i + 5) as u8);
        for first in [0, 1 << 70 | 77, u128::from(u64::MAX) - 60, u128::MAX - 60] {
            let first = first.to_be_bytes();
            let Some(wide) = Wide::new(&key, &first) else {
                eprintln!("skipped: this processor has no vaes");
                return;
            };
            let mut of_crate = Ctr128BE::<Aes128>::new(&key.into(), &first.into());
            let mut written = 0;
            for block in [0, 1, 3, 40, 61, 1000] {
                for blocks in [0, 1, 3, 4, 5, 24, 31, 32, 33, 64, 95] {
                    let mut here = vec![7; blocks * BLOCK_BYTES];
                    if !wide.fill(block, &mut here) {
                        assert!(here.iter().all(|&byte| byte == 7), "nothing is written");
                        continue;
                    }
                    let mut there = vec![0; here.len()];
                    of_crate.seek(block * BLOCK_BYTES as u64);
                    of_crate.apply_keystream(&mut there);
                    assert_eq!(here, there, "{blocks} from {block}");
                    written += 1;
                }
            }
            assert!(written >= 11, "{written}");
        }
    }
}
