//! Weights of validators' votes.

use alphorn_types::{Bitfield, Validator};
use std::sync::Arc;
use thiserror::Error;

/// The highest effective balance, in increments of 1 ETH (EIP-7251).
pub(crate) const INCREMENTS_MAX: u16 = 2_048;

/// A balance above the legal maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("balance of validator {validator} = {increments} increments, must be at most 2048")]
pub struct WeightsError {
    /// The validator.
    pub validator: usize,
    /// Its balance.
    pub increments: u16,
}

/// The weight of each validator's vote, in increments of its balance. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    /// By validator; none if all weigh 1.
    increments: Option<Arc<[u16]>>,
    total: u64,
}

impl Weights {
    /// All validators weigh 1.
    pub fn equal(validators: u32) -> Self {
        Self {
            increments: None,
            total: validators.into(),
        }
    }

    /// Sets balances by validator, in increments.
    ///
    /// # Errors
    ///
    /// If one is above 2,048, the highest of EIP-7251.
    pub fn new(increments: Vec<u16>) -> Result<Self, WeightsError> {
        let mut each = increments.iter().enumerate();
        if let Some((validator, &increments)) = each.find(|(_, one)| **one > INCREMENTS_MAX) {
            return Err(WeightsError {
                validator,
                increments,
            });
        }
        Ok(Self {
            total: increments.iter().map(|&one| u64::from(one)).sum(),
            increments: Some(increments.into()),
        })
    }

    /// Total weight of all validators.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Whether a weight is at least two thirds of the total.
    pub(crate) fn is_supermajority(&self, weight: u64) -> bool {
        // At most 2^22 validators of 2^11 increments.
        3 * weight >= 2 * self.total
    }

    /// Returns the increments of each validator; none if all weigh 1.
    pub fn increments(&self) -> Option<&[u16]> {
        self.increments.as_deref()
    }

    /// Returns the weights of some validators, in order; none if all weigh 1.
    ///
    /// # Panics
    ///
    /// If one of them has no weight here.
    pub(crate) fn of(&self, members: &[u32]) -> Option<Vec<u64>> {
        let increments = self.increments.as_ref()?;
        let weight = |&member: &u32| u64::from(increments[member as usize]);
        Some(members.iter().map(weight).collect())
    }

    /// Returns the weight of one validator.
    ///
    /// # Panics
    ///
    /// If it has no weight here.
    pub(crate) fn of_one(&self, validator: Validator) -> u64 {
        let weight = |increments: &Arc<[u16]>| increments[validator.0 as usize].into();
        self.increments.as_ref().map_or(1, weight)
    }

    /// Whether all weigh 1, so that no seating is needed.
    pub(crate) fn are_equal(&self) -> bool {
        self.increments.is_none()
    }

    /// Weight of some members of a group, given by position.
    ///
    /// # Panics
    ///
    /// If the positions are not those of the group, or its members have no weights here.
    pub(crate) fn sum(&self, members: &[u32], positions: &Bitfield) -> u64 {
        let Some(increments) = &self.increments else {
            return positions.count_ones() as u64;
        };
        let weight = |position: usize| u64::from(increments[members[position] as usize]);
        positions.iter_ones().map(weight).sum()
    }

    /// Weight of the members at the bits of one word, out of the first members of a group.
    pub(super) fn sum_word(&self, members: &[u32], word: u64) -> u32 {
        let Some(increments) = &self.increments else {
            return word.count_ones();
        };
        let set = (0..64).filter(|i| word >> i & 1 == 1);
        // At most 64 · 2,048.
        set.map(|i| u32::from(increments[members[i] as usize]))
            .sum()
    }

    /// The same, without the members of another set.
    ///
    /// # Panics
    ///
    /// As [`sum`](Self::sum), and if the sets differ in length.
    pub(crate) fn sum_without(
        &self,
        members: &[u32],
        positions: &Bitfield,
        without: &Bitfield,
    ) -> u64 {
        if self.are_equal() {
            return positions.count_and_not(without) as u64;
        }
        let mut rest = positions.clone();
        rest.subtract(without);
        self.sum(members, &rest)
    }
}
