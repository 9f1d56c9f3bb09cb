//! The world of a run: all nodes, the network between them, one virtual clock.
//!
//! The loop: take the first event, hand its input to the node's state machine, carry out the effects,
//! and set its timer if the deadline moved. Nothing is allocated for an event.

mod change;
mod effects;
mod hash;
#[cfg(test)]
mod tests;
mod trace;
mod witness;

pub use change::Change;
pub use trace::Traced;
pub use witness::Witness;

use crate::calendar::{Calendar, Event, EventQueue, Slab};
use crate::charge::{At, Compute, Done, Processor, kind as charge};
use crate::fault::Wrap;
use crate::net::{Balance, Load, Net, NetConfig, Tally, event as net};
use crate::role::{Input, Role, Wire};
use alphorn_proto::Peer;
use alphorn_types::Time;
use hash::EventHash;
use std::collections::BTreeMap;
use std::hint::black_box;

/// Kinds of events of the world itself.
mod kind {
    use super::charge::OTHERS_STILL;
    /// A deadline; generation.
    pub(super) const TIMER: u8 = OTHERS_STILL;
    /// A command; its number.
    pub(super) const COMMAND: u8 = OTHERS_STILL + 1;
    /// A change of the world; its number.
    pub(super) const CHANGE: u8 = OTHERS_STILL + 2;
}

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
/// `W` sees what happens ([`Witness`]), `Q` is the queue of events: the calendar, or in tests the plain
/// heap that is its oracle.
#[derive(Debug)]
pub struct World<R: Role, W = (), Q = Calendar> {
    roles: Vec<R>,
    net: Net<R::Message>,
    compute: Compute<R::Work>,
    queue: Q,
    commands: Slab<R::Command>,
    changes: Vec<Change>,
    wraps: BTreeMap<u32, Vec<Box<dyn Wrap<R>>>>,
    restart: change::Restart<R>,
    /// By how much a node's clock is ahead; empty if none is.
    skew_ns: Vec<u64>,
    done: Vec<Done<R::Work>>,
    witness: W,
    limits: Limits,
    now_ns: u64,
    events: u64,
    /// Deadlines that wait in the queue.
    timers: usize,
    /// When a part of a payload was last sent, a job ended, or something was asked for.
    active_ns: u64,
    /// Events to come for which memory was read ahead.
    ahead: usize,
    hash: EventHash,
    tracer: trace::Tracer,
}

impl<R: Role, W: Witness<R>, Q: EventQueue> World<R, W, Q> {
    /// A world at virtual time 0. The roles know of their neighbours already, or learn of them by
    /// [`World::connect`].
    ///
    /// # Panics
    /// If there is not one role, one bandwidth and one processor for each node of the graph.
    pub fn new(roles: Vec<R>, config: WorldConfig, witness: W) -> Self {
        let nodes = config.net.graph.nodes() as usize;
        assert_eq!(nodes, roles.len(), "a role for each node");
        assert_eq!(nodes, config.processor.len(), "a processor for each node");
        let mut world = World {
            roles,
            net: Net::new(config.net),
            compute: Compute::new(config.processors, config.processor),
            queue: Q::default(),
            commands: Slab::default(),
            changes: Vec::new(),
            wraps: BTreeMap::new(),
            restart: change::Restart::default(),
            skew_ns: Vec::new(),
            done: Vec::new(),
            witness,
            limits: config.limits,
            now_ns: 0,
            events: 0,
            timers: 0,
            active_ns: 0,
            ahead: 0,
            hash: EventHash::new(),
            tracer: trace::Tracer::default(),
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
    #[cfg(test)]
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

    /// Hash of the sequence of events so far.
    pub fn event_hash(&self) -> u64 {
        self.hash.value()
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
            hot.timer = (hot.timer + 1) & crate::calendar::ARG_MAX;
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
        while self.events < last {
            if self.ahead == 0 {
                self.read_ahead();
            }
            self.ahead = self.ahead.saturating_sub(1);
            let Some(event) = self.queue.pop_until(most_ns) else {
                return self.at_end(until_ns);
            };
            self.now_ns = event.time_ns;
            self.events += 1;
            self.happen(event);
            if self.net.full {
                return Err(WorldError::Flights {
                    max: crate::calendar::ARG_MAX,
                    at_ns: self.now_ns,
                });
            }
            if self.witness.is_done() {
                return Ok(Pause::Done);
            }
            let idle_ns = self.now_ns - self.active_ns;
            if idle_ns > self.limits.quiet_ns && self.queue.len() == self.timers {
                return Ok(Pause::Quiet);
            }
        }
        match self.queue.next_time_ns() {
            Some(time_ns) if time_ns <= most_ns => self.at_last(),
            _ => self.at_end(until_ns),
        }
    }

    /// Reads a word of each place that the next events will need, stage by stage: what one stage found
    /// says where the next one reads. So the misses of a stage overlap, and no event waits for its own.
    #[inline]
    fn read_ahead(&mut self) {
        let soon = self.queue.soon();
        self.ahead = soon.len();
        let mut words = 0;
        // An uplink that is served asks its node for nothing, unless a paced message left it.
        let asks = |event: &&Event| event.kind() != net::UPLINK || event.arg() > 0;
        for event in soon {
            words ^= self.net.read_ahead(event);
        }
        for event in soon.iter().filter(asks) {
            words ^= self.roles[event.node as usize].read_ahead();
        }
        for event in soon {
            let role = &self.roles[event.node as usize];
            let (neighbour, message) = self.net.brought(event);
            words ^= self.net.read_behind(event);
            let read = role.read_behind(neighbour, message);
            if message.is_some() && read != 0 {
                words ^= self.net.read_ends(event.node);
            }
            words ^= read;
        }
        for event in soon.iter().filter(|event| event.kind() == net::UPLINK) {
            words ^= self.net.read_receiver(event);
        }
        black_box(words);
    }

    /// Nothing more happens by the time asked for.
    fn at_end(&mut self, until_ns: u64) -> Result<Pause, WorldError> {
        match self.queue.next_time_ns() {
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

    #[inline]
    fn happen(&mut self, event: Event) {
        let (node, arg) = (event.node, event.arg());
        if net::is_message(event.kind()) {
            // What happens is the same, whether a flight says more of it or the event itself.
            self.hash.add(&event, net::DELIVERY, net::bytes(&event));
            return self.deliver_message(&event);
        }
        let size = match event.kind() {
            net::ARRIVAL | net::DELIVERY | net::ACKNOWLEDGED => self.net.flights[arg].bytes,
            _ => 0,
        };
        self.hash.add(&event, event.kind(), size);
        match event.kind() {
            kind::TIMER => self.timers -= 1,
            charge::LANE | kind::COMMAND | kind::CHANGE => self.active_ns = self.now_ns,
            _ => {}
        }
        match event.kind() {
            net::UPLINK => {
                self.net.hot[node as usize].called = false;
                self.net.serve(&mut self.queue, self.now_ns, node);
                if arg > 0 {
                    self.send_ready(node, arg - 1);
                }
            }
            net::ARRIVAL => self.net.settle(&mut self.queue, self.now_ns, node, arg),
            net::DELIVERY => self.deliver(node, arg),
            net::ACKNOWLEDGED => {
                self.net
                    .acknowledged(&mut self.queue, self.now_ns, node, arg);
            }
            net::READY => self.send_ready(node, arg),
            what @ (charge::INLINE | charge::LANE | charge::PLAN) => {
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
            kind::TIMER => self.ring(node, arg),
            kind::COMMAND => {
                if let Some(command) = self.commands.release(arg) {
                    self.input(node, Input::Command(command));
                }
            }
            _ => self.change_now(arg),
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

    /// A message without a flight is there.
    #[inline]
    fn deliver_message(&mut self, event: &Event) {
        let (node, bytes) = (event.node, net::bytes(event));
        if self.net.hot[node as usize].down {
            self.net.balance.lost += bytes;
            self.net.messages.release(event.arg());
            return;
        }
        if self.net.handles_message(&mut self.queue, event) {
            self.net.received(self.now_ns, node, bytes);
            self.hand_over(node, net::sender(event), event.arg());
        }
    }

    /// Hands over a message that is there and that the node holds.
    #[inline]
    fn hand_over(&mut self, node: u32, from: u32, index: u32) {
        let from = Peer(u64::from(from));
        let plain = !self.net.hot[node as usize].wrapped && !self.is_traced(node);
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

    /// A transmission is there.
    #[inline]
    fn deliver(&mut self, node: u32, first: u32) {
        if self.net.hot[node as usize].down {
            return self.net.lose(first);
        }
        if !self.net.handles(&mut self.queue, self.now_ns, node, first) {
            return;
        }
        let mut index = first;
        while index != crate::net::NONE {
            let flight = self.net.flights.remove(index);
            index = flight.next;
            self.net.received(self.now_ns, node, flight.bytes);
            if flight.message == crate::net::NONE {
                continue;
            }
            self.hand_over(node, flight.back, flight.message);
        }
    }
}
