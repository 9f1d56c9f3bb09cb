//! Attacks on the fork choice by proposers and voters together.
//!
//! Honest nodes count votes that come in collections, so saved votes are released as collections of the attackers'
//! own collectors. In a committee without any, saved votes are useless.

use super::allies::Allies;
use super::broadcasts::Broadcasts;
use super::collectors::publish;
use super::proposers::TwoBlocks;
use crate::fault::{Parameters, Wrap};
use crate::gossip::{self, Peers};
use crate::horn::node::{HornDelivery, HornNode};
use crate::horn::{BlockBody, HornMessage, Item};
use crate::role::Output;
use alphorn_proto::Peer;
use alphorn_proto::horn::{KIND_BLOCK, KIND_COLLECTION};
use alphorn_proto::wire::{Aggregate, Header, Root, Vote};
use alphorn_types::{Slot, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ex-ante reorganisation. A proposer followed by an honest one holds its block back, and no ally votes in its
/// slot. Halfway between the next block and the votes for it, the proposer releases its block and collections of
/// all allies' votes for it. These are the latest votes for either of the two blocks.
#[derive(Debug)]
pub(super) struct WithholdBlock {
    allies: Allies,
    peers: Peers,
    /// Release times of blocks, with their slots.
    due: BTreeMap<Time, Slot>,
    /// The node's last own block that it holds back.
    block: Option<Arc<BlockBody>>,
    /// The vote of its own validators in the slot of that block.
    vote: Option<Vote>,
    unsent: Broadcasts,
}

impl WithholdBlock {
    pub(super) fn new(node: &HornNode, parameters: &Parameters) -> Self {
        let allies = Allies::new(node, parameters);
        let plan = &allies.plan;
        let own = |slot: &Slot| allies.own(plan.proposer_of(*slot));
        let attacks = plan
            .blocks()
            .filter(own)
            .filter(|slot| allies.attack(*slot));
        // Only for its own blocks. Other nodes of the fault just hold back votes.
        let due = attacks.map(|slot| (allies.before_votes(slot.next()), slot));
        WithholdBlock {
            peers: parameters.everyone(),
            due: due.collect(),
            block: None,
            vote: None,
            unsent: Broadcasts::default(),
            allies,
        }
    }

    /// Whether a message is held back. One of the node's own blocks is held until its release; its own votes of
    /// that slot and evidence made from votes of that slot are held for ever.
    fn holds(&mut self, now: Time, message: &HornMessage) -> bool {
        let allies = &self.allies;
        if let Some((slot, vote)) = allies.of_votes(message) {
            let held = allies.attack(slot);
            self.vote = vote.filter(|_| held).or(self.vote);
            return held;
        }
        let holds_block = |slot: Slot| {
            let own = allies.own(allies.plan.proposer_of(slot));
            own && allies.attack(slot) && now < allies.before_votes(slot.next())
        };
        match message.item() {
            Some(Item::Block(body)) => holds_block(body.slot),
            Some(_) => false,
            None => self.unsent.have(message, |subject| match subject.kind {
                KIND_BLOCK => holds_block(Slot(subject.slot)),
                KIND_COLLECTION => allies.own(subject.source) && allies.attack(Slot(subject.slot)),
                _ => false,
            }),
        }
    }

    fn release(&mut self, slot: Slot, own: &mut Vec<Output<HornNode>>) {
        let plan = &self.allies.plan;
        let block = self.block.take().filter(|block| block.slot == slot);
        let Some((block, id)) = block.zip(plan.block_id(slot)) else {
            return;
        };
        // This node's own vote has the source and the target that the saved votes need.
        let vote = self.vote.take().filter(|vote| vote.head == block.root);
        own.push(Output::Send {
            to: self.peers.clone(),
            message: HornMessage::data(plan.block_topic(), id, Item::Block(block)),
            priority: gossip::Priority::Own as u8,
        });
        let Some(vote) = vote else {
            return;
        };
        for committee in 0..plan.config.layout.committees() {
            // One collection of a committee has all saved votes, so the first collector suffices.
            let sender = self.allies.collectors(vote.slot, committee).next();
            let body = sender
                .and_then(|sender| self.allies.collection(&vote, committee, sender, |_| true));
            if let Some(body) = body {
                publish(plan, body, self.peers.clone(), own);
            }
        }
    }
}

impl Wrap<HornNode> for WithholdBlock {
    fn output(&mut self, now: Time, output: Output<HornNode>, outputs: &mut Vec<Output<HornNode>>) {
        match &output {
            Output::Deliver(HornDelivery::Proposed(block)) if self.allies.attack(block.slot) => {
                self.block = Some(block.clone());
            }
            Output::Send { message, .. } if self.holds(now, message) => return,
            _ => {}
        }
        outputs.push(output);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due.first_key_value().map(|(at, _)| *at)
    }

    fn deadline(&mut self, _: Time, own: &mut Vec<Output<HornNode>>) {
        if let Some((_, slot)) = self.due.pop_first() {
            self.release(slot, own);
        }
    }
}

/// Balancing. The attackers' first proposer before an honest one signs two blocks, and sends one to each half of
/// the nodes. From then on no ally votes in time. Halfway between the next block and the votes for it, their
/// collectors send half of the allies' votes of the previous slot to one half of the nodes, for the heaviest head
/// on one of the two blocks, and the other votes to the other half, for the other block. All honest nodes see the
/// same honest votes, but the two halves see different saved ones. No ally votes twice, and neither side comes near
/// two thirds: with all allies' votes for both sides, a third of the nodes would have one of them justified, which
/// ends the attack.
#[derive(Debug)]
pub(super) struct Balance {
    allies: Allies,
    /// The slot of the two blocks, if the attackers propose in a suitable one.
    begin: Option<Slot>,
    /// Signs the two blocks, if this node proposes them.
    two: Option<TwoBlocks>,
    /// Neighbours in each of the two halves of the nodes.
    halves: [Peers; 2],
    /// Release times of votes, with their slots.
    due: BTreeMap<Time, Slot>,
    /// Blocks since then.
    blocks: BTreeMap<Root, Header>,
    /// The second of the two blocks, which has no votes.
    second: Option<Root>,
    /// Votes seen since then, with the largest number of them in one committee's collection.
    votes: BTreeMap<Vote, u32>,
}

impl Balance {
    pub(super) fn new(node: &HornNode, parameters: &Parameters) -> Self {
        let allies = Allies::new(node, parameters);
        let plan = &allies.plan;
        let begin = plan.blocks().find(|slot| allies.attack(*slot));
        let peers = node.graph().peers(node.node());
        let sides = allies.sides();
        let half = |odd: bool| {
            let all = (0..).zip(peers);
            let all = all.filter(|(_, peer)| sides[**peer as usize] == odd);
            Peers::List(all.map(|(number, _)| Peer(number)).collect())
        };
        let halves = [half(false), half(true)];
        let own = begin.filter(|slot| allies.own(plan.proposer_of(*slot)));
        let saved = plan.followed().filter(|slot| allies.saves(begin, *slot));
        Balance {
            begin,
            two: own.map(|_| TwoBlocks::new(plan.clone(), node.node(), &halves[1])),
            halves,
            due: saved
                .map(|slot| (allies.before_votes(slot.next()), slot))
                .collect(),
            blocks: BTreeMap::new(),
            second: None,
            votes: BTreeMap::new(),
            allies,
        }
    }

    /// Which of the two blocks a block descends from, if any.
    fn side(&self, block: Root) -> Option<Root> {
        let mut root = block;
        let mut header = self.blocks.get(&root)?;
        // Only blocks since `begin` are kept, so the walk ends there at the latest.
        while Some(header.slot) != self.begin {
            root = header.parent;
            header = self.blocks.get(&root)?;
        }
        Some(root)
    }

    fn release(&self, slot: Slot, own: &mut Vec<Output<HornNode>>) {
        let mut heaviest: BTreeMap<Root, (u32, Vote)> = BTreeMap::new();
        for (vote, weight) in self.votes.iter().filter(|(vote, _)| vote.slot == slot) {
            if let Some(side) = self.side(vote.head) {
                let best = heaviest.entry(side).or_insert((*weight, *vote));
                *best = (*best).max((*weight, *vote));
            }
        }
        for (side, (_, vote)) in heaviest {
            // Voters for the first block may not go back to the second, whose checkpoints are older.
            let second = Some(side) == self.second;
            let half = &self.halves[usize::from(second)];
            let allies = &self.allies;
            for committee in 0..allies.plan.config.layout.committees() {
                let sender = allies.collectors(slot, committee).next();
                // All allies find the same collector, and only its node sends.
                let own_one = sender.filter(|sender| allies.own(*sender));
                let body = own_one.and_then(|sender| {
                    allies.collection(&vote, committee, sender, |at| (at % 2 == 1) == second)
                });
                if let Some(body) = body {
                    publish(&allies.plan, body, half.clone(), own);
                }
            }
        }
    }

    fn see(&mut self, delivery: &HornDelivery) {
        let format = &self.allies.plan.format;
        match delivery {
            HornDelivery::Imported(body) if Some(body.slot) >= self.begin => {
                if let Ok(header) = Header::peek(&body.data, format) {
                    self.blocks.insert(body.root, header);
                    if Some(body.slot) == self.begin && body.entries.is_empty() {
                        self.second = Some(body.root);
                    }
                }
            }
            HornDelivery::Accepted(body) if Some(body.slot) >= self.begin => {
                if let Ok(head) = Aggregate::peek(&body.data, format) {
                    let most = self.votes.entry(head.vote).or_default();
                    *most = body.votes.max(*most);
                }
            }
            _ => {}
        }
    }
}

impl Wrap<HornNode> for Balance {
    fn output(&mut self, now: Time, output: Output<HornNode>, outputs: &mut Vec<Output<HornNode>>) {
        match &output {
            Output::Deliver(delivery) => self.see(delivery),
            Output::Send { message, .. } => {
                let slot = self.allies.of_votes(message).map(|(slot, _)| slot);
                if slot.is_some_and(|slot| self.allies.saves(self.begin, slot)) {
                    return;
                }
            }
            _ => {}
        }
        match &mut self.two {
            Some(two) => two.output(now, output, outputs),
            None => outputs.push(output),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due.first_key_value().map(|(at, _)| *at)
    }

    fn deadline(&mut self, _: Time, own: &mut Vec<Output<HornNode>>) {
        if let Some((_, slot)) = self.due.pop_first() {
            self.release(slot, own);
        }
    }
}
