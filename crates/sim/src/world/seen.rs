//! What nodes show a probe, kept until a window is closed.

use crate::numbered::Numbered;
use crate::role::Wire;
use std::ops::Range;

/// An observation of a node.
#[derive(Debug)]
pub(super) enum Sight<D> {
    /// It delivered.
    Delivered(D),
    /// It reported another node.
    Reported {
        /// The reported node.
        about: u32,
        /// The reason.
        reason: &'static str,
    },
    /// It found a contradiction.
    Evidence,
}

/// An observation with its time and node.
#[derive(Debug)]
pub(super) struct Seen<D> {
    pub(super) now_ns: u64,
    pub(super) node: u32,
    pub(super) sight: Sight<D>,
}

/// When the first part of a payload reached each node.
#[derive(Debug)]
pub(super) struct Begun {
    first_ns: Numbered<u64>,
    /// One bit for each node that has received something, which is all that most arrivals read.
    bits: Vec<u64>,
}

impl Begun {
    pub(super) fn new(nodes: Range<u32>) -> Self {
        Begun {
            bits: vec![0; nodes.len().div_ceil(64)],
            first_ns: Numbered::new(nodes.start, vec![u64::MAX; nodes.len()]),
        }
    }

    /// Looks at a message that arrived at a node.
    #[inline]
    pub(super) fn look(&mut self, now_ns: u64, node: u32, message: &impl Wire) {
        let place = node - self.first_ns.numbers().start;
        let (word, bit) = (&mut self.bits[place as usize / 64], 1 << (place % 64));
        if *word & bit == 0 && message.has_payload() {
            *word |= bit;
            self.first_ns[node] = now_ns;
        }
    }

    pub(super) fn first_ns(&self, node: u32) -> Option<u64> {
        let first_ns = self.first_ns[node];
        (first_ns < u64::MAX).then_some(first_ns)
    }
}
