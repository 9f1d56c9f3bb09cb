//! The report of a sweep: one file with its verdict, its frontier and its table.

use super::Row;
use super::frontier::{is_on_frontier, objection, place};
use super::network::Transport;
use super::output::{Names, figures, legend};
use super::point::{Ground, Slot, Topology};
use super::verdict::{Line, best, schemes, topologies};
use crate::html::{Page, Picture, Table};
use crate::picture::{Slot as DrawnSlot, of_explore};
use crate::plot::{Axis, Glyph, Layer, Mark, Plot, Shape};
use crate::text;
use alphorn_scheme::model::FigureKind;
use serde_json::Value;

/// Bytes per unit of the plot.
const MB: f64 = 1e6;

/// Returns the report as HTML.
pub(super) fn page(
    rows: &[Row<'_>],
    transports: &[Transport],
    ground: &Ground,
    cases: &Value,
    head: &str,
    verdict: &[Line],
) -> String {
    let mut page = Page::new(
        "Which scheme and topology carry the votes",
        "Every point is a slot in the simulator; times, bytes and losses are modelled.",
    );
    let slots = of_explore(cases);
    let end_s = slots.iter().map(DrawnSlot::end_s).fold(0.0, f64::max);
    let pictures: Vec<Picture> = slots.iter().map(|slot| slot.picture(end_s)).collect();
    if !pictures.is_empty() {
        let about = "Messages from level to level, what the mean node receives and computes in each phase of the \
                     slot, and what each role pays: a copy of each message, its main jobs by the table of costs; \
                     then nodes of each class with all that they do.";
        page.pictures(
            "A slot, scheme by scheme",
            about,
            &pictures,
            FigureKind::Modelled,
        );
    }
    let names = Names::of(rows);
    page.table(&matrix(rows));
    plot(&mut page, rows);
    let figures = figures(rows, transports, ground);
    let columns: Vec<&str> = figures.head.iter().map(String::as_str).collect();
    let mut table = Table::new("All points", &columns);
    figures.rows.into_iter().for_each(|row| table.row(row));
    page.table(&table);
    figures.alike.iter().for_each(|alike| page.text(alike));
    let legend = legend(rows, ground);
    legend.iter().for_each(|legend| page.text(legend));
    if rows.iter().any(|row| objection(row).is_some()) {
        page.heading("What stops the others");
    }
    for row in rows {
        if let Some(why) = objection(row) {
            page.text(&format!("{}: {why}.", names.name(row)));
        }
    }
    page.heading("In words");
    for line in verdict {
        match line.holds {
            Some(holds) => page.verdict(&line.text, holds),
            None => page.note(&line.text),
        }
    }
    for line in head.lines() {
        page.text(line);
    }
    if let Some(shared) = names.shared(rows) {
        page.text(&shared);
    }
    page.finish()
}

/// Returns the best point of each scheme under each topology.
fn matrix(rows: &[Row<'_>]) -> Table {
    let schemes = schemes(rows);
    let head: Vec<&str> = ["topology"].into_iter().chain(schemes.clone()).collect();
    let mut table = Table::new(
        "The fastest point of each that fits: until 99 % of the nodes have 99 % of the votes, bytes that the \
         busiest nodes send",
        &head,
    );
    for topology in topologies(rows) {
        let cell = |scheme: &&str| {
            let row = best(rows, scheme, topology);
            row.and_then(place).map_or("no".into(), |(seconds, bytes)| {
                format!("{}, {}", text::seconds(seconds), text::bytes(bytes))
            })
        };
        let cells = schemes.iter().map(cell);
        table.row(
            [topology.name().to_owned()]
                .into_iter()
                .chain(cells)
                .collect(),
        );
    }
    table
}

fn outline(topology: Topology) -> Shape {
    match topology {
        Topology::Today => Shape::Square,
        Topology::Strawman => Shape::Up,
        Topology::Horn => Shape::Circle,
        Topology::Grid => Shape::Diamond,
        Topology::Tree => Shape::Down,
    }
}

/// Returns a layer for each scheme with its points that have a slot; those without a time are at the right.
fn glyphs(rows: &[Row<'_>], never_s: f64) -> Vec<Layer> {
    let names = Names::of(rows);
    let glyph = |row: &Row<'_>, slot: &Slot| Glyph {
        x: slot.everywhere_s.unwrap_or(never_s),
        y: slot.sent_p99 as f64 / MB,
        label: names.name(row),
        shape: outline(row.point.topology),
        is_filled: objection(row).is_none(),
    };
    let layer = |scheme: &str| {
        let own = rows.iter().filter(|row| row.point.costs.scheme == scheme);
        let points = own.filter_map(|row| Some(glyph(row, row.outcome.as_ref().ok()?)));
        Layer::Glyphs {
            name: scheme.to_owned(),
            points: points.collect(),
        }
    };
    schemes(rows).into_iter().map(layer).collect()
}

/// Returns a line of the all-votes points on the frontier of quantum-safe schemes, or of the others;
/// none if they are of several networks or adversaries, which no line should join.
fn frontier(name: &str, rows: &[Row<'_>], quantum: bool) -> Option<Layer> {
    let is_of = |row: &&Row<'_>| {
        let bits = row.point.costs.abilities.security.quantum_bits;
        (bits > 0) == quantum && is_on_frontier(row, rows)
    };
    let edge: Vec<&Row<'_>> = rows.iter().filter(is_of).collect();
    let network = |row: &Row<'_>| (row.point.profile, row.point.adversary_pct);
    let first = network(edge.first()?);
    if edge.iter().any(|row| network(row) != first) {
        return None;
    }
    let points = edge.into_iter().filter_map(place);
    let mut points: Vec<(f64, f64)> = points
        .map(|(seconds, bytes)| (seconds, bytes as f64 / MB))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(Layer::Steps {
        name: name.into(),
        points,
    })
}

/// Plots all points that have a slot, and the line of the unbeaten ones.
fn plot(page: &mut Page, rows: &[Row<'_>]) {
    let title = "When everyone has the votes, and what the busiest nodes send";
    let head = ["point", "s", "bytes sent, p99", "fits", "on the frontier"];
    let mut figures = Table::new(title, &head);
    let slots = || {
        rows.iter()
            .filter_map(|row| Some((row, row.outcome.as_ref().ok()?)))
    };
    let end_s = slots().map(|(_, slot)| slot.slot_s).fold(0.0, f64::max);
    let times = slots().filter_map(|(_, slot)| slot.everywhere_s);
    // Points without a time are placed to the right of all others.
    let never_s = 1.08 * times.fold(end_s, f64::max);
    let yes = |holds: bool| if holds { "yes" } else { "no" }.to_owned();
    let names = Names::of(rows);
    for row in rows {
        let slot = row.outcome.as_ref().ok();
        let seconds = slot.and_then(|slot| slot.everywhere_s);
        figures.row(vec![
            names.name(row),
            seconds.map_or("never".into(), |seconds| format!("{seconds:.3}")),
            slot.map_or("-".into(), |slot| slot.sent_p99.to_string()),
            yes(objection(row).is_none()),
            yes(is_on_frontier(row, rows)),
        ]);
    }
    let mut layers = glyphs(rows, never_s);
    for (name, quantum) in [
        ("frontier", false),
        ("frontier against quantum computers", true),
    ] {
        layers.extend(frontier(name, rows, quantum));
    }
    let mark = |at, name: &str, bound| Mark {
        at,
        name: name.into(),
        bound,
    };
    let mut marks = vec![mark(end_s, "the slot ends", true)];
    if slots().any(|(_, slot)| slot.everywhere_s.is_none()) {
        marks.push(mark(never_s, "never", false));
    }
    let shapes = topologies(rows).into_iter();
    let plot = Plot {
        title: title.into(),
        about: "Nearer to the lower left is better. Filled points do their work: 99 % of the votes are counted, \
                and 99 % of the nodes have 99 % of them before the slot ends. Points without a slot at all are \
                in the table alone."
            .into(),
        x: Axis::from_zero("seconds from the begin of the slot until 99 % have 99 % of the votes"),
        y: Axis::log("MB that the busiest 1 % of the nodes send"),
        layers,
        marks,
        shapes: shapes.map(|topology| (outline(topology), topology.name().into())).collect(),
    };
    page.plot(&plot, FigureKind::Modelled, &figures);
}
