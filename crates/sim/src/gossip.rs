//! A model of gossipsub as a state machine, and the two plainest ways beside it.
//!
//! The node runs libp2p's gossipsub; this is what stands for it where 10^4 nodes have one clock.
//!
//! One machine serves one topic on one node: what is GossipSub's state per topic (mesh, history,
//! announcements) is its whole state, and a node in several topics runs several machines. The
//! behaviour is that of GossipSub v1.1 and v1.2 (libp2p/specs, pubsub/gossipsub) as far as it
//! decides when a message arrives and what it costs: a mesh kept between two degrees by GRAFT and
//! PRUNE, forwarding after validation, IHAVE and IWANT at each heartbeat, IDONTWANT for large
//! messages. Scoring is small: penalties for what no honest peer does. Not here: discovery, peer
//! exchange, opportunistic grafting, fan-out to topics without subscription.
//!
//! | type | what it does |
//! |---|---|
//! | [`Gossip`] | the mesh |
//! | [`Plain`] | a publisher sends to listed receivers and nobody forwards, or members in rows and columns forward once |
//!
//! Both take [`Input`] and give [`Output`]. Messages are typed ([`Message`]), generic over the
//! payload, and named by number ([`DenseId`]).
//!
//! Heartbeats are lazy: [`Machine::next_deadline`] is `None` while there is nothing to announce,
//! to expire or to repair.

mod config;
mod grid;
mod id;
mod inbox;
mod machine;
mod message;
mod peers;
mod plain;
mod reject;
#[cfg(test)]
mod tests;

use alphorn_proto::{Peer, Token, Verdict};
use alphorn_types::Time;
use std::fmt::Debug;

pub(crate) use config::{Config, ConfigError};
pub(crate) use grid::Links;
pub(crate) use id::{DENSE_WINDOW, DenseId, ID_BYTES, Mark, SeenBits};
pub(crate) use machine::Gossip;
pub(crate) use message::{Ids, Message, Payload};
pub(crate) use peers::{PEERS_MAX, PeerSet, Peers};
pub(crate) use plain::Plain;
pub(crate) use reject::{Duplicates, Refused, Reject};

/// What both state machines are to their driver. Time never goes back; nothing blocks or fails, and an input takes
/// O(message) work.
pub(crate) trait Machine<P>: Debug + Send {
    /// Takes an input.
    fn handle(&mut self, now: Time, input: Input<P>);

    /// The next effect, none when all are drained.
    fn poll_output(&mut self) -> Option<Output<P>>;

    /// When [`Input::Deadline`] is due; none while nothing waits for a time.
    #[inline]
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Takes a copy of a message that is here, as most messages are: no effect follows, and no other deadline.
    /// False, and nothing done, for any other message: [`Machine::handle`] takes all.
    #[inline]
    fn absorb(&mut self, _from: Peer, _message: &Message<P>) -> bool {
        false
    }

    /// Copies of messages that were here already.
    fn duplicates(&self) -> Duplicates;

    /// What was refused.
    fn refused(&self) -> &Refused;
}

/// Order in which a driver's queue to a peer is served, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Priority {
    /// GRAFT, PRUNE, IDONTWANT and IWANT: small, and worthless when late.
    Control,
    /// Own messages.
    Own,
    /// Messages of others, to the mesh.
    Forward,
    /// Answers to IWANT, and announcements.
    Answer,
}

/// What happens to a machine.
#[derive(Clone, Debug)]
pub(crate) enum Input<P> {
    /// A message of a peer.
    Message {
        /// The neighbour that sent it.
        from: Peer,
        /// The message.
        message: Message<P>,
    },
    /// The layer above decided on an [`Output::Validate`].
    Verdict {
        /// Which.
        token: Token,
        /// The verdict.
        verdict: Verdict,
    },
    /// Publish a message of this node.
    Publish {
        /// Its name.
        id: DenseId,
        /// The message.
        payload: P,
    },
    /// A peer is connected.
    PeerUp {
        /// The peer; for [`Gossip`] a number below [`PEERS_MAX`], which is free again after
        /// [`Input::PeerDown`].
        peer: Peer,
    },
    /// A peer is gone.
    PeerDown {
        /// The peer.
        peer: Peer,
    },
    /// The time given by `next_deadline` has come.
    Deadline,
}

/// What a machine wants done.
#[derive(Clone, Debug)]
pub(crate) enum Output<P> {
    /// Send one message to several peers, in the order of [`Peers::iter`].
    Send {
        /// The receivers.
        to: Peers,
        /// The message.
        message: Message<P>,
        /// Its priority in the queue of each receiver.
        priority: Priority,
    },
    /// A peer does not want this message any more: drop it from the queue to the peer if it still
    /// waits there.
    Cancel {
        /// The peer.
        peer: Peer,
        /// The message.
        id: DenseId,
    },
    /// Decide on a message; answered by [`Input::Verdict`].
    Validate {
        /// Names it in the verdict.
        token: Token,
        /// Its name.
        id: DenseId,
        /// The message.
        payload: P,
    },
    /// A message of another node was accepted; once for each.
    Deliver {
        /// Its name.
        id: DenseId,
        /// The message.
        payload: P,
    },
    /// A peer misbehaved; at most once a heartbeat for each peer and reason.
    Report {
        /// The peer.
        peer: Peer,
        /// How.
        reason: Reject,
    },
}
