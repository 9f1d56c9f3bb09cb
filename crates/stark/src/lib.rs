//! Hash-based proofs of statements about hashes, independent of any signature scheme.
//!
//! | module | what it holds |
//! |---|---|
//! | [`field`], `extension` | KoalaBear, F_p with p = 2^31 − 2^24 + 1, and its extension of degree 5 for challenges |
//! | `kernel` | vectors of elements for each instruction set |
//! | [`poseidon`], `merkle` | the permutations on many states at once, trees and commitments of them |
//! | `arith`, `transcript` | operations of a verifier, one source for verifier and circuit; the messages so far |
//! | `multilinear`, `sumcheck`, `logup` | polynomials by values on the cube, sumcheck rounds, sums of fractions |
//! | `poseidon_gkr` | many permutations, from random sums of outputs to random points of inputs |
//! | `relation`, `claims` | the proved relation, as data; the claims left to open |
//! | [`whir`] | the polynomial commitment |
//! | [`proof`] | prover and verifier of a relation; bytes |
//! | `circuit`, [`merge`] | a verifier as rows and permutations; proofs that proofs hold |
//! | [`statement`], [`chains`] | statements about a slot, and the relation of hash chains under trees |
//! | [`security`] | the error of each step in bits, computed from the sizes |
//!
//! A single binary runs on all x86-64 hosts: an [`alphorn_exec::Backend`] is chosen at run time and passed to
//! every computation. No level gives other values than the portable one, and neither does any number of threads.
//!
//! Proofs are succinct and not zero-knowledge; proofs of proofs are in [`merge`].
//!
//! The lecture explains what is proved, why it holds, and how certain that is.
//!
#![doc = include_str!("LECTURE.md")]
#![deny(unsafe_code)]

mod arith;
pub mod chains;
mod circuit;
mod claims;
mod error;
mod extension;
pub mod field;
mod hash;
mod kernel;
mod logup;
pub mod merge;
mod merkle;
mod multilinear;
pub mod poseidon;
mod poseidon_gkr;
pub mod proof;
mod registry;
mod relation;
pub mod security;
pub mod statement;
mod sumcheck;
#[cfg(test)]
mod test_random;
mod transcript;
mod vector;
pub mod whir;

pub use error::{ProveError, VerifyError};
pub use extension::Ext;
pub use field::Fp;
pub use hash::{DIGEST, Digest};
pub use kernel::{Dispatch, Packed, Pass};
pub use poseidon::Permutations;
pub use poseidon::kernels::KERNELS;
pub use relation::Relation;

/// Compiles the example in the package's README together with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
