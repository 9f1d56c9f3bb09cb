//! Options of the lanes that jobs run on, for a node and a worker alike.

use alphorn_worker::memory::LOW_MEMORY_BYTES;
use alphorn_worker::{ChildCommand, FaultFiles, WorkerConfig};

/// The lanes of a process, and what they may take.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct LaneOptions {
    /// Threads of the lane for long jobs (default: depends on the number of cores)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    prove_threads: Option<u16>,
    /// Lanes for short jobs, one thread each (default: depends on the number of cores)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    fast_threads: Option<u16>,
    /// Memory limit for all running jobs in MiB (default: 60 % of this host's)
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..=1 << 24))]
    memory_budget: Option<u64>,
    /// Use one prove lane, one process per job and a short queue (default if the memory budget is below
    /// 4096 MiB)
    #[arg(long)]
    low_memory: bool,
    /// Where proving jobs run: in a process, which is killed and replaced if it hangs or takes too much
    /// memory, or in a thread of this process
    #[arg(long, value_enum, default_value_t = Isolation::Process)]
    isolation: Isolation,
}

/// Where jobs that make proofs run.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Isolation {
    /// In a process of the prove lane
    Process,
    /// In a thread of this process
    Thread,
}

impl LaneOptions {
    /// Whether jobs that make proofs have a process of their own.
    pub(crate) fn has_processes(&self) -> bool {
        self.isolation == Isolation::Process
    }

    /// Returns the lanes; `faults` keeps jobs whose result failed verification.
    pub(crate) fn config(
        &self,
        threads: usize,
        child: Option<ChildCommand>,
        faults: Option<FaultFiles>,
    ) -> WorkerConfig {
        let mut lanes = WorkerConfig::for_cores(threads);
        let plan = &mut lanes.plan;
        plan.prove_threads = self.prove_threads.unwrap_or(plan.prove_threads);
        plan.fast_lanes = self.fast_threads.unwrap_or(plan.fast_lanes);
        if let Some(mib) = self.memory_budget {
            plan.memory_budget_bytes = mib << 20;
        }
        let little = lanes.plan.memory_budget_bytes < LOW_MEMORY_BYTES;
        lanes.set_low_memory(self.low_memory || little);
        lanes.child = child;
        lanes.faults = faults;
        lanes
    }
}
