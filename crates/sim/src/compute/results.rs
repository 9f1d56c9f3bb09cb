//! Evidence that outlives the run that made it, so that a long run may be stopped.

use super::unit::Unit;
use alphorn_scheme::{Output, Task, Work};
use std::io;

/// Where results of jobs are kept, by the digest of what the job was given.
pub trait Results: Send {
    /// What was kept under a name, if it is whole.
    fn load(&mut self, name: &[u8; 32]) -> Option<Vec<u8>>;

    /// Keeps a result.
    ///
    /// # Errors
    /// If it cannot be written; no part of it is there then.
    fn store(&mut self, name: &[u8; 32], result: &[u8]) -> io::Result<()>;
}

/// The name of a job whose result is worth keeping: it makes evidence. Whoever receives evidence verifies
/// it, so what is kept is trusted no more than what is sent.
fn name<'u>(unit: &'u Unit, job: &Work) -> Option<&'u [u8; 32]> {
    match job {
        Work::Aggregate(_) | Work::Combine(_) | Work::Bundle(_) => unit.identity.as_ref(),
        _ => None,
    }
}

/// The result of a job that an earlier run kept.
pub(super) fn load(results: &mut dyn Results, unit: &Unit, job: &Work) -> Option<Output> {
    let bytes = results.load(name(unit, job)?)?;
    job.decode_output(&bytes).ok()
}

/// Keeps the result of a job, if it makes evidence.
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
