//! Messages that a node sends after doing work itself. They leave when the work is done, and anything the node
//! sends later leaves after them, as on a single thread.

use super::kind;
use super::span::Span;
use crate::gossip::Peers;
use crate::net::event as net;
use crate::role::{Role, Wire};
use alphorn_proto::Peer;
use std::collections::{BTreeMap, VecDeque};

/// A message waiting for its sender's work.
#[derive(Debug)]
struct Held<M> {
    due_ns: u64,
    to: Peers,
    message: M,
    priority: u8,
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
    /// Records that a node works until then.
    fn work(&mut self, node: u32, until_ns: u64) {
        let idle = || Hold {
            until_ns,
            waiting: VecDeque::new(),
        };
        self.0.entry(node).or_insert_with(idle).until_ns = until_ns;
    }

    /// When a message sent now can leave; none if it can leave at once.
    fn due_ns(&mut self, node: u32, now_ns: u64) -> Option<u64> {
        let hold = self.0.get(&node)?;
        if hold.until_ns > now_ns || !hold.waiting.is_empty() {
            // The work may be over while earlier messages wait for their event at this very time: they go first.
            return Some(hold.until_ns.max(now_ns));
        }
        // While no node is in the map, `send` does not look into it.
        self.0.remove(&node);
        None
    }

    /// Takes the next due message of a node.
    fn pop(&mut self, node: u32, now_ns: u64) -> Option<Held<M>> {
        let waiting = &mut self.0.get_mut(&node)?.waiting;
        let is_due = waiting.front().is_some_and(|held| held.due_ns <= now_ns);
        is_due.then(|| waiting.pop_front()).flatten()
    }
}

impl<R: Role> Span<R> {
    /// Charges a node for its own work, which takes `cost_ns` at the speed of the cost table and starts after its
    /// current work.
    pub(super) fn work(&mut self, node: u32, cost_ns: u64) {
        let time_ns = self.compute.time_ns(node, cost_ns);
        let hot = &mut self.net.hot[node];
        let until_ns = hot.cpu_free_ns.max(self.now_ns).saturating_add(time_ns);
        hot.cpu_free_ns = until_ns;
        self.net.tally[node].cpu_ns += time_ns;
        self.net.loads.at(self.now_ns, node).cpu_ns += time_ns;
        self.net.loads.last_until(until_ns);
        self.holds.work(node, until_ns);
    }

    /// Sends a message, after the work that its node did for it.
    #[inline]
    pub(super) fn send(&mut self, node: u32, to: Peers, message: R::Message, priority: u8) {
        match self.holds.0.is_empty() {
            true => self.send_now(node, &to, message, priority),
            false => self.send_behind(node, to, message, priority),
        }
    }

    fn send_behind(&mut self, node: u32, to: Peers, message: R::Message, priority: u8) {
        let Some(due_ns) = self.holds.due_ns(node, self.now_ns) else {
            return self.send_now(node, &to, message, priority);
        };
        if let Some(hold) = self.holds.0.get_mut(&node) {
            hold.waiting.push_back(Held {
                due_ns,
                to,
                message,
                priority,
            });
            self.queue.push(due_ns, node, kind::HELD, 0);
        }
    }

    /// Sends the messages of a node that are due by now.
    pub(super) fn send_held(&mut self, node: u32) {
        while let Some(held) = self.holds.pop(node, self.now_ns) {
            self.send_now(node, &held.to, held.message, held.priority);
        }
    }

    /// Cancels matching messages that a node holds for a neighbour, and notifies it of the paced ones.
    pub(super) fn cancel_held(&mut self, node: u32, peer: Peer, what: &R::Cancel) {
        let Some(hold) = self.holds.0.get_mut(&node) else {
            return;
        };
        let mut taken = 0;
        hold.waiting.retain_mut(|held| {
            if !held.to.iter().any(|to| to == peer) || !R::cancels(what, &held.message) {
                return true;
            }
            taken += usize::from(held.message.is_paced());
            let others = held.to.iter().filter(|to| *to != peer);
            held.to = Peers::List(others.collect());
            !held.to.is_empty()
        });
        for _ in 0..taken {
            let number = peer.0 as u32;
            // As for messages taken out of the uplink, since the role waits for each of them.
            self.queue.push(self.now_ns, node, net::READY, number);
        }
    }

    /// Drops everything held by a node that went down.
    pub(super) fn drop_held(&mut self, node: u32) {
        self.holds.0.remove(&node);
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
