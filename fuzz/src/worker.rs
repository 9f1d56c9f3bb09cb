//! Targets of `alphorn-worker`: its scheduler, its search for bad inputs, the frames of its children.

use std::collections::BTreeMap;

use alphorn_scheme::{Class, Features, Group, JobId, Schedulable, SessionId};
use alphorn_types::{Slot, Time};
use alphorn_worker::child::{Answer, Frame, Init, JobFrame, Message};
use alphorn_worker::plan::{Output, Ran};
use alphorn_worker::{Bisect, Config, CostModel, Plan, Request, Session};

const JOBS_MAX: u32 = 12;
const BYTES_MAX: u64 = 400;
const LANES: usize = 3;

/// Work of so many inputs of 1 ms.
#[derive(Clone, Copy)]
struct Inputs(u32);

impl Schedulable for Inputs {
    fn features(&self) -> Features {
        Features {
            kind: 1,
            class: self.0.max(1).ilog2() as u8,
            inputs: self.0,
            prior_ns: u64::from(self.0.next_power_of_two()) * 1_000_000,
            memory_bytes: u64::from(self.0),
        }
    }

    fn prefix(&self, inputs: u32) -> Option<Self> {
        (1..=self.0).contains(&inputs).then_some(Inputs(inputs))
    }
}

/// A plan, and what a driver of it knows.
struct Driver {
    plan: Plan<Inputs>,
    now_ms: u64,
    /// Ends of each accepted job.
    ends: BTreeMap<JobId, u32>,
    running: [Option<JobId>; LANES],
}

impl Driver {
    fn now(&self) -> Time {
        Time::from_millis(self.now_ms)
    }

    fn submit(&mut self, a: u8, b: u8) {
        let (now, inputs) = (self.now_ms, u32::from(b) + 1);
        let soft = now + u64::from(b) * 2;
        let request = Request {
            client: u32::from(a >> 6),
            session: session(a),
            group: group(a),
            replaces: (a & 8 == 0).then_some(u16::from(a & 1)),
            class: Class::ALL[usize::from(a) % 5],
            soft: Time::from_millis(soft),
            hard: Time::from_millis(soft + u64::from(a)),
            votes: inputs,
            bytes: u64::from(b),
            work: Inputs(inputs),
        };
        if let Ok(job) = self.plan.submit(self.now(), request) {
            assert_eq!(self.ends.insert(job, 0), None, "a name is given twice");
        }
    }

    fn lane(&mut self, a: u8, b: u8) {
        let (now, lane) = (self.now(), usize::from(a) % LANES);
        if self.running[lane].take().is_some() {
            let ran_ns = u64::from(b) << 22;
            let ran = [
                Ran::Through { ran_ns },
                Ran::Astray { ran_ns },
                Ran::Stopped,
                Ran::Crashed,
            ];
            self.plan.ended(now, lane, ran[usize::from(a / 4) % 4]);
        } else if let Some(start) = self.plan.next(now, lane) {
            assert!(start.t50_ns <= start.t90_ns && start.t90_ns <= start.t99_ns);
            self.running[lane] = Some(start.job);
        }
    }

    fn step(&mut self, action: u8, a: u8, b: u8) {
        let now = self.now();
        match action % 8 {
            0..=2 => self.submit(a, b),
            3..=4 => self.lane(a, b),
            5 => {
                let open = Time::from_millis(self.now_ms + u64::from(a));
                let soft = open.saturating_add_ns(u64::from(b) << 20);
                let id = session(a);
                // A refusal is an answer, too.
                let _ = self.plan.open(
                    now,
                    Session {
                        id,
                        open,
                        soft,
                        hard: soft.saturating_add_ns(u64::from(b) << 20),
                    },
                );
            }
            6 => self.plan.cancel(now, session(b)),
            _ => {
                self.now_ms += u64::from(b);
                self.plan.expire(self.now());
            }
        }
        self.drain();
        assert!(self.plan.queued() <= JOBS_MAX as usize);
        let deadline = self.plan.next_deadline(self.now());
        assert!(deadline.is_none_or(|deadline| deadline > self.now()));
    }

    fn drain(&mut self) {
        while let Some(output) = self.plan.poll_output() {
            match output {
                Output::Finished(finished) => {
                    let ends = self.ends.get_mut(&finished.job).expect("was accepted");
                    *ends += 1;
                    assert_eq!(*ends, 1, "a job ended twice");
                }
                Output::Stop { lane, job } => assert_eq!(self.running[lane], Some(job)),
            }
        }
    }
}

fn session(a: u8) -> SessionId {
    SessionId {
        slot: Slot(u64::from(a % 3)),
        seq: u32::from(a % 2),
    }
}

fn group(a: u8) -> Group {
    Group {
        slot: Slot(u64::from(a % 3)),
        message: [0; 32],
        committee: Some(u16::from(a % 4)),
        subcommittee: None,
    }
}

/// Drives the scheduler by a script: every accepted job ends exactly once, the queue stays within
/// its bounds, no deadline lies in the past.
///
/// Input: steps `action u8 | a u8 | b u8`; true if whole.
///
/// # Panics
///
/// If a property does not hold.
pub fn plan_ops(data: &[u8]) -> bool {
    let config = Config {
        fast_lanes: 2,
        prove_lanes: 1,
        jobs_queued_max: JOBS_MAX,
        queue_bytes_max: BYTES_MAX,
        sessions_open_max: 4,
        memory_budget_bytes: 200,
        ..Config::default()
    };
    let mut driver = Driver {
        plan: Plan::new(config, CostModel::new()),
        now_ms: 1,
        ends: BTreeMap::new(),
        running: [None; LANES],
    };
    let steps = data.chunks_exact(3);
    let whole = steps.remainder().is_empty();
    for step in steps.take(2000) {
        driver.step(step[0], step[1], step[2]);
    }
    driver.now_ms += 100_000;
    driver.plan.expire(driver.now());
    driver.drain();
    for lane in 0..LANES {
        if driver.running[lane].take().is_some() {
            driver.plan.ended(driver.now(), lane, Ran::Stopped);
        }
    }
    driver.drain();
    assert!(driver.plan.queued() == 0 && driver.ends.values().all(|ends| *ends == 1));
    whole && !data.is_empty()
}

pub(crate) fn plan_ops_seeds() -> Vec<Vec<u8>> {
    let script: Vec<u8> = (0..240_u32).map(|i| (i * i * 7 + i / 3) as u8).collect();
    vec![
        vec![0, 2, 40, 3, 2, 0, 7, 0, 30, 3, 2, 9],
        vec![5, 9, 200, 1, 9, 250, 2, 9, 250, 6, 0, 9],
        script,
    ]
}

/// Searches for bad inputs: exactly those that are bad are found, in at most 1.5 n + 2 checks.
///
/// Input: `seed u8`, then a byte for each input, odd = bad; true if there is one.
///
/// # Panics
///
/// If a property does not hold.
pub fn bisect_ops(data: &[u8]) -> bool {
    let Some((seed, inputs)) = data.split_first() else {
        return false;
    };
    let count = inputs.len().min(2048) as u32;
    let is_bad = |input: u32| inputs[input as usize] & 1 == 1;
    for mut search in [
        Bisect::new(count, u64::from(*seed)),
        Bisect::in_order(count),
    ] {
        while let Some(range) = search.next() {
            let good = search.order()[range].iter().all(|input| !is_bad(*input));
            search.answer(good);
        }
        let bad: Vec<u32> = (0..count).filter(|input| is_bad(*input)).collect();
        assert_eq!(search.bad(), bad);
        assert!(
            search.checks() <= count + count / 2 + 2,
            "{}",
            search.checks()
        );
    }
    true
}

pub(crate) fn bisect_ops_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![1, 0], vec![2; 100], vec![3; 100]];
    seeds.push((0..=255).collect());
    seeds
}

/// Reads frames from a stream until it ends; each that has content encodes to the same content.
///
/// True if the stream is frames with content to its end.
///
/// # Panics
///
/// If a message has a second reading.
pub fn child_frame(data: &[u8]) -> bool {
    let mut stream = data;
    let mut whole = !data.is_empty();
    while !stream.is_empty() {
        let Ok(frame) = Frame::read_from(&mut stream) else {
            return false;
        };
        match Message::decode(&frame) {
            Ok(message) => {
                let again = message.frame(frame.generation, frame.job);
                assert_eq!(Message::decode(&again), Ok(message));
            }
            Err(_) => whole = false,
        }
    }
    whole
}

pub(crate) fn child_frame_seeds() -> Vec<Vec<u8>> {
    let result = |answer| Message::Result {
        cpu_ns: 1,
        peak_bytes: 2,
        answer,
    };
    let messages = [
        Message::Init(Init {
            parent: 1,
            threads: 2,
            nice: 10,
            data_bytes_max: 1 << 30,
            beat_ms: 100,
            setup: vec![5; 20],
        }),
        Message::Job(JobFrame {
            portable: true,
            seed: 3,
            task: vec![1; 30],
        }),
        Message::Stop,
        Message::Ready,
        Message::Unfit("no".into()),
        Message::Beat(9),
        result(Answer::Done(vec![2; 40])),
        result(Answer::Invalid(vec![0, 7])),
        result(Answer::Refused("why".into())),
        result(Answer::Stopped),
        result(Answer::Faulty),
    ];
    let written = |message: &Message| {
        let mut bytes = Vec::new();
        let written = message.frame(1, 2).write_to(&mut bytes);
        written.expect("a vector takes all");
        bytes
    };
    let mut seeds: Vec<Vec<u8>> = messages.iter().map(written).collect();
    seeds.push(seeds.concat());
    seeds
}
