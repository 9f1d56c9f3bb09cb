//! Changes of the world itself: nodes that go down, slow down, or are cut off.

use super::restart::Restart;
use super::{Probe, World};
use crate::fault::{Interval, Wrap};
use crate::graph::Graph;
use crate::latency::fold;
use crate::net::{Cut, Rate};
use crate::numbered::Numbered;
use crate::role::{Input, Role};
use alphorn_proto::Peer;
use alphorn_types::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A change of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A node is cut off from the network: what it sends or would receive is lost. Its state stays, and its jobs
    /// continue.
    Down(u32),
    /// A node is up again.
    Up(u32),
    /// A node is up again and has forgotten everything: a new state machine replaces its old one
    /// (`World::set_restart`), and results of earlier jobs mean nothing to it.
    UpAnew(u32),
    /// A node's bandwidth changes.
    Link(u32, Rate),
    /// Work on a node takes this percentage of its cost.
    Speed(u32, u64),
    /// The connections cut by a partition or an eclipse (numbered in order) break (false) or are back (true).
    Across(usize, bool),
}

impl<R: Role, W: Probe<R>> World<R, W> {
    /// Schedules a change at a given time, now or later, before anything else that happens then.
    ///
    /// # Panics
    /// If the time is in the past.
    pub(crate) fn change(&mut self, at: Time, change: Change) {
        assert!(at >= self.now(), "a change at a time that is over");
        let key = (at.as_nanos(), self.changes_count);
        self.changes_count += 1;
        self.changes.insert(key, change);
    }

    /// Cuts one side of the nodes off from the other for an interval. Streams break `break_ns` after its start:
    /// what would arrive later is lost, and both ends are notified. An interval that ends before then only delays
    /// traffic.
    ///
    /// # Panics
    /// If there is not one entry for each node, or the interval has started.
    pub(crate) fn partition(&mut self, side: Vec<bool>, interval: Interval, break_ns: u64) {
        self.cut(side, interval, break_ns, false);
    }

    /// For an interval, lets all nodes outside `side` reach only the nodes in it.
    ///
    /// # Panics
    /// As [`World::partition`].
    pub(crate) fn eclipse(&mut self, side: Vec<bool>, interval: Interval, break_ns: u64) {
        self.cut(side, interval, break_ns, true);
    }

    fn cut(&mut self, side: Vec<bool>, interval: Interval, break_ns: u64, eclipse: bool) {
        let nodes = self.graph().nodes() as usize;
        assert_eq!(side.len(), nodes, "a side for each node");
        let Interval { from, until } = interval;
        let broken = from.saturating_add_ns(break_ns);
        let index = self.cuts_count;
        self.cuts_count += 1;
        let cut = Arc::new(Cut {
            side,
            eclipse,
            from_ns: from.as_nanos(),
            until_ns: until.as_nanos(),
            break_ns: broken.as_nanos(),
        });
        for span in &mut self.spans {
            span.net.cuts.push(cut.clone());
        }
        if until > broken {
            self.change(broken, Change::Across(index, false));
            if until < Time::MAX {
                self.change(until, Change::Across(index, true));
            }
        }
    }

    /// Adds a wrapper to a node's state machine, outside any existing ones.
    pub(crate) fn wrap(&mut self, node: u32, wrap: Box<dyn Wrap<R>>) {
        let span = self.span_mut(node);
        span.net.hot[node].wrapped = true;
        span.wraps.entry(node).or_default().push(wrap);
        span.settle(node);
    }

    /// Sets a node's clock ahead, before the run starts.
    ///
    /// # Panics
    /// If an event has already happened.
    pub(crate) fn skew(&mut self, node: u32, ahead_ns: u64) {
        assert_eq!(self.events(), 0, "clocks are set before a run");
        let span = self.span_mut(node);
        if span.skew_ns.is_empty() {
            let nodes = span.roles.numbers();
            span.skew_ns = Numbered::new(nodes.start, vec![0; nodes.len()]);
        }
        span.skew_ns[node] = ahead_ns;
        // The timer was set by the clock as it was before.
        span.net.hot[node].armed_ns = u64::MAX;
        span.settle(node);
    }

    /// Sets how a node restarts. The function gets the graph, the node's number and the count of its restarts.
    pub(crate) fn set_restart(&mut self, restart: impl Fn(&Graph, u32, u32) -> R + 'static) {
        self.restart = Restart {
            role: Some(Box::new(restart)),
            counts: BTreeMap::new(),
        };
    }

    fn begin_anew(&mut self, node: u32) {
        let Some(role) = &self.restart.role else {
            return;
        };
        let count = self.restart.counts.entry(node).or_default();
        *count += 1;
        let span = &mut self.spans[(node / self.span_nodes) as usize];
        span.roles[node] = role(&span.net.graph, node, *count);
        // A timer that is still queued was for the old state machine.
        span.net.hot[node].armed_ns = u64::MAX;
        self.probe.restarted(self.now_ns, node);
    }

    /// Carries out the next change, between two windows.
    pub(super) fn change_next(&mut self) {
        let Some(((now_ns, _), change)) = self.changes.pop_first() else {
            return;
        };
        self.now_ns = now_ns;
        for span in &mut self.spans {
            (span.now_ns, span.latest_ns, span.active_ns) = (now_ns, now_ns, now_ns);
        }
        let first = &mut self.spans[0];
        // Counted in one span alone, so that neither the events nor the hash depend on the number of spans.
        first.events += 1;
        first.hash = first.hash.wrapping_add(fold(now_ns, u64::MAX));
        match change {
            Change::Down(node) => {
                if !self.is_down(node) {
                    self.tell_neighbours(node, false);
                    let span = self.span_mut(node);
                    span.net.clear(&mut span.queue, now_ns, node);
                    span.holds.remove(node);
                    self.set_down(node, true);
                }
            }
            Change::Up(node) | Change::UpAnew(node) => {
                if self.is_down(node) {
                    if matches!(change, Change::UpAnew(_)) {
                        self.begin_anew(node);
                    }
                    // First, because what a node that is down sends to its neighbours would be dropped.
                    self.set_down(node, false);
                    self.tell_neighbours(node, true);
                }
            }
            Change::Link(node, rate) => {
                self.span_mut(node).net.set_rate(node, rate);
            }
            Change::Speed(node, factor_pct) => {
                self.span_mut(node).compute.set_factor(node, factor_pct);
            }
            Change::Across(cut, up) => self.tell_across(cut, up),
        }
        self.show();
    }

    fn is_down(&self, node: u32) -> bool {
        self.span(node).net.hot[node].down
    }

    /// Marks a node as down or up again, as every connection to it sees.
    fn set_down(&mut self, node: u32, down: bool) {
        self.span_mut(node).net.hot[node].down = down;
        // In a window a span sees only its own nodes, but it asks about neighbours in others: each has the set.
        let mut all = (*self.spans[0].net.down).clone();
        match down {
            true => all.insert(node),
            false => all.remove(&node),
        };
        let all = Arc::new(all);
        for span in &mut self.spans {
            span.net.down = all.clone();
        }
    }

    /// Notifies both ends of all connections that a cut separates.
    fn tell_across(&mut self, cut: usize, up: bool) {
        let Some(cut) = self.spans[0].net.cuts.get(cut).cloned() else {
            return;
        };
        for node in 0..self.graph().nodes() {
            for number in 0..self.graph().peers(node).len() as u32 {
                let across = self.graph().peers(node)[number as usize];
                if !cut.parts(node, across) || self.is_down(node) || self.is_down(across) {
                    continue;
                }
                let peer = Peer(u64::from(number));
                let input = match up {
                    true => Input::PeerUp { peer },
                    false => Input::PeerDown { peer },
                };
                self.input(node, input);
            }
        }
    }

    /// Duration of work at a node, as a percentage of its cost.
    pub(crate) fn factor_pct(&self, node: u32) -> u64 {
        self.span(node).compute.factor_pct(node)
    }

    /// Notifies both ends of all connections of a node that they are gone, or back.
    fn tell_neighbours(&mut self, node: u32, up: bool) {
        let input = |peer: u32| {
            let peer = Peer(u64::from(peer));
            match up {
                true => Input::PeerUp { peer },
                false => Input::PeerDown { peer },
            }
        };
        for number in 0..self.graph().peers(node).len() as u32 {
            let Some(end) = self.graph().end(node, number.into()) else {
                return;
            };
            let (peer, back) = (self.graph().peer(end), self.graph().back(end));
            if !self.is_down(peer) {
                self.input(peer, input(back));
                self.input(node, input(number));
            }
        }
    }
}
