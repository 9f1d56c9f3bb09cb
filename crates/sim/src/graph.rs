//! Which nodes are connected: neighbours in compressed rows.
//!
//! A connection has two ends, and each end numbers its neighbours from 0, in ascending order. These numbers are
//! the peers known to a node's state machine, so a node needs no table of its own, and the sender of a message
//! is identified by one look-up in [`Graph::back`].

mod draw;
mod error;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use error::GraphError;

use crate::scenario;

/// Maximum number of connection ends in a graph: 16 bytes each with their state.
pub(crate) const ENDS_MAX: u64 = 1 << 28;

/// The connections of all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Graph {
    /// Start of the row of each node, and the end of the last row.
    offsets: Vec<u32>,
    /// Neighbours.
    peers: Vec<u32>,
    /// For each end, the neighbour and the node's number there. Sending to a neighbour reads both, so they are
    /// stored together.
    ends: Vec<[u32; 2]>,
}

impl Graph {
    /// The graph of a scenario.
    ///
    /// # Errors
    /// [`GraphError`].
    pub(crate) fn of(scenario: &scenario::Scenario, seed: u64) -> Result<Graph, GraphError> {
        use scenario::Graph as Kind;
        let nodes = scenario.sim.nodes;
        match &scenario.graph {
            Kind::Permutations { degree } => {
                // A permutation gives a node two neighbours: its image, and the node of which it is the image.
                check_ends(2 * u64::from(nodes) * u64::from(degree / 2))?;
                let ends = draw::permutations(nodes, degree / 2, seed);
                Graph::from_edges(nodes, ends)
            }
            Kind::Complete {} => {
                let row = |from: u32| (from + 1..nodes).map(move |to| (from, to));
                Graph::from_edges(nodes, (0..nodes).flat_map(row).collect())
            }
            Kind::File { path } => {
                let text = scenario.inputs.get(path);
                let text = text.ok_or_else(|| GraphError::Missing { path: path.clone() })?;
                Graph::from_edges(nodes, draw::read(text, nodes)?)
            }
        }
    }

    /// Connects each node with those in its row and column of the square ([`Links::of`]).
    ///
    /// # Errors
    /// [`GraphError::TooMany`].
    ///
    /// [`Links::of`]: crate::gossip::Links::of
    pub(crate) fn grid(nodes: u32) -> Result<Graph, GraphError> {
        // A node has the others of its row and of its column, up to the square root of all in each.
        check_ends(2 * u64::from(nodes) * u64::from(nodes.isqrt()))?;
        Graph::from_edges(nodes, draw::grid(nodes))
    }

    /// Connects each of `centres` with every node.
    ///
    /// # Errors
    /// [`GraphError::TooMany`].
    pub(crate) fn stars(nodes: u32, centres: &[u32]) -> Result<Graph, GraphError> {
        let mut centres = centres.to_vec();
        centres.sort_unstable();
        centres.dedup();
        // Before the list of edges takes the memory.
        check_ends(2 * u64::from(nodes) * centres.len() as u64)?;
        let row = |from: u32| (0..nodes).map(move |to| (from, to));
        Graph::from_edges(nodes, centres.into_iter().flat_map(row).collect())
    }

    /// The edges in random order, each with whether it is in the mesh. An edge is added while both ends have
    /// fewer than `degree` in the mesh.
    pub(crate) fn mesh(
        &self,
        degree: u8,
        draw: impl Fn(u64) -> u64,
    ) -> impl Iterator<Item = ([u32; 2], bool)> {
        let mut edges: Vec<(u64, [u32; 2])> = Vec::with_capacity(self.ends() / 2);
        for node in 0..self.nodes() {
            let later = self.peers(node).iter().filter(|&&peer| peer > node);
            edges.extend(later.map(|&peer| {
                let edge = u64::from(node) << 32 | u64::from(peer);
                (draw(edge), [node, peer])
            }));
        }
        // By draws that depend on the edge alone, so that others do not change which of two comes first.
        edges.sort_unstable();
        let mut degrees = vec![0_u8; self.nodes() as usize];
        edges.into_iter().map(move |(_, edge)| {
            let is_in = edge.iter().all(|end| degrees[*end as usize] < degree);
            edge.iter()
                .for_each(|end| degrees[*end as usize] += u8::from(is_in));
            (edge, is_in)
        })
    }

    /// The graph with these edges, in any order and direction; self-loops and repetitions are ignored.
    ///
    /// # Errors
    /// [`GraphError::TooMany`].
    ///
    /// # Panics
    /// If an edge names a node that does not exist.
    pub(crate) fn from_edges(nodes: u32, edges: Vec<(u32, u32)>) -> Result<Graph, GraphError> {
        check_ends(2 * edges.len() as u64)?;
        let mut ends: Vec<u64> = Vec::with_capacity(2 * edges.len());
        for (a, b) in edges.into_iter().filter(|(a, b)| a != b) {
            assert!(a.max(b) < nodes, "edge {a} to {b} of {nodes} nodes");
            ends.push(u64::from(a) << 32 | u64::from(b));
            ends.push(u64::from(b) << 32 | u64::from(a));
        }
        ends.sort_unstable();
        ends.dedup();
        let mut offsets = vec![0_u32; nodes as usize + 1];
        let mut peers = Vec::with_capacity(ends.len());
        for end in &ends {
            offsets[(end >> 32) as usize + 1] += 1;
            peers.push(*end as u32);
        }
        // Up to 2 GiB, before as much again is needed below.
        drop(ends);
        for i in 0..nodes as usize {
            offsets[i + 1] += offsets[i];
        }
        // Rows are ascending, so each node is visited by its neighbours in the order of its own row.
        let mut met = vec![0_u32; nodes as usize];
        let mut next = |peer: u32| {
            let number = met[peer as usize];
            met[peer as usize] += 1;
            number
        };
        let ends = peers.iter().map(|&peer| [peer, next(peer)]).collect();
        Ok(Graph {
            offsets,
            peers,
            ends,
        })
    }

    /// Number of nodes.
    pub(crate) fn nodes(&self) -> u32 {
        (self.offsets.len() - 1) as u32
    }

    /// Number of ends of all connections.
    pub(crate) fn ends(&self) -> usize {
        self.peers.len()
    }

    /// The neighbours of a node, by its numbers for them.
    ///
    /// # Panics
    /// If there is no such node.
    #[inline]
    pub(crate) fn peers(&self, node: u32) -> &[u32] {
        let row = self.offsets[node as usize] as usize..self.offsets[node as usize + 1] as usize;
        &self.peers[row]
    }

    /// The end of the connection from a node to its neighbour with this number; none if there is no such
    /// neighbour.
    #[inline]
    pub(crate) fn end(&self, node: u32, peer: u64) -> Option<usize> {
        let first = self.offsets[node as usize];
        let count = self.offsets[node as usize + 1] - first;
        (peer < u64::from(count)).then(|| first as usize + peer as usize)
    }

    /// The first end of a node, or of the next node that has one. For the number of nodes, one past the last
    /// end.
    ///
    /// # Panics
    /// If there is no such node.
    pub(crate) fn first_end(&self, node: u32) -> u32 {
        self.offsets[node as usize]
    }

    /// The node at the other side of an end.
    ///
    /// # Panics
    /// If there is no such end.
    #[inline]
    pub(crate) fn peer(&self, end: usize) -> u32 {
        self.ends[end][0]
    }

    /// The number of this node at the neighbour that an end leads to.
    ///
    /// # Panics
    /// If there is no such end.
    #[inline]
    pub(crate) fn back(&self, end: usize) -> u32 {
        self.ends[end][1]
    }

    /// The number that `node` has for `peer`.
    pub(crate) fn number_of(&self, node: u32, peer: u32) -> Option<u32> {
        // Rows are ascending.
        self.peers(node).binary_search(&peer).ok().map(|i| i as u32)
    }
}

fn check_ends(value: u64) -> Result<(), GraphError> {
    let max = ENDS_MAX;
    if value > max {
        return Err(GraphError::TooMany { value, max });
    }
    Ok(())
}
