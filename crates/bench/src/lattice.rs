//! `alphorn bench lattice`: proofs of Falcon signatures against verifying them directly.

mod costs;
mod fixture;
mod program;

use super::harness::{Bench, Column, Output, Runs, bytes, count, percent};
use crate::timing::{Clock, Steps};
use alphorn_exec::{Backend, Exec};
use alphorn_falcon::ring::LANES;
use alphorn_falcon::{
    Aggregator, DEGREE, Item, KeyForm, Preset, PublicKey, SALT_BYTES, verify_batch,
};
use alphorn_lab::distinct::distinct;
use alphorn_lab::error::{Error, Result};
use alphorn_lab::lattice::params::check_number;
use alphorn_lab::lattice::{LatticeOptions, degree, flavour_name, preset};
use alphorn_lab::machine::peak_rss_bytes;
use alphorn_lab::options;
use alphorn_lab::text::{ratio, seconds};
use alphorn_lab::timing::least;
use alphorn_labrador::sis::Profile;
use anyhow::anyhow;
use fixture::{Fixture, KEYS_MAX};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;

/// What the measured proofs are bound to.
const CONTEXT: &[u8] = b"alphorn/bench/lattice";

/// Benchmark proofs of Falcon signatures against verifying the signatures
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench lattice --n 100,1000
  alphorn bench lattice --n 1000 --kernel portable,avx2,avx512 --profile falcon
  alphorn bench lattice --n 1000 --preset fast,small
  alphorn bench lattice --n 100,1000 --degree 1024
  alphorn bench lattice --n 1000,10000 --threads 1 --peer ./labrador.sh
  alphorn bench lattice --n 16,256,1000 --emit-costs falcon.json --json -

Each case also shows the cost of verifying the same signatures directly, in batches by this program and one
by one by the crate fn-dsa; the --peer program has its own rows. Verification starts from bytes: every time
includes decoding the public keys, which a node decodes once. Everything except fn-dsa uses --threads; the
set-up, of parameters and commitment keys, is made once per number of signatures. The steps of the verifier
are listed below. A table of costs covers only the first preset, and only degree 512.")]
pub(crate) struct Args {
    /// Numbers of signatures, 1 to 20000
    #[arg(long, value_name = "N", default_value = "1000", value_delimiter = ',')]
    n: Vec<u32>,
    /// Number of threads, except for fn-dsa (default: all cores available to this process)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// What proofs optimise: verification time (fast) or bytes (small); both separated by a comma
    #[arg(long, value_name = "PRESET", value_parser = preset, default_value = "fast", value_delimiter = ',')]
    preset: Vec<Preset>,
    #[command(flatten)]
    lattice: LatticeOptions,
    /// Degree of the signatures: 512 (Falcon-512) or 1024 (Falcon-1024)
    #[arg(long, value_name = "DEGREE", value_parser = degree, default_value_t = DEGREE)]
    degree: usize,
    /// Number of runs per operation, at least eight for verification; the minimum time counts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Program that proves and verifies the same signatures in the same run (interface: see falcon.md)
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Minimum number of verifications of each kind, and number of times that keys are decoded; the fastest
/// is used. During the first ones the allocator returns pages that a prover used and allocates new
/// ones, some ten thousand of them, which does not happen in a process that only verifies.
const VERIFICATIONS: usize = 8;

const COLUMNS: [Column; 13] = [
    ("signatures", "/n", count),
    ("preset", "/preset", count),
    ("kernel", "/kernel", count),
    ("threads", "/threads", count),
    ("set-up, once", "/setup_s", seconds),
    ("prove", "/prove_s/total", seconds),
    ("verify", "/verify_s/total", seconds),
    ("plain, batches", "/baseline/plain_batch_s", seconds),
    ("of plain", "/ratios/verify_of_plain", ratio),
    ("fn-dsa, 1 thread", "/baseline/plain_fndsa_s", seconds),
    ("bytes", "/total_wire_bytes", bytes),
    ("signatures' bytes", "/baseline/plain_bytes", bytes),
    ("of these", "/ratios/bytes_of_plain", percent),
];

const PEERS: [Column; 5] = [
    ("same run", "/name", count),
    ("threads", "/threads", count),
    ("prove", "/prove_s", seconds),
    ("verify", "/verify_s", seconds),
    ("bytes", "/bytes", bytes),
];

/// The parameters of one measurement.
#[derive(Clone, Copy, Debug)]
struct Point {
    preset: Preset,
    signatures: usize,
    profile: Profile,
    kernel: Backend,
    threads: usize,
    runs: usize,
}

/// The cost of the signatures themselves, in seconds.
#[derive(Clone, Copy)]
struct Plain {
    keys_s: f64,
    batch_s: f64,
    fn_dsa_s: f64,
    bytes: usize,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.n.iter().try_for_each(|&n| check_number(n))?;
    distinct("--n", &args.n)?;
    distinct("--preset", &args.preset)?;
    let degree = args.degree;
    if args.output.emit_costs.is_some() && degree != DEGREE {
        let message = anyhow!("--emit-costs: scenarios have Falcon-512, --degree is {degree}");
        return Err(message.into());
    }
    let flavour = args.lattice.flavour();
    let threads = args
        .threads
        .map_or_else(alphorn_lab::machine::cores, usize::from);
    let of = &alphorn_labrador::KERNELS;
    let (bench, kernels) = args.output.begin("bench lattice", threads, of)?;
    let most = args.n.iter().copied().max().unwrap_or(1) as usize;
    let pool = options::pool(threads)?;
    let cases = match degree {
        DEGREE => {
            let fixture = Fixture::<DEGREE>::new(flavour, most, &pool)?;
            let cases = cases(&bench, &fixture, args, &kernels, &pool)?;
            let last = *kernels.last().ok_or_else(|| anyhow!("no kernel"))?;
            let point = point(args, args.preset[0], 1, last, 1);
            let costs = || costs::table(&fixture, &point, &args.n, &bench);
            args.output.costs(costs)?;
            cases
        }
        _ => {
            let fixture = Fixture::<1024>::new(flavour, most, &pool)?;
            cases(&bench, &fixture, args, &kernels, &pool)?
        }
    };
    let config = json!({
        "n": args.n,
        "threads": threads,
        "presets": args.preset.iter().map(|preset| preset.name()).collect::<Vec<_>>(),
        "flavour": flavour_name(flavour),
        "degree": degree,
        "profile": args.lattice.profile().name(),
        "runs": args.runs,
        "keys_max": KEYS_MAX,
    });
    bench.end(&config, json!({ "cases": cases }), None)
}

fn point(args: &Args, preset: Preset, n: u32, kernel: Backend, threads: usize) -> Point {
    Point {
        preset,
        signatures: n as usize,
        profile: args.lattice.profile(),
        kernel,
        threads,
        runs: usize::from(args.runs),
    }
}

/// Measures and prints every kernel, number of signatures and preset.
fn cases<const N: usize>(
    bench: &Bench,
    fixture: &Fixture<N>,
    args: &Args,
    kernels: &[Backend],
    pool: &rayon::ThreadPool,
) -> Result<Vec<Value>> {
    let threads = pool.current_num_threads();
    // Run once, regardless of the kernels.
    let ran = |n: &u32| match &args.peer {
        Some(program) => Ok(vec![program::run(program, fixture, *n as usize, threads)?]),
        None => Ok(Vec::new()),
    };
    let ran: Vec<Vec<Value>> = args.n.iter().map(ran).collect::<Result<_>>()?;
    let (mut cases, mut steps) = (Vec::new(), Vec::new());
    for kernel in kernels {
        for (n, ran) in args.n.iter().zip(&ran) {
            let point = |preset| point(args, preset, *n, *kernel, threads);
            let plain = measure_plainly(fixture, point(Preset::default()), pool)?;
            for &preset in &args.preset {
                let (mut case, of) = measure(fixture, point(preset), plain, pool)?;
                case["peers"] = json!(ran);
                cases.push(case);
                let title = format!("verifying {n}, {}, {kernel}", preset.name());
                steps.push(of.printed(&title));
            }
        }
    }
    bench.table(&cases, &COLUMNS);
    let ran: Vec<Value> = ran.into_iter().flatten().collect();
    if !ran.is_empty() {
        bench.table(&ran, &PEERS);
    }
    for steps in steps {
        bench.say(&format!("\n{steps}"));
    }
    Ok(cases)
}

/// A proof and its cost.
struct Proved<const N: usize> {
    aggregator: Aggregator<N>,
    setup_s: f64,
    salts: Vec<[u8; SALT_BYTES]>,
    runs: Runs,
}

fn prove<const N: usize>(
    items: &[Item<'_, N>],
    point: &Point,
    pool: &rayon::ThreadPool,
) -> Result<Proved<N>> {
    let exec = Exec::new(point.kernel, Some(pool));
    let make = || Aggregator::with_preset(point.preset, items.len(), point.profile, point.kernel);
    let (setup_s, aggregator) = least(1, make);
    let aggregator = aggregator?;
    let mut salts = Vec::new();
    let runs = Runs::all(point.runs, || {
        let clock = Clock::start();
        let (sent, proof) = aggregator.prove_on(items, CONTEXT, exec.with_watch(&clock))?;
        salts = sent;
        Ok((proof, clock.end()))
    })?;
    Ok(Proved {
        aggregator,
        setup_s,
        salts,
        runs,
    })
}

/// Verifies a proof several times; returns the steps of the fastest run.
fn verify<const N: usize>(
    fixture: &Fixture<N>,
    proved: &Proved<N>,
    keys: &[PublicKey<N>],
    runs: usize,
    exec: Exec<'_>,
) -> Result<Steps> {
    let claimed = fixture.signed(keys, &proved.salts);
    let verified = Runs::all(runs, || {
        let clock = Clock::start();
        (proved.aggregator)
            .verify_on(
                &claimed,
                CONTEXT,
                &proved.runs.bytes,
                exec.with_watch(&clock),
            )
            .map_err(|refused| Error::Check(format!("a proof of this run: {refused}")))?;
        Ok((Vec::new(), clock.end()))
    })?;
    Ok(verified.steps().clone())
}

/// Verifies the signatures in two ways, independently of any proof.
fn measure_plainly<const N: usize>(
    fixture: &Fixture<N>,
    point: Point,
    pool: &rayon::ThreadPool,
) -> Result<Plain> {
    let (n, runs) = (point.signatures, point.runs.max(VERIFICATIONS));
    let exec = Exec::new(point.kernel, Some(pool));
    let (keys_s, keys) = least(runs, || fixture.decode_keys(n, exec));
    let keys = keys?;
    let items = fixture.items(&keys);
    let (batch_s, held) = least(runs, || {
        pool.install(|| plainly(fixture, point.kernel, &items))
    });
    if !held? {
        return Err(Error::Check("a signature of this run does not hold".into()));
    }
    let (fn_dsa_s, held) = least(runs, || fixture.verify_by_fn_dsa(n));
    held?;
    Ok(Plain {
        keys_s,
        batch_s,
        fn_dsa_s,
        bytes: fixture.list_bytes(n),
    })
}

/// Whether all signatures are valid, using all threads and decoding the keys first.
fn plainly<const N: usize>(
    fixture: &Fixture<N>,
    kernel: Backend,
    items: &[Item<'_, N>],
) -> anyhow::Result<bool> {
    let chunk_holds = |chunk: &[Item<'_, N>]| -> anyhow::Result<bool> {
        let keys: Vec<&[u8]> = chunk.iter().map(|item| item.key.bytes()).collect();
        let exec = Exec::new(kernel, None);
        let keys = PublicKey::from_bytes_batch(fixture.flavour, &keys, KeyForm::Values, exec);
        let keys: Vec<PublicKey<N>> = keys.into_iter().collect::<std::result::Result<_, _>>()?;
        let items: Vec<Item<'_, N>> = (chunk.iter().zip(&keys))
            .map(|(item, key)| Item { key, ..*item })
            .collect();
        let verdicts = verify_batch(&items, kernel);
        Ok(verdicts.iter().all(|verdict| verdict.is_ok()))
    };
    let held: anyhow::Result<Vec<bool>> = items.par_chunks(LANES).map(chunk_holds).collect();
    Ok(held?.into_iter().all(|holds| holds))
}

/// Returns the part of a proof that a step of the prover belongs to.
fn prover_part(step: &str) -> &'static str {
    match step {
        "plain verification" | "digest of the statement" | "witness check" => "admission",
        "slack and quotients" | "first commitment" | "second commitment" => "commit",
        "images of blocks" | "projection" => "project",
        _ if step.starts_with("sumcheck: ") => "sumcheck",
        "lifts" => "lifts",
        _ if step.starts_with("later: ") || step == "last level" => "later_levels",
        _ => "garbage",
    }
}

/// Returns the part of a verification that a step belongs to.
fn verifier_part(step: &str) -> &'static str {
    match step {
        "decoding of keys" => "keys",
        "digest of the statement" => "statement_hash",
        "last level" => "final",
        "claim of the sumcheck" => "claim",
        "end of the sumcheck" => "sumcheck",
        _ if step.starts_with("later: ") => "later_levels",
        _ => "level1",
    }
}

/// Proves, and verifies the proof; returns the case and the verifier's steps.
fn measure<const N: usize>(
    fixture: &Fixture<N>,
    point: Point,
    plain: Plain,
    pool: &rayon::ThreadPool,
) -> Result<(Value, Steps)> {
    let exec = Exec::new(point.kernel, Some(pool));
    let keys = fixture.decode_keys(point.signatures, exec)?;
    let proved = prove(&fixture.items(&keys), &point, pool)?;
    let mut steps = verify(fixture, &proved, &keys, point.runs.max(VERIFICATIONS), exec)?;
    steps.each.insert(0, ("decoding of keys", plain.keys_s));
    steps.total_s += plain.keys_s;
    let (proof_bytes, salt_bytes) = (proved.runs.bytes.len(), proved.salts.as_flattened().len());
    let wire_bytes = 1 + salt_bytes + proof_bytes;
    let case = json!({
        "n": point.signatures,
        "preset": point.preset.name(),
        "flavour": flavour_name(fixture.flavour),
        "profile": point.profile.name(),
        "kernel": point.kernel.name(),
        "threads": point.threads,
        "setup_s": proved.setup_s,
        "prove_s": proved.runs.steps().parts(prover_part),
        "verify_s": steps.parts(verifier_part),
        "proof_bytes": proof_bytes,
        "salt_bytes": salt_bytes,
        "total_wire_bytes": wire_bytes,
        "peak_rss_bytes": peak_rss_bytes(),
        "baseline": {
            "plain_batch_s": plain.batch_s,
            "plain_fndsa_s": plain.fn_dsa_s,
            "plain_bytes": plain.bytes,
        },
        "ratios": {
            "verify_of_plain": steps.total_s / plain.batch_s,
            "bytes_of_plain": wire_bytes as f64 / plain.bytes as f64,
        },
    });
    Ok((case, steps))
}
