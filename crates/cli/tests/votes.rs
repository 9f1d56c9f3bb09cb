//! Votes that are handed to a node over HTTP: which are taken, that they come into blocks, and that
//! they are there again after the node was killed.

mod bench;
mod ports;

use alphorn_bls::{Bls, Costs, InteropKey, sign};
use alphorn_exec::Backend;
use alphorn_proto::horn::{Config, SchemeInfo, Selection};
use alphorn_proto::wire::{Checkpoint, NetworkDigest, Vote, VoteMsg, WireFormat, digest};
use alphorn_types::{Layout, Slot, Validator};
use bench::Bench;
use ports::two_ports;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const VALIDATORS: u32 = 16;
/// A validator of the node that does not run: no other node is there to vote for it.
const ABSENT: Validator = Validator(9);

/// A node that runs, and how to speak to it.
struct Node {
    child: Child,
    api: String,
    token: String,
    network: NetworkDigest,
}

impl Node {
    fn start(bench: &Bench) -> Node {
        let _ = std::fs::remove_file(bench.path("data/ready.json"));
        let child = Command::new(env!("CARGO_BIN_EXE_alphorn"))
            .args([
                "node",
                "--genesis=net",
                "--node-id=node-0",
                "--data-dir=data",
            ])
            .args(["--node-key=net/node-0/node.key", "--api-port=0"])
            .arg("--exit-on-stdin-eof")
            .current_dir(bench.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while !bench.path("data/ready.json").exists() {
            assert!(Instant::now() < until, "the node does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        let ready = bench.json("data/ready.json");
        let network = hex::decode(ready["network"].as_str().unwrap()).unwrap();
        let token = std::fs::read_to_string(bench.path("data/api.token")).unwrap();
        Node {
            child,
            api: ready["api"].as_str().unwrap().to_owned(),
            token: token.trim().to_owned(),
            network: NetworkDigest(network[..4].try_into().unwrap()),
        }
    }

    fn ask(&self, head: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.api).unwrap();
        let length = body.len();
        let request = format!("{head}Content-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn get(&self, path: &str) -> Value {
        self.ask(&format!("GET {path} HTTP/1.0\r\n"), "").1
    }

    fn post(&self, token: &str, vote: &str) -> (u16, Value) {
        let head = format!("POST /alphorn/v0/votes HTTP/1.0\r\nAuthorization: Bearer {token}\r\n");
        self.ask(&head, &json!({"vote": vote}).to_string())
    }

    fn hand_in(&self, vote: &VoteMsg) -> (u16, Value) {
        let bytes = vote.encode(&format());
        self.post(&self.token, &format!("0x{}", hex::encode(bytes)))
    }

    /// The absent validator's vote for what the node has as its head.
    fn vote(&self, status: &Value) -> VoteMsg {
        let root = |name: &str| {
            let root = hex::decode(status[name].as_str().unwrap()).unwrap();
            root.try_into().unwrap()
        };
        let slot = Slot(status["slot"].as_u64().unwrap());
        let head = root("head");
        let vote = Vote {
            slot,
            head,
            // Half of the validators justify nothing.
            source: Checkpoint {
                slot: Slot(0),
                root: root("finalised"),
            },
            target: Checkpoint { slot, root: head },
        };
        let key = InteropKey::new(u64::from(ABSENT.0)).to_secret_key();
        let signature = sign(&key, &digest::vote_message(self.network, &vote)).to_bytes();
        VoteMsg {
            vote,
            validator: ABSENT,
            signature: signature.as_slice().into(),
        }
    }
}

/// The lengths of all fields in the network of the test.
fn format() -> WireFormat {
    let layout = Layout::new(VALIDATORS, 1, 2).unwrap();
    let kernel = Backend::Portable;
    let info = SchemeInfo::of(&Bls::new(kernel, Costs::measure(kernel)), &layout);
    let mut config = Config::new(layout, &info);
    config.selection = Selection::Rank;
    config.format(&info)
}

#[test]
fn a_vote_that_is_answered_200_counts_and_survives_a_kill() {
    let bench = Bench::new();
    bench
        .run(&format!(
            "genesis --out net --nodes 2 --validators {VALIDATORS} --committees 1 --delay 7 --preset custom:2000:0,400,800,1200,1600 \
             --port {}",
            two_ports()
        ))
        .expect(0, "16 validators");
    let mut node = Node::start(&bench);
    let first = VoteMsg {
        validator: Validator(VALIDATORS),
        ..node.vote(&node.get("/alphorn/v0/status"))
    };
    assert_eq!(node.post("other", "0x00").0, 401);
    for (vote, named) in [
        ("00", "after 0x"),
        ("0x0", "hexadecimal"),
        ("0x00", "unknown message version 0"),
        (&format!("0x{}", hex::encode(first.encode(&format()))), "16"),
    ] {
        let (status, body) = node.post(&node.token, vote);
        assert_eq!(status, 400, "{vote}: {body}");
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(named), "{vote}: {message}");
    }

    // The vote of one slot after the other, until a block has one: this machine may be busy.
    let own = u64::from(VALIDATORS / 2);
    let until = Instant::now() + Duration::from_secs(120);
    let (mut voted, mut taken) = (0, 0);
    loop {
        assert!(Instant::now() < until, "{taken} votes, none in a block");
        std::thread::sleep(Duration::from_millis(100));
        let summary = node.get("/alphorn/v0/summary");
        let credited = summary["credited"].as_object().unwrap();
        if taken > 0 && credited.values().any(|votes| votes.as_u64() > Some(own)) {
            break;
        }
        let status = node.get("/alphorn/v0/status");
        let slot = status["slot"].as_u64().unwrap();
        // In the first slots there may be no block yet to vote for.
        if slot <= voted || slot < 3 {
            continue;
        }
        voted = slot;
        let vote = node.vote(&status);
        let mut forged = vote.clone();
        let mut signature = forged.signature.to_vec();
        signature[90] ^= 1;
        forged.signature = signature.into();
        let (code, body) = node.hand_in(&forged);
        assert_eq!(code, 400, "{body}");
        let (code, body) = node.hand_in(&vote);
        if code == 200 {
            taken += 1;
            let (code, again) = node.hand_in(&vote);
            assert_eq!(code, 400, "{again}");
            assert!(
                again["message"].as_str().unwrap().contains("known"),
                "{again}"
            );
        } else {
            // The slot may have ended meanwhile.
            assert_eq!(code, 400, "{body}");
        }
    }

    let before = node.get("/alphorn/v0/summary");
    assert!(before["kept_messages"].as_u64() >= Some(taken), "{before}");
    // It is alone, which is not well; without it nobody answers.
    let status = "node status --data-dir data --json status.json";
    bench
        .run(status)
        .expect(1, "node-0 (bls): not able to do its duties")
        .expect(1, "no peer is connected");
    let report = bench.json("status.json");
    assert_eq!(
        (&report["health"], &report["summary"]["name"]),
        (&json!(503), &json!("node-0"))
    );
    node.child.kill().unwrap();
    node.child.wait().unwrap();
    bench.run(status).expect(1, "no node answers");
    let mut again = Node::start(&bench);
    let after = again.get("/alphorn/v0/summary");
    assert!(after["restored_messages"].as_u64() > Some(0), "{after}");
    drop(again.child.stdin.take());
    assert!(again.child.wait().unwrap().success());
    bench.run(status).expect(1, "no node runs");
}
