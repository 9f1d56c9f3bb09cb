//! A payload as elements: generation by generation N chunks of M elements of 31 bytes, and back.

use crate::error::InvalidSource;
use crate::header::{ELEMENT_PAYLOAD_BYTES, Header, payload_hash};
use crate::row::Row;

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

/// The payload of all source chunks in order, with every check that only the source can fail.
pub(crate) fn join<'a>(
    header: &Header,
    chunks: impl Iterator<Item = &'a Row>,
) -> Result<Vec<u8>, InvalidSource> {
    let elements =
        usize::from(header.chunks) * usize::from(header.generations) * header.unit as usize;
    // One byte more, which an element needs while it is written.
    let mut payload = Vec::with_capacity(elements * ELEMENT_PAYLOAD_BYTES as usize + 1);
    for (chunk, row) in chunks.enumerate() {
        let written = row.write_payload(&mut payload);
        written.map_err(|element| InvalidSource::Element { chunk, element })?;
    }
    finish(header, payload)
}

/// Cuts the padding off, which must be zero, and checks the hash.
pub(crate) fn finish(header: &Header, mut bytes: Vec<u8>) -> Result<Vec<u8>, InvalidSource> {
    if bytes[header.len as usize..].iter().any(|&byte| byte != 0) {
        return Err(InvalidSource::Padding);
    }
    bytes.truncate(header.len as usize);
    if payload_hash(&bytes) != header.payload_hash {
        return Err(InvalidSource::PayloadHash);
    }
    Ok(bytes)
}
