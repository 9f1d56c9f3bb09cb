//! Decides what each role of the protocol does next, and nothing else.
//!
//! | module | what it holds |
//! |---|---|
//! | [`broadcast`] | coded broadcast: source, sink and relay of long messages |
//! | [`chain`] | blocks, votes included in them, justification and finality |
//! | `contract` | what a protocol and its driver say to each other |
//! | [`horn`] | levels of aggregation, from single votes to one collection a committee |
//! | [`job`] | the protocol's own work on the lanes |
//! | `maps` | maps of a node, most of which are empty |
//! | [`rewards`] | what validators earn over the blocks of a run |
//! | [`slot`] | phases and deadlines of a slot |
//! | [`wire`] | messages, their codec and their size limits |
#![forbid(unsafe_code)]

pub mod broadcast;
pub mod chain;
mod contract;
pub mod horn;
pub mod job;
mod maps;
mod reasons;
pub mod rewards;
pub mod slot;
pub mod wire;

pub use contract::{Evidence, Input, Output, Peer, Protocol, Spawn, Token, Verdict};

/// The codes, for drivers that are not to depend on them otherwise.
pub use alphorn_rlnc as rlnc;

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
