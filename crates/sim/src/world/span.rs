//! The nodes of a run that one thread handles: a consecutive range.
//!
//! In an open window no node depends on what another one does in it, so spans go through it side by side. Messages
//! between spans wait until it is closed.

use super::config::WorldConfig;
use super::follower::Follower;
use super::held::Holds;
use super::kind;
use super::seen::{Begun, Seen};
use super::tracer::Tracer;
use super::wraps::{Wraps, pass};
use crate::charge::{Compute, Done, kind as charge};
use crate::latency::fold;
use crate::net::{Net, Next, Outgoing, PART, event as net};
use crate::numbered::Numbered;
use crate::role::{Input, Role};
use crate::slab::Slab;
use crate::windows::{ARG_MAX, Event, Windows};
use alphorn_exec::prefetch;
use alphorn_proto::Peer;
use alphorn_types::Time;
use std::collections::BTreeMap;
use std::ops::Range;

/// Consecutive nodes, their pending events and their work in progress; see the [module](self).
#[derive(Debug)]
pub(super) struct Span<R: Role> {
    pub(super) roles: Numbered<R>,
    pub(super) net: Net<R::Message>,
    pub(super) compute: Compute<R::Work>,
    pub(super) queue: Windows,
    pub(super) commands: Slab<R::Command>,
    pub(super) wraps: BTreeMap<u32, Wraps<R>>,
    /// How far ahead a node's clock is; empty if none is.
    pub(super) skew_ns: Numbered<u64>,
    pub(super) done: Vec<Done<R::Work>>,
    /// Messages that nodes send after their own work.
    pub(super) holds: Holds<R::Message>,
    pub(super) seen: Vec<Seen<R::Delivery>>,
    pub(super) begun: Begun,
    /// Messages handed to nodes in this window, if the probe wants to see them.
    pub(super) arrived: Option<Vec<R::Message>>,
    /// Transmissions from other spans in the previous window.
    pub(super) incoming: Vec<Vec<Outgoing<R::Message>>>,
    pub(super) now_ns: u64,
    /// Time of the latest event so far.
    pub(super) latest_ns: u64,
    pub(super) events: u64,
    /// Messages received by nodes.
    pub(super) received: u64,
    /// Deadlines pending in the queue.
    pub(super) timers: usize,
    /// When a part of a payload was last sent, a job ended, or a command was given.
    pub(super) active_ns: u64,
    /// Hash of the events so far, independent of their order.
    pub(super) hash: u64,
    pub(super) tracer: Tracer,
    pub(super) follower: Follower,
}

impl<R: Role> Span<R> {
    /// Creates the span of these nodes, one role each, among spans of `span_nodes`.
    pub(super) fn new(
        roles: Vec<R>,
        nodes: &Range<u32>,
        config: &WorldConfig,
        span_nodes: u32,
    ) -> Self {
        let kinds = &config.processor[nodes.start as usize..nodes.end as usize];
        let kinds = Numbered::new(nodes.start, kinds.to_vec());
        let mut span = Span {
            roles: Numbered::new(nodes.start, roles),
            net: Net::new(&config.net, nodes.clone(), span_nodes),
            compute: Compute::new(config.processors.clone(), kinds),
            queue: Windows::new(config.net.latency.least_ns(), nodes.clone()),
            commands: Slab::default(),
            wraps: BTreeMap::new(),
            skew_ns: Numbered::new(nodes.start, Vec::new()),
            done: Vec::new(),
            holds: Holds::default(),
            seen: Vec::new(),
            begun: Begun::new(nodes.clone()),
            arrived: None,
            incoming: Vec::new(),
            now_ns: 0,
            latest_ns: 0,
            events: 0,
            received: 0,
            timers: 0,
            active_ns: 0,
            hash: 0,
            tracer: Tracer::default(),
            follower: Follower::default(),
        };
        for node in nodes.clone() {
            span.settle(node);
        }
        span
    }

    /// Processes the open window, or as many of its events as bring the total to `last`.
    pub(super) fn go(&mut self, last: u64) {
        let end_ns = self.queue.end_ns();
        while self.events < last {
            if let Some(node) = self.queue.whose_turn_ends() {
                // What is due at `end_ns` itself belongs to the next window.
                if !self.catch_up(node, end_ns - 1, last) {
                    break;
                }
                self.net.remind(&mut self.queue, node);
                if self.events >= last {
                    break;
                }
            }
            let Some(event) = self.queue.pop() else {
                break;
            };
            self.prefetch();
            if !self.catch_up(event.node, event.time_ns, last) || self.events >= last {
                // The event `last` was one of the uplink, so this one comes after the pause.
                self.queue.put_off(event);
                break;
            }
            self.happen(&event, last);
        }
    }

    /// Prefetches the memory that an event some way ahead reads first.
    #[inline(always)]
    fn prefetch(&self) {
        let Some(event) = self.queue.ahead() else {
            return;
        };
        prefetch(&self.net.hot[event.node]);
        prefetch(&self.net.tally[event.node]);
        prefetch(&self.roles[event.node]);
        if event.kind() == net::ARRIVAL {
            self.net.messages.prefetch(event.arg());
        }
    }

    /// Brings a node's uplink up to date with a time. Returns false if the event `last` comes first.
    ///
    /// Only the node's own events depend on its uplink, so it is brought up to date when the next of them happens,
    /// and at the end of the node's turn.
    #[inline]
    fn catch_up(&mut self, node: u32, until_ns: u64, last: u64) -> bool {
        while let Some(at_ns) = self.net.goes_on_ns(until_ns, node) {
            if self.events >= last {
                return false;
            }
            self.enter(at_ns, node, net::UPLINK, 0);
            // A reminder that is still queued will find nothing to do.
            self.net.hot[node].next = Next::Nothing;
            // When the uplink is free again is found out by the next turn of this loop, so it needs no event.
            self.net.serve(&mut self.queue, at_ns, node);
        }
        true
    }

    /// Queues what other spans sent in the previous window.
    pub(super) fn enqueue(&mut self) {
        let incoming = std::mem::take(&mut self.incoming);
        self.net
            .enqueue(&mut self.queue, incoming.into_iter().flatten());
    }

    /// Hands over an input and carries out the effects.
    #[inline]
    pub(super) fn input(&mut self, node: u32, input: Input<R>) {
        let now = self.time_at(node);
        self.trace_input(node, &input);
        let (mut wraps, mut own) = (self.take_wraps(node), Vec::new());
        if let Some(input) = pass(&mut wraps, now, input, &mut own) {
            self.roles[node].handle(now, input);
        }
        self.settle_through(node, wraps, own);
    }

    /// How far a node's clock is ahead.
    #[inline]
    fn ahead_ns(&self, node: u32) -> u64 {
        match self.skew_ns.is_empty() {
            true => 0,
            false => self.skew_ns[node],
        }
    }

    /// The time shown by a node's clock.
    #[inline]
    pub(super) fn time_at(&self, node: u32) -> Time {
        let skew_ns = self.ahead_ns(node);
        Time::from_nanos(self.now_ns.saturating_add(skew_ns))
    }

    /// Sets a node's timer. A timer that is too early stays, and is checked again when it fires.
    #[inline]
    pub(super) fn arm(&mut self, node: u32, deadline: Option<Time>) {
        let Some(deadline) = deadline.filter(|_| !self.net.hot[node].down) else {
            return;
        };
        let skew_ns = self.ahead_ns(node);
        let due_ns = deadline.saturating_sub_ns(skew_ns).as_nanos();
        let hot = &mut self.net.hot[node];
        if due_ns < hot.armed_ns {
            // A deadline may already have passed, and no event may precede the current one.
            let due_ns = due_ns.max(self.now_ns);
            hot.armed_ns = due_ns;
            // Events cannot be taken out of the queue: the later timer fires too, and is ignored by its number.
            hot.timer = (hot.timer + 1) & ARG_MAX;
            self.queue.push(due_ns, node, kind::TIMER, hot.timer);
            self.timers += 1;
        }
    }

    /// Enters an event of a node: counts it and adds it to the hash.
    #[inline(always)]
    fn enter(&mut self, time_ns: u64, node: u32, kind: u8, bytes: u32) {
        self.now_ns = time_ns;
        self.latest_ns = self.latest_ns.max(time_ns);
        self.events += 1;
        // Node and kind take 40 bits; the bytes have the 24 above them.
        let what = u64::from(node) << 8 | u64::from(kind);
        let draw = fold(
            time_ns ^ 0x9e37_79b9_7f4a_7c15,
            what ^ u64::from(bytes) << 40,
        );
        // Added up and not chained: the order of nodes depends on the width of windows and on the spans.
        self.hash = self.hash.wrapping_add(draw);
    }

    /// Handles an event. An immediate consequence is handled at once if it is the node's next event and not beyond
    /// the event `last`.
    #[inline]
    pub(super) fn happen(&mut self, event: &Event, last: u64) {
        let (node, arg) = (event.node, event.arg());
        if event.kind() == net::UPLINK && self.net.is_lazy() {
            // A reminder: the work due has already been done.
            return;
        }
        self.enter(event.time_ns, node, event.kind(), event.more[1]);
        match event.kind() {
            net::UPLINK => {
                self.uplink(node, arg, last);
            }
            net::ARRIVAL => {
                let at_ns = self.net.settle(event);
                // Catching up queues nothing here that would come first: a lazy uplink only schedules arrivals at
                // other nodes.
                let comes_next = self.queue.comes_next(at_ns) && self.catch_up(node, at_ns, last);
                if self.events >= last || !comes_next {
                    let queue = &mut self.queue;
                    return queue.push_with(at_ns, node, net::DELIVERY, arg, event.more);
                }
                self.enter(at_ns, node, net::DELIVERY, event.more[1]);
                self.deliver(event, net::DELIVERY);
            }
            what @ (net::DELIVERY | net::RESERVED) => self.deliver(event, what),
            net::ACKNOWLEDGED => self.net.acknowledged(&mut self.queue, event),
            net::READY => self.send_ready(node, arg),
            what @ (charge::INLINE | charge::LANE | charge::PLAN) => {
                // A run is not quiet just after a long job, whose result may be about to be sent.
                if what == charge::LANE {
                    self.active_ns = self.active_ns.max(self.now_ns);
                }
                let at = self.net.at(&mut self.queue, self.now_ns, node);
                self.compute.happen(at, what, arg, &mut self.done);
                self.settle(node);
            }
            kind::HELD => self.send_held(node),
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

    /// The uplink is free: it continues, and the role that waited for that is notified.
    #[inline]
    fn uplink(&mut self, node: u32, ready: u32, last: u64) {
        loop {
            self.net.hot[node].next = Next::Nothing;
            let Some(free_ns) = self.net.serve(&mut self.queue, self.now_ns, node) else {
                break;
            };
            // With `ready` the role has to be notified before time moves on.
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

    /// A paced message has left; the role is notified unless the neighbour is gone.
    fn send_ready(&mut self, node: u32, number: u32) {
        let peer = Peer(u64::from(number));
        let end = self.net.graph.end(node, peer.0);
        if end.is_some_and(|end| self.net.is_connected(self.now_ns, node, end)) {
            self.input(node, Input::SendReady { peer });
        }
    }

    /// A timer fires: either the deadline is due, or it has moved and is checked again.
    fn ring(&mut self, node: u32, generation: u32) {
        let hot = &mut self.net.hot[node];
        if hot.timer != generation || hot.armed_ns == u64::MAX {
            return;
        }
        hot.armed_ns = u64::MAX;
        // The deadline passes unnoticed; the first input once the node is up sets the timer again.
        if hot.down {
            return;
        }
        let now = self.time_at(node);
        let due = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        let (mut wraps, mut own) = (self.take_wraps(node), Vec::new());
        let is_due = due(self.roles[node].next_deadline());
        if is_due || !wraps.is_empty() {
            self.trace_input(node, &Input::Deadline);
        }
        for wrap in &mut wraps {
            if due(wrap.next_deadline()) {
                wrap.deadline(now, &mut own);
            }
        }
        if is_due {
            self.roles[node].handle(now, Input::Deadline);
        }
        self.settle_through(node, wraps, own);
    }

    /// A transmission has arrived, as of an event of this kind.
    #[inline]
    fn deliver(&mut self, event: &Event, kind: u8) {
        let (now, node, index) = (self.now_ns, event.node, event.arg());
        let bytes = event.more[1].into();
        if self.net.hot[node].down {
            return self.net.lose(index, bytes);
        }
        if kind == net::DELIVERY
            && let Some(at_ns) = self.net.reserve(now, node)
        {
            let queue = &mut self.queue;
            return queue.push_with(at_ns, node, net::RESERVED, index, event.more);
        }
        self.net.received(now, node, bytes);
        if index < PART {
            self.hand_over(node, event.more[0], index);
        }
    }

    /// Hands over a message that has arrived and that the node holds.
    #[inline]
    fn hand_over(&mut self, node: u32, from: u32, index: u32) {
        let from = Peer(u64::from(from));
        // A wrapper or a trace has to see every message, even one that only affects counters.
        let plain = !self.net.hot[node].wrapped && !self.is_traced(node);
        self.received += 1;
        if self.net.hot[node].followed {
            self.follow_received(node, index);
        }
        let message = self.net.messages.get(index);
        self.begun.look(self.now_ns, node, message);
        if let Some(arrived) = &mut self.arrived {
            arrived.push(message.clone());
        }
        if plain && self.roles[node].absorb(from, message) {
            self.net.messages.release(index);
            return;
        }
        let message = self.net.messages.redeem(index);
        self.net.at_hand = index;
        self.input(node, Input::Message { from, message });
    }
}
