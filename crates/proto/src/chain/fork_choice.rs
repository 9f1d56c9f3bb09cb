//! The fork choice: LMD-GHOST with vote expiry, by word operations on bit sets.
//!
//! Starting from the block of the highest justified checkpoint, step to the child whose subtree has
//! the greatest weight until there is none; ties go to the greater root. In slot s, weight comes
//! from votes of slot s, and from votes of slot s − 1 by validators without one in s. A validator
//! with two votes in one slot counts for neither, and its earlier vote no longer counts. Additional
//! weight and delays are up to the [`Policy`](super::Policy).

use alphorn_types::{Assignment, Bitfield, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Chain;
#[cfg(test)]
use super::ballots::VoteCount;
use super::ballots::{Ballots, Uncounted};
use super::seats::Scale;
use crate::maps::forget_before;
use crate::wire::{Header, Reject, Root, Vote};

/// Number of slots whose votes are counted at a time: the current slot and its neighbours.
pub(crate) const VOTED_SLOTS: u64 = 3;

/// The votes of the slots that the fork choice may count.
#[derive(Clone, Debug, Default)]
pub(super) struct LatestVotes {
    pub(super) slot: Slot,
    by_slot: BTreeMap<Slot, Box<Ballots>>,
    uncounted: Uncounted,
}

impl LatestVotes {
    /// Checks whether votes of a slot count.
    fn check_slot(&self, slot: Slot) -> Result<(), Reject> {
        if slot < self.slot.saturating_sub(1) {
            return Err(Reject::TooOld);
        }
        if slot > self.slot.next() {
            return Err(Reject::TooEarly);
        }
        Ok(())
    }

    /// Reweighs a committee by the validators whose latest vote is in `slot`.
    fn expire(&mut self, slot: Slot, scale: &Scale<'_>) {
        let mut rest = self.by_slot.range_mut(slot..=slot.next());
        if let Some((first, here)) = rest.next()
            && *first == slot
        {
            let next = rest.next().map(|(_, next)| &**next);
            here.expire(scale, next);
        }
    }

    fn set_slot(&mut self, slot: Slot) {
        self.slot = slot;
        forget_before(&mut self.by_slot, &slot.saturating_sub(1));
    }

    fn add(&mut self, scale: &Scale<'_>, vote: &Vote, signers: &Bitfield) -> Result<u32, Reject> {
        let ballots = self.by_slot.entry(vote.slot).or_default();
        // Before the votes are added, so that `follow` sees whose votes are new.
        let before = ballots.voted(scale);
        let added = ballots.add(scale, vote, signers, &mut self.uncounted);
        self.expire(vote.slot, scale);
        let mut since = self.by_slot.range_mut(..=vote.slot).rev();
        if let (Some((_, ballots)), Some((slot, previous))) = (since.next(), since.next())
            && slot.next() == vote.slot
        {
            previous.follow(scale, ballots, before.as_deref());
        }
        added
    }

    /// Weight per head of the validators whose latest vote is for it, for each vote that counts.
    /// `weigh` computes it from the ballots of a slot and of the next one.
    fn weights(
        &self,
        weigh: impl Fn(&Ballots, Option<&Ballots>) -> Vec<(Root, u64)>,
    ) -> Vec<(Root, u64)> {
        let ballots = |slot: Slot| self.by_slot.get(&slot).map(Box::as_ref);
        let current = ballots(self.slot);
        let previous = self.slot.0.checked_sub(1);
        let previous = previous.and_then(|slot| ballots(Slot(slot)));
        let mut heads = current.map_or_else(Vec::new, |current| weigh(current, None));
        let previous = previous.into_iter();
        heads.extend(previous.flat_map(|previous| weigh(previous, current)));
        heads
    }
}

/// A block with the weight behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighed {
    /// Its root.
    pub root: Root,
    /// Its header.
    pub header: Header,
    /// Weight of the latest votes for it and for its descendants.
    pub weight: u64,
}

/// A counted vote and its signers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast<'a> {
    /// The vote.
    pub(crate) vote: &'a Vote,
    /// The seating in the vote's epoch and its head's chain.
    pub(crate) assignment: &'a Assignment,
    /// The committee.
    pub(crate) committee: u16,
    /// Positions in the committee.
    pub(crate) signers: &'a Bitfield,
}

impl Chain {
    /// Sets the current slot. Votes from before the previous slot are dropped.
    pub fn set_slot(&mut self, slot: Slot) {
        self.view.begin();
        let frozen = self.view.frozen.iter_mut();
        frozen
            .chain([&mut self.latest])
            .for_each(|votes| votes.set_slot(slot));
    }

    /// Sets the vote that this node casts, or would cast, in its slot. It always counts.
    pub(crate) fn set_own_vote(&mut self, vote: &Vote) {
        let frozen = self.view.frozen.iter_mut();
        for votes in frozen.chain([&mut self.latest]) {
            if votes.check_slot(vote.slot).is_ok() {
                votes.by_slot.entry(vote.slot).or_default().set_own(vote);
            }
        }
    }

    /// Counts verified votes. `signers` are the positions of a committee that cast `vote`, under
    /// the assignment of the vote's epoch in its head's chain. Returns how many of them had not
    /// been seen to cast it before.
    ///
    /// # Errors
    ///
    /// [`Reject::TooOld`] and [`Reject::TooEarly`] outside the current slot and its neighbours,
    /// [`Reject::Full`] if the committee has
    /// [`BALLOTS_PER_COMMITTEE_MAX`](super::BALLOTS_PER_COMMITTEE_MAX) other ballots and none is
    /// lighter, and as `check_consistent`.
    ///
    /// # Panics
    ///
    /// If the positions are not those of a committee.
    pub fn add_votes(
        &mut self,
        vote: &Vote,
        assignment: &Assignment,
        committee: u16,
        signers: &Bitfield,
    ) -> Result<u32, Reject> {
        let cast = Cast {
            vote,
            assignment,
            committee,
            signers,
        };
        self.count_votes(&cast, None)
    }

    /// Like [`add_votes`](Self::add_votes), for votes that may come in a block: those in the block
    /// of the current slot's proposer count even if the view is frozen.
    ///
    /// # Errors
    ///
    /// As [`add_votes`](Self::add_votes).
    ///
    /// # Panics
    ///
    /// As [`add_votes`](Self::add_votes).
    pub(crate) fn count_votes(
        &mut self,
        cast: &Cast<'_>,
        block: Option<&Header>,
    ) -> Result<u32, Reject> {
        self.latest.check_slot(cast.vote.slot)?;
        self.check_consistent(cast.vote)?;
        // No peer can trigger this: the decoder fixes a support's length by the layout, and
        // evidence made here is checked (`evidence_fits`).
        let len = self.layout.committee_len(cast.committee) as usize;
        assert_eq!(cast.signers.len(), len, "positions of a committee");
        let scale = Scale {
            supports: &self.supports,
            weights: &self.weights,
            assignment: cast.assignment,
            committee: cast.committee,
        };
        if let Some(frozen) = &mut self.view.frozen
            && block.is_some_and(|block| block.slot == self.latest.slot)
        {
            // Refusals are counted once, in the view with all votes.
            let _ = frozen.add(&scale, cast.vote, cast.signers);
        }
        self.latest.add(&scale, cast.vote, cast.signers)
    }

    /// Returns the number of verified votes that the fork choice did not count.
    pub(crate) fn uncounted(&self) -> Uncounted {
        self.latest.uncounted
    }

    /// Bytes used by the sets of validators seen to cast a vote, each counted once.
    pub(crate) fn voters_bytes(&self) -> u64 {
        let views = self.view.frozen.iter().chain([&self.latest]);
        let ballots = views.flat_map(|votes| votes.by_slot.values());
        let sets = ballots.flat_map(|ballots| ballots.sets());
        let sets: BTreeMap<_, _> = sets.map(|set| (Arc::as_ptr(set), set)).collect();
        sets.values()
            .map(|set| size_of_val(set.words()) as u64)
            .sum()
    }

    /// Bytes used by the ballots in addition to their sets.
    #[cfg(test)]
    pub(crate) fn ballots_bytes(&self) -> usize {
        self.latest
            .by_slot
            .values()
            .map(|ballots| ballots.table_bytes())
            .sum()
    }

    /// The counted votes of a slot, with the number of validators seen to cast each.
    #[cfg(test)]
    pub(super) fn counts(&self, slot: Slot) -> Vec<VoteCount> {
        let ballots = self.latest.by_slot.get(&slot);
        ballots.map_or_else(Vec::new, |ballots| ballots.counts(&self.weights))
    }

    /// The heaviest vote of a slot, equivocators included. Ties go to the greater vote.
    #[cfg(test)]
    pub(super) fn strongest_vote(&self, slot: Slot) -> Option<VoteCount> {
        let counts = self.counts(slot).into_iter();
        counts.max_by_key(|count| (count.weight, count.vote))
    }

    /// Returns the head of the chain in the slot of the last [`set_slot`](Self::set_slot), as the
    /// policy sees it. This node votes for it.
    pub fn head(&self) -> Root {
        let votes = self.view.frozen.as_ref().unwrap_or(&self.latest);
        let boost = self.view.boost(self.weights.total());
        self.heaviest(votes, boost, |root| !self.view.is_late(root))
    }

    /// Returns the head given all known votes: the parent for a proposal.
    pub(crate) fn proposal_parent(&self) -> Root {
        self.heaviest(&self.latest, None, |_| true)
    }

    fn heaviest(
        &self,
        votes: &LatestVotes,
        boost: Option<(Root, u64)>,
        counts: impl Fn(&Root) -> bool,
    ) -> Root {
        // Start at the justified block, or at the base if that was dropped.
        let start = self.by_root.get(&self.justified.root).copied();
        let start = start.unwrap_or(0).max(self.base_index());
        let nodes = &self.nodes[start..];
        let mut weights = self.own_weights(start, votes, boost);
        // Children come after their parents. Going from the back, each subtree is complete before
        // it is added to its parent and compared with its siblings.
        let mut best: Vec<Option<usize>> = vec![None; nodes.len()];
        // Branches that do not descend from the start are added up as well, but never reach it.
        for index in (1..nodes.len()).rev() {
            let parent = nodes[index].parent.and_then(|i| i.checked_sub(start));
            // A late block hides its whole branch: the weight of its descendants goes no further
            // up.
            let Some(parent) = parent.filter(|_| counts(&nodes[index].root)) else {
                continue;
            };
            weights[parent] += weights[index];
            let key = |i: usize| (weights[i], nodes[i].root);
            if best[parent].is_none_or(|sibling| key(index) > key(sibling)) {
                best[parent] = Some(index);
            }
        }
        let mut head = 0;
        while let Some(next) = best[head] {
            head = next;
        }
        nodes[head].root
    }

    /// Weight of the latest votes for each block from an index on, not counting its descendants.
    pub(super) fn own_weights(
        &self,
        start: usize,
        votes: &LatestVotes,
        boost: Option<(Root, u64)>,
    ) -> Vec<u64> {
        let mut weights = vec![0u64; self.nodes.len() - start];
        let counted = votes.weights(|one, next| one.weights(&self.weights, next));
        for (root, weight) in counted.into_iter().chain(boost) {
            let index = self.by_root.get(&root).and_then(|i| i.checked_sub(start));
            if let Some(index) = index {
                weights[index] += weight;
            }
        }
        weights
    }

    /// Returns the finalised block and its descendants, each after its parent, with their weights
    /// given all known votes.
    pub fn tree(&self) -> Vec<Weighed> {
        let start = self.by_root.get(&self.finalised.root).copied();
        let start = start.unwrap_or(0);
        let mut weights = self.own_weights(start, &self.latest, None);
        let nodes = &self.nodes[start..];
        for index in (1..nodes.len()).rev() {
            let parent = nodes[index].parent.and_then(|i| i.checked_sub(start));
            if let Some(parent) = parent {
                weights[parent] += weights[index];
            }
        }
        let weighed = nodes.iter().zip(weights);
        weighed
            .map(|(node, weight)| Weighed {
                root: node.root,
                header: node.header,
                weight,
            })
            .collect()
    }

    #[cfg(test)]
    pub(super) fn vote_weights(&self) -> Vec<(Root, u64)> {
        let latest = &self.latest;
        latest.weights(|one, next| one.weights(&self.weights, next))
    }

    #[cfg(test)]
    pub(super) fn vote_weights_anew(&self) -> Vec<(Root, u64)> {
        let latest = &self.latest;
        latest.weights(|one, next| one.weights_anew(&self.weights, next))
    }
}
