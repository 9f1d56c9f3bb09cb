//! The results of the rules, as counts, as a table and as JSON.

use crate::attack::{Covering, Play, Setting, Tally};
use crate::report::columns;
use crate::text;
use serde_json::{Value, json};

/// One row: a play and a rule.
pub(super) struct Case {
    pub(super) play: Play,
    pub(super) rule: Covering,
    pub(super) tally: Tally,
}

/// Returns the play in which the rule `union` lost most, if it was tried.
fn worst_union(cases: &[Case]) -> Option<&Tally> {
    let unions = cases.iter().filter(|case| case.rule.is_union());
    unions
        .map(|case| &case.tally)
        .max_by_key(|tally| tally.lost)
}

/// Returns why the slot failed, if it did: a signature does not verify, or the union lost a vote.
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
