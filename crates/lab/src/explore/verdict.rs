//! The conclusions of a sweep: the points that no other beats, and in words what each scheme can do.

use super::Row;
use super::frontier::{is_on_frontier, is_rival, objection, place};
use super::network::Transport;
use super::output::Names;
use super::point::{Slot, Topology};
use crate::text;

/// A line of the verdict.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Whether every topology that carries all votes fits, or none does; absent if only some do, and
    /// for lines that judge nothing.
    pub(super) holds: Option<bool>,
    pub(super) text: String,
}

/// Returns why a row is on the frontier: the quantity of which it needs less than all rivals that do
/// their work.
fn reason(row: &Row<'_>, rows: &[Row<'_>]) -> &'static str {
    let Some((seconds, bytes)) = place(row) else {
        return "";
    };
    let rivals = rows.iter().filter(|rival| is_rival(rival, row));
    let rivals: Vec<(f64, u64)> = rivals.filter_map(place).collect();
    let is_first = rivals.iter().all(|rival| rival.0 >= seconds);
    let is_least = rivals.iter().all(|rival| rival.1 >= bytes);
    match (is_first, is_least) {
        (true, true) => "first and with fewest bytes",
        (true, false) => "first",
        (false, true) => "fewest bytes",
        (false, false) => "nothing faster has fewer bytes",
    }
}

/// Returns the names of schemes in order.
pub(super) fn schemes<'r>(rows: &'r [Row<'_>]) -> Vec<&'r str> {
    text::each_once(rows.iter().map(|row| row.point.costs.scheme.as_str()))
}

/// Returns the topologies in order.
pub(super) fn topologies(rows: &[Row<'_>]) -> Vec<Topology> {
    text::each_once(rows.iter().map(|row| row.point.topology))
}

/// Returns the row of a scheme under a topology that does its work first, or comes nearest to it.
pub(super) fn best<'r, 'a>(
    rows: &'r [Row<'a>],
    scheme: &str,
    topology: Topology,
) -> Option<&'r Row<'a>> {
    let own = |row: &&Row<'_>| row.point.costs.scheme == scheme && row.point.topology == topology;
    let own = || rows.iter().filter(own);
    fastest(own()).or_else(|| nearest(own()))
}

fn fastest<'r, 'a: 'r>(rows: impl Iterator<Item = &'r Row<'a>>) -> Option<&'r Row<'a>> {
    let placed = rows.filter_map(|row| Some((row, place(row)?)));
    let least = placed.min_by(|a, b| a.1.0.total_cmp(&b.1.0).then(a.1.1.cmp(&b.1.1)));
    least.map(|(row, _)| row)
}

/// Returns the row that counts the most votes; the first if equal.
fn nearest<'r, 'a: 'r>(rows: impl Iterator<Item = &'r Row<'a>>) -> Option<&'r Row<'a>> {
    let share = |row: &Row<'_>| row.outcome.as_ref().map_or(-1.0, Slot::counted_pct);
    rows.fold(None, |most: Option<&Row<'_>>, row| match most {
        Some(most) if share(most) >= share(row) => Some(most),
        _ => Some(row),
    })
}

/// Returns the conclusions in words: what each scheme can do, what limits it, and which points no other
/// beats.
pub(super) fn verdict(rows: &[Row<'_>], transports: &[Transport]) -> Vec<Line> {
    let names = Names::of(rows);
    let schemes = schemes(rows).into_iter();
    let mut lines: Vec<Line> = schemes
        .map(|scheme| of_scheme(scheme, rows, transports, &names))
        .collect();
    let edge = rows.iter().filter(|row| is_on_frontier(row, rows));
    let edge = edge.filter_map(|row| {
        let (seconds, bytes) = place(row)?;
        Some(format!(
            "{} ({}, {}: {})",
            names.name(row),
            text::seconds(seconds),
            text::bytes(bytes),
            reason(row, rows)
        ))
    });
    let edge: Vec<String> = edge.collect();
    if !edge.is_empty() {
        lines.push(Line {
            holds: None,
            text: format!(
                "On the frontier of time and bytes, beaten in both by no point with as many votes that holds \
                 against as much: {}.",
                edge.join("; ")
            ),
        });
    }
    lines
}

fn of_scheme(scheme: &str, rows: &[Row<'_>], transports: &[Transport], names: &Names) -> Line {
    let own = || rows.iter().filter(|row| row.point.costs.scheme == scheme);
    // A row with a 32nd of the votes is used only where no other fits.
    let all_vote = |row: &&Row<'_>| row.point.topology != Topology::Today;
    let Some(first) = fastest(own().filter(all_vote)).or_else(|| fastest(own())) else {
        let text = nearest(own()).map_or(String::new(), |row| {
            let why = objection(row).unwrap_or_default();
            format!(
                "{scheme}: no point fits. Nearest: {}; {why}.",
                names.shape(row)
            )
        });
        return Line {
            holds: Some(false),
            text,
        };
    };
    let (mut fits, mut stopped) = (Vec::new(), Vec::new());
    let mut carries_all = false;
    for topology in topologies(rows) {
        let Some(row) = best(rows, scheme, topology) else {
            continue;
        };
        match objection(row) {
            None if topology == Topology::Today => fits.push("today (a 32nd of the votes)"),
            None => {
                carries_all = true;
                fits.push(topology.name());
            }
            Some(why) => stopped.push(format!(" Not under {}: {why}.", topology.name())),
        }
    }
    let seconds = place(first).map_or(0.0, |(seconds, _)| seconds);
    let rivals = own().filter(|row| all_vote(row) || !carries_all);
    let fewest = rivals.filter_map(|row| Some((row, place(row)?.1)));
    let fewest = fewest.min_by_key(|(_, bytes)| *bytes);
    let fewest = fewest.map_or(String::new(), |(row, bytes)| {
        format!(
            " Fewest bytes: {}, {} from the busiest nodes.",
            names.shape(row),
            text::bytes(bytes)
        )
    });
    Line {
        holds: match carries_all {
            true => Some(true).filter(|_| stopped.is_empty()),
            // A 32nd of the votes does not answer whether all can vote.
            false => Some(false),
        },
        text: format!(
            "{scheme}: fits under {}. Fastest: {}, 99 % of the votes at 99 % of the nodes {} after the \
             slot's begin{}.{fewest}{}",
            fits.join(", "),
            names.shape(first),
            text::seconds(seconds),
            by_transport(first, transports),
            stopped.concat(),
        ),
    }
}

fn by_transport(row: &Row<'_>, transports: &[Transport]) -> String {
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
