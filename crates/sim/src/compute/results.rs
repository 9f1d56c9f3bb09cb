//! Evidence that outlives the run that created it, so that a long run can be interrupted.

use super::unit::Unit;
use alphorn_scheme::{Output, Task, Work};
use std::io;

/// Storage for results of jobs, keyed by the digest of the job's inputs.
pub trait Results: Send {
    /// Returns the result kept under a name, if it is complete.
    fn load(&mut self, name: &[u8; 32]) -> Option<Vec<u8>>;

    /// Keeps a result.
    ///
    /// # Errors
    /// If the result cannot be written; no partial result is left behind.
    fn store(&mut self, name: &[u8; 32], result: &[u8]) -> io::Result<()>;
}

/// Name of a job whose result is worth keeping, which is one that creates evidence. Receivers verify
/// evidence, so a kept result is trusted no more than a received one.
fn name<'u>(unit: &'u Unit, job: &Work) -> Option<&'u [u8; 32]> {
    match job {
        Work::Aggregate(_) | Work::Combine(_) | Work::Bundle(_) => unit.identity.as_ref(),
        _ => None,
    }
}

/// Result of a job that an earlier run kept.
pub(super) fn load(results: &mut dyn Results, unit: &Unit, job: &Work) -> Option<Output> {
    let bytes = results.load(name(unit, job)?)?;
    // What cannot be decoded is computed again.
    job.decode_output(&bytes).ok()
}

/// Keeps the result of a job if the job creates evidence.
pub(super) fn store(
    results: &mut dyn Results,
    unit: &Unit,
    job: &Work,
    output: &Output,
) -> io::Result<()> {
    match (name(unit, job), job.encode_output(output)) {
        (Some(name), Some(bytes)) => results.store(name, &bytes),
        _ => Ok(()),
    }
}
