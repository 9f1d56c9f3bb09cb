//! The state machine that hosts the roles: it tracks time, slots and epochs, and dispatches inputs.

use alphorn_scheme::{JobId, Outcome, Product, missing_table};
use alphorn_types::{Assignment, Epoch, Peer, Slot, Time, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ballot::Ballot;
use super::committee::assignment;
use super::config::{Config, ConfigError, SchemeInfo};
use super::deadlines::{BUNDLE_BEGINS, window_end};
use super::effects::Effects;
use super::epochs::Epochs;
use super::gate::{self, Gate};
use super::local::{Hosted, Local};
use super::restore::chain_of;
use super::roles::Roles;
use super::state::{SlotState, Slots};
use super::store::{Claimed, Received, Store};
use super::task::Purpose;
use super::view::{Counters, Finality, Shown, SlotView};
use super::{maker, proposer, voter};
use crate::chain::{Cast, Chain};
use crate::contract::{Input, Output, Protocol};
use crate::slot::{Boundary, Phase, SlotClock};
use crate::wire::{Block, Entry, Header, Reject, Root, Topic, Vote, WireFormat};

/// Number of slots for which published messages are remembered.
const DONE_SLOTS: u64 = 4;

/// The Horn roles of one node, under the contract of [`Protocol`].
pub struct Horn {
    pub(super) config: Arc<Config>,
    pub(super) info: SchemeInfo,
    pub(super) format: WireFormat,
    pub(super) local: Hosted,
    pub(super) clock: SlotClock,
    pub(super) now: Time,
    /// The next phase to begin. None before the first input.
    pub(super) boundary: Option<Boundary>,
    pub(super) fx: Effects,
    pub(super) chain: Chain,
    pub(super) epochs: Epochs,
    pub(super) store: Arc<Store>,
    pub(super) slots: Slots,
    pub(super) gate: Gate,
    pub(super) roles: Roles,
    /// The committees most recently drawn for blocks from the local store, where weights differ.
    restored: BTreeMap<(Epoch, [u8; 32]), Assignment>,
}

impl Horn {
    /// Creates a state machine that starts with the first input. State machines in one process share a
    /// configuration in an [`Arc`].
    ///
    /// # Errors
    ///
    /// Returns the first [`ConfigError`].
    pub fn new(
        config: impl Into<Arc<Config>>,
        info: SchemeInfo,
        local: Local,
    ) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate(&info)?;
        local.check(&config.layout)?;
        let local = Hosted::from(&local);
        let roles = Roles::new(config.layout.levels());
        let mut horn = Self {
            gate: Gate::new(&config, &info, &local),
            format: config.format(&info),
            clock: SlotClock::new(config.genesis, config.timing),
            chain: chain_of(&config),
            config,
            info,
            local,
            now: Time::ZERO,
            boundary: None,
            fx: Effects::default(),
            epochs: Epochs::default(),
            store: Arc::default(),
            slots: Slots::new(),
            roles,
            restored: BTreeMap::new(),
        };
        // Through the same path as a shared store, so that chain and rank tables use its sets too.
        horn.lend_store(Arc::default());
        Ok(horn)
    }

    /// Keeps signer sets, messages and rank tables in a store shared with other state machines of the
    /// network. Call before the first input.
    ///
    /// # Panics
    ///
    /// If the store belongs to another network.
    pub fn lend_store(&mut self, store: Arc<Store>) {
        store.join(self.config.network(), &self.format);
        self.chain.lend_supports(store.supports.clone());
        self.epochs.ranks = store.ranks.clone();
        self.store = store;
    }

    /// Returns the state of a slot: the current one or a neighbour, as long as its messages are still
    /// accepted.
    pub fn view(&self, slot: Slot) -> Option<SlotView> {
        self.slots.get(&slot).map(|state| state.view())
    }

    /// Counts since the start.
    pub fn counters(&self) -> &Counters {
        &self.fx.counters
    }

    /// The chain as this node sees it.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The root of the head block.
    pub fn head(&self) -> Root {
        self.chain.head()
    }

    /// The state of finality on the chain.
    pub fn finality(&self) -> Finality {
        // A chain has the header of its head.
        let head = self.chain.header(&self.head());
        Finality {
            head: head.map_or(Slot(0), |head| head.slot),
            justified: self.chain.justified().slot,
            finalised: self.chain.finalised().slot,
        }
    }

    /// From now on, records which local validators' votes it sees. The driver collects them after each
    /// input ([`take_shown`](Self::take_shown)) and knows which of them were made here.
    pub fn watch_own_keys(&mut self) {
        self.fx.watch();
    }

    /// Local validators found in evidence verified since the last call, in aggregates as well as in
    /// blocks.
    pub fn take_shown(&mut self) -> Option<Shown> {
        self.fx.take_shown()
    }

    /// The network-wide configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What this node does in the network.
    pub fn local(&self) -> &Hosted {
        &self.local
    }

    /// The lengths of all fields on the wire.
    pub fn format(&self) -> &WireFormat {
        &self.format
    }

    /// The clock that maps phases and slots to times.
    pub fn clock(&self) -> &SlotClock {
        &self.clock
    }

    /// The committees of an epoch, once they and the keys are ready.
    pub fn assignment(&self, epoch: Epoch) -> Option<&Arc<alphorn_types::Assignment>> {
        self.epochs
            .ready(epoch)
            .map(|committees| &committees.assignment)
    }

    /// Returns the topics that the local validators need in an epoch, once its committees are ready: the
    /// topics every node needs, and those of the units in which local validators may serve.
    pub fn topics(&self, epoch: Epoch) -> Option<BTreeSet<Topic>> {
        let committees = self.epochs.ready(epoch)?;
        let layout = &self.config.layout;
        let mut topics = BTreeSet::from([Topic::Block, Topic::Collection]);
        for level in 1..=layout.levels() {
            let is_local = |unit: &Unit| !committees.local_in(layout.unit_range(*unit)).is_empty();
            let units = layout.units(level).filter(is_local);
            topics.extend(units.map(|unit| match unit.cell() {
                Some(cell) => Topic::Vote { cell },
                None => Topic::Aggregate { unit },
            }));
        }
        Some(topics)
    }

    /// Whether messages wait for a block. [`Horn::missing_blocks`] lists those blocks.
    pub fn awaits_blocks(&self) -> bool {
        self.gate.awaits_blocks()
    }

    /// Blocks that messages wait for, up to 1,024, each with the peers that sent those messages. The
    /// driver may fetch a block from one of these peers and pass it in as a message. Each peer has the
    /// same weight, split among all the things it refers to. Blocks with the most weight come first, and
    /// the peers of a block are in the order in which they first referred to it.
    pub fn missing_blocks(&self) -> impl Iterator<Item = (Root, Vec<Peer>)> {
        let blocks = self.gate.awaited_blocks().into_iter();
        blocks.filter(|(root, _)| self.chain.header(root).is_none())
    }

    /// Returns the state of a slot, creating it if its epoch is ready.
    fn ensure_slot(&mut self, slot: Slot) -> Option<&mut SlotState> {
        self.lend_gate().0.ensure_slot(slot);
        self.slots.get_mut(&slot).map(Box::as_mut)
    }

    /// Restarts a slot under the committees that came into force after it began, if nothing in it has
    /// used the old ones yet.
    fn follow_branch(&mut self, slot: Slot) {
        let in_force = self.epochs.ready(slot.epoch(self.config.epoch_slots));
        let (Some(in_force), Some(state)) = (in_force, self.slots.get(&slot)) else {
            return;
        };
        // A draw in flight would end in a roster that does not count it (`Roster::drawn`).
        if !state.is_untouched()
            || !self.roles.are_known(slot)
            || state.committees.mix == in_force.mix
        {
            return;
        }
        let before = self.slots.remove(&slot);
        self.close_roles(slot);
        if let (Some(before), Some(state)) = (before, self.ensure_slot(slot)) {
            // The proposer of a slot does not depend on its committees.
            state.block = before.block;
            state.false_blocks = before.false_blocks;
        }
    }

    fn close_slot(&mut self, slot: Slot) {
        // First, while the slot's state exists: the messages that wait in it get their verdicts.
        self.gate(gate::Input::Close { slot });
        let Some(state) = self.slots.remove(&slot) else {
            return;
        };
        self.close_roles(slot);
        // A running collection can still go into a block.
        for session in [
            state.sessions.duty,
            state.sessions.verify,
            state.sessions.aggregate,
        ] {
            self.fx.cancel(session);
        }
    }

    /// Processes phases and timers up to the present.
    fn keep_time(&mut self) {
        let mut boundary = match self.boundary {
            Some(boundary) => boundary,
            None => {
                self.chain
                    .set_slot(self.clock.slot_at(self.now).unwrap_or(Slot(0)));
                self.prepare_epochs();
                self.clock.phase_at(self.now).unwrap_or(Boundary::GENESIS)
            }
        };
        let slot = self.clock.slot_at(self.now).unwrap_or(Slot(0));
        if boundary.slot.0 + 1 < slot.0 {
            // After a long sleep, skip the missed phases without visiting each of them.
            self.fx.counters.phases_missed +=
                (slot.0 - 1 - boundary.slot.0) * self.config.timing.offsets_ms().len() as u64;
            boundary = Boundary {
                // Its messages are still accepted.
                slot: slot.saturating_sub(1),
                phase: Phase::Propose,
            };
        }
        self.boundary = Some(boundary);
        loop {
            let phase_at = self.clock.start(boundary);
            let timer = self.timer().filter(|time| *time <= self.now);
            match timer {
                // Phases come first when both are due at once.
                Some(time) if time < phase_at => self.fire(time),
                _ if phase_at <= self.now && phase_at < Time::MAX => {
                    self.boundary = Some(self.clock.after(boundary));
                    self.enter(boundary);
                    boundary = self.clock.after(boundary);
                }
                _ => break,
            }
        }
    }

    /// The next time at which something other than a phase is due.
    fn timer(&self) -> Option<Time> {
        let first = self.slots.keys().next();
        let close = first.map(|slot| window_end(&self.clock, *slot));
        let deadlines = [self.gate.next_deadline(), close, self.roles.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Does what is due at a time: first the gate, then the end of a slot, then the roles in slot order.
    fn fire(&mut self, time: Time) {
        let first = self.slots.keys().next().copied();
        let ends = |slot: &Slot| window_end(&self.clock, *slot) == time;
        if self.gate.next_deadline() == Some(time) {
            self.gate(gate::Input::Deadline);
        } else if let Some(slot) = first.filter(ends) {
            self.close_slot(slot);
        } else {
            self.roles_due(time);
        }
    }

    /// Enters a phase. If it has already passed, its duties are missed, never done late.
    fn enter(&mut self, boundary: Boundary) {
        if boundary.phase == Phase::Propose {
            self.chain.set_slot(boundary.slot);
            self.fx.prune_done(boundary.slot.saturating_sub(DONE_SLOTS));
            self.proposer(proposer::Input::Slot {
                slot: boundary.slot,
            });
            self.gate(gate::Input::Slot {
                slot: boundary.slot,
            });
        }
        // Again before the vote: the block of the slot may have moved the head to a branch with other
        // committees.
        if boundary.phase <= Phase::Vote {
            self.prepare_epochs();
        }
        let present = self.clock.phase_at(self.now);
        // The last phase has no duty that could come late: it only drops votes that aggregates prove.
        if present == Some(boundary) || boundary.phase == Phase::Decide {
            self.run_phase(boundary);
        } else {
            self.fx.counters.phases_missed += 1;
        }
        match boundary.phase {
            // Only now: the votes above are cast on the view as it was when it froze.
            Phase::Vote => self.chain.thaw(),
            Phase::Decide => self.chain.freeze(),
            _ => {}
        }
    }

    /// Runs the duties of the local validators in a phase, if the epoch is ready.
    pub(super) fn run_phase(&mut self, Boundary { slot, phase }: Boundary) {
        self.follow_branch(slot);
        let Some(state) = self.ensure_slot(slot) else {
            return;
        };
        let begins = state.phase.is_none() && phase < Phase::Decide;
        state.phase = Some(phase);
        if begins {
            self.open_roles(slot);
        }
        match phase {
            Phase::Propose => self.proposer(proposer::Input::Begin { slot }),
            Phase::Vote => {
                if let Some(ballot) = self.fix_own_vote(slot) {
                    self.voter(voter::Input::Begin { slot, ballot });
                }
            }
            Phase::Level(level) => {
                self.fix_own_vote(slot);
                self.maker(level, slot, None, maker::Input::Begin { slot });
            }
            Phase::Decide => {
                if let Some(state) = self.slots.get_mut(&slot) {
                    state.end_votes();
                }
            }
        }
        if phase == BUNDLE_BEGINS {
            self.proposer(proposer::Input::Bundle { slot: slot.next() });
        }
    }

    /// The vote that local validators cast, or would have cast had this node been running earlier.
    pub(super) fn fix_own_vote(&mut self, slot: Slot) -> Option<Arc<Ballot>> {
        let own = self.slots.get(&slot)?;
        if let Some(own_vote) = own.own {
            return Some(own.ballots.get(own_vote).clone());
        }
        let head = self.chain.head();
        let vote = self.chain.vote(slot, &head)?;
        // The head moved to another branch too late for this slot: no node there could accept the vote.
        let mix = self.lend().0.mix_of(&vote);
        if Some(self.slots.get(&slot)?.committees.mix) != mix {
            return None;
        }
        let ballot = Ballot::new(self.config.network(), vote);
        self.chain.set_own_vote(&vote);
        let state = self.slots.get_mut(&slot)?;
        state.own = Some(state.ballots.track_own(&ballot)?);
        Some(ballot)
    }

    fn finished(&mut self, job: JobId, outcome: Outcome<Product>) {
        let Some(purpose) = self.fx.finish(job) else {
            self.fx.counters.jobs_unknown += 1;
            return;
        };
        if let Outcome::Refused(why) = &outcome
            && let Some(table) = missing_table(why)
        {
            // The prepared table is gone. It is prepared again if it is still needed.
            self.epochs.failed(table);
        }
        match purpose {
            Purpose::Assign(asked) => self.committees_drawn(asked, outcome),
            Purpose::Prepare(asked) => self.keys_prepared(asked, outcome),
            Purpose::Draw(draw) => self.drawn(draw, outcome),
            Purpose::Voter(job) => self.voter(voter::Input::Finished { job, outcome }),
            Purpose::Maker(job) => self.maker_finished(job, outcome),
            Purpose::Proposer(job) => self.proposer(proposer::Input::Finished { job, outcome }),
            Purpose::Gate(job) => self.gate(gate::Input::Finished { job, outcome }),
        }
    }

    /// Counts the votes of a verified collection in the fork choice. Votes of slots that no longer count
    /// have no effect. A collection in a block comes with its header.
    pub(super) fn observe(&mut self, claimed: &Claimed, block: Option<&Header>) {
        let entry = &claimed.entry;
        if let Some(committees) = self.lend().0.committees_of(&entry.vote).cloned() {
            if block.is_some() {
                let unit = self.config.layout.committee(entry.committee);
                self.fx
                    .show(&committees, unit, &claimed.signers, &entry.vote);
            }
            let cast = Cast {
                vote: &entry.vote,
                assignment: &committees.assignment,
                committee: entry.committee,
                signers: &claimed.signers,
            };
            // The fork choice tracks its own bounded number of ballots and slots, and counts what it
            // rejects.
            let _ = self.chain.count_votes(&cast, block);
            let uncounted = self.chain.uncounted();
            self.fx.counters.votes_refused = uncounted.refused;
            self.fx.counters.votes_displaced = uncounted.displaced;
        }
    }

    /// The committee assignment under each vote of a block's entries. Empty if all weights are equal,
    /// since the assignment is then not needed.
    fn seats(&mut self, entries: &[Entry]) -> BTreeMap<Vote, Assignment> {
        let mut seats = BTreeMap::new();
        if self.config.weights.are_equal() {
            return seats;
        }
        for Entry { vote, .. } in entries {
            let shared = self.lend().0;
            if let Some(committees) = shared.committees_of(vote) {
                seats.insert(*vote, Assignment::clone(&committees.assignment));
            } else if let Some(mix) = shared.mix_of(vote).filter(|_| !seats.contains_key(vote)) {
                // A block from the local store arrives before any committees were drawn.
                let epoch = vote.slot.epoch(self.config.epoch_slots);
                let drawn = self.restored.get(&(epoch, mix)).cloned();
                let drawn = drawn.unwrap_or_else(|| assignment(epoch, &mix, self.config.layout));
                self.restored = BTreeMap::from([((epoch, mix), drawn.clone())]);
                seats.insert(*vote, drawn);
            }
        }
        seats
    }

    /// Inserts a verified block. `is_kept` marks a block from the local store.
    pub(super) fn import(&mut self, block: &Received<Block>, is_kept: bool) -> Result<(), Reject> {
        let entries = &block.body.entries;
        let seats = self.seats(entries);
        let seats = |vote: &Vote| seats.get(vote).cloned();
        match is_kept {
            true => self.chain.restore_under(block.header, entries, &seats)?,
            false => self.chain.insert_under(block.header, entries, &seats)?,
        };
        let store = self.store.clone();
        for claimed in block.claims(&self.format.clone(), &store) {
            self.observe(claimed, Some(&block.header));
        }
        Ok(())
    }
}

impl Protocol for Horn {
    fn handle(&mut self, now: Time, input: Input) {
        self.now = self.now.max(now);
        // What was due before comes first: the input is judged in the phase in which it arrives.
        self.keep_time();
        match input {
            Input::Message {
                from,
                topic,
                token,
                data,
            } => {
                let origin = Some((from, token));
                self.gate(gate::Input::Message {
                    origin,
                    topic,
                    data,
                });
            }
            Input::Finished { job, outcome } => self.finished(job, outcome),
            Input::Deadline => self.gate(gate::Input::Verify),
            // Handled by the transport.
            Input::SendReady { .. } | Input::PeerUp { .. } | Input::PeerDown { .. } => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.fx.poll()
    }

    fn next_deadline(&self) -> Option<Time> {
        let Some(boundary) = self.boundary else {
            // Which phase comes first follows from the time of the first input, so that is due at once.
            return Some(Time::ZERO);
        };
        // Due in this very instant: the driver hands in what arrived together before it reports the
        // deadline.
        if self.gate.is_due() {
            return Some(self.now);
        }
        let timer = self.timer();
        let phase = Some(self.clock.start(boundary)).filter(|start| *start < Time::MAX);
        [timer, phase].into_iter().flatten().min()
    }
}
