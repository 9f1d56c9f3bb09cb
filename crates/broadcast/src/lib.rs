//! Broadcasts long messages in coded pieces that every relay can verify, without I/O.
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | bounds and timing |
//! | `live` | one broadcast: its header, pieces and peers |
//! | `machine` | [`Broadcast`], the state machine of a node |
//! | `message` | messages and their codec |
//! | `orphans` | pieces that arrive before their header |
//! | `place` | position of a peer in a sender's order |
//! | `policy` | which peers get how many pieces, and when |
//! | `reject` | reasons for refusing a message, and who is to blame |
//! | `shards` | sets of shards |
//! | `task`, `work` | jobs: verify, decode, recode |
//!
#![doc = include_str!("LECTURE.md")]
#![forbid(unsafe_code)]

mod config;
mod live;
mod machine;
mod message;
mod orphans;
mod place;
mod policy;
mod reject;
mod shards;
mod shuffle;
mod task;
mod work;

use crate::rlnc::{Coding, HeaderError, Id, InvalidSource, Subject};
use alphorn_scheme::{Bytes, JobId};
use alphorn_types::{Peer, Time};

pub use config::{
    AUTH_BYTES_MAX, Config, ConfigError, PEERS_MAX, SENDS_IN_FLIGHT_MAX, Schedule, SourcePrivacy,
};
pub use machine::Broadcast;
pub use message::{Announce, Known, Limits, MESSAGE_BYTES_MAX, Message, Ranks, Unread, Want};
pub use place::Place;
pub(crate) use policy::CREDIT_ONE;
pub use policy::{CHUNK_BYTES_MAX, Policy, PolicyChoice};
pub use reject::{Blame, Refused, Reject};
pub use shards::ShardSet;
pub use task::CodeJob;
pub use work::{CodeSize, Product, Work};

/// Re-export of the codes, for drivers that should not depend on the crate directly.
pub use alphorn_rlnc as rlnc;

/// Two signed statements that no honest validator makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The statement accepted first, as received on the wire. For a vote it may be an aggregate
    /// that contains it.
    pub first: Bytes,
    /// The statement that contradicts it.
    pub second: Bytes,
}

/// Priority in a driver's send queue for a peer, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// HEADER, COMMITS, RANK, DONE, NEED and ASK: small, and what follows is useless without them.
    Control,
    /// A requested piece.
    Answer,
    /// The first piece of a broadcast to a peer.
    First,
    /// Every other piece.
    Rest,
}

impl Priority {
    /// Whether a message of this priority is a piece. A piece occupies one of the peer's send slots
    /// until [`Input::SendReady`].
    pub const fn is_piece(self) -> bool {
        !matches!(self, Priority::Control)
    }
}

/// An input to the state machine.
#[derive(Clone, Debug)]
pub enum Input<C: Coding> {
    /// Broadcast a payload of this node.
    Publish {
        /// The subject.
        subject: Subject,
        /// The payload.
        payload: Bytes,
    },
    /// A message from a peer.
    Message {
        /// The neighbour that sent it.
        from: Peer,
        /// The message.
        message: Message<C>,
    },
    /// Bytes from a peer that [`Message::decode`] rejected.
    Malformed {
        /// The neighbour that sent them.
        from: Peer,
        /// Why.
        reason: Reject,
    },
    /// A piece has left for the peer, or was dropped after [`Output::Cancel`]. Exactly one for each
    /// [`Output::Send`] of a piece ([`Priority::is_piece`]), but none after [`Input::PeerDown`].
    SendReady {
        /// The peer.
        peer: Peer,
    },
    /// A peer connected.
    PeerUp {
        /// The peer, a number below `peers_max`. The number is free again after
        /// [`Input::PeerDown`].
        peer: Peer,
    },
    /// A peer disconnected.
    PeerDown {
        /// The peer.
        peer: Peer,
    },
    /// A connected peer reported in its handshake this node's place in its order
    /// ([`Broadcast::place_of`] on the other side). Applies to broadcasts that begin later.
    Placed {
        /// The peer.
        peer: Peer,
        /// The place.
        place: Place,
    },
    /// A job ended. Each [`Output::Spawn`] is answered exactly once.
    Finished {
        /// The job.
        job: JobId,
        /// Its result; none if it was not run or failed.
        product: Option<Product<C>>,
    },
    /// The time given by `next_deadline` has been reached.
    Deadline,
}

/// An effect requested by the state machine.
#[derive(Clone, Debug)]
pub enum Output<C: Coding> {
    /// Send a message to a peer.
    Send {
        /// The peer.
        peer: Peer,
        /// The message.
        message: Message<C>,
        /// Its priority in the send queue for the peer.
        priority: Priority,
        /// Number of rows that the state machine itself combined for it, for drivers that charge
        /// time ([`CodeOp::RlncRecode`]); 0 = none.
        ///
        /// [`CodeOp::RlncRecode`]: alphorn_scheme::model::CodeOp::RlncRecode
        drawn: u16,
    },
    /// A peer needs no more of a broadcast: drop the pieces still in its send queue, each with its
    /// [`Input::SendReady`].
    Cancel {
        /// The peer.
        peer: Peer,
        /// The broadcast.
        id: Id,
    },
    /// Run a job. Its result is returned as [`Input::Finished`].
    Spawn {
        /// Its number, never reused.
        job: JobId,
        /// Time after which the result has no value.
        expires: Time,
        /// The work to do.
        work: Box<Work<C>>,
    },
    /// A payload from another node is complete and verified. Emitted once per payload.
    Deliver {
        /// The broadcast.
        id: Id,
        /// The subject.
        subject: Subject,
        /// The payload.
        payload: Bytes,
    },
    /// An own payload is signed and being sent.
    Published {
        /// The broadcast.
        id: Id,
        /// The subject.
        subject: Subject,
    },
    /// An own payload cannot be broadcast.
    Unpublished {
        /// The subject.
        subject: Subject,
        /// Why.
        why: Unpublished,
    },
    /// A peer misbehaved.
    Report {
        /// The peer.
        peer: Peer,
        /// How.
        reason: Reject,
    },
    /// The source committed to something that is not a payload. Every honest node finds the same.
    InvalidSource(Box<Convicted>),
    /// A broadcast ended incomplete: the source, or every peer that could have forwarded it,
    /// withheld it. This proves nothing against anyone.
    Withheld {
        /// The broadcast.
        id: Id,
        /// The subject, which names the source.
        subject: Subject,
        /// The signed header.
        header: Bytes,
    },
    /// Two signed headers for one subject.
    Evidence {
        /// The subject.
        subject: Subject,
        /// The headers.
        evidence: Evidence,
    },
    /// Progress of a broadcast on this node, for traces.
    Progress {
        /// The broadcast.
        id: Id,
        /// The step reached.
        step: Step,
    },
}

/// Conviction of a source that committed to something that is not a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convicted {
    /// The broadcast.
    pub(crate) id: Id,
    /// The subject, which names the source.
    pub subject: Subject,
    /// What is wrong with the commitment.
    pub(crate) why: InvalidSource,
    /// The signed header.
    pub header: Bytes,
}

/// Why an own payload was not broadcast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unpublished {
    /// It cannot be split.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The subject was published before.
    #[error("the subject was published before")]
    Twice,
    /// The maximum number of broadcasts is alive.
    #[error("as many broadcasts as may are alive")]
    LiveFull,
    /// It could not be signed or committed to.
    #[error("a job of it failed")]
    Failed,
}

/// Progress of a broadcast. Steps never go back, except for a broadcast that was evicted and
/// returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The header is verified.
    Header,
    /// The first new piece is verified.
    First,
    /// Full rank.
    Full,
    /// The payload is verified.
    Decoded,
    /// The source did not commit to a payload.
    Invalid,
    /// It expired or was evicted, and all its memory is freed.
    Expired,
}

/// Compiles the example from the package README together with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
