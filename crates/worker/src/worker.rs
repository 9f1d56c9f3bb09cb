//! The threads around the scheduler: lanes that work, and a keeper that watches deadlines and lanes.

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

/// The keeper looks at the lanes at least this often.
const TICK_MAX: Duration = Duration::from_millis(250);

/// The keeper looks at the lanes at most this often, but for deadlines.
const TICK_MIN: Duration = Duration::from_millis(5);

/// How long a killed child's lane may take to say so at the end.
const LAST_WORD: Duration = Duration::from_millis(200);

/// Runs tasks on lanes of their own, so that whoever drives a protocol never waits for them.
///
/// `open` a session, `submit` its jobs, and take their ends by `try_recv` when the function given to
/// `start` was called. No call blocks for longer than the scheduler thinks.
///
/// **Each accepted submission yields exactly one [`Finished`]**, also if its job panics, its child
/// is killed, it hangs, or the worker is shut down.
///
/// Sessions and jobs speak of the time that the worker was started with. A jump of it takes the
/// deadlines of jobs with it, so it must not be a wall clock that may be set: an embedder hands in
/// the time that its protocol goes by, or [`steady_time`](crate::steady_time). Where it goes back it
/// stands still here. A hanging job is noticed by a clock that only runs.
pub struct Worker<T: Task> {
    shared: Arc<Shared<T>>,
}

struct Shared<T: Task> {
    config: WorkerConfig,
    hall: Mutex<Hall<T>>,
    /// One for each lane, so that a job wakes one and not all.
    lanes: Vec<Condvar>,
    keeper: Condvar,
    /// Notified when a lane reports on a closed scheduler.
    over: Condvar,
    time: Box<dyn Fn() -> Time + Send + Sync>,
    wake: Box<dyn Fn() + Send + Sync>,
    stale_frames: Arc<AtomicU64>,
    begin: Instant,
    /// The present thread of each lane, and the keeper; those that were given up are not joined.
    threads: Mutex<Vec<Option<JoinHandle<()>>>>,
}

/// What the lock holds.
struct Hall<T: Task> {
    scheduler: Scheduler<T>,
    /// Lanes whose thread waits to be notified.
    idle: Vec<bool>,
    at_work: Vec<AtWork>,
    /// Until when the keeper sleeps.
    keeper_until: Time,
    last: Time,
    over: bool,
    /// Counts environments.
    environments: u64,
}

impl<T: Task> Worker<T> {
    /// Starts lanes and keeper. `time` says what time it is; it is called under a lock, and must not
    /// call the worker. `wake` is called, by any thread and without a lock, after results
    /// are there to be received; it must not block.
    ///
    /// Build the environment without the scheme's own check of its results
    /// ([`alphorn_scheme::Env::with_self_verify`]): the worker verifies what it delivers.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    ///
    /// # Panics
    ///
    /// If the configuration has no lane.
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
        // From here on an error ends the threads that there are.
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

    /// Announces a session, or renews its bounds.
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

    /// Takes a job. One that waits for the same role and group is replaced (it ends
    /// `Superseded`); if the queue is full, the worst job of the oldest slot gives way to a better
    /// one (it ends `Refused`).
    ///
    /// # Errors
    ///
    /// [`SubmitError`]; nothing is reported of the job then.
    pub fn submit(&self, request: Request<T>) -> Result<JobId, SubmitError> {
        let env = self.shared.lock().scheduler.env();
        let bounds = request.with(());
        // Outside of the lock: a scheme may have to look at every input.
        let load = Load::new(Arc::new(request.work), env);
        let request = bounds.with(load);
        let mut hall = self.shared.lock();
        let at = self.shared.at(&mut hall);
        let taken = hall.scheduler.submit(at, request);
        self.shared.release(hall);
        taken
    }

    /// Ends the jobs of a session: those that wait are cancelled, those that run asked to stop.
    pub fn cancel(&self, session: SessionId) {
        let mut hall = self.shared.lock();
        let at = self.shared.at(&mut hall);
        hall.scheduler.cancel(at, session);
        self.shared.release(hall);
    }

    /// The next job that has ended, in the order of their ends.
    pub fn try_recv(&self) -> Option<Finished<T::Output>> {
        self.shared.lock().scheduler.receive()
    }

    /// The jobs that run now, by lane: for whoever shows their progress.
    pub fn running(&self) -> Vec<Running> {
        let mut hall = self.shared.lock();
        let at = self.shared.at(&mut hall);
        hall.scheduler.at_work(at)
    }

    /// How the worker is.
    pub fn status(&self) -> Status {
        let mut status = self.shared.lock().scheduler.status();
        status.counts.stale_frames = self.shared.stale_frames.load(Ordering::Relaxed);
        status
    }

    /// Replaces the environment, for example when the key table of an epoch is ready. Jobs that run
    /// keep theirs. `setup` replaces what children make theirs of; children of the old one end.
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
        // Key tables are large: not under the lock.
        drop(old);
    }

    /// Takes nothing more, cancels what waits, asks what runs to stop, and waits for that at most
    /// `grace`. Then children are killed, and jobs of threads that still run end `Cancelled`; such a
    /// thread ends with its job. What has ended can be received afterwards. True if every lane came
    /// back.
    pub fn shutdown(&self, grace: Duration) -> bool {
        let shared = &self.shared;
        let mut hall = shared.lock();
        let at = shared.at(&mut hall);
        hall.scheduler.close(at);
        let (until, mut killed) = (Instant::now() + grace, false);
        loop {
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
        if all_back {
            for thread in threads.into_iter().flatten() {
                // Its panics are caught; one that got through has ended it.
                let _ = thread.join();
            }
        }
        all_back
    }
}

impl<T: Task> Drop for Worker<T> {
    /// As [`Worker::shutdown`] without grace.
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
    }
}

impl<T: Task> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Hall<T>> {
        lock(&self.hall)
    }

    /// The time, which never goes back.
    fn at(&self, hall: &mut Hall<T>) -> At {
        hall.last = hall.last.max((self.time)());
        At {
            now: hall.last,
            mono_ns: u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// Wakes whom the state concerns, unlocks, and says that results came.
    fn release(&self, mut hall: MutexGuard<'_, Hall<T>>) {
        self.rouse(&mut hall);
        let at = self.at(&mut hall);
        let deadline = hall.scheduler.next_deadline(at);
        if deadline.is_some_and(|deadline| deadline < hall.keeper_until) {
            self.keeper.notify_one();
        }
        let news = hall.scheduler.take_news();
        drop(hall);
        if news {
            (self.wake)();
        }
    }

    /// Wakes an idle lane of each kind if something waits; a lane that takes a job does so again.
    fn rouse(&self, hall: &mut Hall<T>) {
        if !hall.scheduler.has_work() {
            return;
        }
        let fast = usize::from(self.config.plan.fast_lanes);
        for kind in [0..fast, fast..self.lanes.len()] {
            if let Some(lane) = kind.into_iter().find(|lane| hall.idle[*lane]) {
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
        if let Some(place) = lock(&self.threads).get_mut(lane) {
            *place = Some(handle);
        }
        Ok(())
    }

    /// A lane's thread: one job after the other.
    fn work(&self, lane: usize, thread: u64, mut bench: Bench<T>) {
        let mut hall = self.lock();
        loop {
            hall.idle[lane] = false;
            let at = self.at(&mut hall);
            let turn = hall.scheduler.next(at, lane, thread);
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
                    // The task may be large: freed before the lock is taken, if this is the last.
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

    /// The keeper's thread: deadlines, and lanes that give no sign of life.
    fn keep(self: Arc<Self>) {
        let hang_after = Duration::from_millis(self.config.hang_after_ms);
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
            if !hall.over {
                let waited = self.keeper.wait_timeout(hall, wait);
                hall = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Kills the child of a job that hangs or does not stop, or gives up the thread of one that
    /// hangs in this process.
    fn end_hung(self: Arc<Self>, hung: &Hung<T>) {
        if !self.kill_child_of(hung) && hung.hangs {
            let name = name_of(&*hung.task);
            let mut hall = self.lock();
            let at = self.at(&mut hall);
            if !hall.scheduler.still_runs(hung) {
                return;
            }
            let thread = hall.scheduler.abandon(at, hung, name);
            // Nobody waits for it at the end; under the lock, so that an end finds either the job or
            // no thread of it.
            if let Some(given_up) = lock(&self.threads).get_mut(hung.lane) {
                *given_up = None;
            }
            self.release(hall);
            if let Some(thread) = thread {
                self.replace_lane(hung.lane, thread);
            }
        }
    }

    /// Starts another thread of a lane. Without one to be had the lane stays empty until the next try.
    fn replace_lane(self: &Arc<Self>, lane: usize, thread: u64) {
        if self.clone().start_lane(lane, thread).is_err() {
            self.lock().scheduler.vacate(lane);
        }
    }

    /// Kills the child that works for a job, if one does. All of it under the lock: a lane that has
    /// reported the job meanwhile may have a child at work on the next one, which nothing is held against.
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
