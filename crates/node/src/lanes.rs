//! Who runs the jobs of a node, as its loop sees it.

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

/// A job that ended.
#[derive(Debug)]
pub struct Ended {
    /// Which.
    pub(crate) job: JobId,
    /// How.
    pub(crate) outcome: Outcome<Product>,
    /// Its operation, for metrics.
    pub(crate) op: &'static str,
    /// What it was about.
    pub(crate) group: Group,
    /// Its last run; none if it never ran.
    pub(crate) run: Option<Run>,
    /// How long it waited, in nanoseconds.
    pub(crate) queued_ns: u64,
    /// How long it ran, in nanoseconds.
    pub(crate) ran_ns: u64,
    /// Whether it ended after its soft deadline.
    pub(crate) late: bool,
}

impl Ended {
    /// The end of a job that was not taken, and why.
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

/// What went wrong in lanes since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Troubles {
    /// Runs that panicked or whose process died.
    pub crashes: u64,
    /// Runs that were given up because they hung.
    pub hangs: u64,
    /// Results that failed their own verification; none of them left the node.
    pub self_verify_failures: u64,
    /// Frames of processes that were replaced.
    pub stale_frames: u64,
    /// Inputs and jobs that ended a run and are not run again.
    pub quarantined: u64,
    /// Whether long jobs are refused, because too many threads never came back.
    pub(crate) degraded: bool,
    /// Whether everything runs on portable kernels, because another gave wrong results.
    pub(crate) kernel_disabled: bool,
}

/// Runs jobs away from the loop. No call blocks.
pub trait Lanes: Send + Sync + 'static {
    /// Says what protocol time is, by which the bounds of jobs go. From then on the lanes count it by
    /// a clock that nobody sets, until they are told again; where it goes back they stand still.
    fn keep_time(&self, now: Time);

    /// Takes a job; each job that is taken ends once.
    ///
    /// # Errors
    /// Why it is not taken.
    fn submit(&self, spawn: Spawn) -> Result<(), String>;

    /// Gives up the jobs of a session; they still end.
    fn cancel(&self, session: SessionId);

    /// The next job that ended.
    fn poll(&self) -> Option<Ended>;

    /// Nanoseconds since the start in which lanes were busy: the fast ones, the others.
    fn busy_ns(&self) -> Vec<u64>;

    /// What went wrong so far.
    fn troubles(&self) -> Troubles;

    /// Ends all lanes, within a second.
    fn shutdown(&self);
}
