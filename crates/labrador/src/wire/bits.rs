//! Bits in bytes, least significant first.

/// Collects bits.
#[derive(Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    used: u32,
}

impl BitWriter {
    /// Appends the lowest `count` bits of `value`, at most 57.
    pub(crate) fn push(&mut self, value: u64, count: u32) {
        let (mut value, mut left) = (value, count);
        while left > 0 {
            if self.used == 0 {
                self.bytes.push(0);
            }
            let room = (8 - self.used).min(left);
            let part = (value & ((1 << room) - 1)) as u8;
            if let Some(last) = self.bytes.last_mut() {
                *last |= part << self.used;
            }
            value >>= room;
            left -= room;
            self.used = (self.used + room) % 8;
        }
    }

    /// Returns the bytes; the last one is padded with zeros.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the number of bits written so far.
    #[cfg(test)]
    pub(crate) fn bits(&self) -> usize {
        let free = (8 - self.used as usize) % 8;
        8 * self.bytes.len() - free
    }
}

/// Reads bits from bytes.
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> BitReader<'a> {
    /// Starts at the first bit.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Takes the next `count` bits, at most 57. None if there are fewer.
    pub(crate) fn take(&mut self, count: u32) -> Option<u64> {
        let (mut value, mut got) = (0, 0);
        while got < count {
            let byte = *self.bytes.get(self.position / 8)?;
            let skip = (self.position % 8) as u32;
            let room = (8 - skip).min(count - got);
            let part = u64::from(byte >> skip) & ((1 << room) - 1);
            value |= part << got;
            got += room;
            self.position += room as usize;
        }
        Some(value)
    }

    /// Returns at least the next 57 bits without taking them. None if fewer than eight bytes are left.
    pub(crate) fn window(&self) -> Option<u64> {
        let rest = self.bytes.get(self.position / 8..)?;
        let word = rest.first_chunk().copied().map(u64::from_le_bytes)?;
        Some(word >> (self.position % 8))
    }

    /// Consumes bits of a [`BitReader::window`].
    pub(crate) fn skip(&mut self, count: u32) {
        self.position += count as usize;
    }

    /// Returns the number of bits read so far.
    #[cfg(test)]
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of bytes touched.
    pub(crate) fn consumed(&self) -> usize {
        self.position.div_ceil(8)
    }

    /// Whether the rest of the last touched byte is zero.
    pub(crate) fn finish(mut self) -> bool {
        let rest = (8 - self.position % 8) % 8;
        self.take(rest as u32) == Some(0)
    }
}
