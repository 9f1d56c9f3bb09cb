//! A payload as elements: per generation, N chunks of M elements of 31 bytes; and the inverse.

use crate::error::InvalidSource;
use crate::header::{ELEMENT_PAYLOAD_BYTES, Header, payload_hash};
use crate::merkle::Hash;
use crate::row::Row;
use sha2::block_api::compress256;

/// The source chunks of all generations, zero-padded.
pub(crate) fn split(header: &Header, payload: &[u8]) -> Vec<Vec<Row>> {
    let elements = header.unit as usize;
    let chunk_bytes = ELEMENT_PAYLOAD_BYTES as usize * elements;
    let chunk = |index: usize| {
        let from = payload.len().min(index * chunk_bytes);
        let to = payload.len().min(from + chunk_bytes);
        Row::from_payload(&payload[from..to], elements)
    };
    let chunks = usize::from(header.chunks);
    (0..usize::from(header.generations))
        .map(|generation| {
            (0..chunks)
                .map(|i| chunk(generation * chunks + i))
                .collect()
        })
        .collect()
}

/// A payload being assembled from its elements in order: its bytes, and the SHA-256 state of a prefix.
pub(crate) struct Joiner {
    len: usize,
    /// Has room for all elements plus one byte: each is written as 32 bytes, of which the last, a zero, is overwritten.
    pub(crate) bytes: Vec<u8>,
    hashed: usize,
    /// The state of the hash.
    pub(crate) state: [u32; 8],
    /// Whether there may be elements that are not below 2^248.
    pub(crate) is_wide: bool,
}

/// The initial state of SHA-256: the first 32 bits of the fractional parts of the square roots of the first eight
/// primes (FIPS 180-4).
const SHA256_START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

impl Joiner {
    pub(crate) fn new(header: &Header) -> Joiner {
        let elements =
            usize::from(header.chunks) * usize::from(header.generations) * header.unit as usize;
        Joiner {
            len: header.len as usize,
            bytes: Vec::with_capacity(elements * ELEMENT_PAYLOAD_BYTES as usize + 1),
            hashed: 0,
            state: SHA256_START,
            is_wide: false,
        }
    }

    /// Adds the elements of rows.
    pub(crate) fn take(&mut self, rows: &[Row]) {
        for row in rows {
            let end = self.bytes.len() + row.len() * ELEMENT_PAYLOAD_BYTES as usize;
            self.is_wide |= row.write_payload(&mut self.bytes).is_err();
            // A row that fails leaves the extra byte, which would shift all later ones.
            self.bytes.truncate(end);
        }
    }

    /// Returns the next block of the payload, which the caller must hash.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn block(&mut self) -> Option<&[u8; 64]> {
        /// Bytes that may still be in flight to the cache: those of four elements.
        const LATEST: usize = 4 * ELEMENT_PAYLOAD_BYTES as usize;
        // Only of the payload itself: its hash does not cover the padding.
        if self.hashed + 64 > self.len.min(self.bytes.len().saturating_sub(LATEST)) {
            return None;
        }
        let block = self.bytes[self.hashed..].first_chunk();
        self.hashed += 64;
        block
    }

    /// Assembles the payload from all source chunks in order, with every check that only the source can fail.
    pub(crate) fn finish<'a>(
        mut self,
        header: &Header,
        chunks: impl Iterator<Item = &'a Row>,
    ) -> Result<Vec<u8>, InvalidSource> {
        if self.is_wide {
            // The flag does not say which element it was; the error names it.
            for (chunk, row) in chunks.enumerate() {
                let written = row.write_payload(&mut Vec::new());
                written.map_err(|element| InvalidSource::Element { chunk, element })?;
            }
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        cut(self.len, &mut bytes)?;
        check_hash(header, self.digest(&bytes))?;
        Ok(bytes)
    }

    /// The hash of the payload, computed over all remaining blocks.
    fn digest(mut self, bytes: &[u8]) -> Hash {
        let (blocks, rest) = bytes[self.hashed..].as_chunks::<64>();
        compress256(&mut self.state, blocks);
        let mut last = [[0; 64]; 2];
        let flat = last.as_flattened_mut();
        flat[..rest.len()].copy_from_slice(rest);
        flat[rest.len()] = 0x80;
        // The length, in bits, must fit after that.
        let blocks = 1 + usize::from(rest.len() + 1 + 8 > 64);
        flat[64 * blocks - 8..64 * blocks].copy_from_slice(&(8 * bytes.len() as u64).to_be_bytes());
        compress256(&mut self.state, &last[..blocks]);
        let mut hash = [0; 32];
        for (bytes, word) in hash.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        hash
    }
}

/// Removes the padding, which must be zero, and checks the hash.
pub(crate) fn finish(header: &Header, mut bytes: Vec<u8>) -> Result<Vec<u8>, InvalidSource> {
    cut(header.len as usize, &mut bytes)?;
    check_hash(header, payload_hash(&bytes))?;
    Ok(bytes)
}

fn cut(len: usize, bytes: &mut Vec<u8>) -> Result<(), InvalidSource> {
    if bytes[len..].iter().any(|&byte| byte != 0) {
        return Err(InvalidSource::Padding);
    }
    bytes.truncate(len);
    Ok(())
}

fn check_hash(header: &Header, hash: Hash) -> Result<(), InvalidSource> {
    if hash == header.payload_hash {
        Ok(())
    } else {
        Err(InvalidSource::PayloadHash)
    }
}
