//! Reorganisation by justification: the one flip of the bouncing attack that remains when all validators vote in
//! each slot.

use super::allies::Allies;
use super::proposers::{TwoBlocks, signed_block};
use crate::fault::{Parameters, Wrap};
use crate::gossip::Peers;
use crate::horn::node::{HornDelivery, HornNode};
use crate::horn::{BlockBody, EvidenceBody, HornMessage, Item};
use crate::role::Output;
use alphorn_proto::Peer;
use alphorn_proto::wire::{Aggregate, Entry, Header, Root, Vote, digest, no_references};
use alphorn_scheme::{Bytes, Role};
use alphorn_types::{Bitfield, Slot, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The attack starts with a proposer of slot n that is followed by an honest one and then by an ally. It signs two
/// blocks, and some honest nodes get the second: as many as it takes for their votes, together with the allies', to
/// justify it. The allies vote for the first block, so the honest block of slot n + 1 builds on that. The proposer
/// of slot n + 2 builds on the second block instead, with the honest votes for it and second votes of the allies.
/// The second block is then justified, while no block on the first one is yet.
#[derive(Debug)]
pub(super) struct Bounce {
    allies: Allies,
    peers: Peers,
    /// The slots with two blocks.
    begins: Vec<Slot>,
    two: TwoBlocks,
    /// The second blocks of these slots, which have no votes.
    second: BTreeMap<Slot, Root>,
    /// Collections of votes of these slots.
    collections: BTreeMap<Slot, Vec<Arc<EvidenceBody>>>,
    /// The node's last own block that is not sent, and the message sent instead. The votes of its validators for
    /// that slot are not sent either: other nodes would ask for the unsent block, and it justifies the honest one.
    replaced: Option<(Slot, Root, HornMessage)>,
}

impl Bounce {
    pub(super) fn new(node: &HornNode, parameters: &Parameters) -> Self {
        let allies = Allies::new(node, parameters);
        let plan = allies.plan.clone();
        let others = others(&allies);
        let theirs = |slot: Slot| allies.host(plan.proposer_of(slot));
        let mut begins: Vec<Slot> = Vec::new();
        for slot in plan.blocks().filter(|slot| allies.attack(*slot)) {
            // An attack takes three slots, and the next one must not share any of them.
            let is_free = begins.last().is_none_or(|last| last.0 + 2 < slot.0);
            let followed = plan.place(slot.next().next()).is_some();
            if others.is_some() && is_free && followed && theirs(slot.next().next()) {
                begins.push(slot);
            }
        }
        let others = others.unwrap_or_default();
        let peers = (0..).zip(node.graph().peers(node.node()));
        let peers = peers.filter(|(_, peer)| others.binary_search(peer).is_ok());
        let peers = Peers::List(peers.map(|(number, _)| Peer(number)).collect());
        Bounce {
            peers: parameters.everyone(),
            begins,
            two: TwoBlocks::new(plan, node.node(), &peers),
            second: BTreeMap::new(),
            collections: BTreeMap::new(),
            replaced: None,
            allies,
        }
    }

    fn see(&mut self, delivery: &HornDelivery) {
        match delivery {
            HornDelivery::Imported(body)
                if self.begins.contains(&body.slot) && body.entries.is_empty() =>
            {
                self.second.insert(body.slot, body.root);
            }
            HornDelivery::Accepted(body) if self.begins.contains(&body.slot) => {
                let known = self.collections.entry(body.slot).or_default();
                known.push(body.clone());
            }
            _ => {}
        }
    }

    /// The block that replaces one of the node's own, on top of the second block of two slots before.
    fn other(&self, own: &BlockBody) -> Option<BlockBody> {
        let plan = &self.allies.plan;
        let begin = Slot(own.slot.0.checked_sub(2)?);
        let parent = *self.second.get(&begin)?;
        let entries = self.entries(begin, parent)?;
        let header = Header::peek(&own.data, &plan.format).ok()?;
        let header = Header { parent, ..header };
        let signers = |entry: &Entry| {
            let signers = entry.evidence.support.signers();
            (entry.vote.slot, entry.committee, signers)
        };
        let shown = entries.iter().map(signers).collect();
        let sign = |root: &Root| {
            let message = digest::block_message(plan.config.network(), root);
            (plan.bench).sign(header.slot, header.proposer, Role::Block, message)
        };
        let (root, data) = signed_block(plan, header, entries, Bytes::from([]), sign)?;
        Some(BlockBody {
            slot: own.slot,
            root,
            entries: shown,
            data,
        })
    }

    /// Entries with the honest votes of a slot for a block, and with second votes of all allies.
    fn entries(&self, slot: Slot, head: Root) -> Option<Vec<Entry>> {
        let format = &self.allies.plan.format;
        let known = self.collections.get(&slot)?.iter();
        let vote_of = |body: &&Arc<EvidenceBody>| -> Option<Vote> {
            let vote = Aggregate::peek(&body.data, format).ok()?.vote;
            (vote.head == head).then_some(vote)
        };
        let mut of_head: Vec<&Arc<EvidenceBody>> =
            known.filter(|body| vote_of(body).is_some()).collect();
        // The largest first, so that few entries have most of the votes.
        of_head.sort_by_key(|body| std::cmp::Reverse(body.votes));
        let vote = vote_of(of_head.first()?)?;
        let mut entries = Vec::new();
        for committee in 0..self.allies.plan.config.layout.committees() {
            let sender = self.allies.any();
            let own = self.allies.collection(&vote, committee, sender, |_| true);
            let honest = of_head
                .iter()
                .filter(|body| body.unit.committee == committee);
            let mut has: Option<Bitfield> = None;
            // The allies' second votes come first, as no honest collection for this block has them.
            for body in own.iter().chain(honest.map(|body| &***body)) {
                let adds = has
                    .as_ref()
                    .is_none_or(|has| body.signers.count_and_not(has) > 0);
                if adds && let Ok(one) = Aggregate::decode(&body.data, format, &no_references) {
                    has.get_or_insert_with(|| Bitfield::new(body.signers.len()))
                        .union_with(&body.signers);
                    entries.push(Entry {
                        vote,
                        committee,
                        evidence: one.evidence,
                    });
                }
            }
        }
        Some(entries)
    }

    /// The node proposes a block. Returns whether another one is sent instead.
    fn replace(&mut self, own: &BlockBody, outputs: &mut Vec<Output<HornNode>>) -> bool {
        let plan = &self.allies.plan;
        let Some((other, id)) = self.other(own).zip(plan.block_id(own.slot)) else {
            return false;
        };
        let other = Arc::new(other);
        // Observers see the block that is sent, in place of the node's own.
        outputs.push(Output::Deliver(HornDelivery::Proposed(other.clone())));
        let message = HornMessage::data(plan.block_topic(), id, Item::Block(other));
        self.replaced = Some((own.slot, own.root, message));
        true
    }
}

/// The honest nodes that get the second block, ascending. The number of their votes is halfway between what is
/// enough to justify the block together with the allies', and what would make it the heavier one. None if there is
/// no room in between.
fn others(allies: &Allies) -> Option<Vec<u32>> {
    let nodes = allies.plan.nodes;
    let honest: Vec<u32> = (0..nodes).filter(|node| !allies.has(*node)).collect();
    let ours = f64::from(nodes - honest.len() as u32) / f64::from(nodes);
    // With less than a third, the other nodes and the allies' first votes would justify the first block.
    let least = (2.0 / 3.0 - ours).max(1.0 / 3.0);
    let some = (least + 0.5) / 2.0 * f64::from(nodes);
    (least < 0.5).then(|| honest.into_iter().take(some.round() as usize).collect())
}

impl Wrap<HornNode> for Bounce {
    fn output(&mut self, now: Time, output: Output<HornNode>, outputs: &mut Vec<Output<HornNode>>) {
        if let Output::Deliver(delivery) = &output {
            self.see(delivery);
            if let HornDelivery::Proposed(own) = delivery {
                let is_third = own.slot.0.checked_sub(2);
                if is_third.is_some_and(|begin| self.begins.contains(&Slot(begin))) {
                    if !self.replace(own, outputs) {
                        outputs.push(output);
                    }
                    return;
                }
                // `two` would sign a second block here too, so it must not see this one.
                if !self.begins.contains(&own.slot) {
                    return outputs.push(output);
                }
            }
        }
        if let Output::Send {
            message, priority, ..
        } = &output
            && let Some((slot, root, other)) = &self.replaced
        {
            if let Some(Item::Block(body)) = message.item()
                && body.root == *root
            {
                return outputs.push(Output::Send {
                    to: self.peers.clone(),
                    message: other.clone(),
                    priority: *priority,
                });
            }
            let of = self.allies.of_votes(message).map(|(of, _)| of);
            if of == Some(*slot) {
                return;
            }
        }
        self.two.output(now, output, outputs);
    }
}
