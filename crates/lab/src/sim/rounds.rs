//! `alphorn sim run rounds`: the published model of coded broadcast, its table, and the same count like
//! for like.

use crate::error::Result;
use crate::machine::Machine;
use crate::options::{Json, distinct, pool, validators};
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

/// Run the published model of coded broadcast in synchronous rounds, next to its published table
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn sim run rounds
  alphorn sim run rounds --seeds 3 --nodes 1000 --json -
  alphorn sim run rounds --seeds 3 --degree 3,6,10,40,80 --chunks 10,20,64

Ten thousand nodes with uniformly drawn out-neighbours, ten thousand payload bytes, ten chunks; no
latency, bandwidth limits or loss: rounds and bytes are counted, nothing is timed. This is a model,
not a simulation of a network. With --degree or --chunks there is one row for each of them and each
strategy instead of the rows of the published table; published values appear in matching rows.")]
pub(crate) struct Args {
    /// Number of nodes
    #[arg(long, default_value = "10000", value_name = "N", value_parser = validators)]
    nodes: u32,
    /// Use seeds 1 to N; waste is reported as mean, minimum and maximum over them
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Out-neighbours per node, 1 to 1000, one or more values to compare (default: those of the published
    /// table)
    #[arg(long, value_name = "D,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1000))]
    degree: Vec<u16>,
    /// Chunks per payload, 1 to 64, one or more values to compare (default: 10)
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    chunks: Vec<u16>,
    /// Number of threads (default: all cores available to this process)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    json: Json,
}

/// Payload bytes of the published table.
const PAYLOAD_BYTES: u32 = 10_000;
/// Chunks of the published table.
const CHUNKS: u16 = 10;
/// The basis of the published figures: one-way latency, and a connection's bytes per second.
const LATENCY_MS: f64 = 70.0;
const BANDWIDTH: f64 = 20e6;

/// A broadcast strategy to count.
#[derive(PartialEq, Eq)]
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

/// Hops and wasted bytes per node, as published.
type Published = (u32, Option<u64>);

/// A row of the table.
#[derive(Clone, Copy)]
struct Row {
    strategy: &'static Strategy,
    degree: u16,
    chunks: u16,
    published: Option<Published>,
}

const fn row(strategy: &'static Strategy, degree: u16, published: Option<Published>) -> Row {
    Row {
        strategy,
        degree,
        chunks: CHUNKS,
        published,
    }
}

impl Row {
    /// Returns the model that it counts.
    fn model(&self, nodes: u32) -> Model {
        let kind = match self.strategy.coded {
            true => Kind::Rlnc {
                chunks: self.chunks,
            },
            false => Kind::Gossip,
        };
        Model {
            nodes,
            degree: self.degree,
            payload_bytes: PAYLOAD_BYTES,
            kind,
            sending: self.strategy.sending,
            stop: self.strategy.stop,
        }
    }

    /// Returns its chunks; none where payloads travel whole.
    fn chunks(&self) -> Option<u16> {
        self.strategy.coded.then_some(self.chunks)
    }
}

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

/// The published table (ethresear.ch 21370), its two rows of several chunks per peer, and the same
/// strategies counted like for like: every node sends once, and the count runs until nothing moves.
const ROWS: [Row; 10] = [
    row(&GOSSIP, 6, Some((7, Some(94_060)))),
    row(&GOSSIP, 8, Some((6, Some(100_297)))),
    row(&CUT, 40, Some((4, Some(29_917)))),
    row(&CUT, 80, Some((3, Some(28_124)))),
    row(&RLNC, 6, Some((10, None))),
    row(&RLNC, 10, Some((9, None))),
    row(&GOSSIP_ONCE, 6, None),
    row(&GOSSIP_ONCE, 8, None),
    row(&RLNC_ONCE, 40, None),
    row(&RLNC_ONCE, 80, None),
];
/// Strategies of the rows where degrees or chunks are given.
const STRATEGIES: [&Strategy; 5] = [&GOSSIP, &CUT, &RLNC, &GOSSIP_ONCE, &RLNC_ONCE];

/// Returns the published rows, or one for each requested strategy, degree and number of chunks.
fn rows(degrees: &[u16], chunks: &[u16]) -> Vec<Row> {
    if degrees.is_empty() && chunks.is_empty() {
        return ROWS.to_vec();
    }
    let chunks: &[u16] = if chunks.is_empty() { &[CHUNKS] } else { chunks };
    let mut rows = Vec::new();
    for strategy in STRATEGIES {
        let known = ROWS.iter().filter(|row| row.strategy == strategy);
        let known: Vec<u16> = known.map(|row| row.degree).collect();
        let degrees: &[u16] = if degrees.is_empty() { &known } else { degrees };
        let chunks: &[u16] = if strategy.coded { chunks } else { &[CHUNKS] };
        for &degree in degrees {
            rows.extend(chunks.iter().map(|&chunks| Row {
                chunks,
                published: published(strategy, degree, chunks),
                ..row(strategy, degree, None)
            }));
        }
    }
    rows
}

/// Returns the published figures for a strategy with these numbers, if any.
fn published(strategy: &Strategy, degree: u16, chunks: u16) -> Option<Published> {
    let mut rows = ROWS.iter();
    let same = |row: &&Row| (row.strategy, row.degree, row.chunks) == (strategy, degree, chunks);
    rows.find(same)?.published
}

/// The results of a row's seeds.
struct Counted {
    runs: Vec<Rounds>,
}

impl Counted {
    fn hops(&self) -> (u32, u32) {
        let hops = || self.runs.iter().map(|run| run.hops);
        (hops().min().unwrap_or(0), hops().max().unwrap_or(0))
    }

    /// Returns the bytes per node.
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

    /// Returns the smallest share of nodes that completed, in percent.
    fn complete(&self) -> f64 {
        let share = |run: &Rounds| {
            100.0 * f64::from(run.complete.last().copied().unwrap_or(1)) / f64::from(run.nodes)
        };
        self.runs.iter().map(share).fold(100.0, f64::min)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("sim run rounds", 1);
    distinct("--degree", &args.degree)?;
    distinct("--chunks", &args.chunks)?;
    let threads = args.threads.map_or_else(crate::machine::cores, usize::from);
    let machine = Machine::here(threads, BTreeMap::new());
    let sink = args.json.sink();
    let done = Mutex::new((Bars::new(), 0));
    let rows = rows(&args.degree, &args.chunks);
    let count = |row: &Row| -> anyhow::Result<Counted> {
        let model = row.model(args.nodes);
        let one = |seed| {
            let rounds = model
                .run(seed)
                .with_context(|| format!("--nodes {} --degree {}", args.nodes, row.degree));
            if let Ok(mut done) = done.lock() {
                done.1 += 1;
                let (bars, count) = &mut *done;
                bars.show("rounds", *count, rows.len() as u64 * args.seeds);
            }
            rounds
        };
        let runs = (1..=args.seeds).into_par_iter().map(one);
        Ok(Counted {
            runs: runs.collect::<anyhow::Result<_>>()?,
        })
    };
    let counted: Vec<Counted> =
        pool(threads)?.install(|| rows.iter().map(count).collect::<anyhow::Result<_>>())?;
    if let Ok(done) = done.lock() {
        done.0.clear();
    }

    sink.say(&format!(
        "Counted, not timed: {} nodes, {} payload bytes, seeds 1 to {}\n",
        text::count(args.nodes.into()),
        text::count(PAYLOAD_BYTES.into()),
        args.seeds
    ));
    sink.say(&print(&rows, &counted));
    sink.say(&caveats(args.nodes));
    let fields = json!({
        "cases": rows.iter().zip(&counted).map(|(row, counted)| case(row, counted)).collect::<Value>(),
        "bandwidth_bound": bounds_json(),
    });
    let config = json!({
        "nodes": args.nodes,
        "seeds": args.seeds,
        "payload_bytes": PAYLOAD_BYTES,
        "degree": args.degree,
        "chunks": if args.chunks.is_empty() { vec![CHUNKS] } else { args.chunks.clone() },
    });
    sink.write(&report.object(&machine, "modelled", &config, fields)?)
}

fn print(rows: &[Row], counted: &[Counted]) -> String {
    let bytes = |value: Option<f64>| text::count(value.unwrap_or_default().round() as u64);
    let line = |(row, counted): (&Row, &Counted)| {
        let (least, most) = counted.hops();
        let waste = counted.waste();
        let number = |value: Option<u64>| value.map_or("-".into(), text::count);
        vec![
            ("strategy", row.strategy.name.to_owned()),
            ("D", row.degree.to_string()),
            ("N", number(row.chunks().map(u64::from))),
            (
                "hops, published",
                number(row.published.map(|(hops, _)| hops.into())),
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
                number(row.published.and_then(|(_, waste)| waste)),
            ),
            ("waste B/node", bytes(waste.mean)),
            ("sd", bytes(waste.sd)),
            ("sent B/node", bytes(counted.sent().mean)),
        ]
    };
    columns(rows.iter().zip(counted).map(line))
}

/// Sizes of the second caveat: the published 118.75 kB, one and 16 megabytes.
const SIZES: [u32; 3] = [118_750, 1_000_000, 16_000_000];

/// Returns the milliseconds that 3 hops of a tenth take by the published formula, and the minimum for a
/// node whose whole bandwidth is that of one connection.
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
         that ends at completion. Like for like (rows \"all counted\", {} nodes) gossip to 8 and the code to \
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

fn case(row: &Row, counted: &Counted) -> Value {
    let (hops_min, hops_max) = counted.hops();
    let published = row
        .published
        .map(|(hops, waste)| json!({ "hops": hops, "waste_bytes": waste, "kind": "cited" }));
    json!({
        "strategy": row.strategy.name,
        "degree": row.degree,
        "chunks": row.chunks(),
        "hops_min": hops_min,
        "hops_max": hops_max,
        "reached": counted.runs.iter().all(|run| run.reached),
        "complete_pct_min": counted.complete(),
        "waste_bytes_per_node": counted.waste(),
        "sent_bytes_per_node": counted.sent(),
        "published": published,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_published_ones_or_those_asked_for() {
        assert_eq!(rows(&[], &[]).len(), ROWS.len());
        let asked = rows(&[6, 80], &[10, 20]);
        // Gossip has no chunks: two rows for each of its two countings, four for each of the code's three.
        assert_eq!(asked.len(), 2 * 2 + 3 * 4);
        let cited = asked.iter().filter(|row| row.published.is_some());
        let cited: Vec<_> = cited.map(|row| (row.degree, row.chunks())).collect();
        assert_eq!(cited, [(6, None), (80, Some(10)), (6, Some(10))]);
        let models = asked.iter().map(|row| row.model(50).kind);
        let twenty = models.filter(|kind| *kind == Kind::Rlnc { chunks: 20 });
        assert_eq!(twenty.count(), 6);
        let chunks = rows(&[], &[64]);
        assert_eq!(chunks.len(), ROWS.len());
        let coded = |row: &&Row| row.strategy.coded;
        assert!(
            chunks
                .iter()
                .filter(coded)
                .all(|row| row.published.is_none())
        );
    }
}
