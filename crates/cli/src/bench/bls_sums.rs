//! `alphorn bench bls sums`: the aggregate keys of all collections of a slot.

use super::columns::{Participation, Shape, Supports, with_jobs};
use super::least;
use crate::error::{Error, Result};
use crate::keycache;
use crate::options::Common;
use crate::progress::Bars;
use crate::report::{Report, table};
use crate::text;
use alphorn_bls::peer::{PeerMethod, peer_key};
use alphorn_bls::{
    CollectionItem, Costs, Exec, G1Affine, KeyTable, Method, SumOptions, SumReport, Workspace,
    sum_columns,
};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

/// Aggregate keys of all collections of a slot
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
    /// Shares (as 0.5 or 95%) or recorded epochs, a case each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0.5,0.95,0.99",
        value_name = "SHARE|FILE"
    )]
    participation: Vec<Participation>,
    /// Runs of each method; the least time counts
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
}

struct Case {
    name: String,
    peers_s: [f64; 3],
    ours_s: f64,
    report: SumReport,
    ones: u64,
    equal: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench bls sums", args.common.seed);
    let kernel = args.common.bls_kernel()?;
    let machine = args.common.machine(kernel)?;
    let pool = args.common.pool()?;
    let layout = args.shape.layout()?;
    let mut bars = Bars::new();
    let keys = keycache::interop_points(
        layout.validators(),
        kernel,
        Exec::new(Some(&pool)),
        &mut bars,
    )?;
    let sizes: Vec<usize> = (0..layout.committees())
        .map(|c| layout.committee_len(c) as usize)
        .collect();
    let key_table = KeyTable::new(kernel, keys, &sizes)?;
    let options = SumOptions {
        method: None,
        costs: Costs::measure(kernel),
    };
    let mut cases = Vec::new();
    for (i, participation) in args.participation.iter().enumerate() {
        bars.show("cases", i as u64, args.participation.len() as u64);
        let supports = Supports::draw(&args.shape, &layout, participation, args.common.seed)?;
        cases.push(measure(
            args,
            &key_table,
            &supports,
            &options,
            &pool,
            participation,
        )?);
    }
    bars.clear();

    let sink = args.common.sink();
    sink.say(&machine.line());
    sink.say(&print(&cases, args));
    let fields = Map::from_iter([(
        "cases".to_owned(),
        Value::Array(cases.iter().map(|case| json_case(case, args)).collect()),
    )]);
    let config = json!({ "shape": &args.shape, "runs": args.runs });
    sink.write(&report.object(&machine, "measured", &config, fields)?)?;
    match cases.iter().find(|case| !case.equal) {
        None => Ok(()),
        Some(case) => Err(Error::Check(format!(
            "{}: the sums differ from those of blst",
            case.name
        ))),
    }
}

fn measure(
    args: &Args,
    key_table: &KeyTable,
    supports: &Supports,
    options: &SumOptions,
    pool: &rayon::ThreadPool,
    participation: &Participation,
) -> Result<Case> {
    let all = supports.all();
    let runs = usize::from(args.runs);
    let mut workspace = Workspace::default();
    let (ours_s, sums) = with_jobs(&all, key_table.committees(), |jobs| {
        least(runs, || {
            sum_columns(key_table, jobs, options, &mut workspace, Some(pool))
        })
    });
    let sums = sums?;
    let mut equal = true;
    let peers_s = PeerMethod::ALL.map(|method| {
        let (seconds, keys) = least(runs, || peer_keys(key_table, &all, method, pool));
        equal &= keys == sums.keys;
        seconds
    });
    let name = match participation {
        Participation::Share(share) => format!("{} %", share * 100.0),
        Participation::File(path) => path.display().to_string(),
    };
    Ok(Case {
        name,
        peers_s,
        ours_s,
        report: sums.report,
        ones: supports.ones(),
        equal,
    })
}

fn peer_keys(
    key_table: &KeyTable,
    all: &[(usize, Vec<&[u64]>)],
    method: PeerMethod,
    pool: &rayon::ThreadPool,
) -> Vec<G1Affine> {
    let one = |(committee, planes): &(usize, Vec<&[u64]>)| {
        let item = CollectionItem {
            committee: *committee,
            planes,
            message: &[],
            signature: &[],
        };
        peer_key(key_table, &item, method)
    };
    pool.install(|| all.par_iter().map(one).collect())
}

fn print(cases: &[Case], args: &Args) -> String {
    let header = [
        "participation",
        "signers",
        "blst naive",
        "blst bulk",
        "blst subtract",
        "ours",
        "vs naive",
        "vs bulk",
        "additions",
        "per addition",
    ];
    let row = |case: &Case| {
        let [naive, bulk, subtract] = case.peers_s;
        vec![
            case.name.clone(),
            text::count(case.ones),
            text::seconds(naive),
            text::seconds(bulk),
            text::seconds(subtract),
            text::seconds(case.ours_s),
            text::ratio(naive / case.ours_s),
            text::ratio(bulk / case.ours_s),
            text::count(case.report.additions),
            text::seconds(case.ours_s / case.report.additions.max(1) as f64),
        ]
    };
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    let collections = u32::from(args.shape.committees) * u32::from(args.shape.collections);
    let verdict = cases.iter().map(|case| {
        format!(
            "{collections} collections, {}: {}, {} blst bulk, {} naive, {}.",
            case.name,
            text::seconds(case.ours_s),
            text::ratio(case.peers_s[1] / case.ours_s),
            text::ratio(case.peers_s[0] / case.ours_s),
            if case.equal {
                "sums equal"
            } else {
                "SUMS DIFFER"
            }
        )
    });
    format!(
        "\n{}\n\n{}",
        table(&header, &rows),
        verdict.collect::<Vec<_>>().join("\n")
    )
}

fn json_case(case: &Case, args: &Args) -> Value {
    let plan: Map<String, Value> = Method::ALL
        .into_iter()
        .map(|method| {
            (
                method.name().to_owned(),
                json!(case.report.methods.get(method)),
            )
        })
        .collect();
    json!({
        "participation": case.name,
        "corr": args.shape.corr,
        "multiplicity": args.shape.multiplicity.parse::<u8>().unwrap_or(1),
        "naive_s": case.peers_s[0],
        "blst_bulk_s": case.peers_s[1],
        "blst_subtract_s": case.peers_s[2],
        "ours_s": case.ours_s,
        "ratio_naive": case.peers_s[0] / case.ours_s,
        "ratio_bulk": case.peers_s[1] / case.ours_s,
        "additions": case.report.additions,
        "ns_per_addition": case.ours_s * 1e9 / case.report.additions.max(1) as f64,
        "plan": plan,
        "split_ms": {
            "plan": case.report.plan_ns as f64 / 1e6,
            "buckets": case.report.buckets_ns as f64 / 1e6,
            "sums": case.report.sums_ns as f64 / 1e6,
        },
        "checked_all": case.equal,
    })
}
