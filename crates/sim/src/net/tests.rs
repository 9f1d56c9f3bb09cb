//! Times computed by hand, and the fate of every byte. The nodes send directly: a payload of s bytes is a message
//! of s + 6.

use super::*;
use crate::fault::Interval;
use crate::gossip::{Config, Plain};
use crate::role::Publish;
use crate::role::flood::{Flood, direct_node};
use crate::scenario::{self, Transport};
use crate::testing::{Log, equals};
use crate::world::{Pause, World, WorldConfig, WorldError};
use alphorn_types::Time;
use std::sync::Arc;

const MS: u64 = 1_000_000;
/// Bytes of a message around its payload.
const HEAD: u64 = 6;

type Node = Flood<Plain<crate::role::flood::Blob>>;

/// Nodes with their bandwidths in bits per second (up, down), and regions of the built-in matrix.
struct Setup {
    rates: Vec<(u64, u64)>,
    latency: scenario::Latency,
    regions: Vec<u8>,
    edges: Vec<(u32, u32)>,
    link: Link,
    handle_ns: u64,
    seed: u64,
}

impl Setup {
    fn constant(rates: &[(u64, u64)], ms: u64, edges: &[(u32, u32)]) -> Self {
        Setup {
            rates: rates.to_vec(),
            latency: scenario::Latency::Constant { ms, jitter_pct: 0 },
            regions: vec![0; rates.len()],
            edges: edges.to_vec(),
            link: Link {
                overhead_bytes: 0,
                ..Link::default()
            },
            handle_ns: 0,
            seed: 1,
        }
    }

    fn graph(&self) -> Graph {
        Graph::from_edges(self.rates.len() as u32, self.edges.clone()).unwrap()
    }

    fn config(&self) -> WorldConfig {
        let rate = |&(up_bps, down_bps): &(u64, u64)| Rate { up_bps, down_bps };
        let mut config = equals(self.graph(), &self.latency);
        // Transmissions at a bit per second take years.
        config.limits.sim_time_max_ns = 1 << 60;
        config.net = NetConfig {
            latency: Latency::new(&self.latency, self.regions.clone()).into(),
            link: self.link.clone(),
            rates: self.rates.iter().map(rate).collect(),
            rate: (0..self.rates.len() as u16).collect(),
            handle_ns: self.handle_ns,
            seed: self.seed,
            ..config.net
        };
        config
    }

    fn world(&self) -> World<Node, Log> {
        self.world_with(None)
    }

    fn world_with(&self, dial: Option<Dial>) -> World<Node, Log> {
        let config = Config {
            validate: false,
            ..Config::default()
        };
        let (graph, config) = (self.graph(), Arc::new(config));
        let role = |node| direct_node(&graph, &config, 0, node);
        let roles = (0..graph.nodes()).map(role).collect();
        let mut config = self.config();
        config.net.dial = dial;
        World::new(roles, &config, Log::default())
    }

    /// The arrivals of messages of the given sizes, sent at (ms, node, bytes).
    fn arrivals(&self, messages: &[(u64, u32, u64)]) -> Vec<(u64, u32, u32)> {
        let mut world = self.world();
        publish(&mut world, messages);
        run(&mut world);
        take(&mut world)
    }
}

/// Takes the arrivals so far, by time.
fn take(world: &mut World<Node, Log>) -> Vec<(u64, u32, u32)> {
    let mut arrived = world.probe().0.clone();
    arrived.sort_unstable();
    arrived
}

fn publish(world: &mut World<Node, Log>, messages: &[(u64, u32, u64)]) {
    for (item, &(ms, node, bytes)) in (0..).zip(messages) {
        let bytes = bytes - HEAD;
        world.command(Time::from_millis(ms), node, Publish { item, bytes });
    }
}

/// Runs to the end, checking after each event that no byte is missing.
fn run(world: &mut World<Node, Log>) {
    loop {
        let pause = world.run_until(Time::MAX, 1).unwrap();
        let balance = world.balance();
        let (waiting, flying) = world.bytes_on_the_way();
        let gone = balance.delivered + balance.lost + balance.cancelled + balance.dropped;
        assert_eq!(balance.offered, gone + waiting + flying);
        if pause == Pause::Quiet {
            assert_eq!((waiting, flying), (0, 0));
            assert_eq!(world.on_the_way(), 0);
            break;
        }
    }
}

const MBIT: u64 = 1_000_000;

#[test]
fn two_nodes_whichever_side_is_slower() {
    // 1000 bytes take 1 ms at 8 Mbit/s and half of that at 16.
    let up_slower = Setup::constant(&[(8 * MBIT, MBIT), (MBIT, 16 * MBIT)], 10, &[(0, 1)]);
    let sent = [(0, 0, 1000), (0, 0, 1000)];
    // The first bit arrives after 10 ms and the last leaves after 1 ms, so 11; the second message is sent then.
    assert_eq!(
        up_slower.arrivals(&sent),
        [(11 * MS, 1, 0), (12 * MS, 1, 1)]
    );
    let down_slower = Setup::constant(&[(16 * MBIT, MBIT), (MBIT, 8 * MBIT)], 10, &[(0, 1)]);
    // The downlink is busy from 10 to 11 and from 11 to 12 ms.
    assert_eq!(
        down_slower.arrivals(&sent),
        [(11 * MS, 1, 0), (12 * MS, 1, 1)]
    );
    // 1001 bytes do not take a whole number of nanoseconds at 3 Mbit/s: rounded up.
    let odd = Setup::constant(&[(3 * MBIT, MBIT), (MBIT, 3 * MBIT)], 10, &[(0, 1)]);
    assert_eq!(odd.arrivals(&[(0, 0, 1001)]), [(10 * MS + 2_669_334, 1, 0)]);
}

#[test]
fn a_message_takes_its_place_when_it_arrives() {
    // 165 ms from Australia to Europe, 70 ms from the east of North America. Both uplinks are fast, the downlink
    // takes a second.
    let setup = Setup {
        latency: scenario::Latency::Regions {
            matrix: "libp2p-2025".into(),
            intra_ms_min: 0,
            jitter_pct: 0,
        },
        regions: vec![0, 4, 2],
        ..Setup::constant(
            &[(8000 * MBIT, MBIT), (8000 * MBIT, MBIT), (MBIT, 8 * MBIT)],
            0,
            &[(0, 2), (1, 2)],
        )
    };
    // Sent later, but arrives first: 50 + 70 ms is before 165.
    let sent = [(0, 0, 1_000_000), (50, 1, 1_000_000)];
    assert_eq!(
        setup.arrivals(&sent),
        [(1120 * MS, 2, 1), (2120 * MS, 2, 0)]
    );
}

#[test]
fn handling_takes_time_and_waits_for_the_processor() {
    let mut setup = Setup::constant(
        &[(8 * MBIT, MBIT), (8 * MBIT, MBIT), (MBIT, 80 * MBIT)],
        10,
        &[(0, 2), (1, 2)],
    );
    setup.handle_ns = 3 * MS;
    // They arrive after 11 and 11.1 ms, and are handled one after the other.
    let arrivals = setup.arrivals(&[(0, 0, 1000), (0, 1, 1000)]);
    assert_eq!(arrivals, [(14 * MS, 2, 0), (17 * MS, 2, 1)]);
}

#[test]
fn a_full_queue_drops() {
    let mut setup = Setup::constant(&[(8 * MBIT, MBIT), (MBIT, 80 * MBIT)], 10, &[(0, 1)]);
    setup.link.node_queue_bytes_max = 2000;
    let mut world = setup.world();
    publish(&mut world, &[(0, 0, 1000); 5]);
    run(&mut world);
    // One is on the wire, two wait, two are dropped.
    let times: Vec<u64> = world.probe().0.iter().map(|(ns, ..)| ns / MS).collect();
    assert_eq!((times, world.balance().dropped), (vec![11, 12, 13], 2000));
    assert_eq!(world.tally(0).queue_peak_bytes, 2000);
}

#[test]
fn fair_uplinks_finish_together() {
    let rates: Vec<(u64, u64)> = (0..9).map(|_| (80 * MBIT, 800 * MBIT)).collect();
    let edges: Vec<(u32, u32)> = (1..9).map(|node| (0, node)).collect();
    let mut setup = Setup::constant(&rates, 10, &edges);
    // A megabyte takes 100 ms. One after the other, the k-th arrives after 10 + 100·k.
    let fifo = setup.arrivals(&[(0, 0, 1_000_000)]);
    let times: Vec<u64> = fifo.iter().map(|(ns, ..)| ns / MS).collect();
    assert_eq!(times, [110, 210, 310, 410, 510, 610, 710, 810]);
    setup.link.uplink = scenario::Uplink::Fair;
    let fair = setup.arrivals(&[(0, 0, 1_000_000)]);
    // In turn, 65,536 bytes (6.6 ms) each; the last remainders of 16,960 bytes, 1.7 ms, end together. The first
    // connection was alone at the start, so it is a turn ahead.
    let times: Vec<u64> = fair.iter().map(|(ns, ..)| ns / MS).collect();
    assert_eq!(times, [752, 799, 801, 803, 804, 806, 808, 810]);
}

/// Round trips that a cold connection takes beyond the first one-way trip, with bandwidth to spare.
fn cold_round_trips(bytes: u64, window_bytes_max: u64) -> u64 {
    let fast = 1_000_000_000_000_000;
    let mut setup = Setup::constant(&[(fast, fast), (fast, fast)], 100, &[(0, 1)]);
    setup.link.transport = Transport::Window;
    setup.link.window_bytes_max = window_bytes_max;
    let arrivals = setup.arrivals(&[(0, 0, bytes)]);
    assert_eq!(arrivals.len(), 1);
    (arrivals[0].0 / MS - 100) / 200
}

#[test]
fn a_cold_connection_doubles_its_window_each_round_trip() {
    // 14,600·(2^k - 1) bytes in k flights.
    for (bytes, trips) in [
        (14_600, 0),
        (14_601, 1),
        (43_800, 1),
        (43_801, 2),
        (118_750, 3),
    ] {
        assert_eq!(cold_round_trips(bytes, 1 << 40), trips, "{bytes} bytes");
    }
    assert_eq!(cold_round_trips(1_000_000, 1 << 40), 6);
    assert_eq!(cold_round_trips(16_000_000, 1 << 40), 10);
    // Nine flights to 7.46 MB, then 4 MiB each.
    assert_eq!(cold_round_trips(16_000_000, 4 << 20), 11);
}

#[test]
fn a_window_is_warm_until_it_idles() {
    let fast = 1_000_000_000_000;
    let mut setup = Setup::constant(&[(fast, fast), (fast, fast)], 100, &[(0, 1)]);
    setup.link.transport = Transport::Window;
    // 118,750 bytes arrive after 700 ms and are acknowledged at 800; the window is warm until 1800.
    let sent = [(0, 0, 118_750), (900, 0, 118_750), (2900, 0, 118_750)];
    let times: Vec<u64> = setup
        .arrivals(&sent)
        .iter()
        .map(|(ns, ..)| ns / MS)
        .collect();
    assert_eq!(times, [700, 1000, 3600]);
}

#[test]
fn a_lost_packet_makes_its_message_late() {
    let fast = 1_000_000_000_000;
    let mut setup = Setup::constant(&[(fast, fast), (fast, fast)], 100, &[(0, 1)]);
    setup.link.loss_ppm = 100_000;
    setup.link.transport = Transport::Window;
    let sent: Vec<(u64, u32, u64)> = (0..2000).map(|i| (i * 10_000, 0, 1000)).collect();
    let arrivals = setup.arrivals(&sent);
    assert_eq!(arrivals.len(), 2000);
    let late = |ms: u64| {
        let delays = arrivals
            .iter()
            .map(|(ns, _, item)| ns / MS - u64::from(*item) * 10_000);
        delays.filter(|&delay| delay == ms).count()
    };
    // A message of one packet is its own tail: two and a half round trips.
    assert_eq!(late(100) + late(600), 2000);
    // 200 ± 13.4; five deviations.
    assert!((133..=267).contains(&late(600)), "{}", late(600));
}

#[test]
fn the_largest_message_at_the_least_rate_does_not_overflow() {
    let setup = Setup::constant(&[(1, 1), (1, 1)], 60_000, &[(0, 1)]);
    let mut world = setup.world();
    publish(&mut world, &[(0, 0, 1 << 31)]);
    let error = world.run_until(Time::MAX, 100).unwrap_err();
    // 2^31 bytes and the overhead: more than 500 years.
    assert!(
        matches!(
            error,
            WorldError::Time {
                value_ns: 0x8000_0000_0000_0000..,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(Rate::wire_ns(1 << 40, 1), u64::MAX);
    assert_eq!(Rate::wire_ns(1 << 40, 1_000_000), 8_796_093_022_208_000);
    assert_eq!(Rate::wire_ns(1, 0), 8_000_000_000);
}

#[test]
fn the_busiest_second_is_no_faster_than_the_link() {
    let mut tally = Tally::default();
    // 2 MB in two seconds, from 0.75 s on: a quarter, a whole second, three quarters.
    tally.transmit(750 * MS, 2000 * MS, 2_000_000);
    assert_eq!(tally.peak_1s_up_bps(), 8_000_000);
    assert_eq!(tally.up.sum, 750_000);
    tally.transmit(2750 * MS, 100 * MS, 100_000);
    assert_eq!((tally.up.sum, tally.bytes_up), (850_000, 2_100_000));
    let mut short = Tally::default();
    short.transmit(900 * MS, 200 * MS, 200_000);
    short.transmit(1100 * MS, 100 * MS, 100_000);
    assert_eq!(short.peak_1s_up_bps(), 1_600_000);
}

#[test]
fn partitions_delay_or_lose() {
    let fast = 1_000_000_000_000;
    let setup = Setup::constant(&[(fast, fast), (fast, fast)], 100, &[(0, 1)]);
    let with_break = |break_ms: u64| {
        let mut world = setup.world();
        let interval = Interval {
            from: Time::from_millis(1000),
            until: Time::from_millis(2000),
        };
        world.partition(vec![true, false], interval, break_ms * MS);
        publish(
            &mut world,
            &[
                (800, 0, 1000),
                (950, 0, 1000),
                (1500, 0, 1000),
                (2000, 0, 1000),
            ],
        );
        run(&mut world);
        let arrivals = world.probe().0.clone();
        arrivals.iter().map(|(ns, ..)| ns / MS).collect::<Vec<_>>()
    };
    assert_eq!(with_break(10_000), [900, 2100, 2100, 2100]);
    assert_eq!(with_break(500), [900, 2100]);
}

#[test]
fn draws_of_a_link_are_its_own() {
    let fast = 1_000_000_000_000;
    let mut setup = Setup::constant(&[(fast, fast); 3], 100, &[(0, 1), (0, 2)]);
    setup.latency = scenario::Latency::Constant {
        ms: 100,
        jitter_pct: 20,
    };
    let sent = [(0, 0, 1000), (1, 0, 1000), (5, 0, 1000)];
    let alone = setup.arrivals(&sent);
    // Another node, connected to one of them, that only receives.
    setup.rates.push((fast, fast));
    setup.regions.push(0);
    setup.edges.push((2, 3));
    assert_eq!(setup.arrivals(&sent), alone);
    setup.seed = 2;
    assert_ne!(setup.arrivals(&sent), alone);
}

#[test]
fn a_node_that_is_down_neither_sends_nor_receives() {
    let setup = Setup::constant(&[(8 * MBIT, 8 * MBIT); 2], 10, &[(0, 1)]);
    let mut world = setup.world();
    use crate::world::Change::{Down, Up};
    world.change(Time::from_millis(5), Down(1));
    world.change(Time::from_millis(50), Up(1));
    world.change(Time::from_millis(100), Down(0));
    publish(
        &mut world,
        &[
            (0, 0, 1000),
            (45, 0, 1000),
            (99, 0, 2000),
            (99, 0, 1000),
            (110, 0, 1000),
        ],
    );
    run(&mut world);
    let arrivals: Vec<_> = world
        .probe()
        .0
        .iter()
        .map(|(ns, _, item)| (ns / MS, *item))
        .collect();
    // The first comes while the receiver is down; the third is on the wire when the sender goes down.
    assert_eq!(arrivals, [(56, 1), (111, 2)]);
    assert_eq!(
        (world.balance().lost, world.balance().dropped),
        (1000, 1000)
    );
}

/// Peers of node 0 in [`sent_but_for`].
const PEERS: u32 = 10;

/// Node 0 sends messages, each of a number of bytes, to peers by its numbers for them. It then cancels one message
/// to one peer, which must not affect the others. Returns what arrives, and at which peer.
fn sent_but_for(
    link: Link,
    messages: &[(u64, &[u64])],
    peer: u64,
    cancelled: u32,
) -> Vec<(u32, u64)> {
    let setup = Setup {
        link: Link {
            overhead_bytes: 0,
            ..link
        },
        ..Setup::constant(
            &[(8 * MBIT, 8 * MBIT); PEERS as usize + 1],
            10,
            &(1..=PEERS).map(|peer| (0, peer)).collect::<Vec<_>>(),
        )
    };
    let nodes = PEERS + 1;
    let mut net: Net<u32> = Net::new(&setup.config().net, 0..nodes, nodes);
    let mut queue = Windows::new(net.latency.least_ns(), 0..nodes);
    let end = |net: &Net<u32>, peer| net.graph.end(0, peer).unwrap();
    for (number, &(bytes, peers)) in (0..).zip(messages) {
        let holders = peers.len() as u32;
        let parcel = Parcel {
            message: net.messages.insert(number, holders).unwrap(),
            bytes,
            priority: 0,
            kind: 0,
            paced: false,
        };
        let ends: Vec<usize> = peers.iter().map(|peer| end(&net, *peer)).collect();
        net.send(&mut queue, 0, 0, ends.into_iter(), parcel);
    }
    let end = end(&net, peer);
    net.cancel(&mut queue, 0, Direction { node: 0, end }, |message| {
        *message == cancelled
    });
    let mut arrived = Vec::new();
    while let Some(event) = queue.next() {
        match event.kind() {
            event::UPLINK => {
                net.hot[event.node].next = Next::Nothing;
                if let Some(free_ns) = net.serve(&mut queue, event.time_ns, event.node) {
                    queue.push(free_ns, event.node, event::UPLINK, 0);
                }
            }
            event::ARRIVAL => {
                let at_ns = net.settle(&event);
                queue.push_with(at_ns, event.node, event::DELIVERY, event.arg(), event.more);
            }
            event::ACKNOWLEDGED => net.acknowledged(&mut queue, &event),
            _ => {
                net.balance.delivered += u64::from(event.more[1]);
                if event.arg() < PART {
                    let number = *net.messages.get(event.arg());
                    arrived.push((event.time_ns, number, u64::from(event.node) - 1));
                    net.messages.release(event.arg());
                }
            }
        }
    }
    assert_eq!((net.flights.len(), net.waiting_bytes()), (0, 0));
    assert_eq!(
        net.balance.offered,
        net.balance.delivered + net.balance.cancelled
    );
    arrived.sort_unstable();
    let of_time = arrived.into_iter();
    of_time.map(|(_, number, peer)| (number, peer)).collect()
}

#[test]
fn what_is_taken_back_gives_its_turn_to_the_next() {
    let window = Link {
        transport: Transport::Window,
        ..Link::default()
    };
    let fair = Link {
        uplink: scenario::Uplink::Fair,
        ..Link::default()
    };
    // The first is in flight, the second has the turn of its connection, the third waits behind it.
    let messages: [(u64, &[u64]); 3] = [(5000, &[0]), (4000, &[0]), (3000, &[0])];
    for link in [Link::default(), window.clone(), fair.clone()] {
        let arrived = |cancelled| sent_but_for(link.clone(), &messages, 0, cancelled);
        assert_eq!(arrived(1), [(0, 0), (2, 0)]);
        assert_eq!(arrived(2), [(0, 0), (1, 0)]);
    }
    // Ending the turn of a connection that has nothing left does not end those of others.
    let messages: [(u64, &[u64]); 3] = [(5000, &[0]), (4000, &[0]), (3000, &[1])];
    for link in [Link::default(), window, fair] {
        assert_eq!(sent_but_for(link, &messages, 0, 1), [(0, 0), (2, 1)]);
    }
}

/// A message to many waits once for every eight receivers, and can be cancelled for each receiver separately.
#[test]
fn what_is_taken_back_from_one_receiver_goes_to_the_others() {
    let to: [u64; PEERS as usize] = [7, 0, 3, 9, 4, 1, 8, 2, 6, 5];
    let messages: [(u64, &[u64]); 3] = [(5000, &[0]), (1000, &to), (3000, &[3, 1])];
    for peer in 0..u64::from(PEERS) {
        let arrived = sent_but_for(Link::default(), &messages, peer, 1);
        let others = to.iter().filter(|to| **to != peer).map(|to| (1, *to));
        let expected = [(0, 0)].into_iter().chain(others);
        let expected: Vec<_> = expected.chain([(2, 3), (2, 1)]).collect();
        assert_eq!(arrived, expected, "taken back from {peer}");
    }
}

/// Both uplinks at 8 Mbit/s, 10 ms away from each other; the handshake has 1,000 bytes.
#[test]
fn a_connection_is_made_when_it_is_first_used() {
    let rates = [(8 * MBIT, 1_000 * MBIT); 2];
    let setup = Setup::constant(&rates, 10, &[(0, 1)]);
    let arrivals = |dialled: bool, sent: &[(u64, u32, u64)]| {
        let dial = dialled.then(|| Dial {
            bytes: 1000,
            is_new: vec![true; 2].into(),
        });
        let mut world = setup.world_with(dial);
        publish(&mut world, sent);
        run(&mut world);
        (take(&mut world), world.balance().delivered)
    };
    // One message of 1 ms, one behind it, and after 100 ms an answer and another message.
    let sent = [(0, 0, 1000), (0, 0, 1000), (100, 1, 1000), (200, 0, 1000)];
    let existing = [(11, 1, 0), (12, 1, 1), (111, 0, 2), (211, 1, 3)];
    // The first waits for 30 ms and brings as many bytes again as it has itself; the second is behind it.
    let dialled = [(42, 1, 0), (43, 1, 1), (111, 0, 2), (211, 1, 3)];
    let ms = |all: [(u64, u32, u32); 4]| all.map(|(ms, node, item)| (ms * MS, node, item)).to_vec();
    assert_eq!(arrivals(false, &sent), (ms(existing), 4000));
    assert_eq!(arrivals(true, &sent), (ms(dialled), 5000));
}
