//! The manifest of a run: what was run, where, what came out, and how to run it again.

use super::units::{as_ms, as_ms_or_none};
use super::{Adversity, Bounds, ClassLoad, KindSent, Outcome, ms};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the format.
pub const SCHEMA: u32 = 1;

/// The machine and the binary of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Model name of the processor.
    pub cpu: String,
    /// Its instruction sets that matter here.
    pub features: Vec<String>,
    /// Commit that the binary was built from.
    pub commit: String,
    /// Whether the tree had changes beside that commit.
    pub dirty: bool,
    /// Compiler of the binary.
    pub compiler: String,
}

/// A table of costs that a run took its times from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostSource {
    /// Its name in the scenario.
    pub name: String,
    /// `measured`, `modelled` or `cited`.
    pub kind: String,
    /// The machine that it names.
    pub machine: String,
    /// SHA-256 of the file.
    pub sha256: String,
}

/// The figures of a run; files have its times in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Half of the honest nodes have delivered; absent if they have not.
    #[serde(rename = "t50_ms", with = "as_ms_or_none", default)]
    pub t50_ns: Option<u64>,
    /// 90 % have.
    #[serde(rename = "t90_ms", with = "as_ms_or_none", default)]
    pub t90_ns: Option<u64>,
    /// 95 % have.
    #[serde(rename = "t95_ms", with = "as_ms_or_none", default)]
    pub t95_ns: Option<u64>,
    /// 99 % have.
    #[serde(rename = "t99_ms", with = "as_ms_or_none", default)]
    pub t99_ns: Option<u64>,
    /// All have.
    #[serde(rename = "t100_ms", with = "as_ms_or_none", default)]
    pub t100_ns: Option<u64>,
    /// Share of deliveries, in percent.
    pub delivered_pct: f64,
    /// Bytes sent, in payloads a node.
    pub sent_ratio: f64,
    /// Whether the run ended with messages on the way, so that this is only a part.
    pub sent_truncated: bool,
    /// The same less the useful bytes; absent of slots of Horn.
    #[serde(default)]
    pub waste_ratio: Option<f64>,
    /// Bytes received that told nothing, in payloads a node.
    pub dup_ratio: f64,
    /// Lower bounds.
    pub lb: Bounds,
    /// Bytes sent by the node in the middle.
    pub bytes_up_p50: u64,
    /// Bytes sent by the node that 99 % do not exceed.
    pub bytes_up_p99: u64,
    /// Core time of the node that 99 % do not exceed.
    #[serde(rename = "cpu_ms_p99", with = "as_ms")]
    pub cpu_ns_p99: u64,
    /// Events handled.
    pub events: u64,
    /// Messages that nodes received.
    #[serde(default)]
    pub received: u64,
    /// Hash of the events, in hexadecimal.
    pub event_hash: String,
    /// What became of the votes, if the run is a slot of Horn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<VoteFigures>,
    /// What became of the chain, if the run is several slots of Horn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainFigures>,
    /// What all nodes carried and computed, then each class of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<ClassLoad>,
    /// Megabytes that a node sends on average, by phase of the slot and kind of message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<KindSent>,
}

/// Columns of a table of [`ClassLoad`]: the mean, the busiest second of 99 % of the nodes, and that of the
/// busiest one.
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

/// What became of the votes of a slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VoteFigures {
    /// Votes cast.
    pub cast: u64,
    /// Those in the next block.
    pub in_block: u64,
    /// From the begin of the phase of votes until the proposer has two thirds of them; absent if never.
    pub two_thirds_ms: Option<f64>,
    /// The same for 99 %.
    pub most_ms: Option<f64>,
    /// Megabytes that a node sends in a slot, on average.
    pub sent_mb: f64,
    /// Connections of the node in the middle, over all slots of the run.
    #[serde(default)]
    pub connections_p50: u64,
    /// Connections of the node that has most.
    #[serde(default)]
    pub connections_max: u64,
}

impl VoteFigures {
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        let votes = outcome.votes?;
        let sent: u64 = outcome.nodes.iter().map(|node| node.bytes_up).sum();
        let slots = f64::from(votes.slots.max(1));
        Some(VoteFigures {
            cast: votes.cast,
            in_block: votes.in_block,
            two_thirds_ms: votes.two_thirds_ns.map(ms),
            most_ms: votes.most_ns.map(ms),
            sent_mb: sent as f64 / outcome.nodes.len().max(1) as f64 / slots / 1e6,
            connections_p50: votes.connections[0],
            connections_max: votes.connections[1],
        })
    }

    /// Votes in the next block, in percent of those cast.
    pub fn in_block_pct(&self) -> f64 {
        100.0 * self.in_block as f64 / self.cast.max(1) as f64
    }
}

/// What became of the chain in a run of several slots, by its honest nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainFigures {
    /// Votes of honest validators.
    pub votes: u64,
    /// Those of them that are not in the chain of the node that has fewest.
    pub votes_lost: u64,
    /// Blocks of honest proposers.
    pub blocks: u64,
    /// Those of them that are not in the chain at the end.
    pub blocks_lost: u64,
    /// How often a head went over to another branch, at the node at which it did most often.
    pub reorgs: u64,
    /// Most blocks that a head left at a time.
    pub reorg_depth: u64,
    /// The newest slot that is final at every node.
    pub final_slot: u64,
    /// Most slots from the newest final block to the slot in which a node votes.
    pub slots_to_final: u64,
}

impl ChainFigures {
    /// Votes that are lost, in percent.
    pub fn votes_lost_pct(&self) -> f64 {
        100.0 * self.votes_lost as f64 / self.votes.max(1) as f64
    }
}

/// What was run, where, what came out, and how to run it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// The run: its scenario, the values it replaces, its seed and the commit, hashed.
    pub id: String,
    /// Name of the scenario.
    pub name: String,
    /// The command that runs it again.
    pub command: String,
    /// Its seed.
    pub seed: u64,
    /// Values of a sweep that it has, by path.
    pub set: BTreeMap<String, String>,
    /// SHA-256 of the canonical scenario.
    pub scenario_hash: String,
    /// SHA-256 of each file that the scenario names.
    pub files: BTreeMap<String, String>,
    /// Tables of costs.
    pub costs: Vec<CostSource>,
    /// What its figures are: `modelled`.
    pub kind: String,
    /// Machine and binary.
    pub host: Host,
    /// What it says about its question, in one line.
    pub verdict: String,
    /// Whether it ran to its end and all expectations hold.
    pub holds: bool,
    /// What was expected and does not hold, and why it could not go on.
    pub failures: Vec<String>,
    /// Its figures; absent if it could not go on.
    pub figures: Option<Figures>,
    /// What became of bad messages.
    #[serde(default)]
    pub refusals: Adversity,
    /// Threads that it could take, 0 if unknown.
    #[serde(default)]
    pub threads: usize,
    /// Seconds that it took.
    pub wall_s: f64,
    /// Events a second.
    pub events_per_s: f64,
    /// Most resident memory of the process until its end, 0 if unknown.
    pub rss_bytes: u64,
}

/// One figure of a run by name, absent where no time is reached.
pub type Column = (&'static str, Option<f64>);

impl Figures {
    /// All nodes together.
    pub fn load(&self) -> Option<&ClassLoad> {
        self.loads.first()
    }

    /// All figures that are numbers, in the order of tables.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_the_summary_in_other_units() {
        let outcome = Outcome {
            delays_ns: vec![Some(1_500_000), Some(3_000_000), None],
            bounds: Bounds {
                lb1_ns: 500_000,
                ..Bounds::default()
            },
            event_hash: 0xab,
            ..Outcome::default()
        };
        let figures = outcome.summary();
        assert_eq!((figures.t50_ns, figures.t90_ns), (Some(3_000_000), None));
        assert_eq!(
            (figures.lb.lb1_ns, figures.event_hash.as_str()),
            (500_000, "00000000000000ab")
        );
        let json = serde_json::to_string(&Manifest {
            figures: Some(figures.clone()),
            ..Manifest::default()
        })
        .unwrap();
        for part in ["\"t50_ms\":3.0", "\"t90_ms\":null", "\"lb1_ms\":0.5"] {
            assert!(json.contains(part), "{json}");
        }
        let read: Manifest = serde_json::from_str(&json).unwrap();
        assert_eq!(read.figures, Some(figures));
    }
}
