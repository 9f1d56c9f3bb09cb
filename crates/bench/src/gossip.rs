//! `alphorn bench gossip`: the simulator's gossip against that of real nodes.
//!
//! Both have the same connections, the same delay on each and the same messages. Real nodes are those
//! of `alphorn-net` in one process, with every byte on the loopback interface held back for the delay.
//! So their time is dominated by what the model counts, not by the cores that they share.

mod delay;
mod real;

use super::harness::{Bench, Column, count};
use alphorn_lab::distinct::distinct;
use alphorn_lab::error::Result;
use alphorn_lab::machine::{Machine, cores};
use alphorn_lab::options::Json;
use alphorn_lab::report::Report;
use alphorn_scheme::model::CostTable;
use alphorn_sim::run::run as simulate;
use alphorn_sim::scenario::Scenario;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Runs of the model for each run of the real nodes, as they are cheap.
const MODEL_RUNS: u64 = 16;
/// Seed of the connections and of the model.
const SEED: u64 = 1;
/// One-way delay of a byte to a neighbour.
const DELAY: Duration = Duration::from_millis(100);

/// Benchmark gossip among real nodes against the simulator's
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench gossip
  alphorn bench gossip --nodes 64 --degree 16
  alphorn bench gossip --bytes 500,20000 --json gossip.json

Real nodes run the same gossip as `alphorn node`, all in one process, over loopback connections that
delay every byte by 100 ms; they validate a message for 10 ms before they forward it. Sixteen messages are
sent, one per second. The model has the same connections, delays and messages, but its nodes do not compete
for cores.
Copies are all received messages of a payload, including those that a node already had. Hops are not
counted but derived from arrival times in both, as delay and validation time of each hop are known.")]
pub struct Args {
    /// Number of nodes
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(8..=256))]
    nodes: u32,
    /// Approximate number of connections per node; even
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(8..=64))]
    degree: u32,
    /// Message sizes in bytes, one case each
    #[arg(long, default_value = "500,20000", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(8..=200_000))]
    bytes: Vec<u32>,
    /// Number of networks of real nodes, side by side: no two form the same meshes
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=16))]
    networks: u32,
    #[command(flatten)]
    json: Json,
}

const COLUMNS: [Column; 7] = [
    ("bytes", "/bytes", count),
    ("", "/what", count),
    ("delivered", "/delivered", |share| {
        format!("{:.1} %", share * 100.0)
    }),
    ("copies", "/copies", hundredths),
    ("hops, from times", "/hops", hundredths),
    ("half", "/half_ms", whole_ms),
    ("last", "/last_ms", whole_ms),
];

fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}

fn whole_ms(value: f64) -> String {
    format!("{value:.0} ms")
}

/// What is sent over which connections.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of nodes.
    pub nodes: u32,
    /// Connections as pairs: the dialling node and its target.
    pub edges: Vec<(u32, u32)>,
    /// One-way delay of a byte, in whole milliseconds.
    pub delay: Duration,
    /// How long a node validates a message before it forwards it.
    pub validation: Duration,
    /// Bytes of a message.
    pub bytes: usize,
    /// Number of messages.
    pub messages: u32,
    /// Time between messages.
    pub interval: Duration,
}

impl Plan {
    /// Draws a plan in which each node is connected to its images under `degree / 2` permutations.
    pub fn draw(nodes: u32, degree: u32, delay: Duration, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut edges = BTreeSet::new();
        for _ in 0..degree / 2 {
            let mut image: Vec<u32> = (0..nodes).collect();
            for i in (1..image.len()).rev() {
                image.swap(i, random.next_u32() as usize % (i + 1));
            }
            let pairs = (0..nodes).zip(image).filter(|(a, b)| a != b);
            edges.extend(pairs.map(|(a, b)| (a.min(b), a.max(b))));
        }
        Plan {
            nodes,
            edges: edges.into_iter().collect(),
            delay,
            validation: Duration::from_millis(10),
            bytes: 500,
            messages: 16,
            interval: delay * 10,
        }
    }

    /// Returns the same plan for the simulator; links are wide and processors idle.
    fn scenario(&self) -> Result<Scenario> {
        let text = format!(
            "name = \"gossip\"\nschema = 1\n[sim]\nnodes = {}\n\
             [graph]\nkind = \"file\"\npath = \"edges\"\n[latency]\nkind = \"constant\"\nms = {}\n\
             [[class]]\nname = \"wide\"\nshare_pct = 100\ndown_mbps = 10000\nup_mbps = 10000\n\
             [protocol]\nkind = \"gossip\"\n[compute]\ncosts = \"costs\"\n[traffic]\nbytes = {}\ncount = {}\ninterval_ms = {}\n",
            self.nodes,
            self.delay.as_millis(),
            self.bytes,
            self.messages,
            self.interval.as_millis(),
        );
        let mut scenario = Scenario::parse(&text, &[])?;
        let line = |(a, b): &(u32, u32)| format!("{a} {b}\n");
        let edges = self.edges.iter().map(line).collect();
        scenario.inputs.insert("edges".to_owned(), edges);
        let costs = CostTable::example().verifying(self.validation.as_nanos() as u64);
        let costs = serde_json::to_string(&costs)?;
        scenario.inputs.insert("costs".to_owned(), costs);
        Ok(scenario)
    }
}

/// When messages arrived, and how many copies of them.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// For each message the times from its publication to its arrival at every node but its source.
    delays: Vec<Vec<Duration>>,
    /// Total message arrivals at all nodes, including duplicates.
    copies: u64,
}

/// The figures that are compared.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Share of the nodes that a message reached.
    pub delivered: f64,
    /// Copies of a message that a node received.
    pub copies: f64,
    /// Average hops of a message to a node, estimated from its arrival time: real nodes do not report
    /// the number of hops.
    pub hops: f64,
    /// Milliseconds to half of the nodes.
    pub half_ms: f64,
    /// Milliseconds to the last node, averaged over the messages.
    pub last_ms: f64,
}

impl Arrivals {
    fn figures(&self, plan: &Plan) -> Figures {
        let messages = self.delays.len() as f64;
        let expected = messages * f64::from(plan.nodes - 1);
        let ms = |delay: &Duration| delay.as_secs_f64() * 1e3;
        let mut all: Vec<f64> = self.delays.iter().flatten().map(ms).collect();
        all.sort_by(f64::total_cmp);
        // All nodes on the path but the last one have validated it.
        let (delay_ms, validation_ms) = (ms(&plan.delay), ms(&plan.validation));
        let hops_of = |at: &f64| ((at + validation_ms) / (delay_ms + validation_ms)).floor();
        let hops: f64 = all.iter().map(hops_of).sum();
        let last = |delays: &Vec<Duration>| delays.iter().max().map_or(f64::NAN, ms);
        Figures {
            delivered: all.len() as f64 / expected,
            copies: self.copies as f64 / (messages * f64::from(plan.nodes)),
            hops: hops / all.len() as f64,
            half_ms: all.get(all.len() / 2).copied().unwrap_or(f64::NAN),
            last_ms: self.delays.iter().map(last).sum::<f64>() / messages,
        }
    }
}

/// Runs the plan on real nodes, in this many networks side by side.
///
/// # Errors
/// If nodes cannot be started, or do not find each other.
pub fn real(plan: &Plan, networks: u32) -> Result<Figures> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build()?;
    let arrivals = runtime.block_on(real::run(plan, networks))?;
    Ok(arrivals.figures(plan))
}

/// Runs the plan in the simulator, with several seeds.
///
/// # Errors
/// If the simulator rejects it.
pub fn modelled(plan: &Plan, seed: u64) -> Result<Figures> {
    let scenario = plan.scenario()?;
    let mut arrivals = Arrivals::default();
    for seed in seed..seed + MODEL_RUNS {
        let outcome = simulate(&scenario, seed, &mut ())?;
        let data = |bin: &&alphorn_sim::report::Bin| bin.kind == "data";
        let copies = outcome.series.iter().filter(data).map(|bin| bin.msgs);
        arrivals.copies += copies.sum::<u64>();
        let messages = outcome.delays_ns.chunks(plan.nodes as usize - 1);
        let came = |delays: &[Option<u64>]| {
            let delays = delays.iter().flatten();
            delays.copied().map(Duration::from_nanos).collect()
        };
        arrivals.delays.extend(messages.map(came));
    }
    Ok(arrivals.figures(plan))
}

/// Runs the command.
///
/// # Errors
/// If nodes cannot be started.
pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench gossip", SEED);
    distinct("--bytes", &args.bytes)?;
    let machine = Machine::here(cores(), BTreeMap::new());
    let bench = Bench::new(report, args.json.sink(), machine);
    let plan = Plan::draw(args.nodes, args.degree, DELAY, SEED);
    let case = |&bytes: &u32| -> Result<Value> {
        let plan = Plan {
            bytes: bytes as usize,
            ..plan.clone()
        };
        let mut model = json!(modelled(&plan, SEED)?);
        model["kind"] = json!("modelled");
        let real = real(&plan, args.networks)?;
        Ok(json!({ "bytes": bytes, "real": real, "model": model }))
    };
    let cases: Vec<Value> = args.bytes.iter().map(case).collect::<Result<_>>()?;
    let rows = cases.iter().flat_map(|case| {
        [("real", "real nodes"), ("model", "model")].map(|(of, what)| {
            let mut row = case[of].clone();
            row["bytes"] = case["bytes"].clone();
            row["what"] = json!(what);
            row
        })
    });
    bench.table(&rows.collect::<Vec<_>>(), &COLUMNS);
    let fields = json!({ "connections": plan.edges.len(), "cases": cases });
    let config = json!({
        "nodes": args.nodes,
        "degree": args.degree,
        "messages": plan.messages,
        "networks": args.networks,
    });
    bench.end(&config, fields, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults of the model are those of a node.
    #[test]
    fn the_model_has_the_parameters_of_the_node() {
        let model = alphorn_sim::scenario::Gossip::default();
        let node = alphorn_net::Gossip::default();
        let numbers = [
            model.mesh,
            model.mesh_low,
            model.mesh_high,
            model.history,
            model.announced,
        ];
        let of_node = [
            node.mesh,
            node.mesh_low,
            node.mesh_high,
            node.history,
            node.history_gossip,
        ];
        assert_eq!(numbers.map(|number| number as usize), of_node);
        assert_eq!(model.heartbeat_ms, node.heartbeat_ms);
        assert_eq!(model.idontwant_bytes, node.idontwant_bytes_min as u64);
    }

    #[test]
    fn validation_on_the_way_is_no_hop() {
        let plan = Plan {
            validation: Duration::from_millis(10),
            ..Plan::draw(8, 8, Duration::from_millis(10), 1)
        };
        // Each gets an extra millisecond for everything else.
        let at = |hops: u64| Duration::from_millis(hops * 10 + (hops - 1) * 10 + 1);
        let arrivals = Arrivals {
            delays: vec![[1, 2, 2, 3, 3, 3, 4].map(at).to_vec()],
            copies: 0,
        };
        let hops = arrivals.figures(&plan).hops;
        assert!((hops - 18.0 / 7.0).abs() < 1e-9, "{hops}");
    }
}
