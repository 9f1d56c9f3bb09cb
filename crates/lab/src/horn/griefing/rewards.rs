//! The cost of attacks to each party, from the blocks of simulated slots with and without them.
//!
//! Each attacker is a fault of a scenario. The same slots run with the same seed, once without it and
//! once with it, with the protocol's roles in every node, and rewards for both are computed by one
//! schedule.

use crate::error::Result;
use crate::machine::Machine;
use crate::options::{Common, check_unused};
use crate::overwrite::check_apart;
use crate::progress::Bars;
use crate::report::{Report, columns};
use crate::sim::source;
use crate::{text, yaml};
use alphorn_proto::rewards::{INCREMENTS_MAX, Ledger, Schedule};
use alphorn_sim::horn::{self, Harm, HornRun};
use alphorn_sim::run::{Observe, Progress};
use alphorn_sim::scenario::{Protocol, Scenario, parse_override};
use anyhow::{Context, bail};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Validators of the network from which the base reward is computed: Horn's.
const NETWORK_VALIDATORS: u64 = 1 << 20;
/// Wei per gwei.
const GWEI: f64 = 1e9;
/// Slots before and after an attack, so that omitted votes can be included later.
const BEFORE: u64 = 1;
const AFTER: u64 = 2;

/// Default ETH at stake of each validator.
const INCREMENTS: u32 = 32;
/// Default scenario.
const SCENARIO: &str = "horn-griefing";

/// Options of the rewards.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// Report what attackers cost in money, from the blocks of simulated slots
    #[arg(long, conflicts_with_all = ["malicious", "eve", "misses", "online", "split", "drop", "cover", "cells",
          "cell_size", "aggregators"])]
    pub(super) rewards: bool,
    /// YAML file of the rewards, with the names of the specification (default: Altair's)
    #[arg(long, value_name = "FILE", requires = "rewards")]
    schedule: Option<PathBuf>,
    /// Stake of each validator in ETH
    #[arg(long, value_name = "ETH", default_value_t = INCREMENTS, requires = "rewards",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(INCREMENTS_MAX)))]
    increments: u32,
    /// Scenario file of horn, or name of a preset (alphorn sim list)
    #[arg(
        long,
        value_name = "SCENARIO",
        default_value = SCENARIO,
        requires = "rewards"
    )]
    scenario: String,
    /// Override a value of the scenario, such as protocol.slots=32; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "rewards")]
    set: Vec<String>,
    /// Attacker instead of the standard ones, such as 'kind = "censor", share_pct = 20'; may be repeated
    #[arg(long, value_name = "FAULT", requires = "rewards")]
    fault: Vec<String>,
}

impl Options {
    /// Rejects options that only the rewards use: clap does not require `--rewards` where another
    /// option excludes it.
    pub(super) fn check_unused(&self) -> Result<()> {
        check_unused(
            "rewards",
            &[
                ("--schedule", self.schedule.is_some()),
                ("--increments", self.increments != INCREMENTS),
                ("--scenario", self.scenario != SCENARIO),
                ("--set", !self.set.is_empty()),
                ("--fault", !self.fault.is_empty()),
            ],
        )
    }
}

/// Duration of an attack.
#[derive(Clone, Copy, Debug)]
enum Lasts {
    /// In all slots but the first and the last ones.
    Most,
    /// In one slot.
    Once,
    /// As specified by the fault.
    Itself,
}

/// An attacker.
#[derive(Clone, Debug)]
struct Attack {
    name: String,
    /// Overrides of the scenario's values.
    set: Vec<String>,
    fault: String,
    lasts: Lasts,
}

/// Name, an override of the scenario's values, fault, and duration.
type Standard = (&'static str, Option<&'static str>, &'static str, Lasts);

/// A third of the nodes, all servers of one post, or as many as it takes to show their gain.
const STANDARD: [Standard; 11] = [
    (
        "aggregators drop a tenth of the votes",
        None,
        "kind = \"drop_votes\", factor_pct = 10, share_pct = 33",
        Lasts::Most,
    ),
    (
        "aggregators hide their votes and drop as many",
        None,
        "kind = \"drop_votes\", hides = true, share_pct = 33",
        Lasts::Most,
    ),
    (
        "the same, where the best aggregate counts alone",
        Some("protocol.multiplicity_max=1"),
        "kind = \"drop_votes\", hides = true, share_pct = 33",
        Lasts::Most,
    ),
    (
        "all aggregators of a cell drop a tenth",
        None,
        "kind = \"drop_votes\", factor_pct = 10, posts_pct = 100, units = [0]",
        Lasts::Once,
    ),
    (
        "collectors leave out half of the cells",
        None,
        "kind = \"leave_cells\", factor_pct = 50, share_pct = 33",
        Lasts::Most,
    ),
    (
        "all collectors of a committee do",
        None,
        "kind = \"leave_cells\", factor_pct = 50, posts_pct = 100, units = [0]",
        Lasts::Once,
    ),
    (
        "collectors publish one vote each",
        None,
        "kind = \"grief\", share_pct = 33",
        Lasts::Most,
    ),
    (
        "collectors publish a second early",
        None,
        "kind = \"early_collection\", delay_ms = 1000, share_pct = 5",
        Lasts::Most,
    ),
    (
        "a proposer leaves out half of the committees",
        None,
        "kind = \"censor\", factor_pct = 50, posts_pct = 100",
        Lasts::Once,
    ),
    (
        "half of the proposers sign two blocks",
        None,
        "kind = \"equivocate\", posts_pct = 50",
        Lasts::Itself,
    ),
    (
        "voters name heads that nobody has",
        None,
        "kind = \"invalid_flood\", share_pct = 33",
        Lasts::Most,
    ),
];

/// The fields of a schedule: in a file under the names of the specification, in a report under ours.
#[derive(Serialize, Deserialize)]
#[serde(
    remote = "Schedule",
    rename_all(deserialize = "SCREAMING_SNAKE_CASE"),
    deny_unknown_fields
)]
struct Fields {
    #[serde(rename(deserialize = "TIMELY_SOURCE_WEIGHT"))]
    source_weight: u32,
    #[serde(rename(deserialize = "TIMELY_TARGET_WEIGHT"))]
    target_weight: u32,
    #[serde(rename(deserialize = "TIMELY_HEAD_WEIGHT"))]
    head_weight: u32,
    proposer_weight: u32,
    aggregator_weight: u32,
    collector_weight: u32,
    weight_denominator: u32,
    base_reward_factor: u64,
    #[serde(rename(deserialize = "EFFECTIVE_BALANCE_INCREMENT"))]
    increment_gwei: u64,
    votes_per_base_reward: u32,
    #[serde(rename(deserialize = "TIMELY_SOURCE_SLOTS"))]
    source_slots_max: u64,
    #[serde(rename(deserialize = "TIMELY_TARGET_SLOTS"))]
    target_slots_max: u64,
    #[serde(rename(deserialize = "TIMELY_HEAD_SLOTS"))]
    head_slots_max: u64,
}

/// A schedule that can be read and written.
#[derive(Serialize, Deserialize)]
struct ScheduleFields(#[serde(with = "Fields")] Schedule);

/// Returns the schedule in a file, or Altair's.
fn schedule(path: Option<&Path>) -> anyhow::Result<Schedule> {
    let ScheduleFields(schedule) = match path {
        Some(path) => yaml::read(path).map_err(|error| anyhow::anyhow!("{error}"))?,
        None => serde_saphyr::from_str(include_str!("altair.yaml"))?,
    };
    schedule.validate()?;
    Ok(schedule)
}

/// The result of an attack.
#[derive(Debug)]
struct Case {
    name: String,
    /// As in a scenario; none without an attacker.
    fault: Option<String>,
    set: Vec<String>,
    harm: Harm,
}

/// A run to be made, with the overrides and the fault applied to the scenario.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    set: Vec<String>,
    fault: Option<String>,
}

impl Asked {
    /// Loads the scenario and its parameters of Horn.
    fn load(&self, args: &Options) -> Result<Scenario> {
        let mut changes = Vec::new();
        let fault = self
            .fault
            .iter()
            .map(|fault| format!("fault=[{{ {fault} }}]"));
        let texts = args.set.iter().chain(&self.set).cloned();
        for text in texts.chain(fault) {
            changes.push(parse_override(&text).with_context(|| text.clone())?);
        }
        let scenario = source::load(&args.scenario, &changes)?;
        match &scenario.protocol {
            Protocol::Horn(_) => Ok(scenario),
            other => {
                let name = other.name();
                Err(anyhow::anyhow!("{}: its protocol is {name}, not horn", args.scenario).into())
            }
        }
    }
}

/// Ends a run when its wall time is over.
struct Clock {
    began: Instant,
    wall_max: Duration,
}

impl Observe for Clock {
    fn progress(&mut self, _: &Progress) -> ControlFlow<()> {
        match self.began.elapsed() > self.wall_max {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

fn simulate(scenario: &Scenario, seed: u64) -> anyhow::Result<HornRun> {
    let Protocol::Horn(horn) = &scenario.protocol else {
        bail!("protocol {}, not horn", scenario.protocol.name());
    };
    let mut clock = Clock {
        began: Instant::now(),
        wall_max: Duration::from_secs(scenario.sim.wall_time_max_s),
    };
    Ok(horn::run(scenario, horn, seed, &mut clock)?)
}

/// Returns the requested attackers, each with its duration.
fn attacks(args: &Options) -> Result<Vec<Attack>> {
    let own = args.fault.iter().map(|fault| Attack {
        name: fault.clone(),
        set: Vec::new(),
        fault: fault.clone(),
        lasts: Lasts::Itself,
    });
    let standard = STANDARD.iter().map(|(name, set, fault, lasts)| Attack {
        name: (*name).to_owned(),
        set: set.iter().map(|set| (*set).to_owned()).collect(),
        fault: (*fault).to_owned(),
        lasts: *lasts,
    });
    let mut attacks: Vec<Attack> = match args.fault.is_empty() {
        true => standard.collect(),
        false => own.collect(),
    };
    let plain = Asked {
        set: Vec::new(),
        fault: None,
    };
    let scenario = plain.load(args)?;
    let (slots, slot_ms) = slots(&scenario)?;
    let last = slots.saturating_sub(AFTER);
    if args.fault.is_empty() && last <= BEFORE {
        let least = BEFORE + AFTER + 1;
        return Err(anyhow::anyhow!("protocol.slots = {slots}: attackers need {least}").into());
    }
    for attack in &mut attacks {
        let until = match attack.lasts {
            Lasts::Most => last,
            Lasts::Once => BEFORE + 1,
            Lasts::Itself => continue,
        };
        let (from_ms, until_ms) = (BEFORE * slot_ms, until * slot_ms);
        attack.fault += &format!(", from_ms = {from_ms}, until_ms = {until_ms}");
    }
    Ok(attacks)
}

/// Returns the slots of a run, and the milliseconds of each.
fn slots(scenario: &Scenario) -> Result<(u64, u64)> {
    let Protocol::Horn(chosen) = &scenario.protocol else {
        return Ok((0, 0));
    };
    let timing = horn::timing(chosen)?;
    Ok((chosen.slots.into(), timing.slot_ms()))
}

/// Simulates everything that is to be compared, each run once.
fn simulate_all(
    args: &Options,
    common: &Common,
    attacks: &[Attack],
) -> Result<BTreeMap<Asked, HornRun>> {
    let mut asked: Vec<Asked> = Vec::new();
    for attack in attacks {
        let set = attack.set.clone();
        let with = |fault| Asked {
            set: set.clone(),
            fault,
        };
        asked.extend([with(None), with(Some(attack.fault.clone()))]);
    }
    asked.sort_unstable();
    asked.dedup();
    let mut scenarios = Vec::new();
    for one in asked {
        let scenario = one.load(args)?;
        scenarios.push((one, scenario));
    }
    let (total, bars) = (scenarios.len() as u64, Mutex::new((0, Bars::new())));
    let show = |more: u64| {
        if let Ok(mut bars) = bars.lock() {
            bars.0 += more;
            let done = bars.0;
            bars.1.show_left("runs", done, total);
        }
    };
    show(0);
    let one = |(asked, scenario): (Asked, Scenario)| {
        let run = simulate(&scenario, common.seed);
        show(1);
        let of = |asked: &Asked| {
            asked
                .fault
                .clone()
                .unwrap_or_else(|| "without attackers".into())
        };
        Ok((asked.clone(), run.with_context(|| of(&asked))?))
    };
    let runs = common
        .pool()?
        .install(|| scenarios.into_par_iter().map(one).collect());
    if let Ok(bars) = bars.lock() {
        bars.1.clear();
    }
    let runs: anyhow::Result<BTreeMap<Asked, HornRun>> = runs;
    Ok(runs?)
}

/// Returns every attacker next to the run without it, which comes first.
fn cases(args: &Options, common: &Common, schedule: Schedule) -> Result<Vec<Case>> {
    let attacks = attacks(args)?;
    let runs = simulate_all(args, common, &attacks)?;
    let mut cases = Vec::new();
    let mut alone: Vec<&[String]> = Vec::new();
    let mut add = |name: &str, set: &[String], fault: Option<&String>| -> Result<()> {
        let at = |fault| {
            let set = set.to_vec();
            &runs[&Asked { set, fault }]
        };
        let (honest, attacked) = (at(None), at(fault.cloned()));
        let increments = vec![args.increments; attacked.attackers.len()];
        let all = NETWORK_VALIDATORS * u64::from(args.increments);
        // Timeliness counts from the first block that can include a vote.
        let schedule = schedule.later_by(attacked.inclusion_slots_min.saturating_sub(1));
        let ledger = Ledger::new(schedule, &increments, all)?;
        cases.push(Case {
            name: name.to_owned(),
            fault: fault.cloned(),
            set: set.to_vec(),
            harm: Harm::of(honest, attacked, &ledger)?,
        });
        Ok(())
    };
    for attack in &attacks {
        if !alone.contains(&&*attack.set) {
            alone.push(&attack.set);
        }
    }
    for set in alone {
        add(&format!("nobody{}", with(set)), set, None)?;
    }
    for attack in &attacks {
        add(&attack.name, &attack.set, Some(&attack.fault))?;
    }
    Ok(cases)
}

/// Formats overrides of the scenario's values, to follow a name.
fn with(set: &[String]) -> String {
    set.iter().map(|set| format!(", {set}")).collect()
}

/// Runs the command.
pub(super) fn run(args: &Options, common: &Common) -> Result<()> {
    let report = Report::begin("horn griefing", common.seed);
    let sink = common.sink();
    check_apart(args.schedule.as_deref(), sink.path())?;
    let machine = Machine::here(common.threads()?, BTreeMap::new());
    let schedule = schedule(args.schedule.as_deref())?;
    let cases = cases(args, common, schedule)?;
    sink.say(&format!(
        "Rewards, scenario {}{}, seed {}: modelled, each attacker beside the same slots without it\n{}\n",
        args.scenario,
        with(&args.set),
        common.seed,
        machine.line()
    ));
    sink.say(&print(&cases));
    let config = config_json(args, &schedule);
    let cases = cases.iter().map(case_json).collect();
    let fields = json!({ "cases": Value::Array(cases) });
    sink.write(&report.object(&machine, "modelled", &config, fields)?)
}

/// Converts to gwei, without a negative zero.
fn gwei(wei: i128) -> f64 {
    wei as f64 / GWEI + 0.0
}

/// Formats a factor: a dash where there is no harm, words where it is unbounded.
fn factor(harm: &Harm) -> String {
    match harm.factor() {
        Some(0.0) => "-".into(),
        Some(factor) => format!("{factor:.1}"),
        None => "no cost".into(),
    }
}

fn print(cases: &[Case]) -> String {
    let row = |case: &Case| {
        let harm = &case.harm;
        let whole = |wei: i128| format!("{:.0}", gwei(wei).round() + 0.0);
        let each = gwei(harm.honest_wei) / harm.honest.max(1) as f64;
        vec![
            ("attacker", case.name.clone()),
            ("its validators", text::count(harm.attackers)),
            ("honest votes lost", text::count(harm.lost)),
            ("late", text::count(harm.late)),
            ("honest lose, gwei", whole(harm.honest_wei)),
            ("each", format!("{:.1}", each + 0.0)),
            ("most", whole(harm.most_wei)),
            ("attacker loses", whole(harm.attackers_wei)),
            ("factor", factor(harm)),
        ]
    };
    columns(cases.iter().map(row))
}

fn case_json(case: &Case) -> Value {
    let harm = &case.harm;
    json!({
        "attacker": case.name,
        "fault": case.fault,
        "set": case.set,
        "cast": harm.cast,
        "lost": harm.lost,
        "late": harm.late,
        "honest": harm.honest,
        "victims": harm.victims,
        "honest_gwei": gwei(harm.honest_wei),
        "most_gwei": gwei(harm.most_wei),
        "attackers": harm.attackers,
        "attackers_gwei": gwei(harm.attackers_wei),
        "factor": harm.factor(),
    })
}

/// Returns the scenario, the schedule and the balances.
fn config_json(args: &Options, schedule: &Schedule) -> Value {
    let mut config = json!(ScheduleFields(*schedule));
    config["scenario"] = json!(args.scenario);
    config["set"] = json!(args.set);
    config["increments"] = json!(args.increments);
    config["network_validators"] = json!(NETWORK_VALIDATORS);
    config
}

#[cfg(test)]
mod tests;
