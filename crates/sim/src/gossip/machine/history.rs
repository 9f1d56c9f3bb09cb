//! Messages kept for announcements and for answering requests.

use super::super::{Config, DenseId, Payload, PeerSet};
use std::collections::{BTreeMap, VecDeque};

/// A message that was accepted or published.
#[derive(Clone, Debug)]
pub(super) struct Entry<P> {
    id: DenseId,
    /// Heartbeat interval in which it arrived.
    beat: u32,
    payload: P,
}

/// Accepted messages in order of arrival.
#[derive(Clone, Debug)]
pub(super) struct History<P> {
    entries: VecDeque<Entry<P>>,
    bytes: u64,
    /// Number of the first entry; entries are numbered in order of arrival.
    first: u64,
    /// One above the highest number that can be requested: entries that arrived before the last announcement.
    open: u64,
    /// Identities that can be requested, with the low bits of their entry numbers, ascending. Built on the
    /// first request, because most nodes get none between two announcements.
    index: Vec<(DenseId, u32)>,
    /// Value of `open` when the index was built.
    indexed: u64,
    /// Peers that were sent a message on request; for most messages there are none.
    served: BTreeMap<DenseId, PeerSet>,
}

impl<P> Default for History<P> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            first: 0,
            open: 0,
            index: Vec::new(),
            indexed: 0,
            served: BTreeMap::new(),
        }
    }
}

impl<P: Payload> History<P> {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn push(&mut self, id: DenseId, payload: P, beat: u32, config: &Config) {
        self.bytes = self.bytes.saturating_add(payload.wire_bytes());
        self.entries.push_back(Entry { id, beat, payload });
        // `len() > 1` keeps the newest message even if it alone exceeds the bound; otherwise it could never be
        // requested.
        while self.entries.len() > config.history_max as usize
            || self.bytes > config.history_bytes_max && self.entries.len() > 1
        {
            self.drop_oldest();
        }
    }

    /// Drops entries that arrived before the interval `oldest`.
    pub(super) fn expire(&mut self, oldest: u32) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.beat < oldest)
        {
            self.drop_oldest();
        }
        if self.entries.is_empty() {
            // An idle node keeps no memory after a burst.
            self.entries = VecDeque::new();
            (self.index, self.indexed) = (Vec::new(), 0);
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes = self.bytes.saturating_sub(entry.payload.wire_bytes());
            self.served.remove(&entry.id);
            self.first += 1;
        }
    }

    /// Returns the newest identities of the intervals from `oldest` on, at most `max`, and makes every
    /// message available for requests.
    pub(super) fn announce(&mut self, oldest: u32, max: usize) -> Vec<DenseId> {
        // Only what was announced can be requested, so the index stays valid from one announcement to the next,
        // however many messages arrive in between.
        self.open = self.first + self.entries.len() as u64;
        let recent = self.entries.iter().rev().take(max);
        let count = recent.take_while(|entry| entry.beat >= oldest).count();
        let recent = self.entries.range(self.entries.len() - count..);
        recent.map(|entry| entry.id).collect()
    }

    /// The message with that identity, if it can be requested, and the peers that were sent it on request.
    pub(super) fn find(&mut self, id: &DenseId) -> Option<(&P, PeerSet)> {
        // Dropping entries leaves the index valid, because it holds numbers rather than positions; only an
        // announcement outdates it.
        if self.indexed != self.open {
            self.renew_index();
        }
        let at = self.index.binary_search_by_key(id, |(id, _)| *id).ok()?;
        // For an entry dropped since, the result is far above all others.
        let position = self.index[at].1.wrapping_sub(self.first as u32);
        // The low 32 bits suffice: there are at most 2^20 entries (`history_max`), so the difference of live
        // numbers is far below 2^32.
        let entry = self.entries.get(position as usize)?;
        let served = self.served.get(id).copied().unwrap_or(PeerSet::EMPTY);
        Some((&entry.payload, served))
    }

    fn renew_index(&mut self) {
        self.indexed = self.open;
        let numbers = (self.first..self.open).map(|number| number as u32);
        let entries = self.entries.iter().map(|entry| entry.id);
        self.index.clear();
        self.index.extend(entries.zip(numbers));
        self.index.sort_unstable();
    }

    /// Records that peers were sent a message on request.
    pub(super) fn serve(&mut self, id: DenseId, to: PeerSet) {
        let served = self.served.entry(id).or_insert(PeerSet::EMPTY);
        *served = served.or(to);
    }

    /// Forgets what a peer was sent on request, because its number will be reused for another peer.
    pub(super) fn forget(&mut self, peer: PeerSet) {
        for served in self.served.values_mut() {
            *served = served.minus(peer);
        }
    }
}
