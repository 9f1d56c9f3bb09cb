//! A node that everybody wants something of at once: a thousand machines that dial, requests that
//! never end, streams of events that nobody reads, a peer that sends as fast as it can.
#![cfg(all(feature = "soak", target_os = "linux"))]

mod processes;

use alphorn_net::{
    Address, Config, DropReason, Event, Events, Handle, Listen, NetworkDigest, NodeKey, Priority,
    Transport, start,
};
use processes::Family;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Machines that dial, so many at a time, and those of them that the node takes in at most.
const DIALS: usize = 1000;
const AT_A_TIME: usize = 100;
const PEERS_IN_MAX: usize = 40;
/// Requests that never end, and streams of events that nobody reads.
const SLOW: usize = 300;
const READERS: usize = 64;
/// Descriptors of the node at most: 256 connections of its HTTP interface, and files, sockets, pipes.
const DESCRIPTORS_MAX: usize = 256 + 64;
/// What a node reads of one peer in a second, in bytes.
const PEER_BYTES_PER_S: u64 = 4 << 20;
/// A message of a greedy peer: longer than any of the network, shorter than a packet.
const GREEDY_BYTES: usize = 40 << 10;
/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// The node that everybody wants.
struct Victim {
    pid: u32,
    address: Address,
    network: NetworkDigest,
    api: SocketAddr,
}

impl Victim {
    fn at(home: &Path) -> Self {
        let told = processes::told(home);
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        let network = hex::decode(text("network")).unwrap();
        Self {
            pid: told["pid"].as_u64().unwrap() as u32,
            address: text("address").parse().unwrap(),
            network: NetworkDigest(network[..4].try_into().unwrap()),
            api: text("api").parse().unwrap(),
        }
    }

    /// Its figures, if it answers.
    fn summary(&self) -> Option<Value> {
        let mut stream = TcpStream::connect(self.api).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        write!(stream, "GET /alphorn/v0/summary HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// Its figures, as soon as it answers and something holds of them.
    fn when(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let summary = self.summary();
            if let Some(summary) = summary.filter(&holds) {
                return summary;
            }
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn machine(&self) -> (Handle, Events) {
        let mut config = Config::new(NodeKey::generate(), self.network);
        config.listen = vec![Listen {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            transport: Transport::Quic,
        }];
        let (handle, events) = start(config).unwrap();
        handle.dial(self.address.clone()).unwrap();
        (handle, events)
    }

    /// Dials from many machines, each until it is taken in or refused, and gives how many were taken in.
    /// Of those of one time no more stay than there are places.
    fn dials(&self) -> usize {
        let mut taken_in = 0;
        for _ in 0..DIALS / AT_A_TIME {
            let mut machines: Vec<(Handle, Events)> =
                (0..AT_A_TIME).map(|_| self.machine()).collect();
            let [mut connected, mut answered, mut is_in] = [[false; AT_A_TIME]; 3];
            let began = Instant::now();
            loop {
                std::thread::sleep(Duration::from_millis(100));
                for (index, (handle, events)) in machines.iter_mut().enumerate() {
                    while let Some(event) = events.try_recv() {
                        match event {
                            Event::PeerUp { .. } => connected[index] = true,
                            Event::PeerDown { .. } => connected[index] = false,
                            _ => {}
                        }
                    }
                    // One that is sent away at once tells nothing of its beginning.
                    let status = handle.status();
                    answered[index] |=
                        status.connections[0] > 0 || status.dropped(DropReason::Connections) > 0;
                    is_in[index] |= connected[index];
                }
                let count = connected.iter().filter(|connected| **connected).count();
                if answered == [true; AT_A_TIME] && count <= PEERS_IN_MAX {
                    break;
                }
                assert!(began.elapsed() < PATIENCE, "{count} machines are connected");
            }
            taken_in += is_in.iter().filter(|is_in| **is_in).count();
            machines.iter().for_each(|(handle, _)| handle.shutdown());
        }
        taken_in
    }

    /// Opens connections that send a part of a request and, if they are slow, some more of it now and
    /// then; none of them is read.
    fn hold(&self, count: usize, begin: &str) -> Vec<TcpStream> {
        let open = |_| {
            let mut stream = TcpStream::connect(self.api).ok()?;
            stream.write_all(begin.as_bytes()).ok()?;
            Some(stream)
        };
        (0..count).filter_map(open).collect()
    }

    /// Sends as much as it can.
    fn greedy(&self, stop: &AtomicBool) {
        let (handle, mut events) = self.machine();
        let topic = format!("/alphorn/{}/block/raw", self.network);
        let mut number = 0u64;
        while !stop.load(Ordering::Relaxed) {
            while events.try_recv().is_some() {}
            let mut data = vec![0; GREEDY_BYTES];
            data[..8].copy_from_slice(&number.to_le_bytes());
            number += 1;
            if handle
                .publish(&topic, data.into(), Priority::Normal)
                .is_err()
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        handle.shutdown();
    }

    fn descriptors(&self) -> usize {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.pid));
        folder.map_or(0, Iterator::count)
    }
}

/// The bytes that came to a node over all of its connections.
fn bytes_in(summary: &Value) -> u64 {
    summary["link_bytes"][0].as_u64().unwrap()
}

#[test]
fn a_crowd_takes_no_more_places_than_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let family = Family::new("crowd");
    let mut command = Command::new(env!("CARGO_BIN_EXE_alphorn"));
    command
        .args(["devnet", "--nodes=2", "--validators=16", "--committees=1"])
        .args(["--slots=30", "--preset=custom:2000:0,400,800,1200,1600"])
        .args(["--allow-missed=1000000", "--json=told.json", "--dir=net"])
        .current_dir(folder.path())
        .stdout(Stdio::null());
    family.mark(&mut command);
    let mut devnet = command.spawn().unwrap();
    let victim = Victim::at(&at("net/node-0"));
    let before = victim.when("no slot begins", |summary| {
        summary["slot"].as_u64() > Some(1)
    });
    let began = Instant::now();
    let stop = AtomicBool::new(false);
    let (taken_in, descriptors) = std::thread::scope(|scope| {
        let (victim, stop) = (&victim, &stop);
        let events = "GET /dashboard/trace HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let readers = victim.hold(READERS, events);
        assert_eq!(readers.len(), READERS);
        let mut slow = victim.hold(SLOW, "GET /metrics HTTP/1.1\r\nX-Slow: ");
        scope.spawn(|| victim.greedy(stop));
        let trickle = scope.spawn(move || {
            let mut most = 0;
            while !stop.load(Ordering::Relaxed) {
                // One that was closed by the node stays closed.
                slow.iter_mut()
                    .for_each(|stream| drop(stream.write_all(b"x")));
                most = most.max(victim.descriptors());
                std::thread::sleep(Duration::from_millis(100));
            }
            most
        });
        let taken_in = victim.dials();
        stop.store(true, Ordering::Relaxed);
        (taken_in, trickle.join().unwrap())
    });
    let seconds = began.elapsed().as_secs();
    // The places are free again.
    let after = victim.when("the interface does not come back", |_| true);
    println!("{taken_in} of {DIALS} taken in, {descriptors} descriptors, {seconds} s");
    assert!(taken_in > 0, "nobody came in");
    assert!(after["peers"].as_u64() <= Some(64), "{}", after["peers"]);
    assert!(
        after["drops"]["connections"].as_u64() > Some(0),
        "{}",
        after["drops"]
    );
    assert!(
        descriptors > 0 && descriptors <= DESCRIPTORS_MAX,
        "{descriptors}"
    );
    // The greedy one, a second's worth at once, and what all others had to say.
    let (came, most) = (
        bytes_in(&after) - bytes_in(&before),
        (seconds + 4) * PEER_BYTES_PER_S,
    );
    assert!(
        came > GREEDY_BYTES as u64 && came <= 2 * most,
        "{came} {most}"
    );
    assert_eq!(after["can_sign"], true);
    let status = devnet.wait().unwrap();
    assert!(matches!(status.code(), Some(0 | 5)), "{status}");
    let told: Value = serde_json::from_slice(&std::fs::read(at("told.json")).unwrap()).unwrap();
    assert_eq!(told["agreement"], true);
    let first = before["slot"].as_u64().unwrap();
    for node in told["nodes"].as_array().unwrap() {
        // Votes of slots beside the crowd came into blocks, those of the node itself as well.
        let credited = node["credited"].as_object().unwrap().iter();
        let beside = credited.filter(|(slot, _)| slot.parse().is_ok_and(|slot: u64| slot > first));
        let most = beside.filter_map(|(_, votes)| votes.as_u64()).max();
        assert!(most > Some(8), "{}", node["credited"]);
    }
    family.wait("somebody is left", |members| members.is_empty());
}
