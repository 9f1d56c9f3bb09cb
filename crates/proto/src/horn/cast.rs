//! How Horn uses coded broadcasts: which messages, under which subjects, with which parameters. Used by
//! both nodes and the network simulation.

use super::machine::Horn;
use super::sources::broadcast_kind;
use crate::wire::{Aggregate, Header, Kind, Topic, WireFormat};
use alphorn_broadcast::rlnc::{ELEMENT_PAYLOAD_BYTES, Subject};
use alphorn_broadcast::{Config, Limits, Policy};

/// Messages larger than this many bytes are broadcast, unless configured otherwise.
pub const ABOVE_BYTES: usize = 256 << 10;
/// First job id used for broadcasts. Trace readers may only handle numbers of 53 bits.
pub const JOBS: u64 = 1 << 52;
/// First peer number used for messages that arrived by broadcast; their source is added as a number.
pub const SOURCES: u64 = 1 << 63;
/// Maximum number of elements of a chunk of the random linear code: those of the longest chunk that a
/// policy cuts. All nodes have this many generators, and reject headers of longer chunks.
pub const ELEMENTS: u32 = Policy::LARGE
    .chunk_bytes_max
    .div_ceil(ELEMENT_PAYLOAD_BYTES);

/// Maximum number of live broadcasts, and the lifetime of each in slots.
const LIVE_MAX: u16 = 64;
const LIVE_SLOTS: u64 = 2;
/// Maximum lifetime of a broadcast that the state machine accepts.
const LIVE_NS_MAX: u64 = 3_600_000_000_000;
/// Memory for all live broadcasts and waiting headers, in quarters of the longest payload per broadcast.
/// A sixteenth of it is for the headers, which leaves 13 quarters.
const LIVE_PAYLOAD_QUARTERS: u64 = 14;
/// Combinations of more elements than this are drawn by a job, so that a loop never blocks. This many
/// take 10 µs with AVX-512 (EPYC Zen 4), 65 µs without vectors.
const DRAW_ELEMENTS_MAX: u32 = 1 << 12;
/// Maximum number of unverified pieces per peer and broadcast. The state machine's default is for links
/// whose round trip is long compared to the queue of a lane. On a fast link an honest peer's pieces would
/// find no room, and be requested again. The total per broadcast is bounded separately, so this costs no
/// memory.
const UNVERIFIED_PEER_MAX: u8 = 64;
/// Maximum number of pieces waiting for their header to be verified, of one peer and of all.
const ORPHANS_PEER_MAX: u8 = 32;
const ORPHANS_MAX: u16 = 256;

/// Settings of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Blocks and collections larger than this many bytes are broadcast.
    pub above_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            above_bytes: ABOVE_BYTES,
        }
    }
}

impl Settings {
    /// Whether a message should be broadcast.
    pub fn takes(self, topic: Topic, bytes: usize) -> bool {
        bytes > self.above_bytes && broadcast_kind(topic.kind()).is_some()
    }
}

/// The parameters of [`Broadcast`](alphorn_broadcast::Broadcast) for a protocol's network.
pub fn config(horn: &Horn) -> Config {
    let format = horn.format();
    let payload = format
        .bytes_max(Kind::Block)
        .max(format.bytes_max(Kind::Collection));
    let life_ns = horn.clock().slot_ns().saturating_mul(LIVE_SLOTS);
    Config {
        limits: Limits {
            network_id: horn.config().network_id,
            header_auth_bytes_max: u16::try_from(format.duty_signature_bytes).unwrap_or(u16::MAX),
        },
        payload_bytes_max: u32::try_from(payload).unwrap_or(u32::MAX),
        live_max: LIVE_MAX,
        memory_bytes_max: u64::from(LIVE_MAX) * payload as u64 * LIVE_PAYLOAD_QUARTERS / 4,
        draw_elements_max: DRAW_ELEMENTS_MAX,
        unverified_peer_max: UNVERIFIED_PEER_MAX,
        orphans_peer_max: ORPHANS_PEER_MAX,
        orphans_max: ORPHANS_MAX,
        broadcast_ttl_ns: life_ns.min(LIVE_NS_MAX),
        ..Config::default()
    }
}

/// Returns the duty to which a message belongs, according to its own content.
pub fn subject(topic: Topic, data: &[u8], format: &WireFormat) -> Option<Subject> {
    let kind = broadcast_kind(topic.kind())?;
    let (slot, index, source) = match topic.kind() {
        Kind::Block => {
            let header = Header::peek(data, format).ok()?;
            (header.slot, 0, header.proposer)
        }
        _ => {
            // A collection: no other aggregate has a kind of broadcast.
            let head = Aggregate::peek(data, format).ok()?;
            (head.vote.slot, u32::from(head.unit.committee), head.sender)
        }
    };
    Some(Subject {
        kind,
        slot: slot.0,
        source: source.0,
        index,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_broadcast::rlnc::Strategy;

    /// Otherwise a node could not commit to its own payload, or not read another node's.
    #[test]
    fn there_are_generators_for_every_cut() {
        let config = Config::default();
        let mut longest = 0;
        for len in (1..=config.payload_bytes_max).step_by(9_973) {
            let cut = config.policy_for(len).cut(Strategy::Rlnc, len as usize);
            let chunks = u32::from(cut.chunks) * u32::from(cut.generations);
            longest = longest.max(len.div_ceil(ELEMENT_PAYLOAD_BYTES * chunks));
        }
        assert!((ELEMENTS / 2..=ELEMENTS).contains(&longest), "{longest}");
    }
}
