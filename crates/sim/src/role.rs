//! What one simulated node runs: a stack of state machines under static dispatch.
//!
//! A [`Role`] is the contract of the protocol (one entry, one deadline, effects as data) with the types
//! that a simulation needs to know: what a message weighs, which jobs there are, what is delivered.
//! [`World`](crate::world::World) drives roles; it decides nothing that a protocol decides.
//!
//! | file | role |
//! |---|---|
//! | [`caster`] | the state machine of broadcasts in coded pieces, and what its jobs cost |
//! | [`coded`] | a payload in coded pieces |
//! | [`flood`] | the mesh, direct sending and the grid, with payloads that are sizes |

pub(crate) mod caster;
pub(crate) mod coded;
pub(crate) mod flood;

use crate::gossip::Peers;
use alphorn_proto::Peer;
use alphorn_scheme::{Class, Group, JobId, Schedulable, SessionId};
use alphorn_types::Time;
use alphorn_worker::{End, Request};
use std::fmt::Debug;

/// What nodes send each other, as the network sees it. A copy is cheap: what is large is shared.
pub trait Wire: Clone + Debug + Send {
    /// Names of the kinds of messages, at most 64.
    const KINDS: &'static [&'static str];

    /// Whether any of them is paced ([`Wire::is_paced`]).
    const PACES: bool = false;

    /// Bytes of the encoding, without what the network puts around it.
    fn wire_bytes(&self) -> u64;

    /// Index into [`Wire::KINDS`].
    fn kind(&self) -> usize;

    /// Whether it brings a part of a payload.
    fn has_payload(&self) -> bool;

    /// Whether its sender waits for [`Input::SendReady`] when it has left the uplink. Such messages
    /// never leave as one transmission with others.
    fn is_paced(&self) -> bool {
        false
    }

    /// Whether another message is surely this one: then both are kept once.
    #[inline]
    fn is_same(&self, _other: &Self) -> bool {
        false
    }
}

/// What a job does, and what it costs.
///
/// Virtual time is charged by [`Features::prior_ns`] alone, 0 for work that is done at once.
pub trait Labour: Schedulable + Debug + Send {
    /// What it yields.
    type Product: Debug;

    /// Its name in traces.
    fn name(&self) -> &'static str;

    /// Does it.
    fn run(self) -> Self::Product;
}

/// A job about no group that never loses its value.
pub(crate) fn request<W>(session: SessionId, class: Class, work: W) -> Request<W> {
    Request {
        client: 0,
        session,
        group: Group::of_slot(session.slot),
        replaces: None,
        class,
        soft: Time::MAX,
        hard: Time::MAX,
        votes: 0,
        bytes: 0,
        work,
    }
}

/// What happens to a role.
#[derive(Debug)]
pub enum Input<R: Role> {
    /// A message of a neighbour.
    Message {
        /// The neighbour, by the node's number for it.
        from: Peer,
        /// The message.
        message: R::Message,
    },
    /// A paced message to a neighbour has left the uplink, or the queue.
    SendReady {
        /// The neighbour.
        peer: Peer,
    },
    /// A neighbour is connected.
    PeerUp {
        /// The neighbour.
        peer: Peer,
    },
    /// A neighbour is gone.
    PeerDown {
        /// The neighbour.
        peer: Peer,
    },
    /// A job ended; each [`Output::Spawn`] is answered by exactly one.
    Finished {
        /// Which.
        job: JobId,
        /// How.
        end: End,
        /// What it yields; present if it ran.
        product: Option<<R::Work as Labour>::Product>,
        /// Inputs that were cut off.
        leftover: u32,
    },
    /// The time given by [`Role::next_deadline`] has come.
    Deadline,
    /// Somebody above wants something, as to publish.
    Command(R::Command),
}

/// What a role wants done.
#[derive(Debug)]
pub enum Output<R: Role> {
    /// Send a message to some neighbours, in the order of [`Peers::iter`].
    Send {
        /// The receivers, by the node's numbers for them.
        to: Peers,
        /// The message.
        message: R::Message,
        /// Its priority in the uplink, best first, below [`PRIORITIES`](crate::net::PRIORITIES).
        priority: u8,
    },
    /// Take messages that wait for a neighbour out of the uplink's queue.
    Cancel {
        /// The neighbour.
        peer: Peer,
        /// Which, by [`Role::cancels`].
        what: R::Cancel,
    },
    /// Run a job.
    Spawn {
        /// Its number, given by the role.
        job: JobId,
        /// What the scheduler must know. Not in place: outputs are moved, and most of them are no jobs.
        request: Box<Request<R::Work>>,
    },
    /// It worked itself, for so long: the processor that handles messages is busy then, and what the node sends
    /// next leaves when it is not any more.
    Spend {
        /// Nanoseconds of one core at the cost table's speed.
        cost_ns: u64,
    },
    /// Give up the jobs of a session.
    CancelSession {
        /// The session.
        session: SessionId,
    },
    /// Something was delivered.
    Deliver(R::Delivery),
    /// A neighbour misbehaved.
    Report {
        /// The neighbour.
        peer: Peer,
        /// The name of the reason.
        reason: &'static str,
    },
    /// Proof that somebody contradicted itself.
    Evidence,
}

/// One simulated node under the contract of the protocol.
pub trait Role: Debug + Send + Sized {
    /// What is sent.
    type Message: Wire;
    /// What is asked of it from above.
    type Command: Debug + Send;
    /// Names messages that need not be sent any more.
    type Cancel: Debug + Send;
    /// Its jobs.
    type Work: Labour;
    /// What it delivers.
    type Delivery: Debug + Send;

    /// Takes an input. Time never goes back. Never blocks, never fails.
    fn handle(&mut self, now: Time, input: Input<Self>);

    /// The next effect, none when all are drained.
    fn poll_output(&mut self) -> Option<Output<Self>>;

    /// When [`Input::Deadline`] is due; pulled after each input.
    fn next_deadline(&self) -> Option<Time>;

    /// Takes a message of which nothing follows but counts, as a copy of what is here: no effect, no
    /// other deadline. False, and nothing done, if more may follow: then it comes by [`Role::handle`].
    #[inline]
    fn absorb(&mut self, _from: Peer, _message: &Self::Message) -> bool {
        false
    }

    /// Whether [`Output::Cancel`] of `what` means this message.
    fn cancels(_what: &Self::Cancel, _message: &Self::Message) -> bool {
        false
    }

    /// Whether this reason of [`Output::Report`] is proof: no honest neighbour ever gives it, however
    /// slow it is.
    fn is_proof(_reason: &str) -> bool {
        false
    }

    /// Bytes received so far that told it nothing.
    fn duplicate_bytes(&self) -> u64 {
        0
    }

    /// What it refused so far: names of reasons, and how often.
    fn refusals(&self) -> impl Iterator<Item = (&'static str, u32)> {
        std::iter::empty()
    }
}

/// The number of the first job of a node after so many restarts: results of jobs before a restart have
/// lower ones.
pub(crate) fn first_job(restarts: u32) -> u64 {
    u64::from(restarts) << 32
}

/// Publish a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Publish {
    /// Its number, in the order of publication.
    pub item: u32,
    /// Its bytes.
    pub bytes: u64,
}

/// A payload was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Its number.
    pub item: u32,
    /// Its bytes.
    pub bytes: u64,
}
