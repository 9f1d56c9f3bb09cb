//! How a job has ended.

use alphorn_scheme::JobId;
use alphorn_worker::End;

/// Where a job ran, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnLane {
    pub(crate) lane: u16,
    pub(crate) begun_ns: u64,
}

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct Done<W> {
    pub(crate) job: JobId,
    /// Absent if the job had no lane: it ran inline or instantly, or never started.
    pub(crate) ran: Option<OnLane>,
    pub(crate) end: End,
    /// Work to execute for the product, if the job ran.
    pub(crate) work: Option<W>,
    pub(crate) leftover: u32,
}

impl<W> Done<W> {
    pub(super) fn ran(job: JobId, work: W) -> Self {
        Done {
            job,
            ran: None,
            end: End::Ran,
            work: Some(work),
            leftover: 0,
        }
    }

    pub(super) fn not_run(job: JobId, end: End) -> Self {
        Done {
            job,
            ran: None,
            end,
            work: None,
            leftover: 0,
        }
    }
}
