//! Coded chunks and their encoding.

use crate::coefficients::{self, WIDTHS, width_of};
use crate::error::PieceError;
use crate::header::Header;
use crate::row::Row;

/// Bytes before the coefficients: generation, hop, rank of the sender, width.
pub(crate) const CHUNK_FIXED_BYTES: usize = 6;

/// A coded chunk: coefficients b, data w = Σ b_i v_i, and its sender's claims about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Generation.
    pub generation: u16,
    /// Transmissions so far, saturating; not authenticated.
    pub hop: u8,
    /// Rank of the sender; not authenticated.
    pub sender_rank: u16,
    /// The N coefficients, not all zero.
    pub coefficients: Row,
    /// The M data elements.
    pub data: Row,
}

/// A chunk with checked length, generation and coefficients, but with its data still as bytes, so that a relay can drop
/// a dependent chunk before parsing its data.
#[derive(Clone, Debug)]
pub(crate) struct RawChunk<'a> {
    generation: u16,
    hop: u8,
    sender_rank: u16,
    coefficients: Row,
    data: &'a [u8],
}

impl<'a> RawChunk<'a> {
    /// Reads the body of a chunk message: generation u16, hop u8, rank of the sender u16, width u8, the coefficients,
    /// and 32 bytes of data per element. Nothing is allocated before the length is checked.
    pub(crate) fn decode(header: &Header, body: &'a [u8]) -> Result<RawChunk<'a>, PieceError> {
        let chunks = usize::from(header.chunks);
        let data_bytes = 32 * header.unit as usize;
        let least = CHUNK_FIXED_BYTES + chunks + data_bytes;
        let Some((fixed, rest)) = body.split_first_chunk::<CHUNK_FIXED_BYTES>() else {
            return Err(PieceError::Length {
                found: body.len(),
                expected: least,
            });
        };
        let [g0, g1, hop, r0, r1, width] = *fixed;
        if !WIDTHS.contains(&width) {
            return Err(PieceError::Width(width));
        }
        let coefficient_bytes = chunks * usize::from(width);
        let expected = CHUNK_FIXED_BYTES + coefficient_bytes + data_bytes;
        if body.len() != expected {
            return Err(PieceError::Length {
                found: body.len(),
                expected,
            });
        }
        let generation = u16::from_le_bytes([g0, g1]);
        if generation >= header.generations {
            let generations = header.generations;
            return Err(PieceError::Generation {
                found: generation,
                generations,
            });
        }
        let (coefficients, data) = rest.split_at(coefficient_bytes);
        let coefficients = coefficients::decode(coefficients, width)?;
        // The smallest that fits: a chunk has only one encoding.
        if width_of(&coefficients) != width {
            return Err(PieceError::Width(width));
        }
        Ok(RawChunk {
            generation,
            hop,
            sender_rank: u16::from_le_bytes([r0, r1]),
            coefficients,
            data,
        })
    }

    /// Checks that every data element is canonical.
    pub(crate) fn into_chunk(self) -> Result<Chunk, PieceError> {
        let data =
            Row::from_wire(self.data).map_err(|index| PieceError::NonCanonicalScalar { index })?;
        Ok(Chunk {
            generation: self.generation,
            hop: self.hop,
            sender_rank: self.sender_rank,
            coefficients: self.coefficients,
            data,
        })
    }
}

impl Chunk {
    /// Reads and checks a complete chunk body, see `RawChunk::decode`.
    pub fn decode(header: &Header, body: &[u8]) -> Result<Chunk, PieceError> {
        RawChunk::decode(header, body)?.into_chunk()
    }

    /// Appends the body, with the smallest width that fits.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let width = width_of(&self.coefficients);
        out.reserve(self.encoded_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.push(self.hop);
        out.extend_from_slice(&self.sender_rank.to_le_bytes());
        out.push(width);
        coefficients::encode(&self.coefficients, width, out);
        self.data.write_wire(out);
    }

    /// Size of the encoded body in bytes.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let width = usize::from(width_of(&self.coefficients));
        CHUNK_FIXED_BYTES + width * self.coefficients.len() + 32 * self.data.len()
    }
}
