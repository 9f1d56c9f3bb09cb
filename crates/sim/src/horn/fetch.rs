//! Blocks that messages wait for. A node asks its peers for them by root, choosing peers and times as a real node
//! does ([`alphorn_proto::horn::fetch`]), and answers with those that it has.

use super::message::{BlockBody, Exchange, HornMessage, Inner, Item};
use super::node::HornNode;
use super::subscription::{Origin, Pending};
use crate::gossip::{DenseId, Peers, Priority};
use crate::role::Output;
use alphorn_proto::Peer;
use alphorn_proto::horn::cast::SOURCES;
use alphorn_proto::horn::fetch::Missing;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Minimum interval between checks for missing blocks. A real node checks every 5 ms.
const LOOK_EVERY_NS: u64 = 20_000_000;
/// Interval after which it checks again even if nothing has arrived.
const LOOK_AGAIN_NS: u64 = 100_000_000;

impl HornNode {
    /// Keeps a block that was taken or published by the node itself, so that others may ask for it.
    pub(super) fn keep_block(&mut self, block: &Arc<BlockBody>) {
        let chain = self.machine.chain();
        let known = &mut self.blocks.known;
        known.retain(|known| known.root != block.root && chain.header(&known.root).is_some());
        known.push(block.clone());
        self.heads
            .after_block(self.now, block.slot, &self.plan, chain);
    }

    /// Asks for the blocks that messages wait for.
    pub(super) fn look_for_blocks(&mut self) {
        if !self.machine.awaits_blocks() {
            if self.blocks.again.take().is_some() {
                // Nothing waits any more, so all searches end.
                self.blocks.fetch.keep(self.now, &[]);
            }
            return;
        }
        if self.now < self.blocks.look {
            let look = self.blocks.look;
            self.blocks.again = Some(self.blocks.again.map_or(look, |again| again.min(look)));
            return;
        }
        let missing = self.machine.missing_blocks();
        let missing = missing.map(|(root, peers)| Missing {
            held: self.blocks.held(&root).is_some(),
            root,
            // Sources of broadcasts are not peers and cannot be asked.
            peers: peers.into_iter().filter(|peer| peer.0 < SOURCES).collect(),
        });
        let missing: Vec<Missing> = missing.collect();
        let mut peers: BTreeSet<Peer> = missing.iter().flat_map(|one| one.peers.clone()).collect();
        // If all peers that referred to a block are gone, one of the others is asked.
        peers.extend(self.block_peers().into_iter().map(|peer| Peer(peer.into())));
        let blocks = &mut self.blocks;
        blocks.fetch.keep(self.now, &missing);
        let mut asked = Vec::new();
        for one in &missing {
            if let Some(peer) = blocks.fetch.whom(self.now, one, &peers) {
                let (id, root) = (blocks.questions, one.root);
                blocks.questions += 1;
                blocks.fetch.asked(self.now, id, peer, one);
                asked.push((peer, Exchange::Question { id, root }));
            }
        }
        blocks.look = self.now.saturating_add_ns(LOOK_EVERY_NS);
        blocks.again = (!missing.is_empty()).then(|| self.now.saturating_add_ns(LOOK_AGAIN_NS));
        for (peer, question) in asked {
            self.send_exchange(peer, question);
        }
    }

    fn send_exchange(&mut self, peer: Peer, exchange: Exchange) {
        let priority = match exchange.has_block() {
            true => Priority::Answer,
            false => Priority::Control,
        };
        let message = HornMessage {
            topic: self.plan.block_topic(),
            inner: Inner::Exchange(Box::new(exchange)),
        };
        self.out.push_back(Output::Send {
            to: Peers::One(peer),
            message,
            priority: priority as u8,
        });
    }

    /// Handles a peer's question or answer.
    pub(super) fn exchange(&mut self, from: Peer, exchange: Exchange) {
        match exchange {
            Exchange::Question { id, root } => {
                let known = self.blocks.known.iter().find(|block| block.root == root);
                let block = known.cloned();
                self.send_exchange(from, Exchange::Answer { id, block });
            }
            Exchange::Answer { id, block } => {
                let Some(wanted) = self.blocks.fetch.wanted(id) else {
                    return;
                };
                let block = block.filter(|block| block.root == wanted);
                self.blocks.fetch.answered(id, block.is_some());
                // Checked like any other block, but no component waits for the verdict, as for a block sent
                // directly.
                let index = self.find(self.plan.block_topic());
                if let (Some(block), Some(index)) = (block, index) {
                    // Nothing reads the number of a message that was sent directly, so one without a number may have
                    // any.
                    let id = self.plan.block_id(block.slot).unwrap_or(DenseId(0));
                    let item = Item::Block(block);
                    let origin = Origin::Direct;
                    self.validate(index, from, Pending { origin, id, item });
                }
            }
        }
    }
}
