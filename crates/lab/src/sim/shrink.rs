//! `alphorn sim shrink`: a smaller scenario that fails in the same way.

use super::replay::item;
use super::{folder, work};
use crate::error::{Error, Result};
use crate::progress::Bars;
use crate::report::write_whole;
use alphorn_sim::scenario::{Scenario, TRIES_MAX, shrink};
use anyhow::anyhow;
use std::path::PathBuf;

/// A smaller scenario that fails in the same way: fewer faults and nodes, less traffic, less time
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Manifest or folder of a run that does not hold
    manifest: PathBuf,
    /// File of the smaller scenario; the name without .toml becomes the scenario's
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let manifest = folder::manifest(&args.manifest)?;
    let base = folder::scenario(&folder::of(&args.manifest), &manifest)?;
    let name = args
        .out
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut named = base.clone();
    named.name.clone_from(&name);
    named.sim.seeds = alphorn_sim::scenario::Seeds::one(manifest.seed);
    named.sweep.clear();
    named.check()?;
    let item = item(&manifest);
    let ways = |scenario: &Scenario| match work::one(scenario, &item, String::new(), (None, None)) {
        Ok(ran) => ran.ways,
        // What cannot be run does not fail in any way that matters.
        Err(_) => Vec::new(),
    };
    let expected = ways(&named);
    if expected.is_empty() {
        let why = "the run holds, there is nothing to shrink";
        return Err(anyhow!("{}: {why}", args.manifest.display()).into());
    }
    let mut bars = Bars::new();
    let mut tries = 0;
    // A failure about time stays one only if time does not end earlier.
    let about_time = |way: &String| way.starts_with('t') || way == "delivered";
    let cuts_time = !expected.iter().any(about_time);
    let shrunk = shrink(&named, cuts_time, &mut |scenario| {
        tries += 1;
        bars.show("tries", tries, TRIES_MAX.into());
        ways(scenario) == expected
    });
    bars.clear();
    let smaller = shrunk.scenario;
    write_whole(&args.out, smaller.to_toml()?.as_bytes())?;
    let size = |scenario: &Scenario| {
        format!(
            "{} nodes, {} payloads of {} bytes, {} faults",
            scenario.sim.nodes,
            scenario.traffic.count,
            scenario.traffic.bytes,
            scenario.fault.len()
        )
    };
    println!(
        "from {}\nto   {}\nafter {} runs, all fail by: {}",
        size(&base),
        size(&smaller),
        shrunk.tries,
        expected.join(", ")
    );
    let file = super::source::shell(&args.out.display().to_string());
    println!("replay: alphorn sim run {file} --seed {}", manifest.seed);
    for name in smaller.files() {
        println!("its file {name:?} has to lie beside it");
    }
    match smaller == named {
        true => Err(Error::Check("nothing could be left out".into())),
        false => Ok(()),
    }
}
