//! Connections by which members join topics: what they cost, which ones are made, and how many a node may have.

use super::super::connections::{End, among_members, order};
use super::super::join::joins;
use super::super::plan::{Plan, TopicId};
use super::*;
use crate::graph::Graph;
use alphorn_types::Unit;

/// Number and bytes of the control messages of a run.
fn control(run: &HornRun) -> (u64, u64) {
    let bins = run
        .outcome
        .series
        .iter()
        .filter(|bin| bin.kind == "control");
    bins.fold((0, 0), |sum, bin| (sum.0 + bin.msgs, sum.1 + bin.bytes))
}

const MESHES: [(&str, &str); 1] = [("protocol.vote_dissemination", "\"gossip\"")];

fn with(more: &[(&str, &str)]) -> HornRun {
    slot(&[&MESHES[..], more].concat(), 3).unwrap()
}

/// The ends of the topics of votes and aggregates.
fn ends_of(plan: &Plan) -> Vec<End> {
    let mut ends: Vec<End> = Vec::new();
    for (topic, about) in (0..).map(TopicId).zip(&plan.topics) {
        if topic < plan.collection_topic() {
            among_members(&mut ends, topic, about, 8, 3);
        }
    }
    order(&mut ends);
    ends
}

/// The pairs that ends connect.
fn edges_of(ends: &[End]) -> BTreeSet<(u32, u32)> {
    let edges = ends.iter().filter(|end| end.node < end.peer);
    edges.map(|end| (end.node, end.peer)).collect()
}

#[test]
fn both_sides_pay_for_the_connections_of_a_topic_that_is_joined() {
    // All publishers of votes are members, so only joining dials.
    let hosts = ("protocol.subscribers", "\"hosts\"");
    let bytes = |bytes| ("link.dial_bytes", bytes);
    let runs = [
        with(&[hosts]),
        with(&[hosts, bytes("0")]),
        with(&[hosts, bytes("2000")]),
    ];
    for run in &runs {
        assert_eq!(run.votes, [2048; 5]);
    }
    let [free, small, large] = runs.map(|run| control(&run));
    let plan = attacks::plan(&[MESHES[0], hosts], 3);
    let own = Graph::of(&scenario(&[]), 3).unwrap();
    let edges = edges_of(&ends_of(&plan));
    let made = edges
        .iter()
        .filter(|(a, b)| own.number_of(*a, *b).is_none());
    let handshakes = 2 * made.count() as u64;
    assert!(handshakes > 1000);
    // A mesh announces slightly more or less when handshakes get in the way of votes, and the last handshakes may
    // be unanswered when the slot ends.
    let about = |found: u64, expected: u64| found.abs_diff(expected) * 50 < expected;
    assert!(
        about(small.0 - free.0, handshakes),
        "{handshakes}: {small:?} {free:?}"
    );
    assert!(
        about(large.0 - free.0, handshakes),
        "{handshakes}: {large:?} {free:?}"
    );
    assert!(about(large.1 - small.1, 2000 * handshakes));
}

/// The pairs of a topic's ends that are not in the scenario's graph and of which at least one end does not stay.
#[test]
fn each_pair_that_meets_anew_in_a_slot_is_connected_once() {
    let plan = attacks::plan(&MESHES, 3);
    let ends = ends_of(&plan);
    let edges = edges_of(&ends);
    let graph = Graph::from_edges(96, edges.iter().copied().collect()).unwrap();
    let own = Graph::from_edges(96, edges.iter().copied().step_by(2).collect()).unwrap();
    let dialled = joins(&plan, &graph, &own, &ends, 10, 3);
    assert!(dialled.iter().all(|(at, ..)| *at < plan.slot_end()));
    let mut found = Vec::new();
    for (_, node, join) in &dialled {
        let peers = join.peers().iter();
        let peers = peers.map(|peer| graph.peers(*node)[peer.0 as usize]);
        found.extend(peers.map(|peer| (peer.min(*node), peer.max(*node))));
    }
    found.sort_unstable();
    let stay = |a: u32, b: u32, topic: TopicId| {
        let lasting = &plan.topics[topic.0 as usize].lasting;
        [a, b]
            .iter()
            .all(|node| lasting.binary_search(node).is_ok())
    };
    let expected = ends.iter().filter(|end| {
        end.node < end.peer
            && own.number_of(end.node, end.peer).is_none()
            && !stay(end.node, end.peer, end.topic)
    });
    let expected: BTreeSet<(u32, u32)> = expected.map(|end| (end.node, end.peer)).collect();
    assert!(found.iter().eq(&expected), "{found:?}");
    assert!(!expected.is_empty() && expected.len() < edges.len());
    let cell = plan.unit_topic(0, Unit::new(1, 0, 0)).0 as usize;
    assert_eq!(plan.topics[cell].lasting.len(), 8);
}

#[test]
fn a_node_with_more_connections_than_it_may_have_is_refused() {
    let most = with(&[]).outcome.summary().votes.unwrap().connections_max;
    let bound = |max: u64| {
        let max = max.to_string();
        slot(
            &[&MESHES[..], &[("link.connections_max", &max)]].concat(),
            3,
        )
    };
    assert!(bound(most).is_ok());
    let refused = bound(most - 1).unwrap_err().to_string();
    let (has, may) = (
        format!("{most} connections"),
        format!("at most {}", most - 1),
    );
    assert!(
        refused.contains(&has) && refused.contains(&may),
        "{refused}"
    );
}
