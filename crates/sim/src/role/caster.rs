//! The state machine of broadcasts in coded pieces under virtual time: its messages, its jobs and what they
//! cost, what it found useless. Whatever broadcasts in a simulation has one of these inside.

use super::{Labour, Wire};
use alphorn_proto::Peer;
use alphorn_proto::broadcast::{
    self, Broadcast, Config, Known as _, Message, Place, Product, Refused, Reject, Schedule, Work,
};
use alphorn_proto::rlnc::{Coding, Id, Subject};
use alphorn_scheme::model::{CodeOp, CodeTable};
use alphorn_scheme::{Bytes, Features, JobId, Schedulable, SessionId};
use alphorn_types::{Slot, Time};
use alphorn_worker::Request;
use std::sync::Arc;

/// What an authenticator begins with that does not verify.
pub(crate) const FORGED: u8 = 1;

impl<C: Coding> Wire for Message<C> {
    const PACES: bool = true;

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

/// What all nodes of a run share: the code, and what work costs.
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
}

impl<C> Coder<C> {
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

impl<C: Coding> CodedWork<C> {
    /// What it is about.
    pub(crate) fn subject(&self) -> Subject {
        self.work.subject()
    }
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

    fn name(&self) -> &'static str {
        self.work.size().map_or("code", |size| size.op.name())
    }

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

/// What a [`Caster`] wants done.
#[derive(Debug)]
pub(crate) enum Cast<C: Coding> {
    /// Send a message to a peer.
    Send {
        /// The peer, by the machine's number.
        peer: Peer,
        /// The message.
        message: Message<C>,
        /// Its priority in the uplink.
        priority: u8,
    },
    /// Take the pieces of a broadcast that wait for a peer out of the uplink's queue.
    Cancel {
        /// The peer.
        peer: Peer,
        /// The broadcast.
        id: Id,
    },
    /// Run a job.
    Spawn {
        /// Its number.
        job: JobId,
        /// What the scheduler must know.
        request: Request<()>,
        /// What is to be done.
        work: CodedWork<C>,
    },
    /// It worked itself, for so long.
    Spend {
        /// Nanoseconds of one core at the cost table's speed.
        cost_ns: u64,
    },
    /// A payload is complete.
    Deliver {
        /// What it is.
        subject: Subject,
        /// The payload.
        payload: Bytes,
    },
    /// An own payload is on its way.
    Published(Subject),
    /// An own payload cannot be broadcast.
    Unpublished(Subject),
    /// A peer misbehaved.
    Report {
        /// The peer.
        peer: Peer,
        /// How.
        reason: Reject,
    },
    /// A source contradicted itself, or committed to what is no payload.
    Evidence,
}

/// A node's broadcasts.
pub(crate) struct Caster<C: Coding> {
    machine: Broadcast<C>,
    coder: Arc<Coder<C>>,
    /// Its jobs have numbers from here on.
    first_job: u64,
    /// Waits behind the time that it took.
    next: Option<Cast<C>>,
    duplicate_bytes: u64,
}

impl<C: Coding> std::fmt::Debug for Caster<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Caster({} broadcasts)", self.machine.live_count())
    }
}

impl<C: Coding> Caster<C> {
    /// A node without peers whose jobs have numbers from `first_job` on; `secret` is drawn from the seed
    /// of the run.
    ///
    /// # Panics
    /// If the configuration does not pass its check.
    pub(crate) fn new(
        coder: Arc<Coder<C>>,
        config: Arc<Config>,
        schedule: Arc<dyn Schedule>,
        secret: [u8; 32],
        first_job: u64,
    ) -> Self {
        Caster {
            machine: Broadcast::new(coder.code.clone(), config, schedule, secret),
            coder,
            first_job,
            next: None,
            duplicate_bytes: 0,
        }
    }

    /// What all nodes share.
    pub(crate) fn coder(&self) -> &Arc<Coder<C>> {
        &self.coder
    }

    /// Where a peer stands in the order of this node.
    pub(crate) fn place_of(&self, peer: Peer) -> Option<Place> {
        self.machine.place_of(peer)
    }

    /// The broadcasts' table of duties is another one from now on.
    pub(crate) fn set_schedule(&mut self, schedule: Arc<dyn Schedule>) {
        self.machine.set_schedule(schedule);
    }

    /// What a broadcast that is alive is about.
    pub(crate) fn subject(&self, id: &Id) -> Option<Subject> {
        self.machine.header(id).map(|header| header.subject)
    }

    /// Takes an input that is no end of a job.
    pub(crate) fn handle(&mut self, now: Time, input: broadcast::Input<C>) {
        let broadcast::Input::Message { message, .. } = &input else {
            return self.machine.handle(now, input);
        };
        let bytes = match message {
            Message::Piece { wire_bytes, .. } => u64::from(*wire_bytes),
            _ => 0,
        };
        let before = self.useless();
        self.machine.handle(now, input);
        if self.useless() != before {
            self.duplicate_bytes += bytes;
        }
    }

    /// Takes the end of a job; of one that is not its own nothing follows.
    pub(crate) fn finished(&mut self, now: Time, job: JobId, product: Option<Product<C>>) {
        if let Some(job) = job.0.checked_sub(self.first_job) {
            let job = JobId(job);
            self.machine
                .handle(now, broadcast::Input::Finished { job, product });
        }
    }

    /// Pieces so far that told nothing.
    fn useless(&self) -> u32 {
        let refused = self.machine.refused();
        let count = |reason| refused.count(reason);
        count(Reject::Dependent) + count(Reject::GenerationFull) + count(Reject::Expired)
    }

    /// Bytes of pieces so far that told nothing.
    pub(crate) fn duplicate_bytes(&self) -> u64 {
        self.duplicate_bytes
    }

    /// What was refused.
    pub(crate) fn refused(&self) -> &Refused {
        self.machine.refused()
    }

    /// When it is to be woken.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.machine.next_deadline()
    }

    /// The next effect, none when all are drained.
    pub(crate) fn poll(&mut self) -> Option<Cast<C>> {
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
                } => self.send(
                    drawn,
                    Cast::Send {
                        peer,
                        message,
                        priority: priority as u8,
                    },
                ),
                broadcast::Output::Cancel { peer, id } => Cast::Cancel { peer, id },
                broadcast::Output::Spawn { job, expires, work } => self.spawn(job, expires, work),
                broadcast::Output::Deliver {
                    subject, payload, ..
                } => Cast::Deliver { subject, payload },
                broadcast::Output::Report { peer, reason } => Cast::Report { peer, reason },
                broadcast::Output::InvalidSource(_) | broadcast::Output::Evidence { .. } => {
                    Cast::Evidence
                }
                broadcast::Output::Published { subject, .. } => Cast::Published(subject),
                broadcast::Output::Unpublished { subject, .. } => Cast::Unpublished(subject),
                // Whoever watches sees what is delivered and what is not.
                broadcast::Output::Withheld { .. } | broadcast::Output::Progress { .. } => continue,
            });
        }
    }

    /// A message behind the time that drawing it took, if it took any.
    fn send(&mut self, drawn: u16, send: Cast<C>) -> Cast<C> {
        let Cast::Send { message, .. } = &send else {
            return send;
        };
        let header = (drawn > 0)
            .then(|| self.machine.header(&message.id()))
            .flatten();
        let cost_ns = header.map_or(0, |header| {
            let bytes = u64::from(header.len).div_ceil(u64::from(header.generations.max(1)));
            self.coder.cost_ns(CodeOp::RlncRecode, drawn.into(), bytes)
        });
        if cost_ns == 0 {
            return send;
        }
        self.next = Some(send);
        Cast::Spend { cost_ns }
    }

    fn spawn(&self, job: JobId, expires: Time, work: Box<Work<C>>) -> Cast<C> {
        let cost_ns = match (&*work, work.size()) {
            (_, Some(size)) => self.coder.cost_ns(size.op, size.n, size.payload_bytes),
            (Work::Sign { .. }, None) => self.coder.sign_ns,
            (_, None) => self.coder.verify_ns,
        };
        let session = SessionId {
            slot: Slot(0),
            seq: 0,
        };
        Cast::Spawn {
            job: JobId(self.first_job + job.0),
            request: Request {
                soft: expires,
                hard: expires,
                votes: 1,
                ..super::request(session, work.class(), ())
            },
            work: CodedWork {
                work,
                coder: self.coder.clone(),
                cost_ns,
            },
        }
    }
}

/// Whether a message is a piece of a broadcast.
pub(crate) fn is_piece_of<C: Coding>(message: &Message<C>, of: &Id) -> bool {
    matches!(message, Message::Piece { id, .. } if id == of)
}

/// Whether a reason is proof against a peer: no honest one ever gives it, however slow it is.
pub(crate) fn is_proof(reason: &str) -> bool {
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
