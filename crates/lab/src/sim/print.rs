//! Human-readable tables of runs.

use crate::plot::number;
use crate::report::{columns, table};
use alphorn_sim::report::manifest::{ChainFigures, Figures, LOAD_COLUMNS, Manifest, VoteFigures};
use alphorn_sim::report::{ClassLoad, PhaseLoad, Rates, ms};
use alphorn_sim::sweep::{Merged, Spread};

/// Formats the figures of each point, and the answer of a single run to its question; one run needs no
/// spread.
pub(super) fn print(merged: &Merged) -> String {
    let mut text = match merged.runs.iter().filter_map(votes_of).next() {
        Some(_) => votes(merged),
        None => payloads(merged),
    };
    text.push_str(&chains(merged));
    if let [run] = &merged.runs[..] {
        if let Some(figures) = &run.figures {
            text.push_str(&loads(figures));
        }
        if !run.verdict.is_empty() {
            text.push_str(&format!("\n\n{}", run.verdict));
        }
    }
    text
}

/// Formats what classes of nodes carry and compute, and what is sent when.
fn loads(figures: &Figures) -> String {
    let Some(all) = figures.load() else {
        return String::new();
    };
    let cells = |rates: &Rates| [rates.up_mbps, rates.down_mbps, rates.cores].map(number);
    let row = |of: &ClassLoad| {
        let rates = [of.mean, of.peak, of.most];
        let names = [of.class.clone(), of.nodes.to_string()];
        names
            .into_iter()
            .chain(rates.iter().flat_map(cells))
            .collect()
    };
    let rows: Vec<Vec<String>> = figures.loads.iter().map(row).collect();
    let mut text = format!(
        "\n\n{}\n\nMbit/s and cores of a node: the mean over a slot or the run, then the busiest second, of 99 % \
         of the nodes and of the busiest one.",
        table(&LOAD_COLUMNS, &rows)
    );
    let mut kinds: Vec<&str> = figures.sent.iter().map(|sent| &sent.message[..]).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let row = |of: &PhaseLoad| {
        let mb = |kind: &&str| {
            let mut own = figures.sent.iter();
            let own = own.find(|sent| sent.phase == of.phase && sent.message == **kind);
            number(own.map_or(0.0, |sent| sent.mb))
        };
        let phase = [of.phase.clone()].into_iter();
        phase
            .chain(cells(&of.rates))
            .chain(kinds.iter().map(mb))
            .collect()
    };
    let rows: Vec<Vec<String>> = all.phases.iter().map(row).collect();
    let sent: Vec<String> = kinds.iter().map(|kind| format!("{kind} MB")).collect();
    let head: Vec<&str> = ["phase", "up", "down", "cores"]
        .into_iter()
        .chain(sent.iter().map(String::as_str))
        .collect();
    text.push_str(&format!(
        "\n\n{}\n\nThe mean of all nodes in each phase, and what a node sends.",
        table(&head, &rows)
    ));
    text
}

fn votes_of(run: &Manifest) -> Option<&VoteFigures> {
    run.figures.as_ref()?.votes.as_ref()
}

fn chain_of(run: &Manifest) -> Option<ChainFigures> {
    run.figures.as_ref()?.chain
}

/// Formats a mean, with its deviation over several seeds.
fn spread(of: Spread, runs: usize) -> String {
    match (of.mean, of.sd) {
        (Some(mean), Some(sd)) if runs > 1 => {
            format!("{} +- {}", number(mean), number(sd))
        }
        (Some(mean), _) => number(mean),
        (None, _) => "none".into(),
    }
}

/// Formats the outcome of votes in slots of Horn.
fn votes(merged: &Merged) -> String {
    let mut rows = Vec::new();
    for point in &merged.points {
        let own = merged.runs.iter();
        let own = own.filter(|run| run.name == point.name && run.set == point.set);
        let runs: Vec<(&Figures, &VoteFigures)> = own
            .filter_map(|run| Some((run.figures.as_ref()?, votes_of(run)?)))
            .collect();
        let figure = |of: &dyn Fn(&Figures, &VoteFigures) -> Option<f64>| {
            let values: Vec<Option<f64>> = runs.iter().map(|(run, votes)| of(run, votes)).collect();
            spread(Spread::of(&values), values.len())
        };
        let load = |of: &dyn Fn(&ClassLoad) -> f64| figure(&|run, _| run.load().map(of));
        let part = if point.truncated { " (part)" } else { "" };
        rows.push(vec![
            ("modelled", point.label()),
            ("runs", runs.len().to_string()),
            (
                "votes in the block",
                figure(&|_, votes| Some(votes.in_block as f64)),
            ),
            ("of cast, %", figure(&|_, votes| Some(votes.in_block_pct()))),
            ("2/3, ms", figure(&|_, votes| votes.two_thirds_ms)),
            ("99 %, ms", figure(&|_, votes| votes.most_ms)),
            ("99 % of nodes, ms", figure(&|run, _| run.t99_ns.map(ms))),
            (
                "MB sent a node",
                format!("{}{part}", figure(&|_, votes| Some(votes.sent_mb))),
            ),
            (
                "peak Mbit/s",
                load(&|load| load.peak.up_mbps.max(load.peak.down_mbps)),
            ),
            ("cores", load(&|load| load.mean.cores)),
            (
                "connections",
                figure(&|_, votes| Some(votes.connections_max as f64)),
            ),
            ("events", figure(&|run, _| Some(run.events as f64))),
        ]);
    }
    format!(
        "{}\n\nms from the begin of the phase of votes until the proposer has 2/3 and 99 % of the votes, and \
         until 99 % of the nodes have 99 %; none: never. Peak: the busiest second of a node, up or down, which 99 % \
         of the nodes do not exceed; cores: the mean of a node over a slot; connections: of the node that has most.",
        columns(rows)
    )
}

/// Formats the outcome of the chain over several slots of Horn; empty if there is none.
fn chains(merged: &Merged) -> String {
    let mut rows = Vec::new();
    for point in &merged.points {
        let own = merged.runs.iter();
        let own = own.filter(|run| run.name == point.name && run.set == point.set);
        let runs: Vec<ChainFigures> = own.filter_map(chain_of).collect();
        if runs.is_empty() {
            continue;
        }
        let figure = |of: &dyn Fn(&ChainFigures) -> f64| {
            let values: Vec<Option<f64>> = runs.iter().map(|chain| Some(of(chain))).collect();
            spread(Spread::of(&values), values.len())
        };
        rows.push(vec![
            ("modelled", point.label()),
            ("runs", runs.len().to_string()),
            ("votes lost, %", figure(&ChainFigures::votes_lost_pct)),
            ("honest blocks", figure(&|chain| chain.blocks as f64)),
            ("lost", figure(&|chain| chain.blocks_lost as f64)),
            ("reorgs", figure(&|chain| chain.reorgs as f64)),
            ("depth", figure(&|chain| chain.reorg_depth as f64)),
            ("final slot", figure(&|chain| chain.final_slot as f64)),
            (
                "slots to final",
                figure(&|chain| chain.slots_to_final as f64),
            ),
        ]);
    }
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "\n\n{}\n\nVotes and blocks of honest validators that are not in the chain at the end; how often a head went over \
         to another branch, at the node at which it did most often, and most blocks that it left; most slots from the \
         newest final block to the slot in which a node votes.",
        columns(rows)
    )
}

/// Formats when the payloads of broadcasts arrived.
fn payloads(merged: &Merged) -> String {
    let mut rows = Vec::new();
    for point in &merged.points {
        let figure = |name: &str| {
            let figure = point.figure(name);
            figure.map_or("none".into(), |figure| spread(figure, point.runs))
        };
        let part = if point.truncated { " (part)" } else { "" };
        rows.push(vec![
            ("modelled", point.label()),
            ("runs", point.runs.to_string()),
            ("t50 ms", figure("t50_ms")),
            ("t99 ms", figure("t99_ms")),
            ("t100 ms", figure("t100_ms")),
            ("delivered %", figure("delivered_pct")),
            ("sent", format!("{}{part}", figure("sent_ratio"))),
            ("waste", format!("{}{part}", figure("waste_ratio"))),
            ("events", figure("events")),
        ]);
    }
    columns(rows)
}
