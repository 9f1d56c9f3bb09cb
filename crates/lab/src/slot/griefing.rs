//! `alphorn slot --griefing`: a slot whose every cell is attacked, with real signatures.
//!
//! Eve's validators, votes and misses are drawn as for `horn griefing`. The scheme makes every
//! aggregate from the votes of its signers. The collector verifies all aggregates of its committee,
//! covers each cell by the protocol's own rule, and combines its picks; then all nodes verify the
//! collection. Votes are counted in what was verified.

mod sums;
mod tally;
#[cfg(test)]
mod tests;
mod votes;
mod world;

use super::{Args, BLS, FALCON, Layers, Plan, falcon, plan, xmss};
use crate::attack::{Covering, Play, Setting, Tally};
use crate::distinct::distinct;
use crate::draw::share_option;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::options::check_unused;
use crate::progress::Bars;
use crate::report::Report;
use alphorn_stark::merge::{CHILDREN_MAX, MERGE_LEVELS};
use alphorn_types::Layout;
use rayon::prelude::*;
use serde_json::{Value, json};
use sums::Sums;
use tally::{Case, case_json, failure, print};
use votes::Votes;
use world::{AttackedSlot, Ballot, Voting};

/// Default number of aggregators of a cell.
const AGGREGATORS: u16 = 16;

/// Maximum number of validators when aggregates are proofs: eight cells of 512, each with some twenty
/// distinct aggregates, which means minutes of proving.
const PROVED_VALIDATORS_MAX: u32 = 4096;

/// Maximum number of proofs in merges of all levels.
const MERGED_MAX: u32 = (CHILDREN_MAX as u32).pow(MERGE_LEVELS);

/// How the slot is attacked.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Options {
    /// Attack every cell of the slot and count the honest votes lost
    #[arg(long)]
    pub(super) griefing: bool,
    /// Number of aggregators per cell (default: 16)
    #[arg(long, requires = "griefing", value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    aggregators: Option<u16>,
    /// Probability that an aggregator is Eve's (default: one third)
    #[arg(long, requires = "griefing", value_name = "SHARE", value_parser = share_option)]
    malicious: Option<f64>,
    /// Share of the voters that are Eve's (default: one tenth)
    #[arg(long, requires = "griefing", value_name = "SHARE", value_parser = share_option)]
    eve: Option<f64>,
    /// Probability that an honest aggregator misses a vote (default: 0.01)
    #[arg(long, requires = "griefing", value_name = "SHARE", value_parser = share_option)]
    misses: Option<f64>,
    /// Number of groups of Eve's voters, one play each (default: 1 and 3)
    #[arg(long, requires = "griefing", value_name = "K", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=64))]
    split: Vec<u32>,
    /// Number of victims, one play each (default: one less than the voters of a group)
    #[arg(
        long,
        requires = "griefing",
        value_name = "VOTES",
        value_delimiter = ','
    )]
    drop: Vec<u32>,
}

impl Options {
    /// Rejects options that only an attack uses: clap does not require `--griefing` where another
    /// option excludes it.
    pub(super) fn check_unused(&self) -> Result<()> {
        check_unused(
            "griefing",
            &[
                ("--aggregators", self.aggregators.is_some()),
                ("--malicious", self.malicious.is_some()),
                ("--eve", self.eve.is_some()),
                ("--misses", self.misses.is_some()),
                ("--split", !self.split.is_empty()),
                ("--drop", !self.drop.is_empty()),
            ],
        )
    }

    fn setting(&self) -> Setting {
        Setting {
            aggregators: self.aggregators.unwrap_or(AGGREGATORS),
            malicious: self.malicious.unwrap_or(1.0 / 3.0),
            eve: self.eve.unwrap_or(0.1),
            misses: self.misses.unwrap_or(0.01),
        }
    }

    /// Returns every split with every number of victims.
    fn plays(&self, setting: &Setting, layout: &Layout) -> Result<Vec<Play>> {
        distinct("--split", &self.split)?;
        distinct("--drop", &self.drop)?;
        let cell = layout.cell_len_max();
        if let Some(drop) = self.drop.iter().find(|drop| **drop > cell) {
            let why = format!("a cell has at most {cell} validators");
            return Err(anyhow::anyhow!("--drop {drop}: {why}").into());
        }
        let splits = match self.split.as_slice() {
            [] => &[1, 3][..],
            splits => splits,
        };
        let eve = setting.eve_voters(cell as usize) as u32;
        let plays = splits.iter().flat_map(|&split| {
            let drops = match self.drop.as_slice() {
                [] => vec![(eve / split).saturating_sub(1)],
                drops => drops.to_vec(),
            };
            drops.into_iter().map(move |drop| Play { split, drop })
        });
        Ok(plays.collect())
    }
}

/// Returns the rules that `--cover` lists.
fn rules(args: &Args) -> Result<Vec<Covering>> {
    let list = args.cover.as_deref().unwrap_or("best1,quorum3,union");
    let rule = |text: &str| {
        text.parse()
            .map_err(|error| anyhow::anyhow!("--cover: {error}"))
    };
    let rules: Vec<Covering> = list.split(',').map(rule).collect::<anyhow::Result<_>>()?;
    distinct("--cover", &rules)?;
    Ok(rules)
}

pub(super) fn run(args: &Args, report: &Report) -> Result<()> {
    let plan = plan(args)?;
    let attack = Attack::of(args, &plan)?;
    let pool = args.common.pool()?;
    let mut bars = Bars::new();
    let (machine, cases) = attack.of_scheme(args, &plan, &pool, &mut bars)?;
    bars.clear();
    attack.tell(args, &plan, &machine, &cases, report)?;
    match failure(&cases) {
        None => Ok(()),
        Some(failure) => Err(Error::Check(failure)),
    }
}

/// All plays and rules to be tried.
struct Attack {
    setting: Setting,
    plays: Vec<Play>,
    rules: Vec<Covering>,
    layout: Layout,
}

impl Attack {
    fn of(args: &Args, plan: &Plan) -> Result<Self> {
        let setting = args.griefing.setting();
        Ok(Attack {
            plays: args.griefing.plays(&setting, &plan.layout)?,
            rules: rules(args)?,
            layout: plan.layout,
            setting,
        })
    }

    /// Rejects more proofs than a merge takes or than is reasonable to wait for.
    fn check_proofs(&self, args: &Args, plan: &Plan) -> Result<()> {
        if args.layers() != Some(Layers::ProofProof) {
            return Ok(());
        }
        let (validators, max) = (plan.layout.validators(), PROVED_VALIDATORS_MAX);
        if validators > max {
            return Err(anyhow::anyhow!(
                "--validators {validators}: every aggregate of the attack is proved, of at most {max} \
                 validators; --layers list/proof takes more"
            )
            .into());
        }
        let (cells, aggregators) = (plan.layout.subcommittees(), self.setting.aggregators);
        let (proofs, max) = (u32::from(cells) * u32::from(aggregators), MERGED_MAX);
        if proofs > max {
            return Err(anyhow::anyhow!(
                "{cells} cells with --aggregators {aggregators}: up to {proofs} proofs of a committee, \
                 of which merges hold at most {max}"
            )
            .into());
        }
        Ok(())
    }

    /// Runs the attack on the scheme selected by the options.
    fn of_scheme(
        &self,
        args: &Args,
        plan: &Plan,
        pool: &rayon::ThreadPool,
        bars: &mut Bars,
    ) -> Result<(Machine, Vec<Case>)> {
        let ballot = Ballot::of(args.common.seed, plan.layout);
        match args.scheme.as_str() {
            BLS => {
                let machine = args
                    .common
                    .machine(args.common.kernel(&alphorn_bls::KERNELS)?)?;
                let sums = Sums::new(args, plan, pool, bars)?;
                let world = AttackedSlot::new(args, plan, sums)?;
                Ok((machine, self.run(&world, pool, bars)?))
            }
            FALCON => {
                let (machine, scheme) = falcon::scheme(args)?;
                let (signers, registry) = falcon::keys(args, &plan.layout, pool);
                let votes = Votes::cast(scheme, registry, &signers, ballot, pool)?;
                let world = AttackedSlot::new(args, plan, votes)?;
                Ok((machine, self.run(&world, pool, bars)?))
            }
            _ => {
                let (machine, scheme) = xmss::scheme(args, plan)?;
                self.check_proofs(args, plan)?;
                let (signers, registry) = xmss::keys(args, &plan.layout, pool, bars)?;
                let votes = Votes::cast(scheme, registry, &signers, ballot, pool)?;
                let world = AttackedSlot::new(args, plan, votes)?;
                Ok((machine, self.run(&world, pool, bars)?))
            }
        }
    }

    /// Returns the results of each rule against each play, over all committees.
    fn run<V: Voting>(
        &self,
        world: &AttackedSlot<V>,
        pool: &rayon::ThreadPool,
        bars: &mut Bars,
    ) -> Result<Vec<Case>> {
        let tallies = self.tallies(world, pool, bars)?;
        let of_play = |(&play, tallies): (&Play, Vec<Tally>)| {
            let rules = self.rules.iter().zip(tallies);
            let case = move |(&rule, tally)| Case { play, rule, tally };
            rules.map(case).collect::<Vec<_>>()
        };
        Ok(self.plays.iter().zip(tallies).flat_map(of_play).collect())
    }

    /// Sums over all committees, `[play][rule]`.
    fn tallies<V: Voting>(
        &self,
        world: &AttackedSlot<V>,
        pool: &rayon::ThreadPool,
        bars: &mut Bars,
    ) -> Result<Vec<Vec<Tally>>> {
        let committees: Vec<u16> = (0..self.layout.committees()).collect();
        let mut sums = vec![vec![Tally::default(); self.rules.len()]; self.plays.len()];
        let of = |&committee| world.committee(&self.setting, &self.plays, &self.rules, committee);
        // As many at a time as there are threads, so that progress can be shown in between.
        for (i, some) in committees.chunks(pool.current_num_threads()).enumerate() {
            let done = i * pool.current_num_threads();
            bars.show("committees", done as u64, committees.len() as u64);
            let found: Vec<Result<Vec<Vec<Tally>>>> =
                pool.install(|| some.par_iter().map(of).collect());
            for tallies in found {
                for (sum, tally) in sums.iter_mut().zip(tallies?) {
                    for (sum, tally) in sum.iter_mut().zip(tally) {
                        *sum += tally;
                    }
                }
            }
        }
        Ok(sums)
    }

    /// Prints the table and writes the JSON object.
    fn tell(
        &self,
        args: &Args,
        plan: &Plan,
        machine: &Machine,
        cases: &[Case],
        report: &Report,
    ) -> Result<()> {
        let sink = args.common.sink();
        sink.say(&super::header(args, plan, machine));
        sink.say(&print(&self.setting, cases));
        let fields = json!({ "cases": Value::Array(cases.iter().map(case_json).collect()) });
        let config = json!({
            "slot": super::json::config_json(args, plan),
            "aggregators": self.setting.aggregators,
            "malicious": self.setting.malicious,
            "eve": self.setting.eve,
            "misses": self.setting.misses,
        });
        sink.write(&report.object(machine, "measured", &config, fields)?)
    }
}
