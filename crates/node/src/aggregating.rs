//! Whether a node aggregates and collects when its validators are selected. This can be changed while the node runs.
//! Once switched off, new jobs for it are not run, and their results are not duties in the slots in which the role was
//! off. Votes and blocks continue, as does the verification that other nodes rely on for forwarding.

use crate::engine::{Judged, Tally};
use alphorn_scheme::Work;
use alphorn_types::Slot;
use std::collections::VecDeque;

/// Changes remembered. Earlier ones belong to slots that have been judged.
const CHANGES_MAX: usize = 64;

/// The role and its last changes.
#[derive(Debug)]
pub(crate) struct Aggregating {
    is_on: bool,
    /// The slots in which it was set, and the values.
    changes: VecDeque<(Slot, bool)>,
    /// Its value before the first of them.
    before: bool,
}

impl Aggregating {
    pub(crate) fn new(is_on: bool) -> Self {
        Aggregating {
            is_on,
            changes: VecDeque::new(),
            before: is_on,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Sets the role in a slot.
    pub(crate) fn set(&mut self, slot: Slot, is_on: bool) {
        if is_on == self.is_on {
            return;
        }
        self.is_on = is_on;
        self.changes.push_back((slot, is_on));
        if self.changes.len() > CHANGES_MAX
            && let Some((_, is_on)) = self.changes.pop_front()
        {
            self.before = is_on;
        }
    }

    /// Why a job is not run, if it is not.
    pub(crate) fn refuses(&self, work: &Work) -> Option<String> {
        let makes = matches!(work, Work::Aggregate(_) | Work::Combine(_));
        (makes && !self.is_on).then(|| "this node does not aggregate".to_owned())
    }

    /// Whether it was on for the whole of a slot.
    fn was_on(&self, slot: Slot) -> bool {
        let earlier = self.changes.iter().rev().find(|(at, _)| *at < slot);
        let at_begin = earlier.map_or(self.before, |(_, is_on)| *is_on);
        let within = self.changes.iter().filter(|(at, _)| *at == slot);
        at_begin && within.into_iter().all(|(_, is_on)| *is_on)
    }

    /// The duties of a slot without those that did not apply.
    pub(crate) fn judge(&self, mut judged: Judged) -> Judged {
        if !self.was_on(judged.slot) {
            judged.aggregate = Tally::default();
            judged.collect = Tally::default();
        }
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(slot: u64) -> Judged {
        let one = Tally {
            done: 0,
            late: 0,
            missed: 1,
        };
        Judged {
            slot: Slot(slot),
            prepared: true,
            propose: one,
            vote: one,
            aggregate: one,
            collect: one,
            credited: 0,
            validators: 4,
        }
    }

    #[test]
    fn what_was_no_duty_is_not_missed() {
        let mut role = Aggregating::new(true);
        role.set(Slot(5), false);
        role.set(Slot(6), false);
        role.set(Slot(8), true);
        let missed = |role: &Aggregating, slot| role.judge(judged(slot)).all().missed;
        for (slot, expected) in [(4, 4), (5, 2), (6, 2), (7, 2), (8, 2), (9, 4)] {
            assert_eq!(missed(&role, slot), expected, "slot {slot}");
        }
        for slot in 10..1_000 {
            role.set(Slot(slot), slot % 2 == 1);
        }
        assert!(role.changes.len() <= CHANGES_MAX && role.is_on());
        assert_eq!(missed(&role, 998), 2);
    }
}
