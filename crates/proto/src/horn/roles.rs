//! The roles of a node together: what one makes is published, taken, and handed on to the next.

use alphorn_scheme::{Bytes, Outcome, Product};
use alphorn_types::{Slot, Time};

use super::aggregator::{self, Aggregator};
use super::combiner::{self, Combiner};
use super::deadlines::Deadlines;
use super::gate::{self, Gate, Own};
use super::machine::Horn;
use super::proposer::{self, Proposer};
use super::role::{Lent, Role, Shared};
use super::roster::Draw;
use super::voter::{self, Voter};
use crate::wire::{
    Aggregate, Block, Collection, Entry, Kind, MissingReference, References, Topic, WireFormat,
};

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
    /// What is lent to the gate, and the gate.
    pub(super) fn lend_gate(&mut self) -> (Lent<'_>, &mut Gate) {
        let lent = Lent {
            config: &self.config,
            info: &self.info,
            format: &self.format,
            local: &self.local,
            clock: &self.clock,
            now: self.now,
            chain: &self.chain,
            epochs: &self.epochs,
            slots: &mut self.slots,
            fx: &mut self.fx,
        };
        (lent, &mut self.gate)
    }

    /// What is lent to a role, and the roles.
    pub(super) fn lend(&mut self) -> (Shared<'_>, &mut Roles) {
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

    /// Hands an input on to the gate, and what follows from verified messages to chain and roles.
    pub(super) fn gate(&mut self, input: gate::Input) {
        let (mut lent, gate) = self.lend_gate();
        gate.handle(&mut lent, input);
        while let Some(made) = self.gate.poll_output() {
            match made {
                gate::Made::Votes { slot, committee } => self.votes_changed(slot, committee),
                gate::Made::Aggregates { slot, committee } => {
                    self.combiner(combiner::Input::Evidence { slot, committee });
                }
                gate::Made::Collection(entry) => self.collection_accepted(entry),
                gate::Made::Block(block) => {
                    let result = self.import(&block.block);
                    self.gate(gate::Input::Imported { block, result });
                }
                gate::Made::Branch { epoch, mix } => self.prepare_branch(epoch, mix),
            }
        }
    }

    /// An accepted collection may go into a block, counts in the fork choice, and holds own
    /// ones back that add nothing to it.
    fn collection_accepted(&mut self, entry: Entry) {
        let (slot, committee) = (entry.vote.slot, entry.committee);
        self.observe(&entry, None);
        self.keep_for_blocks(entry);
        self.combiner(combiner::Input::Accepted { slot, committee });
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

    /// Publishes an own message, and has it taken like a peer's.
    fn publish(&mut self, slot: Slot, topic: Topic, data: Vec<u8>, message: Own) {
        let late = self.now >= Deadlines::of(&self.clock, topic.kind(), slot).late;
        let data = Bytes::from(data);
        self.fx.publish(slot, late, topic, data.clone());
        self.gate(gate::Input::Own {
            message,
            topic,
            data,
        });
    }

    /// The bytes of an own message; none if its head went away with a branch that was finalised
    /// against.
    fn encoded(
        &mut self,
        encode: impl Fn(&WireFormat, References<'_>) -> Result<Vec<u8>, MissingReference>,
    ) -> Option<Vec<u8>> {
        let references = |vote: &_, committee| self.chain.reference(vote, committee);
        let data = encode(&self.format, &references).ok();
        self.fx.counters.stale += u64::from(data.is_none());
        data
    }

    fn publish_vote(&mut self, made: voter::Made) {
        let voter::Made { ballot, message } = made;
        let slot = message.vote.slot;
        let state = self.slots.get(&slot);
        let cell = state.and_then(|of| of.committees.assignment.cell_of(message.validator));
        if let Some(cell) = cell {
            let data = message.encode(&self.format);
            self.publish(slot, Topic::Vote { cell }, data, Own::Vote(ballot, message));
        }
    }

    fn publish_aggregate(&mut self, message: Aggregate) {
        let (slot, committee) = (message.vote.slot, message.cell.committee);
        if let Some(data) = self.encoded(|format, known| message.encode(format, known)) {
            let topic = Topic::Aggregate { committee };
            self.publish(slot, topic, data, Own::Aggregate(message));
        }
    }

    fn publish_collection(&mut self, message: Collection) {
        let slot = message.vote.slot;
        if let Some(data) = self.encoded(|format, known| message.encode(format, known)) {
            self.publish(slot, Topic::Collection, data, Own::Collection(message));
        }
    }

    fn publish_block(&mut self, block: Block) {
        let slot = block.header.slot;
        if let Some(data) = self.encoded(|format, known| block.encode(format, known)) {
            self.publish(slot, Topic::Block, data, Own::Block(block));
        }
    }
}
