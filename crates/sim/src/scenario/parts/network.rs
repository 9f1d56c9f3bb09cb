//! Graph, latency, links and classes of nodes.

use super::hundred;
use serde::{Deserialize, Serialize};

/// Who is connected to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Graph {
    /// The union of `degree / 2` random permutations.
    Permutations {
        /// Neighbours of a node.
        degree: u32,
    },
    /// Everybody with everybody.
    Complete {},
    /// One line `from to` an edge.
    File {
        /// The file, relative to the scenario.
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
    /// The same between all nodes.
    Constant {
        /// One way.
        ms: u64,
        /// Mean of an exponential addition, in percent of `ms`.
        #[serde(default)]
        jitter_pct: u32,
    },
    /// By a matrix of regions.
    Regions {
        /// Name of the matrix: `libp2p-2025`.
        matrix: String,
        /// Latency within a region at least; 0 as cited, 15 conservative.
        #[serde(default)]
        intra_ms_min: u64,
        /// Mean of an exponential addition, in percent of the matrix' entry.
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

/// Order of an uplink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uplink {
    /// By class, then in order.
    #[default]
    Fifo,
    /// Fair among peers, as parallel streams are.
    Fair,
}

/// Whether a connection has a congestion window.
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
    /// Order of an uplink.
    pub uplink: Uplink,
    /// Congestion window.
    pub transport: Transport,
    /// The window of a new connection.
    pub initial_window_bytes: u64,
    /// The largest window.
    pub window_bytes_max: u64,
    /// A connection idle for so long starts anew.
    pub idle_reset_ms: u64,
    /// Packets of 1448 bytes lost, in a million; with a window alone, which sends them again.
    pub loss_ppm: u32,
    /// Bytes around each message.
    pub overhead_bytes: u64,
    /// Bytes of the handshake of a new connection; in horn alone. Publishers make one when they first send to a topic
    /// of which they are no members, members when they join a topic ahead. If absent all connections exist from
    /// the begin and joining costs nothing.
    pub dial_bytes: Option<u32>,
    /// Connections that a node of horn may have in a slot; a scenario in which one has more is refused. Unbounded if
    /// absent.
    pub connections_max: Option<u32>,
    /// Bytes that wait in a node's uplink at most; what comes then is dropped and counted.
    pub node_queue_bytes_max: u64,
    /// A stream across a partition breaks after so long.
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
    /// Its share of the nodes.
    pub share_pct: u32,
    /// Megabits a second that a node receives.
    pub down_mbps: u64,
    /// Megabits a second that a node sends.
    pub up_mbps: u64,
    /// Cores of a node.
    #[serde(default = "cores")]
    pub cores: u32,
    /// Time that computing takes, in percent of the table's.
    #[serde(default = "hundred")]
    pub cpu_factor_pct: u32,
}

fn cores() -> u32 {
    4
}
