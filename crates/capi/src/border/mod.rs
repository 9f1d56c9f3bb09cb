//! The functions of `alphorn.h`.
//!
//! Every unsafe block relies on the contract in the header's first comment: a pointer is NULL or leads to as
//! many items as its length says, which are not written while the call lasts; an output leads to room for what
//! is written, and overlaps no input; a handle was made by this library and was not freed. What can be checked
//! is: NULL, alignment, lengths.
#![allow(
    unsafe_code,
    reason = "pointers from C; each block says which promise of the caller it uses"
)]
#![allow(
    non_camel_case_types,
    reason = "the names are those of the header, where types are in lower case"
)]

pub mod bls;
pub mod broadcast;
pub mod committees;
pub mod context;
pub mod memory;
pub mod outcome;
pub mod proofs;
pub mod watch;
pub mod xmss;

#[cfg(test)]
mod tests;
