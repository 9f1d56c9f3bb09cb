//! The results of a run, and the figures and tables made from them.
//!
//! A node that never delivers counts as infinitely late: any quantile that falls on it is absent.

mod adversity;
mod csv;
mod floor;
mod load;
pub mod manifest;
mod quantile;
mod record;
pub mod trace;
mod units;

pub use adversity::Adversity;
pub use floor::Bounds;
pub(crate) use load::Frame;
pub use load::{ALL, ClassLoad, KindSent, Loads, PhaseLoad, Rates};
pub(crate) use quantile::Times;
pub use quantile::{quantile, quantile_of};
pub use record::{Bin, NodeRecord};
pub use units::ms;

pub use csv::{SUMMARY_HEAD, cdf, nodes, series, summary_row};

pub use crate::net::BIN_NS;
use crate::role::Role;
use crate::scenario::Expect;
use crate::world::{Probe, World};
use manifest::{ChainFigures, Figures, VoteFigures};

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

impl VoteFigures {
    fn of(outcome: &Outcome) -> Option<Self> {
        let votes = outcome.votes?;
        let sent: u64 = outcome.nodes.iter().map(|node| node.bytes_up).sum();
        let slots = f64::from(votes.slots.max(1));
        Some(VoteFigures {
            cast: votes.cast,
            in_block: votes.in_block,
            two_thirds_ms: votes.two_thirds_ns.map(ms),
            most_ms: votes.most_ns.map(ms),
            sent_mb: sent as f64 / outcome.nodes.len().max(1) as f64 / slots / 1e6,
            connections_p50: votes.connections[0],
            connections_max: votes.connections[1],
        })
    }
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
