//! The queue: which job starts next on which lane.
//!
//! Sans-io: a driver submits jobs, asks [`Plan::next`] for work whenever a lane is free, reports
//! the end of a run with [`Plan::ended`], and drains [`Plan::poll_output`]. Time is an argument and
//! never goes backwards. Every accepted submission yields exactly one [`Finished`].
//!
//! Lanes of a kind serve the clients with suitable jobs in round-robin order. On its turn a
//! client's first job is chosen in this order: by [`Class`], within a class by earliest `soft`,
//! then by value density, then by age. A running job is never preempted. After its `soft`, a job of
//! the current phase is worth as much as a late group ([`Class::Backfill`]). At `hard` it is
//! cancelled, or asked to stop if it runs.

mod choose;
mod queue;
#[cfg(test)]
mod tests;
mod types;

use crate::cost::{CostKey, CostModel};
use alphorn_scheme::{Class, Features, Group, JobId, Schedulable, SessionId};
use alphorn_types::{Slot, Time};
use queue::Queue;
use std::collections::{BTreeMap, VecDeque};

pub use types::{Config, End, Finished, LaneKind, Output, Ran, Refused, Request, Session, Start};

/// A waiting job.
#[derive(Debug)]
struct Waiting<T> {
    request: Request<T>,
    features: Features,
    since: Time,
}

/// A running job.
#[derive(Debug)]
struct Running {
    job: JobId,
    session: SessionId,
    group: Group,
    soft: Time,
    hard: Time,
    started: Time,
    queued_ns: u64,
    leftover: u32,
    key: CostKey,
    prior_ns: u64,
    memory_bytes: u64,
    t50_ns: u64,
    stopping: bool,
}

/// The scheduler; see the [module](self).
#[derive(Debug)]
pub struct Plan<T> {
    config: Config,
    costs: CostModel,
    sessions: BTreeMap<SessionId, Session>,
    queue: Queue<T>,
    /// The job on each lane, fast lanes first.
    lanes: Vec<Option<Running>>,
    /// The client at which the search for the next turn starts, on fast and on prove lanes.
    turns: [u32; 2],
    out: VecDeque<Output>,
    next_job: u64,
}

impl<T: Schedulable> Plan<T> {
    /// Creates an empty plan with previously learned costs.
    ///
    /// # Panics
    ///
    /// If there are no lanes.
    pub fn new(config: Config, costs: CostModel) -> Self {
        assert!(config.lanes() > 0, "a plan needs a lane");
        Self {
            lanes: (0..config.lanes()).map(|_| None).collect(),
            config,
            costs,
            sessions: BTreeMap::new(),
            queue: Queue::default(),
            turns: [0; 2],
            out: VecDeque::new(),
            next_job: 0,
        }
    }

    /// Returns the learned costs.
    pub(crate) fn costs(&self) -> &CostModel {
        &self.costs
    }

    /// Returns the kind of a lane.
    ///
    /// # Panics
    ///
    /// If there is no such lane.
    pub fn lane_kind(&self, lane: usize) -> LaneKind {
        assert!(
            lane < self.lanes.len(),
            "lane {lane} of {}",
            self.lanes.len()
        );
        match lane < usize::from(self.config.fast_lanes) {
            true => LaneKind::Fast,
            false => LaneKind::Prove,
        }
    }

    /// Number of waiting jobs.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the job running on a lane.
    ///
    /// # Panics
    ///
    /// If there is no such lane.
    pub fn running(&self, lane: usize) -> Option<JobId> {
        self.lanes[lane].as_ref().map(|running| running.job)
    }

    /// Opens a session, or updates its bounds.
    ///
    /// # Errors
    ///
    /// [`Refused::SessionsFull`], or [`Refused::Expired`] if its `hard` has passed.
    pub fn open(&mut self, now: Time, session: Session) -> Result<(), Refused> {
        self.expire(now);
        if session.hard <= now {
            return Err(Refused::Expired);
        }
        let max = self.config.sessions_open_max;
        if self.sessions.len() >= max as usize && !self.sessions.contains_key(&session.id) {
            return Err(Refused::SessionsFull { max });
        }
        self.sessions.insert(session.id, session);
        Ok(())
    }

    /// Accepts a job. A waiting job with the same role and group is replaced. If the queue is full,
    /// the worst job of the oldest slot is dropped for a better one.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing has changed in that case, except that jobs past their `hard` are gone.
    pub fn submit(&mut self, now: Time, mut request: Request<T>) -> Result<JobId, Refused> {
        self.expire(now);
        if let Some(session) = self.sessions.get(&request.session) {
            request.soft = request.soft.min(session.soft);
            request.hard = request.hard.min(session.hard);
        }
        request.soft = request.soft.min(request.hard);
        if request.hard <= now {
            return Err(Refused::Expired);
        }
        self.cut_to_memory(&request.work)?;
        let superseded = self.queue.same_group(&request);
        self.make_room(now, &request, superseded)?;
        // Only after there is room: a request that is refused must not cost the job that it would
        // replace.
        if let Some(job) = superseded {
            self.end_waiting(now, job, End::Superseded);
        }
        let job = JobId(self.next_job);
        self.next_job += 1;
        let features = request.work.features();
        let waiting = Waiting {
            request,
            features,
            since: now,
        };
        self.queue.insert(job, waiting);
        // It may be late already.
        self.queue.expire_soft(now);
        Ok(job)
    }

    /// Ends the jobs of a session: waiting jobs are cancelled, running ones are asked to stop.
    pub fn cancel(&mut self, now: Time, session: SessionId) {
        self.expire(now);
        self.sessions.remove(&session);
        for job in self.queue.of_session(session) {
            self.end_waiting(now, job, End::Cancelled);
        }
        for lane in 0..self.lanes.len() {
            let running = self.lanes[lane].as_ref();
            if running.is_some_and(|running| running.session == session) {
                self.stop(lane);
            }
        }
    }

    /// Reports the end of the run on a lane, which frees the lane.
    ///
    /// # Panics
    ///
    /// If nothing runs on the lane.
    pub fn ended(&mut self, now: Time, lane: usize, ran: Ran) {
        let running = self.lanes[lane].take().expect("the lane runs a job");
        let (end, ran_ns) = match ran {
            Ran::Through { ran_ns } | Ran::Astray { ran_ns } => (End::Ran, ran_ns),
            Ran::Stopped => (End::Cancelled, now.since_ns(running.started)),
            Ran::Crashed => (End::Crashed, now.since_ns(running.started)),
        };
        if matches!(ran, Ran::Through { .. }) {
            let slot = running.session.slot.0;
            self.costs
                .learn(running.key, running.prior_ns, ran_ns, slot);
        }
        self.out.push_back(Output::Finished(Finished {
            job: running.job,
            session: running.session,
            group: running.group,
            end,
            late: now > running.soft,
            leftover: running.leftover,
            queued_ns: running.queued_ns,
            ran_ns,
        }));
        self.expire(now);
    }

    /// Returns the next effect, or none when all are drained.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.out.pop_front();
        if output.is_none() {
            // A simulation may hold a million plans, so an idle one keeps no allocation.
            self.out = VecDeque::new();
        }
        output
    }

    /// Time at which [`Plan::expire`] or [`Plan::next`] has something to do without other events: a
    /// job loses its value or becomes late, or a session opens for which lanes were kept free.
    pub fn next_deadline(&self, now: Time) -> Option<Time> {
        let running = self.lanes.iter().flatten();
        let stops = running
            // A `hard` that has passed and been acted upon would otherwise be due for ever.
            .filter(|running| !running.stopping)
            .map(|running| running.hard);
        let opens = self.sessions.values().map(|session| session.open);
        let opens = opens.filter(|open| *open > now && self.queue.len() > 0);
        let queue = self
            .queue
            .next_expiry()
            .into_iter()
            .chain(self.queue.next_late());
        stops.chain(opens).chain(queue).min()
    }

    /// Cancels jobs that have lost their value. Every other method does this too.
    pub fn expire(&mut self, now: Time) {
        self.sessions.retain(|_, session| session.hard > now);
        while let Some(job) = self.queue.expired(now) {
            self.end_waiting(now, job, End::Cancelled);
        }
        self.queue.expire_soft(now);
        for lane in 0..self.lanes.len() {
            let running = self.lanes[lane].as_ref();
            if running.is_some_and(|running| running.hard <= now) {
                self.stop(lane);
            }
        }
    }

    fn stop(&mut self, lane: usize) {
        if let Some(running) = &mut self.lanes[lane]
            && !running.stopping
        {
            running.stopping = true;
            let job = running.job;
            self.out.push_back(Output::Stop { lane, job });
        }
    }

    /// Checks whether the work, or a prefix of it, fits the total memory.
    fn cut_to_memory(&self, work: &T) -> Result<(), Refused> {
        let max = self.config.memory_budget_bytes;
        let bytes = work.features().memory_bytes;
        let one = || {
            work.prefix(1)
                .is_some_and(|one| one.features().memory_bytes <= max)
        };
        match bytes <= max || one() {
            true => Ok(()),
            false => Err(Refused::Memory { bytes, max }),
        }
    }

    /// Drops worse jobs until the request fits; `superseded` will be removed anyway.
    fn make_room(
        &mut self,
        now: Time,
        request: &Request<T>,
        superseded: Option<JobId>,
    ) -> Result<(), Refused> {
        let (jobs_max, bytes_max) = (self.config.jobs_queued_max, self.config.queue_bytes_max);
        let (gone, gone_bytes) = match superseded {
            Some(job) => (1, self.queue.bytes_of(job)),
            None => (0, 0),
        };
        let full = Refused::QueueFull { max: jobs_max };
        let bytes_full = Refused::BytesFull {
            bytes: request.bytes,
            max: bytes_max,
        };
        let mut jobs = self.queue.len() - gone;
        let mut bytes = self.queue.bytes() - gone_bytes;
        // Collected first, so that a request that is refused in the end has displaced nothing.
        let mut victims = Vec::new();
        let mut worst = self.queue.worst_first();
        loop {
            let refused = match () {
                () if jobs >= jobs_max as usize => full,
                () if request.bytes > bytes_max.saturating_sub(bytes) => bytes_full,
                () => break,
            };
            let victim = worst.find(|(_, job)| Some(*job) != superseded);
            // Worse means a lower class, or an older slot of the same class.
            let (rank, job) = victim.ok_or(refused)?;
            if rank >= Queue::<T>::rank(request) {
                return Err(refused);
            }
            jobs -= 1;
            bytes -= self.queue.bytes_of(job);
            victims.push((job, refused));
        }
        drop(worst);
        for (job, refused) in victims {
            self.end_waiting(now, job, End::Refused(refused));
        }
        Ok(())
    }

    fn end_waiting(&mut self, now: Time, job: JobId, end: End) {
        let waiting = self.queue.remove(job);
        self.out.push_back(Output::Finished(Finished {
            job,
            session: waiting.request.session,
            group: waiting.request.group,
            end,
            late: now > waiting.request.soft,
            leftover: waiting.features.inputs,
            queued_ns: now.since_ns(waiting.since),
            ran_ns: 0,
        }));
    }
}

/// Rank of a job when the queue is full; greater is better.
type Rank = (std::cmp::Reverse<Class>, Slot);
