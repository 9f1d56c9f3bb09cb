//! The single votes of a cell: those awaiting verification, and the first vote of each voter.

use alphorn_scheme::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::ballot::Ballot;
use super::batch::Batch;
use super::effects::Origin;
use super::fair::Waits;
use super::state::SHARED_BYTES;
use alphorn_types::Peer;

/// A vote awaiting verification.
pub(super) struct WaitingVote {
    pub(super) origin: Origin,
    /// Position in the cell.
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

/// The first accepted vote of a voter, which counts.
#[derive(Clone, Copy)]
pub(super) struct FirstVote {
    /// Position in the cell.
    pub(super) position: u32,
    pub(super) ballot: u16,
    /// A second vote for something else was proven. Nothing more is accepted from this voter.
    pub(super) equivocated: bool,
}

/// The wire message of a first vote, by its position in the cell.
type Message = (u32, Bytes);

/// Size of a first vote, excluding the bytes of its message.
pub(super) const FIRST_BYTES: usize = size_of::<FirstVote>() + size_of::<Message>() + SHARED_BYTES;

/// The votes of a cell.
#[derive(Default)]
pub(super) struct CellVotes {
    /// By position. There are few if the cell is not aggregated here.
    firsts: Vec<FirstVote>,
    /// Messages of all first votes until the aggregates are made, then of those not contained in any
    /// accepted aggregate.
    messages: Vec<Message>,
    /// The aggregates are made.
    is_over: bool,
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

    /// The first votes available for aggregates, with their messages.
    pub(super) fn messages(&self) -> impl Iterator<Item = (FirstVote, &Bytes)> {
        let messages = self.messages.iter().filter(|_| !self.is_over);
        // Until it is over, both lists have the same positions.
        let firsts = self.firsts.iter().copied().zip(messages);
        firsts.map(|(first, (_, message))| (first, message))
    }

    /// Records a voter's first vote.
    pub(super) fn insert(&mut self, position: u32, ballot: u16, message: Bytes) {
        if let Err(place) = self.place(position) {
            let first = FirstVote {
                position,
                ballot,
                equivocated: false,
            };
            self.firsts.insert(place, first);
            // Searched anew: once it is over, the two lists may differ in length.
            let place = self.message_place(position).unwrap_or_else(|place| place);
            self.messages.insert(place, (position, message));
        }
    }

    fn message_place(&self, position: u32) -> Result<usize, usize> {
        self.messages.binary_search_by_key(&position, |(of, _)| *of)
    }

    /// Records a proven second vote of a voter. Returns the first one, if it is still kept.
    pub(super) fn contradict(&mut self, position: u32) -> Option<&Bytes> {
        let place = self.place(position).ok()?;
        self.firsts[place].equivocated = true;
        let message = self.message_place(position).ok()?;
        Some(&self.messages[message].1)
    }

    /// Called once the aggregates are made. Votes that one of them proves are dropped.
    pub(super) fn end(&mut self, is_proven: impl Fn(FirstVote) -> bool) {
        self.is_over = true;
        let firsts = self.firsts.iter();
        // An equivocator's first vote was the proof against it, with the second one, and is not needed
        // again.
        let kept = firsts.filter(|first| !first.equivocated && !is_proven(**first));
        let kept: BTreeSet<u32> = kept.map(|first| first.position).collect();
        self.messages.retain(|(of, _)| kept.contains(of));
        self.messages.shrink_to_fit();
    }

    /// Bytes of the accepted votes.
    pub(super) fn held_bytes(&self) -> u64 {
        let message = |(_, data): &Message| size_of::<Message>() + SHARED_BYTES + data.len();
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
    fn a_first_vote_stays_until_something_else_proves_it() {
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
        votes.end(|first| first.ballot == 0);
        // A late one counts for its voter, but is not used in any aggregate.
        votes.insert(3, 1, message(3));
        assert!(seen(&votes).is_empty());
        let kept = [2, 3, 5, 511].map(|position| votes.contradict(position).is_some());
        assert_eq!(kept, [true, true, false, false]);
        assert_eq!(votes.first(511).unwrap().ballot, 0);
        let bytes = 4 * FIRST_BYTES - 2 * (FIRST_BYTES - size_of::<FirstVote>()) + 2 * 3;
        assert_eq!(votes.held_bytes(), bytes as u64);
    }
}
