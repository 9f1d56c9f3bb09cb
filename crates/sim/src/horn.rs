//! Horn end to end over the simulated network: votes, aggregates, collections, the block.
//!
//! A node is the protocol's own machine ([`alphorn_proto::horn::Horn`]) with the validators that it hosts,
//! above one state machine of dissemination (`crate::gossip`) for each topic that the node is a
//! member of. Messages are those of the protocol, encoded once and shared by all nodes that hold them. Jobs
//! take virtual time by a table of costs; what they yield is made by the scheme of that table
//! ([`alphorn_scheme::model`]), which has no cryptography, when that time is over.
//!
//! Votes go to a cell's aggregators, by default directly: what it costs otherwise is the first row
//! below. Events of a slot with N = 2^20 votes, 32 committees of 64 cells, 16 aggregators and 16
//! collectors each, n nodes, about 7 copies in a mesh of degree 8; a delivery is up to three events
//! (uplink, arrival, delivery):
//!
//! | what | deliveries |
//! |---|---|
//! | votes by a mesh of 16 aggregators and 32 relays | N · 48 · 7 = 3.5·10^8 |
//! | votes directly to 16 aggregators | N · 16 = 1.7·10^7 |
//! | aggregates by a mesh of 16 collectors and 32 relays | 32 · 1024 · 48 · 7 = 1.1·10^7 |
//! | collections to all, each forwarded | 512 · 7 · n = 3.6·10^7 at n = 10^4, 3.6·10^9 at 10^6 |
//! | collections to all, only those forwarded that add a signer | 32 to 512 · 7 · n |
//!
//! The preset `horn-1m-10k` (99 % vote, seed 1) has 9.9·10^7 events: 1.66·10^7 votes, 1.03·10^7
//! aggregates and 3.0·10^6 collections are sent. Of 468 collections of honest aggregators nearly all are
//! alike, and each node forwards one of a committee.
//!
//! | file | role |
//! |---|---|
//! | `plan` | what all nodes know, for any number of levels of evidence |
//! | `message` | what is sent |
//! | `work` | what is computed, and what of it all nodes share |
//! | `subscription` | a topic at a node |
//! | `cast` | what travels in coded pieces |
//! | `fetch` | blocks that messages wait for |
//! | `node` | a node |
//! | `own` | what it publishes |
//! | `build` | the graph |
//! | `join` | the connections by which members join topics |
//! | `watch`, `followed`, `tell` | who checks and measures a run, what is seen of a slot, and who tells of it |
//! | `heads` | what becomes of the heads of nodes and of proposers' blocks |
//! | `run` | from a scenario to a world that stopped |
//! | `findings`, `floor` | what it comes to, and what it cannot beat |
//! | `paid`, `harm` | what its blocks pay for, and what that is less than in another run |
//! | `posts` | whose nodes a fault has |

pub(crate) mod build;
mod cast;
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

/// Why a slot of Horn cannot be run, apart from what stops any run.
#[derive(Debug, thiserror::Error)]
pub enum HornError {
    /// More slots than there are before the next epoch, whose committees follow from blocks of the run.
    #[error("protocol.slots = {value}: must be at most {max}, the slots of an epoch")]
    Slots {
        /// How many.
        value: u32,
        /// How many there can be.
        max: u64,
    },
    /// Whoever takes a broadcast would have to know whom the lottery chose.
    #[error(
        "protocol.collection_dissemination = coded: with protocol.selection = lottery nobody knows the \
         collectors beforehand, so their broadcasts are refused; give selection = \"rank\""
    )]
    UnknownSources,
    /// There is no table of what coding costs.
    #[error(
        "compute.code_costs is missing: what is coded is charged by a table of the code's costs"
    )]
    CodeCosts,
    /// Parameters that no machine of broadcasts can have.
    #[error("protocol.broadcast: {0}")]
    Broadcast(#[from] alphorn_proto::broadcast::ConfigError),
    /// A node would have more connections than it may.
    #[error(
        "node {node} would have {value} connections, must be at most {max} (link.connections_max): host fewer \
         validators on a node, or give a smaller protocol.backbone"
    )]
    Connections {
        /// The node.
        node: u32,
        /// How many.
        value: usize,
        /// How many it may have.
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
    /// A word that is no choice.
    #[error("protocol.{key} = {value}: {why}")]
    Choice {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What is allowed.
        why: String,
    },
    /// A share of those who serve that is nobody.
    #[error(
        "fault {fault}: {posts_pct} % of the {post} are none: a cell, a committee or the run has at most {of} of \
         them while it lasts"
    )]
    NoPost {
        /// The fault.
        fault: &'static str,
        /// The share.
        posts_pct: u32,
        /// Who serves.
        post: &'static str,
        /// The most there are.
        of: usize,
    },
    /// A cell or committee that there is not.
    #[error("fault {fault}: unit {unit}, but {post} serve in {units}")]
    NoUnit {
        /// The fault.
        fault: &'static str,
        /// The cell or committee.
        unit: u32,
        /// Who serves.
        post: &'static str,
        /// How many there are.
        units: u32,
    },
    /// An attack on evidence that collectors make of cells.
    #[error("fault {fault}: protocol with {levels} levels, it is for those of 2")]
    FaultLevels {
        /// The fault.
        fault: &'static str,
        /// Levels of the run.
        levels: u8,
    },
    /// Units that are not those of the protocol.
    #[error("protocol.preset = {preset} with {value} levels: it has {own}")]
    PresetLevels {
        /// Its name.
        preset: &'static str,
        /// Levels asked for.
        value: usize,
        /// Its own.
        own: usize,
    },
    /// A collector cannot show a ticket that its machine has not drawn yet.
    #[error("fault {fault}: needs protocol.selection = \"rank\"")]
    EarlyTicket {
        /// The fault.
        fault: &'static str,
    },
    /// What is meant for one half of the nodes would be forwarded to the other one.
    #[error(
        "fault {fault}: needs protocol.block_dissemination = \"direct\" and \
         protocol.collection_dissemination = \"direct\""
    )]
    Forwarded {
        /// The fault.
        fault: &'static str,
    },
    /// A fault that begins when there is nothing left to go wrong.
    #[error("fault {fault}: from_ms = {from_ms}, must be below the end of the run, at {end_ms} ms")]
    AfterEnd {
        /// The fault.
        fault: &'static str,
        /// Its begin.
        from_ms: u64,
        /// The end.
        end_ms: u64,
    },
    /// Nobody is left to be attacked.
    #[error("fault {fault}: all {nodes} nodes are its own")]
    NoHonest {
        /// The fault.
        fault: &'static str,
        /// Nodes of the run.
        nodes: u32,
    },
    /// The table of costs is that of no scheme.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Validators that do not fit committees.
    #[error("protocol: {0}")]
    Layout(#[from] LayoutError),
    /// Phases that no slot can have.
    #[error("protocol: {0}")]
    Timing(#[from] TimingError),
    /// Parameters that no network can have.
    #[error("protocol: {0}")]
    Config(#[from] ConfigError),
    /// A mesh that cannot be.
    #[error("protocol.gossip: {0}")]
    Mesh(#[from] crate::gossip::ConfigError),
    /// A machine does not take the block before its slot.
    #[error("the block before the slot: {0}")]
    Before(#[from] Reject),
    /// A node has more neighbours than a mesh can have.
    #[error("node {node} has {value} neighbours on a topic, must be at most {max}")]
    Links {
        /// The node.
        node: u32,
        /// Its neighbours.
        value: usize,
        /// The bound.
        max: usize,
    },
    /// A rule was broken: an error of the simulator or of the protocol.
    #[error("seed {seed}, event {event}: {violation}")]
    Violation {
        /// The seed.
        seed: u64,
        /// The number of the event.
        event: u64,
        /// The rule.
        violation: Violation,
    },
}
