//! What the nodes run.

use serde::{Deserialize, Serialize};

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
    Horn(Box<Horn>),
    /// Votes gathered up a tree.
    Tree(crate::tree::Tree),
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
            Protocol::Tree(_) => "tree",
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Whole, by gossip.
    #[default]
    Gossip,
    /// As random linear combinations.
    Rlnc,
    /// As Reed-Solomon shards.
    Rs,
}

/// Broadcast of a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broadcast {
    /// How the payload travels.
    pub strategy: Strategy,
    /// Name of the relay's policy.
    #[serde(default = "auto")]
    pub policy: String,
    /// Source chunks or data shards; by size if absent.
    pub chunks: Option<u32>,
    /// How many peers push to a node ahead of answers, if not the policy's: one number, or three for
    /// pieces after one, two, and three or more transmissions.
    pub burst: Option<Burst>,
    /// Thousandths of a piece that a node sends for each later new one, if not the policy's.
    pub credit_milli: Option<u32>,
    /// Payload bytes of a chunk at most, if not the policy's: a longer payload takes more generations.
    pub chunk_bytes_max: Option<u32>,
    /// Chunks of a generation that all relays together push to a node at most, in percent of what it
    /// needs, if not the policy's; 0 = no bound.
    pub push_pct: Option<u32>,
    /// Pieces that the source sends in all, if not the policy's.
    pub source_chunks: Option<u32>,
    /// How many peers bring a node the header unasked, if not the policy's; 0 = all.
    pub headers: Option<u32>,
    /// Pieces that the source sends a peer in a row, if not the policy's.
    pub source_run: Option<u32>,
    /// Whether nodes tell each other their ranks, if not the policy's.
    pub feedback: Option<bool>,
    /// Whether each node deals its peers places in its order; else bursts are drawn by their senders. If
    /// absent they do, but for nodes of Horn, which deal none.
    pub places: Option<bool>,
    /// How the source hides. If absent it does not, but for nodes of Horn, which blend in.
    pub source_privacy: Option<SourcePrivacy>,
    /// Pieces on the way to a peer at most.
    pub in_flight: Option<u32>,
    /// Pieces of a peer that wait for verification at most, 8 if absent. A node of Horn takes 64.
    pub unverified: Option<u32>,
    /// Time without a new piece after which pieces are asked for, if not that of a node.
    pub quiet_ms: Option<u32>,
    /// Peers that are asked at a time, if not as many as a node asks.
    pub need_peers: Option<u32>,
}

impl Broadcast {
    /// Whether it replaces numbers of the policy.
    pub(crate) fn replaces(&self) -> bool {
        let numbers = [
            self.chunks,
            self.credit_milli,
            self.source_chunks,
            self.headers,
            self.source_run,
            self.chunk_bytes_max,
            self.push_pct,
        ];
        let own = numbers.iter().any(|number| number.is_some());
        own || self.burst.is_some() || self.feedback.is_some()
    }
}

fn auto() -> String {
    "auto".into()
}

/// How many peers push to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Burst {
    /// After any number of transmissions.
    Same(u32),
    /// After one, two, and three or more transmissions.
    ByHop([u32; 3]),
}

impl Burst {
    /// After one, two, and three or more transmissions.
    pub(crate) fn by_hop(self) -> [u32; 3] {
        match self {
            Burst::Same(burst) => [burst; 3],
            Burst::ByHop(burst) => burst,
        }
    }
}

/// How the source of a payload hides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourcePrivacy {
    /// Not at all.
    #[default]
    None,
    /// It sends what a relay could send.
    Blend,
    /// A peer acts as the source.
    Stem,
}

words! {
    /// How messages of a topic of Horn travel.
    pub enum Way {
        /// By a mesh among the members; publishers that are none hand a message to some of them.
        Gossip = "gossip",
        /// From the publisher to each member.
        Direct = "direct",
        /// Along rows and columns of the members; publishers that are none hand a message to one.
        Grid = "grid",
        /// In coded pieces if it is long, else by a mesh; for topics of all nodes.
        Coded = "coded",
    }
}

words! {
    /// Which nodes are members of the mesh of a unit: of its votes in a cell, of its aggregates above.
    pub enum Subscribers {
        /// Those that serve in the unit in the slot, and [`Horn::backbone`] others.
        Servers = "servers",
        /// Those that host a validator of the unit, as `alphorn node` subscribes.
        Hosts = "hosts",
    }
}

/// Horn, end to end. Absent numbers follow from the number of validators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Horn {
    /// Number of validators.
    pub validators: u32,
    /// Name of a protocol, whose levels, committees, phases and publishers hold unless they are named: `today`,
    /// `strawman`, `horn` or `horn-pq`.
    pub preset: Option<String>,
    /// Name of a preset of the slot, or `custom:SLOT_MS:OFFSET_MS,..`: slot_ms and offsets_ms in one.
    pub slot: Option<String>,
    /// Length of a slot, with `offsets_ms` in place of a preset.
    pub slot_ms: Option<u64>,
    /// Where the phases begin from the start of the slot, 0 first, and where the last one ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets_ms: Vec<u64>,
    /// Slots of a run.
    #[serde(default = "one")]
    pub slots: u32,
    /// Committees.
    pub committees: Option<u32>,
    /// Subcommittees of a committee.
    pub subcommittees: Option<u32>,
    /// Units of the next lower level in each unit, from the committee down, in place of `subcommittees`: of
    /// `[7, 7]` there are three levels of evidence, of `[]` one.
    pub fan_out: Option<Vec<u32>>,
    /// Aggregators of a subcommittee.
    pub aggregators: Option<u32>,
    /// Those who combine evidence of a unit between subcommittees and committees.
    pub combiners: Option<u32>,
    /// Collectors of a committee.
    pub collectors: Option<u32>,
    /// Selection: `rank` or `lottery`.
    pub selection: Option<String>,
    /// Which collectors publish: `all`, or `staged`, one after the other while they add enough. By the scheme
    /// if absent.
    pub publish: Option<String>,
    /// Staged: the wait between two ranks at each level, from subcommittees up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stage_ms: Vec<u32>,
    /// Time from when the first committee's collectors publish until the last one's do, if not all at once.
    pub spread_ms: Option<u32>,
    /// Whether one piece of evidence proves all collections of a block; as the protocol has it if absent.
    pub bundled: Option<bool>,
    /// Aggregates of a subcommittee in a collection at most.
    pub multiplicity_max: Option<u32>,
    /// What the fork choice does besides counting latest votes: `lmd` (nothing, by default), `proposer-boost` or
    /// `view-merge`.
    pub fork_choice: Option<String>,
    /// Validators that vote, in a million.
    #[serde(default = "million")]
    pub participation_ppm: u32,
    /// Which nodes are members of the mesh of a unit; the servers if absent.
    pub subscribers: Option<Subscribers>,
    /// Nodes that relay the messages of a unit in addition to the servers.
    #[serde(default = "backbone")]
    pub backbone: u32,
    /// How votes travel.
    #[serde(default = "gossip")]
    pub vote_dissemination: Way,
    /// How aggregates travel.
    #[serde(default = "gossip")]
    pub aggregate_dissemination: Way,
    /// How collections travel: also `coded`, as a node sends them.
    #[serde(default = "gossip")]
    pub collection_dissemination: Way,
    /// How blocks travel, as for collections.
    #[serde(default = "gossip")]
    pub block_dissemination: Way,
    /// Bytes above which what is `coded` travels in pieces; as a node has it if absent.
    pub broadcast_above: Option<u32>,
    /// How pieces travel, if not as a node sends them.
    pub broadcast: Option<Broadcast>,
    /// The meshes, if not the default ones.
    pub gossip: Option<Gossip>,
    /// How it is written who signed: `raw`, `coded` (by default) or `chain`, coded against who voted in the
    /// slot before.
    pub supports: Option<String>,
    /// Validators who voted in the slot before and not in this one, or the other way round, in a million; for
    /// `chain`.
    pub flip_ppm: Option<u32>,
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
fn gossip() -> Way {
    Way::Gossip
}
