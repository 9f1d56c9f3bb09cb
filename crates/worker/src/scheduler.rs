//! The state between callers and lanes: the plan, accepted jobs that have not ended, and ended jobs that have not been
//! received. No threads and no clock: a [`Worker`](crate::Worker) holds it under one lock, tests drive it by hand.
//!
//! Every accepted submission is a ticket, and each ticket is exchanged for exactly one [`Finished`].

pub(crate) mod crash;
mod end;
#[cfg(test)]
mod tests;
mod types;
mod watch;

use crate::config::WorkerConfig;
use crate::cost::{CostKey, CostModel};
use crate::plan::{self, LaneKind, Plan, Ran, Request, Session};
use alphorn_exec::Stop;
use alphorn_scheme::{Features, JobId, Schedulable, SessionId, Task};
use alphorn_types::Time;
use crash::{Groups, Quarantine};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use types::{Counts, Finished, Run, Running, Status, SubmitError, Timing};
pub(crate) use types::{Ended, Environment, Load, Order, Report};
pub(crate) use watch::Hung;

/// The time of a call: on the protocol's clock, and on a monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) now: Time,
    pub(crate) mono_ns: u64,
}

/// What a lane does next.
pub(crate) enum Turn<T: Task> {
    Work(Order<T>),
    Wait,
    /// The thread was replaced, or the worker is shutting down.
    Leave,
}

/// What is known of a crash after the first run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has not crashed.
    First,
    /// It crashed, and is being rerun.
    Again { left: u32 },
    /// It crashed again: prefixes are run to find the input that causes it.
    Search(crash::Search),
}

/// An accepted submission.
struct Ticket<T: Task> {
    /// Its external id.
    job: JobId,
    /// As submitted. After a crash, the work is replaced by what actually ran.
    request: Request<Arc<T>>,
    stage: Stage,
    /// Number of inputs cut off before the first crash.
    cut: u32,
    /// The name of its task after a crash, if it has one.
    name: Option<[u8; 32]>,
    timing: Timing,
    run: Option<Run>,
}

/// The job running on a lane.
struct On<T: Task> {
    job: JobId,
    task: Arc<T>,
    features: Features,
    stop: Stop,
    beats: Arc<AtomicU64>,
    /// The last number of beats, and when it last changed.
    seen: (u64, u64),
    started_ns: u64,
    /// Nanoseconds without a beat, and in total, after which the job counts as hung.
    silent_max_ns: u64,
    run_max_ns: u64,
    /// When it was first seen to have been asked to stop.
    stop_ns: Option<u64>,
    /// Its child was killed because it did not stop.
    killed: bool,
    /// It is being ended.
    given_up: bool,
}

/// A lane as the scheduler sees it.
struct Post<T: Task> {
    /// Counts the threads of the lane: reports of abandoned ones are ignored.
    thread: u64,
    on: Option<On<T>>,
    /// It has no thread: too many were hung when its own was abandoned, or the system could not start one.
    is_empty: bool,
}

/// See the [module](self).
pub(crate) struct Scheduler<T: Task> {
    config: WorkerConfig,
    plan: Plan<Load<T>>,
    env: Arc<Environment<T>>,
    posts: Vec<Post<T>>,
    /// Accepted submissions that have not ended, by the plan's id of their current run.
    tickets: BTreeMap<JobId, Ticket<T>>,
    /// The lane's report of a run whose end is being passed to the plan, and what ran.
    report: Option<(Report<T::Output>, Arc<T>)>,
    done: VecDeque<Finished<T::Output>>,
    /// There are results since the last call of [`Scheduler::take_news`].
    news: bool,
    memory: CostModel,
    groups: Groups,
    quarantine: Arc<Quarantine>,
    counts: Counts,
    abandoned: u32,
    kernel_disabled: bool,
    closing: bool,
}

impl<T: Task> Scheduler<T> {
    /// # Panics
    ///
    /// If the configuration has no lanes.
    pub(crate) fn new(config: WorkerConfig, env: Arc<Environment<T>>) -> Self {
        let post = |_| Post {
            thread: 0,
            on: None,
            is_empty: false,
        };
        Self {
            plan: Plan::new(config.plan.clone(), config.costs.clone()),
            posts: (0..config.plan.lanes()).map(post).collect(),
            env,
            tickets: BTreeMap::new(),
            report: None,
            done: VecDeque::with_capacity(config.outstanding_max()),
            news: false,
            memory: CostModel::new(),
            groups: Groups::default(),
            quarantine: Arc::new(Quarantine::new(config.quarantine_max)),
            counts: Counts::default(),
            abandoned: 0,
            kernel_disabled: false,
            closing: false,
            config,
        }
    }

    pub(crate) fn env(&self) -> Arc<Environment<T>> {
        self.env.clone()
    }

    pub(crate) fn set_env(&mut self, env: Arc<Environment<T>>) {
        self.env = env;
    }

    pub(crate) fn open(&mut self, at: At, session: Session) -> Result<(), plan::Refused> {
        let opened = self.plan.open(at.now, session);
        self.settle(at);
        opened
    }

    /// Accepts a job; see [`Worker::submit`](crate::Worker::submit).
    pub(crate) fn submit(
        &mut self,
        at: At,
        request: Request<Load<T>>,
    ) -> Result<JobId, SubmitError> {
        let taken = self.take(at, request);
        match taken {
            Ok(_) => self.counts.accepted += 1,
            Err(_) => self.counts.refused += 1,
        }
        self.settle(at);
        taken
    }

    fn take(&mut self, at: At, mut request: Request<Load<T>>) -> Result<JobId, SubmitError> {
        if self.closing {
            return Err(SubmitError::Closing);
        }
        let max = self.config.outstanding_max();
        // A ticket becomes one entry of `done`, so the sum counts what was accepted and not received, and the room
        // reserved for `done` at the start suffices for every end.
        if self.tickets.len() + self.done.len() >= max {
            return Err(SubmitError::Undelivered { max });
        }
        let slot = request.session.slot.0;
        if let Some((crashes, until)) = self.groups.refused(&request.group, slot) {
            return Err(SubmitError::GroupCrashes { crashes, until });
        }
        if request.work.task.is_pointless(self.env.on(false)) {
            return Err(SubmitError::Pointless);
        }
        let features = request.work.said();
        if self.degraded() && (request.work.isolated() || !self.is_short(&features, slot)) {
            let empty = self.posts.iter().filter(|post| post.is_empty).count();
            let abandoned = self.abandoned.max(u32::try_from(empty).unwrap_or(u32::MAX));
            return Err(SubmitError::Degraded { abandoned });
        }
        let permille = self.memory_permille(&features, slot);
        let ticket = request.with(request.work.task.clone());
        request.work = request.work.with_memory(permille);
        let job = self.plan.submit(at.now, request)?;
        let ticket = Ticket {
            job,
            request: ticket,
            stage: Stage::First,
            cut: 0,
            name: None,
            timing: Timing::default(),
            run: None,
        };
        self.tickets.insert(job, ticket);
        Ok(job)
    }

    pub(crate) fn cancel(&mut self, at: At, session: SessionId) {
        self.plan.cancel(at.now, session);
        self.settle(at);
    }

    pub(crate) fn receive(&mut self) -> Option<Finished<T::Output>> {
        self.done.pop_front()
    }

    /// Whether results arrived since the last call.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Whether a lane may find work.
    pub(crate) fn has_work(&self) -> bool {
        self.plan.queued() > 0
    }

    /// Returns what the thread of a lane does next.
    pub(crate) fn next(&mut self, at: At, lane: usize, thread: u64) -> Turn<T> {
        if self.closing || self.posts[lane].thread != thread {
            return Turn::Leave;
        }
        let start = self.plan.next(at.now, lane);
        self.settle(at);
        let Some(start) = start else {
            return Turn::Wait;
        };
        let again = self.tickets.get_mut(&start.job).map(|ticket| {
            ticket.run = Some(Run {
                lane: u16::try_from(lane).unwrap_or(u16::MAX),
                inputs: start.work.features().inputs,
                predicted_ns: start.t50_ns,
            });
            ticket.stage
        });
        let prove = self.plan.lane_kind(lane) == LaneKind::Prove;
        let order = Order {
            job: start.job,
            task: start.work.task.clone(),
            env: self.env.clone(),
            isolated: start.work.isolated() && prove,
            // A crash may be the kernel's fault, so no run after it uses the same kernel.
            portable: self.kernel_disabled || again.is_some_and(|stage| stage != Stage::First),
            // Another order for each job: the factor is odd, so different jobs never share a seed.
            seed: self.config.seed ^ start.job.0.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            stop: Stop::default(),
            beats: Arc::default(),
            quarantine: (self.quarantine.len() > 0).then(|| self.quarantine.clone()),
        };
        let ns = |ms: u64| ms.saturating_mul(1_000_000);
        let run_max_ns = ns(self.config.run_max_ms).max(start.t99_ns.saturating_mul(8));
        // Costs are learned together with the load of other jobs, so a job that is slow for lack of processors does not
        // count as hung. A job that only verifies does not hang until its total time is over.
        let silent_max_ns = match order.task.verifies() {
            true => run_max_ns,
            false => ns(self.config.hang_after_ms).max(start.t99_ns.saturating_mul(2)),
        };
        self.posts[lane].on = Some(On {
            job: start.job,
            task: order.task.clone(),
            features: start.work.features(),
            stop: order.stop.clone(),
            beats: order.beats.clone(),
            seen: (0, at.mono_ns),
            started_ns: at.mono_ns,
            silent_max_ns,
            run_max_ns,
            stop_ns: None,
            killed: false,
            given_up: false,
        });
        Turn::Work(order)
    }

    /// Processes the report of a lane's thread. Reports of abandoned threads are ignored.
    pub(crate) fn ended(&mut self, at: At, lane: usize, thread: u64, report: Report<T::Output>) {
        let post = &mut self.posts[lane];
        if post.thread != thread {
            // Its job was given its end when the thread was abandoned. The thread leaves at its next turn, so it no
            // longer counts as hung.
            self.abandoned = self.abandoned.saturating_sub(1);
            return;
        }
        let Some(on) = post.on.take() else {
            return;
        };
        let busy_ns = at.mono_ns.saturating_sub(on.started_ns);
        match self.plan.lane_kind(lane) {
            LaneKind::Fast => self.counts.fast_busy_ns += busy_ns,
            LaneKind::Prove => self.counts.prove_busy_ns += busy_ns,
        }
        self.learn_memory(&on, report.peak_bytes);
        self.counts.self_verify_failures += report.faults;
        self.kernel_disabled |= report.kernel_fault;
        let ran_ns = report.ran_ns;
        let ran = match report.ended {
            Ended::Stopped => Ran::Stopped,
            // The result is no longer wanted, so the job is not rerun: its child was killed for that reason, or the
            // lane gave up a child that was not ready when it was asked to stop.
            Ended::Crashed(_) | Ended::Refused(_) if on.killed || on.stop.is_stopped() => {
                Ran::Stopped
            }
            Ended::Crashed(_) | Ended::Hung(_) => Ran::Crashed,
            Ended::Done(_) if report.usual => Ran::Through { ran_ns },
            Ended::Done(_) | Ended::Invalid { .. } | Ended::Refused(_) | Ended::Faulty => {
                Ran::Astray { ran_ns }
            }
        };
        // The plan knows nothing of reports: `run_ended` takes it when the plan returns the end of this run.
        self.report = Some((report, on.task));
        self.plan.ended(at.now, lane, ran);
        self.settle(at);
        self.report = None;
    }

    /// Time at which [`Scheduler::expire`] has something to do without other events.
    pub(crate) fn next_deadline(&self, at: At) -> Option<Time> {
        self.plan.next_deadline(at.now)
    }

    /// Cancels jobs that have lost their value.
    pub(crate) fn expire(&mut self, at: At) {
        self.plan.expire(at.now);
        self.settle(at);
    }

    /// Stops accepting jobs, cancels waiting ones and asks running ones to stop.
    pub(crate) fn close(&mut self, at: At) {
        self.closing = true;
        // No `hard` is later: waiting jobs end as cancelled, running ones are asked to stop.
        self.plan.expire(Time::MAX);
        self.settle(at);
    }

    /// Abandons the jobs still running on a closed scheduler.
    pub(crate) fn give_up(&mut self, at: At) {
        for lane in 0..self.posts.len() {
            let thread = self.posts[lane].thread;
            if self.posts[lane].on.is_some() {
                self.ended(at, lane, thread, Report::of(Ended::Stopped));
                // If its thread returns after all, the report has an old number and is ignored.
                self.posts[lane].thread += 1;
            }
        }
    }

    /// The running jobs, by lane.
    pub(crate) fn at_work(&self, at: At) -> Vec<Running> {
        let on = self.posts.iter().filter_map(|post| post.on.as_ref());
        let running = on.filter_map(|on| {
            let ticket = self.tickets.get(&on.job)?;
            Some(Running {
                job: ticket.job,
                run: ticket.run?,
                ran_ns: at.mono_ns.saturating_sub(on.started_ns),
                beats: on.beats.load(Ordering::Relaxed),
            })
        });
        running.collect()
    }

    pub(crate) fn running(&self) -> usize {
        self.posts.iter().filter(|post| post.on.is_some()).count()
    }

    pub(crate) fn status(&self) -> Status {
        Status {
            queued: self.plan.queued(),
            running: self.running(),
            undelivered: self.done.len(),
            abandoned: self.abandoned,
            degraded: self.degraded(),
            kernel_disabled: self.kernel_disabled,
            low_memory: self.config.low_memory,
            quarantined: self.quarantine.len(),
            counts: self.counts,
        }
    }

    fn is_short(&self, features: &Features, slot: u64) -> bool {
        let key = CostKey::new(features, 1, 1);
        let alone = self.plan.costs().predict(&key, features.prior_ns, slot);
        alone.t90_ns <= self.config.plan.fast_max_ns
    }

    /// A lane without a thread counts even after the number of hung threads has dropped: jobs waiting for it make no
    /// progress.
    fn degraded(&self) -> bool {
        let has_empty = || self.posts.iter().any(|post| post.is_empty);
        self.abandoned > self.config.lanes_abandoned_max || has_empty()
    }

    /// Memory use of such tasks relative to their scheme's estimate, in thousandths.
    fn memory_permille(&self, features: &Features, slot: u64) -> u64 {
        let key = CostKey::new(features, 0, 0);
        self.memory.predict(&key, 1000, slot).t50_ns
    }

    /// Corrects an estimate that a child exceeded by half, as is done for times.
    fn learn_memory(&mut self, on: &On<T>, peak_bytes: u64) {
        let said = on.features.memory_bytes;
        if peak_bytes > said.saturating_add(said / 2) && said > 0 {
            let slot = self
                .tickets
                .get(&on.job)
                .map_or(0, |ticket| ticket.request.session.slot.0);
            let key = CostKey::new(&on.features, 0, 0);
            let permille = self.memory_permille(&on.features, slot);
            // `said` already contains the learned factor, and what is learned is relative to the scheme's estimate.
            let actual = u128::from(peak_bytes) * u128::from(permille) / u128::from(said);
            let actual = u64::try_from(actual).unwrap_or(u64::MAX);
            self.memory.learn(key, 1000, actual, slot);
        }
    }
}
