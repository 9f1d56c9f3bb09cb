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

/// Events between one that is handled and one whose memory is asked for: as many as take longer than a read of
/// memory.
const AHEAD: usize = 6;

/// Windows of the ring; what is later waits in a map.
const RING: u64 = 1 << 12;
/// Windows, from the one opened last on, whose events are parted by block as they are scheduled.
const NEAR: u64 = 4;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    blocks: usize,
    /// Events of near windows, by the remainder of the window and by block. Of the open one they are those that
    /// are no longer in the ring, from the block `block` on; of a later one those scheduled since it was near.
    near: Vec<u32>,
    block: usize,
    /// Those of the block whose turn it is, by node.
    events: Vec<Event>,
    /// Where those of each node of the block end; of each that has some, where these are few.
    ends: Vec<u32>,
    /// The next node of the block, and where its events begin.
    next_node: usize,
    next_at: usize,
    /// The node whose turn it is, and where its events begin.
    node: u32,
    first: usize,
    /// The places of its events from there in their order, read from `at`.
    turn: Vec<u64>,
    at: usize,
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
        let blocks = nodes.len().div_ceil(block_nodes);
        Windows {
            bits,
            block_bits: block_nodes.ilog2(),
            window: 0,
            end_ns: 0,
            blocks,
            near: vec![NONE; NEAR as usize * blocks],
            block: 0,
            events: Vec::new(),
            ends: Vec::new(),
            next_node: 0,
            next_at: 0,
            node: u32::MAX,
            first: 0,
            turn: Vec::new(),
            at: 0,
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
        let slot = (window % RING) as usize;
        let bucket = match window - self.window {
            // Not of the window opened last: what comes in its rest is apart from what comes before.
            1..NEAR => {
                let near = self.near_of(window).start + self.block_of(event.node);
                &mut self.near[near]
            }
            ..RING => &mut self.ring[slot],
            _ => return self.later.entry(window).or_default().push(event),
        };
        self.pool.push(bucket, event);
        self.used[slot / 64] |= 1 << (slot % 64);
    }

    /// Where the blocks of a near window are.
    #[inline]
    fn near_of(&self, window: u64) -> Range<usize> {
        let start = (window % NEAR) as usize * self.blocks;
        start..start + self.blocks
    }

    #[inline]
    fn block_of(&self, node: u32) -> usize {
        ((node - self.nodes.start) >> self.block_bits) as usize
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
        if until_ns > last_ns {
            self.end_ns = last_ns + 1;
            self.part(window);
        } else {
            self.end_ns = until_ns;
            self.drain(window);
            self.put_back(until_ns);
            let near = self.near_of(window);
            for event in std::mem::take(&mut self.drained) {
                let block = self.block_of(event.node);
                self.pool.push(&mut self.near[near.start + block], event);
            }
        }
        self.block = 0;
        self.ends.clear();
        (self.next_node, self.next_at) = (0, 0);
        let any = self.begin_node();
        if !any {
            self.end_ns = 0;
        }
        any
    }

    /// Takes all events of a window: the first one that has any.
    fn drain(&mut self, window: u64) {
        let slot = (window % RING) as usize;
        self.used[slot / 64] &= !(1 << (slot % 64));
        self.drained.clear();
        let near = self.near_of(window);
        for bucket in self.near[near].iter_mut().chain([&mut self.ring[slot]]) {
            self.pool.drain(bucket, &mut self.drained);
        }
        if let Some(mut later) = self.later.remove(&window) {
            self.drained.append(&mut later);
        }
    }

    /// Parts the events of a window by blocks of nodes, but those that are.
    fn part(&mut self, window: u64) {
        let slot = (window % RING) as usize;
        self.used[slot / 64] &= !(1 << (slot % 64));
        let (first, bits) = (self.nodes.start, self.block_bits);
        let of = |event: &Event| ((event.node - first) >> bits) as usize;
        let near = self.near_of(window);
        let blocks = &mut self.near[near];
        self.pool.part(&mut self.ring[slot], blocks, of);
        for event in self.later.remove(&window).into_iter().flatten() {
            self.pool.push(&mut blocks[of(&event)], event);
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
        let blocks = self.near_of(self.window);
        let mut rest = self.near[blocks.clone()][self.block..].iter();
        let Some(skipped) = rest.position(|&bucket| bucket != NONE) else {
            return false;
        };
        self.block += skipped;
        let bucket = blocks.start + self.block;
        let first = self.nodes.start + ((self.block as u32) << self.block_bits);
        let nodes = (self.nodes.end - first).min(1 << self.block_bits) as usize;
        self.ends.clear();
        let enough = (nodes / NODES_AN_EVENT) as u64;
        match self.pool.count(self.near[bucket], enough) < enough {
            true => self.order_few(bucket),
            false => self.order_by_count(bucket, first, nodes),
        }
        self.block += 1;
        (self.next_node, self.next_at) = (0, 0);
        true
    }

    /// Takes the events of the block by node, of which most have none.
    fn order_few(&mut self, bucket: usize) {
        self.events.clear();
        self.pool.drain(&mut self.near[bucket], &mut self.events);
        self.events.sort_unstable_by_key(|event| event.node);
        let of_one_node = self.events.chunk_by(|a, b| a.node == b.node);
        let mut end = 0;
        self.ends.extend(of_one_node.map(|events| {
            end += events.len() as u32;
            end
        }));
    }

    /// Takes the events of the block by node, counting them.
    fn order_by_count(&mut self, bucket: usize, first: u32, nodes: usize) {
        self.ends.resize(nodes, 0);
        let bucket = &mut self.near[bucket];
        let of_block = self.pool.chunks(*bucket).flatten();
        of_block.for_each(|event| self.ends[(event.node - first) as usize] += 1);
        let mut before = 0;
        for end in &mut self.ends {
            before += std::mem::replace(end, before);
        }
        // Each begin becomes an end as places are filled.
        self.events.resize(before as usize, Event::default());
        self.pool.chunks(*bucket).flatten().for_each(|event| {
            let end = &mut self.ends[(event.node - first) as usize];
            self.events[*end as usize] = *event;
            *end += 1;
        });
        self.pool.free(bucket);
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
            self.fill_turn(begin..end);
            (self.node, self.first, self.at) = (self.events[begin].node, begin, 0);
            return true;
        }
    }

    /// Brings the events of a node into their order.
    fn fill_turn(&mut self, places: Range<usize>) {
        self.turn.clear();
        let events = &mut self.events[places];
        let rank_bits = u64::BITS - PLACE_BITS - self.bits.min(u64::BITS - PLACE_BITS);
        let (begin_ns, mut rank_max) = (self.window << self.bits, 0);
        if events.len() > 2 && events.len() <= 1 << PLACE_BITS && rank_bits > 0 {
            // Time, rank and place in one number: sorting these is without a branch.
            let key = |(place, event): (u64, &Event)| {
                let (rank, offset_ns) = (event.rank(), event.time_ns - begin_ns);
                rank_max |= rank;
                (offset_ns << rank_bits | rank) << PLACE_BITS | place
            };
            self.turn.extend((0..).zip(&*events).map(key));
        }
        if !self.turn.is_empty() && rank_max >> rank_bits == 0 {
            self.turn.sort_unstable();
            let is_same = |pair: &[u64]| pair[0] >> PLACE_BITS == pair[1] >> PLACE_BITS;
            if !self.turn.windows(2).any(is_same) {
                let places = self.turn.iter_mut();
                return places.for_each(|key| *key &= (1 << PLACE_BITS) - 1);
            }
        }
        self.turn.clear();
        events.sort_unstable();
        self.turn.extend(0..events.len() as u64);
    }

    /// The next event of the turn.
    #[inline(always)]
    fn of_turn(&self) -> Option<&Event> {
        let place = *self.turn.get(self.at)? as usize;
        self.events.get(self.first + place)
    }

    /// An event that comes some time after the one popped last, of its node or of one that follows: what it
    /// touches can be asked for.
    #[inline(always)]
    pub(crate) fn ahead(&self) -> Option<&Event> {
        let at = self.at + AHEAD;
        let place = self.turn.get(at).map_or(at, |place| *place as usize);
        self.events.get(self.first + place)
    }

    /// The next event of the open window; none, and the window is closed, if nothing is left in it.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        loop {
            let event = match self.of_turn().copied() {
                Some(event) if self.own.front().is_none_or(|own| event < *own) => {
                    self.at += 1;
                    event
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
        let other = self.of_turn();
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

    /// How many events wait in a window that is not open, before which none has events: once they are `enough`, no further ones are counted.
    pub(crate) fn waiting(&self, window: u64, enough: u64) -> u64 {
        let later = self.later.get(&window).map_or(0, Vec::len) as u64;
        let in_ring = window.wrapping_sub(self.window) < RING;
        let in_ring = in_ring.then(|| &self.ring[(window % RING) as usize]);
        let buckets = self.near[self.near_of(window)].iter().chain(in_ring);
        buckets.fold(later, |count, bucket| {
            count + self.pool.count(*bucket, enough.saturating_sub(count))
        })
    }
}
