//! Votes gathered up a tree, for comparison with two layers: the cost of depth and of silent nodes.
//!
//! Validators are split into leaves in order. Each position of the tree is assigned several nodes, drawn by the seed,
//! which all do the same work. A validator sends its vote to the nodes of its leaf. These verify the votes in batches,
//! build an aggregate, sign it and send it to the nodes above. Those verify the signature of its sender and the first
//! aggregate of each child, wait a little for the missing ones, build one aggregate of all, and so on. The run ends
//! when the first honest node at the root has finished; distributing the result to all nodes is not included.
//!
//! How the pieces at a position are combined depends on the abilities of the scheme, as given in its cost table. Where
//! signatures form one list, or points can be added, or proofs can be merged, the result is one piece. Where proofs
//! cannot be merged, or cannot cover more signers, it is a list of proofs that grows on its way up.
//!
//! Messages are only sizes: votes and aggregates are as long as their wire encoding, including the encoding of the set
//! of signers. Processors are charged from the table.

mod config;
mod message;
mod node;
mod plan;
mod run;
#[cfg(test)]
mod tests;
mod work;

pub use config::Tree;
pub use run::{TreeRun, run};

/// Why a tree cannot be run, in addition to the general errors of a run.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A number outside its bounds.
    #[error("protocol.{key} = {value}, allowed {min} to {max}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// Minimum allowed.
        min: u64,
        /// Maximum allowed.
        max: u64,
    },
    /// A fault that is not available for nodes of a tree.
    #[error("fault {fault} does not exist for protocol tree, only withhold")]
    Fault {
        /// Its name.
        fault: &'static str,
    },
}
