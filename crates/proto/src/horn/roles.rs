//! The roles of a node combined: messages made by one are published, accepted, and passed to the next.

use alphorn_scheme::{Bytes, Outcome, Product};
use alphorn_types::{Slot, Time, Unit};
use std::sync::Arc;

use super::deadlines::Deadlines;
use super::gate::{self, Gate, Own};
use super::machine::Horn;
use super::maker::{self, Maker};
use super::proposer::{self, Proposer};
use super::role::{Lent, Role, Shared, lent};
use super::roster::Draw;
use super::store::Claimed;
use super::voter::{self, Voter};
use crate::slot::Phase;
use crate::wire::{Aggregate, Block, MissingReference, References, Topic, WireFormat};

/// The roles of the local validators.
pub(super) struct Roles {
    pub(super) voter: Voter,
    /// The makers by level, from level 1.
    pub(super) makers: Vec<Maker>,
    pub(super) proposer: Proposer,
}

impl Roles {
    pub(super) fn new(levels: u8) -> Self {
        Self {
            voter: Voter::default(),
            makers: (1..=levels).map(Maker::new).collect(),
            proposer: Proposer::default(),
        }
    }

    /// The earliest deadline of any role.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let makers = self.makers.iter().map(Maker::next_deadline);
        let others = [self.voter.next_deadline(), self.proposer.next_deadline()];
        makers.chain(others).flatten().min()
    }

    /// Whether all serving validators of a slot are known.
    pub(super) fn are_known(&self, slot: Slot) -> bool {
        let mut makers = self.makers.iter();
        makers.all(|maker| maker.roster().is_settled(slot))
    }

    fn maker(&mut self, level: u8) -> &mut Maker {
        &mut self.makers[usize::from(level) - 1]
    }
}

impl Horn {
    /// The state lent to the gate, and the gate.
    pub(super) fn lend_gate(&mut self) -> (Lent<'_>, &mut Gate) {
        (lent!(self, &mut self.slots), &mut self.gate)
    }

    /// The state lent to a role, and the roles.
    pub(super) fn lend(&mut self) -> (Shared<'_>, &mut Roles) {
        (lent!(self, &self.slots), &mut self.roles)
    }

    /// Returns the next message of a role.
    fn made<R: Role>(&mut self, role: impl Fn(&mut Roles) -> &mut R) -> Option<R::Made> {
        let (mut shared, roles) = self.lend();
        role(roles).poll_output(&mut shared)
    }

    /// Passes an input to the gate, and the results of verified messages to the chain and the roles.
    pub(super) fn gate(&mut self, input: gate::Input) {
        let (mut lent, gate) = self.lend_gate();
        gate.handle(&mut lent, input);
        while let Some(made) = self.gate.poll_output() {
            match made {
                gate::Made::Votes { slot, committee } => self.votes_changed(slot, committee),
                gate::Made::Aggregates { slot, unit } => {
                    // The unit is the one that combines them, a level above theirs.
                    self.evidence_changed(unit.level - 1, slot, unit.committee);
                }
                gate::Made::Accepted {
                    slot,
                    unit,
                    collection,
                } => {
                    if let Some(claimed) = collection {
                        self.observe(&claimed, None);
                        self.keep_for_blocks(claimed);
                    }
                    self.accepted(slot, unit);
                }
                gate::Made::Block(block) => {
                    let result = self.import(&block.block, false);
                    if result.is_ok() {
                        let (slot, block) = (block.block.header.slot, &block.block);
                        let root = *block.content(self.config.network(), &self.format);
                        self.fx.imported(slot, root, block.data.clone());
                    }
                    // The import may let the next signed block proceed, in a call nested in this one. No
                    // more than a room of them wait, which bounds the depth.
                    self.gate(gate::Input::Imported { block, result });
                }
                gate::Made::Branch {
                    epoch,
                    mix,
                    proposer,
                } => self.prepare_branch(epoch, mix, Some(proposer)),
            }
        }
    }

    /// The levels of evidence.
    fn levels(&self) -> std::ops::RangeInclusive<u8> {
        1..=self.config.layout.levels()
    }

    /// Opens a slot for the roles that serve in it.
    pub(super) fn open_roles(&mut self, slot: Slot) {
        for level in self.levels() {
            self.maker(level, slot, None, maker::Input::Open { slot });
        }
    }

    /// Closes a slot whose messages are no longer accepted.
    pub(super) fn close_roles(&mut self, slot: Slot) {
        let (mut shared, roles) = self.lend();
        let input = voter::Input::Close { slot };
        roles.voter.handle(&mut shared, input);
        for maker in &mut roles.makers {
            maker.handle(&mut shared, maker::Input::Close { slot });
        }
    }

    /// Handles a deadline of a role.
    pub(super) fn roles_due(&mut self, time: Time) {
        let is_due = |maker: &Maker| maker.next_deadline() == Some(time);
        if let Some(due) = self.roles.makers.iter().position(is_due) {
            let slot = self.clock.slot_at(time).unwrap_or_default();
            self.maker(due as u8 + 1, slot, None, maker::Input::Deadline);
        }
    }

    /// Handles the drawn tickets of a committee.
    pub(super) fn drawn(&mut self, draw: Draw, outcome: Outcome<Product>) {
        let (level, slot, committee) = (draw.level, draw.slot, draw.committee);
        let input = maker::Input::Drawn { draw, outcome };
        self.maker(level, slot, Some(committee), input);
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
                    // Noted before the makers look: they wait while it is set.
                    let is_making = !voter.is_settled(slot, committee);
                    state.making[usize::from(committee)][0] = is_making;
                }
            }
        }
        if let Some((slot, Some(committee))) = place {
            self.votes_changed(slot, committee);
        }
    }

    /// Votes of a committee were verified or signed.
    pub(super) fn votes_changed(&mut self, slot: Slot, committee: u16) {
        self.evidence_changed(1, slot, committee);
    }

    /// Evidence of a level, or its inputs, was verified or made in a committee.
    pub(super) fn evidence_changed(&mut self, level: u8, slot: Slot, committee: u16) {
        let input = maker::Input::Ready { slot, committee };
        self.maker(level, slot, Some(committee), input);
    }

    /// Handles the end of a maker's job.
    pub(super) fn maker_finished(&mut self, job: maker::Job, outcome: Outcome<Product>) {
        let (slot, unit) = (job.slot(), job.unit);
        let input = maker::Input::Finished { job, outcome };
        self.maker(unit.level, slot, Some(unit.committee), input);
        // The next turn may have come in the meantime.
        self.accepted(slot, unit);
    }

    /// Evidence of a unit was accepted. Own evidence may add too little to it, or be next.
    pub(super) fn accepted(&mut self, slot: Slot, unit: Unit) {
        let (mut shared, roles) = self.lend();
        let input = maker::Input::Accepted { slot, unit };
        roles.maker(unit.level).handle(&mut shared, input);
    }

    /// Passes an input about one committee or all of them to the maker of a level, and its results to the
    /// next level.
    pub(super) fn maker(
        &mut self,
        level: u8,
        slot: Slot,
        committee: Option<u16>,
        input: maker::Input,
    ) {
        let (mut shared, roles) = self.lend();
        roles.maker(level).handle(&mut shared, input);
        while let Some(made) = self.made(|roles| roles.maker(level)) {
            match made {
                maker::Made::Aggregate(aggregate) => self.publish_aggregate(aggregate),
                maker::Made::Late(entry) => {
                    let supports = &self.store.supports;
                    let claimed = Claimed::new(entry, &self.format, supports);
                    self.keep_for_blocks(claimed);
                }
            }
        }
        if level == self.config.layout.levels() {
            return;
        }
        for committee in self.committees(committee) {
            // Noted before the next level looks, as it waits while this one is not settled.
            let settled = self.roles.maker(level).is_settled(slot, committee);
            if let Some(state) = self.slots.get_mut(&slot) {
                state.making[usize::from(committee)][usize::from(level)] = !settled;
            }
            self.evidence_changed(level + 1, slot, committee);
        }
    }

    pub(super) fn proposer(&mut self, input: proposer::Input) {
        let (mut shared, roles) = self.lend();
        roles.proposer.handle(&mut shared, input);
        while let Some(block) = self.made(|roles| &mut roles.proposer) {
            self.publish_block(block);
        }
    }

    /// Offers a collection for inclusion in a block.
    pub(super) fn keep_for_blocks(&mut self, claimed: Arc<Claimed>) {
        self.proposer(proposer::Input::Collection(claimed));
    }

    /// One committee, or all.
    fn committees(&self, committee: Option<u16>) -> std::ops::Range<u16> {
        match committee {
            Some(committee) => committee..committee + 1,
            None => 0..self.config.layout.committees(),
        }
    }

    /// Publishes a message made here, and passes it to the gate like a peer's.
    fn publish(&mut self, slot: Slot, phase: Phase, topic: Topic, data: Vec<u8>, message: Own) {
        let late = self.now >= Deadlines::of(&self.clock, phase, slot).late;
        let data = Bytes::from(data);
        self.fx.publish(slot, late, topic, data.clone());
        self.gate(gate::Input::Own {
            message,
            topic,
            data,
        });
    }

    /// Encodes a message made here. None if its head went away with a branch conflicting with a finalised
    /// one.
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
            let topic = Topic::Vote { cell };
            self.publish(slot, Phase::Vote, topic, data, Own::Vote(ballot, message));
        }
    }

    fn publish_aggregate(&mut self, message: Aggregate) {
        let (slot, unit) = (message.vote.slot, message.unit);
        if let Some(data) = self.encoded(|format, known| message.encode(format, known)) {
            let topic = Topic::of(&self.config.layout, unit);
            self.publish(
                slot,
                Phase::Level(unit.level),
                topic,
                data,
                Own::Aggregate(message),
            );
        }
    }

    fn publish_block(&mut self, block: Block) {
        let slot = block.header.slot;
        if let Some(data) = self.encoded(|format, known| block.encode(format, known)) {
            self.publish(slot, Phase::Propose, Topic::Block, data, Own::Block(block));
        }
    }
}
