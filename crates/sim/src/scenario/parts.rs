//! The tables of a scenario, with their defaults.

/// Defines an enumeration whose words are written only once, for use in scenarios and in reports.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Word for this value in a scenario.
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

/// The payloads, each sent from one source to all nodes. Horn and the tree generate their own
/// traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traffic {
    /// Size of a payload in bytes.
    pub bytes: u64,
    /// Class of the sources; any class if absent.
    pub source_class: Option<String>,
    /// Number of payloads.
    pub count: u32,
    /// Time between payloads.
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

/// Cost of computing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Compute {
    /// File with the costs of the signature scheme, relative to the scenario.
    pub costs: Option<String>,
    /// File with the costs of the codes, relative to the scenario.
    pub code_costs: Option<String>,
    /// Cost of handling one message.
    pub handle_ns: u64,
    /// Scale factor for all costs in the tables, in percent.
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

/// Conditions that must hold, or the run fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Time by which half of the nodes must have delivered.
    pub t50_ms_max: Option<u64>,
    /// The same for 90 % of them.
    pub t90_ms_max: Option<u64>,
    /// The same for 99 % of them.
    pub t99_ms_max: Option<u64>,
    /// The same for all of them.
    pub t100_ms_max: Option<u64>,
    /// Maximum bytes sent, in payloads per node.
    pub sent_max: Option<f64>,
    /// Maximum useless bytes sent, in payloads per node.
    pub waste_max: Option<f64>,
    /// Minimum share of deliveries.
    pub delivered_pct_min: Option<f64>,
}

/// How much is traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceLevel {
    /// Nothing.
    None,
    /// First and last event of each node.
    #[default]
    Summary,
    /// Everything.
    Full,
}

/// What to record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Output {
    /// How much is traced.
    pub trace: TraceLevel,
    /// Maximum size of a trace in bytes.
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
