#![doc = include_str!("broadcast/LECTURE.md")]

mod config;
mod live;
mod machine;
mod message;
mod orphans;
mod place;
mod policy;
mod reject;
mod shards;
mod task;
mod work;

use crate::rlnc::{Coding, HeaderError, Id, InvalidSource, Subject};
use crate::{Evidence, Peer};
use alphorn_scheme::{Bytes, JobId};
use alphorn_types::Time;

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

/// Order in which a driver's queue to a peer is served, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// HEADER, COMMITS, RANK, DONE, NEED and ASK: small, and what follows is worthless without.
    Control,
    /// A piece that was asked for.
    Answer,
    /// The first piece of a broadcast to a peer.
    First,
    /// Every other piece.
    Rest,
}

impl Priority {
    /// Whether a message of this priority is a piece: it takes one of the peer's send slots until
    /// [`Input::SendReady`].
    pub const fn is_piece(self) -> bool {
        !matches!(self, Priority::Control)
    }
}

/// What happens to a machine.
#[derive(Clone, Debug)]
pub enum Input<C: Coding> {
    /// Broadcast a payload of this node.
    Publish {
        /// What it is.
        subject: Subject,
        /// The payload.
        payload: Bytes,
    },
    /// A message of a peer.
    Message {
        /// The neighbour that sent it.
        from: Peer,
        /// The message.
        message: Message<C>,
    },
    /// Bytes of a peer that [`Message::decode`] refused.
    Malformed {
        /// The neighbour that sent them.
        from: Peer,
        /// Why.
        reason: Reject,
    },
    /// A piece has left for the peer, or was dropped after [`Output::Cancel`]; exactly one for each
    /// [`Output::Send`] of a piece ([`Priority::is_piece`]), but none after [`Input::PeerDown`].
    SendReady {
        /// The peer.
        peer: Peer,
    },
    /// A peer is connected.
    PeerUp {
        /// The peer, a number below `peers_max`, which is free again after [`Input::PeerDown`].
        peer: Peer,
    },
    /// A peer is gone.
    PeerDown {
        /// The peer.
        peer: Peer,
    },
    /// A peer that is connected told in its handshake where this node stands in its order
    /// ([`Broadcast::place_of`] on the other side). Holds for broadcasts that begin later.
    Placed {
        /// The peer.
        peer: Peer,
        /// The place.
        place: Place,
    },
    /// A job ended; each [`Output::Spawn`] is answered by exactly one.
    Finished {
        /// Which.
        job: JobId,
        /// What came of it; none if it was not run or failed.
        product: Option<Product<C>>,
    },
    /// The time given by `next_deadline` has come.
    Deadline,
}

/// What a machine wants done.
#[derive(Clone, Debug)]
pub enum Output<C: Coding> {
    /// Send a message to a peer.
    Send {
        /// The peer.
        peer: Peer,
        /// The message.
        message: Message<C>,
        /// Its priority in the queue to the peer.
        priority: Priority,
        /// Rows that the machine itself combined for it, for whoever charges time
        /// ([`CodeOp::RlncRecode`]); 0 = none.
        ///
        /// [`CodeOp::RlncRecode`]: alphorn_scheme::model::CodeOp::RlncRecode
        drawn: u16,
    },
    /// A peer needs no more of a broadcast: drop the pieces that still wait in the queue to it, each
    /// with its [`Input::SendReady`].
    Cancel {
        /// The peer.
        peer: Peer,
        /// The broadcast.
        id: Id,
    },
    /// Run a job; its end comes back as [`Input::Finished`].
    Spawn {
        /// Its number, never given twice.
        job: JobId,
        /// From here on it has no value.
        expires: Time,
        /// What to do.
        work: Box<Work<C>>,
    },
    /// A payload of another node is complete and checked; once for each.
    Deliver {
        /// The broadcast.
        id: Id,
        /// What it is.
        subject: Subject,
        /// The payload.
        payload: Bytes,
    },
    /// An own payload is signed and on its way.
    Published {
        /// The broadcast.
        id: Id,
        /// What it is.
        subject: Subject,
    },
    /// An own payload cannot be broadcast.
    Unpublished {
        /// What it is.
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
    /// The source committed to something that is no payload; every honest node finds the same.
    InvalidSource(Box<Convicted>),
    /// A broadcast ended incomplete: the source, or everybody who could have sent it on, withheld it.
    /// That is no proof against anybody.
    Withheld {
        /// The broadcast.
        id: Id,
        /// What it should have been; names the source.
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
    /// How far a broadcast has come here, for traces.
    Progress {
        /// The broadcast.
        id: Id,
        /// How far.
        step: Step,
    },
}

/// A source that committed to something that is no payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convicted {
    /// The broadcast.
    pub(crate) id: Id,
    /// What it should have been; names the source.
    pub subject: Subject,
    /// What is wrong.
    pub(crate) why: InvalidSource,
    /// The signed header.
    pub header: Bytes,
}

/// Why an own payload is not broadcast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unpublished {
    /// It cannot be cut.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The subject was published before.
    #[error("the subject was published before")]
    Twice,
    /// As many broadcasts as may are alive.
    #[error("as many broadcasts as may are alive")]
    LiveFull,
    /// It could not be signed or committed to.
    #[error("a job of it failed")]
    Failed,
}

/// How far a broadcast has come; steps never go back, but for one that gave way and comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The header is verified.
    Header,
    /// The first new piece is verified.
    First,
    /// Full rank.
    Full,
    /// The payload is checked.
    Decoded,
    /// The source committed to no payload.
    Invalid,
    /// Its time is over, or it gave way to others; everything of it is freed.
    Expired,
}

#[cfg(test)]
mod tests;
