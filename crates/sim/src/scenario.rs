//! A scenario: protocol, network, faults, traffic and seeds as data, read from TOML.
//!
//! Every key carries its unit, unknown keys are errors, and every number has bounds that its error
//! message states. The canonical form writes out every default, so that two texts that describe the
//! same run have the same hash.

mod bounds;
mod drawn;
mod overrides;
mod parts;

pub use drawn::{CostsError, NoNode};
pub(crate) use drawn::{DrawnNetwork, ordered};
pub use overrides::{Override, parse_override};
pub use parts::{
    Broadcast, Burst, Class, Compute, Expect, FailsAt, Fault, FaultKind, Gossip, Graph, Grid, Horn,
    Latency, Link, Mode, Output, Post, Protocol, Restart, Seeds, Sim, SourcePrivacy, Stop,
    Strategy, Subscribers, TraceLevel, Traffic, Transport, Uplink, Way,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Version of the format.
pub const SCHEMA: u32 = 1;
/// Maximum size of a scenario's text in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of points in a sweep, seeds included.
pub(crate) const POINTS_MAX: u64 = 1_000_000;

/// One experiment: a run for each seed and each point of its sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario, which is also its file name.
    pub name: String,
    /// Must be [`SCHEMA`].
    pub schema: u32,
    /// What the scenario shows, in one sentence.
    #[serde(default)]
    pub about: String,
    /// Nodes, seeds and stop condition.
    pub sim: Sim,
    /// Which nodes are connected.
    #[serde(default)]
    pub graph: Graph,
    /// One-way latency.
    #[serde(default)]
    pub latency: Latency,
    /// Queues, transport and loss.
    #[serde(default)]
    pub link: Link,
    /// Bandwidth and processors; shares sum to 100.
    pub class: Vec<Class>,
    /// Protocol that the nodes run.
    pub protocol: Protocol,
    /// Payloads to send.
    #[serde(default)]
    pub traffic: Traffic,
    /// Cost of computing.
    #[serde(default)]
    pub compute: Compute,
    /// Faults to inject.
    #[serde(default)]
    pub fault: Vec<Fault>,
    /// Expectations; the run fails if one does not hold.
    #[serde(default)]
    pub expect: Expect,
    /// What to record.
    #[serde(default)]
    pub output: Output,
    /// Sweep: dotted paths and the values that each takes.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<toml::Value>>,
    /// Contents of the files named in the scenario, keyed by the name used there. The caller that
    /// reads the files fills this in; the hash covers it.
    #[serde(skip)]
    pub inputs: BTreeMap<String, String>,
}

/// Why a text is not a valid scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// Invalid TOML, an unknown key, or a value of the wrong type.
    #[error("{0}")]
    Toml(String),
    /// A number outside its bounds.
    #[error("{key} = {value}, allowed {min} to {max}")]
    Range {
        /// Dotted path of the key.
        key: String,
        /// Its value.
        value: u64,
        /// Minimum allowed.
        min: u64,
        /// Maximum allowed.
        max: u64,
    },
    /// A value that is invalid or inconsistent with another one.
    #[error("{key} = {value}: {why}")]
    Invalid {
        /// Dotted path of the key.
        key: String,
        /// Its value.
        value: String,
        /// What is allowed.
        why: String,
    },
}

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
