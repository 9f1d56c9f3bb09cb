//! `alphorn horn traffic`: bytes on the global topic and in blocks.

mod encoded;
mod formula;

use super::odds;
use crate::attack::Setting;
use crate::distinct::distinct;
use crate::draw::{Network, NetworkArgs, share_option};
use crate::error::{Error, Result};
use crate::options::Common;
use crate::overwrite::check_apart;
use crate::participation::Participation;
use crate::progress::Bars;
use crate::report::{Report, columns, table};
use crate::text;
use alphorn_bls::{Bls, Costs};
use alphorn_proto::horn::{Config, Cover, SchemeInfo, Selection};
use alphorn_types::Layout;
use anyhow::ensure;
use encoded::{Blocks, Content, Encoded};
use formula::{Fields, Formula};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Maximum number of aggregate signatures encoded, and of positions drawn.
const AGGREGATES_MAX: u64 = 1 << 20;
const POSITIONS_MAX: u64 = 1 << 28;
/// Default share of votes missed by a collection of multiplicity 1, and by an aggregate.
const MISSES: f64 = 0.002;
const AGGREGATE_MISSES: f64 = 0.01;
/// Griefing of the attacked row: Eve's share of aggregators and of voters.
const ATTACK: (f64, f64) = (1.0 / 3.0, 0.1);

/// Count bytes on the global topic and in blocks, from formulas and from encoded messages
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn horn traffic
  alphorn horn traffic --validators 2^17 --committees 8 --collectors 8 --selection rank
  alphorn horn traffic --participation vectors/goerli-epoch-148260 --multiplicity 1,3

Formulas: Horn's count is ceil(n/8) bytes per plane and two signatures; the full raw count includes
all fields of the message, with maximum multiplicities. Encoded: real messages from the protocol's
encoders, raw with maximum multiplicities (exit code 1 if this differs from the formula), rice with
the given participation. With multiplicity 1, each collection misses its own random votes
(--misses); above 1, each collector sums aggregates by the cover rule (quorum), and each aggregate
misses its own (--aggregate-misses). Every message is counted once; duplicates in a mesh multiply
all rows alike.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    network: NetworkArgs,
    /// Voters: a share (such as 0.95 or 95%), or the folder or bit file of a recorded epoch
    #[arg(long, default_value = "0.95", value_name = "SHARE|FILE")]
    participation: Participation,
    /// Number of aggregators per cell
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    aggregators: u16,
    /// Number of collectors per committee
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    collectors: u16,
    /// Maximum multiplicities in a collection, one row each: 1, 3, 7 or 15
    #[arg(long, default_value = "1,3,15", value_delimiter = ',', value_name = "M",
          value_parser = ["1", "3", "7", "15"])]
    multiplicity: Vec<String>,
    /// Selection of aggregators and collectors: lottery or rank
    #[arg(long, default_value = "lottery")]
    selection: Selection,
    /// Share of votes that differ from the previous slot, as the chain's context sees it
    #[arg(long, default_value = "0.003", value_name = "SHARE", value_parser = share_option)]
    flip: f64,
    /// Share of votes that a collection of multiplicity 1 misses (default: 0.002)
    #[arg(long, value_name = "SHARE", value_parser = share_option)]
    misses: Option<f64>,
    /// Share of votes that an aggregate misses if multiplicities are above 1 (default: 0.01)
    #[arg(long, value_name = "SHARE", value_parser = share_option)]
    aggregate_misses: Option<f64>,
}

/// One row of the table.
struct Row {
    name: String,
    formula: Formula,
    encoded: Encoded,
}

/// The results of a run.
struct Tables {
    rows: Vec<Row>,
    blocks: Vec<(u8, formula::BlockFormula, Blocks)>,
    publications: Vec<Publication>,
}

/// The number of collections published, and their size.
struct Publication {
    name: String,
    messages: f64,
    raw_bytes: f64,
    rice_bytes: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("horn traffic", args.common.seed);
    let sink = args.common.sink();
    let record = args.participation.files();
    check_apart(record.iter().map(PathBuf::as_path), sink.path())?;
    let who = std::slice::from_ref(&args.participation);
    args.network.check_flag(who)?;
    distinct("--multiplicity", &args.multiplicity)?;
    check_misses(args)?;
    let kernel = args.common.kernel(&alphorn_bls::KERNELS)?;
    let machine = args.common.machine(kernel)?;
    let pool = args.common.pool()?;
    let network = args.network.network(&args.participation)?;
    let info = SchemeInfo::of(&Bls::new(kernel, Costs::default()), &network.layout);
    let mut bars = Bars::new();
    let tables = pool.install(|| tables(args, &network, &info, &mut bars))?;
    bars.clear();

    sink.say(&format!(
        "Global topic, {} validators in {} committees of {} cells, {} vote, {} aggregators, {} collectors by {}, scheme bls, seed {}\n{}\n",
        text::count(u64::from(network.layout.validators())),
        network.layout.committees(),
        network.layout.subcommittees(),
        network.name,
        args.aggregators,
        args.collectors,
        args.selection,
        args.common.seed,
        machine.line()
    ));
    sink.say(&topic_table(&tables.rows));
    sink.say(&block_table(&tables.blocks));
    sink.say(&publication_table(&tables.publications));
    let config = config(args, &network);
    sink.write(&report.object(&machine, "modelled", &config, fields(&tables))?)?;
    check(&tables)
}

impl Args {
    fn misses(&self) -> f64 {
        self.misses.unwrap_or(MISSES)
    }

    fn aggregate_misses(&self) -> f64 {
        self.aggregate_misses.unwrap_or(AGGREGATE_MISSES)
    }
}

/// Rejects misses for content that no row has.
fn check_misses(args: &Args) -> Result<()> {
    let is_one = |multiplicity: &String| multiplicity == "1";
    let (some, all) = (
        args.multiplicity.iter().any(is_one),
        args.multiplicity.iter().all(is_one),
    );
    let given = args.multiplicity.join(",");
    match (args.misses, args.aggregate_misses) {
        (Some(misses), _) if !some => {
            let why = format!("of collections of multiplicity 1, and --multiplicity is {given}");
            Err(anyhow::anyhow!("--misses {misses}: {why}").into())
        }
        (_, Some(misses)) if all => {
            let why = "of aggregates that collections sum, and --multiplicity is 1";
            Err(anyhow::anyhow!("--aggregate-misses {misses}: {why}").into())
        }
        _ => Ok(()),
    }
}

fn tables(
    args: &Args,
    network: &Network,
    info: &SchemeInfo,
    bars: &mut Bars,
) -> anyhow::Result<Tables> {
    let layout = network.layout;
    check_size(args, &layout)?;
    let configs = args
        .multiplicity
        .iter()
        .map(|text| config_of(args, network, info, text))
        .collect::<anyhow::Result<Vec<Config>>>()?;
    let aggregator_config = &configs[0];
    let fields = Fields::of(&aggregator_config.format(info));

    bars.show("committees", 0, configs.len() as u64 + 2);
    let cells = encoded::aggregates(network, aggregator_config, info, args);
    let mut rows = vec![
        Row {
            name: format!(
                "today, a slot has 1/{} of the validators",
                layout.committees()
            ),
            formula: formula::aggregates(&layout, 1, args.aggregators, &fields),
            encoded: cells.first_committee,
        },
        Row {
            name: "strawman: all cells".into(),
            formula: formula::aggregates(&layout, layout.committees(), args.aggregators, &fields),
            encoded: cells.all,
        },
    ];
    let mut blocks = Vec::new();
    for (i, config) in configs.iter().enumerate() {
        bars.show("committees", i as u64 + 1, configs.len() as u64 + 2);
        let content = match config.multiplicity_max {
            1 => Content::Misses(args.misses()),
            _ => Content::Covered(args.aggregate_misses()),
        };
        let drawn = encoded::collections(network, config, info, args, content)?;
        rows.push(row(config, "", &fields, drawn.bytes));
        let formula = formula::block(config, &fields);
        blocks.push((config.multiplicity_max, formula, drawn.blocks));
        if config.multiplicity_max == 3 {
            let setting = Setting {
                aggregators: args.aggregators,
                malicious: ATTACK.0,
                eve: ATTACK.1,
                misses: args.aggregate_misses(),
            };
            let attacked =
                encoded::collections(network, config, info, args, Content::Attacked(setting))?;
            rows.push(row(config, ", under attack", &fields, attacked.bytes));
        }
    }
    let publications = publications(args, &configs, info, &rows);
    Ok(Tables {
        rows,
        blocks,
        publications,
    })
}

fn check_size(args: &Args, layout: &Layout) -> anyhow::Result<()> {
    let aggregates = u64::from(layout.cells_count()) * u64::from(args.aggregators);
    ensure!(
        aggregates <= AGGREGATES_MAX,
        "{} cells of {} aggregators are {aggregates} aggregates, at most {AGGREGATES_MAX} are encoded",
        layout.cells_count(),
        args.aggregators
    );
    let senders = u64::from(args.aggregators + args.collectors);
    let positions = u64::from(layout.validators()) * senders;
    ensure!(
        positions <= POSITIONS_MAX,
        "{} validators and {senders} senders are {positions} positions, at most {POSITIONS_MAX} are drawn",
        layout.validators()
    );
    Ok(())
}

fn config_of(
    args: &Args,
    network: &Network,
    info: &SchemeInfo,
    multiplicity: &str,
) -> anyhow::Result<Config> {
    let mut config = Config::new(network.layout, info);
    config.multiplicity_max = multiplicity.parse()?;
    if config.multiplicity_max == 1 {
        config.levels[1].cover = Cover::Best1;
    }
    config.selection = args.selection;
    config.levels[0].publishers = args.aggregators;
    config.levels[1].publishers = args.collectors;
    config.validate(info)?;
    Ok(config)
}

fn row(config: &Config, suffix: &str, fields: &Fields, encoded: Encoded) -> Row {
    let m = config.multiplicity_max;
    let planes = formula::planes(m);
    let what = match m {
        1 => "bitfield".to_owned(),
        15 => "uint4 (M = 15)".to_owned(),
        _ => format!("{planes} planes (M = {m})"),
    };
    Row {
        name: format!("Horn, {what}{suffix}"),
        formula: formula::collections(&config.layout, config.levels[1].publishers, planes, fields),
        encoded,
    }
}

/// Returns expected collections and their bytes by selection and publishing, at the largest
/// multiplicity up to 3.
fn publications(
    args: &Args,
    configs: &[Config],
    info: &SchemeInfo,
    rows: &[Row],
) -> Vec<Publication> {
    let position = (0..configs.len())
        .filter(|&i| configs[i].multiplicity_max <= 3)
        .max_by_key(|&i| configs[i].multiplicity_max)
        .unwrap_or(0);
    let config = &configs[position];
    let planes = formula::planes(config.multiplicity_max);
    let committees = f64::from(config.layout.committees());
    let rice_mean = rows
        .iter()
        .find(|row| row.formula.planes == planes && row.encoded.is_collections)
        .map_or(0.0, |row| {
            row.encoded.rice_bytes as f64 / row.encoded.messages.max(1) as f64
        });
    let proof = |selection| {
        let config = Config {
            selection,
            ..config.clone()
        };
        config.format(info).selection_proof_bytes.unwrap_or(0) as f64
    };
    let lottery_extra = proof(args.selection);
    let one = |name: String, per_committee: f64, selection| {
        let fields = Fields::of(
            &Config {
                selection,
                ..config.clone()
            }
            .format(info),
        );
        let whole = formula::collections(&config.layout, 1, planes, &fields);
        let messages = committees * per_committee;
        Publication {
            name,
            messages,
            raw_bytes: whole.full_bytes as f64 * per_committee,
            rice_bytes: (rice_mean - lottery_extra + proof(selection)) * messages,
        }
    };
    let collectors = f64::from(args.collectors);
    let mut publications = Vec::new();
    for selection in [Selection::Lottery, Selection::Rank] {
        let m = config.multiplicity_max;
        publications.push(one(
            format!("{selection}, all (M = {m})"),
            collectors,
            selection,
        ));
        for honest in [1.0, 0.8, 0.5] {
            publications.push(one(
                format!("{selection}, staged, {:.0} % honest", honest * 100.0),
                odds::staged_publications(collectors, honest),
                selection,
            ));
        }
    }
    publications
}

/// Checks that encoded raw messages match the formula, byte by byte.
fn check(tables: &Tables) -> Result<()> {
    for row in &tables.rows {
        let (formula, encoded) = (&row.formula, &row.encoded);
        if formula.messages != encoded.messages || formula.full_bytes != encoded.raw_bytes {
            return Err(Error::Check(format!(
                "{}: {} messages of {} bytes encoded, {} of {} by the formula",
                row.name, encoded.messages, encoded.raw_bytes, formula.messages, formula.full_bytes
            )));
        }
    }
    for (m, formula, blocks) in &tables.blocks {
        if formula.entries != blocks.entries || formula.block_bytes != blocks.raw_bytes {
            return Err(Error::Check(format!(
                "block of multiplicity {m}: {} entries in {} bytes encoded, {} in {} by the formula",
                blocks.entries, blocks.raw_bytes, formula.entries, formula.block_bytes
            )));
        }
    }
    Ok(())
}

fn topic_table(rows: &[Row]) -> String {
    let row = |row: &Row| {
        let encoded = &row.encoded;
        vec![
            ("scheme", row.name.clone()),
            ("messages", text::count(row.formula.messages)),
            ("Horn's count", text::bytes(row.formula.horn_bytes)),
            ("full raw", text::bytes(row.formula.full_bytes)),
            ("encoded raw", text::bytes(encoded.raw_bytes)),
            ("encoded rice", text::bytes(encoded.rice_bytes)),
            ("supports", text::bytes(encoded.rice_support_bytes)),
            ("rice, chain", text::bytes(encoded.chain_bytes)),
            ("supports", text::bytes(encoded.chain_support_bytes)),
        ]
    };
    columns(rows.iter().map(row))
}

fn block_table(blocks: &[(u8, formula::BlockFormula, Blocks)]) -> String {
    let row = |(m, formula, blocks): &(u8, formula::BlockFormula, Blocks)| {
        vec![
            ("block", format!("M = {m}")),
            ("entries", text::count(blocks.entries)),
            ("entries, raw", text::bytes(formula.entries_bytes)),
            ("whole, raw", text::bytes(formula.block_bytes)),
            ("encoded raw", text::bytes(blocks.raw_bytes)),
            ("encoded rice", text::bytes(blocks.rice_bytes)),
            ("rice, chain", text::bytes(blocks.chain_bytes)),
        ]
    };
    format!("\n{}", columns(blocks.iter().map(row)))
}

fn publication_table(publications: &[Publication]) -> String {
    let header = ["collectors", "expected messages", "full raw", "rice"];
    let row = |publication: &Publication| {
        vec![
            publication.name.clone(),
            format!("{:.1}", publication.messages),
            text::bytes(publication.raw_bytes.round() as u64),
            text::bytes(publication.rice_bytes.round() as u64),
        ]
    };
    format!(
        "\n{}",
        table(&header, &publications.iter().map(row).collect::<Vec<_>>())
    )
}

fn fields(tables: &Tables) -> Map<String, Value> {
    let topic = |row: &Row| {
        json!({
            "scheme": row.name,
            "messages": row.formula.messages,
            "horn_bytes": row.formula.horn_bytes,
            "full_bytes": row.formula.full_bytes,
            "encoded": {
                "raw": row.encoded.raw_bytes,
                "rice": row.encoded.rice_bytes,
                "rice_supports": row.encoded.rice_support_bytes,
                "chain": row.encoded.chain_bytes,
                "chain_supports": row.encoded.chain_support_bytes,
            },
        })
    };
    let block = |(m, formula, blocks): &(u8, formula::BlockFormula, Blocks)| {
        json!({
            "multiplicity": m,
            "entries_formula": formula.entries,
            "entries_bytes": formula.entries_bytes,
            "block_bytes": formula.block_bytes,
            "entries": blocks.entries,
            "encoded": {
                "raw": blocks.raw_bytes,
                "rice": blocks.rice_bytes,
                "chain": blocks.chain_bytes,
            },
        })
    };
    let publication = |publication: &Publication| {
        json!({
            "collectors": publication.name,
            "messages_expected": publication.messages,
            "raw_bytes": publication.raw_bytes,
            "rice_bytes": publication.rice_bytes,
        })
    };
    Map::from_iter([
        ("cases".to_owned(), tables.rows.iter().map(topic).collect()),
        (
            "blocks".to_owned(),
            tables.blocks.iter().map(block).collect(),
        ),
        (
            "publications".to_owned(),
            tables.publications.iter().map(publication).collect(),
        ),
    ])
}

fn config(args: &Args, network: &Network) -> Value {
    json!({
        "scheme": "bls",
        "validators": network.layout.validators(),
        "committees": network.layout.committees(),
        "subcommittees": network.layout.subcommittees(),
        "participation": network.name,
        "aggregators": args.aggregators,
        "collectors": args.collectors,
        "multiplicity": args.multiplicity,
        "selection": args.selection.to_string(),
        "flip": args.flip,
        "misses": args.misses(),
        "aggregate_misses": args.aggregate_misses(),
    })
}

#[cfg(test)]
mod tests;
