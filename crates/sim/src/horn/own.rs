//! A node's own messages, in the form known to their topics and to observers of a run.

use super::message::{BlockBody, EvidenceBody, Item};
use super::node::HornNode;
use crate::gossip::DenseId;
use alphorn_proto::wire::{Aggregate, Block, Entry, Topic, Vote, VoteMsg};
use alphorn_scheme::Bytes;
use alphorn_types::{Bitfield, Slot, Validator};
use std::sync::Arc;

/// A message as its topic knows it: its number there, and its publisher.
pub(super) struct Own {
    /// The slot of its votes, or of the block.
    pub(super) slot: Slot,
    pub(super) id: DenseId,
    pub(super) publisher: Validator,
    pub(super) item: Item,
}

impl HornNode {
    /// Reads one of the node's own messages.
    pub(super) fn read(&self, topic: Topic, data: &Bytes) -> Option<Own> {
        let (plan, format) = (&self.plan, &self.plan.format);
        let chain = self.machine.chain();
        let references = |vote: &Vote, committee| chain.reference(vote, committee);
        let data = data.clone();
        match topic {
            Topic::Vote { cell } => {
                let message = VoteMsg::decode(&data, format).ok()?;
                let (publisher, slot) = (message.validator, message.vote.slot);
                Some(Own {
                    slot,
                    id: plan.vote_id(cell, publisher)?,
                    publisher,
                    item: Item::Vote(data),
                })
            }
            Topic::Aggregate { .. } | Topic::Collection => {
                let message = Aggregate::decode(&data, format, &references).ok()?;
                let (publisher, unit) = (message.sender, message.unit);
                let slot = message.vote.slot;
                let signers = message.evidence.support.signers();
                let body = Arc::new(EvidenceBody {
                    slot,
                    unit,
                    sender: publisher.0,
                    support: message.evidence.support,
                    votes: signers.count_ones() as u32,
                    signers,
                    // As noted when the job began, since the message does not name them.
                    parts: self.parts_of(slot, unit),
                    data,
                });
                Some(Own {
                    slot,
                    id: plan.evidence_id(plan.place(slot)?, unit, publisher)?,
                    publisher,
                    item: match topic {
                        Topic::Collection => Item::Collection(body),
                        _ => Item::Aggregate(body),
                    },
                })
            }
            Topic::Block => {
                let block = Block::decode(&data, format, &references).ok()?;
                let entries = block.body.entries.iter();
                let entry = |entry: &Entry| -> (Slot, u16, Bitfield) {
                    let signers = entry.evidence.support.signers();
                    (entry.vote.slot, entry.committee, signers)
                };
                let slot = block.header.slot;
                let body = BlockBody {
                    slot,
                    root: block.header.root(),
                    entries: entries.map(entry).collect(),
                    data,
                };
                Some(Own {
                    slot,
                    id: plan.block_id(slot)?,
                    publisher: block.header.proposer,
                    item: Item::Block(Arc::new(body)),
                })
            }
        }
    }
}
