//! What an embedder decides.

use crate::child::ChildCommand;
use crate::cost::CostModel;
use crate::memory::{self, LOW_MEMORY_BYTES, LOW_MEMORY_QUEUE_BYTES};
use crate::plan;
use std::path::PathBuf;

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
    /// Where jobs whose result failed verification are kept.
    pub faults: Option<FaultFiles>,
    /// How to start a child; without it every job runs in this process.
    pub child: Option<ChildCommand>,
    /// Milliseconds between two beats of a child.
    pub beat_ms: u16,
    /// One prove lane, no child that stands by, a child for each job;
    /// [`WorkerConfig::set_low_memory`] shortens the queue, too.
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
        let low_memory = plan.memory_budget_bytes < LOW_MEMORY_BYTES;
        let mut config = Self {
            plan,
            ..Self::default()
        };
        config.set_low_memory(low_memory);
        config
    }

    /// Low-memory mode or not, with the queue that goes with it: 64 MiB, or the
    /// default. An embedder that knows what its queue must hold says so afterwards.
    pub fn set_low_memory(&mut self, low_memory: bool) {
        self.low_memory = low_memory;
        self.plan.queue_bytes_max = match low_memory {
            true => LOW_MEMORY_QUEUE_BYTES,
            false => plan::Config::default().queue_bytes_max,
        };
    }

    /// The configuration with what its mode implies. The queue stays as long as it was said to be: less
    /// would let the jobs of one who hands in take the room that another was promised.
    pub(crate) fn settled(mut self) -> Self {
        if self.low_memory {
            self.plan.prove_lanes = self.plan.prove_lanes.min(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A service of 8 clients with 96 MiB each: a bound of the mode below that would have one client's
    /// jobs refused for those of another, and the largest body always.
    #[test]
    fn a_queue_that_the_embedder_sized_is_not_cut() {
        let mut config = WorkerConfig::default();
        config.plan.prove_lanes = 4;
        config.set_low_memory(true);
        assert_eq!(config.plan.queue_bytes_max, LOW_MEMORY_QUEUE_BYTES);
        config.plan.queue_bytes_max = 8 * (96 << 20);
        let settled = config.clone().settled();
        assert_eq!(settled.plan.queue_bytes_max, 8 * (96 << 20));
        assert_eq!((settled.low_memory, settled.plan.prove_lanes), (true, 1));
        config.set_low_memory(false);
        let default = plan::Config::default();
        assert_eq!(config.plan.queue_bytes_max, default.queue_bytes_max);
        assert_eq!(config.settled().plan.prove_lanes, 4);
    }
}
