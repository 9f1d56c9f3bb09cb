//! Small groups, in every way.

use super::{TwoLevel, run};
use crate::scenario::Scenario;

const TEXT: &str = r#"
    name = "two-level-test"
    schema = 1
    [sim]
    nodes = 320
    [latency]
    kind = "constant"
    ms = 50
    [link]
    transport = "window"
    initial_window_bytes = 5360
    [[class]]
    name = "validator"
    share_pct = 100
    down_mbps = 100
    up_mbps = 100
    cores = 1
    [protocol]
    kind = "two_level"
    global_aggregators = 16
    [compute]
    handle_ns = 0
"#;

fn done_ms(signatures: &str, proofs: &str, pull: bool, seed: u64) -> u64 {
    let config = TwoLevel {
        signatures: signatures.into(),
        proofs: proofs.into(),
        pull,
        global_aggregators: 16,
        ..TwoLevel::default()
    };
    let scenario = Scenario::parse(TEXT, &[]).unwrap();
    let once = run(&scenario, &config, seed, &mut ()).unwrap();
    assert_eq!(once, run(&scenario, &config, seed, &mut ()).unwrap());
    once.delays_ns[0].unwrap().div_ceil(1_000_000)
}

#[test]
fn every_way_ends_above_its_floor() {
    // Signing 20 ms, 36 signatures at 1000 a second, two proofs to a global aggregator and among
    // them, six proofs at 10 a second, three latencies at least: 20 + 36 + 600 + 100.
    for (signatures, proofs) in [("gossip", "gossip"), ("grid", "grid"), ("direct", "direct")] {
        for pull in [false, true] {
            let ms = done_ms(signatures, proofs, pull, 1);
            assert!(
                (756..3000).contains(&ms),
                "{signatures} {proofs} {pull}: {ms}"
            );
        }
    }
    let direct = done_ms("direct", "grid", true, 2);
    let grid = done_ms("grid", "grid", true, 2);
    let gossip = done_ms("gossip", "gossip", true, 2);
    assert!(direct < grid && grid < gossip, "{direct} {grid} {gossip}");
}

#[test]
fn what_cannot_be_is_named() {
    let scenario = Scenario::parse(TEXT, &[]).unwrap();
    let config = TwoLevel {
        groups: 0,
        ..TwoLevel::default()
    };
    let error = run(&scenario, &config, 1, &mut ()).unwrap_err();
    assert_eq!(error.to_string(), "protocol.groups = 0, allowed 1 to 320");
    let config = TwoLevel {
        proofs: "pigeon".into(),
        ..TwoLevel::default()
    };
    let error = run(&scenario, &config, 1, &mut ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "protocol.proofs = pigeon: one of gossip, grid, direct"
    );
}
