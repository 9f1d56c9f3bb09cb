use super::*;
use crate::fault::Interval;
use crate::gossip::{Config, Gossip, Peers};
use crate::graph::Graph;
use crate::role::Publish;
use crate::role::flood::{Blob, Flood, meshes};
use crate::scenario::{self, Link};
use crate::testing::{Log, RATE, equals};
use crate::windows::tests::narrow;
use std::sync::Arc;

const NODES: u32 = 200;
const ITEMS: u32 = 12;

type Mesh = Flood<Gossip<Blob>>;

impl<R: Role, W: Probe<R>> World<R, W> {
    /// What each node has sent and received.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = &Tally> {
        self.nets().flat_map(|net| net.tally.iter())
    }

    /// Sends a message now, which the state machine of the node might never send.
    pub(crate) fn send(&mut self, node: u32, to: &Peers, message: R::Message) {
        let now_ns = self.now_ns;
        let span = self.span_mut(node);
        span.now_ns = now_ns;
        span.send_now(node, to, message, 0);
    }
}

struct Setup {
    latency: scenario::Latency,
    validation_ns: u64,
    handle_ns: u64,
    bytes: u64,
    link: Link,
    threads: usize,
    paced: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            latency: scenario::Latency::Constant {
                ms: 70,
                jitter_pct: 0,
            },
            validation_ns: 0,
            handle_ns: 2000,
            bytes: 10_000,
            link: Link::default(),
            threads: 1,
            paced: false,
        }
    }
}

impl Setup {
    fn world(&self) -> World<Mesh, Log> {
        let numbers = (0..NODES).flat_map(|node| (1..=8_u32).map(move |i| (node, i)));
        let edge = |(node, i): (u32, u32)| (node, (node + i * i * 7 + 1) % NODES);
        let graph = Graph::from_edges(NODES, numbers.map(edge).collect()).unwrap();
        let config = Arc::new(Config::default());
        let roles = meshes(&graph, &config, self.validation_ns, 5).unwrap();
        let mut config = equals(graph, &self.latency);
        config.net.link = self.link.clone();
        config.net.handle_ns = self.handle_ns;
        config.net.paced = self.paced;
        config.threads = self.threads;
        let mut world = World::new(roles, &config, Log::default());
        for item in 0..ITEMS {
            let publish = Publish {
                item,
                bytes: self.bytes,
            };
            let at = Time::from_millis(u64::from(item) * 30);
            world.command(at, item * 17 % NODES, publish);
        }
        world
    }

    fn run(&self) -> World<Mesh, Log> {
        let mut world = self.world();
        assert_eq!(world.run_until(Time::MAX, u64::MAX), Ok(Pause::Quiet));
        world
    }
}

fn regions() -> scenario::Latency {
    scenario::Latency::Regions {
        matrix: "libp2p-2025".into(),
        intra_ms_min: 0,
        jitter_pct: 5,
    }
}

#[test]
fn every_payload_reaches_everyone_once() {
    let world = Setup::default().run();
    let mut deliveries: Vec<(u32, u32)> = world.probe().0.iter().map(|&(_, n, i)| (i, n)).collect();
    deliveries.sort_unstable();
    let all = (0..ITEMS).flat_map(|i| (0..NODES).map(move |n| (i, n)));
    let expected: Vec<_> = all.filter(|&(i, n)| n != i * 17 % NODES).collect();
    assert!(
        deliveries == expected,
        "{} of {}",
        deliveries.len(),
        expected.len()
    );
    let duplicates: u64 = world.roles().map(Role::duplicate_bytes).sum();
    assert!(duplicates > 0);
    let received: u64 = world.tallies().map(|tally| tally.bytes_down).sum();
    assert_eq!(received, world.balance().delivered);
    let series: u64 = world.series().map(|(.., bytes)| bytes).sum();
    assert_eq!(series, world.balance().started);
}

#[test]
fn the_width_of_windows_decides_nothing() {
    for latency in [Setup::default().latency, regions()] {
        let setup = Setup {
            latency,
            validation_ns: 300_000,
            ..Setup::default()
        };
        let wide = setup.run();
        for bits in [0, 10, 16] {
            let narrow = narrow(bits, || setup.run());
            assert!(wide.probe().0 == narrow.probe().0);
            assert_eq!(wide.event_hash(), narrow.event_hash());
            assert_eq!(wide.events(), narrow.events());
            assert!(wide.tallies().eq(narrow.tallies()));
        }
        assert_eq!(wide.event_hash(), setup.run().event_hash());
    }
}

/// A run in which one node falls silent and returns, another one forgets everything, and a cut separates the rest.
fn disturbed(setup: &Setup) -> World<Mesh, Log> {
    let mut world = setup.world();
    for (ms, change) in [
        (60, Change::Down(3)),
        (140, Change::Up(3)),
        (90, Change::Down(150)),
        (200, Change::UpAnew(150)),
        (100, Change::Speed(8, 400)),
    ] {
        world.change(Time::from_millis(ms), change);
    }
    let interval = Interval {
        from: Time::from_millis(150),
        until: Time::from_millis(400),
    };
    let side = (0..NODES).map(|node| node % 3 == 0).collect();
    world.partition(side, interval, 50_000_000);
    world.skew(77, 1_000_000);
    while world.run_until(Time::MAX, 10_000).unwrap() != Pause::Quiet {}
    world
}

#[test]
fn an_uplink_that_goes_on_is_found_out_as_it_would_be_by_events() {
    for (latency, bytes) in [(Setup::default().latency, 10_000), (regions(), 500)] {
        let setup = |paced, threads| Setup {
            latency: latency.clone(),
            bytes,
            paced,
            threads,
            ..Setup::default()
        };
        let events = disturbed(&setup(true, 1));
        for threads in [1, 3] {
            let found = disturbed(&setup(false, threads));
            assert!(events.probe().0 == found.probe().0);
            assert_eq!(events.balance(), found.balance());
            assert!(events.tallies().eq(found.tallies()));
            assert_eq!(events.event_hash(), found.event_hash());
            assert_eq!(
                (events.events(), events.now()),
                (found.events(), found.now())
            );
        }
    }
}

#[test]
fn the_number_of_threads_decides_nothing() {
    let windows = Link {
        transport: scenario::Transport::Window,
        loss_ppm: 5000,
        ..Link::default()
    };
    let fair = Link {
        uplink: scenario::Uplink::Fair,
        ..Link::default()
    };
    for link in [Link::default(), windows, fair] {
        let setup = |threads| Setup {
            latency: regions(),
            validation_ns: 300_000,
            link: link.clone(),
            threads,
            ..Setup::default()
        };
        let one = disturbed(&setup(1));
        for threads in [2, 3, 7, NODES as usize, 1000] {
            let many = disturbed(&setup(threads));
            assert_eq!(many.spans.len(), threads.min(NODES as usize));
            assert!(one.probe().0 == many.probe().0);
            assert_eq!(one.event_hash(), many.event_hash());
            assert_eq!(
                (one.events(), one.received(), one.now(), one.balance()),
                (many.events(), many.received(), many.now(), many.balance())
            );
            assert!(one.tallies().eq(many.tallies()));
            assert!(one.series().eq(many.series()));
            assert!(one.loads().eq(many.loads()));
            assert_eq!(one.bytes_on_the_way(), many.bytes_on_the_way());
            let first = |world: &World<Mesh, Log>| (0..NODES).map(|n| world.first_ns(n)).collect();
            let (one, many): (Vec<_>, Vec<_>) = (first(&one), first(&many));
            assert!(one == many && one.iter().flatten().count() > 100);
        }
    }
}

#[test]
fn validation_takes_its_time_at_every_hop() {
    let last = |validation_ns| {
        let setup = Setup {
            validation_ns,
            bytes: 500,
            ..Setup::default()
        };
        let world = setup.run();
        let first = world.probe().0.iter().filter(|(.., item)| *item == 0);
        let cpu_ns: u64 = world.tallies().map(|tally| tally.cpu_ns).sum();
        let messages: u64 = world.tallies().map(|t| u64::from(t.messages)).sum();
        let jobs_ns = cpu_ns - 2000 * messages;
        (first.map(|(ns, ..)| *ns).min().unwrap(), jobs_ns)
    };
    let (free, idle_ns) = last(0);
    assert_eq!(idle_ns, 0);
    for cost_ns in [15_000, 5_000_000] {
        let (charged, busy_ns) = last(cost_ns);
        assert_eq!(charged, free + cost_ns, "the first hop");
        let jobs = u64::from(ITEMS * (NODES - 1));
        assert_eq!(busy_ns, jobs * cost_ns);
    }
}

#[test]
fn bounds_end_a_run() {
    let mut world = Setup::default().world();
    assert_eq!(world.run_until(Time::MAX, 100), Ok(Pause::Events));
    assert_eq!(world.events(), 100);
    let until = Time::from_millis(200);
    assert_eq!(world.run_until(until, u64::MAX), Ok(Pause::Until));
    assert_eq!(world.now(), until);
    world.limits.events_max = 500;
    let error = world.run_until(Time::MAX, u64::MAX).unwrap_err();
    assert!(
        matches!(error, WorldError::Events { max: 500, .. }),
        "{error}"
    );
    world.limits.events_max = u64::MAX;
    world.limits.sim_time_max_ns = world.now().as_nanos() + 1;
    let error = world.run_until(Time::MAX, u64::MAX).unwrap_err();
    assert!(matches!(error, WorldError::Time { .. }), "{error}");
}

#[test]
fn bounds_are_those_of_the_world_whatever_the_number_of_threads() {
    let run = |threads, change: &dyn Fn(&mut World<Mesh, Log>)| {
        let setup = Setup {
            threads,
            ..Setup::default()
        };
        let mut world = setup.world();
        change(&mut world);
        world.run_until(Time::MAX, u64::MAX)
    };
    let of_way = |threads, max| run(threads, &|world| world.on_the_way_max = max);
    // The lowest bound that a run keeps to.
    let (mut kept, mut passed) = (1 << 20, 0);
    while kept - passed > 1 {
        let middle = passed + (kept - passed) / 2;
        match of_way(1, middle) {
            Ok(_) => kept = middle,
            Err(_) => passed = middle,
        }
    }
    assert!(passed > NODES, "{passed}");
    let events = Setup::default().run().events();
    for threads in [1, 2, 3] {
        assert_eq!(of_way(threads, kept), Ok(Pause::Quiet));
        assert_eq!(of_way(threads, passed), of_way(1, passed));
        let of_events = |max| run(threads, &|world| world.limits.events_max = max);
        assert_eq!(of_events(events), Ok(Pause::Quiet), "{threads}");
        let error = of_events(events - 1).unwrap_err();
        assert!(matches!(error, WorldError::Events { .. }), "{error}");
    }
}

/// The most bytes that a node sent and received in any 10 ms window of a run. At the end of each window every byte
/// is accounted for.
fn busiest_windows(world: &mut World<Mesh, Log>) -> (u64, u64) {
    let (mut up, mut down) = (0, 0);
    let mut before = world.tallies().copied().collect::<Vec<Tally>>();
    for window in 1.. {
        let pause = world.run_until(Time::from_millis(10 * window), u64::MAX);
        for (before, now) in before.iter().zip(world.tallies()) {
            up = up.max(now.bytes_up - before.bytes_up);
            down = down.max(now.bytes_down - before.bytes_down);
        }
        before = world.tallies().copied().collect::<Vec<Tally>>();
        let balance = world.balance();
        let (waiting, flying) = world.bytes_on_the_way();
        let left = balance.started + balance.cancelled + balance.dropped + waiting;
        assert_eq!(balance.offered, left, "window {window}");
        assert_eq!(balance.started, balance.delivered + balance.lost + flying);
        let all = |bytes: fn(&Tally) -> u64| world.tallies().map(bytes).sum::<u64>();
        assert_eq!(all(|tally| tally.bytes_up), balance.started);
        assert_eq!(all(|tally| tally.bytes_down), balance.delivered);
        if pause == Ok(Pause::Quiet) {
            assert_eq!((waiting, flying, world.on_the_way()), (0, 0, 0));
            break;
        }
    }
    (up, down)
}

#[test]
fn no_link_carries_more_in_a_window_than_it_can() {
    let windows = Link {
        transport: scenario::Transport::Window,
        loss_ppm: 5000,
        ..Link::default()
    };
    let fair = Link {
        uplink: scenario::Uplink::Fair,
        ..Link::default()
    };
    for (latency, link) in [
        (Setup::default().latency, Link::default()),
        (regions(), Link::default()),
        (regions(), windows),
        (Setup::default().latency, fair),
    ] {
        let setup = Setup {
            latency,
            // Without handling time, a message is counted when it arrives.
            handle_ns: 0,
            link,
            ..Setup::default()
        };
        let (up, down) = busiest_windows(&mut setup.world());
        // A message that starts in one window ends in the next. It reserves its slot in a downlink with its first
        // bit, and is counted when its sender's link has carried the last one.
        let message = setup.bytes + 100;
        let most = |bps: u64| bps / 8 / 100;
        let begun = message * RATE.down_bps / RATE.up_bps;
        assert!(up <= most(RATE.up_bps) + message, "{up} bytes sent");
        assert!(down <= most(RATE.down_bps) + begun, "{down} bytes received");
        // Links of half the bandwidth could not have done it.
        assert!(up > most(RATE.up_bps) / 2 + message, "{up} bytes sent");
    }
}
