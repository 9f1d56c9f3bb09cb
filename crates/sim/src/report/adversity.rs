//! How honest nodes handled bad messages.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How honest nodes handled bad messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adversity {
    /// Messages that honest nodes rejected, by reason; reasons that never occurred are left out.
    pub refused: BTreeMap<String, u64>,
    /// Reports of honest nodes about a neighbour, by reason.
    pub reports: BTreeMap<String, u64>,
    /// Number of nodes against which an honest node has proof.
    pub accused: u32,
    /// Number of honest nodes with proof against a source.
    pub evidence: u32,
}
