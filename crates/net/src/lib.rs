//! Carries bytes between peers, and knows no message.
//!
//! [`start`] opens the sockets and gives a [`Handle`], whose methods never block, and the [`Events`].
//! In between is one thread with libp2p: gossipsub for what goes to everyone (every message waits
//! for a verdict of the driver before it is forwarded), request protocols `/alphorn/req/{name}/1`,
//! and long-lived streams `/alphorn/broadcast/1` for frames to one peer.
//!
//! Everything is bounded. What a peer sends is read no faster than [`Limits::peer_bytes_per_s_max`],
//! before anything is decoded; then come the grammar of topics and the length of the kind, the rate
//! of messages, the table of verdicts and a queue that is fair among peers. What does not fit is
//! dropped and counted under a [`DropReason`]. This crate does not know slots, votes or signatures:
//! what is too old or of no interest is for the driver to say.
//!
//! | module | what it holds |
//! |---|---|
//! | `address` | where a node is, as others dial it |
//! | `bucket`, `throttle` | how much a peer may bring |
//! | `config` | what is carried, where it listens, and every limit |
//! | `dialer`, `admission` | who is dialled, and who may come in |
//! | `event`, `handle` | what a driver hears from a network, and may ask of it |
//! | `exchange`, `frames`, [`frame`] | frames of broadcasts and requests on the streams of a connection |
//! | `gossip`, `tokens` | gossipsub, and the messages that wait for a verdict |
//! | `inbox`, `outbox` | the bounded queues between driver and network |
//! | `scores` | what is held against peers |
//! | `key` | the key that names a node |
//! | `link`, `mux` | transports with a meter on each connection, and streams over one |
//! | `memory` | how much a network can take: a sum over its limits |
//! | `requests` | requests and responses: who may ask how much |
//! | `service` | the network thread |
//! | `status` | counters that anyone may read |
//!
//! Without the feature `swarm` only the formats remain: names of topics and frames.
#![forbid(unsafe_code)]

#[cfg(feature = "swarm")]
mod address;
#[cfg(feature = "swarm")]
mod admission;
#[cfg(feature = "swarm")]
mod bucket;
#[cfg(feature = "swarm")]
mod config;
#[cfg(feature = "swarm")]
mod dialer;
#[cfg(feature = "swarm")]
mod event;
#[cfg(feature = "swarm")]
mod exchange;
pub mod frame;
#[cfg(feature = "swarm")]
mod frames;
#[cfg(feature = "swarm")]
mod gossip;
#[cfg(feature = "swarm")]
mod handle;
#[cfg(feature = "swarm")]
mod inbox;
#[cfg(feature = "swarm")]
mod key;
#[cfg(feature = "swarm")]
mod link;
#[cfg(feature = "swarm")]
mod memory;
#[cfg(feature = "swarm")]
mod mux;
#[cfg(feature = "swarm")]
mod outbox;
#[cfg(feature = "swarm")]
mod requests;
#[cfg(feature = "swarm")]
mod scores;
#[cfg(feature = "swarm")]
mod service;
#[cfg(feature = "swarm")]
mod status;
#[cfg(feature = "swarm")]
mod throttle;
#[cfg(feature = "swarm")]
mod tokens;

#[cfg(feature = "swarm")]
pub use address::{Address, AddressError, Transport};
pub use alphorn_types::{Kind, NetworkDigest, Topic, TopicError, TopicName};
#[cfg(feature = "swarm")]
pub use config::{
    Config, ConfigError, Gossip, Limits, Listen, PEERS_MAX, PerKind, RequestProtocol,
    SUBSCRIPTIONS_LIMIT, TOKENS_LIMIT,
};
#[cfg(feature = "swarm")]
pub use event::{DownReason, Event, Message, Peer, RequestError};
#[cfg(feature = "swarm")]
pub use handle::{Events, Handle, Priority, Refused, Verdict};
#[cfg(feature = "swarm")]
pub use key::{KeyError, NodeId, NodeKey};
#[cfg(feature = "swarm")]
pub use requests::{CODE_BUSY, CODE_END};
#[cfg(feature = "swarm")]
pub use service::{NetError, start};
#[cfg(feature = "swarm")]
pub use status::{DropReason, KindStatus, PeerStatus, Status};

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
