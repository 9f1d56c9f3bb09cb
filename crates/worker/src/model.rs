//! The worker's threads under a model checker.
//!
//! `worker.rs` and `lane.rs` are compiled here a second time, using `model/sync.rs` instead of
//! `crate::sync`. The code is the same, but shuttle draws from a fixed seed which thread continues
//! after each lock, notification and thread start. If none can continue, that is a deadlock and a
//! failure. What is under the lock (the jobs, the plan) is the crate's own and has no threads.
//!
//! Two schedulers are used: one draws uniformly, the other uses priorities that change at a few
//! points (PCT), which finds failures that need few but specific switches. A failure prints its
//! schedule, for `shuttle::replay`.
//!
//! Not covered: pools of several threads and child processes, whose handles have their own locks
//! that are held no longer than a copy or a kill takes. Memory ordering is not covered either: the
//! only data shared without the lock are the stop flag, the beats and a counter, single independent
//! words that publish nothing else.

#[path = "lane.rs"]
#[expect(clippy::duplicate_mod, reason = "over other locks and threads")]
mod lane;
mod sync;
mod task;
#[path = "worker.rs"]
#[expect(clippy::duplicate_mod, reason = "over other locks and threads")]
#[expect(unreachable_pub, reason = "the crate shows its other copy")]
mod worker;

use crate::plan::Config as PlanConfig;
use crate::{Finished, Request, Session, SubmitError, WorkerConfig};
use alphorn_scheme::{Class, Group, JobId, Outcome, SessionId};
use alphorn_types::{Slot, Time};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{
    PctScheduler, RandomScheduler, Scheduler, UncontrolledNondeterminismCheckScheduler,
};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread::{JoinHandle, spawn, yield_now};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use task::{Strings, TestTask, What};
use worker::Worker;

/// Number of runs of each scenario by each scheduler.
const RUNS: usize = 5_000;

/// Number of steps beyond which a run is considered non-terminating.
const TURNS_MAX: usize = 50_000;

/// Number of points at which PCT changes a priority.
const CHANGES: usize = 4;

/// Longer than any run.
const LONG: Duration = Duration::from_secs(3600);

/// Events observed in the runs of a scenario: a scenario in which nothing happens proves nothing.
type Seen = Arc<std::sync::Mutex<BTreeSet<&'static str>>>;

/// Runs a scenario under both schedulers, and expects all of `wanted` to have occurred.
fn check(scenario: impl Fn(&Seen) + Send + Sync + 'static, wanted: &[&'static str]) {
    let (seen, scenario) = (Seen::default(), Arc::new(scenario));
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = shuttle::Config::new();
        config.max_steps = shuttle::MaxSteps::FailAfter(TURNS_MAX);
        let (seen, scenario) = (seen.clone(), scenario.clone());
        shuttle::Runner::new(scheduler, config).run(move || {
            sync::begin();
            scenario(&seen);
        });
    };
    // Choices not drawn by the checker could not be replayed.
    let twice = RandomScheduler::new_from_seed(3, RUNS / 100);
    run(Box::new(UncontrolledNondeterminismCheckScheduler::new(
        twice,
    )));
    run(Box::new(RandomScheduler::new_from_seed(1, RUNS)));
    run(Box::new(PctScheduler::new_from_seed(2, CHANGES, RUNS)));
    let seen = seen.lock().expect("no panic");
    for what in wanted {
        assert!(seen.contains(what), "never {what}, only {seen:?}");
    }
}

fn config() -> WorkerConfig {
    WorkerConfig {
        plan: PlanConfig {
            // No pool: rayon's threads are not under the checker.
            prove_threads: 1,
            jobs_queued_max: 3,
            ..PlanConfig::default()
        },
        undelivered_max: 2,
        hang_after_ms: 100,
        ..WorkerConfig::default()
    }
}

/// Rung by the worker when results arrive.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    wait: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().expect("no panic") = true;
        self.wait.notify_one();
    }

    /// Waits until it has rung since the last wait.
    fn listen(&self) {
        let mut rung = self.rung.lock().expect("no panic");
        while !*rung {
            rung = self.wait.wait(rung).expect("no panic");
        }
        *rung = false;
    }
}

fn worker(config: WorkerConfig) -> (Arc<Worker<TestTask>>, Arc<Bell>) {
    let bell = Arc::new(Bell::default());
    let rung = bell.clone();
    let worker = Worker::start((), config, sync::time, move || rung.ring()).expect("threads");
    (Arc::new(worker), bell)
}

fn session(seq: u32) -> SessionId {
    SessionId { slot: Slot(1), seq }
}

fn group(committee: u16) -> Group {
    Group {
        slot: Slot(1),
        message: [0; 32],
        committee: Some(committee),
        subcommittee: None,
    }
}

fn far() -> Time {
    Time::from_nanos(u64::MAX / 2)
}

/// This many milliseconds after the current time of a run.
fn soon(ms: u64) -> Time {
    sync::time().saturating_add_ns(ms * 1_000_000)
}

fn request(caller: u16, what: What, long: bool, strings: &Arc<Strings>) -> Request<TestTask> {
    Request {
        client: 0,
        session: session(caller.into()),
        group: group(caller),
        replaces: None,
        class: Class::Current,
        soft: far(),
        hard: far(),
        votes: 1,
        bytes: 1,
        work: TestTask {
            what,
            long,
            strings: strings.clone(),
        },
    }
}

/// A submitting thread; returns the accepted jobs.
fn submitter(
    worker: &Arc<Worker<TestTask>>,
    seen: &Seen,
    requests: Vec<Request<TestTask>>,
) -> JoinHandle<Vec<JobId>> {
    let (worker, seen) = (worker.clone(), seen.clone());
    spawn(move || {
        let mut accepted = Vec::new();
        for request in requests {
            match worker.submit(request) {
                Ok(job) => accepted.push(job),
                Err(SubmitError::Closing) => note(&seen, "closing"),
                Err(SubmitError::Undelivered { .. }) => note(&seen, "undelivered"),
                Err(SubmitError::Refused(_)) => note(&seen, "refused"),
                Err(other) => panic!("{other}"),
            }
        }
        accepted
    })
}

fn note(seen: &Seen, what: &'static str) {
    seen.lock().expect("no panic").insert(what);
}

fn drain(worker: &Worker<TestTask>, ends: &mut Vec<Finished<()>>) {
    let max = config().outstanding_max();
    let status = worker.status();
    assert!(
        status.queued + status.running + status.undelivered <= max,
        "{status:?}"
    );
    while let Some(end) = worker.try_recv() {
        ends.push(end);
    }
}

/// W1.
fn one_end_each(accepted: &[JobId], ends: &[Finished<()>], seen: &Seen) {
    let mut of_job: BTreeMap<JobId, u32> = accepted.iter().map(|job| (*job, 0)).collect();
    for end in ends {
        let count = of_job.get_mut(&end.job).expect("an accepted job");
        *count += 1;
        note(
            seen,
            match &end.outcome {
                Outcome::Done(()) => "done",
                Outcome::Superseded => "superseded",
                Outcome::Cancelled if end.run.is_some() => "stopped",
                Outcome::Cancelled => "cancelled",
                Outcome::Refused(_) => "gave way",
                Outcome::Crashed | Outcome::Invalid(_) => "crashed",
                Outcome::SelfVerifyFailed => "faulty",
            },
        );
    }
    assert!(of_job.values().all(|count| *count == 1), "{of_job:?}");
}

/// Threads submit, cancel and shut down the worker at any moment: each accepted job has exactly one
/// end when the worker has shut down. No time passes, so no result depends on a timer.
fn an_end_at_any_moment(seen: &Seen) {
    let strings = Arc::default();
    let (worker, _) = worker(config());
    let of = |caller, whats: [(What, bool); 3]| {
        let requests = whats.map(|(what, long)| request(caller, what, long, &strings));
        submitter(&worker, seen, requests.into())
    };
    use What::{Endless, Panic, Work};
    let first = of(1, [(Work, false), (Endless, false), (Panic, true)]);
    let second = of(2, [(Endless, true), (Work, false), (Work, true)]);
    let canceller = {
        let worker = worker.clone();
        spawn(move || {
            let opened = worker.open(Session {
                id: session(1),
                open: Time::ZERO,
                soft: far(),
                hard: far(),
            });
            assert_eq!(opened, Ok(()));
            worker.cancel(session(1));
            worker.replace_env((), None);
            assert!(worker.running().len() <= 2, "no more than there are lanes");
        })
    };
    let ender = {
        let worker = worker.clone();
        // Also while another thread does the same.
        spawn(move || assert!(worker.shutdown(LONG)))
    };
    assert!(worker.shutdown(LONG));
    let mut accepted = first.join().expect("no panic");
    accepted.extend(second.join().expect("no panic"));
    canceller.join().expect("no panic");
    ender.join().expect("no panic");
    let mut ends = Vec::new();
    drain(&worker, &mut ends);
    one_end_each(&accepted, &ends, seen);
    let again = worker.submit(request(1, Work, false, &strings));
    assert_eq!(again, Err(SubmitError::Closing));
}

#[test]
fn an_end_at_any_moment_ends_every_job_once() {
    check(
        an_end_at_any_moment,
        &["done", "stopped", "cancelled", "crashed", "closing"],
    );
}

/// The worker is shut down only after every job has ended, and the receiver checks only when woken.
/// A lost wake-up, of a lane or of the receiver, is therefore a deadlock.
fn ends_heard(seen: &Seen) {
    let strings = Arc::default();
    let (worker, bell) = worker(config());
    let of = |caller, whats: [(What, bool); 4]| {
        let mut requests = whats.map(|(what, long)| Request {
            replaces: (what == What::Work && !long).then_some(0),
            ..request(caller, what, long, &strings)
        });
        // A free lane takes it at once; its time may be over when one becomes free.
        requests[2].hard = soon(3);
        requests[2].class = Class::Verdict;
        // Better than what may be waiting before it.
        requests[3].class = Class::Duty;
        submitter(&worker, seen, requests.into())
    };
    use What::{Panic, Work};
    let first = of(
        1,
        [(Work, false), (Panic, false), (Work, true), (Work, false)],
    );
    let second = of(
        2,
        [(Work, false), (Work, false), (Work, true), (Work, true)],
    );
    let canceller = {
        let worker = worker.clone();
        spawn(move || {
            worker.cancel(session(2));
            // So that only a lane can find what has lost its value.
            sync::pass(Duration::from_millis(3));
        })
    };
    let total = Arc::new(Mutex::new(None));
    let receiver = {
        let (worker, bell, total) = (worker.clone(), bell.clone(), total.clone());
        spawn(move || {
            let mut ends = Vec::new();
            loop {
                drain(&worker, &mut ends);
                if *total.lock().expect("no panic") == Some(ends.len()) {
                    return ends;
                }
                bell.listen();
            }
        })
    };
    let mut accepted = first.join().expect("no panic");
    accepted.extend(second.join().expect("no panic"));
    canceller.join().expect("no panic");
    *total.lock().expect("no panic") = Some(accepted.len());
    bell.ring();
    let ends = receiver.join().expect("no panic");
    one_end_each(&accepted, &ends, seen);
    let status = worker.status();
    assert_eq!(
        (status.queued, status.running, status.undelivered),
        (0, 0, 0)
    );
    assert_eq!(status.counts.accepted, status.counts.delivered);
    assert!(worker.shutdown(LONG));
}

#[test]
fn every_end_wakes_the_receiver() {
    check(
        ends_heard,
        &[
            "done",
            "superseded",
            "cancelled",
            "stopped",
            "crashed",
            "gave way",
            "refused",
        ],
    );
}

/// Time passes: jobs lose their value, lanes hang and are replaced, and the worker shuts down when
/// its grace is over, with jobs that do not respond. Reports of abandoned threads are ignored, and
/// those threads end.
fn time_goes_by(seen: &Seen) {
    let strings = Arc::<Strings>::default();
    let (worker, _) = worker(config());
    let of = |caller, whats: [(What, bool, Time); 3]| {
        let requests = whats.map(|(what, long, hard)| Request {
            hard,
            class: Class::Verdict,
            ..request(caller, what, long, &strings)
        });
        submitter(&worker, seen, requests.into())
    };
    use What::{Deaf, Endless, Work};
    let first = of(
        1,
        [
            (Deaf, false, far()),
            (Work, false, soon(60)),
            (Work, false, far()),
        ],
    );
    let second = of(
        2,
        [
            (Endless, true, soon(40)),
            (Work, true, far()),
            (Deaf, true, far()),
        ],
    );
    // Most ticks of the keeper come before shutdown, or none.
    for _ in 0..thread_rng().gen_range(0..16) {
        sync::advance();
        yield_now();
    }
    let over = Arc::new(AtomicBool::new(false));
    let ender = {
        let (worker, over) = (worker.clone(), over.clone());
        spawn(move || {
            let all_back = worker.shutdown(Duration::from_millis(50));
            over.store(true, Ordering::Relaxed);
            all_back
        })
    };
    while !over.load(Ordering::Relaxed) {
        sync::advance();
        yield_now();
    }
    let all_back = ender.join().expect("no panic");
    let mut accepted = first.join().expect("no panic");
    accepted.extend(second.join().expect("no panic"));
    let mut ends = Vec::new();
    drain(&worker, &mut ends);
    one_end_each(&accepted, &ends, seen);
    let status = worker.status();
    if status.counts.hangs > 0 {
        note(seen, "hung");
    }
    note(seen, if all_back { "all back" } else { "not all back" });
    strings.let_go.store(true, Ordering::Relaxed);
    while strings.deaf_threads.load(Ordering::Relaxed) > 0 {
        yield_now();
    }
    assert_eq!(worker.try_recv(), None);
    assert_eq!(worker.status().counts.delivered, status.counts.delivered);
}

#[test]
fn deadlines_hangs_and_an_end_without_patience_end_every_job_once() {
    check(
        time_goes_by,
        &[
            "done",
            "stopped",
            "cancelled",
            "crashed",
            "hung",
            "all back",
            "not all back",
        ],
    );
}
