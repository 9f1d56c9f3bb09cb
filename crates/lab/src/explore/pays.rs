//! The composition of a point's slot: messages level by level, phases, and what each role pays.

use super::Row;
use super::point::Ground;
use alphorn_proto::slot::Phase;
use alphorn_scheme::Op;
use alphorn_types::Layout;
use serde_json::{Value, json};

/// Returns the length of the message that a unit of a level sends to the next.
fn message_bytes(row: &Row<'_>, level: u8) -> Option<u64> {
    let slot = row.outcome.as_ref().ok()?;
    let longest = slot.longest.get(usize::from(level)).copied();
    longest.filter(|bytes| *bytes > 0)
}

fn what(layout: &Layout, level: u8) -> &'static str {
    match level {
        0 => "votes",
        level if level == layout.levels() => "committees",
        1 => "cells",
        _ => "groups",
    }
}

/// Returns the number of units of a level in all committees.
fn units(layout: &Layout, level: u8) -> u64 {
    match level {
        0 => layout.validators().into(),
        level => u64::from(layout.committees()) * u64::from(layout.units_of_committee(level)),
    }
}

/// Returns the levels from the votes up: their kind, their number, and the bytes each unit sends on.
pub(super) fn levels(row: &Row<'_>, ground: &Ground) -> Value {
    let Some(layout) = row.point.layout(ground).ok().flatten() else {
        return Value::Null;
    };
    let levels = 0..=layout.levels();
    let level = |level: u8| {
        json!({
            "what": what(&layout, level),
            "count": units(&layout, level),
            "message_bytes": message_bytes(row, level),
        })
    };
    levels.map(level).collect()
}

/// Returns the phases of the slot with what the mean node carries and computes in each.
pub(super) fn phases(row: &Row<'_>, ground: &Ground) -> Value {
    let Ok(slot) = &row.outcome else {
        return Value::Null;
    };
    let Some(all) = slot.loads.all() else {
        return Value::Null;
    };
    let timing = row.point.timing(ground);
    let phases = timing.phases();
    let ends = timing.phases().skip(1).map(|phase| timing.offset_ms(phase));
    let ends = ends.chain([timing.slot_ms()]);
    let phase = |(phase, end_ms): (Phase, u64)| {
        let own = all.phases.iter().find(|own| own.phase == phase.name())?;
        Some(json!({
            "phase": phase.name(),
            "begin_s": timing.offset_ms(phase) as f64 / 1e3,
            "end_s": end_ms as f64 / 1e3,
            "mean": own.rates,
        }))
    };
    phases.zip(ends).filter_map(phase).collect()
}

/// Returns what each role pays: a copy of each message, and the main jobs by the cost table; then what
/// the nodes of each class carried and computed, all roles together.
pub(super) fn pays(row: &Row<'_>, ground: &Ground) -> Value {
    let (Ok(slot), Some(layout)) = (&row.outcome, row.point.layout(ground).ok().flatten()) else {
        return Value::Null;
    };
    let table = row.point.costs;
    let seconds = |op: Op, n: u64, m: u64| table.cost(op, n, m).ns as f64 / 1e9;
    let bytes = |level| message_bytes(row, level);
    let cell = u64::from(layout.cell_len_max());
    let mut pays = vec![
        json!({"role": "voter", "sent_bytes": bytes(0), "core_s": seconds(Op::Sign, 1, 0)}),
        json!({
            "role": "aggregator",
            "received_bytes": bytes(0).map(|bytes| cell * bytes),
            "core_s": seconds(Op::VerifyVotes, cell, 0) + seconds(Op::Aggregate, cell, 0),
        }),
    ];
    let top = layout.levels();
    for level in 2..=top {
        let parts =
            u64::from(layout.units_of_committee(level - 1) / layout.units_of_committee(level));
        let votes = u64::from(layout.unit_len_max(level));
        pays.push(json!({
            "role": if level == top { "collector" } else { "combiner" },
            "received_bytes": bytes(level - 1).map(|bytes| parts * bytes),
            "core_s": seconds(Op::VerifyAggregates, parts, votes) + seconds(Op::Collect, parts, votes),
        }));
    }
    let classes = slot
        .loads
        .classes
        .iter()
        .skip(1)
        .filter(|class| class.nodes > 0);
    pays.extend(classes.map(|class| {
        json!({
            "role": "node",
            "class": class.class,
            "nodes": class.nodes,
            "mean": class.mean,
            "peak": class.peak,
        })
    }));
    pays.into()
}
