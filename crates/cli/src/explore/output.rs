//! The figures of a sweep as a table, as CSV, as JSON, and in words.

use super::Row;
use super::point::{Ground, Slot, Transport};
use crate::report;
use crate::text;
use alphorn_scheme::model::{CostTable, FigureKind};
use serde_json::{Value, json};

/// What all points share, in a line each.
pub(super) fn head(ground: &Ground, tables: &[CostTable]) -> String {
    let mut lines = vec![format!(
        "{} validators on {} nodes, slot {}, {:.1} % vote, seed {}: simulated (modelled)",
        text::count(ground.validators.into()),
        text::count(ground.nodes.into()),
        ground.slot,
        f64::from(ground.participation_ppm) / 1e4,
        ground.seed
    )];
    lines.extend(tables.iter().map(|table| {
        let kind = kind(table);
        format!("costs of {} ({kind}): {}", table.scheme, table.machine)
    }));
    lines.join("\n")
}

fn kind(table: &CostTable) -> &'static str {
    match table.kind {
        FigureKind::Measured => "measured",
        FigureKind::Modelled => "modelled",
        FigureKind::Cited => "cited",
    }
}

/// The name of a point without its scheme.
pub(super) fn shape(row: &Row<'_>) -> String {
    let point = &row.point;
    let committees = point
        .committees
        .map_or("own".to_owned(), |committees| committees.to_string());
    let adversary = match point.adversary_pct {
        0 => String::new(),
        percent => format!(", {percent} % silent"),
    };
    format!(
        "{} {}, {committees} committees, {} collectors{adversary}",
        point.profile.name(),
        point.topology.name(),
        point.collectors
    )
}

/// The head of the main table.
pub(super) fn columns(transports: &[Transport]) -> Vec<String> {
    let fixed = [
        "point",
        "2/3",
        "99 % at 99 %",
        "counted",
        "sent p50 / p99",
        "core time p99",
        "block",
    ];
    let mut columns: Vec<String> = fixed.map(str::to_owned).to_vec();
    columns.extend(transports.iter().map(|transport| transport.name().into()));
    columns.push("fits".into());
    columns
}

/// The cells of a row.
pub(super) fn cells(row: &Row<'_>) -> Vec<String> {
    let time = |seconds: Option<f64>| seconds.map_or("never".into(), text::seconds);
    let mut cells = vec![format!("{} {}", row.point.costs.scheme, shape(row))];
    match &row.outcome {
        Ok(slot) => cells.extend([
            time(slot.two_thirds_s),
            time(slot.everywhere_s),
            format!("{:.2} %", counted_pct(slot)),
            format!(
                "{} / {}",
                text::bytes(slot.sent_p50),
                text::bytes(slot.sent_p99)
            ),
            text::seconds(slot.cpu_p99_s),
            text::bytes(slot.block_bytes),
        ]),
        Err(_) => cells.extend(["-"; 6].map(str::to_owned)),
    }
    let travel = row.travel_s.iter();
    cells.extend(travel.map(|seconds| seconds.map_or("-".into(), text::seconds)));
    cells.push(objection(row).unwrap_or_else(|| "yes".into()));
    cells
}

fn counted_pct(slot: &Slot) -> f64 {
    100.0 * slot.counted as f64 / slot.votes.max(1) as f64
}

/// Why a row does not do its work.
pub(super) fn objection(row: &Row<'_>) -> Option<String> {
    match &row.outcome {
        Ok(slot) => slot.objection(),
        Err(why) => Some(why.clone()),
    }
}

/// The main table.
pub(super) fn table(rows: &[Row<'_>], transports: &[Transport]) -> String {
    let head = columns(transports);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    report::table(&head, &rows)
}

/// Rows that do their work and that no other row of this list beats in both: bytes of the busiest nodes,
/// and the time until everyone has the votes.
pub(super) fn frontier<'r, 'a>(rows: &'r [Row<'a>]) -> Vec<&'r Row<'a>> {
    let figures = |row: &Row<'_>| match (&row.outcome, objection(row)) {
        (Ok(slot), None) => Some((slot.sent_p99, slot.everywhere_s?)),
        _ => None,
    };
    let beaten = |(bytes, seconds): (u64, f64)| {
        rows.iter()
            .filter_map(figures)
            .any(|(b, s)| b <= bytes && s <= seconds && (b < bytes || s < seconds))
    };
    rows.iter()
        .filter(|row| figures(row).is_some_and(|own| !beaten(own)))
        .collect()
}

/// What follows, in words: each scheme's best point, or what stops its nearest.
pub(super) fn verdict(rows: &[Row<'_>], transports: &[Transport]) -> Vec<String> {
    let mut schemes: Vec<&str> = Vec::new();
    for row in rows {
        let name = row.point.costs.scheme.as_str();
        if !schemes.contains(&name) {
            schemes.push(name);
        }
    }
    let line = |scheme: &&str| {
        let own = || rows.iter().filter(|row| row.point.costs.scheme == *scheme);
        let time = |row: &&Row<'_>| match &row.outcome {
            Ok(slot) => slot.everywhere_s.unwrap_or(f64::INFINITY),
            Err(_) => f64::INFINITY,
        };
        let fitting = own().filter(|row| objection(row).is_none());
        match fitting.min_by(|a, b| time(a).total_cmp(&time(b))) {
            Some(row) => format!(
                "{scheme}: fits. Fastest: {}, 99 % of the votes at 99 % of the nodes {} after the slot's \
                 begin{}.",
                shape(row),
                text::seconds(time(&row)),
                fastest(row, transports)
            ),
            None => {
                let share = |row: &&Row<'_>| row.outcome.as_ref().map_or(-1.0, counted_pct);
                let nearest = own().max_by(|a, b| share(a).total_cmp(&share(b)));
                nearest.map_or(String::new(), |row| {
                    let why = objection(row).unwrap_or_default();
                    format!("{scheme}: no point fits. Nearest: {}; {why}.", shape(row))
                })
            }
        }
    };
    schemes.iter().map(line).collect()
}

fn fastest(row: &Row<'_>, transports: &[Transport]) -> String {
    let times = transports.iter().zip(&row.travel_s);
    let known = times.filter_map(|(transport, seconds)| Some((transport, (*seconds)?)));
    known
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(String::new(), |(transport, seconds)| {
            format!(
                "; its block is at 99 % of the nodes {} after it is published, by {}",
                text::seconds(seconds),
                transport.name()
            )
        })
}

/// A line for each point; what does not exist is empty.
pub(super) fn csv(rows: &[Row<'_>], transports: &[Transport]) -> String {
    let mut text = "scheme,topology,profile,committees,collectors,adversary_pct,votes,counted,\
                    two_thirds_s,everywhere_s,sent_p50_bytes,sent_p99_bytes,cpu_p99_s,block_bytes"
        .to_owned();
    for transport in transports {
        text += &format!(",{}_s", transport.name());
    }
    text += ",fits,why\n";
    let optional = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for row in rows {
        let point = &row.point;
        let mut fields = vec![
            quoted(&point.costs.scheme),
            point.topology.name().into(),
            point.profile.name().into(),
            point.committees.map_or(String::new(), |n| n.to_string()),
            point.collectors.to_string(),
            point.adversary_pct.to_string(),
        ];
        match &row.outcome {
            Ok(slot) => fields.extend([
                slot.votes.to_string(),
                slot.counted.to_string(),
                optional(slot.two_thirds_s),
                optional(slot.everywhere_s),
                slot.sent_p50.to_string(),
                slot.sent_p99.to_string(),
                slot.cpu_p99_s.to_string(),
                slot.block_bytes.to_string(),
            ]),
            Err(_) => fields.extend([const { String::new() }; 8]),
        }
        fields.extend(row.travel_s.iter().map(|seconds| optional(*seconds)));
        let why = objection(row);
        fields.push(why.is_none().to_string());
        fields.push(quoted(&why.unwrap_or_default()));
        text += &fields.join(",");
        text.push('\n');
    }
    text
}

/// A text as a field of CSV, whatever is in it (RFC 4180).
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Every point with all figures.
pub(super) fn json(rows: &[Row<'_>], transports: &[Transport]) -> Value {
    let case = |row: &Row<'_>| {
        let point = &row.point;
        let travel = transports.iter().zip(&row.travel_s);
        let travel: serde_json::Map<String, Value> = travel
            .map(|(transport, seconds)| (transport.name().to_owned(), json!(seconds)))
            .collect();
        let slot = row.outcome.as_ref().ok().map(|slot| {
            json!({
                "votes": slot.votes,
                "counted": slot.counted,
                "two_thirds_s": slot.two_thirds_s,
                "everywhere_s": slot.everywhere_s,
                "sent_p50_bytes": slot.sent_p50,
                "sent_p99_bytes": slot.sent_p99,
                "cpu_p99_s": slot.cpu_p99_s,
                "block_bytes": slot.block_bytes,
                "unfinished": slot.unfinished,
                "events": slot.events,
            })
        });
        json!({
            "scheme": point.costs.scheme,
            "topology": point.topology.name(),
            "profile": point.profile.name(),
            "committees": point.committees,
            "collectors": point.collectors,
            "adversary_pct": point.adversary_pct,
            "slot": slot,
            "block_travel_s": travel,
            "fits": objection(row).is_none(),
            "why": objection(row),
        })
    };
    rows.iter().map(case).collect()
}
