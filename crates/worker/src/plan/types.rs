//! What a driver and the plan tell each other.

use alphorn_scheme::{Class, Group, JobId, SessionId};
use alphorn_types::Time;
use thiserror::Error;

/// What a lane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// Jobs of at most [`Config::fast_max_ns`], on one thread.
    Fast,
    /// Longer ones, on several threads.
    Prove,
}

/// Bounds and lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Lanes for short jobs; they are numbered first.
    pub fast_lanes: u16,
    /// Lanes for long jobs.
    pub prove_lanes: u16,
    /// Threads of a prove lane.
    pub prove_threads: u16,
    /// Jobs that wait, at most.
    pub jobs_queued_max: u32,
    /// Bytes of the inputs of jobs that wait, at most.
    pub queue_bytes_max: u64,
    /// Open sessions, at most.
    pub sessions_open_max: u32,
    /// Working memory of running jobs, at most, in bytes.
    pub memory_budget_bytes: u64,
    /// Nanoseconds between the end of a job and `soft` that publishing needs.
    pub publish_margin_ns: u64,
    /// Longest 90 % prediction of a job for a fast lane, in nanoseconds.
    pub fast_max_ns: u64,
}

impl Default for Config {
    /// One fast and one prove lane, and the bounds of a node.
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
    /// The lanes of a machine with `cores` cores: the prover gets all of up to two, all but one of
    /// up to eight, all but two of more; half of the cores, at least one and at most eight, serve
    /// short jobs and overlap with them.
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
    /// Its name.
    pub id: SessionId,
    /// When its jobs come: long work of less value does not start if it would run into this.
    pub open: Time,
    /// Latest finish that still meets the phase.
    pub soft: Time,
    /// From here on its jobs have no value.
    pub hard: Time,
}

/// A job to be done.
#[derive(Clone, Debug)]
pub struct Request<T> {
    /// Whose it is: those who have jobs that wait take turns, whatever their classes. The same for
    /// all jobs of who has the worker alone.
    pub client: u32,
    /// The session that it belongs to; its bounds hold if it is open, beside those below.
    pub session: SessionId,
    /// What it is about.
    pub group: Group,
    /// A newer job of the same role and group replaces this one while it waits; none = it is
    /// never replaced. Only for jobs that take all inputs there are.
    pub replaces: Option<u16>,
    /// Its class.
    pub class: Class,
    /// Latest finish that still meets the phase.
    pub soft: Time,
    /// From here on it has no value.
    pub hard: Time,
    /// Votes that it adds to what is held.
    pub votes: u32,
    /// Bytes of its inputs, while it waits.
    pub bytes: u64,
    /// What to do.
    pub work: T,
}

impl<T> Request<T> {
    /// The same with other work.
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

/// Why a submission was not accepted, or a waiting job given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// As many jobs wait as may, and none of them is worth less.
    #[error("{max} jobs wait, and none of them is worth less")]
    QueueFull {
        /// The bound.
        max: u32,
    },
    /// The inputs do not fit beside those that wait, and nothing is worth less.
    #[error("{bytes} bytes of inputs do not fit into {max}")]
    BytesFull {
        /// Bytes of the job.
        bytes: u64,
        /// The bound.
        max: u64,
    },
    /// As many sessions are open as may be.
    #[error("{max} sessions are open")]
    SessionsFull {
        /// The bound.
        max: u32,
    },
    /// It has no value any more.
    #[error("the job has no value any more")]
    Expired,
    /// It needs more memory than there is, and cannot be cut.
    #[error("{bytes} bytes of memory needed, the budget is {max}")]
    Memory {
        /// Bytes needed.
        bytes: u64,
        /// The budget.
        max: u64,
    },
}

/// How a run ended, as the lane reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// To its end, in so many nanoseconds.
    Through {
        /// Time of the run.
        ran_ns: u64,
    },
    /// To its end, but not in the way that the costs speak of: bad inputs were found, or it was
    /// done a second time.
    Astray {
        /// Time of the run.
        ran_ns: u64,
    },
    /// It was asked to stop, and did.
    Stopped,
    /// It panicked or its process died.
    Crashed,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ran; the lane has the result. Also if it was asked to stop and was faster.
    Ran,
    /// A newer one of the same role and group replaced it.
    Superseded,
    /// Its session ended or its value was gone before it ran, or it was stopped.
    Cancelled,
    /// It gave way to a better one.
    Refused(Refused),
    /// Its run crashed.
    Crashed,
}

/// The end of a job; one for each accepted submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Which.
    pub job: JobId,
    /// Its session.
    pub(crate) session: SessionId,
    /// What it was about.
    pub(crate) group: Group,
    /// How it ended.
    pub end: End,
    /// It ended after `soft`.
    pub(crate) late: bool,
    /// Inputs that were cut off, to be submitted again.
    pub leftover: u32,
    /// Nanoseconds that it waited.
    pub(crate) queued_ns: u64,
    /// Nanoseconds that it ran.
    pub(crate) ran_ns: u64,
}

/// What the plan wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A job ended.
    Finished(Finished),
    /// Ask the job on a lane to stop; its end is reported as usual.
    Stop {
        /// The lane.
        lane: usize,
        /// The job that runs there.
        job: JobId,
    },
}

/// A job that a lane is to run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start<T> {
    /// Which.
    pub job: JobId,
    /// What to do: the submitted work, or a prefix of it.
    pub work: T,
    /// Half of such jobs end by then.
    pub t50_ns: u64,
    /// Nine in ten do.
    pub t90_ns: u64,
    /// Ninety-nine in a hundred do.
    pub t99_ns: u64,
    /// It will most likely be late, and runs because nothing else can.
    pub(crate) probe: bool,
}
