//! Proves that short vectors satisfy linear and quadratic equations, in a few tens of kilobytes.
#![forbid(unsafe_code)]

pub mod challenge;
pub mod digits;
pub mod key;
pub mod projection;
pub mod ring;
pub mod schedule;
pub mod sis;
pub mod transcript;
