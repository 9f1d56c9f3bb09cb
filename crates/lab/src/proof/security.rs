//! `alphorn proof security`: the error of each step of a proof, and its other requirements.

use super::{PresetName, REGIME, proofs};
use crate::distinct::distinct;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::report::{Report, Sink, json_target, table};
use alphorn_stark::security::{ASSUMPTIONS, TARGET_BITS, Table};
use alphorn_xmss::Set;
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Show the error of each step in bits, computed from the sizes, and all assumptions
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn proof security
  alphorn proof security --preset small --json -

A proof is a chain of random challenges. Each row shows how often one kind of challenge occurs, and
the probability, in bits, that one answer hides a false statement. A prover that can retry its hash
needs only one success, so the lowest row counts; the sum of all errors bounds the interactive
protocol. Grinding is counted where stated. Bits are those of the argument alone: the signatures
have their own, and so has every assumption.

Exit code 1 if a row is below 122 bits.")]
pub struct Args {
    /// Parameter set of the XMSS signatures that are proved
    #[arg(long, default_value_t = Set::Compact)]
    set: Set,
    /// Presets of the commitment: fast (rate 1/4) and small (rate 1/16)
    #[arg(
        long,
        value_enum,
        value_name = "PRESET",
        default_value = "fast,small",
        value_delimiter = ','
    )]
    preset: Vec<PresetName>,
    /// Write the table as one JSON object, - for standard output
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(json_target))]
    json: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// If the report cannot be written, or if a row is below 122 bits.
pub fn run(args: &Args) -> Result<()> {
    let report = Report::begin("proof security", 0);
    let sink = Sink::new(args.json.clone());
    distinct("--preset", &args.preset)?;
    let (mut cases, mut low) = (Vec::new(), Vec::new());
    for preset in &args.preset {
        let proofs = proofs(args.set, *preset);
        let table = proofs.security();
        let name = preset.preset().name;
        sink.say(&format!(
            "set {}, preset {name}\n{}\n",
            args.set,
            printed(&table)
        ));
        if table.least_bits() < TARGET_BITS {
            low.push(format!("preset {name}: {:.1} bits", table.least_bits()));
        }
        cases.push(case(args.set, name, &table));
    }
    if let Some(table) = proofs(args.set, PresetName::Fast).merge_security() {
        sink.say(&format!("set {}, merges\n{}\n", args.set, printed(&table)));
        if table.least_bits() < TARGET_BITS {
            low.push(format!("merges: {:.1} bits", table.least_bits()));
        }
        cases.push(case(args.set, "merge", &table));
    }
    sink.say("What the tables suppose:");
    for (number, assumption) in ASSUMPTIONS.iter().enumerate() {
        sink.say(&format!("{:2}. {assumption}", number + 1));
    }
    let machine = Machine::here(1, BTreeMap::new());
    let presets: Vec<&str> = args
        .preset
        .iter()
        .map(|preset| preset.preset().name)
        .collect();
    let config = json!({ "set": args.set.name(), "preset": presets });
    let fields = json!({
        "cases": Value::Array(cases),
        "assumptions": ASSUMPTIONS,
        "target_bits": TARGET_BITS,
    });
    sink.write(&report.object(&machine, "modelled", &config, fields)?)?;
    match low.is_empty() {
        true => Ok(()),
        false => Err(Error::Check(low.join("\n"))),
    }
}

fn case(set: Set, preset: &str, table: &Table) -> Value {
    let term = |term: &alphorn_stark::security::Term| json!({ "name": term.name, "rounds": term.rounds, "bits": term.bits });
    json!({
        "set": set.name(),
        "preset": preset,
        "regime": REGIME,
        "terms": table.terms.iter().map(term).collect::<Vec<_>>(),
        "security_bits": table.least_bits(),
        "sum_bits": table.sum_bits(),
    })
}

fn printed(security: &Table) -> String {
    let asked = |rounds: usize| match rounds {
        0 => "-".to_owned(),
        rounds => rounds.to_string(),
    };
    let mut rows: Vec<Vec<String>> = security
        .terms
        .iter()
        .map(|term| {
            vec![
                term.name.to_owned(),
                asked(term.rounds),
                format!("{:.1}", term.bits),
            ]
        })
        .collect();
    let last = |name: &str, bits: f64| vec![name.to_owned(), String::new(), format!("{bits:.1}")];
    rows.push(last("least of all", security.least_bits()));
    rows.push(last("sum of all questions", security.sum_bits()));
    table(&["question", "times", "bits"], &rows)
}
