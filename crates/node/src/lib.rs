//! Drives the protocol by wall clock, network and disk, and never misses a duty.
//!
//! One thread runs the [loop](run): it drives the protocol's state machines and is never blocked.
//! What takes time happens elsewhere and comes back as an input.
//!
//! | module | what it decides |
//! |---|---|
//! | [`engine`] | topics, marks, blocks to keep, and a verdict on each slot's duties |
//! | [`cast`] | how blocks and collections that are too long for gossip get to peers |
//! | [`run`] | what the loop does next |
//! | [`clock`], `voices` | what time it is for the protocol, and what peers say of it |
//! | [`health`] | whether all is well, and what is not |
//! | [`safety`], `signer` | what may be signed, and never twice |
//! | [`sign_log`] | a list of what could be signed, to be checked afterwards |
//! | [`folder`], `begin`, [`blocks`], `message_store`, `archive`, [`sync`] | what is kept of the chain and its votes, and asked of peers |
//! | [`lanes`] | who runs the jobs |
//! | [`record`] | what came, to be replayed |
//! | `aggregating` | whether it aggregates when its validators are selected |
//! | `local` | messages that came neither by gossip nor from a peer |
//! | [`telemetry`] | what happens in a node, as metrics, summary, trace, events and log |
//! | [`api`], [`http`], [`host_allow_list`] | what it answers |
//! | [`genesis`] | which network it is |
#![forbid(unsafe_code)]

mod aggregating;
pub mod api;
mod archive;
mod begin;
pub mod blocks;
pub mod cast;
pub mod clock;
mod committees;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod disk;
pub mod engine;
mod file;
pub mod folder;
pub mod genesis;
pub mod health;
pub mod host_allow_list;
pub mod http;
pub mod lanes;
mod local;
pub mod memory;
mod message_store;
mod ports;
pub mod record;
pub mod run;
pub mod safety;
pub mod sign_log;
mod signer;
mod submit;
pub mod sync;
pub mod telemetry;
mod voices;

pub use ports::{inbox_messages_max, topic_bytes, topics_max};

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
