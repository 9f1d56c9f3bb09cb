//! Payloads in coded pieces: a [`Caster`] for any code, with payloads identified by number.

use super::caster::{self, Cast, Caster, CodedWork, Coder};
use super::{Delivery, Input, Output, Publish, Role};
use crate::gossip::Peers;
use crate::latency::mix;
use alphorn_broadcast::rlnc::{Coding, Id, Subject};
use alphorn_broadcast::{Message, Place};
use alphorn_proto::Peer;
use alphorn_scheme::Bytes;
use alphorn_types::Time;
use std::sync::Arc;

/// Payload kind in the headers of a run.
const KIND: u8 = 1;

/// The payloads published in a run.
#[derive(Debug)]
pub(crate) struct Payloads {
    /// Source of each payload.
    pub sources: Vec<u32>,
    /// Size of a payload in bytes.
    pub bytes: u64,
    /// Whether payloads have content. Otherwise they are zeros, which only models accept.
    pub real: bool,
}

impl Payloads {
    /// Returns the payload with this number.
    pub(crate) fn payload(&self, item: u32, bytes: u64) -> Bytes {
        let byte = |i: u64| match self.real {
            true => (mix([i / 8, item.into(), 0, 0]) >> (i % 8 * 8)) as u8,
            false => 0,
        };
        (0..bytes).map(byte).collect::<Vec<u8>>().into()
    }

    /// Whether the subject names the source of the payload whose number is its slot.
    pub(crate) fn is_scheduled(&self, subject: &Subject) -> bool {
        let source = usize::try_from(subject.slot).ok();
        let source = source.and_then(|item| self.sources.get(item));
        subject.kind == KIND && source == Some(&subject.source)
    }
}

/// A node that broadcasts payloads in pieces.
pub(crate) struct Coded<C: Coding> {
    caster: Caster<C>,
    payloads: Arc<Payloads>,
    config: Arc<alphorn_broadcast::Config>,
    node: u32,
    /// Positions learned in the handshakes with its neighbours.
    places: Arc<[Option<Place>]>,
}

impl<C: Coding> std::fmt::Debug for Coded<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Coded({})", self.node)
    }
}

impl<C: Coding> Coded<C> {
    /// A node after the given number of restarts; `secret` is drawn from the seed of the run.
    ///
    /// # Panics
    /// If the configuration fails its check.
    pub(crate) fn new(
        coder: Arc<Coder<C>>,
        payloads: Arc<Payloads>,
        config: Arc<alphorn_broadcast::Config>,
        node: u32,
        secret: [u8; 32],
        restarts: u32,
    ) -> Self {
        let due = payloads.clone();
        let schedule = Arc::new(move |subject: &Subject| due.is_scheduled(subject));
        // Results for jobs from before the restart are not for this node.
        let first_job = super::first_job(restarts);
        Coded {
            caster: Caster::new(coder, config.clone(), schedule, secret, first_job),
            payloads,
            config,
            node,
            places: Arc::new([]),
        }
    }

    /// Sets the positions learned in handshakes, by neighbour number: this node's position in the
    /// order of each neighbour.
    pub(crate) fn set_places(&mut self, places: Arc<[Option<Place>]>) {
        self.places = places;
    }

    /// Another node like this one, in its initial state.
    pub(crate) fn twin(&self, seed: u64) -> Self {
        let secret = crate::random::bytes(seed, "twin", self.node);
        let (coder, payloads) = (self.caster.coder().clone(), self.payloads.clone());
        Coded::new(coder, payloads, self.config.clone(), self.node, secret, 0)
    }

    pub(crate) fn clone_code(&self) -> C {
        self.caster.coder().code.clone()
    }

    /// Position of a neighbour in this node's order.
    pub(crate) fn place_of(&self, peer: Peer) -> Option<Place> {
        self.caster.place_of(peer)
    }

    fn publish(&self, publish: Publish) -> alphorn_broadcast::Input<C> {
        let Publish { item, bytes } = publish;
        alphorn_broadcast::Input::Publish {
            subject: Subject {
                kind: KIND,
                slot: item.into(),
                source: self.node,
                index: 0,
            },
            payload: self.payloads.payload(item, bytes),
        }
    }

    /// Maps a delivered payload to the published one. If the bytes differ, the result is a delivery
    /// that the ledger will not find.
    fn delivery(&self, subject: &Subject, payload: &Bytes) -> Delivery {
        let item = u32::try_from(subject.slot).unwrap_or(u32::MAX);
        let bytes = payload.len() as u64;
        let genuine = !self.payloads.real || *payload == self.payloads.payload(item, bytes);
        // The second payload of an equivocating source.
        let second = bytes + 1 == self.payloads.bytes;
        let items = u32::try_from(self.payloads.sources.len()).unwrap_or(u32::MAX);
        Delivery {
            item: item.saturating_add(if second { items } else { 0 }),
            bytes: if genuine { bytes } else { u64::MAX },
        }
    }
}

impl<C: Coding> Role for Coded<C> {
    type Message = Message<C>;
    type Command = Publish;
    type Cancel = Id;
    type Work = CodedWork<C>;
    type Delivery = Delivery;

    fn handle(&mut self, now: Time, input: Input<Self>) {
        let input = match input {
            Input::Message { from, message } => alphorn_broadcast::Input::Message { from, message },
            Input::SendReady { peer } => alphorn_broadcast::Input::SendReady { peer },
            Input::PeerUp { peer } => {
                self.caster
                    .handle(now, alphorn_broadcast::Input::PeerUp { peer });
                let place = self.places.get(peer.0 as usize).copied().flatten();
                let Some(place) = place else {
                    return;
                };
                // After PeerUp, which clears what was known of the peer.
                alphorn_broadcast::Input::Placed { peer, place }
            }
            Input::PeerDown { peer } => alphorn_broadcast::Input::PeerDown { peer },
            Input::Finished { job, product, .. } => {
                return self.caster.finished(now, job, product.flatten());
            }
            Input::Deadline => alphorn_broadcast::Input::Deadline,
            Input::Command(command) => self.publish(command),
        };
        self.caster.handle(now, input);
    }

    fn poll_output(&mut self) -> Option<Output<Self>> {
        loop {
            return Some(match self.caster.poll()? {
                Cast::Send {
                    peer,
                    message,
                    priority,
                } => Output::Send {
                    to: Peers::One(peer),
                    message,
                    priority,
                },
                Cast::Cancel { peer, id } => Output::Cancel { peer, what: id },
                Cast::Spawn { job, request, work } => Output::Spawn {
                    job,
                    request: Box::new(request.with(work)),
                },
                Cast::Spend { cost_ns } => Output::Spend { cost_ns },
                Cast::Deliver { subject, payload } => {
                    Output::Deliver(self.delivery(&subject, &payload))
                }
                Cast::Report { peer, reason } => Output::Report {
                    peer,
                    reason: reason.name(),
                },
                Cast::Evidence => Output::Evidence,
                // The ledger sees what is delivered and what is not.
                Cast::Published(_) | Cast::Unpublished(_) => continue,
            });
        }
    }

    #[inline]
    fn next_deadline(&self) -> Option<Time> {
        self.caster.next_deadline()
    }

    fn cancels(what: &Id, message: &Message<C>) -> bool {
        caster::is_piece_of(message, what)
    }

    fn is_proof(reason: &str) -> bool {
        caster::is_proof(reason)
    }

    fn duplicate_bytes(&self) -> u64 {
        self.caster.duplicate_bytes()
    }

    fn refusals(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.caster.refused().reasons()
    }
}
