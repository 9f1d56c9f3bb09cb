//! Nodes, seeds and stop condition.

use serde::{Deserialize, Serialize};

/// Nodes, seeds and stop condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sim {
    /// Seeds as `"1..20"` (both ends included), or one number.
    #[serde(default)]
    pub seeds: Seeds,
    /// What is computed for real.
    #[serde(default)]
    pub mode: Mode,
    /// Number of nodes.
    pub nodes: u32,
    /// When a run ends.
    #[serde(default)]
    pub stop: Stop,
    /// Maximum number of events in a run; exceeding it is a failure.
    #[serde(default = "events_max")]
    pub events_max: u64,
    /// Maximum virtual time of a run; exceeding it is a failure.
    #[serde(default = "sim_time_max_ms")]
    pub sim_time_max_ms: u64,
    /// Maximum wall-clock time of a run; exceeding it is a failure.
    #[serde(default = "wall_time_max_s")]
    pub wall_time_max_s: u64,
}

fn events_max() -> u64 {
    100_000_000_000
}
fn sim_time_max_ms() -> u64 {
    1_000_000
}
fn wall_time_max_s() -> u64 {
    3600
}

/// A range of seeds, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SeedsText", into = "String")]
pub struct Seeds {
    /// The first seed.
    pub first: u64,
    /// The last seed.
    pub last: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SeedsText {
    One(u64),
    Range(String),
}

impl Seeds {
    /// A range of one seed.
    pub fn one(seed: u64) -> Seeds {
        Seeds {
            first: seed,
            last: seed,
        }
    }

    /// Number of seeds in the range.
    pub fn count(self) -> u64 {
        // Parsing has checked the order of the two.
        (self.last - self.first).saturating_add(1)
    }
}

impl Default for Seeds {
    fn default() -> Self {
        Seeds::one(1)
    }
}

impl TryFrom<SeedsText> for Seeds {
    type Error = String;

    fn try_from(text: SeedsText) -> Result<Self, String> {
        match text {
            SeedsText::One(seed) => Ok(Seeds::one(seed)),
            SeedsText::Range(text) => text.parse(),
        }
    }
}

impl std::str::FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("seeds = {text:?}: expected a number or a range as \"1..20\"");
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let (first, last) = (number(first)?, number(last)?);
        if first <= last {
            Ok(Seeds { first, last })
        } else {
            Err(wrong())
        }
    }
}

impl From<Seeds> for String {
    fn from(seeds: Seeds) -> String {
        format!("{}..{}", seeds.first, seeds.last)
    }
}

/// What is computed for real.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Payloads are only sizes; code rows, bitfields and indices are real.
    #[default]
    Rank,
    /// Real bytes and real cryptography, for small numbers of nodes.
    Bytes,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// When nothing is in flight and no node is computing.
    #[default]
    Quiescence,
    /// When every honest node that is up has delivered; the traffic figures are then truncated.
    AllDelivered,
    /// When 99 % of them have delivered; the traffic figures are then truncated.
    T99,
    /// At this time.
    TimeMs(u64),
    /// After this many events.
    Events(u64),
}
