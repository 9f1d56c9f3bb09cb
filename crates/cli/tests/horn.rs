//! The analyses of Horn through the binary: exit codes, JSON objects, a record of a small epoch.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn alphorn(cache: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alphorn"));
    command.env("XDG_CACHE_HOME", cache).args(args);
    command
        .output()
        .unwrap_or_else(|error| panic!("cannot run alphorn: {error}"))
}

/// The JSON object of a run that succeeds.
fn json(args: &[&str]) -> Value {
    let cache = tempfile::tempdir().unwrap();
    let args = [args, &["--json", "-", "--threads", "2"]].concat();
    let output = alphorn(cache.path(), &args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

/// The message of a run that is refused.
fn refusal(args: &[&str]) -> String {
    let cache = tempfile::tempdir().unwrap();
    let output = alphorn(cache.path(), args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
    errors
}

#[test]
fn traffic_prints_formulas_and_encoded_messages() {
    let object = json(&[
        "horn",
        "traffic",
        "--validators",
        "4096",
        "--committees",
        "4",
        "--subcommittees",
        "4",
    ]);
    assert_eq!(object["command"], "horn traffic");
    assert_eq!(object["kind"], "modelled");
    let cases = object["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 6, "today, strawman, M = 1, 3, 3 attacked, 15");
    for case in cases {
        assert_eq!(case["encoded"]["raw"], case["full_bytes"]);
    }
    // Four committees of 1,024 and 16 collectors: 128 B of bits and 192 B of signatures.
    assert_eq!(cases[2]["horn_bytes"], 64 * (128 + 192));
    assert_eq!(object["blocks"].as_array().unwrap().len(), 3);
}

#[test]
fn committees_compare_odds_with_draws() {
    let object = json(&[
        "horn",
        "committees",
        "--validators",
        "10007",
        "--slots",
        "3",
    ]);
    let bounds = object["committee_bounds"].as_array().unwrap();
    assert_eq!(bounds.last().unwrap(), 10_007);
    let cases = object["drawn"]["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 4);
    assert!(cases.iter().all(|case| case["holds"] == true));
    assert_eq!(object["odds"].as_array().unwrap().len(), 8);
}

#[test]
fn griefing_loses_less_to_a_quorum_than_to_the_best_aggregate() {
    let args = [
        "horn", "griefing", "--cells", "24", "--eve", "0.1", "--split", "1,2",
    ];
    let object = json(&args);
    let case = &object["cases"][0];
    let loss = |rule: &str| case["loss"][rule].as_f64().unwrap();
    assert!(loss("best1") > 0.1 && loss("greedy2") > 0.04);
    assert!(loss("quorum3") < loss("greedy2"));
    assert_eq!(loss("union"), 0.0);
    assert_eq!(case["worst"]["best1"]["split"], 1);
    // A seed is a run.
    assert_eq!(json(&args)["cases"], object["cases"]);
    assert_ne!(
        json(&[&args[..], &["--seed", "2"]].concat())["cases"],
        object["cases"]
    );
}

#[test]
fn codec_reads_back_what_it_wrote() {
    let object = json(&[
        "bench",
        "codec",
        "--validators",
        "2048",
        "--committees",
        "2",
        "--subcommittees",
        "4",
        "--participation",
        "0.9",
        "--runs",
        "1",
    ]);
    assert_eq!(object["kind"], "measured");
    let case = &object["cases"][0];
    assert_eq!(case["equal"], true);
    assert_eq!(
        case["raw"],
        32 * (6 + 128),
        "32 collections of 1,024 positions"
    );
    assert!(case["rice"]["chain"].as_u64() < case["rice"]["none"].as_u64());
    assert!(case["encode_us"]["rice, none"].as_f64().unwrap() > 0.0);
}

/// A record of 100 validators in two slots of two committees; every third one voted.
fn write_record(folder: &Path) {
    let meta = r#"{ "network": "test", "epoch": 1, "active_validators": 100, "slots": 2,
        "committees_per_slot": 2, "files": { "target.bits": "who voted" } }"#;
    std::fs::write(folder.join("meta.json"), meta).unwrap();
    let mut bits = [0u8; 13];
    (0..100)
        .step_by(3)
        .for_each(|i: usize| bits[i / 8] |= 1 << (i % 8));
    std::fs::write(folder.join("target.bits"), bits).unwrap();
}

#[test]
fn collections_cover_what_a_record_says() {
    let folder = tempfile::tempdir().unwrap();
    write_record(folder.path());
    let path = folder.path().to_str().unwrap();
    let object = json(&["horn", "collections", "--participation", path]);
    assert_eq!(object["coverage_equals_record"], true);
    assert_eq!(object["recorded"], serde_json::json!([17, 17]));
    assert_eq!(object["votes_in_collections"], 34);
    let traffic = json(&["horn", "traffic", "--participation", path]);
    assert_eq!(traffic["config"]["committees"], 2);
}

#[test]
fn wrong_options_are_refused_and_named() {
    let text = refusal(&["horn", "griefing", "--cover", "quorum1"]);
    assert!(text.contains("quorum1"), "{text}");
    let text = refusal(&[
        "horn",
        "griefing",
        "--cells",
        "1000000",
        "--cell-size",
        "65536",
    ]);
    assert!(text.contains("67108864"), "{text}");
    let text = refusal(&["horn", "griefing", "--malicious", "2"]);
    assert!(text.contains("share"), "{text}");
    let text = refusal(&["slot", "--validators", "64", "--committees", "128"]);
    assert!(
        text.contains("at most the number of validators, 64"),
        "{text}"
    );
    let text = refusal(&["horn", "traffic", "--committees", "2049"]);
    assert!(text.contains("2048"), "{text}");
    let text = refusal(&["horn", "committees", "--slots", "10000"]);
    assert!(text.contains("268435456"), "{text}");
    let text = refusal(&["horn", "collections", "--participation", "/nowhere/epoch"]);
    assert!(text.contains("/nowhere/epoch is not there"), "{text}");
    let text = refusal(&["bench", "codec", "--participation", "/nowhere/epoch"]);
    assert!(text.contains("/nowhere/epoch is not there"), "{text}");
    let text = refusal(&["horn", "griefing", "--json", "/nowhere/file.json"]);
    assert!(text.contains("/nowhere/file.json"), "{text}");
}

#[test]
fn every_help_has_examples() {
    let cache = tempfile::tempdir().unwrap();
    for command in [
        &["horn", "traffic"][..],
        &["horn", "committees"],
        &["horn", "griefing"],
        &["horn", "collections"],
        &["bench", "codec"],
    ] {
        let output = alphorn(cache.path(), &[command, &["--help"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        assert!(
            text.contains("Examples:") && text.contains(&command.join(" ")),
            "{text}"
        );
    }
}
