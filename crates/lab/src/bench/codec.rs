//! `alphorn bench codec`: what the codes of supports cost in bytes and time.

mod print;

use super::least;
use crate::draw::{
    Draw, Network, NetworkArgs, aggregates, cell_ranges, covered, flipped, join, missing,
    share_option,
};
use crate::error::{Error, Result};
use crate::options::{Common, distinct};
use crate::participation::{Participation, check_records};
use crate::progress::Bars;
use crate::report::Report;
use alphorn_proto::horn::Cover;
use alphorn_scheme::Overlap;
use alphorn_types::support_code::{CellBounds, Coding, Reference, SupportCode};
use alphorn_types::{Bitfield, Support};
use anyhow::ensure;
use print::{case_json, size_table, time_table};
use rayon::prelude::*;
use serde_json::{Value, json};

/// Positions of all collections of a case at most: four times 512 collections of 2^15.
const POSITIONS_MAX: u64 = 1 << 26;
/// Aggregators of a cell where collections are sums of aggregates.
const AGGREGATORS: u16 = 16;

/// Codes of supports: bytes of all collections of a slot, times of one
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench codec
  alphorn bench codec --participation vectors/goerli-epoch-148260
  alphorn bench codec --participation 0.95 --flip 0.001,0.003,0.01,0.03,0.1
  alphorn bench codec --participation 0.95 --multiplicity 3 --miss 0.01

The collections of a slot: each validator votes with the given probability, or as recorded; the slot
before differs in a share of --flip of all votes. With multiplicity 1 each collection misses a share
of --miss of its own. Above 1 there are 16 aggregates a cell, each with such misses, and every
collection of a committee is what the collector's rule (quorum) sums of them.

The codes:
  none   one class of positions
  chain  two classes, by the slot before
  link   six classes, by the slot before and the collections of the committee that were sent already
The entropy is the least that any code with one class can reach on average. Every code is read again
and compared: exit code 1 if one differs. Snappy is for comparison and exists for multiplicity 1.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    network: NetworkArgs,
    /// Shares (as 0.5 or 95%) or recorded epochs, a case each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0.5,0.95,0.99",
        value_name = "SHARE|FILE"
    )]
    participation: Vec<Participation>,
    /// Votes that turned since the slot before, a case each
    #[arg(long, value_delimiter = ',', default_value = "0.003", value_name = "SHARE",
          value_parser = share_option)]
    flip: Vec<f64>,
    /// Votes that a collection (with multiplicities: an aggregate) misses
    #[arg(long, default_value = "0.002", value_name = "SHARE", value_parser = share_option)]
    miss: f64,
    /// Greatest multiplicity: 1, 3, 7 or 15
    #[arg(long, default_value = "1", value_parser = ["1", "3", "7", "15"])]
    multiplicity: String,
    /// Collections of each committee
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    collections: u16,
    /// Runs of which the least time counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
}

/// What a code may know, in the order of the figures.
const CONTEXTS: [&str; 3] = ["none", "chain", "link"];

/// The code of the wire among those that are timed.
const CHAIN_TIMES: &str = "rice, chain";

/// The collections of one committee and what is known beforehand.
struct Committee {
    cells: CellBounds,
    before: Bitfield,
    supports: Vec<Support>,
    picks: u64,
}

/// Sums over all collections of a case, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    collections: u64,
    raw: u64,
    snappy: Option<u64>,
    rice: [u64; 3],
    range: [u64; 3],
    entropy: [f64; 3],
    /// Rice without context over the signers alone, as if no multiplicity were sent.
    u1: u64,
    picks: u64,
    differences: u64,
}

/// Microseconds of one collection.
#[derive(Clone, Copy, Debug)]
struct Times {
    name: &'static str,
    encode_us: f64,
    decode_us: f64,
}

struct Case {
    network: Network,
    flip: f64,
    sizes: Sizes,
    times: Vec<Times>,
    /// Share of the rarer symbol.
    minority: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench codec", args.common.seed);
    let machine = args.common.machine_without_kernels()?;
    let sink = args.common.sink();
    check_records(&args.participation, sink.path())?;
    args.network.check_flag(&args.participation)?;
    distinct("--participation", &args.participation)?;
    distinct("--flip", &args.flip)?;
    let pool = args.common.pool()?;
    let mut bars = Bars::new();
    let mut cases = Vec::new();
    let points: Vec<(&Participation, f64)> = args
        .participation
        .iter()
        .flat_map(|participation| args.flip.iter().map(move |&flip| (participation, flip)))
        .collect();
    for (i, (participation, flip)) in points.iter().enumerate() {
        bars.show("cases", i as u64, points.len() as u64);
        cases.push(case(args, participation, *flip, &pool)?);
    }
    bars.clear();

    sink.say(&format!(
        "Supports of all collections of a slot, {} of a committee, misses {} %, multiplicity {}, seed {}\n{}\n",
        args.collections,
        args.miss * 100.0,
        args.multiplicity,
        args.common.seed,
        machine.line()
    ));
    sink.say(&size_table(&cases));
    sink.say(&time_table(&cases));
    let fields = json!({ "cases": Value::Array(cases.iter().map(case_json).collect()) });
    sink.write(&report.object(&machine, "measured", &config(args), fields)?)?;
    match cases.iter().map(|case| case.sizes.differences).sum::<u64>() {
        0 => Ok(()),
        n => Err(Error::Check(format!(
            "{n} codes do not decode to what was encoded"
        ))),
    }
}

fn case(
    args: &Args,
    participation: &Participation,
    flip: f64,
    pool: &rayon::ThreadPool,
) -> anyhow::Result<Case> {
    let network = args.network.network(participation)?;
    let max: u8 = args.multiplicity.parse()?;
    let layout = network.layout;
    let senders = if max == 1 {
        args.collections
    } else {
        AGGREGATORS.max(args.collections)
    };
    let positions = u64::from(layout.validators()) * u64::from(senders);
    ensure!(
        positions <= POSITIONS_MAX,
        "{} validators and {senders} supports of each are {positions} positions, at most {POSITIONS_MAX} are coded",
        layout.validators()
    );
    let committees: Vec<Committee> = pool.install(|| {
        (0..layout.committees())
            .into_par_iter()
            .map(|c| committee(args, &network, flip, max, c))
            .collect()
    });
    let mut sizes = Sizes {
        snappy: (max == 1).then_some(0),
        ..Sizes::default()
    };
    let parts: Vec<Sizes> = pool.install(|| {
        committees
            .par_iter()
            .map(|committee| measure(committee, max))
            .collect()
    });
    parts.iter().for_each(|part| sizes.merge(part));
    // The fullest committee stands for all: the first one of a record may be empty.
    let largest = committees
        .iter()
        .max_by_key(|committee| committee.supports.first().map_or(0, Support::signer_count));
    let times = largest.map_or_else(Vec::new, |committee| {
        times(committee, max, usize::from(args.runs))
    });
    let minority = largest.map_or(0.0, |committee| {
        let ones = committee.supports.first().map_or(0, Support::signer_count) as f64;
        let share = ones / committee.before.len().max(1) as f64;
        share.min(1.0 - share)
    });
    Ok(Case {
        network,
        flip,
        sizes,
        times,
        minority,
    })
}

fn committee(args: &Args, network: &Network, flip: f64, max: u8, c: u16) -> Committee {
    let layout = &network.layout;
    let mut draw = Draw::new(args.common.seed, u64::from(c));
    let online = network.online(c, &mut draw);
    let before = flipped(&online, flip, &mut draw);
    let mut picks = 0;
    let supports = if max == 1 {
        (0..args.collections)
            .map(|_| Support::from_bits(missing(&online, args.miss, &mut draw)))
            .collect()
    } else {
        let (rule, picks_max) = Cover::Quorum.under(Overlap::Counted { max }, max);
        let cells: Vec<Support> = cell_ranges(layout, c)
            .into_iter()
            .map(|range| {
                let made = aggregates(&online.extract(range), AGGREGATORS, args.miss, &mut draw);
                let (support, count) = covered(&made, rule, picks_max);
                picks += count as u64;
                support
            })
            .collect();
        vec![join(layout, c, &cells); usize::from(args.collections)]
    };
    Committee {
        cells: CellBounds::committee(layout, c),
        before,
        supports,
        picks,
    }
}

impl Committee {
    fn code<'a>(&'a self, coding: Coding, max: u8, reference: Reference<'a>) -> SupportCode<'a> {
        SupportCode::new(coding, max, &self.cells, reference)
    }
}

/// What both ends of a link know of the collections that were sent over it.
struct Exchanged {
    any: Bitfield,
    all: Bitfield,
}

impl Exchanged {
    /// Nothing was sent: no signer is in any collection, and so none is in all.
    fn nothing(len: usize) -> Self {
        Exchanged {
            any: Bitfield::new(len),
            all: Bitfield::new(len),
        }
    }

    fn add(&mut self, signers: &Bitfield, first: bool) {
        self.any.union_with(signers);
        if first {
            self.all = signers.clone();
        } else {
            self.all.intersect_with(signers);
        }
    }
}

fn measure(committee: &Committee, max: u8) -> Sizes {
    let mut sizes = Sizes {
        collections: committee.supports.len() as u64,
        snappy: (max == 1).then_some(0),
        picks: committee.picks,
        ..Sizes::default()
    };
    let chain = Reference::Chain(&committee.before);
    let mut exchanged = Exchanged::nothing(committee.before.len());
    for (k, support) in committee.supports.iter().enumerate() {
        let link = Reference::Link {
            chain: &committee.before,
            any: &exchanged.any,
            all: &exchanged.all,
        };
        let mut differences = 0;
        let mut coded = |coding, reference| {
            let code = committee.code(coding, max, reference);
            let bytes = code.encode(support);
            differences += u64::from(code.decode(&bytes).as_ref() != Ok(support));
            bytes.len() as u64
        };
        sizes.raw += coded(Coding::Raw, Reference::None);
        if max == 1 {
            let bytes = coded(Coding::Snappy, Reference::None);
            sizes.snappy = sizes.snappy.map(|sum| sum + bytes);
        }
        for (i, reference) in [Reference::None, chain, link].into_iter().enumerate() {
            let rice = coded(Coding::Rice, reference);
            let range = coded(Coding::Range, reference);
            let entropy = committee
                .code(Coding::Rice, max, reference)
                .entropy_bits(support)
                / 8.0;
            sizes.add_context(i, rice, range, entropy);
        }
        sizes.differences += differences;
        let signers = support.signers();
        let u1 = committee.code(Coding::Rice, 1, Reference::None);
        sizes.u1 += u1.encode(&Support::from_bits(signers.clone())).len() as u64;
        exchanged.add(&signers, k == 0);
    }
    sizes
}

impl Sizes {
    fn add_context(&mut self, i: usize, rice: u64, range: u64, entropy: f64) {
        self.rice[i] += rice;
        self.range[i] += range;
        self.entropy[i] += entropy;
    }

    fn merge(&mut self, other: &Sizes) {
        self.collections += other.collections;
        self.raw += other.raw;
        self.snappy = self.snappy.zip(other.snappy).map(|(a, b)| a + b);
        for i in 0..CONTEXTS.len() {
            self.add_context(i, other.rice[i], other.range[i], other.entropy[i]);
        }
        self.u1 += other.u1;
        self.picks += other.picks;
        self.differences += other.differences;
    }

    /// Mean bytes of one collection.
    fn mean(&self, bytes: u64) -> f64 {
        bytes as f64 / self.collections.max(1) as f64
    }
}

/// The least time of encoding and decoding all collections of a committee, for one.
fn times(committee: &Committee, max: u8, runs: usize) -> Vec<Times> {
    let chain = Reference::Chain(&committee.before);
    let mut codes = vec![
        ("raw", Coding::Raw, Reference::None),
        ("rice, none", Coding::Rice, Reference::None),
        (CHAIN_TIMES, Coding::Rice, chain),
        ("range, none", Coding::Range, Reference::None),
    ];
    if max == 1 {
        codes.insert(1, ("snappy", Coding::Snappy, Reference::None));
    }
    let per_collection_us = 1e6 / committee.supports.len().max(1) as f64;
    let time = |(name, coding, reference)| {
        let code = committee.code(coding, max, reference);
        let (encode_s, codes) = least(runs, || {
            committee
                .supports
                .iter()
                .map(|support| code.encode(support))
                .collect::<Vec<_>>()
        });
        let (decode_s, _) = least(runs, || {
            codes
                .iter()
                .map(|bytes| code.decode(bytes))
                .collect::<Vec<_>>()
        });
        Times {
            name,
            encode_us: encode_s * per_collection_us,
            decode_us: decode_s * per_collection_us,
        }
    };
    codes.into_iter().map(time).collect()
}

fn config(args: &Args) -> Value {
    json!({
        "miss": args.miss,
        "flip": args.flip,
        "multiplicity": args.multiplicity,
        "collections": args.collections,
        "runs": args.runs,
        "generator": "votes independent or recorded, flips and misses independent",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn cases(options: &[&str]) -> anyhow::Result<Vec<Case>> {
        let cli = Cli::try_parse_from([&["codec"], options].concat());
        let args = cli.unwrap_or_else(|error| panic!("{error}")).args;
        let pool = crate::options::pool(2).unwrap();
        let points = args
            .participation
            .iter()
            .flat_map(|p| args.flip.iter().map(move |f| (p, *f)));
        points
            .map(|(participation, flip)| case(&args, participation, flip, &pool))
            .collect()
    }

    /// KiB of 512 collections as in Horn's table, from those of one committee.
    fn kib(case: &Case, bytes: u64) -> f64 {
        case.sizes.mean(bytes) * 512.0 / 1024.0
    }

    #[test]
    fn a_committee_has_the_sizes_of_the_table() {
        let committee = [
            "--validators",
            "32768",
            "--committees",
            "1",
            "--subcommittees",
            "64",
            "--runs",
            "1",
        ];
        let found = cases(&committee).unwrap();
        // raw, snappy, entropy, rice none, chain, link, range chain, link
        let table: [[f64; 8]; 3] = [
            [2048.0, 2051.0, 2048.0, 2049.0, 78.0, 29.0, 80.0, 27.0],
            [2048.0, 1296.0, 599.0, 607.0, 78.0, 47.0, 80.0, 46.0],
            [2048.0, 564.0, 193.0, 195.0, 66.0, 47.0, 67.0, 46.0],
        ];
        for (case, expected) in found.iter().zip(table) {
            let sizes = &case.sizes;
            let figures = [
                kib(case, sizes.raw),
                kib(case, sizes.snappy.unwrap()),
                kib(case, sizes.entropy[0] as u64),
                kib(case, sizes.rice[0]),
                kib(case, sizes.rice[1]),
                kib(case, sizes.rice[2]),
                kib(case, sizes.range[1]),
                kib(case, sizes.range[2]),
            ];
            for (figure, expected) in figures.iter().zip(expected) {
                let off = (figure - expected).abs();
                assert!(
                    off <= 4.0 + 0.06 * expected,
                    "{}: {figures:?}",
                    case.network.name
                );
            }
            assert_eq!(sizes.differences, 0);
            // Near the entropy, but for header and counts.
            let most = sizes.entropy[0] * 1.045 + 12.0 * sizes.collections as f64;
            assert!(sizes.rice[0] as f64 <= most);
        }
    }

    #[test]
    fn the_slot_before_makes_the_collections_of_a_slot_small() {
        for case in cases(&["--participation", "0.95,0.99", "--runs", "1"]).unwrap() {
            let kib = case.sizes.rice[1] as f64 / 1024.0;
            assert!(kib <= 80.0, "{}: {kib} KiB", case.network.name);
        }
    }

    #[test]
    fn planes_cost_what_the_cover_makes_of_aggregates() {
        let found = cases(&[
            "--validators",
            "32768",
            "--committees",
            "1",
            "--subcommittees",
            "64",
            "--participation",
            "0.95",
            "--multiplicity",
            "3",
            "--miss",
            "0.01",
            "--collections",
            "1",
            "--runs",
            "1",
        ])
        .unwrap();
        let sizes = &found[0].sizes;
        let picks = sizes.picks as f64 / 64.0;
        assert!(
            (1.7..2.2).contains(&picks),
            "1.9 picks a cell, found {picks}"
        );
        assert!((1130.0..1260.0).contains(&sizes.mean(sizes.u1)));
        assert!((1500.0..1720.0).contains(&sizes.mean(sizes.rice[0])));
        assert_eq!((sizes.snappy, sizes.differences), (None, 0));
    }

    #[test]
    fn flips_are_swept_and_empty_cells_are_fine() {
        let found = cases(&[
            "--validators",
            "9",
            "--committees",
            "3",
            "--subcommittees",
            "5",
            "--participation",
            "0,1",
            "--flip",
            "0,1",
            "--runs",
            "1",
        ])
        .unwrap();
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|case| case.sizes.differences == 0));
        assert!(found.iter().all(|case| case.times.len() == 5));
    }

    #[test]
    fn what_is_too_much_is_refused_with_its_bound() {
        let error = |options: &[&str]| format!("{:#}", cases(options).err().unwrap());
        let text = error(&["--validators", "2^22", "--collections", "64"]);
        assert!(text.contains(&POSITIONS_MAX.to_string()), "{text}");
        assert!(error(&["--participation", "nowhere"]).contains("meta.json"));
    }
}
