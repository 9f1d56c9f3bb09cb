//! What an embedder decides.

use crate::child::ChildCommand;
use crate::cost::CostModel;
use crate::memory::{self, LOW_MEMORY_BYTES};
use crate::plan;
use std::path::PathBuf;

/// Which results are given to the public verifier before they are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfVerify {
    /// Each: nothing unverified leaves the worker.
    Always,
    /// One in so many jobs. Only for schemes whose verification takes more than a fifth of the
    /// proving: an invalid result may then be published.
    Sampled(u32),
}

/// Files of results that failed their own verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultFiles {
    /// The folder, made if it is not there.
    pub folder: PathBuf,
    /// Files at most; the oldest goes.
    pub files_max: usize,
    /// Bytes of all files at most.
    pub bytes_max: u64,
}

impl FaultFiles {
    /// 16 files of at most 64 MiB in all.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            files_max: 16,
            bytes_max: 64 << 20,
        }
    }
}

/// Lanes, bounds and policies of a [`Worker`](crate::Worker).
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Lanes, queue, memory: what the scheduler knows.
    pub plan: plan::Config,
    /// What was learned of costs before.
    pub costs: CostModel,
    /// Jobs that are finished and not yet received, at most, beside those that wait and run; with
    /// this many more submissions are refused.
    pub undelivered_max: u32,
    /// Added to the niceness of the process for fast lanes.
    pub fast_nice: u8,
    /// Added to the niceness of the process for prove lanes and children.
    pub prove_nice: u8,
    /// Milliseconds without a beat after which a job hangs that does more than verify; twice its 99 %
    /// prediction if that is more.
    pub hang_after_ms: u64,
    /// Least run time in milliseconds after which a job that beats hangs, too; 8 times its 99 %
    /// prediction if that is more.
    pub run_max_ms: u64,
    /// Milliseconds after which a child that was asked to stop is killed.
    pub stop_grace_ms: u64,
    /// Lanes whose thread never came back, beyond which long jobs are refused.
    pub lanes_abandoned_max: u32,
    /// Times that a job which crashed is run again on portable kernels.
    pub crash_retries_max: u32,
    /// Inputs that ended a run and are not run again, at most; the oldest goes.
    pub quarantine_max: usize,
    /// Which results are verified.
    pub self_verify: SelfVerify,
    /// Where jobs whose result failed verification are kept.
    pub faults: Option<FaultFiles>,
    /// How to start a child; without it every job runs in this process.
    pub child: Option<ChildCommand>,
    /// Milliseconds between two beats of a child.
    pub beat_ms: u16,
    /// One prove lane, no child that stands by, a child for each job, a queue of 64 MiB.
    pub low_memory: bool,
    /// Seed of the orders in which bad inputs are searched for; from the system's entropy where
    /// adversaries choose inputs.
    pub seed: u64,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            plan: plan::Config::default(),
            costs: CostModel::new(),
            undelivered_max: 1024,
            fast_nice: 5,
            prove_nice: 10,
            hang_after_ms: 5_000,
            run_max_ms: 60_000,
            stop_grace_ms: 1_000,
            lanes_abandoned_max: 2,
            crash_retries_max: 1,
            quarantine_max: 1024,
            self_verify: SelfVerify::Always,
            faults: None,
            child: None,
            beat_ms: 100,
            low_memory: false,
            seed: 0,
        }
    }
}

impl WorkerConfig {
    /// The lanes of this machine ([`plan::Config::for_cores`]) and 60 % of its memory; low-memory
    /// mode if that is less than 4 GiB.
    pub fn for_this_machine() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Self::for_cores(cores)
    }

    /// The same with the lanes of so many cores.
    pub fn for_cores(cores: usize) -> Self {
        let mut plan = plan::Config::for_cores(u16::try_from(cores).unwrap_or(u16::MAX));
        if let Some(bytes) = memory::budget_bytes() {
            plan.memory_budget_bytes = bytes;
        }
        Self {
            low_memory: plan.memory_budget_bytes < LOW_MEMORY_BYTES,
            plan,
            ..Self::default()
        }
    }

    /// The configuration with what its mode implies.
    pub(crate) fn settled(mut self) -> Self {
        if self.low_memory {
            self.plan.prove_lanes = self.plan.prove_lanes.min(1);
            self.plan.queue_bytes_max = self.plan.queue_bytes_max.min(64 << 20);
        }
        self
    }

    /// Accepted jobs that are not received yet, at most.
    pub(crate) fn outstanding_max(&self) -> usize {
        let waiting = self.plan.jobs_queued_max as usize;
        let undelivered = self.undelivered_max as usize;
        waiting
            .saturating_add(self.plan.lanes())
            .saturating_add(undelivered)
    }
}
