//! `hash_to_field` of RFC 9380, section 5.2, up to the reduction mod p: expand_message_xmd with SHA-256.

use sha2::{Digest, Sha256};

/// Size of a digest in bytes.
const DIGEST_BYTES: usize = 32;
/// Size of a SHA-256 block in bytes.
const BLOCK_BYTES: usize = 64;
/// Two elements of Fp2 need four integers of 64 bytes each.
const OUTPUT_BYTES: usize = 256;
/// The tag's length is encoded in one byte.
const DST_BYTES_MAX: usize = 255;

/// high · 2^256 + low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WideInteger {
    /// Below 2^256, least significant word first.
    pub(super) high: [u64; 6],
    /// Below 2^256, least significant word first.
    pub(super) low: [u64; 6],
}

/// A domain separation tag followed by its length; a longer tag is hashed (section 5.3.3).
pub(super) struct Tag(Vec<u8>);

impl Tag {
    pub(super) fn new(dst: &[u8]) -> Tag {
        let mut tag = if dst.len() > DST_BYTES_MAX {
            let hasher = Sha256::new_with_prefix(b"H2C-OVERSIZE-DST-");
            hasher.chain_update(dst).finalize().to_vec()
        } else {
            dst.to_vec()
        };
        tag.push(tag.len() as u8);
        Tag(tag)
    }

    /// The integers u0.c0, u0.c1, u1.c0, u1.c1 of a message.
    pub(super) fn hash_to_integers(&self, message: &[u8]) -> [WideInteger; 4] {
        let bytes = self.expand(message);
        core::array::from_fn(|i| {
            let half = |from: usize| {
                let at = 64 * i + from;
                let mut words = [0; 6];
                // Big-endian, so the words are read from the end.
                for (word, bytes) in words.iter_mut().zip(bytes[at..at + 32].rchunks(8)) {
                    *word = bytes
                        .iter()
                        .fold(0, |word, byte| word << 8 | u64::from(*byte));
                }
                words
            };
            WideInteger {
                high: half(0),
                low: half(32),
            }
        })
    }

    /// expand_message_xmd for 256 bytes (section 5.3.1).
    fn expand(&self, message: &[u8]) -> [u8; OUTPUT_BYTES] {
        // In terms of the RFC: Z_pad, msg, l_i_b_str, I2OSP(0, 1) and DST_prime.
        let first: [u8; DIGEST_BYTES] = Sha256::new_with_prefix([0; BLOCK_BYTES])
            .chain_update(message)
            .chain_update((OUTPUT_BYTES as u16).to_be_bytes())
            .chain_update([0])
            .chain_update(&self.0)
            .finalize()
            .into();
        let mut out = [0; OUTPUT_BYTES];
        let mut before = [0; DIGEST_BYTES];
        for (i, block) in out.chunks_exact_mut(DIGEST_BYTES).enumerate() {
            // The first block has nothing before it, and the XOR with zeros leaves b_0 alone, as the RFC asks.
            let mixed: [u8; DIGEST_BYTES] = core::array::from_fn(|j| first[j] ^ before[j]);
            before = Sha256::new_with_prefix(mixed)
                .chain_update([i as u8 + 1])
                .chain_update(&self.0)
                .finalize()
                .into();
            block.copy_from_slice(&before);
        }
        out
    }
}
