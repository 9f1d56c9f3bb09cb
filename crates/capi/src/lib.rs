//! The C library of alphorn: opaque handles, explicit lengths, and no panic that crosses the boundary.
//!
//! All that C sees is in `border`, the one module with unsafe code: each function turns pointers into
//! references as the header says they are, calls [`alphorn_bindings`], and turns its answer back.
//! `include/alphorn.h` is made from it by cbindgen, and a test holds it current.
#![deny(unsafe_code)]

pub mod border;

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
