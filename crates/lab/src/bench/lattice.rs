//! `alphorn bench lattice`: proofs of Falcon signatures beside verifying them plainly.

mod costs;
mod peers;
mod program;
mod watch;
mod world;

use super::least;
use crate::error::{Error, Result};
use crate::lattice::params::{check_number, levels_json, scheme_of};
use crate::lattice::{LatticeOptions, degree, flavour_name, preset, security};
use crate::levels::levels;
use crate::machine::{Machine, peak_rss_bytes};
use crate::options::{self, Json, distinct};
use crate::overwrite::check_apart;
use crate::report::{Report, table, target, write_whole};
use crate::text;
use crate::timing::Clock;
use alphorn_exec::{Backend, Exec};
use alphorn_falcon::ring::LANES;
use alphorn_falcon::{
    Aggregator, DEGREE, Item, KeyForm, Preset, PublicKey, SALT_BYTES, verify_batch,
};
use alphorn_labrador::sis::Profile;
use anyhow::anyhow;
use clap::builder::{OsStringValueParser, TypedValueParser};
use program::Ran;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use watch::Steps;
use world::{KEYS_MAX, World};

/// What the proofs of the measurements are bound to.
const CONTEXT: &[u8] = b"alphorn/bench/lattice";

/// Proofs of Falcon signatures, beside verifying the signatures
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench lattice --n 100,1000
  alphorn bench lattice --n 1000 --kernel portable,avx2,avx512 --profile falcon
  alphorn bench lattice --n 1000 --preset fast,small
  alphorn bench lattice --n 100,1000 --degree 1024
  alphorn bench lattice --n 1000,10000 --threads 1 --peer ./labrador.sh
  alphorn bench lattice --n 16,256,1000 --emit-costs falcon.json --json -

Each number of signatures has rows under each other: the proof, the same signatures verified plainly
in batches by this program and one by one by the crate fn-dsa, the program of --peer, and other systems,
whose figures are cited and not of this run. Verification starts from bytes: public keys are decoded in every row; a
node decodes them once. All but fn-dsa uses --threads; parameters and commitment keys are made once for a number of signatures and are said in
front. Below are the steps of the verifier.")]
pub(crate) struct Args {
    /// Numbers of signatures, 1 to 20000
    #[arg(long, value_name = "N", default_value = "1000", value_delimiter = ',')]
    n: Vec<u32>,
    /// Threads, but for fn-dsa; all cores that this process may use by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// What a proof saves: time of verification (fast) or bytes (small); both beside each other with a
    /// comma
    #[arg(long, value_name = "PRESET", value_parser = preset, default_value = "fast", value_delimiter = ',')]
    preset: Vec<Preset>,
    #[command(flatten)]
    lattice: LatticeOptions,
    /// Degree of the signatures: 512 (Falcon-512) or 1024 (Falcon-1024)
    #[arg(long, value_name = "DEGREE", value_parser = degree, default_value_t = DEGREE)]
    degree: usize,
    /// Kernels: auto, portable, avx2 or avx512, a case each; or labrador=LEVEL
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "auto",
        value_delimiter = ','
    )]
    kernel: Vec<String>,
    /// Runs of each operation, of verifications at least eight; the least time counts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// A program that proves and verifies the same signatures in the same run (falcon.md says how it is called)
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<PathBuf>,
    #[command(flatten)]
    json: Json,
    /// Write a cost table for the simulator, measured on one thread with the first preset and the last kernel, of
    /// degree 512 alone
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(target))]
    emit_costs: Option<PathBuf>,
}

/// Verifications of each kind at least, and times that keys are decoded, of which the fastest counts. In the first ones
/// the allocator gives back what a prover took and takes pages anew, some ten thousand of them, which no process
/// does that verifies alone.
const VERIFICATIONS: usize = 8;

/// What is measured at once.
#[derive(Clone, Copy, Debug)]
struct Point {
    preset: Preset,
    degree: usize,
    signatures: usize,
    profile: Profile,
    kernel: Backend,
    threads: usize,
    runs: usize,
}

/// What a point comes to, in seconds.
struct Figures {
    point: Point,
    setup_s: f64,
    prove: Steps,
    verify: Steps,
    proof_bytes: usize,
    salt_bytes: usize,
    /// Bytes of the list of the signatures.
    plain_bytes: usize,
    plain: Plain,
    levels: Value,
    security: Value,
    peak_rss_bytes: u64,
}

/// What the signatures themselves take, in seconds.
#[derive(Clone, Copy)]
struct Plain {
    keys_s: f64,
    batch_s: f64,
    fn_dsa_s: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench lattice", 0);
    let sink = args.json.sink();
    let outputs = [args.emit_costs.as_deref(), sink.path()];
    check_apart([], outputs.into_iter().flatten())?;
    args.n.iter().try_for_each(|&n| check_number(n))?;
    distinct("--n", &args.n)?;
    distinct("--preset", &args.preset)?;
    let first = *args.preset.first().ok_or_else(|| anyhow!("no preset"))?;
    let degree = args.degree;
    if args.emit_costs.is_some() && degree != DEGREE {
        let message = anyhow!("--emit-costs: scenarios have Falcon-512, --degree is {degree}");
        return Err(message.into());
    }
    let (flavour, profile) = (args.lattice.flavour(), args.lattice.profile());
    let threads = args.threads.map_or_else(crate::machine::cores, usize::from);
    let kernels = levels(&alphorn_labrador::KERNELS, &args.kernel, threads)?;
    let machine = Machine::with(threads, &alphorn_labrador::KERNELS, &kernels);
    let most = args.n.iter().copied().max().unwrap_or(1) as usize;
    let pool = options::pool(threads)?;
    sink.say(&machine.line());
    let cases = match degree {
        DEGREE => {
            let world = World::<DEGREE>::new(flavour, most, &pool)?;
            let cases = cases(&world, args, &kernels, threads, &pool)?;
            if let (Some(path), Some(kernel)) = (&args.emit_costs, kernels.last()) {
                let table = costs::table(&world, (first, profile), *kernel, &args.n, &machine)?;
                write_whole(path, table.as_bytes())?;
            }
            cases
        }
        _ => {
            let world = World::<1024>::new(flavour, most, &pool)?;
            cases(&world, args, &kernels, threads, &pool)?
        }
    };
    let config = json!({
        "n": args.n,
        "threads": threads,
        "presets": args.preset.iter().map(|preset| preset.name()).collect::<Vec<_>>(),
        "flavour": flavour_name(flavour),
        "degree": degree,
        "profile": profile.name(),
        "runs": args.runs,
        "keys_max": KEYS_MAX,
    });
    let fields = json!({ "cases": Value::Array(cases) });
    sink.write(&report.object(&machine, "measured", &config, fields)?)
}

/// Measures every kernel, number of signatures and preset, and prints their tables.
fn cases<const N: usize>(
    world: &World<N>,
    args: &Args,
    kernels: &[Backend],
    threads: usize,
    pool: &rayon::ThreadPool,
) -> Result<Vec<Value>> {
    let sink = args.json.sink();
    let mut cases = Vec::new();
    let mut ran = BTreeMap::new();
    for kernel in kernels {
        for n in &args.n {
            // Once, whatever the kernels are.
            if let (Some(program), Entry::Vacant(entry)) = (&args.peer, ran.entry(*n)) {
                entry.insert(program::run(program, world, *n as usize, threads)?);
            }
            let ran = ran.get(n);
            let point = |preset| Point {
                preset,
                degree: N,
                signatures: *n as usize,
                profile: args.lattice.profile(),
                kernel: *kernel,
                threads,
                runs: usize::from(args.runs),
            };
            let plain = measure_plainly(world, point(Preset::default()), pool)?;
            let presets = args.preset.iter();
            let measured = presets.map(|&preset| measure(world, point(preset), plain, pool));
            let figures: Vec<Figures> = measured.collect::<Result<_>>()?;
            sink.say(&printed(&figures, ran));
            cases.extend(figures.iter().map(|figures| case(world, figures, ran)));
        }
    }
    Ok(cases)
}

/// A proof and what it took.
struct Proved<const N: usize> {
    aggregator: Aggregator<N>,
    setup_s: f64,
    salts: Vec<[u8; SALT_BYTES]>,
    proof: Vec<u8>,
    steps: Steps,
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
    let timed = || -> Result<_> {
        let clock = Clock::start();
        let (salts, proof) = aggregator.prove_on(items, CONTEXT, exec.with_watch(&clock))?;
        Ok((salts, proof, Steps::of(clock)))
    };
    let (salts, proof, mut steps) = timed()?;
    for _ in 1..point.runs {
        let (_, again, other) = timed()?;
        if again != proof {
            return Err(Error::Check("two runs made different proofs".into()));
        }
        if other.total_s < steps.total_s {
            steps = other;
        }
    }
    Ok(Proved {
        aggregator,
        setup_s,
        salts,
        proof,
        steps,
    })
}

/// Verifies a proof several times; the steps of the fastest run.
fn verify<const N: usize>(
    world: &World<N>,
    proved: &Proved<N>,
    keys: &[PublicKey<N>],
    runs: usize,
    exec: Exec<'_>,
) -> Result<Steps> {
    let claimed = world.signed(keys, &proved.salts);
    let timed = || -> Result<Steps> {
        let clock = Clock::start();
        (proved.aggregator)
            .verify_on(&claimed, CONTEXT, &proved.proof, exec.with_watch(&clock))
            .map_err(|refused| Error::Check(format!("a proof of this run: {refused}")))?;
        Ok(Steps::of(clock))
    };
    let mut best = timed()?;
    for _ in 1..runs {
        let again = timed()?;
        if again.total_s < best.total_s {
            best = again;
        }
    }
    Ok(best)
}

/// Verifies the signatures in two ways, whatever proves them.
fn measure_plainly<const N: usize>(
    world: &World<N>,
    point: Point,
    pool: &rayon::ThreadPool,
) -> Result<Plain> {
    let (n, runs) = (point.signatures, point.runs.max(VERIFICATIONS));
    let exec = Exec::new(point.kernel, Some(pool));
    let (keys_s, keys) = least(runs, || world.decode_keys(n, exec));
    let keys = keys?;
    let items = world.items(&keys);
    let (batch_s, held) = least(runs, || pool.install(|| plainly(world, &point, &items)));
    if !held? {
        return Err(Error::Check("a signature of this run does not hold".into()));
    }
    let (fn_dsa_s, held) = least(runs, || world.verify_by_fn_dsa(n));
    held?;
    Ok(Plain {
        keys_s,
        batch_s,
        fn_dsa_s,
    })
}

/// Proves, and verifies the proof.
fn measure<const N: usize>(
    world: &World<N>,
    point: Point,
    plain: Plain,
    pool: &rayon::ThreadPool,
) -> Result<Figures> {
    let exec = Exec::new(point.kernel, Some(pool));
    let keys = world.decode_keys(point.signatures, exec)?;
    let proved = prove(&world.items(&keys), &point, pool)?;
    let steps = verify(world, &proved, &keys, point.runs.max(VERIFICATIONS), exec)?;
    let schedule = proved.aggregator.schedule();
    Ok(Figures {
        point,
        setup_s: proved.setup_s,
        prove: proved.steps,
        verify: steps,
        proof_bytes: proved.proof.len(),
        salt_bytes: proved.salts.as_flattened().len(),
        plain_bytes: world.list_bytes(point.signatures),
        plain,
        levels: levels_json(schedule),
        security: security::json(N, schedule),
        peak_rss_bytes: peak_rss_bytes(),
    })
}

/// Whether all signatures hold, by all threads, keys decoded first.
fn plainly<const N: usize>(
    world: &World<N>,
    point: &Point,
    items: &[Item<'_, N>],
) -> anyhow::Result<bool> {
    let chunk_holds = |chunk: &[Item<'_, N>]| -> anyhow::Result<bool> {
        let keys: Vec<&[u8]> = chunk.iter().map(|item| item.key.bytes()).collect();
        let exec = Exec::new(point.kernel, None);
        let keys = PublicKey::from_bytes_batch(world.flavour, &keys, KeyForm::Values, exec);
        let keys: Vec<PublicKey<N>> = keys.into_iter().collect::<std::result::Result<_, _>>()?;
        let items: Vec<Item<'_, N>> = (chunk.iter().zip(&keys))
            .map(|(item, key)| Item { key, ..*item })
            .collect();
        let verdicts = verify_batch(&items, point.kernel);
        Ok(verdicts.iter().all(|verdict| verdict.is_ok()))
    };
    let held: anyhow::Result<Vec<bool>> = items.par_chunks(LANES).map(chunk_holds).collect();
    Ok(held?.into_iter().all(|holds| holds))
}

impl Figures {
    /// Verification of the proof, decoding of keys included.
    fn verify_s(&self) -> f64 {
        self.plain.keys_s + self.verify.total_s
    }

    fn wire_bytes(&self) -> usize {
        1 + self.salt_bytes + self.proof_bytes
    }
}

/// The table of one number of signatures: a row for each preset, then what they are beside, and the
/// steps of the verifier.
fn printed(presets: &[Figures], ran: Option<&Ran>) -> String {
    let Some(figures) = presets.first() else {
        return String::new();
    };
    let Point {
        degree,
        signatures,
        profile,
        kernel,
        threads,
        ..
    } = figures.point;
    let (taken, plain) = (figures.plain, figures.plain_bytes);
    let row = |name: &str, prove: &str, verify_s: f64, bytes: usize| {
        vec![
            name.to_owned(),
            prove.to_owned(),
            text::seconds(verify_s),
            text::ratio(verify_s / taken.batch_s),
            text::bytes(bytes as u64),
            format!("{:.0} %", bytes as f64 / plain as f64 * 100.0),
        ]
    };
    let proof = |figures: &Figures| {
        let preset = figures.point.preset.name();
        let profile = profile.name();
        let name = format!("proof ({preset}), {threads} threads ({kernel}, {profile})");
        let proved = text::seconds(figures.prove.total_s);
        row(&name, &proved, figures.verify_s(), figures.wire_bytes())
    };
    let mut rows: Vec<Vec<String>> = presets.iter().map(proof).collect();
    let batch = format!("signatures, batches, {threads} threads ({kernel})");
    rows.push(row(&batch, "-", taken.batch_s, plain));
    rows.push(row(
        "signatures, fn-dsa, 1 thread",
        "-",
        taken.fn_dsa_s,
        plain,
    ));
    rows.extend(ran.map(|ran| {
        let name = format!("same run: {}, {threads} threads", ran.name);
        let proved = text::seconds(ran.prove_s);
        row(&name, &proved, ran.verify_s, ran.bytes as usize)
    }));
    rows.extend(peers::of(degree, signatures as u32).map(|peer| {
        vec![
            format!("cited: {}, {}", peer.name, peer.machine),
            text::seconds(peer.prove_s),
            text::seconds(peer.verify_s),
            "-".into(),
            format!("{} KiB without salts", peer.size_kib),
            "-".into(),
        ]
    }));
    let header = ["row", "prove", "verify", "of plain", "bytes", "of plain"];
    format!(
        "\n{} signatures{}: parameters and commitment keys {}, once\n{}\n{}\n{}",
        text::count(signatures as u64),
        scheme_of(degree),
        text::seconds(figures.setup_s),
        table(&header, &rows),
        said(figures),
        profile_of_verifier(figures)
    )
}

/// The steps of the verifier, keys first, beside the plain batch of the same run.
fn profile_of_verifier(figures: &Figures) -> String {
    let total = figures.verify_s();
    let row = |name: &str, seconds: f64| {
        vec![
            name.to_owned(),
            text::seconds(seconds),
            format!("{:.0} %", seconds / total * 100.0),
        ]
    };
    let mut rows = vec![row("decoding of keys", figures.plain.keys_s)];
    rows.extend((figures.verify.each()).map(|(name, seconds)| row(name, seconds)));
    rows.push(row("verification", total));
    rows.push(row("plain, in batches", figures.plain.batch_s));
    let preset = figures.point.preset.name();
    table(&[&format!("step ({preset})"), "time", "share"], &rows)
}

/// What the rows say, in words.
fn said(figures: &Figures) -> String {
    let (wire, plain) = (figures.wire_bytes(), figures.plain_bytes);
    let slower = figures.verify_s() / figures.plain.batch_s;
    let bytes = match wire < plain {
        true => format!(
            "A proof buys bytes: {} fewer.",
            text::bytes((plain - wire) as u64)
        ),
        false => format!(
            "So few signatures are shorter than their proof, by {}.",
            text::bytes((wire - plain) as u64)
        ),
    };
    match slower > 1.0 {
        true => format!(
            "Plain verification is faster than that of the proof, by {}. {bytes}",
            text::ratio(slower)
        ),
        false => format!(
            "The proof is verified faster than its signatures, by {}. {bytes}",
            text::ratio(1.0 / slower)
        ),
    }
}

fn case<const N: usize>(world: &World<N>, figures: &Figures, ran: Option<&Ran>) -> Value {
    let point = &figures.point;
    let mut prove = figures.prove.of_prover();
    prove.insert("total".into(), json!(figures.prove.total_s));
    let mut verify = figures.verify.of_verifier();
    verify.insert("keys".into(), json!(figures.plain.keys_s));
    verify.insert("total".into(), json!(figures.verify_s()));
    let cited = peers::of(point.degree, point.signatures as u32).map(peers::json);
    let ran = ran.map(|ran| program::json(ran, point.threads));
    let peers: Vec<Value> = cited.chain(ran).collect();
    json!({
        "n": point.signatures,
        "preset": point.preset.name(),
        "flavour": flavour_name(world.flavour),
        "profile": point.profile.name(),
        "kernel": point.kernel.name(),
        "threads": point.threads,
        "setup_s": figures.setup_s,
        "prove_s": prove,
        "verify_s": verify,
        "proof_bytes": figures.proof_bytes,
        "salt_bytes": figures.salt_bytes,
        "total_wire_bytes": figures.wire_bytes(),
        "peak_rss_bytes": figures.peak_rss_bytes,
        "levels": figures.levels,
        "security": figures.security,
        "baseline": {
            "plain_batch_s": figures.plain.batch_s,
            "plain_fndsa_s": figures.plain.fn_dsa_s,
            "plain_bytes": figures.plain_bytes,
        },
        "ratios": {
            "verify_of_plain": figures.verify_s() / figures.plain.batch_s,
            "bytes_of_plain": figures.wire_bytes() as f64 / figures.plain_bytes as f64,
        },
        "peers": peers,
    })
}
