//! Connections by which members join topics: what they cost, which ones are made, and how many a node may have.

use super::super::connections::{Connections, End, order};
use super::super::join::joins;
use super::super::plan::{Plan, Topic, TopicId};
use super::*;
use crate::graph::Graph;
use crate::scenario::Way;
use alphorn_types::Unit;
use std::collections::BTreeMap;

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

/// Fewer peers before than the topics need.
const FEW: (&str, &str) = ("graph.degree", "4");

fn with(more: &[(&str, &str)]) -> HornRun {
    slot(&[&MESHES[..], more].concat(), 3).unwrap()
}

/// The ends of the topics of votes and aggregates, if nodes have these connections before.
fn ends_of(plan: &Plan, own: &Graph) -> Vec<End> {
    let mut connections = Connections::of(own);
    let mut ends: Vec<End> = Vec::new();
    for (topic, about) in (0..).map(TopicId).zip(&plan.topics) {
        if topic < plan.collection_topic() {
            connections.among_members(&mut ends, topic, about, 8, 3);
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
        with(&[hosts, FEW]),
        with(&[hosts, FEW, bytes("0")]),
        with(&[hosts, FEW, bytes("2000")]),
    ];
    for run in &runs {
        assert_eq!(run.votes, [2048; 5]);
    }
    let [free, small, large] = runs.map(|run| control(&run));
    let plan = attacks::plan(&[MESHES[0], hosts], 3);
    let own = Graph::of(&scenario(&[FEW]), 3).unwrap();
    let edges = edges_of(&ends_of(&plan, &own));
    let is_new = |(a, b): &&(u32, u32)| own.number_of(*a, *b).is_none();
    let (joined, new) = (edges.len() as u64, edges.iter().filter(is_new).count());
    assert!(new > 400 && (new as u64) < joined);
    // A mesh announces slightly more or less when handshakes get in the way of votes, and the last ones may be
    // unanswered when the slot ends.
    let about = |found: u64, expected: u64| found.abs_diff(expected) * 50 < expected;
    for run in [small, large] {
        assert!(
            about(run.0 - free.0, 2 * joined),
            "{joined}: {run:?} {free:?}"
        );
    }
    let dialled = large.1 - small.1;
    assert!(about(dialled, 2 * 2000 * new as u64), "{new}: {dialled}");
}

/// Of the pairs of a topic's ends of which at least one does not stay, those that the graph does not connect shake
/// hands, when they first meet.
#[test]
fn a_pair_shakes_hands_once_and_joins_every_topic() {
    let plan = attacks::plan(&[MESHES[0], ("protocol.slots", "3")], 3);
    let own = Graph::of(&scenario(&[]), 3).unwrap();
    let ends = ends_of(&plan, &own);
    let edges = edges_of(&ends);
    let graph = Graph::from_edges(96, edges.iter().copied().collect()).unwrap();
    let dialled = joins(&plan, &graph, &own, &ends, 10_000, 3);
    let mut found = BTreeMap::new();
    for (at, node, join) in &dialled {
        let place = at.as_nanos() / plan.slot_end().as_nanos();
        let (peers, bytes) = join.peers();
        for peer in peers.iter().map(|peer| graph.peers(*node)[peer.0 as usize]) {
            let pair = (peer.min(*node), peer.max(*node));
            let before = found.insert((pair, place), bytes);
            assert_eq!(before, None, "{pair:?} in slot {place}");
        }
    }
    let stay = |end: &End| {
        let lasting = &plan.topics[end.topic.0 as usize].lasting;
        let stays = |node: u32| lasting.binary_search(&node).is_ok();
        stays(end.node) && stays(end.peer)
    };
    let mut expected: BTreeMap<((u32, u32), u64), u32> = BTreeMap::new();
    for end in ends.iter().filter(|end| end.node < end.peer && !stay(end)) {
        let place = u64::from(plan.place_of(end.topic));
        *expected.entry(((end.node, end.peer), place)).or_default() += 72;
    }
    let mut met = BTreeSet::new();
    for ((pair, _), bytes) in &mut expected {
        if met.insert(*pair) && own.number_of(pair.0, pair.1).is_none() {
            *bytes += 10_000;
        }
    }
    assert_eq!(found, expected);
    let handshakes = found.values().filter(|bytes| **bytes > 10_000).count();
    assert!(handshakes > 100 && handshakes < met.len() && met.len() < found.len());
    let cell = plan.unit_topic(0, Unit::new(1, 0, 0)).0 as usize;
    assert_eq!(plan.topics[cell].lasting.len(), 8);
}

/// Mesh neighbours and neighbours of each member of a topic.
fn degrees(ends: &[End], topic: TopicId) -> BTreeMap<u32, (usize, usize)> {
    let mut degrees: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for end in ends.iter().filter(|end| end.topic == topic) {
        let (mesh, all) = degrees.entry(end.node).or_default();
        *mesh += usize::from(end.marked);
        *all += 1;
    }
    degrees
}

/// The nodes that the mesh of a topic connects with a node.
fn reached(ends: &[End], topic: TopicId, from: u32) -> usize {
    let mut reached = BTreeSet::from([from]);
    let mut next = vec![from];
    while let Some(node) = next.pop() {
        let near = ends.iter();
        let near = near.filter(|end| end.topic == topic && end.node == node && end.marked);
        next.extend(
            near.map(|end| end.peer)
                .filter(|peer| reached.insert(*peer)),
        );
    }
    reached.len()
}

#[test]
fn meshes_use_the_connections_that_nodes_have() {
    // Each node is in a quarter of the topics, so a quarter of its peers are in each of its own: some 64 peers
    // give it 16 neighbours in all 25 of them.
    let own = Graph::from_edges(400, Vec::new()).unwrap();
    let mut connections = Connections::of(&own);
    let mut ends = Vec::new();
    let topics: Vec<TopicId> = (0..100).map(TopicId).collect();
    for topic in &topics {
        let draw = |node: &u32| crate::latency::mix([7, u64::from(topic.0), (*node).into(), 0]);
        let mut members: Vec<u32> = (0..400).collect();
        members.sort_by_key(draw);
        members.truncate(100);
        let about = Topic {
            way: Way::Gossip,
            members,
            lasting: Vec::new(),
        };
        connections.among_members(&mut ends, *topic, &about, 8, 3);
    }
    order(&mut ends);
    for topic in &topics {
        let degrees = degrees(&ends, *topic);
        assert_eq!(degrees.len(), 100);
        for (node, (mesh, all)) in &degrees {
            assert!((8..=9).contains(mesh), "{node} has {mesh} in its mesh");
            assert!((16..=17).contains(all), "{node} has {all} neighbours");
        }
        let first = *degrees.keys().next().unwrap();
        assert_eq!(reached(&ends, *topic, first), 100);
    }
    let graph = Graph::from_edges(400, edges_of(&ends).into_iter().collect()).unwrap();
    let most = (0..400).map(|node| graph.peers(node).len()).max().unwrap();
    assert!((64..110).contains(&most), "{most}");
}

#[test]
fn the_parts_of_a_mesh_are_joined() {
    // Two cliques, whose members have no room for others.
    let clique = |first: u32| (first..first + 9).flat_map(move |a| (first..a).map(move |b| (a, b)));
    let own = Graph::from_edges(18, clique(0).chain(clique(9)).collect()).unwrap();
    let about = Topic {
        way: Way::Gossip,
        members: (0..18).collect(),
        lasting: Vec::new(),
    };
    let mut ends = Vec::new();
    Connections::of(&own).among_members(&mut ends, TopicId(0), &about, 8, 3);
    assert_eq!(reached(&ends, TopicId(0), 0), 18);
    let marked = ends.iter().filter(|end| end.marked).count();
    assert_eq!(marked, 18 * 8 + 2);
}

#[test]
fn a_publisher_sends_to_the_members_that_it_knows() {
    let plan = attacks::plan(&[MESHES[0], ("sim.nodes", "400")], 3);
    let none = Graph::from_edges(400, Vec::new()).unwrap();
    let edges = Connections::of(&none).of_publishers(&plan);
    let graph = Graph::from_edges(400, edges).unwrap();
    let mut first = Vec::new();
    for validator in 0..2048 {
        let cell = plan.assignment.cell_of(Validator(validator)).unwrap();
        let topic = plan.unit_topic(0, cell.into());
        let node = plan.host(validator);
        if plan.topics[topic.0 as usize].members.contains(&node) {
            continue;
        }
        let entries = || plan.entries(topic, validator);
        let known = entries().filter(|peer| graph.number_of(node, *peer).is_some());
        assert!(known.count() >= plan.entries_max(topic));
        first.extend(entries().take(8).map(|peer| (node, peer)));
    }
    // The same without regard to the connections that it has.
    let first = Graph::from_edges(400, first).unwrap();
    assert!(
        graph.ends() * 10 < first.ends() * 9,
        "{} {}",
        graph.ends(),
        first.ends()
    );
    // A node that knows all members sends to the first ones.
    let all = (0..400).flat_map(|a| (0..a).map(move |b| (a, b)));
    let all = Graph::from_edges(400, all.collect()).unwrap();
    let edges: BTreeSet<(u32, u32)> = Connections::of(&all)
        .of_publishers(&plan)
        .into_iter()
        .collect();
    for node in 0..400 {
        for peer in first.peers(node) {
            assert!(edges.contains(&(node, *peer)) || edges.contains(&(*peer, node)));
        }
    }
}

#[test]
fn a_publisher_sends_to_as_many_members_as_are_named() {
    let runs = ["8", "3", "1"].map(|entries| with(&[("protocol.entries", entries), FEW]));
    for run in &runs {
        assert_eq!(run.votes, [2048; 5]);
    }
    let connections = |run: &HornRun| run.outcome.summary().votes.unwrap().connections_p50;
    assert!(
        runs.iter()
            .map(connections)
            .is_sorted_by(|more, fewer| more > fewer)
    );
    assert!(
        runs.iter()
            .map(|run| run.outcome.received)
            .is_sorted_by(|more, fewer| more > fewer)
    );
    // As many as the mesh has, by default.
    assert_eq!(with(&[FEW]).outcome.received, runs[0].outcome.received);
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
