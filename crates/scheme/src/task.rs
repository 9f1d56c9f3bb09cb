//! The only unit of CPU work, and the context that it runs in.
//!
//! A role never verifies or aggregates; it emits a task and later receives the result. Whoever
//! drives the role (a worker's lane, the simulator) lends a thread pool, a stop flag and scratch
//! memory through [`Ctx`].

use alphorn_exec::{Pulse, Stop};
use alphorn_types::DecodeError;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a scheduler may know of a task before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// The operation, see [`crate::Op::kind`].
    pub kind: u16,
    /// Padded size class: tasks of one class cost about the same per element.
    pub class: u8,
    /// Number of inputs, ordered by value.
    pub inputs: u32,
    /// The scheme's own cost formula for the chosen kernel, nanoseconds of one core.
    pub prior_ns: u64,
    /// Peak working memory in bytes.
    pub memory_bytes: u64,
}

/// What a scheduler asks of the work in its queue: a [`Task`] with its environment, or in a simulation
/// whatever takes time.
pub trait Schedulable: Sized {
    /// Size and prior cost.
    fn features(&self) -> Features;

    /// The same work on its first `inputs` inputs, the most valuable ones; none if it cannot be cut
    /// there.
    fn prefix(&self, _inputs: u32) -> Option<Self> {
        None
    }

    /// Whether only a prove lane may run it, however short it is: the lanes that have processes.
    fn isolated(&self) -> bool {
        false
    }
}

/// What a lane lends to a task: a pool, a stop flag, a heart beat and scratch memory.
pub struct Ctx<'a, W> {
    pub(crate) pool: Option<&'a rayon::ThreadPool>,
    pub(crate) stop: Stop,
    pub(crate) beats: Arc<AtomicU64>,
    /// The lane's scratch memory; dropped by the lane after a panic.
    pub scratch: &'a mut W,
}

impl<'a, W> Ctx<'a, W> {
    /// A context for one thread.
    pub fn single(scratch: &'a mut W) -> Self {
        Ctx {
            pool: None,
            stop: Stop::default(),
            beats: Arc::default(),
            scratch,
        }
    }

    /// A context over a lane's pool.
    pub fn pooled(
        pool: &'a rayon::ThreadPool,
        stop: Stop,
        beats: Arc<AtomicU64>,
        scratch: &'a mut W,
    ) -> Self {
        Ctx {
            pool: Some(pool),
            stop,
            beats,
            scratch,
        }
    }

    /// A context over the calling thread alone, for a lane without a pool.
    pub fn alone(stop: Stop, beats: Arc<AtomicU64>, scratch: &'a mut W) -> Self {
        Ctx {
            pool: None,
            stop,
            beats,
            scratch,
        }
    }

    /// The lane's pool; none = compute on the calling thread.
    pub fn pool(&self) -> Option<&'a rayon::ThreadPool> {
        self.pool
    }

    /// Whether the task is asked to end. Long work polls this at least every 10 ms.
    pub fn stopped(&self) -> bool {
        self.stop.is_stopped()
    }

    /// Tells the supervisor that the task is alive.
    pub fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Stop flag and heart beat, to be lent to the pool's threads.
    pub fn pulse(&self) -> Pulse {
        Pulse::new(self.stop.clone(), self.beats.clone())
    }

    /// [`Ctx::beat`] and [`Ctx::stopped`] in one call.
    ///
    /// # Errors
    /// [`TaskError::Stopped`] if the task is asked to end.
    pub fn checkpoint(&self) -> Result<(), TaskError> {
        self.beat();
        if self.stopped() {
            Err(TaskError::Stopped)
        } else {
            Ok(())
        }
    }
}

/// Why a task has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// It was asked to end.
    #[error("the task was stopped")]
    Stopped,
    /// Inputs are bad; their indices, ascending.
    #[error("inputs {0:?} are invalid")]
    Invalid(Vec<usize>),
    /// The task cannot be done here: keys of the epoch, the signer or a reservation are missing,
    /// or the scheme lacks the ability.
    #[error("the task cannot be done: {0}")]
    Refused(String),
    /// The result failed the public verifier and was thrown away.
    #[error("the result failed its own verification")]
    SelfVerifyFailed,
}

/// A unit of CPU work that a worker schedules, tests in parts, and checks.
///
/// Implemented by [`crate::Work`].
pub trait Task: Send + Sync + Sized + 'static {
    /// What a task needs beside its inputs: scheme, key tables, signers.
    type Env: Send + Sync;
    /// What it yields.
    type Output: Send + Sync;
    /// Scratch memory of a lane.
    type Scratch: Default + Send;
    /// Inputs decoded once, so that any range of them can be tested.
    type Prepared: Send + Sync;

    /// What a scheduler may know before the task runs.
    fn features(&self, env: &Self::Env) -> Features;

    /// The same task on its first `n` inputs; none if it cannot be cut there.
    fn prefix(&self, n: usize) -> Option<Self>;

    /// Runs to completion.
    ///
    /// # Errors
    /// [`TaskError`]; a task that is stopped leaves nothing behind.
    fn run(
        &self,
        env: &Self::Env,
        ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Result<Self::Output, TaskError>;

    /// Decodes the inputs for subset tests; none if they cannot be tested in subsets.
    fn prepare(&self, env: &Self::Env, ctx: &mut Ctx<'_, Self::Scratch>) -> Option<Self::Prepared>;

    /// Whether all inputs of a range are good.
    fn check(&self, env: &Self::Env, prepared: &Self::Prepared, range: Range<usize>) -> bool;

    /// Exactly the bad inputs, ascending; none if the scheme has no better way than splitting
    /// over [`Task::check`].
    fn locate(
        &self,
        env: &Self::Env,
        prepared: &Self::Prepared,
        ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Option<Vec<usize>>;

    /// The public verifier on a result that was encoded and decoded again.
    fn verify_output(
        &self,
        env: &Self::Env,
        output: &Self::Output,
        ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> bool;

    /// Whether to run in a child process where there is one.
    fn isolate(&self, env: &Self::Env) -> bool;

    /// Bytes for a child process or an input log; none for tasks that use secrets.
    fn encode(&self) -> Option<Vec<u8>>;

    /// The inverse of [`Task::encode`].
    ///
    /// # Errors
    /// [`DecodeError`] for anything that `encode` does not make.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;

    /// Bytes of a result, so that what is verified and what crosses a process boundary is what was
    /// encoded; none for results that stay in this process. A task whose results have no bytes is
    /// never run in a child process.
    fn encode_output(&self, _output: &Self::Output) -> Option<Vec<u8>> {
        None
    }

    /// The inverse of [`Task::encode_output`].
    ///
    /// # Errors
    /// [`DecodeError`] for anything that `encode_output` does not make.
    fn decode_output(&self, _bytes: &[u8]) -> Result<Self::Output, DecodeError> {
        Err(DecodeError::UnknownTag {
            what: "result without bytes",
            value: 0,
        })
    }

    /// The environment on portable kernels, for a retry after a doubtful result; none if there is
    /// only one kernel.
    fn portable(_env: &Self::Env) -> Option<Self::Env> {
        None
    }

    /// [`Task::prepare`] with the inputs in another order, so that a search by groups does not meet
    /// them in the order of who sent them: place `i` holds input `order[i]`, `order` a permutation.
    /// None if the order cannot be changed; the search then takes the order that there is.
    fn prepare_in(
        &self,
        _env: &Self::Env,
        _order: &[u32],
        _ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Option<Self::Prepared> {
        None
    }

    /// Names the bytes of one input wherever it comes up again, so that one which ended a process
    /// is not run a second time; none if inputs have no name.
    fn input_digest(&self, _index: usize) -> Option<[u8; 32]> {
        None
    }

    /// Whether it only verifies what others made. Its time is bounded by the length of its inputs, and
    /// what takes long here takes long everywhere: one that is slow does not hang, and its inputs are
    /// not to blame.
    fn verifies(&self) -> bool {
        false
    }

    /// Whether a proof would be paid for that says no more than its one input does.
    fn is_pointless(&self, _env: &Self::Env) -> bool {
        false
    }
}
