//! How long blocks and collections took from the node that made them to all others: all nodes have the
//! clock of one machine.

use alphorn_node::telemetry::{Arrival, Summary};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// How messages of a kind came to all nodes but their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Spread {
    /// Messages.
    messages: usize,
    /// Bytes of each: the median, and the most.
    bytes_p50: u64,
    bytes_max: u64,
    /// Arrivals, and those that are lacking.
    came: usize,
    lacking: usize,
    /// Milliseconds from publication to arrival: half, 95 and 99 of a hundred, all of those that came.
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

/// Which message: kind, slot, source, index.
type Name<'a> = (&'a str, u64, u32, u32);

fn name(arrival: &Arrival) -> Name<'_> {
    let Arrival {
        kind,
        slot,
        source,
        index,
        ..
    } = arrival;
    (kind, *slot, *source, *index)
}

/// By kind, of the messages of some slots.
pub(super) fn spreads(nodes: &[Summary], slots: &Range<u64>) -> BTreeMap<String, Spread> {
    let known: Vec<BTreeMap<Name<'_>, &Arrival>> = nodes
        .iter()
        .map(|node| node.arrivals.iter().map(|one| (name(one), one)).collect())
        .collect();
    let mut by_kind: BTreeMap<String, (Vec<u64>, Vec<f64>, usize)> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let own = node.arrivals.iter().filter(|one| one.is_own);
        for own in own.filter(|one| slots.contains(&one.slot)) {
            let (bytes, times, lacking) = by_kind.entry(own.kind.clone()).or_default();
            bytes.push(own.bytes);
            let others = known.iter().enumerate().filter(|(other, _)| *other != at);
            for (_, known) in others {
                match known.get(&name(own)) {
                    Some(came) => times.push(came.at_ns.saturating_sub(own.at_ns) as f64 / 1e6),
                    None => *lacking += 1,
                }
            }
        }
    }
    let spread = |(kind, (bytes, times, lacking))| (kind, Spread::of(bytes, times, lacking));
    by_kind.into_iter().map(spread).collect()
}

impl Spread {
    fn of(mut bytes: Vec<u64>, mut times: Vec<f64>, lacking: usize) -> Self {
        bytes.sort_unstable();
        times.sort_by(f64::total_cmp);
        // The least time within which so many of a hundred came.
        let within = |percent: usize| {
            let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(at).copied().unwrap_or(0.0)
        };
        Spread {
            messages: bytes.len(),
            bytes_p50: bytes.get(bytes.len() / 2).copied().unwrap_or(0),
            bytes_max: bytes.last().copied().unwrap_or(0),
            came: times.len(),
            lacking,
            p50_ms: within(50),
            p95_ms: within(95),
            p99_ms: within(99),
            max_ms: within(100),
        }
    }

    /// A line for people.
    pub(super) fn line(&self, kind: &str) -> String {
        format!(
            "{} {kind}s of {:.1} kB (median; most {:.1}) came to other nodes {:.1} / {:.1} / {:.1} ms \
             (median / 99 % / last) after their publication, {} are lacking\n",
            self.messages,
            self.bytes_p50 as f64 / 1e3,
            self.bytes_max as f64 / 1e3,
            self.p50_ms,
            self.p99_ms,
            self.max_ms,
            self.lacking,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(arrivals: &[(u64, u32, u64)]) -> Summary {
        let arrival = |&(slot, source, at_ms): &(u64, u32, u64)| Arrival {
            kind: "block".into(),
            slot,
            source,
            index: 0,
            bytes: 1_000 * slot,
            is_own: false,
            at_ns: at_ms * 1_000_000,
        };
        Summary {
            arrivals: arrivals.iter().map(arrival).collect(),
            ..Summary::default()
        }
    }

    #[test]
    fn a_message_is_followed_from_its_own_node_to_all_others() {
        let mut nodes = [
            node(&[(2, 0, 100), (3, 1, 260)]),
            node(&[(2, 0, 130), (3, 1, 240)]),
            node(&[(2, 0, 150)]),
        ];
        nodes[0].arrivals[0].is_own = true;
        nodes[1].arrivals[1].is_own = true;
        let all = spreads(&nodes, &(2..4));
        let expected = Spread {
            messages: 2,
            bytes_p50: 3_000,
            bytes_max: 3_000,
            came: 3,
            lacking: 1,
            p50_ms: 30.0,
            p95_ms: 50.0,
            p99_ms: 50.0,
            max_ms: 50.0,
        };
        assert_eq!(all, [("block".to_owned(), expected)].into());
        assert_eq!(spreads(&nodes, &(3..4))["block"].lacking, 1);
        assert!(spreads(&nodes, &(4..9)).is_empty());
    }
}
