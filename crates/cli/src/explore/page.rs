//! The report of a sweep: one file with its table and its frontier.

use super::Row;
use super::output::{cells, columns, frontier, head, objection, shape};
use super::point::{Ground, Transport};
use alphorn_scheme::model::CostTable;
use alphorn_sim::report::html::{Origin, Page, Table};
use alphorn_sim::report::plot::{Axis, Layer, Plot};

/// The report as HTML.
pub(super) fn page(
    rows: &[Row<'_>],
    transports: &[Transport],
    ground: &Ground,
    tables: &[CostTable],
    verdict: &[String],
) -> String {
    let mut page = Page::new(
        "Which scheme and topology carry the votes",
        "Every point is a slot in the simulator; times, bytes and losses are modelled.",
    );
    for line in head(ground, tables).lines() {
        page.text(line);
    }
    for line in verdict {
        page.verdict(line, !line.contains("no point fits"));
    }
    plot(&mut page, rows, tables);
    let columns = columns(transports);
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("All points", &columns);
    for row in rows {
        table.row(cells(row));
    }
    page.table(&table);
    page.finish()
}

/// Points that do their work, and the line of those that nothing beats.
fn plot(page: &mut Page, rows: &[Row<'_>], tables: &[CostTable]) {
    let title = "Bytes of the busiest nodes, and when everyone has the votes";
    let mut figures = Table::new(title, &["point", "bytes sent, p99", "s", "on the frontier"]);
    let place = |row: &Row<'_>| match (&row.outcome, objection(row)) {
        (Ok(slot), None) => Some((slot.sent_p99 as f64, slot.everywhere_s?)),
        _ => None,
    };
    let edge = frontier(rows);
    let mut layers = Vec::new();
    for table in tables {
        let own = rows
            .iter()
            .filter(|row| row.point.costs.scheme == table.scheme);
        let mut points = Vec::new();
        for row in own {
            let Some((bytes, seconds)) = place(row) else {
                continue;
            };
            let on_edge = edge.iter().any(|other| std::ptr::eq(*other, row));
            points.push((bytes, seconds, String::new()));
            figures.row(vec![
                format!("{} {}", table.scheme, shape(row)),
                format!("{bytes:.0}"),
                format!("{seconds:.3}"),
                if on_edge { "yes" } else { "no" }.into(),
            ]);
        }
        layers.push(Layer::Points {
            name: table.scheme.clone(),
            points,
        });
    }
    let mut line: Vec<(f64, f64)> = edge.into_iter().filter_map(place).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    if !line.is_empty() {
        layers.push(Layer::Steps {
            name: "frontier".into(),
            points: line,
        });
    }
    let plot = Plot {
        title: title.into(),
        about: "Nearer to the lower left is better; only points that do their work.".into(),
        x: Axis::log("bytes that the busiest 1 % of the nodes send"),
        y: Axis::log("seconds from the begin of the slot"),
        layers,
        marks: Vec::new(),
    };
    page.plot(&plot, Origin::Modelled, &figures);
}
