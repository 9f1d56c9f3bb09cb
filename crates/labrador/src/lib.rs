//! Proves that short polynomials satisfy linear relations and exact norm bounds, in a few tens of kilobytes.
//!
//! | module | contents |
//! |---|---|
//! | `aggregate` | the equations of a level under their weights |
//! | [`challenge`] | the challenge sets, and the exact test of the operator norm |
//! | [`columns`] | the front end for many columns with an exact norm bound for each |
//! | `counter` | AES-128 in counter mode, the source of every pseudorandom stream |
//! | `digits` | centred digits, which make long numbers short |
//! | `field` | the field from which sumchecks draw |
//! | `folded` | the relation that a level leaves to the next one |
//! | `form` | the one equation that remains of all equations of a level |
//! | `images` | how a level shows that its witness is short |
//! | [`kernel`] | vectors of 16-bit numbers for each instruction set |
//! | `key` | commitment keys generated from few random elements |
//! | `lanes` | eight field elements side by side |
//! | `pieces` | a cut vector whose residues are computed on use |
//! | [`projection`] | the random projection that shows that a vector is short |
//! | `prove`, `verify` | the two sides of a proof |
//! | `remaining` | the one equation of a level that the verifier evaluates |
//! | [`ring`] | the ring, its quotient modulo Q and products in it |
//! | [`schedule`] | the parameters of every level, from public bounds alone |
//! | [`sis`] | which commitments bind: the estimate of module-SIS |
//! | `system` | parameters and keys for statements with the same bounds |
//! | `transcript` | the Fiat-Shamir transcript |
//! | `wire` | sending and receiving a proof as bytes |
//!
#![doc = include_str!("LECTURE.md")]
#![deny(unsafe_code)]

#[cfg(test)]
mod adversary;
mod aggregate;
pub mod challenge;
pub mod columns;
mod counter;
mod cut;
mod digits;
mod error;
mod field;
mod folded;
mod form;
mod images;
pub mod kernel;
mod key;
mod lanes;
mod modulus;
mod pieces;
pub mod projection;
mod prove;
mod remaining;
pub mod ring;
pub mod schedule;
pub mod sis;
mod system;
mod transcript;
mod verify;
mod wire;

/// Compiles the example on the package's page along with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;

pub use columns::{Columns, Relation, Targets};
pub use error::{Invalid, ProveError, Reject, StatementError};
pub use folded::Keys;
pub use images::{Group, Images, Parts};
pub use kernel::{Dispatch, KERNELS, Pass, Vector, Vectors};
pub use system::System;
pub use wire::{HEADER_BYTES, MAGIC, PROOF_BYTES_MAX};
