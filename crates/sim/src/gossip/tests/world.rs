//! Mesh nodes in the simulator's world, with unequal latencies.

use crate::gossip::{Config, Gossip};
use crate::graph::tests::graph;
use crate::role::flood::{Blob, Flood, FloodMessage, mesh};
use crate::role::{Publish, Wire};
use crate::scenario::Latency;
use crate::testing::{Log, equals};
use crate::world::World;
use alphorn_proto::Peer;
use std::sync::Arc;

pub(crate) type Node = Gossip<Blob>;
pub(crate) type Mesh = World<Flood<Node>, Log>;

/// Nanoseconds that a node takes to validate a payload.
const VALIDATION_NS: u64 = 2_000_000;

/// `count` nodes, each connected to about `degree` random others, with no mesh yet.
pub(crate) fn random(count: u32, degree: u32, config: Config, seed: u64) -> Mesh {
    // The same for all messages of a connection, so that order is preserved.
    let latency = Latency::Regions {
        matrix: "libp2p-2025".into(),
        intra_ms_min: 20,
        jitter_pct: 0,
    };
    let kind = format!("kind = \"permutations\"\ndegree = {degree}");
    let graph = graph(count, &kind, seed);
    let config = Arc::new(config);
    let role = |node| mesh(&config, VALIDATION_NS, seed, node, 0);
    let roles = (0..count).map(role).collect();
    let mut world = World::new(roles, &equals(graph, &latency), Log::default());
    world.connect();
    world
}

impl Mesh {
    pub(crate) fn node(&self, node: u32) -> &Node {
        &self.role(node).machine
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.roles().map(|role| &role.machine)
    }

    /// The neighbour that a node has under a number, and the node's number there.
    pub(crate) fn across(&self, node: u32, peer: Peer) -> (u32, Peer) {
        let end = self.graph().end(node, peer.0).expect("a neighbour");
        (self.graph().peer(end), Peer(self.graph().back(end).into()))
    }

    /// Runs for some milliseconds, or until nothing more happens.
    pub(crate) fn run_ms(&mut self, ms: u64) {
        let until = self.now().saturating_add_ns(ms * 1_000_000);
        self.run_until(until, u64::MAX).unwrap();
    }

    pub(crate) fn publish(&mut self, node: u32, item: u32, bytes: u64) {
        self.command(self.now(), node, Publish { item, bytes });
    }

    /// Messages of a kind sent so far.
    pub(crate) fn sent(&self, kind: &str) -> u64 {
        let of_kind = |sent: &(u64, usize, u64, u64)| FloodMessage::KINDS[sent.1] == kind;
        let sent = self.series().filter(of_kind);
        sent.map(|(.., messages, _)| messages).sum()
    }

    /// Whether every node except the publisher and `except` delivered the payload exactly once.
    pub(crate) fn everyone_has(&self, id: u32, publisher: u32, except: &[u32]) -> bool {
        let mut counts = vec![0; self.graph().nodes() as usize];
        let delivered = self.probe().0.iter().filter(|(.., item)| *item == id);
        delivered.for_each(|(_, node, _)| counts[*node as usize] += 1);
        let counts = (0..).zip(counts);
        let mut others = counts.filter(|(node, _)| *node != publisher && !except.contains(node));
        others.all(|(_, count)| count == 1)
    }
}
