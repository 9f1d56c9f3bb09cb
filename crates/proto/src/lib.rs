//! Decides what each role of the protocol does next, and nothing else.
#![forbid(unsafe_code)]

pub mod broadcast;
pub mod chain;
mod contract;
pub mod horn;
pub mod job;
mod maps;
pub mod rewards;
pub mod slot;
pub mod wire;

pub use contract::{Evidence, Input, Output, Peer, Protocol, Token, Verdict};

/// The codes, for drivers that are not to depend on them otherwise.
pub use alphorn_rlnc as rlnc;

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
