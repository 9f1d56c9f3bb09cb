//! `alphorn bench worker`: what it costs to have jobs done by the worker, and what an accident costs.

mod measure;
mod task;

use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::report::{Report, Sink, json_target, table};
use alphorn_worker::{ChildCommand, serve_child};
use clap::builder::{OsStringValueParser, TypedValueParser};
use measure::Spread;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use task::{Action, BenchTask};

/// Bad inputs of 1,024 for which searches are counted, and how many checks they may take.
const BAD: [(u32, u32); 6] = [
    (0, 1),
    (1, 31),
    (8, 95),
    (64, 390),
    (512, 1050),
    (1024, 1050),
];
/// Jobs whose result comes after it was wanted.
const LATE_JOBS: u32 = 20;

/// What it costs to have jobs done by the worker, and what an accident costs
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench worker
  alphorn bench worker --json worker.json

Jobs that do nothing but pass time, so every figure is the worker's own. start is the time from the
return of submit to the first instruction of the job, finish that from its last to the result in the
caller's hands. busy is the share of the time that the prove lane runs jobs of 80 ms while some wait,
late the results of jobs that ended after they were wanted and did not come. restart is the time from the end of an accident to the end of the next job, which does
nothing, on the same lane; child: in a process that stands by. lag is how late a timer of 2 ms wakes a
thread, idle and while the prove lane computes. Takes about ten seconds.")]
pub(crate) struct Args {
    /// Jobs of which the overhead is taken
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    jobs: u32,
    /// Milliseconds of each measurement of lag
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(100..=600_000))]
    lag_ms: u64,
    /// Threads of the prove lane under which lag is measured
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    prove_threads: u16,
    /// Seed of searches and samples
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the figures as one JSON object, - for standard output
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(json_target))]
    json: Option<PathBuf>,
    /// Be a child of the bench
    #[arg(long, hide = true)]
    serve_child: bool,
}

/// How a child of this bench is started.
fn child() -> Result<ChildCommand> {
    let program = std::env::current_exe();
    Ok(ChildCommand {
        program: program
            .map_err(|error| Error::Check(format!("no path to this binary: {error}")))?,
        args: ["bench", "worker", "--serve-child"]
            .map(Into::into)
            .to_vec(),
        setup: [].into(),
    })
}

fn spread_json(spread: &Spread) -> Value {
    json!({ "p50": spread.p50, "min": spread.min, "max": spread.max })
}

fn lag_json([p50, p99, p999, max]: [f64; 4]) -> Value {
    json!({ "p50": p50, "p99": p99, "p999": p999, "max": max })
}

/// The rows of the table and the fields of the object.
#[derive(Default)]
struct Figures {
    rows: Vec<Vec<String>>,
    fields: Map<String, Value>,
}

impl Figures {
    fn row(&mut self, name: &str, figure: String, note: String) {
        self.rows.push(vec![name.into(), figure, note]);
    }

    fn overhead(&mut self, jobs: u32) -> Result<()> {
        let parts = measure::overhead_us(jobs)?;
        let mut object = Map::new();
        for (name, part) in ["submit", "start", "finish"].into_iter().zip(&parts) {
            let note = format!("least {:.1}", part.min);
            self.row(name, format!("{:.1} us", part.p50), note);
            object.insert(name.into(), spread_json(part));
        }
        self.fields.insert("overhead_us".into(), object.into());
        Ok(())
    }

    fn restarts(&mut self) -> Result<()> {
        let child = child()?;
        let accidents = [
            ("panic", "panic in a thread", Action::Panic, None),
            (
                "child_panic",
                "panic in a child",
                Action::Panic,
                Some(&child),
            ),
            ("abort", "abort of a child", Action::Abort, Some(&child)),
            ("hang", "hang of a child", Action::Hang, Some(&child)),
        ];
        let mut object = Map::new();
        for (field, name, action, child) in accidents {
            let spread = measure::restart_ms(action, child, 5)?;
            let note = format!("least {:.2}, most {:.2}", spread.min, spread.max);
            self.row(name, format!("{:.2} ms", spread.p50), note);
            object.insert(field.into(), spread_json(&spread));
        }
        self.fields.insert("restart_ms".into(), object.into());
        Ok(())
    }

    fn use_of_lanes(&mut self) -> Result<()> {
        let busy_ratio = measure::busy_ratio(3000)?;
        let busy = format!("{:.1} %", busy_ratio * 100.0);
        self.row("prove lane busy", busy, "jobs of 80 ms".into());
        let lost = measure::late_lost(LATE_JOBS)?;
        let note = format!("of {LATE_JOBS} that ended after they were wanted");
        self.row("late results lost", lost.to_string(), note);
        self.fields.insert("busy_ratio".into(), json!(busy_ratio));
        self.fields.insert("late_lost".into(), json!(lost));
        Ok(())
    }

    fn searches(&mut self, seed: u64) -> Result<()> {
        let mut cases = Vec::new();
        for (bad, bound) in BAD {
            let (mean, most, ms) = measure::bisect(1024, bad, seed);
            if most > bound {
                let what =
                    format!("{bad} bad of 1,024 took {most} checks, at most {bound} allowed");
                return Err(Error::Check(what));
            }
            let note = format!(
                "mean {mean:.1}, at most {bound}, {:.0} us without the checks",
                ms * 1e3
            );
            let name = format!("{bad} bad of 1,024");
            self.row(&name, format!("{most} checks"), note);
            cases.push(json!({
                "n": 1024, "k": bad, "checks": most, "checks_mean": mean, "checks_max": bound,
                "ms": ms,
            }));
        }
        self.fields.insert("bisect".into(), cases.into());
        Ok(())
    }

    fn costs(&mut self, seed: u64) {
        let (coverage90, recover_jobs) = measure::cost(seed);
        let coverage = format!("{:.1} %", coverage90 * 100.0);
        self.row("within the 90 % prediction", coverage, "500 jobs".into());
        let recover = format!("{recover_jobs} jobs");
        self.row("three times slower", recover, "until learned".into());
        let cost = json!({ "coverage90": coverage90, "recover_jobs": recover_jobs });
        self.fields.insert("cost".into(), cost);
    }

    fn lags(&mut self, args: &Args) -> Result<()> {
        let mut object = Map::new();
        for (field, load) in [("idle", false), ("loaded", true)] {
            let lag = measure::lag_ms(args.lag_ms, load, args.prove_threads)?;
            let [p50, p99, p999, max] = lag;
            let note = format!("p99 {p99:.2}, p99.9 {p999:.2}, most {max:.2}");
            self.row(&format!("lag, {field}"), format!("{p50:.2} ms"), note);
            object.insert(field.into(), lag_json(lag));
        }
        self.fields.insert("lag_ms".into(), object.into());
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.serve_child {
        return match serve_child::<BenchTask>(|_| Ok(())) {
            ExitCode::SUCCESS => Ok(()),
            _ => Err(Error::Check("the child ended before its parent".into())),
        };
    }
    let report = Report::begin("bench worker", args.seed);
    let machine = Machine::here(usize::from(args.prove_threads), BTreeMap::new());
    let sink = Sink::new(args.json.clone());
    sink.say(&machine.line());
    let mut figures = Figures::default();
    figures.overhead(args.jobs)?;
    let plan_op_ns = measure::plan_op_ns(100_000);
    figures.row(
        "operation of the plan",
        format!("{plan_op_ns:.0} ns"),
        "1,023 wait".into(),
    );
    figures.use_of_lanes()?;
    figures.restarts()?;
    figures.searches(args.seed)?;
    figures.costs(args.seed);
    figures.lags(args)?;
    sink.say(&table(&["what", "figure", ""], &figures.rows));
    let mut fields = figures.fields;
    fields.insert("bench".into(), json!("worker"));
    fields.insert("plan_op_ns".into(), json!(plan_op_ns));
    let config = json!({
        "jobs": args.jobs, "lag_ms": args.lag_ms, "prove_threads": args.prove_threads,
    });
    sink.write(&report.object(&machine, "measured", &config, fields)?)
}
