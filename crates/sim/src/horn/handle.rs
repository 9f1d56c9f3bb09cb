//! How a node handles an input: it carries messages, verdicts and jobs between the state machine of the protocol and
//! those of its topics.
//!
//! The node decides nothing itself. What it shows of the slot comes from what the state machine publishes and
//! accepts.

use super::join::Join;
use super::message::{HornMessage, Inner, Item, Unsent};
use super::node::{HornDelivery, HornNode, NO_PEER};
use super::own::Own;
use super::subscription::{Origin, Pending, Subscription};
use super::work::{NodeProduct, NodeWork};
use crate::gossip::{self, Message, Peers};
use crate::role::{Input, Output, Role, caster};
use crate::scenario::Way;
use alphorn_proto::horn::cast::{JOBS, SOURCES};
use alphorn_proto::wire::Topic;
use alphorn_proto::{self as proto, Peer, Protocol as _, Spawn, Token, Verdict};
use alphorn_scheme::{Bytes, Outcome, Product};
use alphorn_types::{Slot, Time, Validator};
use alphorn_worker::{End, Request};
use std::sync::Arc;

/// Capacity in outputs that an empty queue keeps.
const OUTPUTS_KEPT: usize = 16;

/// Token of messages for which no component waits for the verdict.
const NOBODY: Token = Token(u64::MAX);

impl HornNode {
    /// Carries out the outputs of a topic's state machine. `from` is the sender of the message they answer.
    pub(super) fn drain(&mut self, index: usize, from: Peer) {
        let topic = self.subscriptions[index].id;
        while let Some(output) = self.subscriptions[index].poll_output() {
            match output {
                gossip::Output::Send {
                    to,
                    message,
                    priority,
                } => {
                    // Nodes outside a mesh share one number in it, which names no neighbour: what is meant for them
                    // is not sent.
                    let to = self.subscriptions[index].neighbours(to);
                    if !to.is_empty() {
                        let inner = Inner::Whole(message);
                        self.out.push_back(Output::Send {
                            to,
                            message: HornMessage { topic, inner },
                            priority: priority as u8,
                        });
                    }
                }
                gossip::Output::Cancel { peer, id } => {
                    if let Some(peer) = self.subscriptions[index].neighbour(peer) {
                        let what = Unsent::Whole(topic, id);
                        self.out.push_back(Output::Cancel { peer, what });
                    }
                }
                gossip::Output::Validate {
                    token, id, payload, ..
                } => {
                    let origin = Origin::Machine(token);
                    let item = payload;
                    self.validate(index, from, Pending { origin, id, item });
                }
                gossip::Output::Deliver { id, payload }
                    if self.subscriptions[index].is_direct() =>
                {
                    let origin = Origin::Direct;
                    let item = payload;
                    self.validate(index, from, Pending { origin, id, item });
                }
                // The state machine has it already, since the verdict was its own.
                gossip::Output::Deliver { .. } => {}
                gossip::Output::Report { peer, reason } => {
                    if let Some(peer) = self.subscriptions[index].neighbour(peer) {
                        let reason = reason.name();
                        self.out.push_back(Output::Report { peer, reason });
                    }
                }
            }
        }
        // Only the deadline of this subscription can have changed. All of them are searched only if it was the
        // earliest and has moved on.
        let due = self.subscriptions[index].next_deadline();
        match (due, self.beat) {
            (Some(due), Some((at, _))) if due < at => self.beat = Some((due, index)),
            (Some(due), None) => self.beat = Some((due, index)),
            (due, Some((at, whose))) if whose == index && due != Some(at) => self.find_beat(),
            _ => {}
        }
    }

    /// Hands a message to the protocol's state machine.
    pub(super) fn validate(&mut self, index: usize, from: Peer, pending: Pending<Item>) {
        let topic = self.plan.topic(self.subscriptions[index].id);
        let data = pending.item.data().clone();
        if let Item::Block(body) = &pending.item {
            // When the chain takes a block, which is before the verdict, its body is found here by its root.
            self.blocks.hold(body);
        }
        // No component waits for a message that was sent directly, unless it is to be shown.
        let is_seen = matches!(pending.item, Item::Collection(_) | Item::Block(_));
        let token = match pending.origin {
            Origin::Direct if !is_seen => Some(NOBODY),
            _ => {
                let place = self.waiting.insert((index as u32, pending), 1);
                place.map(|place| Token(place.into()))
            }
        };
        if let Some(token) = token {
            self.tell(proto::Input::Message {
                from,
                topic,
                token,
                data,
            });
        }
    }

    fn tell(&mut self, input: proto::Input) {
        let now = self.plan.since_genesis(self.now);
        self.machine.handle(now, input);
    }

    /// Applies the state machine's verdict on a message.
    fn decide(&mut self, token: Token, verdict: Verdict) {
        // `NOBODY` is above every place, so a message that nobody waits for ends here.
        let place = u32::try_from(token.0).ok();
        let Some((index, pending)) = place.and_then(|place| self.waiting.release(place)) else {
            return;
        };
        let index = index as usize;
        let Pending { origin, id, item } = pending;
        if let Item::Block(body) = &item {
            self.blocks.let_go(body);
        }
        if verdict == Verdict::Accept {
            match &item {
                // Blocks are shown when the chain takes them, whatever the verdict.
                Item::Vote(_) | Item::Aggregate(_) | Item::Block(_) => {}
                Item::Collection(body) => self.show(HornDelivery::Accepted(body.clone())),
            }
        }
        match origin {
            Origin::Machine(token) => self.subscriptions[index].decide(self.now, token, verdict),
            // The publisher has no row and column, so the message takes those of this member, as if it were its own.
            Origin::HandedIn if verdict == Verdict::Accept => {
                self.subscriptions[index].publish(self.now, id, item);
            }
            // A source signed that this message is its own.
            Origin::Source if verdict == Verdict::Reject => {
                return self.out.push_back(Output::Evidence);
            }
            Origin::Source | Origin::HandedIn | Origin::Direct => return,
        }
        self.drain(index, NO_PEER);
    }

    /// Carries out all outputs of the state machine that are due.
    fn settle(&mut self) {
        loop {
            while let Some(output) = self.machine.poll_output() {
                self.perform(output);
            }
            let due = self.machine.next_deadline();
            // A state machine that has not seen its first phase is due at time zero, which here means when nodes
            // start.
            let due = due.map(|due| self.plan.of_run(due).max(self.plan.begin()));
            if due.is_none_or(|due| due > self.now) {
                self.due = due;
                return;
            }
            // A job starts once everything that arrived together is here, since messages leave a downlink one by
            // one.
            self.tell(proto::Input::Deadline);
        }
    }

    fn perform(&mut self, output: proto::Output) {
        match output {
            proto::Output::Publish { topic, data } => self.publish(topic, &data),
            proto::Output::Verdict { token, verdict } => self.decide(token, verdict),
            proto::Output::Cancel { session } => {
                self.out.push_back(Output::CancelSession { session });
            }
            // Misbehaviour of a source is proved by its signature.
            proto::Output::Report { peer, .. } if peer.0 >= SOURCES => {}
            // No honest node sends what a verdict rejects.
            proto::Output::Report { peer, .. } => {
                let reason = "invalid";
                self.out.push_back(Output::Report { peer, reason });
            }
            proto::Output::Evidence(_) => self.out.push_back(Output::Evidence),
            // An own block is shown when it is published.
            proto::Output::Imported { root, .. } => {
                if let Some(body) = self.blocks.held(&root).cloned() {
                    self.keep_block(&body);
                    self.show(HornDelivery::Imported(body));
                }
            }
            proto::Output::Spawn(Spawn {
                job,
                session,
                group,
                class,
                soft,
                hard,
                work,
            }) => {
                self.note(job, &work);
                let work = self.plan.bench.job(work);
                let (votes, bytes) = work.work().weight();
                let work = NodeWork::Horn(work);
                let request = Request {
                    client: 0,
                    session,
                    group,
                    replaces: None,
                    class,
                    soft: self.plan.of_run(soft),
                    hard: self.plan.of_run(hard),
                    votes,
                    bytes,
                    work,
                };
                let request = Box::new(request);
                self.out.push_back(Output::Spawn { job, request });
            }
        }
    }

    /// Publishes a message of a hosted validator.
    fn publish(&mut self, topic: Topic, data: &Bytes) {
        let Some(Own {
            slot,
            id,
            publisher,
            item,
        }) = self.read(topic, data)
        else {
            return;
        };
        let place = match item {
            // All slots share the topic of blocks. Votes and evidence have one only in the slots that are followed.
            Item::Block(_) => 0,
            _ => match self.plan.place(slot) {
                Some(place) => place,
                None => return,
            },
        };
        self.show_own(slot, publisher, &item);
        let topic = self.plan.topic_id(topic, place);
        if self.is_cast(topic, &item) {
            return self.cast(topic, id, item);
        }
        if let Some(index) = self.find(topic) {
            self.subscriptions[index].publish(self.now, id, item);
            return self.drain(index, NO_PEER);
        }
        let number = |node: u32| self.graph.number_of(self.node, node);
        let entries = self.plan.entries(topic, publisher.0);
        let to: Arc<[Peer]> = entries
            .filter_map(number)
            .take(self.plan.entries_max(topic))
            .map(|number| Peer(number.into()))
            .collect();
        if to.is_empty() {
            return;
        }
        let way: Way = self.plan.topics[topic.0 as usize].way;
        let inner = Inner::Whole(Subscription::<Item>::handed_in(way, id, item));
        self.out.push_back(Output::Send {
            to: Peers::List(to),
            message: HornMessage { topic, inner },
            priority: gossip::Priority::Own as u8,
        });
    }

    /// Shows one of the node's own messages, which it also holds as any receiver does.
    fn show_own(&mut self, slot: Slot, publisher: Validator, item: &Item) {
        match item {
            Item::Vote(data) => self.show(HornDelivery::Voted(slot, publisher, data.len() as u64)),
            Item::Aggregate(body) => self.show(HornDelivery::Aggregated(body.clone())),
            Item::Collection(body) => {
                self.show(HornDelivery::Collected(body.clone()));
                self.show(HornDelivery::Accepted(body.clone()));
            }
            Item::Block(body) => {
                self.keep_block(body);
                self.show(HornDelivery::Proposed(body.clone()));
                self.show(HornDelivery::Imported(body.clone()));
            }
        }
    }

    fn show(&mut self, delivery: HornDelivery) {
        self.out.push_back(Output::Deliver(delivery));
    }

    fn keep_time(&mut self) {
        while let Some((at, index)) = self.beat
            && at <= self.now
        {
            self.subscriptions[index].deadline(self.now);
            // Without a minimum `drain` searches nothing. The one search that is needed follows it.
            self.beat = None;
            self.drain(index, NO_PEER);
            self.find_beat();
        }
        self.keep_casts();
        // The head is examined before the state machine acts, since its votes of this phase name it.
        self.heads
            .before_votes(self.now, &self.plan, self.machine.chain());
        if self.due.is_some_and(|due| due <= self.now) {
            self.tell(proto::Input::Deadline);
        }
    }

    fn receive(&mut self, from: Peer, HornMessage { topic, inner }: HornMessage) {
        let inner = match inner {
            Inner::Whole(inner) => inner,
            Inner::Coded { message, .. } => return self.receive_coded(from, *message),
            Inner::Exchange(exchange) => return self.exchange(from, *exchange),
            Inner::Handshake(handshake) => return self.answer_handshake(from, topic, handshake),
        };
        let Some(index) = self.find(topic) else {
            return;
        };
        // A graph has fewer than 2^32 ends.
        self.subscriptions[index].receive(self.now, from.0 as u32, inner);
        self.drain(index, from);
        for pending in self.subscriptions[index].take_handed() {
            self.validate(index, from, pending);
        }
    }
}

/// The outcome of a job, as reported to the state machine.
fn outcome(end: End, product: Option<NodeProduct>) -> Outcome<Product> {
    match end {
        End::Ran => match product {
            Some(NodeProduct::Horn(outcome)) => outcome,
            Some(NodeProduct::Code(_)) | None => Outcome::Crashed,
        },
        End::Superseded => Outcome::Superseded,
        End::Cancelled => Outcome::Cancelled,
        End::Refused(refused) => Outcome::Refused(refused.to_string()),
        End::Crashed => Outcome::Crashed,
    }
}

impl Role for HornNode {
    type Message = HornMessage;
    type Command = Join;
    type Cancel = Unsent;
    type Work = NodeWork;
    type Delivery = HornDelivery;

    fn handle(&mut self, now: Time, input: Input<Self>) {
        self.now = self.now.max(now);
        match input {
            Input::Message { from, message } => self.receive(from, message),
            // From `JOBS` on, numbers are those of the broadcasts: the two state machines number their jobs apart.
            Input::Finished { job, product, .. } if job.0 >= JOBS => {
                let product = match product {
                    Some(NodeProduct::Code(product)) => product,
                    Some(NodeProduct::Horn(_)) | None => None,
                };
                self.coding_ended(job, product);
            }
            Input::Finished {
                job,
                end,
                product,
                leftover,
            } => {
                self.cut(job, leftover);
                let outcome = outcome(end, product);
                self.tell(proto::Input::Finished { job, outcome });
                if let Some(casts) = &mut self.casts {
                    casts.learned();
                }
            }
            Input::Deadline => self.keep_time(),
            // Connections are those of the plan, for the whole run; broadcasts do not wait for peers that are gone.
            Input::PeerUp { peer } => {
                self.tell_of_peer(peer, |peer| alphorn_broadcast::Input::PeerUp { peer })
            }
            Input::PeerDown { peer } => {
                self.blocks.peer_down(peer);
                self.tell_of_peer(peer, |peer| alphorn_broadcast::Input::PeerDown { peer });
            }
            Input::SendReady { peer } => {
                self.tell_of_peer(peer, |peer| alphorn_broadcast::Input::SendReady { peer });
            }
            Input::Command(join) => self.join(join),
        }
        // Any input may have brought a block, or a message that waits for one.
        self.settle();
        self.look_for_blocks();
    }

    #[inline]
    fn poll_output(&mut self) -> Option<Output<Self>> {
        let output = self.out.pop_front();
        if self.out.is_empty() {
            // The next output goes to the front of the buffer, which is in the cache.
            self.out.clear();
            if self.out.capacity() > OUTPUTS_KEPT {
                self.out.shrink_to(OUTPUTS_KEPT);
            }
        }
        output
    }

    fn next_deadline(&self) -> Option<Time> {
        let beat = self.beat.map(|(at, _)| at);
        let casts = self.casts.as_ref().and_then(|casts| casts.next_deadline());
        let blocks = self.blocks.next_deadline();
        [self.due, beat, casts, blocks].into_iter().flatten().min()
    }

    #[inline]
    fn absorb(&mut self, from: Peer, message: &HornMessage) -> bool {
        // A graph has fewer than 2^32 ends.
        let Inner::Whole(inner) = &message.inner else {
            return false;
        };
        let index = self.find(message.topic);
        index.is_some_and(|index| self.subscriptions[index].absorb(from.0 as u32, inner))
    }

    fn cancels(what: &Self::Cancel, message: &Self::Message) -> bool {
        match (what, &message.inner) {
            (Unsent::Whole(topic, id), Inner::Whole(Message::Data { id: named, .. })) => {
                message.topic == *topic && named == id
            }
            (Unsent::Pieces(id), Inner::Coded { message, .. }) => caster::is_piece_of(message, id),
            _ => false,
        }
    }

    fn is_proof(reason: &str) -> bool {
        ["malformed", "invalid", "beyond"].contains(&reason) || caster::is_proof(reason)
    }

    fn duplicate_bytes(&self) -> u64 {
        let whole: u64 = self
            .subscriptions
            .iter()
            .map(Subscription::duplicate_bytes)
            .sum();
        let casts = self.casts.as_ref();
        whole + casts.map_or(0, |casts| casts.duplicate_bytes())
    }

    fn refusals(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let casts = self.casts.iter();
        casts.flat_map(|casts| casts.refusals())
    }
}
