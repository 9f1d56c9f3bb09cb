//! The report page of one run.

use super::pictures::{pictures, time};
use crate::html::{Page, Table};
use crate::plot::number;
use alphorn_scheme::model::FigureKind;
use alphorn_sim::report::manifest::{ChainFigures, Figures, LOAD_COLUMNS, Manifest, VoteFigures};
use alphorn_sim::report::{Adversity, Outcome, Rates, ms};
use alphorn_sim::scenario::{Protocol, Scenario, Strategy, TraceLevel};

/// Input of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    /// The scenario that was run.
    pub(crate) scenario: &'a Scenario,
    /// The outcome.
    pub(crate) outcome: &'a Outcome,
    /// Where it was run, and how to reproduce it.
    pub(crate) manifest: &'a Manifest,
    /// Text of the scenario.
    pub(crate) text: &'a str,
}

/// `report.html` of one run.
pub(crate) fn run_page(run: &Run<'_>) -> String {
    let Run {
        scenario, outcome, ..
    } = run;
    let figures = outcome.summary();
    let mut page = Page::new(&scenario.name, &setting(scenario, outcome));
    question(&mut page, scenario);
    answer(&mut page, run);
    page.tiles(&tiles(&figures));
    if figures.sent_truncated {
        page.text(
            "The run ended with messages on the way: bytes sent, waste and duplicates are only those \
             until then, and are not to be compared with a run to quiescence.",
        );
    }
    for picture in pictures(scenario, outcome) {
        page.picture(&picture, FigureKind::Modelled);
    }
    loads(&mut page, &figures);
    adversity(&mut page, outcome);
    about(&mut page, run);
    page.source("The scenario, with every default", run.text);
    page.finish()
}

/// Size of the run.
fn setting(scenario: &Scenario, outcome: &Outcome) -> String {
    let validators = match &scenario.protocol {
        Protocol::Horn(horn) => format!("{} validators on ", number(f64::from(horn.validators))),
        _ => String::new(),
    };
    let nodes = number(outcome.nodes.len() as f64);
    format!("{validators}{nodes} nodes, seed {}.", outcome.seed)
}

/// The question: the scenario in one sentence, and its nodes. The description of a scenario is unchanged when
/// values are overridden, so it states no values.
fn question(page: &mut Page, scenario: &Scenario) {
    page.heading("The question");
    match scenario.about.is_empty() {
        true => page.text("The scenario does not say what it is to show (about)."),
        false => page.text(&scenario.about),
    }
    let head = [
        "class",
        "% of the nodes",
        "Mbit/s down",
        "Mbit/s up",
        "cores",
    ];
    let mut classes = Table::new("Nodes", &head);
    for class in &scenario.class {
        let numbers = [class.share_pct.into(), class.down_mbps, class.up_mbps];
        let numbers = numbers.into_iter().chain([class.cores.into()]);
        let cells = numbers.map(|value| number(value as f64));
        classes.row([class.name.clone()].into_iter().chain(cells).collect());
    }
    page.table(&classes);
}

/// The answer: in one sentence, and compared with the expectations.
fn answer(page: &mut Page, run: &Run<'_>) {
    let Run {
        scenario,
        outcome,
        manifest,
        ..
    } = run;
    page.heading("The answer");
    if !manifest.verdict.is_empty() {
        page.note(&manifest.verdict);
    }
    let expected = outcome.summary().expected(&scenario.expect);
    match manifest.holds {
        true if expected.is_empty() => {
            page.text("The scenario expects nothing of its figures: they are the answer.");
        }
        true => page.verdict("All that was expected holds.", true),
        false => page.verdict(&manifest.failures.join("; "), false),
    }
    if expected.is_empty() {
        return;
    }
    let mut table = Table::words("What was expected ([expect] of the scenario)");
    for one in expected {
        let word = if one.holds { "holds" } else { "does not hold" };
        let found = format!("{}, expected {}: {word}", one.found, one.expected);
        table.row(vec![one.name.to_owned(), found]);
    }
    page.table(&table);
}

/// Main figures of a slot, whose messages are not payloads.
fn vote_tiles(figures: &Figures, votes: &VoteFigures) -> Vec<(String, String)> {
    let tile = |name: &str, value: String| (name.to_owned(), value);
    vec![
        tile(
            "votes in the block",
            format!("{} %", number(votes.in_block_pct())),
        ),
        tile("2/3 at the proposer by", time(votes.two_thirds_ms)),
        tile("99 % at the proposer by", time(votes.most_ms)),
        tile("99 % at 99 % of the nodes by", time(figures.t99_ns.map(ms))),
        tile(
            "sent by a node, mean",
            format!("{} MB", number(votes.sent_mb)),
        ),
        tile(
            "sent by a node, p99",
            format!("{} MB", number(figures.bytes_up_p99 as f64 / 1e6)),
        ),
        tile(
            "connections of a node, most",
            votes.connections_max.to_string(),
        ),
    ]
}

/// Main figures of a chain of several slots.
fn chain_tiles(chain: &ChainFigures) -> Vec<(String, String)> {
    let tile = |name: &str, value: String| (name.to_owned(), value);
    vec![
        tile(
            "honest votes lost",
            format!("{} %", number(chain.votes_lost_pct())),
        ),
        tile(
            "honest blocks lost",
            format!("{} of {}", chain.blocks_lost, chain.blocks),
        ),
        tile(
            "reorgs, and most blocks of one",
            format!("{}, {}", chain.reorgs, chain.reorg_depth),
        ),
        tile(
            "slots until final, at most",
            chain.slots_to_final.to_string(),
        ),
    ]
}

fn tiles(figures: &Figures) -> Vec<(String, String)> {
    if let Some(votes) = &figures.votes {
        let mut tiles = vote_tiles(figures, votes);
        tiles.extend(figures.chain.iter().flat_map(chain_tiles));
        return tiles;
    }
    let mut tiles = vec![
        (
            "half of the nodes by".to_owned(),
            time(figures.t50_ns.map(ms)),
        ),
        ("99 % by".to_owned(), time(figures.t99_ns.map(ms))),
        ("all by".to_owned(), time(figures.t100_ns.map(ms))),
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
            figures.waste_ratio.map_or("none".into(), number),
        ),
    ];
    if figures.sent_truncated {
        for tile in &mut tiles[4..] {
            tile.1.push_str(" (part)");
        }
    }
    tiles
}

/// Traffic and computing load of the classes, and bytes sent per phase.
fn loads(page: &mut Page, figures: &Figures) {
    if figures.loads.is_empty() {
        return;
    }
    page.heading("What nodes carry and compute");
    let about = "Mbit/s and cores of a node: the mean, then the busiest second, of 99 % of the nodes and of the \
                 busiest one";
    let mut classes = Table::new(about, &LOAD_COLUMNS);
    let about = "Mbit/s and cores of a node in each phase, the mean of the class";
    let mut phases = Table::new(about, &["class", "phase", "up", "down", "cores"]);
    for load in &figures.loads {
        let rates = [load.mean, load.peak, load.most];
        let names = [load.class.clone(), number(f64::from(load.nodes))];
        let row = names.into_iter().chain(rates.iter().flat_map(cells));
        classes.row(row.collect());
        for own in &load.phases {
            let names = [load.class.clone(), own.phase.clone()];
            phases.row(names.into_iter().chain(cells(&own.rates)).collect());
        }
    }
    page.table(&classes);
    page.table(&phases);
    let about = "Sent by a node, by phase and kind of message";
    let mut kinds = Table::new(about, &["phase", "kind", "MB"]);
    for sent in &figures.sent {
        let names = [sent.phase.clone(), sent.message.clone()];
        kinds.row(names.into_iter().chain([number(sent.mb)]).collect());
    }
    page.table(&kinds);
}

fn cells(rates: &Rates) -> [String; 3] {
    [rates.up_mbps, rates.down_mbps, rates.cores].map(number)
}

/// Rejections and reports of honest nodes, if any.
fn adversity(page: &mut Page, outcome: &Outcome) {
    let Adversity {
        refused,
        reports,
        accused,
        evidence,
    } = &outcome.adversity;
    if refused.is_empty() && reports.is_empty() && *evidence == 0 {
        return;
    }
    page.heading("What honest nodes refused");
    page.text(&format!(
        "Proof against {} nodes; proof against a source at {} nodes.",
        number(f64::from(*accused)),
        number(f64::from(*evidence))
    ));
    let mut table = Table::new(
        "By reason, of all honest nodes",
        &["reason", "messages", "reports"],
    );
    let mut reasons: Vec<&String> = refused.keys().chain(reports.keys()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        let count = |of: &std::collections::BTreeMap<String, u64>| {
            number(of.get(reason).copied().unwrap_or(0) as f64)
        };
        table.row(vec![
            reason.replace('_', " "),
            count(refused),
            count(reports),
        ]);
    }
    page.table(&table);
}

/// Provenance of the figures: what produced them, on which host, and how to reproduce them.
fn about(page: &mut Page, run: &Run<'_>) {
    let (scenario, manifest) = (run.scenario, run.manifest);
    page.heading("How these figures came about");
    let ran = match &scenario.protocol {
        Protocol::Horn(_) => {
            "the protocol's own code, with signatures of a model and a model of gossipsub,"
        }
        Protocol::Broadcast(broadcast) if broadcast.strategy != Strategy::Gossip => {
            "the protocol's own code"
        }
        Protocol::Gossip(_) | Protocol::Broadcast(_) => "a model of gossipsub",
        Protocol::Direct(_) | Protocol::Grid(_) | Protocol::Tree(_) => "a model of the protocol",
    };
    page.text(&format!(
        "All times and bytes are modelled: {ran} ran under a virtual clock over modelled links. Costs of computing \
         are taken from the tables below.",
    ));
    again(page, scenario, manifest);
    let mut table = Table::words("The run");
    let host = &manifest.host;
    let mut put = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
    put("seed", manifest.seed.to_string());
    put("scenario hash", manifest.scenario_hash.clone());
    if let Some(figures) = &manifest.figures {
        put("events", number(figures.events as f64));
        put("event hash", figures.event_hash.clone());
    }
    let changed = if host.dirty {
        ", with changes beside it"
    } else {
        ""
    };
    put("commit", format!("{}{changed}", host.commit));
    put("version", manifest.version.clone());
    put("compiler", host.compiler.clone());
    put("machine", host.cpu.clone());
    put(
        "wall time, measured",
        match manifest.threads {
            0 | 1 => format!("{} s", number(manifest.wall_s)),
            threads => format!("{} s on {threads} threads", number(manifest.wall_s)),
        },
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

/// Commands to repeat the run, verify that it is the same, and inspect what happened in it.
fn again(page: &mut Page, scenario: &Scenario, manifest: &Manifest) {
    let mut table = Table::words("Again, in the folder of this page");
    let mut put = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
    put("the run from its scenario", manifest.command.clone());
    let replay = "alphorn sim replay .".to_owned();
    put("the same run, event by event, or an error", replay);
    if scenario.output.trace != TraceLevel::None {
        let show = "alphorn dashboard --trace trace.jsonl".to_owned();
        put("what happened, on the page", show);
    }
    page.table(&table);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::well_formed;
    use alphorn_sim::report::manifest::Host;
    use alphorn_sim::report::{Bin, NodeRecord, Votes};

    /// 98 deliveries, a millisecond apart, and two that never come.
    fn outcome() -> Outcome {
        let node = |node| NodeRecord {
            node,
            role: "relay",
            bytes_up: 300,
            dup_bytes: 50,
            ..NodeRecord::default()
        };
        let delays_ns = (1..=100).map(|ms| (ms <= 98).then_some(ms * 1_000_000));
        Outcome {
            payload_bytes: 100,
            nodes: (0..100).map(node).collect(),
            delays_ns: delays_ns.collect(),
            useful_bytes: 9_900,
            series: vec![Bin {
                from_ns: 0,
                kind: "chunk",
                msgs: 3,
                bytes: 9,
            }],
            ..Outcome::default()
        }
    }

    #[test]
    fn a_page_shows_the_run_and_how_to_repeat_it() {
        let text = "name = \"t\"\nschema = 1\n[sim]\nnodes = 100\n[[class]]\nname = \"full\"\nshare_pct = 100\n\
                    down_mbps = 50\nup_mbps = 15\n[protocol]\nkind = \"gossip\"\n";
        let scenario = Scenario::parse(text, &[]).unwrap();
        let mut outcome = outcome();
        let manifest = Manifest {
            command: "alphorn sim run t.toml --seed 1 --set 'a=<b>'".into(),
            holds: true,
            seed: 7,
            host: Host {
                commit: "0123abc".into(),
                dirty: true,
                ..Host::default()
            },
            figures: Some(outcome.summary()),
            ..Manifest::default()
        };
        let page = |outcome: &Outcome, manifest: &Manifest| {
            run_page(&Run {
                scenario: &scenario,
                outcome,
                manifest,
                text,
            })
        };
        let html = page(&outcome, &manifest);
        well_formed(&html[html.find("<main>").unwrap()..html.find("</body>").unwrap()]);
        for part in [
            ">none<",
            "p90",
            "--set &#39;a=&lt;b&gt;&#39;",
            "The question",
            "The scenario does not say what it is to show",
            "The scenario expects nothing of its figures",
            ">seed</th><td>7</td>",
            "0123abc, with changes beside it",
            "alphorn sim replay .",
            "alphorn dashboard --trace trace.jsonl",
            "Received in vain",
            "modelled: a model of gossipsub ran",
            "modelled",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("What honest nodes refused"));
        assert!(html.contains("100 nodes, seed 0."), "{html}");
        assert!(html.contains("sent, payloads a node"));
        outcome.votes = Some(Votes {
            cast: 1000,
            in_block: 995,
            two_thirds_ns: Some(250_000_000),
            most_ns: None,
            slots: 1,
            connections: [40, 70],
        });
        let slot = page(&outcome, &manifest);
        for part in ["99.5 %", "250 ms", "70"] {
            assert!(slot.contains(&format!("<dd>{part}</dd>")), "{part}");
        }
        assert!(!slot.contains("payloads a node</dt>"));
        outcome.adversity.refused.insert("bad_auth".into(), 1234);
        outcome.adversity.accused = 3;
        let attacked = page(&outcome, &manifest);
        for part in [
            "What honest nodes refused",
            "bad auth",
            "1,234",
            "Proof against 3 nodes",
        ] {
            assert!(attacked.contains(part), "{part}");
        }
    }

    #[test]
    fn a_page_says_what_was_asked_and_what_was_expected() {
        let text = "name = \"t\"\nschema = 1\nabout = \"How long it takes.\"\n[sim]\nnodes = 100\n[[class]]\nname = \"full\"\n\
                    share_pct = 100\ndown_mbps = 50\nup_mbps = 15\n[protocol]\nkind = \"gossip\"\n\
                    [expect]\nt50_ms_max = 400\nt99_ms_max = 400\n[output]\ntrace = \"none\"\n";
        let scenario = Scenario::parse(text, &[]).unwrap();
        let outcome = outcome();
        let failures = outcome.summary().failures(&scenario.expect);
        let manifest = Manifest {
            failures: failures.clone(),
            ..Manifest::default()
        };
        let html = run_page(&Run {
            scenario: &scenario,
            outcome: &outcome,
            manifest: &manifest,
            text,
        });
        let found = |part: &str| html.matches(part).count();
        assert_eq!(failures, ["t99 = none, expected 400 ms"]);
        assert_eq!(found("t99 = none, expected 400 ms"), 1);
        assert_eq!(found("none, expected 400 ms: does not hold"), 1);
        assert_eq!(found("expected 400 ms: holds"), 1);
        assert_eq!(found("<p>How long it takes.</p>"), 1);
        assert_eq!(found("alphorn dashboard"), 0);
    }
}
