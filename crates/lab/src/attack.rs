//! The griefing attack on one cell.
//!
//! Eve controls a share of the cell's voters and some of its aggregators. She withholds the votes of
//! her voters from honest aggregators, sees every honest vote herself, and has all her aggregators drop
//! the same victims. Her voters are split into groups; each aggregate of hers contains one group, so
//! that each further pick of hers adds more than the honest one that has the victims.

use crate::draw::{Aggregates, Draw, covered, missing, picked};
use alphorn_proto::horn::Cover;
use alphorn_proto::horn::cover::Picks;
use alphorn_scheme::Overlap;
use alphorn_types::{Bitfield, MULTIPLICITY_LIMIT, Support, Validator};
use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

/// The parameters of the attacked cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Aggregators of a cell.
    pub(crate) aggregators: u16,
    /// Probability that an aggregator is Eve's.
    pub(crate) malicious: f64,
    /// Share of a cell's positions whose voters are Eve's; all of them vote.
    pub(crate) eve: f64,
    /// Probability that an honest aggregator misses a vote.
    pub(crate) misses: f64,
}

impl Setting {
    /// Eve's voters in a cell of `positions`.
    pub(crate) fn eve_voters(&self, positions: usize) -> usize {
        (positions as f64 * self.eve).floor() as usize
    }
}

/// How Eve plays: how many groups, how many victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Play {
    /// Groups of her voters.
    pub(crate) split: u32,
    /// Honest votes that all her aggregates drop.
    pub(crate) drop: u32,
}

/// The results of a rule against a play.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Votes cast, including Eve's.
    pub(crate) cast: u64,
    /// Votes in collections that verify.
    pub(crate) counted: u64,
    /// Honest votes cast.
    pub(crate) honest: u64,
    /// Honest votes not counted.
    pub(crate) lost: u64,
    /// Honest votes that no honest aggregator had, which no rule can count on.
    pub(crate) unseen: u64,
    pub(crate) cells: u64,
    pub(crate) picks: u64,
    pub(crate) aggregates: u64,
    pub(crate) collections: u64,
    /// Aggregates and collections that did not verify.
    pub(crate) refused: u64,
    pub(crate) verify_aggregates_s: f64,
    pub(crate) combine_s: f64,
    pub(crate) verify_collections_s: f64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.cast += other.cast;
        self.counted += other.counted;
        self.honest += other.honest;
        self.lost += other.lost;
        self.unseen += other.unseen;
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

impl Tally {
    /// Returns the share of the honest votes that are lost.
    pub(crate) fn loss(&self) -> f64 {
        self.lost as f64 / self.honest.max(1) as f64
    }

    pub(crate) fn picks_mean(&self) -> f64 {
        self.picks as f64 / self.cells.max(1) as f64
    }
}

/// One cell before Eve decides.
#[derive(Clone, Debug)]
pub(crate) struct AttackedCell {
    eve: Vec<usize>,
    honest: Bitfield,
    /// Honest voters in the order in which they become victims.
    victims: Vec<usize>,
    /// What honest aggregators publish.
    witnesses: Aggregates,
    malicious: Vec<Validator>,
}

impl AttackedCell {
    /// Draws roles and misses in a cell where `online` vote.
    pub(crate) fn draw(online: &Bitfield, setting: &Setting, draw: &mut Draw) -> Self {
        let mut positions: Vec<usize> = (0..online.len()).collect();
        draw.shuffle(&mut positions);
        let eve = positions
            .drain(..setting.eve_voters(online.len()))
            .collect::<Vec<_>>();
        let mut honest = online.clone();
        for &i in &eve {
            honest.clear(i);
        }
        let victims = positions.into_iter().filter(|&i| honest.get(i)).collect();
        let roles = draw.bits(usize::from(setting.aggregators), setting.malicious);
        let (mut witnesses, mut malicious) = (Aggregates::new(), Vec::new());
        for i in 0..usize::from(setting.aggregators) {
            let sender = Validator(i as u32);
            if roles.get(i) {
                malicious.push(sender);
            } else {
                witnesses.push((sender, missing(&honest, setting.misses, draw)));
            }
        }
        AttackedCell {
            eve,
            honest,
            victims,
            witnesses,
            malicious,
        }
    }

    /// Returns all aggregates of the cell under a play. With fewer aggregators than groups, Eve makes
    /// only as many groups as she has aggregators.
    pub(crate) fn aggregates(&self, play: Play) -> Aggregates {
        let mut aggregates = self.witnesses.clone();
        let mut rest = self.honest.clone();
        for &victim in self.victims.iter().take(play.drop as usize) {
            rest.clear(victim);
        }
        let groups = (play.split as usize).clamp(1, self.malicious.len().max(1));
        for (k, &sender) in self.malicious.iter().enumerate() {
            let mut signers = rest.clone();
            for &i in self.eve.iter().skip(k % groups).step_by(groups) {
                signers.set(i);
            }
            aggregates.push((sender, signers));
        }
        aggregates
    }

    /// Returns the honest votes cast.
    pub(crate) fn honest_votes(&self) -> u64 {
        self.honest.count_ones() as u64
    }

    /// Returns all votes cast: honest ones and Eve's.
    pub(crate) fn votes(&self) -> u64 {
        self.honest_votes() + self.eve.len() as u64
    }

    /// Returns the honest votes that no honest aggregator has.
    pub(crate) fn unseen_votes(&self) -> u64 {
        let mut unseen = self.honest.clone();
        for (_, signers) in &self.witnesses {
            unseen.subtract(signers);
        }
        unseen.count_ones() as u64
    }

    /// Returns the honest votes missing from a collector's support of the cell.
    pub(crate) fn lost(&self, support: &Support) -> u64 {
        self.honest.count_and_not(&support.signers()) as u64
    }
}

/// A cover rule with its number of picks: `best1`, `greedyK`, `quorumK` with K = 2 to 15, `union`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covering {
    rule: Cover,
    picks: usize,
}

impl Covering {
    /// Returns the collector's sum for a cell, and the number of aggregates it picked.
    pub(crate) fn apply(self, aggregates: &Aggregates) -> (Support, usize) {
        covered(aggregates, self.rule, self.picks)
    }

    /// Returns the aggregates of a cell that the collector picks.
    pub(crate) fn picks(self, aggregates: &Aggregates) -> Picks {
        picked(aggregates, self.rule, self.picks)
    }

    /// Whether the rule takes every aggregate that adds something new.
    pub(crate) fn is_union(self) -> bool {
        self.rule == Cover::Union
    }

    /// Returns the rule for this kind of overlap: where nothing is counted, a union ends only when
    /// nothing is new.
    pub(crate) fn under(self, overlap: Overlap) -> Self {
        match (self.rule, overlap) {
            (Cover::Union, Overlap::Union) => {
                let (rule, picks) = self.rule.under(overlap, 1);
                Covering { rule, picks }
            }
            _ => self,
        }
    }
}

impl FromStr for Covering {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text: String = text.chars().take(40).collect();
            format!("{text:?} is no rule: best1, greedyK or quorumK with K from 2 to 15, union")
        };
        let (name, count) = if matches!(text, "best1" | "union") {
            (text, MULTIPLICITY_LIMIT)
        } else {
            let mut names = ["greedy", "quorum"].into_iter();
            let name = names.find(|name| text.starts_with(name));
            let name = name.ok_or_else(wrong)?;
            let mut counts = 2..=MULTIPLICITY_LIMIT;
            let count = counts.find(|count| text[name.len()..] == count.to_string());
            (name, count.ok_or_else(wrong)?)
        };
        let rule: Cover = name.parse().map_err(|_| wrong())?;
        // The collector's own way from a configuration to a number of picks.
        let overlap = Overlap::Counted {
            max: MULTIPLICITY_LIMIT,
        };
        let (rule, picks) = rule.under(overlap, count);
        Ok(Covering { rule, picks })
    }
}

impl fmt::Display for Covering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule {
            Cover::Best1 | Cover::Union => write!(f, "{}", self.rule),
            Cover::Greedy | Cover::Quorum => write!(f, "{}{}", self.rule, self.picks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: Setting = Setting {
        aggregators: 16,
        malicious: 1.0 / 3.0,
        eve: 0.1,
        misses: 0.01,
    };

    fn cell(setting: &Setting) -> AttackedCell {
        let mut draw = Draw::new(5, 0);
        let online = draw.bits(512, 0.95);
        AttackedCell::draw(&online, setting, &mut draw)
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in [
            "best1", "greedy2", "greedy3", "quorum2", "quorum15", "union",
        ] {
            assert_eq!(text.parse::<Covering>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "best",
            "best2",
            "best11",
            "greedy",
            "greedy1",
            "quorum16",
            "quorum0",
            "quorum02",
            "union3",
            "3",
            "quorum-1",
            "quorum999999999999",
        ] {
            let error = wrong.parse::<Covering>().unwrap_err();
            assert!(error.contains("quorumK"), "{wrong}: {error}");
        }
    }

    #[test]
    fn eve_drops_the_same_victims_everywhere_and_uses_all_her_voters() {
        let cell = cell(&SETTING);
        assert_eq!(cell.eve.len(), 51);
        assert!(cell.malicious.len() >= 3, "the seed gives Eve aggregators");
        let play = Play { split: 3, drop: 16 };
        let aggregates = cell.aggregates(play);
        assert_eq!(aggregates.len(), 16);
        let hers: Vec<&Bitfield> = aggregates
            .iter()
            .filter(|(sender, _)| cell.malicious.contains(sender))
            .map(|(_, signers)| signers)
            .collect();
        for (k, signers) in hers.iter().enumerate() {
            assert!(cell.victims[..16].iter().all(|&v| !signers.get(v)));
            let own = cell.eve.iter().filter(|&&i| signers.get(i)).count();
            assert_eq!(own, 17, "51 voters in 3 groups");
            assert_eq!(
                signers.count_ones() as u64,
                cell.honest_votes() - 16 + 17,
                "{k}"
            );
        }
        let all = hers.iter().fold(Bitfield::new(512), |mut all, signers| {
            all.union_with(signers);
            all
        });
        assert!(cell.eve.iter().all(|&i| all.get(i)));
        for (sender, signers) in &aggregates {
            let honest = !cell.malicious.contains(sender);
            assert_eq!(
                honest,
                cell.eve.iter().all(|&i| !signers.get(i)),
                "{sender:?}"
            );
        }
    }

    #[test]
    fn the_best_aggregate_loses_one_vote_less_than_eve_has_and_the_union_none() {
        let cell = cell(&SETTING);
        let aggregates = cell.aggregates(Play { split: 1, drop: 50 });
        let lost = |rule: &str| {
            let rule: Covering = rule.parse().unwrap();
            cell.lost(&rule.apply(&aggregates).0)
        };
        assert_eq!(lost("best1"), 50);
        assert_eq!(lost("union"), 0);
        assert_eq!(lost("quorum3"), 0);
        let mut setting = SETTING;
        setting.malicious = 0.0;
        let honest = self::cell(&setting);
        assert_eq!(honest.aggregates(Play { split: 1, drop: 50 }).len(), 16);
    }

    #[test]
    fn a_union_that_counts_nothing_takes_all_that_is_new() {
        let union: Covering = "union".parse().unwrap();
        // Forty aggregates, each with a vote of its own.
        let own = |i: u32| {
            let mut signers = Bitfield::new(40);
            signers.set(i as usize);
            (Validator(i), signers)
        };
        let aggregates: Aggregates = (0..40).map(own).collect();
        let picks = |overlap| union.under(overlap).picks(&aggregates).chosen.len();
        assert_eq!(picks(Overlap::Counted { max: 15 }), 15);
        assert_eq!(picks(Overlap::Union), 40);
        let best: Covering = "best1".parse().unwrap();
        assert_eq!(best.under(Overlap::Union), best);
        assert!(union.is_union() && !best.is_union());
    }

    #[test]
    fn votes_that_no_honest_aggregator_has_are_unseen() {
        let mut setting = SETTING;
        assert_eq!(cell(&setting).unseen_votes(), 0);
        setting.malicious = 1.0;
        let hers = cell(&setting);
        assert_eq!(hers.unseen_votes(), hers.honest_votes());
        assert_eq!(hers.votes(), hers.honest_votes() + 51);
    }

    #[test]
    fn a_cell_without_positions_can_be_attacked() {
        let mut draw = Draw::new(0, 0);
        let cell = AttackedCell::draw(&Bitfield::new(0), &SETTING, &mut draw);
        let aggregates = cell.aggregates(Play { split: 4, drop: 9 });
        let (support, _) = "union".parse::<Covering>().unwrap().apply(&aggregates);
        assert_eq!((cell.honest_votes(), cell.lost(&support)), (0, 0));
    }
}
