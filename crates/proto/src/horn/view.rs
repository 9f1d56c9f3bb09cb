//! What a machine shows of itself: counts, and the state of a slot.

use alphorn_types::trace::Event;
use alphorn_types::{Bitfield, Slot, Support, Validator};
use std::sync::Arc;

use crate::wire::{Kind, Reject, Root, Vote};

/// Slots of the head, the justified and the finalised checkpoint of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finality {
    /// The head.
    pub head: Slot,
    /// The highest justified checkpoint.
    pub justified: Slot,
    /// The highest finalised checkpoint.
    pub finalised: Slot,
}

impl Finality {
    /// As a trace has it, and in which slot two thirds had voted after how many milliseconds, if that
    /// is told of.
    #[must_use]
    pub fn event(self, two_thirds: Option<(Slot, u64)>) -> Event {
        Event::Finality {
            head: self.head.0,
            justified: self.justified.0,
            finalised: self.finalised.0,
            two_thirds_ms: two_thirds.map(|(_, ms)| ms),
            two_thirds_slot: two_thirds.map(|(slot, _)| slot.0),
        }
    }
}

/// Local validators whose votes stand in evidence that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Their vote.
    pub vote: Vote,
    /// Who cast it, in the order of their positions.
    pub validators: Vec<Validator>,
}

/// Counts since the start. All of them only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that arrived, by [`Kind`] in the order of [`Kind::ALL`]; own ones too.
    pub(crate) seen: [u64; Kind::ALL.len()],
    /// Messages that were accepted, by kind.
    pub accepted: [u64; Kind::ALL.len()],
    /// Messages that were published here, by kind.
    pub(crate) published: [u64; Kind::ALL.len()],
    /// Messages that were not taken, by reason in the order of [`Reject::NAMES`].
    pub(crate) rejected: [u64; Reject::NAMES.len()],
    /// Messages of an epoch whose committees or keys are not ready here.
    pub(crate) epoch_unprepared: u64,
    /// Messages that waited for a block that did not come.
    pub parked_expired: u64,
    /// Jobs asked for.
    pub jobs_spawned: u64,
    /// Jobs that ended without a result.
    pub jobs_failed: u64,
    /// Answers to jobs that were not asked for.
    pub(crate) jobs_unknown: u64,
    /// Phases that had passed before this machine ran: their duties are missed, never done late.
    pub phases_missed: u64,
    /// Pairs of contradicting statements that were reported.
    pub evidence: u64,
    /// Own aggregates and collections that came late and were still published.
    pub salvaged: u64,
    /// Own aggregates and collections that came too late or were useless.
    pub stale: u64,
    /// Collections that staged publishing held back, because they added too little.
    pub(crate) staged_back: u64,
    /// Entries of blocks and collections whose evidence had been verified before.
    pub evidence_cached: u64,
    /// Kept collections that were dropped, because they passed the byte budget.
    pub collections_dropped: u64,
    /// Verified votes that the fork choice does not count: see
    /// `Uncounted`.
    pub votes_refused: u64,
    /// Votes that the fork choice counted no longer, because heavier ballots came.
    pub votes_displaced: u64,
}

impl Counters {
    /// Reasons with their counts, without those that never occurred.
    pub fn rejects(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let named = Reject::NAMES.into_iter().zip(self.rejected);
        named.filter(|&(_, count)| count > 0)
    }
}

/// An accepted collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionView {
    /// The committee.
    pub committee: u16,
    /// The collector.
    pub sender: Validator,
    /// The vote that all signers sign.
    pub vote: Vote,
    /// Who signed, and how often each is counted.
    pub support: Arc<Support>,
    /// Bytes of the message.
    pub bytes: usize,
}

/// An accepted block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockView {
    /// Its name.
    pub root: Root,
    /// Bytes of the message.
    pub bytes: usize,
    /// Collections in it.
    pub entries: usize,
}

/// The state of a slot at a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotView {
    /// The slot.
    pub slot: Slot,
    /// Vote messages that arrived.
    pub votes_seen: u64,
    /// First votes of a validator that were verified.
    pub votes_accepted: u64,
    /// Aggregates that were verified.
    pub aggregates_accepted: u64,
    /// Collections that were verified.
    pub collections_accepted: u64,
    /// The vote with most signers in accepted collections.
    pub vote: Option<Vote>,
    /// For each committee, the positions in any accepted collection of that vote.
    pub coverage: Vec<Bitfield>,
    /// The accepted collections, by committee, then in the order of acceptance.
    pub collections: Vec<CollectionView>,
    /// The first accepted block of the slot.
    pub block: Option<BlockView>,
}

impl SlotView {
    /// Validators in the coverage, all committees together.
    pub fn covered(&self) -> u64 {
        self.coverage
            .iter()
            .map(|bits| bits.count_ones() as u64)
            .sum()
    }
}
