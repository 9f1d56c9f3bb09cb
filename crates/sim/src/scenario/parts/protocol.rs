//! Protocols that nodes can run, and their parameters.

use serde::{Deserialize, Serialize};

/// Protocol that the nodes run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Protocol {
    /// Publish and subscribe over a mesh.
    Gossip(Gossip),
    /// A payload as coded pieces, or whole by gossip for comparison.
    Broadcast(Broadcast),
    /// From the source to every node.
    Direct(Grid),
    /// Along the rows and columns of a square.
    Grid(Grid),
    /// Votes, aggregates, collections and the block.
    Horn(Box<Horn>),
    /// Votes gathered up a tree.
    Tree(crate::tree::Tree),
}

impl Protocol {
    /// Name used in the scenario.
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

/// Publish and subscribe over a mesh (GossipSub 1.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gossip {
    /// Target number of mesh peers.
    pub mesh: u32,
    /// Below this number the mesh is filled up.
    pub mesh_low: u32,
    /// Above this number the mesh is pruned.
    pub mesh_high: u32,
    /// Number of peers that receive message identities.
    pub lazy: u32,
    /// Time between heartbeats.
    pub heartbeat_ms: u64,
    /// Heartbeats for which a message can be requested.
    pub history: u32,
    /// Heartbeats for which a message is announced.
    pub announced: u32,
    /// How long a message identity is remembered.
    pub seen_ms: u64,
    /// Size above which further copies of a message are declined in advance; 0 for never.
    pub idontwant_bytes: u64,
    /// Whether a publisher sends to all peers rather than only its mesh.
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
    /// Name of the relay policy.
    #[serde(default = "auto")]
    pub policy: String,
    /// Number of source chunks or data shards; chosen by size if absent.
    pub chunks: Option<u32>,
    /// Number of peers that push to a node without waiting for answers, if not the policy's: one number, or
    /// three for pieces after one, two, and three or more transmissions.
    pub burst: Option<Burst>,
    /// Thousandths of a piece that a node sends for each later innovative one, if not the policy's.
    pub credit_milli: Option<u32>,
    /// Maximum payload bytes per chunk, if not the policy's: a longer payload takes more generations.
    pub chunk_bytes_max: Option<u32>,
    /// Maximum chunks of a generation that all relays together push to a node, in percent of what it needs, if
    /// not the policy's; 0 = no bound.
    pub push_pct: Option<u32>,
    /// Total number of pieces that the source sends, if not the policy's.
    pub source_chunks: Option<u32>,
    /// Number of peers that send a node the header unrequested, if not the policy's; 0 = all.
    pub headers: Option<u32>,
    /// Number of consecutive pieces that the source sends a peer, if not the policy's.
    pub source_run: Option<u32>,
    /// Whether nodes report their ranks to each other, if not the policy's.
    pub feedback: Option<bool>,
    /// Whether each node assigns its peers positions in its order; otherwise the senders draw bursts at random.
    /// If absent, nodes do, except for nodes of Horn, which assign none.
    pub places: Option<bool>,
    /// How the source hides. If absent it does not, except for nodes of Horn, which blend in.
    pub source_privacy: Option<SourcePrivacy>,
    /// Maximum number of pieces in flight to a peer.
    pub in_flight: Option<u32>,
    /// Maximum number of pieces from a peer awaiting verification, 8 if absent. A node of Horn uses 64.
    pub unverified: Option<u32>,
    /// Time without a new piece after which pieces are requested, if not the node's default.
    pub quiet_ms: Option<u32>,
    /// Number of peers asked at a time, if not the node's default.
    pub need_peers: Option<u32>,
}

impl Broadcast {
    /// Whether any number of the policy is overridden.
    pub(crate) fn replaces(&self) -> bool {
        // The other fields replace numbers of the node, not of the policy.
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

/// Number of peers that push to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Burst {
    /// The same after any number of transmissions.
    Same(u32),
    /// After one, two, and three or more transmissions.
    ByHop([u32; 3]),
}

impl Burst {
    /// Numbers after one, two, and three or more transmissions.
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
    /// It does not hide.
    #[default]
    None,
    /// It sends only what a relay could send.
    Blend,
    /// A peer acts as the source on its behalf.
    Stem,
}

words! {
    /// How messages of a topic of Horn travel.
    pub enum Way {
        /// By a mesh among the members; publishers outside the topic hand a message to some of the members.
        Gossip = "gossip",
        /// From the publisher to each member.
        Direct = "direct",
        /// Along rows and columns of the members; publishers outside the topic hand a message to one member.
        Grid = "grid",
        /// In coded pieces if the message is long, otherwise by a mesh; for topics of all nodes.
        Coded = "coded",
    }
}

words! {
    /// Which nodes are members of the mesh of a unit: for votes in a cell, for aggregates above it.
    pub enum Subscribers {
        /// The nodes that serve in the unit in the slot, plus [`Horn::backbone`] others.
        Servers = "servers",
        /// The nodes that host a validator of the unit, which is how `alphorn node` subscribes.
        Hosts = "hosts",
    }
}

/// Horn, end to end. Absent numbers are derived from the number of validators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Horn {
    /// Number of validators.
    pub validators: u32,
    /// Name of a protocol that provides the levels, committees, phases and publishers not given here: `today`,
    /// `strawman`, `horn` or `horn-pq`.
    pub preset: Option<String>,
    /// Name of a slot preset, or `custom:SLOT_MS:OFFSET_MS,..`, which gives slot_ms and offsets_ms together.
    pub slot: Option<String>,
    /// Length of a slot, used with `offsets_ms` instead of a preset.
    pub slot_ms: Option<u64>,
    /// Start of each phase relative to the start of the slot, 0 first, then the end of the last phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets_ms: Vec<u64>,
    /// Number of slots in a run.
    #[serde(default = "one")]
    pub slots: u32,
    /// Number of committees.
    pub committees: Option<u32>,
    /// Subcommittees per committee.
    pub subcommittees: Option<u32>,
    /// Number of units of the next lower level in each unit, from the committee down, instead of
    /// `subcommittees`: `[7, 7]` gives three levels of evidence, `[]` gives one.
    pub fan_out: Option<Vec<u32>>,
    /// Aggregators per subcommittee.
    pub aggregators: Option<u32>,
    /// Number of validators that combine the evidence of a unit between subcommittees and committees.
    pub combiners: Option<u32>,
    /// Collectors per committee.
    pub collectors: Option<u32>,
    /// Selection method: `rank` or `lottery`.
    pub selection: Option<String>,
    /// Which collectors publish: `all`, or `staged`, meaning one after the other while each adds enough. Depends
    /// on the scheme if absent.
    pub publish: Option<String>,
    /// For staged publishing, the wait between two ranks at each level, from subcommittees up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stage_ms: Vec<u32>,
    /// Time between when the first and the last committee's collectors publish, if they do not all publish at
    /// once.
    pub spread_ms: Option<u32>,
    /// Whether a single piece of evidence proves all collections of a block; the protocol's default if absent.
    pub bundled: Option<bool>,
    /// Maximum number of aggregates of a subcommittee in a collection.
    pub multiplicity_max: Option<u32>,
    /// What the fork choice does in addition to counting latest votes: `lmd` (nothing, the default),
    /// `proposer-boost` or `view-merge`.
    pub fork_choice: Option<String>,
    /// Validators that vote, per million.
    #[serde(default = "million")]
    pub participation_ppm: u32,
    /// Which nodes are members of the mesh of a unit; the servers if absent.
    pub subscribers: Option<Subscribers>,
    /// Number of nodes that relay the messages of a unit in addition to the servers.
    #[serde(default = "backbone")]
    pub backbone: u32,
    /// Number of members of a mesh to which a node that is not one of them sends what it publishes (the fanout of
    /// gossipsub, not [`Horn::fan_out`]); the degree of the mesh if absent.
    pub entries: Option<u32>,
    /// How votes travel.
    #[serde(default = "gossip")]
    pub vote_dissemination: Way,
    /// How aggregates travel.
    #[serde(default = "gossip")]
    pub aggregate_dissemination: Way,
    /// How collections travel: may also be `coded`, which is how a node sends them.
    #[serde(default = "gossip")]
    pub collection_dissemination: Way,
    /// How blocks travel; the same options as for collections.
    #[serde(default = "gossip")]
    pub block_dissemination: Way,
    /// Size in bytes above which `coded` messages travel in pieces; the node's default if absent.
    pub broadcast_above: Option<u32>,
    /// How pieces travel, if not the node's default.
    pub broadcast: Option<Broadcast>,
    /// Parameters of the meshes, if not the defaults.
    pub gossip: Option<Gossip>,
    /// How the set of signers is encoded: `raw`, `coded` (the default) or `chain`, coded against the voters of
    /// the previous slot.
    pub supports: Option<String>,
    /// Validators that voted in the previous slot but not in this one, or the other way round, per million; for
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
