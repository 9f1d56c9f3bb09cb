//! Protocols that send whole payloads: mesh, direct, grid. Payloads are only sizes.

use super::{Delivery, Input, Output, Publish, Role, Wire};
use crate::gossip::{
    self, Config, DenseId, Gossip, Links, Machine, Message, PEERS_MAX, Payload, PeerSet, Plain,
};
use crate::graph::Graph;
use crate::latency::mix;
use alphorn_proto::{Peer, Token, Verdict};
use alphorn_scheme::{Class, Features, JobId, Schedulable, SessionId};
use alphorn_types::{Slot, Time};
use std::sync::Arc;

/// A payload that is only a size, plus whether validation will accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    /// Size in bytes.
    pub bytes: u64,
    /// Result of validation.
    pub valid: bool,
}

impl Payload for Blob {
    #[inline]
    fn wire_bytes(&self) -> u64 {
        self.bytes
    }
}

/// A message about payloads that are identified by numbers.
pub(crate) type FloodMessage = Message<Blob>;

impl Wire for FloodMessage {
    const KINDS: &'static [&'static str] = &[
        "data",
        "relay",
        "ihave",
        "iwant",
        "idontwant",
        "graft",
        "prune",
    ];

    #[inline]
    fn wire_bytes(&self) -> u64 {
        Message::wire_bytes(self)
    }

    #[inline]
    fn kind(&self) -> usize {
        match self {
            Message::Data { .. } => 0,
            Message::Relay { .. } => 1,
            Message::IHave(_) => 2,
            Message::IWant(_) => 3,
            Message::IDontWant(_) => 4,
            Message::Graft => 5,
            Message::Prune => 6,
        }
    }

    #[inline]
    fn has_payload(&self) -> bool {
        matches!(self, Message::Data { .. } | Message::Relay { .. })
    }

    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        matches!(self, Message::Data { .. }) && self == other
    }
}

/// Validation of a payload before it is forwarded: one job of this duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validation {
    token: Token,
    valid: bool,
    cost_ns: u64,
}

impl Schedulable for Validation {
    fn features(&self) -> Features {
        Features {
            kind: u16::MAX,
            class: 0,
            inputs: 1,
            prior_ns: self.cost_ns,
            memory_bytes: 0,
        }
    }
}

impl super::Labour for Validation {
    type Product = (Token, Verdict);

    fn name(&self) -> &'static str {
        "validate"
    }

    fn run(self) -> Self::Product {
        let verdict = match self.valid {
            true => Verdict::Accept,
            false => Verdict::Reject,
        };
        (self.token, verdict)
    }
}

/// A node that sends whole payloads.
#[derive(Debug)]
pub(crate) struct Flood<S> {
    pub(crate) machine: S,
    validation_ns: u64,
    /// Number of its first job, so that results for jobs from before a restart are ignored.
    first_job: u64,
    jobs: u64,
}

impl<S: Machine<Blob>> Flood<S> {
    /// A node that validates a payload for `validation_ns` of a core before forwarding it; 0 means
    /// instantly.
    pub(crate) fn new(machine: S, validation_ns: u64) -> Self {
        Flood {
            machine,
            validation_ns,
            first_job: 0,
            jobs: 0,
        }
    }

    /// The same node after the given number of restarts.
    #[must_use]
    pub(crate) fn restarted(mut self, times: u32) -> Self {
        self.first_job = super::first_job(times);
        self
    }

    #[cold]
    fn validate(&mut self, token: Token, valid: bool) -> Output<Self> {
        let job = JobId(self.first_job + self.jobs);
        self.jobs += 1;
        let session = SessionId {
            slot: Slot(0),
            seq: 0,
        };
        let cost_ns = self.validation_ns;
        let work = Validation {
            token,
            valid,
            cost_ns,
        };
        let request = Box::new(super::request(session, Class::Verdict, work));
        Output::Spawn { job, request }
    }
}

impl<S: Machine<Blob>> Role for Flood<S> {
    type Message = FloodMessage;
    type Command = Publish;
    type Cancel = DenseId;
    type Work = Validation;
    type Delivery = Delivery;

    #[inline]
    fn handle(&mut self, now: Time, input: Input<Self>) {
        let input = match input {
            Input::Message { from, message } => gossip::Input::Message { from, message },
            Input::PeerUp { peer } => gossip::Input::PeerUp { peer },
            Input::PeerDown { peer } => gossip::Input::PeerDown { peer },
            Input::Deadline => gossip::Input::Deadline,
            Input::Command(Publish { item, bytes }) => gossip::Input::Publish {
                id: DenseId(item),
                payload: Blob { bytes, valid: true },
            },
            Input::Finished { job, product, .. } => match product {
                Some((token, verdict)) if job.0 >= self.first_job => {
                    gossip::Input::Verdict { token, verdict }
                }
                _ => return,
            },
            // No message of these protocols is paced.
            Input::SendReady { .. } => return,
        };
        self.machine.handle(now, input);
    }

    #[inline]
    fn poll_output(&mut self) -> Option<Output<Self>> {
        Some(match self.machine.poll_output()? {
            gossip::Output::Send {
                to,
                message,
                priority,
            } => Output::Send {
                to,
                message,
                priority: priority as u8,
            },
            gossip::Output::Cancel { peer, id } => Output::Cancel { peer, what: id },
            gossip::Output::Validate { token, payload, .. } => self.validate(token, payload.valid),
            gossip::Output::Deliver { id, payload } => Output::Deliver(Delivery {
                item: id.0,
                bytes: payload.bytes,
            }),
            gossip::Output::Report { peer, reason } => Output::Report {
                peer,
                reason: reason.name(),
            },
        })
    }

    #[inline]
    fn next_deadline(&self) -> Option<Time> {
        self.machine.next_deadline()
    }

    #[inline]
    fn absorb(&mut self, from: Peer, message: &FloodMessage) -> bool {
        self.machine.absorb(from, message)
    }

    fn cancels(what: &DenseId, message: &FloodMessage) -> bool {
        matches!(message, Message::Data { id, .. } if id == what)
    }

    fn is_proof(reason: &str) -> bool {
        ["malformed", "invalid", "beyond", "unexpected"].contains(&reason)
    }

    fn duplicate_bytes(&self) -> u64 {
        self.machine.duplicates().bytes
    }

    fn refusals(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.machine.refused().reasons()
    }
}

/// A graph from which no mesh can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node} has {value} neighbours, must be at most {max}")]
pub struct TooManyPeers {
    /// The node.
    pub node: u32,
    /// Number of its neighbours.
    pub value: usize,
    /// Maximum allowed.
    pub max: usize,
}

/// Mesh nodes whose meshes both ends of each connection agreed on beforehand. Connections are taken
/// in random order, each accepted while both ends have fewer than `degree`.
///
/// # Errors
/// [`TooManyPeers`].
///
/// # Panics
/// If the configuration fails [`Config::check`].
pub(crate) fn meshes(
    graph: &Graph,
    config: &Arc<Config>,
    validation_ns: u64,
    seed: u64,
) -> Result<Vec<Flood<Gossip<Blob>>>, TooManyPeers> {
    for node in 0..graph.nodes() {
        let value = graph.peers(node).len();
        if value > PEERS_MAX {
            let max = PEERS_MAX;
            return Err(TooManyPeers { node, value, max });
        }
    }
    let mut agreed = vec![PeerSet::EMPTY; graph.nodes() as usize];
    let edges = graph.mesh(config.degree, |edge| mix([seed, edge, 0, 0]));
    for ([a, b], _) in edges.filter(|(_, is_agreed)| *is_agreed) {
        for (node, peer) in [(a, b), (b, a)] {
            let number = graph.number_of(node, peer).unwrap_or(u32::MAX);
            let set = &mut agreed[node as usize];
            *set = set.or(PeerSet::one(Peer(number.into())));
        }
    }
    let role = |(node, agreed): (u32, PeerSet)| {
        let mut role = mesh(config, validation_ns, seed, node, 0);
        for peer in (0..graph.peers(node).len() as u64).map(Peer) {
            let up = gossip::Input::PeerUp { peer };
            role.machine.handle(Time::ZERO, up);
        }
        // After PeerUp: only connected peers are adopted.
        role.machine.adopt(agreed);
        role
    };
    Ok((0..).zip(agreed).map(role).collect())
}

/// A mesh node that knows no peers yet, given the seed, its number and its number of restarts.
///
/// # Panics
/// If the configuration fails [`Config::check`].
pub(crate) fn mesh(
    config: &Arc<Config>,
    validation_ns: u64,
    seed: u64,
    node: u32,
    restarts: u32,
) -> Flood<Gossip<Blob>> {
    let seed = mix([seed, node.into(), 1, restarts.into()]);
    Flood::new(Gossip::new(config.clone(), seed), validation_ns)
}

/// A node that sends to all its neighbours; no node forwards.
pub(crate) fn direct_node(
    graph: &Graph,
    config: &Arc<Config>,
    validation_ns: u64,
    node: u32,
) -> Flood<Plain<Blob>> {
    let peers = (0..graph.peers(node).len() as u64).map(Peer).collect();
    Flood::new(Plain::direct(config.clone(), peers), validation_ns)
}

/// A member of the grid; the graph must be [`Graph::grid`].
///
/// # Panics
/// If the graph is a different one.
pub(crate) fn member(
    graph: &Graph,
    config: &Arc<Config>,
    validation_ns: u64,
    node: u32,
) -> Flood<Plain<Blob>> {
    let links = Links::of(node, graph.nodes()).map(|&peer| {
        let number = graph.number_of(node, peer);
        Peer(number.expect("a grid connects rows and columns").into())
    });
    Flood::new(Plain::grid(config.clone(), links), validation_ns)
}
