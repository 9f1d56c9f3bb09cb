//! Times that no slot can beat, from the start of the vote phase until nodes have 99 % of the votes.
//!
//! A node has them when it has collections with that many signers. No collection is published before its phase
//! starts, which is the first term of each bound. The rest of each bound is:
//!
//! | bound | what follows |
//! |---|---|
//! | LB1, content | a hop, and the bytes that a node lacks through its downlink |
//! | LB2, source | one collector of each committee sends its collection through its uplink |
//! | LB3, capacity | all uplinks together carry what all nodes lack |
//! | LB4, reach | hops in a mesh of this degree, and the bytes once |
//!
//! The bytes are those of the smallest published collections that can suffice. A node need not receive what it
//! collected itself. The first three are lower bounds: a run that beats them has an error.

use super::message::EvidenceBody;
use super::milestones::{Milestones, SHARES_PERMILLE};
use super::plan::Plan;
use super::violation::Violation;
use crate::bounds::reach_ns;
use crate::graph::Graph;
use crate::latency::Latency;
use crate::net::Rate;
use crate::report::Bounds;
use alphorn_proto::slot::Phase;
use std::sync::Arc;

/// The best possible values over a committee's collections, each taken separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Least {
    bytes: u64,
    /// Time on one collector's uplink.
    up_ns: u64,
    /// Nodes that host a collector.
    hosts: Vec<u32>,
}

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Floor {
    bounds: Bounds,
    /// Start of the vote phase, relative to the slot.
    begin_ns: u64,
    /// For each node, relative to the slot.
    node_ns: Vec<u64>,
}

/// The network that collections travel through.
pub(super) struct Ground<'a> {
    pub(super) graph: &'a Graph,
    pub(super) latency: &'a Latency,
    /// The highest rates that each node ever has.
    pub(super) rates: &'a [Rate],
}

impl Floor {
    /// Computes the bounds for these published collections, by committee. There are none if the collections do not
    /// suffice.
    pub(super) fn of(
        plan: &Plan,
        collections: &[Vec<Arc<EvidenceBody>>],
        ground: &Ground<'_>,
    ) -> Floor {
        let begin_ns = plan.phase_start(Phase::Vote).as_nanos();
        let Some(needed) = needed(collections, plan.voters.count()) else {
            return Floor::default();
        };
        let least: Vec<Least> = collections
            .iter()
            .map(|row| least(row, plan, ground.rates))
            .collect();
        let top = plan.config.layout.levels();
        let start_ns = plan.phase_start(Phase::Level(top)).as_nanos();
        let nodes = 0..plan.nodes;
        let lacks: Vec<u64> = nodes
            .clone()
            // The shortest collections need not be the largest ones. Each bound may take the best of everything, as
            // it is then only lower.
            .map(|node| smallest(least.iter().map(|one| one.bytes_for(node)), needed))
            .collect();
        let hops: Vec<u64> = nodes.map(|node| ground.hop_ns(node)).collect();
        let hop_ns = hops.iter().copied().min().unwrap_or(0);
        let comes = |((bytes, hop_ns), rate): ((&u64, &u64), &Rate)| match bytes {
            // A node that hosts collectors of enough committees need not receive anything.
            0 => start_ns,
            bytes => start_ns + hop_ns + Rate::wire_ns(*bytes, rate.down_bps),
        };
        let node_ns: Vec<u64> = lacks
            .iter()
            .zip(&hops)
            .zip(ground.rates)
            .map(comes)
            .collect();
        let mut ups: Vec<u64> = least.iter().map(|one| one.up_ns).collect();
        ups.sort_unstable();
        let most = lacks.iter().copied().max().unwrap_or(0);
        let all: u128 = lacks.iter().map(|bytes| u128::from(*bytes)).sum();
        let up_bps: u128 = ground
            .rates
            .iter()
            .map(|rate| u128::from(rate.up_bps))
            .sum();
        // In 128 bits: a kilobyte of each of 32 committees at 10^5 nodes, times this factor, exceeds 64.
        let carried = (all * 8_000_000_000).div_ceil(up_bps.max(1));
        let carried_ns = u64::try_from(carried).unwrap_or(u64::MAX);
        let degree = u64::from(plan.gossip.degree);
        let since = |ns: u64| ns.saturating_add(start_ns - begin_ns);
        Floor {
            bounds: Bounds {
                lb1_ns: node_ns.iter().copied().max().unwrap_or(begin_ns) - begin_ns,
                // The slowest of as many committees as are needed, if these are the fastest ones.
                lb2_ns: since(hop_ns + needed.checked_sub(1).map_or(0, |last| ups[last])),
                lb3_ns: since(carried_ns),
                lb4_ns: since(reach_ns(hop_ns, degree, 1, ground.rates, most)),
            },
            begin_ns,
            node_ns,
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The rule that a run violates, given when each node had which share.
    pub(super) fn broken(&self, milestones: &[Milestones]) -> Option<Violation> {
        let last = SHARES_PERMILLE.len() - 1;
        let at_ns = || milestones.iter().map(|times| times.at_ns[last]);
        let early = (0..).zip(at_ns()).zip(&self.node_ns);
        let mut early = early.filter_map(|((node, at_ns), least_ns)| {
            let at_ns = at_ns.filter(|at_ns| at_ns < least_ns)?;
            Some((node, at_ns, *least_ns))
        });
        if let Some((node, at_ns, least_ns)) = early.next() {
            return Some(Violation::Early {
                node,
                at_ns,
                least_ns,
            });
        }
        // There is nothing to compare unless every node has them.
        let whole: Option<Vec<u64>> = at_ns().collect();
        let (at_ns, least_ns) = (
            whole?.into_iter().max()?,
            self.begin_ns + self.bounds.lb3_ns,
        );
        (at_ns < least_ns).then_some(Violation::Carried { at_ns, least_ns })
    }
}

impl Least {
    /// Bytes from this committee that a node must receive.
    fn bytes_for(&self, node: u32) -> u64 {
        match self.hosts.contains(&node) {
            true => 0,
            false => self.bytes,
        }
    }
}

impl Ground<'_> {
    /// The lowest latency from any neighbour to a node.
    fn hop_ns(&self, node: u32) -> u64 {
        let peers = self.graph.peers(node).iter();
        // Jitter only adds to it.
        let hops = peers.map(|&peer| self.latency.base_ns(peer, node));
        hops.min().unwrap_or(0)
    }
}

fn least(row: &[Arc<EvidenceBody>], plan: &Plan, rates: &[Rate]) -> Least {
    let host = |body: &Arc<EvidenceBody>| plan.host(body.sender);
    let up = |body: &Arc<EvidenceBody>| {
        Rate::wire_ns(body.data.len() as u64, rates[host(body) as usize].up_bps)
    };
    Least {
        bytes: row
            .iter()
            .map(|body| body.data.len() as u64)
            .min()
            .unwrap_or(0),
        up_ns: row.iter().map(up).min().unwrap_or(0),
        hosts: row.iter().map(host).collect(),
    }
}

/// Minimum number of committees from which a node must have a collection; none if even all do not suffice.
fn needed(collections: &[Vec<Arc<EvidenceBody>>], votes: u64) -> Option<usize> {
    let best = |row: &Vec<Arc<EvidenceBody>>| row.iter().map(|body| body.votes).max();
    let best = collections.iter().map(|row| best(row).unwrap_or(0));
    let mut best: Vec<u64> = best.map(u64::from).collect();
    // With the largest first, no other choice of committees suffices with fewer.
    best.sort_unstable_by_key(|votes| std::cmp::Reverse(*votes));
    let share = SHARES_PERMILLE[SHARES_PERMILLE.len() - 1];
    let enough = |sum: u64| u128::from(sum) * 1000 >= u128::from(votes) * u128::from(share);
    let mut sum = 0;
    if enough(sum) {
        return Some(0);
    }
    let grown = best.iter().map(|votes| {
        sum += votes;
        sum
    });
    let at = grown.map(enough).position(|enough| enough)?;
    Some(at + 1)
}

/// The sum of the `count` smallest values.
fn smallest(values: impl Iterator<Item = u64>, count: usize) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.iter().take(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_types::{Bitfield, Slot, Support, Unit};

    fn body(votes: u32, bytes: usize) -> Arc<EvidenceBody> {
        Arc::new(EvidenceBody {
            slot: Slot(0),
            unit: Unit::default(),
            sender: 0,
            support: Arc::new(Support::new(8)),
            signers: Bitfield::new(8),
            votes,
            parts: Arc::from([]),
            data: vec![0; bytes].into(),
        })
    }

    #[test]
    fn as_few_committees_as_can_suffice_are_counted() {
        let rows = [vec![body(600, 9), body(700, 8)], vec![body(290, 7)]];
        assert_eq!(needed(&rows, 1000), Some(2));
        assert_eq!(needed(&rows, 700), Some(1));
        assert_eq!(needed(&rows, 0), Some(0));
        assert_eq!(needed(&rows, 1001), None, "990 of 1001 are less than 99 %");
        assert_eq!(needed(&[], 1), None);
        assert_eq!(smallest([5, 1, 3].into_iter(), 2), 4);
        let own = Least {
            bytes: 8,
            up_ns: 1,
            hosts: vec![4],
        };
        assert_eq!((own.bytes_for(4), own.bytes_for(5)), (0, 8));
    }

    #[test]
    fn whoever_is_early_is_named() {
        let floor = Floor {
            bounds: Bounds {
                lb3_ns: 40,
                ..Bounds::default()
            },
            begin_ns: 10,
            node_ns: vec![20, 30],
        };
        let at = |ns: u64| Milestones {
            at_ns: [Some(1), Some(2), Some(ns)],
        };
        let none = Milestones::default();
        assert_eq!(floor.broken(&[at(20), none]), None);
        assert_eq!(floor.broken(&[at(20), at(50)]), None);
        let early = Violation::Early {
            node: 1,
            at_ns: 29,
            least_ns: 30,
        };
        assert_eq!(floor.broken(&[none, at(29)]), Some(early));
        let carried = Violation::Carried {
            at_ns: 49,
            least_ns: 50,
        };
        assert_eq!(floor.broken(&[at(20), at(49)]), Some(carried));
    }
}
