//! Proves that short vectors satisfy linear and quadratic equations, in a few tens of kilobytes.
#![doc = include_str!("LECTURE.md")]
#![deny(unsafe_code)]

#[cfg(test)]
mod adversary;
mod aggregate;
pub mod challenge;
mod compare;
mod digits;
mod error;
mod folded;
mod form;
pub mod joint;
pub mod kernel;
mod key;
mod principal;
pub mod projection;
mod prove;
mod remaining;
pub mod ring;
pub mod schedule;
pub mod sis;
mod system;
mod tiles;
pub mod transcript;
mod verify;
mod wire;

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;

pub use compare::{Chihuahua, Dachshund, Products, Relation};
pub use error::{Invalid, ProveError, Reject, StatementError};
pub use folded::{Folded, Keys};
pub use joint::{DachshundJoint, DrawnForms, Forms};
pub use kernel::{Dispatch, KERNELS, Pass, Vector, Vectors};
pub use principal::{Equation, Kind, LinearTerm, QuadraticTerm, Statement};
pub use prove::Prover;
pub use system::{FrontEnd, System};
pub use verify::Verifier;
pub use wire::{HEADER_BYTES, MAGIC, PROOF_BYTES_MAX};
