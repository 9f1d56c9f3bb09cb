//! How long blocks and collections took from their source to all other nodes. All nodes share the clock
//! of one host.

use alphorn_node::telemetry::{Arrival, Summary};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Arrivals of one kind of message at all nodes other than the source.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Spread {
    /// Number of messages, and the slots of the first and last of them.
    messages: usize,
    slots: [u64; 2],
    /// Bytes of each: the median and the maximum.
    bytes_p50: u64,
    bytes_max: u64,
    /// Number of arrivals, and of missing ones.
    came: usize,
    lacking: usize,
    /// Milliseconds from publication to arrival: percentiles 50, 95, 99 and 100 of those that arrived.
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

/// Message identifier: kind, slot, source, index.
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

/// The arrivals that a node reported in its last life.
struct Receiver<'a> {
    arrivals: BTreeMap<Name<'a>, &'a Arrival>,
    /// The first slot whose messages count as missing if they are not there: the node took part in it
    /// from its start, and has forgotten none of its messages.
    since: u64,
}

impl<'a> Receiver<'a> {
    fn new(node: &'a Summary) -> Self {
        let mut slots: Vec<u64> = node.arrivals.iter().map(|one| one.slot).collect();
        slots.sort_unstable();
        // A full memory has dropped its oldest arrivals, and of the oldest slot left it may have kept
        // only a part.
        let forgotten = slots.len().checked_sub(Arrival::REMEMBERED_MAX);
        let whole = forgotten.map_or(0, |at| slots[at] + 1);
        Receiver {
            arrivals: node.arrivals.iter().map(|one| (name(one), one)).collect(),
            since: node.first_slot.max(whole),
        }
    }
}

/// Statistics on the messages of a kind.
#[derive(Default)]
struct Sent {
    bytes: Vec<u64>,
    slots: BTreeSet<u64>,
    times: Vec<f64>,
    lacking: usize,
}

/// Returns the arrivals by kind, for messages of some slots that their source remembers and that
/// another node was to receive.
pub(super) fn spreads(nodes: &[Summary], slots: &BTreeSet<u64>) -> BTreeMap<String, Spread> {
    let receivers: Vec<Receiver<'_>> = nodes.iter().map(Receiver::new).collect();
    let mut by_kind: BTreeMap<String, Sent> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let own = node.arrivals.iter().filter(|one| one.is_own);
        for own in own.filter(|one| slots.contains(&one.slot)) {
            let others = receivers.iter().enumerate();
            let others = others.filter(|(other, one)| *other != at && one.since <= own.slot);
            let mut others = others.peekable();
            if others.peek().is_none() {
                continue;
            }
            let sent = by_kind.entry(own.kind.clone()).or_default();
            sent.bytes.push(own.bytes);
            sent.slots.insert(own.slot);
            for (_, receiver) in others {
                match receiver.arrivals.get(&name(own)) {
                    Some(came) => {
                        let ns = came.at_ns.saturating_sub(own.at_ns);
                        sent.times.push(ns as f64 / 1e6);
                    }
                    None => sent.lacking += 1,
                }
            }
        }
    }
    let spread = |(kind, sent)| (kind, Spread::of(sent));
    by_kind.into_iter().map(spread).collect()
}

impl Spread {
    fn of(sent: Sent) -> Self {
        let (mut bytes, mut times) = (sent.bytes, sent.times);
        bytes.sort_unstable();
        times.sort_by(f64::total_cmp);
        // The shortest time within which this percentage arrived.
        let within = |percent: usize| {
            let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(at).copied().unwrap_or(0.0)
        };
        Spread {
            messages: bytes.len(),
            slots: [sent.slots.first(), sent.slots.last()].map(|slot| slot.copied().unwrap_or(0)),
            bytes_p50: bytes.get(bytes.len() / 2).copied().unwrap_or(0),
            bytes_max: bytes.last().copied().unwrap_or(0),
            came: times.len(),
            lacking: sent.lacking,
            p50_ms: within(50),
            p95_ms: within(95),
            p99_ms: within(99),
            max_ms: within(100),
        }
    }

    /// Formats a line for a human reader.
    pub(super) fn line(&self, kind: &str) -> String {
        format!(
            "{} {kind}s of slots {} to {}, of {:.1} kB (median; most {:.1}), came to other nodes \
             {:.1} / {:.1} / {:.1} ms (median / 99 % / last) after their publication, {} are lacking\n",
            self.messages,
            self.slots[0],
            self.slots[1],
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

    fn slots(range: std::ops::Range<u64>) -> BTreeSet<u64> {
        range.collect()
    }

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
        let all = spreads(&nodes, &slots(2..4));
        let expected = Spread {
            messages: 2,
            slots: [2, 3],
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
        assert_eq!(spreads(&nodes, &slots(3..4))["block"].lacking, 1);
        assert!(spreads(&nodes, &slots(4..9)).is_empty());
    }

    #[test]
    fn a_node_lacks_nothing_of_before_its_start_or_that_it_forgot() {
        let own = |arrivals: &[(u64, u32, u64)]| {
            let mut node = node(arrivals);
            node.arrivals.iter_mut().for_each(|one| one.is_own = true);
            node
        };
        let sender = own(&[(2, 0, 100), (3, 0, 200), (4, 0, 300), (5, 0, 400)]);
        // A node that was killed and signs again from slot 4 on.
        let restarted = Summary {
            first_slot: 4,
            ..node(&[(5, 0, 410)])
        };
        let lives = [sender.clone(), restarted];
        let block = &spreads(&lives, &slots(2..9))["block"];
        assert_eq!((block.messages, block.came, block.lacking), (2, 1, 1));
        assert_eq!(block.slots, [4, 5]);
        // A node that remembers as much as it can: slot 3 and earlier ones may be forgotten.
        let many =
            (0..Arrival::REMEMBERED_MAX as u32).map(|at| (3 + u64::from(at / 500), 9 + at, 1));
        let lives = [sender, node(&many.collect::<Vec<_>>())];
        let block = &spreads(&lives, &slots(2..9))["block"];
        assert_eq!((block.messages, block.lacking, block.slots), (2, 2, [4, 5]));
    }
}
