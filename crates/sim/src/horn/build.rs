//! The initial state of a run: its graph of connections, and the nodes on it.

use super::casting::{Casting, Casts};
use super::connections::{Connections, End, among_all, order};
use super::error::HornError;
use super::join::{Dialled, joins};
use super::message::Item;
use super::node::HornNode;
use super::plan::{Plan, TopicId};
use super::subscription::{LINKS_MAX, Neighbours, Subscription};
use crate::gossip::Links;
use crate::graph::Graph;
use crate::latency::mix;
use crate::net::Dial;
use crate::run::error::RunError;
use crate::scenario::{Horn as Chosen, Scenario, Way};
use alphorn_proto::horn::{Horn, Local};
use std::sync::Arc;

const SEED: u64 = 0x686f_726e_0012;

/// The initial state of a run.
pub(super) struct Built {
    /// The connections of all topics.
    pub(super) graph: Arc<Graph>,
    /// The nodes, by number.
    pub(super) nodes: Vec<HornNode>,
    /// Which connections are established on first use.
    pub(super) dial: Option<Dial>,
    /// The dials by which members join topics.
    pub(super) joins: Vec<Dialled>,
}

/// Builds the graph of all topics and the nodes on it.
///
/// # Errors
/// [`RunError::Graph`], [`HornError::Links`] for a graph that no mesh can be made of, and errors of the nodes'
/// state machines.
pub(super) fn build(
    plan: Arc<Plan>,
    scenario: &Scenario,
    chosen: &Chosen,
    seed: u64,
) -> Result<Built, RunError> {
    let globals = [plan.collection_topic(), plan.block_topic()];
    let own = Graph::of(scenario, seed)?;
    let mut connections = Connections::of(&own);
    let mut ends: Vec<End> = Vec::new();
    for (topic, about) in (0..).map(TopicId).zip(&plan.topics) {
        if !globals.contains(&topic) {
            connections.among_members(&mut ends, topic, about, plan.gossip.degree, seed);
        }
    }
    for topic in globals {
        among_all(&mut ends, topic, &plan, &own, seed);
    }
    let mut edges: Vec<(u32, u32)> = ends
        .iter()
        .filter(|end| end.node < end.peer)
        .map(|end| (end.node, end.peer))
        .collect();
    // After the meshes, whose connections publishers use before they dial.
    edges.extend(connections.of_publishers(&plan));
    drop(connections);
    let graph = Arc::new(Graph::from_edges(plan.nodes, edges)?);
    bound(&graph, scenario.link.connections_max)?;
    order(&mut ends);
    let (dial, joins) = match scenario.link.dial_bytes {
        Some(bytes) => {
            let joins = joins(&plan, &graph, &own, &ends, bytes, seed);
            (Some(dial(&graph, &own, &ends, &plan, bytes)?), joins)
        }
        None => (None, Vec::new()),
    };
    drop(own);
    let mut members: Vec<(u32, TopicId)> = Vec::new();
    for (topic, about) in (0..).map(TopicId).zip(&plan.topics) {
        members.extend(about.members.iter().map(|node| (*node, topic)));
        // An empty list means all nodes, but not for the topic of a unit, in which a lottery may leave nobody to
        // serve.
        if about.members.is_empty() && globals.contains(&topic) {
            members.extend((0..plan.nodes).map(|node| (node, topic)));
        }
    }
    members.sort_unstable();
    let mut subscriptions: Vec<Vec<Subscription<Item>>> =
        (0..plan.nodes).map(|_| Vec::new()).collect();
    let mut rest = &ends[..];
    for (node, topic) in members {
        // Members and ends are in the same order, and only members have ends, so each member finds its own at the
        // front.
        let own = rest.partition_point(|end| (end.node, end.topic) <= (node, topic));
        let (own, others) = rest.split_at(own);
        rest = others;
        let way = plan.topics[topic.0 as usize].way;
        let neighbours = neighbours(own, &graph, way)?;
        let key = mix([seed, SEED, node.into(), topic.0.into()]);
        let config = match way {
            Way::Direct => &plan.direct,
            Way::Gossip | Way::Grid | Way::Coded => &plan.gossip,
        };
        subscriptions[node as usize].push(Subscription::new(topic, way, neighbours, config, key));
    }
    let machines = (0..plan.nodes).map(|node| machine(&plan, node));
    let machines = machines.collect::<Result<Vec<Horn>, HornError>>()?;
    let mut casts = casts(&plan, scenario, chosen, &subscriptions, &machines, seed)?;
    shake_hands(&graph, &mut casts);
    casts.resize_with(subscriptions.len(), || None);
    let parts = subscriptions.into_iter().zip(casts).zip(machines);
    let node = |(node, ((subscriptions, casts), machine))| {
        HornNode::new(
            plan.clone(),
            graph.clone(),
            node,
            subscriptions,
            casts,
            machine,
        )
    };
    let nodes = (0..).zip(parts).map(node).collect();
    Ok(Built {
        graph,
        nodes,
        dial,
        joins,
    })
}

/// Refuses a graph in which a node has more connections than it may.
fn bound(graph: &Graph, max: Option<u32>) -> Result<(), HornError> {
    let Some(max) = max else {
        return Ok(());
    };
    let counts = (0..graph.nodes()).map(|node| (graph.peers(node).len(), node));
    match counts.max_by_key(|(count, node)| (*count, std::cmp::Reverse(*node))) {
        Some((value, node)) if value > max as usize => {
            Err(HornError::Connections { node, value, max })
        }
        _ => Ok(()),
    }
}

/// Connections that are dialled on first use: all except those of the scenario's own graph, and of the topics'
/// meshes and grids, which their members join before the slot ([`joins`]).
fn dial(
    graph: &Graph,
    own: &Graph,
    ends: &[End],
    plan: &Plan,
    bytes: u32,
) -> Result<Dial, RunError> {
    let edges_of = |node: u32| own.peers(node).iter().map(move |peer| (node, *peer));
    let joined = ends
        .iter()
        .filter(|end| plan.topics[end.topic.0 as usize].way != Way::Direct)
        .map(|end| (end.node, end.peer));
    let before = (0..plan.nodes).flat_map(edges_of).chain(joined).collect();
    let before = Graph::from_edges(plan.nodes, before)?;
    let rows =
        (0..plan.nodes).flat_map(|node| graph.peers(node).iter().map(move |peer| (node, *peer)));
    let is_new = rows.map(|(node, peer)| before.number_of(node, peer).is_none());
    Ok(Dial {
        bytes: bytes.into(),
        is_new: is_new.collect(),
    })
}

/// The broadcasts of all nodes, with their neighbours on a coded topic; empty if no topic is coded.
fn casts(
    plan: &Plan,
    scenario: &Scenario,
    chosen: &Chosen,
    subscriptions: &[Vec<Subscription<Item>>],
    machines: &[Horn],
    seed: u64,
) -> Result<Vec<Option<Box<Casts>>>, RunError> {
    let links = |subscriptions: &[Subscription<Item>]| {
        // Both topics of all nodes have every edge of the scenario's graph, so it does not matter which one is found.
        let coded = subscriptions
            .iter()
            .find(|subscription| plan.is_coded(subscription.id));
        coded.map_or_else(Vec::new, |subscription| subscription.links().to_vec())
    };
    let links: Vec<Vec<u32>> = subscriptions.iter().map(|own| links(own)).collect();
    let mean = links
        .iter()
        .map(Vec::len)
        .sum::<usize>()
        .div_ceil(links.len().max(1));
    let Some(first) = machines.first() else {
        return Ok(Vec::new());
    };
    let Some(shared) = Casting::of(plan, scenario, chosen, first, mean, seed)? else {
        return Ok(Vec::new());
    };
    let of = |((node, links), machine)| Some(Casts::new(shared.clone(), node, links, machine));
    Ok((0..).zip(links).zip(machines).map(of).collect())
}

/// Passes on what neighbours learn in handshakes, where nodes deal places: each one's position in the other's order.
fn shake_hands(graph: &Graph, casts: &mut [Option<Box<Casts>>]) {
    // All places are read before any is handed over, as both ends are in the same list.
    let mut told = Vec::new();
    for (node, own) in (0u32..).zip(casts.iter()) {
        let numbers = own.iter().flat_map(|own| own.links()).enumerate();
        for (index, number) in numbers {
            let Some(end) = graph.end(node, u64::from(*number)) else {
                continue;
            };
            let peer = casts[graph.peer(end) as usize].as_ref();
            let place = peer.and_then(|peer| {
                let back = peer.links().binary_search(&graph.back(end)).ok()?;
                peer.place_of(back)
            });
            told.extend(place.map(|place| (node, index, place)));
        }
    }
    for (node, index, place) in told {
        if let Some(own) = &mut casts[node as usize] {
            own.placed(index, place);
        }
    }
}

/// The state machine for the validators that a node hosts.
fn machine(plan: &Plan, node: u32) -> Result<Horn, HornError> {
    let mut local = Local::observer(&plan.config.layout);
    for validator in plan.voters.hosted(node) {
        local.validators.set(validator as usize);
        if plan.voters.has(validator) {
            local.voters.set(validator as usize);
        }
    }
    let mut machine = Horn::new(plan.config.clone(), plan.info.clone(), local)?;
    machine.lend_store(plan.store.clone());
    if let Some(before) = &plan.before {
        machine.restore(before)?;
    }
    Ok(machine)
}

/// The neighbours of a node on a topic, from its ends there.
///
/// # Errors
/// [`HornError::Links`].
pub(crate) fn neighbours(own: &[End], graph: &Graph, way: Way) -> Result<Neighbours, HornError> {
    let number = |end: &End| graph.number_of(end.node, end.peer);
    let all: Vec<u32> = own.iter().filter_map(number).collect();
    let Some(first) = own.first() else {
        return Ok(Neighbours::default());
    };
    if matches!(way, Way::Gossip | Way::Coded) && all.len() > LINKS_MAX {
        return Err(HornError::Links {
            node: first.node,
            value: all.len(),
            max: LINKS_MAX,
        });
    }
    let places = |marked: bool| {
        let of_kind = (0u32..)
            .zip(own)
            .filter(move |(_, end)| end.marked == marked);
        of_kind.map(|(index, _)| index)
    };
    Ok(Neighbours {
        // A mesh has at most LINKS_MAX neighbours.
        mesh: match way {
            Way::Gossip | Way::Coded => places(true).map(|index| index as u8).collect(),
            Way::Direct | Way::Grid => Vec::new(),
        },
        grid: (way == Way::Grid).then(|| Links {
            row: places(true).collect(),
            column: places(false).collect(),
        }),
        all,
    })
}
