//! Which nodes are connected: members of each topic among themselves, and publishers with topics of others.

use super::plan::{Plan, Topic, TopicId};
use crate::gossip::Links;
use crate::graph::Graph;
use crate::latency::mix;
use crate::scenario::Way;

const PAIR: u64 = 0x686f_726e_0010;
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

/// Sorts by node, topic and neighbour and removes duplicates.
pub(crate) fn order(ends: &mut Vec<End>) {
    // Of two equal ends a marked one comes first, so that it is the one that stays.
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

/// The connections that nodes have made so far, which topics use before they add to them.
///
/// As in a real network, a node takes the peers that it has into the mesh of a topic if they are members too, and
/// dials others only for what is missing. So a node in many large topics needs few more peers than a node in one.
pub(crate) struct Connections {
    /// The peers of each node, in the order in which they met.
    peers: Vec<Vec<u32>>,
    /// For each node, a number that the step at hand assigned to it, or [`NONE`].
    mark: Vec<u32>,
}

/// No number.
const NONE: u32 = u32::MAX;

impl Connections {
    /// The connections of the scenario's graph.
    pub(crate) fn of(graph: &Graph) -> Connections {
        let nodes = 0..graph.nodes();
        Connections {
            mark: vec![NONE; nodes.len()],
            peers: nodes.map(|node| graph.peers(node).to_vec()).collect(),
        }
    }

    /// Connects two nodes unless they are connected.
    fn meet(&mut self, [a, b]: [u32; 2]) {
        let [few, other] = match self.peers[a as usize].len() <= self.peers[b as usize].len() {
            true => [a, b],
            false => [b, a],
        };
        // Either both lists have the edge or neither does, so the shorter one is searched.
        if !self.peers[few as usize].contains(&other) {
            self.peers[a as usize].push(b);
            self.peers[b as usize].push(a);
        }
    }

    /// The pairs of members that are connected, by position among the members.
    fn pairs(&mut self, members: &[u32]) -> Vec<[u32; 2]> {
        for (index, member) in (0..).zip(members) {
            self.mark[*member as usize] = index;
        }
        let mut pairs = Vec::new();
        for (index, member) in (0..).zip(members) {
            let peers = self.peers[*member as usize].iter();
            let others = peers.map(|peer| self.mark[*peer as usize]);
            let later = others.filter(|other| *other != NONE && *other > index);
            pairs.extend(later.map(|other| [index, other]));
        }
        for member in members {
            self.mark[*member as usize] = NONE;
        }
        pairs
    }

    /// Adds the connections of a topic among its members. A mesh of this degree has twice as many neighbours.
    pub(crate) fn among_members(
        &mut self,
        ends: &mut Vec<End>,
        topic: TopicId,
        about: &Topic,
        degree: u8,
        seed: u64,
    ) {
        let members = &about.members;
        match about.way {
            // These are made for a message at a time, so meshes do not count on them.
            Way::Direct => {
                for (i, a) in members.iter().enumerate() {
                    for b in &members[..i] {
                        connect(ends, topic, [*a, *b], true);
                    }
                }
            }
            Way::Grid => in_grid(ends, topic, members),
            Way::Gossip | Way::Coded => {
                let draw =
                    |round: u64, key: u64| mix([seed, PAIR, u64::from(topic.0) << 16 | round, key]);
                // A member has two degrees of neighbours. With no more others than that, all are neighbours.
                let neighbours = match members.len() <= 2 * usize::from(degree) + 1 {
                    true => Neighbourhood::complete(members.len(), degree),
                    false => Neighbourhood::draw(members.len(), degree, self.pairs(members), draw),
                };
                for ([a, b], marked) in neighbours.pairs() {
                    let edge = [members[a], members[b]];
                    self.meet(edge);
                    connect(ends, topic, edge, marked);
                }
            }
        }
    }

    /// Returns the connections of publishers to topics that they are not members of: to the members that they are
    /// connected with, and for what is missing to the next ones in the order in which the publisher takes them.
    pub(super) fn of_publishers(&mut self, plan: &Plan) -> Vec<(u32, u32)> {
        let mut edges = Vec::new();
        let mut published = published(plan);
        published.sort_unstable();
        for published in published.chunk_by(|a, b| a.0 == b.0) {
            let node = published[0].0;
            // Marks are not cleared, since each is the number of a node and every node has one turn. After that its
            // list is not needed.
            for peer in std::mem::take(&mut self.peers[node as usize]) {
                self.mark[peer as usize] = node;
            }
            let mut made = Vec::new();
            for (_, topic, validator) in published {
                let members = || plan.entries(*topic, *validator);
                let has = |peer: &u32| self.mark[*peer as usize] == node;
                let count = plan.entries_max(*topic);
                let before = edges.len();
                edges.extend(members().filter(has).take(count).map(|peer| (node, peer)));
                let missing = count - (edges.len() - before);
                let new = members().filter(|peer| !has(peer) && *peer != node);
                let new: Vec<u32> = new.take(missing).collect();
                edges.extend(new.iter().map(|peer| (node, *peer)));
                for peer in &new {
                    self.mark[*peer as usize] = node;
                }
                made.extend(new);
            }
            // A member that this node dialled has it as a peer when its own turn comes.
            for peer in made {
                self.peers[peer as usize].push(node);
            }
        }
        edges
    }
}

/// What nodes publish on topics of which they are not members, with node and validator.
fn published(plan: &Plan) -> Vec<(u32, TopicId, u32)> {
    let mut published = Vec::new();
    let mut publish = |topic: TopicId, validator: u32| {
        let node = plan.host(validator);
        if !plan.topics[topic.0 as usize].members.contains(&node) {
            published.push((node, topic, validator));
        }
    };
    let layout = &plan.config.layout;
    for (place, slot) in (0..).zip(plan.followed()) {
        for cell in layout.cells() {
            let topic = plan.unit_topic(place, cell.into());
            let members = plan.assignment.cell_members(cell).iter().copied();
            members
                .filter(|validator| plan.voters.has(*validator))
                .for_each(|validator| publish(topic, validator));
        }
        // Collections go to all nodes.
        for unit in (1..layout.levels()).flat_map(|level| layout.units(level)) {
            let topic = plan.topic_above(place, unit);
            let servers = plan.servers_of(slot, unit).iter();
            servers.for_each(|server| publish(topic, server.validator));
        }
    }
    published
}

/// The neighbours of each member of a topic, by position among the members, and whether they are in the mesh.
struct Neighbourhood(Vec<Vec<(usize, bool)>>);

impl Neighbourhood {
    /// All members are neighbours and, if they are few, all are in the mesh.
    fn complete(members: usize, degree: u8) -> Neighbourhood {
        let mut all = Neighbourhood(vec![Vec::new(); members]);
        for a in 0..members {
            for b in 0..a {
                // Members are in random order, so neighbours on a ring are a random mesh, and one that is connected.
                let distance = (a - b).min(members - (a - b));
                all.join([a, b], distance <= usize::from(degree).div_ceil(2));
            }
        }
        all
    }

    /// Takes as many of the connected pairs as the members have room for, in random order, and adds others for
    /// what is missing. There are more than twice as many members as a member has mesh neighbours.
    fn draw(
        members: usize,
        degree: u8,
        connected: Vec<[u32; 2]>,
        draw: impl Fn(u64, u64) -> u64,
    ) -> Neighbourhood {
        let mut all = Neighbourhood(vec![Vec::new(); members]);
        let degree = usize::from(degree);
        let key = |[a, b]: &[u32; 2]| draw(0, u64::from(*a) << 32 | u64::from(*b));
        let mut connected: Vec<(u64, [u32; 2])> =
            connected.iter().map(|pair| (key(pair), *pair)).collect();
        connected.sort_unstable();
        // The mesh first, then the same again outside it. Rounds 1 to 5 and 256 to 260 draw for what is missing,
        // round 0 for the connected pairs, so that no draw is used twice.
        for (target, marked, domain) in [(degree, true, 1), (2 * degree, false, 1 << 8)] {
            for (_, pair) in &connected {
                let pair = pair.map(|end| end as usize);
                if pair.iter().all(|end| all.0[*end].len() < target) && all.is_new(pair) {
                    all.join(pair, marked);
                }
            }
            all.fill(target, marked, |round, key| draw(domain + round, key));
        }
        all.close_up();
        all
    }

    fn is_new(&self, [a, b]: [usize; 2]) -> bool {
        a != b && !self.0[a].iter().any(|(near, _)| *near == b)
    }

    /// Makes two members neighbours, or takes neighbours into the mesh.
    fn join(&mut self, [a, b]: [usize; 2], marked: bool) {
        for (member, other) in [(a, b), (b, a)] {
            match self.0[member].iter_mut().find(|(near, _)| *near == other) {
                Some((_, is_in)) => *is_in |= marked,
                None => self.0[member].push((other, marked)),
            }
        }
    }

    /// Pairs members at random until each has this many neighbours.
    fn fill(&mut self, target: usize, marked: bool, draw: impl Fn(u64, u64) -> u64) {
        // Most stubs find a partner in the first round. Of the rest, some are left with members that they have.
        for round in 0..4 {
            let missing = |member: usize| target.saturating_sub(self.0[member].len());
            let of_member = |member| (0..missing(member)).map(move |stub| (member, stub));
            let stubs = (0..self.0.len()).flat_map(of_member);
            let mut stubs: Vec<(u64, usize)> = stubs
                // A degree is at most 128, so a member lacks at most 256 neighbours and the stub fits into 8 bits.
                .map(|(member, stub)| (draw(round, (member << 8 | stub) as u64), member))
                .collect();
            stubs.sort_unstable();
            for pair in stubs.chunks_exact(2) {
                let pair = [pair[0].1, pair[1].1];
                if self.is_new(pair) {
                    self.join(pair, marked);
                }
            }
        }
        // A member with room accepts them, or one that has one more than it needs.
        for member in 0..self.0.len() {
            while self.0[member].len() < target {
                let others = (0..self.0.len()).filter(|other| self.is_new([member, *other]));
                let key = |other: &usize| {
                    let drawn = draw(4, (member << 32 | other) as u64);
                    (self.0[*other].len(), drawn)
                };
                let Some(other) = others.min_by_key(key) else {
                    break;
                };
                self.join([member, other], marked);
            }
        }
    }

    /// Joins the parts of the mesh, should it have fallen apart.
    fn close_up(&mut self) {
        let mut is_seen = vec![false; self.0.len()];
        for start in 0..self.0.len() {
            if is_seen[start] {
                continue;
            }
            if start > 0 {
                // All before `start` are seen, so one edge joins its part to theirs. An end may then have one
                // neighbour too many.
                self.join([start - 1, start], true);
            }
            let mut next = vec![start];
            while let Some(member) = next.pop() {
                if !std::mem::replace(&mut is_seen[member], true) {
                    let near = self.0[member].iter().filter(|(_, marked)| *marked);
                    next.extend(near.map(|(near, _)| *near));
                }
            }
        }
    }

    /// Each pair of neighbours once.
    fn pairs(&self) -> impl Iterator<Item = ([usize; 2], bool)> {
        let of_member = |(member, near): (usize, &'_ Vec<(usize, bool)>)| {
            let later = near.iter().filter(move |(other, _)| *other > member);
            let pairs = later.map(move |(other, marked)| ([member, *other], *marked));
            pairs.collect::<Vec<_>>()
        };
        self.0.iter().enumerate().flat_map(of_member)
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

/// Adds the connections of a topic of all nodes. `own` is the scenario's graph.
pub(super) fn among_all(ends: &mut Vec<End>, topic: TopicId, plan: &Plan, own: &Graph, seed: u64) {
    match plan.topics[topic.0 as usize].way {
        Way::Gossip | Way::Coded => {
            let draw = |edge| mix([seed, MESH, topic.0.into(), edge]);
            for (edge, marked) in own.mesh(plan.gossip.degree, draw) {
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
}
