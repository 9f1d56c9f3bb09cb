//! `alphorn bench codec`: the cost of support codes in bytes and time.

use super::harness::{Bench, Column, count, us};
use alphorn_lab::distinct::distinct;
use alphorn_lab::draw::{
    Draw, Network, NetworkArgs, aggregates, cell_ranges, covered, flipped, join, missing,
    share_option,
};
use alphorn_lab::error::Result;
use alphorn_lab::options::Common;
use alphorn_lab::participation::{Participation, check_records};
use alphorn_lab::progress::Bars;
use alphorn_lab::report::Report;
use alphorn_lab::timing::least;
use alphorn_proto::horn::Cover;
use alphorn_scheme::Overlap;
use alphorn_types::support_code::{CellBounds, Coding, Reference, SupportCode};
use alphorn_types::{Bitfield, Support};
use anyhow::ensure;
use rayon::prelude::*;
use serde_json::{Value, json};

/// Maximum positions of all collections of a case: four times 512 collections of 2^15.
const POSITIONS_MAX: u64 = 1 << 26;
/// Aggregators of a cell where collections are sums of aggregates.
const AGGREGATORS: u16 = 16;

/// Benchmark support codes: bytes of all collections of a slot, times for one
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench codec
  alphorn bench codec --participation vectors/goerli-epoch-148260
  alphorn bench codec --participation 0.95 --flip 0.001,0.003,0.01,0.03,0.1
  alphorn bench codec --participation 0.95 --multiplicity 3 --miss 0.01

The collections of a slot: each validator votes with the given probability, or as recorded; the
previous slot differs in a share of --flip of all votes. With multiplicity 1 each collection misses
its own random share of --miss. Above 1 there are 16 aggregates per cell, each with such misses, and
every collection of a committee is the sum that the collector's rule (quorum) makes of them.

The codes:
  none   one class of positions
  chain  two classes, by the previous slot
  link   six classes, by the previous slot and the committee's collections sent so far
The entropy is the minimum that any code with one class can reach on average. Every code is decoded
and compared: exit code 1 if one differs. Snappy is for comparison, with multiplicity 1 only.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    network: NetworkArgs,
    /// Voters: shares (such as 0.5 or 95%) or recorded epochs, one case each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0.5,0.95,0.99",
        value_name = "SHARE|FILE"
    )]
    participation: Vec<Participation>,
    /// Share of votes that changed since the previous slot, one case each
    #[arg(long, value_delimiter = ',', default_value = "0.003", value_name = "SHARE",
          value_parser = share_option)]
    flip: Vec<f64>,
    /// Share of votes that a collection (with multiplicities: an aggregate) misses
    #[arg(long, default_value = "0.002", value_name = "SHARE", value_parser = share_option)]
    miss: f64,
    /// Maximum multiplicity: 1, 3, 7 or 15
    #[arg(long, default_value = "1", value_parser = ["1", "3", "7", "15"])]
    multiplicity: String,
    /// Number of collections per committee
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    collections: u16,
    /// Number of runs; the minimum time counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
}

const SIZES: [Column; 13] = [
    ("participation", "/participation", count),
    ("flip", "/flip", |share| format!("{} %", share * 100.0)),
    ("raw", "/raw", kib),
    ("snappy", "/snappy", kib),
    ("entropy", "/entropy/none", kib),
    ("rice none", "/rice/none", kib),
    ("chain", "/rice/chain", kib),
    ("link", "/rice/link", kib),
    ("range none", "/range/none", kib),
    ("chain", "/range/chain", kib),
    ("link", "/range/link", kib),
    ("u1, one", "/planes/u1_each", count),
    ("all planes, one", "/planes/all_each", count),
];

const TIMES: [Column; 6] = [
    ("participation", "/participation", count),
    ("code", "/code", count),
    ("encode", "/encode_us", us),
    ("decode", "/decode_us", us),
    ("all encoded", "/all_encoded_us", us),
    ("all decoded", "/all_decoded_us", us),
];

fn kib(bytes: f64) -> String {
    format!("{:.0}", bytes / 1024.0)
}

/// The collections of one committee, and the context known beforehand.
struct Committee {
    cells: CellBounds,
    before: Bitfield,
    supports: Vec<Support>,
    picks: u64,
}

/// Sums over all collections of a case, in bytes; by context: none, chain and link.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    collections: u64,
    raw: u64,
    snappy: u64,
    rice: [u64; 3],
    range: [u64; 3],
    entropy: [f64; 3],
    /// Rice without context over the signers alone, as if no multiplicity were sent.
    u1: u64,
    picks: u64,
    differences: u64,
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
    let bench = Bench::new(report, sink, machine);
    let cases = cases(args, &pool)?;
    bench.say(&format!(
        "Supports of all collections of a slot, {} of a committee, misses {} %, multiplicity {}: KiB of all",
        args.collections,
        args.miss * 100.0,
        args.multiplicity,
    ));
    bench.table(&cases, &SIZES);
    bench.say("\nTime of one collection, and of all");
    let times: Vec<Value> = cases.iter().flat_map(time_rows).collect();
    bench.table(&times, &TIMES);
    let config = json!({
        "miss": args.miss,
        "flip": args.flip,
        "multiplicity": args.multiplicity,
        "collections": args.collections,
        "runs": args.runs,
        "generator": "votes independent or recorded, flips and misses independent",
    });
    let differs = cases.iter().any(|case| case["equal"] == false);
    let wrong = differs.then(|| "a code does not decode to what was encoded".to_owned());
    bench.end(&config, json!({ "cases": cases }), wrong)
}

/// Returns each participation with each share of flips.
fn cases(args: &Args, pool: &rayon::ThreadPool) -> anyhow::Result<Vec<Value>> {
    let points = args.participation.iter();
    let points = points.flat_map(|who| args.flip.iter().map(move |&flip| (who, flip)));
    let count = args.participation.len() * args.flip.len();
    let mut bars = Bars::new();
    let mut cases = Vec::with_capacity(count);
    for (who, flip) in points {
        bars.show("cases", cases.len() as u64, count as u64);
        cases.push(case(args, who, flip, pool)?);
    }
    bars.clear();
    Ok(cases)
}

fn case(
    args: &Args,
    participation: &Participation,
    flip: f64,
    pool: &rayon::ThreadPool,
) -> anyhow::Result<Value> {
    let network = args.network.network(participation)?;
    let max: u8 = args.multiplicity.parse()?;
    let layout = network.layout;
    let senders = match max {
        1 => args.collections,
        _ => AGGREGATORS.max(args.collections),
    };
    let positions = u64::from(layout.validators()) * u64::from(senders);
    ensure!(
        positions <= POSITIONS_MAX,
        "{} validators and {senders} supports of each are {positions} positions, at most {POSITIONS_MAX} are coded",
        layout.validators()
    );
    let draw = |c| committee(args, &network, flip, max, c);
    let (committees, sizes) = pool.install(|| {
        let committees = (0..layout.committees()).into_par_iter().map(draw);
        let committees: Vec<Committee> = committees.collect();
        let sizes = committees
            .par_iter()
            .map(|committee| measure(committee, max));
        let sizes = sizes.reduce(Sizes::default, Sizes::plus);
        (committees, sizes)
    });
    // The fullest committee is representative: the first one of a record may be empty.
    let signers = |committee: &&Committee| committee.supports.first().map(Support::signer_count);
    let largest = committees.iter().max_by_key(signers);
    let times = largest.map(|largest| times(largest, max, usize::from(args.runs)));
    let contexts =
        |[none, chain, link]: [u64; 3]| json!({ "none": none, "chain": chain, "link": link });
    let each = |bytes: u64| bytes as f64 / sizes.collections.max(1) as f64;
    let mut case = json!({
        "participation": network.name,
        "validators": layout.validators(),
        "committees": layout.committees(),
        "subcommittees": layout.subcommittees(),
        "flip": flip,
        "collections": sizes.collections,
        "raw": sizes.raw,
        "snappy": (max == 1).then_some(sizes.snappy),
        "rice": contexts(sizes.rice),
        "range": contexts(sizes.range),
        "planes": {
            "u1": sizes.u1,
            "all": sizes.rice[0],
            "u1_each": each(sizes.u1),
            "all_each": each(sizes.rice[0]),
        },
        "entropy": {
            "none": sizes.entropy[0],
            "chain": sizes.entropy[1],
            "link": sizes.entropy[2],
        },
        "picks": sizes.picks,
        "encode_us": {},
        "decode_us": {},
        "equal": sizes.differences == 0,
    });
    for (code, encode_us, decode_us) in times.into_iter().flatten() {
        case["encode_us"][code] = json!(encode_us);
        case["decode_us"][code] = json!(decode_us);
    }
    Ok(case)
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
        let cell = |range| {
            let made = aggregates(&online.extract(range), AGGREGATORS, args.miss, &mut draw);
            let (support, count) = covered(&made, rule, picks_max);
            picks += count as u64;
            support
        };
        let cells: Vec<Support> = cell_ranges(layout, c).into_iter().map(cell).collect();
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

/// Measures every code on every collection, each with the context that both ends of a link have when it
/// is sent.
fn measure(committee: &Committee, max: u8) -> Sizes {
    let mut sizes = Sizes {
        collections: committee.supports.len() as u64,
        picks: committee.picks,
        ..Sizes::default()
    };
    let before = &committee.before;
    // Nothing was sent: no signer is in any collection, and so none is in all.
    let (mut any, mut all) = (Bitfield::new(before.len()), Bitfield::new(before.len()));
    for (k, support) in committee.supports.iter().enumerate() {
        let link = Reference::Link {
            chain: before,
            any: &any,
            all: &all,
        };
        let mut coded = |coding, reference| {
            let code = committee.code(coding, max, reference);
            let bytes = code.encode(support);
            sizes.differences += u64::from(code.decode(&bytes).as_ref() != Ok(support));
            bytes.len() as u64
        };
        sizes.raw += coded(Coding::Raw, Reference::None);
        if max == 1 {
            sizes.snappy += coded(Coding::Snappy, Reference::None);
        }
        let references = [Reference::None, Reference::Chain(before), link];
        for (i, reference) in references.into_iter().enumerate() {
            sizes.rice[i] += coded(Coding::Rice, reference);
            sizes.range[i] += coded(Coding::Range, reference);
            let code = committee.code(Coding::Rice, max, reference);
            sizes.entropy[i] += code.entropy_bits(support) / 8.0;
        }
        let signers = support.signers();
        let u1 = committee.code(Coding::Rice, 1, Reference::None);
        sizes.u1 += u1.encode(&Support::from_bits(signers.clone())).len() as u64;
        any.union_with(&signers);
        match k {
            0 => all = signers,
            _ => all.intersect_with(&signers),
        }
    }
    sizes
}

impl Sizes {
    fn plus(self, other: Sizes) -> Sizes {
        let sum = |a: [u64; 3], b: [u64; 3]| [0, 1, 2].map(|i| a[i] + b[i]);
        Sizes {
            collections: self.collections + other.collections,
            raw: self.raw + other.raw,
            snappy: self.snappy + other.snappy,
            rice: sum(self.rice, other.rice),
            range: sum(self.range, other.range),
            entropy: [0, 1, 2].map(|i| self.entropy[i] + other.entropy[i]),
            u1: self.u1 + other.u1,
            picks: self.picks + other.picks,
            differences: self.differences + other.differences,
        }
    }
}

/// Returns the least time of encoding and decoding all collections of a committee, in microseconds per
/// collection.
fn times(committee: &Committee, max: u8, runs: usize) -> Vec<(&'static str, f64, f64)> {
    let chain = Reference::Chain(&committee.before);
    let mut codes = vec![
        ("raw", Coding::Raw, Reference::None),
        ("rice, none", Coding::Rice, Reference::None),
        ("rice, chain", Coding::Rice, chain),
        ("range, none", Coding::Range, Reference::None),
    ];
    if max == 1 {
        codes.insert(1, ("snappy", Coding::Snappy, Reference::None));
    }
    let each_us = 1e6 / committee.supports.len().max(1) as f64;
    let time = |(name, coding, reference)| {
        let code = committee.code(coding, max, reference);
        let encode = || -> Vec<Vec<u8>> {
            let supports = committee.supports.iter();
            supports.map(|support| code.encode(support)).collect()
        };
        let (encode_s, codes) = least(runs, encode);
        let decode = || {
            codes
                .iter()
                .map(|bytes| code.decode(bytes))
                .collect::<Vec<_>>()
        };
        (name, encode_s * each_us, least(runs, decode).0 * each_us)
    };
    codes.into_iter().map(time).collect()
}

/// Returns a row for each code that was timed.
fn time_rows(case: &Value) -> Vec<Value> {
    let all = case["collections"].as_f64().unwrap_or(0.0);
    let encode = case["encode_us"].as_object().into_iter().flatten();
    let row = |(code, encode_us): (&String, &Value)| {
        let decode_us = &case["decode_us"][code];
        let of_all = |us: &Value| us.as_f64().map(|us| us * all);
        json!({
            "participation": case["participation"],
            "code": code,
            "encode_us": encode_us,
            "decode_us": decode_us,
            "all_encoded_us": of_all(encode_us),
            "all_decoded_us": of_all(decode_us),
        })
    };
    encode.map(row).collect()
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

    /// Returns the cases of options separated by single spaces.
    fn found(options: &str) -> anyhow::Result<Vec<Value>> {
        let cli = Cli::try_parse_from(format!("codec --runs 1 {options}").split(' '));
        let args = cli.unwrap_or_else(|error| panic!("{error}")).args;
        cases(&args, &alphorn_lab::options::pool(2).unwrap())
    }

    fn figure(case: &Value, pointer: &str) -> f64 {
        case.pointer(pointer).unwrap().as_f64().unwrap()
    }

    const COMMITTEE: &str = "--validators 32768 --committees 1 --subcommittees 64";

    #[test]
    fn a_committee_has_the_sizes_of_the_table() {
        let found = found(COMMITTEE).unwrap();
        let pointers = [
            "/raw",
            "/snappy",
            "/entropy/none",
            "/rice/none",
            "/rice/chain",
            "/rice/link",
            "/range/chain",
            "/range/link",
        ];
        let table: [[f64; 8]; 3] = [
            [2048.0, 2051.0, 2048.0, 2049.0, 78.0, 29.0, 80.0, 27.0],
            [2048.0, 1296.0, 599.0, 607.0, 78.0, 47.0, 80.0, 46.0],
            [2048.0, 564.0, 193.0, 195.0, 66.0, 47.0, 67.0, 46.0],
        ];
        for (case, expected) in found.iter().zip(table) {
            let collections = figure(case, "/collections");
            for (pointer, expected) in pointers.iter().zip(expected) {
                // KiB of 512 collections as in Horn's table, from those of one committee.
                let kib = figure(case, pointer) / collections * 512.0 / 1024.0;
                let off = (kib - expected).abs();
                assert!(off <= 4.0 + 0.06 * expected, "{pointer} of {case}");
            }
            assert_eq!(case["equal"], true);
            // Close to the entropy, except for header and counts.
            let most = figure(case, "/entropy/none") * 1.045 + 12.0 * collections;
            assert!(figure(case, "/rice/none") <= most);
        }
    }

    #[test]
    fn the_slot_before_makes_the_collections_of_a_slot_small() {
        for case in found("--participation 0.95,0.99").unwrap() {
            assert!(figure(&case, "/rice/chain") <= 80.0 * 1024.0, "{case}");
        }
    }

    #[test]
    fn planes_cost_what_the_cover_makes_of_aggregates() {
        let options = "--participation 0.95 --multiplicity 3 --miss 0.01 --collections 1";
        let case = &found(&format!("{COMMITTEE} {options}")).unwrap()[0];
        let picks = figure(case, "/picks") / 64.0;
        assert!(
            (1.7..2.2).contains(&picks),
            "1.9 picks a cell, found {picks}"
        );
        assert!((1130.0..1260.0).contains(&figure(case, "/planes/u1_each")));
        assert!((1500.0..1720.0).contains(&figure(case, "/planes/all_each")));
        assert_eq!(
            (&case["snappy"], &case["equal"]),
            (&Value::Null, &json!(true))
        );
    }

    #[test]
    fn flips_are_swept_and_empty_cells_are_fine() {
        let options =
            "--validators 9 --committees 3 --subcommittees 5 --participation 0,1 --flip 0,1";
        let found = found(options).unwrap();
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|case| case["equal"] == true));
        assert!(found.iter().all(|case| time_rows(case).len() == 5));
    }

    #[test]
    fn what_is_too_much_is_refused_with_its_bound() {
        let error = |options: &str| format!("{:#}", found(options).err().unwrap());
        let text = error("--validators 2^22 --collections 64");
        assert!(text.contains(&POSITIONS_MAX.to_string()), "{text}");
        assert!(error("--participation nowhere").contains("meta.json"));
    }
}
