//! The pictures of one run, for its page and as standalone files.

use crate::html::{Picture, Table};
use crate::plot::{Axis, Bar, Layer, Mark, Plot, bars, number};
use alphorn_sim::report::BIN_NS;
use alphorn_sim::report::{NodeRecord, Outcome, ms, quantile, quantile_of};
use alphorn_sim::scenario::Scenario;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of bins in the timeline: more would be thinner than a line.
const BINS_MAX: u64 = 240;

/// The pictures of a run: deliveries over time, bytes by class, duplicates, and traffic over time.
pub(crate) fn pictures(scenario: &Scenario, outcome: &Outcome) -> Vec<Picture> {
    let mut pictures = vec![
        delays(outcome),
        classes(scenario, outcome),
        duplicates(outcome),
    ];
    pictures.extend(timeline(outcome));
    pictures
}

pub(super) fn time(value: Option<f64>) -> String {
    value.map_or("none".into(), |ms| format!("{} ms", number(ms)))
}

/// Title and axis labels of the picture of delays.
fn delay_words(is_slot: bool) -> (&'static str, &'static str, &'static str) {
    match is_slot {
        true => (
            "When 99 % of the votes were there",
            "ms from the begin of the phase of votes",
            "% of honest nodes",
        ),
        false => (
            "When the payload was there",
            "ms from publication",
            "% of deliveries",
        ),
    }
}

/// Share of deliveries over delay, with quantiles and bounds.
fn delays(outcome: &Outcome) -> Picture {
    let figures = outcome.summary();
    let mut delays: Vec<u64> = outcome.delays_ns.iter().flatten().copied().collect();
    delays.sort_unstable();
    let all = outcome.delays_ns.len().max(1) as f64;
    // Votes of a slot arrive after waiting phases, which are uninteresting, so the picture starts with the
    // first node.
    let is_slot = outcome.votes.is_some();
    let first_ms = delays.first().map_or(0.0, |&ns| ns as f64 / 1e6);
    let from_ms = if is_slot { first_ms } else { 0.0 };
    let mut points = vec![(from_ms, 0.0)];
    let shown = |(i, &ns): (usize, &u64)| (ns as f64 / 1e6, 100.0 * (i + 1) as f64 / all);
    points.extend(delays.iter().enumerate().map(shown));
    let mut marks = Vec::new();
    let (title, label, of) = delay_words(is_slot);
    let mut table = Table::new(label, &["", "ms"]);
    let quantiles = [
        ("p50", figures.t50_ns.map(ms)),
        ("p90", figures.t90_ns.map(ms)),
        ("p95", figures.t95_ns.map(ms)),
        ("p99", figures.t99_ns.map(ms)),
        ("all", figures.t100_ns.map(ms)),
    ];
    for (name, value) in quantiles {
        table.row(vec![name.into(), value.map_or("none".into(), number)]);
        if let Some(at) = value.filter(|_| name != "all") {
            let name = name.to_owned();
            marks.push(Mark {
                at,
                name,
                bound: false,
            });
        }
    }
    let lb = &figures.lb;
    let bounds = [
        ("LB1", "content", ms(lb.lb1_ns)),
        ("LB2", "source", ms(lb.lb2_ns)),
        ("LB3", "capacity", ms(lb.lb3_ns)),
        ("LB4", "reach, one chunk a peer", ms(lb.lb4_ns)),
    ];
    for (name, what, at) in bounds {
        table.row(vec![format!("{name}: {what}"), number(at)]);
        if at > 0.0 {
            let name = name.to_owned();
            marks.push(Mark {
                at,
                name,
                bound: true,
            });
        }
    }
    let plot = Plot {
        title: title.into(),
        about: format!(
            "Half of the honest nodes by {}, 99 % by {}. LB1 to LB3 are bounds of the last node that no protocol \
             beats; LB4 holds for one chunk a peer.",
            time(figures.t50_ns.map(ms)),
            time(figures.t99_ns.map(ms))
        ),
        x: Axis {
            include: vec![from_ms],
            ..Axis::from_zero(label)
        },
        y: Axis {
            include: vec![0.0, 100.0],
            ..Axis::from_zero(of)
        },
        layers: vec![Layer::Steps {
            name: "delivered".into(),
            points,
        }],
        marks,
        ..Plot::default()
    };
    Picture::of("cdf", &plot, table)
}

/// Bytes sent per node of each class.
fn classes(scenario: &Scenario, outcome: &Outcome) -> Picture {
    let mut table = Table::new(
        "Bytes of a node, MB",
        &[
            "class",
            "nodes",
            "sent p1",
            "sent p50",
            "sent p99",
            "received p50",
            "queue p99",
            "peak Mbit/s p99",
            "core ms p99",
        ],
    );
    let mut rows = Vec::new();
    for (index, class) in scenario.class.iter().enumerate() {
        let of = || {
            outcome
                .nodes
                .iter()
                .filter(move |node| usize::from(node.class) == index)
        };
        if of().next().is_none() {
            continue;
        }
        let at = |value: fn(&NodeRecord) -> u64, permille, unit: f64| {
            quantile_of(of().map(value), permille) as f64 / unit
        };
        let sent = |permille| at(|node| node.bytes_up, permille, 1e6);
        let cells = [
            sent(10),
            sent(500),
            sent(990),
            at(|node| node.bytes_down, 500, 1e6),
            at(|node| node.queue_peak_bytes, 990, 1e6),
            at(|node| node.peak_1s_up_bps, 990, 1e6),
            at(|node| node.cpu_ns, 990, 1e6),
        ];
        let mut row = vec![class.name.clone(), number(of().count() as f64)];
        row.extend(cells.map(number));
        table.row(row);
        rows.push(Bar {
            name: class.name.clone(),
            value: sent(500),
            range: Some((sent(10), sent(990))),
        });
    }
    let title = "Bytes that a node sends";
    let about = "The node in the middle of each class; the line goes from the node that 1 % do not exceed to the \
                 one that 99 % do not exceed. Headers and control included.";
    Picture {
        name: "bytes",
        title: title.into(),
        about: about.into(),
        svg: bars(title, about, "MB sent by a node", &rows),
        table,
    }
}

/// Cumulative share of nodes over the bytes that carried nothing new.
fn duplicates(outcome: &Outcome) -> Picture {
    // The traffic of a slot is not a payload that every node should have.
    let (unit, bytes_each) = match outcome.votes {
        Some(_) => ("MB", 1e6),
        None => ("payloads", outcome.payload_bytes.max(1) as f64),
    };
    let mut dup: Vec<u64> = outcome.nodes.iter().map(|node| node.dup_bytes).collect();
    dup.sort_unstable();
    let all = dup.len().max(1) as f64;
    let point =
        |(i, &bytes): (usize, &u64)| (bytes as f64 / bytes_each, 100.0 * (i + 1) as f64 / all);
    let points: Vec<(f64, f64)> = dup.iter().enumerate().map(point).collect();
    let mut table = Table::new(
        format!("Received in vain, {unit} a node"),
        &["of nodes", "at most"],
    );
    for permille in [100, 500, 900, 990, 1000] {
        let bytes = quantile(&dup, permille).unwrap_or(0);
        table.row(vec![
            format!("{} %", permille / 10),
            number(bytes as f64 / bytes_each),
        ]);
    }
    let plot = Plot {
        title: "Received in vain".into(),
        about: format!(
            "Bytes received that told the node nothing, in {unit}: duplicates, and pieces that depend on those it \
             has."
        ),
        x: Axis::from_zero(format!("{unit} received in vain")),
        y: Axis {
            include: vec![0.0, 100.0],
            ..Axis::from_zero("% of nodes")
        },
        layers: vec![Layer::Steps {
            name: "nodes".into(),
            points,
        }],
        ..Plot::default()
    };
    Picture::of("duplicates", &plot, table)
}

/// Bits per second sent by all nodes, by message kind.
fn timeline(outcome: &Outcome) -> Option<Picture> {
    let last_ns = outcome.series.iter().map(|bin| bin.from_ns).max()?;
    // Merge bins so that at most BINS_MAX remain.
    let width_ns = BIN_NS * (last_ns / BIN_NS + 1).div_ceil(BINS_MAX);
    let mut kinds: BTreeMap<&str, (u64, u64, Vec<u64>)> = BTreeMap::new();
    let bins = (last_ns / width_ns + 2) as usize;
    for bin in &outcome.series {
        let (msgs, bytes, sent) = kinds
            .entry(bin.kind)
            .or_insert_with(|| (0, 0, vec![0; bins]));
        *msgs += bin.msgs;
        *bytes += bin.bytes;
        sent[(bin.from_ns / width_ns) as usize] += bin.bytes;
    }
    let mut table = Table::new(
        "Sent by all nodes",
        &["kind", "messages", "MB", "peak Gbit/s"],
    );
    let mut layers = Vec::new();
    let gigabits = |bytes: u64| bytes as f64 * 8.0 / width_ns as f64;
    // The heaviest kind comes first and has the most visible line.
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(kind, (_, bytes, _))| (Reverse(*bytes), *kind));
    for (kind, (msgs, bytes, sent)) in &kinds {
        let peak = sent.iter().copied().max().unwrap_or(0);
        table.row(vec![
            (*kind).to_owned(),
            number(*msgs as f64),
            number(*bytes as f64 / 1e6),
            number(gigabits(peak)),
        ]);
        let point =
            |(i, &bytes): (usize, &u64)| (i as f64 * width_ns as f64 / 1e6, gigabits(bytes));
        layers.push(Layer::Steps {
            name: (*kind).to_owned(),
            points: sent.iter().enumerate().map(point).collect(),
        });
    }
    let plot = Plot {
        title: "What is sent when".into(),
        about: format!(
            "Bits a second that all nodes together send, by kind of message, in steps of {} ms.",
            number(width_ns as f64 / 1e6)
        ),
        x: Axis::from_zero("ms from the begin of the run"),
        y: Axis::from_zero("Gbit/s of all nodes"),
        layers,
        ..Plot::default()
    };
    Some(Picture::of("series", &plot, table))
}
