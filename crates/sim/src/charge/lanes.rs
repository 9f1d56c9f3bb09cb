//! The lanes of one node: which job runs where, and its progress.

use super::done::{Done, OnLane};
use super::kind;
use super::processor::Processor;
use crate::net::At;
use crate::role::Labour;
use crate::windows::{ARG_MAX, Windows};
use alphorn_scheme::{JobId, SessionId};
use alphorn_types::Time;
use alphorn_worker::plan::{Output, Ran};
use alphorn_worker::{Config, CostModel, End, LaneKind, Plan, Request, Session};
use std::collections::BTreeMap;

/// A job on a lane.
#[derive(Debug)]
struct Run<W> {
    work: W,
    /// Remaining core time in nanoseconds, as of `since_ns`.
    left_ns: u64,
    since_ns: u64,
    begun_ns: u64,
    /// When it ends at the current speed, as scheduled; none while no core is free.
    due_ns: Option<u64>,
}

/// This many cores, shared equally by this many lanes.
#[derive(Clone, Copy, Debug)]
struct Share {
    cores: u64,
    lanes: u64,
}

/// Location of a run; there are fewer than 64 lanes.
fn on_lane(lane: usize, begun_ns: u64) -> OnLane {
    OnLane {
        lane: lane as u16,
        begun_ns,
    }
}

/// The scheduler and the lanes of a node.
#[derive(Debug)]
pub(super) struct Lanes<W> {
    plan: Plan<W>,
    config: Config,
    cores: u64,
    runs: Vec<Option<Run<W>>>,
    /// Distinguishes the valid event from those scheduled before a change of speed.
    generations: Vec<u32>,
    /// The role's job numbers, by the plan's.
    jobs: BTreeMap<JobId, JobId>,
    /// Sessions that were opened and have not ended. Not a map, which would allocate room for eleven entries.
    opened: Vec<Session>,
    plan_generation: u32,
    armed_ns: u64,
}

impl<W: Labour> Lanes<W> {
    pub(super) fn new(config: Config, cores: u16) -> Self {
        Lanes {
            plan: Plan::new(config.clone(), CostModel::default()),
            cores: u64::from(cores.max(1)),
            runs: (0..config.lanes()).map(|_| None).collect(),
            generations: vec![0; config.lanes()],
            jobs: BTreeMap::new(),
            opened: Vec::new(),
            plan_generation: 0,
            armed_ns: u64::MAX,
            config,
        }
    }

    pub(super) fn submit(
        &mut self,
        at: At<'_>,
        processor: Processor,
        job: JobId,
        request: Request<W>,
        done: &mut Vec<Done<W>>,
    ) {
        self.open(time(at.now), &request);
        match self.plan.submit(time(at.now), request) {
            Ok(id) => {
                self.jobs.insert(id, job);
            }
            Err(refused) => done.push(Done::not_run(job, End::Refused(refused))),
        }
        self.settle(at, processor, done);
    }

    /// Opens or extends the session of a job, as a node does. A session has jobs of several phases, and none
    /// may be bounded by the deadline of another.
    fn open(&mut self, now: Time, request: &Request<W>) {
        let &Request { soft, hard, .. } = request;
        // The plan forgets sessions at the same time.
        self.opened.retain(|session| session.hard > now);
        let mut known = self.opened.iter();
        let known = known.position(|session| session.id == request.session);
        if known.is_none() && soft == Time::MAX {
            // It would bound nothing.
            return;
        }
        let before = known.map(|known| self.opened.swap_remove(known));
        let (soft, hard) = before.map_or((soft, hard), |before| {
            (before.soft.max(soft), before.hard.max(hard))
        });
        let session = Session {
            id: request.session,
            // The next phase starts when this one should be over; lanes are kept free for it.
            open: soft,
            soft,
            hard,
        };
        self.opened.push(session);
        if before != Some(session) {
            // If there is no room for the session, its jobs still have their own bounds.
            let _ = self.plan.open(now, session);
        }
    }

    pub(super) fn cancel(
        &mut self,
        at: At<'_>,
        processor: Processor,
        session: SessionId,
        done: &mut Vec<Done<W>>,
    ) {
        self.plan.cancel(time(at.now), session);
        self.settle(at, processor, done);
    }

    pub(super) fn happen(
        &mut self,
        mut at: At<'_>,
        processor: Processor,
        what: u8,
        arg: u32,
        done: &mut Vec<Done<W>>,
    ) {
        if what == kind::PLAN {
            if arg != self.plan_generation & ARG_MAX {
                return;
            }
            self.armed_ns = u64::MAX;
            self.plan.expire(time(at.now));
        } else {
            let lane = (arg & 63) as usize;
            if arg != lane_arg(lane, self.generations[lane]) {
                return;
            }
            // While the run is still on its lane, so that its time up to now is counted.
            self.advance(&mut at);
            let Some(run) = self.runs[lane].take() else {
                return;
            };
            let ran_ns = at.now - run.begun_ns;
            let through = Ran::Through { ran_ns };
            let on = on_lane(lane, run.begun_ns);
            self.end(at.now, on, through, Some(run.work), done);
        }
        self.settle(at, processor, done);
    }

    /// Reports the end of a lane's run, with the work if it ran to completion.
    fn end(
        &mut self,
        now: u64,
        on: OnLane,
        ran: Ran,
        mut work: Option<W>,
        done: &mut Vec<Done<W>>,
    ) {
        let lane = usize::from(on.lane);
        // Asked before `ended`, which frees the lane.
        let running = self.plan.running(lane);
        self.plan.ended(time(now), lane, ran);
        while let Some(output) = self.plan.poll_output() {
            match output {
                Output::Finished(finished) => {
                    let Some(job) = self.jobs.remove(&finished.job) else {
                        continue;
                    };
                    let is_own = running == Some(finished.job);
                    let has_work = is_own && finished.end == End::Ran;
                    done.push(Done {
                        job,
                        ran: is_own.then_some(on),
                        end: finished.end,
                        work: if has_work { work.take() } else { None },
                        leftover: finished.leftover,
                    });
                }
                Output::Stop { lane, .. } => self.stop(now, lane, done),
            }
        }
    }

    /// A stopped job leaves its lane immediately.
    fn stop(&mut self, now: u64, lane: usize, done: &mut Vec<Done<W>>) {
        if let Some(run) = self.runs[lane].take() {
            self.end(now, on_lane(lane, run.begun_ns), Ran::Stopped, None, done);
        }
    }

    /// Starts whatever can start, and reschedules the ends.
    fn settle(&mut self, mut at: At<'_>, processor: Processor, done: &mut Vec<Done<W>>) {
        // At the speeds until now: they change as soon as a job starts or stops.
        self.advance(&mut at);
        let At {
            now, node, queue, ..
        } = at;
        while let Some(output) = self.plan.poll_output() {
            match output {
                Output::Finished(finished) => {
                    if let Some(job) = self.jobs.remove(&finished.job) {
                        done.push(Done {
                            leftover: finished.leftover,
                            ..Done::not_run(job, finished.end)
                        });
                    }
                }
                Output::Stop { lane, .. } => self.stop(now, lane, done),
            }
        }
        for lane in 0..self.runs.len() {
            if self.runs[lane].is_some() {
                continue;
            }
            if let Some(start) = self.plan.next(time(now), lane) {
                let time_ns = processor.time_ns(start.work.features().prior_ns);
                // The end of a run that was stopped may still be queued, and this one gets no event before a core
                // is free.
                self.generations[lane] = self.generations[lane].wrapping_add(1);
                self.runs[lane] = Some(Run {
                    work: start.work,
                    left_ns: time_ns,
                    since_ns: now,
                    begun_ns: now,
                    due_ns: None,
                });
            }
        }
        self.schedule(now, node, queue);
        self.arm(now, node, queue);
        if self.jobs.is_empty() {
            // An empty map still holds room for eleven entries.
            self.jobs = BTreeMap::new();
        }
    }

    /// Schedules new end events, and reschedules those that moved because the speed changed.
    fn schedule(&mut self, now: u64, node: u32, queue: &mut Windows) {
        let prove = self.prove_speed();
        for lane in 0..self.runs.len() {
            let Share { cores, lanes } = self.speed(lane, prove);
            let Some(run) = &mut self.runs[lane] else {
                continue;
            };
            let due_ns = (cores > 0).then(|| {
                let wide = (u128::from(run.left_ns) * u128::from(lanes)).div_ceil(cores.into());
                now.saturating_add(u64::try_from(wide).unwrap_or(u64::MAX))
            });
            if run.due_ns == due_ns {
                continue;
            }
            run.due_ns = due_ns;
            self.generations[lane] = self.generations[lane].wrapping_add(1);
            if let Some(due_ns) = due_ns {
                let arg = lane_arg(lane, self.generations[lane]);
                queue.push(due_ns, node, kind::LANE, arg);
            }
        }
    }

    fn arm(&mut self, now: u64, node: u32, queue: &mut Windows) {
        let due = self.plan.next_deadline(time(now));
        // Never at this instant again, or a deadline that stays due would repeat for ever.
        let due_ns = due.map_or(u64::MAX, |due| due.as_nanos().max(now + 1));
        if due_ns < self.armed_ns {
            self.armed_ns = due_ns;
            self.plan_generation = self.plan_generation.wrapping_add(1);
            queue.push(due_ns, node, kind::PLAN, self.plan_generation & ARG_MAX);
        }
    }

    /// Share of the cores that a lane has, if prove lanes have `prove`.
    fn speed(&self, lane: usize, prove: Share) -> Share {
        match self.plan.lane_kind(lane) {
            LaneKind::Fast => Share { cores: 1, lanes: 1 },
            LaneKind::Prove => prove,
        }
    }

    /// Share of the cores that each prove lane has now.
    fn prove_speed(&self) -> Share {
        let (fast, prove) = self.runs.split_at(usize::from(self.config.fast_lanes));
        let busy = |runs: &[Option<Run<W>>]| runs.iter().flatten().count() as u64;
        let lanes = busy(prove).max(1);
        let threads = u64::from(self.config.prove_threads.max(1)) * lanes;
        let cores = threads.min(self.cores.saturating_sub(busy(fast)));
        Share { cores, lanes }
    }

    /// Accounts for the work done since the last change of speed, in the node's tally and in the load of its
    /// class.
    pub(super) fn advance(&mut self, at: &mut At<'_>) {
        let now = at.now;
        let prove = self.prove_speed();
        let (mut from_ns, mut worked_ns) = (now, 0);
        for lane in 0..self.runs.len() {
            let Share { cores, lanes } = self.speed(lane, prove);
            if let Some(run) = &mut self.runs[lane] {
                let wide = u128::from(now - run.since_ns) * u128::from(cores) / u128::from(lanes);
                let did_ns = u64::try_from(wide).unwrap_or(u64::MAX).min(run.left_ns);
                run.left_ns -= did_ns;
                // All running jobs were last accounted for at the same time.
                from_ns = from_ns.min(run.since_ns);
                worked_ns += did_ns;
                run.since_ns = now;
            }
        }
        if worked_ns > 0 {
            at.loads.work(at.node, from_ns..now, worked_ns, at.tally);
        }
    }
}

/// Argument of a lane event: the lane in the bits below the generation, which wraps.
fn lane_arg(lane: usize, generation: u32) -> u32 {
    // The generation has 22 of the 28 bits: a stale event is mistaken only after four million reschedulings.
    (generation << 6 | lane as u32) & ARG_MAX
}

fn time(ns: u64) -> Time {
    Time::from_nanos(ns)
}
