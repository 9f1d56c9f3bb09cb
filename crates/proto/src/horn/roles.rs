//! The roles of a node together: what one makes is published, taken, and handed on to the next.

use alphorn_scheme::{Bytes, Outcome, Product};
use alphorn_types::{Slot, Time};

use super::aggregator::{self, Aggregator};
use super::combiner::{self, Combiner};
use super::deadlines::Deadlines;
use super::machine::Horn;
use super::proposer::{self, Proposer};
use super::role::{Role, Shared};
use super::roster::Draw;
use super::state::Waiting;
use super::voter::{self, Voter};
use crate::wire::{Aggregate, Block, Collection, Entry, Kind, Topic, VoteMsg, digest};

/// What local validators do.
#[derive(Default)]
pub(super) struct Roles {
    pub(super) voter: Voter,
    pub(super) aggregator: Aggregator,
    pub(super) combiner: Combiner,
    pub(super) proposer: Proposer,
}

impl Roles {
    /// When the first of them wants to be called.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let Self {
            voter,
            aggregator,
            combiner,
            proposer,
        } = self;
        [
            voter.next_deadline(),
            aggregator.next_deadline(),
            combiner.next_deadline(),
            proposer.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether all who serve in a slot are known.
    pub(super) fn are_known(&self, slot: Slot) -> bool {
        self.aggregator.roster().is_settled(slot) && self.combiner.roster().is_settled(slot)
    }
}

impl Horn {
    /// What is lent to a role, and the roles.
    fn lend(&mut self) -> (Shared<'_>, &mut Roles) {
        let shared = Shared {
            config: &self.config,
            info: &self.info,
            format: &self.format,
            local: &self.local,
            clock: &self.clock,
            now: self.now,
            chain: &self.chain,
            epochs: &self.epochs,
            slots: &self.slots,
            fx: &mut self.fx,
        };
        (shared, &mut self.roles)
    }

    /// The next message of a role.
    fn made<R: Role>(&mut self, role: impl Fn(&mut Roles) -> &mut R) -> Option<R::Made> {
        let (mut shared, roles) = self.lend();
        role(roles).poll_output(&mut shared)
    }

    /// A slot begins for the roles that serve in it.
    pub(super) fn open_roles(&mut self, slot: Slot) {
        self.aggregator(slot, None, aggregator::Input::Open { slot });
        self.combiner(combiner::Input::Open { slot });
    }

    /// Messages of a slot are no longer taken.
    pub(super) fn close_roles(&mut self, slot: Slot) {
        let (mut shared, roles) = self.lend();
        roles
            .voter
            .handle(&mut shared, voter::Input::Close { slot });
        roles
            .aggregator
            .handle(&mut shared, aggregator::Input::Close { slot });
        roles
            .combiner
            .handle(&mut shared, combiner::Input::Close { slot });
    }

    /// A deadline of a role has come.
    pub(super) fn roles_due(&mut self, time: Time) {
        if self.roles.aggregator.next_deadline() == Some(time) {
            let slot = self.clock.slot_at(time).unwrap_or_default();
            self.aggregator(slot, None, aggregator::Input::Deadline);
        } else {
            self.combiner(combiner::Input::Deadline);
        }
    }

    /// The tickets of a committee were drawn.
    pub(super) fn drawn(&mut self, draw: Draw, outcome: Outcome<Product>) {
        let (slot, committee) = (draw.slot, draw.committee);
        match draw.kind {
            Kind::Aggregate => {
                let input = aggregator::Input::Drawn { draw, outcome };
                self.aggregator(slot, Some(committee), input);
            }
            _ => self.combiner(combiner::Input::Drawn { draw, outcome }),
        }
    }

    pub(super) fn voter(&mut self, input: voter::Input) {
        let place = match &input {
            voter::Input::Finished { job, .. } => Some((job.slot, Some(job.committee))),
            voter::Input::Begin { slot, .. } => Some((*slot, None)),
            voter::Input::Close { .. } => None,
        };
        let (mut shared, roles) = self.lend();
        roles.voter.handle(&mut shared, input);
        while let Some(made) = self.made(|roles| &mut roles.voter) {
            self.publish_vote(made);
        }
        if let Some((slot, committee)) = place {
            let voter = &self.roles.voter;
            for committee in self.committees(committee) {
                if let Some(state) = self.slots.get_mut(&slot) {
                    state.making[usize::from(committee)].votes = !voter.is_settled(slot, committee);
                }
            }
        }
        if let Some((slot, Some(committee))) = place {
            self.votes_changed(slot, committee);
        }
    }

    /// Votes of a committee were verified or signed.
    pub(super) fn votes_changed(&mut self, slot: Slot, committee: u16) {
        let input = aggregator::Input::Votes { slot, committee };
        self.aggregator(slot, Some(committee), input);
    }

    /// Hands an input on to the aggregator, that concerns a committee or all of them, and what
    /// follows from it to the combiner.
    pub(super) fn aggregator(
        &mut self,
        slot: Slot,
        committee: Option<u16>,
        input: aggregator::Input,
    ) {
        let (mut shared, roles) = self.lend();
        roles.aggregator.handle(&mut shared, input);
        while let Some(made) = self.made(|roles| &mut roles.aggregator) {
            self.publish_aggregate(made);
        }
        for committee in self.committees(committee) {
            let settled = self.roles.aggregator.is_settled(slot, committee);
            if let Some(state) = self.slots.get_mut(&slot) {
                state.making[usize::from(committee)].aggregates = !settled;
            }
            self.combiner(combiner::Input::Evidence { slot, committee });
        }
    }

    pub(super) fn combiner(&mut self, input: combiner::Input) {
        let finished = match &input {
            combiner::Input::Finished { job, .. } => Some(job.place()),
            _ => None,
        };
        let (mut shared, roles) = self.lend();
        roles.combiner.handle(&mut shared, input);
        while let Some(made) = self.made(|roles| &mut roles.combiner) {
            match made {
                combiner::Made::Collection(collection) => self.publish_collection(collection),
                combiner::Made::Late(entry) => self.keep_for_blocks(entry),
            }
        }
        if let Some((slot, committee)) = finished {
            let (mut shared, roles) = self.lend();
            let next = combiner::Input::Accepted { slot, committee };
            roles.combiner.handle(&mut shared, next);
        }
    }

    pub(super) fn proposer(&mut self, input: proposer::Input) {
        let (mut shared, roles) = self.lend();
        roles.proposer.handle(&mut shared, input);
        while let Some(block) = self.made(|roles| &mut roles.proposer) {
            self.publish_block(block);
        }
    }

    /// A collection may go into a block.
    pub(super) fn keep_for_blocks(&mut self, entry: Entry) {
        self.proposer(proposer::Input::Collection(entry));
    }

    /// One committee, or all.
    fn committees(&self, committee: Option<u16>) -> std::ops::Range<u16> {
        match committee {
            Some(committee) => committee..committee + 1,
            None => 0..self.config.layout.committees(),
        }
    }

    fn publish(&mut self, slot: Slot, topic: Topic, data: &Bytes) {
        let late = self.now >= Deadlines::of(&self.clock, topic.kind(), slot).late;
        self.fx.publish(slot, late, topic, data.clone());
    }

    fn publish_vote(&mut self, made: voter::Made) {
        let voter::Made { ballot, message } = made;
        let VoteMsg {
            vote, validator, ..
        } = message;
        let state = self.slots.get(&vote.slot);
        let Some(cell) = state.and_then(|state| state.committees.assignment.cell_of(validator))
        else {
            return;
        };
        let data: Bytes = message.encode(&self.format).into();
        let topic = Topic::Vote { cell };
        self.publish(vote.slot, topic, &data);
        if self.local.trust_own {
            self.take_own_vote(&ballot, validator, message.signature);
        } else {
            self.receive(None, topic, data);
        }
    }

    fn publish_aggregate(&mut self, message: Aggregate) {
        let committee = message.cell.committee;
        let references = |vote: &_, committee| self.reference(vote, committee);
        let Ok(data) = message.encode(&self.format, &references) else {
            // The head went away with a branch that was finalised against.
            self.fx.counters.stale += 1;
            return;
        };
        let data: Bytes = data.into();
        let topic = Topic::Aggregate { committee };
        self.publish(message.vote.slot, topic, &data);
        if !self.local.trust_own {
            return self.receive(None, topic, data);
        }
        self.fx.seen(topic.kind());
        let content = digest::aggregate_message(self.config.network(), &message, &self.format);
        let slot = self.slots.get(&message.vote.slot);
        if let Some(ballot) = slot.and_then(|state| state.ballots.find(&message.vote)) {
            self.take_aggregate(Waiting {
                origin: None,
                ballot,
                message,
                data,
                content,
            });
        }
    }

    fn publish_collection(&mut self, message: Collection) {
        let references = |vote: &_, committee| self.reference(vote, committee);
        let Ok(data) = message.encode(&self.format, &references) else {
            // The head went away with a branch that was finalised against.
            self.fx.counters.stale += 1;
            return;
        };
        let data: Bytes = data.into();
        self.publish(message.vote.slot, Topic::Collection, &data);
        if !self.local.trust_own {
            return self.receive(None, Topic::Collection, data);
        }
        self.fx.seen(Topic::Collection.kind());
        let content = digest::collection_message(self.config.network(), &message, &self.format);
        let inner = Entry::from(&message).digest(&self.format);
        let slot = self.slots.get(&message.vote.slot);
        if let Some(ballot) = slot.and_then(|state| state.ballots.find(&message.vote)) {
            // The job that made it has verified it.
            self.verified.insert(inner, message.vote.slot);
            self.take_collection(Waiting {
                origin: None,
                ballot,
                message,
                data,
                content,
            });
        }
    }

    fn publish_block(&mut self, block: Block) {
        let references = |vote: &_, committee| self.reference(vote, committee);
        let Ok(data) = block.encode(&self.format, &references) else {
            self.fx.counters.stale += 1;
            return;
        };
        let data: Bytes = data.into();
        self.publish(block.header.slot, Topic::Block, &data);
        if self.local.trust_own {
            self.fx.seen(Kind::Block);
            self.take_block(None, block, data);
        } else {
            self.receive(None, Topic::Block, data);
        }
    }
}
