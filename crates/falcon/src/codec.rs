//! Keys and signatures from bytes and back.
//!
//! A public key is the byte 9 and 512 residues of 14 bits: the coefficients of `h`, or in the
//! draft its values at the roots. A signature is the byte `0x39`, the
//! salt and `s2`, each coefficient as a sign, seven low bits and the high bits in unary; zeros
//! fill it to 666 bytes (Falcon specification, sections 3.11.2 to 3.11.4, "padded"). Original
//! Falcon writes the most significant bit first, the draft of FN-DSA the least significant.

use thiserror::Error;

use crate::{DEGREE, Flavour, MODULUS, PUBLIC_KEY_BYTES, SALT_BYTES, SIGNATURE_BYTES};

/// The first byte of a public key: the logarithm of the degree.
pub const KEY_HEADER: u8 = 9;
/// The first byte of a signature: compressed, and the logarithm of the degree.
pub const SIGNATURE_HEADER: u8 = 0x39;

/// Bits of a number of a key.
const KEY_BITS: u32 = 14;
/// Low bits of a coefficient of `s2`.
const LOW_BITS: u32 = 7;
/// The largest high part of `s2` that original Falcon writes: coefficients end at 2047.
const ORIGINAL_HIGH_MAX: u32 = 15;

/// Why bytes are no key or signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Another length.
    #[error("{bytes} bytes instead of {expected}")]
    Length {
        /// Bytes given.
        bytes: usize,
        /// Bytes of the format.
        expected: usize,
    },
    /// Another first byte.
    #[error("the first byte is {byte:#04x} instead of {expected:#04x}")]
    Header {
        /// The byte given.
        byte: u8,
        /// The byte of the format.
        expected: u8,
    },
    /// A number of a key that is no residue.
    #[error("number {index} of the key is {value}, not below 12289")]
    Residue {
        /// Which number.
        index: usize,
        /// Its value.
        value: u16,
    },
    /// A coefficient of a signature that is too large for the flavour, or runs past the end.
    #[error("coefficient {index} of the signature is too large or cut off")]
    Coefficient {
        /// Which coefficient.
        index: usize,
    },
    /// A zero written with a minus sign: each signature has one encoding.
    #[error("coefficient {index} of the signature is a negative zero")]
    NegativeZero {
        /// Which coefficient.
        index: usize,
    },
    /// Bits behind the last coefficient.
    #[error("the bits behind the last coefficient are not zero")]
    Padding,
}

/// Takes bits from bytes, in the order of a flavour.
struct Bits<'a> {
    bytes: &'a [u8],
    position: usize,
    flavour: Flavour,
}

impl Bits<'_> {
    fn bit(&mut self) -> Option<u32> {
        let byte = u32::from(*self.bytes.get(self.position / 8)?);
        let place = (self.position % 8) as u32;
        self.position += 1;
        Some(match self.flavour {
            Flavour::FnDsa => byte >> place & 1,
            Flavour::Original => byte >> (7 - place) & 1,
        })
    }

    /// A number of `count` bits.
    fn number(&mut self, count: u32) -> Option<u32> {
        let left = 8 * self.bytes.len() - self.position;
        if left < count as usize {
            return None;
        }
        // The bits lie within three bytes.
        let first = self.position / 8;
        let window: [u32; 3] =
            std::array::from_fn(|i| u32::from(self.bytes.get(first + i).copied().unwrap_or(0)));
        let place = (self.position % 8) as u32;
        self.position += count as usize;
        let mask = (1 << count) - 1;
        Some(match self.flavour {
            Flavour::FnDsa => (window[0] | window[1] << 8 | window[2] << 16) >> place & mask,
            Flavour::Original => {
                (window[0] << 16 | window[1] << 8 | window[2]) >> (24 - place - count) & mask
            }
        })
    }
}

/// Puts bits into bytes, in the order of a flavour.
struct BitsMut<'a> {
    bytes: &'a mut [u8],
    position: usize,
    flavour: Flavour,
}

impl BitsMut<'_> {
    fn bit(&mut self, bit: u32) -> Option<()> {
        let byte = self.bytes.get_mut(self.position / 8)?;
        let place = (self.position % 8) as u32;
        self.position += 1;
        *byte |= match self.flavour {
            Flavour::FnDsa => (bit << place) as u8,
            Flavour::Original => (bit << (7 - place)) as u8,
        };
        Some(())
    }

    fn number(&mut self, value: u32, count: u32) -> Option<()> {
        (0..count).try_for_each(|i| {
            let place = match self.flavour {
                Flavour::FnDsa => i,
                Flavour::Original => count - 1 - i,
            };
            self.bit(value >> place & 1)
        })
    }
}

fn body(bytes: &[u8], expected: usize, header: u8) -> Result<&[u8], DecodeError> {
    if bytes.len() != expected {
        let bytes = bytes.len();
        return Err(DecodeError::Length { bytes, expected });
    }
    if bytes[0] != header {
        return Err(DecodeError::Header {
            byte: bytes[0],
            expected: header,
        });
    }
    Ok(&bytes[1..])
}

/// The numbers of a public key, each below `q`.
///
/// # Errors
/// If the length, the header or a number is not that of a key.
pub fn decode_key(flavour: Flavour, bytes: &[u8]) -> Result<[u16; DEGREE], DecodeError> {
    let bytes = body(bytes, PUBLIC_KEY_BYTES, KEY_HEADER)?;
    let mut bits = Bits {
        bytes,
        position: 0,
        flavour,
    };
    let mut out = [0; DEGREE];
    for (index, c) in out.iter_mut().enumerate() {
        // 512 numbers of 14 bits are exactly the 896 bytes.
        let value = bits.number(KEY_BITS).unwrap_or(u32::MAX) as u16;
        if value >= MODULUS {
            return Err(DecodeError::Residue { index, value });
        }
        *c = value;
    }
    Ok(out)
}

/// A public key with these numbers, each below `q`.
#[must_use]
pub fn encode_key(flavour: Flavour, h: &[u16; DEGREE]) -> [u8; PUBLIC_KEY_BYTES] {
    let mut out = [0; PUBLIC_KEY_BYTES];
    out[0] = KEY_HEADER;
    let mut bits = BitsMut {
        bytes: &mut out[1..],
        position: 0,
        flavour,
    };
    let written = h
        .iter()
        .try_for_each(|&c| bits.number(u32::from(c), KEY_BITS));
    written.expect("512 numbers of 14 bits are 896 bytes");
    out
}

/// The salt and `s2` of a signature.
///
/// # Errors
/// If the bytes are not the one encoding of a signature of the flavour: its length, header,
/// range of coefficients, and zeros to the end.
pub fn decode_signature(
    flavour: Flavour,
    bytes: &[u8],
) -> Result<([u8; SALT_BYTES], [i16; DEGREE]), DecodeError> {
    let bytes = body(bytes, SIGNATURE_BYTES, SIGNATURE_HEADER)?;
    let (salt, bytes) = bytes.split_at(SALT_BYTES);
    let mut bits = Bits {
        bytes,
        position: 0,
        flavour,
    };
    let high_max = match flavour.coefficient_max() {
        Some(max) => max as u32 >> LOW_BITS,
        None => ORIGINAL_HIGH_MAX,
    };
    let mut s2 = [0; DEGREE];
    for (index, c) in s2.iter_mut().enumerate() {
        *c = coefficient(&mut bits, flavour, high_max, index)?;
    }
    let rest = 8 * bytes.len() - bits.position;
    if (0..rest).any(|_| bits.bit() != Some(0)) {
        return Err(DecodeError::Padding);
    }
    let mut out = [0; SALT_BYTES];
    out.copy_from_slice(salt);
    Ok((out, s2))
}

fn coefficient(
    bits: &mut Bits<'_>,
    flavour: Flavour,
    high_max: u32,
    index: usize,
) -> Result<i16, DecodeError> {
    let cut = DecodeError::Coefficient { index };
    // The sign is the first bit, the low part the next seven.
    let (sign, low) = (bits.bit().ok_or(cut)?, bits.number(LOW_BITS).ok_or(cut)?);
    let mut high = 0;
    while bits.bit().ok_or(cut)? == 0 {
        high += 1;
        if high > high_max {
            return Err(cut);
        }
    }
    let value = (high << LOW_BITS | low) as i16;
    if flavour.coefficient_max().is_some_and(|max| value > max) {
        return Err(cut);
    }
    match (sign, value) {
        (1, 0) => Err(DecodeError::NegativeZero { index }),
        (1, _) => Ok(-value),
        _ => Ok(value),
    }
}

/// The signature of a salt and `s2`. None if a coefficient is too large for the flavour or the
/// code does not fit.
#[must_use]
pub fn encode_signature(
    flavour: Flavour,
    salt: &[u8; SALT_BYTES],
    s2: &[i16; DEGREE],
) -> Option<[u8; SIGNATURE_BYTES]> {
    let mut out = [0; SIGNATURE_BYTES];
    out[0] = SIGNATURE_HEADER;
    out[1..=SALT_BYTES].copy_from_slice(salt);
    let mut bits = BitsMut {
        bytes: &mut out[1 + SALT_BYTES..],
        position: 0,
        flavour,
    };
    let max = flavour.coefficient_max().unwrap_or(2047) as u16;
    for &c in s2 {
        let size = c.unsigned_abs();
        if size > max {
            return None;
        }
        bits.bit(u32::from(c < 0))?;
        bits.number(u32::from(size) & ((1 << LOW_BITS) - 1), LOW_BITS)?;
        for _ in 0..size >> LOW_BITS {
            bits.bit(0)?;
        }
        bits.bit(1)?;
    }
    Some(out)
}
