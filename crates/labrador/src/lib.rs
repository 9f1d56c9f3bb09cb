//! Proves that short polynomials satisfy linear relations and exact bounds of their norms, in a few tens of kilobytes.
#![doc = include_str!("LECTURE.md")]
#![deny(unsafe_code)]

#[cfg(test)]
mod adversary;
mod aggregate;
pub mod challenge;
pub mod columns;
mod counter;
mod digits;
mod error;
mod field;
mod folded;
mod form;
mod images;
pub mod kernel;
mod key;
mod lanes;
mod pieces;
pub mod projection;
mod prove;
mod remaining;
pub mod ring;
pub mod schedule;
pub mod sis;
mod system;
pub mod transcript;
mod verify;
mod wire;

/// The example of the package's page is compiled with the other ones.
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
