//! The blocks that a node has, lacks and asks for.

use super::message::BlockBody;
use alphorn_proto::Peer;
use alphorn_proto::horn::fetch::Fetch;
use alphorn_proto::wire::Root;
use alphorn_types::Time;
use std::sync::Arc;

/// The blocks that a node has, lacks and asks for.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) fetch: Fetch,
    pub(super) questions: u64,
    /// Blocks that were taken, for as long as the chain has them.
    pub(super) known: Vec<Arc<BlockBody>>,
    /// Blocks waiting for their verdict.
    pub(super) held: Vec<Arc<BlockBody>>,
    /// Earliest time of the next check.
    pub(super) look: Time,
    /// Time of the next check if nothing arrives before; none if nothing is missing.
    pub(super) again: Option<Time>,
}

impl Blocks {
    /// When the next check is due.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.again
    }

    /// A block is handed to the state machine.
    pub(super) fn hold(&mut self, block: &Arc<BlockBody>) {
        self.held.push(block.clone());
    }

    /// The block with this root, if it is waiting for its verdict.
    pub(super) fn held(&self, root: &Root) -> Option<&Arc<BlockBody>> {
        self.held.iter().find(|block| block.root == *root)
    }

    /// The state machine has decided on the block.
    pub(super) fn let_go(&mut self, block: &BlockBody) {
        self.held.retain(|held| held.root != block.root);
    }

    /// A peer is gone.
    pub(super) fn peer_down(&mut self, peer: Peer) {
        self.fetch.peer_down(peer);
    }
}
