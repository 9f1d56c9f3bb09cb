//! Protocol logic: decides what each role does next, and performs no I/O.
//!
//! | module | what it holds |
//! |---|---|
//! | [`chain`] | blocks, votes included in them, justification and finality |
//! | `contract` | interface between a protocol and its driver |
//! | [`horn`] | aggregation levels, from single votes to one collection per committee |
//! | [`job`] | the protocol's own work on the lanes |
//! | `maps` | per-node maps, most of them empty |
//! | [`rewards`] | validator rewards over the blocks of a run |
//! | [`slot`] | phases and deadlines of a slot |
//! | [`wire`] | messages, their codec and size limits |
#![forbid(unsafe_code)]

pub mod chain;
mod contract;
pub mod horn;
pub mod job;
mod maps;
pub mod rewards;
pub mod slot;
pub mod wire;

pub use alphorn_broadcast::Evidence;
pub use alphorn_types::Peer;
pub use contract::{Input, Output, Protocol, Spawn, Token, Verdict};

/// Compiles the example from the package README together with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
