//! AES-128 in counter mode: the source of every pseudorandom stream, above all the signs of projections.

#[cfg(target_arch = "x86_64")]
mod avx512;

use aes::Aes128;
use aes::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use ctr::Ctr128BE;

/// Bytes of a block, a key and a counter.
pub(crate) const BLOCK_BYTES: usize = 16;

/// A stream and the position in it.
pub(crate) struct Counter {
    position: u64,
    cipher: Ctr128BE<Aes128>,
    /// Position of `cipher` in the stream.
    cipher_at: u64,
    /// Faster generation of whole blocks, on processors that have the instructions.
    #[cfg(target_arch = "x86_64")]
    wide: Option<avx512::Wide>,
}

impl Counter {
    /// Creates the stream of a key and a first counter, from byte `position` on.
    pub(crate) fn new(key: &[u8; BLOCK_BYTES], first: &[u8; BLOCK_BYTES], position: u64) -> Self {
        Self {
            position,
            cipher: Ctr128BE::new(key.into(), first.into()),
            cipher_at: 0,
            #[cfg(target_arch = "x86_64")]
            wide: avx512::Wide::new(key, first),
        }
    }

    /// Overwrites `out` with the next bytes.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        let position = self.position;
        self.position += out.len() as u64;
        #[cfg(target_arch = "x86_64")]
        if out.len().is_multiple_of(BLOCK_BYTES) && position.is_multiple_of(BLOCK_BYTES as u64) {
            let block = position / BLOCK_BYTES as u64;
            if self.wide.as_ref().is_some_and(|wide| wide.fill(block, out)) {
                return;
            }
        }
        // Blocks from the wide generator advance the position, but not the cipher.
        if self.cipher_at != position {
            self.cipher.seek(position);
        }
        // The crate XORs its stream onto what is there.
        out.fill(0);
        self.cipher.apply_keystream(out);
        self.cipher_at = self.position;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers reads of any size, whole blocks or parts of them, from any starting position.
    #[test]
    fn parts_are_those_of_the_whole() {
        let (key, first) = ([3; BLOCK_BYTES], [5; BLOCK_BYTES]);
        let mut whole = vec![0; 5000];
        Ctr128BE::<Aes128>::new(&key.into(), &first.into()).apply_keystream(&mut whole);
        for start in [0, 6, 16, 333] {
            let mut counter = Counter::new(&key, &first, start as u64);
            let mut at = start;
            for count in [6, 10, 512, 6, 384, 26, 48, 0, 1024, 5, 2048] {
                let mut part = vec![9; count];
                counter.fill(&mut part);
                assert_eq!(part, whole[at..at + count], "{count} from {at}");
                at += count;
            }
        }
    }
}
