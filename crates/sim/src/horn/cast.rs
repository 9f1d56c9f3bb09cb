//! Collections and blocks in coded pieces. This is the counterpart of a real node's `cast`, under virtual time.
//!
//! A node has one state machine for both topics ([`Caster`]), with its neighbours there, the duties that the
//! protocol knows, and the parameters of a real node. Pieces have no content: a complete payload is the message
//! that its source registered when it published.

use super::message::{HornMessage, Inner, Item};
use super::node::{HornNode, NO_PEER};
use super::subscription::{Origin, Pending};
use super::work::NodeWork;
use super::{HornError, Plan, TopicId};
use crate::gossip::{DenseId, Peers};
use crate::random;
use crate::role::Output;
use crate::role::caster::{Cast, Caster, Coder};
use crate::run::error::RunError;
use crate::run::policy::{policy_of, privacy, replace_needs};
use crate::scenario::{Horn as Chosen, Scenario};
use alphorn_broadcast::rlnc::{Id, ModelRs, Strategy, Subject};
use alphorn_broadcast::{Blame, Config, Input, Message, Place, Policy, Product, Schedule as _};
use alphorn_proto::Peer;
use alphorn_proto::horn::cast::{self, JOBS, SOURCES, Settings};
use alphorn_proto::horn::{Horn, KIND_BLOCK, Sources};
use alphorn_proto::wire::Topic;
use alphorn_scheme::{Group, JobId, Op, SessionId};
use alphorn_types::{Slot, Time};
use alphorn_worker::Request;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A node's code, without content.
pub(crate) type Code = ModelRs;

/// Session number of a slot's broadcasts at a node.
const SESSION: u32 = u32::MAX - 1;

/// A subject as a key.
type Name = (u8, u64, u32, u32);

fn name(subject: &Subject) -> Name {
    (subject.kind, subject.slot, subject.source, subject.index)
}

/// State shared by all nodes of a run.
#[derive(Debug)]
pub(super) struct Casting {
    coder: Arc<Coder<Code>>,
    config: Arc<Config>,
    settings: Settings,
    seed: u64,
    /// Messages published in pieces, and their numbers on their topics: one message per duty.
    published: Mutex<BTreeMap<Name, (DenseId, Item)>>,
}

impl Casting {
    /// Builds the shared state if any topic is coded, for nodes with about this many neighbours.
    ///
    /// # Errors
    /// If there is no cost table for the code, or the parameters are invalid.
    pub(super) fn of(
        plan: &Plan,
        scenario: &Scenario,
        chosen: &Chosen,
        machine: &Horn,
        neighbours: usize,
        seed: u64,
    ) -> Result<Option<Arc<Casting>>, RunError> {
        if !plan.casts() {
            return Ok(None);
        }
        let table = scenario.code_costs()?.ok_or(HornError::CodeCosts)?;
        let config = config(chosen, machine, neighbours)?;
        let auth_bytes = plan.format.duty_signature_bytes;
        Ok(Some(Arc::new(Casting {
            coder: Arc::new(Coder {
                code: ModelRs::new(config.payload_bytes_max),
                table: Some(table),
                sign_ns: plan.duty_ns(Op::DutySign),
                verify_ns: plan.duty_ns(Op::DutyVerify),
                auth_bytes,
            }),
            config: Arc::new(config),
            settings: chosen.broadcast_above.map_or(Settings::default(), |bytes| {
                let above_bytes = bytes as usize;
                Settings { above_bytes }
            }),
            seed,
            published: Mutex::default(),
        })))
    }

    fn published(&self) -> MutexGuard<'_, BTreeMap<Name, (DenseId, Item)>> {
        // A panic ends the run.
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parameters of a node's state machine, with the scenario's overrides.
fn config(chosen: &Chosen, machine: &Horn, neighbours: usize) -> Result<Config, HornError> {
    let mut config = cast::config(machine);
    // A node deals places by default. Here that is an option of the scenario, with one place per neighbour.
    config.places = 0;
    if let Some(chosen) = &chosen.broadcast {
        let invalid = |why: String| HornError::Choice {
            key: "broadcast.policy",
            value: chosen.policy.clone(),
            why,
        };
        // The scenario's bounds refuse numbers unless a named policy is given for them to override.
        let policy = policy_of(chosen, Strategy::Rs, Policy::MEDIUM);
        config.policy = policy.map_err(|error| invalid(error.to_string()))?;
        if chosen.places == Some(true) {
            config.places = u16::try_from(neighbours).unwrap_or(u16::MAX);
        }
        replace_needs(&mut config, chosen);
        if let Some(chosen) = chosen.source_privacy {
            config.source_privacy = privacy(chosen);
        }
        if let Some(pieces) = chosen.in_flight {
            config.sends_in_flight_peer_max = u8::try_from(pieces).unwrap_or(u8::MAX);
        }
    }
    config.memory_bytes_max = u64::MAX;
    config.validate()?;
    Ok(config)
}

/// One of the node's own messages, whose broadcast has not started.
#[derive(Debug)]
struct Own {
    subject: Subject,
    topic: TopicId,
    id: DenseId,
    item: Item,
}

/// The broadcasts of a node.
pub(crate) struct Casts {
    shared: Arc<Casting>,
    caster: Caster<Code>,
    /// The node's numbers for its neighbours, ascending. The state machine uses indices into this list.
    links: Vec<u32>,
    sources: Sources,
    slot: Slot,
    /// Whether the assignment of duties may have changed.
    stale: bool,
    own: Vec<Own>,
}

impl Casts {
    /// Creates the broadcasts of a node with these neighbours, given by its numbers for them, ascending.
    pub(super) fn new(
        shared: Arc<Casting>,
        node: u32,
        links: Vec<u32>,
        machine: &Horn,
    ) -> Box<Casts> {
        let sources = machine.sources();
        let secret = random::bytes(shared.seed, "broadcast", node);
        let schedule = Arc::new(sources.clone());
        let (coder, config) = (shared.coder.clone(), shared.config.clone());
        let mut caster = Caster::new(coder, config, schedule, secret, JOBS);
        for peer in (0..links.len() as u64).map(Peer) {
            caster.handle(Time::ZERO, Input::PeerUp { peer });
        }
        Box::new(Casts {
            caster,
            links,
            sources,
            slot: Slot(0),
            stale: false,
            own: Vec::new(),
            shared,
        })
    }

    /// The node's numbers for its neighbours.
    pub(super) fn links(&self) -> &[u32] {
        &self.links
    }

    /// Position of a neighbour in this node's order, given its index among the neighbours.
    pub(super) fn place_of(&self, index: usize) -> Option<Place> {
        self.caster.place_of(Peer(index as u64))
    }

    /// Takes the position that a neighbour sent in its handshake.
    pub(super) fn placed(&mut self, index: usize, place: Place) {
        let peer = Peer(index as u64);
        self.caster
            .handle(Time::ZERO, Input::Placed { peer, place });
    }

    /// The state machine's number for a neighbour.
    fn peer(&self, number: Peer) -> Option<Peer> {
        let number = u32::try_from(number.0).ok()?;
        let index = self.links.binary_search(&number).ok()?;
        Some(Peer(index as u64))
    }

    /// The node's number for one of the state machine's.
    fn number(&self, peer: Peer) -> Option<Peer> {
        let number = self.links.get(usize::try_from(peer.0).ok()?)?;
        Some(Peer(u64::from(*number)))
    }

    fn is_block(&self, id: &Id) -> bool {
        let subject = self.caster.subject(id);
        subject.is_some_and(|subject| subject.kind == KIND_BLOCK)
    }

    /// Updates the assignment of duties.
    fn follow(&mut self, slot: Slot, machine: &Horn) {
        // This runs at every message about a broadcast, so the tables are compared only when they may have changed.
        if slot == self.slot && !self.stale {
            return;
        }
        (self.slot, self.stale) = (slot, false);
        let sources = machine.sources();
        if !sources.is_same(&self.sources) {
            self.caster.set_schedule(Arc::new(sources.clone()));
            self.sources = sources;
        }
    }

    /// The protocol ended a job, so it may know more duties.
    pub(super) fn learned(&mut self) {
        self.stale = true;
    }

    /// When it next needs to be woken.
    #[inline]
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.caster.next_deadline()
    }

    /// Bytes of pieces that added no information.
    pub(super) fn duplicate_bytes(&self) -> u64 {
        self.caster.duplicate_bytes()
    }

    /// Reasons of refusals, with their counts.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.caster.refused().reasons()
    }
}

impl HornNode {
    /// The code of the coded topics, if there are any.
    pub(crate) fn code(&self) -> Option<&Code> {
        self.casts
            .as_ref()
            .map(|casts| casts.caster.coder())
            .map(|coder| &coder.code)
    }

    /// Whether one of the node's own messages is sent in pieces.
    pub(super) fn is_cast(&self, topic: TopicId, item: &Item) -> bool {
        let Some(casts) = self.casts.as_ref().filter(|_| self.plan.is_coded(topic)) else {
            return false;
        };
        let settings = casts.shared.settings;
        settings.takes(self.plan.topic(topic), item.data().len())
    }

    /// Publishes one of the node's own messages in pieces, or by gossip if that is not possible.
    pub(super) fn cast(&mut self, topic: TopicId, id: DenseId, item: Item) {
        let wire: Topic = self.plan.topic(topic);
        let subject = cast::subject(wire, item.data(), &self.plan.format);
        self.follow();
        let Some(casts) = &mut self.casts else {
            return;
        };
        // Other nodes refuse the broadcast of a source that is not in their tables of duties.
        let Some(subject) = subject.filter(|subject| casts.sources.is_scheduled(subject)) else {
            return self.gossip(topic, id, item);
        };
        // Pieces have no content, so receivers take the message from `published`, where it must be before any piece
        // leaves.
        let payload = item.data().clone();
        casts
            .shared
            .published()
            .entry(name(&subject))
            .or_insert_with(|| (id, item.clone()));
        casts.own.push(Own {
            subject,
            topic,
            id,
            item,
        });
        self.tell_caster(Input::Publish { subject, payload });
    }

    fn follow(&mut self) {
        let now = self.plan.since_genesis(self.now);
        if let Some(casts) = &mut self.casts {
            let slot = self.machine.clock().slot_at(now).unwrap_or(Slot(0));
            casts.follow(slot, &self.machine);
        }
    }

    fn tell_caster(&mut self, input: Input<Code>) {
        if let Some(casts) = &mut self.casts {
            casts.caster.handle(self.now, input);
        }
        self.drain_caster();
    }

    /// Handles a neighbour's message about a broadcast.
    pub(super) fn receive_coded(&mut self, from: Peer, message: Message<Code>) {
        self.follow();
        let from = self.casts.as_ref().and_then(|casts| casts.peer(from));
        if let Some(from) = from {
            self.tell_caster(Input::Message { from, message });
        }
    }

    /// A piece for a neighbour left, or the neighbour came or went.
    pub(super) fn tell_of_peer(&mut self, number: Peer, input: fn(Peer) -> Input<Code>) {
        let peer = self.casts.as_ref().and_then(|casts| casts.peer(number));
        if let Some(peer) = peer {
            self.tell_caster(input(peer));
        }
    }

    /// Handles the end of a broadcast's job.
    pub(super) fn coding_ended(&mut self, job: JobId, product: Option<Product<Code>>) {
        if let Some(casts) = &mut self.casts {
            casts.caster.finished(self.now, job, product);
        }
        self.drain_caster();
    }

    /// Handles a deadline of the broadcasts.
    pub(super) fn keep_casts(&mut self) {
        let due = self.casts.as_ref().and_then(|casts| casts.next_deadline());
        if due.is_some_and(|due| due <= self.now) {
            self.tell_caster(Input::Deadline);
        }
    }

    /// Carries out the outputs of the broadcasts.
    fn drain_caster(&mut self) {
        while let Some(casts) = &mut self.casts
            && let Some(cast) = casts.caster.poll()
        {
            self.carry_out(cast);
        }
    }

    fn carry_out(&mut self, cast: Cast<Code>) {
        let Some(casts) = &mut self.casts else {
            return;
        };
        match cast {
            Cast::Send {
                peer,
                message,
                priority,
            } => {
                let Some(to) = casts.number(peer) else {
                    return;
                };
                let is_block = casts.is_block(&message.id());
                let topic = match is_block {
                    true => self.plan.block_topic(),
                    false => self.plan.collection_topic(),
                };
                let message = Box::new(message);
                let inner = Inner::Coded { message, is_block };
                self.out.push_back(Output::Send {
                    to: Peers::One(to),
                    message: HornMessage { topic, inner },
                    priority,
                });
            }
            Cast::Cancel { peer, id } => {
                if let Some(peer) = casts.number(peer) {
                    let what = Unsent::Pieces(id);
                    self.out.push_back(Output::Cancel { peer, what });
                }
            }
            Cast::Spawn { job, request, work } => {
                let slot = Slot(work.subject().slot);
                let request = Request {
                    session: SessionId { slot, seq: SESSION },
                    group: Group::of_slot(slot),
                    soft: request.soft.min(self.phase_end()),
                    ..request.with(NodeWork::Code(work))
                };
                let request = Box::new(request);
                self.out.push_back(Output::Spawn { job, request });
            }
            Cast::Spend { cost_ns } => self.out.push_back(Output::Spend { cost_ns }),
            Cast::Deliver { subject, .. } => self.complete(&subject),
            Cast::Published(subject) => casts.own.retain(|own| own.subject != subject),
            Cast::Unpublished(subject) => {
                let at = casts.own.iter().position(|own| own.subject == subject);
                if let Some(at) = at {
                    let own = casts.own.swap_remove(at);
                    self.gossip(own.topic, own.id, own.item);
                }
            }
            // As in a real node, a message beyond a budget is dropped without blame.
            Cast::Report { peer, reason } => {
                let number = casts.number(peer).filter(|_| reason.blame() == Blame::Ban);
                if let Some(peer) = number {
                    let reason = reason.name();
                    self.out.push_back(Output::Report { peer, reason });
                }
            }
            Cast::Evidence => self.out.push_back(Output::Evidence),
        }
    }

    /// When the current phase ends. From then on a broadcast's job is late, as in a real node.
    fn phase_end(&self) -> Time {
        let (clock, now) = (self.machine.clock(), self.plan.since_genesis(self.now));
        let phase = clock.phase_at(now);
        let end = phase.map(|phase| clock.start(clock.after(phase)));
        end.map_or(Time::MAX, |end| self.plan.of_run(end))
    }

    /// A payload is complete: hands its source's message to the state machine.
    fn complete(&mut self, subject: &Subject) {
        let Some(casts) = &self.casts else {
            return;
        };
        let known = casts.shared.published().get(&name(subject)).cloned();
        let topic = match subject.kind {
            KIND_BLOCK => self.plan.block_topic(),
            _ => self.plan.collection_topic(),
        };
        if let Some(((id, item), index)) = known.zip(self.find(topic)) {
            // Not the neighbour with the last piece: it is the source that answers for the content.
            let from = Peer(SOURCES | u64::from(subject.source));
            let origin = Origin::Source;
            self.validate(index, from, Pending { origin, id, item });
        }
    }

    /// Falls back to gossip for one of the node's own messages.
    fn gossip(&mut self, topic: TopicId, id: DenseId, item: Item) {
        if let Some(index) = self.find(topic) {
            self.subscriptions[index].publish(self.now, id, item);
            self.drain(index, NO_PEER);
        }
    }
}

/// What no longer needs to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// A message of a topic, by its number there.
    Whole(TopicId, DenseId),
    /// The pieces of a broadcast.
    Pieces(Id),
}
