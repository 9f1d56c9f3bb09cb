//! Vectors whose sums are already known.

use std::sync::Arc;

use super::error::{SumError, check_plane};
use super::table::KeyTable;
use crate::blst_ffi::curve::G1Affine;
use crate::blst_ffi::curve_field::CurveField;

/// A 0/1 vector over a committee and the sum of its keys, bound to one key table.
///
/// The sum is always computed here, never taken from a message. A table with another digest (another epoch,
/// another order of keys) does not use it.
#[derive(Clone, Debug)]
pub struct Base {
    table_digest: [u8; 32],
    committee: usize,
    words: Arc<[u64]>,
    sum: G1Affine,
}

impl Base {
    /// Sums the keys of `words` (one plane over `committee`).
    ///
    /// # Errors
    /// If there is no such committee, or the plane does not fit it.
    #[cfg(test)]
    pub(crate) fn compute(
        table: &KeyTable,
        committee: usize,
        words: &[u64],
    ) -> Result<Base, SumError> {
        let committees = table.committees();
        if committee >= committees {
            return Err(SumError::Committee {
                committee,
                committees,
            });
        }
        let keys = table.committee(committee);
        check_plane(words, keys.len())?;
        let members: Vec<&G1Affine> = keys
            .iter()
            .enumerate()
            .filter(|(i, _)| words[i / 64] >> (i % 64) & 1 == 1)
            .map(|(_, key)| key)
            .collect();
        let sum = CurveField::sum_blst(&members);
        Ok(Base {
            table_digest: *table.digest(),
            committee,
            words: words.into(),
            sum,
        })
    }

    /// The vector of a column that was summed before, with the sum found then.
    ///
    /// # Errors
    /// As [`Base::compute`].
    pub(crate) fn of_sum(
        table: &KeyTable,
        committee: usize,
        words: &[u64],
        sum: G1Affine,
    ) -> Result<Base, SumError> {
        let committees = table.committees();
        if committee >= committees {
            return Err(SumError::Committee {
                committee,
                committees,
            });
        }
        check_plane(words, table.committee(committee).len())?;
        Ok(Base {
            table_digest: *table.digest(),
            committee,
            words: words.into(),
            sum,
        })
    }

    /// The vector.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The sum of the vector's keys, possibly the identity.
    pub(crate) fn sum(&self) -> &G1Affine {
        &self.sum
    }

    /// Whether this base may be used for `committee` of `table`.
    pub(crate) fn fits(&self, table: &KeyTable, committee: usize) -> bool {
        self.committee == committee && self.table_digest == *table.digest()
    }
}

/// The sum of the keys at the set bits of one plane, by one mixed addition per key.
pub(super) fn plane_naive(keys: &[G1Affine], plane: &[u64]) -> G1Affine {
    let members: Vec<G1Affine> = keys
        .iter()
        .enumerate()
        .filter(|(i, _)| plane[i / 64] >> (i % 64) & 1 == 1)
        .map(|(_, key)| *key)
        .collect();
    CurveField::sum_naive(&members)
}
