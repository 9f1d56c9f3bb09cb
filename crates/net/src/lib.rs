//! Carries bytes between peers, without knowledge of their content.
//!
//! [`start`] opens the sockets and returns a [`Handle`], whose methods never block, and the [`Events`]. In between is
//! one thread with libp2p: gossipsub for messages to everyone (every message waits for a verdict of the driver before
//! it is forwarded), request protocols `/alphorn/req/{name}/1`, and long-lived streams `/alphorn/broadcast/1` for
//! frames to one peer.
//!
//! Everything is bounded. Data from a peer is read no faster than [`Limits::peer_bytes_per_s_max`], before anything is
//! decoded. Then follow the topic grammar and the length limit of the kind, the message rate, the table of verdicts,
//! and a queue that is fair among peers. Excess data is dropped and counted under a [`DropReason`]. This crate does not
//! know slots, votes or signatures: the driver decides what is too old or irrelevant.
//!
//! | module | contents |
//! |---|---|
//! | `address` | addresses of nodes, as others dial them |
//! | `bucket`, `throttle` | limits on what a peer may send |
//! | `config` | what is carried, where it listens, and every limit |
//! | `dialer`, `admission` | outbound dialling, and admission of inbound connections |
//! | `error` | why a network does not start, and why it does not accept a call |
//! | `event`, `handle` | events for a driver, and the calls that it may make |
//! | `exchange`, `frames`, [`frame`] | frames of broadcasts and requests on the streams of a connection |
//! | `gossip`, `tokens` | gossipsub, and the messages that wait for a verdict |
//! | `inbox`, `outbox`, `frame_queue` | the bounded queues between driver and network |
//! | `scores` | penalties of peers |
//! | `key` | the key that identifies a node |
//! | `link`, `mux` | transports with a meter on each connection, and streams over one |
//! | `memory` | upper bound on a network's memory: a sum over its limits |
//! | `requests`, `asking`, `asked` | requests and responses, and how much each side may ask for |
//! | `service` | the network thread |
//! | `shared` | what the driver's side and the network thread share |
//! | `status` | publicly readable counters |
//!
//! Without the feature `swarm` only the formats remain: topic names and frames.
#![forbid(unsafe_code)]

#[cfg(feature = "swarm")]
mod address;
#[cfg(feature = "swarm")]
mod admission;
#[cfg(feature = "swarm")]
mod asked;
#[cfg(feature = "swarm")]
mod asking;
#[cfg(feature = "swarm")]
mod bucket;
#[cfg(feature = "swarm")]
mod config;
#[cfg(feature = "swarm")]
mod dialer;
#[cfg(feature = "swarm")]
mod error;
#[cfg(feature = "swarm")]
mod event;
#[cfg(feature = "swarm")]
mod exchange;
pub mod frame;
#[cfg(feature = "swarm")]
mod frame_queue;
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
mod shared;
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
pub use error::{NetError, Refused};
#[cfg(feature = "swarm")]
pub use event::{DownReason, Event, Message, Peer, RequestError};
#[cfg(feature = "swarm")]
pub use handle::{Events, Handle};
#[cfg(feature = "swarm")]
pub use key::{KeyError, NodeId, NodeKey};
#[cfg(feature = "swarm")]
pub use outbox::{Priority, Verdict};
#[cfg(feature = "swarm")]
pub use requests::{CODE_BUSY, CODE_END};
#[cfg(feature = "swarm")]
pub use service::start;
#[cfg(feature = "swarm")]
pub use status::{DropReason, KindStatus, PeerStatus, Status};

/// The example of the package's page is compiled with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
