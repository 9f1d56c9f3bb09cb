//! A bit stream, starting with the least significant bit of the first byte.

use crate::{Bitfield, DecodeError};

/// Number of bits that [`BitReader::peek`] guarantees, and the maximum for one read.
// The 64 bits of a load, less up to 7 of its first byte that were read before.
pub(super) const PEEK_BITS: u32 = 57;

/// Appends bits to a byte vector.
#[derive(Clone, Debug, Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    pending: u64,
    pending_bits: u32,
}

/// A saved state of a [`BitWriter`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    bytes: usize,
    pending: u64,
    pending_bits: u32,
}

impl BitWriter {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes + 8),
            ..Self::default()
        }
    }

    /// Appends the low `count` <= 32 bits of `value`; the bits above must be zero.
    #[inline]
    pub(super) fn put(&mut self, value: u64, count: u32) {
        debug_assert!(
            count <= 32 && value >> count == 0,
            "{value} in {count} bits"
        );
        // Fewer than 32 bits are pending here, so 32 more fit.
        self.pending |= value << self.pending_bits;
        self.pending_bits += count;
        if self.pending_bits >= 32 {
            self.bytes
                .extend_from_slice(&(self.pending as u32).to_le_bytes());
            self.pending >>= 32;
            self.pending_bits -= 32;
        }
    }

    /// Appends all bits of `bits`.
    pub(super) fn put_bitfield(&mut self, bits: &Bitfield) {
        let mut left = bits.len();
        for &word in bits.words() {
            // Halves beyond the length are written with no bits; they are zero, like all padding.
            for half in [word & 0xffff_ffff, word >> 32] {
                let count = left.min(32);
                self.put(half, count as u32);
                left -= count;
            }
        }
    }

    /// Number of bits written.
    pub(super) fn len_bits(&self) -> usize {
        self.bytes.len() * 8 + self.pending_bits as usize
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            bytes: self.bytes.len(),
            pending: self.pending,
            pending_bits: self.pending_bits,
        }
    }

    /// Discards everything written after `mark`.
    pub(super) fn rewind(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.pending = mark.pending;
        self.pending_bits = mark.pending_bits;
    }

    /// Returns all bytes; the last one is padded with zero bits.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let tail = self.pending.to_le_bytes();
        self.bytes
            .extend_from_slice(&tail[..self.pending_bits.div_ceil(8) as usize]);
        self.bytes
    }
}

/// Reads bits from a byte slice.
#[derive(Clone, Debug)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Number of bits read so far.
    pub(super) const fn at_bits(&self) -> usize {
        self.at
    }

    /// Number of bits not yet read.
    pub(super) const fn left_bits(&self) -> usize {
        self.bytes.len() * 8 - self.at
    }

    /// The next bits, at least [`PEEK_BITS`] of them, padded with zeros beyond the end.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
        let rest = &self.bytes[self.at / 8..];
        let word = match rest.first_chunk::<8>() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => {
                let mut chunk = [0; 8];
                chunk[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(chunk)
            }
        };
        word >> (self.at % 8)
    }

    /// Skips `count` bits.
    #[inline]
    pub(super) fn skip(&mut self, count: usize) -> Result<(), DecodeError> {
        self.need(count)?;
        self.at += count;
        Ok(())
    }

    /// Errors if fewer than `count` bits are left.
    #[inline]
    pub(super) fn need(&self, count: usize) -> Result<(), DecodeError> {
        if count > self.left_bits() {
            return Err(DecodeError::Truncated {
                needed: count.div_ceil(8),
                left: self.left_bits() / 8,
            });
        }
        Ok(())
    }

    /// The next `count` <= [`PEEK_BITS`] bits.
    #[inline]
    pub(super) fn read(&mut self, count: u32) -> Result<u64, DecodeError> {
        debug_assert!(count <= PEEK_BITS, "{count} bits at once");
        let value = self.peek() & ((1 << count) - 1);
        self.skip(count as usize)?;
        Ok(value)
    }

    /// The next `len` bits as a bitfield.
    pub(super) fn read_bitfield(&mut self, len: usize) -> Result<Bitfield, DecodeError> {
        self.need(len)?;
        let mut words = Vec::with_capacity(len.div_ceil(64));
        let mut left = len;
        while left > 0 {
            // In halves, because one read gives at most 57 bits.
            let low = left.min(32);
            let high = (left - low).min(32);
            words.push(self.read(low as u32)? | self.read(high as u32)? << 32);
            left -= low + high;
        }
        Ok(Bitfield::from_words(words, len).expect("bits above the length were masked"))
    }

    /// Ends reading at the end of the current byte, whose unread bits must be zero. Returns the
    /// number of bytes read.
    pub(super) fn finish_byte(self) -> Result<usize, DecodeError> {
        let unread = (8 - self.at % 8) % 8;
        if self.peek() & ((1 << unread) - 1) != 0 {
            return Err(DecodeError::NotCanonical {
                what: "padding of a support code",
            });
        }
        Ok(self.at.div_ceil(8))
    }
}

#[cfg(test)]
mod tests {
    use super::{BitReader, BitWriter};
    use crate::{Bitfield, DecodeError};

    #[test]
    fn bits_round_trip_and_marks_rewind() {
        let field = Bitfield::from_words(vec![0x0123_4567_89ab_cdef, 0x1f], 69).unwrap();
        let mut writer = BitWriter::with_capacity(4);
        writer.put(0b101, 3);
        let mark = writer.mark();
        for _ in 0..9 {
            writer.put(0xffff_ffff, 32);
        }
        writer.rewind(mark);
        writer.put_bitfield(&field);
        writer.put(0x8000_0001, 32);
        assert_eq!(writer.len_bits(), 104);
        let bytes = writer.finish();
        assert_eq!(bytes.len(), 13);
        let mut reader = BitReader::new(&bytes);
        assert_eq!(reader.read(3), Ok(0b101));
        assert_eq!(reader.read_bitfield(69), Ok(field));
        assert_eq!(reader.clone().read_bitfield(33).ok(), None);
        assert_eq!(reader.read(32), Ok(0x8000_0001));
        assert_eq!(
            reader.read(1),
            Err(DecodeError::Truncated { needed: 1, left: 0 })
        );
        assert_eq!(reader.finish_byte(), Ok(13));
    }

    #[test]
    fn bits_after_the_end_are_refused() {
        let mut reader = BitReader::new(&[0b101, 0xff]);
        assert_eq!(reader.clone().finish_byte(), Ok(0));
        assert_eq!(reader.read(2), Ok(1));
        assert!(reader.clone().finish_byte().is_err());
        assert_eq!(reader.read(1), Ok(1));
        // The following bytes belong to another reader.
        assert_eq!(reader.clone().finish_byte(), Ok(1));
        assert_eq!(reader.read(5), Ok(0));
        assert_eq!(reader.finish_byte(), Ok(1));
    }
}
