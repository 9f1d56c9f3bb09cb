//! Uncoded planes, and the raw Snappy block around one plane for comparison.

use super::{TAG_RAW_BITS, TAG_RAW_PLANES, not_canonical};
use crate::{Bitfield, DecodeError, Reader, Support};

/// Tag and body of the raw form.
pub(super) fn encode(support: &Support) -> (u8, Vec<u8>) {
    let tag = match support.planes_count() {
        1 => TAG_RAW_BITS,
        _ => TAG_RAW_PLANES,
    };
    let body = support.planes().iter().flat_map(Bitfield::to_bytes);
    (tag, body.collect())
}

/// Decodes the raw body of `planes_count` planes into a support over `n` positions.
pub(super) fn decode(body: &[u8], n: usize, planes_count: usize) -> Result<Support, DecodeError> {
    let mut reader = Reader::new(body);
    let planes = (0..planes_count)
        .map(|_| {
            let bytes = reader.bytes(n.div_ceil(8))?;
            Bitfield::from_bytes(bytes, n).map_err(|_| not_canonical("padding of a support code"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    reader.finish()?;
    Support::from_planes(planes).ok_or(not_canonical("number of planes of a support code"))
}

/// Encodes the bits of one plane as a raw Snappy block.
pub(super) fn snappy(bits: &Bitfield) -> Option<Vec<u8>> {
    snap::raw::Encoder::new()
        .compress_vec(&bits.to_bytes())
        .ok()
}

/// Decodes a plane of `n` bits from a raw Snappy block, after checking its announced length.
pub(super) fn unsnappy(body: &[u8], n: usize) -> Result<Bitfield, DecodeError> {
    let what = "Snappy block of a support code";
    // Checked first, because decompression allocates as much as the block announces.
    let len = snap::raw::decompress_len(body).map_err(|_| not_canonical(what))?;
    let expected = n.div_ceil(8);
    if len != expected {
        return Err(DecodeError::OutOfRange {
            what,
            value: len as u64,
            max: expected as u64,
        });
    }
    let bytes = snap::raw::Decoder::new()
        .decompress_vec(body)
        .map_err(|_| not_canonical(what))?;
    Bitfield::from_bytes(&bytes, n).map_err(|_| not_canonical("padding of a support code"))
}
