//! Why a run has no outcome.

use crate::check::Violation;
use crate::gossip;
use crate::graph::GraphError;
use crate::horn::HornError;
use crate::role::flood::TooManyPeers;
use crate::scenario::{CostsError, NoNode};
use crate::tree::TreeError;
use crate::world::WorldError;

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The graph cannot be constructed.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A node has more neighbours than a mesh can have.
    #[error(transparent)]
    Peers(#[from] TooManyPeers),
    /// Parameters that are invalid for a mesh.
    #[error("protocol: {0}")]
    Mesh(#[from] gossip::ConfigError),
    /// A cost table is missing or invalid.
    #[error(transparent)]
    Costs(#[from] CostsError),
    /// No honest node of the class can be a source.
    #[error("no honest node can be a source{}", .class.as_ref().map_or(String::new(), |class| format!(" of class {class:?}")))]
    NoSource {
        /// The class asked for.
        class: Option<String>,
    },
    /// The product of payloads and nodes is too large.
    #[error("payloads times nodes = {value}, must be at most {max}")]
    Deliveries {
        /// Value given.
        value: u64,
        /// Maximum allowed.
        max: u64,
    },
    /// Too many nodes for real bytes.
    #[error("sim.nodes = {value} with real bytes, must be at most {max}")]
    BytesNodes {
        /// Number given.
        value: u32,
        /// Maximum allowed.
        max: u32,
    },
    /// A fault whose share is less than one node.
    #[error(transparent)]
    NoNode(#[from] NoNode),
    /// A fault that is not available in this protocol.
    #[error("fault {fault} does not exist for protocol {protocol}")]
    Unfit {
        /// The fault.
        fault: &'static str,
        /// The protocol.
        protocol: &'static str,
    },
    /// Parameters that are invalid for a broadcast.
    #[error("protocol: {0}")]
    Broadcast(#[from] alphorn_broadcast::ConfigError),
    /// A payload that is too large for every code.
    #[error("traffic.bytes = {value}, codes take at most {max}")]
    Payload {
        /// Size in bytes.
        value: u64,
        /// Maximum allowed.
        max: u64,
    },
    /// More chunks than the code supports.
    #[error("protocol.chunks = {value}, this code has at most {max}")]
    Chunks {
        /// Number given.
        value: u32,
        /// Maximum allowed.
        max: u32,
    },
    /// An unknown policy.
    #[error("protocol.policy = {name:?}, known are auto and {}", policies())]
    Policy {
        /// Its name.
        name: String,
    },
    /// A slot of Horn cannot be run.
    #[error(transparent)]
    Horn(#[from] HornError),
    /// The tree cannot be run.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A limit of the world was exceeded.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A rule was violated, which is an error in the simulator or in a protocol.
    #[error("seed {seed}, event {event}: {violation}")]
    Violation {
        /// The seed.
        seed: u64,
        /// Number of the event.
        event: u64,
        /// The violation.
        violation: Violation,
    },
    /// The observer stopped the run.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The observer of a run stopped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped after {events} events at {at_ns} ns of virtual time")]
pub struct Stopped {
    /// Number of events so far.
    pub events: u64,
    /// Virtual time.
    pub at_ns: u64,
}

/// The names of all policies.
fn policies() -> String {
    let names = alphorn_broadcast::Policy::NAMED
        .iter()
        .map(|(name, _)| *name);
    names.collect::<Vec<_>>().join(", ")
}
