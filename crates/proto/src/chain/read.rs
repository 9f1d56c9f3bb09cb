//! Queries on the chain: legal votes and credited votes.

use alphorn_types::{Bitfield, Epoch, Slot};

use super::{Chain, HEAD_LAG_SLOTS};
use crate::wire::{Checkpoint, Header, Reject, Root, Vote, digest};

impl Chain {
    /// Returns the header of a block; none if unknown.
    pub fn header(&self, root: &Root) -> Option<&Header> {
        self.node(root).map(|node| &node.header)
    }

    /// Iterates over the chain ending with `root`, newest first, as far back as blocks are kept.
    pub fn ancestors(&self, root: &Root) -> impl Iterator<Item = (Root, &Header)> + '_ {
        let start = self.by_root.get(root).copied();
        self.walk(start).map(|node| (node.root, &node.header))
    }

    /// Whether `ancestor` is in the chain ending with `root`, or is `root`. False if either is
    /// unknown.
    pub fn is_ancestor(&self, ancestor: &Root, root: &Root) -> bool {
        let Some(oldest) = self.node(ancestor) else {
            return false;
        };
        self.ancestors(root)
            // Slots fall along a chain: nothing older than the ancestor can be it.
            .take_while(|(_, header)| header.slot >= oldest.header.slot)
            .any(|(root, _)| root == *ancestor)
    }

    /// Returns the vote of a validator in `slot` whose head is `head`; none if the head is unknown
    /// or from a later slot.
    pub fn vote(&self, slot: Slot, head: &Root) -> Option<Vote> {
        let node = self.node(head)?;
        (node.header.slot <= slot).then_some(Vote {
            slot,
            head: *head,
            source: node.justified,
            target: Checkpoint { slot, root: *head },
        })
    }

    /// Checks that a vote equals what [`vote`](Self::vote) gives for its slot and head.
    ///
    /// # Errors
    ///
    /// [`Reject::UnknownBlock`] or [`Reject::InconsistentVote`].
    pub(crate) fn check_consistent(&self, vote: &Vote) -> Result<(), Reject> {
        if !self.by_root.contains_key(&vote.head) {
            return Err(Reject::UnknownBlock);
        }
        match self.vote(vote.slot, &vote.head) {
            Some(consistent) if consistent == *vote => Ok(()),
            _ => Err(Reject::InconsistentVote),
        }
    }

    /// Checks that a vote is consistent and that its head is recent enough: it has no child, or had
    /// none [`HEAD_LAG_SLOTS`] before the vote. A child counts from its slot on, but not before it
    /// arrived, so a withheld block makes no honest vote late.
    ///
    /// # Errors
    ///
    /// As [`check_consistent`](Self::check_consistent), and [`Reject::StaleHead`].
    pub(crate) fn check_vote(&self, vote: &Vote) -> Result<(), Reject> {
        self.check_consistent(vote)?;
        let built_on = self.node(&vote.head).and_then(|node| node.built_on);
        match built_on {
            Some(since) if since.0.saturating_add(HEAD_LAG_SLOTS) < vote.slot.0 => {
                Err(Reject::StaleHead)
            }
            _ => Ok(()),
        }
    }

    /// Returns the mix of an epoch in the chain ending with `head`: [`digest::epoch_mix`] of the
    /// last block before the preceding epoch, or of genesis for epochs 0 and 1. None if `head` is
    /// unknown or from a later epoch.
    pub fn mix(&self, epoch: Epoch, head: &Root) -> Option<[u8; 32]> {
        let node = self.node(head)?;
        let of_head = node.header.slot.epoch(self.epoch_slots);
        // Relative to the head's own epoch. From two epochs later on, the head itself is the last
        // block before the preceding epoch.
        let root = match epoch.0.checked_sub(of_head.0)? {
            0 => &node.epoch_roots[1],
            1 => &node.epoch_roots[0],
            _ => head,
        };
        Some(digest::epoch_mix(epoch, root))
    }

    /// Returns the positions of a committee whose votes, of the vote's epoch, the block `vote.head`
    /// includes, or all if there are none: the reference of
    /// [`Context::Chain`](crate::wire::Context::Chain). None if that block is unknown.
    ///
    /// # Panics
    ///
    /// If there is no such committee.
    pub fn reference(&self, vote: &Vote, committee: u16) -> Option<Bitfield> {
        let node = self.node(&vote.head)?;
        let epoch = vote.slot.epoch(self.epoch_slots);
        // In another epoch the same positions belong to other validators.
        let same_epoch = |v: &Vote| v.slot.epoch(self.epoch_slots) == epoch;
        let committees = node.included.iter().filter(|(v, _)| same_epoch(v));
        let mut sets = committees.filter_map(|(_, sets)| sets.get(&committee));
        let Some(first) = sets.next() else {
            return Some(Bitfield::ones(self.layout.committee_len(committee) as usize));
        };
        Some(sets.fold(Bitfield::clone(first), |mut union, set| {
            union.union_with(set);
            union
        }))
    }

    /// Returns the positions of a committee that the chain ending with `head` credits with a vote
    /// in `slot`: a proposer need not include them again.
    ///
    /// # Panics
    ///
    /// If there is no such committee.
    pub fn credited(&self, head: &Root, slot: Slot, committee: u16) -> Bitfield {
        let mut credited = Bitfield::new(self.layout.committee_len(committee) as usize);
        let start = self.by_root.get(head).copied();
        // Only later blocks can include votes of the slot.
        for node in self.walk(start).take_while(|n| n.header.slot > slot) {
            let votes = node.included.iter().filter(|(vote, _)| vote.slot == slot);
            for set in votes.filter_map(|(_, sets)| sets.get(&committee)) {
                credited.union_with(set);
            }
        }
        credited
    }
}
