//! Runs broadcast, gossip and Horn under a virtual clock and a virtual network.
//!
//! | room | what it holds |
//! |---|---|
//! | `bounds` | times that no protocol can beat |
//! | `charge` | what computing takes: jobs in front of simulated cores |
//! | `check` | who records deliveries and holds them to the rules |
//! | [`compute`] | jobs: really run, deterministically charged, identical ones once |
//! | `fault` | wrappers around honest state machines |
//! | `gossip` | a model of gossipsub, and the two plainest ways beside it |
//! | `graph` | who is connected to whom |
//! | [`horn`] | votes, aggregates, collections and the block of a slot over the network |
//! | [`latency`] | how long a bit is on its way |
//! | `net` | queues at uplinks and downlinks, loss, windows, partitions |
//! | [`report`] | what a run yields, its figures and its tables |
//! | `role` | what one simulated node runs |
//! | [`rounds`] | the published model of coded broadcast in synchronous rounds |
//! | [`run`] | from a scenario and a seed to an outcome |
//! | [`scenario`] | protocol, network, faults and seeds as data |
//! | `slab` | things that several hold, once each |
//! | [`slot`] | the scenario of one slot, from genesis to the block that carries its votes |
//! | [`sweep`] | the runs of a scenario as a list, and their figures over the seeds |
//! | [`tree`] | votes gathered up a tree, to compare with two layers |
//! | `voters` | which validators vote, and on which nodes they are |
//! | `windows` | the events that wait: windows of the least latency, node by node |
//! | [`world`] | all nodes under one virtual clock, in spans of a thread each |
//!
//! A run is a function of its configuration and seed: the same configuration gives the same bytes,
//! whatever the number of threads, because virtual time comes from cost formulas and never from a
//! clock. A clock is read in [`compute`] alone, to report what the real work took.
//!
//! The simulator takes no decision of the protocol, and names no signature scheme.
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
pub mod rounds;
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

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
