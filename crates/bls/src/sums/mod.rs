//! Adds many public keys: the aggregate keys of all collections of a slot.

mod base;
mod columns;
mod costs;
mod error;
mod extract;
mod kernel_field;
mod method;
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
pub use columns::{Columns, CommitteeJob};
pub use costs::Costs;
pub use error::{COLLECTIONS_MAX, SumError};
pub use method::{Method, MethodCounts, SumOptions, SumReport, Sums};
pub use table::{KeyTable, KeyTableError};

pub(crate) use kernel_field::KernelField;
pub(crate) use plan::random_groups;
pub(crate) use portable::Portable;

use core::any::Any;
use core::fmt;

use crate::blst_ffi::field::Fp;
use crate::dispatch::with_multiplier;
use alphorn_exec::{Backend, Exec};
use run::{Run, Space};
use segments::SumKernel;
use table::Stored;

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
