//! Proves statements about hashes by hashes alone, and knows no signature.
//!
//! | module | what it holds |
//! |---|---|
//! | [`field`] | KoalaBear, F_p with p = 2^31 − 2^24 + 1 |
//! | [`extension`] | its extension of degree 5, from which challenges are drawn |
//! | [`kernel`] | vectors of elements for each instruction set, and the witness that the CPU has it |
//! | [`poseidon`] | the permutations of widths 16 and 24 on many states at once |
//!
//! One binary serves all x86-64 machines: a [`Backend`] is chosen at run time and given to whatever
//! computes; no level gives other values than the portable one.
#![deny(unsafe_code)]

pub mod extension;
pub mod field;
pub mod kernel;
pub mod poseidon;

pub use extension::Ext;
pub use field::Fp;
pub use kernel::{Backend, BackendError, Packed, Pass};
