//! `alphorn sim compare`: two runs or sweeps side by side.

use super::folder;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::overwrite::check_apart;
use crate::plot::number;
use crate::report::{Report, Sink, json_target, table};
use alphorn_sim::report::manifest::{Figures, Manifest};
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Compare two runs side by side, and fail if t50 or t99 differ by more than --within
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Manifest or folder of a run
    a: PathBuf,
    /// Manifest or folder of the other run
    b: PathBuf,
    /// Maximum difference of t50 and t99, in percent of the first run's values
    #[arg(long, value_name = "PCT", default_value_t = 15.0, value_parser = percent)]
    within: f64,
    /// Write the differences as one JSON object, - for standard output
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(json_target))]
    json: Option<PathBuf>,
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    let value = text
        .parse::<f64>()
        .ok()
        .filter(|value| (0.0..=1e6).contains(value));
    value.ok_or_else(|| "a percentage from 0".to_owned())
}

pub(super) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("sim compare", 1);
    let sink = Sink::new(args.json.clone());
    let inputs = [&args.a, &args.b].map(|path| folder::manifest_file(path));
    check_apart(inputs.iter().map(PathBuf::as_path), sink.path())?;
    let (a, b) = (folder::manifest(&args.a)?, folder::manifest(&args.b)?);
    let columns = |path: &Path, manifest: &Manifest| match &manifest.figures {
        Some(figures) => Ok(Figures::columns(figures)),
        // Two empty sets do not count as agreement.
        None => Err(Error::Check(format!(
            "{}: a run that could not go on, without figures",
            path.display()
        ))),
    };
    let (of_a, of_b) = (columns(&args.a, &a)?, columns(&args.b, &b)?);
    let (mut rows, mut cases, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    for ((name, of_a), (_, of_b)) in of_a.into_iter().zip(of_b) {
        let difference = difference_pct(of_a, of_b);
        let text = |value: Option<f64>| value.map_or("none".into(), number);
        rows.push(vec![
            name.to_owned(),
            text(of_a),
            text(of_b),
            difference.map_or("-".into(), |pct| format!("{pct:+.1} %")),
        ]);
        cases.push(json!({ "figure": name, "a": of_a, "b": of_b, "difference_pct": difference }));
        let judged = ["t50_ms", "t99_ms"].contains(&name);
        // A time that one of them never reaches exceeds any bound.
        let same = of_a.is_none() && of_b.is_none();
        if judged && !same && difference.is_none_or(|pct| pct.abs() > args.within) {
            apart.push(format!("{name}: {} and {}", text(of_a), text(of_b)));
        }
    }
    let same_scenario = a.scenario_hash == b.scenario_hash;
    let title = |manifest: &Manifest| format!("{} #{}", manifest.name, manifest.seed);
    sink.say(&table(&["", &title(&a), &title(&b), "difference"], &rows));
    if same_scenario && a.seed == b.seed {
        let hash = |manifest: &Manifest| manifest.figures.as_ref().map(|f| f.event_hash.clone());
        let same = if hash(&a) == hash(&b) {
            "the same"
        } else {
            "other"
        };
        sink.say(&format!("\nThe same scenario and seed, {same} events."));
    }
    let machine = Machine::here(1, BTreeMap::new());
    let config =
        json!({ "a": a.id, "b": b.id, "within_pct": args.within, "same_scenario": same_scenario });
    let fields = json!({ "cases": Value::Array(cases) });
    sink.write(&report.object(&machine, "modelled", &config, fields)?)?;
    match apart.is_empty() {
        true => Ok(()),
        false => {
            let within = args.within;
            Err(Error::Check(format!(
                "more than {within} % apart: {}",
                apart.join("; ")
            )))
        }
    }
}

/// Returns by how much the second differs from the first.
fn difference_pct(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a?, b?) {
        (a, b) if a == b => Some(0.0),
        (0.0, _) => None,
        (a, b) => Some(100.0 * (b - a) / a),
    }
}
