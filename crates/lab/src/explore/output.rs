//! The figures of a sweep as a table and as JSON.

use super::frontier::{is_on_frontier, objection};
use super::network::Transport;
use super::point::{Ground, Point, Topology};
use super::{Row, pays};
use crate::{report, text};
use alphorn_scheme::model::CostTable;
use serde_json::{Value, json};

/// Formats what all points share, one line each.
pub(super) fn head(ground: &Ground, tables: &[&CostTable]) -> String {
    let mut lines = vec![format!(
        "{} validators on {} nodes, {:.1} % vote, seed {}: simulated (modelled)",
        text::count(ground.validators.into()),
        text::count(ground.nodes.into()),
        f64::from(ground.participation_ppm) / 1e4,
        ground.seed
    )];
    lines.extend(tables.iter().map(|table| {
        let kind = table.kind.name();
        format!("costs of {} ({kind}): {}", table.scheme, table.machine)
    }));
    lines.join("\n")
}

/// Formats the slots of all rows, each once.
pub(super) fn slots(ground: &Ground, rows: &[Row<'_>]) -> String {
    let names = rows.iter().map(|row| row.point.timing(ground).to_string());
    text::each_once(names).join(", ")
}

/// Names points by what differs among them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    profile: bool,
    committees: bool,
    publishers: bool,
    adversary: bool,
}

impl Names {
    /// Builds the names for all points of a sweep.
    pub(super) fn of(rows: &[Row<'_>]) -> Self {
        /// Whether a property differs among the points that have it.
        fn differ<T: PartialEq>(rows: &[Row<'_>], of: impl Fn(&Point<'_>) -> Option<T>) -> bool {
            let mut all = rows.iter().filter_map(|row| of(&row.point));
            let first = all.next();
            all.any(|one| Some(&one) != first.as_ref())
        }
        Names {
            profile: differ(rows, |point| Some(point.profile)),
            committees: differ(rows, |point| point.committees_asked()),
            publishers: differ(rows, |point| {
                point
                    .aggregators()
                    .filter(|_| is_asked(point))
                    .or(point.replicas())
            }),
            adversary: differ(rows, |point| Some(point.adversary_pct)),
        }
    }

    /// Returns the name of a point without its scheme.
    pub(super) fn shape(&self, row: &Row<'_>) -> String {
        let point = &row.point;
        let profile = Some(format!("{} ", point.profile.name())).filter(|_| self.profile);
        let more = [
            committees(point).filter(|_| self.committees && is_asked(point)),
            Some(publishers(point)).filter(|_| self.publishers),
            Some(silent(point)).filter(|_| self.adversary),
        ];
        let more: Vec<String> = (more.into_iter().flatten())
            .map(|part| format!(", {part}"))
            .collect();
        format!(
            "{}{}{}",
            profile.unwrap_or_default(),
            point.topology.name(),
            more.concat()
        )
    }

    /// Returns the name of a point.
    pub(super) fn name(&self, row: &Row<'_>) -> String {
        format!("{} {}", row.point.costs.scheme, self.shape(row))
    }

    /// Describes what names leave out because it is the same for all points, or for all of a topology.
    pub(super) fn shared(&self, rows: &[Row<'_>]) -> Option<String> {
        let point = &rows.first()?.point;
        let all = [
            Some(format!("profile {}", point.profile.name())).filter(|_| !self.profile),
            Some(silent(point)).filter(|_| !self.adversary),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        let mut lines: Vec<String> = Vec::new();
        if !all.is_empty() {
            lines.push(format!("all points: {}", all.join(", ")));
        }
        // Topologies with the same values are named together.
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for row in rows {
            let (point, name) = (&row.point, row.point.topology.name());
            let own = [
                committees(point).filter(|_| !(self.committees && is_asked(point))),
                Some(publishers(point)).filter(|_| !self.publishers),
            ];
            let own: Vec<String> = own.into_iter().flatten().collect();
            let own = own.join(", ");
            match groups.iter_mut().find(|(text, _)| *text == own) {
                _ if own.is_empty() => {}
                Some((_, names)) if names.contains(&name) => {}
                Some((_, names)) => names.push(name),
                None => groups.push((own, vec![name])),
            }
        }
        let groups = groups.into_iter();
        lines.extend(groups.map(|(text, names)| format!("{}: {text}", names.join(", "))));
        Some(lines.join("; ")).filter(|_| !lines.is_empty())
    }
}

/// Whether its number of committees is the one requested.
fn is_asked(point: &Point<'_>) -> bool {
    point.committees_asked().is_some()
}

/// Returns its committees, if it has any.
fn committees(point: &Point<'_>) -> Option<String> {
    Some(match point.committees()? {
        1 => "1 committee".into(),
        committees => format!("{committees} committees"),
    })
}

/// Returns its publishers, per unit or position.
fn publishers(point: &Point<'_>) -> String {
    let many = |number: u16, what: &str| match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    };
    match point.replicas() {
        Some(replicas) => format!("{} a position", many(replicas, "node")),
        None => format!(
            "{} a unit",
            many(point.aggregators().unwrap_or(0), "publisher")
        ),
    }
}

fn silent(point: &Point<'_>) -> String {
    match point.adversary_pct {
        0 => "nobody silent".into(),
        percent => format!("{percent} % silent"),
    }
}

/// A table in which values shared by all rows are stated once.
pub(super) struct Figures {
    /// The values shared by all rows, if there are any.
    pub(super) alike: Option<String>,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Builds the main table, without columns that are the same in every row.
pub(super) fn figures(rows: &[Row<'_>], transports: &[Transport], ground: &Ground) -> Figures {
    let names = Names::of(rows);
    let (mut head, mut cells) = (
        columns(transports),
        rows.iter()
            .map(|row| cells(row, &names, ground))
            .collect::<Vec<_>>(),
    );
    let mut alike = Vec::new();
    // The columns for the point, its units and whether it fits are always kept.
    for at in (3..head.len()).rev() {
        let Some(first) = cells.first().map(|row| row[at].clone()) else {
            continue;
        };
        if cells.len() > 1 && cells.iter().all(|row| row[at] == first) {
            // The loop goes backwards, so this moves only columns that it has already seen.
            cells.iter_mut().for_each(|row| drop(row.remove(at)));
            alike.push(format!("{} {first}", head.remove(at)));
        }
    }
    alike.reverse();
    Figures {
        alike: Some(format!("every point: {}", alike.join(", "))).filter(|_| !alike.is_empty()),
        head,
        rows: cells,
    }
}

/// Returns the header of the main table.
fn columns(transports: &[Transport]) -> Vec<String> {
    let fixed = [
        "point",
        "units",
        "fits",
        "2/3",
        "99 % at 99 %",
        "counted",
        "sent p50 / p99",
        "core p99",
        "block",
    ];
    let mut columns: Vec<String> = fixed.map(str::to_owned).to_vec();
    columns.extend(transports.iter().map(|transport| transport.name().into()));
    columns
}

/// Returns the cells of a row.
fn cells(row: &Row<'_>, names: &Names, ground: &Ground) -> Vec<String> {
    let time = |seconds: Option<f64>| seconds.map_or("never".into(), text::seconds);
    let fits = match objection(row) {
        None => "yes",
        Some(_) => "no",
    };
    let mut cells = vec![names.name(row), row.point.units(ground), fits.to_owned()];
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
            text::bytes(slot.block.bytes),
        ]),
        Err(_) => cells.extend(["-"; 6].map(str::to_owned)),
    }
    let travel = row.travel_s.iter();
    cells.extend(travel.map(|seconds| seconds.map_or("-".into(), text::seconds)));
    cells
}

/// Explains the terms that occur in the table.
pub(super) fn legend(rows: &[Row<'_>], ground: &Ground) -> Vec<String> {
    let mut lines = vec![format!(
        "units: committees, what each is made of level by level, votes of a cell; of a tree, children of a \
         position and votes of a leaf. Slots: {}.",
        slots(ground, rows)
    )];
    if rows.iter().any(|row| row.point.merges()) {
        lines.push(
            "Where proofs of cells merge, the proposer has one proof of all committees, and the votes are in the \
             block after the next one."
                .into(),
        );
    }
    if rows.iter().any(|row| row.point.topology == Topology::Today) {
        lines.push("today: a 32nd of the votes, so it is beside no other point.".into());
    }
    let slots = || rows.iter().filter_map(|row| row.outcome.as_ref().ok());
    if slots().any(|slot| slot.two_thirds_s.is_none() || slot.everywhere_s.is_none()) {
        lines.push(
            "never: when the slot was over, the proposer did not have two thirds of the votes (2/3), or fewer \
             than 99 % of the nodes had 99 % of them (99 % at 99 %). Counted are the votes in the proposer's \
             block, so all can be counted while many nodes never have them."
                .into(),
        );
    }
    lines
}

/// Formats the main table, with what it leaves out and an explanation of its terms.
pub(super) fn table(rows: &[Row<'_>], transports: &[Transport], ground: &Ground) -> String {
    let figures = figures(rows, transports, ground);
    let head: Vec<&str> = figures.head.iter().map(String::as_str).collect();
    let mut lines: Vec<String> = Names::of(rows).shared(rows).into_iter().collect();
    lines.extend(figures.alike);
    lines.push(report::table(&head, &figures.rows));
    lines.extend(legend(rows, ground));
    lines.join("\n")
}

/// Returns every point with all figures.
pub(super) fn json(rows: &[Row<'_>], transports: &[Transport], ground: &Ground) -> Vec<Value> {
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
                "block_bytes": slot.block.bytes,
                "unfinished": slot.unfinished,
                "events": slot.events,
                "slot_s": slot.slot_s,
            })
        });
        let layout = point.layout(ground).ok().flatten().map(|layout| {
            json!({
                "committees": layout.committees(),
                "committee": layout.committee_len_max(),
                "fan_out": layout.fan_out(),
                "cell": layout.cell_len_max(),
            })
        });
        json!({
            "scheme": point.costs.scheme,
            "topology": point.topology.name(),
            "profile": point.profile.name(),
            "committees": point.committees(),
            "aggregators": point.aggregators(),
            "collectors": point.collectors(),
            "replicas": point.replicas(),
            "adversary_pct": point.adversary_pct,
            "units": point.units(ground),
            "layout": layout,
            "timing": point.timing(ground).to_string(),
            "quantum_bits": point.costs.abilities.security.quantum_bits,
            "levels": pays::levels(row, ground),
            "phases": pays::phases(row, ground),
            "pays": pays::pays(row, ground),
            "slot": slot,
            "block_travel_s": travel,
            "fits": objection(row).is_none(),
            "on_frontier": is_on_frontier(row, rows),
            "why": objection(row),
        })
    };
    rows.iter().map(case).collect()
}
