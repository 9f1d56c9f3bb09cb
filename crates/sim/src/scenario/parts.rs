//! The tables of a scenario, with their defaults.

use serde::{Deserialize, Serialize};

/// Nodes, seeds and when a run ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sim {
    /// Seeds as `"1..20"` (both ends included), or one number.
    #[serde(default)]
    pub seeds: Seeds,
    /// What is really computed.
    #[serde(default)]
    pub mode: Mode,
    /// Number of nodes.
    pub nodes: u32,
    /// When a run ends.
    #[serde(default)]
    pub stop: Stop,
    /// Events of a run at most; more is a failure.
    #[serde(default = "events_max")]
    pub events_max: u64,
    /// Virtual time of a run at most; more is a failure.
    #[serde(default = "sim_time_max_ms")]
    pub sim_time_max_ms: u64,
    /// Real time of a run at most; more is a failure.
    #[serde(default = "wall_time_max_s")]
    pub wall_time_max_s: u64,
}

fn events_max() -> u64 {
    100_000_000_000
}
fn sim_time_max_ms() -> u64 {
    1_000_000
}
fn wall_time_max_s() -> u64 {
    3600
}

/// A range of seeds, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SeedsText", into = "String")]
pub struct Seeds {
    /// The first seed.
    pub first: u64,
    /// The last seed.
    pub last: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SeedsText {
    One(u64),
    Range(String),
}

impl Seeds {
    /// One seed.
    pub fn one(seed: u64) -> Seeds {
        Seeds {
            first: seed,
            last: seed,
        }
    }

    /// How many seeds there are.
    pub fn count(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

impl Default for Seeds {
    fn default() -> Self {
        Seeds::one(1)
    }
}

impl TryFrom<SeedsText> for Seeds {
    type Error = String;

    fn try_from(text: SeedsText) -> Result<Self, String> {
        match text {
            SeedsText::One(seed) => Ok(Seeds::one(seed)),
            SeedsText::Range(text) => text.parse(),
        }
    }
}

impl std::str::FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("seeds = {text:?}: expected a number or a range as \"1..20\"");
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let (first, last) = (number(first)?, number(last)?);
        if first <= last {
            Ok(Seeds { first, last })
        } else {
            Err(wrong())
        }
    }
}

impl From<Seeds> for String {
    fn from(seeds: Seeds) -> String {
        format!("{}..{}", seeds.first, seeds.last)
    }
}

/// What is really computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Payloads are sizes; rows of codes, bitfields and indices are real.
    #[default]
    Rank,
    /// Real bytes and real cryptography, for few nodes.
    Bytes,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// When nothing is on the way and nobody computes.
    #[default]
    Quiescence,
    /// When every honest node that is up has delivered; what was sent is then truncated.
    AllDelivered,
    /// When 99 % of them have; what was sent is then truncated.
    T99,
    /// At this time.
    TimeMs(u64),
}

/// Who is connected to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Graph {
    /// The union of `degree / 2` random permutations.
    Permutations {
        /// Neighbours of a node.
        degree: u32,
    },
    /// `degree` neighbours drawn with replacement.
    Uniform {
        /// Draws of a node.
        degree: u32,
    },
    /// A random regular graph.
    Regular {
        /// Neighbours of a node.
        degree: u32,
    },
    /// Permutations, some of them within a region.
    RegionBiased {
        /// Neighbours of a node.
        degree: u32,
        /// Share of neighbours from the own region.
        local_pct: u32,
    },
    /// Rows and columns of a square.
    Grid {},
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
    /// Packets of 1448 bytes lost, in a million.
    pub loss_ppm: u32,
    /// Bytes around each message.
    pub overhead_bytes: u64,
    /// Bytes that wait in a node's uplink at most; what comes then is dropped and counted.
    pub node_queue_bytes_max: u64,
    /// Bytes of small messages that leave as one transmission at most; 0 for none.
    pub train_bytes_max: u64,
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
            node_queue_bytes_max: 64 << 20,
            train_bytes_max: 64 << 10,
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
    /// Mean time that a node is up, 0 for ever.
    #[serde(default)]
    pub up_mean_s: u64,
    /// Mean time that it is then down.
    #[serde(default)]
    pub down_mean_s: u64,
}

fn cores() -> u32 {
    4
}
fn hundred() -> u32 {
    100
}

/// What the nodes run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Protocol {
    /// Mesh publish and subscribe.
    Gossip(Gossip),
    /// A payload as coded pieces, or whole by gossip to compare.
    Broadcast(Broadcast),
    /// From the source to everybody.
    Direct(Grid),
    /// Along rows and columns of a square.
    Grid(Grid),
    /// Votes, aggregates, collections, block.
    Horn(Horn),
    /// The two-level model of a published simulation.
    TwoLevel(crate::two_level::TwoLevel),
}

impl Protocol {
    /// The name in the scenario.
    pub fn name(&self) -> &'static str {
        match self {
            Protocol::Gossip(_) => "gossip",
            Protocol::Broadcast(_) => "broadcast",
            Protocol::Direct(_) => "direct",
            Protocol::Grid(_) => "grid",
            Protocol::Horn(_) => "horn",
            Protocol::TwoLevel(_) => "two_level",
        }
    }
}

/// Direct sending and the grid have no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {}

/// Mesh publish and subscribe (GossipSub 1.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gossip {
    /// Peers of a mesh.
    pub mesh: u32,
    /// Fewer are filled up.
    pub mesh_low: u32,
    /// More are pruned.
    pub mesh_high: u32,
    /// Peers that are told identities.
    pub lazy: u32,
    /// Time between heartbeats.
    pub heartbeat_ms: u64,
    /// Heartbeats for which a message can be asked for.
    pub history: u32,
    /// Heartbeats whose messages are announced.
    pub announced: u32,
    /// Time for which a message is remembered.
    pub seen_ms: u64,
    /// A message of more bytes is refused ahead; 0 never.
    pub idontwant_bytes: u64,
    /// Whether a publisher sends to all peers, not only its mesh.
    pub flood_publish: bool,
}

impl Default for Gossip {
    fn default() -> Self {
        Gossip {
            mesh: 8,
            mesh_low: 6,
            mesh_high: 12,
            lazy: 6,
            heartbeat_ms: 700,
            history: 6,
            announced: 3,
            seen_ms: 24_000,
            idontwant_bytes: 1000,
            flood_publish: false,
        }
    }
}

/// How a broadcast payload travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Whole, by gossip.
    Gossip,
    /// As random linear combinations.
    Rlnc,
    /// As Reed-Solomon shards.
    Rs,
}

/// How exactly ranks are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coding {
    /// By the code's own rows.
    #[default]
    Exact,
    /// Every combination is new while the sender has more: a lower bound.
    Ideal,
}

/// Broadcast of a payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broadcast {
    /// How the payload travels.
    pub strategy: Strategy,
    /// Name of the relay's policy.
    #[serde(default = "auto")]
    pub policy: String,
    /// Source chunks or data shards; by size if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
    /// Pieces that a node sends ahead of answers, if not the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Pieces on the way to a peer at most, if not the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit: Option<u32>,
    /// Pieces that the source sends in all, if not the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_chunks: Option<u32>,
    /// How ranks are counted.
    #[serde(default)]
    pub coding: Coding,
}

fn auto() -> String {
    "auto".into()
}

/// Horn, end to end. Absent numbers follow from the number of validators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Horn {
    /// Number of validators.
    pub validators: u32,
    /// Name of a preset of the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Length of a slot, with `offsets_ms` in place of a preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_ms: Option<u64>,
    /// Ends of the phases from the start of the slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets_ms: Vec<u64>,
    /// Slots of a run.
    #[serde(default = "one")]
    pub slots: u32,
    /// Committees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committees: Option<u32>,
    /// Subcommittees of a committee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subcommittees: Option<u32>,
    /// Aggregators of a subcommittee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregators: Option<u32>,
    /// Collectors of a committee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collectors: Option<u32>,
    /// Selection: `rank` or `lottery`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<String>,
    /// Aggregates of a subcommittee in a collection at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiplicity_max: Option<u32>,
    /// Validators that vote, in a million.
    #[serde(default = "million")]
    pub participation_ppm: u32,
    /// A file of who votes, in place of a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub participation_file: Option<String>,
    /// Nodes that relay a subcommittee's votes beside its aggregators.
    #[serde(default = "backbone")]
    pub backbone: u32,
    /// How votes travel: `gossip`, `direct` or `grid`.
    #[serde(default = "gossip")]
    pub vote_dissemination: String,
    /// How aggregates travel.
    #[serde(default = "gossip")]
    pub aggregate_dissemination: String,
    /// How collections travel.
    #[serde(default = "gossip")]
    pub collection_dissemination: String,
    /// How blocks travel.
    #[serde(default = "gossip")]
    pub block_dissemination: String,
}

fn one() -> u32 {
    1
}
fn million() -> u32 {
    1_000_000
}
fn backbone() -> u32 {
    32
}
fn gossip() -> String {
    "gossip".into()
}

/// What is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficKind {
    /// Payloads, each from one source to all.
    #[default]
    Broadcast,
    /// What the protocol itself makes in a slot.
    Slot,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traffic {
    /// What is sent.
    pub kind: TrafficKind,
    /// Bytes of a payload.
    pub bytes: u64,
    /// Class of the sources; any if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_class: Option<String>,
    /// Number of payloads.
    pub count: u32,
    /// Time between them.
    pub interval_ms: u64,
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic {
            kind: TrafficKind::Broadcast,
            bytes: 118_750,
            source_class: None,
            count: 1,
            interval_ms: 12_000,
        }
    }
}

/// What computing costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Compute {
    /// Name of the scheme, resolved outside the simulator.
    pub scheme: String,
    /// File of the scheme's costs, relative to the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<String>,
    /// File of the codes' costs, relative to the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_costs: Option<String>,
    /// What handling one message costs.
    pub handle_ns: u64,
    /// All costs of the tables, in percent.
    pub factor_pct: u32,
}

impl Default for Compute {
    fn default() -> Self {
        Compute {
            scheme: "model".into(),
            costs: None,
            code_costs: None,
            handle_ns: 2000,
            factor_pct: 100,
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The nodes stop.
    Crash,
    /// Computing takes `factor_pct` of its time.
    SlowCpu,
    /// Bandwidth is `factor_pct` of its class.
    SlowLink,
    /// `factor_pct` of the messages are not sent.
    Withhold,
    /// Waste the work of others.
    Grief,
    /// Say different things to different peers.
    Equivocate,
    /// `rate` invalid messages a second of `bytes` each.
    InvalidFlood,
    /// Everything is sent `delay_ms` later.
    Late,
    /// The clock is `delay_ms` ahead.
    ClockSkew,
    /// The other nodes see only these.
    Eclipse,
    /// Lies about what is held and wanted.
    FalseFeedback,
    /// A source whose shards are no codeword.
    NonCodewordSource,
    /// A source that gives too few combinations.
    RankDeficientSource,
    /// The nodes reach only each other.
    Partition,
}

impl FaultKind {
    /// Its name in the scenario.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Crash => "crash",
            FaultKind::SlowCpu => "slow_cpu",
            FaultKind::SlowLink => "slow_link",
            FaultKind::Withhold => "withhold",
            FaultKind::Grief => "grief",
            FaultKind::Equivocate => "equivocate",
            FaultKind::InvalidFlood => "invalid_flood",
            FaultKind::Late => "late",
            FaultKind::ClockSkew => "clock_skew",
            FaultKind::Eclipse => "eclipse",
            FaultKind::FalseFeedback => "false_feedback",
            FaultKind::NonCodewordSource => "non_codeword_source",
            FaultKind::RankDeficientSource => "rank_deficient_source",
            FaultKind::Partition => "partition",
        }
    }
}

/// A fault, its nodes and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Share of the nodes, drawn by the seed.
    #[serde(default)]
    pub share_pct: u32,
    /// Or these nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u32>,
    /// Its begin.
    #[serde(default)]
    pub from_ms: u64,
    /// Its end; the run's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// How much, in percent.
    #[serde(default = "hundred")]
    pub factor_pct: u32,
    /// Messages a second.
    #[serde(default)]
    pub rate: u64,
    /// Bytes of a message.
    #[serde(default)]
    pub bytes: u64,
    /// How late, or how skewed.
    #[serde(default)]
    pub delay_ms: u64,
}

/// What must hold, or the run fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Half of the nodes have delivered by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t50_ms_max: Option<u64>,
    /// 90 % have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t90_ms_max: Option<u64>,
    /// 99 % have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t99_ms_max: Option<u64>,
    /// All have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t100_ms_max: Option<u64>,
    /// Bytes sent, in payloads a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_max: Option<f64>,
    /// Bytes sent that were of no use, in payloads a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waste_max: Option<f64>,
    /// Share of deliveries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_pct_min: Option<f64>,
}

/// How much is traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceLevel {
    /// Nothing.
    None,
    /// First and last of each node.
    #[default]
    Summary,
    /// Everything.
    Full,
}

/// What is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Output {
    /// How much is traced.
    pub trace: TraceLevel,
    /// Bytes of a trace at most.
    pub trace_bytes_max: u64,
}

impl Default for Output {
    fn default() -> Self {
        Output {
            trace: TraceLevel::Summary,
            trace_bytes_max: 1 << 30,
        }
    }
}
