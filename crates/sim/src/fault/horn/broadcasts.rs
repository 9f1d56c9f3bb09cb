//! The broadcasts that an attack is about.

use crate::horn::{HornMessage, Inner};
use alphorn_broadcast::rlnc::{Id, Subject};
use std::collections::BTreeSet;

/// Broadcasts whose messages an attacker does not send, or ignores. They are recognised by their headers.
#[derive(Debug, Default)]
pub(super) struct Broadcasts {
    ids: BTreeSet<Id>,
}

impl Broadcasts {
    /// Whether a message belongs to a broadcast whose subject satisfies `is_one`.
    pub(super) fn have(
        &mut self,
        message: &HornMessage,
        is_one: impl Fn(&Subject) -> bool,
    ) -> bool {
        let Inner::Coded { message, .. } = &message.inner else {
            return false;
        };
        if let alphorn_broadcast::Message::Header(announce) = &**message
            && is_one(&announce.header.subject)
        {
            self.ids.insert(announce.id);
        }
        self.ids.contains(&message.id())
    }
}
