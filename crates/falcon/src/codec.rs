//! Encoding and decoding of keys and signatures.
//!
//! A public key is the logarithm of the degree, 9 or 10, and a 14-bit residue for each coefficient of `h`, or in
//! the draft for each of its values at the roots. A signature is the byte `0x39` or `0x3a`, the salt if the flavour
//! sends one, and `s2`, each coefficient as a sign, seven low bits and the high bits in unary. Zeros pad it to 666
//! or 1,280 bytes (Falcon specification, sections 3.11.2 to 3.11.4, "padded"), 40 fewer without a salt. The draft of
//! FN-DSA writes the least significant bit first, the other flavours the most significant.

use thiserror::Error;

use crate::degree::DEGREE_MAX;
use crate::{Flavour, MODULUS, Parameters, SALT_BYTES};

/// Bits per number of a key.
const KEY_BITS: u32 = 14;
/// Low bits per coefficient of `s2`.
const LOW_BITS: u32 = 7;
const LOW_MASK: u32 = (1 << LOW_BITS) - 1;
/// Largest coefficient of `s2` that original Falcon encodes.
const ORIGINAL_MAX: i16 = 2047;

/// Reason why bytes are not a key or a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The length is wrong.
    #[error("{bytes} bytes instead of {expected}")]
    Length {
        /// Bytes given.
        bytes: usize,
        /// Bytes of the format.
        expected: usize,
    },
    /// The first byte is wrong.
    #[error("the first byte is {byte:#04x} instead of {expected:#04x}")]
    Header {
        /// The byte given.
        byte: u8,
        /// The byte of the format.
        expected: u8,
    },
    /// A number of a key is not a residue.
    #[error("number {index} of the key is {value}, not below 12289")]
    Residue {
        /// Index of the number.
        index: usize,
        /// Its value.
        value: u16,
    },
    /// A coefficient of a signature is too large for the flavour, or runs past the end.
    #[error("coefficient {index} of the signature is too large or cut off")]
    Coefficient {
        /// Index of the coefficient.
        index: usize,
    },
    /// A zero is written with a minus sign: each signature has only one encoding.
    #[error("coefficient {index} of the signature is a negative zero")]
    NegativeZero {
        /// Index of the coefficient.
        index: usize,
    },
    /// There are nonzero bits after the last coefficient.
    #[error("the bits behind the last coefficient are not zero")]
    Padding,
}

/// Bits of a code, taken from the front. The first bits are the lowest of a byte, or the highest if
/// `HIGH_FIRST` is set.
struct Window<'a, const HIGH_FIRST: bool> {
    bytes: &'a [u8],
    /// The first byte that may not be entirely in `bits`.
    next: usize,
    /// The next bits, from the lowest or from the highest on; zeros after the end.
    bits: u64,
    /// Number of these bits that are certainly valid.
    valid: u32,
}

impl<const HIGH_FIRST: bool> Window<'_, HIGH_FIRST> {
    /// Makes 56 bits valid. The bits above them also come from the next byte, so they may be set again.
    fn fill(&mut self) {
        let mut word = [0; 8];
        let rest = self.bytes.get(self.next..).unwrap_or(&[]);
        // Near the end, zeros follow the last byte.
        match rest.first_chunk::<8>() {
            Some(whole) => word = *whole,
            None => word[..rest.len()].copy_from_slice(rest),
        }
        self.bits |= if HIGH_FIRST {
            u64::from_be_bytes(word) >> self.valid
        } else {
            u64::from_le_bytes(word) << self.valid
        };
        // Eight bits for each whole byte that fits: `valid` ends between 56 and 63, which is `valid | 56`.
        self.next += (63 - self.valid as usize) / 8;
        self.valid |= 56;
    }

    /// Takes a coefficient of at most 25 bits, as sign and absolute value; a longer one is too large.
    fn coefficient(&mut self) -> (bool, u32) {
        let (sign, low, high);
        if HIGH_FIRST {
            sign = self.bits >> 63;
            low = (self.bits >> (63 - LOW_BITS)) as u32 & LOW_MASK;
            high = (self.bits << (1 + LOW_BITS)).leading_zeros();
        } else {
            sign = self.bits & 1;
            low = (self.bits >> 1) as u32 & LOW_MASK;
            high = (self.bits >> (1 + LOW_BITS)).trailing_zeros();
        }
        // No bit is left if `high` is 64 or near it; such a coefficient is refused.
        let bits = (2 + LOW_BITS + high).min(63).min(self.valid);
        self.bits = if HIGH_FIRST {
            self.bits << bits
        } else {
            self.bits >> bits
        };
        self.valid -= bits;
        (sign != 0, high << LOW_BITS | low)
    }

    /// Whether only zeros are left.
    fn is_zero(&self) -> bool {
        let rest = self.bytes.get(self.next..).unwrap_or(&[]);
        self.bits == 0 && rest.iter().all(|&byte| byte == 0)
    }
}

/// Writes bits to bytes, in the bit order of a flavour.
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
        *byte |= if self.flavour.is_little_endian() {
            (bit << place) as u8
        } else {
            (bit << (7 - place)) as u8
        };
        Some(())
    }

    fn number(&mut self, value: u32, count: u32) -> Option<()> {
        (0..count).try_for_each(|i| {
            let place = if self.flavour.is_little_endian() {
                i
            } else {
                count - 1 - i
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

/// Returns the numbers of a public key, each below `q`.
///
/// # Errors
/// If the length, the header or a number is not that of a key.
pub fn decode_key<const N: usize>(flavour: Flavour, bytes: &[u8]) -> Result<[u16; N], DecodeError> {
    let numbers = key_numbers(flavour, key_bytes::<N>(bytes)?);
    // The maximum needs no branch per number; the index is only for the error.
    if numbers.iter().fold(0, |max, &c| c.max(max)) < MODULUS {
        return Ok(numbers);
    }
    let index = numbers.iter().take_while(|&&c| c < MODULUS).count();
    let value = numbers[index];
    Err(DecodeError::Residue { index, value })
}

/// Returns the bytes of a public key of this degree, if their number and the header are correct.
pub(crate) fn key_bytes<const N: usize>(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let parameters = const { Parameters::of(N) };
    body(bytes, parameters.public_key_bytes, parameters.key_header())?;
    Ok(bytes)
}

/// Returns the 14-bit numbers of a public key, without range checks, from the bytes that [`key_bytes`] returns. Four
/// take seven bytes; a word of eight bytes is read with the byte before them, which for the first is the header.
#[inline(always)]
pub(crate) fn key_numbers<const N: usize>(flavour: Flavour, bytes: &[u8]) -> [u16; N] {
    const NUMBER: u64 = (1 << KEY_BITS) - 1;
    let bytes = &bytes[..const { Parameters::of(N).public_key_bytes }];
    // Loads all words first, whose loads overlap, so that the rest is vectorised.
    let mut words = [0; DEGREE_MAX / 4];
    let words = &mut words[..N / 4];
    for (k, word) in words.iter_mut().enumerate() {
        let bytes: &[u8; 8] = bytes[7 * k..7 * k + 8].try_into().expect("eight bytes");
        *word = u64::from_le_bytes(*bytes);
    }
    if flavour.is_little_endian() {
        for word in &mut *words {
            let x = *word >> 8;
            // Moves each number to its own 16 bits.
            *word = x & NUMBER
                | (x & NUMBER << KEY_BITS) << 2
                | (x & NUMBER << (2 * KEY_BITS)) << 4
                | (x & NUMBER << (3 * KEY_BITS)) << 6;
        }
    } else {
        for word in &mut *words {
            let x = word.swap_bytes();
            // The first number has the highest bits, but belongs in the lowest 16.
            *word = x >> (3 * KEY_BITS) & NUMBER
                | (x & NUMBER << (2 * KEY_BITS)) >> 12
                | (x & NUMBER << KEY_BITS) << 18
                | (x & NUMBER) << 48;
        }
    }
    let mut out = [0; N];
    for (four, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
        *four = [[a, b], [c, d], [e, f], [g, h]].map(u16::from_le_bytes);
    }
    out
}

/// Returns a public key with these numbers, each below `q`.
#[must_use]
pub fn encode_key<const N: usize>(flavour: Flavour, h: &[u16; N]) -> Vec<u8> {
    let parameters = const { Parameters::of(N) };
    let mut out = vec![0; parameters.public_key_bytes];
    out[0] = parameters.key_header();
    let mut bits = BitsMut {
        bytes: &mut out[1..],
        position: 0,
        flavour,
    };
    let written = h
        .iter()
        .try_for_each(|&c| bits.number(u32::from(c), KEY_BITS));
    written.expect("numbers of 14 bits fill the key");
    out
}

/// Returns the salt, if the flavour sends one, and `s2` of a signature.
///
/// # Errors
/// If the bytes are not the only encoding of a signature of the flavour: its length, header,
/// range of coefficients, and zeros to the end.
pub fn decode_signature<const N: usize>(
    flavour: Flavour,
    bytes: &[u8],
) -> Result<(Option<[u8; SALT_BYTES]>, [i16; N]), DecodeError> {
    let header = const { Parameters::of(N) }.signature_header();
    let bytes = body(bytes, flavour.signature_bytes_of(N), header)?;
    let (salt, code) = bytes.split_at(flavour.salt_bytes());
    let max = flavour.coefficient_max().unwrap_or(ORIGINAL_MAX);
    let mut s2 = [0; N];
    if flavour.is_little_endian() {
        coefficients::<false>(code, max, &mut s2)?;
    } else {
        coefficients::<true>(code, max, &mut s2)?;
    }
    // An unsalted flavour leaves an empty slice, which gives None.
    Ok((salt.first_chunk().copied(), s2))
}

/// Decodes all coefficients of a code, each at most `max` in absolute value.
fn coefficients<const HIGH_FIRST: bool>(
    bytes: &[u8],
    max: i16,
    out: &mut [i16],
) -> Result<(), DecodeError> {
    let mut window = Window::<HIGH_FIRST> {
        bytes,
        next: 0,
        bits: 0,
        valid: 0,
    };
    for (pair, two) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        // Room for two coefficients of 25 bits, more than the largest of either flavour has.
        window.fill();
        for (k, c) in two.iter_mut().enumerate() {
            let index = 2 * pair + k;
            let (negative, value) = window.coefficient();
            // A code that is cut off has no terminator, so its high part is too large.
            if value > max.unsigned_abs().into() {
                return Err(DecodeError::Coefficient { index });
            }
            if negative && value == 0 {
                return Err(DecodeError::NegativeZero { index });
            }
            *c = if negative {
                -(value as i16)
            } else {
                value as i16
            };
        }
    }
    if window.is_zero() {
        Ok(())
    } else {
        Err(DecodeError::Padding)
    }
}

/// Returns the signature of a salt, if the flavour sends one, and `s2`. None if a required salt is missing, if
/// a coefficient is too large for the flavour, or if the code does not fit.
#[must_use]
pub fn encode_signature<const N: usize>(
    flavour: Flavour,
    salt: Option<&[u8; SALT_BYTES]>,
    s2: &[i16; N],
) -> Option<Vec<u8>> {
    if salt.is_some() != flavour.is_salted() {
        return None;
    }
    let mut out = vec![const { Parameters::of(N) }.signature_header()];
    out.extend(salt.map_or(&[][..], |salt| salt));
    out.resize(flavour.signature_bytes_of(N), 0);
    let mut bits = BitsMut {
        bytes: &mut out[1 + flavour.salt_bytes()..],
        position: 0,
        flavour,
    };
    let max = flavour.coefficient_max().unwrap_or(ORIGINAL_MAX) as u16;
    for &c in s2 {
        let size = c.unsigned_abs();
        if size > max {
            return None;
        }
        bits.bit(u32::from(c < 0))?;
        bits.number(u32::from(size) & LOW_MASK, LOW_BITS)?;
        for _ in 0..size >> LOW_BITS {
            bits.bit(0)?;
        }
        bits.bit(1)?;
    }
    Some(out)
}
