//! Runs of a plan on the cores of this host: one thread each, and no more at once than fit into memory.

use super::folder::{self, Finished, sha256};
use super::trace::{Spool, Told, Wanted};
use crate::error::Result;
use crate::machine::{Build, Machine};
use crate::options::pool;
use crate::progress::Bars;
use crate::text;
use alphorn_sim::horn::HornError;
use alphorn_sim::report::Outcome;
use alphorn_sim::report::manifest::{self, CostSource, Host, Manifest};
use alphorn_sim::run::{Observe, Progress, RunError, run};
use alphorn_sim::scenario::{Graph, Horn, Protocol, Scenario, TraceLevel, Way};
use alphorn_sim::sweep::{Item, Plan};
use alphorn_sim::world::Traced;
use alphorn_types::trace::Record;
use anyhow::{Context, anyhow};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The result of one run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) manifest: Manifest,
    pub(crate) outcome: Option<Outcome>,
    /// The trace recorded during the run, if requested.
    pub(crate) told: Option<Told>,
}

/// Ends a run when its wall time is over, and shows its progress.
struct Watch<'a> {
    clock: Instant,
    wall_max: Duration,
    bars: Option<&'a Mutex<Bars>>,
    spool: Option<Spool>,
    threads: usize,
}

impl Observe for Watch<'_> {
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        if let Some(bars) = self.bars
            && let Ok(mut bars) = bars.lock()
        {
            bars.show("deliveries", progress.deliveries, progress.deliveries_max);
        }
        match self.clock.elapsed() > self.wall_max {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn traces(&self) -> Option<Traced> {
        self.spool.as_ref().and_then(Spool::nodes)
    }

    fn slots(&self) -> TraceLevel {
        self.spool.as_ref().map_or(TraceLevel::None, Spool::slots)
    }

    fn trace(&mut self, records: Vec<Record>) {
        if let Some(spool) = &mut self.spool {
            spool.keep(&records);
        }
    }
}

/// Runs a scenario with a seed. `id` and `set` come from a plan; `command` reproduces the run.
///
/// # Errors
/// If the scenario cannot be run. A run that violates a rule or a bound is instead a manifest that does
/// not hold.
pub(crate) fn one(
    scenario: &Scenario,
    item: &Item,
    command: String,
    bars: Option<&Mutex<Bars>>,
    wanted: Wanted,
    threads: usize,
) -> Result<Ran> {
    let spool = Spool::new(wanted, scenario.output.trace_bytes_max);
    let spool = spool.context("cannot keep a trace")?;
    let threads = threads
        .min(scenario.sim.nodes as usize / NODES_A_THREAD)
        .max(1);
    let clock = Instant::now();
    let mut watch = Watch {
        clock,
        wall_max: Duration::from_secs(scenario.sim.wall_time_max_s),
        bars,
        spool,
        threads,
    };
    let result = run(scenario, item.seed, &mut watch);
    let wall_s = clock.elapsed().as_secs_f64();
    let mut manifest = Manifest {
        schema: manifest::SCHEMA,
        version: env!("CARGO_PKG_VERSION").into(),
        id: item.id.clone(),
        name: scenario.name.clone(),
        command,
        seed: item.seed,
        set: item.texts(),
        scenario_hash: scenario.hash(),
        files: scenario
            .inputs
            .iter()
            .map(|(name, text)| (name.clone(), sha256(text)))
            .collect(),
        costs: costs(scenario),
        kind: "modelled".into(),
        host: host(),
        threads,
        wall_s,
        rss_bytes: crate::machine::peak_rss_bytes(),
        ..Manifest::default()
    };
    let outcome = match result {
        Ok(outcome) => {
            let figures = outcome.summary();
            manifest.verdict.clone_from(&outcome.verdict);
            manifest.failures = figures.failures(&scenario.expect);
            manifest.events_per_s = figures.events as f64 / wall_s.max(1e-9);
            manifest.figures = Some(figures);
            manifest.refusals.clone_from(&outcome.adversity);
            Some(outcome)
        }
        Err(error) => {
            if !is_of_run(&error) {
                return Err(anyhow!("{}, seed {}: {error}", scenario.name, item.seed).into());
            }
            manifest.failures = vec![error.to_string()];
            None
        }
    };
    manifest.holds = manifest.failures.is_empty();
    let told = watch.spool.map(Spool::finish).transpose();
    Ok(Ran {
        manifest,
        outcome,
        told: told.context("cannot keep a trace")?,
    })
}

/// Whether the error is of a run rather than its scenario.
fn is_of_run(error: &RunError) -> bool {
    use RunError::{Horn, Stopped, Violation, World};
    let of_slot = matches!(error, Horn(HornError::Violation { .. }));
    of_slot || matches!(error, Violation { .. } | World(_) | Stopped(_))
}

fn host() -> Host {
    let machine = Machine::here(1, BTreeMap::new());
    Host {
        cpu: machine.cpu,
        features: machine.features.into_iter().map(str::to_owned).collect(),
        commit: Build::here().commit.trim_end_matches("-dirty").into(),
        dirty: Build::here().commit.ends_with("-dirty"),
        compiler: Build::here().compiler.into(),
    }
}

/// Returns the cost tables, with their self-description.
fn costs(scenario: &Scenario) -> Vec<CostSource> {
    let named = [&scenario.compute.costs, &scenario.compute.code_costs];
    let tables = named.into_iter().flatten().filter_map(|name| {
        let text = scenario.inputs.get(name)?;
        let table: serde_json::Value = serde_json::from_str(text).ok()?;
        let field = |field: &str| table[field].as_str().unwrap_or("unknown").to_owned();
        Some(CostSource {
            name: name.clone(),
            kind: field("kind"),
            machine: field("machine"),
            sha256: sha256(text),
        })
    });
    tables.collect()
}

/// Minimum number of nodes of a run per thread: with fewer, the work in a window is less than waking a
/// thread.
const NODES_A_THREAD: usize = 64;

/// How and where the runs of a plan are executed.
pub(crate) struct Work<'a> {
    /// Total threads of all runs; all cores if absent.
    pub(crate) jobs: Option<u16>,
    /// Total memory of all runs in bytes; four fifths of the host's if absent.
    pub(crate) memory_bytes: Option<u64>,
    /// Folder of a run, if runs are kept.
    pub(crate) folder: Option<&'a (dyn Fn(&Item) -> PathBuf + Sync)>,
    /// Whether existing runs are skipped.
    pub(crate) resumes: bool,
    /// The command that reproduces a run.
    pub(crate) command: &'a (dyn Fn(&Item) -> String + Sync),
}

/// Executes all runs of a plan; the results are in its order.
pub(crate) fn all(plan: &Plan, work: &Work<'_>) -> Result<Vec<Ran>> {
    let threads = work.jobs.map_or_else(crate::machine::cores, usize::from);
    let memory_bytes = work
        .memory_bytes
        .unwrap_or_else(|| Machine::here(1, BTreeMap::new()).memory_bytes / 5 * 4);
    let mut largest = 1;
    for item in first_of_points(plan) {
        largest = largest.max(estimate_bytes(&plan.scenario(item)?));
    }
    if let Some(warning) = too_large(largest, memory_bytes) {
        crate::report::note(&format!("warning: {warning}"));
    }
    let fit = usize::try_from(memory_bytes / largest)
        .unwrap_or(usize::MAX)
        .max(1);
    // Concurrent runs use one thread each, so they need not wait for one another. A single run uses all
    // threads.
    let runs = threads.min(fit).min(plan.items.len().max(1));
    let (threads, each) = if runs == 1 {
        (threads, threads)
    } else {
        (runs, 1)
    };
    let bars = Mutex::new(Bars::new());
    let done = Mutex::new(0u64);
    let total = plan.items.len() as u64;
    let run = |item: &Item| -> Result<Ran> {
        let bars_of = (total == 1).then_some(&bars);
        let ran = kept_or_run(plan, item, work, bars_of, each)?;
        if let (Ok(mut done), Ok(mut bars)) = (done.lock(), bars.lock()) {
            *done += 1;
            bars.show("runs", *done, total);
        }
        Ok(ran)
    };
    // Runs differ in length, so each is scheduled individually.
    let runs = pool(threads)?.install(|| match runs {
        1 => plan.items.iter().map(run).collect::<Result<Vec<Ran>>>(),
        _ => {
            let items = plan.items.par_iter().with_max_len(1);
            items.map(run).collect()
        }
    });
    if let Ok(bars) = bars.lock() {
        bars.clear();
    }
    runs
}

fn kept_or_run(
    plan: &Plan,
    item: &Item,
    work: &Work<'_>,
    bars: Option<&Mutex<Bars>>,
    threads: usize,
) -> Result<Ran> {
    let target = work.folder.map(|folder| folder(item));
    if let Some(target) = &target
        && work.resumes
        && let Some(manifest) = folder::finished(target)
        && is_of(&manifest, item)
    {
        return Ok(Ran {
            manifest,
            outcome: None,
            told: None,
        });
    }
    let scenario = plan.scenario(item)?;
    let wanted = match &target {
        Some(_) => Wanted::of(&scenario),
        None => Wanted::NOTHING,
    };
    let command = (work.command)(item);
    let mut ran = one(&scenario, item, command, bars, wanted, threads)?;
    if let Some(target) = target {
        keep(&target, &scenario, &mut ran)?;
    }
    // Its tables are written; a thousand outcomes would not fit into memory.
    if plan.items.len() > 1 {
        (ran.outcome, ran.told) = (None, None);
    }
    Ok(ran)
}

/// Whether a run belongs to an item and need not be repeated: it completed, and the commit in its
/// identity fully identifies the program. With uncommitted changes, a different program has the same
/// identity.
fn is_of(manifest: &Manifest, item: &Item) -> bool {
    manifest.id == item.id && manifest.figures.is_some() && !manifest.host.dirty
}

/// Writes the folder of a run. A run that was aborted does not replace one that completed.
pub(crate) fn keep(target: &Path, scenario: &Scenario, ran: &mut Ran) -> Result<()> {
    let ended = |there: Manifest| there.figures.is_some();
    if ran.outcome.is_none() && folder::finished(target).is_some_and(ended) {
        let kept = format!("{} keeps the run that it has", target.display());
        ran.manifest.failures.push(kept);
        return Ok(());
    }
    let finished = Finished {
        scenario,
        manifest: &ran.manifest,
        outcome: ran.outcome.as_ref(),
        told: ran.told.as_ref(),
    };
    folder::write(target, &finished)
}

/// Returns one run of each point; runs with other seeds are of the same size.
fn first_of_points(plan: &Plan) -> impl Iterator<Item = &Item> {
    let items = plan.items.iter().enumerate();
    let first = items.filter(|(i, item)| *i == 0 || plan.items[i - 1].set != item.set);
    first.map(|(_, item)| item)
}

/// Estimates the memory of a run: the state of each node in the simulator and in the protocol, its
/// connections, the recorded delays, and messages in flight.
fn estimate_bytes(scenario: &Scenario) -> u64 {
    const NODE: u64 = 6 << 10;
    const CONNECTION: u64 = 256;
    const BASE: u64 = 64 << 20;
    let nodes = u64::from(scenario.sim.nodes);
    let degree = match scenario.graph {
        Graph::Permutations { degree } => u64::from(degree),
        Graph::Complete {} => nodes,
        Graph::File { .. } => 64,
    };
    let delays = 16 * u64::from(scenario.traffic.count);
    let own = match &scenario.protocol {
        Protocol::Horn(horn) => horn_bytes(horn, nodes),
        _ => 0,
    };
    let connections = degree.saturating_mul(CONNECTION);
    (BASE + own).saturating_add(nodes.saturating_mul(NODE + connections + delays))
}

/// Returns a warning for a run that needs more memory than there is for all runs.
fn too_large(estimated: u64, memory_bytes: u64) -> Option<String> {
    (estimated > memory_bytes).then(|| {
        format!(
            "one run takes some {}, more than the {} for all of them: the system may end it (--set \
             sim.nodes=N has fewer nodes)",
            text::bytes(estimated),
            text::bytes(memory_bytes)
        )
    })
}

/// Estimates the additional memory of a run of Horn: a state machine per node, and most of all the
/// votes, which are pending at all their receivers at the same time.
fn horn_bytes(horn: &Horn, nodes: u64) -> u64 {
    /// Bytes of a state machine while all collections of a slot are in flight, in addition to shared data.
    const MACHINE: u64 = 24 << 10;
    /// Bytes of a vote at a node that receives it: its event, its slot in the batch, its signature, its
    /// claim.
    const VOTE: u64 = 360;
    /// Receivers of a vote where the number of aggregators is not given.
    const AGGREGATORS: u64 = 16;
    let aggregators = horn.aggregators.map_or(AGGREGATORS, u64::from);
    let receivers = match horn.vote_dissemination {
        Way::Direct => aggregators,
        _ => aggregators + u64::from(horn.backbone),
    };
    let votes = u64::from(horn.validators).saturating_mul(receivers.min(nodes));
    nodes * MACHINE + votes.saturating_mul(VOTE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::presets::PRESETS;
    use alphorn_sim::scenario::parse_override;

    fn estimated(preset: &str, changes: &[&str]) -> u64 {
        let preset = PRESETS.iter().find(|known| known.name == preset);
        let changes = changes.iter().map(|change| parse_override(change).unwrap());
        let changes: Vec<_> = changes.collect();
        estimate_bytes(&Scenario::parse(preset.unwrap().text, &changes).unwrap())
    }

    #[test]
    fn a_run_that_does_not_fit_is_named_before_it_begins() {
        let estimated = estimated("horn-1m-1m", &[]);
        let warning = too_large(estimated, 20_000_000_000).expect("it does not fit");
        assert_eq!(
            warning,
            "one run takes some 40.9 GB, more than the 20.0 GB for all of them: the system may end it \
             (--set sim.nodes=N has fewer nodes)"
        );
        assert_eq!(too_large(estimated, estimated), None);
    }

    #[test]
    fn what_did_not_end_or_is_of_another_program_is_done_again() {
        let text = PRESETS.first().unwrap().text;
        let scenario = Scenario::parse(text, &[]).unwrap();
        let item = &Plan::of(&scenario, "abc").unwrap().items[0];
        let done = Manifest {
            id: item.id.clone(),
            figures: Some(manifest::Figures::default()),
            ..Manifest::default()
        };
        assert!(is_of(&done, item));
        let stopped = Manifest {
            figures: None,
            ..done.clone()
        };
        let mut dirty = done.clone();
        dirty.host.dirty = true;
        let other = Manifest {
            id: String::new(),
            ..done
        };
        for not in [stopped, dirty, other] {
            assert!(!is_of(&not, item), "{not:?}");
        }
    }

    /// Peak memory of runs in bytes: the first two are those of `results/`.
    #[test]
    fn runs_of_horn_take_what_was_estimated_or_more_than_half_of_it() {
        for (nodes, validators, peak) in [
            (10_000, 1 << 20, 5_520_000_000_u64),
            (250_000, 1 << 20, 13_809_000_000),
            (1_000, 1 << 16, 333_000_000),
            (4_000, 1 << 12, 123_000_000),
        ] {
            let nodes = format!("sim.nodes={nodes}");
            let validators = format!("protocol.validators={validators}");
            let estimated = estimated("horn-1m-10k", &[&nodes, &validators]);
            assert!(
                (peak..2 * peak).contains(&estimated),
                "{nodes}, {validators}: {estimated}"
            );
        }
    }
}
