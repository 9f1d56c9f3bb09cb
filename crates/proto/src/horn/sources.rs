//! Which validators may send which message as a coded broadcast: the duty table that a driver passes to
//! [`Broadcast`](alphorn_broadcast::Broadcast).

use alphorn_types::{Epoch, Layout, Slot, Validator};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::config::Selection;
use super::epochs::Committees;
use super::machine::Horn;
use super::selection;
use crate::wire::Kind;
use alphorn_broadcast::Schedule;
use alphorn_broadcast::rlnc::Subject;

/// Value of [`Subject::kind`] for a block, whose index is 0. It is the lowest kind: where room is short,
/// collections give way to it.
pub const KIND_BLOCK: u8 = 1;
/// Value of [`Subject::kind`] for a collection, whose index is the committee.
pub const KIND_COLLECTION: u8 = 2;

/// Number of slots before and after the current one whose sources are known: late messages are accepted
/// for two slots, and clocks differ.
const SLOTS_BEFORE: u64 = 2;
const SLOTS_AFTER: u64 = 1;

/// The sources of a slot.
#[derive(Clone)]
struct SlotSources {
    proposer: Validator,
    /// None while the epoch is not ready.
    committees: Option<Arc<Committees>>,
}

/// The sources of the slots around the present: the proposer of the block, and by rank the collectors of
/// each committee. With selection by lottery the collectors are unknown until they show their tickets, so
/// collections are not broadcast.
#[derive(Clone)]
pub struct Sources {
    layout: Layout,
    collectors: u32,
    by_rank: bool,
    slots: BTreeMap<Slot, SlotSources>,
}

impl Sources {
    /// The name of the key table that verifies the signatures of a slot's sources. None if it is not
    /// ready.
    pub fn key_table(&self, slot: Slot) -> Option<Epoch> {
        let committees = self.slots.get(&slot)?.committees.as_ref()?;
        Some(committees.assignment.epoch())
    }

    /// Whether two tables of one node agree on the same slots.
    pub fn is_same(&self, other: &Sources) -> bool {
        // Proposers need no comparison, since they follow from the slot.
        let same = |(a, b): (&SlotSources, &SlotSources)| match (&a.committees, &b.committees) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        self.slots.keys().eq(other.slots.keys())
            && self.slots.values().zip(other.slots.values()).all(same)
    }

    fn is_collector(&self, slot: Slot, committee: u16, validator: Validator) -> bool {
        let committees = self.slots.get(&slot).and_then(|of| of.committees.as_ref());
        let Some(committees) = committees.filter(|_| committee < self.layout.committees()) else {
            return false;
        };
        let unit = self.layout.committee(committee);
        // By the inverse of the shuffle: two hashes a round, however many collectors there are.
        let rank = |position| selection::rank(&committees.seed, slot, unit, &self.layout, position);
        let position = committees.position_in(validator, unit);
        position.is_some_and(|position| rank(position) < self.collectors)
    }
}

impl Schedule for Sources {
    fn is_scheduled(&self, subject: &Subject) -> bool {
        let (slot, source) = (Slot(subject.slot), Validator(subject.source));
        match (subject.kind, u16::try_from(subject.index)) {
            // The block of slot 0 is genesis.
            (KIND_BLOCK, Ok(0)) if slot > Slot(0) => {
                let sources = self.slots.get(&slot);
                sources.is_some_and(|sources| sources.proposer == source)
            }
            (KIND_COLLECTION, Ok(committee)) if self.by_rank => {
                self.is_collector(slot, committee, source)
            }
            _ => false,
        }
    }
}

impl Horn {
    /// The sources of the slots around the present, under the committees in force.
    pub fn sources(&self) -> Sources {
        let present = self.clock.slot_at(self.now).unwrap_or(Slot(0)).0;
        let slots = present.saturating_sub(SLOTS_BEFORE)..=present.saturating_add(SLOTS_AFTER);
        let of = |slot: u64| {
            let slot = Slot(slot);
            let committees = self.epochs.ready(slot.epoch(self.config.epoch_slots));
            let sources = SlotSources {
                proposer: self.chain.proposer(slot),
                committees: committees.cloned(),
            };
            (slot, sources)
        };
        Sources {
            layout: self.config.layout,
            collectors: u32::from(self.config.level(self.config.layout.levels()).publishers),
            by_rank: self.config.selection == Selection::Rank,
            slots: slots.map(of).collect(),
        }
    }
}

/// Value of [`Subject::kind`] for messages of a kind. None for those that are never broadcast.
pub(crate) const fn broadcast_kind(kind: Kind) -> Option<u8> {
    match kind {
        Kind::Block => Some(KIND_BLOCK),
        Kind::Collection => Some(KIND_COLLECTION),
        Kind::Vote | Kind::Aggregate => None,
    }
}
