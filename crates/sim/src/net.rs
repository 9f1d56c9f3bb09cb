//! The network: a queue at each node's uplink and downlink, latency between them, and what goes
//! wrong on the way.
//!
//! A message of s bytes from i to j starts when the uplink of i serves it, at t_s. Its first bit is at
//! j at t_f = t_s + L(i, j), where it takes its place in the downlink of j; it is there at
//! t_d = max(max(down_free, t_f) + s / X_down, t_s + s / X_up + L). The place is taken at t_f and not at
//! t_s: with unequal latencies a message sent later may arrive first. Where every latency is the same
//! nothing can overtake, and the place is taken at t_s without an event of its own.
//!
//! Everything is an integer, products are wide, quotients are rounded up.

mod keep;
mod launch;
mod loads;
mod parts;
mod queue;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use loads::{LOAD_BIN_NS, Load, Loads};
pub(crate) use parts::{BIN_NS, Cut, Hot, Parcel, Sent};
pub(crate) use parts::{Balance, NetConfig, Rate, Tally};
pub(crate) use queue::PRIORITIES;

use crate::calendar::{ARG_MAX, Event, EventQueue, Slab};
use crate::graph::Graph;
use crate::latency::Latency;
use crate::scenario::{Link, Uplink};
use queue::{Doubles, Flight, Flights, Queue, mark};
use std::collections::VecDeque;
use window::Connection;

/// No flight.
pub(crate) const NONE: u32 = u32::MAX;

/// Messages up to this size leave together, as one write of several frames.
const TRAIN_MESSAGE_BYTES_MAX: u64 = 8192;
/// Places of an uplink's queue that are looked at for messages of a train.
const TRAIN_LOOK: u32 = 256;
/// Bytes that a connection sends before another one's turn, where connections share fairly.
const FAIR_PART_BYTES: u64 = 65_536;

/// Kinds of events that the network schedules; the argument is a flight, or a peer and 1.
pub(crate) mod event {
    /// The uplink is free; the peer whose paced message left it, and 1.
    pub(crate) const UPLINK: u8 = 0;
    /// A first bit arrives.
    pub(crate) const ARRIVAL: u8 = 1;
    /// A message is there and looked at.
    pub(crate) const DELIVERY: u8 = 2;
    /// A part is acknowledged.
    pub(crate) const ACKNOWLEDGED: u8 = 3;
    /// A paced message left the queue without being sent; its peer.
    pub(crate) const READY: u8 = 4;
    /// The first kind of an event of somebody else.
    pub(crate) const OTHERS: u8 = 5;
    /// A whole message is there, where nothing can overtake: what a flight would say is in the event.
    /// The message; beside it the sender's number at the receiver, and the bytes on the wire.
    pub(crate) const MESSAGE: u8 = 13;
    /// Such a message, for which the receiver's processor is reserved.
    pub(crate) const RESERVED: u8 = 14;

    /// Whether an event of this kind is a message without a flight.
    #[inline]
    pub(crate) fn is_message(kind: u8) -> bool {
        matches!(kind, MESSAGE | RESERVED)
    }

    /// Bytes on the wire of a message without a flight.
    #[inline]
    pub(crate) fn bytes(event: &crate::calendar::Event) -> u64 {
        event.more[1].into()
    }

    /// The receiver's number for the sender of a message without a flight.
    #[inline]
    pub(crate) fn sender(event: &crate::calendar::Event) -> u32 {
        event.more[0]
    }
}

/// The network and all that is in it.
#[derive(Debug)]
pub(crate) struct Net<M> {
    pub(crate) graph: Graph,
    pub(crate) latency: Latency,
    pub(crate) link: Link,
    pub(crate) rates: Vec<Rate>,
    pub(crate) hot: Vec<Hot>,
    pub(crate) tally: Vec<Tally>,
    pub(crate) flights: Flights,
    pub(crate) messages: Slab<M>,
    /// The message that was handed over last, which its receiver may send on.
    pub(crate) at_hand: u32,
    pub(crate) balance: Balance,
    pub(crate) cuts: Vec<Cut>,
    /// What was sent, by bin and kind.
    pub(crate) series: Vec<Sent>,
    /// What classes carry and compute; those of nodes are the bandwidths that they begin with.
    pub(crate) loads: Loads,
    /// A flight or message found no place: the run cannot go on.
    pub(crate) full: bool,
    /// Nodes that are down.
    pub(crate) down: u32,
    pub(crate) handle_ns: u64,
    kinds: usize,
    seed: u64,
    /// Draws of each end; empty if nothing is drawn.
    draws: Vec<u32>,
    /// State of each end; empty if connections have none.
    connections: Vec<Connection>,
    /// Connections of each node that may send, in their turn; empty if uplinks are not shared fairly.
    turns: Vec<VecDeque<u32>>,
    /// Whom several small messages may wait for in the one queue of each uplink; empty if no trains form
    /// there.
    doubles: Vec<Doubles>,
    windowed: bool,
    /// Nothing can overtake: arrivals need no event.
    direct: bool,
}

impl<M> Net<M> {
    pub(crate) fn new(config: NetConfig) -> Self {
        let NetConfig {
            graph,
            latency,
            link,
            rates,
            rate,
            ..
        } = config;
        let nodes = graph.nodes() as usize;
        assert_eq!(nodes, rate.len(), "a bandwidth for each node");
        let windowed = link.transport == crate::scenario::Transport::Window;
        let fair = link.uplink == Uplink::Fair;
        let drawn = latency.jitter_pct() > 0 || link.loss_ppm > 0;
        let ends = graph.ends();
        let count = |needed: bool| if needed { ends } else { 0 };
        let hot = |rate| Hot {
            up_free_ns: 0,
            down_free_ns: 0,
            cpu_free_ns: 0,
            armed_ns: u64::MAX,
            queue: Queue::EMPTY,
            timer: 0,
            rate,
            called: false,
            down: false,
            wrapped: false,
            mixed: false,
        };
        Net {
            loads: Loads::new(rate.clone(), rates.len()),
            hot: rate.into_iter().map(hot).collect(),
            tally: vec![Tally::default(); nodes],
            flights: Flights::new(ARG_MAX),
            messages: Slab::default(),
            at_hand: NONE,
            balance: Balance::default(),
            cuts: Vec::new(),
            series: Vec::new(),
            full: false,
            down: 0,
            handle_ns: config.handle_ns,
            kinds: config.kinds,
            seed: config.seed,
            draws: vec![0; count(drawn)],
            connections: vec![Connection::new(link.initial_window_bytes); count(windowed || fair)],
            turns: vec![VecDeque::new(); if fair { nodes } else { 0 }],
            doubles: match link.train_bytes_max > 0 && !windowed && !fair {
                true => vec![Doubles::default(); nodes],
                false => Vec::new(),
            },
            windowed,
            direct: latency.is_uniform()
                && link.loss_ppm == 0
                && !windowed
                && !fair
                && !config.arrivals_always,
            graph,
            latency,
            link,
            rates,
        }
    }

    /// Takes a message that is held once for this receiver; it leaves at once if the uplink is free.
    #[inline]
    pub(crate) fn send<Q: EventQueue>(
        &mut self,
        queue: &mut Q,
        now: u64,
        (from, end): (u32, usize),
        parcel: Parcel,
    ) {
        let bytes = parcel.bytes.saturating_add(self.link.overhead_bytes);
        self.balance.offered += bytes;
        let flight = Flight {
            last_ns: 0,
            bytes,
            message: parcel.message,
            to: self.graph.peer(end),
            end: end as u32,
            back: self.graph.back(end),
            next: NONE,
            priority: parcel.priority.min(PRIORITIES as u8 - 1),
            kind: parcel.kind,
            marks: if parcel.paced { mark::PACED } else { 0 },
        };
        let hot = &self.hot[from as usize];
        let free = !hot.called
            && hot.up_free_ns <= now
            && hot.queue.is_empty()
            && self.connections.is_empty();
        if free && self.goes_directly(&flight) {
            return self.launch_directly(queue, now, from, &flight);
        }
        let Some(index) = self.flights.insert(flight) else {
            self.full = true;
            return;
        };
        if free {
            return self.launch(queue, now, from, index);
        }
        let tally = &mut self.tally[from as usize];
        if tally.queue_bytes.saturating_add(bytes) > self.link.node_queue_bytes_max {
            self.balance.dropped += bytes;
            return self.forget(queue, now, from, index);
        }
        tally.queue_bytes += bytes;
        tally.queue_peak_bytes = tally.queue_peak_bytes.max(tally.queue_bytes);
        if self.connections.is_empty() {
            let hot = &mut self.hot[from as usize];
            let first = hot.queue.is_empty();
            hot.mixed =
                !first && (hot.mixed || self.flights[hot.queue.head].message != parcel.message);
            hot.queue.push(&mut self.flights, index);
            if let Some(doubles) = self.doubles.get_mut(from as usize) {
                doubles.add(end, first);
            }
        } else {
            self.wait(from, index);
        }
        self.wake(queue, now, from);
    }

    /// Lets a flight go that will not be sent, and tells its sender if it counts on that.
    fn forget<Q: EventQueue>(&mut self, queue: &mut Q, now: u64, from: u32, index: u32) {
        let flight = self.flights.remove(index);
        if flight.message != NONE {
            self.messages.release(flight.message);
        }
        if flight.marks & mark::PACED != 0 {
            let peer = self.peer_number(from, flight.end);
            queue.push(now, from, event::READY, peer);
        }
    }

    /// The number that the node of an end has for the neighbour there.
    #[inline]
    fn peer_number(&self, node: u32, end: u32) -> u32 {
        let first = self.graph.end(node, 0).unwrap_or(0);
        end - first as u32
    }

    /// Serves the uplink now if it is free, or asks for an event when it is.
    #[inline]
    pub(crate) fn wake<Q: EventQueue>(&mut self, queue: &mut Q, now: u64, from: u32) {
        let hot = &mut self.hot[from as usize];
        if hot.called {
            return;
        }
        if hot.up_free_ns <= now {
            return self.serve(queue, now, from);
        }
        hot.called = true;
        queue.push(hot.up_free_ns, from, event::UPLINK, 0);
    }

    /// Starts what comes next on a free uplink.
    pub(crate) fn serve<Q: EventQueue>(&mut self, queue: &mut Q, now: u64, from: u32) {
        let Some(index) = self.next_flight(now, from) else {
            return;
        };
        self.launch(queue, now, from, index);
        let hot = &mut self.hot[from as usize];
        let more = match self.turns.get(from as usize) {
            Some(turns) => !turns.is_empty(),
            None => !hot.queue.is_empty(),
        };
        if more && !hot.called {
            hot.called = true;
            queue.push(hot.up_free_ns, from, event::UPLINK, 0);
        }
    }

    /// The next flight of an uplink, with its train, taken out of the queue.
    #[inline]
    fn next_flight(&mut self, now: u64, from: u32) -> Option<u32> {
        if !self.connections.is_empty() {
            return self.next_part(now, from);
        }
        let index = self.hot[from as usize].queue.pop(&mut self.flights)?;
        self.tally[from as usize].queue_bytes -= self.flights[index].bytes;
        let hot = &self.hot[from as usize];
        if hot.mixed && !hot.queue.is_empty() {
            self.couple(from, index);
        }
        Some(index)
    }

    /// Couples queued small messages for the same peer and priority to a first one.
    fn couple(&mut self, from: u32, first: u32) {
        let Flight {
            end,
            priority,
            marks,
            bytes,
            ..
        } = self.flights[first];
        let small = TRAIN_MESSAGE_BYTES_MAX.saturating_add(self.link.overhead_bytes);
        let most = self.link.train_bytes_max;
        let couples = |flight: &Flight| flight.bytes <= small && flight.marks & mark::PACED == 0;
        if bytes > small || bytes > most || marks & mark::PACED != 0 {
            return;
        }
        // Most often nothing else waits for the same peer, and there is nothing to look for.
        let doubles = self.doubles.get(from as usize);
        if !doubles.is_some_and(|doubles| doubles.may_have(end as usize)) {
            return;
        }
        let (mut total, mut last, mut previous) = (bytes, first, NONE);
        let hot = &mut self.hot[from as usize];
        while let Some((before, index)) =
            hot.queue
                .take(&mut self.flights, (previous, TRAIN_LOOK), |flight| {
                    flight.end == end
                        && flight.priority == priority
                        && couples(flight)
                        && total + flight.bytes <= most
                })
        {
            let bytes = self.flights[index].bytes;
            total += bytes;
            self.tally[from as usize].queue_bytes -= bytes;
            self.flights[last].next = index;
            (last, previous) = (index, before);
        }
    }

    /// Takes back what waits for a peer and fits; none of it has been sent in part.
    pub(crate) fn cancel<Q: EventQueue>(
        &mut self,
        queue: &mut Q,
        now: u64,
        (from, end): (u32, usize),
        fits: impl Fn(&M) -> bool,
    ) {
        let messages = &self.messages;
        let matches = |flight: &Flight| {
            flight.end == end as u32
                && flight.marks & mark::STARTED == 0
                && fits(messages.get(flight.message))
        };
        let own = &mut self.hot[from as usize].queue;
        let mut taken = own.take_all(&mut self.flights, NONE, matches);
        // Where connections have a state, what is in the node's queue is the turn of one of them.
        let lost_turn = taken != NONE && !self.connections.is_empty();
        if let Some(connection) = self.connections.get_mut(end) {
            connection.listed &= !lost_turn;
            let waiting = &mut connection.waiting;
            taken = waiting.take_all(&mut self.flights, taken, matches);
        }
        while taken != NONE {
            let index = taken;
            let Flight { next, bytes, .. } = self.flights[index];
            taken = next;
            self.balance.cancelled += bytes;
            self.tally[from as usize].queue_bytes -= bytes;
            self.forget(queue, now, from, index);
        }
        if lost_turn && self.list(from, end) {
            self.wake(queue, now, from);
        }
    }

    /// Drops everything that waits at a node: it is down.
    pub(crate) fn clear<Q: EventQueue>(&mut self, queue: &mut Q, now: u64, from: u32) {
        let mut taken = Vec::new();
        while let Some(index) = self.hot[from as usize].queue.pop(&mut self.flights) {
            taken.push(index);
        }
        if !self.connections.is_empty() {
            let first = self.graph.end(from, 0).unwrap_or(0);
            for end in first..first + self.graph.peers(from).len() {
                while let Some(index) = self.connections[end].waiting.pop(&mut self.flights) {
                    taken.push(index);
                }
                self.connections[end].listed = false;
            }
        }
        if let Some(turns) = self.turns.get_mut(from as usize) {
            turns.clear();
        }
        for index in taken {
            let bytes = self.flights[index].bytes;
            self.balance.dropped += bytes;
            self.tally[from as usize].queue_bytes -= bytes;
            self.forget(queue, now, from, index);
        }
    }

    /// Whether both ends of a connection know of each other: neither is down, nothing has broken it.
    #[inline]
    pub(crate) fn is_connected(&self, now: u64, node: u32, end: usize) -> bool {
        if self.down == 0 && self.cuts.is_empty() {
            return true;
        }
        let peer = self.graph.peer(end);
        let broken =
            |cut: &Cut| cut.parts(node, peer) && (cut.break_ns..cut.until_ns).contains(&now);
        let down = self.hot[node as usize].down || self.hot[peer as usize].down;
        !down && !self.cuts.iter().any(broken)
    }

    /// Reads a word of each place that an event needs first, so that they are in the cache by then.
    #[inline]
    pub(crate) fn read_ahead(&self, event: &Event) -> u64 {
        let node = event.node as usize;
        let own = self.hot[node].down_free_ns ^ self.tally[node].cpu_ns;
        match event.kind() {
            event::MESSAGE | event::RESERVED => {
                own ^ u64::from(self.messages.peek(event.arg()).is_some())
            }
            event::ARRIVAL | event::DELIVERY | event::ACKNOWLEDGED => {
                own ^ self.flights.read_ahead(event.arg())
            }
            _ => own,
        }
    }

    /// Reads a word of the places that those say.
    #[inline]
    pub(crate) fn read_behind(&self, event: &Event) -> u64 {
        match event.kind() {
            event::UPLINK => match self.hot[event.node as usize].queue.head {
                NONE => 0,
                head => self.flights.read_ahead(head),
            },
            event::ACKNOWLEDGED => {
                let end = self.flights[event.arg()].end as usize;
                self.connections.get(end).map_or(0, Connection::read_ahead)
            }
            _ => 0,
        }
    }

    /// The message that an event brings, and the receiver's number for its sender; the neighbour that
    /// another event is about, or any number.
    #[inline]
    pub(crate) fn brought(&self, event: &Event) -> (u32, Option<&M>) {
        match event.kind() {
            event::MESSAGE | event::RESERVED => (event.more[0], self.messages.peek(event.arg())),
            event::DELIVERY => {
                let flight = &self.flights[event.arg()];
                (flight.back, self.messages.peek(flight.message))
            }
            event::UPLINK => (event.arg().wrapping_sub(1), None),
            event::READY => (event.arg(), None),
            _ => (u32::MAX, None),
        }
    }

    /// Reads a word of the receiver of what an uplink serves next.
    #[inline]
    pub(crate) fn read_receiver(&self, event: &Event) -> u64 {
        match self.hot[event.node as usize].queue.head {
            head if head != NONE && self.direct => {
                self.hot[self.flights[head].to as usize].down_free_ns
            }
            _ => 0,
        }
    }

    /// Reads words of what sending a message to neighbours touches.
    #[inline]
    pub(crate) fn read_ends(&self, node: u32) -> u64 {
        self.graph.end(node, 0).map_or(0, |end| {
            u64::from(self.graph.peer(end) ^ self.graph.back(end))
        })
    }

    /// Bytes on the wire.
    pub(crate) fn flying_bytes(&self) -> u64 {
        self.balance.started - self.balance.delivered - self.balance.lost
    }

    /// Bytes that wait in uplinks.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.tally.iter().map(|tally| tally.queue_bytes).sum()
    }
}
