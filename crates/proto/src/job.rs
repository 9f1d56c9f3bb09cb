//! The protocol's own work on the lanes, in addition to that of its scheme and of its codes
//! ([`alphorn_broadcast::CodeJob`]).

use crate::horn::committee;
use alphorn_scheme::{Features, Foreign, Product, TaskError};
use alphorn_types::{Epoch, Layout};
use std::sync::Arc;

/// Nanoseconds per validator and round of the swap-or-not shuffle, for the cost of [`AssignJob`]:
/// 0.25 s for 2^20 validators and 90 rounds, measured by `horn::shuffle`'s own test at 2 GHz.
const SHUFFLE_NS_PER_VALIDATOR: u64 = 240;

/// Kind of [`AssignJob`] in [`Features`], above the kinds of a scheme.
pub(crate) const KIND_ASSIGN: u16 = 0x100;

/// Shuffles the validators of an epoch into committees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignJob {
    /// The epoch.
    pub epoch: Epoch,
    /// 32 bytes supplied by the chain for the epoch.
    pub mix: [u8; 32],
    /// Committees and cells.
    pub layout: Layout,
}

impl Foreign for AssignJob {
    fn name(&self) -> &'static str {
        "assign"
    }

    fn features(&self) -> Features {
        let validators = self.layout.validators();
        Features {
            kind: KIND_ASSIGN,
            class: validators.next_power_of_two().trailing_zeros() as u8,
            inputs: 1,
            prior_ns: u64::from(validators) * SHUFFLE_NS_PER_VALIDATOR,
            memory_bytes: u64::from(validators) * 8,
        }
    }

    fn run(&self) -> Result<Product, TaskError> {
        let assignment = committee::assignment(self.epoch, &self.mix, self.layout);
        Ok(Product::Assigned(Arc::new(assignment)))
    }
}
