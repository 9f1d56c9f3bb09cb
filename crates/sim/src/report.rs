//! The results of a run, and the figures and tables made from them.
//!
//! A node that never delivers counts as infinitely late: any quantile that falls on it is absent.

mod csv;
mod load;
pub mod manifest;
pub mod trace;
mod units;

pub(crate) use load::Frame;
pub use load::{ALL, ClassLoad, KindSent, Loads, PhaseLoad, Rates};
pub use units::ms;

pub use csv::{SUMMARY_HEAD, cdf, nodes, series, summary_row};

pub use crate::net::BIN_NS;
use crate::net::Tally;
use crate::role::{Role, Wire};
use crate::scenario::Expect;
use crate::world::{Probe, World};
use manifest::{ChainFigures, Figures, VoteFigures};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Record of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its number.
    pub node: u32,
    /// Index of its class in the scenario.
    pub class: u16,
    /// Index of its region, 0 without regions.
    pub region: u8,
    /// Its role: `source`, `relay`, or the name of a fault.
    pub role: &'static str,
    /// Time from publication until it first received a part of a payload.
    pub first_ns: Option<u64>,
    /// Time from publication until it had delivered the payload published last.
    pub done_ns: Option<u64>,
    /// Bytes sent, headers and control included.
    pub bytes_up: u64,
    /// Bytes received.
    pub bytes_down: u64,
    /// Messages sent.
    pub msgs: u64,
    /// Bytes received that carried nothing new.
    pub dup_bytes: u64,
    /// Core time used.
    pub cpu_ns: u64,
    /// Maximum bytes in its uplink queue.
    pub queue_peak_bytes: u64,
    /// Maximum bits sent in any one second.
    pub peak_1s_up_bps: u64,
    /// Maximum bits received in any one second.
    pub peak_1s_down_bps: u64,
    /// Maximum core time in any one second of jobs of 20 µs or more.
    pub peak_1s_jobs_ns: u64,
}

impl NodeRecord {
    /// The record of a node from its counters.
    pub(crate) fn counted(node: u32, tally: &Tally) -> Self {
        NodeRecord {
            node,
            bytes_up: tally.bytes_up,
            bytes_down: tally.bytes_down,
            msgs: u64::from(tally.messages),
            cpu_ns: tally.cpu_ns,
            queue_peak_bytes: tally.queue_peak_bytes,
            peak_1s_up_bps: tally.peak_1s_up_bps(),
            peak_1s_down_bps: tally.peak_1s_down_bps(),
            peak_1s_jobs_ns: tally.peak_1s_jobs_ns(),
            ..NodeRecord::default()
        }
    }
}

/// Bytes sent in one time bin by messages of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Start of the bin.
    pub from_ns: u64,
    /// Kind of the messages.
    pub kind: &'static str,
    /// Messages sent.
    pub msgs: u64,
    /// Bytes sent.
    pub bytes: u64,
}

impl Bin {
    /// All messages sent by the nodes of a world.
    pub(crate) fn all<R: Role, W: Probe<R>>(world: &World<R, W>) -> Vec<Bin> {
        let bin = |(bin, kind, msgs, bytes): (u64, usize, u64, u64)| Bin {
            from_ns: bin * BIN_NS,
            kind: R::Message::KINDS[kind],
            msgs,
            bytes,
        };
        world.series().map(bin).collect()
    }
}

/// Lower bounds on the delivery time; no run can beat the first three. Files give them in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Content: the maximum over nodes of path latency plus B over the node's downlink.
    #[serde(rename = "lb1_ms", with = "units::as_ms")]
    pub lb1_ns: u64,
    /// Source: latency plus B over the source's uplink.
    #[serde(rename = "lb2_ms", with = "units::as_ms")]
    pub lb2_ns: u64,
    /// Capacity: latency plus (n - 1)·B over the sum of all uplinks.
    #[serde(rename = "lb3_ms", with = "units::as_ms")]
    pub lb3_ns: u64,
    /// Reach, with one chunk per peer: latency of the hops plus B over the slower direction.
    #[serde(rename = "lb4_ms", with = "units::as_ms")]
    pub lb4_ns: u64,
}

/// How honest nodes handled bad messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adversity {
    /// Messages that honest nodes rejected, by reason; reasons that never occurred are left out.
    pub refused: BTreeMap<String, u64>,
    /// Reports of honest nodes about a neighbour, by reason.
    pub reports: BTreeMap<String, u64>,
    /// Number of nodes against which an honest node has proof.
    pub accused: u32,
    /// Number of honest nodes with proof against a source.
    pub evidence: u32,
}

/// Outcome of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Total bytes of all payloads that every node should deliver.
    pub payload_bytes: u64,
    /// A record of each node, by its number.
    pub nodes: Vec<NodeRecord>,
    /// Time from publication to delivery, for each payload and each honest node that is up; absent if the
    /// node never delivered it.
    pub delays_ns: Vec<Option<u64>>,
    /// Bytes sent by message kind over time.
    pub series: Vec<Bin>,
    /// Payload bytes received for the first time, over all nodes.
    pub useful_bytes: u64,
    /// Whether the run ended while messages were in flight, so that the bytes sent are incomplete.
    pub sent_truncated: bool,
    /// Lower bounds.
    pub bounds: Bounds,
    /// How honest nodes handled bad messages.
    pub adversity: Adversity,
    /// Number of events handled.
    pub events: u64,
    /// Number of messages received by nodes.
    pub received: u64,
    /// Hash of the events.
    pub event_hash: u64,
    /// The run's answer to its question, in one line; empty if there is none.
    pub verdict: String,
    /// Outcome of the votes, for a run of a slot.
    pub votes: Option<Votes>,
    /// Outcome of the chain, for a run of several slots.
    pub chain: Option<ChainFigures>,
    /// Traffic and computing load by class of nodes.
    pub loads: Loads,
}

/// Outcome of the votes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Votes {
    /// Votes cast.
    pub cast: u64,
    /// Number of those included in the next block.
    pub in_block: u64,
    /// Time from the start of the voting phase until the proposer has two thirds of the votes; absent if
    /// never.
    pub two_thirds_ns: Option<u64>,
    /// The same for 99 %.
    pub most_ns: Option<u64>,
    /// Number of slots in the run; the figures above are for the last one.
    pub slots: u32,
    /// Connections of the median node and of the node with the most, over all slots of the run.
    pub connections: [u64; 2],
}

/// The value not exceeded by `permille` of the sorted values (nearest rank).
pub fn quantile<T: Copy>(sorted: &[T], permille: usize) -> Option<T> {
    // `max(1)`, so that a quantile of 0 is the smallest value.
    let rank = (sorted.len() * permille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied()
}

/// The same for values in any order; 0 if there are none.
pub fn quantile_of(values: impl Iterator<Item = u64>, permille: usize) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    quantile(&values, permille).unwrap_or(0)
}

/// Times in ascending order; absent ones count as late.
pub(crate) struct Times(Vec<u64>);

impl Times {
    pub(crate) fn of(times: impl Iterator<Item = Option<u64>>) -> Self {
        // The maximum sorts last and stands for "never": a quantile that reaches it is absent.
        let mut times: Vec<u64> = times.map(|time| time.unwrap_or(u64::MAX)).collect();
        times.sort_unstable();
        Times(times)
    }

    /// The time not exceeded by `permille` of them; none if that one is absent.
    pub(crate) fn at(&self, permille: usize) -> Option<u64> {
        quantile(&self.0, permille).filter(|&time| time != u64::MAX)
    }
}

impl Outcome {
    /// The counters of a world, with the records of its nodes.
    pub(crate) fn counted<R: Role, W: Probe<R>>(
        world: &World<R, W>,
        seed: u64,
        frame: &Frame,
        classes: &[&str],
        nodes: Vec<NodeRecord>,
    ) -> Self {
        let series = Bin::all(world);
        Outcome {
            seed,
            loads: Loads::of(frame, classes, world.loads(), &nodes, &series),
            nodes,
            series,
            events: world.events(),
            received: world.received(),
            event_hash: world.event_hash(),
            ..Outcome::default()
        }
    }

    /// The summary figures of the run.
    pub fn summary(&self) -> Figures {
        let delays = Times::of(self.delays_ns.iter().copied());
        let at = |permille| delays.at(permille);
        let delivered = self.delays_ns.iter().flatten().count();
        let sorted = |value: fn(&NodeRecord) -> u64| {
            let mut values: Vec<u64> = self.nodes.iter().map(value).collect();
            values.sort_unstable();
            values
        };
        let total = |value: fn(&NodeRecord) -> u64| {
            let values = self.nodes.iter().map(value);
            values.map(u128::from).sum::<u128>()
        };
        let content = u128::from(self.payload_bytes) * self.nodes.len() as u128;
        // Without payloads there is nothing to compare with; the ratios are then numbers of bytes.
        let ratio = |bytes: u128| bytes as f64 / content.max(1) as f64;
        let up = sorted(|node| node.bytes_up);
        let sent = total(|node| node.bytes_up);
        Figures {
            t50_ns: at(500),
            t90_ns: at(900),
            t95_ns: at(950),
            t99_ns: at(990),
            t100_ns: at(1000),
            delivered_pct: 100.0 * delivered as f64 / self.delays_ns.len().max(1) as f64,
            sent_ratio: ratio(sent),
            sent_truncated: self.sent_truncated,
            // Votes and aggregates are no payload that every node should have, so no bytes of theirs are waste
            // by comparison.
            waste_ratio: match self.votes {
                Some(_) => None,
                None => Some(ratio(sent.saturating_sub(self.useful_bytes.into()))),
            },
            dup_ratio: ratio(total(|node| node.dup_bytes)),
            lb: self.bounds,
            bytes_up_p50: quantile(&up, 500).unwrap_or(0),
            bytes_up_p99: quantile(&up, 990).unwrap_or(0),
            cpu_ns_p99: quantile(&sorted(|node| node.cpu_ns), 990).unwrap_or(0),
            events: self.events,
            received: self.received,
            event_hash: format!("{:016x}", self.event_hash),
            votes: VoteFigures::of(self),
            chain: self.chain,
            loads: self.loads.classes.clone(),
            sent: self.loads.sent.clone(),
        }
    }
}

/// An expectation about a figure, and the value found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Name of the figure.
    pub name: &'static str,
    /// Expected value.
    pub expected: String,
    /// Value found.
    pub found: String,
    /// Whether the expectation holds.
    pub holds: bool,
}

impl Figures {
    /// All expectations about figures.
    pub fn expected(&self, expect: &Expect) -> Vec<Expected> {
        let times = [
            ("t50", self.t50_ns, expect.t50_ms_max),
            ("t90", self.t90_ns, expect.t90_ms_max),
            ("t99", self.t99_ns, expect.t99_ms_max),
            ("t100", self.t100_ns, expect.t100_ms_max),
        ];
        let ratios = [
            ("sent", Some(self.sent_ratio), expect.sent_max),
            ("waste", self.waste_ratio, expect.waste_max),
        ];
        let time = |(name, ns, most_ms): (&'static str, Option<u64>, Option<u64>)| {
            let most_ms = most_ms?;
            Some(Expected {
                name,
                expected: format!("{most_ms} ms"),
                // Rounded up: a time just above the limit must not be printed as if it were equal to it.
                found: ns.map_or("none".into(), |ns| format!("{} ms", ns.div_ceil(1_000_000))),
                holds: ns.is_some_and(|ns| ns <= most_ms.saturating_mul(1_000_000)),
            })
        };
        let ratio = |(name, value, most): (&'static str, Option<f64>, Option<f64>)| {
            let most = most?;
            Some(Expected {
                name,
                expected: format!("at most {most}"),
                found: value.map_or("none".into(), |value| format!("{value:.3}")),
                holds: value.is_some_and(|value| value <= most),
            })
        };
        let delivered = expect.delivered_pct_min.map(|least| Expected {
            name: "delivered",
            expected: format!("{least} %"),
            found: format!("{:.3} %", self.delivered_pct),
            holds: self.delivered_pct >= least,
        });
        let times = times.into_iter().filter_map(time);
        let ratios = ratios.into_iter().filter_map(ratio);
        times.chain(ratios).chain(delivered).collect()
    }

    /// The expectations that do not hold, one per line.
    pub fn failures(&self, expect: &Expect) -> Vec<String> {
        let all = self.expected(expect).into_iter();
        let line =
            |one: Expected| format!("{} = {}, expected {}", one.name, one.found, one.expected);
        all.filter(|one| !one.holds).map(line).collect()
    }
}

#[cfg(test)]
mod tests;
