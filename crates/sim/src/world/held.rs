//! Messages that a node holds back while it works, in the order in which they leave.

use crate::gossip::Peers;
use crate::role::Wire;
use alphorn_proto::Peer;
use std::collections::{BTreeMap, VecDeque};

/// A message waiting for its sender's work.
#[derive(Debug)]
pub(super) struct Held<M> {
    pub(super) due_ns: u64,
    pub(super) to: Peers,
    pub(super) message: M,
    pub(super) priority: u8,
}

/// End of the last work a node did, and the messages waiting for it, in order.
#[derive(Debug)]
struct Hold<M> {
    until_ns: u64,
    waiting: VecDeque<Held<M>>,
}

/// What the nodes of a span hold back; empty if no node works itself.
#[derive(Debug)]
pub(super) struct Holds<M>(BTreeMap<u32, Hold<M>>);

impl<M> Default for Holds<M> {
    fn default() -> Self {
        Holds(BTreeMap::new())
    }
}

impl<M> Holds<M> {
    /// Whether no node holds anything back.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records that a node works until then.
    pub(super) fn work(&mut self, node: u32, until_ns: u64) {
        let idle = || Hold {
            until_ns,
            waiting: VecDeque::new(),
        };
        self.0.entry(node).or_insert_with(idle).until_ns = until_ns;
    }

    /// When a message sent now can leave; none if it can leave at once.
    pub(super) fn due_ns(&mut self, node: u32, now_ns: u64) -> Option<u64> {
        let hold = self.0.get(&node)?;
        if hold.until_ns > now_ns || !hold.waiting.is_empty() {
            // The work may be over while earlier messages wait for their event at this very time: they go first.
            return Some(hold.until_ns.max(now_ns));
        }
        // While no node is in the map, `send` does not look into it.
        self.0.remove(&node);
        None
    }

    /// Holds a message of a node that works. Returns false if the node does not.
    pub(super) fn push(&mut self, node: u32, held: Held<M>) -> bool {
        let hold = self.0.get_mut(&node);
        hold.map(|hold| hold.waiting.push_back(held)).is_some()
    }

    /// Takes the next due message of a node.
    pub(super) fn pop(&mut self, node: u32, now_ns: u64) -> Option<Held<M>> {
        let waiting = &mut self.0.get_mut(&node)?.waiting;
        let is_due = waiting.front().is_some_and(|held| held.due_ns <= now_ns);
        is_due.then(|| waiting.pop_front()).flatten()
    }

    /// Drops everything held by a node.
    pub(super) fn remove(&mut self, node: u32) {
        self.0.remove(&node);
    }
}

impl<M: Wire> Holds<M> {
    /// Cancels the messages that a node holds for a neighbour and that fit. Returns how many of them are paced.
    pub(super) fn cancel(&mut self, node: u32, peer: Peer, fits: impl Fn(&M) -> bool) -> usize {
        let Some(hold) = self.0.get_mut(&node) else {
            return 0;
        };
        let mut taken = 0;
        hold.waiting.retain_mut(|held| {
            if !held.to.iter().any(|to| to == peer) || !fits(&held.message) {
                return true;
            }
            taken += usize::from(held.message.is_paced());
            let others = held.to.iter().filter(|to| *to != peer);
            held.to = Peers::List(others.collect());
            !held.to.is_empty()
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_behind_work_keeps_its_order() {
        let mut holds = Holds::default();
        holds.work(4, 100);
        assert_eq!(
            (holds.due_ns(5, 50), holds.due_ns(4, 50)),
            (None, Some(100))
        );
        let mut hold = |due_ns, message| {
            let to = Peers::One(Peer(0));
            let waiting = &mut holds.0.get_mut(&4).unwrap().waiting;
            waiting.push_back(Held {
                due_ns,
                to,
                message,
                priority: 0,
            });
        };
        hold(100, "drawn");
        hold(100, "told");
        holds.work(4, 130);
        assert_eq!(holds.due_ns(4, 100), Some(130));
        let sent =
            |holds: &mut Holds<&'static str>, now| holds.pop(4, now).map(|held| held.message);
        assert_eq!(sent(&mut holds, 99), None);
        assert_eq!(sent(&mut holds, 100), Some("drawn"));
        // Waiting messages go first, whatever the time.
        assert_eq!(holds.due_ns(4, 140), Some(140));
        assert_eq!(sent(&mut holds, 140), Some("told"));
        assert_eq!((holds.due_ns(4, 140), holds.0.len()), (None, 0));
    }
}
