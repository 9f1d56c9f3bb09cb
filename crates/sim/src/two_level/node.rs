//! A node of the two-level model.

use super::TwoLevel;
use super::message::{Content, TwoLevelMessage, TwoLevelWork};
use super::place::{Place, ProofTo};
use crate::gossip::{self, DenseId, Message, Peers};
use crate::horn::{Origin, Pending, Station, Way};
use crate::role::{self, Input, Output, Role};
use alphorn_proto::{Peer, Verdict};
use alphorn_scheme::{Class, JobId, SessionId};
use alphorn_types::{Slot, Time};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug)]
enum Task {
    Sign,
    VerifySignature,
    ProveGroup,
    /// A proof that was sent at once.
    VerifyProof(Pending<Content>),
    /// A proof that was asked for.
    VerifyWanted {
        group: u32,
        from: Peer,
        signers: u32,
    },
    ProveAll {
        signers: u32,
    },
}

/// A global aggregator has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Signers in its proof.
    pub signers: u32,
}

/// A global aggregator that asks for proofs.
#[derive(Debug)]
struct Pull {
    /// Whom it tells of its proofs, by the node's numbers for them.
    neighbours: Vec<u32>,
    /// Groups whose proof was asked for.
    wanted: Vec<bool>,
}

/// See the [module](super).
#[derive(Debug)]
pub struct TwoLevelNode {
    place: Place,
    signatures: Option<Station<Content>>,
    proofs: Option<Station<Content>>,
    pull: Option<Pull>,
    now: Time,
    begun: bool,
    /// Signatures verified; counted until the proof starts.
    verified: u32,
    proving: bool,
    /// Signers in the own proof, which may be asked for.
    own_proof: u32,
    /// Signers in the verified proof of each group; 0 = none here.
    held: Vec<u32>,
    finishing: bool,
    /// The processor does one thing after the other.
    tasks: VecDeque<(u64, Task)>,
    running: Option<Task>,
    out: VecDeque<Output<Self>>,
}

impl TwoLevelNode {
    pub(super) fn new(
        place: Place,
        signatures: Option<Station<Content>>,
        proofs: Option<Station<Content>>,
        pull: Option<Vec<u32>>,
    ) -> Self {
        let groups = place.config.groups as usize;
        let pull = pull.map(|neighbours| Pull {
            neighbours,
            wanted: vec![false; groups],
        });
        TwoLevelNode {
            place,
            signatures,
            proofs,
            pull,
            now: Time::ZERO,
            begun: false,
            verified: 0,
            proving: false,
            own_proof: 0,
            held: vec![0; groups],
            finishing: false,
            tasks: VecDeque::new(),
            running: None,
            out: VecDeque::new(),
        }
    }

    fn is_local(&self) -> bool {
        self.place.proof_to.is_some()
    }

    fn task(&mut self, cost_ns: u64, task: Task) {
        self.tasks.push_back((cost_ns, task));
        self.work();
    }

    fn work(&mut self) {
        if self.running.is_some() {
            return;
        }
        let Some((cost_ns, task)) = self.tasks.pop_front() else {
            return;
        };
        self.running = Some(task);
        let session = SessionId {
            slot: Slot(0),
            seq: 0,
        };
        let request = role::request(session, Class::Current, TwoLevelWork { cost_ns });
        let job = JobId(0);
        self.out.push_back(Output::Spawn { job, request });
    }

    fn done(&mut self) {
        let Some(task) = self.running.take() else {
            return;
        };
        let config = self.place.config.clone();
        match task {
            Task::Sign => self.publish_signature(),
            Task::VerifySignature => {
                self.verified += 1;
                let start = self.place.group_len * config.local_start_pct / 100;
                if !self.proving && self.verified >= start.max(1) {
                    self.proving = true;
                    self.own_proof = self.verified;
                    let signatures = u64::from(self.verified);
                    let cost_ns = signatures * 1_000_000_000 / config.signatures_per_s;
                    self.task(cost_ns, Task::ProveGroup);
                }
            }
            Task::ProveGroup => self.give_proof(),
            Task::VerifyProof(pending) => {
                match (pending.origin, &mut self.proofs) {
                    (Origin::Machine(token), Some(station)) => {
                        station.decide(self.now, token, Verdict::Accept);
                    }
                    _ => self.spread(pending.id.0, pending.item.signers),
                }
                self.drain();
            }
            Task::VerifyWanted {
                group,
                from,
                signers,
            } => self.pulled(group, Some(from), signers),
            Task::ProveAll { signers } => {
                self.out.push_back(Output::Deliver(Finished { signers }));
            }
        }
        self.work();
    }

    fn publish_signature(&mut self) {
        let payload = Content {
            bytes: self.place.config.signature_bytes,
            signers: 1,
        };
        let id = DenseId(self.place.index);
        match &mut self.signatures {
            Some(station) => station.publish(self.now, id, payload),
            None => {
                let to = self.place.signature_to.clone();
                let inner = Station::handed_in(Way::Direct, id, payload);
                self.send(
                    Peers::List(to),
                    TwoLevelMessage::Signature(inner),
                    gossip::Priority::Own,
                );
            }
        }
        if self.is_local() {
            self.count_signature();
        }
        self.drain();
    }

    fn count_signature(&mut self) {
        if self.is_local() && !self.proving {
            let cost_ns = self.place.config.verify_signature_us * 1000;
            self.task(cost_ns, Task::VerifySignature);
        }
    }

    /// The own proof is made.
    fn give_proof(&mut self) {
        let group = self.place.group;
        let config = &self.place.config;
        match self.place.proof_to {
            None => {}
            Some(ProofTo::Itself) => self.have_own(),
            Some(ProofTo::Neighbour(number)) if config.pull => {
                let message = TwoLevelMessage::Announce {
                    group,
                    bytes: config.announcement_bytes as u32,
                };
                let to = Peers::One(Peer(number.into()));
                self.send(to, message, gossip::Priority::Control);
            }
            Some(ProofTo::Neighbour(number)) => {
                let inner = Station::handed_in(
                    self.place.proofs_way,
                    DenseId(group),
                    proof(config, self.own_proof),
                );
                let to = Peers::One(Peer(number.into()));
                self.send(to, TwoLevelMessage::Proof(inner), gossip::Priority::Own);
            }
        }
    }

    fn have_own(&mut self) {
        let (group, signers) = (self.place.group, self.own_proof);
        match self.pull {
            Some(_) => self.pulled(group, None, signers),
            None => self.spread(group, signers),
        }
        self.drain();
    }

    /// Sends a verified proof on that came from no global aggregator, if it is the first of its group.
    fn spread(&mut self, group: u32, signers: u32) {
        let payload = proof(&self.place.config, signers);
        if self.held[group as usize] == 0
            && let Some(station) = &mut self.proofs
        {
            station.publish(self.now, DenseId(group), payload);
            self.hold(group, signers);
        }
    }

    /// A verified proof; the first of its group counts.
    fn hold(&mut self, group: u32, signers: u32) {
        let held = &mut self.held[group as usize];
        if *held > 0 {
            return;
        }
        *held = signers;
        let config = &self.place.config;
        let needed = u64::from(self.place.nodes) * u64::from(config.final_pct) / 100;
        let signers: u32 = self.held.iter().sum();
        if !self.finishing && u64::from(signers) >= needed.max(1) {
            self.finishing = true;
            let proofs = self.held.iter().filter(|held| **held > 0).count() as u64;
            let cost_ns = proofs * 1_000_000_000 / config.proofs_per_s;
            self.task(cost_ns, Task::ProveAll { signers });
        }
    }

    /// A verified proof, where proofs are announced: the neighbours are told.
    fn pulled(&mut self, group: u32, from: Option<Peer>, signers: u32) {
        let Some(pull) = self
            .pull
            .as_ref()
            .filter(|_| self.held[group as usize] == 0)
        else {
            return;
        };
        let others = pull.neighbours.iter().map(|number| Peer((*number).into()));
        let to: Arc<[Peer]> = others.filter(|peer| Some(*peer) != from).collect();
        let bytes = self.place.config.announcement_bytes as u32;
        let message = TwoLevelMessage::Announce { group, bytes };
        self.send(Peers::List(to), message, gossip::Priority::Control);
        self.hold(group, signers);
    }

    fn announced(&mut self, from: Peer, group: u32) {
        let bytes = self.place.config.announcement_bytes as u32;
        let Some(pull) = &mut self.pull else {
            return;
        };
        let index = group as usize;
        let known = self.held.get(index).is_none_or(|held| *held > 0);
        if known || std::mem::replace(&mut pull.wanted[index], true) {
            return;
        }
        let message = TwoLevelMessage::Want { group, bytes };
        self.send(Peers::One(from), message, gossip::Priority::Control);
    }

    fn asked(&mut self, from: Peer, group: u32) {
        let held = self.held.get(group as usize).copied();
        let own = match group == self.place.group {
            true => self.own_proof,
            false => 0,
        };
        let signers = held.filter(|held| *held > 0).unwrap_or(own);
        if signers > 0 {
            let inner = Message::Data {
                id: DenseId(group),
                payload: proof(&self.place.config, signers),
            };
            self.send(
                Peers::One(from),
                TwoLevelMessage::Proof(inner),
                gossip::Priority::Answer,
            );
        }
    }

    fn send(&mut self, to: Peers, message: TwoLevelMessage, priority: gossip::Priority) {
        if !to.is_empty() {
            let priority = priority as u8;
            self.out.push_back(Output::Send {
                to,
                message,
                priority,
            });
        }
    }

    fn receive(&mut self, from: Peer, message: TwoLevelMessage) {
        // A graph has fewer than 2^32 ends.
        let number = from.0 as u32;
        match message {
            TwoLevelMessage::Signature(inner) => {
                match &mut self.signatures {
                    Some(station) => station.receive(self.now, number, inner),
                    None => self.count_signature(),
                }
                self.drain();
            }
            TwoLevelMessage::Proof(Message::Data { id, payload }) if self.pull.is_some() => {
                let task = Task::VerifyWanted {
                    group: id.0,
                    from,
                    signers: payload.signers,
                };
                self.task(self.place.config.verify_proof_us * 1000, task);
            }
            TwoLevelMessage::Proof(inner) => {
                if let Some(station) = &mut self.proofs {
                    station.receive(self.now, number, inner);
                }
                self.drain();
            }
            TwoLevelMessage::Announce { group, .. } => self.announced(from, group),
            TwoLevelMessage::Want { group, .. } => self.asked(from, group),
        }
    }

    /// Carries out what the stations want.
    fn drain(&mut self) {
        while let Some(output) = self.signatures.as_mut().and_then(Station::poll_output) {
            match output {
                gossip::Output::Send {
                    to,
                    message,
                    priority,
                } => {
                    let to = numbered(&self.signatures, to);
                    self.send(to, TwoLevelMessage::Signature(message), priority);
                }
                gossip::Output::Deliver { .. } => self.count_signature(),
                _ => {}
            }
        }
        while let Some(output) = self.proofs.as_mut().and_then(Station::poll_output) {
            match output {
                gossip::Output::Send {
                    to,
                    message,
                    priority,
                } => {
                    let to = numbered(&self.proofs, to);
                    self.send(to, TwoLevelMessage::Proof(message), priority);
                }
                gossip::Output::Validate {
                    token, id, payload, ..
                } => {
                    let pending = Pending {
                        origin: Origin::Machine(token),
                        id,
                        item: payload,
                    };
                    self.verify_proof(pending);
                }
                gossip::Output::Deliver { id, payload } => self.hold(id.0, payload.signers),
                _ => {}
            }
        }
        let handed = self.proofs.as_mut();
        let handed = handed.map(Station::take_handed);
        for pending in handed.into_iter().flatten() {
            if self.held[pending.id.0 as usize] == 0 {
                self.verify_proof(pending);
            }
        }
    }

    fn verify_proof(&mut self, pending: Pending<Content>) {
        let cost_ns = self.place.config.verify_proof_us * 1000;
        self.task(cost_ns, Task::VerifyProof(pending));
    }

    fn stations(&mut self) -> impl Iterator<Item = &mut Station<Content>> {
        self.signatures.iter_mut().chain(self.proofs.iter_mut())
    }
}

/// The node's numbers for those whom a station sends to.
fn numbered(station: &Option<Station<Content>>, to: Peers) -> Peers {
    match station {
        Some(station) => station.neighbours(to),
        None => Peers::List(Arc::from([])),
    }
}

fn proof(config: &TwoLevel, signers: u32) -> Content {
    Content {
        bytes: config.proof_bytes,
        signers,
    }
}

impl Role for TwoLevelNode {
    type Message = TwoLevelMessage;
    type Command = std::convert::Infallible;
    type Cancel = DenseId;
    type Work = TwoLevelWork;
    type Delivery = Finished;

    fn handle(&mut self, now: Time, input: Input<Self>) {
        self.now = self.now.max(now);
        match input {
            Input::Message { from, message } => self.receive(from, message),
            Input::Finished { .. } => self.done(),
            Input::Deadline => {
                if !std::mem::replace(&mut self.begun, true) {
                    let cost_ns = self.place.config.signing_ms * 1_000_000;
                    self.task(cost_ns, Task::Sign);
                }
                let now = self.now;
                self.stations().for_each(|station| station.deadline(now));
                self.drain();
            }
            Input::SendReady { .. } | Input::PeerUp { .. } | Input::PeerDown { .. } => {}
            Input::Command(never) => match never {},
        }
    }

    fn poll_output(&mut self) -> Option<Output<Self>> {
        self.out.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        if !self.begun {
            return Some(Time::ZERO);
        }
        let stations = self.signatures.iter().chain(&self.proofs);
        stations.filter_map(Station::next_deadline).min()
    }

    fn cancels(_: &DenseId, _: &TwoLevelMessage) -> bool {
        false
    }

    fn is_proof(_: &str) -> bool {
        false
    }

    fn duplicate_bytes(&self) -> u64 {
        let stations = self.signatures.iter().chain(&self.proofs);
        stations.map(Station::duplicate_bytes).sum()
    }
}
