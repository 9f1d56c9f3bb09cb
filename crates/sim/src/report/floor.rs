//! Lower bounds of a run, in the form of its files.

use super::units::as_ms;
use serde::{Deserialize, Serialize};

/// Lower bounds on the delivery time; no run can beat the first three. Files give them in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Content: the maximum over nodes of path latency plus B over the node's downlink.
    #[serde(rename = "lb1_ms", with = "as_ms")]
    pub lb1_ns: u64,
    /// Source: latency plus B over the source's uplink.
    #[serde(rename = "lb2_ms", with = "as_ms")]
    pub lb2_ns: u64,
    /// Capacity: latency plus (n - 1)·B over the sum of all uplinks.
    #[serde(rename = "lb3_ms", with = "as_ms")]
    pub lb3_ns: u64,
    /// Reach, with one chunk per peer: latency of the hops plus B over the slower direction.
    #[serde(rename = "lb4_ms", with = "as_ms")]
    pub lb4_ns: u64,
}
