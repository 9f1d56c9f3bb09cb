//! The attack on every cell of a slot, for any scheme.

use crate::attack::{AttackedCell, Covering, Play, Setting, Tally};
use crate::draw::{Aggregates, Draw, Source};
use crate::error::Result;
use crate::participation::Record;
use crate::slot::{Args, Plan, Voters};
use alphorn_proto::horn::committee;
use alphorn_scheme::{
    Claim, Ctx, Evidence, Layer, Part, Scheme, SchemeError, Statement, verify_claims,
};
use alphorn_types::{Assignment, Bitfield, Cell, Epoch, Layout, MULTIPLICITY_LIMIT, Slot, Support};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Instant;

/// The slot whose votes are attacked.
pub(super) const SLOT: Slot = Slot(0);

/// A scheme, its keys, and the votes of all validators.
pub(super) trait Voting: Sync {
    /// The scheme.
    type S: Scheme;

    /// Returns the scheme.
    fn scheme(&self) -> &Self::S;

    /// Returns the keys of the epoch.
    fn keys(&self) -> &<Self::S as Scheme>::Keys;

    /// Aggregates the votes of some positions of a statement, at least one.
    ///
    /// # Errors
    /// Those of [`Scheme::aggregate`].
    fn aggregate(
        &self,
        statement: &Statement,
        signers: &Bitfield,
    ) -> std::result::Result<Evidence, SchemeError>;
}

/// The vote, and the validators in their committees.
pub(super) struct Ballot {
    pub(super) assignment: Assignment,
    pub(super) message: [u8; 32],
}

impl Ballot {
    /// Builds the vote and the committees from a seed.
    pub(super) fn of(seed: u64, layout: Layout) -> Self {
        Ballot {
            assignment: committee::assignment(Epoch(0), &digest("mix", seed), layout),
            message: digest("vote", seed),
        }
    }
}

/// The slot under attack.
pub(super) struct AttackedSlot<V> {
    voting: V,
    layout: Layout,
    online: Source,
    message: [u8; 32],
    seed: u64,
}

impl<V: Voting> AttackedSlot<V> {
    pub(super) fn new(args: &Args, plan: &Plan, voting: V) -> Result<Self> {
        Ok(AttackedSlot {
            voting,
            layout: plan.layout,
            online: match &args.participation {
                Voters::Share(share) => Source::Share(*share),
                Voters::File(path) => {
                    Source::Recorded(Record::read(path, args.flag.as_deref())?.bits)
                }
            },
            message: digest("vote", args.common.seed),
            seed: args.common.seed,
        })
    }

    /// Returns the results of each rule against each play in a committee, `[play][rule]`.
    pub(super) fn committee(
        &self,
        setting: &Setting,
        plays: &[Play],
        rules: &[Covering],
        committee: u16,
    ) -> Result<Vec<Vec<Tally>>> {
        // One draw for all plays, so that only Eve's behaviour differs.
        let mut draw = Draw::new(self.seed, u64::from(committee));
        let cells: Vec<DrawnCell> = (0..self.layout.subcommittees())
            .map(|subcommittee| {
                let cell = Cell {
                    committee,
                    subcommittee,
                };
                self.draw(cell, setting, &mut draw)
            })
            .collect();
        let made = self.aggregates(&cells, plays)?;
        let against = |&play: &Play| self.play(play, rules, committee, &cells, &made);
        plays.iter().map(against).collect()
    }

    fn draw(&self, cell: Cell, setting: &Setting, draw: &mut Draw) -> DrawnCell {
        let range = self.layout.cell_range(cell);
        let online = self.online.online(range.clone(), draw);
        DrawnCell {
            statement: Statement {
                layer: Layer::Aggregate,
                first: range.start,
                len: range.end - range.start,
                slot: SLOT,
                message: self.message,
            },
            offset: self.layout.cell_in_committee(cell).start,
            attacked: AttackedCell::draw(&online, setting, draw),
        }
    }

    /// Makes every aggregate of every play once: witnesses publish the same in each play, and often the
    /// same as one another.
    fn aggregates(&self, cells: &[DrawnCell], plays: &[Play]) -> Result<Made> {
        let mut wanted: BTreeMap<Key, (Statement, Bitfield)> = BTreeMap::new();
        for cell in cells {
            for (_, signers) in plays.iter().flat_map(|play| cell.aggregates(*play)) {
                wanted
                    .entry(cell.key(&signers))
                    .or_insert((cell.statement, signers));
            }
        }
        let make = |(key, (statement, signers)): (Key, (Statement, Bitfield))| {
            let made = self.voting.aggregate(&statement, &signers);
            made.map(|evidence| (key, evidence))
        };
        let made: std::result::Result<Made, SchemeError> =
            wanted.into_par_iter().map(make).collect();
        Ok(made?)
    }

    fn play(
        &self,
        play: Play,
        rules: &[Covering],
        committee: u16,
        cells: &[DrawnCell],
        made: &Made,
    ) -> Result<Vec<Tally>> {
        let mut scratch = <V::S as Scheme>::Scratch::default();
        let ctx = &mut Ctx::single(&mut scratch);
        let mut tally = Tally::default();
        let mut verified_cells = Vec::with_capacity(cells.len());
        for cell in cells {
            let aggregates = cell.aggregates(play);
            let evidence: Vec<Evidence> = aggregates
                .iter()
                // Always there: `aggregates` made those of every play.
                .map(|(_, signers)| made[&cell.key(signers)].clone())
                .collect();
            let claims = evidence.iter().map(|evidence| Claim::Group {
                statement: cell.statement,
                evidence: evidence.clone(),
            });
            let verdicts = self.verify(&claims.collect::<Vec<_>>(), ctx);
            tally.aggregates += verdicts.good.len() as u64;
            tally.refused += verdicts.refused();
            tally.verify_aggregates_s += verdicts.seconds;
            // An aggregate that does not verify is ignored.
            let all = aggregates.into_iter().zip(evidence).zip(&verdicts.good);
            let heard = all.filter(|(_, good)| **good).map(|(heard, _)| heard);
            let (aggregates, evidence) = heard.unzip();
            verified_cells.push(VerifiedCell {
                cell,
                aggregates,
                evidence,
            });
        }
        let collect = |&rule: &Covering| self.collect(rule, committee, &verified_cells, tally, ctx);
        rules.iter().map(collect).collect()
    }

    fn verify(&self, claims: &[Claim], ctx: &mut Ctx<'_, <V::S as Scheme>::Scratch>) -> Verdicts {
        let (scheme, keys) = (self.voting.scheme(), self.voting.keys());
        let clock = Instant::now();
        // The secret of the weights may be known here: Eve withholds votes, but forges no signature.
        let good = verify_claims(scheme, keys, claims, &[7; 32], ctx);
        Verdicts {
            good,
            seconds: clock.elapsed().as_secs_f64(),
        }
    }

    /// Makes a collection by a rule, and returns it with its losses.
    fn collect(
        &self,
        rule: Covering,
        committee: u16,
        verified_cells: &[VerifiedCell<'_>],
        verified: Tally,
        ctx: &mut Ctx<'_, <V::S as Scheme>::Scratch>,
    ) -> Result<Tally> {
        let scheme = self.voting.scheme();
        let rule = rule.under(scheme.abilities().overlap(Layer::Aggregate));
        let mut tally = verified;
        let mut parts = Vec::new();
        for verified_cell in verified_cells {
            let picks = rule.picks(&verified_cell.aggregates);
            tally.cells += 1;
            tally.picks += picks.chosen.len() as u64;
            parts.extend(picks.chosen.iter().map(|&i| Part {
                offset: verified_cell.cell.offset,
                layer: Layer::Aggregate,
                evidence: verified_cell.evidence[i].clone(),
            }));
        }
        let range = self.layout.committee_range(committee);
        let statement = Statement {
            layer: Layer::Collection,
            first: range.start,
            len: range.end - range.start,
            slot: SLOT,
            message: self.message,
        };
        let mut signers = Bitfield::new(statement.len as usize);
        // Where nobody published, there is no collection, and all honest votes count as lost.
        if !parts.is_empty() {
            let (keys, clock) = (self.voting.keys(), Instant::now());
            let evidence = scheme.combine(keys, &statement, &parts, MULTIPLICITY_LIMIT, ctx)?;
            tally.combine_s = clock.elapsed().as_secs_f64();
            let claim = Claim::Group {
                statement,
                evidence: evidence.clone(),
            };
            let verdict = self.verify(&[claim], ctx);
            tally.verify_collections_s = verdict.seconds;
            tally.collections = 1;
            tally.refused += verdict.refused();
            if verdict.refused() == 0 {
                signers = evidence.support.signers();
            }
        }
        tally.counted = signers.count_ones() as u64;
        for verified_cell in verified_cells {
            let attacked = &verified_cell.cell.attacked;
            let from = verified_cell.cell.offset as usize;
            let own = signers.extract(from..from + verified_cell.cell.statement.len as usize);
            tally.cast += attacked.votes();
            tally.honest += attacked.honest_votes();
            tally.lost += attacked.lost(&Support::from_bits(own));
            tally.unseen += attacked.unseen_votes();
        }
        Ok(tally)
    }
}

/// A cell whose roles are assigned.
struct DrawnCell {
    statement: Statement,
    /// First position in the committee.
    offset: u32,
    attacked: AttackedCell,
}

/// Cell and signers of an aggregate.
type Key = (u32, Vec<u64>);

/// Aggregates by content.
type Made = BTreeMap<Key, Evidence>;

impl DrawnCell {
    /// Returns what is published under a play. An aggregator without votes publishes nothing.
    fn aggregates(&self, play: Play) -> Aggregates {
        let mut aggregates = self.attacked.aggregates(play);
        aggregates.retain(|(_, signers)| signers.any());
        aggregates
    }

    fn key(&self, signers: &Bitfield) -> Key {
        (self.offset, signers.words().to_vec())
    }
}

/// A cell with its verified aggregates and their evidence, in matching order.
struct VerifiedCell<'a> {
    cell: &'a DrawnCell,
    aggregates: Aggregates,
    evidence: Vec<Evidence>,
}

/// The results of verification.
struct Verdicts {
    good: Vec<bool>,
    seconds: f64,
}

impl Verdicts {
    fn refused(&self) -> u64 {
        self.good.iter().filter(|good| !**good).count() as u64
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
