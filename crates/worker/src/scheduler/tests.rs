//! The scheduler driven by hand, in virtual time.

use super::*;
use crate::toy::{BAD, GOOD, PANIC, PROOF, Toy, ToyEnv, request};
use alphorn_scheme::session::Finish;
use alphorn_scheme::{Class, Fate, Outcome, classify};
use alphorn_types::Slot;
use std::collections::BTreeMap;

mod hung;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> At {
    At {
        now: Time::from_millis(ms),
        mono_ns: ms * MS,
    }
}

fn config() -> WorkerConfig {
    WorkerConfig {
        plan: plan::Config {
            fast_lanes: 1,
            prove_lanes: 1,
            prove_threads: 1,
            jobs_queued_max: 8,
            ..plan::Config::default()
        },
        undelivered_max: 8,
        ..WorkerConfig::default()
    }
}

fn scheduler_of(config: WorkerConfig) -> Scheduler<Toy> {
    let env = Environment::new(0, ToyEnv::default(), config.child.clone());
    Scheduler::new(config.settled(), Arc::new(env))
}

fn load(scheduler: &Scheduler<Toy>, request: Request<Toy>) -> Request<Load<Toy>> {
    let env = scheduler.env();
    request
        .with(())
        .with(Load::new(Arc::new(request.work), env))
}

fn submit(scheduler: &mut Scheduler<Toy>, ms: u64, toy: Toy) -> JobId {
    let (soft, hard) = (Time::from_millis(ms + 1000), Time::from_millis(ms + 9000));
    let request = load(scheduler, request(Class::Verdict, 0, toy, soft, hard));
    scheduler.submit(at(ms), request).expect("there is room")
}

fn start(scheduler: &mut Scheduler<Toy>, ms: u64, lane: usize) -> Order<Toy> {
    match scheduler.next(at(ms), lane, 0) {
        Turn::Work(order) => order,
        Turn::Wait | Turn::Leave => panic!("lane {lane} has no work"),
    }
}

fn crash(scheduler: &mut Scheduler<Toy>, ms: u64, lane: usize) {
    scheduler.ended(at(ms), lane, 0, Report::of(Ended::Crashed(Some([9; 32]))));
}

fn done(scheduler: &mut Scheduler<Toy>, ms: u64, lane: usize) {
    scheduler.ended(at(ms), lane, 0, Report::of(Ended::Done(0)));
}

/// State of a random schedule.
struct Schedule {
    scheduler: Scheduler<Toy>,
    state: u64,
    now_ms: u64,
    accepted: BTreeMap<JobId, u32>,
    /// The thread of each lane, and whether it has an order.
    lanes: Vec<(u64, bool)>,
    /// Threads that were abandoned with a job.
    lost: Vec<(usize, u64)>,
}

impl Schedule {
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) % bound
    }

    fn submit(&mut self) {
        let inputs = vec![GOOD; self.below(6) as usize + 1];
        let toy = Toy {
            seed: self.below(4),
            prior_ns: [1, 20, 200][self.below(3) as usize] * MS,
            ..Toy::new(&inputs)
        };
        let class = [Class::Duty, Class::Verdict, Class::Current, Class::Backfill];
        let class = class[self.below(4) as usize];
        let soft = Time::from_millis(self.now_ms + self.below(400));
        let hard = Time::from_millis(self.now_ms + 1 + self.below(1500));
        let mut request = request(class, self.below(3) as u16, toy, soft, hard);
        request.session.slot = Slot(self.now_ms / 1000);
        request.session.seq = self.below(3) as u32;
        request.replaces = (self.below(3) == 0).then_some(1);
        let request = load(&self.scheduler, request);
        if let Ok(job) = self.scheduler.submit(at(self.now_ms), request) {
            assert_eq!(self.accepted.insert(job, 0), None);
        }
    }

    fn report(&mut self) -> Report<u64> {
        let ended = match self.below(8) {
            0 | 1 => Ended::Crashed(Some([self.below(3) as u8; 32])),
            2 => Ended::Stopped,
            3 => Ended::Faulty,
            4 => Ended::Refused("no".into()),
            5 => Ended::Invalid {
                bad: vec![0],
                crasher: false,
            },
            _ => Ended::Done(1),
        };
        Report {
            ran_ns: self.below(400 * MS),
            usual: self.below(2) == 0,
            kernel_fault: self.below(50) == 0,
            peak_bytes: self.below(4),
            ..Report::of(ended)
        }
    }

    fn lane(&mut self) {
        let lane = self.below(self.lanes.len() as u64) as usize;
        let (thread, busy) = self.lanes[lane];
        if busy {
            let report = self.report();
            self.scheduler.ended(at(self.now_ms), lane, thread, report);
            self.lanes[lane].1 = false;
        } else if let Turn::Work(_) = self.scheduler.next(at(self.now_ms), lane, thread) {
            self.lanes[lane].1 = true;
        }
    }

    fn watch(&mut self) {
        for hung in self
            .scheduler
            .hung(at(self.now_ms))
            .into_iter()
            .filter(|hung| hung.hangs)
        {
            let (lane, thread) = (hung.lane, hung.thread);
            assert_eq!(self.lanes[lane], (thread, true));
            let next = self.scheduler.abandon(at(self.now_ms), &hung, None);
            self.lost.push((lane, thread));
            self.lanes[lane] = (next.unwrap_or(u64::MAX), false);
        }
        if self.below(4) == 0
            && let Some((lane, thread)) = self.lost.pop()
        {
            let report = self.report();
            self.scheduler.ended(at(self.now_ms), lane, thread, report);
        }
    }

    fn receive(&mut self) {
        while let Some(finished) = self.scheduler.receive() {
            let ends = self
                .accepted
                .get_mut(&finished.job)
                .expect("it was accepted");
            *ends += 1;
            assert_eq!(*ends, 1, "job {:?} ended twice", finished.job);
        }
    }

    fn step(&mut self) {
        self.now_ms += self.below(40);
        match self.below(10) {
            0..=3 => self.submit(),
            4..=6 => self.lane(),
            7 => self.watch(),
            8 => self.receive(),
            _ => {
                let (slot, seq) = (Slot(self.now_ms / 1000), self.below(3) as u32);
                match self.below(8) {
                    0 => self
                        .scheduler
                        .cancel(at(self.now_ms), SessionId { slot, seq }),
                    _ => self.scheduler.expire(at(self.now_ms)),
                }
            }
        }
        assert!(self.scheduler.tickets.len() + self.scheduler.done.len() <= 18);
        assert!(self.scheduler.report.is_none());
    }
}

/// W1 and R20: every order of submissions, runs, crashes, hangs, late threads, cancellations and shutdown yields
/// exactly one end for each accepted job. Threads share only the scheduler, under one lock, so the orders of its calls
/// are the orders of the threads. Whether each waiting thread is woken is checked by `model.rs`.
#[test]
fn every_accepted_job_ends_exactly_once_in_every_order() {
    for seed in 0..1500 {
        let scheduler = scheduler_of(WorkerConfig {
            hang_after_ms: 300,
            run_max_ms: 500,
            ..config()
        });
        let mut schedule = Schedule {
            scheduler,
            state: seed,
            now_ms: 0,
            accepted: BTreeMap::new(),
            lanes: vec![(0, false); 2],
            lost: Vec::new(),
        };
        (0..300).for_each(|_| schedule.step());
        let end = at(schedule.now_ms);
        schedule.scheduler.close(end);
        let late = request(Class::Duty, 0, Toy::new(&[GOOD]), Time::MAX, Time::MAX);
        let late = load(&schedule.scheduler, late);
        assert_eq!(
            schedule.scheduler.submit(end, late),
            Err(SubmitError::Closing)
        );
        if seed % 2 == 0 {
            (0..20).for_each(|_| schedule.lane());
        }
        schedule.scheduler.give_up(end);
        schedule.receive();
        assert!(
            schedule.accepted.values().all(|ends| *ends == 1),
            "seed {seed}"
        );
        assert!(schedule.scheduler.tickets.is_empty(), "seed {seed}");
        let counts = schedule.scheduler.status().counts;
        assert_eq!(counts.accepted, counts.delivered);
    }
}

/// A rerun after a crash is still the submitted job.
#[test]
fn what_runs_is_told_by_the_name_that_it_was_given() {
    let mut scheduler = scheduler_of(config());
    assert_eq!(scheduler.at_work(at(0)), []);
    let job = submit(&mut scheduler, 0, Toy::new(&[GOOD; 3]));
    assert_eq!(scheduler.at_work(at(1)), [], "it waits");
    let order = start(&mut scheduler, 2, 0);
    order.beats.fetch_add(7, Ordering::Relaxed);
    let running = scheduler.at_work(at(5));
    let [one] = running[..] else {
        panic!("one job runs: {running:?}");
    };
    let told = (one.job, one.run.inputs, one.ran_ns, one.beats);
    assert_eq!(told, (job, 3, 3 * MS, 7));
    crash(&mut scheduler, 6, 0);
    start(&mut scheduler, 8, 0);
    let again = scheduler.at_work(at(9));
    assert_eq!(again.iter().map(|one| one.job).collect::<Vec<_>>(), [job]);
    assert_eq!(again[0].ran_ns, MS);
    done(&mut scheduler, 10, 0);
    assert_eq!(scheduler.at_work(at(11)), []);
}

/// R2: a result is delivered whenever it arrives, and its fate is a function of facts that do not include the slots of
/// other sessions (W2).
#[test]
fn late_results_are_delivered_and_none_of_use_is_lost() {
    let mut kept = 0;
    for late_ms in [0, 1, 100, 800, 4000, 12_000] {
        let mut scheduler = scheduler_of(config());
        let job = submit(&mut scheduler, 0, Toy::new(&[GOOD]));
        start(&mut scheduler, 0, 0);
        scheduler.ended(at(1000 + late_ms), 0, 0, Report::of(Ended::Done(1)));
        let finished = scheduler.receive().expect("it is never thrown away");
        assert_eq!((finished.job, finished.outcome), (job, Outcome::Done(1)));
        assert_eq!(finished.late, late_ms > 0);
        let slots = 1 + late_ms / 4000;
        for (current, gain_votes, conflicting) in [
            (true, 1, false),
            (false, 1, false),
            (false, 0, false),
            (false, 1, true),
        ] {
            let fate = |now| {
                let finish = Finish {
                    slot: finished.session.slot,
                    now: Slot(now),
                    session_current: current,
                    conflicting,
                    gain_votes,
                };
                classify(&finish, 32, 1)
            };
            let expected = match (current, gain_votes, conflicting) {
                (true, ..) => Fate::Use,
                (_, _, true) => Fate::Drop(alphorn_scheme::StaleReason::Conflicting),
                (_, 0, _) => Fate::Drop(alphorn_scheme::StaleReason::NoGain),
                _ if slots <= 2 => Fate::PublishLate,
                _ => Fate::Keep,
            };
            assert_eq!(fate(slots), expected, "{late_ms} ms late");
            kept += u32::from(expected == Fate::PublishLate || expected == Fate::Keep);
            let closed = fate(finished.session.slot.0 + 32);
            assert!(current || matches!(closed, Fate::Drop(_)));
        }
    }
    assert_eq!(kept, 6, "each that is valid and adds votes");
}

/// W2 at the scheduler: the end of a job does not affect jobs of other sessions.
#[test]
fn an_end_touches_no_other_session() {
    let mut scheduler = scheduler_of(config());
    submit(&mut scheduler, 0, Toy::new(&[GOOD]));
    start(&mut scheduler, 0, 0);
    let mut other = request(
        Class::Current,
        1,
        Toy::new(&[GOOD; 3]),
        Time::from_millis(9000),
        Time::MAX,
    );
    other.session.slot = Slot(2);
    let other = load(&scheduler, other);
    let other = scheduler.submit(at(0), other).expect("there is room");
    let seen = |scheduler: &Scheduler<Toy>| {
        let ticket = &scheduler.tickets[&other];
        (
            ticket.job,
            ticket.stage,
            ticket.cut,
            ticket.timing,
            ticket.request.clone(),
        )
    };
    let before = seen(&scheduler);
    done(&mut scheduler, 2000, 0);
    let after = seen(&scheduler);
    assert_eq!(
        (before.0, before.1, before.2, before.3),
        (after.0, after.1, after.2, after.3)
    );
    assert_eq!(format!("{:?}", before.4), format!("{:?}", after.4));
    assert_eq!(
        (
            scheduler.status().queued,
            scheduler.receive().map(|f| f.job)
        ),
        (1, Some(JobId(0)))
    );
}

#[test]
fn a_crash_is_run_again_on_portable_kernels() {
    let mut scheduler = scheduler_of(config());
    let job = submit(&mut scheduler, 0, Toy::new(&[GOOD; 4]));
    assert!(!start(&mut scheduler, 0, 0).portable);
    crash(&mut scheduler, 1, 0);
    assert!(scheduler.receive().is_none());
    assert!(start(&mut scheduler, 1, 0).portable);
    done(&mut scheduler, 2, 0);
    let finished = scheduler.receive().expect("it ended");
    assert_eq!((finished.job, finished.outcome), (job, Outcome::Done(0)));
    assert_eq!(scheduler.status().counts.crashes, 1);
}

#[test]
fn the_input_that_crashes_is_found_and_not_run_again() {
    let mut scheduler = scheduler_of(config());
    let mut inputs = vec![GOOD; 100];
    inputs[37] = PANIC;
    let job = submit(&mut scheduler, 0, Toy::new(&inputs));
    let mut runs = 0;
    let finished = loop {
        if let Some(finished) = scheduler.receive() {
            break finished;
        }
        let order = start(&mut scheduler, runs, 0);
        match order.task.inputs.contains(&PANIC) {
            true => crash(&mut scheduler, runs, 0),
            false => done(&mut scheduler, runs, 0),
        }
        runs += 1;
    };
    assert_eq!(
        (finished.job, finished.outcome),
        (job, Outcome::Invalid(vec![37]))
    );
    assert!(finished.crasher && finished.leftover == 0);
    assert!(runs <= 2 + 2 * 7 + 4, "{runs} runs");
    assert_eq!(scheduler.status().quarantined, 1);
    submit(&mut scheduler, 50, Toy::new(&[PANIC]));
    let order = start(&mut scheduler, 50, 0);
    let name = order.task.input_digest(0).expect("has a name");
    assert!(order.quarantine.expect("is not empty").holds(&name));
}

/// Say because all of them need more memory than there is.
#[test]
fn inputs_that_crash_only_together_are_not_blamed() {
    let mut scheduler = scheduler_of(config());
    let job = submit(&mut scheduler, 0, Toy::new(&[GOOD; 100]));
    let mut runs = 0;
    let finished = loop {
        if let Some(finished) = scheduler.receive() {
            break finished;
        }
        let order = start(&mut scheduler, runs, 0);
        match order.task.inputs.len() >= 38 {
            true => crash(&mut scheduler, runs, 0),
            false => done(&mut scheduler, runs, 0),
        }
        runs += 1;
    };
    assert_eq!((finished.job, finished.outcome), (job, Outcome::Crashed));
    assert!(!finished.crasher);
    assert!(runs <= 2 + 2 * 7 + 4, "{runs} runs");
    assert_eq!(scheduler.status().quarantined, 1, "the job as a whole");
}

#[test]
fn a_group_that_crashes_thrice_is_refused() {
    let mut scheduler = scheduler_of(WorkerConfig {
        crash_retries_max: 0,
        ..config()
    });
    for ms in 0..3 {
        let toy = Toy {
            seed: ms,
            ..Toy::new(&[PANIC])
        };
        submit(&mut scheduler, ms, toy);
        start(&mut scheduler, ms, 0);
        crash(&mut scheduler, ms, 0);
        assert_eq!(
            scheduler.receive().map(|f| f.outcome),
            Some(Outcome::Invalid(vec![0]))
        );
    }
    let again = request(Class::Verdict, 0, Toy::new(&[GOOD]), Time::MAX, Time::MAX);
    let again = load(&scheduler, again);
    let refused = scheduler.submit(at(4), again);
    assert_eq!(
        refused,
        Err(SubmitError::GroupCrashes {
            crashes: 3,
            until: 33
        })
    );
    let other = request(Class::Verdict, 1, Toy::new(&[GOOD]), Time::MAX, Time::MAX);
    let other = load(&scheduler, other);
    assert!(scheduler.submit(at(4), other).is_ok());
}

#[test]
fn results_that_nobody_receives_bound_what_is_accepted() {
    let mut scheduler = scheduler_of(config());
    let mut accepted = 0;
    let refused = loop {
        let toy = request(Class::Verdict, 0, Toy::new(&[GOOD]), Time::MAX, Time::MAX);
        let toy = load(&scheduler, toy);
        match scheduler.submit(at(0), toy) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        start(&mut scheduler, 0, 0);
        done(&mut scheduler, 0, 0);
    };
    assert_eq!(
        (accepted, refused),
        (18, SubmitError::Undelivered { max: 18 })
    );
    assert!(scheduler.receive().is_some());
    submit(&mut scheduler, 0, Toy::new(&[GOOD]));
}

#[test]
fn lanes_that_hang_are_replaced_until_too_many_do() {
    let mut scheduler = scheduler_of(WorkerConfig {
        hang_after_ms: 2_000,
        lanes_abandoned_max: 1,
        ..config()
    });
    let long = Toy {
        prior_ns: 400 * MS,
        ..Toy::new(&[GOOD])
    };
    let mut thread = 0;
    for (ms, replaced) in [(0, true), (10_000, false)] {
        let toy = Toy {
            seed: ms,
            ..long.clone()
        };
        submit(&mut scheduler, ms, toy);
        let Turn::Work(_) = scheduler.next(at(ms), 1, thread) else {
            panic!("the prove lane takes it");
        };
        assert!(scheduler.hung(at(ms + 2_000)).is_empty());
        let hung = scheduler.hung(at(ms + 2_001));
        assert!(hung.len() == 1 && hung[0].hangs);
        let next = scheduler.abandon(at(ms + 2_001), &hung[0], None);
        assert_eq!(next.is_some(), replaced);
        thread = next.unwrap_or(thread);
        assert_eq!(
            scheduler.receive().map(|f| f.outcome),
            Some(Outcome::Crashed)
        );
    }
    assert!(scheduler.status().degraded);
    let current = |work: Toy| request(Class::Current, 0, work, Time::MAX, Time::MAX);
    let refused = load(&scheduler, current(long.clone()));
    assert_eq!(
        scheduler.submit(at(20_000), refused),
        Err(SubmitError::Degraded { abandoned: 2 })
    );
    submit(&mut scheduler, 20_000, Toy::new(&[GOOD]));
    assert!(scheduler.refill().is_empty());
    // A thread that returns after all: all is well once the lane has one again, and not before.
    done(&mut scheduler, 20_000, 1);
    assert!(scheduler.receive().is_none());
    assert!(scheduler.status().degraded);
    let refused = load(&scheduler, current(long.clone()));
    assert_eq!(
        scheduler.submit(at(20_000), refused),
        Err(SubmitError::Degraded { abandoned: 1 })
    );
    assert_eq!(scheduler.refill(), [(1, 2)]);
    assert!(scheduler.refill().is_empty());
    assert!(!scheduler.status().degraded);
    // None can be started at first.
    scheduler.vacate(1);
    assert!(scheduler.status().degraded);
    assert_eq!(scheduler.refill(), [(1, 2)]);
    let long = load(&scheduler, current(long));
    let job = scheduler.submit(at(20_000), long).expect("there is room");
    let Turn::Work(order) = scheduler.next(at(20_001), 1, 2) else {
        panic!("the lane works again");
    };
    assert_eq!(order.job, job);
    scheduler.vacate(1);
    scheduler.close(at(20_002));
    assert!(scheduler.refill().is_empty(), "what ends starts no threads");
}

/// A host that is too slow, or suspended, while it verifies the proofs of others, which are valid.
#[test]
fn a_slow_verification_neither_hangs_nor_is_held_against_its_inputs() {
    let mut scheduler = scheduler_of(WorkerConfig {
        hang_after_ms: 2_000,
        run_max_ms: 5_000,
        ..config()
    });
    let proof = Toy {
        prior_ns: 400 * MS,
        ..Toy::new(&[PROOF])
    };
    let (mut thread, mut ms) = (0, 0);
    // More often than a group may crash before it is refused.
    for _ in 0..5 {
        submit(&mut scheduler, ms, proof.clone());
        let Turn::Work(order) = scheduler.next(at(ms), 1, thread) else {
            panic!("the prove lane takes it");
        };
        assert!(scheduler.hung(at(ms + 5_000)).is_empty(), "silent for 5 s");
        drop(order);
        // A job that never ends is abandoned, so that the lane continues.
        ms += 8_000;
        let hung = scheduler.hung(at(ms));
        assert!(hung.len() == 1 && hung[0].hangs);
        thread = scheduler
            .abandon(at(ms), &hung[0], Some([7; 32]))
            .expect("another thread");
        assert_eq!(
            scheduler.receive().map(|f| f.outcome),
            Some(Outcome::Crashed)
        );
        // The slow thread returns.
        scheduler.ended(at(ms), 1, thread - 1, Report::of(Ended::Done(0)));
        ms += 1;
    }
    assert_eq!(scheduler.status().quarantined, 0);
}

/// On a host where jobs take ten times their prediction, the limit on silence is based on what was learned.
#[test]
fn silence_is_measured_by_what_was_learned_of_a_loaded_machine() {
    let mut scheduler = scheduler_of(WorkerConfig {
        hang_after_ms: 100,
        ..config()
    });
    let long = Toy {
        prior_ns: 400 * MS,
        ..Toy::new(&[GOOD])
    };
    let mut ms = 0;
    for _ in 0..30 {
        submit(&mut scheduler, ms, long.clone());
        start(&mut scheduler, ms, 1);
        ms += 4_000;
        scheduler.ended(
            at(ms),
            1,
            0,
            Report {
                ran_ns: 4_000 * MS,
                usual: true,
                ..Report::of(Ended::Done(0))
            },
        );
        assert!(scheduler.receive().is_some());
    }
    submit(&mut scheduler, ms, long);
    start(&mut scheduler, ms, 1);
    assert!(
        scheduler.hung(at(ms + 7_000)).is_empty(),
        "a usual job of this machine"
    );
    assert_eq!(scheduler.hung(at(ms + 60_000)).len(), 1);
}

/// A child that is not ready when its job is asked to stop is given up, which is reported as a crash.
#[test]
fn a_job_that_is_not_wanted_any_more_does_not_run_again() {
    for ended in [Ended::Crashed(None), Ended::Refused("no child".into())] {
        let mut scheduler = scheduler_of(config());
        submit(&mut scheduler, 0, Toy::new(&[GOOD]));
        let order = start(&mut scheduler, 0, 0);
        let (slot, seq) = (Slot(1), 0);
        scheduler.cancel(at(1), SessionId { slot, seq });
        assert!(order.stop.is_stopped());
        scheduler.ended(at(2), 0, 0, Report::of(ended));
        let outcome = scheduler.receive().map(|finished| finished.outcome);
        assert_eq!(outcome, Some(Outcome::Cancelled));
        assert!(matches!(scheduler.next(at(3), 0, 0), Turn::Wait));
        assert_eq!(scheduler.status().counts.crashes, 0);
    }
}

#[test]
fn memory_beyond_the_estimate_is_learned() {
    let mut scheduler = scheduler_of(config());
    let toy = Toy {
        memory_bytes: 1 << 20,
        ..Toy::new(&[BAD])
    };
    let features = toy.features(&ToyEnv::default());
    for _ in 0..40 {
        submit(&mut scheduler, 0, toy.clone());
        let order = start(&mut scheduler, 0, 0);
        let said = scheduler.posts[0]
            .on
            .as_ref()
            .expect("runs")
            .features
            .memory_bytes;
        assert!(said >= 1 << 20 && order.task.memory_bytes == 1 << 20);
        let report = Report {
            peak_bytes: 3 << 20,
            ..Report::of(Ended::Done(0))
        };
        scheduler.ended(at(0), 0, 0, report);
        scheduler.receive();
    }
    let permille = scheduler.memory_permille(&features, 1);
    assert!((2_000..3_100).contains(&permille), "{permille}");
    assert!(!scheduler.status().kernel_disabled);
}
