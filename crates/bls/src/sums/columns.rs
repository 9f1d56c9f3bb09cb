//! The input of a sum: columns of bits over the positions of a committee.

use thiserror::Error;

use super::Method;
use super::base::Base;
use super::table::KeyTable;

/// Maximum number of planes of one collection: multiplicities up to 15.
pub(crate) const PLANES_MAX: usize = 4;
/// Maximum number of collections of one committee in one job.
pub const COLLECTIONS_MAX: usize = 4096;
/// Number of collections of one committee that verification puts into one job. At four planes this makes 16
/// groups of the widest kind, beyond which nothing more is shared. The working memory of a job, and how long a
/// stop request waits, grow with this number.
const COLLECTIONS_PER_JOB: usize = 64;

/// The support of one collection: `planes[j]` holds bit j of each position's multiplicity.
///
/// A plane is a list of 64-bit words with position i in bit i mod 64 of word i / 64; bits past the committee's
/// size are zero. One plane is Horn's bitfield, four planes are its "uint4".
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// One to four planes, least significant first, each of ceil(n / 64) words.
    pub planes: &'a [&'a [u64]],
}

/// The collections of one committee whose aggregate keys are needed.
#[derive(Clone, Copy, Debug)]
pub struct CommitteeJob<'a> {
    /// Index of the committee in the key table.
    pub committee: usize,
    /// The collections; each gives one aggregate key.
    pub collections: &'a [Columns<'a>],
    /// Vectors of this committee with known sums. A base of another table or committee is ignored.
    pub bases: &'a [Base],
}

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

impl<'a> CommitteeJob<'a> {
    /// Splits any number of collections, in order, into jobs of bounded memory and time. Adding keys one by one
    /// is so slow that such a job has a single collection.
    pub(crate) fn split(
        committee: usize,
        collections: &'a [Columns<'a>],
        bases: &'a [Base],
        method: Option<Method>,
    ) -> impl Iterator<Item = CommitteeJob<'a>> {
        let size = match method {
            Some(Method::Naive) => 1,
            _ => COLLECTIONS_PER_JOB,
        };
        collections
            .chunks(size)
            .map(move |collections| CommitteeJob {
                committee,
                collections,
                bases,
            })
    }

    pub(super) fn check(&self, table: &KeyTable) -> Result<(), SumError> {
        let committees = table.committees();
        if self.committee >= committees {
            return Err(SumError::Committee {
                committee: self.committee,
                committees,
            });
        }
        if self.collections.len() > COLLECTIONS_MAX {
            return Err(SumError::Collections {
                got: self.collections.len(),
            });
        }
        let positions = table.range(self.committee).len();
        for collection in self.collections {
            let got = collection.planes.len();
            if got == 0 || got > PLANES_MAX {
                return Err(SumError::Planes { got });
            }
            collection
                .planes
                .iter()
                .try_for_each(|plane| check_plane(plane, positions))?;
        }
        Ok(())
    }
}
