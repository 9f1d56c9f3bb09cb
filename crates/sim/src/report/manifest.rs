//! The manifest of a run: what was run and where, the results, and how to reproduce it.

use super::adversity::Adversity;
use super::floor::Bounds;
use super::load::{ClassLoad, KindSent};
use super::units::{as_ms, as_ms_or_none, ms};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the format.
pub const SCHEMA: u32 = 1;

/// Host and binary of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Model name of the processor.
    pub cpu: String,
    /// Its relevant instruction sets.
    pub features: Vec<String>,
    /// Commit from which the binary was built.
    pub commit: String,
    /// Whether the tree had uncommitted changes.
    pub dirty: bool,
    /// Compiler that built the binary.
    pub compiler: String,
}

/// A cost table that a run used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostSource {
    /// Its name in the scenario.
    pub name: String,
    /// `measured`, `modelled` or `cited`.
    pub kind: String,
    /// The host that the table names.
    pub machine: String,
    /// SHA-256 of the file.
    pub sha256: String,
}

/// The figures of a run; files give its times in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Time by which half of the honest nodes have delivered; absent if they have not.
    #[serde(rename = "t50_ms", with = "as_ms_or_none", default)]
    pub t50_ns: Option<u64>,
    /// The same for 90 % of them.
    #[serde(rename = "t90_ms", with = "as_ms_or_none", default)]
    pub t90_ns: Option<u64>,
    /// The same for 95 % of them.
    #[serde(rename = "t95_ms", with = "as_ms_or_none", default)]
    pub t95_ns: Option<u64>,
    /// The same for 99 % of them.
    #[serde(rename = "t99_ms", with = "as_ms_or_none", default)]
    pub t99_ns: Option<u64>,
    /// The same for all of them.
    #[serde(rename = "t100_ms", with = "as_ms_or_none", default)]
    pub t100_ns: Option<u64>,
    /// Share of deliveries, in percent.
    pub delivered_pct: f64,
    /// Bytes sent, in payloads per node.
    pub sent_ratio: f64,
    /// Whether the run ended with messages in flight, so that this figure is incomplete.
    pub sent_truncated: bool,
    /// The same minus the useful bytes; absent for slots of Horn.
    #[serde(default)]
    pub waste_ratio: Option<f64>,
    /// Bytes received that carried nothing new, in payloads per node.
    pub dup_ratio: f64,
    /// Lower bounds.
    pub lb: Bounds,
    /// Bytes sent by the median node.
    pub bytes_up_p50: u64,
    /// 99th percentile of the bytes sent by a node.
    pub bytes_up_p99: u64,
    /// 99th percentile of the core time of a node.
    #[serde(rename = "cpu_ms_p99", with = "as_ms")]
    pub cpu_ns_p99: u64,
    /// Number of events handled.
    pub events: u64,
    /// Number of messages received by nodes.
    #[serde(default)]
    pub received: u64,
    /// Hash of the events, in hexadecimal.
    pub event_hash: String,
    /// Outcome of the votes, if the run is a slot of Horn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<VoteFigures>,
    /// Outcome of the chain, if the run is several slots of Horn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainFigures>,
    /// Load of all nodes, then of each class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<ClassLoad>,
    /// Mean megabytes sent by a node, by phase of the slot and message kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<KindSent>,
}

/// Columns of a table of [`ClassLoad`]: the mean, the busiest second of 99 % of the nodes, and that of the
/// busiest node.
pub const LOAD_COLUMNS: [&str; 11] = [
    "class",
    "nodes",
    "up",
    "down",
    "cores",
    "p99 up",
    "p99 down",
    "p99 cores",
    "most up",
    "most down",
    "most cores",
];

/// Outcome of the votes of a slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VoteFigures {
    /// Votes cast.
    pub cast: u64,
    /// Number of those included in the next block.
    pub in_block: u64,
    /// Time from the start of the voting phase until the proposer has two thirds of the votes; absent if
    /// never.
    pub two_thirds_ms: Option<f64>,
    /// The same for 99 %.
    pub most_ms: Option<f64>,
    /// Mean megabytes sent by a node in a slot.
    pub sent_mb: f64,
    /// Connections of the median node, over all slots of the run.
    #[serde(default)]
    pub connections_p50: u64,
    /// Connections of the node with the most.
    #[serde(default)]
    pub connections_max: u64,
}

impl VoteFigures {
    /// Votes in the next block, in percent of those cast.
    pub fn in_block_pct(&self) -> f64 {
        100.0 * self.in_block as f64 / self.cast.max(1) as f64
    }
}

/// Outcome of the chain in a run of several slots, as seen by its honest nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainFigures {
    /// Votes of honest validators.
    pub votes: u64,
    /// Number of those that are not in the chain of the node that has the fewest.
    pub votes_lost: u64,
    /// Blocks of honest proposers.
    pub blocks: u64,
    /// Number of those that are not in the chain at the end.
    pub blocks_lost: u64,
    /// Number of times a head switched to another branch, at the node where that happened most often.
    pub reorgs: u64,
    /// Maximum number of blocks that a head abandoned at a time.
    pub reorg_depth: u64,
    /// The newest slot that is finalised at every node.
    pub final_slot: u64,
    /// Maximum number of slots from the newest finalised block to the slot in which a node votes.
    pub slots_to_final: u64,
}

impl ChainFigures {
    /// Percentage of votes that are lost.
    pub fn votes_lost_pct(&self) -> f64 {
        100.0 * self.votes_lost as f64 / self.votes.max(1) as f64
    }
}

/// What was run and where, the results, and how to reproduce it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// Identity of the run: a hash of its scenario, the overridden values, its seed and the commit.
    pub id: String,
    /// Name of the scenario.
    pub name: String,
    /// Command that reproduces the run.
    pub command: String,
    /// Its seed.
    pub seed: u64,
    /// Its sweep values, by path.
    pub set: BTreeMap<String, String>,
    /// SHA-256 of the canonical scenario.
    pub scenario_hash: String,
    /// SHA-256 of each file named in the scenario.
    pub files: BTreeMap<String, String>,
    /// Tables of costs.
    pub costs: Vec<CostSource>,
    /// Kind of its figures: `modelled`.
    pub kind: String,
    /// Host and binary.
    pub host: Host,
    /// The run's answer to its question, in one line.
    pub verdict: String,
    /// Whether it ran to completion and all expectations hold.
    pub holds: bool,
    /// Expectations that do not hold, and the reason if the run could not continue.
    pub failures: Vec<String>,
    /// Its figures; absent if the run could not continue.
    pub figures: Option<Figures>,
    /// How honest nodes handled bad messages.
    #[serde(default)]
    pub refusals: Adversity,
    /// Number of threads available to it, 0 if unknown.
    #[serde(default)]
    pub threads: usize,
    /// Duration in seconds.
    pub wall_s: f64,
    /// Events per second.
    pub events_per_s: f64,
    /// Peak resident memory of the process, 0 if unknown.
    pub rss_bytes: u64,
}

/// One figure of a run by name; absent if that time is never reached.
pub type Column = (&'static str, Option<f64>);

impl Figures {
    /// All nodes together.
    pub fn load(&self) -> Option<&ClassLoad> {
        self.loads.first()
    }

    /// All numeric figures, in the order of the tables.
    pub fn columns(&self) -> Vec<Column> {
        let load = |of: &dyn Fn(&ClassLoad) -> f64| self.load().map(of);
        vec![
            ("t50_ms", self.t50_ns.map(ms)),
            ("t90_ms", self.t90_ns.map(ms)),
            ("t95_ms", self.t95_ns.map(ms)),
            ("t99_ms", self.t99_ns.map(ms)),
            ("t100_ms", self.t100_ns.map(ms)),
            ("delivered_pct", Some(self.delivered_pct)),
            ("sent_ratio", Some(self.sent_ratio)),
            ("waste_ratio", self.waste_ratio),
            ("dup_ratio", Some(self.dup_ratio)),
            ("bytes_up_p50", Some(self.bytes_up_p50 as f64)),
            ("bytes_up_p99", Some(self.bytes_up_p99 as f64)),
            ("cpu_ms_p99", Some(ms(self.cpu_ns_p99))),
            ("events", Some(self.events as f64)),
            ("up_mbps_mean", load(&|load| load.mean.up_mbps)),
            ("down_mbps_mean", load(&|load| load.mean.down_mbps)),
            ("cores_mean", load(&|load| load.mean.cores)),
            ("up_mbps_peak", load(&|load| load.peak.up_mbps)),
            ("down_mbps_peak", load(&|load| load.peak.down_mbps)),
            ("cores_peak", load(&|load| load.peak.cores)),
        ]
    }
}
