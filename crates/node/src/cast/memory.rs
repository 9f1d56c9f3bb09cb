//! Memory of a node's broadcasts.

use super::Code;
use alphorn_broadcast::rlnc::{SHARD_BYTES_MAX, SHARDS_TOTAL_MAX};
use alphorn_proto::horn::{Horn, cast};

/// The longest frame.
const FRAME_BYTES: u64 = 320 << 10;
/// Bytes of the source rows that jobs hold while more pieces are accepted: as many as the uplink and the minimum
/// length of such a job allow, each with the rows of a generation.
const DRAWN_FROM_BYTES: u64 = 17 * (64 * 128 * 40);

/// Most bytes held by broadcasts: active ones, headers, pieces that wait for their header, and a payload on its way in
/// and out. The generators of the random linear code exist once the node is ready.
pub(crate) fn memory_max(horn: &Horn, code: &Code) -> u64 {
    let config = cast::config(horn);
    let orphans = u64::from(config.orphans_max) * FRAME_BYTES;
    let of_code = match code {
        Code::Rs => 0,
        Code::Rlnc(_) => DRAWN_FROM_BYTES,
    };
    config.memory_bytes_max + orphans + 2 * u64::from(config.payload_bytes_max) + of_code
}

/// Most bytes that a coding job takes in addition to stored data. Shards have a transform as long as all of them,
/// combinations the payload as it grows.
pub(crate) fn job_bytes_max(horn: &Horn, code: &Code) -> u64 {
    match code {
        Code::Rs => u64::from(SHARDS_TOTAL_MAX) * u64::from(SHARD_BYTES_MAX),
        Code::Rlnc(_) => 2 * u64::from(cast::config(horn).payload_bytes_max),
    }
}
