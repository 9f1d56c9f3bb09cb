//! The figures as tables, as JSON, and in words.

use super::Row;
use super::forms::{forms, is_common};
use super::measure::{Case, Merge, Times};
use super::million::{Million, Network, VALIDATORS};
use crate::report::{parted, table};
use crate::text;
use alphorn_scheme::{Layer, Overlap};
use serde_json::{Value, json};

/// Cores and Mbit/s of an attesting node, as recommended by EIP-7870 (2025; cited).
const ATTESTER: (f64, f64) = (8.0, 50.0);

/// Describes briefly whether overlapping collections can be merged.
pub(super) fn merges(case: &Case) -> String {
    match case.abilities.overlap(Layer::Collection) {
        Overlap::None => "disjoint only".into(),
        Overlap::Counted { max } => format!("counted to {max}"),
        Overlap::Union => match case.mergeable_max {
            None => "union".into(),
            Some(most) => format!("union of proofs of up to {most} votes"),
        },
    }
}

/// Returns the largest committee at which every form was measured, 0 if there is none.
pub(super) fn common(rows: &[Row]) -> u32 {
    let sizes = rows.iter().map(|row| row.case.votes);
    sizes
        .filter(|votes| is_common(rows, *votes))
        .max()
        .unwrap_or(0)
}

/// Header and rows of a table.
pub(super) struct Figures {
    pub(super) title: String,
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Figures {
    /// Builds a table from rows, at least one, whose cells carry the names of their columns.
    fn of(title: String, rows: impl Iterator<Item = Vec<(&'static str, String)>>) -> Self {
        let (head, rows) = parted(rows);
        Figures { title, head, rows }
    }
}

/// Returns all tables for a terminal, with their titles.
pub(super) fn all(rows: &[Row], million: &[Million], network: Network) -> Vec<(String, String)> {
    [
        schemes(rows),
        steps(rows),
        merged(rows),
        together(million, network),
    ]
    .into_iter()
    .map(|figures| (figures.title, table(&figures.head, &figures.rows)))
    .collect()
}

/// Describes the forms.
pub(super) fn schemes(rows: &[Row]) -> Figures {
    let line = |row: &&Row| {
        let (sizes, security) = (&row.case.sizes, &row.case.abilities.security);
        vec![
            ("form", row.name.to_owned()),
            ("public key", text::bytes(sizes.public_key_bytes as u64)),
            ("signature", text::bytes(sizes.signature_bytes as u64)),
            (
                "bits classical / quantum",
                format!("{} / {}", security.classical_bits, security.quantum_bits),
            ),
            ("overlap", merges(&row.case)),
        ]
    };
    Figures::of(
        "What each form is (bits: the lowest published estimates)".into(),
        forms(rows).iter().map(line),
    )
}

/// Formats the seconds on the fewest and on the most threads.
fn both(case: &Case, step: impl Fn(&Times) -> f64) -> String {
    let times: Vec<String> = case.times.iter().map(|t| text::seconds(step(t))).collect();
    times.join(" / ")
}

/// Formats every case: times on one thread and on all.
pub(super) fn steps(rows: &[Row]) -> Figures {
    let line = |row: &Row| {
        let case = &row.case;
        let votes = f64::from(case.votes);
        let memory = case.times.iter().filter_map(|times| times.peak_rss_bytes);
        vec![
            ("form", row.name.to_owned()),
            ("votes", text::count(u64::from(case.votes))),
            (
                "sign",
                case.slow()
                    .map_or("-".into(), |times| text::seconds(times.sign_s / votes)),
            ),
            ("plainly", both(case, |times| times.plain_s)),
            ("aggregate", both(case, |times| times.aggregate_s)),
            ("collect", both(case, |times| times.collect_s)),
            ("verify", both(case, |times| times.verify_s)),
            (
                "collection",
                text::bytes(case.collection_bytes + case.support_bytes()),
            ),
            (
                "signatures",
                text::bytes(case.votes as u64 * case.sizes.signature_bytes as u64),
            ),
            ("peak memory", memory.max().map_or("-".into(), text::bytes)),
        ]
    };
    Figures::of(
        "Votes of one committee (measured, one thread / all; signing: each, one thread)".into(),
        rows.iter().map(line),
    )
}

/// Formats merges of overlapping collections: times on one thread and on all.
pub(super) fn merged(rows: &[Row]) -> Figures {
    let mut lines = Vec::new();
    for Row { name, case } in rows {
        for (at, merge) in case
            .fast()
            .into_iter()
            .flat_map(|t| t.merges.iter().enumerate())
        {
            let both = |step: fn(&Merge) -> f64| both(case, |times| step(&times.merges[at]));
            lines.push(vec![
                (*name).to_owned(),
                format!(
                    "{} of {}",
                    merge.collections,
                    text::count(merge.votes_each.into())
                ),
                text::count(merge.votes.into()),
                both(|merge| merge.merge_s),
                text::bytes(merge.bytes + merge.support_bytes),
                both(|merge| merge.verify_s),
                both(|merge| merge.parts_verify_s),
            ]);
        }
    }
    Figures {
        title: "Collections that overlap by half, merged to one (measured, one thread / all)"
            .into(),
        head: vec![
            "form",
            "collections, votes",
            "votes of all",
            "merge",
            "result",
            "verify it",
            "one by one",
        ],
        rows: lines,
    }
}

/// Formats the figures for a million votes.
pub(super) fn together(million: &[Million], network: Network) -> Figures {
    let line = |one: &Million| {
        vec![
            (
                "committees",
                format!(
                    "{} of {}",
                    text::count(one.committees),
                    text::count(u64::from(one.committee))
                ),
            ),
            ("form", one.name.to_owned()),
            ("a node receives", text::bytes(one.topic_bytes)),
            (
                "Mbit/s",
                format!("{} / {}", amount(one.mbps), amount(one.all_mbps)),
            ),
            (
                "cores",
                format!("{} / {}", amount(one.cores), amount(one.all_cores)),
            ),
            (
                "an aggregator",
                format!(
                    "{}, {}",
                    text::bytes(one.aggregator_bytes),
                    text::seconds(one.aggregator_s)
                ),
            ),
            (
                "a collector",
                format!(
                    "{}, {}",
                    text::bytes(one.collector_bytes),
                    text::seconds(one.collector_s)
                ),
            ),
            ("votes to collections", text::seconds(one.path_s)),
        ]
    };
    Figures::of(
        format!(
            "{} votes, one collection of each committee received and verified in {} / if {} collectors of \
             each publish (modelled from the above: one copy; all threads where evidence is made)",
            text::count(VALIDATORS),
            text::seconds(network.window_s),
            network.collectors
        ),
        million.iter().map(line),
    )
}

/// Formats the conclusions in words.
pub(super) fn verdict(rows: &[Row], million: &[Million], network: Network) -> Vec<String> {
    let mut lines = Vec::new();
    let common = common(rows);
    let here: Vec<&Row> = (rows.iter())
        .filter(|row| row.case.votes == common)
        .collect();
    let after = here
        .iter()
        .filter(|row| row.case.abilities.security.quantum_bits > 0);
    let smallest = after
        .clone()
        .min_by_key(|row| row.case.collection_bytes + row.case.support_bytes());
    let fastest = after.min_by(|a, b| verify_s(a).total_cmp(&verify_s(b)));
    if let (Some(smallest), Some(fastest)) = (smallest, fastest) {
        lines.push(format!(
            "Against quantum computers, {} votes: the smallest collection is {} ({}), the one that is \
             verified fastest {} ({} on one thread).",
            text::count(u64::from(common)),
            smallest.name,
            text::bytes(smallest.case.collection_bytes + smallest.case.support_bytes()),
            fastest.name,
            text::seconds(verify_s(fastest)),
        ));
    }
    let (cores, mbps) = ATTESTER;
    let says = |fits: bool| if fits { "fit" } else { "do not fit" };
    for one in best(million) {
        let line = format!(
            "{}, committees of {}: {} votes {} a node of {cores} cores and {mbps} Mbit/s (EIP-7870, cited) in \
             {} ({} Mbit/s, {} cores like this one), and {} if all {} collectors publish.",
            one.name,
            text::count(u64::from(one.committee)),
            text::count(VALIDATORS),
            says(one.fits(cores, mbps)),
            text::seconds(network.window_s),
            amount(one.mbps),
            amount(one.cores),
            says(one.fits_all(cores, mbps)),
            network.collectors,
        );
        lines.push(text::sentence(&line));
    }
    lines
}

/// Returns each form at the committee size with which a node receives least.
fn best(million: &[Million]) -> Vec<&Million> {
    let mut best: Vec<&Million> = Vec::new();
    for one in million {
        match best.iter_mut().find(|other| other.name == one.name) {
            Some(other) if one.topic_bytes < other.topic_bytes => *other = one,
            Some(_) => {}
            None => best.push(one),
        }
    }
    best
}

/// Formats with three digits, and thousands in groups.
fn amount(value: f64) -> String {
    match value < 1000.0 {
        true => text::significant(value),
        false => text::count(value.round() as u64),
    }
}

fn verify_s(row: &Row) -> f64 {
    row.case
        .slow()
        .map_or(f64::INFINITY, |times| times.verify_s)
}

/// Returns a line for each case and number of threads.
pub(super) fn lines(cases: &[Value]) -> Vec<Value> {
    let of = |case: &Value| -> Vec<Value> {
        let times = case["times"].as_array().into_iter().flatten();
        let line = |times: &Value| {
            let mut line = case.clone();
            line["times"] = times.clone();
            for merge in times["merges"].as_array().into_iter().flatten() {
                // A table has no lists, so each merge gets columns of its own.
                line[format!("merge{}", merge["collections"])] = merge.clone();
            }
            line
        };
        times.map(line).collect()
    };
    cases.iter().flat_map(of).collect()
}

/// Returns every case with all its times.
pub(super) fn cases_json(rows: &[Row]) -> Vec<Value> {
    let merge = |merge: &Merge| {
        json!({
            "collections": merge.collections,
            "votes_each": merge.votes_each,
            "votes": merge.votes,
            "bytes": merge.bytes,
            "support_bytes": merge.support_bytes,
            "merge_ms": merge.merge_s * 1e3,
            "verify_ms": merge.verify_s * 1e3,
            "parts_verify_ms": merge.parts_verify_s * 1e3,
        })
    };
    let case = |row: &Row| {
        let case = &row.case;
        let times = |times: &Times| {
            json!({
                "threads": times.threads,
                "prepare_ms": times.prepare_s * 1e3,
                "sign_ms": times.sign_s * 1e3,
                "plain_verify_ms": times.plain_s * 1e3,
                "aggregate_ms": times.aggregate_s * 1e3,
                "collect_ms": times.collect_s * 1e3,
                "last_ms": times.last_s * 1e3,
                "path_ms": times.path_s * 1e3,
                "verify_ms": times.verify_s * 1e3,
                "peak_rss_bytes": times.peak_rss_bytes,
                "merges": times.merges.iter().map(merge).collect::<Vec<_>>(),
            })
        };
        json!({
            "form": row.name,
            "votes": case.votes,
            "cells": case.cells,
            "fan_out": case.fan_out,
            "public_key_bytes": case.sizes.public_key_bytes,
            "signature_bytes": case.sizes.signature_bytes,
            "aggregate_bytes": case.aggregate_bytes,
            "collection_bytes": case.collection_bytes,
            "support_bytes": case.support_bytes(),
            "mergeable_max": case.mergeable_max,
            "security": case.abilities.security,
            "overlap": case.abilities.overlap(Layer::Collection),
            "times": case.times.iter().map(times).collect::<Vec<_>>(),
        })
    };
    rows.iter().map(case).collect()
}

/// Returns the rows of the model.
pub(super) fn million_json(million: &[Million]) -> Value {
    let line = |one: &Million| {
        let mut line = json!(one);
        line["kind"] = json!("modelled");
        line
    };
    million.iter().map(line).collect()
}
