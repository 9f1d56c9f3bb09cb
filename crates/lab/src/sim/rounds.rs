//! `alphorn sim run rounds`: the published model of coded broadcast, its table, and the same count like
//! for like.

use crate::error::Result;
use crate::machine::Machine;
use crate::options::{Json, pool, validators};
use crate::progress::Bars;
use crate::report::{Report, columns};
use crate::text;
use alphorn_sim::rounds::{Kind, Model, Rounds, Sending, Stop};
use alphorn_sim::sweep::Spread;
use anyhow::Context;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The published model of coded broadcast in synchronous rounds, beside its published table
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn sim run rounds
  alphorn sim run rounds --seeds 3 --nodes 1000 --json -

Ten thousand nodes with out-neighbours drawn uniformly, ten thousand payload bytes, ten chunks; no
latency, no bandwidth, no loss: rounds and bytes are counted, nothing is timed. This is a model, not a
simulation of a network.")]
pub(crate) struct Args {
    /// Nodes
    #[arg(long, default_value = "10000", value_name = "N", value_parser = validators)]
    nodes: u32,
    /// Seeds 1 to N; waste is given as mean, least and most over them
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Threads; all cores that this process may use by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    json: Json,
}

/// Payload bytes of the published table.
const PAYLOAD_BYTES: u32 = 10_000;
/// Chunks of the published table.
const CHUNKS: u16 = 10;
/// What the published figures are times of: one-way latency, and a connection's bytes in a second.
const LATENCY_MS: f64 = 70.0;
const BANDWIDTH: f64 = 20e6;

/// What is counted.
struct Strategy {
    name: &'static str,
    coded: bool,
    sending: Sending,
    stop: Stop,
}

const fn strategy(name: &'static str, coded: bool, sending: Sending, stop: Stop) -> Strategy {
    Strategy {
        name,
        coded,
        sending,
        stop,
    }
}

/// A row of the table: a strategy, its degree, and hops and wasted bytes a node, as published.
type Row = (&'static Strategy, u16, Option<(u32, Option<u64>)>);

const GOSSIP: Strategy = strategy(
    "gossip, again each round",
    false,
    Sending::Every,
    Stop::Percent(99),
);
const CUT: Strategy = strategy(
    "rlnc, once, cut at completion",
    true,
    Sending::Once,
    Stop::Percent(100),
);
const RLNC: Strategy = strategy(
    "rlnc, again each round",
    true,
    Sending::Every,
    Stop::Percent(99),
);
const GOSSIP_ONCE: Strategy = strategy(
    "gossip, once, all counted",
    false,
    Sending::Once,
    Stop::Quiescence,
);
const RLNC_ONCE: Strategy = strategy(
    "rlnc, once, all counted",
    true,
    Sending::Once,
    Stop::Quiescence,
);

/// The published table (ethresear.ch 21370), its two rows of several chunks a peer, and the same
/// strategies counted like for like: everybody sends once, and the count runs until nothing moves.
const ROWS: [Row; 10] = [
    (&GOSSIP, 6, Some((7, Some(94_060)))),
    (&GOSSIP, 8, Some((6, Some(100_297)))),
    (&CUT, 40, Some((4, Some(29_917)))),
    (&CUT, 80, Some((3, Some(28_124)))),
    (&RLNC, 6, Some((10, None))),
    (&RLNC, 10, Some((9, None))),
    (&GOSSIP_ONCE, 6, None),
    (&GOSSIP_ONCE, 8, None),
    (&RLNC_ONCE, 40, None),
    (&RLNC_ONCE, 80, None),
];

/// What the seeds of a row gave.
struct Counted {
    runs: Vec<Rounds>,
}

impl Counted {
    fn hops(&self) -> (u32, u32) {
        let hops = || self.runs.iter().map(|run| run.hops);
        (hops().min().unwrap_or(0), hops().max().unwrap_or(0))
    }

    /// Bytes a node.
    fn each(&self, bytes: fn(&Rounds) -> u64) -> Spread {
        let each = |run: &Rounds| Some(bytes(run) as f64 / f64::from(run.nodes));
        let each: Vec<Option<f64>> = self.runs.iter().map(each).collect();
        Spread::of(&each)
    }

    fn waste(&self) -> Spread {
        self.each(|run| run.wasted_bytes)
    }

    fn sent(&self) -> Spread {
        self.each(|run| run.sent_bytes)
    }

    /// Least share of nodes that completed, in percent.
    fn complete(&self) -> f64 {
        let share = |run: &Rounds| {
            100.0 * f64::from(run.complete.last().copied().unwrap_or(1)) / f64::from(run.nodes)
        };
        self.runs.iter().map(share).fold(100.0, f64::min)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("sim run rounds", 1);
    let threads = args.threads.map_or_else(crate::machine::cores, usize::from);
    let machine = Machine::here(threads, BTreeMap::new());
    let sink = args.json.sink();
    let done = Mutex::new((Bars::new(), 0));
    let count = |(strategy, degree, _): &Row| -> anyhow::Result<Counted> {
        let kind = match strategy.coded {
            true => Kind::Rlnc { chunks: CHUNKS },
            false => Kind::Gossip,
        };
        let model = Model {
            nodes: args.nodes,
            degree: *degree,
            payload_bytes: PAYLOAD_BYTES,
            kind,
            sending: strategy.sending,
            stop: strategy.stop,
        };
        let one = |seed| {
            let rounds = model
                .run(seed)
                .with_context(|| format!("--nodes {}", args.nodes));
            if let Ok(mut done) = done.lock() {
                done.1 += 1;
                let (bars, count) = &mut *done;
                bars.show("rounds", *count, ROWS.len() as u64 * args.seeds);
            }
            rounds
        };
        let runs = (1..=args.seeds).into_par_iter().map(one);
        Ok(Counted {
            runs: runs.collect::<anyhow::Result<_>>()?,
        })
    };
    let counted: Vec<Counted> =
        pool(threads)?.install(|| ROWS.iter().map(count).collect::<anyhow::Result<_>>())?;
    if let Ok(done) = done.lock() {
        done.0.clear();
    }

    sink.say(&format!(
        "Counted, not timed: {} nodes, {} payload bytes, {CHUNKS} chunks, seeds 1 to {}\n",
        text::count(args.nodes.into()),
        text::count(PAYLOAD_BYTES.into()),
        args.seeds
    ));
    sink.say(&print(&counted));
    sink.say(&caveats(args.nodes));
    let fields = json!({
        "cases": ROWS.iter().zip(&counted).map(case).collect::<Value>(),
        "bandwidth_bound": bounds_json(),
    });
    let config = json!({ "nodes": args.nodes, "seeds": args.seeds, "payload_bytes": PAYLOAD_BYTES, "chunks": CHUNKS });
    sink.write(&report.object(&machine, "modelled", &config, fields)?)
}

fn print(counted: &[Counted]) -> String {
    let bytes = |value: Option<f64>| text::count(value.unwrap_or_default().round() as u64);
    let line = |((strategy, degree, cited), counted): (&Row, &Counted)| {
        let (least, most) = counted.hops();
        let waste = counted.waste();
        let published = |value: Option<u64>| value.map_or("-".into(), text::count);
        vec![
            ("strategy", strategy.name.to_owned()),
            ("D", degree.to_string()),
            (
                "hops, published",
                published(cited.map(|(hops, _)| hops.into())),
            ),
            (
                "hops",
                if least == most {
                    least.to_string()
                } else {
                    format!("{least}-{most}")
                },
            ),
            ("complete", format!("{:.2} %", counted.complete())),
            (
                "waste B/node, published",
                published(cited.and_then(|(_, waste)| waste)),
            ),
            ("waste B/node", bytes(waste.mean)),
            ("sd", bytes(waste.sd)),
            ("sent B/node", bytes(counted.sent().mean)),
        ]
    };
    columns(ROWS.iter().zip(counted).map(line))
}

/// Sizes of the second caveat: the published 118.75 kB, one and 16 megabytes.
const SIZES: [u32; 3] = [118_750, 1_000_000, 16_000_000];

/// Milliseconds that 3 hops of a tenth take by the published formula, and the least that a node whose
/// whole bandwidth is that of one connection can take.
fn bounds(bytes: u32) -> (f64, f64) {
    let transfer_ms = f64::from(bytes) / BANDWIDTH * 1e3;
    let hop = LATENCY_MS + transfer_ms / f64::from(CHUNKS);
    (3.0 * hop, LATENCY_MS + transfer_ms)
}

fn caveats(nodes: u32) -> String {
    let line = |bytes: u32| {
        let (published, least) = bounds(bytes);
        let verdict = if published < least {
            "  impossible"
        } else {
            ""
        };
        format!(
            "   {:>10} B: {published:>5.0} ms, a node needs at least {least:>4.0} ms{verdict}\n",
            text::count(bytes.into())
        )
    };
    let sizes: String = SIZES.map(line).concat();
    format!(
        "\n1. The published waste compares gossip that sends again in every round with a count of the code \
         that ends at completion. Like for like (lower four rows, {} nodes) gossip to 8 and the code to \
         80 waste the same.\n2. The published time of a hop gives each connection 20 MB/s, so a node \
         uploads 80 times that. 3 hops of L + B/10X beside the bound L + B/X of a node with 20 MB/s in \
         all, L = 70 ms:\n{sizes}",
        text::count(nodes.into())
    )
}

fn bounds_json() -> Value {
    SIZES
        .map(|bytes| {
            let (published_ms, least_ms) = bounds(bytes);
            json!({ "bytes": bytes, "published_formula_ms": published_ms, "node_bound_ms": least_ms })
        })
        .into_iter()
        .collect()
}

fn case(((strategy, degree, cited), counted): (&Row, &Counted)) -> Value {
    let (hops_min, hops_max) = counted.hops();
    let published =
        cited.map(|(hops, waste)| json!({ "hops": hops, "waste_bytes": waste, "kind": "cited" }));
    json!({
        "strategy": strategy.name,
        "degree": degree,
        "hops_min": hops_min,
        "hops_max": hops_max,
        "reached": counted.runs.iter().all(|run| run.reached),
        "complete_pct_min": counted.complete(),
        "waste_bytes_per_node": counted.waste(),
        "sent_bytes_per_node": counted.sent(),
        "published": published,
    })
}
