//! The events of a run, window by window, and in a window node by node.
//!
//! What a node does reaches another one no sooner than the least latency. So in a window of that length no
//! node depends on what another one does in it: each node's events are handled in the order of time, all of
//! one node before those of the next one, and what a node touches is in the cache for all of them (the
//! conservative windows of K. M. Chandy and J. Misra, "Asynchronous distributed simulation via a sequence of
//! parallel computations", CACM 24, 1981).
//!
//! The events of one node and time come in an order that neither the width of a window nor the order of the
//! nodes decides: first its own, an uplink that becomes free before the others and these as it scheduled them, then
//! arrivals by the node's numbers for their senders, of one sender by their time on the wire, then as they left. So a
//! run is the same whatever the width.

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
/// The kind of a node's own events that come before its others of the same time.
pub(crate) const FIRST: u8 = 0;
/// The kind of events that come from another node.
pub(crate) const ARRIVAL: u8 = KIND_MAX;

/// Bits of the number of an arrival among those of its sender: what arrives at one instant was sent together.
const NUMBER_BITS: u32 = u16::BITS;

/// Windows of the ring; what is later waits in a map.
const RING: u64 = 1 << 12;
/// A block with fewer events than one for so many nodes is sorted by node: there is too little to count.
const NODES_AN_EVENT: usize = 8;
/// Blocks of nodes into which the events of a window are parted first, at most: each grows where it was written
/// last, and what one holds stays in a core's cache while it is brought into order.
const BLOCKS_MAX: usize = 64;
/// Nodes of a block, at least.
const BLOCK_NODES_MIN: usize = 256;
/// Bits of an event's place among those of its node in a key that sorts them.
const PLACE_BITS: u32 = 16;

/// How something left its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    /// For how long the sender's uplink carries it.
    pub(crate) wire_ns: u64,
    /// The low bits of how many the sender sent by then.
    pub(crate) number: u16,
}

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
    fn new(time_ns: u64, order: u64, node: u32, kind: u8, arg: u32, more: [u32; 2]) -> Self {
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

    /// Its place among the events of its node and time: its own come before arrivals, and these by sender.
    #[inline]
    fn rank(&self) -> u64 {
        match self.kind() {
            ARRIVAL => u64::from(self.more[0]) + 1,
            _ => 0,
        }
    }

    /// Its place among the events of its node.
    #[inline]
    fn key(&self) -> (u64, u64, u64) {
        (self.time_ns, self.rank(), self.order)
    }
}

/// The block of an event's node.
#[inline]
fn block_of(event: &Event, nodes: &Range<u32>, block_bits: u32) -> usize {
    ((event.node - nodes.start) >> block_bits) as usize
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
    /// A block has 2^block_bits nodes.
    block_bits: u32,
    /// Number of the window that is open, or was last.
    window: u64,
    /// When the open window ends; 0 while none is open.
    end_ns: u64,
    /// The events of the open window that are no longer in the ring, by block, from the block `block` on.
    blocks: Vec<u32>,
    block: usize,
    /// Those of the block whose turn it is, as they were scheduled, and their places by node.
    events: Vec<Event>,
    order: Vec<u32>,
    /// Where in `order` the events of each node of the block end; of each that has some, where these are few.
    ends: Vec<u32>,
    /// The next node of the block, and where its events begin.
    next_node: usize,
    next_at: usize,
    /// The events of the node whose turn it is, in their order, read from `at`.
    turn: Vec<Event>,
    at: usize,
    node: u32,
    keys: Vec<u64>,
    /// What the node scheduled for this window, in order: most of it comes last.
    own: VecDeque<Event>,
    pool: Pool,
    ring: Vec<u32>,
    /// A bit for each window of the ring that has events.
    used: Vec<u64>,
    later: BTreeMap<u64, Vec<Event>>,
    drained: Vec<Event>,
    len: usize,
    scheduled: u64,
}

impl Windows {
    /// No events, for these nodes, which nobody reaches in less than `least_ns`.
    pub(crate) fn new(least_ns: u64, nodes: Range<u32>) -> Self {
        let bits = least_ns.max(1).ilog2();
        #[cfg(test)]
        let bits = bits.min(tests::BITS_MAX.get());
        let block_nodes = nodes.len().div_ceil(BLOCKS_MAX).max(BLOCK_NODES_MIN);
        let block_nodes = block_nodes.next_power_of_two();
        Windows {
            bits,
            block_bits: block_nodes.ilog2(),
            window: 0,
            end_ns: 0,
            blocks: vec![NONE; nodes.len().div_ceil(block_nodes)],
            block: 0,
            events: Vec::new(),
            order: Vec::new(),
            ends: Vec::new(),
            next_node: 0,
            next_at: 0,
            turn: Vec::new(),
            at: 0,
            node: u32::MAX,
            keys: Vec::new(),
            own: VecDeque::new(),
            pool: Pool::default(),
            ring: vec![NONE; RING as usize],
            used: vec![0; RING as usize / 64],
            later: BTreeMap::new(),
            drained: Vec::new(),
            len: 0,
            scheduled: 0,
            nodes,
        }
    }

    /// Schedules an event of a node for itself.
    ///
    /// # Panics
    /// If kind or argument are above their maximum, or in the open window another node's turn is.
    #[inline]
    pub(crate) fn push(&mut self, time_ns: u64, node: u32, kind: u8, arg: u32) {
        self.push_with(time_ns, node, kind, arg, [0; 2]);
    }

    /// The same with what the event is to hold besides.
    ///
    /// # Panics
    /// As [`Windows::push`].
    #[inline]
    pub(crate) fn push_with(
        &mut self,
        time_ns: u64,
        node: u32,
        kind: u8,
        arg: u32,
        more: [u32; 2],
    ) {
        self.scheduled += 1;
        let order = if kind == FIRST { 0 } else { self.scheduled };
        let event = Event::new(time_ns, order, node, kind, arg, more);
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

    /// Schedules what comes to a node from another one, which sent it so.
    ///
    /// # Panics
    /// If the argument is above its maximum, or it comes in the open window.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        time_ns: u64,
        sent: Departure,
        node: u32,
        arg: u32,
        more: [u32; 2],
    ) {
        assert!(
            time_ns >= self.end_ns,
            "no node reaches another one so soon"
        );
        self.len += 1;
        let wire_ns = sent.wire_ns.min(u64::MAX >> NUMBER_BITS);
        let order = wire_ns << NUMBER_BITS | u64::from(sent.number);
        self.place(Event::new(time_ns, order, node, ARRIVAL, arg, more));
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
        let last_ns = (window << self.bits) | ((1 << self.bits) - 1);
        self.end_ns = until_ns;
        if until_ns > last_ns {
            self.end_ns = last_ns + 1;
            self.part(window);
        } else {
            self.drain(window);
            self.put_back(until_ns);
            for event in std::mem::take(&mut self.drained) {
                self.pool.push(
                    &mut self.blocks[block_of(&event, &self.nodes, self.block_bits)],
                    event,
                );
            }
        }
        self.block = 0;
        self.events.clear();
        self.ends.clear();
        (self.next_node, self.next_at) = (0, 0);
        let any = self.begin_node();
        if !any {
            self.end_ns = 0;
        }
        any
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

    /// Parts the events of a window by blocks of nodes.
    fn part(&mut self, window: u64) {
        let slot = (window % RING) as usize;
        self.used[slot / 64] &= !(1 << (slot % 64));
        let (nodes, bits) = (self.nodes.clone(), self.block_bits);
        let of = |event: &Event| block_of(event, &nodes, bits);
        match &mut *self.blocks {
            [one] => *one = std::mem::replace(&mut self.ring[slot], NONE),
            blocks => self.pool.part(&mut self.ring[slot], blocks, of),
        }
        for event in self.later.remove(&window).into_iter().flatten() {
            self.pool.push(&mut self.blocks[of(&event)], event);
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

    /// Turns to the next block of the window that has events, and finds out whose they are; false if there is none.
    fn begin_block(&mut self) -> bool {
        let rest = self.blocks[self.block..].iter();
        let Some(skipped) = rest.clone().position(|&bucket| bucket != NONE) else {
            return false;
        };
        self.block += skipped;
        self.events.clear();
        self.pool
            .drain(&mut self.blocks[self.block], &mut self.events);
        let first = self.nodes.start + ((self.block as u32) << self.block_bits);
        let nodes = (self.nodes.end - first).min(1 << self.block_bits) as usize;
        self.order.clear();
        self.ends.clear();
        match self.events.len() < nodes / NODES_AN_EVENT {
            true => self.order_few(),
            false => self.order_by_count(first, nodes),
        }
        self.block += 1;
        (self.next_node, self.next_at) = (0, 0);
        true
    }

    /// Orders the events of the block by node, of which most have none.
    fn order_few(&mut self) {
        let events = &self.events;
        let node = |place: &u32| events[*place as usize].node;
        self.order.extend(0..events.len() as u32);
        self.order.sort_unstable_by_key(node);
        let of_one_node = self.order.chunk_by(|a, b| node(a) == node(b));
        let mut end = 0;
        self.ends.extend(of_one_node.map(|places| {
            end += places.len() as u32;
            end
        }));
    }

    /// Orders the events of the block by node, counting them.
    fn order_by_count(&mut self, first: u32, nodes: usize) {
        self.ends.resize(nodes, 0);
        for event in &self.events {
            self.ends[(event.node - first) as usize] += 1;
        }
        let mut before = 0;
        for end in &mut self.ends {
            before += std::mem::replace(end, before);
        }
        // Each begin becomes an end as places are filled.
        self.order.resize(self.events.len(), 0);
        for (place, event) in (0..).zip(&self.events) {
            let end = &mut self.ends[(event.node - first) as usize];
            self.order[*end as usize] = place;
            *end += 1;
        }
    }

    /// Turns to the next node of the window; false if there is none.
    fn begin_node(&mut self) -> bool {
        loop {
            let begin = self.next_at;
            let rest = self.ends[self.next_node..].iter();
            let Some(skipped) = rest.clone().position(|&end| end as usize > begin) else {
                if self.begin_block() {
                    continue;
                }
                return false;
            };
            self.next_node += skipped;
            let end = self.ends[self.next_node] as usize;
            (self.next_node, self.next_at) = (self.next_node + 1, end);
            self.at = 0;
            self.fill_turn(begin..end);
            self.node = self.turn[0].node;
            return true;
        }
    }

    /// Brings the events of a node into their order.
    fn fill_turn(&mut self, places: Range<usize>) {
        self.turn.clear();
        let order = &self.order[places];
        let event = |&place: &u32| self.events[place as usize];
        let rank_bits = u64::BITS - PLACE_BITS - self.bits.min(u64::BITS - PLACE_BITS);
        let (begin_ns, mut rank_max) = (self.window << self.bits, 0);
        self.keys.clear();
        if order.len() > 2 && order.len() <= 1 << PLACE_BITS && rank_bits > 0 {
            // Time, rank and place in one number: sorting these is without a branch.
            let key = |(place, index): (u64, &u32)| {
                let event = &self.events[*index as usize];
                let (rank, offset_ns) = (event.rank(), event.time_ns - begin_ns);
                rank_max |= rank;
                (offset_ns << rank_bits | rank) << PLACE_BITS | place
            };
            self.keys.extend((0..).zip(order).map(key));
        }
        let is_same = |pair: &[u64]| pair[0] >> PLACE_BITS == pair[1] >> PLACE_BITS;
        if !self.keys.is_empty() && rank_max >> rank_bits == 0 {
            self.keys.sort_unstable();
            if !self.keys.windows(2).any(is_same) {
                let place = |key: &u64| (key & ((1 << PLACE_BITS) - 1)) as usize;
                let events = self.keys.iter().map(|key| event(&order[place(key)]));
                return self.turn.extend(events);
            }
        }
        self.turn.extend(order.iter().map(event));
        self.turn.sort_unstable();
    }

    /// The next event of the open window; none, and the window is closed, if nothing is left in it.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        loop {
            let event = match self.turn.get(self.at) {
                Some(event) if self.own.front().is_none_or(|own| event < own) => {
                    self.at += 1;
                    *event
                }
                _ => match self.own.pop_front() {
                    Some(own) => own,
                    None if self.begin_node() => continue,
                    None => {
                        (self.end_ns, self.node) = (0, u32::MAX);
                        self.turn.clear();
                        self.at = 0;
                        return None;
                    }
                },
            };
            self.len -= 1;
            return Some(event);
        }
    }

    /// Takes back what was popped last: it is the next event again.
    pub(crate) fn put_off(&mut self, event: Event) {
        self.len += 1;
        self.own.push_front(event);
    }

    /// The node whose turn it is, if all of its events of the open window so far have happened.
    #[inline]
    pub(crate) fn whose_turn_ends(&self) -> Option<u32> {
        let ends = self.own.is_empty() && self.at == self.turn.len();
        (ends && self.node != u32::MAX).then_some(self.node)
    }

    /// Whether a node's own event at a time would be the next one: then it need not wait in between.
    #[inline]
    pub(crate) fn comes_next(&self, time_ns: u64) -> bool {
        let own = self.own.front();
        let other = self.turn.get(self.at);
        time_ns < self.end_ns
            && own.is_none_or(|own| time_ns < own.time_ns)
            && other.is_none_or(|other| time_ns < other.time_ns)
    }

    /// When the open window ends; 0 while none is open.
    #[inline]
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns
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

    /// How many events wait in a window that is not open: once they are `enough`, no further ones are counted.
    pub(crate) fn waiting(&self, window: u64, enough: u64) -> u64 {
        let later = self.later.get(&window).map_or(0, Vec::len) as u64;
        let in_ring = window.wrapping_sub(self.window) < RING;
        let bucket = self.ring[(window % RING) as usize];
        let bucket = if in_ring { bucket } else { NONE };
        later + self.pool.count(bucket, enough.saturating_sub(later))
    }
}
