//! `alphorn bench proof`: proofs that many signed, beside the list of their signatures.
//!
//! The baseline is what a proof replaces: verifying all signatures in a batch, in the same run.

mod bundles;
mod costs;
mod merges;
mod peers;
mod runs;
mod sizes;
mod steps;
mod world;

use crate::error::{Error, Result};
use crate::levels::levels;
use crate::machine::{Machine, peak_rss_bytes};
use crate::options::{self, Json, distinct};
use crate::overwrite::check_apart;
use crate::proof::{PresetName, REGIME, proofs};
use crate::report::{Report, columns, target, write_whole};
use crate::text;
use crate::timing::Clock;
use alphorn_exec::{Backend, Exec};
use alphorn_xmss::{Proofs, Set, Signed, verify_batch};
use anyhow::anyhow;
use clap::builder::{OsStringValueParser, TypedValueParser};
use runs::Runs;
use serde_json::{Map, Value, json};
use sizes::{Evenness, Sizes, evenness};
use std::path::PathBuf;
use steps::Steps;
use world::World;

/// Proofs that many signed: proving, verifying, bytes
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench proof
  alphorn bench proof --n 64,65 --threads 1 --runs 3
  alphorn bench proof --n 1000 --preset fast,small --kernel avx2,avx512 --json proof.json
  alphorn bench proof --n 512..1472:64 --threads 2 --runs 3
  alphorn bench proof --n 1,1000 --threads 2 --steps
  alphorn bench proof --wide --threads 2 --runs 1
  alphorn bench proof --children 2,4,7,16 --n 512 --threads 2
  alphorn bench proof --children 2 --threads 2 --steps
  alphorn bench proof --entries 7,32 --threads 2 --runs 1
  alphorn bench proof --n 512,1000,1472 --threads 1 --emit-costs xmss-proof.json
  alphorn bench proof --n 512,669,768 --entries 2,7,8,32 --threads 1 --emit-costs xmss-cells.json

A case is a number of signatures, a preset, a kernel and a number of threads. `prove` is the median
of --runs after a first run that is reported apart as cold; it contains `admit`, the verification of
all signatures that comes before a proof. `verify` is one thread's, the committee's registry at hand,
as it is once an epoch. `list` is the verification of the same signatures in a batch on the threads of
the case: what a proof saves its reader. Bytes are those of the wire. Memory is the most that the
process had so far. Signatures and keys are those of different interop validators. --steps shows where
the time of the fastest warm run went; JSON always has it.

With --children proofs of --n signatures each (512 by default, at most 768), half of them in the next
as well, are merged to one proof of the union, beside one proof of all the signatures and the
verification of the children one by one; more than 7 are merged level by level.

With --entries proofs of so many committees become one, as the evidence of a block: committees of 32,768
keys of which --n signed (64 by default), each proof a merge. `registries` is what the evaluation of all
keys takes of the verification; a bundle of more than 7 is a bundle of bundles.

With --emit-costs the figures become the cost table of XMSS with collections as proofs, for the
simulator: one thread, the first preset and the last kernel. Proofs that merge are merged for it,
two and seven of at most 512 signatures, --runs times. With --entries as well it is the table of
evidence of cells as proofs (proof/proof): merges of proofs and of merges, and bundles of so many.

Lines `cited` are figures that others published or that were measured elsewhere; see docs/results/hashes.md.")]
pub(crate) struct Args {
    /// Parameter set of XMSS
    #[arg(long, default_value_t = Set::Compact)]
    set: Set,
    /// Numbers of signatures, or ranges with steps; 512, 1000 and what a proof takes by default, 8192
    /// with --wide
    #[arg(long, value_name = "N|A..B:STEP", value_delimiter = ',')]
    n: Vec<Sizes>,
    /// Presets of the commitment: fast (rate 1/4) and small (rate 1/16)
    #[arg(
        long,
        value_enum,
        value_name = "PRESET",
        default_value = "fast",
        value_delimiter = ','
    )]
    preset: Vec<PresetName>,
    /// One proof for up to 11328 signatures of the compact set, which is in no message
    #[arg(long, conflicts_with_all = ["preset", "emit_costs"])]
    wide: bool,
    /// Merge so many proofs instead, a case each
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with_all = ["wide", "emit_costs"],
          value_parser = clap::value_parser!(u16).range(1..=64))]
    children: Vec<u16>,
    /// Bundle so many proofs instead, each of a committee of its own, a case each
    #[arg(long, value_name = "N", value_delimiter = ',',
          conflicts_with_all = ["children", "wide", "steps"],
          value_parser = clap::value_parser!(u16).range(1..=49))]
    entries: Vec<u16>,
    /// Kernels: auto, portable, avx2 or avx512, a case each; or stark=LEVEL
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "auto",
        value_delimiter = ','
    )]
    kernel: Vec<String>,
    /// Numbers of threads, a case each
    #[arg(long, value_name = "N", default_value = "1,2", value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Warm runs of each case
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Print the time and share of each step of each case
    #[arg(long)]
    steps: bool,
    #[command(flatten)]
    json: Json,
    /// Write a cost table for the simulator
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(target))]
    emit_costs: Option<PathBuf>,
}

/// What is measured together.
#[derive(Clone, Copy)]
struct Point {
    proofs: Proofs,
    kernel: Backend,
    threads: usize,
    signatures: usize,
}

/// The figures of a point, in seconds.
struct Figures {
    point: Point,
    /// With where the time of the fastest one went.
    prove: Runs<Steps>,
    /// The list of the same signatures: verified before it is proved, or instead.
    list_verify_s: f64,
    verify_s: f64,
    peak_rss_bytes: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench proof", 0);
    let sink = args.json.sink();
    let outputs = [args.emit_costs.as_deref(), sink.path()];
    check_apart([], outputs.into_iter().flatten())?;
    args.check_lists()?;
    let threads_max = args.threads_max();
    let kernels = levels(&alphorn_stark::KERNELS, &args.kernel, threads_max)?;
    let machine = Machine::with(threads_max, &alphorn_stark::KERNELS, &kernels);
    let provers = args.provers()?;
    let first = *provers.first().ok_or_else(|| anyhow!("no preset"))?;
    if !args.children.is_empty() {
        return merges::run(args, &report, &sink, &kernels, first, &machine);
    }
    if !args.entries.is_empty() && args.emit_costs.is_none() {
        return bundles::run(args, &report, &sink, &kernels, first, &machine);
    }
    if !args.entries.is_empty() && !merges::mergeable(&first) {
        return Err(args.unbundled());
    }
    let sizes = args.sizes(first.signatures_max() as u32, "a proof")?;
    let mut most = sizes.iter().copied().max().unwrap_or(1);
    let wanted = kernels.last().map(|kernel| costs::Wanted {
        proofs: first,
        kernel: *kernel,
        sizes: &sizes,
        entries: &args.entries,
        runs: usize::from(args.runs),
    });
    let wanted = wanted.filter(|_| args.emit_costs.is_some());
    if let Some(wanted) = &wanted {
        most = most.max(wanted.validators() as u32);
    }
    let world = args.world(most)?;
    sink.say(&machine.line());
    let points = args.points(&provers, &kernels, &sizes).into_iter();
    let cases = points.map(|point| measure(&world, point, usize::from(args.runs)));
    let cases: Vec<Figures> = cases.collect::<Result<_>>()?;
    sink.say(&format!("\n{}", printed(&cases)));
    for case in cases.iter().filter(|_| args.steps) {
        sink.say(&format!("\n{}", case.prove.fastest.printed(&case.title())));
    }
    let even = evenness(&cases);
    for even in &even {
        sink.say(&format!("\n{}", even.printed()));
    }
    sink.say(&format!("\n{}", peers::printed()));
    if let (Some(path), Some(wanted)) = (&args.emit_costs, &wanted) {
        let table = costs::table(&world, wanted, &machine)?;
        write_whole(path, table.as_bytes())?;
    }
    let config = json!({
        "set": args.set.name(),
        "n": sizes,
        "threads": args.threads,
        "runs": args.runs,
    });
    let even = even.iter().map(Evenness::json).collect();
    let cases = cases.iter().map(case).collect();
    let fields = json!({
        "cases": Value::Array(cases),
        "evenness": Value::Array(even),
        "peers": peers::json(),
    });
    sink.write(&report.object(&machine, "measured", &config, fields)?)
}

impl Args {
    /// Why there are no bundles.
    fn unbundled(&self) -> Error {
        let why = "only proofs under the preset fast are bundled";
        anyhow!("--entries --set {}: {why}", self.set).into()
    }

    /// Refuses cases that are there twice, and presets that nothing would measure.
    fn check_lists(&self) -> Result<()> {
        distinct("--preset", &self.preset)?;
        distinct("--children", &self.children)?;
        distinct("--entries", &self.entries)?;
        distinct("--threads", &self.threads)?;
        // With a cost table the proofs of each preset are measured too.
        let alone = [
            ("--children", !self.children.is_empty()),
            (
                "--entries",
                !self.entries.is_empty() && self.emit_costs.is_none(),
            ),
        ];
        match alone.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) if self.preset.len() > 1 => {
                Err(anyhow!("--preset with {option}: one preset is measured there").into())
            }
            _ => Ok(()),
        }
    }

    /// What is to be measured.
    fn provers(&self) -> Result<Vec<Proofs>> {
        match (self.wide, self.set) {
            (true, Set::Compact) => Ok(vec![Proofs::wide()]),
            (true, set) => {
                Err(anyhow!("--wide --set {set}: only compact has the wide shape").into())
            }
            (false, set) => {
                let presets = self.preset.iter();
                Ok(presets.map(|preset| proofs(set, *preset)).collect())
            }
        }
    }

    fn threads_max(&self) -> usize {
        usize::from(self.threads.iter().copied().max().unwrap_or(1))
    }

    /// Keys and signatures of so many validators.
    fn world(&self, validators: u32) -> Result<World> {
        let pool = options::pool(self.threads_max())?;
        World::new(
            self.set,
            validators,
            alphorn_stark::KERNELS.measured(),
            &pool,
        )
    }

    /// Every prover on every kernel and number of threads, at every size.
    fn points(&self, provers: &[Proofs], kernels: &[Backend], sizes: &[u32]) -> Vec<Point> {
        let mut points = Vec::new();
        for &proofs in provers {
            for &kernel in kernels {
                for &threads in &self.threads {
                    points.extend(sizes.iter().map(|&n| Point {
                        proofs,
                        kernel,
                        threads: usize::from(threads),
                        signatures: n as usize,
                    }));
                }
            }
        }
        points
    }

    /// The numbers of signatures, none more than such a proof takes.
    fn sizes(&self, max: u32, what: &str) -> Result<Vec<u32>> {
        if self.n.is_empty() {
            return Ok(match self.wide {
                true => vec![8192],
                false => vec![512, 1000, max],
            });
        }
        let sizes: Vec<u32> = self.n.iter().flat_map(|sizes| sizes.0.clone()).collect();
        distinct("--n", &sizes)?;
        match sizes.iter().find(|size| **size > max) {
            None => Ok(sizes),
            Some(size) => {
                let set = self.set;
                Err(anyhow!("--n {size}: {what} of the set {set} takes at most {max}").into())
            }
        }
    }
}

/// Proves, verifies, and verifies the list of the same signatures.
fn measure(world: &World, point: Point, runs: usize) -> Result<Figures> {
    let pool = options::pool(point.threads)?;
    let exec = Exec::new(point.kernel, Some(&pool));
    let registry = point.proofs.registry(exec, world.keys.clone(), 0)?;
    let signed: Vec<Signed<'_>> = world.signed(point.signatures);
    let (slot, message) = (world::SLOT, &world::MESSAGE);
    let prove = Runs::of(runs, || {
        let clock = Clock::start();
        let exec = exec.with_watch(&clock);
        let bytes = point
            .proofs
            .prove(exec, &registry, slot, message, &signed)?;
        Ok((bytes, Steps::of(clock)))
    })?;
    let signers = world.signers(point.signatures);
    let verify_s = runs::verified(&point, &registry, &signers, &prove.bytes, runs)?;
    let items = world.items(point.signatures);
    let (list_verify_s, verdicts) = super::least(runs.max(3), || {
        verify_batch(point.proofs.set(), &items, exec)
    });
    if verdicts.contains(&false) {
        return Err(Error::Check("a signature of this run does not hold".into()));
    }
    Ok(Figures {
        point,
        prove,
        list_verify_s,
        verify_s,
        peak_rss_bytes: peak_rss_bytes(),
    })
}

impl Figures {
    /// Seconds of one signature.
    fn each_s(&self) -> f64 {
        self.prove.median_s() / self.point.signatures as f64
    }

    /// What was measured.
    fn title(&self) -> String {
        let point = self.point;
        let (preset, kernel) = (point.proofs.preset().name, point.kernel);
        let (signatures, threads) = (point.signatures, point.threads);
        format!("{signatures}, {preset}, {kernel}, {threads} threads")
    }

    fn signatures_per_s(&self) -> f64 {
        self.point.signatures as f64 / self.prove.median_s()
    }
}

fn printed(cases: &[Figures]) -> String {
    let row = |case: &Figures| {
        let Point {
            proofs,
            kernel,
            threads,
            signatures,
        } = case.point;
        let list = signatures * proofs.set().params().signature_bytes;
        vec![
            (
                "signatures",
                format!("{signatures}, {}", proofs.preset().name),
            ),
            ("kernel", kernel.to_string()),
            ("threads", threads.to_string()),
            ("prove", text::seconds(case.prove.median_s())),
            ("rate", format!("{:.0}/s", case.signatures_per_s())),
            ("cold", text::seconds(case.prove.cold_s)),
            ("proof", text::bytes(case.prove.bytes.len() as u64)),
            ("list", text::bytes(list as u64)),
            ("verify", text::seconds(case.verify_s)),
            ("verify list", text::seconds(case.list_verify_s)),
            ("peak memory", text::bytes(case.peak_rss_bytes)),
        ]
    };
    columns(cases.iter().map(row))
}

fn case(figures: &Figures) -> Value {
    let Point {
        proofs,
        kernel,
        threads,
        signatures,
    } = figures.point;
    let sizes = proofs.sizes(signatures);
    let parts = proofs.parts(signatures).into_iter();
    let parts: Map<String, Value> = parts
        .map(|part| {
            (
                part.name.to_owned(),
                json!(part.elements as f64 * 31.0 / 8.0),
            )
        })
        .collect();
    json!({
        "bench": "proof",
        "set": proofs.set().name(),
        "preset": proofs.preset().name,
        "class": if sizes.slices <= 64 { 64 } else { 256 },
        "proof_kind": "leaf",
        "n_signatures": signatures,
        "n_children": 0,
        "groups": sizes.groups,
        "slices": sizes.slices,
        "threads": threads,
        "kernel": kernel.name(),
        "warm": true,
        "reps": figures.prove.warm_s.len(),
        "prove_ms": {
            "p50": figures.prove.median_s() * 1e3,
            "p90": figures.prove.quantile_s(0.9) * 1e3,
            "min": figures.prove.quantile_s(0.0) * 1e3,
            "cold": figures.prove.cold_s * 1e3,
        },
        "phases_ms": figures.prove.fastest.json(),
        "signatures_per_s": figures.signatures_per_s(),
        "proof_bytes": figures.prove.bytes.len(),
        "proof_bytes_max_by_part": parts,
        "header_bytes": sizes.header_bytes,
        "verify_ms": figures.verify_s * 1e3,
        "list_bytes": signatures * proofs.set().params().signature_bytes,
        "list_verify_ms": figures.list_verify_s * 1e3,
        "peak_rss_bytes": figures.peak_rss_bytes,
        "security_bits": proofs.security().least_bits(),
        "regime": REGIME,
        "cells": sizes.cells,
        "permutations": sizes.permutations,
        "fractions": sizes.fractions,
        "kind": "measured",
    })
}
