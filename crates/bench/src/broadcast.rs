//! `alphorn bench broadcast`: the cost of coding, verifying and decoding chunks, against
//! curve25519-dalek and the bare Reed-Solomon code.

mod costs;
mod peers;
mod ristretto;
mod rs;

use super::harness::{Column, Output, count, ns};
use alphorn_lab::error::Result;
use alphorn_lab::text::{self, ratio};
use alphorn_rlnc::{Cut, ELEMENT_PAYLOAD_BYTES, ELEMENTS_MAX, Subject, VERIFY_BATCH_MAX};
use clap::ValueEnum;
use serde_json::{Value, json};

/// Benchmark coding, verifying and decoding the chunks of a broadcast
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench broadcast
  alphorn bench broadcast --kernel portable,avx2,avx512 --strategy rlnc
  alphorn bench broadcast --strategy rs --emit-costs codes.json

The default is 10 chunks of 380 elements, the 118.75 KiB with which the proof of concept of the published
proposal was measured (ethresear.ch 21370). One thread. Each time is the median of at least 30 runs (5 if
one takes 0.1 s), on fresh inputs; `faster` compares medians with the fastest peer that does the same work.
The bare Reed-Solomon code verifies nothing: its times are shown, not compared.")]
pub(crate) struct Args {
    /// Number of chunks per generation
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=64))]
    chunks: u16,
    /// Number of elements per chunk, 31 payload bytes each
    #[arg(long, value_name = "M", default_value_t = 380,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(ELEMENTS_MAX)))]
    elements: u32,
    /// Codes to measure
    #[arg(long, value_enum, default_value_t = What::All)]
    strategy: What,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The random linear code with Pedersen commitments
    Rlnc,
    /// Reed-Solomon shards under a Merkle root
    Rs,
    /// All codes
    All,
}

/// What is published in every run.
const SUBJECT: Subject = Subject {
    kind: 1,
    slot: 1,
    source: 1,
    index: 0,
};
/// Seed of payloads and coefficients.
const SEED: u64 = 1;
/// Suffix of the name of a peer that authenticates nothing.
const BARE: &str = "unauthenticated";

const COLUMNS: [Column; 7] = [
    ("code", "/strategy", count),
    ("kernel", "/kernel", count),
    ("step", "/name", count),
    ("median", "/median_ns", ns),
    ("peer", "/peer_ns", ns),
    ("faster", "/faster", ratio),
    ("unverified", "/unverified_ns", ns),
];

/// How the payload is cut.
struct Shape {
    payload_bytes: usize,
    cut: Cut,
    elements: u32,
}

impl Shape {
    /// Cuts a payload into the fewest generations of this many chunks.
    fn of_chunks(payload_bytes: usize, chunks: u16) -> Shape {
        let generation = u32::from(chunks) * ELEMENT_PAYLOAD_BYTES * ELEMENTS_MAX;
        let generations = payload_bytes.div_ceil(generation as usize);
        let cut = Cut {
            generations: u16::try_from(generations).unwrap_or(u16::MAX),
            ..Cut::rlnc(chunks)
        };
        let pieces = usize::from(cut.chunks) * usize::from(cut.generations);
        let elements = payload_bytes.div_ceil(ELEMENT_PAYLOAD_BYTES as usize * pieces);
        Shape {
            payload_bytes,
            cut,
            elements: elements as u32,
        }
    }
}

/// A step and its median in nanoseconds.
type Step = (&'static str, f64);

/// A step, the peer that also does it, and the median in nanoseconds.
type Peer = (&'static str, &'static str, f64);

pub(crate) fn run(args: &Args) -> Result<()> {
    let of = &alphorn_rlnc::KERNELS;
    let (bench, kernels) = args.output.begin("bench broadcast", 1, of)?;
    let bytes = u32::from(args.chunks) * args.elements * ELEMENT_PAYLOAD_BYTES;
    let shape = Shape::of_chunks(bytes as usize, args.chunks);
    bench.say(&format!(
        "{} payload bytes, {} generation(s) of {} chunks of {} elements",
        text::count(shape.payload_bytes as u64),
        shape.cut.generations,
        shape.cut.chunks,
        shape.elements
    ));
    let mut cases = Vec::new();
    if args.strategy != What::Rs {
        let peers = peers::dalek(&shape)?;
        for &kernel in &kernels {
            let steps = ristretto::Bench::new(kernel, &shape)?.steps()?;
            cases.push(case("rlnc", kernel.name(), &steps, &peers));
        }
    }
    if args.strategy != What::Rlnc {
        let cut = Cut::auto(alphorn_rlnc::Strategy::Rs, shape.payload_bytes);
        let code = rs::Bench::new(shape.payload_bytes, cut)?;
        let count = usize::from(cut.chunks).min(VERIFY_BATCH_MAX);
        let steps = [
            ("rs_encode", code.encode()),
            ("rs_verify", code.verify(count)? / count as f64),
            ("rs_decode_checked", code.decode()?),
        ];
        cases.push(case("rs", "reed-solomon-simd", &steps, &code.bare()?));
    }
    bench.table(&rows(&cases), &COLUMNS);
    if let Some(&kernel) = kernels.last() {
        args.output.costs(|| Ok(costs::table(kernel, &bench)?))?;
    }
    let fields = json!({
        "params": {
            "payload_bytes": shape.payload_bytes,
            "chunks": shape.cut.chunks,
            "generations": shape.cut.generations,
            "elements": shape.elements,
        },
        "cases": cases,
    });
    let config = json!({ "strategy": format!("{:?}", args.strategy).to_lowercase() });
    bench.end(&config, fields, None)
}

/// Returns a code, its kernel, and its steps next to peers that do the same.
fn case(strategy: &str, kernel: &str, steps: &[Step], peers: &[Peer]) -> Value {
    let step = |(name, median_ns): &Step| {
        let same = || peers.iter().filter(|peer| peer.0 == *name);
        let baselines = same().map(
            |(_, name, median_ns)| json!({ "name": name, "median_ns": median_ns, "kind": "measured" }),
        );
        let least = |bare: bool| {
            let of = same().filter(move |peer| peer.1.ends_with(BARE) == bare);
            of.map(|peer| peer.2).min_by(f64::total_cmp)
        };
        json!({
            "name": name,
            "median_ns": median_ns,
            "kind": "measured",
            "baselines": baselines.collect::<Value>(),
            "peer_ns": least(false),
            "faster": least(false).map(|peer_ns| peer_ns / median_ns),
            "unverified_ns": least(true),
        })
    };
    json!({
        "strategy": strategy,
        "kernel": kernel,
        "ops": steps.iter().map(step).collect::<Value>(),
    })
}

/// Returns the steps of all cases, each with the names of its case.
fn rows(cases: &[Value]) -> Vec<Value> {
    let of = |case: &Value| -> Vec<Value> {
        let steps = case["ops"].as_array().into_iter().flatten();
        let row = |step: &Value| {
            let mut row = step.clone();
            row["strategy"] = case["strategy"].clone();
            row["kernel"] = case["kernel"].clone();
            row
        };
        steps.map(row).collect()
    };
    cases.iter().flat_map(of).collect()
}
