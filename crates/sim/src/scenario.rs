//! A scenario: protocol, network, faults, traffic and seeds as data, read from TOML.
//!
//! Every key carries its unit, unknown keys are errors, and every number has bounds that its error
//! message states. The canonical form writes out every default, so that two texts that describe the
//! same run have the same hash.

mod bounds;
mod drawn;
mod error;
mod format;
mod overrides;
mod parts;

pub use drawn::{CostsError, NoNode};
pub(crate) use drawn::{DrawnNetwork, ordered};
pub use error::ScenarioError;
pub use format::{SCHEMA, Scenario};
pub use overrides::{Override, parse_override};
pub use parts::{
    Broadcast, Burst, Class, Compute, Expect, FailsAt, Fault, FaultKind, Gossip, Graph, Grid, Horn,
    Latency, Link, Mode, Output, Post, Protocol, Restart, Seeds, Sim, SourcePrivacy, Stop,
    Strategy, Subscribers, TraceLevel, Traffic, Transport, Uplink, Way,
};

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Maximum size of a scenario's text in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
impl Scenario {
    /// Parses a scenario with some values replaced and checks every bound.
    ///
    /// # Errors
    /// Returns a [`ScenarioError`] that names the key.
    pub fn parse(text: &str, overrides: &[Override]) -> Result<Scenario, ScenarioError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(ScenarioError::Range {
                key: "bytes of the scenario".into(),
                value: text.len() as u64,
                min: 1,
                max: TEXT_BYTES_MAX as u64,
            });
        }
        let toml_error = |error: toml::de::Error| ScenarioError::Toml(error.to_string());
        // Parse the text unmodified first, so that errors in it have a line and a column.
        let scenario: Scenario = if overrides.is_empty() {
            toml::from_str(text).map_err(toml_error)?
        } else {
            let mut table: toml::Table = toml::from_str(text).map_err(toml_error)?;
            for change in overrides {
                overrides::apply(&mut table, change)?;
            }
            // The replaced values take the same path as written ones, so a wrong key or type is an error here
            // too.
            table.try_into().map_err(toml_error)?
        };
        scenario.check()?;
        Ok(scenario)
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// Returns a [`ScenarioError`] that names the key.
    pub fn check(&self) -> Result<(), ScenarioError> {
        bounds::check(self)
    }

    /// The scenario as TOML, with every default written out.
    ///
    /// # Errors
    /// [`ScenarioError::Toml`] if a number cannot be represented in TOML.
    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        toml::to_string(self).map_err(|error| ScenarioError::Toml(error.to_string()))
    }

    /// Everything besides the seed that determines a run, as one line of JSON. Defaults are written
    /// out; name, description, seeds, sweep and expectations are left out; files are represented by
    /// their hash.
    pub fn canonical(&self) -> String {
        let files: BTreeMap<&str, String> = self
            .inputs
            .iter()
            .map(|(name, text)| (name.as_str(), hex(&Sha256::digest(text))))
            .collect();
        // A constant in place of the seeds, so that all runs of a scenario share the hash.
        let sim = Sim {
            seeds: parts::Seeds::one(0),
            ..self.sim.clone()
        };
        let mut all = serde_json::json!({
            "schema": self.schema, "sim": sim, "graph": self.graph, "latency": self.latency,
            "link": self.link, "class": self.class, "protocol": self.protocol,
            "traffic": self.traffic, "compute": self.compute, "fault": self.fault,
            "output": self.output, "files": files,
        });
        drop_nulls(&mut all);
        all.to_string()
    }

    /// SHA-256 of [`Scenario::canonical`], in hex.
    pub fn hash(&self) -> String {
        hex(&Sha256::digest(self.canonical()))
    }

    /// Files named in the scenario: cost tables and the graph.
    pub fn files(&self) -> Vec<&str> {
        let graph = match &self.graph {
            Graph::File { path } => Some(path.as_str()),
            _ => None,
        };
        let compute = [&self.compute.costs, &self.compute.code_costs];
        let costs = compute.into_iter().filter_map(|path| path.as_deref());
        costs.chain(graph).collect()
    }

    /// Like [`Scenario::files`], plus the files named at any point of its sweep.
    pub fn files_swept(&self) -> Vec<&str> {
        // A sweep may replace the name of a file, and that file must be read as well.
        let swept = self
            .sweep
            .iter()
            .filter(|(path, _)| FILE_KEYS.contains(&path.as_str()))
            .flat_map(|(_, values)| values.iter().filter_map(toml::Value::as_str));
        self.files().into_iter().chain(swept).collect()
    }
}

/// Drops absent values, as TOML does, so that adding an optional key to the format changes no hash.
fn drop_nulls(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        serde_json::Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Paths whose values are file names.
const FILE_KEYS: [&str; 3] = ["compute.costs", "compute.code_costs", "graph.path"];

/// Bytes in lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
