//! `alphorn bench sim`: messages and events per second of the simulator.

use super::harness::{Bench, Column, bytes, count, ms};
use alphorn_lab::error::{Error, Result};
use alphorn_lab::machine::{Machine, cores, peak_rss_bytes, reset_peak_rss};
use alphorn_lab::options::{Json, pool};
use alphorn_lab::report::Report;
use alphorn_lab::sim::source::load;
use alphorn_sim::report::Outcome;
use alphorn_sim::run::{Observe, Progress, run as simulate};
use alphorn_sim::scenario::{Scenario, parse_override};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;

/// Measure messages and events per second of the simulator
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench sim
  alphorn bench sim --nodes 1000 --runs 3

Each workload runs on one thread, and again on --threads. Received messages include copies of what a node
already has; an event is one taken from the queue. The time to build the graph and the nodes is not counted.
The slot of Horn is the preset horn-1m-10k on a tenth of the nodes, at least 200, with 65 validators per
node. Exit code 1 if a run does not deliver everything, or if it differs on more threads.")]
pub(crate) struct Args {
    /// Number of nodes
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(200..=1_000_000))]
    nodes: u32,
    /// Number of runs per workload; the minimum time counts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Threads of the second run of each workload (default: all cores of this process)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Seed for graphs, latencies and choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: Json,
}

const COLUMNS: [Column; 8] = [
    ("workload", "/workload", count),
    ("received", "/received", count),
    ("a second", "/received_per_s", count),
    ("events", "/events", count),
    ("a second", "/events_per_s", count),
    ("time", "/wall_ms", ms),
    ("on all threads", "/threads_ms", ms),
    ("peak memory", "/rss_bytes", bytes),
];

/// Builds a workload from the tables that differ; 160 Mbit/s both ways, 70 ms.
fn workload(nodes: u32, tables: &str) -> Result<Scenario> {
    let text = format!(
        "name = \"bench\"\nschema = 1\n[sim]\nnodes = {nodes}\n\
         [[class]]\nname = \"uniform20\"\nshare_pct = 100\ndown_mbps = 160\nup_mbps = 160\n{tables}"
    );
    Ok(Scenario::parse(&text, &[])?)
}

/// Builds a slot of Horn: the preset of 2^20 validators on a tenth of `nodes`; 2^16 validators on 1,000.
fn slot(nodes: u32) -> Result<(String, Scenario)> {
    let nodes = (nodes / 10).max(200);
    let validators = (nodes * 65).next_power_of_two().min(1 << 20);
    let changes = [
        format!("sim.nodes={nodes}"),
        format!("protocol.validators={validators}"),
    ];
    let changes = changes.iter().map(|change| Ok(parse_override(change)?));
    let changes: anyhow::Result<Vec<_>> = changes.collect();
    let power = validators.ilog2();
    let name = format!("horn slot, 2^{power} validators, {nodes} nodes");
    Ok((name, load("horn-1m-10k", &changes?)?))
}

/// Returns the scenarios that are timed.
fn workloads(nodes: u32) -> Result<Vec<(String, Scenario)>> {
    let gossip = "[graph]\nkind = \"permutations\"\ndegree = 16\n\
                  [protocol]\nkind = \"gossip\"\nmesh = 8\n\
                  [traffic]\nbytes = 1000\ncount = 100\ninterval_ms = 10\n";
    let name = format!("gossip D=8, {nodes} nodes, 100 messages");
    let mut all = vec![(name, workload(nodes, gossip)?)];
    // The strategy of the proposal with this many chunks: one of them to each of 80 peers.
    for chunks in [10, 64] {
        let tables = format!(
            "[graph]\nkind = \"permutations\"\ndegree = 80\n\
             [protocol]\nkind = \"broadcast\"\nstrategy = \"rlnc\"\npolicy = \"proposal_80\"\nchunks = {chunks}\n\
             [traffic]\nbytes = 118750\n"
        );
        let name = format!("rlnc N={chunks} D=80, {nodes} nodes, one payload");
        all.push((name, workload(nodes, &tables)?));
    }
    all.push(slot(nodes)?);
    Ok(all)
}

/// Checks the clock when the nodes have been created.
struct Clock {
    begun: Instant,
    threads: usize,
}

impl Observe for Clock {
    fn begins(&mut self) {
        self.begun = Instant::now();
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn progress(&mut self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Returns the least time of some runs on this many threads, and the outcome of each.
fn timed(scenario: &Scenario, args: &Args, threads: usize) -> Result<(f64, Outcome)> {
    let once = || -> Result<(f64, Outcome)> {
        let begun = Instant::now();
        let mut clock = Clock { begun, threads };
        let outcome = simulate(scenario, args.seed, &mut clock)?;
        Ok((clock.begun.elapsed().as_secs_f64(), outcome))
    };
    let (mut wall_s, outcome) = once()?;
    for _ in 1..args.runs {
        wall_s = wall_s.min(once()?.0);
    }
    Ok((wall_s, outcome))
}

fn case(args: &Args, name: &str, scenario: &Scenario, threads: usize) -> Result<Value> {
    reset_peak_rss();
    let (wall_s, outcome) = timed(scenario, args, 1)?;
    let mut threads_s = None;
    if threads > 1 {
        let (all_s, again) = pool(threads)?.install(|| timed(scenario, args, threads))?;
        if again != outcome {
            let what = format!("{name}: {threads} threads do not do what one does");
            return Err(Error::Check(what));
        }
        threads_s = Some(all_s);
    }
    if !outcome.delays_ns.iter().all(Option::is_some) {
        return Err(Error::Check(format!(
            "{name}: not everything was delivered"
        )));
    }
    Ok(json!({
        "workload": name,
        "received": outcome.received,
        "received_per_s": outcome.received as f64 / wall_s,
        "events": outcome.events,
        "event_hash": format!("{:016x}", outcome.event_hash),
        "events_per_s": outcome.events as f64 / wall_s,
        "wall_ms": wall_s * 1e3,
        "threads_ms": threads_s.map(|s| s * 1e3),
        "rss_bytes": peak_rss_bytes(),
    }))
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench sim", args.seed);
    let threads = args.threads.map_or_else(cores, usize::from);
    let machine = Machine::here(threads, BTreeMap::new());
    let bench = Bench::new(report, args.json.sink(), machine);
    let workloads = workloads(args.nodes)?;
    let cases = workloads.iter();
    let cases = cases.map(|(name, scenario)| case(args, name, scenario, threads));
    let cases: Vec<Value> = cases.collect::<Result<_>>()?;
    bench.table(&cases, &COLUMNS);
    let config = json!({ "nodes": args.nodes, "runs": args.runs });
    bench.end(&config, json!({ "cases": cases }), None)
}
