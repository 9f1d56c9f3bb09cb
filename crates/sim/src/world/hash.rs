//! The hash that names a run.

use crate::calendar::Event;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// xxh3 over (time, seq, node, kind, size) of every event, in order.
pub(super) struct EventHash {
    state: XxHash3_64,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for EventHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.value())
    }
}

impl EventHash {
    const BUFFER_BYTES: usize = 4096;

    pub(super) fn new() -> Self {
        EventHash {
            state: XxHash3_64::with_seed(0),
            bytes: Vec::with_capacity(Self::BUFFER_BYTES + 32),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, event: &Event, kind: u8, size: u64) {
        let mut record = [0; 29];
        record[..8].copy_from_slice(&event.time_ns.to_le_bytes());
        record[8..16].copy_from_slice(&event.seq.to_le_bytes());
        record[16..20].copy_from_slice(&event.node.to_le_bytes());
        record[20..28].copy_from_slice(&size.to_le_bytes());
        record[28] = kind;
        self.bytes.extend_from_slice(&record);
        if self.bytes.len() >= Self::BUFFER_BYTES {
            self.state.write(&self.bytes);
            self.bytes.clear();
        }
    }

    pub(super) fn value(&self) -> u64 {
        let mut state = self.state.clone();
        state.write(&self.bytes);
        state.finish()
    }
}
