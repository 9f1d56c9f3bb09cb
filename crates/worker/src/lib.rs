//! Decides which job runs next and on which lane, predicts its run time, and finds its bad inputs.
//!
//! [`Worker`] runs the jobs of a protocol on its own threads and child processes. Its three calls,
//! [`Worker::open`], [`Worker::submit`] and [`Worker::try_recv`], never wait for a job. It is
//! independent of schemes and protocols and knows only [`alphorn_scheme::Task`];
//! `examples/embed.rs` is an external client.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | [`Plan`]: the queue, its classes and deadlines, and what starts next |
//! | `cost` | [`CostModel`]: run times of jobs, learned from past runs |
//! | `bisect` | [`Bisect`]: finds the bad inputs among many in few checks |
//! | [`child`] | frames between a process lane and its child, and the child's side: [`serve_child`] |
//! | [`memory`] | memory budget of jobs |
//!
//! The first three read no clock and start no threads: time is an argument, and a lane is anything
//! that runs one job at a time, such as a thread or a simulated core. The simulator therefore uses
//! the same queue as a node.
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
// Not inside the module, because the model compiles that a second time.
#[cfg(test)]
#[path = "worker/tests.rs"]
mod worker_tests;

// The toy task of the tests refers to this crate by name, as an external one would.
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

/// Compiles the example from the package README together with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
