//! Reports when phases begin here, and how late, in whichever turn they are run.

use super::Node;
use crate::clock::Source;
use crate::telemetry::Event;
use alphorn_proto::slot::{Boundary, Phase, SlotClock};
use alphorn_types::{Slot, Time};

/// The phases that have begun, by protocol time.
#[derive(Debug)]
pub(super) struct Phases {
    /// The first phase not reported yet.
    next: Boundary,
}

impl Phases {
    /// The phases after a start, which falls into one.
    pub(super) fn after(slots: &SlotClock, start: Time) -> Self {
        let genesis = Boundary {
            slot: Slot(0),
            phase: Phase::Propose,
        };
        let next = slots
            .phase_at(start)
            .map_or(genesis, |now| slots.after(now));
        Phases { next }
    }

    /// Returns the next phase that has begun, once, and by how many nanoseconds it is late. After a long sleep only
    /// those of the last two slots are returned, since the protocol runs no others.
    fn begun(&mut self, slots: &SlotClock, now: Time) -> Option<(Boundary, u64)> {
        let oldest = slots.slot_at(now)?.saturating_sub(1);
        if self.next.slot < oldest {
            self.next = Boundary {
                slot: oldest,
                phase: Phase::Propose,
            };
        }
        let (boundary, start) = (self.next, slots.start(self.next));
        (start <= now && start < Time::MAX).then(|| {
            self.next = slots.after(boundary);
            (boundary, now.since_ns(start))
        })
    }
}

impl<C: Source> Node<C> {
    /// Reports the phases that the next input runs.
    pub(super) fn tell_phases(&mut self, now: Time) {
        while let Some((boundary, lag_ns)) = self.phases.begun(&self.slots, now) {
            self.emit(Event::Phase { boundary, lag_ns });
            if boundary.phase == Phase::Propose {
                // Before the first votes of the slot, which are counted from here on.
                self.look();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_proto::slot::Timing;

    /// What is reported at a given time: slots, phases, milliseconds late.
    fn told(phases: &mut Phases, slots: &SlotClock, ms: u64) -> Vec<(u64, Phase, u64)> {
        let begun = || phases.begun(slots, Time::from_millis(ms));
        let told = std::iter::from_fn(begun);
        told.map(|(boundary, lag_ns)| (boundary.slot.0, boundary.phase, lag_ns / 1_000_000))
            .collect()
    }

    #[test]
    fn each_phase_is_told_of_once_however_late_the_input_that_runs_it() {
        // Slots of 4 s from second 10 on, phases of 800 ms.
        let slots = SlotClock::new(Time::from_millis(10_000), Timing::LEAN);
        let mut phases = Phases::after(&slots, Time::from_millis(9_000));
        assert_eq!(told(&mut phases, &slots, 9_999), []);
        assert_eq!(told(&mut phases, &slots, 10_003), [(0, Phase::Propose, 3)]);
        assert_eq!(told(&mut phases, &slots, 10_004), []);
        // Messages occupy the loop for longer than a phase: both are reported.
        let busy = [(0, Phase::Vote, 900), (0, Phase::Level(1), 100)];
        assert_eq!(told(&mut phases, &slots, 11_700), busy);
        // A start in the middle of a phase does not count as a late beginning of it.
        let mut phases = Phases::after(&slots, Time::from_millis(11_000));
        assert_eq!(told(&mut phases, &slots, 11_500), []);
        assert_eq!(told(&mut phases, &slots, 11_601), [(0, Phase::Level(1), 1)]);
        // After an hour only those of two slots.
        let late = told(&mut phases, &slots, 3_610_000);
        assert_eq!(late.first(), Some(&(899, Phase::Propose, 4_000)));
        assert_eq!(late.last(), Some(&(900, Phase::Propose, 0)));
        assert_eq!(late.len(), 6);
    }
}
