//! What one simulated node runs: a stack of state machines under static dispatch.
//!
//! A [`Role`] is the protocol contract (one entry point, one deadline, effects as data) plus the types that a
//! simulation needs to know: the size of a message, the kinds of jobs, the deliveries.
//! [`World`](crate::world::World) drives roles and makes no protocol decisions itself.
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

/// A message between nodes, as the network sees it. Copies are cheap because large parts are shared.
pub(crate) trait Wire: Clone + Debug + Send {
    /// Names of the message kinds, at most 64.
    const KINDS: &'static [&'static str];

    /// Whether any message is paced ([`Wire::is_paced`]).
    const PACES: bool = false;

    /// Size of the encoding in bytes, without network overhead.
    fn wire_bytes(&self) -> u64;

    /// Index into [`Wire::KINDS`].
    fn kind(&self) -> usize;

    /// Whether the message carries part of a payload.
    fn has_payload(&self) -> bool;

    /// Whether the sender waits for [`Input::SendReady`] once the message has left the uplink. Such messages
    /// are never merged with others into one transmission.
    fn is_paced(&self) -> bool {
        false
    }

    /// Whether another message is certain to be identical, so that both can be stored once.
    #[inline]
    fn is_same(&self, _other: &Self) -> bool {
        false
    }
}

/// The work of a job, and its cost.
///
/// Virtual time is charged only by [`Features::prior_ns`], which is 0 for work that is instantaneous.
///
/// [`Features::prior_ns`]: alphorn_scheme::Features::prior_ns
pub(crate) trait Labour: Schedulable + Debug + Send {
    /// Result of the work.
    type Product: Debug;

    /// Name in traces.
    fn name(&self) -> &'static str;

    /// Does the work.
    fn run(self) -> Self::Product;
}

/// Makes a request for a job that belongs to no group and never loses its value.
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

/// An input to a role.
#[derive(Debug)]
pub(crate) enum Input<R: Role> {
    /// A message from a neighbour.
    Message {
        /// The neighbour, by the node's number for it.
        from: Peer,
        /// The message.
        message: R::Message,
    },
    /// A paced message to a neighbour has left the uplink or the queue.
    SendReady {
        /// The neighbour.
        peer: Peer,
    },
    /// A neighbour has connected.
    PeerUp {
        /// The neighbour.
        peer: Peer,
    },
    /// A neighbour has disconnected.
    PeerDown {
        /// The neighbour.
        peer: Peer,
    },
    /// A job has ended. Each [`Output::Spawn`] is answered exactly once.
    Finished {
        /// The job.
        job: JobId,
        /// How it ended.
        end: End,
        /// Its result; present if it ran.
        product: Option<<R::Work as Labour>::Product>,
        /// Number of inputs that were cut off.
        leftover: u32,
    },
    /// The time returned by [`Role::next_deadline`] has been reached.
    Deadline,
    /// A command from the layer above, such as to publish.
    Command(R::Command),
}

/// An effect requested by a role.
#[derive(Debug)]
pub(crate) enum Output<R: Role> {
    /// Sends a message to some neighbours, in the order of [`Peers::iter`].
    Send {
        /// The receivers, by the node's numbers for them.
        to: Peers,
        /// The message.
        message: R::Message,
        /// Priority in the uplink, best first, below [`PRIORITIES`](crate::net::PRIORITIES).
        priority: u8,
    },
    /// Removes messages waiting for a neighbour from the uplink queue.
    Cancel {
        /// The neighbour.
        peer: Peer,
        /// Which messages, as decided by [`Role::cancels`].
        what: R::Cancel,
    },
    /// Runs a job.
    Spawn {
        /// Job number, assigned by the role.
        job: JobId,
        /// Information for the scheduler. Boxed because outputs are moved and most of them are not jobs.
        request: Box<Request<R::Work>>,
    },
    /// The role did work itself for this long. The processor that handles messages is busy during that time,
    /// and the node's next messages leave once it is free again.
    Spend {
        /// Nanoseconds of one core at the speed of the cost table.
        cost_ns: u64,
    },
    /// Abandons the jobs of a session.
    CancelSession {
        /// The session.
        session: SessionId,
    },
    /// A delivery.
    Deliver(R::Delivery),
    /// A neighbour misbehaved.
    Report {
        /// The neighbour.
        peer: Peer,
        /// Name of the reason.
        reason: &'static str,
    },
    /// Proof that a participant contradicted itself.
    Evidence,
}

/// One simulated node that implements the protocol contract.
pub(crate) trait Role: Debug + Send + Sized {
    /// Messages between nodes.
    type Message: Wire;
    /// Commands from the layer above.
    type Command: Debug + Send;
    /// Identifies messages that no longer need to be sent.
    type Cancel: Debug + Send;
    /// The work of its jobs.
    type Work: Labour;
    /// Its deliveries.
    type Delivery: Debug + Send;

    /// Handles an input. Time never goes backwards. Never blocks, never fails.
    fn handle(&mut self, now: Time, input: Input<Self>);

    /// Returns the next effect, or none once all are drained.
    fn poll_output(&mut self) -> Option<Output<Self>>;

    /// When [`Input::Deadline`] is due; polled after each input.
    fn next_deadline(&self) -> Option<Time>;

    /// Handles a message that only affects counters, such as a duplicate: no effect, no change of deadline.
    /// Returns false and does nothing if more may follow; the message then goes to [`Role::handle`].
    #[inline]
    fn absorb(&mut self, _from: Peer, _message: &Self::Message) -> bool {
        false
    }

    /// Whether [`Output::Cancel`] of `what` covers this message.
    fn cancels(_what: &Self::Cancel, _message: &Self::Message) -> bool {
        false
    }

    /// Whether this [`Output::Report`] reason is proof: an honest neighbour never causes it, however slow it
    /// is.
    fn is_proof(_reason: &str) -> bool {
        false
    }

    /// Bytes received so far that carried nothing new.
    fn duplicate_bytes(&self) -> u64 {
        0
    }

    /// Rejections so far: names of reasons with their counts.
    fn refusals(&self) -> impl Iterator<Item = (&'static str, u32)> {
        std::iter::empty()
    }
}

/// Number of a node's first job after the given number of restarts. Jobs from before a restart have lower
/// numbers.
pub(crate) fn first_job(restarts: u32) -> u64 {
    u64::from(restarts) << 32
}

/// Command to publish a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Publish {
    /// Its number, in order of publication.
    pub item: u32,
    /// Size in bytes.
    pub bytes: u64,
}

/// A payload that was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Its number.
    pub item: u32,
    /// Size in bytes.
    pub bytes: u64,
}
