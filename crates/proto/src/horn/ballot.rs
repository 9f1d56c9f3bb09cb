//! The distinct votes of a slot.

use alphorn_scheme::VoteGuard;
use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::wire::{NetworkDigest, Reject, Vote, digest};

/// Votes that are remembered although nobody's signature of them was verified yet, so that each is
/// checked against the chain and hashed once.
const RECENT_MAX: usize = 16;

/// A vote that fits the chain, and what its voters sign.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ballot {
    pub(super) vote: Vote,
    pub(super) message: [u8; 32],
}

impl Ballot {
    pub(super) fn new(network: NetworkDigest, vote: Vote) -> Arc<Self> {
        let message = digest::vote_message(network, &vote);
        Arc::new(Self { vote, message })
    }

    /// What the signer's store keeps from going back.
    pub(super) fn guard(&self) -> VoteGuard {
        VoteGuard {
            source: self.vote.source.slot,
            target: self.vote.target.slot,
        }
    }
}

/// A ballot that somebody was seen to cast, and with how much weight.
struct Tracked {
    ballot: Arc<Ballot>,
    /// Of the voters whose single votes were verified.
    votes: u64,
    /// Of the heaviest verified aggregate or collection.
    evidence: u64,
}

/// A ballot in the order of its vote.
struct ByVote(Arc<Ballot>);

impl Borrow<Vote> for ByVote {
    fn borrow(&self) -> &Vote {
        &self.0.vote
    }
}

impl PartialEq for ByVote {
    fn eq(&self, other: &Self) -> bool {
        self.0.vote == other.0.vote
    }
}

impl Eq for ByVote {}

impl PartialOrd for ByVote {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByVote {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.vote.cmp(&other.0.vote)
    }
}

/// The votes of a slot that somebody was seen to cast, and those that only claim it.
///
/// Every vote that a verified signature names keeps its index: at most one for each signature that
/// was verified, so that what refers to it stays right. But only the heaviest ones *count*, and the
/// own one: what counts is taken, forwarded and shown. A vote that nobody else casts takes no place
/// from one that many do, whatever came first.
pub(super) struct Ballots {
    max: usize,
    tracked: Vec<Tracked>,
    by_vote: BTreeMap<ByVote, u16>,
    own: Option<u16>,
    recent: VecDeque<Arc<Ballot>>,
}

impl Ballots {
    pub(super) fn new(max: u16) -> Self {
        Self {
            max: usize::from(max),
            tracked: Vec::new(),
            by_vote: BTreeMap::new(),
            own: None,
            recent: VecDeque::new(),
        }
    }

    /// The ballot of a vote that was checked before.
    pub(super) fn find(&self, vote: &Vote) -> Option<Arc<Ballot>> {
        match self.by_vote.get(vote) {
            Some(index) => Some(self.get(*index).clone()),
            None => self
                .recent
                .iter()
                .find(|known| known.vote == *vote)
                .cloned(),
        }
    }

    /// Remembers a ballot for a while. A forged one takes no place from those that are tracked.
    pub(super) fn remember(&mut self, ballot: &Arc<Ballot>) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(ballot.clone());
    }

    /// The index of a tracked ballot.
    pub(super) fn index(&self, ballot: &Ballot) -> Option<u16> {
        self.by_vote.get(&ballot.vote).copied()
    }

    /// The index of a ballot of which a single vote of so much weight was verified, beside those
    /// before.
    ///
    /// # Errors
    ///
    /// [`Reject::Full`] if there is no index left.
    pub(super) fn track_vote(&mut self, ballot: &Arc<Ballot>, weight: u64) -> Result<u16, Reject> {
        let index = self.track(ballot).ok_or(Reject::Full)?;
        self.tracked[usize::from(index)].votes += weight;
        Ok(index)
    }

    /// The index of a ballot of which evidence of so much weight was verified.
    ///
    /// # Errors
    ///
    /// [`Reject::Full`] if it does not count, or there is no index left.
    pub(super) fn track_evidence(
        &mut self,
        ballot: &Arc<Ballot>,
        weight: u64,
    ) -> Result<u16, Reject> {
        let index = self.track(ballot).ok_or(Reject::Full)?;
        let tracked = &mut self.tracked[usize::from(index)];
        tracked.evidence = tracked.evidence.max(weight);
        self.counts(index).then_some(index).ok_or(Reject::Full)
    }

    /// The index of the vote that is cast here, which counts whatever the others cast. None if there
    /// is no index left.
    pub(super) fn track_own(&mut self, ballot: &Arc<Ballot>) -> Option<u16> {
        self.own = self.track(ballot);
        self.own
    }

    /// Whether a tracked ballot is the own one, or one of the heaviest; the first of equal ones.
    pub(super) fn counts(&self, index: u16) -> bool {
        let index = usize::from(index);
        self.counts_with(index, self.weight(index))
    }

    /// Whether a ballot would count with evidence of so much weight, beside all that is known of it
    /// and of the others.
    pub(super) fn would_count(&self, ballot: &Ballot, weight: impl FnOnce() -> u64) -> bool {
        if self.tracked.len() < self.max {
            return true;
        }
        let index = self.index(ballot).map(usize::from);
        let known = index.map_or(0, |index| self.weight(index));
        let index = index.unwrap_or(self.tracked.len());
        self.counts_with(index, known) || self.counts_with(index, known.max(weight()))
    }

    /// The weight of a tracked ballot.
    fn weight(&self, index: usize) -> u64 {
        let tracked = &self.tracked[index];
        tracked.votes.max(tracked.evidence)
    }

    /// Whether the ballot of an index counts if it has a weight.
    fn counts_with(&self, index: usize, weight: u64) -> bool {
        let own = self.own.map(usize::from);
        let this = (weight, Reverse(index));
        let is_heavier = |other: &usize| {
            own != Some(*other) && *other != index && (self.weight(*other), Reverse(*other)) > this
        };
        let heavier = (0..self.tracked.len()).filter(is_heavier);
        own == Some(index) || heavier.count() < self.max
    }

    pub(super) fn get(&self, index: u16) -> &Arc<Ballot> {
        &self.tracked[usize::from(index)].ballot
    }

    /// The indices of the ballots that count.
    pub(super) fn counted(&self) -> Vec<u16> {
        let all = self.by_vote.values().copied();
        let mut counted: Vec<u16> = all.filter(|&index| self.counts(index)).collect();
        counted.sort_unstable();
        counted
    }

    fn track(&mut self, ballot: &Arc<Ballot>) -> Option<u16> {
        if let Some(index) = self.index(ballot) {
            return Some(index);
        }
        let index = u16::try_from(self.tracked.len()).ok()?;
        self.by_vote.insert(ByVote(ballot.clone()), index);
        self.tracked.push(Tracked {
            ballot: ballot.clone(),
            votes: 0,
            evidence: 0,
        });
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_types::Slot;

    fn ballot(slot: u64) -> Arc<Ballot> {
        let vote = Vote {
            slot: Slot(slot),
            ..Vote::default()
        };
        Ballot::new(NetworkDigest::default(), vote)
    }

    #[test]
    fn claimed_votes_take_no_place() {
        let mut ballots = Ballots::new(2);
        for slot in 0..100 {
            ballots.remember(&ballot(slot));
        }
        assert!(ballots.find(&ballot(0).vote).is_none());
        assert!(ballots.find(&ballot(99).vote).is_some());
        assert!(ballots.counted().is_empty());
    }

    #[test]
    fn the_heaviest_count_whatever_came_first_and_the_own_one() {
        let mut ballots = Ballots::new(2);
        assert_eq!(ballots.track_own(&ballot(0)), Some(0));
        for (index, slot) in [(1, 201), (2, 202), (3, 203)] {
            assert_eq!(ballots.track_vote(&ballot(slot), 1), Ok(index));
        }
        // As light as the others, and later.
        assert_eq!(ballots.counted(), [0, 1, 2]);
        assert_eq!(ballots.track_vote(&ballot(203), 1), Ok(3));
        assert_eq!(ballots.counted(), [0, 1, 3]);
        // A collection of one signer displaces nothing, one of two does; a later one of fewer
        // signers takes no weight away.
        for (signers, counts) in [(1, false), (2, true), (5, true), (4, true)] {
            // As it could be told before.
            assert_eq!(ballots.would_count(&ballot(204), || signers), counts);
            let index = ballots.track_evidence(&ballot(204), signers);
            assert_eq!(index.is_ok(), counts, "{signers}");
        }
        let known = |slot| ballots.would_count(&ballot(slot), || 0);
        assert!(known(0) && known(203) && known(204));
        assert!(!known(201) && !known(205));
        assert_eq!(ballots.counted(), [0, 3, 4]);
        assert_eq!(ballots.get(1), &ballot(201), "an index stays what it was");
        assert_eq!(ballots.find(&ballot(202).vote), Some(ballot(202)));
    }
}
