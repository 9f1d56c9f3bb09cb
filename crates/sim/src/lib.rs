//! Runs the protocol's own state machines under a virtual clock and a virtual network.
#![forbid(unsafe_code)]
