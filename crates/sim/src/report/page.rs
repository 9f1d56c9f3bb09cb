//! The page of one run.

use super::html::{Origin, Page, Table};
use super::manifest::{Figures, Manifest};
use super::plot::{Axis, Bar, Layer, Mark, Plot, bars, number};
use super::{NodeRecord, Outcome, quantile};
use crate::scenario::Scenario;
use std::collections::BTreeMap;

/// What a page is made from.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What was run.
    pub scenario: &'a Scenario,
    /// What came out.
    pub outcome: &'a Outcome,
    /// Where, and how to do it again.
    pub manifest: &'a Manifest,
    /// The scenario's text.
    pub text: &'a str,
}

/// Bins of the timeline at most: more are thinner than a line.
const BINS_MAX: u64 = 240;

/// `report.html` of one run.
pub fn run_page(run: &Run<'_>) -> String {
    let Run {
        scenario,
        outcome,
        manifest,
        ..
    } = run;
    let figures = Figures::of(outcome);
    let lead = match scenario.about.as_str() {
        "" => format!(
            "{} nodes, seed {}",
            number(outcome.nodes.len() as f64),
            outcome.seed
        ),
        about => format!("{about} (seed {})", outcome.seed),
    };
    let mut page = Page::new(&scenario.name, &lead);
    if !manifest.verdict.is_empty() {
        page.verdict(&manifest.verdict, true);
    }
    match manifest.holds {
        true => page.verdict("All that was expected holds.", true),
        false => page.verdict(&manifest.failures.join("; "), false),
    }
    page.tiles(&tiles(&figures));
    if figures.sent_truncated {
        page.text(
            "The run ended with messages on the way: bytes sent, waste and duplicates are only those \
             until then, and are not to be compared with a run to quiescence.",
        );
    }
    delays(&mut page, outcome, &figures);
    classes(&mut page, scenario, outcome);
    duplicates(&mut page, outcome);
    timeline(&mut page, outcome);
    about(&mut page, manifest);
    page.source("The scenario, with every default", run.text);
    page.finish()
}

fn time(value: Option<f64>) -> String {
    value.map_or("none".into(), |ms| format!("{} ms", number(ms)))
}

fn tiles(figures: &Figures) -> Vec<(String, String)> {
    let mut tiles = vec![
        ("half of the nodes by".to_owned(), time(figures.t50_ms)),
        ("99 % by".to_owned(), time(figures.t99_ms)),
        ("all by".to_owned(), time(figures.t100_ms)),
        (
            "delivered".to_owned(),
            format!("{} %", number(figures.delivered_pct)),
        ),
        (
            "sent, payloads a node".to_owned(),
            number(figures.sent_ratio),
        ),
        (
            "wasted, payloads a node".to_owned(),
            number(figures.waste_ratio),
        ),
    ];
    if figures.sent_truncated {
        for tile in &mut tiles[4..] {
            tile.1.push_str(" (part)");
        }
    }
    tiles
}

/// Share of deliveries over delay, with quantiles and bounds.
fn delays(page: &mut Page, outcome: &Outcome, figures: &Figures) {
    let mut delays: Vec<u64> = outcome.delays_ns.iter().flatten().copied().collect();
    delays.sort_unstable();
    let all = outcome.delays_ns.len().max(1) as f64;
    let mut points = vec![(0.0, 0.0)];
    let shown = |(i, &ns): (usize, &u64)| (ns as f64 / 1e6, 100.0 * (i + 1) as f64 / all);
    points.extend(delays.iter().enumerate().map(shown));
    let mut marks = Vec::new();
    let mut table = Table::new("Time from publication", &["", "ms"]);
    let quantiles = [
        ("p50", figures.t50_ms),
        ("p90", figures.t90_ms),
        ("p95", figures.t95_ms),
        ("p99", figures.t99_ms),
        ("all", figures.t100_ms),
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
        ("LB1", "content", lb.lb1_ms),
        ("LB2", "source", lb.lb2_ms),
        ("LB3", "capacity", lb.lb3_ms),
        ("LB4", "reach, one chunk a peer", lb.lb4_ms),
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
        title: "When the payload was there".into(),
        about: format!(
            "Half of the honest nodes by {}, 99 % by {}. LB1 to LB3 are bounds that no protocol beats; LB4 holds \
             for one chunk a peer.",
            time(figures.t50_ms),
            time(figures.t99_ms)
        ),
        x: Axis::from_zero("ms from publication"),
        y: Axis {
            include: vec![0.0, 100.0],
            ..Axis::from_zero("% of deliveries")
        },
        layers: vec![Layer::Steps {
            name: "delivered".into(),
            points,
        }],
        marks,
    };
    page.plot(&plot, Origin::Modelled, &table);
}

/// Bytes sent by a node of each class.
fn classes(page: &mut Page, scenario: &Scenario, outcome: &Outcome) {
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
            let mut values: Vec<u64> = of().map(value).collect();
            values.sort_unstable();
            quantile(&values, permille).unwrap_or(0) as f64 / unit
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
    let svg = bars(title, about, "MB sent by a node", &rows);
    page.figure(title, about, &svg, Origin::Modelled, &table);
}

/// Share of nodes over the bytes that told them nothing.
fn duplicates(page: &mut Page, outcome: &Outcome) {
    let payload = outcome.payload_bytes.max(1) as f64;
    let mut dup: Vec<u64> = outcome.nodes.iter().map(|node| node.dup_bytes).collect();
    dup.sort_unstable();
    let all = dup.len().max(1) as f64;
    let point = |(i, &bytes): (usize, &u64)| (bytes as f64 / payload, 100.0 * (i + 1) as f64 / all);
    let points: Vec<(f64, f64)> = dup.iter().enumerate().map(point).collect();
    let mut table = Table::new(
        "Received in vain, payloads a node",
        &["of nodes", "at most"],
    );
    for permille in [100, 500, 900, 990, 1000] {
        let bytes = quantile(&dup, permille).unwrap_or(0);
        table.row(vec![
            format!("{} %", permille / 10),
            number(bytes as f64 / payload),
        ]);
    }
    let plot = Plot {
        title: "Received in vain".into(),
        about: "Bytes received that told the node nothing, in payloads: duplicates, and pieces that depend on \
                those it has."
            .into(),
        x: Axis::from_zero("payloads received in vain"),
        y: Axis {
            include: vec![0.0, 100.0],
            ..Axis::from_zero("% of nodes")
        },
        layers: vec![Layer::Steps { name: "nodes".into(), points }],
        marks: Vec::new(),
    };
    page.plot(&plot, Origin::Modelled, &table);
}

/// Bits a second that all nodes send, by kind of message.
fn timeline(page: &mut Page, outcome: &Outcome) {
    let Some(last_ns) = outcome.series.iter().map(|bin| bin.from_ns).max() else {
        return;
    };
    // Bins of a run are 10 ms; as many are put together as make at most BINS_MAX.
    const BIN_NS: u64 = 10_000_000;
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
        marks: Vec::new(),
    };
    page.plot(&plot, Origin::Modelled, &table);
}

/// How the figures came about.
pub(super) fn about(page: &mut Page, manifest: &Manifest) {
    page.heading("How these figures came about");
    page.text(
        "All times and bytes are modelled: the protocol's own code ran under a virtual clock over modelled links. \
         Costs of computing are taken from the tables below.",
    );
    let mut table = Table::new("The run", &["", ""]);
    let host = &manifest.host;
    let mut put = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
    put("run again", manifest.command.clone());
    put("scenario hash", manifest.scenario_hash.clone());
    if let Some(figures) = &manifest.figures {
        put("events", number(figures.events as f64));
        put("event hash", figures.event_hash.clone());
    }
    put("commit", host.commit.clone());
    put("compiler", host.compiler.clone());
    put("machine", host.cpu.clone());
    put(
        "wall time, measured",
        format!("{} s", number(manifest.wall_s)),
    );
    put(
        "peak memory, measured",
        format!("{} MB", number(manifest.rss_bytes as f64 / 1e6)),
    );
    for cost in &manifest.costs {
        put(
            &format!("costs {}", cost.name),
            format!("{}: {}", cost.kind, cost.machine),
        );
    }
    if manifest.costs.is_empty() {
        put(
            "costs",
            "none: computing takes no time but for handling messages".into(),
        );
    }
    page.table(&table);
}

#[cfg(test)]
mod tests {
    use super::super::plot::well_formed;
    use super::super::tests::outcome;
    use super::*;

    #[test]
    fn a_page_shows_the_run_and_how_to_repeat_it() {
        let text = "name = \"t\"\nschema = 1\n[sim]\nnodes = 100\n[[class]]\nname = \"full\"\nshare_pct = 100\n\
                    down_mbps = 50\nup_mbps = 15\n[protocol]\nkind = \"gossip\"\n";
        let scenario = Scenario::parse(text, &[]).unwrap();
        let outcome = outcome(98, 2);
        let mut manifest = Manifest {
            command: "alphorn sim run t.toml --seed 1 --set 'a=<b>'".into(),
            holds: true,
            figures: Some(Figures::of(&outcome)),
            ..Manifest::default()
        };
        let page = |manifest: &Manifest| {
            run_page(&Run {
                scenario: &scenario,
                outcome: &outcome,
                manifest,
                text,
            })
        };
        let html = page(&manifest);
        well_formed(&html[html.find("<main>").unwrap()..html.find("</body>").unwrap()]);
        for part in [
            ">none<",
            "p90",
            "--set &#39;a=&lt;b&gt;&#39;",
            "All that was expected holds.",
            "Received in vain",
            "modelled",
        ] {
            assert!(html.contains(part), "{part}");
        }
        manifest.holds = false;
        manifest.failures = vec!["t99 = none, expected 400 ms".into()];
        assert!(page(&manifest).contains("t99 = none, expected 400 ms"));
    }
}
