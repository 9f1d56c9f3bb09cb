//! The tables of a scenario, with their defaults.

/// An enumeration whose words are written once: for scenarios, and for whoever tells of it.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Its word in a scenario.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }
    };
}

mod fault;
mod network;
mod protocol;
mod sim;

pub use fault::{FailsAt, Fault, FaultKind, Post, Restart};
pub use network::{Class, Graph, Latency, Link, Transport, Uplink};
pub use protocol::{
    Broadcast, Burst, Gossip, Grid, Horn, Protocol, SourcePrivacy, Strategy, Subscribers, Way,
};
pub use sim::{Mode, Seeds, Sim, Stop};

use serde::{Deserialize, Serialize};

fn hundred() -> u32 {
    100
}

/// The payloads, each from one source to all. Horn and the tree make their own traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traffic {
    /// Bytes of a payload.
    pub bytes: u64,
    /// Class of the sources; any if absent.
    pub source_class: Option<String>,
    /// Number of payloads.
    pub count: u32,
    /// Time between them.
    pub interval_ms: u64,
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic {
            bytes: 118_750,
            source_class: None,
            count: 1,
            interval_ms: 12_000,
        }
    }
}

/// What computing costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Compute {
    /// File of the scheme's costs, relative to the scenario.
    pub costs: Option<String>,
    /// File of the codes' costs, relative to the scenario.
    pub code_costs: Option<String>,
    /// What handling one message costs.
    pub handle_ns: u64,
    /// All costs of the tables, in percent.
    pub factor_pct: u32,
}

impl Default for Compute {
    fn default() -> Self {
        Compute {
            costs: None,
            code_costs: None,
            handle_ns: 2000,
            factor_pct: 100,
        }
    }
}

/// What must hold, or the run fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Half of the nodes have delivered by then.
    pub t50_ms_max: Option<u64>,
    /// 90 % have.
    pub t90_ms_max: Option<u64>,
    /// 99 % have.
    pub t99_ms_max: Option<u64>,
    /// All have.
    pub t100_ms_max: Option<u64>,
    /// Bytes sent, in payloads a node.
    pub sent_max: Option<f64>,
    /// Bytes sent that were of no use, in payloads a node.
    pub waste_max: Option<f64>,
    /// Share of deliveries.
    pub delivered_pct_min: Option<f64>,
}

/// How much is traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceLevel {
    /// Nothing.
    None,
    /// First and last of each node.
    #[default]
    Summary,
    /// Everything.
    Full,
}

/// What is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Output {
    /// How much is traced.
    pub trace: TraceLevel,
    /// Bytes of a trace at most.
    pub trace_bytes_max: u64,
}

impl Default for Output {
    fn default() -> Self {
        Output {
            trace: TraceLevel::Summary,
            trace_bytes_max: 1 << 30,
        }
    }
}
