//! Fetching of blocks that messages wait for, each requested by its root.
//!
//! A vote, a collection or a block can arrive before the block it refers to, and waits for it, but not
//! for long. The peer that forwarded it has checked it and so has the block, if it is honest. So that
//! peer is asked immediately. If it has not answered within [`PATIENCE_NS`], or not with that block, the
//! next peer that referred to the block is asked. If all of these are gone, another peer is asked.
//!
//! The driver decides how a request travels. [`Fetch`] decides whom to ask for what.
//!
//! Any peer can invent roots. So a peer is asked for one block at a time, and only once for each block.
//! Roots that only one peer refers to take one of [`FETCHES_MAX`] slots, however many they are. If there
//! are too many to remember, the least wanted are dropped. Peers whose last answer was empty share four
//! slots, after all others.

use crate::wire::Root;
use alphorn_types::{Peer, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of outstanding requests. Overdue ones count, since the network still awaits them.
pub const FETCHES_MAX: usize = 32;
/// Maximum number of requests that are not overdue.
const PROMPT_MAX: usize = 16;
/// Maximum number of requests to peers whose last answer was empty.
const DOUBTED_MAX: usize = 4;
/// How long a peer has until the next one is asked. Five of them fit into the time a message waits.
pub const PATIENCE_NS: u64 = 400_000_000;
/// How long a block is not requested while one with its header is being checked here.
pub const HELD_NS: u64 = 1_000_000_000;
/// Maximum number of remembered roots, with the peers asked for them.
pub(super) const SEARCHES_MAX: usize = 1_024;

/// A block that messages wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its root.
    pub root: Root,
    /// The peers that sent those messages, in order of first reference.
    pub peers: Vec<Peer>,
    /// Whether a block with its header has arrived and awaits its verdict.
    pub held: bool,
}

/// An unanswered request.
#[derive(Clone, Copy, Debug)]
struct Open {
    peer: Peer,
    root: Root,
    since: Time,
    /// No connected peer has referred to the block.
    is_guess: bool,
}

impl Open {
    fn is_prompt(&self, now: Time) -> bool {
        now < self.since.saturating_add_ns(PATIENCE_NS)
    }
}

/// The search for a block.
#[derive(Debug)]
struct Search {
    since: Time,
    asked: BTreeSet<Peer>,
}

/// Tracks which peer is asked for which block.
#[derive(Debug, Default)]
pub struct Fetch {
    open: BTreeMap<u64, Open>,
    searches: BTreeMap<Root, Search>,
    /// Number of consecutive empty answers, by peer.
    failed: BTreeMap<Peer, u32>,
}

impl Fetch {
    /// Starts searching for what is missing now, the most wanted first, and stops all other searches.
    pub fn keep(&mut self, now: Time, missing: &[Missing]) {
        // Rebuilt each time, so that a root nothing waits for any more is forgotten with the peers asked
        // for it.
        let mut before = std::mem::take(&mut self.searches);
        for Missing { root, .. } in missing.iter().take(SEARCHES_MAX) {
            let search = before.remove(root).unwrap_or_else(|| Search {
                since: now,
                asked: BTreeSet::new(),
            });
            self.searches.insert(*root, search);
        }
    }

    /// The peer to ask for a block now, if any.
    pub fn whom(&self, now: Time, missing: &Missing, peers: &BTreeSet<Peer>) -> Option<Peer> {
        let search = self.searches.get(&missing.root)?;
        let prompt = self.open.values().filter(|open| open.is_prompt(now));
        let is_asked = prompt.clone().any(|open| open.root == missing.root);
        let is_held = missing.held && now < search.since.saturating_add_ns(HELD_NS);
        let is_full = self.open.len() >= FETCHES_MAX || prompt.count() >= PROMPT_MAX;
        if is_asked || is_held || is_full {
            return None;
        }
        let doubted = self.open.values().filter(|open| self.doubts(&open.peer));
        let room_for_doubted = doubted.count() < DOUBTED_MAX;
        let may = |peer: &&Peer| {
            // Overdue requests count: a peer that does not answer is asked for nothing else.
            let is_busy = self.open.values().any(|open| open.peer == **peer);
            let is_trusted = room_for_doubted || !self.doubts(peer);
            !is_busy && is_trusted && !search.asked.contains(peer)
        };
        let failed = |peer: &&Peer| self.failed.get(peer).copied().unwrap_or(0);
        if !missing.peers.iter().any(|peer| peers.contains(peer)) {
            // One guess at a time: these peers never claimed to have the block.
            let is_guessing = self.open.values().any(|open| open.is_guess);
            let others = peers.iter().filter(may).filter(|_| !is_guessing);
            return others.min_by_key(failed).copied();
        }
        // Among equally reliable peers the one that referred to the block first is asked first.
        let spoke = missing.peers.iter().filter(|peer| peers.contains(peer));
        spoke.filter(may).min_by_key(failed).copied()
    }

    fn doubts(&self, peer: &Peer) -> bool {
        self.failed.contains_key(peer)
    }

    /// Records that a peer is asked for a block.
    pub fn asked(&mut self, now: Time, id: u64, peer: Peer, missing: &Missing) {
        if let Some(search) = self.searches.get_mut(&missing.root) {
            search.asked.insert(peer);
        }
        let open = Open {
            peer,
            root: missing.root,
            since: now,
            is_guess: !missing.peers.contains(&peer),
        };
        self.open.insert(id, open);
    }

    /// Records that a request could not be sent. It may be sent later.
    pub fn refused(&mut self, id: u64) {
        if let Some(open) = self.open.remove(&id)
            && let Some(search) = self.searches.get_mut(&open.root)
        {
            search.asked.remove(&open.peer);
        }
    }

    /// The block that a request asked for. None if the id is unknown or was answered.
    pub fn wanted(&self, id: u64) -> Option<Root> {
        self.open.get(&id).map(|open| open.root)
    }

    /// Records an answer to a request, with the block or without.
    pub fn answered(&mut self, id: u64, with_block: bool) {
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        match with_block {
            true => {
                self.failed.remove(&open.peer);
            }
            // It never claimed to have the block.
            false if open.is_guess => {}
            false => *self.failed.entry(open.peer).or_default() += 1,
        }
    }

    /// Removes a disconnected peer and its request.
    pub fn peer_down(&mut self, peer: Peer) {
        self.failed.remove(&peer);
        self.open.retain(|_, open| open.peer != peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roots invented by a peer before it leaves make the node ask all others in turn, which lack those
    /// blocks.
    #[test]
    fn who_is_asked_on_a_guess_and_has_nothing_is_not_doubted() {
        let (liar, honest) = (Peer(0), Peer(1));
        let peers = BTreeSet::from([honest]);
        let missing = |root: u8, peer: Peer| Missing {
            root: [root; 32],
            peers: vec![peer],
            held: false,
        };
        let mut fetch = Fetch::default();
        let invented: Vec<Missing> = (0..20).map(|root| missing(root, liar)).collect();
        fetch.keep(Time::ZERO, &invented);
        for (id, missing) in (0..).zip(&invented) {
            assert_eq!(fetch.whom(Time::ZERO, missing, &peers), Some(honest));
            fetch.asked(Time::ZERO, id, honest, missing);
            fetch.answered(id, false);
            assert!(!fetch.doubts(&honest));
        }
        let spoken_of = missing(99, honest);
        fetch.keep(Time::ZERO, std::slice::from_ref(&spoken_of));
        fetch.asked(Time::ZERO, 99, honest, &spoken_of);
        fetch.answered(99, false);
        assert!(fetch.doubts(&honest), "it spoke of the block");
    }
}
