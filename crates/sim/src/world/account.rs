//! Accounts for the bytes of a world, and for the network and compute load of its nodes.

use super::span::Span;
use super::{Probe, World};
use crate::net::{Balance, Load, Net};
use crate::role::Role;

impl<R: Role, W: Probe<R>> World<R, W> {
    /// Load of each class, by bin number.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (u64, u16, Load)> {
        let mut all = self.spans[0].net.loads.clone();
        for net in self.nets().skip(1) {
            all.add(&net.loads);
        }
        all.into_iter()
    }

    /// When the last byte so far was sent or received, or the last work ended, whichever is later.
    pub(crate) fn busy_until_ns(&self) -> u64 {
        let until_ns = self.nets().map(|net| net.loads.until_ns());
        until_ns.max().unwrap_or(0)
    }

    /// Counts the time that running jobs have used so far, since a run can end in the middle of them.
    pub(crate) fn count_running(&mut self) {
        let now_ns = self.now_ns;
        for span in &mut self.spans {
            let Span {
                compute,
                net,
                queue,
                ..
            } = span;
            compute.count_running(now_ns, net, queue);
        }
    }

    /// Bytes by outcome.
    pub(crate) fn balance(&self) -> Balance {
        let mut all = Balance::default();
        for net in self.nets() {
            all += net.balance;
        }
        all
    }

    /// Bytes waiting in uplinks, and bytes on the wire.
    pub(crate) fn bytes_on_the_way(&self) -> (u64, u64) {
        let waiting = self.nets().map(Net::waiting_bytes).sum();
        (waiting, self.balance().flying())
    }
}
