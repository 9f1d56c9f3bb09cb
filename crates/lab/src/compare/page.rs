//! The report: one file with tables and plots.

use super::Row;
use super::measure::{Case, Times};
use super::million::{Million, Network};
use super::tables::{self, Figures, common};
use crate::compare::forms::forms;
use crate::html::{Page, Picture, Table};
use crate::machine::Machine;
use crate::picture::{Slot, of_compare};
use crate::plot::{Axis, Bar, Layer, Plot, dots};
use crate::text;
use alphorn_scheme::model::FigureKind;
use serde_json::Value;

/// Returns the report as HTML.
pub(super) fn page(
    rows: &[Row],
    cases: &Value,
    million: &[Million],
    network: Network,
    machine: &Machine,
    verdict: &[String],
) -> String {
    let mut page = Page::new(
        "Signature schemes on the same votes",
        "All validators of one committee sign one message. Times, bytes and memory are measured in one \
         run; what a million votes take is modelled from them.",
    );
    let slots = of_compare(cases, &tables::million_json(million));
    let end_s = slots.iter().map(Slot::end_s).fold(0.0, f64::max);
    let pictures: Vec<Picture> = slots.iter().map(|slot| slot.picture(end_s)).collect();
    if !pictures.is_empty() {
        let about = "Each scheme in the form with which a node receives least, with committees of one size: what \
                     goes from level to level, one copy and one publisher a unit, seconds of one unit of each \
                     level with all threads, and what each role pays.";
        page.pictures(
            "A million votes, scheme by scheme",
            about,
            &pictures,
            FigureKind::Modelled,
        );
    }
    page.table(&html(tables::schemes(rows)));
    assumptions(&mut page, rows);
    page.table(&html(tables::steps(rows)));
    let plots = [
        (
            "Bytes of a collection",
            "bytes",
            &bytes as &dyn Fn(&Case) -> Option<f64>,
        ),
        ("Verifying a collection on one thread", "seconds", &|case| {
            case.slow().map(|times| times.verify_s)
        }),
        ("Making a collection on all threads", "seconds", &|case| {
            case.fast().map(|times| times.collect_s)
        }),
    ];
    for (title, unit, value) in plots {
        side_by_side(&mut page, rows, title, unit, value);
    }
    bytes_and_time(&mut page, rows);
    merges(&mut page, rows);
    page.heading("A million votes");
    page.table(&html(tables::together(million, network)));
    page.text(
        "Bytes are one copy of evidence, of a bit a validator and of a duty signature; a mesh multiplies \
         them by its duplicates.",
    );
    page.heading("In words");
    for line in verdict {
        page.text(&text::sentence(line));
    }
    page.text(&machine.line());
    page.finish()
}

/// Lists the assumptions of each form; forms with the same assumptions are grouped.
fn assumptions(page: &mut Page, rows: &[Row]) {
    let mut said: Vec<(Vec<&str>, String)> = Vec::new();
    for form in forms(rows) {
        let security = &form.case.abilities.security;
        let (assumption, proven) = (&security.assumption, &security.proven);
        let what = format!(
            "{}. {}.",
            text::sentence(assumption),
            text::sentence(proven)
        );
        match said.iter_mut().find(|(_, other)| *other == what) {
            Some((names, _)) => names.push(form.name),
            None => said.push((vec![form.name], what)),
        }
    }
    for (names, what) in said {
        page.text(&format!("{}: {what}", text::sentence(&names.join(", "))));
    }
}

fn html(figures: Figures) -> Table {
    let mut table = Table::new(figures.title, &figures.head);
    figures.rows.into_iter().for_each(|row| table.row(row));
    table
}

fn bytes(case: &Case) -> Option<f64> {
    Some((case.collection_bytes + case.support_bytes()) as f64)
}

/// Plots a figure of each form at one committee size on a logarithmic axis; the table has all sizes.
fn side_by_side(
    page: &mut Page,
    rows: &[Row],
    title: &str,
    unit: &str,
    value: &dyn Fn(&Case) -> Option<f64>,
) {
    let votes = common(rows);
    let title = format!("{title}, {} votes", text::count(u64::from(votes)));
    let mut table = Table::new(title.as_str(), &["form", "votes", unit]);
    let mut points = Vec::new();
    for row in rows {
        let Some(value) = value(&row.case) else {
            continue;
        };
        table.row(vec![
            row.name.into(),
            text::count(u64::from(row.case.votes)),
            format!("{value:.6}"),
        ]);
        if row.case.votes == votes {
            points.push(Bar {
                name: row.name.to_owned(),
                value,
                range: None,
            });
        }
    }
    let about = "Further to the left is better; the axis is logarithmic.";
    let picture = Picture {
        name: "side-by-side",
        svg: dots(&title, about, unit, &points),
        title,
        about: about.into(),
        table,
    };
    page.picture(&picture, FigureKind::Measured);
}

/// Plots the cost of merging over the number of collections, with a line for each form at its largest
/// committee.
fn merges(page: &mut Page, rows: &[Row]) {
    let mut layers = Vec::new();
    for form in forms(rows) {
        let cases = rows.iter().filter(|row| row.name == form.name);
        let times = cases.max_by_key(|row| row.case.votes);
        let merges = times
            .and_then(|row| row.case.fast())
            .map(|times| &times.merges[..]);
        let points: Vec<(f64, f64)> = merges
            .unwrap_or_default()
            .iter()
            .map(|merge| (merge.collections as f64, merge.merge_s))
            .collect();
        // A form that does not merge has a line without points, so that colours match in all plots.
        let name = form.name.to_owned();
        layers.push(Layer::Line { name, points });
    }
    page.heading("Merging");
    page.table(&html(tables::merged(rows)));
    let plot = Plot {
        title: "Merging collections that overlap, on all threads".into(),
        about:
            "Each form at its largest committee; forms without a line merge disjoint sets alone."
                .into(),
        x: Axis::from_zero("collections"),
        y: Axis::log("seconds"),
        layers,
        marks: Vec::new(),
        shapes: Vec::new(),
    };
    page.plot(&plot, FigureKind::Measured, &html(tables::merged(rows)));
}

/// Plots each form with bytes to the right and verification upwards, for one vote of a committee of one
/// size.
fn bytes_and_time(page: &mut Page, rows: &[Row]) {
    let title = "Bytes and verification of a vote";
    let mut table = Table::new(
        title,
        &["form", "votes", "bytes a vote", "µs a vote, one thread"],
    );
    let mut layers = Vec::new();
    let common = common(rows);
    for row in rows.iter().filter(|row| row.case.votes == common) {
        let votes = f64::from(row.case.votes);
        let verify_s = row.case.slow().map(|times: &Times| times.verify_s);
        let (Some(bytes), Some(verify_s)) = (bytes(&row.case), verify_s) else {
            continue;
        };
        let (x, y) = (bytes / votes, verify_s * 1e6 / votes);
        table.row(vec![
            row.name.into(),
            text::count(u64::from(row.case.votes)),
            format!("{x:.2}"),
            format!("{y:.2}"),
        ]);
        layers.push(Layer::Points {
            name: row.name.into(),
            points: vec![(x, y, row.name.into())],
        });
    }
    let plot = Plot {
        title: title.into(),
        about: "Nearer to the lower left is better. All forms at one size of the committee.".into(),
        x: Axis::log("bytes of the collection a vote"),
        y: Axis::log("µs of one core a vote"),
        layers,
        marks: Vec::new(),
        shapes: Vec::new(),
    };
    page.plot(&plot, FigureKind::Measured, &table);
}
