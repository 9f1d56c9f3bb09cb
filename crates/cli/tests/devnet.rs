//! A network of real processes, and what its command refuses.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn alphorn(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alphorn"))
        .args(args)
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Two nodes for some slots. How many duties are done depends on the machine's other work, so only
/// what holds on any machine is asked for: the nodes find each other, votes come into blocks,
/// nobody finalises anything else, and every node ends in order.
#[test]
fn nodes_vote_and_agree() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (dir, json) = (path("net"), path("devnet.json"));
    let output = alphorn(&[
        "devnet",
        "--nodes=2",
        "--validators=16",
        "--committees=1",
        "--slots=4",
        "--preset=custom:2000:0,400,800,1200,1600",
        "--allow-missed=1000000",
        "--dir",
        &dir,
        "--json",
        &json,
    ]);
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(5), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report["agreement"], true);
    let nodes = report["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    for node in nodes {
        assert_eq!(node["validators"], 16);
        assert_eq!(node["local_validators"], 8);
        assert_eq!(node["can_sign"], true);
        let credited = node["credited"].as_object().unwrap();
        let votes: u64 = credited.values().filter_map(Value::as_u64).sum();
        assert!(votes > 0, "no vote came into a block: {node}");
        assert!(node["link_bytes"][0].as_u64() > Some(0), "nobody was heard");
        assert_eq!(
            node["reports"],
            serde_json::json!({}),
            "an honest node was blamed"
        );
    }
    let home = Path::new(&dir).join("node-0");
    assert!(home.join("data/safety.redb").exists());
    // What is left can be started again; a second process finds the marks.
    let again = alphorn(&["devnet", "--nodes=2", "--dir", &dir]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        stderr(&again).contains("not there yet"),
        "{}",
        stderr(&again)
    );
}

#[test]
fn wrong_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let node = || {
        alphorn(&[
            "node",
            "--genesis",
            folder.path().to_str().unwrap(),
            "--node-id=node-0",
            "--data-dir",
            at("data").to_str().unwrap(),
            "--node-key",
            at("key").to_str().unwrap(),
        ])
    };
    let output = node();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("config.yaml"),
        "{}",
        stderr(&output)
    );
    let config = "GENESIS_TIME: 4000000000\nVALIDATOR_COUNT: 16\nATTESTATION_COMMITTEE_COUNT: 1\n\
         SUBCOMMITTEES_PER_COMMITTEE: 2\nAGGREGATORS_PER_SUBCOMMITTEE: 2\n\
         COLLECTORS_PER_COMMITTEE: 2\nALPHORN_SCHEME: bls\nALPHORN_PRESET: lean\n\
         ALPHORN_KEY_SLOTS: 64\n";
    for (wrong, named) in [
        (format!("{config}EXTRA: 1\n"), "EXTRA"),
        (config.replace("lean", "fast"), "ALPHORN_PRESET"),
        (
            config.replace("COUNT: 16", "COUNT: sixteen"),
            "VALIDATOR_COUNT",
        ),
        (config.replace("COUNT: 1\n", "COUNT: 0\n"), "committees"),
    ] {
        std::fs::write(at("config.yaml"), &wrong).unwrap();
        let output = node();
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(stderr(&output).contains(named), "{}", stderr(&output));
    }
    std::fs::write(at("config.yaml"), config).unwrap();
    std::fs::write(at("nodes.yaml"), "[]\n").unwrap();
    let output = node();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("0 nodes"), "{}", stderr(&output));
    assert!(!at("data").exists(), "nothing is begun");
}

#[test]
fn options_out_of_bounds_are_usage_errors() {
    for args in [
        &["devnet", "--nodes=0"][..],
        &["devnet", "--nodes=8", "--validators=4"],
        &["devnet", "--scheme=dsa"],
        &["devnet", "--slots=0"],
        &["dashboard", "--trace=/nonexistent/trace.jsonl"],
    ] {
        let output = alphorn(args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}
