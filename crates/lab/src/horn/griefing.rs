//! `alphorn horn griefing`: votes removed by a griefing aggregator, by the collector's rule.

mod rewards;

use crate::attack::{AttackedCell, Covering, Play, Setting, Tally};
use crate::distinct::distinct;
use crate::draw::{Draw, join, share_option};
use crate::error::Result;
use crate::options::Common;
use crate::progress::Bars;
use crate::report::{Report, table};
use alphorn_types::support_code::{CellBounds, Coding, Reference, SupportCode};
use alphorn_types::{Layout, MULTIPLICITY_LIMIT, Support};
use anyhow::ensure;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

/// Cells of a collection whose code is measured: Horn's number of subcommittees.
const COLLECTION_CELLS: u32 = 64;
/// Maximum number of positions drawn for a case, over all cells.
const POSITIONS_MAX: u64 = 1 << 26;
/// Maximum number of covers computed for a case.
const COVERS_MAX: u64 = 20_000_000;
/// Drop sizes tried in addition to the best ones against each split.
const DROPS: u32 = 8;
/// Shares of malicious aggregators, Eve's voters and misses in the rows of the standard table.
const STANDARD: [(f64, f64, f64); 5] = [
    (0.2, 0.1, 0.01),
    (1.0 / 3.0, 0.1, 0.01),
    (1.0 / 3.0, 0.1, 0.05),
    (1.0 / 3.0, 0.3, 0.01),
    (0.5, 0.1, 0.01),
];

/// Count the votes that griefing aggregators suppress under each collector rule
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn horn griefing
  alphorn horn griefing --malicious 33% --eve 10% --split 3
  alphorn horn griefing --malicious 0.5 --eve 0.1 --cover quorum2,quorum7,union --cells 2000
  alphorn horn griefing --rewards
  alphorn horn griefing --rewards --set protocol.slots=32 --increments 2048
  alphorn horn griefing --rewards --fault 'kind = \"drop_votes\", factor_pct = 50, share_pct = 40'

Eve withholds the votes of her own voters and takes all honest votes, and all her aggregators drop
the same victims; her voters are split over her aggregates. Cells are drawn at random; the
collector's rule and the encoding of supports are the protocol's own code. The result for each rule
is the worst of all splits and drop sizes. Without --malicious, --eve and --misses, five standard
cases are run.

With --rewards, slots are simulated instead, with the protocol's roles in every node: once without
attackers, and once with each attacker (aggregators, collectors, proposers, voters). The blocks of
both runs earn Altair's rewards for votes in every slot. The report shows honest votes lost, what
honest validators and the attacker lose, and the ratio of these losses. Attackers are faults of the
scenario, described in docs/simulator.md.

What a rule picks from a cell:
  best1     the aggregate with the most signers
  greedyK   up to K, each with the most new signers
  quorumK   up to K, each with the most new signers among those in half of the aggregates
  union     as quorum, until nothing is new (up to 15)")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Probability that an aggregator is Eve's
    #[arg(long, value_name = "SHARE", value_parser = share_option)]
    malicious: Option<f64>,
    /// Share of the voters that are Eve's
    #[arg(long, value_name = "SHARE", value_parser = share_option)]
    eve: Option<f64>,
    /// Probability that an honest aggregator misses a vote
    #[arg(long, value_name = "SHARE", value_parser = share_option)]
    misses: Option<f64>,
    /// Probability that an honest validator votes
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = share_option)]
    online: f64,
    /// Number of groups of Eve's voters, each in its own aggregates
    #[arg(long, value_name = "K", value_delimiter = ',', default_value = "1,2,3,4,6",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    split: Vec<u32>,
    /// Number of victims (default: for each split one less than a group, and eight sizes up to all Eve's)
    #[arg(long, value_name = "VOTES", value_delimiter = ',')]
    drop: Vec<u32>,
    /// Rules to compare
    #[arg(
        long,
        value_name = "RULES",
        value_delimiter = ',',
        default_value = "best1,greedy2,greedy3,quorum2,quorum3,union"
    )]
    cover: Vec<Covering>,
    /// Number of cells to draw for each case
    #[arg(long, default_value_t = 640, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    cells: u32,
    /// Number of validators per cell
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    cell_size: u32,
    /// Number of aggregators per cell
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    aggregators: u16,
    #[command(flatten)]
    rewards: rewards::Options,
}

/// The results of a rule under its worst play.
#[derive(Clone, Debug)]
struct RuleOutcome {
    rule: Covering,
    worst: Play,
    loss: f64,
    picks_mean: f64,
    bytes_mean: f64,
}

/// One setting with all its rules.
#[derive(Clone, Debug)]
struct Case {
    setting: Setting,
    rules: Vec<RuleOutcome>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.rewards.rewards {
        args.common.check_no_kernel("no kernel is used here")?;
        return rewards::run(&args.rewards, &args.common);
    }
    args.rewards.check_unused()?;
    let report = Report::begin("horn griefing", args.common.seed);
    let machine = args.common.machine_without_kernels()?;
    distinct("--split", &args.split)?;
    distinct("--drop", &args.drop)?;
    distinct("--cover", &args.cover)?;
    let pool = args.common.pool()?;
    let settings = settings(args);
    let mut bars = Bars::new();
    let mut cases = Vec::new();
    for (i, setting) in settings.iter().enumerate() {
        bars.show("cases", i as u64, settings.len() as u64);
        cases.push(pool.install(|| case(args, setting))?);
    }
    bars.clear();

    let sink = args.common.sink();
    sink.say(&format!(
        "Griefing, {} cells of {} validators, {} aggregators, {} % vote, seed {}: modelled with the collector's own code\n{}\n",
        args.cells,
        args.cell_size,
        args.aggregators,
        args.online * 100.0,
        args.common.seed,
        machine.line()
    ));
    sink.say(&print(args, &cases));
    let fields = json!({ "cases": Value::Array(cases.iter().map(case_json).collect()) });
    sink.write(&report.object(&machine, "modelled", &config(args), fields)?)
}

fn settings(args: &Args) -> Vec<Setting> {
    let one = |malicious, eve, misses| Setting {
        aggregators: args.aggregators,
        malicious,
        eve,
        misses,
    };
    if args.malicious.or(args.eve).or(args.misses).is_none() {
        return STANDARD
            .map(|(malicious, eve, misses)| one(malicious, eve, misses))
            .to_vec();
    }
    let (malicious, eve, misses) = STANDARD[1];
    vec![one(
        args.malicious.unwrap_or(malicious),
        args.eve.unwrap_or(eve),
        args.misses.unwrap_or(misses),
    )]
}

/// Returns every pair of a split and a drop size that is tried.
fn plays(args: &Args, setting: &Setting) -> anyhow::Result<Vec<Play>> {
    let eve = setting.eve_voters(args.cell_size as usize) as u32;
    let mut drops = args.drop.clone();
    if let Some(drop) = drops.iter().find(|drop| **drop > args.cell_size) {
        anyhow::bail!("--drop {drop}: a cell has {} validators", args.cell_size);
    }
    if drops.is_empty() {
        // A group of g voters pays for g - 1 victims against one honest aggregate.
        drops.extend(
            args.split
                .iter()
                .map(|split| (eve / split).saturating_sub(1)),
        );
        drops.extend((1..=DROPS).map(|i| eve.saturating_sub(1) * i / DROPS));
    }
    drops.sort_unstable();
    drops.dedup();
    let plays = args
        .split
        .iter()
        .flat_map(|&split| drops.iter().map(move |&drop| Play { split, drop }));
    Ok(plays.collect())
}

fn case(args: &Args, setting: &Setting) -> anyhow::Result<Case> {
    let plays = plays(args, setting)?;
    let positions = u64::from(args.cells) * u64::from(args.cell_size);
    ensure!(
        positions <= POSITIONS_MAX,
        "--cells {} of {} validators are {positions} positions, at most {POSITIONS_MAX} are drawn",
        args.cells,
        args.cell_size
    );
    let covers = u64::from(args.cells) * plays.len() as u64 * args.cover.len() as u64;
    ensure!(
        covers <= COVERS_MAX,
        "{} cells, {} plays and {} rules are {covers} covers, at most {COVERS_MAX} are computed",
        args.cells,
        plays.len(),
        args.cover.len()
    );
    let cells: Vec<AttackedCell> = (0..args.cells)
        .into_par_iter()
        .map(|i| {
            let mut draw = Draw::new(args.common.seed, u64::from(i));
            let online = draw.bits(args.cell_size as usize, args.online);
            AttackedCell::draw(&online, setting, &mut draw)
        })
        .collect();
    let tallies = tallies(&cells, &plays, &args.cover);
    let rules = args.cover.iter().enumerate().map(|(r, &rule)| {
        // If plays lose equally much, the first counts.
        let worst = (0..plays.len())
            .rev()
            .max_by_key(|&p| tallies[p][r].lost)
            .expect("there is at least one split and one drop size");
        let tally = tallies[worst][r];
        Ok(RuleOutcome {
            rule,
            worst: plays[worst],
            loss: tally.loss(),
            picks_mean: tally.picks_mean(),
            bytes_mean: bytes_mean(&cells, plays[worst], rule)?,
        })
    });
    Ok(Case {
        setting: *setting,
        rules: rules.collect::<anyhow::Result<_>>()?,
    })
}

/// Returns `[play][rule]`, summed over all cells.
fn tallies(cells: &[AttackedCell], plays: &[Play], rules: &[Covering]) -> Vec<Vec<Tally>> {
    let of_cell = |cell: &AttackedCell, play: Play| -> Vec<Tally> {
        let aggregates = cell.aggregates(play);
        let tally = |rule: &Covering| {
            let (support, picks) = rule.apply(&aggregates);
            Tally {
                lost: cell.lost(&support),
                honest: cell.honest_votes(),
                cells: 1,
                picks: picks as u64,
                ..Tally::default()
            }
        };
        rules.iter().map(tally).collect()
    };
    plays
        .par_iter()
        .map(|&play| {
            let mut sum = vec![Tally::default(); rules.len()];
            for cell in cells {
                for (sum, tally) in sum.iter_mut().zip(of_cell(cell, play)) {
                    *sum += tally;
                }
            }
            sum
        })
        .collect()
}

/// Returns the mean bytes of the coded support of a collection of [`COLLECTION_CELLS`] such cells, or
/// of all cells if there are fewer. Cells that do not fill a collection are left out.
fn bytes_mean(cells: &[AttackedCell], play: Play, rule: Covering) -> anyhow::Result<f64> {
    let per_collection = cells.len().min(COLLECTION_CELLS as usize);
    let sizes: Vec<Result<usize>> = cells
        .par_chunks_exact(per_collection)
        .map(|chunk| {
            let supports: Vec<Support> = chunk
                .iter()
                .map(|cell| rule.apply(&cell.aggregates(play)).0)
                .collect();
            let positions: usize = supports.iter().map(Support::len).sum();
            let layout = Layout::new(positions as u32, 1, per_collection as u16)?;
            let bounds = CellBounds::committee(&layout, 0);
            let code = SupportCode::new(Coding::Rice, MULTIPLICITY_LIMIT, &bounds, Reference::None);
            Ok(code.encode(&join(&layout, 0, &supports)).len())
        })
        .collect();
    let mut sum = 0;
    let count = sizes.len();
    for size in sizes {
        sum += size.map_err(|error| anyhow::anyhow!("{error}"))?;
    }
    Ok(sum as f64 / count as f64)
}

fn print(args: &Args, cases: &[Case]) -> String {
    let mut header = vec!["malicious".to_owned(), "Eve".into(), "misses".into()];
    header.extend(args.cover.iter().map(ToString::to_string));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let block = |title: &str, show: &dyn Fn(&RuleOutcome) -> String| {
        let row = |case: &Case| {
            let percent = |share: f64| format!("{:.0} %", share * 100.0);
            let mut row = vec![
                percent(case.setting.malicious),
                percent(case.setting.eve),
                percent(case.setting.misses),
            ];
            row.extend(case.rules.iter().map(show));
            row
        };
        let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
        format!("{title}\n{}\n", table(&header, &rows))
    };
    let parts = [
        block("Honest votes lost, worst split and drop", &|rule| {
            format!("{:.2} %", rule.loss * 100.0)
        }),
        block("That split/drop", &|rule| {
            format!("{}/{}", rule.worst.split, rule.worst.drop)
        }),
        block("Picks of a cell", &|rule| format!("{:.1}", rule.picks_mean)),
        block("Bytes of a collection's support", &|rule| {
            format!("{:.0}", rule.bytes_mean)
        }),
    ];
    parts.join("\n")
}

fn case_json(case: &Case) -> Value {
    let map = |value: &dyn Fn(&RuleOutcome) -> Value| -> Map<String, Value> {
        let pair = |rule: &RuleOutcome| (rule.rule.to_string(), value(rule));
        case.rules.iter().map(pair).collect()
    };
    json!({
        "malicious": case.setting.malicious,
        "eve": case.setting.eve,
        "misses": case.setting.misses,
        "loss": map(&|rule| json!(rule.loss)),
        "picks_mean": map(&|rule| json!(rule.picks_mean)),
        "bytes_mean": map(&|rule| json!(rule.bytes_mean)),
        "worst": map(&|rule| json!({ "split": rule.worst.split, "drop": rule.worst.drop })),
    })
}

fn config(args: &Args) -> Value {
    json!({
        "cells": args.cells,
        "cell_size": args.cell_size,
        "aggregators": args.aggregators,
        "online": args.online,
        "split": args.split,
        "drop": args.drop,
        "cover": args.cover.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
