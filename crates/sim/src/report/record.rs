//! What is counted of a node, and of the traffic of all of them.

use crate::net::{BIN_NS, Tally};
use crate::role::{Role, Wire};
use crate::world::{Probe, World};

/// Record of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its number.
    pub node: u32,
    /// Index of its class in the scenario.
    pub class: u16,
    /// Index of its region, 0 without regions.
    pub region: u8,
    /// Its role: `source`, `relay`, or the name of a fault.
    pub role: &'static str,
    /// Time from publication until it first received a part of a payload.
    pub first_ns: Option<u64>,
    /// Time from publication until it had delivered the payload published last.
    pub done_ns: Option<u64>,
    /// Bytes sent, headers and control included.
    pub bytes_up: u64,
    /// Bytes received.
    pub bytes_down: u64,
    /// Messages sent.
    pub msgs: u64,
    /// Bytes received that carried nothing new.
    pub dup_bytes: u64,
    /// Core time used.
    pub cpu_ns: u64,
    /// Maximum bytes in its uplink queue.
    pub queue_peak_bytes: u64,
    /// Maximum bits sent in any one second.
    pub peak_1s_up_bps: u64,
    /// Maximum bits received in any one second.
    pub peak_1s_down_bps: u64,
    /// Maximum core time in any one second of jobs of 20 µs or more.
    pub peak_1s_jobs_ns: u64,
}

impl NodeRecord {
    /// The record of a node from its counters.
    pub(crate) fn counted(node: u32, tally: &Tally) -> Self {
        NodeRecord {
            node,
            bytes_up: tally.bytes_up,
            bytes_down: tally.bytes_down,
            msgs: u64::from(tally.messages),
            cpu_ns: tally.cpu_ns,
            queue_peak_bytes: tally.queue_peak_bytes,
            peak_1s_up_bps: tally.peak_1s_up_bps(),
            peak_1s_down_bps: tally.peak_1s_down_bps(),
            peak_1s_jobs_ns: tally.peak_1s_jobs_ns(),
            ..NodeRecord::default()
        }
    }
}

/// Bytes sent in one time bin by messages of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Start of the bin.
    pub from_ns: u64,
    /// Kind of the messages.
    pub kind: &'static str,
    /// Messages sent.
    pub msgs: u64,
    /// Bytes sent.
    pub bytes: u64,
}

impl Bin {
    /// All messages sent by the nodes of a world.
    pub(crate) fn all<R: Role, W: Probe<R>>(world: &World<R, W>) -> Vec<Bin> {
        let bin = |(bin, kind, msgs, bytes): (u64, usize, u64, u64)| Bin {
            from_ns: bin * BIN_NS,
            kind: R::Message::KINDS[kind],
            msgs,
            bytes,
        };
        world.series().map(bin).collect()
    }
}
