//! `bench sim` through the binary: its figures, and what it refuses.

use serde_json::Value;
use std::process::{Command, Output};

fn run(line: &str) -> Output {
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_alphorn"));
    command.env("ALPHORN_CACHE_DIR", cache.path());
    command.args(line.split_whitespace()).output().unwrap()
}

#[test]
fn workloads_are_timed() {
    let output = run("bench sim --nodes 300 --seed 5 --json -");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&object["command"], &object["seed"]),
        (&"bench sim".into(), &5.into())
    );
    let cases = object["cases"].as_array().unwrap();
    let first_words: Vec<&str> = cases
        .iter()
        .filter_map(|case| case["workload"].as_str()?.split(' ').next())
        .collect();
    assert_eq!(first_words, ["gossip", "rlnc", "rlnc", "horn"]);
    for case in cases {
        assert!(case["events"].as_u64() > Some(10_000), "{case}");
        for field in ["received_per_s", "events_per_s", "wall_ms", "rss_bytes"] {
            assert!(case[field].as_f64() > Some(0.0), "{field} of {case}");
        }
    }
    // The same seed gives the same events.
    let again: Value =
        serde_json::from_slice(&run("bench sim --nodes 300 --seed 5 --json -").stdout).unwrap();
    for (case, other) in cases.iter().zip(again["cases"].as_array().unwrap()) {
        assert_eq!(case["event_hash"], other["event_hash"]);
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    for line in [
        "bench sim --nodes 3",
        "bench sim --runs 0",
        "bench sim --nodes 2000000",
    ] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(output.stdout.is_empty());
    }
}
