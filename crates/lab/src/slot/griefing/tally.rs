//! What the rules came to, as counts, as a table and as JSON.

use crate::attack::{Covering, Play, Setting};
use crate::report::columns;
use crate::text;
use serde_json::{Value, json};
use std::ops::AddAssign;

/// What a rule came to against a play.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Votes that were cast, Eve's among them.
    pub(super) cast: u64,
    /// Votes in collections that verify.
    pub(super) counted: u64,
    /// Honest votes that were cast.
    pub(super) honest: u64,
    /// Honest votes that were not counted.
    pub(super) lost: u64,
    /// Honest votes that no honest aggregator had: no rule can count on them.
    pub(super) unseen: u64,
    pub(super) cells: u64,
    pub(super) picks: u64,
    pub(super) aggregates: u64,
    pub(super) collections: u64,
    /// Aggregates and collections that did not verify.
    pub(super) refused: u64,
    pub(super) verify_aggregates_s: f64,
    pub(super) combine_s: f64,
    pub(super) verify_collections_s: f64,
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
    /// Share of the honest votes that are lost.
    fn loss(&self) -> f64 {
        self.lost as f64 / self.honest.max(1) as f64
    }

    fn picks_mean(&self) -> f64 {
        self.picks as f64 / self.cells.max(1) as f64
    }
}

/// One row: a play and a rule.
pub(super) struct Case {
    pub(super) play: Play,
    pub(super) rule: Covering,
    pub(super) tally: Tally,
}

/// Where the rule `union` lost most, if it was tried.
fn worst_union(cases: &[Case]) -> Option<&Tally> {
    let unions = cases.iter().filter(|case| case.rule.is_union());
    unions
        .map(|case| &case.tally)
        .max_by_key(|tally| tally.lost)
}

/// Why the slot failed, if it did: a signature does not verify, or the union lost a vote.
pub(super) fn failure(cases: &[Case]) -> Option<String> {
    let refused: u64 = cases.iter().map(|case| case.tally.refused).sum();
    if refused > 0 {
        return Some(format!(
            "{refused} aggregates and collections do not verify"
        ));
    }
    let worst = worst_union(cases)?;
    (worst.lost > 0).then(|| {
        format!(
            "{} honest votes are lost under union; {} are in the aggregate of no honest aggregator",
            worst.lost, worst.unseen
        )
    })
}

pub(super) fn print(setting: &Setting, cases: &[Case]) -> String {
    let row = |case: &Case| {
        let tally = &case.tally;
        vec![
            (
                "split/drop",
                format!("{}/{}", case.play.split, case.play.drop),
            ),
            ("rule", case.rule.to_string()),
            ("votes cast", text::count(tally.cast)),
            ("counted", text::count(tally.counted)),
            ("honest votes", text::count(tally.honest)),
            ("lost", text::count(tally.lost)),
            ("share", format!("{:.2} %", 100.0 * tally.loss())),
            ("picks a cell", format!("{:.1}", tally.picks_mean())),
            ("aggregates", text::count(tally.aggregates)),
            ("verified in", text::seconds(tally.verify_aggregates_s)),
            ("collections", text::count(tally.collections)),
            ("combined in", text::seconds(tally.combine_s)),
            ("verified in", text::seconds(tally.verify_collections_s)),
        ]
    };
    let refused: u64 = cases.iter().map(|case| case.tally.refused).sum();
    let union = match worst_union(cases).map(|tally| tally.lost) {
        None => String::new(),
        Some(0) => " The union loses no honest vote.".to_owned(),
        Some(lost) => format!(" THE UNION LOSES {lost} HONEST VOTES."),
    };
    format!(
        "{:.0} % of {} aggregators a cell and {:.0} % of the voters are Eve's, honest aggregators miss {:.1} %; times of one core\n{}\n\n{}{union}",
        setting.malicious * 100.0,
        setting.aggregators,
        setting.eve * 100.0,
        setting.misses * 100.0,
        columns(cases.iter().map(row)),
        match refused {
            0 => "All signatures verify.".to_owned(),
            refused => format!("{refused} AGGREGATES AND COLLECTIONS DO NOT VERIFY."),
        }
    )
}

pub(super) fn case_json(case: &Case) -> Value {
    let tally = &case.tally;
    json!({
        "split": case.play.split,
        "drop": case.play.drop,
        "cover": case.rule.to_string(),
        "votes_cast": tally.cast,
        "votes_counted": tally.counted,
        "votes_honest": tally.honest,
        "votes_lost": tally.lost,
        "votes_unseen": tally.unseen,
        "loss": tally.loss(),
        "picks_mean": tally.picks_mean(),
        "aggregates": tally.aggregates,
        "collections": tally.collections,
        "refused": tally.refused,
        "verify_aggregates_s": tally.verify_aggregates_s,
        "combine_s": tally.combine_s,
        "verify_collections_s": tally.verify_collections_s,
    })
}
