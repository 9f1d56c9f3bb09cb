//! The threads around the scheduler: lanes that run jobs, and a keeper that watches deadlines and
//! lanes.

use super::lane::{Bench, STACK_BYTES, name_of};
use super::sync::{Builder, Condvar, Instant, JoinHandle, Mutex, MutexGuard};
use crate::child::AtWork;
use crate::config::WorkerConfig;
use crate::plan::{LaneKind, Refused, Request, Session};
use crate::scheduler::{
    At, Environment, Finished, Hung, Load, Running, Scheduler, Status, SubmitError, Turn,
};
use alphorn_scheme::{JobId, SessionId, Task};
use alphorn_types::Time;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Maximum interval between the keeper's checks of the lanes.
const TICK_MAX: Duration = Duration::from_millis(250);

/// Minimum interval between the keeper's checks of the lanes, except for deadlines.
const TICK_MIN: Duration = Duration::from_millis(5);

/// Time for the lane of a killed child to report at shutdown.
const LAST_WORD: Duration = Duration::from_millis(200);

/// Runs tasks on its own lanes, so that the driver of a protocol never waits for them.
///
/// `open` a session, `submit` its jobs, and collect results with `try_recv` when the function given
/// to `start` has been called. No call blocks for longer than one scheduling decision.
///
/// **Each accepted submission yields exactly one [`Finished`]**, also if its job panics, its child
/// is killed, it hangs, or the worker is shut down.
///
/// Sessions and jobs use the clock that the worker was started with. If that clock jumps, so do the
/// deadlines of jobs, so it must not be an adjustable wall clock. An embedder passes the clock of
/// its protocol, or [`steady_time`](crate::steady_time). If the clock goes backwards, the worker's
/// time stands still. Hanging jobs are detected with a monotonic clock.
pub struct Worker<T: Task> {
    shared: Arc<Shared<T>>,
}

struct Shared<T: Task> {
    config: WorkerConfig,
    hall: Mutex<Hall<T>>,
    /// One per lane, so that a job wakes only one lane.
    lanes: Vec<Condvar>,
    keeper: Condvar,
    /// Notified when a lane reports to a closed scheduler.
    over: Condvar,
    time: Box<dyn Fn() -> Time + Send + Sync>,
    wake: Box<dyn Fn() + Send + Sync>,
    stale_frames: Arc<AtomicU64>,
    begin: Instant,
    /// The current thread of each lane, and the keeper. Abandoned threads are not joined.
    threads: Mutex<Vec<Option<JoinHandle<()>>>>,
}

/// The state under the lock.
struct Hall<T: Task> {
    scheduler: Scheduler<T>,
    /// Lanes whose thread is waiting for a notification.
    idle: Vec<bool>,
    at_work: Vec<AtWork>,
    /// Time until which the keeper sleeps.
    keeper_until: Time,
    last: Time,
    over: bool,
    /// Counter of environments.
    environments: u64,
}

impl<T: Task> Worker<T> {
    /// Starts the lanes and the keeper. `time` returns the current time; it is called under a lock
    /// and must not call the worker. `wake` is called when results are ready to be received, by any
    /// thread and without a lock; it must not block.
    ///
    /// Build the environment without the scheme's own verification of its results
    /// ([`alphorn_scheme::Env::with_self_verify`]): the worker verifies what it delivers.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    ///
    /// # Panics
    ///
    /// If the configuration has no lanes.
    pub fn start(
        env: T::Env,
        config: WorkerConfig,
        time: impl Fn() -> Time + Send + Sync + 'static,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let config = config.settled();
        let env = Arc::new(Environment::new(0, env, config.child.clone()));
        let lanes = config.plan.lanes();
        let shared = Arc::new(Shared {
            hall: Mutex::new(Hall {
                scheduler: Scheduler::new(config.clone(), env),
                idle: vec![false; lanes],
                at_work: (0..lanes).map(|_| AtWork::default()).collect(),
                keeper_until: Time::ZERO,
                last: Time::ZERO,
                over: false,
                environments: 0,
            }),
            lanes: (0..lanes).map(|_| Condvar::new()).collect(),
            keeper: Condvar::new(),
            over: Condvar::new(),
            time: Box::new(time),
            wake: Box::new(wake),
            stale_frames: Arc::default(),
            begin: Instant::now(),
            threads: Mutex::new((0..lanes).map(|_| None).collect()),
            config,
        });
        // From here on an error stops the threads already started.
        let worker = Self {
            shared: shared.clone(),
        };
        for lane in 0..lanes {
            shared.clone().start_lane(lane, 0)?;
        }
        let keeping = shared.clone();
        let keeper = Builder::new().name("keeper".into());
        let keeper = keeper.spawn(move || keeping.keep())?;
        lock(&shared.threads).push(Some(keeper));
        Ok(worker)
    }

    /// Opens a session, or updates its bounds.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn open(&self, session: Session) -> Result<(), Refused> {
        let mut hall = self.shared.lock();
        let at = self.shared.at(&mut hall);
        let opened = hall.scheduler.open(at, session);
        self.shared.release(hall);
        opened
    }

    /// Accepts a job. A waiting job with the same role and group is replaced (it ends as
    /// `Superseded`). If the queue is full, the worst job of the oldest slot is dropped for a
    /// better one (it ends as `Refused`).
    ///
    /// # Errors
    ///
    /// [`SubmitError`]; no result is reported for the job in that case.
    pub fn submit(&self, request: Request<T>) -> Result<JobId, SubmitError> {
        let env = self.shared.lock().scheduler.env();
        let bounds = request.with(());
        // Outside the lock: a scheme may have to look at every input.
        let load = Load::new(Arc::new(request.work), env);
        let request = bounds.with(load);
        let mut hall = self.shared.lock();
        let at = self.shared.at(&mut hall);
        let taken = hall.scheduler.submit(at, request);
        self.shared.release(hall);
        taken
    }

    /// Ends the jobs of a session: waiting jobs are cancelled, running ones are asked to stop.
    pub fn cancel(&self, session: SessionId) {
        let mut hall = self.shared.lock();
        let at = self.shared.at(&mut hall);
        hall.scheduler.cancel(at, session);
        self.shared.release(hall);
    }

    /// Returns the next job that has ended, in the order in which they ended.
    pub fn try_recv(&self) -> Option<Finished<T::Output>> {
        self.shared.lock().scheduler.receive()
    }

    /// Returns the running jobs by lane, for progress displays.
    pub fn running(&self) -> Vec<Running> {
        let mut hall = self.shared.lock();
        let at = self.shared.at(&mut hall);
        hall.scheduler.at_work(at)
    }

    /// Returns the worker's status.
    pub fn status(&self) -> Status {
        let mut status = self.shared.lock().scheduler.status();
        status.counts.stale_frames = self.shared.stale_frames.load(Ordering::Relaxed);
        status
    }

    /// Replaces the environment, for example when the key table of an epoch is ready. Running jobs
    /// keep theirs. `setup` replaces the data from which children build theirs; children with the
    /// old one end.
    pub fn replace_env(&self, env: T::Env, setup: Option<Arc<[u8]>>) {
        let mut hall = self.shared.lock();
        hall.environments += 1;
        let mut child = hall.scheduler.env().child.clone();
        if let (Some(child), Some(setup)) = (&mut child, setup) {
            child.setup = setup;
        }
        let env = Environment::new(hall.environments, env, child);
        let old = hall.scheduler.env();
        hall.scheduler.set_env(Arc::new(env));
        drop(hall);
        // Key tables are large: do not drop them under the lock.
        drop(old);
    }

    /// Stops accepting jobs, cancels waiting ones, asks running ones to stop, and waits for them
    /// for at most `grace`. Then children are killed, and jobs of threads that still run end as
    /// `Cancelled`; such a thread ends with its job. Finished jobs can still be received
    /// afterwards. Returns true if every lane returned.
    pub fn shutdown(&self, grace: Duration) -> bool {
        let shared = &self.shared;
        let mut hall = shared.lock();
        let at = shared.at(&mut hall);
        hall.scheduler.close(at);
        let (until, mut killed) = (Instant::now() + grace, false);
        loop {
            // An idle lane sees that the scheduler is closed only when it is woken.
            shared.lanes.iter().for_each(Condvar::notify_all);
            let last = until + LAST_WORD;
            let left = match killed {
                false => until.saturating_duration_since(Instant::now()),
                true => last.saturating_duration_since(Instant::now()),
            };
            if hall.scheduler.running() == 0 || left.is_zero() && killed {
                break;
            }
            if left.is_zero() {
                killed = true;
                for at_work in &hall.at_work {
                    at_work.kill();
                }
                continue;
            }
            let waited = shared.over.wait_timeout(hall, left);
            hall = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let all_back = hall.scheduler.running() == 0;
        let at = shared.at(&mut hall);
        hall.scheduler.give_up(at);
        hall.over = true;
        shared.keeper.notify_all();
        shared.release(hall);
        let threads = std::mem::take(&mut *lock(&shared.threads));
        // Otherwise joining could take as long as the job that does not stop.
        if all_back {
            for thread in threads.into_iter().flatten() {
                // Its panics are caught; one that escaped has ended the thread.
                let _ = thread.join();
            }
        }
        all_back
    }
}

impl<T: Task> Drop for Worker<T> {
    /// Like [`Worker::shutdown`] with zero grace.
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
    }
}

impl<T: Task> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Hall<T>> {
        lock(&self.hall)
    }

    /// Returns the current time, which never goes backwards.
    fn at(&self, hall: &mut Hall<T>) -> At {
        hall.last = hall.last.max((self.time)());
        At {
            now: hall.last,
            mono_ns: u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// Wakes the affected threads, unlocks, and signals new results.
    fn release(&self, mut hall: MutexGuard<'_, Hall<T>>) {
        self.rouse(&mut hall);
        let at = self.at(&mut hall);
        let deadline = hall.scheduler.next_deadline(at);
        // The keeper sleeps until the earliest deadline that it knew of, and need not wake for a
        // later one.
        if deadline.is_some_and(|deadline| deadline < hall.keeper_until) {
            self.keeper.notify_one();
        }
        let news = hall.scheduler.take_news();
        drop(hall);
        if news {
            (self.wake)();
        }
    }

    /// Wakes an idle lane of each kind if jobs wait; a lane that takes a job does the same.
    fn rouse(&self, hall: &mut Hall<T>) {
        if !hall.scheduler.has_work() {
            return;
        }
        let fast = usize::from(self.config.plan.fast_lanes);
        for kind in [0..fast, fast..self.lanes.len()] {
            if let Some(lane) = kind.into_iter().find(|lane| hall.idle[*lane]) {
                // Not left to the lane: until it has the lock, the next call must wake another one.
                hall.idle[lane] = false;
                self.lanes[lane].notify_one();
            }
        }
    }

    fn start_lane(self: Arc<Self>, lane: usize, thread: u64) -> io::Result<()> {
        let at_work = AtWork::default();
        self.lock().at_work[lane] = at_work.clone();
        let fast = lane < usize::from(self.config.plan.fast_lanes);
        let (kind, name) = match fast {
            true => (LaneKind::Fast, format!("fast-{lane}")),
            false => (LaneKind::Prove, format!("prove-{lane}")),
        };
        let builder = Builder::new().name(name).stack_size(STACK_BYTES);
        let shared = self.clone();
        let handle = builder.spawn(move || {
            let stale_frames = shared.stale_frames.clone();
            let bench = Bench::new(&shared.config, kind, at_work, stale_frames);
            shared.work(lane, thread, bench);
        })?;
        // None if shutdown has taken the list. The scheduler is closed then, and the thread leaves
        // by itself.
        if let Some(place) = lock(&self.threads).get_mut(lane) {
            *place = Some(handle);
        }
        Ok(())
    }

    /// The thread of a lane: runs one job after another.
    fn work(&self, lane: usize, thread: u64, mut bench: Bench<T>) {
        let mut hall = self.lock();
        loop {
            hall.idle[lane] = false;
            let at = self.at(&mut hall);
            let turn = hall.scheduler.next(at, lane, thread);
            // Looking for a job ends those that have lost their value. The receiver must hear of
            // them before the lane sleeps, and must not be called under the lock.
            if matches!(turn, Turn::Wait) && !hall.scheduler.take_news() {
                hall.idle[lane] = true;
                let waited = self.lanes[lane].wait(hall);
                hall = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            match turn {
                Turn::Leave => break self.release(hall),
                Turn::Wait => {
                    drop(hall);
                    (self.wake)();
                }
                Turn::Work(order) => {
                    self.release(hall);
                    let report = bench.run(&order);
                    // The task may be large. If this is the last reference, free it before taking
                    // the lock.
                    drop(order);
                    let mut hall = self.lock();
                    let at = self.at(&mut hall);
                    hall.scheduler.ended(at, lane, thread, report);
                    self.over.notify_all();
                    self.release(hall);
                }
            }
            hall = self.lock();
        }
    }

    /// The keeper's thread: handles deadlines and unresponsive lanes.
    fn keep(self: Arc<Self>) {
        let hang_after = Duration::from_millis(self.config.hang_after_ms);
        // A hang is noticed at most a quarter of its limit late (5 ms if the limit is shorter than
        // 20 ms).
        let tick = (hang_after / 4).clamp(TICK_MIN, TICK_MAX);
        let mut hall = self.lock();
        while !hall.over {
            let at = self.at(&mut hall);
            hall.scheduler.expire(at);
            let hung = hall.scheduler.hung(at);
            let empty = hall.scheduler.refill();
            self.release(hall);
            for hung in hung {
                self.clone().end_hung(&hung);
            }
            for (lane, thread) in empty {
                self.replace_lane(lane, thread);
            }
            hall = self.lock();
            let at = self.at(&mut hall);
            let deadline = hall.scheduler.next_deadline(at);
            let until = deadline.map(|deadline| Duration::from_nanos(deadline.since_ns(at.now)));
            let wait = until.map_or(tick, |until| until.min(tick));
            hall.keeper_until = at.now.saturating_add_ns(wait.as_nanos() as u64);
            // It may have been set while the lock was released above; its notification would then
            // be missed.
            if !hall.over {
                let waited = self.keeper.wait_timeout(hall, wait);
                hall = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Kills the child of a job that hangs or does not stop, or abandons the thread of a job that
    /// hangs in this process.
    fn end_hung(self: Arc<Self>, hung: &Hung<T>) {
        if !self.kill_child_of(hung) && hung.hangs {
            // Before taking the lock, because it hashes the whole task.
            let name = name_of(&*hung.task);
            let mut hall = self.lock();
            let at = self.at(&mut hall);
            // The handle below must then stay, since shutdown joins this thread.
            if !hall.scheduler.still_runs(hung) {
                return;
            }
            let thread = hall.scheduler.abandon(at, hung, name);
            // Shutdown does not wait for it. Done under the lock, so that shutdown finds either the
            // job or no thread for it.
            if let Some(given_up) = lock(&self.threads).get_mut(hung.lane) {
                *given_up = None;
            }
            self.release(hall);
            if let Some(thread) = thread {
                self.replace_lane(hung.lane, thread);
            }
        }
    }

    /// Starts another thread for a lane. If none can be started, the lane stays empty until the
    /// next try.
    fn replace_lane(self: &Arc<Self>, lane: usize, thread: u64) {
        if self.clone().start_lane(lane, thread).is_err() {
            self.lock().scheduler.vacate(lane);
        }
    }

    /// Kills the child that works on a job, if one does. All under the lock: a lane that has
    /// reported the job in the meantime may have a child working on the next one, which must not be
    /// affected.
    fn kill_child_of(&self, hung: &Hung<T>) -> bool {
        let mut hall = self.lock();
        let kills = hall.scheduler.still_runs(hung) && hall.at_work[hung.lane].kill();
        if kills {
            hall.scheduler.killed(hung);
        }
        kills
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
