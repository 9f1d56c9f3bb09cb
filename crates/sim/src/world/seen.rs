//! What a probe is shown. Nodes run one after the other within a window, so sightings are kept during it and then
//! shown in time order.

use super::span::Span;
use super::{Probe, World};
use crate::numbered::Numbered;
use crate::role::{Role, Wire};
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
    now_ns: u64,
    node: u32,
    sight: Sight<D>,
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

impl<R: Role> Span<R> {
    /// Records an observation of a node at the current time.
    pub(super) fn see(&mut self, node: u32, sight: Sight<R::Delivery>) {
        self.seen.push(Seen {
            now_ns: self.now_ns,
            node,
            sight,
        });
    }
}

impl<R: Role, W: Probe<R>> World<R, W> {
    /// From now on shows the probe the messages handed to nodes.
    pub(crate) fn show_arrivals(&mut self) {
        for span in &mut self.spans {
            span.arrived = Some(Vec::new());
        }
    }

    /// Shows the probe everything seen since the last call, by time and then by node.
    pub(crate) fn show(&mut self) {
        for span in &mut self.spans {
            for message in span
                .arrived
                .iter_mut()
                .flat_map(|arrived| arrived.drain(..))
            {
                self.probe.arrived(&message);
            }
        }
        let mut seen = std::mem::take(&mut self.spans[0].seen);
        for span in &mut self.spans[1..] {
            seen.append(&mut span.seen);
        }
        // Stable: what a node shows at one instant stays in order.
        seen.sort_by_key(|seen| (seen.now_ns, seen.node));
        for Seen {
            now_ns,
            node,
            sight,
        } in seen.drain(..)
        {
            match sight {
                Sight::Delivered(delivery) => self.probe.delivered(now_ns, node, &delivery),
                Sight::Reported { about, reason } => {
                    self.probe.reported(now_ns, node, about, reason);
                }
                Sight::Evidence => self.probe.evidence(now_ns, node),
            }
        }
        // Keeps the memory for the next window.
        self.spans[0].seen = seen;
    }
}
