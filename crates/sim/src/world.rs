//! The world of a run: all nodes, the network between them, one virtual clock.
//!
//! The main loop opens a window as long as the minimum latency (`windows.rs`). For each node in it, it takes the
//! node's first event, hands its input to the node's state machine, carries out the effects, and sets the node's
//! timer if the deadline moved (`world/span.rs`). No event causes an allocation. Spans of nodes go through a window
//! on one thread each. Anything that concerns several nodes at once (what spans send each other, changes of the
//! world, what a probe sees) is processed in time order between windows, so a run is the same for any number of
//! spans.

mod account;
mod change;
mod config;
mod effects;
pub(crate) mod follow;
mod follower;
mod held;
mod kind;
mod probe;
mod restart;
mod seen;
mod show;
mod span;
#[cfg(test)]
mod tests;
mod trace;
mod tracer;
mod wraps;

pub(crate) use change::Change;
pub(crate) use config::{Limits, WorldConfig};
pub(crate) use probe::Probe;
pub use tracer::Traced;
pub(crate) use tracer::{node_name, signed};

use crate::net::{Net, Tally};
use crate::role::{Input, Role, Wire};
use crate::windows::ARG_MAX;
use alphorn_proto::Peer;
use alphorn_types::Time;
use rayon::prelude::*;
use restart::Restart;
use span::Span;
use std::collections::BTreeMap;
use tracer::Told;

/// Threads share a window if the previous one had this many events, or this one starts with this many: waking a
/// thread takes as long as a few hundred events.
const EVENTS_SHARED: u64 = 512;

/// Why a run cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// Too many events.
    #[error("more than {max} events by {at_ns} ns of virtual time")]
    Events {
        /// The bound.
        max: u64,
        /// Virtual time at that event.
        at_ns: u64,
    },
    /// An event is due after the last instant.
    #[error("something happens at {value_ns} ns of virtual time, must be at most {max_ns}")]
    Time {
        /// Time of the event.
        value_ns: u64,
        /// The bound.
        max_ns: u64,
    },
    /// More messages are in flight than events can name.
    #[error("more than {max} messages are on their way at {at_ns} ns of virtual time")]
    Flights {
        /// The bound.
        max: u32,
        /// Virtual time.
        at_ns: u64,
    },
}

/// Why [`World::run_until`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Nothing is in flight, no node is computing, and deadlines have no effect.
    Quiet,
    /// Virtual time reached the requested instant.
    Until,
    /// The probe has seen enough.
    Done,
    /// The requested number of events was handled.
    Events,
}

/// All nodes of a run under one virtual clock; see the [module](self).
///
/// `W` observes the run ([`Probe`]).
#[derive(Debug)]
pub(crate) struct World<R: Role, W = ()> {
    /// At least one.
    spans: Vec<Span<R>>,
    /// Nodes per span; the last span may have fewer.
    span_nodes: u32,
    /// Scheduled changes, by time and then in the order they were requested.
    changes: BTreeMap<(u64, u32), Change>,
    changes_count: u32,
    cuts_count: usize,
    restart: Restart<R>,
    probe: W,
    limits: Limits,
    /// Maximum number of messages in flight at the end of a window.
    on_the_way_max: u32,
    now_ns: u64,
    /// The last window had enough events to share.
    is_busy: bool,
    told: Told,
}

impl<R: Role, W: Probe<R>> World<R, W> {
    /// Creates a world at virtual time 0. The roles either know their neighbours already, or learn of them through
    /// [`World::connect`].
    ///
    /// # Panics
    /// If there is not one role, one bandwidth and one processor for each node of the graph.
    pub(crate) fn new(roles: Vec<R>, config: &WorldConfig, probe: W) -> Self {
        let nodes = config.net.graph.nodes();
        assert_eq!(nodes as usize, roles.len(), "a role for each node");
        assert_eq!(roles.len(), config.net.rate.len(), "a bandwidth each");
        assert_eq!(roles.len(), config.processor.len(), "a processor each");
        let threads = u32::try_from(config.threads).unwrap_or(u32::MAX);
        let span_nodes = nodes.div_ceil(threads.max(1)).max(1);
        let mut roles = roles.into_iter();
        // There is a first span even without nodes: it holds the graph, and says whether a window is open.
        let firsts = (0..nodes.max(1)).step_by(span_nodes as usize);
        let span = |first: u32| {
            let nodes = first..nodes.min(first + span_nodes);
            let roles = roles.by_ref().take(nodes.len()).collect();
            Span::new(roles, &nodes, config, span_nodes)
        };
        World {
            spans: firsts.map(span).collect(),
            span_nodes,
            changes: BTreeMap::new(),
            changes_count: 0,
            cuts_count: 0,
            restart: Restart::default(),
            probe,
            limits: config.limits,
            on_the_way_max: ARG_MAX,
            now_ns: 0,
            is_busy: true,
            told: Told::default(),
        }
    }

    /// Informs every node of all its neighbours, now.
    pub(crate) fn connect(&mut self) {
        for node in 0..self.graph().nodes() {
            for peer in 0..self.graph().peers(node).len() as u64 {
                self.input(node, Input::PeerUp { peer: Peer(peer) });
            }
        }
    }

    fn span(&self, node: u32) -> &Span<R> {
        &self.spans[(node / self.span_nodes) as usize]
    }

    fn span_mut(&mut self, node: u32) -> &mut Span<R> {
        &mut self.spans[(node / self.span_nodes) as usize]
    }

    /// Hands a node an input between two windows.
    pub(crate) fn input(&mut self, node: u32, input: Input<R>) {
        self.span_mut(node).input(node, input);
    }

    /// Virtual time.
    pub(crate) fn now(&self) -> Time {
        Time::from_nanos(self.now_ns)
    }

    /// The state machine of a node.
    ///
    /// # Panics
    /// If there is no such node.
    pub(crate) fn role(&self, node: u32) -> &R {
        &self.span(node).roles[node]
    }

    /// All state machines by node.
    pub(crate) fn roles(&self) -> impl Iterator<Item = &R> {
        self.spans.iter().flat_map(|span| span.roles.iter())
    }

    /// The probe that observes the run.
    pub(crate) fn probe(&self) -> &W {
        &self.probe
    }

    /// The probe that observes the run.
    pub(crate) fn probe_mut(&mut self) -> &mut W {
        &mut self.probe
    }

    /// The connections.
    pub(crate) fn graph(&self) -> &crate::graph::Graph {
        &self.spans[0].net.graph
    }

    /// What a node has sent and received.
    ///
    /// # Panics
    /// If there is no such node.
    pub(crate) fn tally(&self, node: u32) -> &Tally {
        &self.span(node).net.tally[node]
    }

    /// When the first part of a payload reached a node.
    pub(crate) fn first_ns(&self, node: u32) -> Option<u64> {
        self.span(node).begun.first_ns(node)
    }

    fn nets(&self) -> impl Iterator<Item = &Net<R::Message>> {
        self.spans.iter().map(|span| &span.net)
    }

    /// Messages and bytes sent, in bins of 10 ms by kind: `(bin, kind, messages, bytes)`.
    pub(crate) fn series(&self) -> impl Iterator<Item = (u64, usize, u64, u64)> {
        let kinds = R::Message::KINDS.len();
        let bins = self.nets().map(|net| net.series.len()).max();
        let at = move |i: usize| {
            let sent = self.nets().filter_map(|net| net.series.get(i));
            let (messages, bytes) = sent.fold((0, 0), |(messages, bytes), sent| {
                (messages + sent.messages, bytes + sent.bytes)
            });
            ((i / kinds) as u64, i % kinds, messages, bytes)
        };
        let all = (0..bins.unwrap_or(0)).map(at);
        all.filter(|(.., bytes)| *bytes > 0)
    }

    /// Events handled so far.
    pub(crate) fn events(&self) -> u64 {
        self.spans.iter().map(|span| span.events).sum()
    }

    /// Messages received by nodes so far.
    pub(crate) fn received(&self) -> u64 {
        self.spans.iter().map(|span| span.received).sum()
    }

    /// Hash of the events so far, independent of the order in which nodes were handled.
    pub(crate) fn event_hash(&self) -> u64 {
        let hashes = self.spans.iter().map(|span| span.hash);
        hashes.fold(0, u64::wrapping_add)
    }

    /// Gives a node a command at a given time, now or later.
    ///
    /// # Panics
    /// If there is no such node, the time is in the past, or 2^28 commands are pending.
    pub(crate) fn command(&mut self, at: Time, node: u32, command: R::Command) {
        assert!(node < self.graph().nodes(), "node {node}");
        assert!(at >= self.now(), "a command for a time that is over");
        let span = self.span_mut(node);
        let index = span.commands.insert(command, 1);
        let index = index.expect("commands are fewer than an event can name");
        span.queue.push(at.as_nanos(), node, kind::COMMAND, index);
    }

    /// Handles events until virtual time reaches `until`, or `events` of them are handled (with several threads, up
    /// to the end of a window more), or the probe is done.
    ///
    /// # Errors
    /// [`WorldError`] if a bound is exceeded; the run cannot continue then.
    pub(crate) fn run_until(&mut self, until: Time, events: u64) -> Result<Pause, WorldError> {
        let until_ns = until.as_nanos();
        let last = self.events().saturating_add(events);
        // One event more than allowed shows that there are too many.
        let last = last.min(self.limits.events_max.saturating_add(1));
        let most_ns = until_ns.min(self.limits.sim_time_max_ns);
        loop {
            self.check_bounds()?;
            // Only between windows: inside one, nodes have come to different times, and the probe has not been shown
            // what they did.
            if !self.is_open() {
                if self.probe.is_done() {
                    return Ok(Pause::Done);
                }
                if self.is_quiet() {
                    return Ok(Pause::Quiet);
                }
            }
            if self.events() >= last {
                return Ok(Pause::Events);
            }
            if !self.advance(most_ns, last) {
                return self.at_end(until_ns);
            }
            if !self.is_open() {
                self.close();
            }
        }
    }

    /// Whether the run may continue. The answer is the same for any number of threads.
    fn check_bounds(&self) -> Result<(), WorldError> {
        let (max, at_ns) = (self.limits.events_max, self.now_ns);
        if self.events() > max {
            return Err(WorldError::Events { max, at_ns });
        }
        let max = self.on_the_way_max;
        // Not inside a window, where the number depends on which nodes have had their turn.
        let too_many = !self.is_open() && self.on_the_way() > max as usize;
        match too_many || self.nets().any(|net| net.full) {
            true => Err(WorldError::Flights { max, at_ns }),
            false => Ok(()),
        }
    }

    /// Everything waiting in uplinks or scheduled for later: at least the number of messages.
    pub(crate) fn on_the_way(&self) -> usize {
        let waiting = self.spans.iter().map(|span| {
            let outgoing: usize = span.net.outgoing.iter().map(Vec::len).sum();
            span.net.flights.len() + outgoing + span.queue.len()
        });
        waiting.sum()
    }

    /// Whether a window is open; with one thread, a run can stop inside it.
    fn is_open(&self) -> bool {
        self.spans[0].queue.is_open()
    }

    /// Whether only deadlines are pending, and have been for long enough.
    fn is_quiet(&self) -> bool {
        let (mut latest_ns, mut active_ns, mut waiting) = (0, 0, self.changes.len());
        for span in &self.spans {
            latest_ns = span.latest_ns.max(latest_ns);
            active_ns = span.active_ns.max(active_ns);
            let outgoing: usize = span.net.outgoing.iter().map(Vec::len).sum();
            // A timer that an earlier one has replaced stays in the queue and in the count until its time.
            waiting += outgoing + span.queue.len() - span.timers;
        }
        latest_ns.saturating_sub(active_ns) > self.limits.quiet_ns && waiting == 0
    }

    /// Goes through the next window, or the rest of an open one, up to the next change of the world. A change that
    /// precedes everything else is made first. Returns false if nothing happens by `most_ns`.
    fn advance(&mut self, most_ns: u64, last: u64) -> bool {
        loop {
            let (before, rest) = (self.events(), self.is_open());
            let change = self.changes.first_key_value().map(|((at_ns, _), _)| *at_ns);
            // Exclusive: what happens at the very time of a change comes after it.
            let until_ns = most_ns.saturating_add(1).min(change.unwrap_or(u64::MAX));
            let window = self.exchange();
            if window.is_some() || self.is_open() {
                self.go(window.unwrap_or(0), until_ns, last);
            }
            let now_ns = self.spans.iter().map(|span| span.now_ns);
            self.now_ns = now_ns.fold(self.now_ns, u64::max);
            self.is_busy = self.events() - before >= EVENTS_SHARED;
            if self.events() > before || rest || self.is_open() {
                return true;
            }
            if change.is_none_or(|at_ns| at_ns > most_ns) {
                return false;
            }
            // No event is left before the change.
            self.change_next();
        }
    }

    /// Hands over what spans sent each other and returns the number of the next window.
    fn exchange(&mut self) -> Option<u64> {
        let mut first = self
            .spans
            .iter()
            .filter_map(|span| span.queue.next_window())
            .min();
        if self.spans.len() > 1 {
            for to in 0..self.spans.len() {
                for from in 0..self.spans.len() {
                    // In any order: arrivals are sorted by time, sender and departure when their window is opened.
                    let outgoing = std::mem::take(&mut self.spans[from].net.outgoing[to]);
                    if !outgoing.is_empty() {
                        self.spans[to].incoming.push(outgoing);
                    }
                }
            }
            for span in &mut self.spans {
                let first_ns = std::mem::replace(&mut span.net.outgoing_ns, u64::MAX);
                if first_ns < u64::MAX {
                    let window = span.queue.window_of(first_ns);
                    first = Some(first.map_or(window, |first| first.min(window)));
                }
            }
        }
        first
    }

    /// Goes through a window up to `until_ns`: with one thread up to the event `last`, with several to its end.
    fn go(&mut self, window: u64, until_ns: u64, last: u64) {
        // A lone span may pause inside its window. Several would pause at events that depend on their number, so
        // they always go to its end.
        if let [span] = &mut *self.spans {
            if span.queue.is_open() || span.queue.open(window, until_ns) {
                span.go(last);
            }
            return;
        }
        let all = |span: &mut Span<R>| {
            span.enqueue();
            if span.queue.open(window, until_ns) {
                span.go(u64::MAX);
            }
        };
        // After a silence, a phase starts at all nodes at once.
        let waiting = |span: &Span<R>| span.queue.waiting(window, EVENTS_SHARED);
        let is_busy = self.is_busy || self.spans.iter().map(waiting).sum::<u64>() >= EVENTS_SHARED;
        match is_busy {
            true => self.spans.par_iter_mut().for_each(all),
            false => self.spans.iter_mut().for_each(all),
        }
    }

    /// Ends a window, or the part of it that has happened, and shows what was seen in it.
    pub(crate) fn close(&mut self) {
        let latest_ns = self.spans.iter().map(|span| span.latest_ns).max();
        self.now_ns = latest_ns.unwrap_or(0);
        self.show();
        self.tell_traffic();
        self.close_trace();
    }

    /// Called when nothing more happens by the requested time.
    fn at_end(&mut self, until_ns: u64) -> Result<Pause, WorldError> {
        let change = self.changes.first_key_value().map(|((at_ns, _), _)| *at_ns);
        for span in &mut self.spans {
            span.enqueue();
        }
        let next = self
            .spans
            .iter_mut()
            .filter_map(|span| span.queue.next_time_ns());
        match next.chain(change).min() {
            None => Ok(Pause::Quiet),
            Some(time_ns) if time_ns > until_ns => {
                self.now_ns = self.now_ns.max(until_ns);
                Ok(Pause::Until)
            }
            Some(value_ns) => Err(WorldError::Time {
                value_ns,
                max_ns: self.limits.sim_time_max_ns,
            }),
        }
    }
}
