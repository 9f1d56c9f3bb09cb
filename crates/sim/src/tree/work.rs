//! Jobs of a node of a tree: an operation, its size, its cost.

use crate::role::Labour;
use alphorn_scheme::{Features, Op, Schedulable};

/// The work of a job; it has no result other than having ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeWork {
    /// The operation.
    pub op: Op,
    /// Its inputs.
    pub inputs: u32,
    /// Nanoseconds of one core.
    pub cost_ns: u64,
}

impl Schedulable for TreeWork {
    fn features(&self) -> Features {
        Features {
            kind: self.op.kind(),
            class: 0,
            inputs: self.inputs,
            prior_ns: self.cost_ns,
            memory_bytes: 0,
        }
    }
}

impl Labour for TreeWork {
    type Product = ();

    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn run(self) {}
}
