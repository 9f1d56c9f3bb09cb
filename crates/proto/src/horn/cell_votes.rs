//! The single votes of a cell: those that wait for their verification, and the first of each voter.

use alphorn_scheme::Bytes;
use std::sync::Arc;

use super::ballot::Ballot;
use super::batch::Batch;
use super::effects::Origin;
use super::fair::Waits;
use super::state::SHARED_BYTES;
use crate::contract::Peer;

/// A vote that waits for its verification.
pub(super) struct WaitingVote {
    pub(super) origin: Origin,
    /// Position inside the cell.
    pub(super) position: u32,
    pub(super) ballot: Arc<Ballot>,
    pub(super) signature: Bytes,
    /// The message on the wire.
    pub(super) data: Bytes,
}

impl Waits for WaitingVote {
    fn peer(&self) -> Option<Peer> {
        self.origin.map(|(peer, _)| peer)
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + 2 * SHARED_BYTES + self.signature.len() + self.data.len()
    }
}

/// The first vote that was accepted from a voter: it counts.
#[derive(Clone, Copy)]
pub(super) struct FirstVote {
    /// Position inside the cell.
    pub(super) position: u32,
    pub(super) ballot: u16,
    /// A second vote for something else was proven: nothing more is taken from this voter.
    pub(super) equivocated: bool,
}

/// The votes of a cell.
#[derive(Default)]
pub(super) struct CellVotes {
    /// By position. There are few where nobody aggregates.
    firsts: Vec<FirstVote>,
    /// The messages of all of them on the wire, or of none: the aggregates are made.
    messages: Vec<Bytes>,
    pub(super) batch: Batch<WaitingVote>,
}

impl CellVotes {
    fn place(&self, position: u32) -> Result<usize, usize> {
        let position_of = |first: &FirstVote| first.position;
        self.firsts.binary_search_by_key(&position, position_of)
    }

    /// Whether no vote was accepted.
    pub(super) fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }

    pub(super) fn first(&self, position: u32) -> Option<FirstVote> {
        self.place(position).ok().map(|place| self.firsts[place])
    }

    /// The first votes, with their messages.
    pub(super) fn messages(&self) -> impl Iterator<Item = (FirstVote, &Bytes)> {
        self.firsts.iter().copied().zip(&self.messages)
    }

    /// Takes a voter's first vote.
    pub(super) fn insert(&mut self, position: u32, ballot: u16, message: Bytes) {
        let has_messages = self.messages.len() == self.firsts.len();
        if let Err(place) = self.place(position) {
            let first = FirstVote {
                position,
                ballot,
                equivocated: false,
            };
            self.firsts.insert(place, first);
            if has_messages {
                self.messages.insert(place, message);
            }
        }
    }

    /// A second vote of a voter was proven; the first one, if it is still there.
    pub(super) fn contradict(&mut self, position: u32) -> Option<&Bytes> {
        let place = self.place(position).ok()?;
        self.firsts[place].equivocated = true;
        self.messages.get(place)
    }

    /// The aggregates are made.
    pub(super) fn drop_messages(&mut self) {
        self.messages = Vec::new();
    }

    /// Bytes of the votes that were accepted.
    pub(super) fn held_bytes(&self) -> u64 {
        let message = |data: &Bytes| size_of::<Bytes>() + SHARED_BYTES + data.len();
        let messages = self.messages.iter().map(message).sum::<usize>();
        (self.firsts.len() * size_of::<FirstVote>() + messages) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(byte: u8) -> Bytes {
        Bytes::from([byte; 3])
    }

    #[test]
    fn the_first_vote_of_each_voter_stays_until_the_aggregates_are_made() {
        let mut votes = CellVotes::default();
        for (position, ballot) in [(5, 0), (2, 1), (511, 0), (2, 0)] {
            votes.insert(position, ballot, message(position as u8));
        }
        let seen = |votes: &CellVotes| -> Vec<(u32, u16, u8)> {
            let all = votes.messages();
            all.map(|(first, data)| (first.position, first.ballot, data[0]))
                .collect()
        };
        assert_eq!(seen(&votes), [(2, 1, 2), (5, 0, 5), (511, 0, 255)]);
        assert_eq!(votes.contradict(5), Some(&message(5)));
        assert_eq!(votes.contradict(6), None);
        assert!(votes.first(5).unwrap().equivocated && !votes.first(2).unwrap().equivocated);
        votes.drop_messages();
        // A late one counts for its voter, and nobody makes anything of it.
        votes.insert(3, 1, message(3));
        assert!(seen(&votes).is_empty() && votes.contradict(3).is_none());
        assert_eq!(votes.first(511).unwrap().ballot, 0);
        assert_eq!(votes.held_bytes(), 4 * size_of::<FirstVote>() as u64);
    }
}
