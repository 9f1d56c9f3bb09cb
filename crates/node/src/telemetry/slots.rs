//! The last slots in the state in which they were last checked.

use alphorn_proto::chain::Chain;
use alphorn_proto::horn::SlotView;
use alphorn_proto::wire::{Root, Vote};
use alphorn_types::{Bitfield, Slot, Validator};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of slots remembered.
pub const SLOTS_MAX: usize = 64;
/// Collections of a committee that are listed individually.
const COLLECTIONS_MAX: usize = 64;

/// A collection of a committee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionRecord {
    /// The collector.
    pub(crate) sender: Validator,
    /// The block that its signers vote for.
    pub(crate) head: Root,
    /// Number of signers.
    pub(crate) signers: usize,
    /// Length of the message in bytes.
    pub(crate) bytes: usize,
}

/// A committee in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitteeRecord {
    /// Positions covered by verified collections, for the vote with most signers.
    pub(crate) coverage: Bitfield,
    /// Verified collections, at most 64.
    pub collections: Vec<CollectionRecord>,
}

/// A slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    /// Its number.
    pub(crate) slot: Slot,
    /// The slot's proposer.
    pub(crate) proposer: Validator,
    /// Root, bytes and collections of its first accepted block.
    pub(crate) block: Option<(Root, usize, usize)>,
    /// Votes received.
    pub votes_seen: u64,
    /// Verified votes.
    pub votes_verified: u64,
    /// Verified aggregates.
    pub(crate) aggregates: u64,
    /// Verified collections.
    pub(crate) collections: u64,
    /// The vote with most signers.
    pub(crate) vote: Option<Vote>,
    /// The committees by number.
    pub committees: Vec<CommitteeRecord>,
}

impl SlotRecord {
    fn of(view: SlotView, chain: &Chain) -> Self {
        let committee = |coverage| CommitteeRecord {
            coverage,
            collections: Vec::new(),
        };
        let mut committees: Vec<CommitteeRecord> =
            view.coverage.into_iter().map(committee).collect();
        for one in &view.collections {
            let note = committees.get_mut(usize::from(one.committee));
            if let Some(note) = note.filter(|note| note.collections.len() < COLLECTIONS_MAX) {
                note.collections.push(CollectionRecord {
                    sender: one.sender,
                    head: one.vote.head,
                    signers: one.support.signer_count(),
                    bytes: one.bytes,
                });
            }
        }
        SlotRecord {
            slot: view.slot,
            proposer: chain.proposer(view.slot),
            block: view
                .block
                .map(|block| (block.root, block.bytes, block.entries)),
            votes_seen: view.votes_seen,
            votes_verified: view.votes_accepted,
            aggregates: view.aggregates_accepted,
            collections: view.collections_accepted,
            vote: view.vote,
            committees,
        }
    }

    /// Validators in verified collections, for the vote with most signers.
    pub fn covered(&self) -> u64 {
        let committees = self.committees.iter();
        committees.map(|one| one.coverage.count_ones() as u64).sum()
    }
}

/// The last slots, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots(BTreeMap<u64, Arc<SlotRecord>>);

impl Slots {
    /// Stores the current state of a slot. A slot older than all remembered ones is left out.
    pub(super) fn put(&mut self, view: SlotView, chain: &Chain) {
        self.0
            .insert(view.slot.0, Arc::new(SlotRecord::of(view, chain)));
        while self.0.len() > SLOTS_MAX {
            self.0.pop_first();
        }
    }

    pub(super) fn all(&self) -> BTreeMap<u64, Arc<SlotRecord>> {
        self.0.clone()
    }
}
