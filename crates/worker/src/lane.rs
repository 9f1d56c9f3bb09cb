//! Runs orders on a lane's thread: in this thread behind a panic guard, or in a child.

use super::sync::{Instant, nice_thread, thread_cpu_ns};
use crate::child::{Answer, AtWork, ChildCommand, ChildPool, JobFrame, Told};
use crate::config::{FaultFiles, WorkerConfig};
use crate::perform::{Made, perform};
use crate::plan::LaneKind;
use crate::scheduler::{Ended, Order, Report};
use alphorn_scheme::{Ctx, Task};
use rayon::{ThreadPool, ThreadPoolBuilder};
use sha2::{Digest, Sha256};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Stack size of a lane's threads in bytes: reserved, not touched.
pub(crate) const STACK_BYTES: usize = 64 << 20;

/// Memory of a child in addition to its budget and stacks, in bytes.
const CHILD_BASE_BYTES: u64 = 128 << 20;

/// Identifies a task: SHA-256 of its bytes; none if it has none.
pub(crate) fn name_of<T: Task>(task: &T) -> Option<[u8; 32]> {
    task.encode().map(|bytes| Sha256::digest(bytes).into())
}

/// The working state of a lane.
pub(crate) struct Bench<T: Task> {
    /// Threads in addition to the lane's own; none = only the lane's thread computes.
    pool: Option<ThreadPool>,
    threads: usize,
    nice: u8,
    scratch: T::Scratch,
    children: ChildPool,
    faults: Option<FaultFiles>,
}

/// One run of an order.
struct Once<O> {
    ended: Ended<O>,
    cpu_ns: u64,
    peak_bytes: u64,
}

impl<T: Task> Bench<T> {
    /// Creates the bench of a lane, on the lane's thread.
    pub(crate) fn new(
        config: &WorkerConfig,
        kind: LaneKind,
        at_work: AtWork,
        stale_frames: Arc<AtomicU64>,
    ) -> Self {
        let plan = &config.plan;
        let (threads, nice) = match kind {
            LaneKind::Fast => (1, config.fast_nice),
            LaneKind::Prove => (plan.prove_threads, config.prove_nice),
        };
        nice_thread(nice);
        let budget = plan.memory_budget_bytes / u64::from(plan.prove_lanes.max(1));
        // The limit counts what is reserved, so the stacks of the pool are added in full, and three
        // more for the main thread, the reader and the ticker.
        let stacks = (u64::from(threads) + 3).saturating_mul(STACK_BYTES as u64);
        let limits = crate::child::Limits {
            threads,
            nice,
            data_bytes_max: (budget.saturating_add(budget / 4))
                .saturating_add(stacks)
                .saturating_add(CHILD_BASE_BYTES),
            beat_ms: config.beat_ms,
            standby: !config.low_memory,
            recycle: config.low_memory,
        };
        let mut bench = Self {
            pool: None,
            threads: usize::from(threads),
            nice,
            scratch: T::Scratch::default(),
            children: ChildPool::new(limits, at_work, stale_frames),
            faults: config.faults.clone(),
        };
        bench.pool = bench.new_pool();
        bench
    }

    /// Creates the pool of a lane with several threads.
    fn new_pool(&self) -> Option<ThreadPool> {
        if self.threads < 2 {
            return None;
        }
        let nice = self.nice;
        // If no threads can be started, the lane's own computes alone.
        ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .stack_size(STACK_BYTES)
            .start_handler(move |_| nice_thread(nice))
            .build()
            .ok()
    }

    /// Runs an order. A result that fails verification is recomputed on portable kernels.
    pub(crate) fn run(&mut self, order: &Order<T>) -> Report<T::Output> {
        if let Some(ended) = quarantined(order) {
            return Report::of(ended);
        }
        let start = Instant::now();
        let first = self.once(order, order.portable);
        let mut report = Report {
            cpu_ns: first.cpu_ns,
            peak_bytes: first.peak_bytes,
            usual: true,
            ..Report::of(first.ended)
        };
        if matches!(report.ended, Ended::Faulty) {
            report.usual = false;
            report.faults = 1;
            self.keep_fault(order);
            // After a run on portable kernels a second one would repeat the same computation.
            if !order.portable && order.env.has_portable() {
                let second = self.once(order, true);
                report.cpu_ns += second.cpu_ns;
                // If portable kernels fail too, the kernel is not to blame.
                report.kernel_fault = matches!(second.ended, Ended::Done(_));
                report.faults += u64::from(matches!(second.ended, Ended::Faulty));
                report.ended = second.ended;
            }
        }
        let ran_ns = start.elapsed().as_nanos();
        report.ran_ns = u64::try_from(ran_ns).unwrap_or(u64::MAX);
        report
    }

    fn once(&mut self, order: &Order<T>, portable: bool) -> Once<T::Output> {
        let child = order.env.child.as_ref().filter(|_| order.isolated);
        match child.and_then(|command| Some((command, order.task.encode()?))) {
            Some((command, task)) => self.in_child(order, command, task, portable),
            None => self.in_thread(order, portable),
        }
    }

    fn in_thread(&mut self, order: &Order<T>, portable: bool) -> Once<T::Output> {
        let before = self.cpu_ns();
        let (stop, beats) = (order.stop.clone(), order.beats.clone());
        let made = catch_unwind(AssertUnwindSafe(|| {
            let mut ctx = match &self.pool {
                Some(pool) => Ctx::pooled(pool, stop, beats, &mut self.scratch),
                None => Ctx::alone(stop, beats, &mut self.scratch),
            };
            let env = order.env.on(portable);
            perform(&*order.task, env, order.seed, &mut ctx)
        }));
        let ended = match made {
            Ok(Made::Done(output, _)) => Ended::Done(output),
            Ok(Made::Invalid(bad)) => Ended::Invalid {
                bad,
                crasher: false,
            },
            Ok(Made::Refused(reason)) => Ended::Refused(reason),
            Ok(Made::Stopped) => Ended::Stopped,
            Ok(Made::Faulty) => Ended::Faulty,
            Err(_) => {
                // State that the panic left inconsistent is not reused.
                self.scratch = T::Scratch::default();
                self.pool = self.new_pool();
                return Once {
                    ended: Ended::Crashed(name_of(&*order.task)),
                    cpu_ns: 0,
                    peak_bytes: 0,
                };
            }
        };
        Once {
            ended,
            cpu_ns: self.cpu_ns().saturating_sub(before),
            peak_bytes: 0,
        }
    }

    fn in_child(
        &mut self,
        order: &Order<T>,
        command: &ChildCommand,
        task: Vec<u8>,
        portable: bool,
    ) -> Once<T::Output> {
        let frame = JobFrame {
            portable,
            seed: order.seed,
            task,
        };
        // Zero means no job in a frame.
        let job = order.job.0.wrapping_add(1);
        let number = order.env.number;
        let children = &mut self.children;
        let told = children.run(command, number, job, frame, &order.stop, &order.beats);
        let (ended, cpu_ns, peak_bytes) = match told {
            Told::Answered {
                cpu_ns,
                peak_bytes,
                answer,
            } => {
                let ended = match answer {
                    Answer::Done(bytes) => match order.task.decode_output(&bytes) {
                        Ok(output) => Ended::Done(output),
                        // The child decoded and verified these bytes before it sent them.
                        Err(_) => Ended::Faulty,
                    },
                    Answer::Invalid(bad) => Ended::Invalid {
                        bad,
                        crasher: false,
                    },
                    Answer::Refused(reason) => Ended::Refused(reason),
                    Answer::Stopped => Ended::Stopped,
                    Answer::Faulty => Ended::Faulty,
                };
                (ended, cpu_ns, peak_bytes)
            }
            Told::Died | Told::Lost => (Ended::Crashed(name_of(&*order.task)), 0, 0),
            Told::Unfit(reason) => (Ended::Refused(reason), 0, 0),
        };
        Once {
            ended,
            cpu_ns,
            peak_bytes,
        }
    }

    /// Processor time used so far by the lane's threads.
    fn cpu_ns(&self) -> u64 {
        let pool = self.pool.as_ref();
        let of_pool = pool.map(|pool| pool.broadcast(|_| thread_cpu_ns()));
        let of_pool: u64 = of_pool.into_iter().flatten().sum();
        of_pool + thread_cpu_ns()
    }

    fn keep_fault(&self, order: &Order<T>) {
        if let (Some(faults), Some(task)) = (&self.faults, order.task.encode()) {
            let kind = order.task.features(order.env.on(order.portable)).kind;
            // A full disk must not stop the lane; the failure itself is counted.
            let _ = faults.keep(kind, &task);
        }
    }
}

/// Returns the end of an order whose task or inputs crashed an earlier run.
fn quarantined<T: Task>(order: &Order<T>) -> Option<Ended<T::Output>> {
    let quarantine = order.quarantine.as_ref()?;
    let inputs = order.task.features(order.env.on(false)).inputs as usize;
    let named = |index: &usize| {
        let name = order.task.input_digest(*index);
        name.is_some_and(|name| quarantine.holds(&name))
    };
    let bad: Vec<usize> = (0..inputs).filter(named).collect();
    if !bad.is_empty() {
        return Some(Ended::Invalid { bad, crasher: true });
    }
    if quarantine.tasks && name_of(&*order.task).is_some_and(|name| quarantine.holds(&name)) {
        return Some(Ended::Refused("the job crashed before".into()));
    }
    None
}
