//! Sweeps: the runs of a scenario as a list that any host can process, and their figures over the
//! seeds.
//!
//! A list is JSON lines: first the data shared by all runs, which are the scenario and the contents
//! of its files, then one run per line. A plan therefore needs no other file, and the results do not
//! depend on where a run was executed.

mod merge;

pub use merge::{Merged, Point, Spread};

use crate::scenario::{Override, Scenario, ScenarioError, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Version of the format.
pub const SCHEMA: u32 = 1;
/// Maximum size of a line in bytes.
pub const LINE_BYTES_MAX: usize = 256 << 20;

/// Data shared by all runs of a plan: its first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name of the scenario.
    pub name: String,
    /// Commit of the program that created the plan; its runs are for that commit.
    pub commit: String,
    /// Number of runs.
    pub runs: u64,
    /// The scenario as TOML.
    pub scenario: String,
    /// Contents of the files that it names.
    pub files: BTreeMap<String, String>,
}

/// One run of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// SHA-256 of the canonical scenario, the values replaced, seed and commit.
    pub id: String,
    /// Its number, from 0.
    pub index: u64,
    /// Its seed.
    pub seed: u64,
    /// Its sweep values, by path.
    pub set: BTreeMap<String, toml::Value>,
}

impl Item {
    /// Its sweep values, as written in a scenario.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let text = |(path, value): (&String, &toml::Value)| (path.clone(), value.to_string());
        self.set.iter().map(text).collect()
    }
}

/// All runs of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The shared data.
    pub head: Head,
    /// The runs.
    pub items: Vec<Item>,
}

/// Why a text is not a plan, or a point is not a scenario.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A point of the sweep is not a valid scenario.
    #[error("{point}{error}")]
    Scenario {
        /// Values of the point, empty without a sweep.
        point: String,
        /// Reason.
        error: ScenarioError,
    },
    /// A malformed line.
    #[error("line {line} of the plan: {error}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// Reason.
        error: serde_json::Error,
    },
    /// Inconsistent lines.
    #[error("line {line} of the plan: {why}")]
    Unfit {
        /// Its number, from 1.
        line: usize,
        /// Reason.
        why: String,
    },
}

impl Plan {
    /// All points of the sweep, each with all seeds: the last path changes fastest, and seeds faster
    /// still.
    ///
    /// # Errors
    /// [`PlanError::Scenario`] if a point is not a valid scenario.
    pub fn of(scenario: &Scenario, commit: &str) -> Result<Plan, PlanError> {
        let wrong = |error| PlanError::Scenario {
            point: String::new(),
            error,
        };
        let head = Head {
            schema: SCHEMA,
            name: scenario.name.clone(),
            commit: commit.to_owned(),
            runs: 0,
            scenario: scenario.to_toml().map_err(wrong)?,
            files: scenario.inputs.clone(),
        };
        let mut plan = Plan {
            head,
            items: Vec::new(),
        };
        for set in points(&scenario.sweep) {
            // Every point is parsed now, so that no run of a plan turns out invalid on the host that gets it.
            let canonical = plan.at(&set)?.canonical();
            let seeds = scenario.sim.seeds;
            for seed in seeds.first..=seeds.last {
                plan.items.push(Item {
                    id: id(&canonical, &set, seed, commit),
                    index: plan.items.len() as u64,
                    seed,
                    set: set.clone(),
                });
            }
        }
        plan.head.runs = plan.items.len() as u64;
        Ok(plan)
    }

    /// The scenario of a run.
    ///
    /// # Errors
    /// [`PlanError::Scenario`] if the plan was not created by [`Plan::of`].
    pub fn scenario(&self, item: &Item) -> Result<Scenario, PlanError> {
        self.at(&item.set)
    }

    fn at(&self, set: &BTreeMap<String, toml::Value>) -> Result<Scenario, PlanError> {
        let changes: Vec<Override> = set
            .iter()
            .map(|(path, value)| Override {
                path: path.clone(),
                value: value.clone(),
            })
            .collect();
        let parsed = Scenario::parse(&self.head.scenario, &changes);
        let mut scenario = parsed.map_err(|error| PlanError::Scenario {
            point: set
                .iter()
                .map(|(path, value)| format!("{path} = {value}: "))
                .collect(),
            error,
        })?;
        scenario.sweep.clear();
        // A value of the sweep may be the name of a file, so points have different files.
        let named = scenario.files().into_iter();
        let files = named.filter_map(|name| self.head.files.get_key_value(name));
        scenario.inputs = files
            .map(|(name, text)| (name.clone(), text.clone()))
            .collect();
        Ok(scenario)
    }

    /// The plan as JSON lines.
    ///
    /// # Errors
    /// [`PlanError::Line`] for a value that JSON cannot represent, such as a date.
    pub fn to_lines(&self) -> Result<String, PlanError> {
        let wrong = |error| PlanError::Line { line: 1, error };
        let mut text = serde_json::to_string(&self.head).map_err(wrong)? + "\n";
        for item in &self.items {
            text.push_str(&serde_json::to_string(item).map_err(wrong)?);
            text.push('\n');
        }
        Ok(text)
    }

    /// Parses JSON lines and checks that every identity matches its run.
    ///
    /// # Errors
    /// [`PlanError`], with the line number.
    pub fn from_lines(text: &str) -> Result<Plan, PlanError> {
        let mut lines = (1..).zip(text.lines());
        let unfit = |line, why: String| PlanError::Unfit { line, why };
        let (line, first) = lines
            .next()
            .ok_or_else(|| unfit(1, "nothing is planned".into()))?;
        let head: Head =
            serde_json::from_str(first).map_err(|error| PlanError::Line { line, error })?;
        if head.schema != SCHEMA {
            let why = format!("schema = {}, known is {SCHEMA}", head.schema);
            return Err(unfit(line, why));
        }
        let mut plan = Plan {
            head,
            items: Vec::new(),
        };
        // Runs of a point are consecutive, so each point is parsed only once.
        let mut last: Option<(BTreeMap<String, toml::Value>, String)> = None;
        for (line, text) in lines {
            let item: Item =
                serde_json::from_str(text).map_err(|error| PlanError::Line { line, error })?;
            if item.index != plan.items.len() as u64 {
                let why = format!("index = {}, expected {}", item.index, plan.items.len());
                return Err(unfit(line, why));
            }
            let canonical = match last.take() {
                Some((set, canonical)) if set == item.set => canonical,
                _ => plan.at(&item.set)?.canonical(),
            };
            if id(&canonical, &item.set, item.seed, &plan.head.commit) != item.id {
                return Err(unfit(
                    line,
                    format!("id = {} is not that of its run", item.id),
                ));
            }
            last = Some((item.set.clone(), canonical));
            plan.items.push(item);
        }
        if plan.items.len() as u64 != plan.head.runs {
            let why = format!("runs = {}, but {} follow", plan.head.runs, plan.items.len());
            return Err(unfit(1, why));
        }
        Ok(plan)
    }

    /// Keeps every `of`-th run, starting with number `shard`.
    pub fn shard(&mut self, shard: u64, of: u64) {
        self.items.retain(|item| item.index % of.max(1) == shard);
    }
}

/// All combinations of the values of a sweep; a single one without values if there is no sweep.
fn points(sweep: &BTreeMap<String, Vec<toml::Value>>) -> Vec<BTreeMap<String, toml::Value>> {
    let mut points = vec![BTreeMap::new()];
    for (path, values) in sweep {
        points = points
            .iter()
            .flat_map(|point| {
                values.iter().map(|value| {
                    let mut point = point.clone();
                    point.insert(path.clone(), value.clone());
                    point
                })
            })
            .collect();
    }
    points
}

/// The identity of a run.
fn id(canonical: &str, set: &BTreeMap<String, toml::Value>, seed: u64, commit: &str) -> String {
    let set: Vec<String> = set
        .iter()
        .map(|(path, value)| format!("{path}={value}"))
        .collect();
    // The parts are hashed separately, so that none can run into the next.
    let mut hash = Sha256::new();
    for part in [canonical, &set.join("\n"), &seed.to_string(), commit] {
        hash.update(Sha256::digest(part));
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests;
