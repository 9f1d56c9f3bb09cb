//! Why a job does not fit its key table.

use thiserror::Error;

/// Maximum number of planes of one collection: multiplicities up to 15.
pub(crate) const PLANES_MAX: usize = 4;
/// Maximum number of collections of one committee in one job.
pub const COLLECTIONS_MAX: usize = 4096;

/// A job that does not fit its key table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SumError {
    /// No such committee.
    #[error("committee {committee} of {committees}")]
    Committee {
        /// The committee that was named.
        committee: usize,
        /// Committees of the table.
        committees: usize,
    },
    /// No plane, or more than `PLANES_MAX`.
    #[error("{got} planes: a collection has 1 to {PLANES_MAX}")]
    Planes {
        /// Planes that were given.
        got: usize,
    },
    /// A plane has too few or too many words.
    #[error("a plane of {got} words over {positions} positions: expected {expected}")]
    Words {
        /// Words that were given.
        got: usize,
        /// Words of the committee.
        expected: usize,
        /// Size of the committee.
        positions: usize,
    },
    /// A bit is set past the last position.
    #[error("a bit is set past the last of {positions} positions")]
    Padding {
        /// Size of the committee.
        positions: usize,
    },
    /// More collections than [`COLLECTIONS_MAX`] in one job.
    #[error("{got} collections of one committee: at most {COLLECTIONS_MAX} in a job")]
    Collections {
        /// Collections that were given.
        got: usize,
    },
}

/// Checks one plane against the size of its committee.
pub(super) fn check_plane(plane: &[u64], positions: usize) -> Result<(), SumError> {
    let expected = positions.div_ceil(64);
    if plane.len() != expected {
        return Err(SumError::Words {
            got: plane.len(),
            expected,
            positions,
        });
    }
    let used = positions % 64;
    match plane.last() {
        Some(last) if used != 0 && last >> used != 0 => Err(SumError::Padding { positions }),
        _ => Ok(()),
    }
}
