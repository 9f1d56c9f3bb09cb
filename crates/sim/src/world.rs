//! The world of a run: all nodes, the network between them, one virtual clock.
//!
//! The loop: open a window of the least latency (`windows.rs`); for each node in it take the node's
//! first event, hand its input to the node's state machine, carry out the effects, and set its timer if the
//! deadline moved. What concerns several nodes at once, a change of the world or what a witness sees, is in
//! the order of time between the windows. Nothing is allocated for an event.

mod change;
mod effects;
pub(crate) mod follow;
mod seen;
#[cfg(test)]
mod tests;
mod trace;
mod witness;

pub use change::Change;
pub use trace::Traced;
pub use witness::Witness;

use crate::charge::{At, Compute, Done, Processor, kind as charge};
use crate::fault::Wrap;
use crate::latency::fold;
use crate::net::{Balance, Load, Net, NetConfig, PART, Tally, event as net};
use crate::role::{Input, Role, Wire};
use crate::slab::Slab;
use crate::windows::{ARG_MAX, Event, Windows};
use alphorn_proto::Peer;
use alphorn_types::Time;
use seen::Seen;
use std::collections::BTreeMap;

/// Kinds of events of the world itself.
mod kind {
    use super::charge::OTHERS_STILL;
    /// A deadline; generation.
    pub(super) const TIMER: u8 = OTHERS_STILL;
    /// A command; its number.
    pub(super) const COMMAND: u8 = OTHERS_STILL + 1;
}

// No own event has the kind of those that come from another node.
const _: () = assert!(kind::COMMAND < net::ARRIVAL);

/// Bounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events that are handled at most.
    pub events_max: u64,
    /// Last instant of virtual time, in nanoseconds.
    pub sim_time_max_ns: u64,
    /// A world in which no part of a payload was sent for so long, and nothing but deadlines waits, is
    /// quiet: state machines may look after their tables for ever.
    pub quiet_ns: u64,
}

/// A run that cannot go on.
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
    /// Something happens after the last instant.
    #[error("something happens at {value_ns} ns of virtual time, must be at most {max_ns}")]
    Time {
        /// When.
        value_ns: u64,
        /// The bound.
        max_ns: u64,
    },
    /// As many messages are on their way as events can name.
    #[error("more than {max} messages are on their way at {at_ns} ns of virtual time")]
    Flights {
        /// The bound.
        max: u32,
        /// Virtual time.
        at_ns: u64,
    },
}

/// Why [`World::run_until`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing is on the way, nobody computes, and deadlines lead to nothing.
    Quiet,
    /// Virtual time is what was asked for.
    Until,
    /// The witness has seen enough.
    Done,
    /// The number of events asked for was handled.
    Events,
}

/// What a world is made of, beside its roles.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// The network.
    pub net: NetConfig,
    /// Processors.
    pub processors: Vec<Processor>,
    /// Index of each node's processor.
    pub processor: Vec<u16>,
    /// Bounds.
    pub limits: Limits,
}

/// All nodes of a run under one virtual clock; see the [module](self).
///
/// `W` sees what happens ([`Witness`]).
#[derive(Debug)]
pub struct World<R: Role, W = ()> {
    roles: Vec<R>,
    net: Net<R::Message>,
    compute: Compute<R::Work>,
    queue: Windows,
    commands: Slab<R::Command>,
    /// What changes when, in the order of time, then as it was asked for.
    changes: BTreeMap<(u64, u32), Change>,
    changes_count: u32,
    wraps: BTreeMap<u32, Vec<Box<dyn Wrap<R>>>>,
    restart: change::Restart<R>,
    /// By how much a node's clock is ahead; empty if none is.
    skew_ns: Vec<u64>,
    done: Vec<Done<R::Work>>,
    witness: W,
    seen: Vec<Seen<R::Delivery>>,
    limits: Limits,
    now_ns: u64,
    /// The latest event so far.
    latest_ns: u64,
    events: u64,
    /// Messages that nodes received.
    received: u64,
    /// Deadlines that wait in the queue.
    timers: usize,
    /// When a part of a payload was last sent, a job ended, or something was asked for.
    active_ns: u64,
    /// Hash of the events so far, whatever their order.
    hash: u64,
    tracer: trace::Tracer,
    follower: follow::Follower,
}

impl<R: Role, W: Witness<R>> World<R, W> {
    /// A world at virtual time 0. The roles know of their neighbours already, or learn of them by
    /// [`World::connect`].
    ///
    /// # Panics
    /// If there is not one role, one bandwidth and one processor for each node of the graph.
    pub fn new(roles: Vec<R>, config: WorldConfig, witness: W) -> Self {
        let nodes = config.net.graph.nodes() as usize;
        assert_eq!(nodes, roles.len(), "a role for each node");
        assert_eq!(nodes, config.processor.len(), "a processor for each node");
        let queue = Windows::new(config.net.latency.least_ns(), nodes);
        let mut world = World {
            roles,
            net: Net::new(config.net),
            compute: Compute::new(config.processors, config.processor),
            queue,
            commands: Slab::default(),
            changes: BTreeMap::new(),
            changes_count: 0,
            wraps: BTreeMap::new(),
            restart: change::Restart::default(),
            skew_ns: Vec::new(),
            done: Vec::new(),
            witness,
            seen: Vec::new(),
            limits: config.limits,
            now_ns: 0,
            latest_ns: 0,
            events: 0,
            received: 0,
            timers: 0,
            active_ns: 0,
            hash: 0,
            tracer: trace::Tracer::default(),
            follower: follow::Follower::default(),
        };
        for node in 0..nodes as u32 {
            world.settle(node);
        }
        world
    }

    /// Tells every node of all its neighbours, now.
    pub fn connect(&mut self) {
        for node in 0..self.roles.len() as u32 {
            for peer in 0..self.net.graph.peers(node).len() as u64 {
                self.input(node, Input::PeerUp { peer: Peer(peer) });
            }
        }
    }

    /// Virtual time.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.now_ns)
    }

    /// The state machine of a node.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn role(&self, node: u32) -> &R {
        &self.roles[node as usize]
    }

    /// All state machines by node.
    pub fn roles(&self) -> &[R] {
        &self.roles
    }

    /// What saw the run.
    pub fn witness(&self) -> &W {
        &self.witness
    }

    /// What saw the run.
    pub(crate) fn witness_mut(&mut self) -> &mut W {
        &mut self.witness
    }

    /// The connections.
    pub fn graph(&self) -> &crate::graph::Graph {
        &self.net.graph
    }

    /// What each node has sent and received.
    pub fn tallies(&self) -> &[Tally] {
        &self.net.tally
    }

    /// What each class carried and computed, by the number of a bin.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (u64, u16, Load)> + '_ {
        self.net.loads.iter()
    }

    /// What became of the bytes.
    pub fn balance(&self) -> Balance {
        self.net.balance
    }

    /// Bytes that wait in uplinks, and those on the wire.
    pub(crate) fn bytes_on_the_way(&self) -> (u64, u64) {
        (self.net.waiting_bytes(), self.net.flying_bytes())
    }

    /// Messages and receipts on the way.
    #[cfg(test)]
    pub(crate) fn flights_count(&self) -> usize {
        self.net.flights.len()
    }

    /// Messages and bytes sent, in bins of 10 ms by kind: `(bin, kind, messages, bytes)`.
    pub fn series(&self) -> impl Iterator<Item = (u64, usize, u64, u64)> {
        let kinds = R::Message::KINDS.len();
        let bins = self.net.series.iter().enumerate();
        bins.filter(|(_, sent)| sent.bytes > 0)
            .map(move |(i, sent)| ((i / kinds) as u64, i % kinds, sent.messages, sent.bytes))
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Messages that nodes received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Hash of the events so far, whatever the order in which nodes were handled.
    pub fn event_hash(&self) -> u64 {
        self.hash
    }

    /// Gives a node a command at a time, now or later.
    ///
    /// # Panics
    /// If there is no such node, or the time is over, or 2^28 commands wait.
    pub fn command(&mut self, at: Time, node: u32, command: R::Command) {
        assert!((node as usize) < self.roles.len(), "node {node}");
        assert!(at >= self.now(), "a command for a time that is over");
        let index = self.commands.insert(command, 1);
        let index = index.expect("commands are fewer than an event can name");
        self.queue.push(at.as_nanos(), node, kind::COMMAND, index);
    }

    /// Hands an input over and carries out the effects.
    #[inline]
    fn input(&mut self, node: u32, input: Input<R>) {
        let now = self.time_at(node);
        self.trace_input(node, &input);
        if self.net.hot[node as usize].wrapped {
            return self.input_wrapped(node, input);
        }
        self.roles[node as usize].handle(now, input);
        self.settle(node);
    }

    /// The time that a node's clock shows.
    #[inline]
    fn time_at(&self, node: u32) -> Time {
        let skew_ns = self.skew_ns.get(node as usize).copied().unwrap_or(0);
        Time::from_nanos(self.now_ns.saturating_add(skew_ns))
    }

    /// Carries out all effects of a node, then sets its timer.
    #[inline]
    fn settle(&mut self, node: u32) {
        loop {
            while let Some(output) = self.roles[node as usize].poll_output() {
                self.perform(node, output);
            }
            if self.done.is_empty() {
                break;
            }
            self.finish_jobs(node);
        }
        let deadline = self.roles[node as usize].next_deadline();
        self.arm(node, deadline);
    }

    /// Sets the timer of a node. One that is too early stays: it looks again when it comes.
    #[inline]
    fn arm(&mut self, node: u32, deadline: Option<Time>) {
        let Some(deadline) = deadline.filter(|_| !self.net.hot[node as usize].down) else {
            return;
        };
        let skew_ns = self.skew_ns.get(node as usize).copied().unwrap_or(0);
        let due_ns = deadline.saturating_sub_ns(skew_ns).as_nanos();
        let hot = &mut self.net.hot[node as usize];
        if due_ns < hot.armed_ns {
            let due_ns = due_ns.max(self.now_ns);
            hot.armed_ns = due_ns;
            hot.timer = (hot.timer + 1) & ARG_MAX;
            self.queue.push(due_ns, node, kind::TIMER, hot.timer);
            self.timers += 1;
        }
    }

    /// Handles events until virtual time is `until`, or `events` of them, or until the witness is done.
    ///
    /// # Errors
    /// [`WorldError`] where a bound is passed; the run cannot go on then.
    pub fn run_until(&mut self, until: Time, events: u64) -> Result<Pause, WorldError> {
        let until_ns = until.as_nanos();
        let last = self
            .events
            .saturating_add(events)
            .min(self.limits.events_max);
        let most_ns = until_ns.min(self.limits.sim_time_max_ns);
        loop {
            if !self.queue.is_open() {
                if self.witness.is_done() {
                    return Ok(Pause::Done);
                }
                if self.is_quiet() {
                    return Ok(Pause::Quiet);
                }
                if !self.open(most_ns) {
                    return self.at_end(until_ns);
                }
            }
            while self.events < last {
                let Some(event) = self.queue.pop() else {
                    break;
                };
                self.happen(&event, last);
            }
            if self.net.full {
                return Err(WorldError::Flights {
                    max: ARG_MAX,
                    at_ns: self.now_ns,
                });
            }
            if self.queue.is_open() {
                return self.at_last();
            }
            self.close();
        }
    }

    /// Whether nothing but deadlines waits, and has for long.
    fn is_quiet(&self) -> bool {
        let idle_ns = self.latest_ns.saturating_sub(self.active_ns);
        let waits = self.queue.len() > self.timers || !self.changes.is_empty();
        idle_ns > self.limits.quiet_ns && !waits
    }

    /// Opens the next window, up to the next change of the world, which comes first if nothing happens
    /// before it; false if neither is there by `most_ns`.
    fn open(&mut self, most_ns: u64) -> bool {
        loop {
            let change = self.changes.first_key_value().map(|((at_ns, _), _)| *at_ns);
            let until_ns = most_ns.saturating_add(1).min(change.unwrap_or(u64::MAX));
            if self.queue.open(until_ns) {
                return true;
            }
            if change.is_none_or(|at_ns| at_ns > most_ns) {
                return false;
            }
            self.change_next();
        }
    }

    /// Ends a window, or the part of it that has happened: shows what was seen in it.
    pub(crate) fn close(&mut self) {
        self.now_ns = self.latest_ns;
        self.show();
        self.tell_traffic();
        self.close_trace();
    }

    /// Nothing more happens by the time asked for.
    fn at_end(&mut self, until_ns: u64) -> Result<Pause, WorldError> {
        let change = self.changes.first_key_value().map(|((at_ns, _), _)| *at_ns);
        match self.queue.next_time_ns().into_iter().chain(change).min() {
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

    fn at_last(&self) -> Result<Pause, WorldError> {
        let max = self.limits.events_max;
        let at_ns = self.now_ns;
        match self.events < max {
            true => Ok(Pause::Events),
            false => Err(WorldError::Events { max, at_ns }),
        }
    }

    /// Turns to an event of a node: counts it and hashes what it is.
    #[inline(always)]
    fn enter(&mut self, time_ns: u64, node: u32, kind: u8, bytes: u32) {
        self.now_ns = time_ns;
        self.latest_ns = self.latest_ns.max(time_ns);
        self.events += 1;
        let what = u64::from(node) << 8 | u64::from(kind);
        let draw = fold(
            time_ns ^ 0x9e37_79b9_7f4a_7c15,
            what ^ u64::from(bytes) << 40,
        );
        self.hash = self.hash.wrapping_add(draw);
    }

    /// What happens; and what follows from it at once, if it is the node's next event and not beyond the event
    /// `last`.
    #[inline]
    fn happen(&mut self, event: &Event, last: u64) {
        let (node, arg) = (event.node, event.arg());
        self.enter(event.time_ns, node, event.kind(), event.more[1]);
        match event.kind() {
            net::UPLINK => {
                self.uplink(node, arg, last);
            }
            net::ARRIVAL => {
                let at_ns = self.net.settle(event);
                if self.events >= last || !self.queue.comes_next(at_ns) {
                    let what = (net::DELIVERY, arg);
                    return self.queue.push_with(at_ns, node, what, event.more);
                }
                self.enter(at_ns, node, net::DELIVERY, event.more[1]);
                self.deliver(event, net::DELIVERY);
            }
            what @ (net::DELIVERY | net::RESERVED) => self.deliver(event, what),
            net::ACKNOWLEDGED => self.net.acknowledged(&mut self.queue, event),
            net::READY => self.send_ready(node, arg),
            what @ (charge::INLINE | charge::LANE | charge::PLAN) => {
                if what == charge::LANE {
                    self.active_ns = self.active_ns.max(self.now_ns);
                }
                let at = At {
                    now: self.now_ns,
                    node,
                    hot: &mut self.net.hot[node as usize],
                    tally: &mut self.net.tally[node as usize],
                    loads: &mut self.net.loads,
                    queue: &mut self.queue,
                };
                self.compute.happen(at, (what, arg), &mut self.done);
                self.settle_any(node);
            }
            kind::TIMER => {
                self.timers -= 1;
                self.ring(node, arg);
            }
            _ => {
                self.active_ns = self.active_ns.max(self.now_ns);
                if let Some(command) = self.commands.release(arg) {
                    self.input(node, Input::Command(command));
                }
            }
        }
    }

    /// An uplink is free: it goes on, and who waited for that is told.
    #[inline]
    fn uplink(&mut self, node: u32, ready: u32, last: u64) {
        loop {
            self.net.hot[node as usize].called = false;
            let Some(free_ns) = self.net.serve(&mut self.queue, self.now_ns, node) else {
                break;
            };
            if ready > 0 || self.events >= last || !self.queue.comes_next(free_ns) {
                self.queue.push(free_ns, node, net::UPLINK, 0);
                break;
            }
            self.enter(free_ns, node, net::UPLINK, 0);
        }
        if ready > 0 {
            self.send_ready(node, ready - 1);
        }
    }

    /// A paced message has left: told unless the neighbour is gone.
    fn send_ready(&mut self, node: u32, number: u32) {
        let peer = Peer(u64::from(number));
        let end = self.net.graph.end(node, peer.0);
        if end.is_some_and(|end| self.net.is_connected(self.now_ns, node, end)) {
            self.input(node, Input::SendReady { peer });
        }
    }

    /// A timer comes: the deadline, or a look at one that moved.
    fn ring(&mut self, node: u32, generation: u32) {
        let hot = &mut self.net.hot[node as usize];
        if hot.timer != generation || hot.armed_ns == u64::MAX {
            return;
        }
        hot.armed_ns = u64::MAX;
        if hot.down {
            return;
        }
        let now = self.time_at(node);
        if self.net.hot[node as usize].wrapped {
            return self.ring_wrapped(node);
        }
        match self.roles[node as usize].next_deadline() {
            Some(deadline) if deadline <= now => self.input(node, Input::Deadline),
            later => self.arm(node, later),
        }
    }

    /// A transmission is there, as of an event of this kind.
    #[inline]
    fn deliver(&mut self, event: &Event, kind: u8) {
        let (now, node, index) = (self.now_ns, event.node, event.arg());
        let bytes = event.more[1].into();
        if self.net.hot[node as usize].down {
            return self.net.lose(index, bytes);
        }
        if kind == net::DELIVERY
            && let Some(at_ns) = self.net.reserve(now, node)
        {
            let what = (net::RESERVED, index);
            return self.queue.push_with(at_ns, node, what, event.more);
        }
        self.net.received(now, node, bytes);
        if index < PART {
            self.hand_over(node, event.more[0], index);
        }
    }

    /// Hands over a message that is there and that the node holds.
    #[inline]
    fn hand_over(&mut self, node: u32, from: u32, index: u32) {
        let from = Peer(u64::from(from));
        let plain = !self.net.hot[node as usize].wrapped && !self.is_traced(node);
        self.received += 1;
        if self.net.hot[node as usize].followed {
            self.follow_received(node, index);
        }
        let message = self.net.messages.get(index);
        self.witness.arrived(self.now_ns, node, message);
        let role = &mut self.roles[node as usize];
        if plain && role.absorb(from, message) {
            let deadline = role.next_deadline();
            self.net.messages.release(index);
            return self.arm(node, deadline);
        }
        let message = self.net.messages.redeem(index);
        self.net.at_hand = index;
        self.input(node, Input::Message { from, message });
    }
}
