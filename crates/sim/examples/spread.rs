//! A payload to everybody, by a mesh and along a grid: `cargo run --release -p alphorn-sim --example
//! spread -- 100000` for that many bytes.

use alphorn_sim::run::run;
use alphorn_sim::scenario::{Scenario, parse_override};
use std::error::Error;

const SCENARIO: &str = r#"
    name = "spread"
    schema = 1
    [sim]
    nodes = 400
    [latency]
    kind = "constant"
    ms = 50
    [[class]]
    name = "node"
    share_pct = 100
    down_mbps = 50
    up_mbps = 25
    [protocol]
    kind = "gossip"
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let bytes = std::env::args().nth(1).unwrap_or_else(|| "100000".into());
    for kind in ["gossip", "grid"] {
        let changes = [
            parse_override(&format!("traffic.bytes={bytes}"))?,
            parse_override(&format!("protocol.kind={kind}"))?,
        ];
        let scenario = Scenario::parse(SCENARIO, &changes)?;
        // The same scenario and seed give the same events on any machine.
        let outcome = run(&scenario, 1, &mut ())?;
        let summary = outcome.summary();
        let t99 = summary
            .t99_ns
            .map_or("never".into(), |ns| format!("{} ms", ns / 1_000_000));
        println!(
            "{kind:<7} 99 % of the nodes have it after {t99}; half of them send {} bytes or less",
            summary.bytes_up_p50
        );
    }
    Ok(())
}
