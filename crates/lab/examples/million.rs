//! The picture of a slot of a million post-quantum votes, from the recorded run:
//! `cargo run -p alphorn-lab --example million > docs/img/million.svg`.

use anyhow::Context;
use serde_json::Value;

fn read(name: &str) -> anyhow::Result<Value> {
    let path = format!(
        "{}/../../results/epyc-zen4-2/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).with_context(|| path)?;
    Ok(serde_json::from_str(&text)?)
}

fn main() -> anyhow::Result<()> {
    let (slot, verified) = (read("million-pq.json")?, read("million-pq-verify.json")?);
    print!("{}", alphorn_lab::picture::million(&slot, &verified)?);
    Ok(())
}
