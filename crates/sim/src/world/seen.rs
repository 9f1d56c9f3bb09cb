//! What a witness is to see: kept during a window, whose nodes come one after the other, and shown in the
//! order of time.

use super::{Witness, World};
use crate::role::Role;

/// Something that was seen of a node.
#[derive(Debug)]
pub(super) enum Sight<D> {
    /// It delivered.
    Delivered(D),
    /// It reported another node.
    Reported {
        /// The other one.
        about: u32,
        /// Why.
        reason: &'static str,
    },
    /// It found a contradiction.
    Evidence,
}

/// What was seen, when and where.
#[derive(Debug)]
pub(super) struct Seen<D> {
    now_ns: u64,
    node: u32,
    sight: Sight<D>,
}

impl<R: Role, W: Witness<R>> World<R, W> {
    /// Keeps what is seen of a node now.
    pub(super) fn see(&mut self, node: u32, sight: Sight<R::Delivery>) {
        self.seen.push(Seen {
            now_ns: self.now_ns,
            node,
            sight,
        });
    }

    /// Shows the witness what was seen since the last time: by time, then by node.
    pub(crate) fn show(&mut self) {
        let mut seen = std::mem::take(&mut self.seen);
        seen.sort_by_key(|seen| (seen.now_ns, seen.node));
        for Seen {
            now_ns,
            node,
            sight,
        } in seen.drain(..)
        {
            match sight {
                Sight::Delivered(delivery) => self.witness.delivered(now_ns, node, &delivery),
                Sight::Reported { about, reason } => {
                    self.witness.reported(now_ns, node, about, reason);
                }
                Sight::Evidence => self.witness.evidence(now_ns, node),
            }
        }
        self.seen = seen;
    }
}
