//! Which nodes are traced, and the records so far.

use alphorn_types::trace::Record;

/// Nanoseconds in the type used by records.
pub(crate) fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Name of a node in records.
pub(crate) fn node_name(node: u32) -> String {
    format!("node-{node}")
}

/// Which nodes are traced in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traced {
    /// All nodes.
    All,
    /// One node.
    Node(u32),
}

impl Traced {
    pub(super) fn contains(self, node: u32) -> bool {
        match self {
            Traced::All => true,
            Traced::Node(only) => only == node,
        }
    }
}

/// Trace of the nodes of a span.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    pub(super) of: Option<Traced>,
    pub(super) records: Vec<Record>,
    /// Start of the run, from genesis. Record times count from genesis.
    pub(super) begin_ns: u64,
}

/// Records up to the end of the last closed window, in time order.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) records: Vec<Record>,
    /// End of the last closed window.
    pub(super) closed_ns: u64,
}
