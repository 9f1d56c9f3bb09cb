//! Bounded little-endian reading and writing: no decoder allocates before a bound is checked.

use thiserror::Error;

/// Why bytes were rejected; each variant names the value and the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("{needed} bytes needed, {left} left")]
    Truncated {
        /// Bytes the next field needs.
        needed: usize,
        /// Bytes left.
        left: usize,
    },
    /// A length or count is above its bound.
    #[error("length of {what} = {value}, must be at most {max}")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length.
        value: u64,
        /// The bound.
        max: u64,
    },
    /// Bytes follow the last field.
    #[error("{bytes} bytes after the end")]
    Trailing {
        /// The number of bytes.
        bytes: usize,
    },
    /// The same content has a different canonical encoding, and only that one is legal.
    #[error("{what} is not in canonical form")]
    NotCanonical {
        /// The field.
        what: &'static str,
    },
    /// A value is above its bound.
    #[error("{what} = {value}, must be at most {max}")]
    OutOfRange {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The bound.
        max: u64,
    },
    /// A tag that does not identify a known form.
    #[error("unknown {what} {value}")]
    UnknownTag {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// The content refers to data that was not given to the receiver.
    #[error("{what} needed and not given")]
    Missing {
        /// The data.
        what: &'static str,
    },
}

/// Reads little-endian fields from a byte slice, in order.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Number of bytes not yet read.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes not yet read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next `count` bytes, borrowed.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        match self.bytes.split_at_checked(count) {
            Some((head, tail)) => {
                self.bytes = tail;
                Ok(head)
            }
            None => Err(DecodeError::Truncated {
                needed: count,
                left: self.bytes.len(),
            }),
        }
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }

    /// The next byte.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Truncated`] if none is left.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// The next two bytes as an integer.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next four bytes as an integer.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next eight bytes as an integer.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A u32 that must be at most `max`; `what` names it in the error.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Truncated`], or [`DecodeError::OutOfRange`] above `max`.
    pub fn u32_at_most(&mut self, what: &'static str, max: u32) -> Result<u32, DecodeError> {
        let value = self.u32()?;
        if value > max {
            return Err(DecodeError::OutOfRange {
                what,
                value: u64::from(value),
                max: u64::from(max),
            });
        }
        Ok(value)
    }

    /// A byte string of at most `max` bytes, prefixed by its length as a u32, borrowed.
    ///
    /// # Errors
    ///
    /// [`DecodeError::TooLong`] above `max`, [`DecodeError::Truncated`] if fewer bytes are left.
    pub fn bytes_u32_prefixed(&mut self, max: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()?;
        if u64::from(len) > max as u64 {
            return Err(DecodeError::TooLong {
                what: "byte string",
                value: u64::from(len),
                max: max as u64,
            });
        }
        self.bytes(len as usize)
    }

    /// Ends reading.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Trailing`] if bytes are left.
    pub const fn finish(self) -> Result<(), DecodeError> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::Trailing {
                bytes: self.bytes.len(),
            })
        }
    }
}

/// Writes little-endian fields to a growing byte vector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty writer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// An empty writer with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
        }
    }

    /// Number of bytes written.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if nothing was written.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends `bytes` without a length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends the length of `bytes` as a u32, then `bytes`.
    ///
    /// # Panics
    ///
    /// If the length of `bytes` does not fit a u32; every message is bounded far below.
    pub fn bytes_u32_prefixed(&mut self, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).expect("messages are bounded below 4 GiB");
        self.u32(len);
        self.bytes(bytes);
    }

    /// The bytes written so far.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The written bytes.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{DecodeError, Reader, Writer};

    #[test]
    fn fields_round_trip() {
        let mut writer = Writer::new();
        writer.u8(1);
        writer.u16(0x0203);
        writer.u32(0x0405_0607);
        writer.u64(0x0809_0a0b_0c0d_0e0f);
        writer.bytes(&[9, 9]);
        writer.bytes_u32_prefixed(b"abc");
        let bytes = writer.into_vec();
        assert_eq!(&bytes[..3], &[1, 3, 2]);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16(), Ok(0x0203));
        assert_eq!(reader.u32(), Ok(0x0405_0607));
        assert_eq!(reader.u64(), Ok(0x0809_0a0b_0c0d_0e0f));
        assert_eq!(reader.array(), Ok([9, 9]));
        assert_eq!(reader.bytes_u32_prefixed(3), Ok(&b"abc"[..]));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn errors_name_value_and_bound() {
        let mut reader = Reader::new(&[255, 255, 255, 255, 7]);
        assert_eq!(
            reader.clone().bytes_u32_prefixed(10),
            Err(DecodeError::TooLong {
                what: "byte string",
                value: 0xffff_ffff,
                max: 10
            })
        );
        assert_eq!(
            reader.clone().bytes_u32_prefixed(usize::MAX),
            Err(DecodeError::Truncated {
                needed: 0xffff_ffff,
                left: 1
            })
        );
        assert!(reader.clone().u32_at_most("count", 5).is_err());
        assert_eq!(
            reader.u64(),
            Err(DecodeError::Truncated { needed: 8, left: 5 })
        );
        assert_eq!(reader.left(), 5);
        assert_eq!(reader.finish(), Err(DecodeError::Trailing { bytes: 5 }));
    }
}
