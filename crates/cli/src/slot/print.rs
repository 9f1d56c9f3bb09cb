//! What is printed of a slot.

use super::{Args, Plan};
use crate::machine::{Machine, peak_rss_bytes};
use crate::report::table;
use crate::text;
use alphorn_proto::wire::Kind;
use alphorn_sim::slot::{SlotOutcome, Step};

/// Columns of the table of steps.
const STEP_COLUMNS: [&str; 8] = [
    "phase",
    "work",
    "jobs",
    "items",
    "core time",
    "wall time",
    "messages",
    "bytes",
];

pub(super) fn header(args: &Args, plan: &Plan, machine: &Machine) -> String {
    format!(
        "One Horn slot, {} validators in {} committees of {} cells, participation {}, scheme {}, seed {}\n{}\n",
        text::count(u64::from(plan.layout.validators())),
        plan.layout.committees(),
        plan.layout.subcommittees(),
        plan.participation_name,
        args.scheme,
        args.common.seed,
        machine.line()
    )
}

pub(super) fn steps_table(outcome: &SlotOutcome, keys_s: f64, from_cache: bool) -> String {
    let keys = if from_cache {
        "keys from the cache"
    } else {
        "make the keys"
    };
    let mut rows = vec![row(&[
        (0, "keys".into()),
        (1, keys.into()),
        (3, text::count(u64::from(outcome.layout.validators()))),
        (5, text::seconds(keys_s)),
    ])];
    for stage in &outcome.traffic {
        let steps = outcome
            .steps
            .iter()
            .filter(|step| step.stage == stage.stage);
        rows.extend(steps.map(step_row));
        let published = stage.published.iter().zip(Kind::ALL);
        let published = published.filter(|(traffic, _)| traffic.messages > 0);
        rows.extend(published.map(|(traffic, kind)| {
            row(&[
                (0, stage.stage.into()),
                (1, format!("publish {}s", kind.name())),
                (6, text::count(traffic.messages)),
                (7, text::bytes(traffic.bytes)),
            ])
        }));
    }
    table(&STEP_COLUMNS, &rows)
}

/// A line of which only these cells are filled.
fn row(cells: &[(usize, String)]) -> Vec<String> {
    let mut row = vec![String::new(); STEP_COLUMNS.len()];
    for (column, text) in cells {
        row[*column].clone_from(text);
    }
    row
}

fn step_row(step: &Step) -> Vec<String> {
    row(&[
        (0, step.stage.into()),
        (1, step.op.replace('_', " ")),
        (2, text::count(step.meter.computed_jobs)),
        (3, text::count(step.meter.computed_items)),
        (4, text::seconds(step.meter.busy_ns as f64 * 1e-9)),
        (5, text::seconds(step.meter.wall_ns as f64 * 1e-9)),
    ])
}

pub(super) fn result_table(outcome: &SlotOutcome) -> String {
    let votes = outcome.votes;
    let share = |part: u64| {
        format!(
            "{} ({:.2} %)",
            text::count(part),
            100.0 * part as f64 / votes.expected.max(1) as f64
        )
    };
    let mut rows = vec![
        vec!["votes cast".into(), text::count(votes.cast)],
        vec!["votes verified".into(), share(votes.verified)],
        vec!["votes in collections".into(), share(votes.in_collections)],
        vec!["votes in the next block".into(), share(votes.in_block)],
        vec![
            "collections on the global topic".into(),
            format!(
                "{}, {}",
                text::count(outcome.collections.messages),
                text::bytes(outcome.collections.bytes)
            ),
        ],
        vec![
            "next block".into(),
            format!(
                "{} entries, {}",
                outcome.block.entries,
                text::bytes(outcome.block.bytes)
            ),
        ],
    ];
    if let Some(verification) = outcome.verification {
        let both = |pooled: u64, single: u64| {
            let seconds = |ns: u64| text::seconds(ns as f64 * 1e-9);
            format!(
                "{} on all threads, {} on one",
                seconds(pooled),
                seconds(single)
            )
        };
        rows.push(vec![
            "verify all collections".into(),
            both(verification.inner_pooled_ns, verification.inner_single_ns),
        ]);
        rows.push(vec![
            "with proofs of selection and envelopes".into(),
            both(verification.pooled_ns, verification.single_ns),
        ]);
    }
    if let Some(cross) = outcome.cross {
        rows.push(vec![
            "checked again by blst alone".into(),
            format!(
                "{} signatures, {} aggregates, {} differences",
                cross.signatures, cross.groups, cross.differences
            ),
        ]);
    }
    rows.push(vec!["peak memory".into(), text::bytes(peak_rss_bytes())]);
    format!("\n{}", table(&["result", ""], &rows))
}

pub(super) fn verdict(outcome: &SlotOutcome, whole_s: f64) -> String {
    let failures = outcome.failures();
    if failures.is_empty() {
        let coverage = if outcome.coverage_exact {
            "every vote that was cast is counted, in every committee"
        } else {
            ""
        };
        return format!("\nHolds: {coverage}. Whole run {}.", text::seconds(whole_s));
    }
    let list: Vec<String> = failures
        .iter()
        .map(|failure| format!("\n  {failure}"))
        .collect();
    format!("\nDOES NOT HOLD:{}", list.concat())
}
