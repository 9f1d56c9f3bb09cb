//! Votes gathered up a tree, to compare with two layers: the cost of depth, and of those who are silent.
//!
//! Validators are cut into leaves in their order. At each position of the tree stand some nodes, drawn by
//! the seed, which all do the same. A validator gives its vote to the nodes of its leaf. These verify the
//! votes in batches, make one aggregate, sign it and give it to the nodes above, who verify the signature of its sender and
//! the first aggregate of each child, wait a little for the missing ones, make one of all, and so on. The run ends when the first
//! honest node at the root has finished; how the result reaches everybody is not part of it.
//!
//! What the pieces of a position become is the scheme's ability, as its table of costs says it: where
//! signatures are one list, or points that add, or proofs that merge, one piece; where proofs do not merge,
//! or cover no more signers, a list of proofs that grows on its way up.
//!
//! Messages are sizes: votes and aggregates as long as the encoding of the wire, with the code of the
//! support for who signed. Processors are charged from the table.

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

/// Why a tree cannot be run, apart from what stops any run.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
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
    /// A fault that nodes of a tree cannot have.
    #[error("fault {fault} does not exist for protocol tree, only withhold")]
    Fault {
        /// Its name.
        fault: &'static str,
    },
}
