//! The network: a queue at each node's uplink and downlink, the latency between them, and faults on the path.
//!
//! A message of s bytes from i to j starts when the uplink of i serves it, at t_s. Its first bit reaches j at t_f =
//! t_s + L(i, j) and reserves its slot in the downlink of j. The message is complete at t_d = max(max(down_free,
//! t_f) + s / X_down, t_s + s / X_up + L). The slot is reserved at t_f and not at t_s because, with unequal
//! latencies, a message sent later may arrive first. A sent message does not affect its receiver before t_f, which
//! is at least the minimum latency later, so nodes can be processed one after the other.
//!
//! All quantities are integers, products use a wider type, and quotients are rounded up.

mod at;
mod connection;
mod dial;
pub(crate) mod event;
mod keep;
mod launch;
mod loads;
mod parts;
mod peak;
mod queue;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use at::At;
pub(crate) use dial::Dial;
pub(crate) use loads::{LOAD_BIN_NS, Load, Loads};
pub use parts::BIN_NS;
pub(crate) use parts::{
    Balance, Cut, Direction, Hot, NetConfig, Next, Outgoing, Parcel, Rate, Sent, Tally,
};
pub(crate) use peak::share;
pub(crate) use queue::{NONE, PRIORITIES};

use crate::graph::Graph;
use crate::latency::Latency;
use crate::numbered::Numbered;
use crate::scenario::{Link, Uplink};
use crate::slab::Slab;
use crate::windows::{ARG_MAX, Windows};
use connection::Connection;
use dial::Dials;
use parts::Lately;
use queue::{Flight, Flights, OTHERS, mark};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Argument of an event that carries only part of a message.
pub(crate) const PART: u32 = ARG_MAX;

/// The network as seen by the nodes of one span, with everything in flight from or to them.
#[derive(Debug)]
pub(crate) struct Net<M> {
    pub(crate) graph: Arc<Graph>,
    pub(crate) latency: Arc<Latency>,
    pub(crate) link: Link,
    pub(crate) rates: Vec<Rate>,
    pub(crate) hot: Numbered<Hot>,
    pub(crate) tally: Numbered<Tally>,
    pub(crate) flights: Flights,
    pub(crate) messages: Slab<M>,
    /// Transmissions to other spans, by span.
    pub(crate) outgoing: Vec<Vec<Outgoing<M>>>,
    /// Arrival time of the earliest of them; `u64::MAX` if there is none.
    pub(crate) outgoing_ns: u64,
    /// Nodes per span; the last span may have fewer.
    span_nodes: u32,
    /// The message handed over last, which its receiver may send on.
    pub(crate) at_hand: u32,
    pub(crate) balance: Balance,
    pub(crate) cuts: Vec<Arc<Cut>>,
    /// Traffic sent, by bin and kind.
    pub(crate) series: Vec<Sent>,
    /// Load by class, network and compute. A node's class is the bandwidth it starts with.
    pub(crate) loads: Loads,
    /// A message could not be stored: the run cannot continue.
    pub(crate) full: bool,
    /// All nodes that are down.
    pub(crate) down: Arc<BTreeSet<u32>>,
    pub(crate) handle_ns: u64,
    kinds: usize,
    seed: u64,
    /// Random draws at each end; empty if nothing is drawn.
    draws: Numbered<u32>,
    /// State of each end; empty if connections have none.
    connections: Numbered<Connection>,
    /// For each node, the connections that may send, in turn order; empty unless uplinks are shared fairly.
    turns: Numbered<VecDeque<u32>>,
    dials: Dials,
    windowed: bool,
    /// Whether the time at which an uplink becomes free only affects what it sends next. Then it is not an event,
    /// but is worked out when the node's next event happens (`catch_up` in `world/span.rs`).
    lazy: bool,
    /// For each bandwidth, the last lengths and their wire times, up and down.
    lately: Vec<[Lately; 2]>,
    /// Minimum latency of any message.
    least_ns: u64,
}

impl<M: Clone> Net<M> {
    /// Creates the network for these nodes, in spans of `span_nodes`.
    pub(crate) fn new(config: &NetConfig, nodes: Range<u32>, span_nodes: u32) -> Self {
        let NetConfig {
            graph,
            latency,
            link,
            rates,
            rate,
            ..
        } = config;
        let windowed = link.transport == crate::scenario::Transport::Window;
        let fair = link.uplink == Uplink::Fair;
        let drawn = latency.jitter_pct() > 0 || link.loss_ppm > 0;
        let (first, count) = (nodes.start, nodes.len());
        let ends = graph.first_end(nodes.start)..graph.first_end(nodes.end);
        let of_ends = |needed: bool| if needed { ends.len() } else { 0 };
        let connection = Connection::new(link.initial_window_bytes);
        let connections = vec![connection; of_ends(windowed || fair)];
        let turns = vec![VecDeque::new(); if fair { count } else { 0 }];
        let hot = |node: u32| Hot::new(rate[node as usize]);
        let spans = graph.nodes().div_ceil(span_nodes);
        Net {
            loads: Loads::new(rate.clone(), rates.len()),
            hot: Numbered::new(first, nodes.map(hot).collect()),
            tally: Numbered::new(first, vec![Tally::default(); count]),
            flights: Flights::default(),
            messages: Slab::default(),
            outgoing: (0..spans).map(|_| Vec::new()).collect(),
            outgoing_ns: u64::MAX,
            span_nodes,
            at_hand: NONE,
            balance: Balance::default(),
            cuts: Vec::new(),
            series: Vec::new(),
            full: false,
            down: Arc::default(),
            handle_ns: config.handle_ns,
            kinds: config.kinds,
            seed: config.seed,
            draws: Numbered::new(ends.start, vec![0; of_ends(drawn)]),
            connections: Numbered::new(ends.start, connections),
            turns: Numbered::new(first, turns),
            dials: Dials::new(config.dial.as_ref(), ends.clone()),
            windowed,
            lazy: !windowed && !fair && !config.paced,
            lately: vec![Default::default(); rates.len()],
            least_ns: latency.least_ns(),
            graph: graph.clone(),
            latency: latency.clone(),
            link: link.clone(),
            rates: rates.clone(),
        }
    }

    /// Context for charging computation to a node at a given time.
    #[inline]
    pub(crate) fn at<'a>(&'a mut self, queue: &'a mut Windows, now: u64, node: u32) -> At<'a> {
        At {
            now,
            node,
            hot: &mut self.hot[node],
            tally: &mut self.tally[node],
            loads: &mut self.loads,
            queue,
        }
    }

    /// Takes a message that is held once per receiver. Receivers are given by the sender's ends, and the first
    /// message leaves at once if the uplink is free.
    #[inline]
    pub(crate) fn send(
        &mut self,
        queue: &mut Windows,
        now: u64,
        from: u32,
        ends: impl Iterator<Item = usize>,
        parcel: Parcel,
    ) {
        let bytes = parcel.bytes.saturating_add(self.link.overhead_bytes);
        // A connection has a queue of its own, and the sender is notified of each paced message separately.
        let is_shared = self.connections.is_empty() && !parcel.paced;
        let mut others = [NONE; OTHERS];
        let (mut first, mut count) = (None::<Flight>, 0);
        for end in ends {
            self.balance.offered += bytes;
            let flight = Flight {
                bytes,
                message: parcel.message,
                end: end as u32,
                next: NONE,
                priority: parcel.priority.min(PRIORITIES as u8 - 1),
                kind: parcel.kind,
                marks: if parcel.paced { mark::PACED } else { 0 },
            };
            let hot = &self.hot[from];
            let is_free = hot.next == Next::Nothing
                && hot.up_free_ns <= now
                && hot.queue.is_empty()
                && first.is_none();
            // Connections with state take the way through the queue, where `next_part` cuts off what may be sent.
            if is_free && self.connections.is_empty() {
                self.launch(queue, now, from, &flight);
                continue;
            }
            let tally = &mut self.tally[from];
            if tally.queue_bytes.saturating_add(bytes) > self.link.node_queue_bytes_max {
                self.balance.dropped += bytes;
                self.forget(queue, now, from, &flight);
                continue;
            }
            tally.queue_bytes += bytes;
            tally.queue_peak_bytes = tally.queue_peak_bytes.max(tally.queue_bytes);
            // One flight for up to eight receivers, queued once it is full or there are no more.
            match &first {
                _ if !is_shared => self.enqueue_flight(queue, now, from, flight, &[]),
                None => first = Some(flight),
                Some(_) if count < OTHERS => {
                    others[count] = flight.end;
                    count += 1;
                }
                Some(full) => {
                    self.enqueue_flight(queue, now, from, *full, &others);
                    (first, count) = (Some(flight), 0);
                }
            }
        }
        if let Some(flight) = first {
            self.enqueue_flight(queue, now, from, flight, &others[..count]);
        }
    }

    /// Queues a flight for the uplink.
    #[inline]
    fn enqueue_flight(
        &mut self,
        queue: &mut Windows,
        now: u64,
        from: u32,
        flight: Flight,
        others: &[u32],
    ) {
        let index = self.flights.insert(flight, others);
        match self.connections.is_empty() {
            true => self.hot[from].queue.push(&mut self.flights, index),
            false => self.wait(from, index),
        }
        self.wake(queue, now, from);
    }

    /// Releases a flight that will not be sent, and notifies its sender if it is paced.
    fn forget(&mut self, queue: &mut Windows, now: u64, from: u32, flight: &Flight) {
        if flight.message != NONE {
            self.messages.release(flight.message);
        }
        // The sender counts what is under way to a neighbour, and would wait for this message for ever.
        if flight.marks & mark::PACED != 0 {
            let peer = self.peer_number(from, flight.end);
            queue.push(now, from, event::READY, peer);
        }
    }

    /// The node's own number for the neighbour at an end.
    #[inline]
    fn peer_number(&self, node: u32, end: u32) -> u32 {
        let first = self.graph.end(node, 0).unwrap_or(0);
        end - first as u32
    }

    /// Changes a node's bandwidth.
    pub(crate) fn set_rate(&mut self, node: u32, rate: Rate) {
        let found = self.rates.iter().position(|known| *known == rate);
        let index = found.unwrap_or_else(|| {
            self.rates.push(rate);
            self.lately.push(Default::default());
            self.rates.len() - 1
        });
        // What is on the wire keeps its time, and the loads keep the class that the node began with.
        self.hot[node].rate = index as u16;
    }

    /// Nanoseconds that a transmission takes on a node's uplink.
    #[inline]
    fn up_ns(&mut self, rate: u16, bytes: u64) -> u64 {
        let rate = usize::from(rate);
        self.lately[rate][0].wire_ns(bytes, self.rates[rate].up_bps)
    }

    /// Nanoseconds that a transmission takes on a node's downlink.
    #[inline]
    fn down_ns(&mut self, rate: u16, bytes: u64) -> u64 {
        let rate = usize::from(rate);
        self.lately[rate][1].wire_ns(bytes, self.rates[rate].down_bps)
    }

    /// Serves the uplink now if it is free, otherwise schedules an event for when it is.
    #[inline]
    pub(crate) fn wake(&mut self, queue: &mut Windows, now: u64, from: u32) {
        let hot = &mut self.hot[from];
        // When it is free it goes on with the queue by itself.
        if hot.next != Next::Nothing {
            return;
        }
        if hot.up_free_ns <= now {
            if let Some(free_ns) = self.serve(queue, now, from) {
                self.call(queue, free_ns, from);
            }
            return;
        }
        hot.next = Next::GoesOn;
        let free_ns = hot.up_free_ns;
        self.call(queue, free_ns, from);
    }

    /// Schedules an event for when an uplink becomes free, unless that is worked out lazily.
    #[inline]
    fn call(&mut self, queue: &mut Windows, free_ns: u64, from: u32) {
        if !self.lazy {
            queue.push(free_ns, from, event::UPLINK, 0);
        } else if !queue.is_open() {
            self.remind(queue, from);
        }
    }

    /// Schedules a check at the time the uplink becomes free, for a node that may have no event before then.
    pub(crate) fn remind(&mut self, queue: &mut Windows, node: u32) {
        let hot = &mut self.hot[node];
        if self.lazy && hot.next == Next::GoesOn {
            hot.next = Next::Reminded;
            queue.push(hot.up_free_ns, node, event::UPLINK, 0);
        }
    }

    /// Whether an uplink becoming free is not an event.
    #[inline]
    pub(crate) fn is_lazy(&self) -> bool {
        self.lazy
    }

    /// When a node's uplink becomes free and continues, if that has not been processed yet and is due by `now`.
    #[inline]
    pub(crate) fn goes_on_ns(&self, now: u64, node: u32) -> Option<u64> {
        let hot = &self.hot[node];
        (self.lazy && hot.next != Next::Nothing && hot.up_free_ns <= now).then_some(hot.up_free_ns)
    }

    /// Starts the next transmission on a free uplink. If more is waiting, returns when the uplink is free again.
    #[inline]
    pub(crate) fn serve(&mut self, queue: &mut Windows, now: u64, from: u32) -> Option<u64> {
        let flight = self.next_flight(now, from)?;
        self.launch(queue, now, from, &flight);
        let hot = &mut self.hot[from];
        let more = match self.turns.get_mut(from) {
            Some(turns) => !turns.is_empty(),
            None => !hot.queue.is_empty(),
        };
        // A paced message has already scheduled the event that goes on.
        if !more || hot.next != Next::Nothing {
            return None;
        }
        hot.next = Next::GoesOn;
        Some(hot.up_free_ns)
    }

    /// Takes the next flight of an uplink out of the queue.
    #[inline]
    fn next_flight(&mut self, now: u64, from: u32) -> Option<Flight> {
        if !self.connections.is_empty() {
            return self.next_part(now, from);
        }
        let queue = &mut self.hot[from].queue;
        if queue.is_empty() {
            return None;
        }
        // A flight to several receivers stays at the head until the last of them.
        let flight = match self.flights.split(queue.head) {
            Some(flight) => flight,
            None => {
                let last = queue.pop(&mut self.flights)?;
                self.flights.remove(last)
            }
        };
        self.tally[from].queue_bytes -= flight.bytes;
        Some(flight)
    }

    /// Cancels the flights waiting for a peer that match and of which no part has been sent.
    pub(crate) fn cancel(
        &mut self,
        queue: &mut Windows,
        now: u64,
        direction: Direction,
        fits: impl Fn(&M) -> bool,
    ) {
        let Direction { node: from, end } = direction;
        if self.connections.is_empty() {
            // Flights to several receivers lose this one; a flight to it alone is taken out below.
            self.cancel_shared(direction, &fits);
        }
        let messages = &self.messages;
        let matches = |flight: &Flight| {
            flight.end == end as u32
                && flight.marks & mark::STARTED == 0
                && fits(messages.get(flight.message))
        };
        let own = &mut self.hot[from].queue;
        let mut taken = own.take_all(&mut self.flights, NONE, matches);
        // Where connections have state, an entry in the node's queue is the turn of one of them.
        let lost_turn = taken != NONE && !self.connections.is_empty();
        if let Some(connection) = self.connections.get_mut(end as u32) {
            connection.listed &= !lost_turn;
            let waiting = &mut connection.waiting;
            taken = waiting.take_all(&mut self.flights, taken, matches);
        }
        while taken != NONE {
            let index = taken;
            let Flight { next, bytes, .. } = self.flights[index];
            taken = next;
            self.balance.cancelled += bytes;
            self.tally[from].queue_bytes -= bytes;
            let flight = self.flights.remove(index);
            self.forget(queue, now, from, &flight);
        }
        // What waits behind takes over the turn, or nothing would ever serve it.
        if lost_turn && self.list(from, end) {
            self.wake(queue, now, from);
        }
    }

    /// The same for flights with other receivers, which keep them.
    fn cancel_shared(&mut self, direction: Direction, fits: impl Fn(&M) -> bool) {
        let Direction { node: from, end } = direction;
        let mut index = self.hot[from].queue.head;
        while index != NONE {
            let Flight {
                next,
                bytes,
                message,
                ..
            } = self.flights[index];
            let is_meant = message != NONE && fits(self.messages.get(message));
            if is_meant && self.flights.leave_out(index, end as u32) {
                self.balance.cancelled += bytes;
                self.tally[from].queue_bytes -= bytes;
                self.messages.release(message);
            }
            index = next;
        }
    }

    /// Drops everything waiting at a node that went down.
    pub(crate) fn clear(&mut self, queue: &mut Windows, now: u64, from: u32) {
        // What is on the wire leaves the node all the same, so the uplink stays occupied for as long.
        let mut taken = Vec::new();
        while let Some(index) = self.hot[from].queue.pop(&mut self.flights) {
            taken.push(index);
        }
        if !self.connections.is_empty() {
            let first = self.graph.end(from, 0).unwrap_or(0);
            for end in first..first + self.graph.peers(from).len() {
                while let Some(index) = self.connections[end as u32].waiting.pop(&mut self.flights)
                {
                    taken.push(index);
                }
                self.connections[end as u32].listed = false;
            }
        }
        if let Some(turns) = self.turns.get_mut(from) {
            turns.clear();
        }
        for index in taken {
            while let Some(flight) = self.flights.split(index) {
                self.drop_flight(queue, now, from, &flight);
            }
            let flight = self.flights.remove(index);
            self.drop_flight(queue, now, from, &flight);
        }
    }

    fn drop_flight(&mut self, queue: &mut Windows, now: u64, from: u32, flight: &Flight) {
        self.balance.dropped += flight.bytes;
        self.tally[from].queue_bytes -= flight.bytes;
        self.forget(queue, now, from, flight);
    }

    /// Whether both ends of a connection see each other: neither node is down and no cut has broken it.
    #[inline]
    pub(crate) fn is_connected(&self, now: u64, node: u32, end: usize) -> bool {
        if self.down.is_empty() && self.cuts.is_empty() {
            return true;
        }
        let peer = self.graph.peer(end);
        let broken =
            |cut: &Arc<Cut>| cut.parts(node, peer) && (cut.break_ns..cut.until_ns).contains(&now);
        let down = self.down.contains(&node) || self.down.contains(&peer);
        !down && !self.cuts.iter().any(broken)
    }

    /// Bytes waiting in uplinks.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.tally.iter().map(|tally| tally.queue_bytes).sum()
    }
}
