//! Handling of unresponsive jobs.

use super::{At, Ended, Report, Scheduler};
use alphorn_scheme::{JobId, Task};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A job that must be ended from outside.
pub(crate) struct Hung<T> {
    pub(crate) lane: usize,
    /// Its lane may be running another one by the time it is ended.
    pub(crate) job: JobId,
    /// The lane's thread that runs it.
    pub(crate) thread: u64,
    pub(crate) task: Arc<T>,
    /// It hangs. Otherwise it was asked to stop and did not, which only ends a child.
    pub(crate) hangs: bool,
}

impl<T: Task> Scheduler<T> {
    /// Returns the jobs that hang or do not stop.
    pub(crate) fn hung(&mut self, at: At) -> Vec<Hung<T>> {
        let stop_grace_ns = self.config.stop_grace_ms.saturating_mul(1_000_000);
        let mut hung = Vec::new();
        for (lane, post) in self.posts.iter_mut().enumerate() {
            let Some(on) = &mut post.on else {
                continue;
            };
            let since_ns = |then_ns: u64| at.mono_ns.saturating_sub(then_ns);
            let beats = on.beats.load(Ordering::Relaxed);
            if beats != on.seen.0 {
                on.seen = (beats, at.mono_ns);
            }
            if on.stop.is_stopped() {
                on.stop_ns.get_or_insert(at.mono_ns);
            }
            let silent = since_ns(on.seen.1) > on.silent_max_ns;
            let hangs = silent || since_ns(on.started_ns) > on.run_max_ns;
            let unwilling = on
                .stop_ns
                .is_some_and(|then| since_ns(then) > stop_grace_ns);
            if !on.given_up && (hangs || unwilling) {
                hung.push(Hung {
                    lane,
                    job: on.job,
                    thread: post.thread,
                    task: on.task.clone(),
                    hangs,
                });
            }
        }
        hung
    }

    /// Notes that the child of a job was killed. Its lane will report that soon.
    pub(crate) fn killed(&mut self, hung: &Hung<T>) {
        let on = self.posts[hung.lane].on.as_mut();
        if let Some(on) = on.filter(|on| on.job == hung.job) {
            self.counts.hangs += u64::from(hung.hangs);
            // The death of a job that hung counts as a crash, which is followed by a rerun and a search. That of a job
            // that was asked to stop does not: its result is no longer wanted.
            on.killed = !hung.hangs;
            on.given_up = true;
        }
    }

    /// Whether the lane of a job found hanging has not reported its end since.
    pub(crate) fn still_runs(&self, hung: &Hung<T>) -> bool {
        let on = self.posts[hung.lane].on.as_ref();
        on.is_some_and(|on| on.job == hung.job)
    }

    /// Abandons the thread of a lane whose job hangs in this process. Returns the number of the replacement thread.
    /// None if the thread has reported after all, or if too many hang already: the lane is then empty until
    /// [`Scheduler::refill`] returns it.
    pub(crate) fn abandon(
        &mut self,
        at: At,
        hung: &Hung<T>,
        name: Option<[u8; 32]>,
    ) -> Option<u64> {
        if !self.still_runs(hung) {
            return None;
        }
        self.counts.hangs += 1;
        self.ended(at, hung.lane, hung.thread, Report::of(Ended::Hung(name)));
        self.abandoned += 1;
        let has_thread = self.abandoned <= self.abandoned_max(hung.lane);
        let post = &mut self.posts[hung.lane];
        // Also if the lane stays empty: the old thread may still report.
        post.thread += 1;
        post.is_empty = !has_thread;
        has_thread.then_some(post.thread)
    }

    /// Number of hung threads beyond which a lane's thread is not replaced.
    fn abandoned_max(&self, lane: usize) -> u32 {
        let max = self.config.lanes_abandoned_max;
        match lane < usize::from(self.config.plan.fast_lanes) {
            // While the worker refuses long jobs it still accepts short ones, so fast lanes are refilled for longer.
            true => FAST_ABANDONED_MAX.max(max),
            false => max,
        }
    }

    /// Returns the empty lanes that get a thread after all, with its number, because others have returned. A process
    /// that was suspended abandons everything that ran, and all those threads report shortly after.
    pub(crate) fn refill(&mut self) -> Vec<(usize, u64)> {
        let is_due = |scheduler: &Self, lane: usize| {
            scheduler.posts[lane].is_empty && scheduler.abandoned <= scheduler.abandoned_max(lane)
        };
        let lanes = (0..self.posts.len()).filter(|_| !self.closing);
        let lanes: Vec<usize> = lanes.filter(|lane| is_due(self, *lane)).collect();
        let refilled = lanes.into_iter().map(|lane| {
            self.posts[lane].is_empty = false;
            (lane, self.posts[lane].thread)
        });
        refilled.collect()
    }

    /// Notes that the system could not start a thread for a lane: it is retried.
    pub(crate) fn vacate(&mut self, lane: usize) {
        self.posts[lane].is_empty = true;
    }
}

/// Number of hung threads beyond which fast lanes are not replaced either.
const FAST_ABANDONED_MAX: u32 = 16;
