//! A network of gossip nodes with unequal latencies and no queues: everything sent arrives.

use crate::gossip::{Config, DenseId, Gossip, Input, Machine, Message, Output, Payload, Reject};
use alphorn_proto::{Peer, Verdict};
use alphorn_types::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// A payload with a size and a validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) bytes: u64,
    pub(crate) valid: bool,
}

impl Payload for Blob {
    fn wire_bytes(&self) -> u64 {
        self.bytes
    }
}

pub(crate) type Node = Gossip<Blob>;
pub(crate) type Wire = Message<Blob>;

/// Nanoseconds between the arrival of a message and its verdict.
const VALIDATION_NS: u64 = 2_000_000;

#[derive(Debug)]
enum Event {
    Input(Input<Blob>),
    Deadline,
}

/// A sequence of pseudo-random numbers (xorshift) for graphs and latencies.
pub(crate) struct Numbers(pub u64);

impl Numbers {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    /// For each node and peer number: the neighbour and the node's number there.
    pub(crate) links: Vec<Vec<(usize, u64)>>,
    events: BTreeMap<(Time, u64), (usize, Event)>,
    sequence: u64,
    pub(crate) now: Time,
    /// Deliveries by node and message.
    pub(crate) delivered: BTreeMap<(usize, u32), u32>,
    pub(crate) reports: Vec<(usize, Peer, Reject)>,
    /// Messages sent, by kind.
    pub(crate) sent: BTreeMap<&'static str, u64>,
    /// Every event in short form, to compare runs.
    pub(crate) log: Vec<(u64, usize, &'static str)>,
    /// Links (sender, receiver) that lose published messages.
    pub(crate) lossy: Vec<(usize, usize)>,
    deadlines: BinaryHeap<Reverse<(Time, usize)>>,
}

impl World {
    /// `count` nodes, each linked to about `degree` random others.
    pub(crate) fn random(count: usize, degree: usize, config: Config, seed: u64) -> Self {
        let mut numbers = Numbers(seed * 2 + 1);
        let mut links: Vec<Vec<(usize, u64)>> = vec![Vec::new(); count];
        for a in 0..count {
            while links[a].len() < degree {
                let b = numbers.below(count as u64) as usize;
                if a != b && links[a].iter().all(|(other, _)| *other != b) {
                    let (at_a, at_b) = (links[a].len() as u64, links[b].len() as u64);
                    links[a].push((b, at_b));
                    links[b].push((a, at_a));
                }
            }
        }
        let config = Arc::new(config);
        let mut world = World {
            nodes: (0..count as u64)
                .map(|i| Node::new(config.clone(), seed * 1000 + i))
                .collect(),
            links,
            events: BTreeMap::new(),
            sequence: 0,
            now: Time::ZERO,
            delivered: BTreeMap::new(),
            reports: Vec::new(),
            sent: BTreeMap::new(),
            log: Vec::new(),
            lossy: Vec::new(),
            deadlines: BinaryHeap::new(),
        };
        for node in 0..count {
            for peer in 0..world.links[node].len() as u64 {
                world.input(node, Input::PeerUp { peer: Peer(peer) });
            }
        }
        world
    }

    fn at(&mut self, time: Time, node: usize, event: Event) {
        self.sequence += 1;
        self.events.insert((time, self.sequence), (node, event));
    }

    pub(crate) fn publish(&mut self, node: usize, id: u32, bytes: u64) {
        let payload = Blob { bytes, valid: true };
        let id = DenseId(id);
        self.input(node, Input::Publish { id, payload });
    }

    /// Passes an input to a node and carries out the effects.
    pub(crate) fn input(&mut self, node: usize, input: Input<Blob>) {
        self.nodes[node].handle(self.now, input);
        self.drain(node);
    }

    fn drain(&mut self, node: usize) {
        while let Some(output) = self.nodes[node].poll_output() {
            match output {
                Output::Send { to, message, .. } => {
                    for peer in &to {
                        self.send(node, peer, message.clone());
                    }
                }
                Output::Validate { token, payload, .. } => {
                    let verdict = match payload.valid {
                        true => Verdict::Accept,
                        false => Verdict::Reject,
                    };
                    let at = self.now.saturating_add_ns(VALIDATION_NS);
                    self.at(at, node, Event::Input(Input::Verdict { token, verdict }));
                }
                Output::Deliver { id, .. } => {
                    *self.delivered.entry((node, id.0)).or_default() += 1;
                }
                Output::Report { peer, reason } => self.reports.push((node, peer, reason)),
                Output::Cancel { .. } => {}
            }
        }
        if let Some(due) = self.nodes[node].next_deadline() {
            self.deadlines.push(Reverse((due, node)));
        }
    }

    /// Sends a message, including one that the node's own state machine would not send.
    pub(crate) fn send(&mut self, node: usize, peer: Peer, message: Wire) {
        *self.sent.entry(message.kind()).or_default() += 1;
        let (other, from) = self.links[node][peer.0 as usize];
        let data = matches!(message, Message::Data { .. });
        if data && self.lossy.contains(&(node, other)) {
            return;
        }
        // 20 to 119 ms, the same for all messages of a link, so that order is preserved.
        let latency_ms = 20 + (node * 31 + other * 17) as u64 % 100;
        let at = self.now.saturating_add_ns(latency_ms * 1_000_000);
        let from = Peer(from);
        self.at(at, other, Event::Input(Input::Message { from, message }));
    }

    /// Runs until `until`.
    pub(crate) fn run(&mut self, until: Time) {
        loop {
            while let Some(Reverse((due, node))) = self.deadlines.pop() {
                if self.nodes[node].next_deadline() == Some(due) {
                    self.at(due.max(self.now), node, Event::Deadline);
                }
            }
            let Some(entry) = self.events.first_entry() else {
                break;
            };
            let time = entry.key().0;
            if time > until {
                break;
            }
            let (node, event) = entry.remove();
            self.now = time;
            let (kind, input) = match event {
                Event::Input(input) => (kind(&input), input),
                Event::Deadline => {
                    if self.nodes[node]
                        .next_deadline()
                        .is_none_or(|due| due > time)
                    {
                        continue;
                    }
                    ("deadline", Input::Deadline)
                }
            };
            self.log.push((time.as_nanos(), node, kind));
            self.input(node, input);
        }
        self.now = until;
    }

    /// Runs for some milliseconds.
    pub(crate) fn run_ms(&mut self, ms: u64) {
        self.run(self.now.saturating_add_ns(ms * 1_000_000));
    }

    /// Whether every node except the publisher and `except` delivered the message exactly once.
    pub(crate) fn everyone_has(&self, id: u32, publisher: usize, except: &[usize]) -> bool {
        (0..self.nodes.len())
            .filter(|node| *node != publisher && !except.contains(node))
            .all(|node| self.delivered.get(&(node, id)) == Some(&1))
    }

    /// Redundant copies received, over all nodes.
    pub(crate) fn duplicates(&self) -> u64 {
        let counts = self.nodes.iter().map(|node| node.duplicates().count);
        counts.map(u64::from).sum()
    }
}

fn kind(input: &Input<Blob>) -> &'static str {
    match input {
        Input::Message { message, .. } => message.kind(),
        Input::Verdict { .. } => "verdict",
        Input::Publish { .. } => "publish",
        Input::PeerUp { .. } => "up",
        Input::PeerDown { .. } => "down",
        Input::Deadline => "deadline",
    }
}
