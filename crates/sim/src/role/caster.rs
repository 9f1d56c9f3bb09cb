//! The state machine of coded broadcasts under virtual time: its messages, its jobs and their costs, and
//! its counts of useless pieces. Every role that broadcasts in a simulation contains one.

use super::{Labour, Wire};
use alphorn_broadcast::rlnc::{Coding, Id, Subject};
use alphorn_broadcast::{
    Broadcast, Config, Known as _, Message, Place, Product, Refused, Reject, Schedule, Work,
};
use alphorn_proto::Peer;
use alphorn_scheme::model::{CodeOp, CodeTable};
use alphorn_scheme::{Bytes, Features, JobId, Schedulable, SessionId};
use alphorn_types::{Slot, Time};
use alphorn_worker::Request;
use std::sync::Arc;

/// First byte of an authenticator that does not verify.
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

/// State shared by all nodes of a run: the code and the costs of work.
#[derive(Debug)]
pub(crate) struct Coder<C> {
    /// The code.
    pub code: C,
    /// Costs of coding; coding is free without a table.
    pub table: Option<CodeTable>,
    /// Cost of signing a header; `verify_ns` is that of verifying one.
    pub sign_ns: u64,
    /// See [`Coder::sign_ns`].
    pub verify_ns: u64,
    /// Size of a header's authenticator in bytes.
    pub auth_bytes: usize,
}

impl<C> Coder<C> {
    fn cost_ns(&self, op: CodeOp, n: u64, payload_bytes: u64) -> u64 {
        let table = self.table.as_ref();
        table.map_or(0, |table| table.cost(op, n, payload_bytes).ns)
    }
}

/// A job of a broadcast, and the code that performs it.
#[derive(Clone, Debug)]
pub(crate) struct CodedWork<C: Coding> {
    /// Boxed because outputs are moved and most of them are not jobs.
    work: Box<Work<C>>,
    coder: Arc<Coder<C>>,
    cost_ns: u64,
}

impl<C: Coding> CodedWork<C> {
    /// Subject of the broadcast.
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
            // Offset above the operations of a scheme.
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

/// An effect requested by a [`Caster`].
#[derive(Debug)]
pub(crate) enum Cast<C: Coding> {
    /// Sends a message to a peer.
    Send {
        /// The peer, by the state machine's number for it.
        peer: Peer,
        /// The message.
        message: Message<C>,
        /// Priority in the uplink.
        priority: u8,
    },
    /// Removes the pieces of a broadcast waiting for a peer from the uplink queue.
    Cancel {
        /// The peer.
        peer: Peer,
        /// The broadcast.
        id: Id,
    },
    /// Runs a job.
    Spawn {
        /// Its number.
        job: JobId,
        /// Information for the scheduler.
        request: Request<()>,
        /// The work.
        work: CodedWork<C>,
    },
    /// The caster did work itself for this long.
    Spend {
        /// Nanoseconds of one core at the speed of the cost table.
        cost_ns: u64,
    },
    /// A payload is complete.
    Deliver {
        /// Its subject.
        subject: Subject,
        /// The payload.
        payload: Bytes,
    },
    /// A payload of this node is being broadcast.
    Published(Subject),
    /// A payload of this node cannot be broadcast.
    Unpublished(Subject),
    /// A peer misbehaved.
    Report {
        /// The peer.
        peer: Peer,
        /// The reason.
        reason: Reject,
    },
    /// A source contradicted itself, or committed to something that is not a payload.
    Evidence,
}

/// The broadcasts of one node.
pub(crate) struct Caster<C: Coding> {
    machine: Broadcast<C>,
    coder: Arc<Coder<C>>,
    /// Number of its first job.
    first_job: u64,
    /// Held back until after the output for the time it took.
    next: Option<Cast<C>>,
    duplicate_bytes: u64,
}

impl<C: Coding> std::fmt::Debug for Caster<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Caster({} broadcasts)", self.machine.live_count())
    }
}

impl<C: Coding> Caster<C> {
    /// A node without peers, whose job numbers start at `first_job`; `secret` is drawn from the seed of the
    /// run.
    ///
    /// # Panics
    /// If the configuration fails its check.
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

    /// The state shared by all nodes.
    pub(crate) fn coder(&self) -> &Arc<Coder<C>> {
        &self.coder
    }

    /// Position of a peer in this node's order.
    pub(crate) fn place_of(&self, peer: Peer) -> Option<Place> {
        self.machine.place_of(peer)
    }

    /// Replaces the broadcasts' table of duties.
    pub(crate) fn set_schedule(&mut self, schedule: Arc<dyn Schedule>) {
        self.machine.set_schedule(schedule);
    }

    /// Subject of a live broadcast.
    pub(crate) fn subject(&self, id: &Id) -> Option<Subject> {
        self.machine.header(id).map(|header| header.subject)
    }

    /// Handles any input except the end of a job.
    pub(crate) fn handle(&mut self, now: Time, input: alphorn_broadcast::Input<C>) {
        let alphorn_broadcast::Input::Message { message, .. } = &input else {
            return self.machine.handle(now, input);
        };
        let bytes = match message {
            Message::Piece { wire_bytes, .. } => u64::from(*wire_bytes),
            _ => 0,
        };
        // The machine does not say what it made of a piece, but it counts.
        let before = self.useless();
        self.machine.handle(now, input);
        if self.useless() != before {
            self.duplicate_bytes += bytes;
        }
    }

    /// Handles the end of a job; ignores jobs that are not its own.
    pub(crate) fn finished(&mut self, now: Time, job: JobId, product: Option<Product<C>>) {
        // Jobs from before a restart have lower numbers.
        if let Some(job) = job.0.checked_sub(self.first_job) {
            let job = JobId(job);
            self.machine
                .handle(now, alphorn_broadcast::Input::Finished { job, product });
        }
    }

    /// Number of pieces so far that carried nothing new.
    fn useless(&self) -> u32 {
        let refused = self.machine.refused();
        let count = |reason| refused.count(reason);
        count(Reject::Dependent) + count(Reject::GenerationFull) + count(Reject::Expired)
    }

    /// Bytes of pieces so far that carried nothing new.
    pub(crate) fn duplicate_bytes(&self) -> u64 {
        self.duplicate_bytes
    }

    /// Counts of rejections.
    pub(crate) fn refused(&self) -> &Refused {
        self.machine.refused()
    }

    /// Next deadline.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.machine.next_deadline()
    }

    /// Returns the next effect, or none once all are drained.
    pub(crate) fn poll(&mut self) -> Option<Cast<C>> {
        if self.next.is_some() {
            return self.next.take();
        }
        loop {
            return Some(match self.machine.poll_output()? {
                alphorn_broadcast::Output::Send {
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
                alphorn_broadcast::Output::Cancel { peer, id } => Cast::Cancel { peer, id },
                alphorn_broadcast::Output::Spawn { job, expires, work } => {
                    self.spawn(job, expires, work)
                }
                alphorn_broadcast::Output::Deliver {
                    subject, payload, ..
                } => Cast::Deliver { subject, payload },
                alphorn_broadcast::Output::Report { peer, reason } => Cast::Report { peer, reason },
                alphorn_broadcast::Output::InvalidSource(_)
                | alphorn_broadcast::Output::Evidence { .. } => Cast::Evidence,
                alphorn_broadcast::Output::Published { subject, .. } => Cast::Published(subject),
                alphorn_broadcast::Output::Unpublished { subject, .. } => {
                    Cast::Unpublished(subject)
                }
                // Observers outside see what is delivered and what is not.
                alphorn_broadcast::Output::Withheld { .. }
                | alphorn_broadcast::Output::Progress { .. } => continue,
            });
        }
    }

    /// Emits a message after the time that drawing it took, if any.
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
        // Second, since the world holds back what follows a `Spend` until its work is over.
        self.next = Some(send);
        Cast::Spend { cost_ns }
    }

    fn spawn(&self, job: JobId, expires: Time, work: Box<Work<C>>) -> Cast<C> {
        let cost_ns = match (&*work, work.size()) {
            (_, Some(size)) => self.coder.cost_ns(size.op, size.n, size.payload_bytes),
            (Work::Sign { .. }, None) => self.coder.sign_ns,
            // Only work on signatures has no size.
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

/// Whether a reason is proof against a peer: an honest peer never causes it, however slow it is.
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
