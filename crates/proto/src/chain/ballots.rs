//! The ballots of a slot: who of which committee was seen to cast which vote.
//!
//! Each committee keeps its [`BALLOTS_PER_COMMITTEE_MAX`] heaviest ballots, and beside them the own
//! one, that is the vote that this machine casts or would cast. Where there is no room, a ballot
//! displaces the lightest one if it is heavier, as far as both are known at that time. The weight
//! of a ballot is the number of its voters who were seen to cast no other in the slot. So whoever
//! wants to keep w votes of a committee out of the count needs 64 ballots of at least w voters of
//! the same committee who vote for nothing else: 64·w votes given for w taken. Committees are
//! compared each by itself, so the order in which their collections come does not matter.
//!
//! Who cast two votes is remembered although one of them gives way or is refused.

use alphorn_types::{Assignment, Bitfield, Validator};
use std::collections::BTreeMap;

use crate::wire::{Reject, Root, Vote};

/// Most ballots of a committee that count in a slot, besides the own one.
pub const BALLOTS_PER_COMMITTEE_MAX: usize = 64;

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

/// Who of a committee cast one vote.
#[derive(Clone, Debug)]
struct Part {
    /// Index of the vote.
    ballot: u32,
    /// Positions of the committee.
    signers: Bitfield,
    /// Signers.
    all: u32,
    /// Signers of no other ballot of the slot.
    counted: u32,
    /// Those of `counted` who were not seen to vote in the next slot, of the same committees.
    latest: u32,
}

/// The votes of a committee.
#[derive(Clone, Debug)]
struct Seats {
    parts: Vec<Part>,
    /// Who voted: the signers of all parts, and `twice`.
    voted: Bitfield,
    /// Who cast two votes, be they still among the parts or not.
    twice: Bitfield,
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

/// Signers that a committee adds to a ballot.
pub(super) struct Cast<'a> {
    pub(super) vote: &'a Vote,
    pub(super) assignment: &'a Assignment,
    pub(super) committee: u16,
    /// Positions of the committee.
    pub(super) signers: &'a Bitfield,
}

impl Seats {
    fn new(len: usize) -> Self {
        Self {
            parts: Vec::new(),
            voted: Bitfield::new(len),
            twice: Bitfield::new(len),
        }
    }

    /// Adds signers to a ballot. How many were not seen to cast it before, and the part that gave
    /// way.
    fn add(
        &mut self,
        ballot: u32,
        signers: &Bitfield,
        own: Option<u32>,
    ) -> Result<(u32, Option<Part>), Reject> {
        let mut displaced = None;
        let known = self.parts.iter().position(|part| part.ballot == ballot);
        let index = match known {
            Some(index) => index,
            None => {
                displaced = self.make_room(ballot, signers, own)?;
                self.parts.push(Part {
                    ballot,
                    signers: Bitfield::new(signers.len()),
                    all: 0,
                    counted: 0,
                    latest: 0,
                });
                self.parts.len() - 1
            }
        };
        let part = &mut self.parts[index];
        let mut fresh = signers.clone();
        fresh.subtract(&part.signers);
        let new = fresh.count_ones() as u32;
        part.all += new;
        part.counted += fresh.count_and_not(&self.voted) as u32;
        part.signers.union_with(&fresh);
        self.mark(&fresh);
        self.voted.union_with(&fresh);
        Ok((new, displaced))
    }

    /// Room for one more ballot, or the reason why it has none.
    fn make_room(
        &mut self,
        ballot: u32,
        signers: &Bitfield,
        own: Option<u32>,
    ) -> Result<Option<Part>, Reject> {
        let is_own = |ballot| own == Some(ballot);
        let others = || (0..self.parts.len()).filter(|&i| !is_own(self.parts[i].ballot));
        if is_own(ballot) || others().count() < BALLOTS_PER_COMMITTEE_MAX {
            return Ok(None);
        }
        let weight = signers.count_and_not(&self.voted) as u32;
        let lightest = others().min_by_key(|&i| self.parts[i].counted);
        match lightest.filter(|&i| self.parts[i].counted < weight) {
            Some(lightest) => {
                let part = self.parts.swap_remove(lightest);
                let mut only = part.signers.clone();
                only.subtract(&self.twice);
                self.voted.subtract(&only);
                Ok(Some(part))
            }
            None => {
                self.mark(signers);
                Err(Reject::Full)
            }
        }
    }

    /// Notes who of the signers of a ballot was seen to cast another.
    fn mark(&mut self, signers: &Bitfield) {
        if signers.count_and(&self.voted) == 0 {
            return;
        }
        let mut again = signers.clone();
        again.intersect_with(&self.voted);
        self.twice.union_with(&again);
        for part in &mut self.parts {
            part.counted = part.signers.count_and_not(&self.twice) as u32;
        }
    }

    /// Counts anew whose latest vote is one of this slot, after votes of the next one.
    fn expire(&mut self, next: Option<&Seats>) {
        let Some(next) = next else {
            let parts = self.parts.iter_mut();
            return parts.for_each(|part| part.latest = part.counted);
        };
        let mut gone = self.twice.clone();
        gone.union_with(&next.voted);
        for part in &mut self.parts {
            part.latest = part.signers.count_and_not(&gone) as u32;
        }
    }
}

impl Electorate {
    /// Validators who voted, as positions of other committees.
    fn voted_as(&self, other: &Assignment, into: &mut BTreeMap<u16, Bitfield>) {
        let layout = other.layout();
        for (&committee, seats) in &self.committees {
            let members = self.assignment.committee_members(committee);
            for position in seats.voted.iter_ones() {
                let validator = Validator(members[position]);
                let Some(position) = other.position(validator) else {
                    continue;
                };
                let committee = layout.cell_of(position).committee;
                let range = layout.committee_range(committee);
                into.entry(committee)
                    .or_insert_with(|| Bitfield::new((range.end - range.start) as usize))
                    .set((position - range.start) as usize);
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

    fn seats(&self, committee: u16) -> Option<&Seats> {
        self.committees.get(&committee)
    }
}

impl Ballots {
    /// Says which vote is cast here.
    pub(super) fn set_own(&mut self, vote: &Vote) {
        self.own = Some(*vote);
    }

    /// Adds signers; how many of them were not seen to cast the vote before.
    pub(super) fn add(&mut self, cast: &Cast<'_>, lost: &mut Uncounted) -> Result<u32, Reject> {
        let all = cast.signers.count_ones() as u64;
        let Some(electorate) = self.electorate(cast, lost) else {
            lost.refused += all;
            return Err(Reject::Full);
        };
        let ballot = self.ballot(cast.vote);
        let own = self.own.filter(|own| own == cast.vote).map(|_| ballot);
        let own = own.or_else(|| self.find(self.own.as_ref()?));
        let seats = self.electorates[electorate]
            .committees
            .entry(cast.committee);
        let seats = seats.or_insert_with(|| Seats::new(cast.signers.len()));
        let added = seats.add(ballot, cast.signers, own);
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

    /// Counts anew whose latest vote is one of this slot in a committee, with the next slot's votes.
    pub(super) fn expire(&mut self, assignment: &Assignment, committee: u16, next: Option<&Self>) {
        let same = |electorate: &&Electorate| is_same(&electorate.assignment, assignment);
        let next = next.and_then(|next| next.electorates.iter().find(same));
        let next = next.and_then(|next| next.seats(committee));
        let mut here = self.electorates.iter_mut();
        if let Some(here) = here.find(|one| is_same(&one.assignment, assignment))
            && let Some(seats) = here.committees.get_mut(&committee)
        {
            seats.expire(next);
        }
    }

    /// The index of the committees of a cast, none if there is no room for them.
    fn electorate(&mut self, cast: &Cast<'_>, lost: &mut Uncounted) -> Option<usize> {
        let mut known = self.electorates.iter();
        let known = known.position(|one| is_same(&one.assignment, cast.assignment));
        if known.is_some() {
            return known;
        }
        if self.electorates.len() >= ELECTORATES_MAX {
            let own = self.own.and_then(|own| self.find(&own));
            let others = self.electorates.iter().zip(0..);
            let others = others.filter(|(one, _)| own.is_none_or(|own| !one.has(own)));
            let (weight, lightest) = others.map(|(one, i)| (one.weight(), i)).min()?;
            let is_own = self.own.as_ref() == Some(cast.vote);
            if !is_own && weight >= cast.signers.count_ones() as u64 {
                return None;
            }
            lost.displaced += weight;
            let gone = self.electorates.swap_remove(lightest);
            let parts = gone.committees.into_values().flat_map(|seats| seats.parts);
            let mut ballots: Vec<u32> = parts.map(|part| part.ballot).collect();
            // From the back: the votes behind the one that goes move up.
            ballots.sort_unstable_by(|a, b| b.cmp(a));
            ballots.dedup();
            ballots.into_iter().for_each(|ballot| self.sweep(ballot));
        }
        self.electorates.push(Electorate {
            assignment: cast.assignment.clone(),
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
    pub(super) fn counts(&self) -> Vec<VoteCount> {
        let count = |vote: &Vote| VoteCount {
            vote: *vote,
            signers: 0,
        };
        let mut counts: Vec<VoteCount> = self.votes.iter().map(count).collect();
        let seats = self
            .electorates
            .iter()
            .flat_map(|one| one.committees.values());
        for part in seats.flat_map(|seats| &seats.parts) {
            counts[part.ballot as usize].signers += part.all;
        }
        counts
    }

    /// Validators who voted once in this slot and were not seen to vote in `next`, for each head.
    pub(super) fn weights(&self, next: Option<&Self>) -> Vec<(Root, u64)> {
        let mut weights: Vec<_> = self.votes.iter().map(|vote| (vote.head, 0)).collect();
        let others = self
            .electorates
            .iter()
            .chain(next.into_iter().flat_map(|n| &n.electorates));
        let others: Vec<&Electorate> = others.collect();
        let first = others.first().map(|one| &one.assignment);
        let same = first.is_none_or(|first| others.iter().all(|o| is_same(first, &o.assignment)));
        for electorate in &self.electorates {
            // Usually all votes are under one assignment, and are counted already.
            let gone = (!same).then(|| electorate.gone(&others));
            for (committee, seats) in &electorate.committees {
                for part in &seats.parts {
                    weights[part.ballot as usize].1 += u64::from(match &gone {
                        None if next.is_some() => part.latest,
                        None => part.counted,
                        Some(gone) => part.counted_without(&seats.twice, gone.get(committee)),
                    });
                }
            }
        }
        weights
    }

    /// Bytes of the sets of validators.
    pub(super) fn sets_bytes(&self) -> u64 {
        let seats = self
            .electorates
            .iter()
            .flat_map(|one| one.committees.values());
        let bytes = |set: &Bitfield| size_of_val(set.words()) as u64;
        seats
            .map(|seats| {
                let parts = seats.parts.iter().map(|part| bytes(&part.signers));
                bytes(&seats.voted) + bytes(&seats.twice) + parts.sum::<u64>()
            })
            .sum()
    }
}

impl Part {
    fn counted_without(&self, twice: &Bitfield, gone: Option<&Bitfield>) -> u32 {
        let Some(gone) = gone else {
            return self.counted;
        };
        let mut gone = gone.clone();
        gone.union_with(twice);
        self.signers.count_and_not(&gone) as u32
    }
}

impl Electorate {
    /// By committee, who voted under one of the other assignments or in the next slot.
    fn gone(&self, others: &[&Self]) -> BTreeMap<u16, Bitfield> {
        let mut gone = BTreeMap::new();
        for other in others.iter().filter(|other| !std::ptr::eq(**other, self)) {
            if is_same(&self.assignment, &other.assignment) {
                for (&committee, seats) in &other.committees {
                    let gone = gone.entry(committee);
                    gone.or_insert_with(|| Bitfield::new(seats.voted.len()))
                        .union_with(&seats.voted);
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

#[cfg(test)]
impl Ballots {
    /// The committees under which a vote was counted first.
    pub(super) fn committees(&self, vote: &Vote) -> Option<Assignment> {
        let ballot = self.find(vote)?;
        let mut known = self.electorates.iter().filter(|one| one.has(ballot));
        known.next().map(|one| one.assignment.clone())
    }
}
