//! Rows of verification: collections, bad items, hostile keys.

use super::super::bls_sums::{self, Keys};
use super::super::bls_verify::{
    Verifier, World, epoch_keys, peers, secret, signature_of, verdicts_agree,
};
use super::super::columns::{Participation, Supports, table_of};
use super::super::least;
use super::{Args, Row, Unit};
use crate::error::Result;
use crate::options::pool;
use crate::progress::Bars;
use alphorn_bls::{Bls, Costs, EpochKeys, Signature, SumOptions, Workspace, verify};
use alphorn_exec::{Backend, Exec};
use alphorn_scheme::{Claim, Layer};
use alphorn_types::Layout;

/// What of a slot's collections is timed.
#[derive(Clone, Copy)]
enum Part {
    /// Decoding, subgroup, sums of keys, one combination.
    Inner,
    /// Proofs of selection and envelopes too.
    Full,
    /// What so many bad collections cost on top of `Inner`.
    Bad(usize),
}

/// A row to fill: on how many threads, what, and at most how many seconds with the AVX-512 kernel
/// and with the portable one.
type Goal = (usize, Part, f64, f64);

/// Share of voters, greatest multiplicity, rows.
const SLOTS: [(f64, &str, &[Goal]); 5] = [
    (
        0.5,
        "1",
        &[
            (1, Part::Inner, 0.20, 0.50),
            (2, Part::Inner, 0.10, 0.30),
            (2, Part::Full, 0.21, 0.42),
            (1, Part::Bad(8), 0.08, 0.08),
        ],
    ),
    (0.95, "1", &[(2, Part::Inner, 0.065, 0.12)]),
    (0.99, "1", &[(2, Part::Inner, 0.06, 0.06)]),
    (0.5, "3", &[(2, Part::Inner, 0.17, 0.55)]),
    (0.5, "15", &[(2, Part::Inner, 0.30, 1.1)]),
];

/// Votes of a committee's topic among which bad ones are sought, how many, and how much longer
/// that may take than verifying each alone.
const VOTES: (u32, usize, f64) = (1_024, 64, 1.1);
/// How much longer sums of hostile keys may take than those of interop keys.
const HOSTILE_RATIO: f64 = 1.5;

struct Bench<'a> {
    args: &'a Args,
    kernel: Backend,
    costs: Costs,
    scheme: Bls,
    layout: Layout,
    /// Pools of one and of two threads.
    pools: [rayon::ThreadPool; 2],
}

/// All rows of a kernel.
pub(super) fn rows(args: &Args, kernel: Backend, bars: &mut Bars) -> Result<Vec<Row>> {
    let costs = Costs::measure(kernel);
    let bench = Bench {
        args,
        kernel,
        costs,
        scheme: Bls::new(kernel, costs),
        layout: args.shape("1").layout()?,
        pools: [pool(1)?, pool(2)?],
    };
    let epoch = epoch_keys(&bench.scheme, &bench.layout, &bench.pools[1], bars)?;
    let mut rows = Vec::new();
    let count = SLOTS.len() as u64 + 4;
    for (i, (share, multiplicity, goals)) in SLOTS.into_iter().enumerate() {
        bars.show("verification", i as u64, count);
        bench.slot(&epoch, share, multiplicity, goals, &mut rows)?;
    }
    bars.show("bad votes", SLOTS.len() as u64, count);
    rows.push(bench.votes(bars)?);
    for keys in [Keys::Clones, Keys::Pairs, Keys::Sequence] {
        bars.show("hostile keys", count - 1, count);
        rows.push(bench.hostile(&epoch, keys)?);
    }
    Ok(rows)
}

impl Bench<'_> {
    /// The scheme's verification on so many threads.
    fn verifier(&self, threads: usize) -> Verifier<'_> {
        Verifier {
            scheme: &self.scheme,
            secret: secret(self.args.common.seed),
            pool: &self.pools[threads - 1],
        }
    }

    /// Rows of the collections of a slot.
    fn slot(
        &self,
        keys: &EpochKeys,
        share: f64,
        multiplicity: &str,
        goals: &[Goal],
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let seed = self.args.common.seed;
        let runs = usize::from(self.args.runs);
        let shape = self.args.shape(multiplicity);
        let supports = Supports::draw(&shape, &self.layout, &Participation::Share(share), seed)?;
        let pool = &self.pools[1];
        let mut world = World::of_supports(keys, Layer::Collection, supports.all(), 1, pool);
        let mut workspace = Workspace::default();
        let count = self.args.collections_of_a_slot();
        let name = match multiplicity {
            "1" => format!("{count} collections, {} %", share * 100.0),
            m => format!("{count} collections, {} %, M = {m}", share * 100.0),
        };
        for &(threads, part, wide_s, portable_s) in goals {
            let exec = Exec::new(self.kernel, Some(&self.pools[threads - 1]));
            let verifier = self.verifier(threads);
            let honest = verifier.measure(&world, runs, &mut workspace);
            let peers = peers(&world, runs, seed, exec);
            let mut agrees = verdicts_agree(&honest, None, &[], Some(&peers));
            let (what, measured) = match part {
                Part::Inner => (name.clone(), honest.inner().0),
                Part::Full => (format!("{name}, full"), honest.full().0),
                Part::Bad(bad) => {
                    let damaged = world.damage(bad);
                    let found = verifier.measure(&world, runs, &mut workspace);
                    agrees &= verdicts_agree(&honest, Some(&found), &damaged, None);
                    let extra_s = (found.inner().0 - honest.inner().0).max(0.0);
                    (format!("{bad} bad of {count}, 50 %: on top"), extra_s)
                }
            };
            rows.push(Row {
                what,
                kernel: Some(self.kernel),
                threads,
                unit: Unit::Seconds,
                measured,
                target: self.args.of_horn(match self.kernel == Backend::Portable {
                    true => portable_s,
                    false => wide_s,
                }),
                peers_s: Some([peers.seconds[0], peers.seconds[1], peers.strongest_s()]),
                comparable: !matches!(part, Part::Bad(_)),
                agrees,
            });
        }
        Ok(())
    }

    /// Many bad votes among single ones, beside verifying each alone with blst's pairing.
    fn votes(&self, bars: &mut Bars) -> Result<Row> {
        let (count, bad, ratio_max) = VOTES;
        let layout = Layout::new(count, 1, 1)?;
        let keys = epoch_keys(&self.scheme, &layout, &self.pools[0], bars)?;
        let mut world = World::of_votes(&keys, 1, &self.pools[1]);
        let damaged = world.damage(bad);
        let runs = usize::from(self.args.runs);
        let ours = self
            .verifier(1)
            .measure(&world, runs, &mut Workspace::default());
        let public = keys.registry().keys();
        let (alone_s, bad_alone) = least(runs.min(2), || {
            // The votes stand in the order of the validators.
            let holds = |i: usize, vote: &Claim| {
                Signature::from_bytes(signature_of(vote))
                    .is_ok_and(|signature| verify(&public[i], vote.message(), &signature))
            };
            let votes = world.singles.iter().enumerate();
            let bad = votes.filter(|(i, vote)| !holds(*i, vote)).map(|(i, _)| i);
            bad.collect::<Vec<_>>()
        });
        let (ours_s, verified) = ours.full();
        Ok(Row {
            what: "64 bad of 1,024 votes: to one by one".into(),
            kernel: Some(self.kernel),
            threads: 1,
            unit: Unit::Ratio,
            measured: ours_s / alone_s,
            target: Some(ratio_max),
            // There are no keys to sum: all ways of blst are the same.
            peers_s: Some([alone_s; 3]),
            comparable: false,
            agrees: verified.bad() == damaged && bad_alone == damaged,
        })
    }

    /// Sums of keys that meet equal and opposite points, to the same sums of interop keys.
    fn hostile(&self, epoch: &EpochKeys, keys: Keys) -> Result<Row> {
        let interop = epoch.table();
        let share = Participation::Share(0.5);
        let shape = self.args.shape("1");
        let supports = Supports::draw(&shape, &self.layout, &share, self.args.common.seed)?;
        let points = keys.points(interop.keys(), &self.layout, self.kernel);
        let hostile = table_of(points, &self.layout, self.kernel)?;
        let bench = bls_sums::Bench {
            runs: usize::from(self.args.runs),
            options: SumOptions {
                method: None,
                costs: self.costs,
            },
            pool: &self.pools[1],
            interop,
        };
        let case = bench.measure(keys, Some(&hostile), &supports, &share)?;
        Ok(Row {
            what: format!("sums at 50 %, {} as keys: to interop", keys.name()),
            kernel: Some(self.kernel),
            threads: 2,
            unit: Unit::Ratio,
            measured: case.ours_s / case.interop_s,
            target: Some(HOSTILE_RATIO),
            peers_s: Some(case.peers_s),
            comparable: false,
            agrees: case.equal,
        })
    }
}
