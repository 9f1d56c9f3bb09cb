//! What a network tells its driver.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use thiserror::Error;

use crate::address::Transport;
use crate::key::NodeId;
use alphorn_types::TopicName;

/// A peer, numbered for the time of its connection; no number is used twice.
pub type Peer = u64;

/// A gossip message that passed every check that needs no knowledge of its content.
#[derive(Clone, Debug)]
pub struct Message {
    /// The neighbour that handed it over, not its author.
    pub peer: Peer,
    /// The topic; its network, committee and subcommittee exist.
    pub topic: TopicName,
    /// Names it in [`Handle::verdict`](crate::Handle::verdict).
    pub token: u64,
    /// When it came; gossip forgets it `Config::verdict_time` later.
    pub(crate) arrival: Instant,
    /// The bytes, at most as many as the kind of topic allows.
    pub data: Arc<[u8]>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A listener has its address.
    Listening {
        /// Where.
        address: SocketAddr,
        /// QUIC or TCP.
        transport: Transport,
    },
    /// A peer is connected.
    PeerUp {
        /// Its number.
        peer: Peer,
        /// Who it is.
        id: NodeId,
        /// Where it is.
        address: SocketAddr,
        /// Whether this node dialled.
        outbound: bool,
    },
    /// A peer is gone. Messages that it brought before may still follow.
    PeerDown {
        /// The peer.
        peer: Peer,
        /// Why.
        reason: DownReason,
    },
    /// A gossip message, which waits for a verdict.
    Message(Message),
    /// A peer asks.
    Request {
        /// The peer.
        peer: Peer,
        /// Names the question in [`Handle::respond`](crate::Handle::respond).
        channel: u64,
        /// The name of the protocol.
        protocol: Arc<str>,
        /// The question.
        data: Arc<[u8]>,
    },
    /// The end of a request; each accepted one has exactly one.
    Response {
        /// The peer that was asked.
        peer: Peer,
        /// The number given to [`Handle::request`](crate::Handle::request).
        id: u64,
        /// The chunks, or why there are none.
        result: Result<Vec<Arc<[u8]>>, RequestError>,
    },
    /// A frame of the broadcast protocol.
    Frame {
        /// The peer that sent it.
        peer: Peer,
        /// The bytes.
        data: Arc<[u8]>,
    },
    /// Frames to a peer have left the queue: sent, cancelled, or lost with a stream that broke, took too
    /// long or is not spoken by the peer.
    SendReady {
        /// The peer.
        peer: Peer,
        /// How many since the last such event.
        frames: u32,
    },
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DownReason {
    /// The peer closed it, or nothing came for too long, or the transport broke.
    Lost,
    /// It was banned.
    Banned,
    /// The operator blocks it.
    Blocked,
    /// It belongs to another network, or did not say to which.
    OtherNetwork,
}

impl DownReason {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Lost, Self::Banned, Self::Blocked, Self::OtherNetwork];

    /// The label in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Banned => "banned",
            Self::Blocked => "blocked",
            Self::OtherNetwork => "other_network",
        }
    }
}

/// Why a request has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// The peer is not connected, or was lost meanwhile.
    #[error("peer is not connected")]
    Disconnected,
    /// No response in time.
    #[error("no response in time")]
    Timeout,
    /// The peer does not speak the protocol.
    #[error("peer does not speak the protocol")]
    Unsupported,
    /// The peer answered with a code instead of data.
    #[error("peer refused with code {0}")]
    Refused(u8),
    /// The response breaks a limit or the framing, or the stream broke.
    #[error("response is malformed or too long")]
    Malformed,
}
