//! Settings chosen by the embedder.

use crate::child::ChildCommand;
use crate::cost::CostModel;
use crate::memory::{self, LOW_MEMORY_BYTES, LOW_MEMORY_QUEUE_BYTES};
use crate::plan;
use std::path::PathBuf;

/// Files with results that failed their own verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultFiles {
    /// The folder, created if missing.
    pub folder: PathBuf,
    /// Maximum number of files; the oldest is removed.
    pub files_max: usize,
    /// Maximum total bytes of the files.
    pub bytes_max: u64,
}

impl FaultFiles {
    /// 16 files of at most 64 MiB in total.
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
    /// Lanes, queue and memory, as the scheduler sees them.
    pub plan: plan::Config,
    /// Previously learned costs.
    pub costs: CostModel,
    /// Maximum number of finished jobs not yet received, in addition to the waiting and running ones. Beyond it,
    /// submissions are refused.
    pub undelivered_max: u32,
    /// Amount added to the niceness of the process for fast lanes.
    pub fast_nice: u8,
    /// Amount added to the niceness of the process for prove lanes and children.
    pub prove_nice: u8,
    /// Milliseconds without a beat after which a job that does more than verify counts as hung, or twice its 99 %
    /// prediction if that is more.
    pub hang_after_ms: u64,
    /// Minimum run time in milliseconds after which even a job that beats counts as hung, or 8 times its 99 %
    /// prediction if that is more.
    pub run_max_ms: u64,
    /// Milliseconds after which a child that was asked to stop is killed.
    pub stop_grace_ms: u64,
    /// Number of lanes whose thread never returned, beyond which long jobs are refused.
    pub lanes_abandoned_max: u32,
    /// Number of times that a crashed job is rerun on portable kernels.
    pub crash_retries_max: u32,
    /// Maximum number of inputs remembered as crashing and not run again; the oldest is dropped.
    pub quarantine_max: usize,
    /// Where jobs whose result failed verification are saved.
    pub faults: Option<FaultFiles>,
    /// How to start a child. Without it every job runs in this process.
    pub child: Option<ChildCommand>,
    /// Milliseconds between two beats of a child.
    pub beat_ms: u16,
    /// One prove lane, no standby child, a new child per job. [`WorkerConfig::set_low_memory`] also shortens the queue.
    pub low_memory: bool,
    /// Seed of the orders in which bad inputs are searched. Take it from the system's entropy if adversaries choose
    /// inputs.
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
    /// Lanes for this host ([`plan::Config::for_cores`]) and 60 % of its memory. Low-memory mode if that is less than 4
    /// GiB.
    pub fn for_this_machine() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Self::for_cores(cores)
    }

    /// The same, with lanes for this many cores.
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

    /// Sets or clears low-memory mode, with the matching queue size: 64 MiB, or the default. An embedder with its own
    /// queue requirements sets the size afterwards.
    pub fn set_low_memory(&mut self, low_memory: bool) {
        self.low_memory = low_memory;
        self.plan.queue_bytes_max = match low_memory {
            true => LOW_MEMORY_QUEUE_BYTES,
            false => plan::Config::default().queue_bytes_max,
        };
    }

    /// Returns the configuration with the consequences of its mode. The queue size is kept: reducing it would let the
    /// jobs of one submitter take the room that another was promised.
    pub(crate) fn settled(mut self) -> Self {
        if self.low_memory {
            self.plan.prove_lanes = self.plan.prove_lanes.min(1);
        }
        self
    }

    /// Maximum number of accepted jobs not yet received.
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

    /// A service of 8 clients with 96 MiB each. With the bound of the mode below, one client's jobs would be refused
    /// because of another's, and the largest body always.
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
