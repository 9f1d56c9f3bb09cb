//! SHA-256 (FIPS 180-4), two rounds at a time, interleaved with multiplications.

use core::arch::asm;
use core::arch::x86_64::*;

use crate::header::ELEMENT_PAYLOAD_BYTES;
use crate::payload::Joiner;

/// The round constants: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const K: [[u32; 4]; 16] = [
    [0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5],
    [0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5],
    [0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3],
    [0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174],
    [0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc],
    [0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da],
    [0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7],
    [0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967],
    [0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13],
    [0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85],
    [0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3],
    [0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070],
    [0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5],
    [0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3],
    [0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208],
    [0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2],
];

/// The state of a hash in the order used by the instructions, the state before the block, sixteen words of its
/// schedule, and four of them with their constants added.
pub(super) struct Rounds {
    abef: __m128i,
    cdgh: __m128i,
    before: [__m128i; 2],
    words: [__m128i; 4],
    sum: __m128i,
}

/// The steps of a block from one constant to another, out of 32: two rounds each.
macro_rules! steps {
    ($rounds:ident, $hash:ident, $from:expr, $to:expr) => {
        steps!(@ $rounds, $hash, $from, $to,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
    };
    (@ $rounds:ident, $hash:ident, $from:expr, $to:expr, $($step:literal)*) => {
        $(if const { $hash && $from <= $step && $step < $to } {
            $rounds.step::<$step>();
        })*
    };
}

impl Rounds {
    #[inline]
    #[target_feature(enable = "sha,sse4.1")]
    pub(super) fn new(state: &[u32; 8]) -> Rounds {
        let [a, b, c, d, e, f, g, h] = state.map(|word| word as i32);
        let zero = _mm_setzero_si128();
        Rounds {
            abef: _mm_set_epi32(a, b, e, f),
            cdgh: _mm_set_epi32(c, d, g, h),
            before: [zero; 2],
            words: [zero; 4],
            sum: zero,
        }
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1")]
    pub(super) fn state(&self) -> [u32; 8] {
        let words = |v| {
            [
                _mm_extract_epi32::<3>(v),
                _mm_extract_epi32::<2>(v),
                _mm_extract_epi32::<1>(v),
                _mm_extract_epi32::<0>(v),
            ]
        };
        let ([a, b, e, f], [c, d, g, h]) = (words(self.abef), words(self.cdgh));
        [a, b, c, d, e, f, g, h].map(|word| word as u32)
    }

    /// Starts a block; all its steps must follow, in order.
    #[inline]
    #[target_feature(enable = "sha,sse4.1")]
    pub(super) fn begin(&mut self, block: &[u8; 64]) {
        let big_endian = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        let (quarters, _) = block.as_chunks::<16>();
        for (word, quarter) in self.words.iter_mut().zip(quarters) {
            // SAFETY: `quarter` is 16 readable bytes; the load needs no alignment.
            let bytes = unsafe { _mm_loadu_si128(quarter.as_ptr().cast()) };
            *word = _mm_shuffle_epi8(bytes, big_endian);
        }
        self.before = [self.abef, self.cdgh];
    }

    /// The part of steps `FROM..TO` due in tenth `TENTH` of another computation; then as [`Rounds::among`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,sha,sse4.1")]
    pub(super) fn tenth<
        const HASH: bool,
        const FROM: usize,
        const TO: usize,
        const TENTH: usize,
    >(
        &mut self,
        sums: &mut [__m256i],
    ) {
        steps! {
            self,
            HASH,
            FROM + (TO - FROM) * TENTH / 10,
            FROM + (TO - FROM) * (TENTH + 1) / 10
        }
        self.among(sums);
    }

    /// Steps `FROM..TO`; then as [`Rounds::among`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,sha,sse4.1")]
    pub(super) fn steps<const HASH: bool, const FROM: usize, const TO: usize>(
        &mut self,
        sums: &mut [__m256i],
    ) {
        steps!(self, HASH, FROM, TO);
        self.among(sums);
    }

    /// Orders the steps so far after the computation of the current sums and before their further use. Otherwise the
    /// compiler would collect all additions to a sum, and all steps, so that each waits for the previous one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,sha,sse4.1")]
    fn among(&mut self, sums: &mut [__m256i]) {
        let [a, b, c, d, ..] = sums else {
            return;
        };
        // SAFETY: there is no instruction; the registers stay what they are.
        unsafe {
            asm!(
                "/* {0} {1} {2:y} {3:y} {4:y} {5:y} */",
                inout(xmm_reg) self.abef,
                inout(xmm_reg) self.cdgh,
                inout(zmm_reg) * a,
                inout(zmm_reg) * b,
                inout(zmm_reg) * c,
                inout(zmm_reg) * d,
                options(nomem, nostack, preserves_flags),
            );
        }
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1")]
    fn step<const STEP: usize>(&mut self) {
        const LAST: usize = K.len() - 1;
        let four = const { STEP / 2 };
        if STEP % 2 == 1 {
            // An instruction takes its two words from the lower half. It returns the new A, B, E and F, and the old
            // ones become C, D, G and H: after every other step the two variables have exchanged their roles.
            let sum = _mm_shuffle_epi32::<0x0e>(self.sum);
            self.abef = _mm_sha256rnds2_epu32(self.abef, self.cdgh, sum);
            if four == LAST {
                self.abef = _mm_add_epi32(self.abef, self.before[0]);
                self.cdgh = _mm_add_epi32(self.cdgh, self.before[1]);
            }
            return;
        }
        // The first sixteen words are the block itself, and after the last four none are needed.
        if (3..LAST).contains(&four) {
            // The next four words, so that no round has to wait for them.
            let [w0, w1, w2, w3] = [1, 2, 3, 4].map(|i| self.words[(four + i) % 4]);
            let sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8::<4>(w3, w2));
            self.words[(four + 1) % 4] = _mm_sha256msg2_epu32(sum, w3);
        }
        let [k0, k1, k2, k3] = K[four].map(|k| k as i32);
        self.sum = _mm_add_epi32(self.words[four % 4], _mm_set_epi32(k3, k2, k1, k0));
        self.cdgh = _mm_sha256rnds2_epu32(self.cdgh, self.abef, self.sum);
    }
}

/// A payload that is written and hashed while its elements are being computed.
pub(super) struct Hashing<'a> {
    joiner: Option<&'a mut Joiner>,
    pub(super) rounds: Rounds,
    /// The bitwise OR of all upper limbs of 51 bits.
    pub(super) top: __m256i,
}

impl<'a> Hashing<'a> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,sha,sse4.1")]
    pub(super) fn new(joiner: Option<&'a mut Joiner>) -> Hashing<'a> {
        let state = joiner.as_ref().map_or([0; 8], |joiner| joiner.state);
        Hashing {
            joiner,
            rounds: Rounds::new(&state),
            top: _mm256_setzero_si256(),
        }
    }

    /// Returns whether there is a block, whose steps must be done now.
    #[inline]
    #[target_feature(enable = "sha,sse4.1")]
    pub(super) fn begin(&mut self) -> bool {
        let block = self.joiner.as_mut().and_then(|joiner| joiner.block());
        block.inspect(|block| self.rounds.begin(block)).is_some()
    }

    /// Writes the first `elements` of four elements as 31 bytes each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn take(&mut self, scalars: &[__m256i; 4], elements: usize) {
        const BYTES: usize = ELEMENT_PAYLOAD_BYTES as usize;
        let Some(joiner) = &mut self.joiner else {
            return;
        };
        let elements = elements.min(scalars.len());
        let len = joiner.bytes.len() + elements * BYTES;
        // Each element is written as 32 bytes, and the next one overwrites the last of them.
        let room = &mut joiner.bytes.spare_capacity_mut()[..elements * BYTES + 1];
        for (i, scalar) in scalars.iter().enumerate().take(elements) {
            let target: &mut [_; 32] = room[i * BYTES..].first_chunk_mut().expect("a byte more");
            // SAFETY: `target` is 32 writable bytes; the store needs no alignment.
            unsafe { _mm256_storeu_si256(target.as_mut_ptr().cast(), *scalar) }
        }
        // SAFETY: all of these have just been written.
        unsafe { joiner.bytes.set_len(len) };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,sha,sse4.1")]
    pub(super) fn end(self) {
        if let Some(joiner) = self.joiner {
            joiner.state = self.rounds.state();
            // The top limb starts at bit 204; elements of a payload have no bits from 248 on.
            let beyond = _mm256_set1_epi64x(!((1 << (248 - 4 * 51)) - 1));
            joiner.is_wide |= _mm256_test_epi64_mask(self.top, beyond) != 0;
        }
    }
}
