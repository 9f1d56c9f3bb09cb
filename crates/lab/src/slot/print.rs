//! Printed output of a slot.

use super::levels::shape;
use super::{Args, Plan};
use crate::machine::{Machine, peak_rss_bytes};
use crate::report::{note, table};
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

/// Core time per validator in a slot of BLS, in microseconds: with AVX-512 IFMA 54 s of two Sapphire
/// Rapids cores for 2^20 (README), with portable code 651 s of two cores without IFMA for the same,
/// which were also busy with other work.
const CORE_US: (f64, f64) = (103.0, 620.0);
/// Above this number of validators, the announcement suggests a quicker form.
const QUICK_VALIDATORS: u32 = 1 << 15;

/// Announces the work before it starts, on standard error, as a slot may take long.
pub(super) fn announce(args: &Args, plan: &Plan, machine: &Machine) {
    note(&announcement(args, plan, machine));
}

fn announcement(args: &Args, plan: &Plan, machine: &Machine) -> String {
    let validators = plan.layout.validators();
    let signed = format!(
        "One slot of {} validators, scheme {}: keys, votes, aggregates, collections and block are made and verified \
         on {} threads",
        text::count(validators.into()),
        args.scheme,
        machine.threads
    );
    let Some(kernel) = machine.kernels.get("bls") else {
        return signed + ".";
    };
    let (wide_us, portable_us) = CORE_US;
    let is_portable = kernel == "portable";
    let us = if is_portable { portable_us } else { wide_us };
    let seconds = f64::from(validators) * us * 1e-6 / machine.threads.max(1) as f64;
    let mut text = format!(
        "{signed}; that takes about {} on idle cores, and longer if keys are not in the cache.",
        text::seconds(seconds.max(1.0))
    );
    if is_portable {
        text.push_str(
            " Processors without AVX-512 IFMA take several times longer than those with it",
        );
        text.push_str(match validators > QUICK_VALIDATORS {
            true => "; --validators 32768 is a quick form.",
            false => ".",
        });
    }
    text
}

pub(super) fn header(args: &Args, plan: &Plan, machine: &Machine) -> String {
    format!(
        "One Horn slot, {} validators in {}, participation {}, scheme {}, seed {}\n{}\n",
        text::count(u64::from(plan.layout.validators())),
        shape(&plan.layout),
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

/// Returns a line in which only these cells are filled.
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
        vec!["votes in the block".into(), share(votes.in_block)],
        vec![
            "collections on the global topic".into(),
            format!(
                "{}, {}",
                text::count(outcome.collections.messages),
                text::bytes(outcome.collections.bytes)
            ),
        ],
        vec![
            "block".into(),
            format!(
                "{} entries, {}{}",
                outcome.block.entries,
                text::bytes(outcome.block.bytes),
                match outcome.block.bundle_bytes {
                    0 => String::new(),
                    bytes => format!(", one piece of evidence of {}", text::bytes(bytes)),
                }
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
    if outcome.results_loaded > 0 {
        let loaded = text::count(outcome.results_loaded);
        rows.push(vec![
            "of an earlier run, not timed".into(),
            format!("{loaded} pieces of evidence"),
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

#[cfg(test)]
mod tests {
    use super::super::{Args, plan};
    use super::*;
    use clap::Parser;
    use std::collections::BTreeMap;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_takes_long_is_announced_with_a_quicker_form() {
        let text = |line: &str, kernel: (&'static str, &str)| {
            let args = Line::try_parse_from(line.split(' ')).unwrap().args;
            let kernels = BTreeMap::from([(kernel.0, kernel.1.to_owned())]);
            announcement(&args, &plan(&args).unwrap(), &Machine::here(2, kernels))
        };
        let portable = text("slot", ("bls", "portable"));
        for part in ["1,048,576", "325 s", "AVX-512 IFMA", "--validators 32768"] {
            assert!(portable.contains(part), "{portable}");
        }
        let wide = text("slot", ("bls", "avx512"));
        assert!(wide.contains("54.0 s") && !wide.contains("IFMA"), "{wide}");
        let small = text("slot --validators 64", ("bls", "portable"));
        assert!(
            small.contains("1.00 s") && !small.contains("quick form"),
            "{small}"
        );
        let other = text("slot --scheme falcon", ("labrador", "avx2"));
        assert!(
            other.contains("scheme falcon") && !other.contains("about"),
            "{other}"
        );
    }
}
