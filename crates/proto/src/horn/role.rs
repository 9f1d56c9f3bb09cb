//! What the roles of a node share.
//!
//! A role owns the state of its own duty and nothing else. It reads the slots (what was accepted, who
//! sits where), the chain and the time through [`Shared`], asks for jobs, and gives what it made to
//! whoever called it. No role knows another one: [`Horn`](super::Horn) hands inputs on.

use alphorn_scheme::{Bytes, Outcome, Product};
use alphorn_types::{Bitfield, Slot, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::config::{Config, Local, SchemeInfo};
use super::effects::Effects;
use super::epochs::{Committees, Epochs};
use super::state::SlotState;
use crate::chain::Chain;
use crate::slot::SlotClock;
use crate::wire::{Entry, Vote, WireFormat};

/// What a node lends to one of its roles for the time of a call.
pub(super) struct Shared<'a> {
    pub(super) config: &'a Config,
    pub(super) info: &'a SchemeInfo,
    pub(super) format: &'a WireFormat,
    pub(super) local: &'a Local,
    pub(super) clock: &'a SlotClock,
    pub(super) now: Time,
    pub(super) chain: &'a Chain,
    pub(super) epochs: &'a Epochs,
    pub(super) slots: &'a BTreeMap<Slot, SlotState>,
    pub(super) fx: &'a mut Effects,
}

/// A role of Horn: a state machine of the same shape as the whole ([`crate::contract`]), whose jobs
/// and counts go to the [`Effects`] that it is lent.
pub(super) trait Role {
    /// What happens to it.
    type Input;
    /// What it made.
    type Made;

    /// Takes an input. Never fails and never blocks.
    fn handle(&mut self, shared: &mut Shared<'_>, input: Self::Input);

    /// The next message that it made, until there is none. A late one is judged by what was accepted
    /// until now, the messages before it included.
    fn poll_output(&mut self, shared: &mut Shared<'_>) -> Option<Self::Made>;

    /// When it wants to be called again, if nothing happens before.
    fn next_deadline(&self) -> Option<Time>;
}

impl<'a> Shared<'a> {
    /// What is known of a slot whose messages are taken.
    pub(super) fn slot(&self, slot: Slot) -> Option<&'a SlotState> {
        self.slots.get(&slot)
    }

    /// The slot that it is.
    pub(super) fn present(&self) -> Slot {
        self.clock.slot_at(self.now).unwrap_or(Slot(0))
    }

    /// The committees under which a vote was cast, if they are ready here.
    pub(super) fn committees_of(&self, vote: &Vote) -> Option<&'a Arc<Committees>> {
        let epoch = vote.slot.epoch(self.config.epoch_slots);
        let mix = self.chain.mix(epoch, &vote.head)?;
        self.epochs.of(epoch, &mix)
    }

    /// The weight that an entry adds to those who are credited already. Where the committees are
    /// not known any more, each signer counts alike.
    pub(super) fn gain(&self, entry: &Entry, credited: &Bitfield) -> u64 {
        let signers = entry.evidence.support.signers();
        let equal = self.config.weights.are_equal();
        match self.committees_of(&entry.vote).filter(|_| !equal) {
            Some(committees) => committees.weigh_gain(entry.committee, &signers, credited),
            None => signers.count_and_not(credited) as u64,
        }
    }

    /// The reference of a support's code, see [`Chain::reference`].
    pub(super) fn reference(&self, vote: &Vote, committee: u16) -> Option<Bitfield> {
        self.chain.reference(vote, committee)
    }

    /// The signatures of a job that was to make `count` of `bytes` each.
    pub(super) fn signatures(
        &mut self,
        outcome: Outcome<Product>,
        count: usize,
        bytes: usize,
    ) -> Option<Vec<Bytes>> {
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
