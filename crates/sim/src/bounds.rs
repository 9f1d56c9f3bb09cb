//! Lower bounds on time that no protocol can beat, and one that a protocol with one chunk per peer
//! cannot.
//!
//! | bound | reason |
//! |---|---|
//! | LB1, content | B bytes pass through the receiver's downlink after the first has crossed the graph |
//! | LB2, source | B bytes leave the source before any other node has them all |
//! | LB3, capacity | all uplinks together carry B bytes for each receiver |
//! | LB4, reach | each hop multiplies the holders of a chunk by the degree |
//!
//! The first three are lower bounds: a run that is faster contains an error, and fails. The fourth is
//! only printed.

use crate::graph::Graph;
use crate::latency::Latency;
use crate::net::Rate;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds of the fastest path from `source` to each node; none if there is no path.
pub(crate) fn distances(graph: &Graph, latency: &Latency, source: u32) -> Vec<Option<u64>> {
    let mut best: Vec<Option<u64>> = vec![None; graph.nodes() as usize];
    best[source as usize] = Some(0);
    let mut heap = BinaryHeap::from([Reverse((0, source))]);
    while let Some(Reverse((at, node))) = heap.pop() {
        if best[node as usize] != Some(at) {
            continue;
        }
        for &peer in graph.peers(node) {
            let next = at + latency.base_ns(node, peer);
            if best[peer as usize].is_none_or(|known| next < known) {
                best[peer as usize] = Some(next);
                heap.push(Reverse((next, peer)));
            }
        }
    }
    best
}

/// Minimum delivery times for one source's payload of a given size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LowerBounds {
    /// For each node: the greater of LB1 and LB2; 0 for the source.
    pub node_ns: Vec<u64>,
    /// Maximum LB1 over all nodes.
    pub content_ns: u64,
    /// LB2.
    pub source_ns: u64,
    /// Time of the first hop of any message.
    hop_ns: u64,
    bytes: u64,
    up_bps: u128,
}

impl LowerBounds {
    /// The lower bounds for a payload of `bytes`; `rates` are the maximum that each node ever has.
    pub(crate) fn of(
        graph: &Graph,
        latency: &Latency,
        rates: &[Rate],
        source: u32,
        bytes: u64,
    ) -> LowerBounds {
        let neighbours = graph.peers(source).iter();
        let hop_ns = neighbours.map(|&peer| latency.base_ns(source, peer)).min();
        let hop_ns = hop_ns.unwrap_or(0);
        let wire_ns = Rate::wire_ns(bytes, rates[source as usize].up_bps);
        let source_ns = hop_ns.saturating_add(wire_ns);
        let mut content_ns = 0;
        let mut node_ns = Vec::with_capacity(rates.len());
        for ((node, distance), rate) in (0..).zip(distances(graph, latency, source)).zip(rates) {
            if node == source {
                node_ns.push(0);
                continue;
            }
            let wire_ns = Rate::wire_ns(bytes, rate.down_bps);
            let comes_ns = distance.unwrap_or(0).saturating_add(wire_ns);
            content_ns = content_ns.max(comes_ns);
            node_ns.push(comes_ns.max(source_ns));
        }
        LowerBounds {
            node_ns,
            content_ns,
            source_ns,
            hop_ns,
            bytes,
            up_bps: rates.iter().map(|rate| u128::from(rate.up_bps)).sum(),
        }
    }

    /// The lower bounds that hold for a payload of `bytes` from any source: the widest links, and no
    /// latency.
    pub(crate) fn weakest(rates: &[Rate], bytes: u64) -> LowerBounds {
        let widest = rates.iter().map(|rate| rate.up_bps).max().unwrap_or(1);
        let comes = |rate: &Rate| Rate::wire_ns(bytes, rate.down_bps.max(widest));
        LowerBounds {
            node_ns: rates.iter().map(comes).collect(),
            content_ns: 0,
            source_ns: 0,
            hop_ns: 0,
            bytes,
            up_bps: rates.iter().map(|rate| u128::from(rate.up_bps)).sum(),
        }
    }

    /// LB3: the time by which `receivers` nodes can have the payload.
    pub(crate) fn capacity_ns(&self, receivers: u64) -> u64 {
        let bytes = u128::from(self.bytes) * u128::from(receivers);
        let bits = bytes.saturating_mul(8_000_000_000);
        let ns = bits.div_ceil(self.up_bps.max(1));
        self.hop_ns
            .saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// LB4: hops of the minimum latency between neighbours, plus the payload through the slower direction of
/// the best node; `chunks` = 1 for a payload that travels whole.
pub(crate) fn reach_ns(hop_ns: u64, degree: u64, chunks: u64, rates: &[Rate], bytes: u64) -> u64 {
    let (nodes, degree) = (rates.len() as u128 * u128::from(chunks), degree.max(2));
    let (mut hops, mut reached) = (0, 1_u128);
    while reached < nodes {
        reached = reached.saturating_mul(degree.into());
        hops += 1;
    }
    let slower = |rate: &Rate| Rate::wire_ns(bytes, rate.up_bps.min(rate.down_bps));
    let wire_ns = rates.iter().map(slower).min().unwrap_or(0);
    hop_ns.saturating_mul(hops).saturating_add(wire_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    const MS: u64 = 1_000_000;

    fn constant(nodes: usize) -> Latency {
        let latency = scenario::Latency::Constant {
            ms: 70,
            jitter_pct: 0,
        };
        Latency::new(&latency, vec![0; nodes])
    }

    /// The table of bounds for 10,000 nodes, one hop from every node.
    #[test]
    fn bounds_are_their_formulas() {
        let lower_bounds = |mbps: (u64, u64), bytes| {
            let rate = Rate {
                up_bps: mbps.0 * 1_000_000,
                down_bps: mbps.1 * 1_000_000,
            };
            let graph = Graph::stars(10, &[0]).unwrap();
            LowerBounds::of(&graph, &constant(10), &[rate; 10], 0, bytes)
        };
        // 20 MB/s: L + B/X.
        for (bytes, ms) in [(118_750, 75.937_5), (1_000_000, 120.0), (16_000_000, 870.0)] {
            let lower_bounds = lower_bounds((160, 160), bytes);
            assert_eq!(lower_bounds.node_ns[1] as f64, ms * MS as f64);
            assert_eq!(lower_bounds.node_ns[0], 0);
        }
        // 50 down, 25 up: the source's uplink is the limit.
        assert_eq!(lower_bounds((25, 50), 118_750).node_ns[1], 108 * MS);
        assert_eq!(lower_bounds((25, 50), 1_000_000).node_ns[1], 390 * MS);
        // Nine receivers, ten uplinks.
        let capacity = lower_bounds((160, 160), 1_000_000).capacity_ns(9);
        assert_eq!(capacity, 115 * MS);
        assert_eq!(
            lower_bounds((160, 160), u64::MAX / 8).capacity_ns(u64::MAX),
            u64::MAX
        );
    }

    #[test]
    fn reach_is_hops_and_a_payload() {
        let rate = Rate {
            up_bps: 160_000_000,
            down_bps: 160_000_000,
        };
        let rates = vec![rate; 10_000];
        // log_8 of 10,000 is 4.4; log_80 of 160,000 is 2.7.
        assert_eq!(reach_ns(70 * MS, 8, 1, &rates, 1_000_000), 400 * MS);
        assert_eq!(reach_ns(70 * MS, 80, 16, &rates, 1_000_000), 260 * MS);
        assert_eq!(reach_ns(70 * MS, 0, 1, &rates[..2], 0), 70 * MS);
    }

    #[test]
    fn distances_are_the_fastest_ways() {
        let latency = scenario::Latency::Regions {
            matrix: "libp2p-2025".into(),
            intra_ms_min: 0,
            jitter_pct: 5,
        };
        // AU, EAS, EU: 165 direct, and 110 + 125 through East Asia.
        let latency = Latency::new(&latency, vec![0, 1, 2, 0]);
        let through = Graph::from_edges(4, vec![(0, 1), (1, 2)]).unwrap();
        let ms = |ns: Option<u64>| ns.map(|ns| ns / MS);
        let found: Vec<_> = distances(&through, &latency, 0)
            .into_iter()
            .map(ms)
            .collect();
        assert_eq!(found, [Some(0), Some(110), Some(235), None]);
        let direct = Graph::from_edges(4, vec![(0, 1), (1, 2), (0, 2)]).unwrap();
        assert_eq!(ms(distances(&direct, &latency, 0)[2]), Some(165));
    }
}
