//! Networks made by `alphorn genesis`: their files, a devnet and a node with keystores that run them,
//! and what is refused.

mod bench;
mod ports;

use bench::Bench;
use ports::two_ports;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Slots of a second, so that a few of them fit into a test.
const SECONDS: &str = "--preset custom:1000:0,200,400,600,800";

#[test]
fn the_files_say_what_was_asked_for() {
    let bench = Bench::new();
    let ips = "127.0.0.1,127.0.0.1,192.0.2.7";
    bench
        .run(&format!(
            "genesis --out net --nodes 3 --validators 50 --committees 4 --genesis-time 4000000000 \
             --ips {ips} --json made.json"
        ))
        .expect(0, "50 validators of bls on 3 nodes, slot 0 at 4000000000");
    let made = bench.json("made.json");
    assert_eq!(made["network"]["VALIDATOR_COUNT"], 50);
    let hosted = |i: usize| made["nodes"][i]["validators"].as_u64().unwrap();
    assert_eq!([0, 1, 2].map(hosted), [17, 17, 16]);
    let config = fs::read_to_string(bench.path("net/config.yaml")).unwrap();
    assert!(config.contains("GENESIS_TIME: 4000000000"), "{config}");
    assert!(
        config.contains("ATTESTATION_COMMITTEE_COUNT: 4"),
        "{config}"
    );
    assert!(!config.contains("ALPHORN_KEYS"), "{config}");
    let nodes = fs::read_to_string(bench.path("net/nodes.yaml")).unwrap();
    // Ports count up among the nodes of one address.
    for place in [
        "127.0.0.1/udp/9000/",
        "127.0.0.1/udp/9001/",
        "192.0.2.7/udp/9000/",
    ] {
        assert!(nodes.contains(place), "{nodes}");
    }
    let targets = bench.json("net/prometheus-targets.json");
    assert_eq!(targets[1]["targets"][0], "127.0.0.1:5053");
    assert!(bench.path("net/node-2/node.key").exists());
    bench
        .run("devnet --genesis net --slots 1")
        .expect(2, "must be loopback");
}

#[test]
fn what_no_node_can_run_is_refused_and_nothing_is_written() {
    let bench = Bench::new();
    for (options, named) in [
        (
            "--nodes 8 --validators 4",
            "--validators 4: each of 8 nodes",
        ),
        (
            "--aggregators 65",
            "aggregators_target = 65, must be 1 to 64",
        ),
        ("--collectors 0", "collectors_target = 0, must be 1 to 64"),
        ("--committees 513", "513"),
        ("--preset fast", "unknown slot timing"),
        ("--layers list/proof", "with bls list/list"),
        (
            "--scheme falcon --layers proof/proof",
            "with falcon list/list or list/proof",
        ),
        (
            "--scheme xmss --layers proof/proof --validators 2000",
            "cells of 1000 validators, with proof/proof at most 768",
        ),
        ("--ips 127.0.0.1", "--ips: 1 addresses, --nodes has 4"),
        (
            "--nodes 1 --ips 0.0.0.0",
            "--ips: 0.0.0.0, must be an address",
        ),
        (
            "--port 65534",
            "node 2 would have port 65536, at most 65535",
        ),
        ("--nodes 0", "0 is not in 1..=4096"),
        ("--genesis-time 0", "0 is not in"),
        (
            "--scheme falcon --keys keys.json",
            "--keys: validators of falcon",
        ),
        ("--keys none.json", "none.json"),
    ] {
        bench
            .run(&format!("genesis --out net {options}"))
            .expect(2, named);
        assert!(!bench.path("net").exists(), "{options}");
    }
    fs::create_dir(bench.path("net")).unwrap();
    bench
        .run("genesis --out net")
        .expect(2, "must be a folder that is not there yet");
}

/// Two nodes from their files. How many duties are done depends on the machine's other work.
#[test]
fn a_devnet_runs_the_network_of_a_folder() {
    let bench = Bench::new();
    bench
        .run("genesis --out late --delay 0 --nodes 2")
        .expect(0, "late");
    bench.run("devnet --genesis late").expect(2, "GENESIS_TIME");
    bench
        .run(&format!(
            "genesis --out net --delay 12 --nodes 2 --validators 16 --committees 1 {SECONDS} \
             --port {}",
            two_ports()
        ))
        .expect(0, "16 validators");
    let ended = bench.run("devnet --genesis net --slots 4 --allow-missed 1000000 --json told.json");
    assert!(
        matches!(ended.code, 0 | 5),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
    let told = bench.json("told.json");
    assert_eq!(told["agreement"], true);
    let nodes = told["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    assert!(nodes.iter().all(|node| node["local_validators"] == 8));
}

/// A network of four validators with keys of their own on one node, their keystores in `keys`.
fn with_keystores(bench: &Bench, options: &str) {
    bench
        .run("keys new --out keys --count 4 --password-file password --kdf pbkdf2 --kdf-cost 10")
        .expect(0, "4 keys");
    bench
        .run(&format!(
            "genesis --out net --keys keys/public-keys.json --committees 1 {options}"
        ))
        .expect(0, "4 validators of bls");
}

/// The options of a node of the network.
fn node(name: &str, keys: &str) -> String {
    let line = format!(
        "node --genesis net --node-id {name} --data-dir data --node-key net/{name}/node.key \
         --api-port 0 {keys}"
    );
    line.trim_end().to_owned()
}

#[test]
fn a_node_signs_with_keystores() {
    let bench = Bench::new();
    with_keystores(
        &bench,
        &format!("--nodes 1 --delay 6 {SECONDS} --port {}", two_ports()),
    );
    let config = fs::read_to_string(bench.path("net/config.yaml")).unwrap();
    assert!(
        config.contains("ALPHORN_KEYS: public-keys.json"),
        "{config}"
    );
    let line = node(
        "node-0",
        "--keystores keys --password-file password --exit-on-stdin-eof",
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_alphorn"))
        .args(line.split(' '))
        .current_dir(bench.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !bench.path("data/ready.json").exists() {
        assert!(Instant::now() < until, "the node does not start");
        assert!(child.try_wait().unwrap().is_none(), "the node has ended");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(14));
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let summary: Value = bench.json("data/summary.json");
    assert_eq!(summary["validators"], 4);
    let credited = summary["credited"].as_object().unwrap();
    let votes: u64 = credited.values().filter_map(Value::as_u64).sum();
    assert!(votes > 0, "no vote came into a block: {summary}");
    assert!(bench.path("data/safety.redb").exists());
}

#[test]
fn keystores_that_are_not_the_nodes_are_refused() {
    let bench = Bench::new();
    with_keystores(&bench, "--nodes 2 --genesis-time 4000000000");
    let both = "--keystores own --password-file password";
    fs::create_dir(bench.path("own")).unwrap();
    let copy = |from: &str, to: &str| {
        fs::copy(bench.path(from), bench.path(to)).unwrap();
    };
    let run = |keys: &str| bench.run(&node("node-0", keys));
    run("").expect(2, "--keystores and --password-file");
    run("--keystores own").expect(2, "--password-file");
    // node-0 hosts validators 0 and 2.
    run(both).expect(
        2,
        "0 keystores, node-0 hosts 2 validators; that of validator 0",
    );
    copy("keys/keystore-0.json", "own/a.json");
    run(both).expect(
        2,
        "1 keystores, node-0 hosts 2 validators; that of validator 2",
    );
    copy("keys/keystore-1.json", "own/b.json");
    run(both).expect(2, "b.json: validator 1, which node-0 does not host");
    copy("keys/keystore-0.json", "own/b.json");
    run(both).expect(2, "b.json: the key of validator 0, as own/a.json");
    bench
        .run("keys new --out other --password-file password --kdf pbkdf2 --kdf-cost 10")
        .expect(0, "1 key in other");
    copy("other/keystore-0.json", "own/b.json");
    run(both).expect(2, "b.json: the network has no validator with the key 0x");
    copy("keys/keystore-2.json", "own/b.json");
    bench.write_secret("wrong", "battery staple\n");
    run("--keystores own --password-file wrong").expect(2, "wrong password");
    fs::write(bench.path("own/c.json"), "{}").unwrap();
    run(both).expect(2, "c.json: neither a keystore");
    assert!(!bench.path("data").exists(), "nothing is begun");

    let config = fs::read_to_string(bench.path("net/config.yaml")).unwrap();
    for (from, to, named) in [
        (
            "public-keys.json",
            "../public-keys.json",
            "must be a file beside",
        ),
        (
            "VALIDATOR_COUNT: 4",
            "VALIDATOR_COUNT: 5",
            "has 4 public keys",
        ),
        ("ALPHORN_KEYS: public-keys.json", "", "has no ALPHORN_KEYS"),
    ] {
        fs::write(bench.path("net/config.yaml"), config.replace(from, to)).unwrap();
        run(both).expect(2, named);
    }
}
