//! Crash records: inputs that are not run again, groups that are refused.

use alphorn_scheme::Group;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Number of crashes of a group within [`WINDOW_SLOTS`] after which it is refused.
const CRASHES_MAX: usize = 3;
/// The window.
const WINDOW_SLOTS: u64 = 10;
/// Number of slots for which it is refused.
const REFUSED_SLOTS: u64 = 32;
/// Maximum number of groups remembered; the one with the oldest crash is dropped.
const GROUPS_MAX: usize = 1024;

/// SHA-256 names of inputs and tasks that crashed a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quarantine {
    names: BTreeSet<[u8; 32]>,
    order: VecDeque<[u8; 32]>,
    max: usize,
    /// Whether whole tasks are included, whose names are expensive to compute.
    pub(crate) tasks: bool,
}

impl Quarantine {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn holds(&self, name: &[u8; 32]) -> bool {
        self.names.contains(name)
    }

    pub(crate) fn insert(&mut self, name: [u8; 32]) {
        if self.max == 0 || !self.names.insert(name) {
            return;
        }
        self.order.push_back(name);
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }
}

/// The slots of the most recent crashes of groups, newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups(BTreeMap<Group, VecDeque<u64>>);

impl Groups {
    /// Records a crash of a job of the group in a slot.
    pub(crate) fn crashed(&mut self, group: Group, slot: u64) {
        let slots = self.0.entry(group).or_default();
        slots.push_front(slot);
        slots.truncate(CRASHES_MAX);
        if self.0.len() > GROUPS_MAX {
            let oldest = self
                .0
                .iter()
                .min_by_key(|(group, slots)| (slots[0], **group));
            if let Some(oldest) = oldest.map(|(group, _)| *group) {
                self.0.remove(&oldest);
            }
        }
    }

    /// Number of crashes of the group and the first slot in which it is accepted again, if `slot`
    /// is refused.
    pub(crate) fn refused(&self, group: &Group, slot: u64) -> Option<(usize, u64)> {
        let slots = self
            .0
            .get(group)
            .filter(|slots| slots.len() == CRASHES_MAX)?;
        let (first, last) = (slots.back()?, slots.front()?);
        let until = last.saturating_add(REFUSED_SLOTS);
        let dense = last.saturating_sub(*first) < WINDOW_SLOTS;
        (dense && slot < until).then_some((CRASHES_MAX, until))
    }
}

/// The search for the input that crashes a task: the last one of the shortest crashing prefix, if it
/// also crashes alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    /// A prefix of this length is known not to crash.
    good: u32,
    /// A prefix of this length is known to crash.
    bad: u32,
    /// Remaining runs.
    left: u32,
    /// Whether the input found crashes alone, once that was tried. An input that crashes only after
    /// others, say because all of them together need too much memory, is not to blame.
    alone: Option<bool>,
}

/// The next step of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Run these inputs.
    Run(Range<u32>),
    /// This input crashes the task.
    Found(u32),
    /// No single input crashes the task, or none was found within the permitted runs.
    Lost,
}

impl Search {
    /// Creates a search in a task with this many inputs that crashes as a whole; at most 2 log2 n +
    /// 4 runs.
    pub(crate) fn new(inputs: u32) -> Self {
        // Rounded up. Each answer halves the gap, so this many runs find the input, and one more
        // confirms it; the rest of `left` is slack.
        let log2 = 32 - inputs.saturating_sub(1).leading_zeros();
        Self {
            good: 0,
            bad: inputs,
            left: 2 * log2 + 4,
            alone: None,
        }
    }

    pub(crate) fn next(&self) -> Next {
        match self.bad.saturating_sub(self.good) {
            0 => Next::Lost,
            // The crashing prefix is this one input.
            1 if self.good == 0 || self.alone == Some(true) => Next::Found(self.good),
            1 if self.alone == Some(false) => Next::Lost,
            _ if self.left == 0 => Next::Lost,
            1 => Next::Run(self.good..self.bad),
            gap => Next::Run(0..self.good + gap / 2),
        }
    }

    /// Takes the result of the run requested by [`Search::next`].
    pub(crate) fn answer(&mut self, crashed: bool) {
        if let Next::Run(inputs) = self.next() {
            self.left -= 1;
            match crashed {
                _ if inputs.start > 0 => self.alone = Some(crashed),
                true => self.bad = inputs.end,
                false => self.good = inputs.end,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_types::Slot;

    fn group(committee: u16) -> Group {
        Group {
            slot: Slot(1),
            message: [0; 32],
            committee: Some(committee),
            subcommittee: None,
        }
    }

    #[test]
    fn a_group_that_crashed_three_times_in_ten_slots_is_refused_for_thirty_two() {
        let mut groups = Groups::default();
        for slot in [5, 9] {
            groups.crashed(group(1), slot);
            assert_eq!(groups.refused(&group(1), slot), None);
        }
        groups.crashed(group(1), 14);
        assert_eq!(groups.refused(&group(1), 15), Some((3, 46)));
        assert_eq!(groups.refused(&group(1), 46), None);
        assert_eq!(groups.refused(&group(2), 15), None);
        for slot in [0, 10, 20, 30] {
            groups.crashed(group(3), slot);
        }
        assert_eq!(groups.refused(&group(3), 30), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut groups = Groups::default();
        let mut quarantine = Quarantine::new(10);
        for i in 0..2000_u16 {
            groups.crashed(group(i), u64::from(i));
            let mut name = [0; 32];
            name[..2].copy_from_slice(&i.to_le_bytes());
            quarantine.insert(name);
            assert!(quarantine.holds(&name));
        }
        assert_eq!(groups.0.len(), GROUPS_MAX);
        assert_eq!((quarantine.len(), quarantine.order.len()), (10, 10));
    }

    #[test]
    fn the_first_crasher_is_found_within_the_runs() {
        for inputs in [1, 2, 3, 7, 512, 1000] {
            for culprit in 0..inputs {
                let (mut search, mut runs) = (Search::new(inputs), 0);
                let found = loop {
                    match search.next() {
                        Next::Run(part) => search.answer(part.contains(&culprit)),
                        Next::Found(index) => break index,
                        Next::Lost => panic!("lost at {inputs}, {culprit}"),
                    }
                    runs += 1;
                };
                assert_eq!(found, culprit);
                assert!(runs <= 11);
            }
        }
        assert_eq!(Search::new(0).next(), Next::Lost);
    }

    #[test]
    fn inputs_that_crash_only_together_are_not_blamed() {
        for inputs in [2, 3, 7, 512, 1000] {
            for together in 2..=inputs {
                let (mut search, mut runs) = (Search::new(inputs), 0);
                while let Next::Run(part) = search.next() {
                    search.answer(part.len() >= together as usize);
                    runs += 1;
                }
                assert_eq!(search.next(), Next::Lost, "{together} of {inputs}");
                assert!(runs <= 11);
            }
        }
    }
}
