//! The plan in virtual time.

use super::*;
use std::collections::BTreeSet;

mod lanes;

/// A job whose inputs have equal cost, padded to multiples of `padding`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Toy {
    inputs: u32,
    input_ns: u64,
    padding: u32,
    memory_bytes: u64,
    isolated: bool,
}

impl Schedulable for Toy {
    fn features(&self) -> Features {
        let blocks = self.inputs.div_ceil(self.padding);
        Features {
            kind: 1,
            class: blocks.min(255) as u8,
            inputs: self.inputs,
            prior_ns: u64::from(blocks * self.padding) * self.input_ns,
            memory_bytes: u64::from(self.inputs) * self.memory_bytes,
        }
    }

    fn prefix(&self, inputs: u32) -> Option<Self> {
        (1..=self.inputs).contains(&inputs).then(|| Self {
            inputs,
            ..self.clone()
        })
    }

    fn isolated(&self) -> bool {
        self.isolated
    }
}

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// A job of `inputs` inputs of 1 ms each.
fn toy(inputs: u32) -> Toy {
    Toy {
        inputs,
        input_ns: MS,
        padding: 1,
        memory_bytes: 1,
        isolated: false,
    }
}

fn group(index: u16) -> Group {
    Group {
        slot: Slot(1),
        message: [0; 32],
        committee: Some(index),
        subcommittee: None,
    }
}

fn session(slot: u64) -> SessionId {
    SessionId {
        slot: Slot(slot),
        seq: 0,
    }
}

fn request(class: Class, work: Toy, soft_ms: u64, hard_ms: u64) -> Request<Toy> {
    Request {
        client: 0,
        session: session(1),
        group: group(0),
        replaces: None,
        class,
        soft: at(soft_ms),
        hard: at(hard_ms),
        votes: work.inputs,
        bytes: 1,
        work,
    }
}

/// One fast lane (0) and one prove lane (1) of one thread.
fn config() -> Config {
    Config {
        prove_threads: 1,
        ..Config::default()
    }
}

fn plan() -> Plan<Toy> {
    Plan::new(config(), CostModel::new())
}

const FAST: usize = 0;
const PROVE: usize = 1;

fn ends(plan: &mut Plan<Toy>) -> Vec<(u64, End)> {
    let mut ends = Vec::new();
    while let Some(output) = plan.poll_output() {
        if let Output::Finished(finished) = output {
            ends.push((finished.job.0, finished.end));
        }
    }
    ends
}

/// Submits at time zero; all requests here are accepted.
fn submit(plan: &mut Plan<Toy>, request: Request<Toy>) -> JobId {
    plan.submit(at(0), request).expect("accepted")
}

#[test]
fn classes_go_first_then_deadlines_then_density_then_age() {
    let mut plan = plan();
    let dense = |votes, soft| Request {
        votes,
        ..request(Class::Current, toy(5), soft, 9_000)
    };
    let maintenance = submit(&mut plan, request(Class::Maintenance, toy(5), 100, 9_000));
    let later = submit(&mut plan, dense(900, 2_000));
    let poor = submit(&mut plan, dense(5, 1_000));
    let rich = submit(&mut plan, dense(50, 1_000));
    let rich_too = submit(&mut plan, dense(50, 1_000));
    let verdict = submit(&mut plan, request(Class::Verdict, toy(5), 5_000, 9_000));
    let duty = submit(&mut plan, request(Class::Duty, toy(5), 5_000, 9_000));
    let mut order = Vec::new();
    while let Some(start) = plan.next(at(1), FAST) {
        order.push(start.job);
        plan.ended(at(1), FAST, Ran::Through { ran_ns: 5 * MS });
    }
    assert_eq!(
        order,
        [duty, verdict, rich, rich_too, poor, later, maintenance]
    );
}

#[test]
fn a_newer_job_of_a_role_and_group_replaces_the_one_that_waits() {
    let mut plan = plan();
    let of = |role, index, inputs| Request {
        replaces: Some(role),
        group: group(index),
        ..request(Class::Current, toy(inputs), 4_000, 9_000)
    };
    let first = submit(&mut plan, of(1, 0, 10));
    let other_role = submit(&mut plan, of(2, 0, 10));
    let other_group = submit(&mut plan, of(1, 1, 10));
    let second = submit(&mut plan, of(1, 0, 20));
    assert_eq!(ends(&mut plan), [(first.0, End::Superseded)]);
    assert_eq!(plan.queued(), 3);
    // A running job is not replaced.
    let started = plan.next(at(1), FAST).expect("a job fits").job;
    assert!([second, other_role, other_group].contains(&started));
    let again = (0..2).map(|_| submit(&mut plan, of(1, 0, 30)));
    assert_eq!(again.count(), 2);
    plan.ended(at(2), FAST, Ran::Through { ran_ns: MS });
    assert!(ends(&mut plan).contains(&(started.0, End::Ran)));
}

#[test]
fn short_jobs_take_fast_lanes_and_long_ones_prove_lanes() {
    let mut plan = plan();
    let long = submit(&mut plan, request(Class::Current, toy(500), 4_000, 9_000));
    let short = submit(&mut plan, request(Class::Current, toy(5), 4_000, 9_000));
    assert_eq!(plan.next(at(0), FAST).map(|start| start.job), Some(short));
    assert_eq!(plan.next(at(0), PROVE).map(|start| start.job), Some(long));
    plan.ended(at(5), FAST, Ran::Through { ran_ns: 5 * MS });
    assert_eq!(plan.next(at(5), FAST), None);
}

#[test]
fn urgent_long_jobs_take_half_of_the_fast_lanes_once_prove_lanes_are_busy() {
    let config = Config {
        fast_lanes: 4,
        ..config()
    };
    let mut plan = Plan::new(config, CostModel::new());
    for _ in 0..5 {
        submit(&mut plan, request(Class::Verdict, toy(500), 4_000, 9_000));
    }
    assert_eq!(plan.next(at(0), 0), None, "a prove lane is free");
    assert!(plan.next(at(0), 4).is_some());
    let started = (0..4).filter(|lane| plan.next(at(0), *lane).is_some());
    assert_eq!(started.count(), 2);
}

#[test]
fn a_long_duty_does_not_wait_for_a_proof() {
    let config = Config {
        fast_lanes: 1,
        ..config()
    };
    let mut plan = Plan::new(config, CostModel::new());
    submit(
        &mut plan,
        request(Class::Backfill, toy(2_000), 8_000, 9_000),
    );
    assert!(plan.next(at(0), 1).is_some());
    submit(&mut plan, request(Class::Verdict, toy(500), 4_000, 9_000));
    assert_eq!(plan.next(at(0), 0), None, "the only fast lane is kept");
    let duty = submit(&mut plan, request(Class::Duty, toy(500), 4_000, 9_000));
    let start = plan.next(at(0), 0).expect("what a node owes");
    assert_eq!(start.job, duty);
}

#[test]
fn what_does_not_fit_before_soft_is_cut() {
    let mut plan = plan();
    let job = submit(&mut plan, request(Class::Current, toy(1000), 850, 9_000));
    let start = plan.next(at(0), PROVE).expect("a prefix fits");
    assert_eq!((start.job, start.probe), (job, false));
    // 800 ms are left before publishing; nine in ten jobs take at most 1.57 times the prior.
    assert_eq!(start.work.inputs, 510);
    plan.ended(at(600), PROVE, Ran::Through { ran_ns: 600 * MS });
    let Some(Output::Finished(finished)) = plan.poll_output() else {
        panic!("the job ended");
    };
    assert_eq!((finished.leftover, finished.late), (490, false));
}

#[test]
fn a_prefix_ends_at_a_padding_step() {
    let mut plan = plan();
    let padded = Toy {
        padding: 256,
        ..toy(1000)
    };
    submit(&mut plan, request(Class::Current, padded, 900, 9_000));
    let start = plan.next(at(0), PROVE).expect("a prefix fits");
    assert_eq!(start.work.inputs, 512);
}

#[test]
fn what_can_only_be_late_runs_when_nothing_else_can() {
    let mut plan = plan();
    let uncut = Toy {
        padding: 1000,
        ..toy(1000)
    };
    let late = submit(
        &mut plan,
        request(Class::Current, uncut.clone(), 900, 9_000),
    );
    let backfill = submit(&mut plan, request(Class::Backfill, toy(500), 900, 9_000));
    assert_eq!(
        plan.next(at(0), PROVE).map(|start| start.job),
        Some(backfill)
    );
    plan.ended(at(500), PROVE, Ran::Through { ran_ns: 500 * MS });
    let start = plan.next(at(500), PROVE).expect("a probe");
    assert_eq!((start.job, start.probe), (late, true));
    plan.ended(at(1500), PROVE, Ran::Through { ran_ns: 1000 * MS });
    while let Some(output) = plan.poll_output() {
        if let Output::Finished(finished) = output {
            assert_eq!(finished.late, finished.job == late);
            assert_eq!(finished.end, End::Ran, "a late result is not thrown away");
        }
    }
}

#[test]
fn nothing_long_runs_into_the_next_session() {
    let mut plan = plan();
    let next = Session {
        id: session(2),
        open: at(1_000),
        soft: at(2_000),
        hard: at(9_000),
    };
    plan.open(at(0), next).expect("accepted");
    submit(&mut plan, request(Class::Backfill, toy(900), 500, 9_000));
    assert_eq!(plan.next(at(0), PROVE), None);
    assert_eq!(plan.next_deadline(at(0)), Some(at(1_000)));
    assert!(plan.next(at(1_000), PROVE).is_some());
}

#[test]
fn after_soft_a_job_is_a_late_one_and_at_hard_it_is_cancelled() {
    let mut plan = plan();
    let old = submit(&mut plan, request(Class::Current, toy(5), 100, 1_000));
    let fresh = submit(&mut plan, request(Class::Current, toy(5), 900, 1_000));
    assert_eq!(plan.next_deadline(at(0)), Some(at(100)));
    assert_eq!(plan.next(at(200), FAST).map(|start| start.job), Some(fresh));
    assert_eq!(plan.next_deadline(at(200)), Some(at(1_000)));
    plan.expire(at(1_000));
    assert_eq!(
        plan.poll_output(),
        Some(Output::Finished(Finished {
            job: old,
            session: session(1),
            group: group(0),
            end: End::Cancelled,
            late: true,
            leftover: 5,
            queued_ns: 1_000 * MS,
            ran_ns: 0,
        }))
    );
    let stop = Output::Stop {
        lane: FAST,
        job: fresh,
    };
    assert_eq!(plan.poll_output(), Some(stop));
    plan.expire(at(1_001));
    assert_eq!(plan.poll_output(), None, "asked once");
    plan.ended(at(1_002), FAST, Ran::Stopped);
    assert_eq!(ends(&mut plan), [(fresh.0, End::Cancelled)]);
    assert_eq!(
        plan.costs().predict(&key(), MS, 1).t50_ns,
        MS,
        "nothing learned"
    );
    assert_eq!(plan.next_deadline(at(1_002)), None);
}

fn key() -> CostKey {
    CostKey::new(&toy(5).features(), 1, 1)
}

#[test]
fn sessions_bound_their_jobs_and_end_them() {
    let mut plan = plan();
    let bounds = Session {
        id: session(1),
        open: at(0),
        soft: at(300),
        hard: at(600),
    };
    plan.open(at(0), bounds).expect("accepted");
    let a = submit(&mut plan, request(Class::Current, toy(5), 4_000, 9_000));
    let b = submit(&mut plan, request(Class::Current, toy(5), 4_000, 9_000));
    let other = Request {
        session: session(2),
        ..request(Class::Current, toy(5), 4_000, 9_000)
    };
    let c = submit(&mut plan, other);
    assert_eq!(plan.next_deadline(at(0)), Some(at(300)));
    assert_eq!(plan.next(at(1), FAST).map(|start| start.job), Some(a));
    plan.cancel(at(2), session(1));
    assert_eq!(
        plan.poll_output()
            .map(|output| matches!(output, Output::Finished(f) if f.job == b)),
        Some(true)
    );
    assert_eq!(
        plan.poll_output(),
        Some(Output::Stop { lane: FAST, job: a })
    );
    plan.ended(at(3), FAST, Ran::Through { ran_ns: 2 * MS });
    assert_eq!(
        ends(&mut plan),
        [(a.0, End::Ran)],
        "it was faster than the stop"
    );
    assert_eq!(plan.next(at(3), FAST).map(|start| start.job), Some(c));
}

#[test]
fn a_full_queue_sheds_the_lowest_class_and_the_oldest_slot() {
    let config = Config {
        jobs_queued_max: 3,
        queue_bytes_max: 10,
        ..config()
    };
    let mut plan = Plan::new(config, CostModel::new());
    let of = |class, slot, bytes| Request {
        session: session(slot),
        bytes,
        ..request(class, toy(5), 4_000, 9_000)
    };
    let current = submit(&mut plan, of(Class::Current, 7, 1));
    let young = submit(&mut plan, of(Class::Backfill, 6, 1));
    let old = submit(&mut plan, of(Class::Backfill, 5, 1));
    let full = Refused::QueueFull { max: 3 };
    assert_eq!(plan.submit(at(0), of(Class::Backfill, 5, 1)), Err(full));
    assert_eq!(plan.submit(at(0), of(Class::Maintenance, 9, 1)), Err(full));
    let duty = submit(&mut plan, of(Class::Duty, 7, 1));
    assert_eq!(ends(&mut plan), [(old.0, End::Refused(full))]);
    let bytes = Refused::BytesFull { bytes: 9, max: 10 };
    submit(&mut plan, of(Class::Duty, 8, 9));
    assert_eq!(
        ends(&mut plan),
        [
            (young.0, End::Refused(full)),
            (current.0, End::Refused(bytes))
        ]
    );
    assert_eq!(plan.submit(at(0), of(Class::Duty, 7, 9)), Err(full_bytes()));
    assert_eq!(plan.queued(), 2);
    assert_eq!(plan.next(at(0), FAST).map(|start| start.job), Some(duty));
}

fn full_bytes() -> Refused {
    Refused::BytesFull { bytes: 9, max: 10 }
}

#[test]
fn memory_is_shared_and_what_is_too_large_is_cut_or_refused() {
    let config = Config {
        memory_budget_bytes: 1_000,
        prove_lanes: 2,
        ..config()
    };
    let mut plan = Plan::new(config, CostModel::new());
    let large = |inputs, memory_bytes| Toy {
        memory_bytes,
        ..toy(inputs)
    };
    let refused = plan.submit(
        at(0),
        request(Class::Backfill, large(500, 5_000), 100, 90_000),
    );
    let error = Refused::Memory {
        bytes: 2_500_000,
        max: 1_000,
    };
    assert_eq!(refused, Err(error));
    submit(
        &mut plan,
        request(Class::Backfill, large(500, 4), 100, 90_000),
    );
    let start = plan.next(at(0), 1).expect("a prefix fits");
    assert_eq!(start.work.inputs, 250);
    submit(
        &mut plan,
        request(Class::Backfill, large(100, 4), 100, 90_000),
    );
    assert_eq!(plan.next(at(0), 2), None, "no memory is left");
    plan.ended(at(9), 1, Ran::Crashed);
    assert!(plan.next(at(9), 2).is_some());
}

#[test]
fn refusals_name_the_bound() {
    let config = Config {
        sessions_open_max: 1,
        ..config()
    };
    let mut plan = Plan::new(config, CostModel::new());
    let open = |slot, hard| Session {
        id: session(slot),
        open: at(0),
        soft: at(1),
        hard: at(hard),
    };
    assert_eq!(plan.open(at(5), open(1, 5)), Err(Refused::Expired));
    assert_eq!(plan.open(at(5), open(1, 100)), Ok(()));
    assert_eq!(plan.open(at(5), open(1, 200)), Ok(()), "renewed");
    let full = Refused::SessionsFull { max: 1 };
    assert_eq!(plan.open(at(5), open(2, 100)), Err(full));
    assert_eq!(
        plan.open(at(200), open(2, 300)),
        Ok(()),
        "the first is over"
    );
    let over = plan.submit(at(200), request(Class::Duty, toy(1), 100, 200));
    assert_eq!(over, Err(Refused::Expired));
}

/// Lanes, sessions and jobs drawn from a seed. Every accepted job ends exactly once, lanes never
/// run two jobs, and the bounds hold.
fn random_schedule(seed: u64) {
    let mut state = seed * 2 + 1;
    let mut below = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let config = Config {
        fast_lanes: below(3) as u16,
        prove_lanes: 1 + below(2) as u16,
        prove_threads: 2,
        jobs_queued_max: 12,
        queue_bytes_max: 200,
        memory_budget_bytes: 500,
        ..Config::default()
    };
    let lanes = config.lanes();
    let mut plan = Plan::new(config, CostModel::new());
    let classes = [
        Class::Duty,
        Class::Verdict,
        Class::Current,
        Class::Backfill,
        Class::Maintenance,
    ];
    let (mut accepted, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let mut now_ms = 0;
    let mut take = |plan: &mut Plan<Toy>, running: &[Option<JobId>]| {
        while let Some(output) = plan.poll_output() {
            match output {
                Output::Finished(finished) => {
                    assert!(ended.insert(finished.job), "{:?} ends twice", finished.job);
                }
                Output::Stop { lane, job } => assert_eq!(running[lane], Some(job)),
            }
        }
    };
    let mut running = vec![None; lanes];
    for _ in 0..400 {
        now_ms += below(40);
        let now = at(now_ms);
        match below(10) {
            0 => {
                let open = now_ms + below(100);
                let bounds = Session {
                    id: session(below(20)),
                    open: at(open),
                    soft: at(open + below(200)),
                    hard: at(open + 200 + below(300)),
                };
                assert!(plan.open(now, bounds).is_ok());
            }
            1 => plan.cancel(now, session(below(20))),
            2 | 3 => plan.expire(now),
            4..8 => {
                let work = Toy {
                    inputs: 1 + below(300) as u32,
                    input_ns: 1 + below(2 * MS),
                    padding: 1 + below(64) as u32,
                    memory_bytes: below(4),
                    isolated: below(8) == 0,
                };
                let soft = now_ms + below(400);
                let request = Request {
                    client: below(3) as u32,
                    session: session(below(20)),
                    group: group(below(3) as u16),
                    replaces: (below(2) == 0).then_some(below(2) as u16),
                    bytes: below(60),
                    ..request(classes[below(5) as usize], work, soft, soft + below(600))
                };
                if let Ok(job) = plan.submit(now, request) {
                    assert!(accepted.insert(job));
                }
            }
            _ => {
                let lane = below(lanes as u64) as usize;
                if running[lane].take().is_some() {
                    let ran_ns = below(300 * MS);
                    let ran = [Ran::Through { ran_ns }, Ran::Stopped, Ran::Crashed];
                    plan.ended(now, lane, ran[below(3) as usize]);
                }
            }
        }
        take(&mut plan, &running);
        for lane in 0..lanes {
            if running[lane].is_none()
                && let Some(start) = plan.next(now, lane)
            {
                assert!(start.t50_ns <= start.t90_ns);
                running[lane] = Some(start.job);
            }
            take(&mut plan, &running);
            assert_eq!(plan.running(lane), running[lane]);
        }
        assert!(plan.queued() <= 12 && plan.queue.bytes() <= 200);
        assert!(
            plan.next_deadline(now)
                .is_none_or(|deadline| deadline > now)
        );
    }
    let end = at(now_ms + 10_000);
    plan.expire(end);
    take(&mut plan, &running);
    for (lane, job) in running.iter_mut().enumerate() {
        if job.take().is_some() {
            plan.ended(end, lane, Ran::Stopped);
        }
    }
    take(&mut plan, &running);
    assert_eq!(plan.queued(), 0);
    assert_eq!(accepted, ended, "seed {seed}");
}

#[test]
fn every_accepted_job_ends_exactly_once() {
    (0..500).for_each(random_schedule);
}

/// Two clients with long jobs. One has many of the best class and submits another whenever one has
/// ended; the other waits for only one of them each time.
#[test]
fn clients_take_turns_whatever_their_classes() {
    let of = |client, class| Request {
        client,
        ..request(class, toy(200), 60_000, 90_000)
    };
    // With either of the two having the lower number.
    for greedy in [1, 9] {
        let mut plan = plan();
        for _ in 0..100 {
            submit(&mut plan, of(greedy, Class::Duty));
        }
        assert!(plan.next(at(0), PROVE).is_some());
        for _ in 0..20 {
            let modest = submit(&mut plan, of(5, Class::Current));
            let mut turns = 0;
            loop {
                plan.ended(at(0), PROVE, Ran::Through { ran_ns: 200 * MS });
                let start = plan.next(at(0), PROVE).expect("a job waits");
                submit(&mut plan, of(greedy, Class::Duty));
                if start.job == modest {
                    break;
                }
                turns += 1;
                assert!(turns <= 1, "it waits for {turns} more");
            }
        }
    }
}

/// Jobs of the current phase become late at their own `soft`, whichever client they belong to.
#[test]
fn each_client_has_deadlines_of_its_own() {
    let mut plan = plan();
    for (client, soft_ms) in [(3, 300), (1, 200), (2, 100)] {
        let current = request(Class::Current, toy(500), soft_ms, 9_000);
        submit(&mut plan, Request { client, ..current });
    }
    for due_ms in [100, 200, 300] {
        assert_eq!(plan.next_deadline(at(0)), Some(at(due_ms)));
        plan.expire(at(due_ms));
    }
    assert_eq!(plan.next_deadline(at(300)), Some(at(9_000)));
}

#[test]
fn overload_does_not_cost_a_duty() {
    let mut plan = plan();
    let (mut useful_ms, mut now_ms, mut duties) = (0, 0, 0);
    let mut busy_until = [0; 2];
    while now_ms < 100_000 {
        // Five times the capacity of the prove lane, and a duty every 100 ms.
        if now_ms % 20 == 0 {
            let mut request = request(Class::Backfill, toy(100), now_ms + 500, now_ms + 2_000);
            request.session = session(now_ms / 1_000);
            let _ = plan.submit(at(now_ms), request);
        }
        if now_ms % 100 == 0 {
            let request = request(Class::Duty, toy(2), now_ms + 50, now_ms + 60);
            plan.submit(at(now_ms), request)
                .expect("a duty is never refused");
            duties += 1;
        }
        for lane in [FAST, PROVE] {
            if plan.running(lane).is_some() && busy_until[lane] <= now_ms {
                let ran_ns = if lane == FAST { 2 * MS } else { 100 * MS };
                plan.ended(at(now_ms), lane, Ran::Through { ran_ns });
            }
            if plan.running(lane).is_none()
                && let Some(start) = plan.next(at(now_ms), lane)
            {
                busy_until[lane] = now_ms + u64::from(start.work.inputs);
                useful_ms += if lane == PROVE { 100 } else { 0 };
                duties -= i32::from(lane == FAST);
            }
        }
        now_ms += 1;
    }
    assert_eq!(duties, 0);
    assert!(useful_ms >= 95_000, "{useful_ms} of 100,000 ms");
}
