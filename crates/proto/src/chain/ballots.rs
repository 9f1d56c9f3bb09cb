//! The ballots of a slot: which members of which committee were seen to cast which vote.
//!
//! Each committee keeps its [`BALLOTS_PER_COMMITTEE_MAX`] heaviest ballots, plus the own one, that
//! is, the vote that this node casts or would cast. When there is no room, a ballot displaces the
//! lightest one if it is heavier, as far as both are known at that time. The weight of a ballot is
//! that of its voters who were not seen to cast another vote in the slot. To keep w votes of a
//! committee out of the count, an attacker needs 64 ballots of at least w voters of the same
//! committee who vote for nothing else: 64·w votes spent to suppress w. Each committee is evaluated
//! on its own, so the order in which their collections arrive does not matter.
//!
//! Voters with two votes are remembered even if one of the ballots is displaced or refused.
//!
//! Sets are immutable and shared between all users of the same store. The weight of a ballot is
//! updated when a vote arrives, not when the head is computed. If the committees change in the next
//! slot, each vote of that slot is subtracted once, from the ballot that its validator cast before.
//! Only a slot that has votes under two assignments is reweighed for each head.

use alphorn_types::{Assignment, Bitfield, Validator};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::seats::{BALLOTS_PER_COMMITTEE_MAX, Part, Scale, Seats};
use super::weights::Weights;
use crate::wire::{Reject, Root, Vote};

/// Maximum number of committee assignments in a slot. A second one comes from a branch that forked
/// before the last epoch.
pub(crate) const ELECTORATES_MAX: usize = 2;

/// Maximum number of validator sets kept per slot: one per ballot, those who voted, and those who
/// voted twice.
pub(crate) const SETS_MAX: usize = ELECTORATES_MAX * (BALLOTS_PER_COMMITTEE_MAX + 3);

/// Number of validators seen to cast a vote.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VoteCount {
    /// The vote.
    pub(super) vote: Vote,
    /// Number of validators, equivocators included.
    pub(super) signers: u32,
    /// Their weight.
    pub(super) weight: u64,
}

/// Verified votes that the fork choice does not count because the committee had heavier ballots.
/// Both counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uncounted {
    /// Votes of ballots that were not accepted, counted each time they arrive.
    pub refused: u64,
    /// Votes of ballots that were counted and later displaced.
    pub displaced: u64,
}

/// Votes of a slot under one committee assignment.
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
    /// Adds the validators that voted, as epoch positions under another assignment.
    fn voted_as(&self, other: &Assignment, into: &mut Bitfield) {
        for (&committee, seats) in &self.committees {
            let members = self.assignment.committee_members(committee);
            translate(members, &seats.voted, other, into);
        }
    }

    /// Returns the validators that voted, by epoch position.
    fn voted(&self) -> Bitfield {
        let layout = self.assignment.layout();
        let mut voted = Bitfield::new(layout.validators() as usize);
        for (&committee, seats) in &self.committees {
            let first = layout.committee_range(committee).start;
            voted.write_range(first as usize, &seats.voted);
        }
        voted
    }

    /// Returns the positions of the committee's `voters` that voted here; none if there are none.
    fn voted_of(&self, scale: &Scale<'_>, voters: &Bitfield) -> Option<Cow<'_, Bitfield>> {
        if is_same(&self.assignment, scale.assignment) {
            let seats = self.committees.get(&scale.committee)?;
            return Some(Cow::Borrowed(&seats.voted));
        }
        let voted = self.voted();
        let members = scale.assignment.committee_members(scale.committee);
        let mut again = Bitfield::new(voters.len());
        for seat in voters.iter_ones() {
            let position = self.assignment.position(Validator(members[seat]));
            if position.is_some_and(|position| voted.get(position as usize)) {
                again.set(seat);
            }
        }
        Some(Cow::Owned(again))
    }

    /// Applies `change` to the ballots that count the votes of a committee's positions, if these
    /// positions belong to another assignment.
    fn shift(&mut self, scale: &Scale<'_>, voters: &Bitfield, change: fn(u32, u32) -> u32) {
        let layout = self.assignment.layout();
        let mut moved = Bitfield::new(layout.validators() as usize);
        let members = scale.assignment.committee_members(scale.committee);
        translate(members, voters, &self.assignment, &mut moved);
        for (&committee, seats) in &mut self.committees {
            let range = layout.committee_range(committee);
            let moved = moved.extract(range.start as usize..range.end as usize);
            let members = self.assignment.committee_members(committee);
            seats.shift(scale.weights, members, moved, change);
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
    /// Sets the vote that this node casts.
    pub(super) fn set_own(&mut self, vote: &Vote) {
        self.own = Some(*vote);
    }

    /// Adds signers. Returns how many of them had not been seen to cast the vote before.
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
        // After the electorate, whose displacement of another one may drop votes and change
        // indices.
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

    /// Returns the members of a committee seen to vote.
    pub(super) fn voted(&self, scale: &Scale<'_>) -> Option<Arc<Bitfield>> {
        let mut electorates = self.electorates.iter();
        let electorate = electorates.find(|one| is_same(&one.assignment, scale.assignment))?;
        let seats = electorate.committees.get(&scale.committee)?;
        Some(seats.voted.clone())
    }

    /// Reweighs a committee by the validators whose latest vote is in this slot, given the next
    /// slot's votes.
    pub(super) fn expire(&mut self, scale: &Scale<'_>, next: Option<&Self>) {
        let mut here = self.electorates.iter_mut();
        let here = here.find(|one| is_same(&one.assignment, scale.assignment));
        if let Some(seats) = here.and_then(|here| here.committees.get_mut(&scale.committee)) {
            // One suffices: where there are two, the slot is reweighed for each head and this
            // result is not used.
            let next = next.and_then(|next| next.electorates.first());
            let gone = next.and_then(|next| next.voted_of(scale, &seats.voted));
            seats.expire(scale, gone.as_deref());
        }
    }

    /// Updates the weights after a change since `before` in which members of a committee were seen
    /// to vote in the next slot.
    pub(super) fn follow(&mut self, scale: &Scale<'_>, next: &Self, before: Option<&Bitfield>) {
        // Slots with two electorates are reweighed for each head.
        let ([here], [later]) = (&mut *self.electorates, &*next.electorates) else {
            return;
        };
        if is_same(&here.assignment, &later.assignment) {
            return self.expire(scale, Some(next));
        }
        let Some(seats) = later.committees.get(&scale.committee) else {
            return;
        };
        let mut fresh = Bitfield::clone(&seats.voted);
        if let Some(before) = before {
            fresh.subtract(before);
            let mut gone = before.clone();
            gone.subtract(&seats.voted);
            if gone.any() {
                here.shift(scale, &gone, |latest, weight| latest + weight);
            }
        }
        if fresh.any() {
            // No underflow: none of them had voted in the next slot before, so `latest` still has
            // their weight.
            here.shift(scale, &fresh, |latest, weight| latest - weight);
        }
    }

    /// Returns the index of a vote's committees; none if there is no room for them.
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
            // The electorate with the own vote is never displaced.
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
            // From the back: the last vote takes the index of a removed one.
            ballots
                .into_iter()
                .rev()
                .for_each(|ballot| self.sweep(ballot));
        }
        // Usually one, with one vote: a simulation has one chain per node.
        self.electorates.reserve_exact(1);
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
            if self.votes.is_empty() {
                self.votes.reserve_exact(1);
            }
            self.votes.push(*vote);
            self.votes.len() as u32 - 1
        })
    }

    /// Drops a vote that no committee has any more; the last one takes its index.
    fn sweep(&mut self, ballot: u32) {
        if self.electorates.iter().any(|one| one.has(ballot)) {
            return;
        }
        // If it was the last itself, no part has its index, and the loop below changes nothing.
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

    /// Number of validators per vote, equivocators included.
    #[cfg(test)]
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

    /// Weight per head of the validators that voted once in this slot and were not seen to vote in
    /// `next`.
    pub(super) fn weights(&self, weights: &Weights, next: Option<&Self>) -> Vec<(Root, u64)> {
        let is_weighed = |one: &Self| one.electorates.len() <= 1;
        if !is_weighed(self) || !next.is_none_or(is_weighed) {
            return self.weights_anew(weights, next);
        }
        let mut heads = self.heads();
        for (_, _, part) in self.parts() {
            let weight = match next {
                Some(_) => part.latest,
                None => part.counted,
            };
            heads[part.ballot as usize].1 += u64::from(weight);
        }
        heads
    }

    /// The same, computed from the sets alone.
    pub(super) fn weights_anew(&self, weights: &Weights, next: Option<&Self>) -> Vec<(Root, u64)> {
        let mut heads = self.heads();
        let later = next.into_iter().flat_map(|next| &next.electorates);
        let others: Vec<&Electorate> = self.electorates.iter().chain(later).collect();
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

    fn heads(&self) -> Vec<(Root, u64)> {
        self.votes.iter().map(|vote| (vote.head, 0)).collect()
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

    /// Iterates over the sets of validators.
    pub(super) fn sets(&self) -> impl Iterator<Item = &Arc<Bitfield>> {
        let committees = self
            .electorates
            .iter()
            .flat_map(|one| one.committees.values());
        committees.flat_map(Seats::sets)
    }

    /// Bytes used in addition to the sets.
    #[cfg(test)]
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
    /// Epoch positions of the validators that voted under one of the other assignments or in the
    /// next slot.
    fn gone(&self, others: &[&Self]) -> Bitfield {
        let layout = self.assignment.layout();
        let mut gone = Bitfield::new(layout.validators() as usize);
        for other in others.iter().filter(|other| !std::ptr::eq(**other, self)) {
            match is_same(&self.assignment, &other.assignment) {
                true => gone.union_with(&other.voted()),
                false => other.voted_as(&self.assignment, &mut gone),
            }
        }
        gone
    }
}

/// Adds members of a committee, as epoch positions under another assignment. Both tables of an
/// assignment are shared by all its users.
fn translate(members: &[u32], set: &Bitfield, other: &Assignment, into: &mut Bitfield) {
    for seat in set.iter_ones() {
        if let Some(position) = other.position(Validator(members[seat])) {
            into.set(position as usize);
        }
    }
}

/// Whether two assignments are the same: usually they share their table.
fn is_same(a: &Assignment, b: &Assignment) -> bool {
    std::ptr::eq(a.members(), b.members()) || a.members() == b.members()
}
