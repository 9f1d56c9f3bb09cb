//! The events of a run, window by window, and within a window node by node.
//!
//! What a node does reaches another node no sooner than the minimum latency. So within a window of that length no node
//! depends on what another does in it. Each node's events are handled in order of time, all events of one node before
//! those of the next, so that the data a node touches stays in the cache for all of them (the conservative windows of
//! K. M. Chandy and J. Misra, "Asynchronous distributed simulation via a sequence of parallel computations", CACM 24,
//! 1981).
//!
//! The order of events with the same node and time depends neither on the window width nor on the order of the nodes.
//! The node's own events come first: an uplink that becomes free, then the others in the order in which they were
//! scheduled. Arrivals follow, sorted by the node's number for the sender, then by time on the wire, then in the order
//! in which they left. A run is therefore the same for any width.

mod event;
mod pool;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use event::{ARG_MAX, ARRIVAL, Departure, Event, FIRST};

use event::NUMBER_BITS;
use pool::{NONE, Pool};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Prefetch distance in events: handling this many takes longer than a memory read.
const AHEAD: usize = 6;

/// Number of windows in the ring; later events wait in a map.
const RING: u64 = 1 << 12;
/// Number of windows, starting with the one opened last, whose events are partitioned by block when they are scheduled.
const NEAR: u64 = 4;
/// A block with fewer than one event per this many nodes is sorted by node, because a counting sort does not pay off.
const NODES_AN_EVENT: usize = 8;
/// Maximum number of blocks of nodes into which the events of a window are first partitioned. Each block is appended to
/// where it was last written, and its contents stay in a core's cache while they are sorted.
const BLOCKS_MAX: usize = 64;
/// Minimum number of nodes per block.
const BLOCK_NODES_MIN: usize = 256;
/// Bits for an event's position among those of its node in a sort key.
const PLACE_BITS: u32 = 16;

/// All pending events; see the [module](self).
#[derive(Debug)]
pub(crate) struct Windows {
    /// A window lasts 2^bits ns.
    bits: u32,
    nodes: Range<u32>,
    /// A block has 2^block_bits nodes.
    block_bits: u32,
    /// Number of the window that is open, or was open last.
    window: u64,
    /// When the open window ends; 0 while none is open.
    end_ns: u64,
    blocks: usize,
    /// Events of near windows, indexed by the window's remainder and by block. For the open window, these are the
    /// events that are no longer in the ring, from the block `block` on. For a later one, they are those scheduled
    /// since it became near.
    near: Vec<u32>,
    block: usize,
    /// Events of the current block, by node.
    events: Vec<Event>,
    /// Where the events of each node of the block end. If the block has few events, only nodes that have some are
    /// listed.
    ends: Vec<u32>,
    /// The next node of the block, and where its events start.
    next_node: usize,
    next_at: usize,
    /// The current node, and where its events start.
    node: u32,
    first: usize,
    /// Positions of its events relative to that start, in sorted order; read from `at`.
    turn: Vec<u64>,
    at: usize,
    /// What the node scheduled for itself in this window, in order. Most of it goes at the end.
    own: VecDeque<Event>,
    pool: Pool,
    ring: Vec<u32>,
    /// One bit for each ring window that has events.
    used: Vec<u64>,
    later: BTreeMap<u64, Vec<Event>>,
    drained: Vec<Event>,
    len: usize,
    scheduled: u64,
}

impl Windows {
    /// An empty set of events for these nodes, which no message reaches in less than `least_ns`.
    pub(crate) fn new(least_ns: u64, nodes: Range<u32>) -> Self {
        // Rounded down: a window must not be longer than the latency, and a power of two makes its number a shift.
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
    /// If the kind or argument exceeds its maximum, or if the event falls in the open window and it is another node's
    /// turn.
    #[inline]
    pub(crate) fn push(&mut self, time_ns: u64, node: u32, kind: u8, arg: u32) {
        self.push_with(time_ns, node, kind, arg, [0; 2]);
    }

    /// Like [`Windows::push`], with additional data in the event.
    ///
    /// # Panics
    /// Like [`Windows::push`].
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
        // 0 is below every number, so this kind precedes the other events of its node and time.
        let order = if kind == FIRST { 0 } else { self.scheduled };
        let event = Event::new(time_ns, order, node, kind, arg, more);
        self.len += 1;
        if time_ns >= self.end_ns {
            return self.place(event);
        }
        // The turn of another node may be over, and then nothing would read the event.
        assert_eq!(node, self.node, "a node schedules for itself");
        let mut at = self.own.len();
        while at > 0 && event < self.own[at - 1] {
            at -= 1;
        }
        self.own.insert(at, event);
    }

    /// Schedules an arrival from another node, given how it departed.
    ///
    /// # Panics
    /// If the argument exceeds its maximum, or if the arrival falls in the open window.
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
            // Not the window opened last: events in the rest of it are separate from those before.
            1..NEAR => {
                let near = self.near_of(window).start + self.block_of(event.node);
                &mut self.near[near]
            }
            ..RING => &mut self.ring[slot],
            _ => return self.later.entry(window).or_default().push(event),
        };
        self.pool.push(bucket, event);
        // One bit for both: near windows lie within the ring.
        self.used[slot / 64] |= 1 << (slot % 64);
    }

    /// Range of the blocks of a near window.
    #[inline]
    fn near_of(&self, window: u64) -> Range<usize> {
        let start = (window % NEAR) as usize * self.blocks;
        start..start + self.blocks
    }

    #[inline]
    fn block_of(&self, node: u32) -> usize {
        ((node - self.nodes.start) >> self.block_bits) as usize
    }

    /// Opens a window up to `until_ns`; returns false if it has no event by then. No earlier window may have events.
    ///
    /// # Panics
    /// If a window is already open.
    pub(crate) fn open(&mut self, window: u64, until_ns: u64) -> bool {
        assert_eq!(self.end_ns, 0, "one window at a time");
        if window << self.bits >= until_ns {
            return false;
        }
        self.window = window;
        // The last instant, because the end of the last window of all is 2^64.
        let last_ns = (window << self.bits) | ((1 << self.bits) - 1);
        if until_ns > last_ns {
            self.end_ns = last_ns + 1;
            self.part(window);
        } else {
            // The window is to stop early. What comes later returns to the ring and is found when it is opened again.
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

    /// Takes all events of a window, which is the first that has any.
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

    /// Partitions the events of a window by block, except those already partitioned.
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

    /// Puts back events at or after a time.
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

    /// Advances to the next block of the window that has events and groups them by node; returns false if there is
    /// none.
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

    /// Groups the events of the block by node when most nodes have none.
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

    /// Groups the events of the block by node with a counting sort.
    fn order_by_count(&mut self, bucket: usize, first: u32, nodes: usize) {
        self.ends.resize(nodes, 0);
        let bucket = &mut self.near[bucket];
        let of_block = self.pool.chunks(*bucket).flatten();
        of_block.for_each(|event| self.ends[(event.node - first) as usize] += 1);
        let mut before = 0;
        for end in &mut self.ends {
            before += std::mem::replace(end, before);
        }
        // Each start becomes an end as slots are filled.
        self.events.resize(before as usize, Event::default());
        self.pool.chunks(*bucket).flatten().for_each(|event| {
            let end = &mut self.ends[(event.node - first) as usize];
            self.events[*end as usize] = *event;
            *end += 1;
        });
        self.pool.free(bucket);
    }

    /// Advances to the next node of the window; returns false if there is none.
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

    /// Sorts the events of a node.
    fn fill_turn(&mut self, places: Range<usize>) {
        self.turn.clear();
        let events = &mut self.events[places];
        // What the offset within the window and the position leave; none if windows are too wide.
        let rank_bits = u64::BITS - PLACE_BITS - self.bits.min(u64::BITS - PLACE_BITS);
        let (begin_ns, mut rank_max) = (self.window << self.bits, 0);
        if events.len() > 2 && events.len() <= 1 << PLACE_BITS && rank_bits > 0 {
            // Time, rank and position packed into one number, so that sorting is branch-free.
            let key = |(place, event): (u64, &Event)| {
                let (rank, offset_ns) = (event.rank(), event.time_ns - begin_ns);
                rank_max |= rank;
                (offset_ns << rank_bits | rank) << PLACE_BITS | place
            };
            self.turn.extend((0..).zip(&*events).map(key));
        }
        // Otherwise a rank has run into the bits of the offset.
        if !self.turn.is_empty() && rank_max >> rank_bits == 0 {
            self.turn.sort_unstable();
            // Events of equal time and rank are in the order of their departure, which the number does not contain.
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

    /// The next event of the current node.
    #[inline(always)]
    fn of_turn(&self) -> Option<&Event> {
        let place = *self.turn.get(self.at)? as usize;
        self.events.get(self.first + place)
    }

    /// An event some way after the one popped last, of the same node or a later one, so that the data it touches can be
    /// prefetched.
    #[inline(always)]
    pub(crate) fn ahead(&self) -> Option<&Event> {
        let at = self.at + AHEAD;
        // Behind the events of this node lie those of the next one of the block.
        let place = self.turn.get(at).map_or(at, |place| *place as usize);
        self.events.get(self.first + place)
    }

    /// Returns the next event of the open window. If nothing is left, closes the window and returns none.
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

    /// Returns the event popped last to the queue, so that it is the next event again.
    pub(crate) fn put_off(&mut self, event: Event) {
        self.len += 1;
        self.own.push_front(event);
    }

    /// The current node, if all of its events so far in the open window have been handled.
    #[inline]
    pub(crate) fn whose_turn_ends(&self) -> Option<u32> {
        let ends = self.own.is_empty() && self.at == self.turn.len();
        (ends && self.node != u32::MAX).then_some(self.node)
    }

    /// Whether a node's own event at this time would be the next one, so that it need not be queued.
    #[inline]
    pub(crate) fn comes_next(&self, time_ns: u64) -> bool {
        let own = self.own.front();
        let other = self.of_turn();
        // At equal times it is queued, and the order of events decides.
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

    /// Time of the first event while no window is open.
    pub(crate) fn next_time_ns(&mut self) -> Option<u64> {
        let window = self.next_window()?;
        self.drain(window);
        let first = self.drained.iter().map(|event| event.time_ns).min();
        // Nothing is due before 0: all events return.
        self.put_back(0);
        first
    }

    /// Number of pending events.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of the window that contains a time.
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
            // The next word. The last one is the first again, whose upper bits are known to be empty.
            window += 64 - window % 64;
        }
        later
    }

    /// Number of events pending in a window that is not open and that no earlier window with events precedes. Counting
    /// stops once there are `enough`.
    pub(crate) fn waiting(&self, window: u64, enough: u64) -> u64 {
        let later = self.later.get(&window).map_or(0, Vec::len) as u64;
        let in_ring = window.wrapping_sub(self.window) < RING;
        let in_ring = in_ring.then(|| &self.ring[(window % RING) as usize]);
        // If the window is not near, these buckets are those of an earlier one, which has no events.
        let buckets = self.near[self.near_of(window)].iter().chain(in_ring);
        buckets.fold(later, |count, bucket| {
            count + self.pool.count(*bucket, enough.saturating_sub(count))
        })
    }
}
