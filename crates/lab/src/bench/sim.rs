//! `alphorn bench sim`: messages and events a second of the simulator.

use crate::error::{Error, Result};
use crate::machine::{Machine, cores, peak_rss_bytes, reset_peak_rss};
use crate::options::{Json, pool};
use crate::report::{Report, table};
use crate::sim::source::load;
use crate::text;
use alphorn_sim::report::Outcome;
use alphorn_sim::run::{Observe, Progress, run as simulate};
use alphorn_sim::scenario::{Scenario, parse_override};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;

/// Messages and events a second of the simulator
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench sim
  alphorn bench sim --nodes 1000 --runs 3
  alphorn bench sim --large --json sim.json

Each on one thread, and again on --threads. Received are messages that a node is handed, copies of what it
has included; an event is one that is taken from the queue. Making the graph and the nodes is not in the time.
The slot of Horn is the preset horn-1m-10k on a tenth of the nodes, 200 at least, with 65 validators a node.
Exit code 1 is for a run that delivers less than everything, or that is another one on more threads.")]
pub(crate) struct Args {
    /// Nodes
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(200..=1_000_000))]
    nodes: u32,
    /// Runs of each workload; the least time counts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Threads of the second run of each workload; all cores of this process by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Also 100,000 nodes with a code
    #[arg(long)]
    large: bool,
    /// Seed of graphs, latencies and choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: Json,
}

/// A scenario that is timed.
struct Workload {
    name: String,
    scenario: Scenario,
}

/// A workload and its figures.
struct Case {
    workload: Workload,
    received: u64,
    events: u64,
    event_hash: u64,
    wall_s: f64,
    /// The same on all threads; absent if one is all.
    threads_s: Option<f64>,
    /// The most memory that the process had meanwhile.
    rss_bytes: u64,
    complete: bool,
}

impl Case {
    fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.wall_s
    }

    fn json(&self) -> Value {
        json!({
            "workload": self.workload.name,
            "received": self.received,
            "received_per_s": self.per_s(self.received),
            "events": self.events,
            "event_hash": format!("{:016x}", self.event_hash),
            "events_per_s": self.per_s(self.events),
            "wall_ms": self.wall_s * 1e3,
            "threads_ms": self.threads_s.map(|s| s * 1e3),
            "rss_bytes": self.rss_bytes,
        })
    }
}

/// A workload from the tables that differ; 160 Mbit/s both ways, 70 ms.
fn workload(name: String, nodes: u32, tables: &str) -> Result<Workload> {
    let text = format!(
        "name = \"bench\"\nschema = 1\n[sim]\nnodes = {nodes}\n\
         [[class]]\nname = \"uniform20\"\nshare_pct = 100\ndown_mbps = 160\nup_mbps = 160\n{tables}"
    );
    let scenario = Scenario::parse(&text, &[])?;
    Ok(Workload { name, scenario })
}

fn gossip(nodes: u32) -> Result<Workload> {
    let tables = "[graph]\nkind = \"permutations\"\ndegree = 16\n\
                  [protocol]\nkind = \"gossip\"\nmesh = 8\n\
                  [traffic]\nbytes = 1000\ncount = 100\ninterval_ms = 10\n";
    let name = format!("gossip D=8, {nodes} nodes, 100 messages");
    workload(name, nodes, tables)
}

/// The strategy of the proposal with so many chunks: one of them to each of 80 peers.
fn coded(nodes: u32, chunks: u32) -> Result<Workload> {
    let tables = format!(
        "[graph]\nkind = \"permutations\"\ndegree = 80\n\
         [protocol]\nkind = \"broadcast\"\nstrategy = \"rlnc\"\npolicy = \"proposal_80\"\nchunks = {chunks}\n\
         [traffic]\nbytes = 118750\n"
    );
    let name = format!("rlnc N={chunks} D=80, {nodes} nodes, one payload");
    workload(name, nodes, &tables)
}

/// A slot of Horn: the preset of 2^20 validators on a tenth of `nodes`; 2^16 validators on 1,000.
fn slot(nodes: u32) -> Result<Workload> {
    let nodes = (nodes / 10).max(200);
    let validators = (nodes * 65).next_power_of_two().min(1 << 20);
    let changes = [
        format!("sim.nodes={nodes}"),
        format!("protocol.validators={validators}"),
    ];
    let changes: anyhow::Result<Vec<_>> = changes
        .iter()
        .map(|change| Ok(parse_override(change)?))
        .collect();
    Ok(Workload {
        name: format!(
            "horn slot, 2^{} validators, {nodes} nodes",
            validators.ilog2()
        ),
        scenario: load("horn-1m-10k", &changes?)?,
    })
}

/// Looks at the clock when the nodes stand.
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

/// The least time of some runs on so many threads, and what came of each.
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

fn measure(workload: Workload, args: &Args, threads: usize) -> Result<Case> {
    reset_peak_rss();
    let (wall_s, outcome) = timed(&workload.scenario, args, 1)?;
    let mut threads_s = None;
    if threads > 1 {
        let (all_s, again) = pool(threads)?.install(|| timed(&workload.scenario, args, threads))?;
        if again != outcome {
            let name = workload.name;
            let what = format!("{name}: {threads} threads do not do what one does");
            return Err(Error::Check(what));
        }
        threads_s = Some(all_s);
    }
    Ok(Case {
        received: outcome.received,
        events: outcome.events,
        event_hash: outcome.event_hash,
        workload,
        wall_s,
        threads_s,
        rss_bytes: peak_rss_bytes(),
        complete: outcome.delays_ns.iter().all(Option::is_some),
    })
}

fn print(cases: &[Case], threads: usize) -> String {
    let row = |case: &Case| {
        let mut row = vec![
            case.workload.name.clone(),
            text::count(case.received),
            format!("{:.2} M/s", case.per_s(case.received) / 1e6),
            text::count(case.events),
            format!("{:.2} M/s", case.per_s(case.events) / 1e6),
            text::seconds(case.wall_s),
        ];
        row.extend(case.threads_s.map(text::seconds));
        row
    };
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    let all = format!("on {threads} threads");
    let heads = [
        "workload", "received", "rate", "events", "rate", "time", &all,
    ];
    table(&heads[..6 + usize::from(threads > 1)], &rows)
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench sim", args.seed);
    let threads = args.threads.map_or_else(cores, usize::from);
    let machine = Machine::here(threads, BTreeMap::new());
    let sink = args.json.sink();
    sink.say(&machine.line());
    let mut workloads = vec![
        gossip(args.nodes)?,
        coded(args.nodes, 10)?,
        coded(args.nodes, 64)?,
        slot(args.nodes)?,
    ];
    if args.large {
        workloads.push(coded(100_000, 10)?);
    }
    let cases = workloads
        .into_iter()
        .map(|workload| measure(workload, args, threads));
    let cases: Vec<Case> = cases.collect::<Result<_>>()?;
    sink.say(&print(&cases, threads));
    let most = cases.iter().map(|case| case.rss_bytes).max().unwrap_or(0);
    sink.say(&format!("peak memory {}", text::bytes(most)));
    let fields = json!({
        "bench": "sim",
        "cases": cases.iter().map(Case::json).collect::<Value>(),
    });
    let config = json!({ "nodes": args.nodes, "runs": args.runs, "large": args.large });
    sink.write(&report.object(&machine, "measured", &config, fields)?)?;
    match cases.iter().find(|case| !case.complete) {
        None => Ok(()),
        Some(case) => Err(Error::Check(format!(
            "{}: not everything was delivered",
            case.workload.name
        ))),
    }
}
