//! The network: fixed latency, an uplink that sends one piece at a time, jobs that take time, and hooks for misbehaving
//! nodes.

use crate::Evidence;
use crate::rlnc::{Coding, Hash, Id, Published, Subject};
use crate::{
    Announce, Broadcast, Config, Convicted, Input, Message, Output, Policy, PolicyChoice, Priority,
    Product, Reject, Step, Unpublished, Work,
};
use alphorn_scheme::{Bytes, JobId};
use alphorn_types::{Peer, Time};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const LATENCY_NS: u64 = 20_000_000;
const JOB_NS: u64 = 200_000;
pub(super) const SUBJECT: Subject = Subject {
    kind: 1,
    slot: 7,
    source: 0,
    index: 0,
};

/// The signature used in tests: a hash of the signed data.
pub(super) fn sign(root: &Hash) -> Bytes {
    Sha256::digest(root).to_vec().into()
}

pub(super) fn config(policy: Policy) -> Config {
    Config {
        policy: PolicyChoice::Fixed(policy),
        uplink_bps: 100_000_000,
        reference_uplink_bps: 100_000_000,
        reference_latency_ns: LATENCY_NS,
        need_after_quiet_ns: 3 * LATENCY_NS,
        payload_bytes_max: 1 << 20,
        ..Config::default()
    }
}

pub(super) fn payload(len: usize) -> Bytes {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

enum Event<C: Coding> {
    Input(Input<C>),
    /// A piece has left; `None` if the peer has changed in the meantime.
    Ready(usize),
}

/// Modifies a node's outgoing message; false = drop it.
pub(super) type Tamper<C> = Box<dyn FnMut(usize, &mut Message<C>) -> bool>;

/// Whether a job is lost.
pub(super) type Loses<C> = Box<dyn FnMut(&Work<C>) -> bool>;

/// Replaces what a source derives from its payload.
pub(super) type Forge<C> = Box<dyn FnOnce(Published<C>) -> Published<C>>;

#[derive(Default)]
pub(super) struct Seen {
    pub(super) delivered: Vec<(Id, Bytes)>,
    pub(super) convicted: Vec<Convicted>,
    pub(super) evidence: Vec<Evidence>,
    pub(super) withheld: Vec<Bytes>,
    pub(super) unpublished: Vec<Unpublished>,
    pub(super) full_at: Option<Time>,
    pub(super) cancelled: usize,
    pub(super) headers_verified: usize,
    pub(super) needs: usize,
}

pub(super) struct Net<C: Coding> {
    pub(super) code: C,
    pub(super) nodes: Vec<Broadcast<C>>,
    /// Neighbours of each node, by peer number.
    pub(super) links: Vec<Vec<usize>>,
    events: BTreeMap<(Time, u64), (usize, Event<C>)>,
    begun: u64,
    uplink_free_at: Vec<Time>,
    uplink_bps: u64,
    pub(super) tamper: Vec<Option<Tamper<C>>>,
    /// Replaces what a source derives from its payload.
    pub(super) forge: Option<Forge<C>>,
    pub(super) now: Time,
    pub(super) seen: Vec<Seen>,
    pub(super) reports: Vec<(usize, usize, Reject)>,
    pub(super) bytes_sent: u64,
    pub(super) lost_one_in: Option<u32>,
    /// Whether a job is lost.
    pub(super) loses: Option<Loses<C>>,
    /// Pieces from the first to the second take this many nanoseconds to leave, and no uplink.
    pub(super) slow: Option<(usize, usize, u64)>,
    rng: ChaCha20Rng,
    /// Whether messages are encoded and decoded in transit.
    pub(super) in_bytes: bool,
    /// Every piece sent, with its sender and receiver, for inspection.
    pub(super) pieces: Vec<(usize, usize, C::Piece)>,
    /// The ranks of each node and broadcast after its last input.
    ranks: BTreeMap<(usize, Id), Vec<u16>>,
    limits: (usize, usize),
}

impl<C: Coding> Net<C> {
    /// A connected random graph of `count` nodes with approximately `degree` neighbours.
    pub(super) fn new(code: C, config: Config, count: usize, degree: usize, seed: u64) -> Net<C> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut links = vec![Vec::new(); count];
        let mut connect = |a: usize, b: usize| {
            if a != b && !links[a].contains(&b) {
                links[a].push(b);
                links[b].push(a);
            }
        };
        (1..count).for_each(|node| connect(node - 1, node));
        for _ in 0..count * degree.saturating_sub(2) / 2 {
            let draw = |rng: &mut ChaCha20Rng| rng.next_u32() as usize % count;
            connect(draw(&mut rng), draw(&mut rng));
        }
        let uplink_bps = config.uplink_bps;
        // Eight headers and eight notes per peer, see the lecture.
        let waiting_max = usize::from(config.orphans_max) + 16 * usize::from(config.peers_max);
        // One second header per subject.
        let limits = (2 * usize::from(config.live_max), waiting_max);
        let config = Arc::new(config);
        let duties = Arc::new(|subject: &Subject| subject.slot == 7 && subject.source < 4);
        let node = |index: usize| {
            let secret = [index as u8 ^ seed as u8; 32];
            Broadcast::new(code.clone(), config.clone(), duties.clone(), secret)
        };
        let mut net = Net {
            nodes: (0..count).map(node).collect(),
            code,
            links,
            events: BTreeMap::new(),
            begun: 0,
            uplink_free_at: vec![Time::ZERO; count],
            uplink_bps,
            tamper: (0..count).map(|_| None).collect(),
            forge: None,
            now: Time::from_millis(1),
            seen: (0..count).map(|_| Seen::default()).collect(),
            reports: Vec::new(),
            bytes_sent: 0,
            lost_one_in: None,
            loses: None,
            slow: None,
            rng,
            in_bytes: false,
            pieces: Vec::new(),
            ranks: BTreeMap::new(),
            limits,
        };
        for node in 0..count {
            for peer in 0..net.links[node].len() {
                let peer = Peer(peer as u64);
                net.input(node, Input::PeerUp { peer });
            }
        }
        net
    }

    pub(super) fn peer_of(&self, node: usize, other: usize) -> Peer {
        let at = self.links[node].iter().position(|&next| next == other);
        Peer(at.expect("neighbours") as u64)
    }

    fn at(&mut self, time: Time, node: usize, event: Event<C>) {
        self.begun += 1;
        self.events.insert((time, self.begun), (node, event));
    }

    /// An input now.
    pub(super) fn input(&mut self, node: usize, input: Input<C>) {
        self.nodes[node].handle(self.now, input);
        self.check(node);
        while let Some(output) = self.nodes[node].poll_output() {
            self.output(node, output);
        }
    }

    /// Invariants after every input of every test: a rank never falls, and nothing exceeds its bound.
    fn check(&mut self, node: usize) {
        let machine = &self.nodes[node];
        let (live_max, waiting_max) = self.limits;
        assert!(machine.live_count() <= live_max && machine.waiting_count() <= waiting_max);
        for id in machine.live_ids() {
            let now: Vec<u16> = machine.ranks(&id).expect("it is alive").collect();
            let before = self.ranks.entry((node, id)).or_insert_with(|| now.clone());
            assert!(before.iter().zip(&now).all(|(old, new)| old <= new));
            *before = now;
        }
    }

    pub(super) fn publish(&mut self, node: usize, payload: Bytes) {
        let subject = SUBJECT;
        self.input(node, Input::Publish { subject, payload });
    }

    /// A message from a neighbour, now.
    pub(super) fn receive(&mut self, node: usize, from: usize, message: Message<C>) {
        let from = self.peer_of(node, from);
        self.input(node, Input::Message { from, message });
    }

    fn output(&mut self, node: usize, output: Output<C>) {
        match output {
            Output::Send {
                peer,
                message,
                priority,
                ..
            } => self.send(node, peer, message, priority),
            Output::Spawn { job, work, .. } => self.work(node, job, &work),
            Output::Cancel { .. } => self.seen[node].cancelled += 1,
            Output::Deliver { id, payload, .. } => self.seen[node].delivered.push((id, payload)),
            Output::Report { peer, reason } => {
                let who = self.links[node][peer.0 as usize];
                self.reports.push((node, who, reason));
            }
            Output::InvalidSource(convicted) => self.seen[node].convicted.push(*convicted),
            Output::Evidence { evidence, .. } => self.seen[node].evidence.push(evidence),
            Output::Withheld { header, .. } => self.seen[node].withheld.push(header),
            Output::Unpublished { why, .. } => self.seen[node].unpublished.push(why),
            Output::Progress { step, .. } => {
                if step == Step::Full {
                    self.seen[node].full_at = Some(self.now);
                }
            }
            Output::Published { .. } => {}
        }
    }

    fn send(&mut self, node: usize, peer: Peer, mut message: Message<C>, priority: Priority) {
        let to = self.links[node][peer.0 as usize];
        let bytes = message.wire_bytes();
        self.bytes_sent += bytes;
        let mut left = self.now;
        if priority.is_piece()
            && let Some((_, _, ns)) = self.slow.filter(|slow| (slow.0, slow.1) == (node, to))
        {
            left = left.saturating_add_ns(ns);
            self.at(left, node, Event::Ready(peer.0 as usize));
        } else if priority.is_piece() {
            let free = self.uplink_free_at[node].max(self.now);
            left = free.saturating_add_ns(bytes * 8_000_000_000 / self.uplink_bps);
            self.uplink_free_at[node] = left;
            self.at(left, node, Event::Ready(peer.0 as usize));
            if self
                .lost_one_in
                .is_some_and(|n| self.rng.next_u32().is_multiple_of(n))
            {
                return;
            }
        }
        if matches!(message, Message::Need { .. }) {
            self.seen[node].needs += 1;
        }
        if let Some(tamper) = &mut self.tamper[node]
            && !tamper(to, &mut message)
        {
            return;
        }
        if let Message::Piece { piece, .. } = &message {
            self.pieces.push((node, to, piece.clone()));
        }
        let from = self.peer_of(to, node);
        let arrival = left.saturating_add_ns(LATENCY_NS);
        if self.in_bytes {
            let encoded = self.nodes[node].encode(&message).expect("it is alive");
            assert_eq!(encoded.len() as u64, message.wire_bytes());
            let input = match self.nodes[to].decode(from, &encoded) {
                Ok(message) => Input::Message { from, message },
                Err(reason) => Input::Malformed { from, reason },
            };
            return self.at(arrival, to, Event::Input(input));
        }
        self.at(arrival, to, Event::Input(Input::Message { from, message }));
    }

    fn work(&mut self, node: usize, job: JobId, work: &Work<C>) {
        assert!(!work.name().is_empty());
        let is_header = matches!(work, Work::VerifyHeader { .. });
        self.seen[node].headers_verified += usize::from(is_header);
        let product = match work {
            Work::Sign { root, .. } => Some(Product::Signed(sign(root))),
            Work::VerifyHeader { announce, root } => {
                Some(Product::Header(announce.auth == sign(root)))
            }
            _ => work.run(&self.code),
        };
        let product = match (product, &mut self.forge) {
            (Some(Product::Published(Ok(published))), forge) if forge.is_some() => {
                let forge = forge.take().expect("checked");
                Some(Product::Published(Ok(forge(published))))
            }
            (product, _) => product,
        };
        let is_lost = self.loses.as_mut().is_some_and(|loses| loses(work));
        let product = product.filter(|_| !is_lost);
        let done = self.now.saturating_add_ns(JOB_NS);
        self.at(done, node, Event::Input(Input::Finished { job, product }));
    }

    /// Runs until there is nothing left to do before `end`.
    pub(super) fn run_until(&mut self, end: Time) {
        loop {
            let event = self.events.keys().next().map(|&(time, _)| time);
            let deadlines = self.nodes.iter().enumerate();
            let due = deadlines
                .filter_map(|(node, machine)| Some((machine.next_deadline()?, node)))
                .min();
            let next = event.into_iter().chain(due.map(|(time, _)| time)).min();
            let Some(next) = next.filter(|&time| time <= end) else {
                self.now = self.now.max(end);
                return;
            };
            self.now = self.now.max(next);
            match due.filter(|&(time, _)| event.is_none_or(|event| time < event)) {
                Some((_, node)) => self.input(node, Input::Deadline),
                None => {
                    let (_, (node, event)) = self.events.pop_first().expect("there is one");
                    match event {
                        Event::Input(input) => self.input(node, input),
                        Event::Ready(peer) => {
                            let peer = Peer(peer as u64);
                            self.input(node, Input::SendReady { peer });
                        }
                    }
                }
            }
        }
    }

    pub(super) fn run_ms(&mut self, ms: u64) {
        self.run_until(self.now.saturating_add_ns(ms * 1_000_000));
    }

    /// Nodes that delivered exactly this payload, once.
    pub(super) fn delivered(&self, payload: &[u8]) -> usize {
        let right = |seen: &&Seen| matches!(&seen.delivered[..], [(_, got)] if **got == *payload);
        self.seen.iter().filter(right).count()
    }

    pub(super) fn refused(&self, reason: Reject) -> u32 {
        self.nodes
            .iter()
            .map(|node| node.refused().count(reason))
            .sum()
    }

    /// A signed announcement of a payload, and everything there is to send of it.
    pub(super) fn announce(&self, published: &Published<C>) -> Arc<Announce<C>> {
        let header = published.header.clone();
        let root = header.signing_root(&[0; 32]);
        let id = header.id(&[0; 32]);
        let along =
            (self.code.commitment_lists(&header) == 1).then(|| published.commitments[0].clone());
        Arc::new(Announce::new(&self.code, id, header, sign(&root), along))
    }
}
