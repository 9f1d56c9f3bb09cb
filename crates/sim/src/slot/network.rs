//! The few nodes of a slot, fully connected by links without queueing.

use super::node::{SharedCompute, SlotMessage, SlotNode, Traffic, index, lock};
use crate::charge::Processor;
use crate::compute::Compute;
use crate::graph::Graph;
use crate::latency::Latency;
use crate::net::{NetConfig, Rate};
use crate::role::Wire as _;
use crate::scenario::{self, Link};
use crate::world::{Limits, World, WorldConfig, WorldError};
use alphorn_proto::wire::{Kind, Topic};
use alphorn_proto::{Peer, Protocol};
use alphorn_scheme::Bytes;
use alphorn_types::Time;
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, MutexGuard};

/// Arbitrary, since messages have size zero.
const RATE: Rate = Rate {
    up_bps: 1,
    down_bps: 1,
};

/// The topics that a node receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subscription {
    /// All topics.
    All,
    /// What every node of a network receives: blocks and collections.
    Global,
}

impl Subscription {
    fn takes(self, kind: Kind) -> bool {
        match self {
            Subscription::All => true,
            Subscription::Global => matches!(kind, Kind::Block | Kind::Collection),
        }
    }
}

/// SHA-256 over the digests of all nodes, in order of their numbers: equal for equal runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The parts of a slot's network other than its state machines.
pub(super) struct Plan {
    /// Topics that each node receives.
    pub(super) subscriptions: Vec<Subscription>,
    /// Messages of a kind from one node that do not reach another, because an adversary withholds hers or
    /// ignores others.
    pub(super) withheld: Vec<(Kind, u32, u32)>,
    /// Milliseconds from publication to delivery.
    pub(super) latency_ms: u64,
    pub(super) limits: Limits,
}

/// The nodes of a slot in the simulator's world.
pub(super) struct Network<P: Protocol + Send> {
    world: World<SlotNode<P>>,
    compute: SharedCompute,
}

impl<P: Protocol + Send> Network<P> {
    /// A network at virtual time 0, in which every node first learns of every other.
    pub(super) fn new(machines: Vec<P>, plan: &Plan, compute: Compute) -> Self {
        let nodes = machines.len() as u32;
        let pairs = (0..nodes).flat_map(|a| (0..a).map(move |b| (a, b)));
        let graph = Graph::from_edges(nodes, pairs.collect());
        let graph = graph.expect("a slot has a handful of nodes");
        let compute: SharedCompute = Arc::new(compute.into());
        let receivers = |from: u32, kind: Kind| -> Arc<[Peer]> {
            let takes = |to: &&u32| {
                plan.subscriptions[**to as usize].takes(kind)
                    && !plan.withheld.contains(&(kind, from, **to))
            };
            let to = graph.peers(from).iter().filter(takes);
            let number = |to: &u32| graph.number_of(from, *to);
            let peers = to.filter_map(number);
            peers.map(|number| Peer(number.into())).collect()
        };
        let node = |(number, machine)| {
            let mut to: [Arc<[Peer]>; Kind::ALL.len()] = Default::default();
            for kind in Kind::ALL {
                to[index(kind)] = receivers(number, kind);
            }
            SlotNode::new(number, machine, &compute, to)
        };
        let roles = (0..nodes).zip(machines).map(node).collect();
        let mut world = World::new(roles, &config(&graph, plan), ());
        world.connect();
        Network { world, compute }
    }

    /// The state machine of a node.
    ///
    /// # Panics
    /// If there is no such node.
    pub(super) fn machine(&self, node: u32) -> &P {
        &self.world.role(node).machine
    }

    /// The compute model with its counts.
    pub(super) fn compute(&self) -> MutexGuard<'_, Compute> {
        lock(&self.compute)
    }

    /// Number of nodes.
    pub(super) fn nodes(&self) -> u32 {
        self.world.graph().nodes()
    }

    /// Handles every event due at `until` or earlier.
    ///
    /// # Errors
    /// [`WorldError`] if a limit is exceeded; the run cannot continue then.
    pub(super) fn run_until(&mut self, until: Time) -> Result<(), WorldError> {
        self.world.run_until(until, u64::MAX).map(|_| ())
    }

    /// Schedules a message of another origin to be published by a node.
    pub(super) fn publish_at(&mut self, at: Time, node: u32, topic: Topic, data: Bytes) {
        self.world.command(at, node, SlotMessage { topic, data });
    }

    /// Traffic published of a kind.
    pub(super) fn published(&self, kind: Kind) -> Traffic {
        let mut sum = Traffic::default();
        let of = self.world.roles().map(|node| node.published[index(kind)]);
        of.for_each(|traffic| sum += traffic);
        sum
    }

    /// All published blocks, in order, whether or not any node received them.
    pub(super) fn blocks(&self) -> Vec<Bytes> {
        let mut blocks: Vec<&(Time, Bytes)> =
            self.world.roles().flat_map(|node| &node.blocks).collect();
        // By the time of publication, since each node has a list of its own.
        blocks.sort_by_key(|(at, _)| *at);
        blocks.into_iter().map(|(_, data)| data.clone()).collect()
    }

    /// Events handled so far.
    pub(super) fn events(&self) -> u64 {
        self.world.events()
    }

    /// Digest of all outputs of the nodes so far.
    pub(super) fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        self.world
            .roles()
            .for_each(|node| hash.update(node.digest()));
        Digest(hash.finalize().into())
    }
}

fn config(graph: &Graph, plan: &Plan) -> WorldConfig {
    let nodes = graph.nodes() as usize;
    let latency = scenario::Latency::Constant {
        ms: plan.latency_ms,
        jitter_pct: 0,
    };
    WorldConfig {
        net: NetConfig {
            graph: graph.clone().into(),
            latency: Latency::new(&latency, vec![0; nodes]).into(),
            link: Link {
                overhead_bytes: 0,
                node_queue_bytes_max: u64::MAX,
                ..Link::default()
            },
            dial: None,
            rates: vec![RATE],
            rate: vec![0; nodes].into(),
            handle_ns: 0,
            seed: 0,
            kinds: SlotMessage::KINDS.len(),
            paced: false,
        },
        // The world does no computing for these nodes.
        processors: vec![Processor {
            cores: 1,
            factor_pct: 100,
        }],
        processor: vec![0; nodes].into(),
        limits: plan.limits,
        threads: 1,
    }
}
