//! Horn end to end over the simulated network: votes, aggregates, collections, the block.
//!
//! A node is the protocol's own state machine ([`alphorn_proto::horn::Horn`]) with the validators that it hosts, on
//! top of one dissemination state machine (`crate::gossip`) for each topic that the node is a member of. Messages
//! are those of the protocol, encoded once and shared by all nodes that hold them. Jobs take virtual time according
//! to a cost table. When that time is over, their result is produced by the model scheme of that table
//! ([`alphorn_scheme::model`]), which has no cryptography.
//!
//! Votes go to a cell's aggregators, by default directly. The first row below shows the cost of a mesh instead. The
//! counts are deliveries in a slot with N = 2^20 votes, 32 committees of 64 cells, 16 aggregators and 16 collectors
//! each, n nodes, and about 7 copies in a mesh of degree 8. A delivery is up to three events (uplink, arrival,
//! delivery):
//!
//! | what | deliveries |
//! |---|---|
//! | votes by a mesh of 16 aggregators and 32 relays | N · 48 · 7 = 3.5·10^8 |
//! | votes directly to 16 aggregators | N · 16 = 1.7·10^7 |
//! | aggregates by a mesh of 16 collectors and 32 relays | 32 · 1024 · 48 · 7 = 1.1·10^7 |
//! | collections to all, each forwarded | 512 · 7 · n = 3.6·10^7 at n = 10^4, 3.6·10^9 at 10^6 |
//! | collections to all, only those forwarded that add a signer | 32 to 512 · 7 · n |
//!
//! The preset `horn-1m-10k` (99 % vote, seed 1) has 9.9·10^7 events: 1.66·10^7 votes, 1.03·10^7 aggregates and
//! 3.0·10^6 collections are sent. Nearly all of the 468 collections of honest aggregators are identical, and each
//! node forwards one per committee.
//!
//! | file | role |
//! |---|---|
//! | `plan` | what all nodes know, for any number of levels of evidence |
//! | `message` | messages |
//! | `work` | computation, and the parts of it that all nodes share |
//! | `subscription` | a topic at a node |
//! | `cast` | traffic in coded pieces |
//! | `fetch` | blocks that messages wait for |
//! | `node` | a node |
//! | `own` | what a node publishes |
//! | `build` | the nodes and their graph |
//! | `connections` | which nodes are connected: meshes of the peers that nodes have, and publishers |
//! | `join` | the connections by which members join topics |
//! | `watch`, `followed`, `tell` | the probe that checks and measures a run, what it sees of a slot, and its trace |
//! | `heads` | the fate of nodes' heads and of proposers' blocks |
//! | `run` | from a scenario to a stopped world |
//! | `findings`, `floor` | the results of a run, and their lower bound |
//! | `paid`, `harm` | what its blocks pay for, and the loss compared with another run |
//! | `posts` | the validators whose nodes a fault controls |

pub(crate) mod build;
mod cast;
mod connections;
mod fetch;
mod findings;
mod floor;
mod followed;
mod harm;
mod heads;
mod join;
mod message;
pub(crate) mod node;
mod own;
mod paid;
mod plan;
mod posts;
mod run;
mod subscription;
mod tell;
#[cfg(test)]
mod tests;
mod watch;
mod work;

pub(crate) use fetch::Exchange;
pub use harm::Harm;
pub use heads::Fate;
pub(crate) use message::{BlockBody, EvidenceBody, HornMessage, Inner, Item};
pub use paid::{PaidBlock, pay};
pub use plan::timing;
pub(crate) use plan::{Plan, Server, TopicId};
pub use run::{HornRun, SlotVotes, run};
pub use watch::{Milestones, Violation};
pub(crate) use work::{HornWork, NodeProduct, NodeWork};

use alphorn_proto::horn::ConfigError;
use alphorn_proto::slot::TimingError;
use alphorn_proto::wire::Reject;
use alphorn_scheme::model::TableError;
use alphorn_types::LayoutError;

/// Why a Horn slot cannot be run, apart from the errors of any run.
#[derive(Debug, thiserror::Error)]
pub enum HornError {
    /// More slots than remain before the next epoch, whose committees depend on blocks of the run.
    #[error("protocol.slots = {value}: must be at most {max}, the slots of an epoch")]
    Slots {
        /// Number of slots requested.
        value: u32,
        /// Maximum number of slots.
        max: u64,
    },
    /// Receivers of a broadcast would have to know whom the lottery chose.
    #[error(
        "protocol.collection_dissemination = coded: with protocol.selection = lottery nobody knows the \
         collectors beforehand, so their broadcasts are refused; give selection = \"rank\""
    )]
    UnknownSources,
    /// There is no cost table for coding.
    #[error(
        "compute.code_costs is missing: what is coded is charged by a table of the code's costs"
    )]
    CodeCosts,
    /// Invalid broadcast parameters.
    #[error("protocol.broadcast: {0}")]
    Broadcast(#[from] alphorn_broadcast::ConfigError),
    /// A node would exceed its connection limit.
    #[error(
        "node {node} would have {value} connections, must be at most {max} (link.connections_max): host fewer \
         validators on a node, or give a smaller protocol.entries or protocol.subscribers = \"hosts\""
    )]
    Connections {
        /// The node.
        node: u32,
        /// Number of connections.
        value: usize,
        /// Maximum number of connections.
        max: u32,
    },
    /// Senders would have to know whom the lottery chose.
    #[error(
        "protocol.{topic}_dissemination: with protocol.selection = lottery nobody knows the receivers \
         beforehand, give selection = \"rank\" or travel by gossip"
    )]
    UnknownReceivers {
        /// `vote` or `aggregate`.
        topic: &'static str,
    },
    /// A value that is not one of the choices.
    #[error("protocol.{key} = {value}: {why}")]
    Choice {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What is allowed.
        why: String,
    },
    /// A share of the serving validators that amounts to none.
    #[error(
        "fault {fault}: {posts_pct} % of the {post} are none: a cell, a committee or the run has at most {of} of \
         them while it lasts"
    )]
    NoPost {
        /// The fault.
        fault: &'static str,
        /// The share.
        posts_pct: u32,
        /// The post.
        post: &'static str,
        /// Maximum number that serve.
        of: usize,
    },
    /// A cell or committee that does not exist.
    #[error("fault {fault}: unit {unit}, but {post} serve in {units}")]
    NoUnit {
        /// The fault.
        fault: &'static str,
        /// The cell or committee.
        unit: u32,
        /// The post.
        post: &'static str,
        /// Number of units.
        units: u32,
    },
    /// An attack on evidence that collectors make from cells.
    #[error("fault {fault}: protocol with {levels} levels, it is for those of 2")]
    FaultLevels {
        /// The fault.
        fault: &'static str,
        /// Levels of the run.
        levels: u8,
    },
    /// Levels that differ from the preset's own.
    #[error("protocol.preset = {preset} with {value} levels: it has {own}")]
    PresetLevels {
        /// Name of the preset.
        preset: &'static str,
        /// Levels requested.
        value: usize,
        /// Levels of the preset.
        own: usize,
    },
    /// A collector cannot show a ticket that its state machine has not drawn yet.
    #[error("fault {fault}: needs protocol.selection = \"rank\"")]
    EarlyTicket {
        /// The fault.
        fault: &'static str,
    },
    /// A message meant for one half of the nodes would be forwarded to the other half.
    #[error(
        "fault {fault}: needs protocol.block_dissemination = \"direct\" and \
         protocol.collection_dissemination = \"direct\""
    )]
    Forwarded {
        /// The fault.
        fault: &'static str,
    },
    /// A fault that starts after the end of the run.
    #[error("fault {fault}: from_ms = {from_ms}, must be below the end of the run, at {end_ms} ms")]
    AfterEnd {
        /// The fault.
        fault: &'static str,
        /// Start of the fault.
        from_ms: u64,
        /// End of the run.
        end_ms: u64,
    },
    /// No honest node is left to attack.
    #[error("fault {fault}: all {nodes} nodes are its own")]
    NoHonest {
        /// The fault.
        fault: &'static str,
        /// Number of nodes in the run.
        nodes: u32,
    },
    /// The cost table does not belong to a scheme.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Validators that do not fit the committees.
    #[error("protocol: {0}")]
    Layout(#[from] LayoutError),
    /// Phases that do not fit a slot.
    #[error("protocol: {0}")]
    Timing(#[from] TimingError),
    /// Invalid protocol parameters.
    #[error("protocol: {0}")]
    Config(#[from] ConfigError),
    /// Invalid mesh parameters.
    #[error("protocol.gossip: {0}")]
    Mesh(#[from] crate::gossip::ConfigError),
    /// A state machine rejects the block before its slot.
    #[error("the block before the slot: {0}")]
    Before(#[from] Reject),
    /// A node has more neighbours than a mesh allows.
    #[error("node {node} has {value} neighbours on a topic, must be at most {max}")]
    Links {
        /// The node.
        node: u32,
        /// Number of neighbours.
        value: usize,
        /// Maximum.
        max: usize,
    },
    /// A rule was violated: a bug in the simulator or the protocol.
    #[error("seed {seed}, event {event}: {violation}")]
    Violation {
        /// The seed.
        seed: u64,
        /// The number of the event.
        event: u64,
        /// The violation.
        violation: Violation,
    },
}
