//! `alphorn sim run`: a scenario with its seeds and its sweep, or the runs of a plan.

use super::print::print;
use super::source::{Asked, shell};
use super::work::{self, Ran, Work};
use super::{folder, merge};
use crate::error::{Error, Result};
use crate::input;
use crate::machine::{Machine, commit};
use crate::options::Json;
use crate::overwrite::check_apart;
use crate::report::Report;
use alphorn_sim::report::manifest::Manifest;
use alphorn_sim::sweep::{Item, LINE_BYTES_MAX, Merged, Plan};
use anyhow::anyhow;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Run a scenario with its seeds and its sweep, or the runs of a plan
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    asked: Option<Asked>,
    /// Run a plan (alphorn sim plan) instead of a scenario
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "Asked",
        required_unless_present = "scenario"
    )]
    plan: Option<PathBuf>,
    /// Do a single run of the plan, by number from 0
    #[arg(long, value_name = "I", requires = "plan", conflicts_with = "shard")]
    index: Option<u64>,
    /// Do every K-th run, starting with number I
    #[arg(long, value_name = "I/K", value_parser = shard)]
    shard: Option<(u64, u64)>,
    /// Number of threads: runs at a time, or threads of a single run (default: all cores of this process)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Memory for all runs together in megabytes (default: four fifths of this host's)
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    memory_mb: Option<u64>,
    /// Folder for manifest, tables, trace and report; runs already finished there are not repeated, except
    /// those of a program with uncommitted changes
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    json: Json,
}

/// Parses `I/K` with I below K.
fn shard(text: &str) -> std::result::Result<(u64, u64), String> {
    let wrong = || "expected I/K with I from 0 to K - 1, as 0/8".to_owned();
    let (shard, of) = text.split_once('/').ok_or_else(wrong)?;
    let (shard, of) = (
        shard.parse().map_err(|_| wrong())?,
        of.parse().map_err(|_| wrong())?,
    );
    match shard < of {
        true => Ok((shard, of)),
        false => Err(wrong()),
    }
}

/// The origin of the runs.
enum Origin<'a> {
    Scenario(&'a Asked),
    Plan(&'a Path),
}

impl Origin<'_> {
    fn command(&self, item: &Item) -> String {
        match self {
            Origin::Scenario(asked) => asked.command(item.seed, &item.texts()),
            Origin::Plan(path) => {
                let path = shell(&path.display().to_string());
                format!("alphorn sim run --plan {path} --index {}", item.index)
            }
        }
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let (origin, mut plan, inputs) = match (&args.plan, &args.asked) {
        (Some(path), _) => (Origin::Plan(path), read_plan(path)?, vec![path.clone()]),
        (None, Some(asked)) => {
            let scenario = asked.load()?;
            let plan = Plan::of(&scenario, commit())?;
            (Origin::Scenario(asked), plan, asked.files(&scenario))
        }
        (None, None) => return Err(anyhow!("give a scenario or --plan").into()),
    };
    // A single run is written to the folder itself; several are folders in it.
    let many = plan.items.len() > 1;
    let sink = args.json.sink();
    let out = args.out.iter();
    let files: Vec<PathBuf> = out.flat_map(|out| folder::written(out, many)).collect();
    let outputs = files.iter().map(PathBuf::as_path).chain(sink.path());
    check_apart(inputs.iter().map(PathBuf::as_path), outputs)?;
    if let Some((shard, of)) = args.shard {
        plan.shard(shard, of);
    }
    if let Some(index) = args.index {
        let runs = plan.items.len();
        plan.items.retain(|item| item.index == index);
        if plan.items.is_empty() {
            return Err(anyhow!("--index {index}: the plan has {runs} runs, from 0").into());
        }
    }
    if let Some(out) = &args.out {
        let named = inputs.iter().map(PathBuf::as_path).chain(sink.path());
        match many {
            true => folder::check_sweep(out, named)?,
            false => folder::check(out)?,
        }
    }
    let place = |item: &Item| {
        let out = args.out.clone().unwrap_or_default();
        match many {
            true => out.join(folder::RUNS).join(&item.id[..16]),
            false => out,
        }
    };
    let report = Report::begin("sim run", plan.items.first().map_or(0, |item| item.seed));
    let work = Work {
        jobs: args.jobs,
        memory_bytes: args.memory_mb.map(|mb| mb.saturating_mul(1_000_000)),
        folder: args
            .out
            .as_ref()
            .map(|_| &place as &(dyn Fn(&Item) -> PathBuf + Sync)),
        resumes: many,
        command: &|item| origin.command(item),
    };
    let ran = work::all(&plan, &work)?;
    let manifests: Vec<Manifest> = ran.iter().map(|ran| ran.manifest.clone()).collect();
    let merged = Merged::of(manifests);
    // A shard or a single index leaves the overall tables to `merge`.
    if let (Some(out), true, None, None) = (&args.out, many, args.shard, args.index) {
        merge::write(out, &plan.head.name, &merged)?;
    }
    sink.say(&print(&merged));
    let machine = Machine::here(
        args.jobs.map_or_else(crate::machine::cores, usize::from),
        BTreeMap::new(),
    );
    let config =
        json!({ "scenario": plan.head.name, "commit": plan.head.commit, "runs": plan.items.len() });
    let object = report.object(&machine, "modelled", &config, fields(&ran)?)?;
    sink.write(&object)?;
    failed(&ran)
}

/// Reads the plan of a file, for this commit.
fn read_plan(path: &Path) -> Result<Plan> {
    let plan = Plan::from_lines(&input::text(path, LINE_BYTES_MAX as u64)?)?;
    if plan.head.commit != commit() {
        let (file, made) = (path.display(), &plan.head.commit);
        let why = format!("{file} was made by commit {made}, this is {}", commit());
        return Err(anyhow!("{why}: plan again, or run it with that binary").into());
    }
    Ok(plan)
}

/// Returns the fields of one run, or of each as a case.
fn fields(ran: &[Ran]) -> Result<Map<String, Value>> {
    let mut cases = Vec::new();
    for ran in ran {
        cases.push(Value::Object(case(&ran.manifest)?));
    }
    match (cases.len(), cases.pop()) {
        (1, Some(Value::Object(fields))) => Ok(fields),
        (_, last) => {
            cases.extend(last);
            Ok(Map::from_iter([("cases".to_owned(), Value::Array(cases))]))
        }
    }
}

/// Returns a manifest with its figures next to the other fields.
fn case(manifest: &Manifest) -> Result<Map<String, Value>> {
    let Value::Object(mut fields) = serde_json::to_value(manifest)? else {
        return Ok(Map::new());
    };
    if let Some(Value::Object(figures)) = fields.remove("figures") {
        fields.extend(figures);
    }
    // These are in the enclosing object.
    for name in ["schema", "version", "host"] {
        fields.remove(name);
    }
    if let Some(command) = fields.remove("command") {
        fields.insert("replay".into(), command);
    }
    Ok(fields)
}

/// Returns an error that names each failed run and the command that replays it.
fn failed(ran: &[Ran]) -> Result<()> {
    let failed: Vec<String> = ran
        .iter()
        .filter(|ran| !ran.manifest.holds)
        .map(|ran| {
            let Manifest {
                name,
                seed,
                failures,
                command,
                ..
            } = &ran.manifest;
            format!(
                "{name}, seed {seed}: {}\n  replay: {command}",
                failures.join("; ")
            )
        })
        .collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Error::Check(failed.join("\n"))),
    }
}
