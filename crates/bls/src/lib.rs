//! Signs, aggregates and verifies BLS12-381 votes of whole committees.
#![deny(unsafe_code)]
