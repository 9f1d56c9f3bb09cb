//! Drives the protocol by wall clock, network and disk, and never misses a duty.
//!
//! One thread runs the [loop](run): it drives the protocol's state machines and is never blocked.
//! What takes time happens elsewhere and comes back as an input.
//!
//! | module | what it decides |
//! |---|---|
//! | [`engine`] | topics, marks, blocks to keep, and a verdict on each slot's duties |
//! | [`run`] | what the loop does next |
//! | [`clock`] | what time it is for the protocol |
//! | [`safety`], [`desk`] | what may be signed, and never twice |
//! | [`sign_log`] | a list of what could be signed, to be checked afterwards |
//! | [`blocks`], [`archive`], [`sync`] | what is kept of the chain, and asked of peers |
//! | [`lanes`] | who runs the jobs |
//! | [`record`] | what came, to be replayed |
//! | [`stats`], [`summary`] | what a node measures of itself |
//! | [`api`], [`http`], [`host`], [`metrics`], `trace` | what it tells others |
//! | [`genesis`] | which network it is |
#![forbid(unsafe_code)]

pub mod api;
pub mod archive;
pub mod blocks;
pub mod clock;
mod committees;
pub mod desk;
pub mod engine;
mod file;
pub mod genesis;
pub mod host;
pub mod http;
pub mod lanes;
pub mod metrics;
mod ports;
pub mod record;
pub mod run;
pub mod safety;
pub mod sign_log;
pub mod stats;
pub mod summary;
pub mod sync;
mod trace;

pub use ports::topic_bytes;
