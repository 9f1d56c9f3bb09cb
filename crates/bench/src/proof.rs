//! `alphorn bench proof`: proofs that many signed, against the list of their signatures.
//!
//! The baseline is what a proof replaces: verifying all signatures in a batch, in the same run.

mod bundles;
mod costs;
mod fixture;
mod merges;

use super::harness::{Bench, Column, Output, Runs, bytes, count, ms};
use crate::timing::Clock;
use alphorn_exec::{Backend, Exec};
use alphorn_lab::distinct::distinct;
use alphorn_lab::error::{Error, Result};
use alphorn_lab::machine::peak_rss_bytes;
use alphorn_lab::options;
use alphorn_lab::proof::{PresetName, proofs};
use alphorn_lab::text::seconds;
use alphorn_lab::timing::least;
use alphorn_types::Bitfield;
use alphorn_xmss::{Claimed, ProofRegistry, Proofs, Set, verify_batch};
use anyhow::anyhow;
use fixture::Fixture;
use serde_json::{Value, json};

/// Benchmark hash-based proofs of many signatures: proving, verifying, bytes
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench proof
  alphorn bench proof --n 64,65 --threads 1 --runs 3
  alphorn bench proof --n 1000 --preset fast,small --kernel avx2,avx512 --json proof.json
  alphorn bench proof --n 1,1000 --threads 2 --steps
  alphorn bench proof --wide --threads 2 --runs 1
  alphorn bench proof --children 2,4,7,16 --n 512 --threads 2
  alphorn bench proof --entries 7,32 --threads 2 --runs 1
  alphorn bench proof --n 512,1000,1472 --threads 1 --emit-costs xmss-proof.json
  alphorn bench proof --n 512,669,768 --entries 2,7,8,32 --threads 1 --emit-costs xmss-cells.json

A case is a number of signatures, a preset, a kernel and a number of threads. `prove` is the median
of --runs after a first run, which is reported separately as cold; it includes `admit`, the
verification of all signatures that precedes a proof. `verify` runs on one thread with the
committee's registry available, as it is once per epoch. `list` is the batch verification of the
same signatures on the threads of the case, which is what a proof saves the verifier. Bytes are
those on the wire. Memory, in JSON, is the peak of the process so far. Signatures and keys are those
of different interop validators. --steps shows how the time of the fastest warm run was spent; JSON
always includes it.

With --children, proofs of --n signatures each (512 by default, at most 768), half of them shared
with the next proof, are merged into one proof of the union. This is compared with one proof of all
the signatures and with the verification of the children one by one; more than 7 are merged level by
level.

With --entries, proofs of this many committees become one, as the evidence of a block: committees of
32,768 keys of which --n signed (64 by default), each proof a merge. `registries` is the part of the
verification spent on the evaluation of all keys; a bundle of more than 7 is a bundle of bundles.

With --emit-costs the results become the simulator's cost table of XMSS with collections as proofs:
one thread, the first preset and the last kernel. For it, mergeable proofs are merged, two and seven
of at most 512 signatures, --runs times. Together with --entries it is the table of cell evidence as
proofs (proof/proof): merges of proofs and of merges, and bundles of this many.")]
pub(crate) struct Args {
    /// Parameter set of XMSS
    #[arg(long, default_value_t = Set::Compact)]
    set: Set,
    /// Numbers of signatures (default: 512, 1000 and the most that a proof takes; 8192 with --wide)
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1 << 15))]
    n: Vec<u32>,
    /// Presets of the commitment: fast (rate 1/4) and small (rate 1/16)
    #[arg(
        long,
        value_enum,
        value_name = "PRESET",
        default_value = "fast",
        value_delimiter = ','
    )]
    preset: Vec<PresetName>,
    /// Make one proof for up to 11328 signatures of the compact set, a kind that no message carries
    #[arg(long, conflicts_with_all = ["preset", "emit_costs"])]
    wide: bool,
    /// Merge this many proofs instead, one case each
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with_all = ["wide", "emit_costs"],
          value_parser = clap::value_parser!(u16).range(1..=64))]
    children: Vec<u16>,
    /// Bundle this many proofs instead, each of a different committee, one case each
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with_all = ["children", "wide"],
          value_parser = clap::value_parser!(u16).range(1..=49))]
    entries: Vec<u16>,
    /// Numbers of threads, one case each
    #[arg(long, value_name = "N", default_value = "1,2", value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Number of warm runs per case
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Print the time and share of each step of each case
    #[arg(long)]
    steps: bool,
    #[command(flatten)]
    output: Output,
}

const COLUMNS: [Column; 11] = [
    ("signatures", "/n_signatures", count),
    ("preset", "/preset", count),
    ("kernel", "/kernel", count),
    ("threads", "/threads", count),
    ("prove", "/prove_ms/p50", ms),
    ("a second", "/signatures_per_s", count),
    ("cold", "/prove_ms/cold", ms),
    ("proof", "/proof_bytes", bytes),
    ("list", "/list_bytes", bytes),
    ("verify", "/verify_ms", ms),
    ("verify list", "/list_verify_ms", ms),
];

/// The kind of measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Proofs,
    Merges,
    Bundles,
}

/// The parameters of one measurement.
#[derive(Clone, Copy)]
struct Point {
    proofs: Proofs,
    kernel: Backend,
    threads: usize,
    signatures: usize,
}

/// The cost of a proof, a merge or a bundle, and the fields of its case.
struct Made {
    runs: Runs,
    verify_s: f64,
    fields: Value,
}

impl Made {
    /// Adds the fields common to all cases.
    fn new(point: Point, runs: Runs, verify_s: f64, mut fields: Value) -> Self {
        fields["kernel"] = json!(point.kernel.name());
        fields["threads"] = json!(point.threads);
        fields["proof_bytes"] = json!(runs.bytes.len());
        fields["phases_ms"] = json!(runs.steps().ms());
        fields["peak_rss_bytes"] = json!(peak_rss_bytes());
        Made {
            runs,
            verify_s,
            fields,
        }
    }
}

/// A case to be measured.
#[derive(Clone, Copy)]
enum Job {
    Proof(Point),
    Merge(merges::Case),
    Bundle(Point, usize),
}

impl Job {
    /// Returns the number of validators that it needs.
    fn validators(&self) -> usize {
        match self {
            Job::Proof(point) | Job::Bundle(point, _) => point.signatures,
            Job::Merge(case) => case.validators(),
        }
    }

    fn measure(&self, fixture: &Fixture, runs: usize) -> Result<Made> {
        match *self {
            Job::Proof(point) => measure(fixture, point, runs),
            Job::Merge(case) => merges::measure(fixture, case, runs),
            Job::Bundle(point, entries) => bundles::measure(fixture, point, entries, runs),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.check_lists()?;
    let provers = args.provers()?;
    let (first, what) = (provers[0], args.what());
    if !(args.children.is_empty() && args.entries.is_empty() || mergeable(&first)) {
        let (set, preset) = (args.set, first.preset().name);
        let why = "only proofs under the preset fast are merged or bundled";
        return Err(anyhow!("--set {set} --preset {preset}: {why}").into());
    }
    let sizes = args.sizes(what, &first)?;
    let threads = args.threads.iter().copied().max().unwrap_or(1).into();
    let pool = options::pool(threads)?;
    let of = &alphorn_stark::KERNELS;
    let (bench, kernels) = args.output.begin("bench proof", threads, of)?;
    let runs = usize::from(args.runs);
    let jobs = args.jobs(what, &args.points(&provers, &kernels, &sizes));
    let kernel = kernels.last().filter(|_| args.output.emit_costs.is_some());
    let wanted = kernel.map(|kernel| costs::Wanted {
        proofs: first,
        kernel: *kernel,
        sizes: &sizes,
        entries: &args.entries,
        runs,
    });
    let needed = jobs.iter().map(Job::validators);
    let needed = needed.chain(wanted.as_ref().map(costs::Wanted::validators));
    let validators = needed.max().unwrap_or(1) as u32;
    let fixture = Fixture::new(args.set, validators, of.measured(), &pool)?;
    let made = jobs.iter().map(|job| job.measure(&fixture, runs));
    let made: Vec<Made> = made.collect::<Result<_>>()?;
    let fields = args.say(&bench, what, sizes.len(), made);
    if let Some(wanted) = &wanted {
        args.output
            .costs(|| costs::table(&fixture, wanted, &bench))?;
    }
    let config = json!({
        "set": args.set.name(),
        "n": sizes,
        "children": args.children,
        "entries": args.entries,
        "threads": args.threads,
        "runs": args.runs,
    });
    bench.end(&config, fields, None)
}

/// Whether proofs of a set under a preset can be merged.
fn mergeable(proofs: &Proofs) -> bool {
    proofs.mergeable() && proofs.preset().name == "fast"
}

impl Args {
    /// Rejects duplicate cases, and presets that nothing would measure.
    fn check_lists(&self) -> Result<()> {
        distinct("--n", &self.n)?;
        distinct("--preset", &self.preset)?;
        distinct("--children", &self.children)?;
        distinct("--entries", &self.entries)?;
        distinct("--threads", &self.threads)?;
        let option = match self.what() {
            What::Merges => "--children",
            What::Bundles => "--entries",
            What::Proofs => return Ok(()),
        };
        match self.preset.len() {
            1 => Ok(()),
            _ => Err(anyhow!("--preset with {option}: one preset is measured there").into()),
        }
    }

    /// With a cost table, the proofs of each preset are measured.
    fn what(&self) -> What {
        match () {
            () if !self.children.is_empty() => What::Merges,
            () if !self.entries.is_empty() && self.output.emit_costs.is_none() => What::Bundles,
            () => What::Proofs,
        }
    }

    /// Returns what is to be measured.
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

    /// Returns every prover on every kernel and number of threads, at every size.
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

    /// Returns one case per point, or one per point and number of children or entries.
    fn jobs(&self, what: What, points: &[Point]) -> Vec<Job> {
        let of = |point: Point| -> Vec<Job> {
            let many = match what {
                What::Proofs => return vec![Job::Proof(point)],
                What::Merges => self.children.iter(),
                What::Bundles => self.entries.iter(),
            };
            let job = |many: usize| match what {
                What::Merges => Job::Merge(merges::Case::new(point, many)),
                _ => Job::Bundle(point, many),
            };
            many.map(|many| job(usize::from(*many))).collect()
        };
        points.iter().copied().flat_map(of).collect()
    }

    /// Prints the measurements, and returns the fields of the report.
    fn say(&self, bench: &Bench, what: What, numbers: usize, made: Vec<Made>) -> Value {
        let (cases, runs): (Vec<Value>, Vec<Runs>) = made
            .into_iter()
            .map(|made| (made.fields, made.runs))
            .unzip();
        match what {
            What::Proofs => bench.table(&cases, &COLUMNS),
            What::Merges => bench.table(&cases, &merges::COLUMNS),
            What::Bundles => bench.table(&cases, &bundles::COLUMNS),
        }
        for (at, runs) in (1..).zip(&runs).filter(|_| self.steps) {
            let steps = runs.steps().printed(&format!("fastest run of case {at}"));
            bench.say(&format!("\n{steps}"));
        }
        let evenness = evenness(&cases, numbers);
        for even in &evenness {
            bench.say(&format!("\ntime of a signature, most to least: {even}"));
        }
        json!({ "cases": cases, "evenness": evenness })
    }

    /// Returns the numbers of signatures, none more than such a proof takes.
    fn sizes(&self, what: What, proofs: &Proofs) -> Result<Vec<u32>> {
        let (name, max, own) = match what {
            What::Proofs if self.wide => ("a proof", proofs.signatures_max(), vec![8192]),
            What::Proofs => {
                let max = proofs.signatures_max();
                ("a proof", max, vec![512, 1000, max as u32])
            }
            What::Merges => ("a proof to merge", proofs.mergeable_max(), vec![512]),
            What::Bundles => (
                "a proof to bundle",
                proofs.mergeable_max(),
                vec![bundles::SIGNATURES],
            ),
        };
        let max = max as u32;
        if self.n.is_empty() {
            let mut sizes: Vec<u32> = own.iter().map(|size| max.min(*size)).collect();
            sizes.dedup();
            return Ok(sizes);
        }
        match self.n.iter().find(|size| **size > max) {
            None => Ok(self.n.clone()),
            Some(size) => {
                let set = self.set;
                Err(anyhow!("--n {size}: {name} of the set {set} takes at most {max}").into())
            }
        }
    }
}

/// Proves, verifies, and verifies the list of the same signatures.
fn measure(fixture: &Fixture, point: Point, runs: usize) -> Result<Made> {
    let Point {
        proofs, signatures, ..
    } = point;
    let pool = options::pool(point.threads)?;
    let exec = Exec::new(point.kernel, Some(&pool));
    let registry = proofs.registry(exec, fixture.keys.clone(), 0)?;
    let signed = fixture.signed(signatures);
    let prove = Runs::warm(runs, || {
        let clock = Clock::start();
        let exec = exec.with_watch(&clock);
        let bytes = proofs.prove(exec, &registry, fixture::SLOT, &fixture::MESSAGE, &signed)?;
        Ok((bytes, clock.end()))
    })?;
    let signers = fixture.signers(0..signatures);
    let verify_s = verified(&point, &registry, &signers, &prove.bytes, runs)?;
    let items = fixture.items(signatures);
    let (list_verify_s, verdicts) = least(runs.max(3), || verify_batch(proofs.set(), &items, exec));
    if verdicts.contains(&false) {
        return Err(Error::Check("a signature of this run does not hold".into()));
    }
    let fields = json!({
        "bench": "proof",
        "set": proofs.set().name(),
        "preset": proofs.preset().name,
        "n_signatures": signatures,
        "prove_ms": {
            "p50": prove.median_s() * 1e3,
            "p90": prove.quantile_s(0.9) * 1e3,
            "min": prove.quantile_s(0.0) * 1e3,
            "cold": prove.cold_s() * 1e3,
        },
        "signatures_per_s": signatures as f64 / prove.median_s(),
        "verify_ms": verify_s * 1e3,
        "list_bytes": signatures * proofs.set().params().signature_bytes,
        "list_verify_ms": list_verify_s * 1e3,
    });
    Ok(Made::new(point, prove, verify_s, fields))
}

/// Returns the least time of some verifications on one thread, in seconds.
fn verified(
    point: &Point,
    registry: &ProofRegistry,
    signers: &Bitfield,
    bytes: &[u8],
    runs: usize,
) -> Result<f64> {
    let claimed = Claimed {
        slot: fixture::SLOT,
        message: &fixture::MESSAGE,
        signers,
    };
    let exec = Exec::new(point.kernel, None);
    let verify = || point.proofs.verify(exec, registry, &claimed, bytes);
    verify().map_err(|refused| Error::Check(format!("a proof of this run: {refused}")))?;
    Ok(least(runs.max(3), verify).0)
}

/// From this number on, the time per signature should hardly depend on it.
const EVEN_FROM: u64 = 512;

/// Returns how many times longer a signature takes at one number than at another, for each preset,
/// kernel and number of threads. Their cases are consecutive, as many as there are numbers.
fn evenness(cases: &[Value], numbers: usize) -> Vec<Value> {
    let per_s = |case: &Value| {
        let is_large = case["n_signatures"].as_u64() >= Some(EVEN_FROM);
        case["signatures_per_s"].as_f64().filter(|_| is_large)
    };
    let ratio = |of: &[Value]| {
        let per_s: Vec<f64> = of.iter().filter_map(per_s).collect();
        let most = per_s.iter().copied().fold(0.0, f64::max);
        let least = per_s.iter().copied().fold(f64::INFINITY, f64::min);
        let [preset, kernel, threads] = ["preset", "kernel", "threads"].map(|name| &of[0][name]);
        (per_s.len() > 1).then(|| {
            json!({
                "preset": preset,
                "kernel": kernel,
                "threads": threads,
                "ratio": most / least,
            })
        })
    };
    cases.chunks(numbers.max(1)).filter_map(ratio).collect()
}
