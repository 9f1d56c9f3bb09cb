//! Four nodes as processes: one loses its folder and joins by the checkpoint of another, past what anybody
//! could replay from genesis in that time; one ends and starts again.
#![cfg(all(feature = "soak", target_os = "linux"))]

mod bench;

use bench::Bench;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NODES: usize = 4;
/// Slots of a second that the network has before a node joins it.
const SLOTS: u64 = 80;
/// No node is waited for longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A network whose ports nobody else of this test's processes has.
struct Network {
    bench: Bench,
    api_ports: Vec<u64>,
}

/// A node that is killed if the test ends before it.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Network {
    fn new() -> Self {
        let bench = Bench::new();
        let port = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
        let line = format!(
            "genesis --out net --nodes {NODES} --validators 64 --preset custom:1000:0,200,400,600,800 \
             --delay 5 --port {port} --api-port {} --json genesis.json",
            port + 10
        );
        bench.run(&line).expect(0, "64 validators");
        let made = bench.json("genesis.json");
        let nodes = made["nodes"].as_array().unwrap();
        let api_ports = nodes.iter().map(|node| number(node, "api_port")).collect();
        Self { bench, api_ports }
    }

    fn start(&self, node: usize, options: &[String]) -> Node {
        let name = format!("node-{node}");
        let log = std::fs::File::create(self.bench.path(&format!("{name}.log"))).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_alphorn"))
            .current_dir(self.bench.path("."))
            .args(["node", "--genesis", "net", "--node-id", &name])
            .args(["--data-dir", &format!("data-{node}")])
            .args(["--node-key", &format!("net/{name}/node.key")])
            .args(options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        Node(child.unwrap())
    }

    fn address(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.api_ports[node])
    }

    /// Head and body of an answer.
    fn ask(&self, node: usize, path: &str) -> Option<(String, Vec<u8>)> {
        let mut stream = TcpStream::connect(self.address(node)).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8(answer[..end].to_vec()).ok()?;
        head.starts_with("HTTP/1.1 200")
            .then(|| (head, answer[end + 4..].to_vec()))
    }

    fn summary(&self, node: usize) -> Option<Value> {
        let (_, body) = self.ask(node, "/alphorn/v0/summary")?;
        serde_json::from_slice(&body).ok()
    }

    /// Waits until something holds of a node, and says how long that took.
    fn wait(&self, node: usize, what: &str, holds: impl Fn(&Value) -> bool) -> Duration {
        let began = Instant::now();
        loop {
            let summary = self.summary(node);
            if summary.as_ref().is_some_and(&holds) {
                return began.elapsed();
            }
            let log =
                || std::fs::read_to_string(self.bench.path(&format!("node-{node}.log"))).unwrap();
            assert!(began.elapsed() < PATIENCE, "{what}: {summary:?}\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn number(summary: &Value, name: &str) -> u64 {
    summary[name].as_u64().unwrap_or(0)
}

/// Whether a node stands where the others are and has final blocks of its own.
fn follows(summary: &Value) -> bool {
    let slot = number(summary, "slot");
    number(summary, "head_slot") + 2 >= slot && number(summary, "finalised_slot") + 8 >= slot
}

#[test]
fn a_node_joins_by_a_checkpoint_and_starts_again_in_seconds() {
    let network = Network::new();
    let mut nodes: Vec<Node> = (0..NODES).map(|node| network.start(node, &[])).collect();
    let is_old = |summary: &Value| {
        number(summary, "slot") >= SLOTS && number(summary, "kept_checkpoint_slot") > 0
    };
    network.wait(0, "a network that finalises", is_old);
    let last = NODES - 1;
    // Its folder is lost, and with it all it knew.
    nodes.pop();
    std::fs::remove_dir_all(network.bench.path(&format!("data-{last}"))).unwrap();
    let (head, bytes) = network.ask(0, "/alphorn/v0/checkpoint").unwrap();
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: "));
    let digest = tag.unwrap().trim_matches('"').trim_start_matches("0x");
    let options = [
        format!("--checkpoint-sync-url=http://{}", network.address(0)),
        format!("--checkpoint-digest={digest}"),
    ];
    nodes.push(network.start(last, &options));
    let joined = network.wait(last, "a node that joins", follows);
    let summary = network.summary(last).unwrap();
    assert!(number(&summary, "checkpoint_slot") > 0, "{summary}");
    // It signs again, and what it signs counts.
    let signs = |summary: &Value| {
        let done = summary["duties"].as_object().map_or(0, |duties| {
            duties.values().map(|duty| number(duty, "done")).sum()
        });
        summary["can_sign"] == true && done > 0_u64
    };
    let duties = network.wait(last, "a node that does duties", signs);

    nodes.pop();
    nodes.push(network.start(last, &[]));
    let restarted = network.wait(last, "a node that starts again", follows);
    println!(
        "joined by {} bytes in {} ms, its first duty counted {} ms later; started again in {} ms",
        bytes.len(),
        joined.as_millis(),
        duties.as_millis(),
        restarted.as_millis()
    );
}
