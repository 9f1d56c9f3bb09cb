//! What of Horn travels as coded broadcasts: which messages, under which subjects, with which parameters.
//! Nodes and the simulation of a network do the same by it.

use super::machine::Horn;
use super::sources::broadcast_kind;
use crate::broadcast::{Config, Limits};
use crate::rlnc::Subject;
use crate::wire::{Aggregate, Header, Kind, Topic, WireFormat};

/// Messages above so many bytes are broadcast, unless configured otherwise.
pub const ABOVE_BYTES: usize = 256 << 10;
/// Jobs from here on are those of broadcasts; a trace's reader may have numbers of 53 bits only.
pub const JOBS: u64 = 1 << 52;
/// Messages that came by broadcast are from peers from here on: from their source, as a number.
pub const SOURCES: u64 = 1 << 63;

/// Broadcasts alive, at most, and slots that each lives.
const LIVE_MAX: u16 = 64;
const LIVE_SLOTS: u64 = 2;
/// Longest life of a broadcast that a machine takes.
const LIVE_NS_MAX: u64 = 3_600_000_000_000;
/// Pieces of a peer and broadcast that wait for verification. The machine's default is for links whose
/// round trip is long beside the queue of a lane; on a fast one an honest peer's pieces would find no
/// room, and be asked for again. Each shard waits once, whoever sent it, so this costs no memory.
const UNVERIFIED_PEER_MAX: u8 = 64;
/// Pieces that wait for their header, which is verified meanwhile: of one peer and of all.
const ORPHANS_PEER_MAX: u8 = 32;
const ORPHANS_MAX: u16 = 256;

/// What is told to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Blocks and collections above so many bytes are broadcast.
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
    /// Whether a message is to be broadcast.
    pub fn takes(self, topic: Topic, bytes: usize) -> bool {
        bytes > self.above_bytes && broadcast_kind(topic.kind()).is_some()
    }
}

/// The parameters of [`Broadcast`](crate::broadcast::Broadcast) in the network of a protocol.
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
        unverified_peer_max: UNVERIFIED_PEER_MAX,
        orphans_peer_max: ORPHANS_PEER_MAX,
        orphans_max: ORPHANS_MAX,
        broadcast_ttl_ns: life_ns.min(LIVE_NS_MAX),
        ..Config::default()
    }
}

/// Which duty's message these bytes are, by what they say of themselves.
pub fn subject(topic: Topic, data: &[u8], format: &WireFormat) -> Option<Subject> {
    let kind = broadcast_kind(topic.kind())?;
    let (slot, index, source) = match topic.kind() {
        Kind::Block => {
            let header = Header::peek(data, format).ok()?;
            (header.slot, 0, header.proposer)
        }
        _ => {
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
