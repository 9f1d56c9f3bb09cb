//! Adding many public keys: the aggregate keys of all collections of a slot.

mod base;
mod columns;
mod table;

pub use base::Base;
pub use columns::{COLLECTIONS_MAX, Columns, CommitteeJob, PLANES_MAX, SumError};
pub use table::{KeyTable, KeyTableError};

use crate::blst_ffi::curve::{CurveField, G1Affine};

/// A method of summing columns; all give the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// One mixed addition per signer: the oracle.
    Naive,
    /// One batch-affine sum per column.
    Bulk,
    /// As `Bulk`, over the signers or over the others, whichever are fewer.
    Subtract,
    /// Each position goes into the bucket of its pattern of bits (transposed four-Russians).
    Pattern,
    /// As `Pattern`, on the differences from a vector whose sum is known.
    Based,
    /// One sum per column over its differences from a vector whose sum is known.
    Delta,
}

/// How to sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct SumOptions {
    /// The method, or `None` to let the planner choose per committee.
    pub method: Option<Method>,
}

/// What was done: columns per method, and the number of point additions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SumReport {
    /// Point additions.
    pub additions: u64,
}

/// The aggregate keys, in the order of jobs and their collections, and what was done.
#[derive(Clone, Debug)]
pub struct Sums {
    /// One aggregate key per collection, possibly the identity.
    pub keys: Vec<G1Affine>,
    /// What was done.
    pub report: SumReport,
}

/// Memory that is reused from call to call.
#[derive(Debug, Default)]
pub struct Workspace {}

/// The aggregate key of every collection of every job: Σ m_i·pk_i over the positions.
///
/// # Errors
/// A job that does not fit the table; nothing is summed then.
pub fn sum_columns(
    table: &KeyTable,
    jobs: &[CommitteeJob<'_>],
    _options: &SumOptions,
    _workspace: &mut Workspace,
    _pool: Option<&rayon::ThreadPool>,
) -> Result<Sums, SumError> {
    jobs.iter().try_for_each(|job| job.check(table))?;
    let mut keys = Vec::new();
    let mut report = SumReport::default();
    for job in jobs {
        for collection in job.collections {
            let mut sum = G1Affine::INFINITY;
            for plane in collection.planes.iter().rev() {
                let part = base::plane_naive(table.committee(job.committee), plane);
                sum = CurveField::sum_naive(&[sum, sum, part]);
                report.additions += plane
                    .iter()
                    .map(|word| u64::from(word.count_ones()))
                    .sum::<u64>();
            }
            keys.push(sum);
        }
    }
    Ok(Sums { keys, report })
}
