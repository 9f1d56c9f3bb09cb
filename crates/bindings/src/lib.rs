//! Keys, votes, committees, proofs and coded broadcast as plain bytes, for callers in other languages.
//!
//! | module | content |
//! |---|---|
//! | [`bls`] | secret keys, signatures and proofs of possession of BLS12-381 |
//! | [`committees`] | registries, sums of keys, collections of committees |
//! | [`xmss`] | one-time keys, the marks that issue permits, signatures |
//! | [`proofs`] | proofs that many XMSS keys signed, merged to one |
//! | [`broadcast`] | payloads in pieces that every relay can verify |
//!
//! This is the safe layer under the bindings: the C library, and any other interface for callers in other
//! languages, only converts arguments and errors. All input is unchecked bytes and numbers. Anything wrong with
//! them yields an [`Error`] with a [`Code`], never a panic. Lists of equal items are concatenated: n keys of 48
//! bytes are 48 n bytes.
//!
//! Objects keep the [`Context`] that they were made with, so they may outlive the caller's own. All of them may
//! be used by several threads at once, except where `&mut` says otherwise.
#![forbid(unsafe_code)]

pub mod bls;
pub mod broadcast;
pub mod committees;
mod context;
mod error;
pub mod proofs;
pub mod xmss;

pub use alphorn_exec::{Stop, Watch};
pub use context::{Context, THREADS_MAX};
pub use error::{Code, Error};

/// Compiles the example in the package README together with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
