//! What goes over the scheduler: jobs in, orders to lanes, reports back, results out.

use super::crash::Quarantine;
use crate::child::ChildCommand;
use crate::plan;
use alphorn_exec::Stop;
use alphorn_scheme::{Features, Group, JobId, Outcome, Schedulable, SessionId, Task};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// An environment, its portable twin once that is needed, and how a child makes the same.
pub(crate) struct Environment<T: Task> {
    /// Counts environments, so that a child of an older one is noticed.
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

    /// The environment; the portable twin if that is wanted and there is one.
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
    /// What such tasks took beyond what their scheme says, in thousandths.
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

    /// What the scheme says.
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
        let task = Arc::new(self.task.prefix(inputs as usize)?);
        let cut = Self::new(task, self.env.clone());
        Some(cut.with_memory(self.memory_permille))
    }

    fn isolated(&self) -> bool {
        self.isolated
    }
}

/// What a lane is to do.
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
    /// With the name of the task, if it has one.
    Crashed(Option<[u8; 32]>),
    /// It was given up in this process, and is not run again.
    Hung(Option<[u8; 32]>),
    Faulty,
}

/// What a lane says of an order.
pub(crate) struct Report<O> {
    pub(crate) ended: Ended<O>,
    pub(crate) ran_ns: u64,
    pub(crate) cpu_ns: u64,
    /// The time is that of one run from beginning to end.
    pub(crate) usual: bool,
    /// The result was faulty, and right on portable kernels.
    pub(crate) kernel_fault: bool,
    /// Results that failed verification.
    pub(crate) faults: u64,
    /// Memory at its peak, zero if unknown.
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

/// Where the time of a job went, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// It waited.
    pub queued_ns: u64,
    /// It ran; all its runs together.
    pub ran_ns: u64,
    /// Processor time of the thread that ran it, or of its child process with all threads.
    pub cpu_ns: u64,
}

/// The last run of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where: fast lanes first, then prove lanes.
    pub lane: u16,
    /// Inputs that were not cut off.
    pub inputs: u32,
    /// Nanoseconds within which half of such jobs end, as was predicted at its start.
    pub predicted_ns: u64,
}

/// The end of a job; one for each accepted submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished<O> {
    /// Which, as [`Worker::submit`](crate::Worker::submit) named it.
    pub job: JobId,
    /// Its session.
    pub session: SessionId,
    /// What it was about.
    pub group: Group,
    /// How it ended.
    pub outcome: Outcome<O>,
    /// It ended after `soft`; whether it is of use is the role's decision
    /// ([`alphorn_scheme::classify`]).
    pub late: bool,
    /// Inputs at the end that were cut off, to be submitted again.
    pub leftover: u32,
    /// The invalid inputs are no bad signatures: they end whoever runs them, and no other input was
    /// looked at.
    pub crasher: bool,
    /// Where its time went.
    pub timing: Timing,
    /// Its last run; none if it never ran.
    pub run: Option<Run>,
}

/// A job that runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Which, as [`Worker::submit`](crate::Worker::submit) named it.
    pub job: JobId,
    /// The run: where, on how many inputs, and how long such jobs take.
    pub run: Run,
    /// Nanoseconds that this run has lasted.
    pub ran_ns: u64,
    /// Signs of life so far.
    pub beats: u64,
}

/// Why a submission was not accepted; nothing is reported of it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Queue, memory, or time.
    #[error(transparent)]
    Refused(#[from] plan::Refused),
    /// So many jobs are accepted and not received: call `try_recv`.
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
        /// How often.
        crashes: usize,
        /// The first slot that takes it again.
        until: u64,
    },
    /// Too many lanes hang; only short jobs are taken.
    #[error("{abandoned} lanes hang: only short jobs are taken")]
    Degraded {
        /// Lanes whose thread never came back, or that have none.
        abandoned: u32,
    },
    /// The worker ends.
    #[error("the worker ends")]
    Closing,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Submissions accepted.
    pub accepted: u64,
    /// Submissions refused.
    pub refused: u64,
    /// Jobs delivered, however they ended.
    pub delivered: u64,
    /// Of them with a result.
    pub done: u64,
    /// With bad inputs.
    pub(crate) invalid: u64,
    /// With a result after `soft`.
    pub late: u64,
    /// Runs that panicked or whose child died.
    pub crashes: u64,
    /// Runs that were given up because they hung.
    pub hangs: u64,
    /// Results that failed their own verification.
    pub self_verify_failures: u64,
    /// Frames of replaced children.
    pub stale_frames: u64,
    /// Nanoseconds that fast lanes ran jobs.
    pub fast_busy_ns: u64,
    /// Nanoseconds that prove lanes ran jobs.
    pub prove_busy_ns: u64,
}

/// How a worker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Jobs that wait.
    pub queued: usize,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that have ended and are not received.
    pub(crate) undelivered: usize,
    /// Threads that never came back.
    pub abandoned: u32,
    /// More of them than may be, or a lane has no thread: long jobs are refused.
    pub degraded: bool,
    /// A kernel gave wrong results: everything runs on portable ones until the worker is started
    /// anew.
    pub kernel_disabled: bool,
    /// Low-memory mode.
    pub(crate) low_memory: bool,
    /// Inputs and jobs that are not run again.
    pub quarantined: usize,
    /// What happened so far.
    pub counts: Counts,
}
