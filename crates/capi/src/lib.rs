//! The C library of alphorn: opaque handles, explicit lengths, and no panic that crosses the boundary.
//!
//! Everything visible to C is in `border`, the only module with unsafe code. Each function turns pointers into
//! references under the contract in the header, calls [`alphorn_bindings`], and converts the result back.
//! cbindgen generates `include/alphorn.h` from it, and a test checks that it is current.
#![deny(unsafe_code)]

pub mod border;

/// Compiles the example in the package README together with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
