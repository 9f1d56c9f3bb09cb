//! Why a network does not start, and why it does not accept a call.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::config::ConfigError;
use crate::event::Peer;
use alphorn_types::TopicError;

/// Why a network failed to start.
#[derive(Debug, Error)]
pub enum NetError {
    /// An invalid value.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A socket that cannot be opened.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error from the operating system.
        reason: String,
    },
    /// The thread or its runtime cannot be created.
    #[error("cannot start the network thread: {0}")]
    Thread(io::Error),
    /// Noise rejects the key.
    #[error("cannot set up encryption: {0}")]
    Crypto(String),
    /// Gossipsub rejects its settings.
    #[error("cannot set up gossip: {0}")]
    Gossip(String),
}

/// Why a call was not accepted. It has no effect then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// A queue is full.
    #[error("queue of {what} is full at {bound}")]
    Full {
        /// Which queue.
        what: &'static str,
        /// Its capacity.
        bound: usize,
    },
    /// The text is not a topic.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The topic belongs to another network, or to none of this network's committees.
    #[error("topic is not of this network or its committees")]
    OtherNetwork,
    /// Longer than the topic's kind, the protocol or a frame allows.
    #[error("{bytes} bytes, must be at most {bytes_max}")]
    Long {
        /// The length.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// No request protocol has that name.
    #[error("no such request protocol")]
    Protocol,
    /// No such peer is connected.
    #[error("no peer {0}")]
    Peer(Peer),
    /// The network has stopped.
    #[error("the network has stopped")]
    Closed,
}
