//! Threads that run a batch of jobs.

use alphorn_exec::Stop;
use alphorn_scheme::{Ctx, Env, Outcome, Output, Scratch, Task, Work};
use rayon::ThreadPool;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

/// The thread pool could not be started.
#[derive(Debug, thiserror::Error)]
#[error("a pool of {threads} threads could not be started")]
pub struct PoolError {
    /// Number of threads requested.
    pub threads: usize,
    /// The reason.
    #[source]
    pub source: rayon::ThreadPoolBuildError,
}

pub(super) struct Lanes {
    pool: ThreadPool,
    scratches: Vec<Scratch>,
}

/// A job and its cost on one core as estimated by its scheme.
pub(super) struct Queued {
    pub(super) job: Work,
    pub(super) prior_ns: u64,
}

/// A job that has run.
pub(super) struct Ran {
    /// Its index in the batch.
    pub(super) index: usize,
    pub(super) outcome: Outcome<Output>,
    /// Time on its thread, multiplied by the number of threads if it had the whole pool.
    pub(super) busy_ns: u64,
}

impl Lanes {
    pub(super) fn new(threads: usize) -> Result<Self, PoolError> {
        let threads = threads.max(1);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|source| PoolError { threads, source })?;
        let scratches = (0..threads).map(|_| Scratch::default()).collect();
        Ok(Lanes { pool, scratches })
    }

    pub(super) fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// Runs a batch and reports each job as it ends, in no particular order. Returns the duration
    /// of the whole batch in nanoseconds.
    pub(super) fn run(&mut self, env: &Env, jobs: &[Queued], report: &mut dyn FnMut(Ran)) -> u64 {
        let started = Instant::now();
        let threads = self.scratches.len();
        let total_ns = jobs.iter().map(|queued| u128::from(queued.prior_ns)).sum();
        // On a single thread it would end after all the others together.
        let is_long = |queued: &Queued| {
            jobs.len() == 1 || u128::from(queued.prior_ns) * threads as u128 > total_ns
        };
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(jobs[i].prior_ns), i));
        // The longest come first, and one thread has no pool to share.
        let long_count = match threads {
            1 => 0,
            _ => order.iter().take_while(|&&i| is_long(&jobs[i])).count(),
        };
        let (long, short) = order.split_at(long_count);
        for &index in long {
            let (outcome, wall_ns) = self.run_pooled(env, &jobs[index].job);
            let busy_ns = wall_ns * threads as u64;
            report(Ran {
                index,
                outcome,
                busy_ns,
            });
        }
        self.run_singly(env, jobs, short, report);
        nanos(started)
    }

    /// Runs a job on the whole pool.
    pub(super) fn run_pooled(&mut self, env: &Env, job: &Work) -> (Outcome<Output>, u64) {
        let (pool, scratch) = (&self.pool, &mut self.scratches[0]);
        timed(scratch, |scratch| {
            job.run(
                env,
                &mut Ctx::pooled(pool, Stop::default(), Default::default(), scratch),
            )
        })
    }

    /// Runs a job on one thread.
    pub(super) fn run_single(&mut self, env: &Env, job: &Work) -> (Outcome<Output>, u64) {
        timed(&mut self.scratches[0], |scratch| {
            job.run(env, &mut Ctx::single(scratch))
        })
    }

    /// Each thread takes the next job of `order` until none is left. The longest jobs come first,
    /// so that the threads finish at about the same time.
    fn run_singly(
        &mut self,
        env: &Env,
        jobs: &[Queued],
        order: &[usize],
        report: &mut dyn FnMut(Ran),
    ) {
        let next = AtomicUsize::new(0);
        let (sender, receiver) = mpsc::channel();
        // In place: this thread receives and reports while those of the pool work.
        self.pool.in_place_scope(|scope| {
            for scratch in &mut self.scratches {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move |_| {
                    // Relaxed: threads share nothing else by it, and results go through the channel.
                    while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let job = &jobs[index].job;
                        let (outcome, busy_ns) =
                            timed(scratch, |scratch| job.run(env, &mut Ctx::single(scratch)));
                        let ran = Ran {
                            index,
                            outcome,
                            busy_ns,
                        };
                        if sender.send(ran).is_err() {
                            return;
                        }
                    }
                });
            }
            // With a sender left, the loop below would never end.
            drop(sender);
            receiver.iter().for_each(&mut *report);
        });
    }
}

/// Runs a job; a panic fails only this job, and its scratch memory is dropped.
fn timed<T>(
    scratch: &mut Scratch,
    run: impl FnOnce(&mut Scratch) -> Result<T, alphorn_scheme::TaskError>,
) -> (Outcome<T>, u64) {
    let started = Instant::now();
    let outcome = match catch_unwind(AssertUnwindSafe(|| run(&mut *scratch))) {
        Ok(result) => Outcome::from(result),
        Err(_) => {
            *scratch = Scratch::default();
            Outcome::Crashed
        }
    };
    (outcome, nanos(started))
}

fn nanos(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
