//! An event at a node, and its order among the events of that node.

/// Bits in an event's argument.
const ARG_BITS: u32 = 28;
/// Maximum argument of an event.
pub(crate) const ARG_MAX: u32 = (1 << ARG_BITS) - 1;
/// Maximum kind of an event.
const KIND_MAX: u8 = 15;
/// Kind of a node's own events that precede its other events of the same time.
pub(crate) const FIRST: u8 = 0;
/// Kind of events that come from another node.
pub(crate) const ARRIVAL: u8 = KIND_MAX;

/// Bits in the sequence number of an arrival at its sender. It orders only what arrives at one instant and was equally
/// long on the wire, which is little unless a cut has delayed it.
pub(super) const NUMBER_BITS: u32 = u16::BITS;

/// How a message left its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    /// Time for which the sender's uplink transmits it.
    pub(crate) wire_ns: u64,
    /// Low bits of the number of messages that the sender had sent by then.
    pub(crate) number: u16,
}

/// An event at a node: 32 bytes, half a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub(crate) struct Event {
    /// Virtual time.
    pub(crate) time_ns: u64,
    /// For a node's own event, its number in the order of scheduling. For an arrival, the time for which the sender's
    /// uplink transmits it, and below that the low bits of the sender's sequence number.
    pub(super) order: u64,
    /// The node.
    pub(crate) node: u32,
    tag: u32,
    /// Additional data for the handler; for an arrival, the first word is the node's number for its sender.
    pub(crate) more: [u32; 2],
}

const _: () = assert!(size_of::<Event>() == 32, "two events are a cache line");

impl Event {
    #[inline]
    pub(super) fn new(
        time_ns: u64,
        order: u64,
        node: u32,
        kind: u8,
        arg: u32,
        more: [u32; 2],
    ) -> Self {
        assert!(kind <= KIND_MAX && arg <= ARG_MAX, "event {kind} of {arg}");
        Event {
            time_ns,
            order,
            node,
            tag: u32::from(kind) << ARG_BITS | arg,
            more,
        }
    }

    /// Kind of event, at most [`KIND_MAX`].
    #[inline]
    pub(crate) fn kind(&self) -> u8 {
        (self.tag >> ARG_BITS) as u8
    }

    /// Argument, at most [`ARG_MAX`].
    #[inline]
    pub(crate) fn arg(&self) -> u32 {
        self.tag & ARG_MAX
    }

    /// Time for which the sender's uplink transmits the arrival, at most 78 hours.
    #[inline]
    pub(crate) fn wire_ns(&self) -> u64 {
        self.order >> NUMBER_BITS
    }

    /// Rank among the events of its node and time: the node's own come before arrivals, which are ordered by sender.
    #[inline]
    pub(super) fn rank(&self) -> u64 {
        match self.kind() {
            ARRIVAL => u64::from(self.more[0]) + 1,
            _ => 0,
        }
    }

    /// Sort key among the events of its node.
    #[inline]
    pub(super) fn key(&self) -> (u64, u64, u64) {
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
    /// Compares the events of one node.
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
