//! Stores messages in flight: once each, however many nodes receive them.

use super::{NONE, Net};
use crate::role::Wire;

impl<M: Clone> Net<M> {
    /// Stores a message for its receivers. A message that its sender has just received is already stored, shared by
    /// all copies in flight, so a flooded payload stays in the cache.
    #[inline]
    pub(crate) fn keep(&mut self, from: u32, message: M, receivers: u32) -> Option<u32>
    where
        M: Wire,
    {
        let known = self.at_hand;
        // Flights waiting in one queue are distinguished by their slot.
        let waits = match self.hot[from].queue.head {
            NONE => false,
            head => self.flights[head].message == known,
        };
        // The slot may be free or have another message by now, so its content decides.
        let kept = self.messages.peek(known);
        if !waits && kept.is_some_and(|kept| message.is_same(kept)) {
            self.messages.hold(known, receivers);
            return Some(known);
        }
        self.messages.insert(message, receivers)
    }
}
