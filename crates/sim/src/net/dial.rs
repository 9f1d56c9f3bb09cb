//! Connections that are established on first use.
//!
//! The first message waits for one and a half round trips, which lies between QUIC's one (RFC 9000) and the two of
//! TLS 1.3 over TCP (RFC 8446). The uplink of the dialling node carries the bytes of the handshake with it. Later
//! messages wait until the connection is established. The other node answers on the same connection.

use crate::numbered::Numbered;
use std::ops::Range;
use std::sync::Arc;

/// Which connections are established on first use.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    /// Bytes of a handshake on the uplink of the dialling node.
    pub(crate) bytes: u64,
    /// For each end, whether its connection does not exist from the start.
    pub(crate) is_new: Arc<[bool]>,
}

/// State of each end of a span; empty if all connections exist.
#[derive(Debug)]
pub(super) struct Dials {
    bytes: u64,
    /// When a connection starts to accept another message without delay.
    stands_ns: Numbered<u64>,
}

/// A connection that has not been used.
const UNUSED: u64 = u64::MAX;

impl Dials {
    /// Creates the state of these ends.
    pub(super) fn new(dial: Option<&Dial>, ends: Range<u32>) -> Self {
        let state = |is_new: &bool| if *is_new { UNUSED } else { 0 };
        let own = dial.map_or(&[][..], |dial| {
            &dial.is_new[ends.start as usize..ends.end as usize]
        });
        Dials {
            bytes: dial.map_or(0, |dial| dial.bytes),
            stands_ns: Numbered::new(ends.start, own.iter().map(state).collect()),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.stands_ns.is_empty()
    }

    /// Records when a message that waited for its connection has left.
    pub(super) fn keep_until(&mut self, end: u32, until_ns: u64) {
        self.stands_ns[end] = until_ns;
    }

    /// A first bit came over a connection, so it is established for its receiver too.
    pub(super) fn answer(&mut self, end: u32, now: u64) {
        let stands_ns = &mut self.stands_ns[end];
        // The minimum, as UNUSED is the latest time of all.
        *stands_ns = now.min(*stands_ns);
    }

    /// How long a message waits for the connection of an end; none if it is the first one.
    #[inline]
    pub(super) fn wait_ns(&self, now: u64, end: u32) -> Option<u64> {
        let stands_ns = self.stands_ns[end];
        (stands_ns != UNUSED).then(|| stands_ns.saturating_sub(now))
    }

    /// Bytes of a handshake.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
