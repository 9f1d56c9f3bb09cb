//! The only unit of CPU work, and its execution context.
//!
//! A role never verifies or aggregates; it emits a task and later receives the result. The driver
//! of the role (a worker's lane, the simulator) provides a thread pool, a stop flag and scratch
//! memory through [`Ctx`].

use alphorn_exec::{Pulse, Stop};
use alphorn_types::DecodeError;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a scheduler may know about a task before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// The operation, see [`crate::Op::kind`].
    pub kind: u16,
    /// Padded size class: tasks of one class cost about the same per element.
    pub class: u8,
    /// Number of inputs, ordered by value.
    pub inputs: u32,
    /// The scheme's own cost estimate for the chosen kernel, in nanoseconds of one core.
    pub prior_ns: u64,
    /// Peak working memory in bytes.
    pub memory_bytes: u64,
}

/// What a scheduler needs to know about queued work: a [`Task`] with its environment, or in a
/// simulation anything that takes time.
pub trait Schedulable: Sized {
    /// Size and prior cost.
    fn features(&self) -> Features;

    /// The same work on its first `inputs` inputs, the most valuable ones; none if it cannot be cut
    /// there.
    fn prefix(&self, _inputs: u32) -> Option<Self> {
        None
    }

    /// Whether it must run on a prove lane, since those have processes, however short it is.
    fn isolated(&self) -> bool {
        false
    }
}

/// What a lane provides to a task: a pool, a stop flag, a heartbeat and scratch memory.
pub struct Ctx<'a, W> {
    pub(crate) pool: Option<&'a rayon::ThreadPool>,
    pub(crate) stop: Stop,
    pub(crate) beats: Arc<AtomicU64>,
    /// The lane's scratch memory; the lane drops it after a panic.
    pub scratch: &'a mut W,
}

impl<'a, W> Ctx<'a, W> {
    /// Creates a context for one thread.
    pub fn single(scratch: &'a mut W) -> Self {
        Ctx {
            pool: None,
            stop: Stop::default(),
            beats: Arc::default(),
            scratch,
        }
    }

    /// Creates a context with a lane's pool.
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

    /// Creates a context for the calling thread only, for a lane without a pool.
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

    /// Whether the task has been asked to stop. Long work polls this at least every 10 ms.
    pub fn stopped(&self) -> bool {
        self.stop.is_stopped()
    }

    /// Signals to the supervisor that the task is alive.
    pub fn beat(&self) {
        // The supervisor only looks for a change of the count; no other memory is ordered by it.
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Stop flag and heartbeat, for use by the pool's threads.
    pub fn pulse(&self) -> Pulse {
        Pulse::new(self.stop.clone(), self.beats.clone())
    }

    /// [`Ctx::beat`] and [`Ctx::stopped`] in one call.
    ///
    /// # Errors
    /// [`TaskError::Stopped`] if the task has been asked to stop.
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
    /// It was asked to stop.
    #[error("the task was stopped")]
    Stopped,
    /// Some inputs are bad; their indices, ascending.
    #[error("inputs {0:?} are invalid")]
    Invalid(Vec<usize>),
    /// The task cannot be done here: keys of the epoch, the signer or a reservation are missing,
    /// or the scheme lacks the ability.
    #[error("the task cannot be done: {0}")]
    Refused(String),
    /// The result failed the public verifier and was discarded.
    #[error("the result failed its own verification")]
    SelfVerifyFailed,
}

/// A unit of CPU work that a worker schedules, tests in parts, and checks.
///
/// Implemented by [`crate::Work`].
pub trait Task: Send + Sync + Sized + 'static {
    /// What a task needs in addition to its inputs: scheme, key tables, signers.
    type Env: Send + Sync;
    /// Its result.
    type Output: Send + Sync;
    /// Scratch memory of a lane.
    type Scratch: Default + Send;
    /// Inputs decoded once, so that any range of them can be tested.
    type Prepared: Send + Sync;

    /// What a scheduler may know before the task runs.
    fn features(&self, env: &Self::Env) -> Features;

    /// The same task on a range of its inputs; none if it cannot be cut there.
    fn part(&self, inputs: Range<usize>) -> Option<Self>;

    /// Runs to completion.
    ///
    /// # Errors
    /// [`TaskError`]; a stopped task leaves nothing behind.
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

    /// Runs the public verifier on a result that was encoded and decoded again.
    fn verify_output(
        &self,
        env: &Self::Env,
        output: &Self::Output,
        ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> bool;

    /// Whether to run in a child process if there is one.
    fn isolate(&self, env: &Self::Env) -> bool;

    /// Bytes for a child process or an input log; none for tasks that use secrets.
    fn encode(&self) -> Option<Vec<u8>>;

    /// The inverse of [`Task::encode`].
    ///
    /// # Errors
    /// [`DecodeError`] for anything that `encode` does not produce.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;

    /// Bytes of a result, so that the verified result and the one that crosses a process boundary
    /// are what was encoded; none for results that stay in this process. A task whose results have
    /// no bytes never runs in a child process.
    fn encode_output(&self, _output: &Self::Output) -> Option<Vec<u8>> {
        None
    }

    /// The inverse of [`Task::encode_output`].
    ///
    /// # Errors
    /// [`DecodeError`] for anything that `encode_output` does not produce.
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

    /// [`Task::prepare`] with the inputs permuted, so that a group search does not test them in
    /// sender order: place `i` holds input `order[i]`, where `order` is a permutation. None if the
    /// order cannot be changed; the search then uses the existing order.
    fn prepare_in(
        &self,
        _env: &Self::Env,
        _order: &[u32],
        _ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Option<Self::Prepared> {
        None
    }

    /// Identifies the bytes of one input wherever it reappears, so that one that crashed a process
    /// is not run again; none if inputs have no name.
    fn input_digest(&self, _index: usize) -> Option<[u8; 32]> {
        None
    }

    /// Whether it only verifies the work of others. Its time is bounded by the length of its
    /// inputs, and what is slow here is slow everywhere: a slow one does not count as hung, and its
    /// inputs are not to blame.
    fn verifies(&self) -> bool {
        false
    }

    /// Whether it would produce a costly proof that says no more than its only input.
    fn is_pointless(&self, _env: &Self::Env) -> bool {
        false
    }
}
