//! Tables and JSON objects of sizes and odds.

use super::{Args, Drawn, Odds, Sizes, sizes};
use crate::report::table;
use crate::text;
use alphorn_proto::horn::Selection;
use alphorn_types::Layout;
use alphorn_types::Unit;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) fn sizes_text(layout: &Layout) -> String {
    let range = |sizes: &Sizes| match (sizes.keys().next(), sizes.keys().last()) {
        (Some(least), Some(most)) if least != most => {
            format!(
                "{} or {}",
                text::count(u64::from(*least)),
                text::count(u64::from(*most))
            )
        }
        (Some(only), _) => text::count(u64::from(*only)),
        _ => "0".into(),
    };
    let [cells, committees] =
        [1, layout.levels()].map(|level| layout.units(level).collect::<Vec<Unit>>());
    let (cells, committees) = (sizes(layout, &cells), sizes(layout, &committees));
    let filled: u32 = cells.values().sum();
    let first = layout.cells().take(4).map(|cell| {
        let range = layout.cell_range(cell);
        format!("{}..{}", range.start, range.end)
    });
    format!(
        "{} validators: {} committees of {}, {} cells each of {} ({} empty), first cells {}",
        text::count(u64::from(layout.validators())),
        layout.committees(),
        range(&committees),
        layout.subcommittees(),
        range(&cells),
        layout.cells_count() - filled,
        first.collect::<Vec<_>>().join(" ")
    )
}

/// Formats a probability with two digits.
pub(super) fn probability(p: f64) -> String {
    match p {
        0.0 => "0".into(),
        p if p >= 1e-3 => format!("{:.2} %", p * 100.0),
        p => format!("{p:.1e}"),
    }
}

pub(super) fn odds_table(rows: &[Odds], args: &Args) -> String {
    let mut header: Vec<String> = [
        "role",
        "selection",
        "target",
        "none, a group",
        "none, a slot",
    ]
    .map(Into::into)
    .into();
    header.push(format!("> {} of a group", args.cap));
    header.extend(
        args.honest
            .iter()
            .map(|h| format!("no honest one, h = {h}")),
    );
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let row = |odds: &Odds| {
        let mut row = vec![
            odds.role.to_owned(),
            odds.selection.to_string(),
            odds.target.to_string(),
            probability(odds.none_group),
            probability(odds.none_slot),
            probability(odds.above_cap_slot),
        ];
        row.extend(odds.none_honest_slot.iter().map(|&p| probability(p)));
        row
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    format!(
        "Modelled, probability in a slot:\n{}",
        table(&header, &rows)
    )
}

pub(super) fn drawn_table(drawn: &[(&'static str, Selection, Drawn)], args: &Args) -> String {
    let mut header: Vec<String> = [
        "role",
        "selection",
        "groups",
        "members",
        "expected",
        "deviations",
        "least",
        "most",
        "none",
    ]
    .map(Into::into)
    .into();
    header.extend(
        args.honest
            .iter()
            .map(|h| format!("no honest, h = {h} (expected)")),
    );
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let row = |(role, selection, drawn): &(&'static str, Selection, Drawn)| {
        let groups = drawn.groups.max(1) as f64;
        let mut row = vec![
            (*role).to_owned(),
            selection.to_string(),
            text::count(drawn.groups),
            format!("{:.3}", drawn.members as f64 / groups),
            format!("{:.3}", drawn.members_expected / groups),
            format!("{:+.1}", drawn.deviations()),
            drawn.least.to_string(),
            drawn.most.to_string(),
            drawn.none.to_string(),
        ];
        let counts = drawn.none_honest.iter().zip(&drawn.none_honest_expected);
        row.extend(counts.map(|(count, expected)| format!("{count} ({expected:.2})")));
        row
    };
    let rows: Vec<Vec<String>> = drawn.iter().map(row).collect();
    format!(
        "\nDrawn by the protocol's selection, {} slots, target {}:\n{}",
        args.slots,
        args.target[0],
        table(&header, &rows)
    )
}

pub(super) fn fields(
    layout: &Layout,
    rows: &[Odds],
    drawn: &[(&'static str, Selection, Drawn)],
) -> Map<String, Value> {
    let bounds: Vec<u32> = (0..layout.committees())
        .map(|c| layout.committee_range(c).start)
        .chain([layout.validators()])
        .collect();
    let mut cell_sizes = BTreeMap::<u32, u32>::new();
    for cell in layout.cells() {
        *cell_sizes.entry(layout.cell_len(cell)).or_default() += 1;
    }
    let odds = |odds: &Odds| {
        json!({
            "role": odds.role,
            "selection": odds.selection.to_string(),
            "target": odds.target,
            "none_group": odds.none_group,
            "none_slot": odds.none_slot,
            "above_cap_slot": odds.above_cap_slot,
            "none_honest_slot": odds.none_honest_slot,
        })
    };
    let drawn_json = |(role, selection, drawn): &(&'static str, Selection, Drawn)| {
        json!({
            "role": role,
            "selection": selection.to_string(),
            "groups": drawn.groups,
            "members": drawn.members,
            "members_expected": drawn.members_expected,
            "deviations": drawn.deviations(),
            "least": drawn.least,
            "most": drawn.most,
            "none": drawn.none,
            "none_expected": drawn.none_expected,
            "none_honest": drawn.none_honest,
            "none_honest_expected": drawn.none_honest_expected,
            "holds": drawn.holds(),
        })
    };
    Map::from_iter([
        ("committee_bounds".to_owned(), json!(bounds)),
        ("cell_sizes".to_owned(), json!(cell_sizes)),
        (
            "odds".to_owned(),
            Value::Array(rows.iter().map(odds).collect()),
        ),
        (
            "drawn".to_owned(),
            json!({ "kind": "measured", "cases": drawn.iter().map(drawn_json).collect::<Vec<_>>() }),
        ),
    ])
}
