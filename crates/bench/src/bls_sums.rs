//! `alphorn bench bls sums`: the aggregate keys of all collections of a slot.

use super::harness::{Bench, Column, count, ns};
use super::supports::{Planes, Shape, Supports, with_jobs};
use alphorn_bls::peer::{PeerMethod, peer_key};
use alphorn_bls::{
    CollectionItem, Costs, G1Affine, KeyTable, Method, SumOptions, Workspace, sum_columns,
};
use alphorn_exec::{Backend, Exec};
use alphorn_lab::distinct::distinct;
use alphorn_lab::error::Result;
use alphorn_lab::keycache;
use alphorn_lab::options::Common;
use alphorn_lab::participation::{Participation, check_records};
use alphorn_lab::progress::Bars;
use alphorn_lab::report::Report;
use alphorn_lab::text::{ratio, seconds};
use alphorn_lab::timing::least;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

/// Benchmark the aggregate keys of all collections of a slot
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench bls sums
  alphorn bench bls sums --participation 0.5 --threads 1 --kernel portable
  alphorn bench bls sums --validators 392036 --participation vectors/goerli-epoch-148260")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    shape: Shape,
    /// Voters: shares (such as 0.5 or 95%) or recorded epochs, one case each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0.5,0.95,0.99",
        value_name = "SHARE|FILE",
        allow_negative_numbers = true
    )]
    participation: Vec<Participation>,
    /// Number of runs per method; the minimum time counts
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
}

const COLUMNS: [Column; 10] = [
    ("kernel", "/kernel", count),
    ("participation", "/participation", count),
    ("signers", "/signers", count),
    ("blst naive", "/naive_s", seconds),
    ("blst bulk", "/blst_bulk_s", seconds),
    ("blst subtract", "/blst_subtract_s", seconds),
    ("ours", "/ours_s", seconds),
    ("vs strongest", "/ratio_strongest", ratio),
    ("additions", "/additions", count),
    ("per addition", "/ns_per_addition", ns),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench bls sums", args.common.seed);
    let sink = args.common.sink();
    check_records(&args.participation, sink.path())?;
    distinct("--participation", &args.participation)?;
    let kernels = args.common.kernels(&alphorn_bls::KERNELS)?;
    let bench = Bench::new(report, sink, args.common.machine_of(&kernels)?);
    let pool = args.common.pool()?;
    let mut bars = Bars::new();
    let mut cases = Vec::new();
    for kernel in kernels {
        cases.extend(on_kernel(args, kernel, &pool, &mut bars)?);
    }
    bars.clear();
    bench.table(&cases, &COLUMNS);
    let differs = cases.iter().find(|case| case["checked_all"] == false);
    let wrong = differs.map(|case| {
        let name = &case["participation"];
        format!("{name}: the sums differ from those of blst")
    });
    let config = json!({ "shape": &args.shape, "runs": args.runs });
    bench.end(&config, json!({ "cases": cases }), wrong)
}

fn on_kernel(
    args: &Args,
    kernel: Backend,
    pool: &rayon::ThreadPool,
    bars: &mut Bars,
) -> Result<Vec<Value>> {
    let layout = args.shape.layout()?;
    let exec = Exec::new(kernel, Some(pool));
    let interop = keycache::interop_registry(layout.validators(), exec, bars)?.registry;
    let points = interop.keys().iter().map(|key| *key.point()).collect();
    let sizes: Vec<usize> = (0..layout.committees())
        .map(|c| layout.committee_len(c) as usize)
        .collect();
    let table = KeyTable::new(kernel, points, &sizes).map_err(anyhow::Error::from)?;
    let options = SumOptions {
        method: None,
        costs: Costs::measure(kernel),
    };
    let mut cases = Vec::new();
    for (at, participation) in args.participation.iter().enumerate() {
        bars.show("cases", at as u64, args.participation.len() as u64);
        let supports = Supports::draw(&args.shape, &layout, participation, args.common.seed)?;
        cases.push(case(
            args,
            &table,
            &options,
            participation,
            &supports,
            pool,
        )?);
    }
    Ok(cases)
}

/// Measures the sums of a slot by every method.
fn case(
    args: &Args,
    table: &KeyTable,
    options: &SumOptions,
    participation: &Participation,
    supports: &Supports,
    pool: &rayon::ThreadPool,
) -> Result<Value> {
    let all = supports.all();
    let runs = usize::from(args.runs);
    let mut workspace = Workspace::default();
    let exec = Exec::new(table.backend(), Some(pool));
    let (ours_s, sums) = with_jobs(&all, table.committees(), |jobs| {
        least(runs, || {
            sum_columns(table, jobs, options, &mut workspace, exec)
        })
    });
    let sums = sums.map_err(anyhow::Error::from)?;
    let mut equal = true;
    let [naive_s, bulk_s, subtract_s] = PeerMethod::ALL.map(|method| {
        let (seconds, keys) = least(runs, || peer_keys(table, &all, method, pool));
        equal &= keys == sums.keys;
        seconds
    });
    let report = &sums.report;
    let plan = Method::ALL.into_iter();
    let plan: Map<String, Value> = plan
        .map(|method| (method.name().to_owned(), json!(report.methods.get(method))))
        .collect();
    let ms = |ns: u64| ns as f64 / 1e6;
    Ok(json!({
        "kernel": table.backend().name(),
        "participation": participation.to_string(),
        "multiplicity": args.shape.multiplicity.parse::<u8>().unwrap_or(1),
        "signers": supports.ones(),
        "naive_s": naive_s,
        "blst_bulk_s": bulk_s,
        "blst_subtract_s": subtract_s,
        "ours_s": ours_s,
        "ratio_strongest": naive_s.min(bulk_s).min(subtract_s) / ours_s,
        "additions": report.additions,
        "ns_per_addition": ours_s * 1e9 / report.additions.max(1) as f64,
        "plan": plan,
        "split_ms": {
            "plan": ms(report.plan_ns),
            "buckets": ms(report.buckets_ns),
            "transform": ms(report.sums_ns),
        },
        "checked_all": equal,
    }))
}

fn peer_keys(
    table: &KeyTable,
    all: &[Planes<'_>],
    method: PeerMethod,
    pool: &rayon::ThreadPool,
) -> Vec<G1Affine> {
    let one = |(committee, planes): &Planes<'_>| {
        let item = CollectionItem {
            committee: *committee,
            planes,
            message: &[],
            signature: &[],
        };
        peer_key(table, &item, method)
    };
    pool.install(|| all.par_iter().map(one).collect())
}
