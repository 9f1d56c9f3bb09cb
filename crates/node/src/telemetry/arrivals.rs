//! When blocks and collections came, by which whoever has the figures of all nodes compares the ways on
//! which they travel: nodes of one machine have one clock.

use alphorn_proto::horn::cast;
use alphorn_proto::wire::{Topic, WireFormat};
use alphorn_types::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Messages that are remembered; the oldest slots go first.
const ARRIVALS_MAX: usize = 1_024;

/// A block or a collection, as it says of itself, before anything of it is verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// `block` or `collection`.
    pub kind: String,
    /// The slot.
    pub slot: u64,
    /// The validator that made it.
    pub source: u32,
    /// The committee of a collection.
    pub index: u32,
    /// Bytes of the message.
    pub bytes: u64,
    /// Whether this node made it.
    pub is_own: bool,
    /// When it was published, or came first: nanoseconds since 1970 by the clock of the node.
    pub at_ns: u64,
}

/// Which message: slot, kind, source, index.
type Name = (u64, u8, u32, u32);

/// The first arrival of each of the last messages.
pub(super) struct Arrivals {
    format: WireFormat,
    first: BTreeMap<Name, Arrival>,
}

impl Arrivals {
    pub(super) fn new(format: WireFormat) -> Self {
        Arrivals {
            format,
            first: BTreeMap::new(),
        }
    }

    /// A message was published here, or came.
    pub(super) fn note(&mut self, now: Time, topic: Topic, data: &[u8], is_own: bool) {
        let Some(subject) = cast::subject(topic, data, &self.format) else {
            return;
        };
        let name = (subject.slot, subject.kind, subject.source, subject.index);
        self.first.entry(name).or_insert_with(|| Arrival {
            kind: topic.kind().name().to_owned(),
            slot: subject.slot,
            source: subject.source,
            index: subject.index,
            bytes: data.len() as u64,
            is_own,
            at_ns: now.as_nanos(),
        });
        if self.first.len() > ARRIVALS_MAX {
            self.first.pop_first();
        }
    }

    /// All that are remembered, by slot.
    pub(super) fn all(&self) -> Vec<Arrival> {
        self.first.values().cloned().collect()
    }
}
