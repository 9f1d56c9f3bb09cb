//! The lanes of a node, on top of the worker.

use super::child;
use super::{Ended, Lanes, Troubles};
use alphorn_proto::Spawn;
use alphorn_proto::job::AssignJob;
use alphorn_scheme::{Class, Env, Group, JobId, Keys, SessionId, Work};
use alphorn_types::{Epoch, Layout, Slot, Time};
use alphorn_worker::{Request, Session, SubmitError, Worker, WorkerConfig};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Sessions whose opening is remembered. The worker bounds how many are open.
const SESSIONS_MAX: usize = 256;
/// Validators of a filler job: enough for a prove lane.
const FILLER_VALIDATORS: u32 = 1 << 20;
/// How long running jobs may take to stop.
// Less than the second that `Lanes::shutdown` allows.
const GRACE: Duration = Duration::from_millis(800);

/// A job submitted to the worker.
#[derive(Clone, Copy)]
struct Known {
    /// The protocol's job number.
    job: JobId,
    op: &'static str,
}

#[derive(Default)]
struct Book {
    /// Filler jobs, see [`Pool::saturate`].
    fillers: BTreeSet<JobId>,
    /// By the worker's job number.
    known: BTreeMap<JobId, Known>,
    /// Opened sessions with their `soft` and `hard`, and the order of their opening.
    opened: BTreeMap<SessionId, (Time, Time)>,
    order: VecDeque<SessionId>,
}

/// Protocol time, as last set by the node's loop and advanced since. The lanes read no wall clock, because it may jump,
/// which the loop's clock filters.
struct LaneTime {
    begin: Instant,
    /// Protocol time at `begin`, in nanoseconds.
    begin_ns: AtomicU64,
}

impl LaneTime {
    fn new() -> Self {
        LaneTime {
            begin: Instant::now(),
            begin_ns: AtomicU64::new(0),
        }
    }

    fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn set(&self, now: Time) {
        // One number rather than a time and the instant it was set, so that lanes read it whole without a lock.
        let begin = now.saturating_sub_ns(self.elapsed_ns());
        self.begin_ns.store(begin.as_nanos(), Ordering::Relaxed);
    }

    fn now(&self) -> Time {
        let begin = Time::from_nanos(self.begin_ns.load(Ordering::Relaxed));
        begin.saturating_add_ns(self.elapsed_ns())
    }
}

/// The environment that receives the next key table.
struct Tables {
    worker: Arc<Worker<Work>>,
    env: Mutex<Env>,
    /// Setup data that the embedder passes to children.
    base: Option<Arc<[u8]>>,
}

impl Tables {
    /// Adds a key table to the environment of all future jobs, here and in children.
    fn take(&self, epoch: Epoch, keys: Keys) {
        // Held until the worker has the new environment. Otherwise, of two tables that are ready at the same time, a
        // copy with one of them could replace the copy with both.
        let mut env = self.env.lock().unwrap_or_else(PoisonError::into_inner);
        env.insert_keys(epoch, keys);
        let setup = self.base.as_ref().map(|base| child::setup(base, &env));
        self.worker.replace_env(env.clone(), setup);
    }
}

/// The end of a job, reported when this is dropped, however that happens.
struct Ending {
    ended: Option<Ended>,
    apart: Arc<Mutex<VecDeque<Ended>>>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut apart = self.apart.lock().unwrap_or_else(PoisonError::into_inner);
        apart.extend(self.ended.take());
        drop(apart);
        (self.wake)();
    }
}

/// The lanes of a node, on top of the worker.
pub struct Pool {
    worker: Arc<Worker<Work>>,
    time: Arc<LaneTime>,
    prove_lanes: u16,
    tables: Arc<Tables>,
    /// Jobs that ended elsewhere. No more than key tables are made at a time.
    apart: Arc<Mutex<VecDeque<Ended>>>,
    wake: Arc<dyn Fn() + Send + Sync>,
    book: Mutex<Book>,
}

impl Pool {
    /// Starts the lanes, which use the time of [`Lanes::keep_time`]. Until that is set there are no deadlines. `wake`
    /// is called after a job ended. If the configuration has a child command, its `setup` is what
    /// [`serve_child`](super::serve_child) passes to its caller there.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        env: Env,
        config: WorkerConfig,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        // The worker verifies what it delivers.
        let env = env.with_self_verify(false);
        let mut config = config;
        let base = config.child.as_mut().map(|child| {
            let setup = child::setup(&child.setup, &env);
            std::mem::replace(&mut child.setup, setup)
        });
        let time = Arc::new(LaneTime::new());
        let shared = time.clone();
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(wake);
        let waker = wake.clone();
        let prove_lanes = config.plan.prove_lanes;
        let worker = Worker::start(
            env.clone(),
            config,
            move || shared.now(),
            move || (*waker)(),
        )?;
        let worker = Arc::new(worker);
        let tables = Tables {
            worker: worker.clone(),
            env: Mutex::new(env),
            base,
        };
        Ok(Pool {
            prove_lanes,
            worker,
            time,
            tables: Arc::new(tables),
            apart: Arc::default(),
            wake,
            book: Mutex::default(),
        })
    }

    /// Status of the worker.
    #[cfg(test)]
    pub(crate) fn status(&self) -> alphorn_worker::Status {
        self.worker.status()
    }

    /// Keeps the prove lanes busy from now on whenever they have no useful work, to see how duties suffer. Committees
    /// of 2^20 validators are drawn repeatedly, at the priority of late groups.
    ///
    /// # Errors
    /// Why the worker rejects a job.
    pub fn saturate(&self) -> Result<(), SubmitError> {
        let mut book = self.book();
        // One runs on each lane, and one waits.
        (0..=self.prove_lanes).try_for_each(|_| self.fill(&mut book))
    }

    fn fill(&self, book: &mut Book) -> Result<(), SubmitError> {
        let slot = Slot(0);
        let work = Work::Foreign(Box::new(AssignJob {
            epoch: slot.epoch(1),
            mix: [0; 32],
            layout: Layout::new(FILLER_VALIDATORS, 32, 64).expect("a legal layout"),
        }));
        let far = Time::from_nanos(u64::MAX / 2);
        let request = Request {
            client: 0,
            session: SessionId {
                slot,
                seq: u32::MAX,
            },
            group: Group::of_slot(slot),
            replaces: None,
            class: Class::Backfill,
            soft: far,
            hard: far,
            votes: 0,
            bytes: 0,
            work,
        };
        let job = self.worker.submit(request)?;
        book.fillers.insert(job);
        Ok(())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the session of a job, or widens it: a session has jobs of several phases, and none may be limited by
    /// another's bounds.
    fn open(&self, book: &mut Book, spawn: &Spawn) {
        let before = book.opened.get(&spawn.session).copied();
        let (soft, hard) = before.map_or((spawn.soft, spawn.hard), |(soft, hard)| {
            (soft.max(spawn.soft), hard.max(spawn.hard))
        });
        if before == Some((soft, hard)) {
            return;
        }
        let session = Session {
            id: spawn.session,
            // The next session begins when this one should be over, so lanes are kept free for it.
            open: soft,
            soft,
            hard,
        };
        // Jobs of a session that finds no room still have their own bounds.
        let _ = self.worker.open(session);
        if book.opened.insert(spawn.session, (soft, hard)).is_some() {
            return;
        }
        if book.order.len() >= SESSIONS_MAX
            && let Some(oldest) = book.order.pop_front()
        {
            book.opened.remove(&oldest);
        }
        book.order.push_back(spawn.session);
    }

    /// Takes the key table of a finished job. Returns the end, or none if it follows later. The setup of children
    /// contains the public keys of all validators, which take long to copy. This is done on a separate thread, and the
    /// job ends when the table is there.
    fn take_keys(&self, epoch: Epoch, keys: Keys, ended: Ended) -> Option<Ended> {
        if self.tables.base.is_none() {
            self.tables.take(epoch, keys);
            return Some(ended);
        }
        let ending = Ending {
            ended: Some(ended),
            apart: self.apart.clone(),
            wake: self.wake.clone(),
        };
        let tables = self.tables.clone();
        let thread = std::thread::Builder::new().name("alphorn-keys".into());
        // Without a thread, the job has ended without its table, and it is prepared again.
        let _ = thread.spawn(move || {
            let _ending = ending;
            tables.take(epoch, keys);
        });
        None
    }

    fn ended_apart(&self) -> Option<Ended> {
        let mut apart = self.apart.lock().unwrap_or_else(PoisonError::into_inner);
        apart.pop_front()
    }

    /// The next useful job that ended in the worker, with its key table.
    fn finished(&self) -> Option<(Ended, Option<(Epoch, Keys)>)> {
        let (finished, known) = {
            let mut book = self.book();
            loop {
                let finished = self.worker.try_recv()?;
                if book.fillers.remove(&finished.job) {
                    // A worker that rejects this has more important work, or is shutting down.
                    let _ = self.fill(&mut book);
                } else if let Some(known) = book.known.remove(&finished.job) {
                    break (finished, known);
                }
            }
        };
        let mut table = None;
        let outcome = finished.outcome.map(|output| {
            table = output.keys;
            output.product
        });
        let ended = Ended {
            job: known.job,
            outcome,
            op: known.op,
            group: finished.group,
            run: finished.run,
            queued_ns: finished.timing.queued_ns,
            ran_ns: finished.timing.ran_ns,
            late: finished.late,
        };
        Some((ended, table))
    }
}

impl Lanes for Pool {
    fn keep_time(&self, now: Time) {
        self.time.set(now);
    }

    fn submit(&self, spawn: Spawn) -> Result<(), String> {
        let mut book = self.book();
        self.open(&mut book, &spawn);
        let (votes, bytes) = spawn.work.weight();
        let known = Known {
            job: spawn.job,
            op: spawn.work.name(),
        };
        let request = Request {
            client: 0,
            session: spawn.session,
            group: spawn.group,
            // The protocol asks only once for what it wants, and each of its jobs gets a result.
            replaces: None,
            class: spawn.class,
            soft: spawn.soft,
            hard: spawn.hard,
            votes,
            bytes,
            work: spawn.work,
        };
        // Its end cannot be read before it is in the book.
        let job = self
            .worker
            .submit(request)
            .map_err(|error| error.to_string())?;
        book.known.insert(job, known);
        Ok(())
    }

    fn cancel(&self, session: SessionId) {
        self.worker.cancel(session);
    }

    fn poll(&self) -> Option<Ended> {
        loop {
            if let Some(ended) = self.ended_apart() {
                return Some(ended);
            }
            let ended = match self.finished()? {
                (ended, None) => Some(ended),
                (ended, Some((epoch, keys))) => self.take_keys(epoch, keys, ended),
            };
            if ended.is_some() {
                return ended;
            }
        }
    }

    fn busy_ns(&self) -> Vec<u64> {
        let counts = self.worker.status().counts;
        vec![counts.fast_busy_ns, counts.prove_busy_ns]
    }

    fn troubles(&self) -> Troubles {
        let status = self.worker.status();
        Troubles {
            crashes: status.counts.crashes,
            hangs: status.counts.hangs,
            self_verify_failures: status.counts.self_verify_failures,
            stale_frames: status.counts.stale_frames,
            quarantined: status.quarantined as u64,
            degraded: status.degraded,
            kernel_disabled: status.kernel_disabled,
        }
    }

    fn shutdown(&self) {
        self.worker.shutdown(GRACE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{self, Machine, Source};
    use alphorn_scheme::model::{CostTable, Model, ModelRegistry};
    use alphorn_scheme::{Ctx, Outcome, Scratch};
    use alphorn_types::Assignment;
    use alphorn_worker::ChildCommand;
    use std::sync::atomic::AtomicI64;

    /// The host's clocks, with a wall clock that is wrong by this many nanoseconds.
    struct Wrong {
        machine: Machine,
        by_ns: Arc<AtomicI64>,
    }

    impl Source for Wrong {
        fn wall_ns(&self) -> u64 {
            let by_ns = self.by_ns.load(Ordering::Relaxed);
            self.machine.wall_ns().saturating_add_signed(by_ns)
        }

        fn monotonic_ns(&self) -> u64 {
            self.machine.monotonic_ns()
        }
    }

    fn pool() -> Pool {
        let scheme = Arc::new(Model::new(CostTable::example()).unwrap());
        let registry = Arc::new(ModelRegistry { validators: 8 });
        let env = Env::new(scheme, registry, [1; 32]);
        Pool::start(env, WorkerConfig::default(), || ()).unwrap()
    }

    /// A short job of the first session whose bounds are this many milliseconds from now.
    fn spawn(now: Time, job: u64, soft_ms: u64, hard_ms: u64) -> Spawn {
        let slot = Slot(1);
        Spawn {
            job: JobId(job),
            session: SessionId { slot, seq: 0 },
            group: Group::of_slot(slot),
            class: Class::Duty,
            soft: now.saturating_add_ns(soft_ms * 1_000_000),
            hard: now.saturating_add_ns(hard_ms * 1_000_000),
            work: Work::Foreign(Box::new(AssignJob {
                epoch: slot.epoch(1),
                mix: [0; 32],
                layout: Layout::new(8, 1, 1).unwrap(),
            })),
        }
    }

    fn end(pool: &Pool) -> Ended {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(ended) = pool.poll() {
                return ended;
            }
            assert!(Instant::now() < until, "a job does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_job_is_not_bounded_by_an_earlier_one_of_its_session() {
        let pool = pool();
        pool.submit(spawn(pool.time.now(), 1, 1, 5_000)).unwrap();
        end(&pool);
        // The first one's `soft` has passed.
        std::thread::sleep(Duration::from_millis(20));
        pool.submit(spawn(pool.time.now(), 2, 10_000, 20_000))
            .unwrap();
        let ended = end(&pool);
        assert_eq!(ended.job, JobId(2));
        assert!(matches!(ended.outcome, Outcome::Done(_)), "{ended:?}");
        assert!(!ended.late, "{ended:?}");
        assert_eq!(ended.run.map(|run| run.inputs), Some(1));
    }

    /// The setup of children is made while another thread holds the environment. The loop continues in the meantime.
    #[test]
    fn a_key_table_for_children_holds_nobody_up_and_is_there_when_its_job_has_ended() {
        let scheme = Arc::new(Model::new(CostTable::example()).unwrap());
        let registry = Arc::new(ModelRegistry { validators: 8 });
        let env = Env::new(scheme, registry, [1; 32]);
        let layout = Layout::new(8, 1, 2).unwrap();
        let epoch = Epoch(3);
        let assignment = Assignment::new(epoch, layout, (0..8).collect()).unwrap();
        let mut scratch = Scratch::default();
        let keys = env.make_keys(&Arc::new(assignment), &mut Ctx::single(&mut scratch));
        let config = WorkerConfig {
            child: Some(ChildCommand::default()),
            ..WorkerConfig::default()
        };
        let (woken, wakes) = std::sync::mpsc::channel();
        let woken = Mutex::new(woken);
        let wake = move || {
            let _ = woken.lock().unwrap().send(());
        };
        let pool = Pool::start(env, config, wake).unwrap();
        let ended = Ended::refused(JobId(7), "prepare", Group::of_slot(Slot(1)), String::new());
        let held = pool.tables.env.lock().unwrap();
        assert!(pool.take_keys(epoch, keys.unwrap(), ended).is_none());
        assert!(pool.poll().is_none());
        assert!(held.assignment(epoch).is_none());
        drop(held);
        wakes.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(pool.poll().map(|ended| ended.job), Some(JobId(7)));
        assert!(pool.tables.env.lock().unwrap().assignment(epoch).is_some());
        pool.shutdown();
    }

    #[test]
    fn work_of_no_value_keeps_the_prove_lanes_busy_and_is_not_delivered() {
        let pool = pool();
        pool.saturate().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        // Three of them have ended by then, and each was followed by another.
        while pool.status().counts.done < 3 {
            assert!(pool.poll().is_none(), "nobody asked for it");
            assert!(Instant::now() < until, "the lanes stand still");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(pool.busy_ns()[1] > 0);
        pool.submit(spawn(pool.time.now(), 1, 10_000, 20_000))
            .unwrap();
        assert_eq!(end(&pool).job, JobId(1));
        pool.shutdown();
    }

    /// The wall clock jumps by a day in both directions, and comes back. Jobs during and after that are bounded as if
    /// it had not.
    #[test]
    fn a_wall_clock_that_jumps_does_not_end_jobs() {
        let day_ns = 86_400_000_000_000;
        // Far from the host's own clock, so that nothing can rely on that.
        let right_ns = -1_000 * day_ns;
        let by_ns = Arc::new(AtomicI64::new(right_ns));
        let source = Wrong {
            machine: Machine::default(),
            by_ns: by_ns.clone(),
        };
        let mut clock = clock::Clock::new(source);
        let pool = pool();
        let mut job = 0;
        for wrong_ns in [0, day_ns, 0, -day_ns, 0] {
            by_ns.store(right_ns + wrong_ns, Ordering::Relaxed);
            for _ in 0..3 {
                // As the node's loop does in each of its turns.
                let (now, _) = clock.now(|_| None);
                pool.keep_time(clock.running_now());
                job += 1;
                pool.submit(spawn(now, job, 10_000, 20_000)).unwrap();
                let ended = end(&pool);
                assert_eq!(ended.job, JobId(job));
                assert!(matches!(ended.outcome, Outcome::Done(_)), "{ended:?}");
                assert!(!ended.late, "{ended:?}");
            }
        }
        // Time does not stand still either.
        let (now, _) = clock.now(|_| None);
        pool.keep_time(clock.running_now());
        let error = pool.submit(spawn(now.saturating_sub_ns(60_000_000_000), 0, 1, 1));
        assert!(error.unwrap_err().contains("no value"));
    }
}
