//! A model of gossipsub as a state machine, and two simpler alternatives.
//!
//! The node runs libp2p's gossipsub; this model replaces it where 10^4 nodes share one clock.
//!
//! One state machine serves one topic on one node. GossipSub's state per topic (mesh, history, announcements) is its
//! whole state, and a node in several topics runs several state machines. The behaviour is that of GossipSub v1.1 and
//! v1.2 (libp2p/specs, pubsub/gossipsub) as far as it decides when a message arrives and what it costs: a mesh kept
//! between two degrees by GRAFT and PRUNE, forwarding after validation, IHAVE and IWANT at each heartbeat, IDONTWANT
//! for large messages. Scoring is minimal: penalties for behaviour that no honest peer shows. Not modelled: discovery,
//! peer exchange, opportunistic grafting, fan-out to topics without subscription.
//!
//! | type | description |
//! |---|---|
//! | [`Gossip`] | the mesh |
//! | [`Plain`] | direct: a publisher sends to listed receivers and no node forwards; grid: members in rows and columns
//! forward once |
//!
//! Both consume [`Input`] and produce [`Output`]. Messages are typed ([`Message`]), generic over the payload, and
//! identified by number ([`DenseId`]).
//!
//! Heartbeats are lazy: [`Machine::next_deadline`] is `None` while there is nothing to announce, expire or repair.

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

/// Interface of both state machines to their driver. Time never goes backwards; nothing blocks or fails, and an input
/// takes O(message) work.
pub(crate) trait Machine<P>: Debug + Send {
    /// Handles an input.
    fn handle(&mut self, now: Time, input: Input<P>);

    /// Returns the next effect, or none once all are drained.
    fn poll_output(&mut self) -> Option<Output<P>>;

    /// When [`Input::Deadline`] is due; none while nothing is waiting for a time.
    #[inline]
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Handles a copy of a message already received, which most messages are: no effect and no change of deadline
    /// follow. Returns false and does nothing for any other message; [`Machine::handle`] accepts every message.
    #[inline]
    fn absorb(&mut self, _from: Peer, _message: &Message<P>) -> bool {
        false
    }

    /// Copies received of messages that were already known.
    fn duplicates(&self) -> Duplicates;

    /// Counts of rejections.
    fn refused(&self) -> &Refused;
}

/// Order in which a driver serves its queue to a peer, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Priority {
    /// GRAFT, PRUNE, IDONTWANT and IWANT: small, and worthless when late.
    Control,
    /// This node's own messages.
    Own,
    /// Messages of other nodes, to the mesh.
    Forward,
    /// Answers to IWANT, and announcements.
    Answer,
}

/// An input to a state machine.
#[derive(Clone, Debug)]
pub(crate) enum Input<P> {
    /// A message from a peer.
    Message {
        /// The sender.
        from: Peer,
        /// The message.
        message: Message<P>,
    },
    /// The layer above decided on an [`Output::Validate`].
    Verdict {
        /// Token of the request.
        token: Token,
        /// The verdict.
        verdict: Verdict,
    },
    /// Publishes a message of this node.
    Publish {
        /// Its identity.
        id: DenseId,
        /// The message.
        payload: P,
    },
    /// A peer has connected.
    PeerUp {
        /// The peer. For [`Gossip`], a number below [`PEERS_MAX`], which becomes free again after [`Input::PeerDown`].
        peer: Peer,
    },
    /// A peer has disconnected.
    PeerDown {
        /// The peer.
        peer: Peer,
    },
    /// The time returned by `next_deadline` has been reached.
    Deadline,
}

/// An effect requested by a state machine.
#[derive(Clone, Debug)]
pub(crate) enum Output<P> {
    /// Sends one message to several peers, in the order of [`Peers::iter`].
    Send {
        /// The receivers.
        to: Peers,
        /// The message.
        message: Message<P>,
        /// Priority in the queue to each receiver.
        priority: Priority,
    },
    /// A peer no longer wants this message: drop it from the queue to the peer if it is still there.
    Cancel {
        /// The peer.
        peer: Peer,
        /// The message.
        id: DenseId,
    },
    /// Requests a decision on a message; answered by [`Input::Verdict`].
    Validate {
        /// Identifies the request in the verdict.
        token: Token,
        /// Its identity.
        id: DenseId,
        /// The message.
        payload: P,
    },
    /// A message of another node was accepted; emitted once per message.
    Deliver {
        /// Its identity.
        id: DenseId,
        /// The message.
        payload: P,
    },
    /// A peer misbehaved; reported at most once per heartbeat for each peer and reason.
    Report {
        /// The peer.
        peer: Peer,
        /// The reason.
        reason: Reject,
    },
}
