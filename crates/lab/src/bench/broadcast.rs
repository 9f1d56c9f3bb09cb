//! `alphorn bench broadcast`: what coding, verifying and decoding chunks costs, beside curve25519-dalek,
//! the bare Reed-Solomon code, and the published proof of concept.

mod clock;
mod costs;
mod peers;
mod ristretto;
mod rs;

use crate::error::Result;
use crate::levels::levels;
use crate::machine::Machine;
use crate::options::Json;
use crate::overwrite::check_apart;
use crate::report::{Report, table, target, write_whole};
use crate::text;
use alphorn_rlnc::{
    Cut, ELEMENT_PAYLOAD_BYTES, ELEMENTS_MAX, PAYLOAD_BYTES_MAX, Strategy, Subject,
};
use clap::ValueEnum;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clock::Times;
use peers::Baseline;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Coding, verifying and decoding chunks of a broadcast
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench broadcast
  alphorn bench broadcast --kernel portable,avx2,avx512 --strategy rlnc
  alphorn bench broadcast --bytes 1000000 --json -
  alphorn bench broadcast --strategy rs --emit-costs codes.json

Without --bytes: 10 chunks of 380 elements, the 118.75 KiB that the proof of concept of the published
proposal was measured with (ethresear.ch 21370). One thread. Each time is the median of at least 30
runs (5 where one takes 0.1 s), on fresh inputs; `faster` compares medians with the fastest measured
peer that does the same work. The bare Reed-Solomon code verifies nothing: its times are shown, not
compared. Figures marked cited were not measured in this run.")]
pub(crate) struct Args {
    /// Chunks of a generation; with --bytes chosen by the policy if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    chunks: Option<u16>,
    /// Elements of a chunk, 31 payload bytes each
    #[arg(long, value_name = "M", conflicts_with = "bytes",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(ELEMENTS_MAX)))]
    elements: Option<u32>,
    /// Payload bytes, instead of --elements
    #[arg(long, value_name = "B",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(PAYLOAD_BYTES_MAX)))]
    bytes: Option<u32>,
    /// What to measure
    #[arg(long, value_enum, default_value_t = What::All)]
    strategy: What,
    /// Kernels: auto, portable, avx2 or avx512, a case each; or rlnc=LEVEL
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "auto",
        value_delimiter = ','
    )]
    kernel: Vec<String>,
    /// Seed of payloads and coefficients
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measure a grid of sizes with the last kernel, too, and write the table that the simulator charges
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(target))]
    emit_costs: Option<PathBuf>,
    #[command(flatten)]
    json: Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The random linear code with Pedersen commitments
    Rlnc,
    /// Reed-Solomon shards under a Merkle root
    Rs,
    /// All of them
    All,
}

impl What {
    fn includes(self, what: What) -> bool {
        self == What::All || self == what
    }
}

/// What is published in every run.
const SUBJECT: Subject = Subject {
    kind: 1,
    slot: 1,
    source: 1,
    index: 0,
};
/// The proof of concept's chunks.
const CHUNKS: u16 = 10;
/// The proof of concept's elements of a chunk.
const ELEMENTS: u32 = 380;

/// How the payload is cut.
struct Shape {
    payload_bytes: usize,
    cut: Cut,
    elements: u32,
}

impl Shape {
    fn of(args: &Args) -> Shape {
        if let Some(bytes) = args.bytes {
            let bytes = bytes as usize;
            let auto = Cut::auto(Strategy::Rlnc, bytes);
            return Shape::of_chunks(bytes, args.chunks.unwrap_or(auto.chunks));
        }
        let chunks = args.chunks.unwrap_or(CHUNKS);
        let elements = args.elements.unwrap_or(ELEMENTS);
        let bytes = u32::from(chunks) * elements * ELEMENT_PAYLOAD_BYTES;
        Shape::cut(bytes as usize, Cut::rlnc(chunks))
    }

    /// A payload in generations of so many chunks, as few as it takes.
    fn of_chunks(payload_bytes: usize, chunks: u16) -> Shape {
        let generation = u32::from(chunks) * ELEMENT_PAYLOAD_BYTES * ELEMENTS_MAX;
        let generations = payload_bytes.div_ceil(generation as usize);
        let cut = Cut {
            generations: u16::try_from(generations).unwrap_or(u16::MAX),
            ..Cut::rlnc(chunks)
        };
        Shape::cut(payload_bytes, cut)
    }

    /// A payload cut as given.
    fn cut(payload_bytes: usize, cut: Cut) -> Shape {
        let generation_chunks = usize::from(cut.chunks) * usize::from(cut.generations);
        let elements = payload_bytes.div_ceil(ELEMENT_PAYLOAD_BYTES as usize * generation_chunks);
        Shape {
            payload_bytes,
            cut,
            elements: elements as u32,
        }
    }

    /// Source chunks of all generations.
    fn pieces(&self) -> usize {
        usize::from(self.cut.chunks) * usize::from(self.cut.generations)
    }
}

/// A measured operation.
#[derive(Clone, Debug)]
struct Op {
    name: &'static str,
    times: Times,
    count: Option<(&'static str, u64)>,
}

impl Op {
    fn new(name: &'static str, times: Times) -> Op {
        Op {
            name,
            times,
            count: None,
        }
    }

    fn with_count(mut self, name: &'static str, count: u64) -> Op {
        self.count = Some((name, count));
        self
    }
}

/// One kernel's operations, or those of a code that has one kernel.
struct Case {
    strategy: &'static str,
    level: &'static str,
    ops: Vec<Op>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench broadcast", args.seed);
    let sink = args.json.sink();
    let outputs = [args.emit_costs.as_deref(), sink.path()];
    check_apart([], outputs.into_iter().flatten())?;
    let shape = Shape::of(args);
    let backends = levels(&alphorn_rlnc::KERNELS, &args.kernel, 1)?;
    let machine = Machine::with(1, &alphorn_rlnc::KERNELS, &backends);
    sink.say(&format!(
        "{}\n{} payload bytes, {} generation(s) of {} chunks of {} elements",
        machine.line(),
        text::count(shape.payload_bytes as u64),
        shape.cut.generations,
        shape.cut.chunks,
        shape.elements
    ));

    let mut peers = Vec::new();
    let mut cases = Vec::new();
    if args.strategy.includes(What::Rlnc) {
        peers.extend(peers::dalek(&shape, args.seed)?);
        peers.extend(peers::proof_of_concept(&shape));
        for &backend in &backends {
            let mut ops = ristretto::Bench::new(backend, &shape, args.seed)?.ops()?;
            ops.push(header_verify(args.seed));
            cases.push(Case {
                strategy: "rlnc",
                level: backend.name(),
                ops,
            });
        }
    }
    if args.strategy.includes(What::Rs) {
        let (ops, bare) = rs::ops(&shape, args.seed)?;
        peers.extend(bare);
        cases.push(Case {
            strategy: "rs",
            level: "reed-solomon-simd",
            ops,
        });
    }
    for case in &cases {
        sink.say(&print(case, &peers));
    }
    if let (Some(path), Some(&backend)) = (&args.emit_costs, backends.last()) {
        write_whole(path, costs::table(backend, &machine, args.seed)?.as_bytes())?;
    }
    let fields = json!({
        "bench": "broadcast",
        "params": params(&shape),
        "cases": cases.iter().map(|case| case_json(case, &peers)).collect::<Value>(),
        "peers": peers.iter().map(peer_json).collect::<Value>(),
    });
    let config =
        json!({ "strategy": format!("{:?}", args.strategy).to_lowercase(), "kernel": args.kernel });
    sink.write(&report.object(&machine, "measured", &config, fields)?)
}

/// The check of the source's signature under a header: one BLS signature, decoded and verified.
fn header_verify(seed: u64) -> Op {
    let key =
        alphorn_bls::interop_keys(seed..seed + 1, alphorn_exec::Exec::serial())[0].to_secret_key();
    let public = key.public_key();
    let root = [7; 32];
    let bytes = alphorn_bls::sign(&key, &root).to_bytes();
    let times = clock::measure(
        || (),
        |()| {
            alphorn_bls::Signature::from_bytes(&bytes)
                .is_ok_and(|signature| alphorn_bls::verify(&public, &root, &signature))
        },
    );
    Op::new("header_verify", times)
}

/// The fastest measured peer that does the same work, authentication included.
fn rival<'a>(peers: &'a [Baseline], op: &str) -> Option<&'a Baseline> {
    peers
        .iter()
        .filter(|peer| {
            peer.op == op && peer.kind == "measured" && !peer.name.ends_with("unauthenticated")
        })
        .min_by(|a, b| a.median_ns.total_cmp(&b.median_ns))
}

fn print(case: &Case, peers: &[Baseline]) -> String {
    let row = |op: &Op| {
        let cell = |ns: Option<f64>| ns.map_or("-".into(), |ns| text::seconds(ns * 1e-9));
        let peer = |kind: &str, bare: bool| {
            let mut found = peers.iter().filter(|peer| {
                peer.op == op.name
                    && peer.kind == kind
                    && peer.name.ends_with("unauthenticated") == bare
            });
            cell(found.next().map(|peer| peer.median_ns))
        };
        let rival = rival(peers, op.name);
        vec![
            op.name.to_owned(),
            cell(Some(op.times.least_ns)),
            cell(Some(op.times.median_ns)),
            cell(Some(op.times.p90_ns)),
            cell(rival.map(|rival| rival.median_ns)),
            rival.map_or("-".into(), |rival| {
                text::ratio(rival.median_ns / op.times.median_ns)
            }),
            peer("measured", true),
            peer("cited", false),
        ]
    };
    let rows: Vec<Vec<String>> = case.ops.iter().map(row).collect();
    let head = [
        &format!("{}, {}", case.strategy, case.level),
        "least",
        "median",
        "p90",
        "peer",
        "faster",
        "unverified",
        "cited",
    ];
    let counts = case
        .ops
        .iter()
        .filter_map(|op| op.count)
        .map(|(name, count)| format!("\n{name} {count}"));
    format!("\n{}{}", table(&head, &rows), counts.collect::<String>())
}

fn params(shape: &Shape) -> Value {
    let full = alphorn_rlnc::Mode::of(shape.cut.chunks, shape.elements) == alphorn_rlnc::Mode::Full;
    json!({
        "payload_bytes": shape.payload_bytes,
        "chunks": shape.cut.chunks,
        "generations": shape.cut.generations,
        "elements": shape.elements,
        "coef_mode": if full { "full" } else { "small" },
    })
}

fn case_json(case: &Case, peers: &[Baseline]) -> Value {
    let op_json = |op: &Op| {
        let baselines: Value = peers
            .iter()
            .filter(|peer| peer.op == op.name)
            .map(
                |peer| json!({ "name": peer.name, "median_ns": peer.median_ns, "kind": peer.kind }),
            )
            .collect();
        let mut value = json!({
            "name": op.name,
            "least_ns": op.times.least_ns,
            "p10_ns": op.times.p10_ns,
            "median_ns": op.times.median_ns,
            "p90_ns": op.times.p90_ns,
            "iters": op.times.iters,
            "kind": "measured",
            "baselines": baselines,
        });
        if let (Value::Object(map), Some((name, count))) = (&mut value, op.count) {
            map.insert(name.to_owned(), count.into());
        }
        value
    };
    json!({
        "strategy": case.strategy,
        "kernel": case.level,
        "ops": case.ops.iter().map(op_json).collect::<Value>(),
    })
}

fn peer_json(peer: &Baseline) -> Value {
    json!({
        "op": peer.op,
        "name": peer.name,
        "median_ns": peer.median_ns,
        "least_ns": peer.least_ns,
        "kind": peer.kind,
    })
}
