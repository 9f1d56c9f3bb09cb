//! The two-level model of a published simulation, to calibrate the network model against it.
//!
//! BEAMSIM (qdrvm/beamsim) publishes for 8,192 validators, over 100 Mbps links and TCP as NS-3 models
//! it: 3.9 s by gossip, 3.2 s by a grid, and 2.3 s with 200 Mbps, signatures directly to aggregators and
//! a grid among these. The time is that of the first global aggregator that has finished, not of
//! dissemination.
//!
//! Validator i is in group i mod 8. Every validator signs; the signature travels in its group. A local
//! aggregator, one in ten of a group, starts its proof at 90 % of the group's signatures, on all that
//! it has by then, and gives it to one global aggregator. These spread the first proof of each group
//! among themselves, announced and asked for, or sent at once. At two thirds of all signers a global
//! aggregator makes the last proof. A node has one processor, which does one thing at a time.
//!
//! Events, gossip: 8 groups · 1024 signatures · 1023 receivers · about 8 copies = 6.7·10^7 deliveries,
//! each with uplink, arrival, delivery and acknowledgement.

mod config;
mod message;
mod node;
mod place;
mod run;
#[cfg(test)]
mod tests;

pub use config::TwoLevel;
pub use message::{Content, TwoLevelMessage, TwoLevelWork};
pub use node::{Finished, TwoLevelNode};
pub use run::run;
pub(crate) use run::world_config;

use crate::graph::GraphError;
use crate::horn::HornError;
use crate::world::WorldError;

/// Why a model cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum TwoLevelError {
    /// A number outside its bounds.
    #[error("protocol.{key} = {value}, allowed {min} to {max}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
    /// A way to travel that there is not.
    #[error("protocol.{key} = {value}: one of gossip, grid, direct")]
    Way {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// Faults.
    #[error("fault: the two-level model has none")]
    Fault,
    /// Connections that cannot be made.
    #[error(transparent)]
    Links(#[from] HornError),
    /// The graph cannot be made.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The run cannot go on.
    #[error(transparent)]
    World(#[from] WorldError),
    /// Whoever watched the run ended it.
    #[error("stopped after {events} events at {at_ns} ns of virtual time")]
    Stopped {
        /// Events so far.
        events: u64,
        /// Virtual time.
        at_ns: u64,
    },
}
