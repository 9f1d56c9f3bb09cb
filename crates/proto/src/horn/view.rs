//! The state a node exposes: counts, and the state of a slot.

use alphorn_types::trace::Event;
use alphorn_types::{Bitfield, Slot, Support, Validator};
use std::sync::Arc;

use crate::wire::{Kind, Reject, Root, Vote};

/// Slots of the head and of the justified and finalised checkpoints of a chain.
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
    /// The trace event. `two_thirds` is the slot in which two thirds had voted and after how many
    /// milliseconds, if that is reported.
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

/// Local validators whose votes appear in verified evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Their vote.
    pub vote: Vote,
    /// The validators that cast it, in order of position.
    pub validators: Vec<Validator>,
}

/// Counts since the start. They only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that arrived, by [`Kind`] in the order of [`Kind::ALL`], including those made here.
    pub(crate) seen: [u64; Kind::ALL.len()],
    /// Messages that were accepted, by kind.
    pub accepted: [u64; Kind::ALL.len()],
    /// Messages that were published here, by kind.
    pub(crate) published: [u64; Kind::ALL.len()],
    /// Rejected messages, by reason in the order of [`Reject::NAMES`].
    pub(crate) rejected: [u64; Reject::NAMES.len()],
    /// Messages of an epoch whose committees or keys are not ready at this node.
    pub(crate) epoch_unprepared: u64,
    /// Messages that waited for a block that did not arrive.
    pub parked_expired: u64,
    /// Jobs requested.
    pub jobs_spawned: u64,
    /// Jobs that ended without a result.
    pub jobs_failed: u64,
    /// Answers to jobs that were not requested.
    pub(crate) jobs_unknown: u64,
    /// Phases that had passed before this node ran. Their duties are missed, never done late.
    pub phases_missed: u64,
    /// Pairs of contradicting statements that were reported.
    pub evidence: u64,
    /// Aggregates and collections made here that were late but still published.
    pub salvaged: u64,
    /// Aggregates and collections made here that were too late or useless.
    pub stale: u64,
    /// Collections held back by staged publishing because they added too little.
    pub(crate) staged_back: u64,
    /// Entries of blocks and collections whose evidence had already been verified.
    pub evidence_cached: u64,
    /// Kept collections dropped because they exceeded the byte budget.
    pub collections_dropped: u64,
    /// Verified votes that the fork choice does not count, see `Uncounted`.
    pub votes_refused: u64,
    /// Votes that the fork choice stopped counting because heavier ballots arrived.
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
    /// The vote signed by all signers.
    pub vote: Vote,
    /// The signers, and how often each is counted.
    pub support: Arc<Support>,
    /// Bytes of the message.
    pub bytes: usize,
}

/// An accepted block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockView {
    /// Its root.
    pub root: Root,
    /// Bytes of the message.
    pub bytes: usize,
    /// Number of collections in it.
    pub entries: usize,
}

/// The state of a slot at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotView {
    /// The slot.
    pub slot: Slot,
    /// Vote messages that arrived.
    pub votes_seen: u64,
    /// Verified first votes of validators.
    pub votes_accepted: u64,
    /// Verified aggregates.
    pub aggregates_accepted: u64,
    /// Verified collections.
    pub collections_accepted: u64,
    /// The vote with the most signers in accepted collections.
    pub vote: Option<Vote>,
    /// For each committee, the positions in any accepted collection for that vote.
    pub coverage: Vec<Bitfield>,
    /// The accepted collections, by committee, then in order of acceptance.
    pub collections: Vec<CollectionView>,
    /// The first accepted block of the slot.
    pub block: Option<BlockView>,
}

impl SlotView {
    /// Number of validators in the coverage of all committees together.
    pub fn covered(&self) -> u64 {
        self.coverage
            .iter()
            .map(|bits| bits.count_ones() as u64)
            .sum()
    }
}
