//! `alphorn sim list`: the presets.

use super::presets::PRESETS;
use super::source::load;
use crate::error::Result;
use crate::machine::Machine;
use crate::report::{Report, Sink, json_target, table};
use alphorn_sim::sweep::Plan;
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// List the presets and what each of them shows
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Write the list as one JSON object, - for standard output
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(json_target))]
    json: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("sim list", 1);
    let sink = Sink::new(args.json.clone());
    let mut rows = Vec::new();
    let mut cases = Vec::new();
    for preset in PRESETS {
        let scenario = load(preset.name, &[])?;
        let runs = Plan::of(&scenario, "")?.items.len();
        rows.push(vec![
            preset.name.to_owned(),
            scenario.sim.nodes.to_string(),
            runs.to_string(),
            scenario.about.clone(),
        ]);
        cases.push(json!({
            "name": preset.name, "nodes": scenario.sim.nodes, "runs": runs, "about": scenario.about,
            "protocol": scenario.protocol.name(),
        }));
    }
    sink.say(&table(&["preset", "nodes", "runs", "what it shows"], &rows));
    let machine = Machine::here(1, BTreeMap::new());
    let fields = json!({ "cases": cases });
    sink.write(&report.object(&machine, "modelled", &json!({}), fields)?)
}
