//! The distinct votes of a slot.

use alphorn_scheme::VoteGuard;
use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::wire::{NetworkDigest, Reject, Vote, digest};

/// Maximum number of votes remembered although no signature of them was verified yet, so that each is
/// checked against the chain and hashed only once.
const RECENT_MAX: usize = 16;

/// A vote that fits the chain, and the message its voters sign.
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

    /// The values that the signer's store must not let go back.
    pub(super) fn guard(&self) -> VoteGuard {
        VoteGuard {
            source: self.vote.source.slot,
            target: self.vote.target.slot,
        }
    }
}

/// A ballot known to have been cast, and its weight.
struct Tracked {
    ballot: Arc<Ballot>,
    /// Weight of the voters whose single votes were verified.
    votes: u64,
    /// Weight of the heaviest verified aggregate or collection.
    evidence: u64,
}

/// A ballot ordered by its vote.
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

/// The votes of a slot known to have been cast, and those only claimed.
///
/// Every vote named by a verified signature keeps its index, at most one for each verified signature, so
/// that references to it stay valid. But only the heaviest ones and the one cast here *count*: a vote
/// that counts is accepted, forwarded and shown. A vote cast by a single voter does not displace one cast
/// by many, whichever came first.
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

    /// Remembers a ballot for a while. A forged one does not displace any that are tracked.
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

    /// Records a verified single vote of the given weight for a ballot, on top of earlier ones. Returns
    /// the ballot's index.
    ///
    /// # Errors
    ///
    /// [`Reject::Full`] if there is no index left.
    pub(super) fn track_vote(&mut self, ballot: &Arc<Ballot>, weight: u64) -> Result<u16, Reject> {
        let index = self.track(ballot).ok_or(Reject::Full)?;
        self.tracked[usize::from(index)].votes += weight;
        Ok(index)
    }

    /// Records verified evidence of the given weight for a ballot. Returns the ballot's index.
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

    /// Tracks the vote cast here, which counts whatever others cast. Returns its index, or none if there
    /// is no index left.
    pub(super) fn track_own(&mut self, ballot: &Arc<Ballot>) -> Option<u16> {
        self.own = self.track(ballot);
        self.own
    }

    /// Whether a tracked ballot is the one cast here, or one of the heaviest. The first one wins a tie.
    pub(super) fn counts(&self, index: u16) -> bool {
        let index = usize::from(index);
        self.counts_with(index, self.weight(index))
    }

    /// Whether a ballot would count with evidence of the given weight, in addition to all that is known
    /// about it and the others.
    pub(super) fn would_count(&self, ballot: &Ballot, weight: impl FnOnce() -> u64) -> bool {
        if self.tracked.len() < self.max {
            return true;
        }
        let index = self.index(ballot).map(usize::from);
        let known = index.map_or(0, |index| self.weight(index));
        // An untracked ballot would get the next index, which loses every tie.
        let index = index.unwrap_or(self.tracked.len());
        // The new weight is computed only if what is known does not decide.
        self.counts_with(index, known) || self.counts_with(index, known.max(weight()))
    }

    /// The weight of a tracked ballot.
    fn weight(&self, index: usize) -> u64 {
        let tracked = &self.tracked[index];
        // Not the sum: evidence repeats votes that arrived alone, and would count them twice.
        tracked.votes.max(tracked.evidence)
    }

    /// Whether the ballot at an index counts if it has the given weight.
    fn counts_with(&self, index: usize, weight: u64) -> bool {
        let own = self.own.map(usize::from);
        let this = (weight, Reverse(index));
        // The ballot cast here counts in addition to the heaviest, so it is not compared with them.
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
        // No heavier than the others, and later.
        assert_eq!(ballots.counted(), [0, 1, 2]);
        assert_eq!(ballots.track_vote(&ballot(203), 1), Ok(3));
        assert_eq!(ballots.counted(), [0, 1, 3]);
        // A collection of one signer displaces nothing, one of two does. A later one with fewer signers
        // does not reduce the weight.
        for (signers, counts) in [(1, false), (2, true), (5, true), (4, true)] {
            // The prediction must agree.
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
