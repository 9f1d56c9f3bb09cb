//! `alphorn horn committees`: sizes of committees and cells, and the odds of selection.

mod print;

use super::odds;
use crate::distinct::distinct;
use crate::draw::{Draw, NetworkArgs, share_option};
use crate::error::{Error, Result};
use crate::options::Common;
use crate::progress::Bars;
use crate::report::Report;
use alphorn_proto::horn::Selection;
use alphorn_proto::horn::selection::{ranked, selected, ticket};
use alphorn_proto::wire::digest::epoch_seed;
use alphorn_types::{Epoch, Layout, Slot, Unit};
use anyhow::ensure;
use print::{drawn_table, fields, odds_table, sizes_text};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Maximum number of tickets drawn, and of members ranked.
const TICKETS_MAX: u64 = 1 << 28;
/// Bytes of a proof whose hash is a ticket; any random bytes will do.
const PROOF_BYTES: usize = 96;
/// Deviation of a sum from its expectation, in standard deviations, that is treated as an error: about
/// one in 10^6 correct runs exceeds it.
const DEVIATIONS_MAX: f64 = 5.0;

/// Compute the sizes of committees and cells, and the odds of selection
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn horn committees
  alphorn horn committees --validators 392036 --committees 32 --subcommittees 64
  alphorn horn committees --validators 2^17 --target 8,16 --honest 0.5,0.67,0.8 --slots 20

Odds are exact sums, not approximations, over the true sizes of all groups of n members:
  lottery   a member serves with probability t/n, independently: P[none] = (1 - t/n)^n,
            P[no honest one] = (1 - t/n)^(h n), P[more than the cap] by the binomial tail
  rank      exactly min(t, n) serve: P[no honest one] = product of (n - hn - i)/(n - i), i < t
and over all groups 1 - product of (1 - P). Then the protocol's own selection is drawn for some
slots and compared: exit code 1 if it deviates by more than 5 standard deviations.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    network: NetworkArgs,
    /// Target members per group, one row each; selection is also drawn for the first
    #[arg(long, value_delimiter = ',', default_value = "16,8", value_name = "T",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    target: Vec<u16>,
    /// Shares of honest validators
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.8", value_name = "SHARE",
          value_parser = share_option)]
    honest: Vec<f64>,
    /// Maximum number of messages accepted from a group
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u16).range(1..=64))]
    cap: u16,
    /// Number of slots whose selection is drawn; 0 for none
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    slots: u32,
}

/// Groups of one kind by size: `{members: groups}`. Empty groups are left out, as no vote is lost there.
type Sizes = BTreeMap<u32, u32>;

/// Odds in a slot, over all groups.
#[derive(Clone, Debug)]
struct Odds {
    role: &'static str,
    selection: Selection,
    target: u16,
    none_group: f64,
    none_slot: f64,
    above_cap_slot: f64,
    none_honest_slot: Vec<f64>,
}

/// Results of drawing the selection, compared with the expectation.
#[derive(Clone, Debug, Default)]
struct Drawn {
    groups: u64,
    members: u64,
    members_expected: f64,
    members_variance: f64,
    least: u64,
    most: u64,
    none: u64,
    none_expected: f64,
    none_honest: Vec<u64>,
    none_honest_expected: Vec<f64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("horn committees", args.common.seed);
    let machine = args.common.machine_without_kernels()?;
    args.network.check_flag(&[])?;
    distinct("--target", &args.target)?;
    distinct("--honest", &args.honest)?;
    let pool = args.common.pool()?;
    let layout = args.network.layout()?;
    check_size(args, &layout)?;
    let posts = [("aggregator", 1), ("collector", layout.levels())];
    let posts = posts.map(|(role, level)| (role, layout.units(level).collect::<Vec<_>>()));
    let mut rows = Vec::new();
    for (role, posts) in &posts {
        for &target in &args.target {
            for selection in [Selection::Lottery, Selection::Rank] {
                rows.push(odds(role, &sizes(&layout, posts), selection, target, args));
            }
        }
    }
    let mut bars = Bars::new();
    let mut drawn = Vec::new();
    if args.slots > 0 {
        for (i, (role, posts)) in posts.iter().enumerate() {
            for selection in [Selection::Lottery, Selection::Rank] {
                bars.show("selection", i as u64, posts.len() as u64);
                let result = pool.install(|| draw(&layout, posts, selection, args));
                drawn.push((*role, selection, result));
            }
        }
    }
    bars.clear();

    let sink = args.common.sink();
    sink.say(&format!("{}\n{}\n", sizes_text(&layout), machine.line()));
    sink.say(&odds_table(&rows, args));
    if !drawn.is_empty() {
        sink.say(&drawn_table(&drawn, args));
    }
    let fields = fields(&layout, &rows, &drawn);
    sink.write(&report.object(&machine, "modelled", &config(args, &layout), fields)?)?;
    match drawn.iter().find(|(_, _, drawn)| !drawn.holds()) {
        None => Ok(()),
        Some((role, selection, _)) => Err(Error::Check(format!(
            "{role}s by {selection}: the draws are more than {DEVIATIONS_MAX} standard deviations off"
        ))),
    }
}

fn check_size(args: &Args, layout: &Layout) -> anyhow::Result<()> {
    let tickets = u64::from(layout.validators()) * 2 * u64::from(args.slots);
    ensure!(
        tickets <= TICKETS_MAX,
        "--slots {}: {tickets} tickets of {} validators in two roles, at most {TICKETS_MAX} are drawn",
        args.slots,
        layout.validators()
    );
    Ok(())
}

fn sizes(layout: &Layout, posts: &[Unit]) -> Sizes {
    let mut sizes = Sizes::new();
    for post in posts {
        let members = layout.unit_len(*post);
        if members > 0 {
            *sizes.entry(members).or_default() += 1;
        }
    }
    sizes
}

fn honest_members(n: u32, honest: f64) -> u32 {
    (f64::from(n) * honest).round() as u32
}

/// P\[no honest member of a group of `n` serves\].
fn none_honest(n: u32, selection: Selection, target: u16, honest: f64) -> f64 {
    let honest = honest_members(n, honest);
    match selection {
        Selection::Lottery => odds::none(f64::from(honest), chance(target, n)),
        Selection::Rank => odds::none_without_repetition(n, honest, u32::from(target).min(n)),
    }
}

/// Probability that a member of a group of `n` > 0 wins a ticket.
fn chance(target: u16, n: u32) -> f64 {
    (f64::from(target) / f64::from(n)).min(1.0)
}

/// P\[no member of a group of `n` serves\].
fn none(n: u32, selection: Selection, target: u16) -> f64 {
    match selection {
        Selection::Lottery => odds::none(f64::from(n), chance(target, n)),
        Selection::Rank => 0.0,
    }
}

fn odds(role: &'static str, sizes: &Sizes, selection: Selection, target: u16, args: &Args) -> Odds {
    // Over all groups: 1 - product of (1 - p), iterating over group sizes.
    let over = |p: &dyn Fn(u32) -> f64| {
        let all_fine = sizes
            .iter()
            .map(|(&n, &groups)| odds::any(p(n), f64::from(groups)))
            .fold(0.0, |sum, p| sum + p - sum * p);
        all_fine.clamp(0.0, 1.0)
    };
    let cap = u32::from(args.cap);
    Odds {
        role,
        selection,
        target,
        none_group: sizes
            .keys()
            .map(|&n| none(n, selection, target))
            .fold(0.0, f64::max),
        none_slot: over(&|n| none(n, selection, target)),
        above_cap_slot: over(&|n| match selection {
            Selection::Lottery => odds::binomial_at_least(n, chance(target, n), cap + 1),
            Selection::Rank => f64::from(u8::from(u32::from(target).min(n) > cap)),
        }),
        none_honest_slot: args
            .honest
            .iter()
            .map(|&honest| over(&|n| none_honest(n, selection, target, honest)))
            .collect(),
    }
}

/// Draws the first target's selection for some slots. The first members of a group are the honest ones,
/// since which members win does not depend on their position.
fn draw(layout: &Layout, posts: &[Unit], selection: Selection, args: &Args) -> Drawn {
    let target = args.target[0];
    let filled: Vec<Unit> = posts
        .iter()
        .copied()
        .filter(|post| layout.unit_len(*post) > 0)
        .collect();
    let seed = epoch_seed(Epoch(0), &{
        let mut mix = [0; 32];
        mix[..8].copy_from_slice(&args.common.seed.to_le_bytes());
        mix
    });
    let groups = filled.len() as u64 * u64::from(args.slots);
    let one = |i: u64| {
        let post = filled[(i % filled.len() as u64) as usize];
        let slot = Slot(i / filled.len() as u64);
        let n = layout.unit_len(post);
        let serving: Vec<u32> = match selection {
            Selection::Rank => ranked(&seed, slot, post, layout, u32::from(target)),
            Selection::Lottery => {
                let role = u64::from(post.level > 1);
                let mut draw = Draw::new(args.common.seed, i << 1 | role);
                let mut proof = [0; PROOF_BYTES];
                let wins = |_: &u32| {
                    draw.fill(&mut proof);
                    selected(ticket(&proof), u32::from(target), n)
                };
                (0..n).filter(wins).collect()
            }
        };
        Drawn::of_group(n, &serving, selection, target, args)
    };
    (0..groups)
        .into_par_iter()
        .map(one)
        .reduce(|| Drawn::nothing(args.honest.len()), Drawn::merge)
}

impl Drawn {
    fn nothing(honest: usize) -> Self {
        Drawn {
            least: u64::MAX,
            none_honest: vec![0; honest],
            none_honest_expected: vec![0.0; honest],
            ..Drawn::default()
        }
    }

    fn of_group(n: u32, serving: &[u32], selection: Selection, target: u16, args: &Args) -> Self {
        let members = serving.len() as u64;
        let p = chance(target, n);
        let no_honest = |honest: &f64| {
            let honest = honest_members(n, *honest);
            u64::from(serving.iter().all(|&position| position >= honest))
        };
        Drawn {
            groups: 1,
            members,
            members_expected: f64::from(n.min(u32::from(target))),
            members_variance: match selection {
                Selection::Lottery => f64::from(n) * p * (1.0 - p),
                Selection::Rank => 0.0,
            },
            least: members,
            most: members,
            none: u64::from(members == 0),
            none_expected: none(n, selection, target),
            none_honest: args.honest.iter().map(no_honest).collect(),
            none_honest_expected: args
                .honest
                .iter()
                .map(|&honest| none_honest(n, selection, target, honest))
                .collect(),
        }
    }

    fn merge(mut self, other: Self) -> Self {
        self.groups += other.groups;
        self.members += other.members;
        self.members_expected += other.members_expected;
        self.members_variance += other.members_variance;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.none += other.none;
        self.none_expected += other.none_expected;
        for (sum, value) in self.none_honest.iter_mut().zip(other.none_honest) {
            *sum += value;
        }
        for (sum, value) in self
            .none_honest_expected
            .iter_mut()
            .zip(other.none_honest_expected)
        {
            *sum += value;
        }
        self
    }

    /// Returns the deviation of the number of members from its expectation, in standard deviations.
    fn deviations(&self) -> f64 {
        let difference = self.members as f64 - self.members_expected;
        match self.members_variance {
            variance if variance > 0.0 => difference / variance.sqrt(),
            // Nothing is random.
            _ if difference.abs() < 0.5 => 0.0,
            _ => f64::INFINITY,
        }
    }

    /// Whether all counts are within their expected range.
    fn holds(&self) -> bool {
        // A count of rare events is Poisson: its variance equals its mean.
        let rare = |count: u64, expected: f64| {
            (count as f64 - expected).abs() <= DEVIATIONS_MAX * expected.sqrt() + 1.0
        };
        self.deviations().abs() <= DEVIATIONS_MAX
            && rare(self.none, self.none_expected)
            && self
                .none_honest
                .iter()
                .zip(&self.none_honest_expected)
                .all(|(&count, &expected)| rare(count, expected))
    }
}

fn config(args: &Args, layout: &Layout) -> Value {
    json!({
        "validators": layout.validators(),
        "committees": layout.committees(),
        "subcommittees": layout.subcommittees(),
        "target": args.target,
        "honest": args.honest,
        "cap": args.cap,
        "slots": args.slots,
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
        Cli::try_parse_from([&["committees"], options].concat())
            .unwrap_or_else(|error| panic!("{error}"))
            .args
    }

    fn posts(layout: &Layout) -> [Vec<Unit>; 2] {
        [1, 2].map(|level| layout.units(level).collect())
    }

    #[test]
    fn the_odds_of_a_million_validators() {
        let args = args(&[]);
        let layout = args.network.layout().unwrap();
        let [cells, committees] = posts(&layout);
        let of = |posts: &[Unit], selection, target| {
            odds("", &sizes(&layout, posts), selection, target, &args)
        };
        let close = |value: f64, expected: f64, relative: f64| {
            assert!(
                (value / expected - 1.0).abs() < relative,
                "{value}, not {expected}"
            );
        };
        let cell = of(&cells, Selection::Lottery, 16);
        close(cell.none_group, 8.7e-8, 0.01);
        close(cell.none_slot, 1.8e-4, 0.02);
        let committee = of(&committees, Selection::Lottery, 16);
        close(committee.none_honest_slot[0], 0.0107, 0.01);
        close(committee.none_honest_slot[1], 8.8e-5, 0.01);
        let rank = of(&committees, Selection::Rank, 16);
        assert_eq!(rank.none_slot, 0.0);
        close(rank.none_honest_slot[0], 4.9e-4, 0.02);
        // The binomial's tail is thinner than that of its Poisson limit, 8e-11 for 48 or more.
        assert!(cell.above_cap_slot < 2048.0 * 8e-11);
    }

    #[test]
    fn draws_of_the_real_selection_hold() {
        for validators in ["5", "191", "3000", "20000"] {
            let args = args(&[
                "--validators",
                validators,
                "--committees",
                "4",
                "--subcommittees",
                "3",
                "--slots",
                "4",
                "--honest",
                "0.5,0,1",
            ]);
            let layout = args.network.layout().unwrap();
            for posts in posts(&layout) {
                for selection in [Selection::Lottery, Selection::Rank] {
                    let drawn = draw(&layout, &posts, selection, &args);
                    assert!(drawn.holds(), "{validators} {selection}: {drawn:?}");
                    let filled = sizes(&layout, &posts).values().sum::<u32>();
                    assert_eq!(drawn.groups, u64::from(filled) * 4);
                    assert_eq!(drawn.none_honest[1], drawn.groups, "nobody is honest");
                    assert_eq!(drawn.none_honest[2], drawn.none, "all are honest");
                }
            }
        }
    }

    #[test]
    fn a_wrong_selection_does_not_hold() {
        let args = args(&["--validators", "4096", "--honest", "0.5"]);
        let serving: Vec<u32> = (0..20).collect();
        let fold = |selection| {
            (0..200)
                .map(|_| Drawn::of_group(512, &serving, selection, 16, &args))
                .fold(Drawn::nothing(1), Drawn::merge)
        };
        assert!(!fold(Selection::Lottery).holds());
        assert!(!fold(Selection::Rank).holds());
    }

    #[test]
    fn probabilities_read_well() {
        assert_eq!(print::probability(0.0), "0");
        assert_eq!(print::probability(0.010_66), "1.07 %");
        assert_eq!(print::probability(8.7e-8), "8.7e-8");
    }
}
