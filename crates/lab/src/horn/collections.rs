//! `alphorn horn collections`: runs a recorded epoch through the whole path.

use crate::error::{Error, Result};
use crate::options::Common;
use crate::overwrite::check_apart;
use crate::participation::{self, FLAGS, Record};
use crate::report::{Report, columns};
use crate::slot::{self, Executed};
use crate::text;
use alphorn_sim::slot::CommitteeCoverage;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Run a recorded epoch through the whole path and check the coverage of each committee
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn horn collections --participation vectors/goerli-epoch-148260
  alphorn horn collections --participation vectors/goerli-epoch-148260 --flag head --json -

Runs `alphorn slot` on the recorded bits: each validator that voted signs with its interop key,
aggregators and collectors do their work, and a node verifies every collection. Exit code 1 if a
committee's collections do not cover exactly as many positions as the file has bits set there,
counted from the file itself.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Recorded epoch: its folder, meta file or bit file
    #[arg(long, value_name = "FILE")]
    participation: String,
    /// Flag of the epoch that counts as the vote: source, target or head (default: target)
    #[arg(long, value_name = "FLAG", value_parser = FLAGS)]
    flag: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("horn collections", args.common.seed);
    let sink = args.common.sink();
    let path = Path::new(&args.participation);
    let files = participation::files(path);
    check_apart(files.iter().map(PathBuf::as_path), sink.path())?;
    let record = Record::read(path, args.flag.as_deref())?;
    let slot_args = slot::Args::recorded(
        args.common.clone(),
        args.participation.clone(),
        args.flag.clone(),
    );
    let executed = slot::execute(&slot_args)?;
    let recorded = popcounts(&record, &executed);

    sink.say(&format!(
        "{}: {} validators, {} committees of {} cells, seed {}\n{}\n",
        record.name,
        text::count(u64::from(record.validators)),
        record.committees,
        record.subcommittees,
        args.common.seed,
        executed.machine.line()
    ));
    sink.say(&coverage_table(&executed.outcome.coverage, &recorded));
    let differing = differing(&executed.outcome.coverage, &recorded);
    sink.say(&verdict(&executed, &differing));
    let (config, mut fields) = executed.json(&slot_args);
    fields.insert("recorded".into(), json!(recorded));
    fields.insert(
        "coverage_equals_record".into(),
        Value::Bool(differing.is_empty()),
    );
    sink.write(&report.object(&executed.machine, "measured", &config, fields)?)?;
    if !differing.is_empty() {
        return Err(Error::Check(format!(
            "collections of committees {differing:?} do not cover what the file records"
        )));
    }
    executed.check()
}

/// Returns the bits of the file in each committee.
fn popcounts(record: &Record, executed: &Executed) -> Vec<u32> {
    let layout = &executed.outcome.layout;
    (0..layout.committees())
        .map(|c| {
            let range = layout.committee_range(c);
            record
                .bits
                .count_range(range.start as usize..range.end as usize) as u32
        })
        .collect()
}

/// Returns the committees whose collections cover a different number of positions than the file has bits.
fn differing(coverage: &[CommitteeCoverage], recorded: &[u32]) -> Vec<u16> {
    let differs =
        |c: &&CommitteeCoverage| recorded.get(usize::from(c.committee)) != Some(&c.in_collections);
    coverage
        .iter()
        .filter(differs)
        .map(|c| c.committee)
        .collect()
}

fn coverage_table(coverage: &[CommitteeCoverage], recorded: &[u32]) -> String {
    let row = |committee: &CommitteeCoverage| {
        let bits = recorded
            .get(usize::from(committee.committee))
            .copied()
            .unwrap_or(0);
        let share = 100.0 * f64::from(bits) / f64::from(committee.members.max(1));
        vec![
            ("committee", committee.committee.to_string()),
            ("members", text::count(u64::from(committee.members))),
            ("bits in the file", text::count(u64::from(bits))),
            (
                "in collections",
                text::count(u64::from(committee.in_collections)),
            ),
            ("in block", text::count(u64::from(committee.in_block))),
            ("share", format!("{share:.1} %")),
        ]
    };
    columns(coverage.iter().map(row))
}

fn verdict(executed: &Executed, differing: &[u16]) -> String {
    let outcome = &executed.outcome;
    let equal = if differing.is_empty() {
        "equal to the file's bits in every committee".to_owned()
    } else {
        format!("DIFFERENT from the file in committees {differing:?}")
    };
    format!(
        "\n{} votes in {} collections of {}, coverage {equal}; next block {} entries, {}.",
        text::count(outcome.votes.in_collections),
        text::count(outcome.collections.messages),
        text::bytes(outcome.collections.bytes),
        outcome.block.entries,
        text::bytes(outcome.block.bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_committee_that_lost_a_vote_is_named() {
        let coverage = |committee, in_collections| CommitteeCoverage {
            committee,
            members: 10,
            expected: 7,
            in_collections,
            in_block: 7,
        };
        let all = [coverage(0, 7), coverage(1, 6), coverage(2, 7)];
        assert_eq!(differing(&all, &[7, 7, 7]), [1]);
        assert_eq!(differing(&all, &[7, 6]), [2]);
        assert!(differing(&all, &[7, 6, 7]).is_empty());
        let text = coverage_table(&all, &[7, 7, 7]);
        assert_eq!(text.lines().count(), 4);
    }
}
