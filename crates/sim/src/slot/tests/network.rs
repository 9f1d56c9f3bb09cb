//! The network of a slot and the jobs of its nodes, driven by scripts.

use super::*;
use crate::slot::network::{Network, Plan, Subscription};
use crate::testing::{
    self, ITEM_NS, POSTPONE, Scripted, aggregate, claim, publish, session, sign, spawn, verify,
};
use alphorn_proto::Output;
use alphorn_proto::wire::{Kind, Topic};
use alphorn_types::Time;

const NEVER: Time = Time::MAX;

/// Every node receives everything, as soon as possible.
fn plan(nodes: usize) -> Plan {
    Plan {
        subscriptions: vec![Subscription::All; nodes],
        withheld: Vec::new(),
        latency_ms: 0,
        limits: LIMITS,
    }
}

fn run_to_end(scripts: Vec<Scripted>, plan: &Plan, compute: ComputeConfig) -> Network<Scripted> {
    let mut network = Network::new(scripts, plan, testing::compute(compute));
    network.run_until(Time::from_millis(2)).unwrap();
    network
}

fn run(scripts: Vec<Scripted>) -> Network<Scripted> {
    let plan = plan(scripts.len());
    run_to_end(scripts, &plan, ComputeConfig::new(1))
}

#[test]
fn every_node_learns_of_the_others_first() {
    let script = || Scripted::new([(0, publish(Topic::Block, 9))]);
    let network = run(vec![script(), script(), script()]);
    assert_eq!(
        network.machine(1).lines(),
        [
            "0 up peer 0",
            "0 up peer 1",
            "0 deadline",
            "1 message 9 of peer 0",
            "1 message 9 of peer 1"
        ]
    );
    assert_eq!(network.blocks().len(), 3);
}

#[test]
fn messages_reach_whom_they_are_for_after_the_latency() {
    let cell = Cell {
        committee: 0,
        subcommittee: 1,
    };
    let script = [
        (10, publish(Topic::Block, 1)),
        (10, publish(Topic::Vote { cell }, 2)),
        (30, publish(Topic::Collection, 3)),
    ];
    let plan = Plan {
        subscriptions: vec![Subscription::All, Subscription::All, Subscription::Global],
        withheld: vec![(Kind::Collection, 0, 1)],
        latency_ms: 1,
        limits: LIMITS,
    };
    let silent = Scripted::default;
    let scripts = vec![Scripted::new(script), silent(), silent()];
    let network = run_to_end(scripts, &plan, ComputeConfig::new(1));
    let received = |node: u32| network.machine(node).lines()[2..].to_vec();
    assert_eq!(
        received(1),
        ["1000010 message 1 of peer 0", "1000010 message 2 of peer 0"]
    );
    assert_eq!(
        received(2),
        ["1000010 message 1 of peer 0", "1000030 message 3 of peer 0"]
    );
    let counts = |messages| Traffic {
        messages,
        bytes: 3 * messages,
    };
    assert_eq!(network.published(Kind::Collection), counts(1));
}

/// A deadline that has moved is not delivered at its old time.
#[test]
fn stale_deadlines_are_ignored() {
    let network = run(vec![
        Scripted::new([(50, publish(Topic::Block, 1))]),
        Scripted::new([(40, publish(Topic::Block, POSTPONE))]),
    ]);
    assert_eq!(
        network.machine(0).lines(),
        ["0 up peer 0", "41 message 255 of peer 0", "70 deadline"]
    );
}

#[test]
fn a_deadline_that_stays_in_the_past_ends_the_run() {
    let mut stuck = Scripted::new([(5, publish(Topic::Block, 1))]);
    stuck.is_stuck = true;
    let mut plan = plan(1);
    plan.limits.events_max = 100;
    let compute = testing::compute(ComputeConfig::new(1));
    let mut network = Network::new(vec![stuck], &plan, compute);
    let ended = network.run_until(Time::from_millis(1));
    assert_eq!(ended, Err(WorldError::Events { max: 100, at_ns: 5 }));
}

#[test]
fn jobs_end_when_their_cost_says() {
    let claims = (0..4).map(|i| claim(i, true));
    let network = run(vec![Scripted::new([
        (0, spawn(1, session(0), NEVER, sign(1, 0..3))),
        (500, spawn(2, session(0), NEVER, verify(claims))),
        (600, spawn(3, session(0), NEVER, aggregate(7, 2))),
    ])]);
    assert_eq!(
        network.machine(0).lines()[3..],
        [
            format!("{ITEM_NS} job 1 Done"),
            format!("{} job 3 Refused", 600 + 2 * ITEM_NS),
            format!("{} job 2 Done", 500 + 4 * ITEM_NS),
        ]
    );
    let sign = network.compute().meters().total("sign");
    assert_eq!(sign.charged_ns, 3 * ITEM_NS, "each signature has its core");
}

#[test]
fn a_cancelled_job_ends_at_once_and_only_once() {
    let cancel = Output::Cancel {
        session: session(1),
    };
    let network = run(vec![Scripted::new([
        (0, spawn(1, session(1), NEVER, sign(1, 0..8))),
        (0, spawn(2, session(2), NEVER, sign(2, 0..8))),
        (100, cancel),
    ])]);
    let lines = network.machine(0).lines();
    let jobs: Vec<_> = lines.iter().filter(|line| line.contains("job")).collect();
    assert_eq!(
        jobs,
        ["100 job 1 Cancelled", &format!("{ITEM_NS} job 2 Done")]
    );
    let computed = network.compute().meters().total("sign").computed_jobs;
    assert_eq!(computed, 1);
}

#[test]
fn a_job_that_is_longer_than_its_deadline_ends_there() {
    let hard = Time::from_nanos(2 * ITEM_NS);
    let claims = |count| (0..count).map(|i| claim(i, true));
    let network = run(vec![Scripted::new([
        (0, spawn(1, session(0), hard, verify(claims(2)))),
        (0, spawn(2, session(0), hard, verify(claims(3)))),
    ])]);
    assert_eq!(
        network.machine(0).lines()[1..],
        [
            format!("{} job 1 Done", 2 * ITEM_NS),
            format!("{} job 2 Cancelled", 2 * ITEM_NS)
        ]
    );
}

fn busy(byte: u8) -> Vec<Scripted> {
    let node = |node: u64| {
        let jobs = (0..40u64).map(move |i| {
            let work = match i % 3 {
                0 => verify([claim(i as u32 % 4, i % 5 != 0)]),
                1 => aggregate(0, 1 + i as u32 % 4),
                _ => sign(100 * node + i + 1, 0..8),
            };
            (17 * i, spawn(i, session(0), NEVER, work))
        });
        let messages = (0..40).map(move |i| (700 + i, publish(Topic::Block, byte)));
        Scripted::new(jobs.chain(messages))
    };
    vec![node(0), node(1)]
}

#[test]
fn equal_runs_have_equal_digests_for_any_threads_and_cache() {
    let outcome = |threads, cache_bytes_max, byte| {
        let config = ComputeConfig {
            threads,
            cache_bytes_max,
        };
        let network = run_to_end(busy(byte), &plan(2), config);
        let logs = [0, 1].map(|node| network.machine(node).lines());
        let aggregates = network.compute().meters().total("aggregate").computed_jobs;
        (network.digest(), logs, aggregates)
    };
    let first = outcome(1, 1 << 20, 1);
    assert_eq!(first.2, 4, "four different aggregates");
    assert_eq!(outcome(2, 1 << 20, 1), first);
    let uncached = outcome(2, 0, 1);
    assert_eq!(
        (uncached.0, &uncached.1, uncached.2),
        (first.0, &first.1, 26)
    );
    assert_ne!(outcome(1, 1 << 20, 2).0, first.0);
}
