//! Observers of a run. A probe sees the stream of events and what is published, but no state of a node.

use crate::role::Role;
use alphorn_types::trace::Record;

/// Observes what happens in a world, in time order. A probe never affects a run, except that it can end it.
pub(crate) trait Probe<R: Role> {
    /// A node was handed a message. Only called if arrivals are shown, and for all arrivals of a window before
    /// anything else seen in it.
    fn arrived(&mut self, _message: &R::Message) {}

    /// A node delivers.
    fn delivered(&mut self, _now_ns: u64, _node: u32, _delivery: &R::Delivery) {}

    /// A node reports another node.
    fn reported(&mut self, _now_ns: u64, _node: u32, _about: u32, _reason: &'static str) {}

    /// A node has found a contradiction.
    fn evidence(&mut self, _now_ns: u64, _node: u32) {}

    /// A node that comes back has forgotten everything.
    fn restarted(&mut self, _now_ns: u64, _node: u32) {}

    /// Returns the probe's records up to now that it has not returned yet, in time order from genesis.
    fn told(&mut self, _now_ns: u64) -> Vec<Record> {
        Vec::new()
    }

    /// Whether the run may end; checked after each window.
    #[inline]
    fn is_done(&self) -> bool {
        false
    }
}

/// A probe that observes nothing.
impl<R: Role> Probe<R> for () {}
