use super::*;
use crate::compute::ComputeConfig;
use crate::network::{Network, Subscription};
use crate::testing::{
    self, ITEM_NS, POSTPONE, Scripted, aggregate, claim, publish, session, sign, spawn, verify,
};
use alphorn_proto::Output;
use alphorn_proto::wire::{Kind, Topic};
use alphorn_types::{Cell, Time};

type ToyDriver = Driver<Scripted>;

fn driver(nodes: Vec<Scripted>, latency_ns: u64, config: ComputeConfig) -> ToyDriver {
    let network = Network::new(&vec![Subscription::All; nodes.len()], latency_ns);
    Driver::new(nodes, network, testing::compute(config), Limits::default())
}

fn run(nodes: Vec<Scripted>, latency_ns: u64) -> ToyDriver {
    let mut driver = driver(nodes, latency_ns, ComputeConfig::new(1));
    driver.run_until(Time::from_millis(1), &mut ()).unwrap();
    driver
}

const NEVER: Time = Time::MAX;

#[test]
fn every_node_learns_of_the_others_first() {
    let script = || Scripted::new([(0, publish(Topic::Block, 9))]);
    let driver = run(vec![script(), script(), script()], 0);
    let lines = driver.protocol(1).lines();
    assert_eq!(
        lines,
        [
            "0 up peer 0",
            "0 up peer 2",
            "0 deadline",
            "0 message 9 of peer 0",
            "0 message 9 of peer 2"
        ]
    );
    assert_eq!(driver.network().traffic(Kind::Block).accepted, 6);
}

#[test]
fn messages_arrive_after_the_latency_in_order() {
    let cell = Cell {
        committee: 0,
        subcommittee: 1,
    };
    let script = [
        (10, publish(Topic::Block, 1)),
        (10, publish(Topic::Vote { cell }, 2)),
        (30, publish(Topic::Collection, 3)),
    ];
    let driver = run(vec![Scripted::new(script), Scripted::default()], 25);
    let expected = [
        "0 up peer 0",
        "35 message 1 of peer 0",
        "35 message 2 of peer 0",
        "55 message 3 of peer 0",
    ];
    assert_eq!(driver.protocol(1).lines(), expected);
    assert_eq!(
        driver.protocol(0).lines(),
        ["0 up peer 1", "10 deadline", "30 deadline"]
    );
    assert_eq!(driver.network().received(1).bytes, 9);
    assert_eq!(driver.now(), Time::from_millis(1));
}

/// A deadline that moves leaves its old event behind; only the new one is handed over.
#[test]
fn stale_deadlines_are_ignored() {
    let driver = run(
        vec![
            Scripted::new([(50, publish(Topic::Block, 1))]),
            Scripted::new([(40, publish(Topic::Block, POSTPONE))]),
        ],
        0,
    );
    assert_eq!(
        driver.protocol(0).lines(),
        ["0 up peer 1", "40 message 255 of peer 1", "70 deadline"]
    );
}

#[test]
fn a_deadline_that_stays_in_the_past_ends_the_run() {
    let mut stuck = Scripted::new([(5, publish(Topic::Block, 1))]);
    stuck.is_stuck = true;
    let limits = Limits {
        events_max: 100,
        ..Limits::default()
    };
    let network = Network::new(&[Subscription::All], 0);
    let compute = testing::compute(ComputeConfig::new(1));
    let mut driver = Driver::new(vec![stuck], network, compute, limits);
    let failed = driver.run_until(Time::from_millis(1), &mut ());
    assert_eq!(failed, Err(DriveError::Events { max: 100, at_ns: 5 }));
    assert_eq!(driver.events_count(), 101);
}

#[test]
fn bounds_of_time_and_of_waiting_events_are_kept() {
    let limits = Limits {
        sim_time_max_ns: 10,
        events_pending_max: 2,
        ..Limits::default()
    };
    let network = Network::new(&[Subscription::All; 3], 0);
    let compute = testing::compute(ComputeConfig::new(1));
    let nodes = (0..3).map(|_| Scripted::default()).collect();
    let mut driver: ToyDriver = Driver::new(nodes, network, compute, limits);
    let beyond = driver.run_until(Time::from_nanos(11), &mut ());
    assert_eq!(
        beyond,
        Err(DriveError::Time {
            value_ns: 11,
            max_ns: 10
        })
    );
    let waiting = driver.run_until(Time::from_nanos(1), &mut ());
    assert_eq!(
        waiting,
        Err(DriveError::Pending {
            value: 5,
            max: 2,
            at_ns: 0
        })
    );
}

#[test]
fn jobs_end_when_their_cost_says() {
    let claims = (0..4).map(|i| claim(i, true));
    let driver = run(
        vec![Scripted::new([
            (0, spawn(1, session(0), NEVER, sign(1, 0..3))),
            (500, spawn(2, session(0), NEVER, verify(claims))),
            (600, spawn(3, session(0), NEVER, aggregate(7, 2))),
        ])],
        0,
    );
    assert_eq!(
        driver.protocol(0).lines()[3..],
        [
            format!("{ITEM_NS} job 1 Done"),
            format!("{} job 3 Refused", 600 + 2 * ITEM_NS),
            format!("{} job 2 Done", 500 + 4 * ITEM_NS),
        ]
    );
    let sign = driver.compute().meters().total("sign");
    assert_eq!(sign.charged_ns, 3 * ITEM_NS, "each signature has its core");
}

#[test]
fn a_cancelled_job_ends_at_once_and_only_once() {
    let cancel = Output::Cancel {
        session: session(1),
    };
    let driver = run(
        vec![Scripted::new([
            (0, spawn(1, session(1), NEVER, sign(1, 0..8))),
            (0, spawn(2, session(2), NEVER, sign(2, 0..8))),
            (100, cancel),
        ])],
        0,
    );
    let lines = driver.protocol(0).lines();
    let jobs: Vec<_> = lines.iter().filter(|line| line.contains("job")).collect();
    assert_eq!(
        jobs,
        ["100 job 1 Cancelled", &format!("{ITEM_NS} job 2 Done")]
    );
    assert_eq!(driver.compute().meters().total("sign").computed_jobs, 1);
}

#[test]
fn a_job_that_is_longer_than_its_deadline_ends_there() {
    let hard = Time::from_nanos(2 * ITEM_NS);
    let claims = |count| (0..count).map(|i| claim(i, true));
    let driver = run(
        vec![Scripted::new([
            (0, spawn(1, session(0), hard, verify(claims(2)))),
            (0, spawn(2, session(0), hard, verify(claims(3)))),
        ])],
        0,
    );
    assert_eq!(
        driver.protocol(0).lines()[1..],
        [
            format!("{} job 1 Done", 2 * ITEM_NS),
            format!("{} job 2 Cancelled", 2 * ITEM_NS)
        ]
    );
}

fn busy(driver_seed: u8) -> Vec<Scripted> {
    let node = |node: u64| {
        let jobs = (0..40u64).map(move |i| {
            let work = match i % 3 {
                0 => verify([claim(i as u32 % 4, i % 5 != 0)]),
                1 => aggregate(0, 1 + i as u32 % 4),
                _ => sign(100 * node + i + 1, 0..8),
            };
            (17 * i, spawn(i, session(0), NEVER, work))
        });
        let messages = (0..40).map(move |i| (700 + i, publish(Topic::Block, driver_seed)));
        Scripted::new(jobs.chain(messages))
    };
    vec![node(0), node(1)]
}

#[test]
fn equal_runs_have_equal_digests_for_any_threads_and_cache() {
    let outcome = |threads, cache_bytes_max, seed| {
        let config = ComputeConfig {
            threads,
            cache_bytes_max,
        };
        let mut driver = driver(busy(seed), 3, config);
        driver.run_until(Time::from_millis(1), &mut ()).unwrap();
        let logs: Vec<_> = (0..2).map(|node| driver.protocol(node).lines()).collect();
        (
            driver.digest(),
            logs,
            driver.compute().meters().total("aggregate").computed_jobs,
        )
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
