//! The input of a sum: columns of bits over the positions of a committee.

use super::base::Base;
use super::error::{COLLECTIONS_MAX, PLANES_MAX, SumError, check_plane};
use super::method::Method;
use super::table::KeyTable;

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
