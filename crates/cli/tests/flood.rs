//! A devnet whose nodes are flooded with forged votes over loopback: the honest ones come through, and
//! the sender is sent away however often it comes back under a new name.
#![cfg(feature = "soak")]

mod ports;

use alphorn_bls::{Backend, Bls, Costs};
use alphorn_net::{
    Address, Config, Event, Handle, Listen, Message, NetworkDigest, NodeKey, Priority, Topic,
    TopicKind, Transport, Verdict, start,
};
use alphorn_proto::horn::{Config as HornConfig, SchemeInfo, Selection};
use alphorn_proto::wire::{Checkpoint, Vote, VoteMsg, WireFormat};
use alphorn_types::Layout;
use ports::two_ports;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const VALIDATORS: u64 = 64;
const CELLS: u16 = 2;
/// Forged votes for each honest one that a flooder sees.
const FORGED: u8 = 10;
/// Seconds of a slot, and until the first one.
const SLOT_S: u64 = 4;
const DELAY_S: u64 = 15;
/// Slots without a flood, and with it. What is between them belongs to neither.
const QUIET: Range<u64> = 2..8;
const FLOODED: Range<u64> = 10..16;

/// What a flooder did.
#[derive(Debug, Default)]
struct Flooded {
    forged: u64,
    banned: u64,
    /// The last vote that it saw, and one of an earlier slot.
    last: Option<Vote>,
    before: Option<Vote>,
}

fn alphorn() -> Command {
    Command::new(env!("CARGO_BIN_EXE_alphorn"))
}

/// Has a second vote ready for each one that a node passes on, under a new name after each ban.
async fn flood(node: &Address, network: NetworkDigest, stop: &AtomicBool) -> Flooded {
    let mut flooded = Flooded::default();
    let format = format();
    while !stop.load(Ordering::Relaxed) {
        let mut config = Config::new(NodeKey::generate(), network);
        config.slot_ms = 1_000 * SLOT_S;
        config.subcommittees = CELLS;
        config.topic_messages_per_slot.vote = 100_000;
        config.listen = vec![Listen {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            transport: Transport::Quic,
        }];
        let (handle, mut events) = start(config).expect("the network starts");
        handle.dial(node.clone()).expect("room for a target");
        for subcommittee in 0..CELLS {
            let topic = Topic {
                network,
                kind: TopicKind::Vote,
                committee: 0,
                subcommittee,
            };
            let subscribed = handle.subscribe(&topic.to_string());
            subscribed.expect("a topic of the network");
        }
        while !stop.load(Ordering::Relaxed) {
            let event = tokio::time::timeout(Duration::from_millis(200), events.recv()).await;
            match event {
                Ok(Some(Event::Message(message))) => {
                    flooded.forge(&handle, &message, &format);
                }
                Ok(Some(Event::PeerDown { .. })) => {
                    flooded.banned += 1;
                    break;
                }
                _ => {}
            }
        }
    }
    flooded
}

/// The lengths of all fields in the network of the test.
fn format() -> WireFormat {
    let layout = Layout::new(VALIDATORS as u32, 1, CELLS).unwrap();
    let kernel = Backend::portable();
    let info = SchemeInfo::of(&Bls::new(kernel, Costs::measure(kernel)), &layout);
    let mut config = HornConfig::new(layout, &info);
    config.selection = Selection::Rank;
    config.format(&info)
}

impl Flooded {
    /// Sends votes of the same voter for the block before, which is consistent and not yet refused as
    /// a duplicate: each has to be verified.
    fn forge(&mut self, handle: &Handle, message: &Message, format: &WireFormat) {
        let _ = handle.verdict(message.token, Verdict::Ignore);
        let Ok(honest) = VoteMsg::decode(&message.data, format) else {
            return;
        };
        let vote = honest.vote;
        let before = self.last.filter(|before| before.slot < vote.slot);
        if before.is_some() || self.last.is_none() {
            self.before = before;
            self.last = Some(vote);
        }
        let Some(before) = self.before.filter(|before| before.head != vote.head) else {
            return;
        };
        let target = Checkpoint {
            slot: vote.slot,
            root: before.head,
        };
        for k in 1..=FORGED {
            let mut signature = honest.signature.to_vec();
            *signature.last_mut().expect("a signature has bytes") ^= k;
            let forged = VoteMsg {
                vote: Vote {
                    slot: vote.slot,
                    target,
                    ..before
                },
                validator: honest.validator,
                signature: signature.into(),
            };
            let data = forged.encode(format).into();
            let sent = handle.publish(&message.topic, data, Priority::Normal);
            self.forged += u64::from(sent.is_ok());
        }
    }
}

/// Where a node of the folder listens, and its network, once it runs.
fn running(folder: &Path, node: &str) -> (Address, NetworkDigest) {
    let until = Instant::now() + Duration::from_secs(60);
    let path = folder.join(node).join("data/ready.json");
    while !path.exists() {
        assert!(Instant::now() < until, "{node} does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    let ready: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let network = hex::decode(ready["network"].as_str().unwrap()).unwrap();
    let address = ready["address"].as_str().unwrap().parse().unwrap();
    (address, NetworkDigest(network[..4].try_into().unwrap()))
}

/// Honest votes of some slots that came into blocks.
fn credited(node: &Value, slots: Range<u64>) -> u64 {
    let votes = node["credited"].as_object().unwrap().iter();
    let of_slots = votes.filter(|(slot, _)| slots.contains(&slot.parse().unwrap()));
    of_slots.filter_map(|(_, votes)| votes.as_u64()).sum()
}

/// How many votes come into blocks depends on the machine's other work, so the flooded slots are
/// compared with those before them.
#[test]
fn honest_votes_come_through_a_flood_of_forged_ones() {
    let folder = tempfile::tempdir().unwrap();
    let port = two_ports().to_string();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let genesis = now.as_secs() + DELAY_S;
    let made = alphorn()
        .args([
            "genesis",
            "--out=net",
            "--nodes=2",
            "--validators=64",
            "--committees=1",
        ])
        .args(["--genesis-time", &genesis.to_string(), "--port", &port])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
    let slots = FLOODED.end.to_string();
    let mut devnet = alphorn()
        .args([
            "devnet",
            "--genesis=net",
            "--warmup-slots=0",
            "--allow-missed=1000000",
        ])
        .args(["--slots", &slots, "--json=told.json"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begin = UNIX_EPOCH + Duration::from_secs(genesis + (FLOODED.start - 1) * SLOT_S);
    let stop = AtomicBool::new(false);
    let flooded: Vec<Flooded> = std::thread::scope(|scope| {
        let flooder = |node: &'static str| {
            let (net, stop) = (folder.path().join("net"), &stop);
            scope.spawn(move || {
                let (address, network) = running(&net, node);
                let wait = begin.duration_since(SystemTime::now());
                std::thread::sleep(wait.unwrap_or_default());
                let runtime = tokio::runtime::Builder::new_current_thread();
                let runtime = { runtime }.enable_all().build().unwrap();
                runtime.block_on(flood(&address, network, stop))
            })
        };
        let flooders = ["node-0", "node-1"].map(flooder);
        let status = devnet.wait().unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(status.code(), Some(0 | 5)), "{status}");
        flooders.map(|flooder| flooder.join().unwrap()).into()
    });
    let told = std::fs::read(folder.path().join("told.json")).unwrap();
    let told: Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(told["agreement"], true);
    for (node, flooded) in told["nodes"].as_array().unwrap().iter().zip(&flooded) {
        let (quiet, beside) = (credited(node, QUIET), credited(node, FLOODED));
        assert!(
            quiet > 0 && 10 * beside >= 9 * quiet,
            "{quiet} {beside}: {node}"
        );
        assert!(
            flooded.forged > 0 && flooded.banned > 0,
            "{flooded:?} {node}"
        );
        assert!(node["reports"]["bad_evidence"].as_u64() > Some(0), "{node}");
    }
}
