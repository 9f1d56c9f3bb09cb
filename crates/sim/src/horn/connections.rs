//! Which nodes are connected: members of each topic among themselves, and publishers with topics of others.

use super::plan::{Plan, Topic, TopicId};
use crate::gossip::Links;
use crate::graph::Graph;
use crate::latency::mix;
use crate::run::RunError;
use crate::scenario::{Scenario, Way};

const RING: u64 = 0x686f_726e_0010;
const MESH: u64 = 0x686f_726e_0011;

/// One end of a connection of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    pub(crate) node: u32,
    pub(crate) topic: TopicId,
    pub(crate) peer: u32,
    /// Belongs to the mesh or, in a grid, to the row.
    pub(crate) marked: bool,
}

/// Sorts by node, topic and neighbour and removes duplicates, since a ring may repeat a connection of another one.
pub(crate) fn order(ends: &mut Vec<End>) {
    ends.sort_unstable_by_key(|end| (end.node, end.topic, end.peer, !end.marked));
    ends.dedup_by_key(|end| (end.node, end.topic, end.peer));
}

fn connect(ends: &mut Vec<End>, topic: TopicId, [a, b]: [u32; 2], marked: bool) {
    if a != b {
        for (node, peer) in [(a, b), (b, a)] {
            ends.push(End {
                node,
                topic,
                peer,
                marked,
            });
        }
    }
}

/// Adds the connections of a topic among its members. A mesh of this degree has twice as many neighbours.
pub(crate) fn among_members(
    ends: &mut Vec<End>,
    topic: TopicId,
    about: &Topic,
    degree: u8,
    seed: u64,
) {
    let members = &about.members;
    let degree = usize::from(degree);
    match about.way {
        Way::Direct => {
            for (i, a) in members.iter().enumerate() {
                for b in &members[..i] {
                    connect(ends, topic, [*a, *b], true);
                }
            }
        }
        Way::Gossip | Way::Coded if members.len() <= 2 * degree + 1 => {
            // All members are neighbours and, if they are few, all are in the mesh.
            for (i, a) in members.iter().enumerate() {
                for (distance, b) in (1..).zip(members[..i].iter().rev()) {
                    let around = members.len() - distance;
                    let marked = distance.min(around) <= degree.div_ceil(2);
                    connect(ends, topic, [*a, *b], marked);
                }
            }
        }
        Way::Gossip | Way::Coded => {
            // Twice as many neighbours as the mesh has, from rings in random orders, half of which are mesh.
            for ring in 0..degree as u64 {
                let key =
                    |node: u32| mix([seed, RING, u64::from(topic.0) << 8 | ring, node.into()]);
                let mut order = members.clone();
                order.sort_unstable_by_key(|node| (key(*node), *node));
                let marked = ring < (degree as u64).div_ceil(2);
                for (i, node) in order.iter().enumerate() {
                    connect(ends, topic, [*node, order[(i + 1) % order.len()]], marked);
                }
            }
        }
        Way::Grid => in_grid(ends, topic, members),
    }
}

fn in_grid(ends: &mut Vec<End>, topic: TopicId, members: &[u32]) {
    // There are fewer members than nodes, which are 32-bit.
    for index in 0..members.len() as u32 {
        let links = Links::of(index, members.len() as u32);
        let node = members[index as usize];
        for (list, marked) in [(&links.row, true), (&links.column, false)] {
            ends.extend(list.iter().map(|peer| End {
                node,
                topic,
                peer: members[*peer as usize],
                marked,
            }));
        }
    }
}

/// Adds the connections of a topic of all nodes.
///
/// # Errors
/// [`RunError::Graph`].
pub(super) fn among_all(
    ends: &mut Vec<End>,
    topic: TopicId,
    plan: &Plan,
    scenario: &Scenario,
    seed: u64,
) -> Result<(), RunError> {
    match plan.topics[topic.0 as usize].way {
        Way::Gossip | Way::Coded => {
            let graph = Graph::of(scenario, seed)?;
            let draw = |edge| mix([seed, MESH, topic.0.into(), edge]);
            for (edge, marked) in graph.mesh(plan.gossip.degree, draw) {
                connect(ends, topic, edge, marked);
            }
        }
        Way::Grid => {
            let nodes: Vec<u32> = (0..plan.nodes).collect();
            in_grid(ends, topic, &nodes);
        }
        Way::Direct => {
            let collectors = plan.serving(plan.config.layout.levels());
            let servers = collectors.iter().flatten();
            let mut sources: Vec<u32> = match topic == plan.collection_topic() {
                true => servers.map(|server| plan.host(server.validator)).collect(),
                false => plan
                    .blocks()
                    .map(|slot| plan.host(plan.proposer_of(slot)))
                    .collect(),
            };
            sources.sort_unstable();
            sources.dedup();
            for source in sources {
                for node in 0..plan.nodes {
                    connect(ends, topic, [source, node], true);
                }
            }
        }
    }
    Ok(())
}

/// Adds the connections of publishers to topics they are not members of.
pub(super) fn for_publishers(edges: &mut Vec<(u32, u32)>, plan: &Plan) {
    let is_member = |topic: TopicId, node: u32| {
        let members = &plan.topics[topic.0 as usize].members;
        members.contains(&node)
    };
    let mut enter = |topic: TopicId, validator: u32| {
        let node = plan.host(validator);
        if !is_member(topic, node) {
            edges.extend(plan.entries(topic, validator).map(|entry| (node, entry)));
        }
    };
    let layout = &plan.config.layout;
    for (place, slot) in (0..).zip(plan.followed()) {
        for cell in layout.cells() {
            let topic = plan.unit_topic(place, cell.into());
            let members = plan.assignment.cell_members(cell).iter().copied();
            members
                .filter(|validator| plan.voters.has(*validator))
                .for_each(|validator| enter(topic, validator));
        }
        // Collections go to all nodes.
        for unit in (1..layout.levels()).flat_map(|level| layout.units(level)) {
            let topic = plan.topic_above(place, unit);
            let servers = plan.servers_of(slot, unit).iter();
            servers.for_each(|server| enter(topic, server.validator));
        }
    }
}
