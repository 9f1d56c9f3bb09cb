//! What became of the bytes of a world, and what its nodes carried and computed.

use super::span::Span;
use super::{Probe, World};
use crate::net::{Balance, Load, Net};
use crate::role::Role;

impl<R: Role, W: Probe<R>> World<R, W> {
    /// What each class carried and computed, by the number of a bin.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (u64, u16, Load)> {
        let mut all = self.spans[0].net.loads.clone();
        for net in self.nets().skip(1) {
            all.add(&net.loads);
        }
        all.into_iter()
    }

    /// When the last byte was sent or received so far, and the last work ended.
    pub(crate) fn busy_until_ns(&self) -> u64 {
        let until_ns = self.nets().map(|net| net.loads.until_ns());
        until_ns.max().unwrap_or(0)
    }

    /// Counts what jobs that still run have taken by now: a run that ends does so in the middle of them.
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

    /// What became of the bytes.
    pub fn balance(&self) -> Balance {
        let mut all = Balance::default();
        for net in self.nets() {
            all += net.balance;
        }
        all
    }

    /// Bytes that wait in uplinks, and those on the wire.
    pub(crate) fn bytes_on_the_way(&self) -> (u64, u64) {
        let waiting = self.nets().map(Net::waiting_bytes).sum();
        (waiting, self.balance().flying())
    }
}
