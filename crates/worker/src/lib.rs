//! Decides which job runs next and on which lane, predicts how long it takes, and finds its bad inputs.
//!
//! [`Worker`] runs the jobs of a protocol on threads and child processes of its own: three calls,
//! [`Worker::open`], [`Worker::submit`] and [`Worker::try_recv`], and none of them waits for a job.
//! It knows no scheme and no protocol, only [`alphorn_scheme::Task`]; `examples/embed.rs` is a
//! foreign client.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | [`Plan`]: the queue, its classes and deadlines, and what starts next |
//! | `cost` | [`CostModel`]: what a job takes, learned from what jobs took |
//! | `bisect` | [`Bisect`]: the bad ones of many inputs in few checks |
//! | [`child`] | frames between a process lane and its child, and the child's side: [`serve_child`] |
//! | [`memory`] | how much memory jobs may have |
//!
//! The first three read no clock and start no thread: time is an argument, and a lane is whatever
//! runs one job at a time, a thread or a simulated core. So the simulator studies the same queue
//! that a node has.
#![forbid(unsafe_code)]

mod bisect;
pub mod child;
mod config;
mod cost;
mod faults;
mod lane;
pub mod memory;
#[cfg(test)]
mod model;
mod os;
mod perform;
pub mod plan;
mod scheduler;
mod sync;
mod time;
mod worker;
// Not inside the module, which the model compiles a second time.
#[cfg(test)]
#[path = "worker/tests.rs"]
mod worker_tests;

// The toy task of the tests names this crate as a foreign one does.
#[cfg(test)]
extern crate self as alphorn_worker;
#[cfg(test)]
#[path = "../tests/toy/mod.rs"]
mod toy;

pub use bisect::Bisect;
pub use child::{ChildCommand, serve_child};
pub use config::{FaultFiles, WorkerConfig};
pub use cost::{CostKey, CostModel, Prediction};
pub use plan::{Config, End, LaneKind, Plan, Refused, Request, Session, Start};
pub use scheduler::{Counts, Finished, Run, Running, Status, SubmitError, Timing};
pub use time::steady_time;
pub use worker::Worker;

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
