//! A devnet whose first node is flooded with forged votes over loopback: the honest ones come through,
//! memory stays within its bound, and whoever sends what has to be verified is sent away.
#![cfg(feature = "soak")]

use serde_json::Value;
use std::process::{Command, Stdio};

/// How many votes come into blocks depends on the machine's other work, so the command compares the
/// flooded slots with those before them.
#[test]
fn honest_votes_come_through_a_flood_of_forged_ones() {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_alphorn"))
        .args(["devnet", "--nodes=2", "--validators=64", "--committees=1"])
        .args(["--flood=2", "--slots=16", "--allow-missed=1000000"])
        .args(["--json", "told.json"])
        .current_dir(folder.path())
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    // Where the machine does other work finality may lie behind.
    assert!(matches!(status.code(), Some(0 | 5)), "{status}");
    let told = std::fs::read(folder.path().join("told.json")).unwrap();
    let told: Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(told["agreement"], true);
    let flood = &told["flood"];
    assert!(flood["votes"].as_u64() > Some(0), "{flood}");
    assert!(flood["sent_away"].as_u64() > Some(0), "{flood}");
    let share = |name: &str| flood[name].as_f64().unwrap();
    assert!(
        share("coverage_flooded") >= 0.99 * share("coverage_quiet"),
        "{flood}"
    );
    for node in flood["nodes"].as_array().unwrap() {
        let bound = node["memory_bound_bytes"].as_u64().unwrap();
        let halves = node["rss_bytes_max"].as_array().unwrap().iter();
        let most = halves.filter_map(Value::as_u64).max().unwrap();
        assert!(most > 0 && most <= bound / 100 * 105, "{node}");
    }
    let nodes = told["nodes"].as_array().unwrap();
    for node in nodes {
        // What the bound is made of is told with it.
        let parts = node["memory_parts"].as_object().unwrap().values();
        let sum: u64 = parts.filter_map(Value::as_u64).sum();
        assert_eq!(node["memory_bound_bytes"], sum, "{node}");
        assert!(node["rss_bytes"].as_u64() > Some(0), "{node}");
    }
    let victim = &nodes[0];
    assert!(
        victim["reports"]["bad_evidence"].as_u64() > Some(0),
        "{victim}"
    );
    assert!(victim["drops"]["rate"].as_u64() > Some(0), "{victim}");
    assert_eq!(
        nodes[1]["reports"],
        serde_json::json!({}),
        "nobody forwards them"
    );
}
