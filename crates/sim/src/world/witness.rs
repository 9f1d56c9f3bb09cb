//! Who looks at a run: sees the stream of events and what is published, and no state of a node.

use crate::role::Role;

/// Sees what happens in a world; what it does with it never changes a run, but for its end.
pub trait Witness<R: Role> {
    /// A node hands a message over to its uplink, once for each of `receivers`.
    #[inline]
    fn sent(&mut self, _now_ns: u64, _node: u32, _message: &R::Message, _receivers: u32) {}

    /// A message is there.
    #[inline]
    fn arrived(&mut self, _now_ns: u64, _node: u32, _message: &R::Message) {}

    /// A node delivers.
    fn delivered(&mut self, _now_ns: u64, _node: u32, _delivery: &R::Delivery) {}

    /// A node reports another one.
    fn reported(&mut self, _now_ns: u64, _node: u32, _about: u32, _reason: &'static str) {}

    /// A node has found a contradiction.
    fn evidence(&mut self, _now_ns: u64, _node: u32) {}

    /// A node goes down, or is up again.
    fn changed(&mut self, _now_ns: u64, _node: u32, _up: bool) {}

    /// A node that comes back has forgotten everything.
    fn restarted(&mut self, _now_ns: u64, _node: u32) {}

    /// Whether nothing more need happen.
    #[inline]
    fn is_done(&self) -> bool {
        false
    }
}

/// Nobody looks.
impl<R: Role> Witness<R> for () {}
