//! Runs jobs for real, in parallel and as late as possible, while virtual time is charged from the cost formula of the
//! scheme's portable kernel, which is the same on every host.
//!
//! A job spawned at `now` finishes at `now + prior_ns` of its features, however long the real work takes: a run is the
//! same on every host and for any number of threads. Each job has a core to itself (the number of lanes is unlimited),
//! and so does each signature of a signing job, since signatures of different validators are independent and one node
//! may represent many hosts. The node's scheduler is placed in front of this model, with as many cores as the node
//! has.
//!
//! The real work is deferred until the first of its results is due. Then all waiting jobs run together, each on one
//! thread. A job longer than its fair share of the batch, and therefore also a job that is alone, gets the whole pool.
//! Jobs with equal inputs are computed once, however many nodes and roles request them, and charged to each.

mod cross;
mod lanes;
mod meter;
mod results;
#[cfg(test)]
mod tests;
mod unit;
mod watch;

use crate::Progress;
use alphorn_scheme::{
    self as scheme, Env, JobId, Outcome, Product, Role, SessionId, Task, Watermark, Work,
};
use alphorn_types::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub use cross::{CrossCheck, CrossCounts};
pub use lanes::PoolError;
pub(crate) use meter::Meters;
pub use meter::{Meter, Stage};
pub use results::Results;
pub use watch::Verification;

use cross::Sampler;
use lanes::{Lanes, Queued, Ran};
use unit::{State, Unit, identity, weight};
use watch::Watch;

/// Maximum number of unfinished jobs over all nodes.
pub(crate) const JOBS_MAX: usize = 1 << 21;

/// Default maximum bytes of results kept for later identical jobs.
pub(crate) const CACHE_BYTES_DEFAULT: u64 = 256 << 20;

/// Configuration of how jobs are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeConfig {
    /// Number of threads in the pool.
    pub threads: usize,
    /// Maximum bytes of results kept for later identical jobs; 0 computes each job separately.
    pub cache_bytes_max: u64,
}

impl ComputeConfig {
    /// A pool of `threads` threads with the default cache.
    pub fn new(threads: usize) -> Self {
        ComputeConfig {
            threads,
            cache_bytes_max: CACHE_BYTES_DEFAULT,
        }
    }
}

/// A job requested by a node.
pub(crate) struct Request {
    pub(crate) node: u32,
    pub(crate) job: JobId,
    pub(crate) session: SessionId,
    pub(crate) hard: Time,
    pub(crate) work: Work,
}

/// A request waiting for its virtual completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

struct Claimed {
    node: u32,
    job: JobId,
    session: SessionId,
    source: Source,
}

/// Source of a ticket's outcome.
enum Source {
    Unit(u64),
    Fixed(Outcome<Product>),
}

/// The compute model of a run, shared by all of its nodes: one scheme, one key table.
pub(crate) struct Compute {
    env: Env,
    /// Environment for cost charging: the portable kernel, whose formula does not depend on the host.
    charged: Env,
    watermark: Arc<dyn Watermark>,
    lanes: Lanes,
    cache_bytes_max: u64,
    tickets: BTreeMap<u64, Claimed>,
    /// Tickets by node and session, for cancellation.
    sessions: BTreeSet<(u32, SessionId, u64)>,
    units: BTreeMap<u64, Unit>,
    known: BTreeMap<[u8; 32], u64>,
    waiting: BTreeSet<u64>,
    /// Results that no ticket waits for, oldest first, with their weights.
    kept: VecDeque<(u64, u64)>,
    kept_bytes: u64,
    issued: u64,
    meters: Meters,
    sampler: Option<Sampler>,
    watch: Option<Watch>,
    duties_ended: bool,
    results: Option<Box<dyn Results>>,
    results_error: Option<std::io::Error>,
    progress: Box<dyn Progress>,
}

impl Compute {
    /// Creates a compute model for a scheme; signatures are checked against `watermark` before they run.
    ///
    /// # Errors
    /// Returns a [`PoolError`] if the threads cannot be started.
    pub(crate) fn new(
        env: Env,
        watermark: Arc<dyn Watermark>,
        config: ComputeConfig,
    ) -> Result<Self, PoolError> {
        Ok(Compute {
            charged: env.portable(),
            env,
            watermark,
            lanes: Lanes::new(config.threads)?,
            cache_bytes_max: config.cache_bytes_max,
            tickets: BTreeMap::new(),
            sessions: BTreeSet::new(),
            units: BTreeMap::new(),
            known: BTreeMap::new(),
            waiting: BTreeSet::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            issued: 0,
            meters: Meters::default(),
            sampler: None,
            watch: None,
            duties_ended: false,
            results: None,
            results_error: None,
            progress: Box::new(()),
        })
    }

    /// Checks a sample of all verdicts again with an independent implementation.
    pub(crate) fn cross_check(&mut self, check: Arc<dyn CrossCheck>) {
        self.sampler = Some(Sampler::new(check));
    }

    /// Reports the progress of the real work to `progress` from now on.
    pub(crate) fn report_to(&mut self, progress: Box<dyn Progress>) {
        self.progress = progress;
    }

    /// Looks for evidence kept by an earlier run before computing it, and keeps what is computed.
    pub(crate) fn keep_results(&mut self, results: Box<dyn Results>) {
        self.results = Some(results);
    }

    /// The first error that occurred while keeping a result; the run continues without it.
    pub(crate) fn results_error(&mut self) -> Option<std::io::Error> {
        self.results_error.take()
    }

    /// Counts of the cross-check; none if there is none.
    pub(crate) fn cross_counts(&self) -> Option<CrossCounts> {
        self.sampler.as_ref().map(Sampler::counts)
    }

    /// Counts and times so far.
    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Counts jobs under this stage of the scenario from now on.
    pub(crate) fn set_stage(&mut self, stage: Stage) {
        self.meters.stage = stage;
    }

    /// From now on, records the inputs of this node's verifications of operation `op` and of senders.
    pub(crate) fn watch(&mut self, node: u32, op: scheme::Op) {
        self.watch = Some(Watch::new(node, op));
    }

    /// Stops recording; recorded inputs are kept.
    pub(crate) fn end_watch(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.end();
        }
    }

    /// From now on no lotteries are drawn and no votes are cast; such jobs end as cancelled. The scenario ends before
    /// any validator serves or needs the votes.
    pub(crate) fn end_duties(&mut self) {
        self.duties_ended = true;
    }

    /// Verifies all recorded inputs as one job and their senders as another, with nothing else running: the best of
    /// several runs on the whole pool and on one thread. None if nothing was recorded.
    pub(crate) fn measure_watched(&mut self) -> Option<Verification> {
        let (job, senders) = self.watch.take()?.into_jobs()?;
        let lanes = &mut self.lanes;
        Some(watch::measure(&job, senders.as_ref(), &self.env, lanes))
    }

    /// Accepts a request and returns when it finishes.
    pub(crate) fn spawn(&mut self, now: Time, request: Request) -> (Ticket, Time) {
        let Request {
            node,
            job,
            session,
            hard,
            work,
        } = request;
        if let Some(watch) = &mut self.watch {
            watch.note(node, &work);
        }
        let op = work.name();
        let admitted = self.admit(&work);
        let is_duty = match &work {
            Work::Select(_) => true,
            Work::Sign(job) => job.items.iter().all(|item| item.role == Role::Vote),
            _ => false,
        };
        let is_void = self.duties_ended && is_duty;
        let cores = match &work {
            Work::Sign(job) => job.items.len(),
            Work::Select(job) => job.validators.len(),
            _ => 1,
        };
        let features = work.features(&self.charged);
        if !is_void {
            self.meters.spawned(op, &features);
        }
        let finish = now.saturating_add_ns(features.prior_ns.div_ceil(cores.max(1) as u64));
        let (source, at) = match admitted {
            Err(refused) => (Source::Fixed(Outcome::Refused(refused)), now),
            Ok(()) if is_void => (Source::Fixed(Outcome::Cancelled), now),
            // It would miss its deadline; a worker would stop it there.
            Ok(()) if finish > hard => (Source::Fixed(Outcome::Cancelled), hard.max(now)),
            Ok(()) => (Source::Unit(self.claim(op, work, &features)), finish),
        };
        let ticket = self.next_id();
        self.tickets.insert(
            ticket,
            Claimed {
                node,
                job,
                session,
                source,
            },
        );
        self.sessions.insert((node, session, ticket));
        (Ticket(ticket), at)
    }

    /// Abandons the pending jobs of a node's session; their tickets end as cancelled.
    pub(crate) fn cancel(&mut self, node: u32, session: SessionId) -> Vec<Ticket> {
        let of_session = (node, session, 0)..=(node, session, u64::MAX);
        let tickets: Vec<u64> = self.sessions.range(of_session).map(|key| key.2).collect();
        let mut cancelled = Vec::new();
        for ticket in tickets {
            let Some(claimed) = self.remove(ticket) else {
                continue;
            };
            if let Source::Unit(unit) = claimed.source {
                self.release(unit);
            }
            // The old ticket is already scheduled, and must find nothing when it is due.
            let renewed = self.next_id();
            self.sessions.insert((node, session, renewed));
            self.tickets.insert(
                renewed,
                Claimed {
                    source: Source::Fixed(Outcome::Cancelled),
                    ..claimed
                },
            );
            cancelled.push(Ticket(renewed));
        }
        cancelled
    }

    /// Outcome of a ticket that is due; none if it was cancelled before.
    pub(crate) fn finish(&mut self, ticket: Ticket) -> Option<(JobId, Outcome<Product>)> {
        let claimed = self.remove(ticket.0)?;
        let outcome = match claimed.source {
            Source::Fixed(outcome) => outcome,
            Source::Unit(unit) => {
                if self.waiting.contains(&unit) {
                    self.run_waiting();
                }
                self.take(unit)
            }
        };
        self.meters.finished(&outcome);
        Some((claimed.job, outcome))
    }

    fn remove(&mut self, ticket: u64) -> Option<Claimed> {
        let claimed = self.tickets.remove(&ticket)?;
        self.sessions
            .remove(&(claimed.node, claimed.session, ticket));
        Some(claimed)
    }

    fn next_id(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    /// Reserves what is to be signed, and rejects jobs beyond the bound.
    fn admit(&self, work: &Work) -> Result<(), String> {
        if self.tickets.len() >= JOBS_MAX {
            return Err(format!("{JOBS_MAX} jobs are unfinished, which is the most"));
        }
        let Work::Sign(job) = work else {
            return Ok(());
        };
        let admitted = job.admit(self.watermark.as_ref());
        admitted.map_err(|(index, refused)| format!("item {index} is not admitted: {refused}"))
    }

    /// Returns the unit of computation for a job, creating one if needed.
    fn claim(&mut self, op: &'static str, job: Work, features: &scheme::Features) -> u64 {
        let identity = if self.cache_bytes_max > 0 {
            identity(&job)
        } else {
            None
        };
        if let Some(&id) = identity
            .as_ref()
            .and_then(|identity| self.known.get(identity))
            && let Some(unit) = self.units.get_mut(&id)
        {
            unit.claims += 1;
            return id;
        }
        let id = self.next_id();
        if let Some(identity) = identity {
            self.known.insert(identity, id);
        }
        let unit = Unit {
            state: State::Waiting(job),
            claims: 1,
            identity,
            stage: self.meters.stage,
            op,
            items: u64::from(features.inputs),
            prior_ns: features.prior_ns,
        };
        self.units.insert(id, unit);
        self.waiting.insert(id);
        id
    }

    /// Runs every waiting unit whose result was not kept by an earlier run.
    fn run_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let mut ids = Vec::with_capacity(waiting.len());
        let mut jobs = Vec::with_capacity(waiting.len());
        let mut totals: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
        // In the order of their creation, so that the same claims are cross-checked in every run.
        for id in waiting {
            let unit = self.units.get_mut(&id).expect("a waiting unit is kept");
            let State::Waiting(job) = std::mem::replace(&mut unit.state, State::Running) else {
                unreachable!("a unit runs once");
            };
            let (done, total) = totals.entry(unit.op).or_default();
            *total += unit.items;
            if let Some(results) = &mut self.results
                && let Some(output) = results::load(results.as_mut(), unit, &job)
            {
                *done += unit.items;
                self.meters.results_loaded += 1;
                unit.state = State::Done(Outcome::Done(output));
                continue;
            }
            ids.push(id);
            jobs.push(Queued {
                job,
                prior_ns: unit.prior_ns,
            });
        }
        let samples = match &mut self.sampler {
            Some(sampler) => sampler.sample(&jobs),
            None => Vec::new(),
        };
        let (units, meters) = (&mut self.units, &mut self.meters);
        let progress = self.progress.as_mut();
        let (results, results_error) = (&mut self.results, &mut self.results_error);
        let wall_ns = self.lanes.run(&self.env, &jobs, &mut |ran: Ran| {
            let unit = units
                .get_mut(&ids[ran.index])
                .expect("a running unit is kept");
            if let (Some(results), Outcome::Done(output)) = (results.as_mut(), &ran.outcome) {
                let stored = results::store(results.as_mut(), unit, &jobs[ran.index].job, output);
                *results_error = results_error.take().or(stored.err());
            }
            unit.state = State::Done(ran.outcome);
            meters.computed(unit.stage, unit.op, unit.items, ran.busy_ns);
            let (done, total) = totals.entry(unit.op).or_default();
            *done += unit.items;
            progress.phase(unit.op, *done, *total);
        });
        self.meters.end_batch(wall_ns);
        drop(jobs);
        if let Some(sampler) = &mut self.sampler {
            let verdicts = |index: usize| self.units.get(&ids[index]).and_then(Unit::verdicts);
            sampler.decide(&self.env, &self.lanes, samples, &verdicts, progress);
        }
    }

    /// Takes the result of a unit that has run, for one claim.
    fn take(&mut self, id: u64) -> Outcome<Product> {
        let unit = self.units.get_mut(&id).expect("a claimed unit is kept");
        let State::Done(outcome) = &unit.state else {
            unreachable!("a unit has run before it is taken");
        };
        // A copy, because other tickets and later identical jobs take the same result.
        let outcome = outcome.clone().map(|output| self.env.take_keys(output));
        self.release(id);
        outcome
    }

    /// Releases a claim. When the last one is released, the result is kept for later identical jobs, within the bound.
    fn release(&mut self, id: u64) {
        let Some(unit) = self.units.get_mut(&id) else {
            return;
        };
        unit.claims -= 1;
        if unit.claims > 0 {
            return;
        }
        match (unit.identity, unit.state.kept_product()) {
            (Some(_), Some(product)) => {
                let weight = weight(product);
                self.kept.push_back((id, weight));
                self.kept_bytes += weight;
            }
            // It is not to be shared, never ran, or may end differently the next time.
            _ => self.forget(id),
        }
        while self.kept_bytes > self.cache_bytes_max {
            let Some((oldest, weight)) = self.kept.pop_front() else {
                break;
            };
            self.kept_bytes -= weight;
            // If it was claimed again since, its last claim puts it back here. A unit may be queued more than once;
            // the first entry then evicts it and the others find nothing.
            if self.units.get(&oldest).is_some_and(|unit| unit.claims == 0) {
                self.forget(oldest);
            }
        }
    }

    fn forget(&mut self, id: u64) {
        self.waiting.remove(&id);
        let identity = self.units.remove(&id).and_then(|unit| unit.identity);
        if let Some(identity) = identity {
            self.known.remove(&identity);
        }
    }
}
