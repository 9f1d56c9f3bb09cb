//! Measurements, comparisons and attacks for a million voters, with real signatures and in the simulator.
//!
//! Also contains the tools for writing reports.
//!
//! This is the library behind `alphorn`: each module with `Args` and `run` is one of its commands. No
//! stable interface is promised.
#![forbid(unsafe_code)]
// They panic when the reader is gone or the disk is full: `report` has `say` and `note`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod attack;
pub mod calibration;
pub mod compare;
pub mod distinct;
pub mod draw;
pub mod error;
pub mod explore;
pub mod fan_out;
pub mod horn;
mod html;
mod input;
mod kernel_times;
pub mod keycache;
pub mod lattice;
pub mod levels;
pub mod machine;
pub mod options;
pub mod overwrite;
pub mod participation;
pub mod picture;
mod plot;
pub mod progress;
pub mod proof;
pub mod report;
pub mod sim;
pub mod slot;
pub mod text;
pub mod timing;
pub mod yaml;
