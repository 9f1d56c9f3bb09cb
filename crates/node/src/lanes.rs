//! The job runner of a node, as its loop sees it.

mod child;
#[cfg(test)]
mod crashers;
mod pool;

use alphorn_proto::Spawn;
use alphorn_scheme::{Group, JobId, Outcome, Product, SessionId};
use alphorn_types::Time;
use alphorn_worker::Run;
use serde::{Deserialize, Serialize};

pub use child::serve_child;
pub use pool::Pool;

/// A finished job.
#[derive(Debug)]
pub struct Ended {
    /// Its ID.
    pub(crate) job: JobId,
    /// Its outcome.
    pub(crate) outcome: Outcome<Product>,
    /// Its operation, for metrics.
    pub(crate) op: &'static str,
    /// What it was for.
    pub(crate) group: Group,
    /// Its last run, or none if it never ran.
    pub(crate) run: Option<Run>,
    /// Queueing time, in nanoseconds.
    pub(crate) queued_ns: u64,
    /// Run time, in nanoseconds.
    pub(crate) ran_ns: u64,
    /// Whether it ended after its soft deadline.
    pub(crate) late: bool,
}

impl Ended {
    /// The result of a job that was not accepted, with the reason.
    pub(crate) fn refused(job: JobId, op: &'static str, group: Group, why: String) -> Self {
        Ended {
            job,
            outcome: Outcome::Refused(why),
            op,
            group,
            run: None,
            queued_ns: 0,
            ran_ns: 0,
            late: false,
        }
    }
}

/// Failures in lanes since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Troubles {
    /// Runs that panicked or whose process died.
    pub crashes: u64,
    /// Runs that were aborted because they hung.
    pub hangs: u64,
    /// Results that failed their own verification; none of them left the node.
    pub self_verify_failures: u64,
    /// Frames of replaced processes.
    pub stale_frames: u64,
    /// Inputs and jobs that ended a run and are not run again.
    pub quarantined: u64,
    /// Whether long jobs are refused, because too many threads never came back.
    pub(crate) degraded: bool,
    /// Whether everything runs on portable kernels, because another one gave wrong results.
    pub(crate) kernel_disabled: bool,
}

/// Runs jobs outside the loop. No call blocks.
pub trait Lanes: Send + Sync + 'static {
    /// Sets protocol time, which the bounds of jobs refer to. From then on the lanes advance it by a monotonic clock
    /// until the next call. If it goes back, it stands still.
    fn keep_time(&self, now: Time);

    /// Submits a job. Each accepted job ends exactly once.
    ///
    /// # Errors
    /// Why it is not accepted.
    fn submit(&self, spawn: Spawn) -> Result<(), String>;

    /// Cancels the jobs of a session. They still end.
    fn cancel(&self, session: SessionId);

    /// The next finished job.
    fn poll(&self) -> Option<Ended>;

    /// Nanoseconds since the start in which lanes were busy: the fast ones, the others.
    fn busy_ns(&self) -> Vec<u64>;

    /// The failures so far.
    fn troubles(&self) -> Troubles;

    /// Stops all lanes, within a second.
    fn shutdown(&self);
}
