//! The figures of a sweep as a table, as CSV and as JSON.

use super::Row;
use super::point::{Ground, Transport};
use super::verdict::is_on_frontier;
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
            format!("{:.2} %", slot.counted_pct()),
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
            "on_frontier": is_on_frontier(row, rows),
            "why": objection(row),
        })
    };
    rows.iter().map(case).collect()
}
