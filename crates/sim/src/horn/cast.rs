//! Collections and blocks in coded pieces. This is the counterpart of a real node's `cast`, under virtual time.
//!
//! A node has one state machine for both topics ([`Caster`]), with its neighbours there, the duties that the
//! protocol knows, and the parameters of a real node. Pieces have no content: a complete payload is the message
//! that its source registered when it published.
//!
//! [`Caster`]: crate::role::caster::Caster

use super::casting::{Own, name};
use super::message::{HornMessage, Inner, Item, Unsent};
use super::node::{HornNode, NO_PEER};
use super::plan::TopicId;
use super::subscription::{Origin, Pending};
use super::work::{Code, NodeWork};
use crate::gossip::{DenseId, Peers};
use crate::role::Output;
use crate::role::caster::Cast;
use alphorn_broadcast::rlnc::Subject;
use alphorn_broadcast::{Blame, Input, Message, Product, Schedule as _};
use alphorn_proto::Peer;
use alphorn_proto::horn::KIND_BLOCK;
use alphorn_proto::horn::cast::{self, SOURCES};
use alphorn_proto::wire::Topic;
use alphorn_scheme::{Group, JobId, SessionId};
use alphorn_types::{Slot, Time};
use alphorn_worker::Request;

/// Session number of a slot's broadcasts at a node.
const SESSION: u32 = u32::MAX - 1;

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
