//! A table of costs as the simulator and `alphorn explore` read it: `cargo run -p alphorn-scheme --example
//! costs -- scenarios/costs/bls-formula.json`, or the one that comes with the crate.

use alphorn_scheme::model::CostTable;
use alphorn_scheme::{Layer, Op};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let table = match std::env::args().nth(1) {
        Some(path) => CostTable::from_json(&std::fs::read_to_string(path)?)?,
        None => CostTable::example(),
    };
    println!("{} on {} ({:?})", table.scheme, table.machine, table.kind);
    for n in [16, 512, 32_768] {
        let verify = table.cost(Op::VerifyVotes, n, 0);
        let bytes = table.evidence_bytes(Layer::Collection, n);
        println!(
            "{n:>6} votes: verified in {:.3} ms, {bytes} bytes of evidence in a collection",
            verify.ns as f64 / 1e6
        );
    }
    Ok(())
}
