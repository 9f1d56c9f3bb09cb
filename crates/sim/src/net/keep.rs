//! Where messages are while they are on their way: once each, however many receive them.

use super::{NONE, Net};
use crate::role::Wire;

impl<M: Clone> Net<M> {
    /// Keeps a message for its receivers. One that its sender has just received is kept already, by all
    /// that are on their way: a payload that is flooded stays in the cache.
    #[inline]
    pub(crate) fn keep(&mut self, from: u32, message: M, receivers: u32) -> Option<u32>
    where
        M: Wire,
    {
        let known = self.at_hand;
        // What waits in one queue is told apart by its place.
        let waits = match self.hot[from].queue.head {
            NONE => false,
            head => self.flights[head].message == known,
        };
        let kept = self.messages.peek(known);
        if !waits && kept.is_some_and(|kept| message.is_same(kept)) {
            self.messages.hold(known, receivers);
            return Some(known);
        }
        self.messages.insert(message, receivers)
    }
}
