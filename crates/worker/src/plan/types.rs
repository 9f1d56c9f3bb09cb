//! Types exchanged between a driver and the plan.

use alphorn_scheme::{Class, Group, JobId, SessionId};
use alphorn_types::Time;
use thiserror::Error;

/// The purpose of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// Jobs of at most [`Config::fast_max_ns`], on one thread.
    Fast,
    /// Longer jobs, on several threads.
    Prove,
}

/// Lanes and bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of lanes for short jobs; they are numbered first.
    pub fast_lanes: u16,
    /// Number of lanes for long jobs.
    pub prove_lanes: u16,
    /// Number of threads of a prove lane.
    pub prove_threads: u16,
    /// Maximum number of waiting jobs.
    pub jobs_queued_max: u32,
    /// Maximum bytes of the inputs of waiting jobs.
    pub queue_bytes_max: u64,
    /// Maximum number of open sessions.
    pub sessions_open_max: u32,
    /// Maximum working memory of running jobs, in bytes.
    pub memory_budget_bytes: u64,
    /// Nanoseconds that publishing needs between the end of a job and `soft`.
    pub publish_margin_ns: u64,
    /// Maximum 90 % prediction of a job for a fast lane, in nanoseconds.
    pub fast_max_ns: u64,
}

impl Default for Config {
    /// One fast and one prove lane, with the bounds of a node.
    fn default() -> Self {
        Self {
            fast_lanes: 1,
            prove_lanes: 1,
            prove_threads: 2,
            jobs_queued_max: 1024,
            queue_bytes_max: 256 << 20,
            sessions_open_max: 64,
            memory_budget_bytes: 8 << 30,
            publish_margin_ns: 50_000_000,
            fast_max_ns: 50_000_000,
        }
    }
}

impl Config {
    /// Returns the lanes for a host with `cores` cores. The prover gets all of up to two, all but
    /// one of up to eight, all but two of more. Half of the cores, at least one and at most eight,
    /// serve short jobs and overlap with the prover's.
    pub fn for_cores(cores: u16) -> Self {
        let cores = cores.max(1);
        Self {
            fast_lanes: (cores / 2).clamp(1, 8),
            prove_threads: match cores {
                1 | 2 => cores,
                3..=8 => cores - 1,
                _ => cores - 2,
            },
            ..Self::default()
        }
    }

    /// Number of lanes.
    pub fn lanes(&self) -> usize {
        usize::from(self.fast_lanes) + usize::from(self.prove_lanes)
    }
}

/// The working interval of one role for one group family in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// When its jobs arrive. Long work of lower value does not start if it would still run then.
    pub open: Time,
    /// Latest finish that still meets the phase.
    pub soft: Time,
    /// Time after which its jobs have no value.
    pub hard: Time,
}

/// A submitted job.
#[derive(Clone, Debug)]
pub struct Request<T> {
    /// The client it belongs to. Clients with waiting jobs take turns, whatever the classes. A sole
    /// user of the worker uses the same number for all jobs.
    pub client: u32,
    /// The session it belongs to. If it is open, its bounds apply in addition to those below.
    pub session: SessionId,
    /// The group it concerns.
    pub group: Group,
    /// A newer job of the same role and group replaces this one while it waits; none = it is never
    /// replaced. Only for jobs that take all available inputs.
    pub replaces: Option<u16>,
    /// Its class.
    pub class: Class,
    /// Latest finish that still meets the phase.
    pub soft: Time,
    /// Time after which it has no value.
    pub hard: Time,
    /// Number of votes that it adds to those held.
    pub votes: u32,
    /// Bytes of its inputs while it waits.
    pub bytes: u64,
    /// The work to do.
    pub work: T,
}

impl<T> Request<T> {
    /// The same request with other work.
    pub fn with<U>(&self, work: U) -> Request<U> {
        Request {
            client: self.client,
            session: self.session,
            group: self.group,
            replaces: self.replaces,
            class: self.class,
            soft: self.soft,
            hard: self.hard,
            votes: self.votes,
            bytes: self.bytes,
            work,
        }
    }
}

/// Why a submission was not accepted, or a waiting job was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The maximum number of jobs is waiting, and none of them is worth less.
    #[error("{max} jobs wait, and none of them is worth less")]
    QueueFull {
        /// The bound.
        max: u32,
    },
    /// The inputs do not fit next to those waiting, and nothing is worth less.
    #[error("{bytes} bytes of inputs do not fit into {max}")]
    BytesFull {
        /// Bytes of the job.
        bytes: u64,
        /// The bound.
        max: u64,
    },
    /// The maximum number of sessions is open.
    #[error("{max} sessions are open")]
    SessionsFull {
        /// The bound.
        max: u32,
    },
    /// It no longer has any value.
    #[error("the job has no value any more")]
    Expired,
    /// It needs more memory than available, and cannot be cut.
    #[error("{bytes} bytes of memory needed, the budget is {max}")]
    Memory {
        /// Bytes needed.
        bytes: u64,
        /// The budget.
        max: u64,
    },
}

/// How a run ended, as reported by the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It completed.
    Through {
        /// Time of the run.
        ran_ns: u64,
    },
    /// It completed, but not in the way that the costs describe: bad inputs were found, or it was
    /// run a second time.
    Astray {
        /// Time of the run.
        ran_ns: u64,
    },
    /// It was asked to stop, and stopped.
    Stopped,
    /// It panicked, or its process died.
    Crashed,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ran, and the lane has the result. Also if it was asked to stop but finished first.
    Ran,
    /// Replaced by a newer job of the same role and group.
    Superseded,
    /// Its session ended or its value was lost before it ran, or it was stopped.
    Cancelled,
    /// Dropped for a better one.
    Refused(Refused),
    /// Its run crashed.
    Crashed,
}

/// The end of a job; exactly one per accepted submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The job.
    pub job: JobId,
    /// Its session.
    pub(crate) session: SessionId,
    /// The group it concerned.
    pub(crate) group: Group,
    /// How it ended.
    pub end: End,
    /// It ended after `soft`.
    pub(crate) late: bool,
    /// Number of inputs that were cut off and must be submitted again.
    pub leftover: u32,
    /// Nanoseconds spent waiting.
    pub(crate) queued_ns: u64,
    /// Nanoseconds spent running.
    pub(crate) ran_ns: u64,
}

/// An effect requested by the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A job ended.
    Finished(Finished),
    /// Ask the job on a lane to stop. Its end is reported as usual.
    Stop {
        /// The lane.
        lane: usize,
        /// The job running on it.
        job: JobId,
    },
}

/// A job that a lane must run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start<T> {
    /// The job.
    pub job: JobId,
    /// The work: what was submitted, or a prefix of it.
    pub work: T,
    /// Half of such jobs finish within this time.
    pub t50_ns: u64,
    /// Nine in ten do.
    pub t90_ns: u64,
    /// Ninety-nine in a hundred do.
    pub t99_ns: u64,
    /// It will most likely be late, and runs because nothing else can.
    pub(crate) probe: bool,
}
