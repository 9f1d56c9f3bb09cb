//! Decides what each role of the protocol does next, and nothing else.
#![forbid(unsafe_code)]
