//! Messages kept to be announced and to answer requests.

use super::super::{Config, DenseId, Payload, PeerSet};
use std::collections::{BTreeMap, VecDeque};

/// A message that was accepted or published.
#[derive(Clone, Debug)]
pub(super) struct Entry<P> {
    id: DenseId,
    /// Heartbeat interval in which it came.
    beat: u32,
    payload: P,
}

/// Accepted messages in the order in which they came.
#[derive(Clone, Debug)]
pub(super) struct History<P> {
    entries: VecDeque<Entry<P>>,
    bytes: u64,
    /// Number of the first entry; entries are numbered as they come.
    first: u64,
    /// The number behind those that can be asked for: what came before the last announcement.
    open: u64,
    /// Names of what can be asked for with the low bits of the numbers of their entries, ascending. Made when
    /// somebody asks: at most nodes nobody does between two announcements.
    index: Vec<(DenseId, u32)>,
    /// The value of `open` when the index was made.
    indexed: u64,
    /// Who got what on request: of most nobody.
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
        while self.entries.len() > config.history_max as usize
            || self.bytes > config.history_bytes_max && self.entries.len() > 1
        {
            self.drop_oldest();
        }
    }

    /// Drops what came before the interval `oldest`.
    pub(super) fn expire(&mut self, oldest: u32) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.beat < oldest)
        {
            self.drop_oldest();
        }
        if self.entries.is_empty() {
            // An idle node keeps no memory for a burst that is over.
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

    /// The newest names of the intervals from `oldest` on, at most `max`, and lets every message be
    /// asked for.
    pub(super) fn announce(&mut self, oldest: u32, max: usize) -> Vec<DenseId> {
        self.open = self.first + self.entries.len() as u64;
        let recent = self.entries.iter().rev().take(max);
        let count = recent.take_while(|entry| entry.beat >= oldest).count();
        let recent = self.entries.range(self.entries.len() - count..);
        recent.map(|entry| entry.id).collect()
    }

    /// The message of that name, if it can be asked for, and who got it on request.
    pub(super) fn find(&mut self, id: &DenseId) -> Option<(&P, PeerSet)> {
        if self.indexed != self.open {
            self.renew_index();
        }
        let at = self.index.binary_search_by_key(id, |(id, _)| *id).ok()?;
        // What was dropped since is far above all.
        let position = self.index[at].1.wrapping_sub(self.first as u32);
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

    /// Notes that peers got a message on request.
    pub(super) fn serve(&mut self, id: DenseId, to: PeerSet) {
        let served = self.served.entry(id).or_insert(PeerSet::EMPTY);
        *served = served.or(to);
    }

    /// Forgets what a peer was sent on request: its number will be another peer's.
    pub(super) fn forget(&mut self, peer: PeerSet) {
        for served in self.served.values_mut() {
            *served = served.minus(peer);
        }
    }
}
