//! The votes of one committee in a slot: its heaviest ballots, who voted, and who voted twice.

use alphorn_types::{Assignment, Bitfield, Supports};
use std::borrow::Cow;
use std::sync::Arc;

use super::weights::Weights;
use crate::wire::Reject;

/// Maximum number of ballots of a committee that count in a slot, in addition to the own one.
pub const BALLOTS_PER_COMMITTEE_MAX: usize = 64;

/// Bytes per committee in the map of committees, rounded up.
#[cfg(test)]
const SEATS_BYTES: usize = 64;

/// The members of a committee that cast one vote.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Index of the vote.
    pub(super) ballot: u32,
    /// Number of signers.
    pub(super) all: u32,
    /// Weight of the signers that are in no other ballot of the slot. A committee weighs at most
    /// 2^32 − 1 here; exceeding it would take two million members with the highest balance.
    pub(super) counted: u32,
    /// Weight of those that were not seen to vote in the next slot either.
    pub(super) latest: u32,
    /// Positions in the committee.
    pub(super) signers: Arc<Bitfield>,
}

/// The votes of a committee.
#[derive(Clone, Debug)]
pub(super) struct Seats {
    pub(super) parts: Vec<Part>,
    /// Voters: the signers of all parts, and `twice`.
    pub(super) voted: Arc<Bitfield>,
    /// Voters seen to cast two votes, whether or not these are still among the parts; none if there
    /// are none.
    twice: Option<Arc<Bitfield>>,
}

/// A committee, with the context needed to weigh and store sets of its positions.
#[derive(Clone, Copy)]
pub(super) struct Scale<'a> {
    pub(super) supports: &'a Supports,
    pub(super) weights: &'a Weights,
    pub(super) assignment: &'a Assignment,
    pub(super) committee: u16,
}

impl Scale<'_> {
    pub(super) fn weigh(&self, set: &Bitfield, without: Option<&Bitfield>) -> u32 {
        let members = self.assignment.committee_members(self.committee);
        let weight = match without {
            Some(without) => self.weights.sum_without(members, set, without),
            None => self.weights.sum(members, set),
        };
        u32::try_from(weight).unwrap_or(u32::MAX)
    }

    fn keep(&self, set: Bitfield) -> Arc<Bitfield> {
        self.supports.intern(Cow::Owned(set))
    }
}

impl Seats {
    pub(super) fn new(len: usize, scale: &Scale<'_>) -> Self {
        Self {
            // Usually all vote for the same.
            parts: Vec::with_capacity(1),
            voted: scale.keep(Bitfield::new(len)),
            twice: None,
        }
    }

    /// Adds signers to a ballot. Returns how many had not been seen to cast it before, and the
    /// displaced part.
    pub(super) fn add(
        &mut self,
        scale: &Scale<'_>,
        ballot: u32,
        signers: &Arc<Bitfield>,
        own: Option<u32>,
    ) -> Result<(u32, Option<Part>), Reject> {
        let known = self.parts.iter().position(|part| part.ballot == ballot);
        let Some(index) = known else {
            let displaced = self.make_room(scale, ballot, signers, own)?;
            // Before they are in `voted`, which would make every first vote a second one.
            self.mark(scale, signers);
            let all = signers.count_ones() as u32;
            let counted = scale.weigh(signers, self.twice.as_deref());
            self.parts.push(Part {
                ballot,
                all,
                counted,
                latest: counted,
                signers: signers.clone(),
            });
            self.voted = scale.supports.union(&self.voted, signers);
            return Ok((all, displaced));
        };
        let before = self.parts[index].signers.clone();
        let mut fresh = Bitfield::clone(signers);
        fresh.subtract(&before);
        if fresh.none() {
            return Ok((0, None));
        }
        // Only the fresh ones: the others were seen to cast this same vote.
        self.mark(scale, &fresh);
        let part = &mut self.parts[index];
        part.signers = scale.supports.union(&before, signers);
        part.all = part.signers.count_ones() as u32;
        // `latest` follows: the caller reweighs the committee after each vote (`expire`).
        part.counted = scale.weigh(&part.signers, self.twice.as_deref());
        self.voted = scale.supports.union(&self.voted, signers);
        Ok((fresh.count_ones() as u32, None))
    }

    /// Makes room for one more ballot and returns the part it displaced. Errors if there is no
    /// room.
    fn make_room(
        &mut self,
        scale: &Scale<'_>,
        ballot: u32,
        signers: &Bitfield,
        own: Option<u32>,
    ) -> Result<Option<Part>, Reject> {
        let is_own = |ballot| own == Some(ballot);
        let others = || (0..self.parts.len()).filter(|&i| !is_own(self.parts[i].ballot));
        if is_own(ballot) || others().count() < BALLOTS_PER_COMMITTEE_MAX {
            return Ok(None);
        }
        // Voters seen in other ballots do not count for the new one: repeating their votes must
        // not displace a ballot.
        let weight = scale.weigh(signers, Some(&self.voted));
        let lightest = others().min_by_key(|&i| self.parts[i].counted);
        match lightest.filter(|&i| self.parts[i].counted < weight) {
            Some(lightest) => {
                let part = self.parts.swap_remove(lightest);
                // From now on its voters have not voted, so that another vote of theirs is not
                // their second.
                let mut only = Bitfield::clone(&part.signers);
                if let Some(twice) = &self.twice {
                    only.subtract(twice);
                }
                let mut voted = Bitfield::clone(&self.voted);
                voted.subtract(&only);
                self.voted = scale.keep(voted);
                Ok(Some(part))
            }
            None => {
                self.mark(scale, signers);
                Err(Reject::Full)
            }
        }
    }

    /// Marks the signers of a ballot that were seen to cast another.
    fn mark(&mut self, scale: &Scale<'_>, signers: &Bitfield) {
        if signers.count_and(&self.voted) == 0 {
            return;
        }
        let mut again = signers.clone();
        again.intersect_with(&self.voted);
        if let Some(twice) = &self.twice {
            again.union_with(twice);
        }
        let twice = scale.keep(again);
        for part in &mut self.parts {
            part.counted = scale.weigh(&part.signers, Some(&twice));
        }
        self.twice = Some(twice);
    }

    /// Reweighs the latest votes of this slot, without those that voted in the next one.
    pub(super) fn expire(&mut self, scale: &Scale<'_>, voted: Option<&Bitfield>) {
        let Some(voted) = voted else {
            let parts = self.parts.iter_mut();
            return parts.for_each(|part| part.latest = part.counted);
        };
        let gone = self.gone(voted);
        for part in &mut self.parts {
            part.latest = scale.weigh(&part.signers, Some(&gone));
        }
    }

    /// Applies `change` to the weight of the ballots that count the votes of some positions.
    pub(super) fn shift(
        &mut self,
        weights: &Weights,
        members: &[u32],
        mut positions: Bitfield,
        change: fn(u32, u32) -> u32,
    ) {
        if let Some(twice) = &self.twice {
            positions.subtract(twice);
        }
        let words = positions.words().iter().copied().enumerate();
        let mut rest: Vec<(usize, u64)> = words.filter(|(_, word)| *word != 0).collect();
        for part in &mut self.parts {
            let signers = part.signers.words();
            for (i, word) in &mut rest {
                // Without those that voted twice, a position is in at most one part: what is hit is
                // done with.
                let hit = *word & signers[*i];
                if hit != 0 {
                    *word ^= hit;
                    part.latest = change(part.latest, weights.sum_word(&members[*i * 64..], hit));
                }
            }
        }
    }

    /// Positions that voted twice or are in another set.
    pub(super) fn gone<'a>(&self, other: &'a Bitfield) -> Cow<'a, Bitfield> {
        let Some(twice) = &self.twice else {
            return Cow::Borrowed(other);
        };
        let mut gone = other.clone();
        gone.union_with(twice);
        Cow::Owned(gone)
    }

    pub(super) fn sets(&self) -> impl Iterator<Item = &Arc<Bitfield>> {
        let parts = self.parts.iter().map(|part| &part.signers);
        parts.chain([&self.voted]).chain(&self.twice)
    }

    /// Bytes used in addition to the sets.
    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> usize {
        SEATS_BYTES + size_of::<Self>() + self.parts.capacity() * size_of::<Part>()
    }
}
