//! Graph, latency, links and classes of nodes.

use super::hundred;
use serde::{Deserialize, Serialize};

/// Which nodes are connected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Graph {
    /// The union of `degree / 2` random permutations.
    Permutations {
        /// Neighbours per node.
        degree: u32,
    },
    /// Every node with every other.
    Complete {},
    /// Read from a file with one line `from to` per edge.
    File {
        /// Path of the file, relative to the scenario.
        path: String,
    },
}

impl Default for Graph {
    fn default() -> Self {
        Graph::Permutations { degree: 16 }
    }
}

/// One-way latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Latency {
    /// The same between all pairs of nodes.
    Constant {
        /// One-way latency.
        ms: u64,
        /// Mean of an exponentially distributed addition, in percent of `ms`.
        #[serde(default)]
        jitter_pct: u32,
    },
    /// From a matrix of regions.
    Regions {
        /// Name of the matrix: `libp2p-2025`.
        matrix: String,
        /// Minimum latency within a region; 0 as cited, 15 conservative.
        #[serde(default)]
        intra_ms_min: u64,
        /// Mean of an exponentially distributed addition, in percent of the matrix entry.
        #[serde(default = "jitter_pct")]
        jitter_pct: u32,
    },
}

fn jitter_pct() -> u32 {
    5
}

impl Default for Latency {
    fn default() -> Self {
        Latency::Constant {
            ms: 70,
            jitter_pct: 0,
        }
    }
}

/// Scheduling order of an uplink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uplink {
    /// By class, then first in, first out.
    #[default]
    Fifo,
    /// Fair among peers, like parallel streams.
    Fair,
}

/// Whether connections have a congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Queues only.
    #[default]
    None,
    /// Slow start for each connection (RFC 6928, RFC 5681).
    Window,
}

/// Queues, transport and loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    /// Scheduling order of the uplink.
    pub uplink: Uplink,
    /// Congestion window.
    pub transport: Transport,
    /// Initial window of a new connection.
    pub initial_window_bytes: u64,
    /// Maximum window.
    pub window_bytes_max: u64,
    /// Idle time after which a connection returns to slow start.
    pub idle_reset_ms: u64,
    /// Packets of 1448 bytes lost, per million. Only allowed with a window, which retransmits them.
    pub loss_ppm: u32,
    /// Overhead of each message in bytes.
    pub overhead_bytes: u64,
    /// Bytes of the handshake of a new connection, in horn only. Publishers connect when they first send to a topic
    /// that they are not members of; members connect when they join a topic ahead of time. If absent, all connections
    /// exist from the start and joining costs nothing.
    pub dial_bytes: Option<u32>,
    /// Maximum number of connections of a horn node per slot; a scenario in which a node has more is rejected.
    /// Unbounded if absent.
    pub connections_max: Option<u32>,
    /// Maximum bytes queued in a node's uplink; anything beyond is dropped and counted.
    pub node_queue_bytes_max: u64,
    /// Time after which a stream across a partition breaks.
    pub partition_break_ms: u64,
}

impl Default for Link {
    fn default() -> Self {
        Link {
            uplink: Uplink::Fifo,
            transport: Transport::None,
            initial_window_bytes: 14_600,
            window_bytes_max: 4 << 20,
            idle_reset_ms: 1000,
            loss_ppm: 0,
            overhead_bytes: 60,
            dial_bytes: None,
            connections_max: None,
            node_queue_bytes_max: 64 << 20,
            partition_break_ms: 10_000,
        }
    }
}

/// Bandwidth and processors of a share of the nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Percentage of the nodes.
    pub share_pct: u32,
    /// Download bandwidth of a node, in megabits per second.
    pub down_mbps: u64,
    /// Upload bandwidth of a node, in megabits per second.
    pub up_mbps: u64,
    /// Cores per node.
    #[serde(default = "cores")]
    pub cores: u32,
    /// Computing time, in percent of the table's.
    #[serde(default = "hundred")]
    pub cpu_factor_pct: u32,
}

fn cores() -> u32 {
    4
}
