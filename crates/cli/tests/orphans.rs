//! Processes that a network leaves behind: none, however it ends.
#![cfg(target_os = "linux")]

mod processes;

use processes::Family;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often a node is ended while it works.
const ENDS: u64 = if cfg!(feature = "soak") { 20 } else { 2 };

/// A network of two nodes whose provers are processes of their own, with slots of a second.
fn devnet(family: &Family, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alphorn"));
    command
        .args([
            "devnet",
            "--nodes=2",
            "--scheme=falcon",
            "--layers=list/proof",
        ])
        .args(["--validators=16", "--committees=1"])
        .args(["--preset=custom:1000:0,200,400,600,800"])
        .args(["--allow-missed=1000000"])
        .args(more)
        .stdout(Stdio::null());
    family.mark(&mut command);
    command
}

/// The parent is killed, so it can end nothing: its nodes notice by themselves, and with them end the
/// processes of their prove lanes.
#[test]
fn nodes_and_provers_end_with_a_parent_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let family = Family::new("parent");
    let dir = folder.path().join("net").display().to_string();
    let mut parent = devnet(&family, &["--slots=1000", "--dir", &dir])
        .spawn()
        .unwrap();
    let nodes: Vec<u32> = ["node-0", "node-1"]
        .map(|node| processes::told(&folder.path().join("net").join(node)))
        .iter()
        .map(|ready| ready["pid"].as_u64().unwrap() as u32)
        .collect();
    // Two nodes and, once there is something to prove, a prover of each.
    family.wait("a node or prover is missing", |members| {
        let runs = |args: &[String], command: &str| args.get(1).is_some_and(|arg| arg == command);
        let count = |command: &str| members.iter().filter(|one| runs(&one.1, command)).count();
        count("node") == 2 && count("lane") >= 2
    });
    let before = family.members();
    for pid in &nodes {
        assert!(before.iter().any(|one| one.0 == *pid), "{pid} {before:?}");
    }
    parent.kill().unwrap();
    parent.wait().unwrap();
    family.wait("somebody outlives the parent", |members| members.is_empty());
    for node in ["node-0", "node-1"] {
        // It ended in order: it told of itself last of all.
        let summary = Path::new(&dir).join(node).join("data/summary.json");
        assert!(summary.exists(), "{node}");
    }
}

/// SIGTERM at drawn instants, while votes are signed and proofs made: the node ends by itself with
/// code 0, its files open again, nothing is signed twice, and no process is left.
#[test]
fn nodes_that_are_asked_to_end_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let family = Family::new("term");
    let json = folder.path().join("told.json").display().to_string();
    let slots = format!("--slots={}", 6 * ENDS + 4);
    let more = [
        "--warmup-slots=0",
        "--faults=term",
        "--fault-every=6",
        &slots,
        "--json",
        &json,
    ];
    let status = devnet(&family, &more).status().unwrap();
    // A node that ends with another code, or does not end, is 6. A block that only the ended one of two
    // nodes had is a branch that may lose, and votes with it.
    assert!(matches!(status.code(), Some(0 | 1 | 5)), "{status}");
    let told: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let faults = told["faults"].as_array().unwrap();
    assert_eq!(faults.len() as u64, ENDS);
    for fault in faults {
        let ended = Duration::from_secs_f64(fault["end_ms"].as_f64().unwrap() / 1e3);
        assert!(
            ended > Duration::ZERO && fault["ready_ms"].is_f64(),
            "{fault}"
        );
    }
    assert_eq!(told["agreement"], true);
    assert_eq!(told["rights_twice"], 0);
    family.wait("somebody is left", |members| members.is_empty());
}

/// Ctrl-C while a network runs: its nodes end in order, and what became of the duties so far is told.
#[test]
fn an_interrupted_network_tells_what_it_did_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let family = Family::new("interrupt");
    let json = folder.path().join("told.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_alphorn"));
    command
        .args(["devnet", "--nodes=2", "--validators=16", "--committees=1"])
        .args(["--preset=custom:1000:0,200,400,600,800", "--slots=1000"])
        .arg("--json")
        .arg(&json)
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped());
    family.mark(&mut command);
    let mut parent = command.spawn().unwrap();
    let mut said = BufReader::new(parent.stdout.take().unwrap());
    let mut text = String::new();
    // Until slots are judged; there is a line every four.
    while !text.contains("\nslot 8 ") {
        assert!(
            said.read_line(&mut text).unwrap() > 0,
            "it has ended: {text}"
        );
    }
    assert!(text.contains("node-1: page http://127.0.0.1:"), "{text}");
    assert!(text.contains("/metrics"), "{text}");
    let pid = i32::try_from(parent.id()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    said.read_to_string(&mut text).unwrap();
    assert_eq!(parent.wait().unwrap().code(), Some(130), "{text}");
    assert!(text.contains("done / late / missed"), "{text}");
    assert!(text.contains("INTERRUPTED"), "{text}");
    let told: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(told["interrupted"], true);
    assert_eq!(told["agreement"], true);
    assert_eq!(told["rights_twice"], 0);
    assert_eq!(told["nodes"].as_array().unwrap().len(), 2);
    family.wait("somebody is left", |members| members.is_empty());
    let left = std::fs::read_dir(folder.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|one| one.file_name()).collect();
    assert_eq!(left, ["told.json"], "the temporary folder stays");
}
