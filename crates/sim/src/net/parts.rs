//! The parts of a network: bandwidths, the state and counters of a node, messages to send.

use super::dial::Dial;
use super::peak::Peak;
use super::queue::Queue;
use crate::graph::Graph;
use crate::latency::Latency;
use crate::scenario::Link;
use crate::windows::Departure;
use std::sync::Arc;

/// Bandwidth of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Uplink rate in bits per second.
    pub(crate) up_bps: u64,
    /// Downlink rate in bits per second.
    pub(crate) down_bps: u64,
}

impl Rate {
    /// Nanoseconds that `bytes` take at a rate in bits per second, rounded up.
    #[inline]
    pub(crate) fn wire_ns(bytes: u64, bps: u64) -> u64 {
        const BIT_NANOS: u64 = 8_000_000_000;
        let bps = bps.max(1);
        // Up to 2.3 GB the product fits in 64 bits, which spares the wide division.
        match bytes.checked_mul(BIT_NANOS) {
            Some(product) => product.div_ceil(bps),
            None => {
                let wide = u128::from(bytes) * u128::from(BIT_NANOS);
                u64::try_from(wide.div_ceil(u128::from(bps))).unwrap_or(u64::MAX)
            }
        }
    }
}

/// Wire time of the last length seen, cached because most messages are as long as the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lately {
    bytes: u64,
    wire_ns: u64,
}

impl Lately {
    #[inline]
    pub(super) fn wire_ns(&mut self, bytes: u64, bps: u64) -> u64 {
        if self.bytes != bytes {
            let wire_ns = Rate::wire_ns(bytes, bps);
            *self = Lately { bytes, wire_ns };
        }
        self.wire_ns
    }
}

/// What happens when an uplink becomes free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing.
    Nothing,
    /// It continues, by an event or lazily ([`Net::is_lazy`](super::Net::is_lazy)).
    GoesOn,
    /// It continues lazily, and an event is scheduled to make sure of that.
    Reminded,
}

/// State that every event of a node reads and writes: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Hot {
    pub(crate) up_free_ns: u64,
    pub(crate) down_free_ns: u64,
    /// When the processor that handles messages is free.
    pub(crate) cpu_free_ns: u64,
    /// The time that a timer is set to; `u64::MAX` = none.
    pub(crate) armed_ns: u64,
    pub(crate) queue: Queue,
    /// Distinguishes the current timer from earlier ones.
    pub(crate) timer: u32,
    pub(crate) rate: u16,
    /// Number of transmissions started; wraps.
    pub(crate) number: u16,
    /// What happens when the uplink is free.
    pub(crate) next: Next,
    /// Neither sends nor receives.
    pub(crate) down: bool,
    /// The state machine has a wrapper.
    pub(crate) wrapped: bool,
    /// Its activity is recorded.
    pub(crate) followed: bool,
}

const _: () = assert!(size_of::<Hot>() == 64, "a node is one cache line");

impl Hot {
    /// Creates the state of a node of which only the bandwidth is known.
    pub(crate) fn new(rate: u16) -> Self {
        Hot {
            up_free_ns: 0,
            down_free_ns: 0,
            cpu_free_ns: 0,
            armed_ns: u64::MAX,
            queue: Queue::EMPTY,
            timer: 0,
            rate,
            number: 0,
            next: Next::Nothing,
            down: false,
            wrapped: false,
            followed: false,
        }
    }
}

/// What a node has sent and received: one cache line for the counters of a delivery, one for those of sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Tally {
    /// Bytes put on the wire.
    pub(crate) bytes_up: u64,
    /// Bytes received.
    pub(crate) bytes_down: u64,
    /// Core time.
    pub(crate) cpu_ns: u64,
    down: Peak,
    /// Bytes waiting in the uplink.
    pub(crate) queue_bytes: u64,
    /// Maximum of these.
    pub(crate) queue_peak_bytes: u64,
    pub(super) up: Peak,
    pub(super) jobs: Peak,
    /// Messages sent.
    pub(crate) messages: u32,
}

impl Tally {
    /// Most bits sent in any one second of the clock.
    pub(crate) fn peak_1s_up_bps(&self) -> u64 {
        self.up.most().saturating_mul(8)
    }

    /// Most bits received in any one second of the clock.
    pub(crate) fn peak_1s_down_bps(&self) -> u64 {
        self.down.most().saturating_mul(8)
    }

    /// Most core time used in any one second of the clock by jobs of [`INLINE_NS_MAX`] or more.
    ///
    /// [`INLINE_NS_MAX`]: crate::charge::INLINE_NS_MAX
    pub(crate) fn peak_1s_jobs_ns(&self) -> u64 {
        self.jobs.most()
    }

    /// Counts a transmission towards the seconds in which it is on the wire.
    #[inline]
    pub(super) fn transmit(&mut self, start_ns: u64, wire_ns: u64, bytes: u64) {
        self.bytes_up += bytes;
        self.up.add(start_ns, wire_ns, bytes);
    }

    /// Counts bytes that arrive.
    #[inline]
    pub(crate) fn receive(&mut self, now_ns: u64, bytes: u64) {
        self.bytes_down += bytes;
        self.down.add(now_ns, 0, bytes);
    }
}

/// Bytes by outcome. At any time the bytes offered are the sum of all others, of those waiting and of those in
/// flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Balance {
    /// Handed over by nodes.
    pub(crate) offered: u64,
    /// Put on the wire.
    pub(crate) started: u64,
    /// Arrived.
    pub(crate) delivered: u64,
    /// Lost on the way, or arrived at a node that is down.
    pub(crate) lost: u64,
    /// Taken back from a queue by their sender.
    pub(crate) cancelled: u64,
    /// Not queued because the queue was full, or still queued when the sender went down.
    pub(crate) dropped: u64,
}

impl Balance {
    /// Bytes on the wire.
    pub(crate) fn flying(&self) -> u64 {
        self.started - self.delivered - self.lost
    }
}

impl std::ops::AddAssign for Balance {
    fn add_assign(&mut self, other: Self) {
        self.offered += other.offered;
        self.started += other.started;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.cancelled += other.cancelled;
        self.dropped += other.dropped;
    }
}

/// A transmission to a node of another span.
#[derive(Debug)]
pub(crate) struct Outgoing<M> {
    /// When its first bit arrives.
    pub(crate) time_ns: u64,
    pub(crate) sent: Departure,
    /// The receiving node.
    pub(crate) node: u32,
    /// The receiver's number for the sender.
    pub(crate) back: u32,
    pub(crate) bytes: u32,
    /// The message; none for a part that is not the last.
    pub(crate) message: Option<M>,
}

/// One direction of a connection: away from this node, at this end of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direction {
    pub(crate) node: u32,
    pub(crate) end: usize,
}

/// A message to be sent to one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parcel {
    pub(crate) message: u32,
    /// Bytes of the message alone.
    pub(crate) bytes: u64,
    pub(crate) priority: u8,
    pub(crate) kind: u8,
    pub(crate) paced: bool,
}

/// An interval in which some nodes cannot reach some others.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) side: Vec<bool>,
    /// If true, nodes outside `side` reach only those in it. Otherwise the two sides cannot reach each other.
    pub(crate) eclipse: bool,
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
    /// Time after which streams are broken: what would arrive later is lost.
    pub(crate) break_ns: u64,
}

impl Cut {
    /// Whether two nodes cannot reach each other.
    pub(crate) fn parts(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.side[a as usize], self.side[b as usize]);
        if self.eclipse { !a && !b } else { a != b }
    }
}

/// Traffic of one kind in one bin of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// Bin length of the series, in nanoseconds.
pub const BIN_NS: u64 = 10_000_000;

/// Configuration of a network.
#[derive(Clone, Debug)]
pub(crate) struct NetConfig {
    /// The connections between nodes.
    pub(crate) graph: Arc<Graph>,
    /// Propagation times.
    pub(crate) latency: Arc<Latency>,
    /// Queues, transport and loss.
    pub(crate) link: Link,
    /// Connections that are established on first use, if any are.
    pub(crate) dial: Option<Dial>,
    /// Bandwidths.
    pub(crate) rates: Vec<Rate>,
    /// Index of each node's bandwidth.
    pub(crate) rate: Arc<[u16]>,
    /// Time to handle a message at its receiver.
    pub(crate) handle_ns: u64,
    /// Seed of the random draws.
    pub(crate) seed: u64,
    /// Number of message kinds.
    pub(crate) kinds: usize,
    /// Whether any message is paced ([`Wire::is_paced`]), so that its sender waits for the uplink to become free.
    ///
    /// [`Wire::is_paced`]: crate::role::Wire::is_paced
    pub(crate) paced: bool,
}
