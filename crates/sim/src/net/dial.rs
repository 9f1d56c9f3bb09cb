//! Connections that are made when they are first used.
//!
//! The first message waits for a round trip and a half, between QUIC's one (RFC 9000) and the two of TLS 1.3 over
//! TCP (RFC 8446), and the uplink of the node that dials carries the bytes of the handshake with it. What follows
//! waits until the connection stands. The other node answers on the same connection.

use super::{Direction, Net};
use crate::numbered::Numbered;
use std::ops::Range;
use std::sync::Arc;

/// Which connections are made when they are first used.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Bytes of a handshake on the uplink of the node that dials.
    pub bytes: u64,
    /// By end: whether its connection does not exist from the begin.
    pub is_new: Arc<[bool]>,
}

/// The state of each end of a span; empty if all connections exist.
#[derive(Debug)]
pub(super) struct Dials {
    bytes: u64,
    /// From when on a connection takes another message at once.
    stands_ns: Numbered<u64>,
}

/// A connection that nobody has used.
const UNUSED: u64 = u64::MAX;

impl Dials {
    /// Of these ends.
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

    /// A message that waited for its connection has left by then.
    pub(super) fn keep_until(&mut self, end: u32, until_ns: u64) {
        self.stands_ns[end] = until_ns;
    }

    /// A first bit came over a connection: it stands for its receiver too.
    pub(super) fn answer(&mut self, end: u32, now: u64) {
        let stands_ns = &mut self.stands_ns[end];
        *stands_ns = now.min(*stands_ns);
    }
}

impl<M: Clone> Net<M> {
    /// For how long a message waits for the connection of a direction, and the bytes of the handshake if it is the
    /// first one.
    pub(super) fn dial(&self, now: u64, direction: Direction) -> (u64, u64) {
        let stands_ns = self.dials.stands_ns[direction.end as u32];
        if stands_ns != UNUSED {
            return (stands_ns.saturating_sub(now), 0);
        }
        let (from, to) = (direction.node, self.graph.peer(direction.end));
        let round_ns = self.latency.base_ns(from, to) + self.latency.base_ns(to, from);
        (round_ns * 3 / 2, self.dials.bytes)
    }
}
