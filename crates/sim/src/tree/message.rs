//! Messages between nodes of a tree.

use crate::role::Wire;
use alphorn_types::Bitfield;
use std::sync::Arc;

/// The result of a position: evidence for the votes below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its level; leaves are 0.
    pub level: u32,
    /// Its position in the level.
    pub position: u32,
    /// The signers among the validators below the position.
    pub signers: Bitfield,
    /// Number of signers.
    pub count: u32,
    /// Number of proofs or sums in it that were not merged; 1 if all were.
    pub parts: u32,
    /// Number of those that are merges.
    pub merges: u32,
    /// Size of its evidence in bytes.
    pub evidence_bytes: u64,
    /// Size on the wire in bytes.
    pub bytes: u64,
}

/// A message between nodes.
#[derive(Clone, Debug)]
pub(crate) enum TreeMessage {
    /// A vote to the nodes of its leaf.
    Vote {
        /// The voting validator.
        validator: u32,
        /// Size in bytes.
        bytes: u32,
    },
    /// The result of a position, sent to the nodes above.
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
