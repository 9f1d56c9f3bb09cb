//! Who looks at a run: sees the stream of events and what is published, and no state of a node.

use crate::role::Role;
use alphorn_types::trace::Record;

/// Sees what happens in a world, in the order of time; what it does with it never changes a run, but for its
/// end.
pub trait Probe<R: Role> {
    /// Some node was handed a message, if arrivals are shown: those
    /// of a window before all else that is seen of it.
    fn arrived(&mut self, _message: &R::Message) {}

    /// A node delivers.
    fn delivered(&mut self, _now_ns: u64, _node: u32, _delivery: &R::Delivery) {}

    /// A node reports another one.
    fn reported(&mut self, _now_ns: u64, _node: u32, _about: u32, _reason: &'static str) {}

    /// A node has found a contradiction.
    fn evidence(&mut self, _now_ns: u64, _node: u32) {}

    /// A node that comes back has forgotten everything.
    fn restarted(&mut self, _now_ns: u64, _node: u32) {}

    /// What it has to tell of the time until now that it has not told, in the order of time from genesis.
    fn told(&mut self, _now_ns: u64) -> Vec<Record> {
        Vec::new()
    }

    /// Whether nothing more need happen; asked after each window.
    #[inline]
    fn is_done(&self) -> bool {
        false
    }
}

/// Nobody looks.
impl<R: Role> Probe<R> for () {}
