//! Parameters of a tree, as given by a scenario.

use super::TreeError;
use serde::{Deserialize, Serialize};

/// Parameters of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tree {
    /// Number of validators; validator i is on node i mod the number of nodes.
    pub validators: u32,
    /// Validators that vote, per million.
    pub participation_ppm: u32,
    /// Number of validators per leaf.
    pub leaf: u32,
    /// Number of children per position.
    pub fanout: u32,
    /// Number of nodes at a position, each of which does the same work.
    pub replicas: u32,
    /// Time from the start of the slot for which a leaf gathers votes, unless it has all of them
    /// earlier.
    pub gather_ms: u64,
    /// Time for which a position waits for its other children, counted from when the first one is
    /// verified.
    pub wait_ms: u64,
}

impl Default for Tree {
    fn default() -> Self {
        Tree {
            validators: 65_536,
            participation_ppm: 1_000_000,
            leaf: 512,
            fanout: 8,
            replicas: 4,
            gather_ms: 1000,
            wait_ms: 1000,
        }
    }
}

impl Tree {
    /// Checks every bound.
    ///
    /// # Errors
    /// [`TreeError::Range`], which names the key.
    pub fn check(&self) -> Result<(), TreeError> {
        const TIME_MAX: u64 = 1_000_000;
        let voting = self.participation_ppm.into();
        for (key, value, min, max) in [
            ("validators", self.validators.into(), 1, 1 << 22),
            ("participation_ppm", voting, 0, 1_000_000),
            ("leaf", self.leaf.into(), 1, 1 << 16),
            ("fanout", self.fanout.into(), 2, 1 << 12),
            ("replicas", self.replicas.into(), 1, 64),
            ("gather_ms", self.gather_ms, 0, TIME_MAX),
            ("wait_ms", self.wait_ms, 0, TIME_MAX),
        ] {
            if !(min..=max).contains(&value) {
                return Err(TreeError::Range {
                    key,
                    value,
                    min,
                    max,
                });
            }
        }
        Ok(())
    }
}
