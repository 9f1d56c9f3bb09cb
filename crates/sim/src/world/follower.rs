//! What is known about the nodes that are followed.

use alphorn_scheme::{JobId, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// A job that has not ended.
#[derive(Debug)]
pub(super) struct Submitted {
    pub(super) at_ns: u64,
    pub(super) name: &'static str,
    pub(super) inputs: u32,
    pub(super) prior_ns: u64,
}

/// What is known about a node.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) jobs: BTreeMap<JobId, Submitted>,
    pub(super) sessions: BTreeSet<SessionId>,
    /// How many may still be recorded.
    pub(super) jobs_left: usize,
    pub(super) sessions_left: usize,
    pub(super) traffic_left: usize,
    pub(super) faults_left: usize,
    /// Bytes received and sent since they were last recorded, by kind of message.
    pub(super) moved: Vec<[u64; 2]>,
}

/// The nodes that are followed.
#[derive(Debug, Default)]
pub(super) struct Follower {
    pub(super) accounts: BTreeMap<u32, Account>,
    /// When traffic is next recorded.
    pub(super) traffic_ns: u64,
}
