//! What computing takes: jobs in virtual time, in front of simulated cores.
//!
//! The queue is [`alphorn_worker::Plan`], the scheduler of the node. A job on a fast lane has a core to
//! itself; those on prove lanes share the cores that are left, so they slow down and stand still when
//! fast lanes take all. Jobs of less than [`INLINE_NS_MAX`] are done on the core that handles messages,
//! as a node does them, and a job that costs nothing is done at once.

mod lanes;
#[cfg(test)]
mod tests;

use crate::net::{Hot, Loads, Net, Tally, event};
use crate::numbered::Numbered;
use crate::role::Labour;
use crate::slab::Slab;
use crate::windows::{ARG_MAX, Windows};
use alphorn_scheme::{JobId, SessionId};
use alphorn_types::Time;
use alphorn_worker::{Config, End, Request};
use lanes::Lanes;

/// Jobs of less time are done in line, without a lane (broadcast: "a driver may run jobs of less than
/// 20 µs inline").
pub(crate) const INLINE_NS_MAX: u64 = 20_000;

/// Kinds of events.
pub(crate) mod kind {
    use super::event::OTHERS;
    /// A job in line ends; its number here.
    pub(crate) const INLINE: u8 = OTHERS;
    /// A job on a lane ends; lane and generation.
    pub(crate) const LANE: u8 = OTHERS + 1;
    /// The scheduler has something to do; generation.
    pub(crate) const PLAN: u8 = OTHERS + 2;
    /// The first kind of an event of somebody else.
    pub(crate) const OTHERS_STILL: u8 = OTHERS + 3;
}

/// Processors of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Cores.
    pub cores: u16,
    /// Time that work takes, in percent of its cost.
    pub factor_pct: u64,
}

impl Processor {
    /// Time of a core for work of this cost.
    fn time_ns(&self, cost_ns: u64) -> u64 {
        let wide = u128::from(cost_ns) * u128::from(self.factor_pct);
        u64::try_from(wide.div_ceil(100)).unwrap_or(u64::MAX)
    }
}

/// Where and since when a job ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnLane {
    pub(crate) lane: u16,
    pub(crate) begun_ns: u64,
}

/// A job that ended.
#[derive(Debug)]
pub(crate) struct Done<W> {
    pub(crate) job: JobId,
    /// Absent if it had no lane: it was done in line or at once, or never began.
    pub(crate) ran: Option<OnLane>,
    pub(crate) end: End,
    /// What to run for its product, if it ran.
    pub(crate) work: Option<W>,
    pub(crate) leftover: u32,
}

impl<W> Done<W> {
    fn ran(job: JobId, work: W) -> Self {
        Done {
            job,
            ran: None,
            end: End::Ran,
            work: Some(work),
            leftover: 0,
        }
    }

    fn not_run(job: JobId, end: End) -> Self {
        Done {
            job,
            ran: None,
            end,
            work: None,
            leftover: 0,
        }
    }
}

/// Where and when something happens.
pub(crate) struct At<'a> {
    pub(crate) now: u64,
    pub(crate) node: u32,
    pub(crate) hot: &'a mut Hot,
    pub(crate) tally: &'a mut Tally,
    pub(crate) loads: &'a mut Loads,
    pub(crate) queue: &'a mut Windows,
}

/// The processors of all nodes.
#[derive(Debug)]
pub(crate) struct Compute<W> {
    kinds: Vec<Processor>,
    kind: Numbered<u16>,
    /// Lanes of nodes that ever had a long job; empty if none had.
    lanes: Numbered<Option<Box<Lanes<W>>>>,
    inline: Slab<(JobId, W)>,
}

impl<W: Labour> Compute<W> {
    /// Processors by kind, and the kind of each node's.
    pub(crate) fn new(kinds: Vec<Processor>, kind: Numbered<u16>) -> Self {
        Compute {
            lanes: Numbered::new(kind.numbers().start, Vec::new()),
            inline: Slab::default(),
            kinds,
            kind,
        }
    }

    /// Changes the processor of a node; what runs ends as foreseen.
    pub(crate) fn set_factor(&mut self, node: u32, factor_pct: u64) {
        let kind = self.kinds[usize::from(self.kind[node])];
        let changed = Processor { factor_pct, ..kind };
        let found = self.kinds.iter().position(|kind| *kind == changed);
        let index = found.unwrap_or_else(|| {
            self.kinds.push(changed);
            self.kinds.len() - 1
        });
        self.kind[node] = index as u16;
    }

    /// The factor of a node's processor.
    pub(crate) fn factor_pct(&self, node: u32) -> u64 {
        self.kinds[usize::from(self.kind[node])].factor_pct
    }

    /// What work of a cost takes on a core of a node.
    pub(crate) fn time_ns(&self, node: u32, cost_ns: u64) -> u64 {
        self.kinds[usize::from(self.kind[node])].time_ns(cost_ns)
    }

    /// Takes a job; what ended meanwhile is appended to `done`.
    pub(crate) fn spawn(
        &mut self,
        at: At<'_>,
        job: JobId,
        request: Request<W>,
        done: &mut Vec<Done<W>>,
    ) {
        let processor = self.kinds[usize::from(self.kind[at.node])];
        let time_ns = processor.time_ns(request.work.features().prior_ns);
        if time_ns == 0 {
            return done.push(Done::ran(job, request.work));
        }
        if time_ns < INLINE_NS_MAX {
            let end_ns = at.hot.cpu_free_ns.max(at.now).saturating_add(time_ns);
            at.hot.cpu_free_ns = end_ns;
            at.tally.cpu_ns += time_ns;
            at.loads.at(at.now, at.node).cpu_ns += time_ns;
            at.loads.last_until(end_ns);
            return match self.inline.insert((job, request.work), 1) {
                Some(index) => at.queue.push(end_ns, at.node, kind::INLINE, index),
                None => done.push(Done::not_run(job, End::Crashed)),
            };
        }
        if self.lanes.is_empty() {
            let nodes = self.kind.numbers();
            let none = nodes.clone().map(|_| None);
            self.lanes = Numbered::new(nodes.start, none.collect());
        }
        let lanes = self.lanes[at.node].get_or_insert_with(|| {
            let config = Config::for_cores(processor.cores);
            Box::new(Lanes::new(config, processor.cores))
        });
        lanes.submit(at, processor, job, request, done);
    }

    /// Gives up the jobs of a session.
    pub(crate) fn cancel(&mut self, at: At<'_>, session: SessionId, done: &mut Vec<Done<W>>) {
        let processor = self.kinds[usize::from(self.kind[at.node])];
        if let Some(Some(lanes)) = self.lanes.get_mut(at.node) {
            lanes.cancel(at, processor, session, done);
        }
    }

    /// Counts what jobs on lanes have taken by now.
    pub(crate) fn count_running<M: Clone>(
        &mut self,
        now: u64,
        net: &mut Net<M>,
        queue: &mut Windows,
    ) {
        for node in self.lanes.numbers() {
            if let Some(lanes) = &mut self.lanes[node] {
                lanes.advance(&mut net.at(queue, now, node));
            }
        }
    }

    /// One of this module's events.
    pub(crate) fn happen(&mut self, at: At<'_>, what: u8, arg: u32, done: &mut Vec<Done<W>>) {
        if what == kind::INLINE {
            if let Some((job, work)) = self.inline.release(arg) {
                done.push(Done::ran(job, work));
            }
            return;
        }
        let processor = self.kinds[usize::from(self.kind[at.node])];
        if let Some(Some(lanes)) = self.lanes.get_mut(at.node) {
            lanes.happen(at, processor, what, arg, done);
        }
    }
}

/// The argument of an event of a lane: below the generation, which wraps.
fn lane_arg(lane: usize, generation: u32) -> u32 {
    (generation << 6 | lane as u32) & ARG_MAX
}

fn time(ns: u64) -> Time {
    Time::from_nanos(ns)
}
