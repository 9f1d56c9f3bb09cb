//! Errors in pieces, commitments and payloads.

use thiserror::Error;

/// Why bytes are not a valid piece (chunk or shard) or list of commitments of a broadcast.
///
/// None of these checks needs a group multiplication: all are made before verification.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PieceError {
    /// A length that does not match the header.
    #[error("{found} bytes, the header implies {expected}")]
    Length {
        /// Bytes received.
        found: usize,
        /// Bytes expected.
        expected: usize,
    },
    /// A generation that the payload does not have.
    #[error("generation {found} of {generations}")]
    Generation {
        /// As received.
        found: u16,
        /// As in the header.
        generations: u16,
    },
    /// A width byte that is not allowed, or wider than the coefficients need.
    #[error(
        "coefficient width {0}, it must be the least of 1, 2, 3, 4, 6, 8, 16 and 32 that all coefficients fit"
    )]
    Width(u8),
    /// A coefficient or data element that is not below the group order.
    #[error("scalar {index} is not canonical")]
    NonCanonicalScalar {
        /// Position among the coefficients or among the data.
        index: usize,
    },
    /// A commitment that does not encode a group element.
    #[error("commitment {index} is not canonical")]
    NonCanonicalPoint {
        /// Position in the list.
        index: usize,
    },
    /// All coefficients are zero.
    #[error("all coefficients are zero")]
    ZeroRow,
    /// A shard index out of range.
    #[error("shard {found} of {shards_total}")]
    Shard {
        /// As received.
        found: u16,
        /// As in the header.
        shards_total: u16,
    },
    /// A Merkle path that does not lead to the root of the header.
    #[error("the Merkle path does not lead to the committed root")]
    Path,
}

/// Why verified pieces do not decode to the payload of the header.
///
/// Only the source can cause this, and every honest node finds the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InvalidSource {
    /// A source element does not fit into 31 bytes.
    #[error("element {element} of source chunk {chunk} is not below 2^248")]
    Element {
        /// Source chunk, counted over all generations.
        chunk: usize,
        /// Element within it.
        element: usize,
    },
    /// Bytes after the end of the payload are not zero.
    #[error("padding is not zero")]
    Padding,
    /// The payload has a different hash.
    #[error("payload hash differs from the header")]
    PayloadHash,
    /// The shards are not a codeword.
    #[error("re-encoded shards have another root")]
    NotACodeword,
}

/// Why a decoder cannot finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Pieces are missing; no peer is at fault.
    #[error("rank {rank} of {needed} in generation {generation}")]
    Incomplete {
        /// The first generation that is not full.
        generation: u16,
        /// Its rank.
        rank: u16,
        /// The rank it needs.
        needed: u16,
    },
    /// The source committed to something that is not a payload.
    #[error(transparent)]
    InvalidSource(#[from] InvalidSource),
}
