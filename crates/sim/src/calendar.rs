//! The calendar: events in the total order (time, order of scheduling), in constant time each.
//!
//! A near ring of buckets holds what comes soon, a far ring of buckets as long as the whole near ring
//! what comes later, a map what is beyond. Appending needs no order; a bucket is sorted when its time
//! comes. The width of a bucket follows from counts of events alone, never from a clock, and cannot
//! change the order (R. Brown, "Calendar queues", CACM 31, 1988).

mod pool;
mod slab;
#[cfg(test)]
mod tests;

pub(crate) use slab::Slab;

use pool::{NONE, Pool};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Bits of an event's argument.
pub(crate) const ARG_BITS: u32 = 28;
/// The greatest argument of an event.
pub(crate) const ARG_MAX: u32 = (1 << ARG_BITS) - 1;
/// The greatest kind of an event.
pub(crate) const KIND_MAX: u8 = 15;

const NEAR_BITS: u32 = 15;
const NEAR: u64 = 1 << NEAR_BITS;
const FAR: u64 = 1 << 10;
/// A bucket of 2^13 ns before anything is known; the near ring is then 268 ms long, more than any message
/// between two places on earth takes: what goes through the far ring is placed twice.
const WIDTH_BITS: u32 = 13;
/// Widest bucket: 2^40 ns are 18 minutes, more than a run has.
const WIDTH_BITS_MAX: u32 = 40;
/// Events of a bucket that the width aims at, least and most before it changes.
const AIM: (u64, u64, u64) = (32, 64, 256);
/// For how many events memory is read ahead at once, so that their misses overlap.
const AHEAD: usize = 16;
/// Events between two looks at the width.
const LOOK: u64 = 1 << 16;

/// Something that happens at a node: 32 bytes, half a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Event {
    /// Virtual time.
    pub time_ns: u64,
    /// Number of the event in the order of scheduling.
    pub seq: u64,
    /// Where.
    pub node: u32,
    tag: u32,
    /// What else who scheduled it wants to find in it.
    pub more: [u32; 2],
}

const _: () = assert!(size_of::<Event>() == 32, "two events are a cache line");

impl Event {
    #[inline]
    fn new(time_ns: u64, seq: u64, node: u32, (kind, arg): (u8, u32), more: [u32; 2]) -> Self {
        assert!(kind <= KIND_MAX && arg <= ARG_MAX, "event {kind} of {arg}");
        let tag = u32::from(kind) << ARG_BITS | arg;
        Event {
            time_ns,
            seq,
            node,
            tag,
            more,
        }
    }

    /// What happens, at most [`KIND_MAX`].
    #[inline]
    pub fn kind(&self) -> u8 {
        (self.tag >> ARG_BITS) as u8
    }

    /// To what, at most [`ARG_MAX`].
    #[inline]
    pub fn arg(&self) -> u32 {
        self.tag & ARG_MAX
    }

    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.time_ns) << 64 | u128::from(self.seq)
    }
}

impl PartialOrd for Event {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Events in the order (time, order of scheduling); nothing else decides.
pub trait EventQueue: Default {
    /// Schedules an event; among events of one time the one scheduled first comes first.
    ///
    /// # Panics
    /// If kind or argument are above their maximum.
    fn push_with(&mut self, time_ns: u64, node: u32, what: (u8, u32), more: [u32; 2]);

    /// Schedules an event that its kind and argument say all about.
    ///
    /// # Panics
    /// As [`EventQueue::push_with`].
    #[inline]
    fn push(&mut self, time_ns: u64, node: u32, kind: u8, arg: u32) {
        self.push_with(time_ns, node, (kind, arg), [0; 2]);
    }

    /// The first event, if it happens at `until_ns` or before.
    fn pop_until(&mut self, until_ns: u64) -> Option<Event>;

    /// The first event.
    #[inline]
    fn pop(&mut self) -> Option<Event> {
        self.pop_until(u64::MAX)
    }

    /// When the first event happens.
    fn next_time_ns(&mut self) -> Option<u64>;

    /// Events that wait.
    fn len(&self) -> usize;

    /// Whether none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Events that come next, as far as is known: what they need may be read ahead. It decides
    /// nothing.
    #[inline]
    fn soon(&mut self) -> &[Event] {
        &[]
    }
}

/// The plain queue: a binary heap, the oracle of the [`Calendar`].
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Heap {
    events: BinaryHeap<Reverse<Event>>,
    scheduled: u64,
}

#[cfg(test)]
impl EventQueue for Heap {
    fn push_with(&mut self, time_ns: u64, node: u32, what: (u8, u32), more: [u32; 2]) {
        let event = Event::new(time_ns, self.scheduled, node, what, more);
        self.events.push(Reverse(event));
        self.scheduled += 1;
    }

    fn pop_until(&mut self, until_ns: u64) -> Option<Event> {
        if self.next_time_ns()? > until_ns {
            return None;
        }
        self.events.pop().map(|Reverse(event)| event)
    }

    fn next_time_ns(&mut self) -> Option<u64> {
        self.events.peek().map(|Reverse(event)| event.time_ns)
    }

    fn len(&self) -> usize {
        self.events.len()
    }
}

/// What was seen since the last look at the width.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    events: u64,
    /// Events at another time than the one before.
    times: u64,
    /// Buckets that had events.
    buckets: u64,
    last_ns: u64,
}

/// The calendar; see the [module](self).
#[derive(Debug)]
pub struct Calendar {
    /// The bucket of the current time, sorted, read from `at`.
    current: Vec<Event>,
    at: usize,
    /// What was scheduled into the current bucket since it is current.
    late: BinaryHeap<Reverse<Event>>,
    /// Number of the current bucket from time zero.
    bucket: u64,
    pool: Pool,
    near: Vec<u32>,
    /// A bit for each bucket of the near ring that has events.
    near_used: Vec<u64>,
    near_len: usize,
    far: Vec<u32>,
    far_len: usize,
    beyond: BTreeMap<u64, Vec<Event>>,
    width_bits: u32,
    len: usize,
    scheduled: u64,
    seen: Seen,
    look_at: u64,
}

impl Default for Calendar {
    fn default() -> Self {
        Calendar {
            current: Vec::new(),
            at: 0,
            late: BinaryHeap::new(),
            bucket: 0,
            pool: Pool::default(),
            near: vec![NONE; NEAR as usize],
            near_used: vec![0; NEAR as usize / 64],
            near_len: 0,
            far: vec![NONE; FAR as usize],
            far_len: 0,
            beyond: BTreeMap::new(),
            width_bits: WIDTH_BITS,
            len: 0,
            scheduled: 0,
            seen: Seen::default(),
            look_at: LOOK,
        }
    }
}

impl EventQueue for Calendar {
    #[inline]
    fn push_with(&mut self, time_ns: u64, node: u32, what: (u8, u32), more: [u32; 2]) {
        let event = Event::new(time_ns, self.scheduled, node, what, more);
        self.scheduled += 1;
        self.len += 1;
        self.place(event);
    }

    #[inline]
    fn pop_until(&mut self, until_ns: u64) -> Option<Event> {
        if self.at == self.current.len() && self.late.is_empty() && !self.advance() {
            return None;
        }
        let event = self.take_first(until_ns)?;
        self.len -= 1;
        self.seen.events += 1;
        self.seen.times += u64::from(event.time_ns != self.seen.last_ns);
        self.seen.last_ns = event.time_ns;
        Some(event)
    }

    fn next_time_ns(&mut self) -> Option<u64> {
        if self.at == self.current.len() && self.late.is_empty() {
            self.advance();
        }
        let late = self.late.peek().map(|Reverse(event)| event.time_ns);
        let first = self.current.get(self.at).map(|event| event.time_ns);
        first.into_iter().chain(late).min()
    }

    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn soon(&mut self) -> &[Event] {
        if self.at == self.current.len() && self.late.is_empty() {
            self.advance();
        }
        let rest = &self.current[self.at..];
        &rest[..rest.len().min(AHEAD)]
    }
}

impl Calendar {
    #[inline]
    fn place(&mut self, event: Event) {
        let bucket = event.time_ns >> self.width_bits;
        if bucket <= self.bucket {
            self.late.push(Reverse(event));
        } else if bucket - self.bucket < NEAR {
            self.place_near(bucket, event);
        } else {
            self.place_far(bucket >> NEAR_BITS, event);
        }
    }

    #[inline]
    fn place_near(&mut self, bucket: u64, event: Event) {
        let slot = (bucket % NEAR) as usize;
        self.pool.push(&mut self.near[slot], event);
        self.near_used[slot / 64] |= 1 << (slot % 64);
        self.near_len += 1;
    }

    #[inline]
    fn place_far(&mut self, index: u64, event: Event) {
        if index - (self.bucket >> NEAR_BITS) < FAR {
            self.pool.push(&mut self.far[(index % FAR) as usize], event);
            self.far_len += 1;
        } else {
            self.beyond.entry(index).or_default().push(event);
        }
    }

    /// The lesser of the current bucket's next event and the first late one, if it is in time.
    #[inline]
    fn take_first(&mut self, until_ns: u64) -> Option<Event> {
        let first = self.current.get(self.at);
        if let Some(Reverse(late)) = self.late.peek()
            && first.is_none_or(|first| late < first)
        {
            return match late.time_ns <= until_ns {
                true => self.late.pop().map(|Reverse(event)| event),
                false => None,
            };
        }
        let first = *first.filter(|first| first.time_ns <= until_ns)?;
        self.at += 1;
        Some(first)
    }

    /// Makes the next bucket that has events the current one; false if there is none.
    fn advance(&mut self) -> bool {
        if self.len == 0 {
            return false;
        }
        if self.seen.events >= self.look_at {
            self.adapt();
            if !self.late.is_empty() {
                return true;
            }
        }
        loop {
            let index = self.bucket >> NEAR_BITS;
            let end = (index + 1) << NEAR_BITS;
            if self.near_len > 0
                && let Some(bucket) = self.next_used(self.bucket + 1, end)
            {
                self.begin(bucket);
                return true;
            }
            let next = match self.near_len {
                0 => self.next_far(index),
                _ => index + 1,
            };
            self.bucket = next << NEAR_BITS;
            self.pour(next);
            // The first bucket of the ring is the current one now: its events are late ones or here.
            let slot = (self.bucket % NEAR) as usize;
            if self.near[slot] != NONE {
                self.begin(self.bucket);
                return true;
            }
        }
    }

    /// The first bucket from `from` to below `end` that has events.
    fn next_used(&self, from: u64, end: u64) -> Option<u64> {
        let mut bucket = from;
        while bucket < end {
            let slot = (bucket % NEAR) as usize;
            let rest = self.near_used[slot / 64] >> (slot % 64);
            if rest != 0 {
                // The words of the ring end where `end` does.
                return Some(bucket + u64::from(rest.trailing_zeros()));
            }
            bucket += 64 - bucket % 64;
        }
        None
    }

    fn next_far(&self, index: u64) -> u64 {
        let beyond = self.beyond.keys().next().copied();
        let far = match self.far_len {
            0 => None,
            _ => (index + 1..index + FAR).find(|i| self.far[(i % FAR) as usize] != NONE),
        };
        let first = far.into_iter().chain(beyond).min();
        first.expect("an event that waits is in one of the rings or beyond")
    }

    /// Distributes a far bucket, and lets what was beyond come into the far ring.
    fn pour(&mut self, index: u64) {
        let slot = (index % FAR) as usize;
        let mut events = Vec::new();
        self.pool.drain(&mut self.far[slot], &mut events);
        self.far_len -= events.len();
        for event in events {
            self.place_near(event.time_ns >> self.width_bits, event);
        }
        while let Some(entry) = self.beyond.first_entry()
            && *entry.key() - index < FAR
        {
            let (i, events) = entry.remove_entry();
            if i == index {
                for event in events {
                    self.place_near(event.time_ns >> self.width_bits, event);
                }
            } else {
                self.far_len += events.len();
                for event in events {
                    self.pool.push(&mut self.far[(i % FAR) as usize], event);
                }
            }
        }
    }

    /// Sorts a bucket of the near ring and makes it the current one.
    fn begin(&mut self, bucket: u64) {
        let slot = (bucket % NEAR) as usize;
        self.current.clear();
        self.at = 0;
        self.pool.drain(&mut self.near[slot], &mut self.current);
        self.near_used[slot / 64] &= !(1 << (slot % 64));
        self.near_len -= self.current.len();
        self.bucket = bucket;
        self.seen.buckets += 1;
        self.current.sort_unstable();
    }

    /// Looks at how full the buckets were, and changes their width if it does not fit.
    fn adapt(&mut self) {
        let buckets = self.seen.buckets.max(1);
        let (events, times) = (self.seen.events / buckets, self.seen.times / buckets);
        self.seen = Seen {
            last_ns: self.seen.last_ns,
            ..Seen::default()
        };
        let (least, aim, most) = AIM;
        // Events of one time are together in any bucket: only different times can be parted.
        let bits = if times > most {
            let narrower = (times / aim).ilog2();
            self.width_bits.saturating_sub(narrower)
        } else if events < least {
            let wider = (aim / events.max(1)).ilog2();
            (self.width_bits + wider).min(WIDTH_BITS_MAX)
        } else {
            self.width_bits
        };
        if bits != self.width_bits {
            self.rebuild(bits);
        }
        // Rebuilding costs as much as there are events: not before as many were handled again.
        self.look_at = LOOK.max(self.len as u64);
    }

    /// Gives the buckets another width.
    fn rebuild(&mut self, width_bits: u32) {
        let mut events: Vec<Event> = Vec::with_capacity(self.len);
        events.extend(self.current.drain(self.at..));
        events.extend(self.late.drain().map(|Reverse(event)| event));
        self.current.clear();
        self.at = 0;
        for bucket in self.near.iter_mut().chain(&mut self.far) {
            self.pool.drain(bucket, &mut events);
        }
        for (_, mut bucket) in std::mem::take(&mut self.beyond) {
            events.append(&mut bucket);
        }
        self.near_used.fill(0);
        (self.near_len, self.far_len) = (0, 0);
        self.width_bits = width_bits;
        self.bucket = self.seen.last_ns >> width_bits;
        for event in events {
            self.place(event);
        }
    }
}
