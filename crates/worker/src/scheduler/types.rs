//! Types that pass through the scheduler: jobs in, orders to lanes, reports back, results out.

use super::crash::Quarantine;
use crate::child::ChildCommand;
use crate::plan;
use alphorn_exec::Stop;
use alphorn_scheme::{Features, Group, JobId, Outcome, Schedulable, SessionId, Task};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// An environment, its portable twin once needed, and how a child builds the same.
pub(crate) struct Environment<T: Task> {
    /// Counts environments, so that a child of an older one can be detected.
    pub(crate) number: u64,
    env: T::Env,
    portable: OnceLock<Option<T::Env>>,
    pub(crate) child: Option<ChildCommand>,
}

impl<T: Task> Environment<T> {
    pub(crate) fn new(number: u64, env: T::Env, child: Option<ChildCommand>) -> Self {
        Self {
            number,
            env,
            portable: OnceLock::new(),
            child,
        }
    }

    /// Returns the environment, or the portable twin if requested and present.
    pub(crate) fn on(&self, portable: bool) -> &T::Env {
        let twin = match portable {
            true => self
                .portable
                .get_or_init(|| T::portable(&self.env))
                .as_ref(),
            false => None,
        };
        twin.unwrap_or(&self.env)
    }

    /// Whether there is a portable twin.
    pub(crate) fn has_portable(&self) -> bool {
        let twin = self.portable.get_or_init(|| T::portable(&self.env));
        twin.is_some()
    }
}

/// A task as the plan sees it.
pub(crate) struct Load<T: Task> {
    pub(crate) task: Arc<T>,
    env: Arc<Environment<T>>,
    features: Features,
    /// Memory use of such tasks relative to their scheme's estimate, in thousandths.
    memory_permille: u64,
    isolated: bool,
}

impl<T: Task> Load<T> {
    pub(crate) fn new(task: Arc<T>, env: Arc<Environment<T>>) -> Self {
        Self {
            features: task.features(env.on(false)),
            isolated: env.child.is_some() && task.isolate(env.on(false)),
            task,
            env,
            memory_permille: 1000,
        }
    }

    /// The scheme's own estimate.
    pub(crate) fn said(&self) -> Features {
        self.features
    }

    pub(crate) fn with_memory(mut self, permille: u64) -> Self {
        self.memory_permille = permille;
        self
    }
}

impl<T: Task> Schedulable for Load<T> {
    fn features(&self) -> Features {
        let bytes = u128::from(self.features.memory_bytes) * u128::from(self.memory_permille);
        Features {
            memory_bytes: u64::try_from(bytes / 1000).unwrap_or(u64::MAX),
            ..self.features
        }
    }

    fn prefix(&self, inputs: u32) -> Option<Self> {
        let task = Arc::new(self.task.part(0..inputs as usize)?);
        let cut = Self::new(task, self.env.clone());
        Some(cut.with_memory(self.memory_permille))
    }

    fn isolated(&self) -> bool {
        self.isolated
    }
}

/// An order for a lane.
pub(crate) struct Order<T: Task> {
    pub(crate) job: JobId,
    pub(crate) task: Arc<T>,
    pub(crate) env: Arc<Environment<T>>,
    pub(crate) isolated: bool,
    pub(crate) portable: bool,
    pub(crate) seed: u64,
    pub(crate) stop: Stop,
    pub(crate) beats: Arc<AtomicU64>,
    /// None while it is empty.
    pub(crate) quarantine: Option<Arc<Quarantine>>,
}

/// How an order ended.
pub(crate) enum Ended<O> {
    Done(O),
    Invalid {
        bad: Vec<usize>,
        crasher: bool,
    },
    Refused(String),
    Stopped,
    /// Includes the name of the task, if it has one.
    Crashed(Option<[u8; 32]>),
    /// It was abandoned in this process, and is not run again.
    Hung(Option<[u8; 32]>),
    Faulty,
}

/// A lane's report on an order.
pub(crate) struct Report<O> {
    pub(crate) ended: Ended<O>,
    pub(crate) ran_ns: u64,
    pub(crate) cpu_ns: u64,
    /// The time is that of a single run from start to finish.
    pub(crate) usual: bool,
    /// The result was faulty, and correct on portable kernels.
    pub(crate) kernel_fault: bool,
    /// Number of results that failed verification.
    pub(crate) faults: u64,
    /// Peak memory; zero if unknown.
    pub(crate) peak_bytes: u64,
}

impl<O> Report<O> {
    pub(crate) fn of(ended: Ended<O>) -> Self {
        Self {
            ended,
            ran_ns: 0,
            cpu_ns: 0,
            usual: false,
            kernel_fault: false,
            faults: 0,
            peak_bytes: 0,
        }
    }
}

/// Time spent on a job, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Waiting.
    pub queued_ns: u64,
    /// Running, over all its runs.
    pub ran_ns: u64,
    /// Processor time of the thread that ran it, or of its child process over all threads.
    pub cpu_ns: u64,
}

/// The last run of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The lane: fast lanes first, then prove lanes.
    pub lane: u16,
    /// Number of inputs that were not cut off.
    pub inputs: u32,
    /// Nanoseconds within which half of such jobs end, as predicted at its start.
    pub predicted_ns: u64,
}

/// The end of a job; exactly one per accepted submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished<O> {
    /// The job, as named by [`Worker::submit`](crate::Worker::submit).
    pub job: JobId,
    /// Its session.
    pub session: SessionId,
    /// The group it concerned.
    pub group: Group,
    /// How it ended.
    pub outcome: Outcome<O>,
    /// It ended after `soft`. Whether it is still useful is the role's decision
    /// ([`alphorn_scheme::classify`]).
    pub late: bool,
    /// Number of trailing inputs that were cut off and must be submitted again.
    pub leftover: u32,
    /// The invalid inputs are not bad signatures: they crash the process that runs them, and no
    /// other input was checked.
    pub crasher: bool,
    /// Time spent on it.
    pub timing: Timing,
    /// Its last run; none if it never ran.
    pub run: Option<Run>,
}

/// A running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The job, as named by [`Worker::submit`](crate::Worker::submit).
    pub job: JobId,
    /// The run: its lane, number of inputs, and the typical time of such jobs.
    pub run: Run,
    /// Nanoseconds since this run started.
    pub ran_ns: u64,
    /// Number of beats so far.
    pub beats: u64,
}

/// Why a submission was not accepted. No result is reported for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Queue, memory, or time.
    #[error(transparent)]
    Refused(#[from] plan::Refused),
    /// The maximum number of jobs is accepted and not yet received: call `try_recv`.
    #[error("{max} jobs are not received yet")]
    Undelivered {
        /// The bound.
        max: usize,
    },
    /// A proof over one signature says no more than the signature.
    #[error("a proof over one signature says no more than the signature")]
    Pointless,
    /// The group's jobs crashed too often.
    #[error("jobs of this group crashed {crashes} times; refused to slot {until}")]
    GroupCrashes {
        /// Number of crashes.
        crashes: usize,
        /// The first slot in which it is accepted again.
        until: u64,
    },
    /// Too many lanes hang; only short jobs are accepted.
    #[error("{abandoned} lanes hang: only short jobs are taken")]
    Degraded {
        /// Number of lanes whose thread never returned, or that have none.
        abandoned: u32,
    },
    /// The worker is shutting down.
    #[error("the worker ends")]
    Closing,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Submissions accepted.
    pub accepted: u64,
    /// Submissions refused.
    pub refused: u64,
    /// Jobs delivered, with any outcome.
    pub delivered: u64,
    /// Jobs delivered with a result.
    pub done: u64,
    /// Jobs delivered with bad inputs.
    pub(crate) invalid: u64,
    /// Jobs delivered with a result after `soft`.
    pub late: u64,
    /// Runs that panicked or whose child died.
    pub crashes: u64,
    /// Runs abandoned because they hung.
    pub hangs: u64,
    /// Results that failed their own verification.
    pub self_verify_failures: u64,
    /// Frames from replaced children.
    pub stale_frames: u64,
    /// Nanoseconds for which fast lanes ran jobs.
    pub fast_busy_ns: u64,
    /// Nanoseconds for which prove lanes ran jobs.
    pub prove_busy_ns: u64,
}

/// Status of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Number of waiting jobs.
    pub queued: usize,
    /// Number of running jobs.
    pub running: usize,
    /// Number of jobs that ended but were not yet received.
    pub(crate) undelivered: usize,
    /// Number of threads that never returned.
    pub abandoned: u32,
    /// More of them than permitted, or a lane has no thread: long jobs are refused.
    pub degraded: bool,
    /// A kernel gave wrong results: everything runs on portable ones until the worker is restarted.
    pub kernel_disabled: bool,
    /// Low-memory mode.
    pub(crate) low_memory: bool,
    /// Number of inputs and jobs that are not run again.
    pub quarantined: usize,
    /// Counters since the start.
    pub counts: Counts,
}
