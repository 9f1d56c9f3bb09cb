//! Why a Horn slot cannot be run.

use super::violation::Violation;
use crate::gossip;
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
    Mesh(#[from] gossip::ConfigError),
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
