//! `alphorn sim replay`: repeats a run, identical to the last event, or up to a given one.

use super::folder;
use super::print::print;
use super::source::shell;
use super::trace::{Told, Wanted};
use super::work::{self, Ran};
use crate::error::{Error, Result};
use crate::machine::commit;
use crate::overwrite::check_apart;
use crate::plot::number;
use crate::report::{say, table, target};
use alphorn_sim::report::manifest::Manifest;
use alphorn_sim::report::{NodeRecord, Outcome};
use alphorn_sim::scenario::{Scenario, Stop};
use alphorn_sim::sweep::{Item, Merged};
use alphorn_sim::world::Traced;
use alphorn_types::trace::{Event, Record};
use anyhow::anyhow;
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

/// Repeat a run from its manifest, and fail if any event differs
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Manifest or folder of the run
    manifest: PathBuf,
    /// Stop after this event
    #[arg(long, value_name = "EVENT", value_parser = clap::value_parser!(u64).range(1..))]
    until: Option<u64>,
    /// Show what this node did, and the last events that affected it
    #[arg(long, value_name = "I")]
    node: Option<u32>,
    /// File for all events, one per line; with --node only those of that node
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(target))]
    trace: Option<PathBuf>,
    /// Folder for the tables, trace and page of the repeated run
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Returns the run of a manifest.
pub(super) fn item(manifest: &Manifest) -> Item {
    Item {
        id: manifest.id.clone(),
        index: 0,
        seed: manifest.seed,
        set: BTreeMap::new(),
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let manifest = folder::manifest(&args.manifest)?;
    let inputs = folder::files(&args.manifest, &manifest);
    check_apart(inputs.iter().map(PathBuf::as_path), args.trace.as_deref())?;
    if let Some(out) = &args.out {
        folder::check(out)?;
        let of = folder::of(&args.manifest).canonicalize().ok();
        if args.until.is_some() && out.canonicalize().ok() == of {
            let out = out.display();
            let why = "the run that is replayed is there, and --until has only a part of it";
            return Err(anyhow!("--out {out}: {why}").into());
        }
    }
    let mut scenario = folder::scenario(&folder::of(&args.manifest), &manifest)?;
    if let Some(node) = args.node.filter(|&node| node >= scenario.sim.nodes) {
        let nodes = scenario.sim.nodes;
        return Err(anyhow!("--node {node}: the run has nodes 0 to {}", nodes - 1).into());
    }
    let made = &manifest.host.commit;
    if !commit().starts_with(made.as_str()) {
        let here = commit();
        say(&format!(
            "made by commit {made}, this is {here}: other code may give other events\n"
        ))?;
    }
    if let Some(event) = args.until {
        scenario.sim.stop = Stop::Events(event.min(scenario.sim.events_max));
    }
    let command = format!(
        "alphorn sim replay {}",
        shell(&args.manifest.display().to_string())
    );
    let mut wanted = match args.out {
        Some(_) => Wanted::of(&scenario),
        None => Wanted::NOTHING,
    };
    wanted.nodes = match args.node {
        Some(node) => Some(Traced::Node(node)),
        None => wanted.nodes.or(args.trace.is_some().then_some(Traced::All)),
    };
    let mut ran = work::one(&scenario, &item(&manifest), command, None, wanted, 1)?;
    ran.manifest.set.clone_from(&manifest.set);
    say(&print(&Merged::of(vec![ran.manifest.clone()])))?;
    if let (Some(node), Some(outcome)) = (args.node, &ran.outcome) {
        say(&format!("\n{}", account(&scenario, outcome, node)))?;
    }
    if let (Some(_), Some(told)) = (args.node, &ran.told) {
        say(&last_of(told)?)?;
    }
    if let Some(path) = &args.trace {
        super::trace::write(path, &scenario, None, ran.told.as_ref())?;
    }
    if let Some(out) = &args.out {
        work::keep(out, &scenario, &mut ran)?;
    }
    for failure in &ran.manifest.failures {
        say(&format!("does not hold: {failure}"))?;
    }
    match args.until {
        Some(_) => Ok(()),
        None => same(&manifest, &ran),
    }
}

/// Formats the last events at a node, one per line.
fn last_of(told: &Told) -> Result<String> {
    const LINES: usize = 24;
    let mut last: VecDeque<String> = VecDeque::new();
    for record in told.records()? {
        let Some(line) = line_of(&record?) else {
            continue;
        };
        if last.len() == LINES {
            last.pop_front();
        }
        last.push_back(line);
    }
    Ok(Vec::from(last).join("\n"))
}

/// Formats an event at the node for a human reader; none for records of slots.
fn line_of(record: &Record) -> Option<String> {
    let (event, words) = match &record.event {
        Event::Input {
            event,
            what,
            from,
            kind,
            bytes,
        } => {
            let from = from.map_or(String::new(), |from| format!(" of {from}"));
            (event, format!("< {what}{from} {kind} {bytes}"))
        }
        Event::Output {
            event,
            what,
            to,
            kind,
            amount,
        } => {
            let to = match &to[..] {
                [] => String::new(),
                [one] => format!(" to {one}"),
                many => format!(" to {} nodes", many.len()),
            };
            (event, format!("  > {what}{to} {kind} {amount}"))
        }
        _ => return None,
    };
    let words = words.trim_end_matches(" 0").trim_end();
    let ms = record.t as f64 / 1e6;
    Some(format!("{event:>10} {ms:>12.3} ms {words}"))
}

/// Whether the run matches its manifest.
fn same(manifest: &Manifest, ran: &Ran) -> Result<()> {
    let hash = |manifest: &Manifest| manifest.figures.as_ref().map(|f| f.event_hash.clone());
    let (then, now) = (hash(manifest), hash(&ran.manifest));
    let text = |hash: Option<String>, manifest: &Manifest| {
        hash.unwrap_or_else(|| manifest.failures.join("; "))
    };
    let same = then == now && manifest.failures == ran.manifest.failures;
    let (then, now) = (text(then, manifest), text(now, &ran.manifest));
    match same {
        true => say(&format!("\nThe same run: {now}")),
        false => Err(Error::Check(format!(
            "another run: {now}, the manifest has {then}"
        ))),
    }
}

/// Formats what one node did, one item per line.
fn account(scenario: &Scenario, outcome: &Outcome, node: u32) -> String {
    let Some(record) = outcome.nodes.get(node as usize) else {
        return String::new();
    };
    let NodeRecord {
        node,
        class,
        role,
        first_ns,
        done_ns,
        bytes_up,
        bytes_down,
        msgs,
        dup_bytes,
        cpu_ns,
        queue_peak_bytes,
        peak_1s_up_bps,
        peak_1s_down_bps,
        ..
    } = record;
    let ms = |ns: &Option<u64>| {
        ns.map_or("none".into(), |ns| {
            format!("{} ms", number(ns as f64 / 1e6))
        })
    };
    let class = scenario.class.get(usize::from(*class));
    let rows = [
        (
            "class",
            class.map_or(String::new(), |class| class.name.clone()),
        ),
        ("role", (*role).to_owned()),
        ("first received", ms(first_ns)),
        ("delivered", ms(done_ns)),
        ("bytes sent", number(*bytes_up as f64)),
        ("messages sent", number(*msgs as f64)),
        ("bytes received", number(*bytes_down as f64)),
        ("of them in vain", number(*dup_bytes as f64)),
        (
            "time of cores",
            format!("{} ms", number(*cpu_ns as f64 / 1e6)),
        ),
        ("most bytes queued", number(*queue_peak_bytes as f64)),
        (
            "most sent in a second",
            format!("{} Mbit/s", number(*peak_1s_up_bps as f64 / 1e6)),
        ),
        (
            "most received in a second",
            format!("{} Mbit/s", number(*peak_1s_down_bps as f64 / 1e6)),
        ),
    ];
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
    table(&[&format!("node {node}"), ""], &rows)
}
