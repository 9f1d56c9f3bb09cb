//! `alphorn explore`: which scheme and topology carry the votes of a slot, on which network.

mod costs;
mod frontier;
mod network;
mod output;
mod page;
mod pays;
mod point;
mod verdict;

use crate::distinct::distinct;
use crate::error::Result;
use crate::machine::Machine;
use crate::options::{self, Common};
use crate::overwrite::check_apart;
use crate::progress::Bars;
use crate::report::{Report, target, write_whole};
use crate::sim::table::csv;
use crate::text;
use alphorn_proto::slot::Timing;
use alphorn_scheme::model::CostTable;
use alphorn_types::Layout;
use clap::builder::{OsStringValueParser, TypedValueParser};
use costs::Costs;
use network::{Network, Profile, Transport};
use point::{Ground, Outcome, Point, Topology};
use rayon::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;

/// Connections per node in the network on which blocks travel.
const BLOCK_DEGREE: u32 = 40;
/// Maximum number of points in a sweep.
const POINTS_MAX: usize = 10_000;

/// Validators and nodes of the default sweep, which is small enough to wait for.
const QUICK: (u32, u32) = (1 << 14, 500);
/// The same for `--full`, whose figures are used in the book.
const FULL: (u32, u32) = (1 << 16, 1000);

/// Find which scheme and topology carry a slot's votes on which network: a sweep in the simulator
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn explore
  alphorn explore --full --html explore.html
  alphorn explore --committees 8,32,128 --collectors 4,16 --profile mixed,full --html explore.html
  alphorn explore --scheme bls --validators 2^20 --nodes 10000 --committees 32
  alphorn explore --costs falcon.json --topology horn --adversary 0,20,33

Every point is a slot in the simulator: 99 % of the validators vote (--participation), the protocol's own
selection, meshes, cover rules and encoders run over modelled links, and processor time is charged from a
table of costs. Without --costs, these come from the schemes' own formulas with this host's kernels.
Everything is modelled, except costs from tables that declare them as measured.

A point does its work if 99 % of the votes are in the block that should carry them, and 99 % of the nodes
have 99 % of the votes before the slot ends. All schemes use the same cells and the same committees, as few
as all of them support. In 'horn' and 'grid' a scheme whose proofs merge has proofs of cells, of groups and
of committees, published by rank, and blocks with one proof of all votes, made a slot ahead (as in the
protocol horn-pq); the other schemes go from cells to committees in one step. Votes and aggregates go
directly to their receivers; in 'grid' along rows and columns. 'today' and 'strawman' have one level, whose
aggregates go to every node. The committees of 'strawman' are the cells of the other topologies; 'today' has
a 32nd of the validators, so it is not compared with the others. 'tree' has no phases: each position
proceeds as soon as it has its input from below, proofs that do not merge are carried to the root as a
list, and --collectors is the number of nodes per position. The adversary's nodes send nothing, and what
they do not send is not counted as lost. Then the block of each point is sent by each transport on its own.

The default is every scheme under every topology once: 16,384 validators on 500 nodes of the profile mixed,
4 publishers per unit, no silent nodes, and blocks by all three transports. --full is the same with 65,536
validators on 1,000 nodes, about six times the work; --validators and --nodes override both.

Each point runs on one thread, and up to --threads points run at a time. Each further value of --committees,
--collectors, --profile or --adversary multiplies the number of points, and points with more committees take
longer: with --topology horn, 32 take twelve times as long as two. With sums and 32 committees, 2^20
validators on 10,000 nodes take about two minutes and 3 GB.")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Schemes, with costs from their own formulas
    #[arg(
        long,
        value_name = "SCHEME",
        value_delimiter = ',',
        default_value = "bls,falcon,xmss"
    )]
    scheme: Vec<String>,
    /// Tables of costs, instead of the schemes' formulas (alphorn bench lattice --emit-costs FILE)
    #[arg(
        long,
        value_name = "FILE",
        value_delimiter = ',',
        conflicts_with = "scheme"
    )]
    costs: Vec<PathBuf>,
    /// Topology: which nodes aggregate for which
    #[arg(
        long,
        value_enum,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "today,strawman,horn,grid,tree"
    )]
    topology: Vec<Topology>,
    /// Bandwidth and processors of the nodes
    #[arg(
        long,
        value_enum,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "mixed"
    )]
    profile: Vec<Profile>,
    /// Transport of blocks
    #[arg(
        long,
        value_enum,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "gossip,rlnc,rs"
    )]
    transport: Vec<Transport>,
    /// Committees of horn and grid, with the cells of strawman; 0 for as few as all schemes support
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "0",
          value_parser = clap::value_parser!(u16).range(..=512))]
    committees: Vec<u16>,
    /// Number of collectors per committee, and of publishers per unit below it
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "4",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    collectors: Vec<u16>,
    /// Percentage of nodes that send nothing
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "0",
          value_parser = clap::value_parser!(u32).range(..=50))]
    adversary: Vec<u32>,
    /// Default to a larger network: 2^16 validators on 1,000 nodes
    #[arg(long)]
    full: bool,
    /// Number of validators, such as 65536 or 2^16 (default: 2^14)
    #[arg(long, value_parser = options::validators)]
    validators: Option<u32>,
    /// Number of nodes (default: 500)
    #[arg(long, value_parser = clap::value_parser!(u32).range(50..=1_000_000))]
    nodes: Option<u32>,
    /// Share of validators that vote
    #[arg(long, default_value = "99%", value_name = "SHARE", value_parser = options::share)]
    participation: f64,
    /// Length of the slot and its phases, as in `alphorn slot --timing`; may be given once for each number
    /// of levels, one to three
    #[arg(long, value_name = "NAME")]
    slot: Vec<Timing>,
    /// Write a report with plots to a single HTML file
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(target))]
    html: Option<PathBuf>,
    /// Write the results as a CSV table
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(target))]
    csv: Option<PathBuf>,
}

/// A point and its results.
struct Row<'a> {
    point: Point<'a>,
    outcome: Outcome,
    /// Seconds that the block takes to travel by each transport; absent if there is no block, or it
    /// never arrives.
    travel_s: Vec<Option<f64>>,
}

/// Runs the command.
///
/// # Errors
/// If it cannot be run, or if a check fails.
pub fn run(args: &Args) -> Result<()> {
    let report = Report::begin("explore", args.common.seed);
    let sink = args.common.sink();
    let outputs = [args.csv.as_deref(), args.html.as_deref(), sink.path()];
    let inputs = args.costs.iter().map(PathBuf::as_path);
    check_apart(inputs, outputs.into_iter().flatten())?;
    check_lists(args)?;
    let tables = tables(args)?;
    let ground = ground(args)?;
    let points = points(args, &tables, ground.validators)?;
    check_slots(args, &points)?;
    let threads = args.common.threads()?;
    let machine = Machine::here(threads, BTreeMap::new());
    let tables: Vec<&CostTable> = tables.iter().map(|costs| &costs.table).collect();
    let head = output::head(&ground, &tables);
    sink.say(&head);
    let count = points.len();
    sink.say(&format!(
        "{count} points, {} at a time, and the block of each by {} transports",
        threads.min(count),
        args.transport.len()
    ));
    let rows = rows(args, &ground, points)?;
    sink.say(&output::table(&rows, &args.transport, &ground));
    let verdict = verdict::verdict(&rows, &args.transport);
    let words: Vec<&str> = verdict.iter().map(|line| line.text.as_str()).collect();
    sink.say(&format!("\n{}", words.join("\n")));
    let cases = output::json(&rows, &args.transport, &ground);
    if let Some(path) = &args.csv {
        write_whole(path, csv(&cases).as_bytes())?;
    }
    if let Some(path) = &args.html {
        let page = page::page(
            &rows,
            &args.transport,
            &ground,
            &json!(cases),
            &head,
            &verdict,
        );
        write_whole(path, page.as_bytes())?;
    }
    sink.say(&format!("{} in all", text::seconds(report.elapsed_s())));
    let fields = json!({ "cases": cases, "verdict": words });
    let config = json!({
        "validators": ground.validators,
        "nodes": ground.nodes,
        "participation_ppm": ground.participation_ppm,
        "slot": output::slots(&ground, &rows),
        "costs": tables.iter().map(|table| json!({
            "scheme": table.scheme,
            "machine": table.machine,
            "kind": table.kind,
        })).collect::<Vec<_>>(),
    });
    sink.write(&report.object(&machine, "modelled", &config, fields)?)
}

/// Returns the inputs common to all points.
fn ground(args: &Args) -> Result<Ground> {
    let (validators, nodes) = if args.full { FULL } else { QUICK };
    let (validators, nodes) = (
        args.validators.unwrap_or(validators),
        args.nodes.unwrap_or(nodes),
    );
    if validators < nodes {
        let why = "must be at least one a node";
        return Err(anyhow::anyhow!("--validators {validators}: {why}, {nodes}").into());
    }
    for (at, slot) in args.slot.iter().enumerate() {
        let levels = slot.levels();
        let again = args.slot[..at].iter().any(|other| other.levels() == levels);
        if again || !(1..=3).contains(&levels) {
            let why = "must have phases for one to three levels of evidence, each once";
            return Err(anyhow::anyhow!("--slot {slot}: {why}").into());
        }
    }
    Ok(Ground {
        validators,
        nodes,
        slots: args.slot.clone(),
        participation_ppm: (args.participation * 1e6).round() as u32,
        seed: args.common.seed,
    })
}

/// Rejects a slot timing that no point uses, since all of them would keep their defaults.
fn check_slots(args: &Args, points: &[Point<'_>]) -> Result<()> {
    let levels: BTreeSet<u8> = points.iter().map(Point::levels).collect();
    for slot in &args.slot {
        let own = slot.levels();
        if !levels.contains(&own) {
            let all: Vec<String> = levels.iter().map(u8::to_string).collect();
            let why = format!(
                "has {own} levels of evidence, the points have {}",
                all.join(" or ")
            );
            return Err(anyhow::anyhow!("--slot {slot}: {why}").into());
        }
    }
    Ok(())
}

/// Rejects duplicate points. Duplicate numbers of committees are rejected by `points`, once it knows
/// how many 0 is.
fn check_lists(args: &Args) -> Result<()> {
    distinct("--scheme", &args.scheme)?;
    distinct("--costs", &args.costs)?;
    distinct("--topology", &args.topology)?;
    distinct("--profile", &args.profile)?;
    distinct("--transport", &args.transport)?;
    distinct("--collectors", &args.collectors)?;
    distinct("--adversary", &args.adversary)
}

/// Returns the costs of the requested schemes.
fn tables(args: &Args) -> Result<Vec<Costs>> {
    if !args.costs.is_empty() {
        args.common
            .check_no_kernel("--costs FILE has what processors take")?;
        let files = args.costs.iter();
        return files.map(|path| costs::from_file(path)).collect();
    }
    let names = args.scheme.iter();
    names.map(|name| costs::own(name, &args.common)).collect()
}

/// Returns the smallest number of committees that all schemes support, so that no scheme is compared
/// with another that has smaller ones.
fn committees(tables: &[Costs], validators: u32) -> Result<u16> {
    let mut most = 1;
    for costs in tables {
        let max = costs.table.abilities.committee_max;
        most = most.max(Layout::default_for(validators, max)?.committees());
    }
    Ok(most)
}

/// Returns all combinations, in the order of the options.
fn points<'a>(args: &Args, tables: &'a [Costs], validators: u32) -> Result<Vec<Point<'a>>> {
    let fewest = committees(tables, validators)?;
    let given = args.committees.iter();
    let given: Vec<u16> = given.map(|&n| if n == 0 { fewest } else { n }).collect();
    distinct(&format!("--committees (0 is {fewest})"), &given)?;
    let mut points = Vec::new();
    for costs in tables {
        for &profile in &args.profile {
            for &topology in &args.topology {
                for (at, &committees) in given.iter().enumerate() {
                    // The committees of today are fixed, and a tree has none.
                    if matches!(topology, Topology::Today | Topology::Tree) && at > 0 {
                        continue;
                    }
                    let costs = match topology {
                        Topology::Horn | Topology::Grid => costs.with_levels(),
                        _ => &costs.table,
                    };
                    for &collectors in &args.collectors {
                        points.extend(args.adversary.iter().map(|&adversary_pct| Point {
                            costs,
                            topology,
                            profile,
                            committees,
                            publishers: collectors,
                            adversary_pct,
                        }));
                    }
                }
            }
        }
    }
    if points.len() > POINTS_MAX {
        let count = points.len();
        return Err(anyhow::anyhow!("{count} points, at most {POINTS_MAX}").into());
    }
    Ok(points)
}

/// Runs all points, as many at a time as there are threads. Those with the longest signatures take
/// longest and start first, so that no thread is left with them at the end and the remaining time is
/// not underestimated.
fn rows<'a>(args: &Args, ground: &Ground, points: Vec<Point<'a>>) -> Result<Vec<Row<'a>>> {
    let pool = args.common.pool()?;
    let total = points.len() as u64;
    let mut bars = Bars::new();
    bars.show("points", 0, total);
    let bars = Mutex::new((bars, 0));
    let one = |(at, point): (usize, Point<'a>)| -> Result<(usize, Row<'a>)> {
        let row = row(args, ground, point)?;
        if let Ok(mut bars) = bars.lock() {
            bars.1 += 1;
            let done = bars.1;
            bars.0.show_left("points", done, total);
        }
        Ok((at, row))
    };
    let mut order: Vec<(usize, Point<'a>)> = points.into_iter().enumerate().collect();
    order.sort_by_key(|(_, point)| std::cmp::Reverse(point.costs.sizes.signature));
    let rows: Result<Vec<_>> = pool.install(|| order.into_iter().par_bridge().map(one).collect());
    if let Ok(bars) = bars.lock() {
        bars.0.clear();
    }
    let mut rows = rows?;
    // Back to the order of the options, whichever ended first.
    rows.sort_by_key(|(at, _)| *at);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Runs the slot of a point, and its block by each transport.
fn row<'a>(args: &Args, ground: &Ground, point: Point<'a>) -> Result<Row<'a>> {
    let outcome = point.slot(ground)?;
    // Blocks are compared on one network, whatever the topology of the votes.
    let network = Network {
        profile: point.profile,
        degree: BLOCK_DEGREE,
        adversary_pct: 0,
    };
    let mut travel_s = Vec::new();
    for &transport in &args.transport {
        travel_s.push(match &outcome {
            Ok(slot) if slot.block.bytes > 0 => {
                let travel = point.travel(ground, network, transport, slot.block)?;
                travel.t99_s
            }
            _ => None,
        });
    }
    Ok(Row {
        point,
        outcome,
        travel_s,
    })
}
