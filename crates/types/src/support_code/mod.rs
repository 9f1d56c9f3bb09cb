//! The code of a support on the wire: `tag u8 | info u8 | len u32 | body`.

use crate::support::MULTIPLICITY_LIMIT;
use crate::{Bitfield, DecodeError, Reader, Support, Writer};

/// Bytes before the body: tag, info, length.
pub const HEADER_BYTES: usize = 6;

const TAG_RAW_BITS: u8 = 0;
const TAG_RAW_PLANES: u8 = 1;

/// How an encoder writes a support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Coding {
    /// The planes as they are.
    #[default]
    Raw,
}

/// The most bytes that the code of a support over `n` positions can have, header included.
///
/// # Panics
///
/// If `multiplicity_max` is 0 or above [`MULTIPLICITY_LIMIT`].
#[must_use]
pub fn code_bytes_max(n: usize, multiplicity_max: u8) -> usize {
    HEADER_BYTES + planes_max(multiplicity_max) * n.div_ceil(8)
}

/// The canonical code of `support`; `reference` is the context of codings that use one.
///
/// # Panics
///
/// If `reference` is not as long as `support`.
#[must_use]
pub fn encode(support: &Support, coding: Coding, reference: Option<&Bitfield>) -> Vec<u8> {
    if let Some(reference) = reference {
        assert_eq!(reference.len(), support.len(), "length of the reference");
    }
    match coding {
        Coding::Raw => encode_raw(support),
    }
}

/// The support over `n` positions with multiplicities up to `multiplicity_max` that `bytes` is
/// the code of.
///
/// # Errors
///
/// If the bytes are not exactly one canonical code within the bounds.
///
/// # Panics
///
/// If `multiplicity_max` is 0 or above [`MULTIPLICITY_LIMIT`], or `reference` is not `n` long.
pub fn decode(
    bytes: &[u8],
    n: usize,
    multiplicity_max: u8,
    reference: Option<&Bitfield>,
) -> Result<Support, DecodeError> {
    let mut reader = Reader::new(bytes);
    let support = decode_prefix(&mut reader, n, multiplicity_max, reference)?;
    reader.finish()?;
    Ok(support)
}

/// As [`decode`], from the front of a message; the code's own length field ends it.
///
/// # Errors
///
/// As [`decode`].
///
/// # Panics
///
/// As [`decode`].
pub fn decode_prefix(
    reader: &mut Reader<'_>,
    n: usize,
    multiplicity_max: u8,
    reference: Option<&Bitfield>,
) -> Result<Support, DecodeError> {
    if let Some(reference) = reference {
        assert_eq!(reference.len(), n, "length of the reference");
    }
    let body_max = planes_max(multiplicity_max) * n.div_ceil(8);
    let tag = reader.u8()?;
    let info = reader.u8()?;
    let body = reader.bytes_u32_prefixed(body_max)?;
    let support = match tag {
        TAG_RAW_BITS | TAG_RAW_PLANES => decode_raw(tag, info, body, n)?,
        tag => {
            return Err(DecodeError::UnknownTag {
                what: "tag of a support code",
                value: u64::from(tag),
            });
        }
    };
    let value = support.max_multiplicity();
    if value > multiplicity_max {
        return Err(DecodeError::OutOfRange {
            what: "multiplicity",
            value: u64::from(value),
            max: u64::from(multiplicity_max),
        });
    }
    Ok(support)
}

/// Binary planes that multiplicities up to `multiplicity_max` can need.
fn planes_max(multiplicity_max: u8) -> usize {
    assert!(
        (1..=MULTIPLICITY_LIMIT).contains(&multiplicity_max),
        "bound {multiplicity_max} of a multiplicity"
    );
    (u8::BITS - multiplicity_max.leading_zeros()) as usize
}

fn encode_raw(support: &Support) -> Vec<u8> {
    let planes = support.planes();
    let body_bytes = planes.len() * support.len().div_ceil(8);
    let mut writer = Writer::with_capacity(HEADER_BYTES + body_bytes);
    writer.u8(if planes.len() == 1 {
        TAG_RAW_BITS
    } else {
        TAG_RAW_PLANES
    });
    writer.u8((planes.len() as u8) << 4);
    writer.u32(u32::try_from(body_bytes).expect("a support has at most 2^22 positions"));
    for plane in planes {
        writer.bytes(&plane.to_bytes());
    }
    writer.into_vec()
}

fn decode_raw(tag: u8, info: u8, body: &[u8], n: usize) -> Result<Support, DecodeError> {
    let (planes_count, context) = (usize::from(info >> 4), info & 0x0f);
    let legal = if tag == TAG_RAW_BITS { 1..=1 } else { 2..=4 };
    if context != 0 || !legal.contains(&planes_count) {
        return Err(DecodeError::NotCanonical {
            what: "info of a raw support code",
        });
    }
    let plane_bytes = n.div_ceil(8);
    let mut reader = Reader::new(body);
    let planes = (0..planes_count)
        .map(|_| {
            let bytes = reader.bytes(plane_bytes)?;
            Bitfield::from_bytes(bytes, n).map_err(|_| DecodeError::NotCanonical {
                what: "padding of a raw support code",
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    reader.finish()?;
    Support::from_planes(planes).ok_or(DecodeError::NotCanonical {
        what: "empty top plane of a support code",
    })
}

#[cfg(test)]
mod tests {
    use super::{Coding, code_bytes_max, decode, encode};
    use crate::{DecodeError, Support};

    #[test]
    fn raw_codes_have_one_form() {
        let bits = Support::from_multiplicities(&[1, 0, 1, 1, 0, 0, 0, 0, 1]).unwrap();
        let code = encode(&bits, Coding::Raw, None);
        assert_eq!(code, [0, 0x10, 2, 0, 0, 0, 0x0d, 0x01]);
        assert_eq!(decode(&code, 9, 1, None), Ok(bits));
        let counted = Support::from_multiplicities(&[1, 2, 3]).unwrap();
        let code = encode(&counted, Coding::Raw, None);
        assert_eq!(code, [1, 0x20, 2, 0, 0, 0, 0b101, 0b110]);
        assert_eq!(decode(&code, 3, 3, None), Ok(counted));
        assert!(code.len() <= code_bytes_max(3, 3));
        assert_eq!(
            decode(&code, 3, 1, None),
            Err(DecodeError::TooLong {
                what: "byte string",
                value: 2,
                max: 1
            })
        );
        // An empty top plane, the planes form of one plane, padding, a context, a cut, a tail.
        for bad in [
            &[1, 0x20, 2, 0, 0, 0, 0b101, 0][..],
            &[1, 0x10, 1, 0, 0, 0, 0b101],
            &[0, 0x10, 1, 0, 0, 0, 0b1101],
            &[0, 0x11, 1, 0, 0, 0, 0b101],
            &[0, 0x10, 1, 0, 0, 0],
            &[0, 0x10, 1, 0, 0, 0, 0b101, 0],
            &[9, 0x10, 1, 0, 0, 0, 0b101],
        ] {
            assert!(decode(bad, 3, 3, None).is_err(), "{bad:?}");
        }
    }
}
