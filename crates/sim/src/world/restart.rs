//! How nodes that have forgotten everything get a new state machine.

use crate::graph::Graph;
use std::collections::BTreeMap;
use std::fmt;

/// How nodes restart.
pub(super) struct Restart<R> {
    pub(super) role: Option<Box<NewRole<R>>>,
    /// Number of restarts of each node.
    pub(super) counts: BTreeMap<u32, u32>,
}

/// Makes a state machine from the graph, the number of a node and the count of its restarts.
pub(super) type NewRole<R> = dyn Fn(&Graph, u32, u32) -> R;

impl<R> Default for Restart<R> {
    fn default() -> Self {
        Restart {
            role: None,
            counts: BTreeMap::new(),
        }
    }
}

impl<R> fmt::Debug for Restart<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Restart({:?})", self.counts)
    }
}
