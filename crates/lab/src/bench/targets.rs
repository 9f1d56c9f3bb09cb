//! `alphorn bench targets`: every figure that Horn should reach, measured, beside blst and the target.

mod bls;
mod protocol;

use super::columns::Shape;
use crate::error::{Error, Result};
use crate::options::Common;
use crate::progress::Bars;
use crate::report::{Report, table};
use crate::text;
use alphorn_exec::Backend;
use serde_json::{Map, Value, json};

/// Every figure that Horn should reach, measured, beside blst and the target
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench targets
  alphorn bench targets --kernel portable,avx512 --runs 5
  alphorn bench targets --slot --json targets.json

Horn's shape is 2^20 validators in 32 committees with 16 collections each; the targets are for that
shape, and in seconds for two cores of an AMD Zen 5, with the AVX-512 kernel or the portable one;
another shape has only the targets that are ratios or shares. Every row says on how many threads it ran, whatever --threads says. naive and bulk are blst
on as many threads in the same run: each item verified alone, its keys summed one by one or by
blst's bulk addition; strongest is the fastest of these, of subtracting from the full sum, and of one batch
with random weights. A target that is missed is no failure: exit code 1 is for verdicts, sums or
codes that differ.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of validators, as 1048576 or 2^20
    #[arg(long, default_value = "2^20", value_parser = crate::options::validators)]
    validators: u32,
    /// Collections of each of the 32 committees
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    collections: u16,
    /// Runs of our methods; the least time counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Run a whole slot too, with the last kernel of the list; takes a minute or two
    #[arg(long)]
    slot: bool,
}

impl Args {
    /// A target in seconds or bytes, which is for Horn's shape and says nothing of another.
    fn of_horn(&self, target: f64) -> Option<f64> {
        (self.validators == 1 << 20 && self.collections == 16).then_some(target)
    }

    /// Collections of a slot.
    fn collections_of_a_slot(&self) -> usize {
        32 * usize::from(self.collections)
    }

    /// Bitfields of Horn's shape, or supports with multiplicities.
    fn shape(&self, multiplicity: &str) -> Shape {
        Shape {
            validators: self.validators,
            committees: 32,
            collections: self.collections,
            multiplicity: multiplicity.into(),
            corr: None,
        }
    }
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Seconds,
    Kib,
    Share,
    Ratio,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Kib => "KiB",
            Unit::Share => "share",
            Unit::Ratio => "ratio",
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Unit::Seconds => text::seconds(value),
            Unit::Kib => format!("{value:.1} KiB"),
            Unit::Share => format!("{:.2} %", value * 100.0),
            Unit::Ratio => format!("{value:.2}x"),
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
struct Row {
    what: String,
    /// None where the kernel does not matter.
    kernel: Option<Backend>,
    threads: usize,
    unit: Unit,
    measured: f64,
    /// None for a figure that stands beside another one.
    target: Option<f64>,
    /// Seconds of blst: naive, bulk, the fastest way.
    peers_s: Option<[f64; 3]>,
    /// Whether the seconds are of the same work as those of blst.
    comparable: bool,
    /// Whether verdicts, sums or codes are those of the other method.
    agrees: bool,
}

impl Row {
    /// A figure of one thread and no kernel, without peers.
    fn plain(what: impl Into<String>, unit: Unit, measured: f64, target: Option<f64>) -> Self {
        Row {
            what: what.into(),
            kernel: None,
            threads: 1,
            unit,
            measured,
            target,
            peers_s: None,
            comparable: true,
            agrees: true,
        }
    }

    fn verdict(&self) -> &'static str {
        match self.target {
            _ if !self.agrees => "DIFFERS",
            None => "",
            Some(target) if self.measured <= target => "reached",
            Some(_) => "missed",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench targets", args.common.seed);
    let kernels = args.common.kernels(&alphorn_bls::KERNELS)?;
    let machine = args.common.machine_of(&kernels)?;
    let mut bars = Bars::new();
    let mut rows = Vec::new();
    for &kernel in &kernels {
        rows.extend(bls::rows(args, kernel, &mut bars)?);
    }
    rows.extend(protocol::rows(args, &mut bars)?);
    bars.clear();

    let sink = args.common.sink();
    sink.say(&format!(
        "Horn's figures, {} validators, seed {}\n{}\n",
        text::count(u64::from(args.validators)),
        args.common.seed,
        machine.line()
    ));
    sink.say(&print(&rows));
    let fields = Map::from_iter([(
        "cases".to_owned(),
        Value::Array(rows.iter().map(row_json).collect()),
    )]);
    let config = json!({ "validators": args.validators, "collections": args.collections, "runs": args.runs, "slot": args.slot });
    sink.write(&report.object(&machine, "measured", &config, fields)?)?;
    match rows.iter().find(|row| !row.agrees) {
        None => Ok(()),
        Some(row) => Err(Error::Check(format!(
            "{}: the result is not that of the other method",
            row.what
        ))),
    }
}

fn print(rows: &[Row]) -> String {
    let header = [
        "what",
        "kernel",
        "threads",
        "ours",
        "target",
        "",
        "naive",
        "bulk",
        "strongest",
        "vs strongest",
    ];
    let line = |row: &Row| {
        let peer = |i: usize| row.peers_s.map(|peers| peers[i]);
        let faster = |i: usize| {
            peer(i)
                .filter(|_| row.unit == Unit::Seconds && row.comparable)
                .map_or("-".into(), |peer| text::ratio(peer / row.measured))
        };
        let seconds = |value: Option<f64>| value.map_or("-".into(), text::seconds);
        vec![
            row.what.clone(),
            row.kernel
                .map_or("-".into(), |kernel| kernel.name().to_owned()),
            row.threads.to_string(),
            row.unit.text(row.measured),
            row.target
                .map_or("-".into(), |target| row.unit.text(target)),
            row.verdict().into(),
            seconds(peer(0)),
            seconds(peer(1)),
            seconds(peer(2)),
            faster(2),
        ]
    };
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    let with_target = rows.iter().filter(|row| row.target.is_some());
    let reached = with_target
        .clone()
        .filter(|row| row.verdict() == "reached")
        .count();
    format!(
        "{}\n\n{reached} of {} targets reached on this machine now; verdicts, sums and codes {}.",
        table(&header, &lines),
        with_target.count(),
        if rows.iter().all(|row| row.agrees) {
            "equal"
        } else {
            "DIFFER"
        }
    )
}

fn row_json(row: &Row) -> Value {
    json!({
        "what": row.what,
        "kernel": row.kernel.map(|kernel| kernel.name()),
        "threads": row.threads,
        "unit": row.unit.name(),
        "measured": row.measured,
        "target": row.target,
        "reached": row.target.map(|target| row.measured <= target),
        "blst_naive_s": row.peers_s.map(|peers| peers[0]),
        "blst_bulk_s": row.peers_s.map(|peers| peers[1]),
        "blst_strongest_s": row.peers_s.map(|peers| peers[2]),
        "agrees": row.agrees,
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

    #[test]
    fn every_row_of_the_table_is_there_and_agrees() {
        let kernels: Vec<&str> = alphorn_bls::KERNELS
            .available()
            .iter()
            .map(|b| b.name())
            .collect();
        let kernels = kernels.join(",");
        let cli = [
            "targets",
            "--kernel",
            &kernels,
            "--validators",
            "4096",
            "--collections",
            "1",
            "--runs",
            "1",
            "--slot",
        ];
        let args = Cli::try_parse_from(cli).unwrap().args;
        let mut bars = Bars::new();
        let mut rows = bls::rows(&args, Backend::Portable, &mut bars).unwrap();
        rows.extend(protocol::rows(&args, &mut bars).unwrap());
        let text = print(&rows);
        assert!(rows.iter().all(|row| row.agrees), "{text}");
        for what in [
            "32 collections, 50 %",
            "32 collections, 95 %",
            "32 collections, 99 %",
            "M = 3",
            "M = 15",
            "full",
            "8 bad of 32",
            "64 bad of 1,024",
            "clones",
            "pairs",
            "sequence",
            "coded",
            "decoded",
            "quorum3",
            "union",
            "best1",
            "whole slot",
        ] {
            assert!(
                rows.iter().any(|row| row.what.contains(what)),
                "{what}\n{text}"
            );
        }
        for row in &rows {
            let json = row_json(row);
            assert!(json["measured"].as_f64().is_some_and(f64::is_finite));
            assert_eq!(json["reached"].is_null(), row.target.is_none());
            if row.kernel.is_some() {
                assert!(row.peers_s.is_some(), "{}: no peer beside it", row.what);
            }
        }
    }

    #[test]
    fn a_row_says_whether_it_reached_its_target() {
        let mut row = Row::plain("x", Unit::Kib, 80.0, Some(80.0));
        assert_eq!(row.verdict(), "reached");
        row.measured = 80.1;
        assert_eq!(row.verdict(), "missed");
        row.agrees = false;
        assert_eq!(row.verdict(), "DIFFERS");
        assert_eq!(Row::plain("x", Unit::Share, 0.5, None).verdict(), "");
        assert!(print(&[row]).contains("0 of 1 targets"));
    }
}
