//! The format of a scenario: its tables and their defaults.

use super::parts::{
    Class, Compute, Expect, Fault, Graph, Latency, Link, Output, Protocol, Sim, Traffic,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the format.
pub const SCHEMA: u32 = 1;
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
