//! Runs broadcast, gossip and Horn under a virtual clock and a virtual network.
//!
//! | module | contents |
//! |---|---|
//! | `bounds` | lower bounds on time that no protocol can beat |
//! | `charge` | the cost of computing: jobs queued for simulated cores |
//! | `check` | records deliveries and checks them against the rules |
//! | [`compute`] | jobs: really executed, charged deterministically, identical ones only once |
//! | `fault` | wrappers around honest state machines |
//! | `gossip` | a model of gossipsub, plus the two simplest alternatives |
//! | `graph` | which nodes are connected |
//! | [`horn`] | votes, aggregates, collections and the block of a slot over the network |
//! | [`latency`] | propagation delay between nodes |
//! | `net` | uplink and downlink queues, loss, windows, partitions |
//! | [`report`] | the results of a run, its figures and its tables |
//! | `role` | what one simulated node runs |
//! | [`run`] | from a scenario and a seed to an outcome |
//! | [`scenario`] | protocol, network, faults and seeds as data |
//! | `slab` | shared values, stored once each |
//! | [`slot`] | the scenario of one slot, from genesis to the block that carries its votes |
//! | [`sweep`] | the list of runs of a scenario, and their figures over the seeds |
//! | [`tree`] | votes gathered up a tree, for comparison with two layers |
//! | `voters` | which validators vote, and on which nodes they run |
//! | `windows` | pending events, in windows of the minimum latency, node by node |
//! | [`world`] | all nodes under one virtual clock, in spans of one thread each |
//!
//! A run is a function of its configuration and seed: the same configuration gives the same bytes
//! for any number of threads, because virtual time comes from cost formulas and never from a clock.
//! Only [`compute`] reads a clock, to report how long the real work took.
//!
//! The simulator makes no protocol decisions and names no signature scheme.
#![forbid(unsafe_code)]

mod bounds;
mod charge;
mod check;
pub mod compute;
mod fault;
mod gossip;
mod graph;
pub mod horn;
pub mod latency;
mod net;
mod numbered;
mod progress;
mod random;
pub mod report;
mod role;
pub mod run;
pub mod scenario;
mod slab;
pub mod slot;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod tree;
mod voters;
mod windows;
pub mod world;

pub use progress::Progress;

/// Compiles the example in the package README as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
