//! What a node of the two-level model is, and where it stands.

use super::TwoLevel;
use crate::horn::{TopicId, Way};
use alphorn_proto::Peer;
use std::sync::Arc;

/// The topic of proofs; those of groups are numbered below.
pub(super) const PROOFS: TopicId = TopicId(u32::MAX);

/// What is the same for all nodes, and what a node is.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) config: Arc<TwoLevel>,
    pub(super) group: u32,
    /// Place in the group.
    pub(super) index: u32,
    pub(super) group_len: u32,
    pub(super) nodes: u32,
    /// A local aggregator gives its proof to this neighbour, or to itself.
    pub(super) proof_to: Option<ProofTo>,
    pub(super) is_global: bool,
    /// Neighbours that get the own signature, if the node is no member of a station.
    pub(super) signature_to: Arc<[Peer]>,
    pub(super) proofs_way: Way,
}

/// To whom a local aggregator gives its proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofTo {
    /// It is a global aggregator itself.
    Itself,
    /// A neighbour.
    Neighbour(u32),
}
