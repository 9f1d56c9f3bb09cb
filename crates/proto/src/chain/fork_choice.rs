//! The fork choice: LMD-GHOST with vote expiry, by word operations on bit sets.
//!
//! From the block of the highest justified checkpoint, step to the child whose subtree has the
//! greatest weight, until there is none; of equal ones the greater root wins. In slot s, weight
//! comes from votes of slot s, and from votes of slot s − 1 by validators without one in s. A
//! validator with two votes in one slot counts for neither, and no longer for its earlier one.

use alphorn_types::{Assignment, Bitfield, Slot};
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Chain;
use crate::wire::{Reject, Root, Vote};

/// Most distinct votes of a slot that count.
pub const VOTES_PER_SLOT_MAX: usize = 16;

/// Slots whose votes are counted at one time: the last one that was set and its neighbours.
pub(crate) const VOTED_SLOTS: u64 = 3;

/// Validators seen to cast one vote.
#[derive(Clone, Debug)]
struct Ballot {
    vote: Vote,
    /// Who sits at the positions of `signers`: that of the vote's epoch in its head's chain.
    assignment: Assignment,
    /// One bit for each epoch position.
    signers: Bitfield,
}

/// How many validators were seen to cast a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteCount {
    /// The vote.
    pub vote: Vote,
    /// Validators, equivocators included.
    pub signers: u32,
}

/// The votes of the slots that the fork choice can count.
#[derive(Clone, Debug, Default)]
pub(super) struct LatestVotes {
    slot: Slot,
    by_slot: BTreeMap<Slot, Vec<Ballot>>,
}

#[cfg(test)]
impl LatestVotes {
    /// The committees under which a vote was counted first.
    pub(super) fn committees(&self, vote: &Vote) -> Option<Assignment> {
        let ballots = self.by_slot.get(&vote.slot)?;
        let ballot = ballots.iter().find(|ballot| ballot.vote == *vote)?;
        Some(ballot.assignment.clone())
    }
}

impl Chain {
    /// Says which slot it is. Votes of slots before the previous one are forgotten.
    pub fn set_slot(&mut self, slot: Slot) {
        self.latest.slot = slot;
        let oldest = slot.saturating_sub(1);
        self.latest.by_slot = self.latest.by_slot.split_off(&oldest);
    }

    /// Counts verified votes: `signers` are the epoch positions from `first` on who cast `vote`,
    /// under the committees of the vote's epoch in its head's chain. Returns how many of them were
    /// not seen to cast it before.
    ///
    /// # Errors
    ///
    /// [`Reject::TooOld`] and [`Reject::TooEarly`] outside the current slot and its neighbours,
    /// [`Reject::Full`] if the slot has [`VOTES_PER_SLOT_MAX`] other votes, and as
    /// [`check_vote`](Self::check_vote).
    ///
    /// # Panics
    ///
    /// If the positions are not all of the layout.
    pub fn add_votes(
        &mut self,
        vote: &Vote,
        assignment: &Assignment,
        first: u32,
        signers: &Bitfield,
    ) -> Result<u32, Reject> {
        if vote.slot < self.latest.slot.saturating_sub(1) {
            return Err(Reject::TooOld);
        }
        if vote.slot > self.latest.slot.next() {
            return Err(Reject::TooEarly);
        }
        self.check_vote(vote)?;
        let positions = self.layout.validators() as usize;
        let ballots = self.latest.by_slot.entry(vote.slot).or_default();
        let index = match ballots.iter().position(|ballot| ballot.vote == *vote) {
            Some(index) => index,
            None if ballots.len() == VOTES_PER_SLOT_MAX => return Err(Reject::Full),
            None => {
                ballots.push(Ballot {
                    vote: *vote,
                    assignment: assignment.clone(),
                    signers: Bitfield::new(positions),
                });
                ballots.len() - 1
            }
        };
        let seen = &mut ballots[index].signers;
        let range = first as usize..first as usize + signers.len();
        let before = seen.count_range(range.clone());
        seen.write_range(range.start, signers);
        Ok((seen.count_range(range) - before) as u32)
    }

    /// Bytes of the sets of validators that were seen to cast a vote.
    pub(crate) fn voters_bytes(&self) -> u64 {
        let ballots = self.latest.by_slot.values().flatten();
        ballots
            .map(|ballot| size_of_val(ballot.signers.words()) as u64)
            .sum()
    }

    /// The vote of a slot that most validators were seen to cast; of equal ones the greater.
    pub fn strongest_vote(&self, slot: Slot) -> Option<VoteCount> {
        let ballots = self.latest.by_slot.get(&slot)?;
        ballots
            .iter()
            .map(|ballot| VoteCount {
                vote: ballot.vote,
                signers: ballot.signers.count_ones() as u32,
            })
            .max_by_key(|count| (count.signers, count.vote))
    }

    /// Whether two thirds of all validators were seen to cast one vote of a slot.
    pub fn observed_supermajority(&self, slot: Slot) -> bool {
        let all = u64::from(self.layout.validators());
        self.strongest_vote(slot)
            .is_some_and(|count| 3 * u64::from(count.signers) >= 2 * all)
    }

    /// The head of the chain in the slot of the last [`set_slot`](Self::set_slot).
    pub fn head(&self) -> Root {
        let mut weights = vec![0u64; self.nodes.len()];
        for (root, weight) in self.vote_weights() {
            if let Some(&index) = self.by_root.get(&root) {
                weights[index] += weight;
            }
        }
        // Children stand behind their parents: from the back, each subtree is complete before it
        // is added to its parent and compared with its siblings.
        let mut best: Vec<Option<usize>> = vec![None; self.nodes.len()];
        for index in (0..self.nodes.len()).rev() {
            let Some(parent) = self.nodes[index].parent else {
                continue;
            };
            weights[parent] += weights[index];
            let key = |i: usize| (weights[i], self.nodes[i].root);
            if best[parent].is_none_or(|sibling| key(index) > key(sibling)) {
                best[parent] = Some(index);
            }
        }
        let mut head = self.justified.root;
        let mut index = self.by_root.get(&head).copied();
        while let Some(i) = index {
            head = self.nodes[i].root;
            index = best[i];
        }
        head
    }

    /// Validators whose latest vote is for a head, for each vote that counts.
    fn vote_weights(&self) -> Vec<(Root, u64)> {
        let slot = self.latest.slot;
        let ballots = |slot: Slot| self.latest.by_slot.get(&slot).map_or(&[][..], |b| b);
        let current = ballots(slot);
        let previous = match slot.0 {
            0 => &[][..],
            _ => ballots(slot.saturating_sub(1)),
        };
        // Usually all votes are over one assignment, and positions can be compared as they are.
        let mut all = current.iter().chain(previous);
        let first = all.next().map(|ballot| &ballot.assignment);
        let same = first.is_some_and(|first| all.all(|b| is_same(first, &b.assignment)));
        let (current, previous) = (sets(current, same), sets(previous, same));
        let positions = self.layout.validators() as usize;
        let (voted, equivocated) = once_and_twice(&current, positions);
        let (_, mut expired) = once_and_twice(&previous, positions);
        expired.union_with(&voted);
        let count = |set: &Bitfield, not: &Bitfield| set.count_and_not(not) as u64;
        let current = current
            .iter()
            .map(|(head, set)| (*head, count(set, &equivocated)));
        let previous = previous
            .iter()
            .map(|(head, set)| (*head, count(set, &expired)));
        current.chain(previous).collect()
    }
}

/// Whether two assignments share their table; two equal ones that do not are only slower.
fn is_same(a: &Assignment, b: &Assignment) -> bool {
    std::ptr::eq(a.members(), b.members())
}

/// The signers of each ballot with its head, as epoch positions or as validator indices.
fn sets(ballots: &[Ballot], by_position: bool) -> Vec<(Root, Cow<'_, Bitfield>)> {
    ballots
        .iter()
        .map(|ballot| {
            let set = match by_position {
                true => Cow::Borrowed(&ballot.signers),
                false => Cow::Owned(by_validator(ballot)),
            };
            (ballot.vote.head, set)
        })
        .collect()
}

/// The signers of a ballot as validator indices.
fn by_validator(ballot: &Ballot) -> Bitfield {
    let mut validators = Bitfield::new(ballot.signers.len());
    for position in ballot.signers.iter_ones() {
        validators.set(ballot.assignment.members()[position] as usize);
    }
    validators
}

/// Members of at least one set, and of at least two.
fn once_and_twice(sets: &[(Root, Cow<'_, Bitfield>)], len: usize) -> (Bitfield, Bitfield) {
    let (mut once, mut twice) = (Bitfield::new(len), Bitfield::new(len));
    for (_, set) in sets {
        let mut again = once.clone();
        again.intersect_with(set);
        twice.union_with(&again);
        once.union_with(set);
    }
    (once, twice)
}
