//! Real threads, real time.

use crate::plan::Config;
use crate::toy::{
    ABORT, ASLEEP, AWAKE, BAD, DEAF, DEAF_BEATS, GOOD, HANG, OOM, PANIC, Toy, ToyEnv, WRONG,
    WRONG_BYTES, WRONG_EVERYWHERE, request,
};
use crate::{
    FaultFiles, Finished, Refused, Request, Session, SubmitError, Worker, WorkerConfig, steady_time,
};
use alphorn_scheme::{Class, JobId, Outcome};
use alphorn_types::{Slot, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

fn config() -> WorkerConfig {
    WorkerConfig {
        plan: Config {
            prove_threads: 2,
            ..Config::default()
        },
        ..WorkerConfig::default()
    }
}

fn worker(config: WorkerConfig) -> (Worker<Toy>, Receiver<()>) {
    worker_at(config, steady_time())
}

fn worker_at(
    config: WorkerConfig,
    time: impl Fn() -> Time + Send + Sync + 'static,
) -> (Worker<Toy>, Receiver<()>) {
    let (wake, woken) = channel();
    let wake = move || {
        let _ = wake.send(());
    };
    (
        Worker::start(ToyEnv::default(), config, time, wake).expect("threads"),
        woken,
    )
}

fn far() -> Time {
    Time::from_nanos(u64::MAX / 2)
}

fn verdict(inputs: &[u8]) -> Request<Toy> {
    request(Class::Verdict, 0, Toy::new(inputs), far(), far())
}

fn receive(worker: &Worker<Toy>, woken: &Receiver<()>) -> Finished<u64> {
    loop {
        if let Some(finished) = worker.try_recv() {
            return finished;
        }
        woken
            .recv_timeout(Duration::from_secs(20))
            .expect("a job ends");
    }
}

fn outcome(inputs: &[u8]) -> Outcome<u64> {
    let (worker, woken) = worker(config());
    worker.submit(verdict(inputs)).expect("there is room");
    receive(&worker, &woken).outcome
}

#[test]
fn jobs_run_on_both_kinds_of_lanes() {
    let (worker, woken) = worker(config());
    let session = Session {
        id: verdict(&[]).session,
        open: Time::ZERO,
        soft: far(),
        hard: far(),
    };
    worker.open(session).expect("there is room");
    let long = Toy {
        prior_ns: 400_000_000,
        ..Toy::new(&[GOOD; 7])
    };
    let short = worker.submit(verdict(&[GOOD; 3])).expect("there is room");
    let long = request(Class::Current, 1, long, far(), far());
    let long = worker.submit(long).expect("there is room");
    let ends: BTreeMap<_, _> = (0..2)
        .map(|_| receive(&worker, &woken))
        .map(|finished| (finished.job, finished.outcome))
        .collect();
    assert_eq!(
        ends,
        BTreeMap::from([(short, Outcome::Done(3)), (long, Outcome::Done(7))])
    );
    let counts = worker.status().counts;
    assert!((counts.accepted, counts.done) == (2, 2) && counts.prove_busy_ns > 0);
    assert!(worker.shutdown(Duration::from_secs(5)));
    assert_eq!(worker.submit(verdict(&[])), Err(SubmitError::Closing));
}

#[test]
fn bad_inputs_are_named() {
    let mut inputs = vec![GOOD; 300];
    for bad in [7, 100, 299] {
        inputs[bad] = BAD;
    }
    assert_eq!(outcome(&inputs), Outcome::Invalid(vec![7, 100, 299]));
}

/// R12 on threads: a fault of one kernel is survived; a fault of every kernel or of the encoder is
/// not delivered, and the inputs of both are saved.
#[test]
fn no_wrong_result_is_delivered() {
    let folder = tempfile::tempdir().expect("a folder");
    let (worker, woken) = worker(WorkerConfig {
        faults: Some(FaultFiles::new(folder.path().to_owned())),
        ..config()
    });
    let (mut state, mut failed) = (5_u64, 0);
    for job in 0..10_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let wrong = match (state >> 33) % 300 {
            0 => WRONG,
            1 => WRONG_EVERYWHERE,
            2 => WRONG_BYTES,
            _ => GOOD,
        };
        worker
            .submit(verdict(&[GOOD, wrong]))
            .expect("there is room");
        match receive(&worker, &woken).outcome {
            Outcome::Done(sum) => assert_eq!(sum, 2 + u64::from(wrong), "job {job}"),
            Outcome::SelfVerifyFailed => failed += u32::from(wrong != WRONG),
            other => panic!("job {job}: {other:?}"),
        }
    }
    let status = worker.status();
    assert!(failed > 20 && status.kernel_disabled, "{failed} {status:?}");
    let files = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(files, 16);
}

#[test]
fn panics_are_caught_and_the_culprit_is_found() {
    let mut inputs = vec![GOOD; 20];
    inputs[11] = PANIC;
    let (worker, woken) = worker(config());
    worker.submit(verdict(&inputs)).expect("there is room");
    let finished = receive(&worker, &woken);
    assert_eq!(
        (finished.outcome, finished.crasher),
        (Outcome::Invalid(vec![11]), true)
    );
    let crashes = worker.status().counts.crashes;
    // It is submitted again in another job, and does not run.
    worker
        .submit(verdict(&[GOOD, PANIC]))
        .expect("there is room");
    let finished = receive(&worker, &woken);
    assert_eq!(
        (finished.outcome, finished.crasher),
        (Outcome::Invalid(vec![1]), true)
    );
    assert_eq!(worker.status().counts.crashes, crashes);
}

/// R13 on threads: a hanging job ends, and another thread takes its lane.
#[test]
fn a_lane_that_hangs_is_replaced() {
    let (worker, woken) = worker(WorkerConfig {
        hang_after_ms: 150,
        ..config()
    });
    worker.submit(verdict(&[HANG])).expect("there is room");
    assert_eq!(receive(&worker, &woken).outcome, Outcome::Crashed);
    worker.submit(verdict(&[GOOD])).expect("there is room");
    assert_eq!(receive(&worker, &woken).outcome, Outcome::Done(1));
    let status = worker.status();
    assert_eq!(
        (status.abandoned, status.counts.hangs, status.degraded),
        (1, 1, false)
    );
    // The same job does not run a second time.
    worker.submit(verdict(&[HANG])).expect("there is room");
    assert!(matches!(
        receive(&worker, &woken).outcome,
        Outcome::Refused(_)
    ));
}

/// A process that was suspended for a while abandons what ran. Its threads are fine, and so is the
/// worker once each lane has a thread again.
#[test]
fn a_lane_that_was_not_replaced_works_again_once_its_thread_came_back() {
    let (worker, woken) = worker(WorkerConfig {
        hang_after_ms: 150,
        lanes_abandoned_max: 0,
        ..config()
    });
    let long = |input: u8| {
        let work = Toy {
            prior_ns: 400_000_000,
            ..Toy::new(&[input])
        };
        request(Class::Verdict, 0, work, far(), far())
    };
    worker.submit(long(ASLEEP)).expect("there is room");
    assert_eq!(receive(&worker, &woken).outcome, Outcome::Crashed);
    assert!(worker.status().degraded);
    let refused = SubmitError::Degraded { abandoned: 1 };
    assert_eq!(worker.submit(long(GOOD)), Err(refused));
    AWAKE.store(true, Ordering::Relaxed);
    let began = Instant::now();
    while worker.status().degraded {
        assert!(began.elapsed() < Duration::from_secs(20), "it stays so");
        std::thread::sleep(Duration::from_millis(1));
    }
    worker.submit(long(GOOD)).expect("there is room");
    assert_eq!(receive(&worker, &woken).outcome, Outcome::Done(1));
    assert!(worker.shutdown(Duration::from_secs(5)));
}

/// Shutdown does not wait for hanging threads, replaced or not.
#[test]
fn a_worker_ends_beside_a_lane_that_hangs() {
    let (worker, woken) = worker(WorkerConfig {
        hang_after_ms: 150,
        lanes_abandoned_max: 0,
        ..config()
    });
    let long = Toy {
        prior_ns: 400_000_000,
        ..Toy::new(&[HANG])
    };
    for work in [Toy::new(&[HANG]), long] {
        let hangs = request(Class::Verdict, 0, work, far(), far());
        worker.submit(hangs).expect("there is room");
    }
    for _ in 0..2 {
        assert_eq!(receive(&worker, &woken).outcome, Outcome::Crashed);
    }
    assert!(worker.status().degraded);
    assert!(worker.shutdown(Duration::from_secs(5)));
}

#[test]
fn jobs_stop_with_their_session_and_at_their_hard() {
    let (worker, woken) = worker(config());
    let slow = Toy {
        work_us: 30_000_000,
        ..Toy::new(&[GOOD])
    };
    let submitted = worker.submit(request(Class::Verdict, 0, slow.clone(), far(), far()));
    submitted.expect("there is room");
    while worker.status().running == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    worker.cancel(verdict(&[]).session);
    assert_eq!(receive(&worker, &woken).outcome, Outcome::Cancelled);
    let hard = steady_time()().saturating_add_ns(80_000_000);
    let submitted = worker.submit(request(Class::Verdict, 0, slow.clone(), hard, hard));
    submitted.expect("there is room");
    assert_eq!(receive(&worker, &woken).outcome, Outcome::Cancelled);
}

/// A worker knows only the time it is given: if that jumps, so do deadlines, and if it goes
/// backwards, they wait until it has caught up.
#[test]
fn deadlines_go_by_the_time_that_is_given() {
    let given = Arc::new(AtomicU64::new(1_000));
    let shown = given.clone();
    let time = move || Time::from_millis(shown.load(Ordering::Relaxed));
    let (worker, woken) = worker_at(config(), time);
    let until = |hard_ms| {
        let slow = Toy {
            work_us: 30_000_000,
            ..Toy::new(&[GOOD])
        };
        let hard = Time::from_millis(hard_ms);
        request(Class::Verdict, 0, slow, hard, hard)
    };
    // The host's clock is half a century later.
    worker.submit(until(1_001)).expect("there is room");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(worker.status().running, 1, "its time is not over");
    given.store(1_001, Ordering::Relaxed);
    assert_eq!(receive(&worker, &woken).outcome, Outcome::Cancelled);
    given.store(900, Ordering::Relaxed);
    let expired = Err(SubmitError::Refused(Refused::Expired));
    assert_eq!(worker.submit(until(1_000)), expired);
    worker.submit(until(1_002)).expect("there is room");
    given.store(1_002, Ordering::Relaxed);
    assert_eq!(receive(&worker, &woken).outcome, Outcome::Cancelled);
}

/// Commands for children only are ordinary work for a thread that receives them.
#[test]
fn a_worker_that_ends_ends_every_job() {
    let (worker, woken) = worker(WorkerConfig {
        hang_after_ms: 60_000,
        ..config()
    });
    let deaf = request(Class::Verdict, 0, Toy::new(&[DEAF]), far(), far());
    worker.submit(deaf).expect("there is room");
    // A lane with a job may find that it must end before it starts.
    while DEAF_BEATS.load(Ordering::Relaxed) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    for waits in [ABORT, OOM] {
        // The only fast lane is occupied: these never run.
        worker.submit(verdict(&[waits])).expect("there is room");
    }
    assert!(!worker.shutdown(Duration::from_millis(50)));
    for _ in 0..3 {
        assert_eq!(receive(&worker, &woken).outcome, Outcome::Cancelled);
    }
    assert!(worker.try_recv().is_none());
}

/// R20 with real threads: many concurrent callers, panicking lanes, and shutdown at any moment.
#[test]
fn every_accepted_job_ends_exactly_once_under_threads() {
    for round in 0..12_u64 {
        let (worker, woken) = worker(config());
        let worker = Arc::new(worker);
        let over = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..3_u64)
            .map(|caller| {
                let (worker, over) = (worker.clone(), over.clone());
                std::thread::spawn(move || {
                    let (mut accepted, mut state) = (Vec::new(), round << 8 | caller);
                    while !over.load(Ordering::Relaxed) && accepted.len() < 400 {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let draw = (state >> 33) % 100;
                        let toy = Toy {
                            seed: state,
                            work_us: draw * 3,
                            prior_ns: if draw < 20 { 200_000_000 } else { 1_000_000 },
                            ..Toy::new(&[GOOD, if draw < 2 { PANIC } else { GOOD }])
                        };
                        let index = (draw % 4) as u16;
                        let mut request = request(Class::Current, index, toy, far(), far());
                        request.session.seq = (draw % 3) as u32;
                        request.group.slot = Slot(state);
                        request.replaces = (draw % 2 == 0).then_some(0);
                        if let Ok(job) = worker.submit(request.clone()) {
                            accepted.push(job);
                        }
                        if draw >= 90 {
                            worker.cancel(request.session);
                        }
                    }
                    accepted
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(20 + 5 * round));
        let mut ends = BTreeMap::<JobId, u32>::new();
        let mut drain = || {
            while let Some(finished) = worker.try_recv() {
                *ends.entry(finished.job).or_default() += 1;
            }
        };
        drain();
        if round % 3 == 0 {
            worker.shutdown(Duration::from_millis(round));
        }
        over.store(true, Ordering::Relaxed);
        let accepted = callers
            .into_iter()
            .flat_map(|caller| caller.join().expect("no panic"));
        let accepted: Vec<JobId> = accepted.collect();
        worker.shutdown(Duration::from_secs(10));
        drain();
        drop(woken);
        assert_eq!(ends.len(), accepted.len(), "round {round}");
        assert!(ends.values().all(|count| *count == 1), "round {round}");
        assert!(
            accepted.iter().all(|job| ends.contains_key(job)),
            "round {round}"
        );
    }
}
