//! The distinct votes of a slot.

use alphorn_scheme::VoteGuard;
use std::collections::VecDeque;
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

/// The votes of a slot that somebody was seen to cast, and those that only claim it.
pub(super) struct Ballots {
    max: usize,
    tracked: Vec<Arc<Ballot>>,
    recent: VecDeque<Arc<Ballot>>,
}

impl Ballots {
    pub(super) fn new(max: u16) -> Self {
        Self {
            max: usize::from(max),
            tracked: Vec::new(),
            recent: VecDeque::new(),
        }
    }

    /// The ballot of a vote that was checked before.
    pub(super) fn find(&self, vote: &Vote) -> Option<Arc<Ballot>> {
        let mut known = self.tracked.iter().chain(&self.recent);
        known.find(|ballot| ballot.vote == *vote).cloned()
    }

    /// Remembers a ballot for a while. A forged one takes no place from those that are tracked.
    pub(super) fn remember(&mut self, ballot: &Arc<Ballot>) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(ballot.clone());
    }

    /// The index of a tracked ballot.
    pub(super) fn index(&self, ballot: &Ballot) -> Option<u8> {
        let place = self.tracked.iter().position(|known| **known == *ballot)?;
        u8::try_from(place).ok()
    }

    /// The index of a ballot with a verified signature, tracked from now on.
    ///
    /// # Errors
    ///
    /// [`Reject::Full`] if as many are tracked as a slot takes.
    pub(super) fn track(&mut self, ballot: &Arc<Ballot>) -> Result<u8, Reject> {
        match self.index(ballot) {
            Some(index) => Ok(index),
            None if self.tracked.len() < self.max => Ok(self.push(ballot)),
            None => Err(Reject::Full),
        }
    }

    /// The index of the vote that is cast here, tracked whatever the others cast.
    pub(super) fn track_own(&mut self, ballot: &Arc<Ballot>) -> u8 {
        self.index(ballot).unwrap_or_else(|| self.push(ballot))
    }

    pub(super) fn get(&self, index: u8) -> &Arc<Ballot> {
        &self.tracked[usize::from(index)]
    }

    pub(super) fn tracked(&self) -> &[Arc<Ballot>] {
        &self.tracked
    }

    fn push(&mut self, ballot: &Arc<Ballot>) -> u8 {
        let index = self.tracked.len() as u8;
        self.tracked.push(ballot.clone());
        index
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
    fn claimed_votes_take_no_place_and_the_own_vote_always_has_one() {
        let mut ballots = Ballots::new(2);
        for slot in 0..100 {
            ballots.remember(&ballot(slot));
        }
        assert!(ballots.find(&ballot(0).vote).is_none());
        assert!(ballots.find(&ballot(99).vote).is_some());
        assert_eq!(ballots.track(&ballot(200)), Ok(0));
        assert_eq!(ballots.track(&ballot(201)), Ok(1));
        assert_eq!(ballots.track(&ballot(200)), Ok(0));
        assert_eq!(ballots.track(&ballot(202)), Err(Reject::Full));
        assert_eq!(ballots.track_own(&ballot(202)), 2);
        assert_eq!(ballots.track(&ballot(202)), Ok(2));
        assert_eq!(ballots.get(2), &ballot(202));
    }
}
