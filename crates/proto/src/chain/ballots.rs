//! The ballots of a slot: who of which committee was seen to cast which vote.
//!
//! Each committee keeps its [`BALLOTS_PER_COMMITTEE_MAX`] heaviest ballots, and beside them the own
//! one, that is the vote that this machine casts or would cast. Where there is no room, a ballot
//! displaces the lightest one if it is heavier, as far as both are known at that time. The weight
//! of a ballot is that of its voters who were seen to cast no other in the slot. So whoever wants to
//! keep w votes of a committee out of the count needs 64 ballots of at least w voters of the same
//! committee who vote for nothing else: 64·w votes given for w taken. Committees are compared each
//! by itself, so the order in which their collections come does not matter.
//!
//! Who cast two votes is remembered although one of them gives way or is refused.
//!
//! Sets are immutable and shared with everybody who has the same store of them. What a ballot weighs
//! is counted when a vote comes, not when the head is asked for.

use alphorn_types::{Assignment, Bitfield, Validator};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::seats::{BALLOTS_PER_COMMITTEE_MAX, Part, Scale, Seats};
use super::weights::Weights;
use crate::wire::{Reject, Root, Vote};

/// Most assignments to committees in a slot: a second one is that of a branch that parted before the
/// last epoch.
pub(crate) const ELECTORATES_MAX: usize = 2;

/// Most sets of validators of a slot that are kept: for each ballot, and who voted once and twice.
pub(crate) const SETS_MAX: usize = ELECTORATES_MAX * (BALLOTS_PER_COMMITTEE_MAX + 3);

/// How many validators were seen to cast a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteCount {
    /// The vote.
    pub vote: Vote,
    /// Validators, equivocators included.
    pub signers: u32,
    /// What they weigh.
    pub weight: u64,
}

/// Verified votes that the fork choice does not count, because the committee had heavier ballots.
/// Both only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// Votes of ballots that were not taken, each time that they came.
    pub refused: u64,
    /// Votes of ballots that were counted and gave way.
    pub displaced: u64,
}

/// Votes of a slot under one assignment to committees.
#[derive(Clone, Debug)]
struct Electorate {
    assignment: Assignment,
    committees: BTreeMap<u16, Seats>,
}

/// The votes of a slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Ballots {
    votes: Vec<Vote>,
    own: Option<Vote>,
    electorates: Vec<Electorate>,
}

impl Electorate {
    /// Adds the validators who voted, as positions of an epoch under another assignment. Both tables
    /// of an assignment are shared by all who have it.
    fn voted_as(&self, other: &Assignment, into: &mut Bitfield) {
        for (&committee, seats) in &self.committees {
            let members = self.assignment.committee_members(committee);
            for position in seats.voted.iter_ones() {
                if let Some(position) = other.position(Validator(members[position])) {
                    into.set(position as usize);
                }
            }
        }
    }

    fn weight(&self) -> u64 {
        let parts = self.committees.values().flat_map(|seats| &seats.parts);
        parts.map(|part| u64::from(part.counted)).sum()
    }

    fn has(&self, ballot: u32) -> bool {
        let mut parts = self.committees.values().flat_map(|seats| &seats.parts);
        parts.any(|part| part.ballot == ballot)
    }
}

impl Ballots {
    /// Says which vote is cast here.
    pub(super) fn set_own(&mut self, vote: &Vote) {
        self.own = Some(*vote);
    }

    /// Adds signers; how many of them were not seen to cast the vote before.
    pub(super) fn add(
        &mut self,
        scale: &Scale<'_>,
        vote: &Vote,
        signers: &Bitfield,
        lost: &mut Uncounted,
    ) -> Result<u32, Reject> {
        let all = signers.count_ones() as u64;
        let Some(electorate) = self.electorate(scale, vote, signers, lost) else {
            lost.refused += all;
            return Err(Reject::Full);
        };
        let ballot = self.ballot(vote);
        let own = self.own.and_then(|own| self.find(&own));
        let signers = scale.supports.intern(Cow::Borrowed(signers));
        let seats = self.electorates[electorate]
            .committees
            .entry(scale.committee);
        let seats = seats.or_insert_with(|| Seats::new(signers.len(), scale));
        let added = seats.add(scale, ballot, &signers, own);
        match &added {
            Ok((_, Some(displaced))) => {
                lost.displaced += u64::from(displaced.all);
                self.sweep(displaced.ballot);
            }
            Ok((_, None)) => {}
            Err(_) => {
                lost.refused += all;
                self.sweep(ballot);
            }
        }
        added.map(|(new, _)| new)
    }

    /// Weighs anew whose latest vote is one of this slot in a committee, with the next slot's votes.
    pub(super) fn expire(&mut self, scale: &Scale<'_>, next: Option<&Self>) {
        let same = |one: &&Electorate| is_same(&one.assignment, scale.assignment);
        let next = next.and_then(|next| next.electorates.iter().find(same));
        let next = next.and_then(|next| next.committees.get(&scale.committee));
        let mut here = self.electorates.iter_mut();
        if let Some(here) = here.find(|one| is_same(&one.assignment, scale.assignment))
            && let Some(seats) = here.committees.get_mut(&scale.committee)
        {
            seats.expire(scale, next);
        }
    }

    /// The index of the committees of a vote, none if there is no room for them.
    fn electorate(
        &mut self,
        scale: &Scale<'_>,
        vote: &Vote,
        signers: &Bitfield,
        lost: &mut Uncounted,
    ) -> Option<usize> {
        let mut known = self.electorates.iter();
        let known = known.position(|one| is_same(&one.assignment, scale.assignment));
        if known.is_some() {
            return known;
        }
        if self.electorates.len() >= ELECTORATES_MAX {
            let own = self.own.and_then(|own| self.find(&own));
            let others = self.electorates.iter().zip(0..);
            let others = others.filter(|(one, _)| own.is_none_or(|own| !one.has(own)));
            let (weight, lightest) = others.map(|(one, i)| (one.weight(), i)).min()?;
            let is_own = self.own.as_ref() == Some(vote);
            if !is_own && weight >= u64::from(scale.weigh(signers, None)) {
                return None;
            }
            let gone = self.electorates.swap_remove(lightest);
            let parts = gone.committees.into_values().flat_map(|seats| seats.parts);
            let mut ballots = BTreeSet::new();
            for part in parts {
                lost.displaced += u64::from(part.all);
                ballots.insert(part.ballot);
            }
            // From the back: the last vote takes the index of one that goes.
            ballots
                .into_iter()
                .rev()
                .for_each(|ballot| self.sweep(ballot));
        }
        self.electorates.push(Electorate {
            assignment: scale.assignment.clone(),
            committees: BTreeMap::new(),
        });
        Some(self.electorates.len() - 1)
    }

    fn find(&self, vote: &Vote) -> Option<u32> {
        let index = self.votes.iter().position(|known| known == vote)?;
        u32::try_from(index).ok()
    }

    fn ballot(&mut self, vote: &Vote) -> u32 {
        self.find(vote).unwrap_or_else(|| {
            self.votes.push(*vote);
            self.votes.len() as u32 - 1
        })
    }

    /// Forgets a vote that no committee has any more; the last one takes its index.
    fn sweep(&mut self, ballot: u32) {
        if self.electorates.iter().any(|one| one.has(ballot)) {
            return;
        }
        self.votes.swap_remove(ballot as usize);
        let last = self.votes.len() as u32;
        let all = self
            .electorates
            .iter_mut()
            .flat_map(|one| one.committees.values_mut());
        for part in all.flat_map(|seats| &mut seats.parts) {
            if part.ballot == last {
                part.ballot = ballot;
            }
        }
    }

    /// Validators for each vote, equivocators included.
    pub(super) fn counts(&self, weights: &Weights) -> Vec<VoteCount> {
        let count = |vote: &Vote| VoteCount {
            vote: *vote,
            signers: 0,
            weight: 0,
        };
        let mut counts: Vec<VoteCount> = self.votes.iter().map(count).collect();
        for (electorate, committee, part) in self.parts() {
            let count = &mut counts[part.ballot as usize];
            count.signers += part.all;
            count.weight += match weights.are_equal() {
                true => part.all.into(),
                false => {
                    let members = electorate.assignment.committee_members(committee);
                    weights.sum(members, &part.signers)
                }
            };
        }
        counts
    }

    /// The weight of those who voted once in this slot and were not seen to vote in `next`, for each
    /// head.
    pub(super) fn weights(&self, weights: &Weights, next: Option<&Self>) -> Vec<(Root, u64)> {
        let mut heads: Vec<_> = self.votes.iter().map(|vote| (vote.head, 0)).collect();
        let later = next.into_iter().flat_map(|next| &next.electorates);
        let others: Vec<&Electorate> = self.electorates.iter().chain(later).collect();
        let same = |pair: &[&Electorate]| is_same(&pair[0].assignment, &pair[1].assignment);
        // Usually all votes are under one assignment, and are weighed already.
        if others.windows(2).all(same) {
            for (_, _, part) in self.parts() {
                let weight = match next {
                    Some(_) => part.latest,
                    None => part.counted,
                };
                heads[part.ballot as usize].1 += u64::from(weight);
            }
            return heads;
        }
        for electorate in &self.electorates {
            let gone = electorate.gone(&others);
            for (&committee, seats) in &electorate.committees {
                let range = electorate.assignment.layout().committee_range(committee);
                let gone = gone.extract(range.start as usize..range.end as usize);
                let gone = seats.gone(&gone);
                let members = electorate.assignment.committee_members(committee);
                for part in &seats.parts {
                    heads[part.ballot as usize].1 +=
                        weights.sum_without(members, &part.signers, &gone);
                }
            }
        }
        heads
    }

    fn parts(&self) -> impl Iterator<Item = (&Electorate, u16, &Part)> {
        self.electorates.iter().flat_map(|electorate| {
            electorate
                .committees
                .iter()
                .flat_map(move |(&committee, seats)| {
                    let parts = seats.parts.iter();
                    parts.map(move |part| (electorate, committee, part))
                })
        })
    }

    /// The sets of validators.
    pub(super) fn sets(&self) -> impl Iterator<Item = &Arc<Bitfield>> {
        let committees = self
            .electorates
            .iter()
            .flat_map(|one| one.committees.values());
        committees.flat_map(Seats::sets)
    }

    /// Bytes beside the sets.
    pub(super) fn table_bytes(&self) -> usize {
        let committees = self
            .electorates
            .iter()
            .flat_map(|one| one.committees.values());
        let seats: usize = committees.map(Seats::table_bytes).sum();
        self.votes.capacity() * size_of::<Vote>() + seats
    }
}

impl Electorate {
    /// Epoch positions of those who voted under one of the other assignments or in the next slot.
    fn gone(&self, others: &[&Self]) -> Bitfield {
        let layout = self.assignment.layout();
        let mut gone = Bitfield::new(layout.validators() as usize);
        for other in others.iter().filter(|other| !std::ptr::eq(**other, self)) {
            if is_same(&self.assignment, &other.assignment) {
                for (&committee, seats) in &other.committees {
                    let first = layout.committee_range(committee).start;
                    gone.write_range(first as usize, &seats.voted);
                }
            } else {
                other.voted_as(&self.assignment, &mut gone);
            }
        }
        gone
    }
}

/// Whether two assignments are the same: usually they share their table.
fn is_same(a: &Assignment, b: &Assignment) -> bool {
    std::ptr::eq(a.members(), b.members()) || a.members() == b.members()
}
