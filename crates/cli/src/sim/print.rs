//! The table of runs for a person.

use crate::report::table;
use alphorn_sim::report::plot::number;
use alphorn_sim::sweep::Merged;

/// The figures of each point; one run needs no spread.
pub(super) fn print(merged: &Merged) -> String {
    let mut rows = Vec::new();
    for point in &merged.points {
        let figure = |name: &str| {
            let spread = point.figure(name);
            let Some(mean) = spread.and_then(|spread| spread.mean) else {
                return "none".to_owned();
            };
            match spread.and_then(|spread| spread.sd) {
                Some(sd) if point.runs > 1 => format!("{} +- {}", number(mean), number(sd)),
                _ => number(mean),
            }
        };
        let part = if point.truncated { " (part)" } else { "" };
        rows.push(vec![
            point.label(),
            point.runs.to_string(),
            figure("t50_ms"),
            figure("t99_ms"),
            figure("t100_ms"),
            figure("delivered_pct"),
            format!("{}{part}", figure("sent_ratio")),
            format!("{}{part}", figure("waste_ratio")),
            figure("events"),
        ]);
    }
    let head = [
        "modelled",
        "runs",
        "t50 ms",
        "t99 ms",
        "t100 ms",
        "delivered %",
        "sent",
        "waste",
        "events",
    ];
    table(&head, &rows)
}
