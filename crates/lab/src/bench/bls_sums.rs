//! `alphorn bench bls sums`: the aggregate keys of all collections of a slot.

mod keys;

use super::columns::{Shape, Supports, table_of, with_jobs};
use super::least;
use crate::error::{Error, Result};
use crate::keycache;
use crate::options::{Common, distinct};
use crate::participation::{Participation, check_records};
use crate::progress::Bars;
use crate::report::{Report, columns};
use crate::text;
use alphorn_bls::peer::{PeerMethod, peer_key};
use alphorn_bls::{
    CollectionItem, Costs, G1Affine, KeyTable, Method, SumOptions, SumReport, Workspace,
    sum_columns,
};
use alphorn_exec::{Backend, Exec};
use keys::Keys;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

/// Aggregate keys of all collections of a slot
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench bls sums
  alphorn bench bls sums --participation 0.5 --threads 1 --kernel portable
  alphorn bench bls sums --keys clones,pairs,sequence --participation 0.5
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
        value_name = "SHARE|FILE",
        allow_negative_numbers = true
    )]
    participation: Vec<Participation>,
    /// Keys of the committees, a case each; beside others, the same sums of interop keys are timed
    #[arg(long, value_enum, value_delimiter = ',', default_value = "interop")]
    keys: Vec<Keys>,
    /// Runs of each method; the least time counts
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
}

/// The sums of a slot by every method.
struct Case {
    kernel: Backend,
    name: String,
    keys: Keys,
    /// Our time for the same supports of interop keys.
    interop_s: f64,
    /// By the methods of [`PeerMethod::ALL`].
    peers_s: [f64; 3],
    /// Our time.
    ours_s: f64,
    report: SumReport,
    ones: u64,
    /// Whether all methods found the same keys.
    equal: bool,
}

impl Case {
    /// Seconds of blst's fastest way.
    fn strongest_s(&self) -> f64 {
        self.peers_s.into_iter().fold(f64::INFINITY, f64::min)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench bls sums", args.common.seed);
    let sink = args.common.sink();
    check_records(&args.participation, sink.path())?;
    distinct("--participation", &args.participation)?;
    distinct("--keys", &args.keys)?;
    let kernels = args.common.kernels(&alphorn_bls::KERNELS)?;
    let machine = args.common.machine_of(&kernels)?;
    let pool = args.common.pool()?;
    let mut bars = Bars::new();
    let mut cases = Vec::new();
    for kernel in kernels {
        on_kernel(args, kernel, &pool, &mut bars, &mut cases)?;
    }
    bars.clear();

    sink.say(&machine.line());
    sink.say(&print(&cases, args));
    let fields = json!({
        "cases": Value::Array(cases.iter().map(|case| json_case(case, args)).collect()),
    });
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

fn on_kernel(
    args: &Args,
    kernel: Backend,
    pool: &rayon::ThreadPool,
    bars: &mut Bars,
    cases: &mut Vec<Case>,
) -> Result<()> {
    let layout = args.shape.layout()?;
    let exec = Exec::new(kernel, Some(pool));
    let interop = keycache::interop_points(layout.validators(), exec, bars)?;
    let bench = Bench {
        runs: usize::from(args.runs),
        options: SumOptions {
            method: None,
            costs: Costs::measure(kernel),
        },
        pool,
        interop: &table_of(interop.clone(), &layout, kernel)?,
    };
    let count = (args.keys.len() * args.participation.len()) as u64;
    for (k, keys) in args.keys.iter().enumerate() {
        let table = match keys {
            Keys::Interop => None,
            keys => Some(table_of(
                keys.points(&interop, &layout, kernel),
                &layout,
                kernel,
            )?),
        };
        for (p, participation) in args.participation.iter().enumerate() {
            bars.show("cases", (k * args.participation.len() + p) as u64, count);
            let supports = Supports::draw(&args.shape, &layout, participation, args.common.seed)?;
            cases.push(bench.measure(*keys, table.as_ref(), &supports, participation)?);
        }
    }
    Ok(())
}

/// What all cases share.
struct Bench<'a> {
    /// Runs of each method; the least time counts.
    runs: usize,
    /// How we sum.
    options: SumOptions,
    /// The threads.
    pool: &'a rayon::ThreadPool,
    /// Interop keys.
    interop: &'a KeyTable,
}

impl Bench<'_> {
    /// `table` holds the keys if they are not the interop keys.
    fn measure(
        &self,
        keys: Keys,
        table: Option<&KeyTable>,
        supports: &Supports,
        participation: &Participation,
    ) -> Result<Case> {
        let all = supports.all();
        let runs = self.runs;
        let mut workspace = Workspace::default();
        let mut ours = |table: &KeyTable| {
            with_jobs(&all, table.committees(), |jobs| {
                least(runs, || {
                    sum_columns(
                        table,
                        jobs,
                        &self.options,
                        &mut workspace,
                        Exec::new(table.backend(), Some(self.pool)),
                    )
                })
            })
        };
        let interop_s = table.map(|_| ours(self.interop).0);
        let table = table.unwrap_or(self.interop);
        let (ours_s, sums) = ours(table);
        let sums = sums?;
        let mut equal = true;
        let peers_s = PeerMethod::ALL.map(|method| {
            let (seconds, keys) = least(runs, || peer_keys(table, &all, method, self.pool));
            equal &= keys == sums.keys;
            seconds
        });
        let name = match participation {
            Participation::Share(share) => format!("{} %", share * 100.0),
            Participation::File(path) => path.display().to_string(),
        };
        Ok(Case {
            kernel: table.backend(),
            name,
            keys,
            interop_s: interop_s.unwrap_or(ours_s),
            peers_s,
            ours_s,
            report: sums.report,
            ones: supports.ones(),
            equal,
        })
    }
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
    let row = |case: &Case| {
        let [naive, bulk, subtract] = case.peers_s;
        vec![
            ("kernel", case.kernel.name().into()),
            ("participation", case.name.clone()),
            ("keys", case.keys.name().into()),
            ("signers", text::count(case.ones)),
            ("blst naive", text::seconds(naive)),
            ("blst bulk", text::seconds(bulk)),
            ("blst subtract", text::seconds(subtract)),
            ("ours", text::seconds(case.ours_s)),
            (
                "vs strongest",
                text::ratio(case.strongest_s() / case.ours_s),
            ),
            ("additions", text::count(case.report.additions)),
            (
                "per addition",
                text::seconds(case.ours_s / case.report.additions.max(1) as f64),
            ),
            ("to interop", text::ratio(case.ours_s / case.interop_s)),
        ]
    };
    let collections = u32::from(args.shape.committees) * u32::from(args.shape.collections);
    let verdict = cases.iter().map(|case| {
        format!(
            "{collections} collections, kernel {}, {}, {} keys: {}, {} the fastest way with blst, {} interop keys, {}.",
            case.kernel,
            case.name,
            case.keys.name(),
            text::seconds(case.ours_s),
            text::ratio(case.strongest_s() / case.ours_s),
            text::ratio(case.ours_s / case.interop_s),
            if case.equal {
                "sums equal"
            } else {
                "SUMS DIFFER"
            }
        )
    });
    format!(
        "\n{}\n\n{}",
        columns(cases.iter().map(row)),
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
        "kernel": case.kernel.name(),
        "participation": case.name,
        "keys": case.keys,
        "corr": args.shape.corr,
        "multiplicity": args.shape.multiplicity.parse::<u8>().unwrap_or(1),
        "naive_s": case.peers_s[0],
        "blst_bulk_s": case.peers_s[1],
        "blst_subtract_s": case.peers_s[2],
        "ours_s": case.ours_s,
        "ratio_naive": case.peers_s[0] / case.ours_s,
        "ratio_bulk": case.peers_s[1] / case.ours_s,
        "ratio_strongest": case.strongest_s() / case.ours_s,
        "ratio_interop": case.ours_s / case.interop_s,
        "additions": case.report.additions,
        "ns_per_addition": case.ours_s * 1e9 / case.report.additions.max(1) as f64,
        "plan": plan,
        "split_ms": {
            "plan": case.report.plan_ns as f64 / 1e6,
            "buckets": case.report.buckets_ns as f64 / 1e6,
            "transform": case.report.sums_ns as f64 / 1e6,
        },
        "checked_all": case.equal,
    })
}
