//! What nodes of a tree send each other.

use crate::role::Wire;
use alphorn_types::Bitfield;
use std::sync::Arc;

/// What a position has made: evidence over the votes below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its level; leaves are 0.
    pub level: u32,
    /// Its position in the level.
    pub position: u32,
    /// Who signed, of the validators below the position.
    pub signers: Bitfield,
    /// How many signed.
    pub count: u32,
    /// Proofs or sums in it that were not merged; 1 where all are.
    pub parts: u32,
    /// How many of them are merges.
    pub merges: u32,
    /// Bytes of its evidence.
    pub evidence_bytes: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// What nodes send each other.
#[derive(Clone, Debug)]
pub(crate) enum TreeMessage {
    /// A vote to the nodes of its leaf.
    Vote {
        /// Who votes.
        validator: u32,
        /// Its bytes.
        bytes: u32,
    },
    /// What a position has made, to the nodes above.
    Piece(Arc<Piece>),
}

impl Wire for TreeMessage {
    const KINDS: &'static [&'static str] = &["vote", "aggregate"];

    fn wire_bytes(&self) -> u64 {
        match self {
            Self::Vote { bytes, .. } => (*bytes).into(),
            Self::Piece(piece) => piece.bytes,
        }
    }

    fn kind(&self) -> usize {
        match self {
            Self::Vote { .. } => 0,
            Self::Piece(_) => 1,
        }
    }

    fn has_payload(&self) -> bool {
        true
    }
}
