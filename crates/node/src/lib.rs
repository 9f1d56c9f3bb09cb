//! Drives the protocol by wall clock, network and disk, and never misses a duty.
#![forbid(unsafe_code)]

pub mod archive;
pub mod blocks;
pub mod clock;
pub mod desk;
pub mod engine;
pub mod genesis;
pub mod lanes;
pub mod safety;
pub mod sync;
