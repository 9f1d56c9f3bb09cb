//! Events that a network reports to its driver.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use thiserror::Error;

use crate::address::Transport;
use crate::key::NodeId;
use alphorn_types::TopicName;

/// A peer, numbered for the duration of its connection. No number is reused.
pub type Peer = u64;

/// A gossip message that passed every check that needs no knowledge of its content.
#[derive(Clone, Debug)]
pub struct Message {
    /// The neighbour that delivered it, not its author.
    pub peer: Peer,
    /// The topic. Its network, committee and subcommittee exist.
    pub topic: TopicName,
    /// Identifies it in [`Handle::verdict`](crate::Handle::verdict).
    pub token: u64,
    /// When it arrived. Gossip forgets it `Config::verdict_time` later.
    pub(crate) arrival: Instant,
    /// The bytes, at most as many as the kind of topic allows.
    pub data: Arc<[u8]>,
}

/// An event of the network.
#[derive(Clone, Debug)]
pub enum Event {
    /// A listener has its address.
    Listening {
        /// The address.
        address: SocketAddr,
        /// QUIC or TCP.
        transport: Transport,
    },
    /// A listener died. Its socket is opened again, which [`Event::Listening`] reports.
    ListenerLost {
        /// The address in the configuration.
        address: SocketAddr,
        /// QUIC or TCP.
        transport: Transport,
        /// The error from the operating system.
        reason: String,
    },
    /// A peer connected.
    PeerUp {
        /// Its number.
        peer: Peer,
        /// Its identity.
        id: NodeId,
        /// Its address.
        address: SocketAddr,
        /// Whether this node dialled it.
        outbound: bool,
    },
    /// A peer disconnected. Messages that it sent before may still follow.
    PeerDown {
        /// The peer.
        peer: Peer,
        /// The reason.
        reason: DownReason,
    },
    /// A gossip message, which waits for a verdict.
    Message(Message),
    /// A peer sent a request.
    Request {
        /// The peer.
        peer: Peer,
        /// Identifies the request in [`Handle::respond`](crate::Handle::respond).
        channel: u64,
        /// The name of the protocol.
        protocol: Arc<str>,
        /// The payload of the request.
        data: Arc<[u8]>,
    },
    /// The end of a request. Each accepted one has exactly one.
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
    /// Frames to a peer have left the queue: sent, cancelled, or lost with a stream that broke, took too long or is not
    /// supported by the peer.
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
    /// The peer closed it, it timed out, or the transport broke.
    Lost,
    /// It was banned.
    Banned,
    /// The operator blocked it.
    Blocked,
    /// It belongs to another network, or did not state its network.
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
    /// The peer is not connected, or was lost in the meantime.
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
