//! Voters that sign two votes in a slot, or spread their votes over everything that a vote may name.
//!
//! A vote may name a block for some slots after another block has been built on it. So attackers do not need a fork
//! to have something else to vote for: the source of such a vote is that of their earlier votes for the block.

use super::allies::Allies;
use super::broadcasts::Broadcasts;
use super::collectors::publish;
use super::proposers::empty_block;
use crate::fault::{Parameters, Wrap, send_to};
use crate::gossip::{self, DenseId, Message, Peers};
use crate::horn::node::{HornDelivery, HornNode};
use crate::horn::{BlockBody, Exchange, HornMessage, Inner, Item, Plan};
use crate::role::{Input, Output};
use alphorn_proto::horn::KIND_COLLECTION;
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Checkpoint, Header, Root, Vote, VoteMsg, digest};
use alphorn_scheme::{Bytes, Role};
use alphorn_types::{Slot, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of ballots that attackers split their votes over: as many as a node counts in addition to its own.
const BALLOTS: usize = 16;

/// The vote of a slot for a head whose chain justifies a checkpoint.
fn vote_for(slot: Slot, head: Root, source: Checkpoint) -> Vote {
    Vote {
        slot,
        head,
        source,
        target: Checkpoint { slot, root: head },
    }
}

/// Turns a message into one with another vote of the same voter, signed with its key. Its number makes it a
/// separate message where messages are forwarded.
fn other_vote(plan: &Plan, message: &HornMessage, vote: Vote) -> Option<HornMessage> {
    let mut message = message.clone();
    let Inner::Whole(Message::Data { id, payload } | Message::Relay { id, payload }) =
        &mut message.inner
    else {
        return None;
    };
    let mut cast = VoteMsg::decode(payload.data(), &plan.format).ok()?;
    cast.vote = vote;
    let signed = digest::vote_message(plan.config.network(), &vote);
    cast.signature = (plan.bench).sign(vote.slot, cast.validator, Role::Vote, signed)?;
    *id = DenseId(id.0 + plan.config.layout.cell_len_max());
    *payload = Item::Vote(cast.encode(&plan.format).into());
    Some(message)
}

/// Blocks that its validators voted for, each with the checkpoint justified in its chain.
#[derive(Debug, Default)]
struct Heads {
    voted: BTreeMap<Root, Checkpoint>,
    /// Headers of the known blocks.
    headers: BTreeMap<Root, Header>,
}

impl Heads {
    fn import(&mut self, plan: &Plan, body: &BlockBody) {
        if let Ok(header) = Header::peek(&body.data, &plan.format) {
            self.headers.insert(body.root, header);
        }
    }

    /// The vote of the same slot for the parent block.
    fn before(&self, vote: &Vote) -> Option<Vote> {
        let parent = self.headers.get(&vote.head)?.parent;
        let source = self.voted.get(&parent)?;
        Some(vote_for(vote.slot, parent, *source))
    }
}

/// Its validators vote for the head, and a second time for the block before it. Neighbours with odd numbers get the
/// second vote. Every other collector of the fault, by rank and starting with the first, publishes all allies'
/// second votes of its committee instead of what its node collected.
#[derive(Debug)]
pub(super) struct EquivocateVotes {
    allies: Allies,
    peers: Peers,
    heads: Heads,
    /// The second vote of the last slot that had one.
    second: Option<Vote>,
    /// Publishing times of collectors, with their slots.
    due: BTreeMap<Time, Slot>,
    unsent: Broadcasts,
}

impl EquivocateVotes {
    pub(super) fn new(node: &HornNode, parameters: &Parameters) -> Self {
        let allies = Allies::new(node, parameters);
        let plan = &allies.plan;
        let level = plan.config.layout.levels();
        let due = plan
            .followed()
            .filter(|slot| allies.interval.contains(plan.slot_start(*slot)));
        EquivocateVotes {
            peers: parameters.everyone(),
            due: due
                .map(|slot| (plan.level_start(slot, level), slot))
                .collect(),
            heads: Heads::default(),
            second: None,
            unsent: Broadcasts::default(),
            allies,
        }
    }

    /// The collectors of this node that publish second votes.
    fn collectors(&self, slot: Slot, committee: u16) -> impl Iterator<Item = u32> + '_ {
        let all = self.allies.collectors(slot, committee).step_by(2);
        all.filter(|sender| self.allies.own(*sender))
    }

    fn is_replaced(&self, slot: Slot, committee: u16, sender: u32) -> bool {
        // Without second votes in the slot there is nothing to publish instead, so the honest collection stays.
        let second = self.second.is_some_and(|vote| vote.slot == slot);
        second && self.collectors(slot, committee).any(|one| one == sender)
    }

    /// Whether a message carries what was collected by the node of a collector that publishes second votes.
    fn holds(&mut self, message: &HornMessage) -> bool {
        if let Some(item) = message.item() {
            let Item::Collection(body) = item else {
                return false;
            };
            return self.is_replaced(body.slot, body.unit.committee, body.sender);
        }
        // Taken out because the test borrows the rest of `self`.
        let mut unsent = std::mem::take(&mut self.unsent);
        let holds = unsent.have(message, |subject| {
            subject.kind == KIND_COLLECTION
                && self.is_replaced(
                    Slot(subject.slot),
                    u16::try_from(subject.index).unwrap_or(u16::MAX),
                    subject.source,
                )
        });
        self.unsent = unsent;
        holds
    }

    /// Sends one of the node's own votes and its second vote, each to some of the receivers of the first.
    fn vote_twice(
        &mut self,
        vote: Vote,
        output: Output<HornNode>,
        outputs: &mut Vec<Output<HornNode>>,
    ) {
        self.heads.voted.insert(vote.head, vote.source);
        let Output::Send {
            to,
            message,
            priority,
        } = &output
        else {
            return outputs.push(output);
        };
        let second = self.heads.before(&vote);
        let other = second.and_then(|second| other_vote(&self.allies.plan, message, second));
        let Some(other) = other else {
            return outputs.push(output);
        };
        self.second = second;
        let to = |odd| to.iter().filter(move |peer| (peer.0 % 2 == 1) == odd);
        send_to(to(true), other, *priority, outputs);
        send_to(to(false), message.clone(), *priority, outputs);
    }
}

impl Wrap<HornNode> for EquivocateVotes {
    fn output(&mut self, _: Time, output: Output<HornNode>, outputs: &mut Vec<Output<HornNode>>) {
        let plan = &self.allies.plan;
        match &output {
            Output::Deliver(HornDelivery::Imported(body)) => self.heads.import(plan, body),
            Output::Send { message, .. } => {
                if let Some((slot, Some(vote))) = self.allies.of_votes(message)
                    && self.allies.interval.contains(plan.slot_start(slot))
                {
                    return self.vote_twice(vote, output, outputs);
                }
                if self.holds(message) {
                    return;
                }
            }
            _ => {}
        }
        outputs.push(output);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due.first_key_value().map(|(at, _)| *at)
    }

    fn deadline(&mut self, _: Time, own: &mut Vec<Output<HornNode>>) {
        let Some((_, slot)) = self.due.pop_first() else {
            return;
        };
        let Some(vote) = self.second.filter(|vote| vote.slot == slot) else {
            return;
        };
        let plan = &self.allies.plan;
        for committee in 0..plan.config.layout.committees() {
            for sender in self.collectors(slot, committee) {
                let body = self.allies.collection(&vote, committee, sender, |_| true);
                if let Some(body) = body {
                    publish(plan, body, self.peers.clone(), own);
                }
            }
        }
    }
}

/// Its validators vote for as many blocks as a vote may name, up to sixteen, but not for the head. They vote for
/// further blocks of the slot, signed by a proposer of the fault, and for earlier ones. When the votes of a slot
/// are due, each collector of the fault publishes those of its committee for a different ballot, before any honest
/// collector can.
#[derive(Debug)]
pub(super) struct SplitBallots {
    allies: Allies,
    peers: Peers,
    heads: Heads,
    /// Further blocks, besides the first, of the last slot whose proposer is an ally.
    further: BTreeMap<Root, Arc<BlockBody>>,
    /// The votes cast in the last slot.
    ballots: Vec<Vote>,
    /// Times at which votes are due, with their slots.
    due: BTreeMap<Time, Slot>,
    unsent: Broadcasts,
}

impl SplitBallots {
    pub(super) fn new(node: &HornNode, parameters: &Parameters) -> Self {
        let allies = Allies::new(node, parameters);
        let plan = &allies.plan;
        let slots = plan
            .followed()
            .filter(|slot| allies.interval.contains(plan.slot_start(*slot)));
        SplitBallots {
            peers: parameters.everyone(),
            due: slots
                .map(|slot| (plan.phase_of(slot, Phase::Vote), slot))
                .collect(),
            heads: Heads::default(),
            further: BTreeMap::new(),
            ballots: Vec::new(),
            unsent: Broadcasts::default(),
            allies,
        }
    }

    /// A block was taken. If its proposer is an ally, every ally knows what else that proposer signs.
    fn import(&mut self, body: &BlockBody) {
        let plan = &self.allies.plan;
        self.heads.import(plan, body);
        let header = self.heads.headers.get(&body.root).copied();
        let theirs = header.filter(|header| self.allies.host(header.proposer.0));
        // A further block that comes back must not bring further ones of its own.
        let Some(header) = theirs.filter(|_| !self.further.contains_key(&body.root)) else {
            return;
        };
        let Some(source) = self.heads.voted.get(&header.parent).copied() else {
            return;
        };
        let sign = |root: &Root| {
            let message = digest::block_message(plan.config.network(), root);
            (plan.bench).sign(header.slot, header.proposer, Role::Block, message)
        };
        self.further.clear();
        for number in 1..BALLOTS as u8 {
            let filler = Bytes::from([number]);
            let Some((root, data)) = empty_block(plan, header, filler, sign) else {
                continue;
            };
            // The block has no votes that could justify more, so its source is that of its parent.
            self.heads.voted.insert(root, source);
            let block = BlockBody {
                slot: header.slot,
                root,
                entries: Vec::new(),
                data,
            };
            self.further.insert(root, Arc::new(block));
        }
    }

    /// What votes of a slot may name besides its head: further blocks first, then those voted for, newest first.
    fn choose(&self, slot: Slot) -> Vec<Vote> {
        let of = |root: &Root| match self.further.get(root) {
            Some(block) => block.slot,
            None => self
                .heads
                .headers
                .get(root)
                .map_or(Slot(0), |header| header.slot),
        };
        let mut heads: Vec<(Slot, Root, Checkpoint)> = self
            .heads
            .voted
            .iter()
            .map(|(root, source)| (of(root), *root, *source))
            .collect();
        heads.sort_unstable_by(|one, other| other.cmp(one));
        let votes = heads
            .into_iter()
            .map(|(_, root, source)| vote_for(slot, root, source));
        votes.take(BALLOTS).collect()
    }

    /// The ballot of a validator, if votes of the slot are split.
    fn ballot_of(&self, slot: Slot, position: u32) -> Option<Vote> {
        // All ballots are of one slot, so this leaves all of them or none.
        let ballots = self.ballots.iter().filter(|vote| vote.slot == slot);
        ballots
            .copied()
            .nth(position as usize % self.ballots.len().max(1))
    }

    /// Replaces the vote in one of the node's own messages with that of its validator's ballot.
    fn cast_elsewhere(&self, slot: Slot, message: &HornMessage) -> Option<HornMessage> {
        let plan = &self.allies.plan;
        let Some(Item::Vote(data)) = message.item() else {
            return None;
        };
        let cast = VoteMsg::decode(data, &plan.format).ok()?;
        let position = plan.assignment.position(cast.validator)?;
        other_vote(plan, message, self.ballot_of(slot, position)?)
    }

    /// Whether a message carries evidence that the node itself made from votes.
    fn holds(&mut self, message: &HornMessage) -> bool {
        let allies = &self.allies;
        let lasts = |slot: Slot| allies.interval.contains(allies.plan.slot_start(slot));
        match allies.of_votes(message) {
            Some((slot, _)) => lasts(slot),
            None => self.unsent.have(message, |subject| {
                let own = allies.own(subject.source) && subject.kind == KIND_COLLECTION;
                own && lasts(Slot(subject.slot))
            }),
        }
    }
}

impl Wrap<HornNode> for SplitBallots {
    fn input(
        &mut self,
        _: Time,
        input: Input<HornNode>,
        own: &mut Vec<Output<HornNode>>,
    ) -> Option<Input<HornNode>> {
        let Input::Message { from, message } = &input else {
            return Some(input);
        };
        let Inner::Exchange(exchange) = &message.inner else {
            return Some(input);
        };
        let Exchange::Question { id, root } = &**exchange else {
            return Some(input);
        };
        // The state machine has none of these blocks, but honest nodes need them to count votes for them.
        let Some(block) = self.further.get(root).cloned() else {
            return Some(input);
        };
        let answer = Exchange::Answer {
            id: *id,
            block: Some(block),
        };
        own.push(Output::Send {
            to: Peers::One(*from),
            message: HornMessage {
                topic: message.topic,
                inner: Inner::Exchange(Box::new(answer)),
            },
            priority: gossip::Priority::Answer as u8,
        });
        None
    }

    fn output(&mut self, _: Time, output: Output<HornNode>, outputs: &mut Vec<Output<HornNode>>) {
        match &output {
            Output::Deliver(HornDelivery::Imported(body)) => self.import(body),
            Output::Send {
                to,
                message,
                priority,
            } => {
                if let Some((slot, Some(vote))) = self.allies.of_votes(message) {
                    self.heads.voted.insert(vote.head, vote.source);
                    // The head that the state machine voted for is a block that later slots can name.
                    if let Some(other) = self.cast_elsewhere(slot, message) {
                        send_to(to.iter(), other, *priority, outputs);
                        return;
                    }
                } else if self.holds(message) {
                    return;
                }
            }
            _ => {}
        }
        outputs.push(output);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due.first_key_value().map(|(at, _)| *at)
    }

    fn deadline(&mut self, _: Time, own: &mut Vec<Output<HornNode>>) {
        let Some((_, slot)) = self.due.pop_first() else {
            return;
        };
        // Wrappers are woken before the state machine, so the votes that it casts at this instant find their ballots.
        self.ballots = self.choose(slot);
        let (plan, ballots) = (&self.allies.plan, &self.ballots);
        let all = ballots.len().max(1);
        for committee in 0..plan.config.layout.committees() {
            let senders = self.allies.collectors(slot, committee).enumerate();
            for (number, sender) in senders.filter(|(_, sender)| self.allies.own(*sender)) {
                // As in `ballot_of`, so that a collection has the votes that its voters also send.
                let has = |position: u32| position as usize % all == number % all;
                let vote = ballots.get(number % all);
                let body =
                    vote.and_then(|vote| self.allies.collection(vote, committee, sender, has));
                if let Some(body) = body {
                    publish(plan, body, self.peers.clone(), own);
                }
            }
        }
    }
}
