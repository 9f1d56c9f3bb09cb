//! What a world is made of, apart from its roles, and the bounds of its run.

use crate::charge::Processor;
use crate::net::NetConfig;
use std::sync::Arc;

/// Bounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum number of events handled.
    pub(crate) events_max: u64,
    /// Last instant of virtual time, in nanoseconds.
    pub(crate) sim_time_max_ns: u64,
    /// A world is quiet if no part of a payload was sent for this long and only deadlines are pending. State
    /// machines may keep maintaining their tables for ever.
    pub(crate) quiet_ns: u64,
}

/// Configuration of a world, apart from its roles.
#[derive(Clone, Debug)]
pub(crate) struct WorldConfig {
    /// The network.
    pub(crate) net: NetConfig,
    /// Processors.
    pub(crate) processors: Vec<Processor>,
    /// Index of each node's processor.
    pub(crate) processor: Arc<[u16]>,
    /// Bounds.
    pub(crate) limits: Limits,
    /// Threads of a run. The result is the same for any number, but only with one thread can the run stop at any
    /// event.
    pub(crate) threads: usize,
}
