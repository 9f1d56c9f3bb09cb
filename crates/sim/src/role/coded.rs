//! A payload in coded pieces: [`Broadcast`] with any code, jobs charged from tables.

use super::{Delivery, Input, Labour, Output, Publish, Role, Wire};
use crate::gossip::Peers;
use crate::latency::mix;
use alphorn_proto::broadcast::{self, Broadcast, Message, Place, Product, Reject, Work};
use alphorn_proto::rlnc::{Coding, Id, Subject};
use alphorn_scheme::model::{CodeOp, CodeTable};
use alphorn_scheme::{Bytes, Features, JobId, Schedulable, SessionId};
use alphorn_types::{Slot, Time};
use alphorn_worker::Request;
use std::sync::Arc;

/// The kind of payload in the headers of a run.
const KIND: u8 = 1;
/// What an authenticator begins with that does not verify.
pub(crate) const FORGED: u8 = 1;

impl<C: Coding> Wire for Message<C> {
    const KINDS: &'static [&'static str] = &[
        "header", "commits", "piece", "rank", "done", "need", "unread", "ask",
    ];

    #[inline]
    fn wire_bytes(&self) -> u64 {
        Message::wire_bytes(self)
    }

    #[inline]
    fn kind(&self) -> usize {
        match self {
            Message::Header(_) => 0,
            Message::Commits { .. } => 1,
            Message::Piece { .. } => 2,
            Message::Rank { .. } => 3,
            Message::Done { .. } => 4,
            Message::Need { .. } => 5,
            Message::Unread(_) => 6,
            Message::Ask { .. } => 7,
        }
    }

    #[inline]
    fn has_payload(&self) -> bool {
        matches!(self, Message::Piece { .. })
    }

    #[inline]
    fn is_paced(&self) -> bool {
        matches!(self, Message::Piece { .. })
    }
}

/// What all nodes of a run share: the code, what work costs, what is published.
#[derive(Debug)]
pub(crate) struct Coder<C> {
    /// The code.
    pub code: C,
    /// What coding costs; nothing without.
    pub table: Option<CodeTable>,
    /// What signing a header costs, and verifying one.
    pub sign_ns: u64,
    /// See [`Coder::sign_ns`].
    pub verify_ns: u64,
    /// Bytes of a header's authenticator.
    pub auth_bytes: usize,
    /// Bytes of a generation of the payload.
    pub generation_bytes: u64,
    /// Source of each payload.
    pub sources: Vec<u32>,
    /// Bytes of a payload.
    pub payload_bytes: u64,
    /// Whether payloads have content; else they are zeros, which only models take.
    pub real: bool,
}

impl<C> Coder<C> {
    /// The payload of a number.
    pub(crate) fn payload(&self, item: u32, bytes: u64) -> Bytes {
        let byte = |i: u64| match self.real {
            true => (mix([i / 8, item.into(), 0, 0]) >> (i % 8 * 8)) as u8,
            false => 0,
        };
        (0..bytes).map(byte).collect::<Vec<u8>>().into()
    }

    /// Whether this is the source of the payload with this slot for a number.
    pub(crate) fn is_scheduled(&self, subject: &Subject) -> bool {
        let source = usize::try_from(subject.slot).ok();
        let source = source.and_then(|item| self.sources.get(item));
        subject.kind == KIND && source == Some(&subject.source)
    }

    fn cost_ns(&self, op: CodeOp, n: u64, payload_bytes: u64) -> u64 {
        let table = self.table.as_ref();
        table.map_or(0, |table| table.cost(op, n, payload_bytes).ns)
    }
}

/// A job of a broadcast, and the code that does it.
#[derive(Clone, Debug)]
pub(crate) struct CodedWork<C: Coding> {
    /// Not in place: outputs are moved, and most of them are no jobs.
    work: Box<Work<C>>,
    coder: Arc<Coder<C>>,
    cost_ns: u64,
}

impl<C: Coding> Schedulable for CodedWork<C> {
    fn features(&self) -> Features {
        let size = self.work.size();
        let kind = size.map_or(CodeOp::ALL.len(), |size| size.op as usize);
        let class = size.map_or(0, |size| size.payload_bytes.max(1).ilog2() as u8);
        Features {
            // Above the operations of a scheme.
            kind: 0x100 + kind as u16,
            class,
            inputs: 1,
            prior_ns: self.cost_ns,
            memory_bytes: 0,
        }
    }
}

impl<C: Coding> Labour for CodedWork<C> {
    type Product = Option<Product<C>>;

    fn run(self) -> Self::Product {
        match &*self.work {
            Work::Sign { .. } => {
                let auth = vec![0; self.coder.auth_bytes];
                Some(Product::Signed(auth.into()))
            }
            Work::VerifyHeader { announce, .. } => {
                let genuine = announce.auth.len() == self.coder.auth_bytes
                    && announce.auth.first() != Some(&FORGED);
                Some(Product::Header(genuine))
            }
            work => work.run(&self.coder.code),
        }
    }
}

/// A node that broadcasts in pieces.
pub(crate) struct Coded<C: Coding> {
    machine: Broadcast<C>,
    coder: Arc<Coder<C>>,
    config: Arc<broadcast::Config>,
    node: u32,
    /// Its jobs have numbers from here on, so that results for a node before it are none for this one.
    first_job: u64,
    /// Waits behind the time that it took.
    next: Option<Output<Self>>,
    duplicate_bytes: u64,
    /// What the handshakes with its neighbours tell.
    places: Arc<[Option<Place>]>,
}

impl<C: Coding> std::fmt::Debug for Coded<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Coded({})", self.node)
    }
}

impl<C: Coding> Coded<C> {
    /// A node of a run; `secret` is drawn from its seed.
    ///
    /// # Panics
    /// If the configuration does not pass its check.
    pub(crate) fn new(
        coder: Arc<Coder<C>>,
        config: Arc<broadcast::Config>,
        node: u32,
        secret: [u8; 32],
    ) -> Self {
        let table = coder.clone();
        let schedule = Arc::new(move |subject: &Subject| table.is_scheduled(subject));
        Coded {
            machine: Broadcast::new(coder.code.clone(), config.clone(), schedule, secret),
            coder,
            config,
            node,
            first_job: 0,
            next: None,
            duplicate_bytes: 0,
            places: Arc::new([]),
        }
    }

    /// Sets what the handshakes with its neighbours tell, by number: where it stands in the order of
    /// each.
    pub(crate) fn set_places(&mut self, places: Arc<[Option<Place>]>) {
        self.places = places;
    }

    /// The same as the node that it is after so many restarts.
    #[must_use]
    pub(crate) fn restarted(mut self, times: u32) -> Self {
        self.first_job = super::first_job(times);
        self
    }

    /// Another node like this one, as it was at the begin.
    pub(crate) fn twin(&self, seed: u64) -> Self {
        let secret = crate::random::bytes(seed, "twin", self.node);
        Coded::new(self.coder.clone(), self.config.clone(), self.node, secret)
    }

    pub(crate) fn clone_code(&self) -> C {
        self.coder.code.clone()
    }

    /// The state machine.
    pub(crate) fn machine(&self) -> &Broadcast<C> {
        &self.machine
    }

    /// Pieces so far that told nothing.
    fn useless(&self) -> u32 {
        let refused = self.machine.refused();
        let count = |reason| refused.count(reason);
        count(Reject::Dependent) + count(Reject::GenerationFull) + count(Reject::Expired)
    }

    fn publish(&self, publish: Publish) -> broadcast::Input<C> {
        let Publish { item, bytes } = publish;
        broadcast::Input::Publish {
            subject: Subject {
                kind: KIND,
                slot: item.into(),
                source: self.node,
                index: 0,
            },
            payload: self.coder.payload(item, bytes),
        }
    }

    /// A delivery of what was published; of other bytes one that the ledger will not find.
    fn delivery(&self, subject: &Subject, payload: &Bytes) -> Delivery {
        let item = u32::try_from(subject.slot).unwrap_or(u32::MAX);
        let bytes = payload.len() as u64;
        let genuine = !self.coder.real || *payload == self.coder.payload(item, bytes);
        // The second payload of a source that equivocates.
        let second = bytes + 1 == self.coder.payload_bytes;
        let items = u32::try_from(self.coder.sources.len()).unwrap_or(u32::MAX);
        Delivery {
            item: item.saturating_add(if second { items } else { 0 }),
            bytes: if genuine { bytes } else { u64::MAX },
        }
    }

    fn spawn(&self, work: Box<Work<C>>, expires: Time) -> Request<CodedWork<C>> {
        let cost_ns = match (&*work, work.size()) {
            (_, Some(size)) => self.coder.cost_ns(size.op, size.n, size.payload_bytes),
            (Work::Sign { .. }, None) => self.coder.sign_ns,
            (_, None) => self.coder.verify_ns,
        };
        let class = work.class();
        let work = CodedWork {
            work,
            coder: self.coder.clone(),
            cost_ns,
        };
        let session = SessionId {
            slot: Slot(0),
            seq: 0,
        };
        Request {
            soft: expires,
            hard: expires,
            votes: 1,
            ..super::request(session, class, work)
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
            Input::Message { from, message } => {
                let bytes = match &message {
                    Message::Piece { wire_bytes, .. } => u64::from(*wire_bytes),
                    _ => 0,
                };
                let before = self.useless();
                let input = broadcast::Input::Message { from, message };
                self.machine.handle(now, input);
                if self.useless() != before {
                    self.duplicate_bytes += bytes;
                }
                return;
            }
            Input::SendReady { peer } => broadcast::Input::SendReady { peer },
            Input::PeerUp { peer } => {
                self.machine.handle(now, broadcast::Input::PeerUp { peer });
                let place = self.places.get(peer.0 as usize).copied().flatten();
                let Some(place) = place else {
                    return;
                };
                broadcast::Input::Placed { peer, place }
            }
            Input::PeerDown { peer } => broadcast::Input::PeerDown { peer },
            Input::Finished { job, product, .. } => {
                let Some(job) = job.0.checked_sub(self.first_job) else {
                    return;
                };
                broadcast::Input::Finished {
                    job: JobId(job),
                    product: product.flatten(),
                }
            }
            Input::Deadline => broadcast::Input::Deadline,
            Input::Command(command) => self.publish(command),
        };
        self.machine.handle(now, input);
    }

    fn poll_output(&mut self) -> Option<Output<Self>> {
        if self.next.is_some() {
            return self.next.take();
        }
        loop {
            return Some(match self.machine.poll_output()? {
                broadcast::Output::Send {
                    peer,
                    message,
                    priority,
                    drawn,
                } => {
                    let send = Output::Send {
                        to: Peers::One(peer),
                        message,
                        priority: priority as u8,
                    };
                    let bytes = self.coder.generation_bytes;
                    let cost_ns = match drawn {
                        0 => 0,
                        rows => self.coder.cost_ns(CodeOp::RlncRecode, rows.into(), bytes),
                    };
                    if cost_ns > 0 {
                        self.next = Some(send);
                        return Some(Output::Spend { cost_ns });
                    }
                    send
                }
                broadcast::Output::Cancel { peer, id } => Output::Cancel { peer, what: id },
                broadcast::Output::Spawn { job, expires, work } => Output::Spawn {
                    job: JobId(self.first_job + job.0),
                    request: self.spawn(work, expires),
                },
                broadcast::Output::Deliver {
                    subject, payload, ..
                } => Output::Deliver(self.delivery(&subject, &payload)),
                broadcast::Output::Report { peer, reason } => Output::Report {
                    peer,
                    reason: reason.name(),
                },
                broadcast::Output::InvalidSource(_) | broadcast::Output::Evidence { .. } => {
                    Output::Evidence
                }
                // The ledger sees what is delivered and what is not.
                broadcast::Output::Published { .. }
                | broadcast::Output::Unpublished { .. }
                | broadcast::Output::Withheld { .. }
                | broadcast::Output::Progress { .. } => continue,
            });
        }
    }

    #[inline]
    fn next_deadline(&self) -> Option<Time> {
        self.machine.next_deadline()
    }

    fn cancels(what: &Id, message: &Message<C>) -> bool {
        matches!(message, Message::Piece { id, .. } if id == what)
    }

    fn is_proof(reason: &str) -> bool {
        const PROOFS: [Reject; 9] = [
            Reject::Malformed,
            Reject::TooLong,
            Reject::BadLength,
            Reject::BadAuth,
            Reject::NonCanonicalScalar,
            Reject::NonCanonicalPoint,
            Reject::ZeroRow,
            Reject::InvalidChunk,
            Reject::BadPath,
        ];
        PROOFS.iter().any(|proof| proof.name() == reason)
    }

    fn duplicate_bytes(&self) -> u64 {
        self.duplicate_bytes
    }

    fn refusals(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.machine.refused().reasons()
    }
}
