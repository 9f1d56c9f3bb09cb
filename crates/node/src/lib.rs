//! Drives the protocol by wall clock, network and disk, and never misses a duty.
//!
//! One thread runs the [loop](run), which drives the protocol's state machines and never blocks. Slow work happens
//! elsewhere and comes back as an input.
//!
//! | module | responsibility |
//! |---|---|
//! | [`engine`] | topics, marks, blocks to keep, and a verdict on each slot's duties |
//! | [`cast`] | sending blocks and collections that are too long for gossip |
//! | [`run`] | the main loop |
//! | [`clock`], `voices` | protocol time, and peers' reports of the time |
//! | [`health`] | health problems |
//! | [`safety`], `signer` | what may be signed, and never twice |
//! | [`sign_log`] | a log of what could be signed, for later checks |
//! | [`folder`], `begin`, [`blocks`], `message_store`, `archive`, [`sync`] | storing and syncing chain and votes |
//! | [`lanes`] | running jobs |
//! | [`record`] | recording inputs for replay |
//! | `aggregating` | whether the node aggregates when its validators are selected |
//! | `local` | messages that arrive neither by gossip nor from a peer |
//! | [`telemetry`] | events of a node, as metrics, summary, trace, streams and log |
//! | [`api`], [`http`], [`host_allow_list`] | the HTTP interface |
//! | [`genesis`] | the identity of the network |
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
pub mod sync;
pub mod telemetry;
mod voices;

pub use ports::{inbox_messages_max, topic_bytes, topics_max};

/// The example of the package's page is compiled with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
