//! What is broadcast, and the parameters of the machine that does it.

use alphorn_proto::broadcast::{Config, Limits};
use alphorn_proto::horn::Horn;
use alphorn_proto::wire::{Kind, Topic};

/// Messages above so many bytes are broadcast, unless configured otherwise.
pub const ABOVE_BYTES: usize = 256 << 10;

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
/// The longest frame.
const FRAME_BYTES: u64 = 320 << 10;

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
    pub(crate) fn takes(self, topic: Topic, bytes: usize) -> bool {
        bytes > self.above_bytes && topic.kind().broadcast_kind().is_some()
    }
}

/// The machine's parameters in the network of a protocol.
pub(super) fn of(horn: &Horn) -> Config {
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

/// Most bytes that broadcasts hold: those alive, pieces that wait for their header, and a payload on
/// its way in and out.
pub fn memory_max(horn: &Horn) -> u64 {
    let config = of(horn);
    let orphans = u64::from(config.orphans_max) * FRAME_BYTES;
    config.memory_bytes() + orphans + 2 * u64::from(config.payload_bytes_max)
}
