//! Messages that arrived before their header.

use super::live::PeerIndex;
use super::message::{HEAD_BYTES, Message};
use crate::rlnc::{Coding, Id, SHARDS_TOTAL_MAX};
use alphorn_types::Time;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Maximum number of DONE and RANK messages kept per peer for broadcasts not known yet; the oldest
/// is dropped first. They are short, and without them a late node pushes to peers that need
/// nothing.
pub(super) const NOTES_PEER_MAX: usize = 8;
/// Maximum size of an unread message that counts as short: a RANK with the longest bitmap.
const NOTE_BYTES_MAX: u64 = HEAD_BYTES + SHARDS_TOTAL_MAX as u64 / 8;

#[derive(Clone, Debug)]
struct Orphan<C: Coding> {
    from: PeerIndex,
    at: Time,
    message: Message<C>,
    /// Time from which its sender may be asked for the header; none if already asked.
    unasked: Option<Time>,
}

/// Two bounded lists: pieces and commitments, which expire, and short notes, which are replaced by
/// newer ones of the same peer.
#[derive(Clone, Debug)]
pub(super) struct Orphans<C: Coding> {
    pieces: VecDeque<Orphan<C>>,
    notes: Vec<Orphan<C>>,
}

impl<C: Coding> Default for Orphans<C> {
    fn default() -> Self {
        Orphans {
            pieces: VecDeque::new(),
            notes: Vec::new(),
        }
    }
}

impl<C: Coding> Orphans<C> {
    /// Whether the message is short and of a kind kept as a note.
    pub(super) fn is_note(message: &Message<C>) -> bool {
        match message {
            Message::Done { .. } | Message::Rank { .. } => true,
            Message::Unread(_) => message.wire_bytes() <= NOTE_BYTES_MAX,
            _ => false,
        }
    }

    /// Keeps a note; `held` is the number kept for the peer.
    pub(super) fn note(&mut self, from: PeerIndex, at: Time, message: Message<C>, held: &mut u8) {
        let orphan = Orphan {
            from,
            at,
            message,
            unasked: None,
        };
        if usize::from(*held) < NOTES_PEER_MAX {
            *held += 1;
            self.notes.push(orphan);
        } else if let Some(oldest) = self.notes.iter().position(|other| other.from == from) {
            self.notes.remove(oldest);
            self.notes.push(orphan);
        }
    }

    /// Keeps a piece.
    pub(super) fn keep(&mut self, from: PeerIndex, at: Time, message: Message<C>) {
        let same = |other: &Orphan<C>| other.from == from && other.message.id() == message.id();
        let mut same = self.pieces.iter().filter(|other| same(other));
        let is_asked = same.any(|other| other.unasked.is_none());
        self.pieces.push_back(Orphan {
            from,
            at,
            message,
            unasked: (!is_asked).then_some(at),
        });
    }

    /// Drops a piece if there are more than `max`, and returns its sender: the newest piece of the
    /// peer with the most, counted by `held`. A piece whose header is waiting for verification
    /// (`announced`) is dropped only if there are no others, since anybody can make up an id.
    pub(super) fn shed(
        &mut self,
        max: u16,
        held: impl Fn(PeerIndex) -> u8,
        announced: impl Fn(&Id) -> bool,
    ) -> Option<PeerIndex> {
        if self.pieces.len() <= usize::from(max) {
            return None;
        }
        let mut order: Vec<usize> = (0..self.pieces.len()).collect();
        // Pieces of the peer with the most first, and of those the newest.
        order.sort_unstable_by_key(|&at| Reverse((held(self.pieces[at].from), at)));
        let mut unknown = order.iter();
        let unknown = unknown.find(|&&at| !announced(&self.pieces[at].message.id()));
        let gone = self.pieces.remove(*unknown.or(order.first())?)?;
        Some(gone.from)
    }

    /// Takes the messages of a broadcast, notes first. Calls `release` for each with its peer and
    /// whether it was a note.
    pub(super) fn take(
        &mut self,
        id: &Id,
        mut release: impl FnMut(PeerIndex, bool),
    ) -> Vec<(PeerIndex, Message<C>)> {
        let mut taken = Vec::new();
        self.notes.retain(|orphan| {
            let ours = orphan.message.id() == *id;
            if ours {
                release(orphan.from, true);
                taken.push((orphan.from, orphan.message.clone()));
            }
            !ours
        });
        self.pieces.retain(|orphan| {
            let ours = orphan.message.id() == *id;
            if ours {
                release(orphan.from, false);
                taken.push((orphan.from, orphan.message.clone()));
            }
            !ours
        });
        taken
    }

    /// Drops everything from a peer.
    pub(super) fn forget(&mut self, peer: PeerIndex) {
        self.notes.retain(|orphan| orphan.from != peer);
        self.pieces.retain(|orphan| orphan.from != peer);
    }

    /// Drops the pieces that arrived `ttl_ns` ago or earlier.
    pub(super) fn expire(&mut self, now: Time, ttl_ns: u64, mut release: impl FnMut(PeerIndex)) {
        // Pieces are in order of arrival, so the first that is not due ends the search.
        while let Some(oldest) = self.pieces.front() {
            if oldest.at.saturating_add_ns(ttl_ns) > now {
                return;
            }
            release(oldest.from);
            self.pieces.pop_front();
        }
    }

    /// Returns which peers to ask for which headers: for each broadcast whose pieces have waited
    /// for `after_ns`, one sender, and another after the same time again. No peer is asked twice,
    /// and none if the header is `announced`.
    pub(super) fn unasked(
        &mut self,
        now: Time,
        after_ns: u64,
        announced: impl Fn(&Id) -> bool,
    ) -> Vec<(PeerIndex, Id)> {
        let mut due: Vec<(PeerIndex, Id)> = Vec::new();
        for orphan in &mut self.pieces {
            let Some(since) = orphan.unasked else {
                continue;
            };
            let id = orphan.message.id();
            let asked = due.iter().find(|(_, other)| *other == id);
            orphan.unasked = match asked {
                Some((peer, _)) if *peer == orphan.from => None,
                // Another sender has just been asked: this one's time begins again.
                Some(_) => Some(now),
                None if since.saturating_add_ns(after_ns) > now => Some(since),
                None if announced(&id) => Some(now),
                None => {
                    due.push((orphan.from, id));
                    None
                }
            };
        }
        due
    }

    /// Time at which the oldest piece expires or a header must be requested.
    pub(super) fn due(&self, ttl_ns: u64, after_ns: u64) -> Time {
        let after = |since: Option<Time>, wait_ns| {
            since.map_or(Time::MAX, |since| since.saturating_add_ns(wait_ns))
        };
        let oldest = self.pieces.front().map(|orphan| orphan.at);
        let unasked = self.pieces.iter().filter_map(|orphan| orphan.unasked).min();
        after(oldest, ttl_ns).min(after(unasked, after_ns))
    }

    /// Number of waiting messages.
    pub(super) fn len(&self) -> usize {
        self.pieces.len() + self.notes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ranks;
    use crate::message::{Unread, Want};
    use crate::rlnc::ModelRs;
    use crate::shards::ShardSet;
    use std::sync::Arc;

    /// Returns what a reader without the header keeps of a message.
    fn unread(message: &Message<ModelRs>) -> Message<ModelRs> {
        let bytes = vec![0; message.wire_bytes() as usize].into();
        let id = message.id();
        Message::Unread(Arc::new(Unread { id, bytes }))
    }

    /// A late node keeps the RANK of a payload in the maximum number of shards, like any other.
    #[test]
    fn the_longest_rank_is_a_note_before_its_header() {
        let id = Id([1; 32]);
        let set = ShardSet::new(SHARDS_TOTAL_MAX, 0..SHARDS_TOTAL_MAX);
        let ranks = Ranks::Shards(set.clone());
        let rank = Message::Rank { id, ranks };
        assert!(Orphans::is_note(&rank));
        assert!(Orphans::is_note(&unread(&rank)));
        let longer = Message::Need {
            id,
            generation: 0,
            want: Want::Shards(set),
        };
        assert!(!Orphans::is_note(&unread(&longer)));
    }
}
