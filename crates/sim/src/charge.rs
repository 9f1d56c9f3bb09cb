//! The cost of computing: jobs in virtual time, queued for simulated cores.
//!
//! The queue is [`alphorn_worker::Plan`], the node's scheduler. A job on a fast lane has a core to
//! itself. Jobs on prove lanes share the remaining cores, so they slow down, and pause when the fast
//! lanes take all cores. Jobs of less than [`INLINE_NS_MAX`] run on the core that handles messages, as
//! in a node, and a job that costs nothing finishes immediately.

mod done;
pub(crate) mod kind;
mod lanes;
mod processor;
#[cfg(test)]
mod tests;

pub(crate) use done::Done;
pub(crate) use processor::Processor;

use crate::net::{At, Net};
use crate::numbered::Numbered;
use crate::role::Labour;
use crate::slab::Slab;
use crate::windows::Windows;
use alphorn_scheme::{JobId, SessionId};
use alphorn_worker::{Config, End, Request};
use lanes::Lanes;

/// Jobs shorter than this run inline, without a lane (broadcast: "a driver may run jobs of less than 20
/// µs inline").
pub(crate) const INLINE_NS_MAX: u64 = 20_000;

/// The processors of all nodes.
#[derive(Debug)]
pub(crate) struct Compute<W> {
    kinds: Vec<Processor>,
    kind: Numbered<u16>,
    /// Lanes of nodes that have ever had a long job; empty if none had.
    lanes: Numbered<Option<Box<Lanes<W>>>>,
    inline: Slab<(JobId, W)>,
}

impl<W: Labour> Compute<W> {
    /// Processors by kind, and the kind of each node's processor.
    pub(crate) fn new(kinds: Vec<Processor>, kind: Numbered<u16>) -> Self {
        Compute {
            lanes: Numbered::new(kind.numbers().start, Vec::new()),
            inline: Slab::default(),
            kinds,
            kind,
        }
    }

    /// Changes the speed of a node's processor; running work ends as already scheduled.
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

    /// Speed factor of a node's processor.
    pub(crate) fn factor_pct(&self, node: u32) -> u64 {
        self.kinds[usize::from(self.kind[node])].factor_pct
    }

    /// Time that work of a given cost takes on a core of a node.
    pub(crate) fn time_ns(&self, node: u32, cost_ns: u64) -> u64 {
        self.kinds[usize::from(self.kind[node])].time_ns(cost_ns)
    }

    /// Accepts a job; jobs that ended in the meantime are appended to `done`.
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
        // By the time that it takes here, so a slow node may need a lane where a fast one does not.
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

    /// Abandons the jobs of a session.
    pub(crate) fn cancel(&mut self, at: At<'_>, session: SessionId, done: &mut Vec<Done<W>>) {
        let processor = self.kinds[usize::from(self.kind[at.node])];
        // Inline jobs are left alone: they take less than 20 µs.
        if let Some(Some(lanes)) = self.lanes.get_mut(at.node) {
            lanes.cancel(at, processor, session, done);
        }
    }

    /// Accounts for the work done so far by jobs still on lanes.
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

    /// Handles one of this module's events.
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
