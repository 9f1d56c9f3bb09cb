//! State shared by the roles of a node.
//!
//! A role owns the state of its own duty and nothing else. It reads the slots (what was accepted, the
//! committees), the chain and the time through [`Shared`], requests jobs, and returns its messages to the
//! caller. Roles do not know each other: [`Horn`](super::Horn) passes inputs on. The gate is a role that
//! writes accepted messages to the slots, so it borrows them mutably.

use alphorn_scheme::{BundleEntry, Bytes, Outcome, Product, Statement};
use alphorn_types::{Bitfield, Epoch, Slot, Time};
use std::sync::Arc;

use super::config::{Config, SchemeInfo};
use super::effects::Effects;
use super::epochs::{Committees, Epochs};
use super::local::Hosted;
use super::state::{SlotState, Slots};
use super::store::Store;
use crate::chain::Chain;
use crate::slot::SlotClock;
use crate::wire::{Entry, Vote, WireFormat, digest};

/// State that a node lends to one of its roles for the duration of a call.
pub(super) struct Shared<'a, S = &'a Slots> {
    pub(super) config: &'a Config,
    pub(super) info: &'a SchemeInfo,
    pub(super) format: &'a WireFormat,
    pub(super) local: &'a Hosted,
    pub(super) clock: &'a SlotClock,
    pub(super) now: Time,
    pub(super) chain: &'a Chain,
    pub(super) epochs: &'a Epochs,
    /// Sets and messages shared by all state machines of the process.
    pub(super) store: &'a Store,
    pub(super) slots: S,
    pub(super) fx: &'a mut Effects,
}

/// State that a node lends to its gate.
pub(super) type Lent<'a> = Shared<'a, &'a mut Slots>;

/// The state lent by `$from`, from fields of the same names. `$slots` refers to its slots.
macro_rules! lent {
    ($from:expr, $slots:expr) => {
        $crate::horn::role::Shared {
            config: &$from.config,
            info: &$from.info,
            format: &$from.format,
            local: &$from.local,
            clock: &$from.clock,
            now: $from.now,
            chain: &$from.chain,
            epochs: &$from.epochs,
            store: &$from.store,
            slots: $slots,
            fx: &mut $from.fx,
        }
    };
}
pub(super) use lent;

/// A role of Horn: a state machine of the same shape as the whole ([`crate::contract`]), whose jobs and
/// counts go to the [`Effects`] lent to it.
pub(super) trait Role {
    /// Its inputs.
    type Input;
    /// Its outputs.
    type Made;

    /// Handles an input. Never fails and never blocks.
    fn handle(&mut self, shared: &mut Shared<'_>, input: Self::Input);

    /// Returns the next message, or none if there are no more. Whether a late one is still useful is
    /// decided by what was accepted so far, including the messages before it.
    fn poll_output(&mut self, shared: &mut Shared<'_>) -> Option<Self::Made>;

    /// When to call it again if nothing happens before.
    fn next_deadline(&self) -> Option<Time>;
}

impl<'a> Shared<'a> {
    /// The state of a slot whose messages are accepted.
    pub(super) fn slot(&self, slot: Slot) -> Option<&'a SlotState> {
        self.slots.get(&slot).map(Box::as_ref)
    }
}

impl Lent<'_> {
    /// Returns the state of a slot, creating it if its epoch is ready.
    pub(super) fn ensure_slot(&mut self, slot: Slot) -> Option<&mut SlotState> {
        // Callers have checked that the slot is open or has begun, which bounds the number of states.
        if !self.slots.contains_key(&slot) {
            let epoch = slot.epoch(self.config.epoch_slots);
            let committees = self.epochs.ready(epoch)?.clone();
            let votes_max = self.config.vote_data_per_slot_max;
            let state = SlotState::new(slot, committees, votes_max, self.fx);
            self.slots.insert(slot, Box::new(state));
        }
        self.slots.get_mut(&slot).map(Box::as_mut)
    }
}

impl<'a, S> Shared<'a, S> {
    /// The current slot.
    pub(super) fn present(&self) -> Slot {
        self.clock.slot_at(self.now).unwrap_or(Slot(0))
    }

    /// The committees under which a vote was cast, if they are ready at this node.
    pub(super) fn committees_of(&self, vote: &Vote) -> Option<&'a Arc<Committees>> {
        let epoch = vote.slot.epoch(self.config.epoch_slots);
        self.epochs.of(epoch, &self.mix_of(vote)?)
    }

    /// The epoch that names the key table of an entry whose committees are ready.
    pub(super) fn table_of(&self, entry: &Entry) -> Epoch {
        let committees = self.committees_of(&entry.vote);
        // The default is not used: callers have checked that the committees are ready.
        committees.map_or(Epoch(0), |of| of.assignment.epoch())
    }

    /// The statement that an entry of a block proves.
    pub(super) fn statement_of(&self, entry: &Entry) -> Statement {
        let message = digest::vote_message(self.config.network(), &entry.vote);
        let committee = self.config.layout.committee(entry.committee);
        (self.config).statement(self.info, committee, entry.vote.slot, message)
    }

    /// An entry of a block in the form proved by evidence of many collections. Its committees must be
    /// ready.
    pub(super) fn bundle_entry(&self, entry: &Entry) -> BundleEntry {
        BundleEntry {
            epoch: self.table_of(entry),
            statement: self.statement_of(entry),
            support: entry.evidence.support.clone(),
        }
    }

    /// The weight that an entry adds to the signers already credited. If the committees are no longer
    /// known, every signer counts the same.
    pub(super) fn gain(&self, entry: &Entry, credited: &Bitfield) -> u64 {
        let signers = entry.evidence.support.signers();
        let equal = self.config.weights.are_equal();
        match self.committees_of(&entry.vote).filter(|_| !equal) {
            Some(committees) => {
                let unit = self.config.layout.committee(entry.committee);
                committees.weigh_gain(unit, &signers, credited)
            }
            None => signers.count_and_not(credited) as u64,
        }
    }

    /// The value that the chain of a vote's head supplies for the vote's epoch. None if the head is
    /// unknown.
    pub(super) fn mix_of(&self, vote: &Vote) -> Option<[u8; 32]> {
        let epoch = vote.slot.epoch(self.config.epoch_slots);
        self.chain.mix(epoch, &vote.head)
    }

    /// The signatures of a job that should make `count` of `bytes` each.
    pub(super) fn signatures(
        &mut self,
        outcome: Outcome<Product>,
        count: usize,
        bytes: usize,
    ) -> Option<Vec<Bytes>> {
        // Lengths are checked here, as a child process may answer with anything and encoders panic on a
        // wrong one.
        let signed = match outcome {
            Outcome::Done(Product::Signed(signed) | Product::Selected(signed))
                if signed.len() == count && signed.iter().all(|one| one.len() == bytes) =>
            {
                signed
            }
            _ => {
                self.fx.counters.jobs_failed += 1;
                return None;
            }
        };
        Some(signed.iter().map(Bytes::from).collect())
    }
}
