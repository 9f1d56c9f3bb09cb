//! Blocks that messages wait for, each asked for by its root.
//!
//! A vote, a collection or a block can come before the block that it refers to, and waits for it, but
//! not long. Whoever sent it on has checked it and so has the block, if it is honest. So it is asked
//! at once, and if it has not answered in [`PATIENCE_NS`], or not with that block, the next peer that
//! spoke of it is. If all who did are gone, somebody else is asked.
//!
//! How a question travels is the driver's: [`Fetch`] says whom to ask for what.
//!
//! Anybody can invent roots. So a peer is asked for one block at a time and for the same one once,
//! and roots that one peer alone speaks of take one place of [`FETCHES_MAX`], however many they are:
//! where they are too many to be remembered, the least wanted are not.
//! Peers whose last answer was none share four places, after all others.

use crate::contract::Peer;
use crate::wire::Root;
use alphorn_types::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Most questions whose answers are awaited. Those that are overdue count: the network awaits them.
pub const FETCHES_MAX: usize = 32;
/// Most questions that are not overdue.
const PROMPT_MAX: usize = 16;
/// Most questions to peers whose last answer was none.
const DOUBTED_MAX: usize = 4;
/// How long a peer has until the next one is asked: five of them while a message waits.
pub const PATIENCE_NS: u64 = 400_000_000;
/// How long a block is not asked for while one with its header is being checked here.
pub const HELD_NS: u64 = 1_000_000_000;
/// Most roots that are remembered with whom they were asked of.
pub(super) const SEARCHES_MAX: usize = 1_024;

/// A block that messages wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Which.
    pub root: Root,
    /// The peers that sent those messages, who did so first before the others.
    pub peers: Vec<Peer>,
    /// Whether a block with its header is here and waits for its verdict.
    pub held: bool,
}

/// A question that is not answered.
#[derive(Clone, Copy, Debug)]
struct Open {
    peer: Peer,
    root: Root,
    since: Time,
    /// Nobody that is here spoke of the block.
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

/// Who is asked for which block.
#[derive(Debug, Default)]
pub struct Fetch {
    open: BTreeMap<u64, Open>,
    searches: BTreeMap<Root, Search>,
    /// How many answers in a row were none, by peer.
    failed: BTreeMap<Peer, u32>,
}

impl Fetch {
    /// Begins the search for what is missing now, the most wanted first, and ends that for
    /// everything else.
    pub fn keep(&mut self, now: Time, missing: &[Missing]) {
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
            let is_busy = self.open.values().any(|open| open.peer == **peer);
            let is_trusted = room_for_doubted || !self.doubts(peer);
            !is_busy && is_trusted && !search.asked.contains(peer)
        };
        let failed = |peer: &&Peer| self.failed.get(peer).copied().unwrap_or(0);
        if !missing.peers.iter().any(|peer| peers.contains(peer)) {
            let is_guessing = self.open.values().any(|open| open.is_guess);
            let others = peers.iter().filter(may).filter(|_| !is_guessing);
            return others.min_by_key(failed).copied();
        }
        let spoke = missing.peers.iter().filter(|peer| peers.contains(peer));
        spoke.filter(may).min_by_key(failed).copied()
    }

    fn doubts(&self, peer: &Peer) -> bool {
        self.failed.contains_key(peer)
    }

    /// A peer is asked for a block.
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

    /// A question could not be asked; it may be later.
    pub fn refused(&mut self, id: u64) {
        if let Some(open) = self.open.remove(&id)
            && let Some(search) = self.searches.get_mut(&open.root)
        {
            search.asked.remove(&open.peer);
        }
    }

    /// The block that a question was about; none if it is none of these, or has been answered.
    pub fn wanted(&self, id: u64) -> Option<Root> {
        self.open.get(&id).map(|open| open.root)
    }

    /// A question was answered, with the block or without.
    pub fn answered(&mut self, id: u64, with_block: bool) {
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        match with_block {
            true => {
                self.failed.remove(&open.peer);
            }
            // It never said that it has the block.
            false if open.is_guess => {}
            false => *self.failed.entry(open.peer).or_default() += 1,
        }
    }

    /// A peer is gone, and with it the question to it.
    pub fn peer_down(&mut self, peer: Peer) {
        self.failed.remove(&peer);
        self.open.retain(|_, open| open.peer != peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roots that somebody invents before it leaves have all others asked in turn, who lack those blocks.
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
