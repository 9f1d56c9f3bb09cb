//! What the loop tells of itself, to the trace and the notes.

use super::{Node, head_slot};
use crate::clock::Source;
use crate::lanes::Ended;
use crate::stats::Stats;
use alphorn_proto::slot::Phase;
use alphorn_scheme::Outcome;
use alphorn_types::Time;

impl<C: Source> Node<C> {
    /// Notes when two thirds of all votes of the slot stood in verified collections.
    pub(super) fn observe(&mut self, now: Time) {
        let Some(slot) = self.slots.slot_at(now) else {
            return;
        };
        let horn = self.engine.horn();
        let top = Phase::Level(self.slots.timing().levels());
        if self.two_thirds > slot || now < self.slots.phase_start(slot, top) {
            return;
        }
        let validators = u64::from(horn.config().layout.validators());
        let covered = horn.view(slot).map_or(0, |view| view.covered());
        if 3 * covered >= 2 * validators {
            let ms = now.since_ns(self.slots.slot_start(slot)) as f64 / 1e6;
            self.ports.stats.reached_two_thirds(slot.0, ms);
            let head = head_slot(self.engine.horn());
            self.ports
                .trace
                .finality(self.engine.horn().chain(), head, Some(ms));
            self.two_thirds = slot.next();
        }
    }

    /// Tells the trace where cells, chain and traffic stand, and notes it.
    pub(super) fn tell(&mut self, now: Time) {
        let horn = self.engine.horn();
        let trace = &mut self.ports.trace;
        if let Some(slot) = self.slots.slot_at(now) {
            let view = horn.view(slot);
            trace.slot(slot, horn.chain(), view.as_ref());
            trace.finality(horn.chain(), head_slot(horn), None);
            self.ports.notes.look(horn, slot, view);
        }
        let net = &self.ports.net;
        trace.traffic(|| net.status());
    }
}

pub(super) fn note_job(stats: &mut Stats, ended: &Ended) {
    let jobs = stats.jobs.entry(ended.op).or_default();
    jobs.queued.record_ns(ended.queued_ns);
    jobs.ran.record_ns(ended.ran_ns);
    jobs.late += u64::from(ended.late);
    let failed = !matches!(
        ended.outcome,
        Outcome::Done(_) | Outcome::Cancelled | Outcome::Superseded
    );
    jobs.failed += u64::from(failed);
}
