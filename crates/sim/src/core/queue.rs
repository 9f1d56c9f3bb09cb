//! Events in total order.

use alphorn_types::Time;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Events ordered by (time, order of scheduling). Nothing else decides an order: no address, no
/// hash, no thread.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Reverse<Scheduled<T>>>,
    scheduled: u64,
    len_peak: usize,
}

#[derive(Debug)]
struct Scheduled<T> {
    time: Time,
    seq: u64,
    event: T,
}

impl<T> Scheduled<T> {
    fn key(&self) -> (Time, u64) {
        (self.time, self.seq)
    }
}

impl<T> PartialEq for Scheduled<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Scheduled<T> {}

impl<T> PartialOrd for Scheduled<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Scheduled<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue {
            heap: BinaryHeap::new(),
            scheduled: 0,
            len_peak: 0,
        }
    }
}

impl<T> Queue<T> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Schedules an event; among events of one time the one scheduled first comes first.
    pub(crate) fn push(&mut self, time: Time, event: T) {
        self.heap.push(Reverse(Scheduled {
            time,
            seq: self.scheduled,
            event,
        }));
        self.scheduled += 1;
        self.len_peak = self.len_peak.max(self.heap.len());
    }

    /// When the first event is due.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(first)| first.time)
    }

    /// Takes the first event.
    pub(crate) fn pop(&mut self) -> Option<(Time, T)> {
        let Reverse(first) = self.heap.pop()?;
        Some((first.time, first.event))
    }

    /// Number of events that wait.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Most events that ever waited together.
    pub(crate) fn len_peak(&self) -> usize {
        self.len_peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any mix of insertions and removals, with many ties, pops in the order of a stable sort.
        #[test]
        fn pops_in_the_order_of_a_stable_sort(
            steps in prop::collection::vec(prop::option::weighted(0.7, 0u64..20), 0..400),
        ) {
            let mut queue = Queue::new();
            let mut oracle: Vec<(u64, u64)> = Vec::new();
            for (seq, step) in (0u64..).zip(steps) {
                match step {
                    Some(time) => {
                        queue.push(Time::from_nanos(time), seq);
                        oracle.push((time, seq));
                        oracle.sort_unstable();
                    }
                    None => {
                        let expected = (!oracle.is_empty()).then(|| oracle.remove(0));
                        let first = queue.pop().map(|(time, event)| (time.as_nanos(), event));
                        prop_assert_eq!(first, expected);
                    }
                }
                prop_assert_eq!(queue.len(), oracle.len());
                prop_assert_eq!(
                    queue.next_time().map(Time::as_nanos),
                    oracle.first().map(|first| first.0)
                );
            }
        }
    }

    #[test]
    fn the_peak_is_remembered() {
        let mut queue = Queue::new();
        (0..3).for_each(|i| queue.push(Time::ZERO, i));
        while queue.pop().is_some() {}
        queue.push(Time::MAX, 9);
        assert_eq!((queue.len(), queue.len_peak()), (1, 3));
    }
}
