//! `alphorn slot --griefing`: a slot whose every cell is attacked, with real signatures.
//!
//! Who is Eve's, who votes and who misses what is drawn as for `horn griefing`. Every aggregate has
//! the signature of its signers, made with the sum of their interop keys; the collector verifies
//! all aggregates of its committee, covers each cell by the protocol's own rule, sums what it
//! picked, and everybody verifies the collection. Votes are counted in what was verified.

use super::{Args, Plan, Voters, plan};
use crate::error::{Error, Result};
use crate::horn::attack::{AttackedCell, Covering, Play, Setting};
use crate::horn::draw::{Aggregates, Draw, share_option};
use crate::keycache;
use crate::participation::Record;
use crate::progress::Bars;
use crate::report::{Report, table};
use crate::text;
use alphorn_bls::{Bls, Costs, EpochKeys, Exec, InteropKey, Workspace, interop_keys, sign};
use alphorn_proto::horn::committee;
use alphorn_scheme::{Claim, Ctx, Evidence, Layer, Part, Scheme, Statement, verify_claims};
use alphorn_types::{Assignment, Bitfield, Cell, Epoch, Layout, MULTIPLICITY_LIMIT, Slot, Support};
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Instant;

/// Aggregators of a cell.
const AGGREGATORS: u16 = 16;

/// How the slot is attacked.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Options {
    /// Attack every cell of the slot, and count the honest votes that are lost
    #[arg(long)]
    pub(super) griefing: bool,
    /// Probability that an aggregator is Eve's; a third by default
    #[arg(long, requires = "griefing", value_name = "SHARE", value_parser = share_option)]
    malicious: Option<f64>,
    /// Share of the voters that are Eve's; a tenth by default
    #[arg(long, requires = "griefing", value_name = "SHARE", value_parser = share_option)]
    eve: Option<f64>,
    /// Probability that an honest aggregator misses a vote; 0.01 by default
    #[arg(long, requires = "griefing", value_name = "SHARE", value_parser = share_option)]
    misses: Option<f64>,
    /// Groups of Eve's voters, a play each; 1 and 3 by default
    #[arg(long, requires = "griefing", value_name = "K", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=64))]
    split: Vec<u32>,
    /// Victims, a play each; by default one less than the voters of a group
    #[arg(
        long,
        requires = "griefing",
        value_name = "VOTES",
        value_delimiter = ','
    )]
    drop: Vec<u32>,
}

impl Options {
    fn setting(&self) -> Setting {
        Setting {
            aggregators: AGGREGATORS,
            malicious: self.malicious.unwrap_or(1.0 / 3.0),
            eve: self.eve.unwrap_or(0.1),
            misses: self.misses.unwrap_or(0.01),
        }
    }

    /// Every split with every number of victims.
    fn plays(&self, setting: &Setting, layout: &Layout) -> anyhow::Result<Vec<Play>> {
        let cell = layout.cell_len_max();
        if let Some(drop) = self.drop.iter().find(|drop| **drop > cell) {
            anyhow::bail!("--drop {drop}: a cell has at most {cell} validators");
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

/// The rules that `--cover` lists.
fn rules(args: &Args) -> anyhow::Result<Vec<Covering>> {
    let list = args.cover.as_deref().unwrap_or("best1,quorum3,union");
    let rule = |text: &str| {
        text.parse()
            .map_err(|error| anyhow::anyhow!("--cover: {error}"))
    };
    list.split(',').map(rule).collect()
}

/// What a rule came to against a play.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    honest: u64,
    lost: u64,
    cells: u64,
    picks: u64,
    aggregates: u64,
    collections: u64,
    /// Aggregates and collections that did not verify.
    refused: u64,
    verify_aggregates_s: f64,
    combine_s: f64,
    verify_collections_s: f64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.honest += other.honest;
        self.lost += other.lost;
        self.cells += other.cells;
        self.picks += other.picks;
        self.aggregates += other.aggregates;
        self.collections += other.collections;
        self.refused += other.refused;
        self.verify_aggregates_s += other.verify_aggregates_s;
        self.combine_s += other.combine_s;
        self.verify_collections_s += other.verify_collections_s;
    }
}

/// One row: a play and a rule.
struct Case {
    play: Play,
    rule: Covering,
    tally: Tally,
}

pub(super) fn run(args: &Args, report: &Report) -> Result<()> {
    let kernel = args.common.bls_kernel()?;
    let machine = args.common.machine(kernel)?;
    let plan = plan(args)?;
    let setting = args.griefing.setting();
    let plays = args.griefing.plays(&setting, &plan.layout)?;
    let rules = rules(args)?;
    let pool = args.common.pool()?;
    let mut bars = Bars::new();
    let world = World::new(args, &plan, &pool, &mut bars)?;
    let mut cases = Vec::new();
    for (i, &play) in plays.iter().enumerate() {
        bars.show("plays", i as u64, plays.len() as u64);
        let tallies = pool.install(|| world.play(&setting, play, &rules))?;
        let of_play = rules.iter().zip(tallies);
        cases.extend(of_play.map(|(&rule, tally)| Case { play, rule, tally }));
    }
    bars.clear();

    let sink = args.common.sink();
    sink.say(&super::header(args, &plan, &machine));
    sink.say(&print(&setting, &cases));
    let fields = Map::from_iter([(
        "cases".to_owned(),
        Value::Array(cases.iter().map(case_json).collect()),
    )]);
    let config = json!({
        "slot": super::json::config_json(args, &plan),
        "aggregators": setting.aggregators,
        "malicious": setting.malicious,
        "eve": setting.eve,
        "misses": setting.misses,
    });
    sink.write(&report.object(&machine, "measured", &config, fields)?)?;
    match cases.iter().map(|case| case.tally.refused).sum::<u64>() {
        0 => Ok(()),
        refused => Err(Error::Check(format!(
            "{refused} aggregates and collections do not verify"
        ))),
    }
}

/// Keys and voters of the slot.
struct World {
    scheme: Bls,
    keys: EpochKeys,
    secrets: Vec<InteropKey>,
    layout: Layout,
    online: Source,
    message: [u8; 32],
    seed: u64,
}

/// Who votes.
enum Source {
    Share(f64),
    /// By position of the epoch.
    Recorded(Bitfield),
}

impl World {
    fn new(args: &Args, plan: &Plan, pool: &rayon::ThreadPool, bars: &mut Bars) -> Result<Self> {
        let kernel = args.common.bls_kernel()?;
        let layout = plan.layout;
        let exec = Exec::new(Some(pool));
        let registry = keycache::interop_registry(layout.validators(), kernel, exec, bars)?;
        let mix = digest("mix", args.common.seed);
        let assignment: Assignment = committee::assignment(Epoch(0), &mix, layout);
        let scheme = Bls::new(kernel, Costs::measure(kernel));
        let mut scratch = Workspace::default();
        let keys = scheme.keys(
            &Arc::new(registry.registry),
            &Arc::new(assignment),
            &mut Ctx::single(&mut scratch),
        )?;
        let online = match &args.participation {
            Voters::Share(share) => Source::Share(*share),
            Voters::File(path) => Source::Recorded(Record::read(path, &args.flag)?.bits),
        };
        Ok(World {
            scheme,
            keys,
            secrets: interop_keys(0..u64::from(layout.validators()), exec),
            layout,
            online,
            message: digest("vote", args.common.seed),
            seed: args.common.seed,
        })
    }

    /// What each rule comes to, over all committees.
    fn play(&self, setting: &Setting, play: Play, rules: &[Covering]) -> Result<Vec<Tally>> {
        let committees: Vec<Result<Vec<Tally>>> = (0..self.layout.committees())
            .into_par_iter()
            .map(|c| self.committee(setting, play, rules, c))
            .collect();
        let mut sums = vec![Tally::default(); rules.len()];
        for committee in committees {
            for (sum, tally) in sums.iter_mut().zip(committee?) {
                *sum += tally;
            }
        }
        Ok(sums)
    }

    fn committee(
        &self,
        setting: &Setting,
        play: Play,
        rules: &[Covering],
        committee: u16,
    ) -> Result<Vec<Tally>> {
        let mut scratch = Workspace::default();
        let ctx = &mut Ctx::single(&mut scratch);
        // The same draw for every play: only what Eve does differs.
        let mut draw = Draw::new(self.seed, u64::from(committee));
        let mut cells: Vec<AttackedPlace> = (0..self.layout.subcommittees())
            .map(|subcommittee| {
                let cell = Cell {
                    committee,
                    subcommittee,
                };
                self.attack(cell, setting, play, &mut draw)
            })
            .collect();
        let mut tally = Tally::default();
        let clock = Instant::now();
        for place in &mut cells {
            let claims: Vec<Claim> = place
                .evidence
                .iter()
                .map(|evidence| Claim::Group {
                    statement: place.statement,
                    evidence: evidence.clone(),
                })
                .collect();
            let verdicts = verify_claims(&self.scheme, &self.keys, &claims, &[7; 32], ctx);
            tally.aggregates += claims.len() as u64;
            tally.refused += verdicts.iter().filter(|good| !**good).count() as u64;
            place.keep(&verdicts);
        }
        tally.verify_aggregates_s = clock.elapsed().as_secs_f64();
        let by_rule = rules
            .iter()
            .map(|&rule| self.collect(rule, committee, &cells, tally, ctx));
        by_rule.collect()
    }

    /// The aggregates of a cell under a play.
    fn attack(&self, cell: Cell, setting: &Setting, play: Play, draw: &mut Draw) -> AttackedPlace {
        let range = self.layout.cell_range(cell);
        let positions = range.start as usize..range.end as usize;
        let online = match &self.online {
            Source::Share(share) => draw.bits(positions.len(), *share),
            Source::Recorded(bits) => bits.extract(positions.clone()),
        };
        let attacked = AttackedCell::draw(&online, setting, draw);
        let members = &self.keys.assignment().members()[positions];
        // Who has no vote to sum publishes nothing.
        let aggregates: Aggregates = attacked
            .aggregates(play)
            .into_iter()
            .filter(|(_, signers)| signers.any())
            .collect();
        let evidence = aggregates.iter().map(|(_, signers)| {
            let secrets = members
                .iter()
                .enumerate()
                .filter(|(i, _)| signers.get(*i))
                .map(|(_, &validator)| (&self.secrets[validator as usize], 1));
            // Interop keys do not cancel; if they did, this would be refused like any bad bytes.
            let signature = InteropKey::weighted_sum(secrets).map_or(vec![0; 96], |sum| {
                sign(&sum.to_secret_key(), &self.message)
                    .to_bytes()
                    .to_vec()
            });
            Evidence {
                support: Arc::new(Support::from_bits(signers.clone())),
                bytes: signature.into(),
            }
        });
        AttackedPlace {
            statement: Statement {
                layer: Layer::Aggregate,
                first: range.start,
                len: range.end - range.start,
                slot: Slot(0),
                message: self.message,
            },
            offset: self.layout.cell_in_committee(cell).start,
            evidence: evidence.collect(),
            aggregates,
            attacked,
        }
    }

    /// A collection by a rule, and what it lost.
    fn collect(
        &self,
        rule: Covering,
        committee: u16,
        cells: &[AttackedPlace],
        verified: Tally,
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Result<Tally> {
        let mut tally = verified;
        let mut parts = Vec::new();
        for place in cells {
            let (picks, _) = rule.picks(&place.aggregates);
            tally.cells += 1;
            tally.picks += picks.chosen.len() as u64;
            parts.extend(picks.chosen.iter().map(|&i| Part {
                offset: place.offset,
                layer: Layer::Aggregate,
                evidence: place.evidence[i].clone(),
            }));
        }
        let range = self.layout.committee_range(committee);
        let statement = Statement {
            layer: Layer::Collection,
            first: range.start,
            len: range.end - range.start,
            slot: Slot(0),
            message: self.message,
        };
        let mut signers = Bitfield::new(statement.len as usize);
        if !parts.is_empty() {
            let clock = Instant::now();
            let evidence =
                self.scheme
                    .combine(&self.keys, &statement, &parts, MULTIPLICITY_LIMIT, ctx)?;
            tally.combine_s = clock.elapsed().as_secs_f64();
            let claim = [Claim::Group {
                statement,
                evidence: evidence.clone(),
            }];
            let clock = Instant::now();
            let verdict = verify_claims(&self.scheme, &self.keys, &claim, &[7; 32], ctx);
            tally.verify_collections_s = clock.elapsed().as_secs_f64();
            tally.collections = 1;
            if verdict == [true] {
                signers = evidence.support.signers();
            } else {
                tally.refused += 1;
            }
        }
        for place in cells {
            let from = place.offset as usize;
            let own = signers.extract(from..from + place.statement.len as usize);
            tally.honest += place.attacked.honest_votes();
            tally.lost += place.attacked.lost(&Support::from_bits(own));
        }
        Ok(tally)
    }
}

/// A cell with its aggregates and their signatures, side by side.
struct AttackedPlace {
    statement: Statement,
    /// First position in the committee.
    offset: u32,
    attacked: AttackedCell,
    aggregates: Aggregates,
    evidence: Vec<Evidence>,
}

impl AttackedPlace {
    /// Forgets the aggregates that do not verify.
    fn keep(&mut self, verdicts: &[bool]) {
        let mut good = verdicts.iter();
        self.aggregates.retain(|_| good.next() == Some(&true));
        let mut good = verdicts.iter();
        self.evidence.retain(|_| good.next() == Some(&true));
    }
}

fn digest(label: &str, seed: u64) -> [u8; 32] {
    Sha256::new()
        .chain_update("alphorn-griefing-v1")
        .chain_update(label)
        .chain_update(seed.to_le_bytes())
        .finalize()
        .into()
}

fn print(setting: &Setting, cases: &[Case]) -> String {
    let header = [
        "split/drop",
        "rule",
        "honest votes",
        "lost",
        "share",
        "picks a cell",
        "aggregates",
        "verified in",
        "collections",
        "summed in",
        "verified in",
    ];
    let row = |case: &Case| {
        let tally = &case.tally;
        vec![
            format!("{}/{}", case.play.split, case.play.drop),
            case.rule.to_string(),
            text::count(tally.honest),
            text::count(tally.lost),
            format!("{:.2} %", 100.0 * loss(tally)),
            format!("{:.1}", tally.picks as f64 / tally.cells.max(1) as f64),
            text::count(tally.aggregates),
            text::seconds(tally.verify_aggregates_s),
            text::count(tally.collections),
            text::seconds(tally.combine_s),
            text::seconds(tally.verify_collections_s),
        ]
    };
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    let refused: u64 = cases.iter().map(|case| case.tally.refused).sum();
    format!(
        "{:.0} % of {} aggregators a cell and {:.0} % of the voters are Eve's, honest aggregators miss {:.1} %; times of one core\n{}\n\n{}",
        setting.malicious * 100.0,
        setting.aggregators,
        setting.eve * 100.0,
        setting.misses * 100.0,
        table(&header, &rows),
        match refused {
            0 => "All signatures verify.".to_owned(),
            refused => format!("{refused} AGGREGATES AND COLLECTIONS DO NOT VERIFY."),
        }
    )
}

fn loss(tally: &Tally) -> f64 {
    tally.lost as f64 / tally.honest.max(1) as f64
}

fn case_json(case: &Case) -> Value {
    let tally = &case.tally;
    json!({
        "split": case.play.split,
        "drop": case.play.drop,
        "cover": case.rule.to_string(),
        "votes_honest": tally.honest,
        "votes_lost": tally.lost,
        "loss": loss(tally),
        "picks_mean": tally.picks as f64 / tally.cells.max(1) as f64,
        "aggregates": tally.aggregates,
        "collections": tally.collections,
        "refused": tally.refused,
        "verify_aggregates_s": tally.verify_aggregates_s,
        "combine_s": tally.combine_s,
        "verify_collections_s": tally.verify_collections_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn args(options: &[&str]) -> Args {
        let cli = Cli::try_parse_from([&["slot", "--griefing"], options].concat());
        cli.unwrap_or_else(|error| panic!("{error}")).args
    }

    fn tallies(options: &[&str]) -> Vec<(Play, Vec<Tally>)> {
        let args = args(options);
        let plan = plan(&args).unwrap();
        let setting = args.griefing.setting();
        let plays = args.griefing.plays(&setting, &plan.layout).unwrap();
        let pool = crate::options::pool(2).unwrap();
        let world = World::new(&args, &plan, &pool, &mut Bars::new()).unwrap();
        let rules = rules(&args).unwrap();
        let play = |play: Play| (play, world.play(&setting, play, &rules).unwrap());
        plays.into_iter().map(play).collect()
    }

    #[test]
    fn eve_takes_votes_from_the_best_aggregate_and_none_from_the_union() {
        let found = tallies(&[
            "--validators",
            "512",
            "--committees",
            "2",
            "--subcommittees",
            "2",
            "--eve",
            "0.2",
        ]);
        assert_eq!(found.len(), 2, "the simple and the split attack");
        assert_eq!((found[0].0.split, found[1].0.split), (1, 3));
        for (play, tallies) in &found {
            let [best1, quorum3, union] = tallies[..] else {
                panic!("three rules");
            };
            for tally in tallies {
                assert_eq!((tally.refused, tally.collections, tally.cells), (0, 2, 4));
                assert_eq!(tally.aggregates, 64);
            }
            assert_eq!(union.lost, 0, "{play:?}");
            assert!(best1.lost > quorum3.lost && best1.picks == 4, "{play:?}");
        }
        // All vote, Eve has 25 of 128 in each cell: 24 victims wherever she has an aggregator.
        assert_eq!(found[0].0.drop, 24);
        assert!(
            (84..=100).contains(&found[0].1[0].lost),
            "{:?}",
            found[0].1[0]
        );
    }

    #[test]
    fn without_voters_there_is_nothing_to_lose() {
        let options = ["--validators", "40", "--participation", "0", "--eve", "0"];
        for (_, tallies) in tallies(&options) {
            for tally in tallies {
                assert_eq!((tally.honest, tally.lost, tally.collections), (0, 0, 0));
            }
        }
    }

    #[test]
    fn options_of_the_attack_need_the_attack() {
        for options in [&["--eve", "0.1"][..], &["--split", "3"], &["--drop", "1"]] {
            assert!(Cli::try_parse_from([&["slot"], options].concat()).is_err());
        }
        let wrong = args(&["--validators", "100", "--drop", "101"]);
        let layout = plan(&wrong).unwrap().layout;
        let error = wrong.griefing.plays(&wrong.griefing.setting(), &layout);
        assert!(error.unwrap_err().to_string().contains("--drop 101"));
        assert!(rules(&args(&["--cover", "best1,first"])).is_err());
    }
}
