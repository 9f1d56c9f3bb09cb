//! Adds many public keys: the aggregate keys of all collections of a slot.

mod base;
mod columns;
mod costs;
mod extract;
mod plan;
mod portable;
mod run;
pub(crate) mod segments;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vector;

pub use base::Base;
pub use columns::{COLLECTIONS_MAX, Columns, CommitteeJob, SumError};
pub use costs::Costs;
pub use table::{KeyTable, KeyTableError};

pub(crate) use plan::random_groups;
pub(crate) use portable::Portable;

use core::any::Any;
use core::fmt;

use crate::blst_ffi::curve::{CurveField, G1Affine};
use crate::blst_ffi::field::{Fp, Fp2};
use crate::kernel::with_multiplier;
#[cfg(target_arch = "x86_64")]
use crate::vector::Multiplier;
use alphorn_exec::{Backend, Exec};
use run::{Run, Space};
use segments::SumKernel;
use table::Stored;
#[cfg(target_arch = "x86_64")]
use vector::VectorSums;

/// The vector kernel of a field.
pub(crate) trait KernelField: CurveField {
    /// Adds points with coordinates of this field.
    #[cfg(target_arch = "x86_64")]
    type Vector<M: Multiplier>: SumKernel<Field = Self>;

    /// The kernel of a host.
    #[cfg(target_arch = "x86_64")]
    fn vector<M: Multiplier>(m: M) -> Self::Vector<M>;
}

impl KernelField for Fp {
    #[cfg(target_arch = "x86_64")]
    type Vector<M: Multiplier> = VectorSums<M, Fp, 1>;

    #[cfg(target_arch = "x86_64")]
    fn vector<M: Multiplier>(m: M) -> Self::Vector<M> {
        VectorSums::new(m)
    }
}

impl KernelField for Fp2 {
    #[cfg(target_arch = "x86_64")]
    type Vector<M: Multiplier> = VectorSums<M, Fp2, 2>;

    #[cfg(target_arch = "x86_64")]
    fn vector<M: Multiplier>(m: M) -> Self::Vector<M> {
        VectorSums::new(m)
    }
}

/// A method of summing columns; all give the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// One mixed addition per signer: the oracle.
    Naive,
    /// One batch-affine sum per column.
    Bulk,
    /// Like `Bulk`, over the signers or the non-signers, whichever are fewer.
    Subtract,
    /// Each position goes into the bucket of its pattern of bits (transposed four-Russians).
    Pattern,
    /// Like `Pattern`, on the differences from a vector with a known sum.
    Based,
    /// One sum per column over its differences from the nearest vector with a known sum.
    Delta,
    /// Like `Pattern`, on the differences from the first column, whose sum follows from the total. There are
    /// half as many patterns, because a key and its negative share one.
    Folded,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 7] = [
        Method::Naive,
        Method::Bulk,
        Method::Subtract,
        Method::Pattern,
        Method::Based,
        Method::Delta,
        Method::Folded,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Naive => "naive",
            Method::Bulk => "bulk",
            Method::Subtract => "subtract",
            Method::Pattern => "pattern",
            Method::Based => "based",
            Method::Delta => "delta",
            Method::Folded => "folded",
        }
    }
}

/// Options of a sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct SumOptions {
    /// The method, or `None` to let the planner choose per committee.
    pub method: Option<Method>,
    /// The planner's cost estimates for the host; they affect the time, never the result.
    pub costs: Costs,
}

/// Columns per method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MethodCounts([u64; Method::ALL.len()]);

impl MethodCounts {
    /// Number of columns summed by `method`.
    pub fn get(&self, method: Method) -> u64 {
        self.0[method as usize]
    }

    fn add(&mut self, method: Method, columns: u64) {
        self.0[method as usize] += columns;
    }
}

/// Work done. Times are summed over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SumReport {
    /// Columns per method.
    pub methods: MethodCounts,
    /// Point additions.
    pub additions: u64,
    /// Time spent choosing methods.
    pub plan_ns: u64,
    /// Time spent extracting the patterns of positions.
    pub buckets_ns: u64,
    /// Time spent sorting and adding.
    pub sums_ns: u64,
}

impl SumReport {
    /// Adds the report of another part of the work.
    pub(crate) fn join(&mut self, other: &SumReport) {
        for (own, other) in self.methods.0.iter_mut().zip(other.methods.0) {
            *own += other;
        }
        self.plan_ns += other.plan_ns;
        self.additions += other.additions;
        self.buckets_ns += other.buckets_ns;
        self.sums_ns += other.sums_ns;
    }
}

/// The sums of keys, in order of jobs and their collections, and a report.
#[derive(Clone, Debug)]
pub struct Sums {
    /// One aggregate key per collection, possibly the identity.
    pub keys: Vec<G1Affine>,
    /// One sum per plane of each collection, lowest plane first, each possibly the identity.
    pub(crate) planes: Vec<G1Affine>,
    /// The work done.
    pub report: SumReport,
}

/// Memory reused from call to call, one part per thread.
#[derive(Default)]
pub struct Workspace {
    /// A `Vec<Space<K>>` of the most recently used kernel K.
    spaces: Option<Box<dyn Any + Send>>,
}

impl Workspace {
    /// The spaces of a kernel; those of another kernel are dropped.
    fn spaces<K: SumKernel>(&mut self) -> &mut Vec<Space<K>> {
        if !self
            .spaces
            .as_deref()
            .is_some_and(|spaces| spaces.is::<Vec<Space<K>>>())
        {
            self.spaces = None;
        }
        let spaces = self
            .spaces
            .get_or_insert_with(|| Box::new(Vec::<Space<K>>::new()));
        spaces.downcast_mut().expect("spaces of this kernel")
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").finish_non_exhaustive()
    }
}

/// Returns the aggregate key of every collection of every job: Σ m_i·pk_i over the positions.
///
/// The result depends neither on the method nor on the number of threads. With a pool, its threads share the
/// committees; without one, the calling thread does all the work. If the task was asked to stop, the sums are
/// arbitrary.
///
/// # Errors
/// If a job does not fit the table; nothing is summed then.
pub fn sum_columns(
    table: &KeyTable,
    jobs: &[CommitteeJob<'_>],
    options: &SumOptions,
    workspace: &mut Workspace,
    exec: Exec<'_>,
) -> Result<Sums, SumError> {
    jobs.iter().try_for_each(|job| job.check(table))?;
    let sums = match table.stored() {
        Stored::Portable => {
            let run = Run {
                kernel: Portable::default(),
                table,
                points: table.points(),
                options,
            };
            run.run(jobs, workspace.spaces(), exec)
        }
        #[cfg(target_arch = "x86_64")]
        Stored::Vector(points) => with_multiplier!(
            table.backend(),
            m => {
                let run = Run {
                    kernel: Fp::vector(m),
                    table,
                    points,
                    options,
                };
                run.run(jobs, workspace.spaces(), exec)
            },
            _ => unreachable!("the table of a multiplier"),
        ),
    };
    Ok(sums)
}

impl Costs {
    /// Measures the kernel of `backend` on this host, in at most some 20 ms.
    pub fn measure(backend: Backend) -> Costs {
        with_multiplier!(
            backend,
            m => costs::measure(Fp::vector(m)),
            _ => costs::measure(Portable::<Fp>::default()),
        )
    }

    /// The time of a single addition in nanoseconds, measured in at most some 2 ms.
    pub(crate) fn measure_addition(backend: Backend) -> f64 {
        with_multiplier!(
            backend,
            m => costs::measure_addition(Fp::vector(m)),
            _ => costs::measure_addition(Portable::<Fp>::default()),
        )
    }
}
