//! What broadcasts take of a node.

use alphorn_proto::horn::{Horn, cast};

/// The longest frame.
const FRAME_BYTES: u64 = 320 << 10;

/// Most bytes that broadcasts hold: those alive, pieces that wait for their header, and a payload on
/// its way in and out.
pub fn memory_max(horn: &Horn) -> u64 {
    let config = cast::config(horn);
    let orphans = u64::from(config.orphans_max) * FRAME_BYTES;
    config.memory_bytes() + orphans + 2 * u64::from(config.payload_bytes_max)
}
