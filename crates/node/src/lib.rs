//! Drives the protocol by wall clock, network and disk, and never misses a duty.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod clock;
pub mod engine;
pub mod genesis;
pub mod safety;
pub mod sync;
