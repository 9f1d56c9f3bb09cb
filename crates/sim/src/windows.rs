//! The events of a run, window by window, and in a window node by node.
//!
//! What a node does reaches another one no sooner than the least latency. So in a window of that length no
//! node depends on what another one does in it: each node's events are handled in the order of time, all of
//! one node before those of the next one, and what a node touches is in the cache for all of them (the
//! conservative windows of K. M. Chandy and J. Misra, "Asynchronous distributed simulation via a sequence of
//! parallel computations", CACM 24, 1981).
//!
//! The events of one node and time come in an order that neither the width of a window nor the order of the
//! nodes decides: first its own, as it scheduled them, then arrivals by the node's numbers for their senders, of
//! one sender by their time on the wire, then as they left. So a run is the same whatever the width.

mod pool;
#[cfg(test)]
pub(crate) mod tests;

use pool::{NONE, Pool};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Bits of an event's argument.
pub(crate) const ARG_BITS: u32 = 28;
/// The greatest argument of an event.
pub(crate) const ARG_MAX: u32 = (1 << ARG_BITS) - 1;
/// The greatest kind of an event.
pub(crate) const KIND_MAX: u8 = 15;
/// The kind of events that come from another node.
pub(crate) const ARRIVAL: u8 = KIND_MAX;

/// Bits of the number of an arrival among those of its sender: what arrives at one instant was sent together.
const NUMBER_BITS: u32 = u16::BITS;

/// Windows of the ring; what is later waits in a map.
const RING: u64 = 1 << 12;
/// A window with fewer events than one for so many nodes is sorted as it is: there is too little to count.
const NODES_AN_EVENT: usize = 8;

/// Something that happens at a node: 32 bytes, half a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub(crate) struct Event {
    /// Virtual time.
    pub(crate) time_ns: u64,
    /// Of a node's own event its number in the order of scheduling; of an arrival for how long the sender's
    /// uplink carries it, and below that the low bits of its number there.
    order: u64,
    /// Where.
    pub(crate) node: u32,
    tag: u32,
    /// What else who scheduled it wants to find in it; of an arrival first the node's number for its sender.
    pub(crate) more: [u32; 2],
}

const _: () = assert!(size_of::<Event>() == 32, "two events are a cache line");

impl Event {
    #[inline]
    fn new(time_ns: u64, order: u64, node: u32, what: (u8, u32), more: [u32; 2]) -> Self {
        let (kind, arg) = what;
        assert!(kind <= KIND_MAX && arg <= ARG_MAX, "event {kind} of {arg}");
        Event {
            time_ns,
            order,
            node,
            tag: u32::from(kind) << ARG_BITS | arg,
            more,
        }
    }

    /// What happens, at most [`KIND_MAX`].
    #[inline]
    pub(crate) fn kind(&self) -> u8 {
        (self.tag >> ARG_BITS) as u8
    }

    /// To what, at most [`ARG_MAX`].
    #[inline]
    pub(crate) fn arg(&self) -> u32 {
        self.tag & ARG_MAX
    }

    /// For how long the sender's uplink carries what arrives, at most 78 hours.
    #[inline]
    pub(crate) fn wire_ns(&self) -> u64 {
        self.order >> NUMBER_BITS
    }

    /// Its place among the events of its node.
    #[inline]
    fn key(&self) -> (u64, u64, u64) {
        let rank = match self.kind() {
            ARRIVAL => u64::from(self.more[0]) + 1,
            _ => 0,
        };
        (self.time_ns, rank, self.order)
    }
}

impl PartialOrd for Event {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    /// The order of the events of one node.
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// All events that wait; see the [module](self).
#[derive(Debug)]
pub(crate) struct Windows {
    /// A window is 2^bits ns long.
    bits: u32,
    nodes: Range<u32>,
    /// Number of the window that is open, or was last.
    window: u64,
    /// When the open window ends; 0 while none is open.
    end_ns: u64,
    /// The events of the open window by node, read from `at`; those of the node up to `node_end` are sorted.
    events: Vec<Event>,
    at: usize,
    node_end: usize,
    node: u32,
    /// What the node scheduled for this window, in order: most of it comes last.
    own: VecDeque<Event>,
    pool: Pool,
    ring: Vec<u32>,
    /// A bit for each window of the ring that has events.
    used: Vec<u64>,
    later: BTreeMap<u64, Vec<Event>>,
    drained: Vec<Event>,
    counts: Vec<u32>,
    len: usize,
    scheduled: u64,
}

impl Windows {
    /// No events, for these nodes, which nobody reaches in less than `least_ns`.
    pub(crate) fn new(least_ns: u64, nodes: Range<u32>) -> Self {
        let bits = least_ns.max(1).ilog2();
        #[cfg(test)]
        let bits = bits.min(tests::BITS_MAX.get());
        Windows {
            bits,
            nodes,
            window: 0,
            end_ns: 0,
            events: Vec::new(),
            at: 0,
            node_end: 0,
            node: u32::MAX,
            own: VecDeque::new(),
            pool: Pool::default(),
            ring: vec![NONE; RING as usize],
            used: vec![0; RING as usize / 64],
            later: BTreeMap::new(),
            drained: Vec::new(),
            counts: Vec::new(),
            len: 0,
            scheduled: 0,
        }
    }

    /// Schedules an event of a node for itself.
    ///
    /// # Panics
    /// If kind or argument are above their maximum, or in the open window another node's turn is.
    #[inline]
    pub(crate) fn push(&mut self, time_ns: u64, node: u32, kind: u8, arg: u32) {
        self.push_with(time_ns, node, (kind, arg), [0; 2]);
    }

    /// The same with what the event is to hold besides.
    ///
    /// # Panics
    /// As [`Windows::push`].
    #[inline]
    pub(crate) fn push_with(&mut self, time_ns: u64, node: u32, what: (u8, u32), more: [u32; 2]) {
        let event = Event::new(time_ns, self.scheduled, node, what, more);
        self.scheduled += 1;
        self.len += 1;
        if time_ns >= self.end_ns {
            return self.place(event);
        }
        assert_eq!(node, self.node, "a node schedules for itself");
        let mut at = self.own.len();
        while at > 0 && event < self.own[at - 1] {
            at -= 1;
        }
        self.own.insert(at, event);
    }

    /// Schedules what comes to a node from another one, whose uplink carries it for `wire_ns` and that sent so
    /// many before it.
    ///
    /// # Panics
    /// If the argument is above its maximum, or it comes in the open window.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        time_ns: u64,
        (wire_ns, number): (u64, u16),
        node: u32,
        arg: u32,
        more: [u32; 2],
    ) {
        assert!(
            time_ns >= self.end_ns,
            "no node reaches another one so soon"
        );
        self.len += 1;
        let order = wire_ns.min(u64::MAX >> NUMBER_BITS) << NUMBER_BITS | u64::from(number);
        self.place(Event::new(time_ns, order, node, (ARRIVAL, arg), more));
    }

    #[inline]
    fn place(&mut self, event: Event) {
        let window = event.time_ns >> self.bits;
        if window - self.window < RING {
            let slot = (window % RING) as usize;
            self.pool.push(&mut self.ring[slot], event);
            self.used[slot / 64] |= 1 << (slot % 64);
        } else {
            self.later.entry(window).or_default().push(event);
        }
    }

    /// Opens a window up to `until_ns`; false if nothing happens in it by then. No earlier window has events.
    ///
    /// # Panics
    /// If one is open.
    pub(crate) fn open(&mut self, window: u64, until_ns: u64) -> bool {
        assert_eq!(self.end_ns, 0, "one window at a time");
        if window << self.bits >= until_ns {
            return false;
        }
        self.window = window;
        self.drain(window);
        let last_ns = (window << self.bits) | ((1 << self.bits) - 1);
        self.end_ns = until_ns;
        if until_ns > last_ns {
            self.end_ns = last_ns + 1;
        } else {
            self.put_back(until_ns);
        }
        if self.drained.is_empty() {
            self.end_ns = 0;
            return false;
        }
        self.group();
        (self.at, self.node_end) = (0, 0);
        self.begin_node()
    }

    /// Takes all events of a window.
    fn drain(&mut self, window: u64) {
        let slot = (window % RING) as usize;
        self.drained.clear();
        self.pool.drain(&mut self.ring[slot], &mut self.drained);
        self.used[slot / 64] &= !(1 << (slot % 64));
        if let Some(mut later) = self.later.remove(&window) {
            self.drained.append(&mut later);
        }
    }

    /// Gives back what does not happen before a time.
    fn put_back(&mut self, until_ns: u64) {
        let mut drained = std::mem::take(&mut self.drained);
        drained.retain(|event| {
            let now = event.time_ns < until_ns;
            if !now {
                self.place(*event);
            }
            now
        });
        self.drained = drained;
    }

    /// Brings the events of a window together by node.
    fn group(&mut self) {
        self.events.clear();
        if self.drained.len() < self.nodes.len() / NODES_AN_EVENT {
            self.drained.sort_unstable_by_key(|event| event.node);
            std::mem::swap(&mut self.events, &mut self.drained);
            return;
        }
        self.counts.clear();
        self.counts.resize(self.nodes.len(), 0);
        for event in &self.drained {
            self.counts[(event.node - self.nodes.start) as usize] += 1;
        }
        let mut before = 0;
        for count in &mut self.counts {
            before += std::mem::replace(count, before);
        }
        let none = Event::new(0, 0, 0, (0, 0), [0; 2]);
        self.events.resize(self.drained.len(), none);
        for event in &self.drained {
            let place = &mut self.counts[(event.node - self.nodes.start) as usize];
            self.events[*place as usize] = *event;
            *place += 1;
        }
    }

    /// Turns to the next node of the window; false if there is none.
    fn begin_node(&mut self) -> bool {
        let rest = &mut self.events[self.node_end..];
        let Some(first) = rest.first() else {
            return false;
        };
        self.node = first.node;
        let other = rest.iter().position(|event| event.node != self.node);
        let count = other.unwrap_or(rest.len());
        rest[..count].sort_unstable();
        self.node_end += count;
        true
    }

    /// The next event of the open window; none, and the window is closed, if nothing is left in it.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        loop {
            let event = match self.events[..self.node_end].get(self.at) {
                Some(event) if self.own.front().is_none_or(|own| event < own) => {
                    self.at += 1;
                    *event
                }
                _ => match self.own.pop_front() {
                    Some(own) => own,
                    None if self.begin_node() => continue,
                    None => {
                        (self.end_ns, self.node) = (0, u32::MAX);
                        return None;
                    }
                },
            };
            self.len -= 1;
            return Some(event);
        }
    }

    /// Whether a node's own event at a time would be the next one: then it need not wait in between.
    #[inline]
    pub(crate) fn comes_next(&self, time_ns: u64) -> bool {
        let own = self.own.front();
        let other = self.events[..self.node_end].get(self.at);
        time_ns < self.end_ns
            && own.is_none_or(|own| time_ns < own.time_ns)
            && other.is_none_or(|other| time_ns < other.time_ns)
    }

    /// Whether a window is open.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.end_ns > 0
    }

    /// When the first event happens, while no window is open.
    pub(crate) fn next_time_ns(&mut self) -> Option<u64> {
        let window = self.next_window()?;
        self.drain(window);
        let first = self.drained.iter().map(|event| event.time_ns).min();
        self.put_back(0);
        first
    }

    /// Events that wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// In which window a time is.
    pub(crate) fn window_of(&self, time_ns: u64) -> u64 {
        time_ns >> self.bits
    }

    /// The first window with events.
    pub(crate) fn next_window(&self) -> Option<u64> {
        let later = self.later.keys().next().copied();
        let mut window = self.window;
        while window < self.window + RING {
            let slot = (window % RING) as usize;
            let rest = self.used[slot / 64] >> (slot % 64);
            if rest != 0 {
                window += u64::from(rest.trailing_zeros());
                return later.into_iter().chain([window]).min();
            }
            window += 64 - window % 64;
        }
        later
    }
}
