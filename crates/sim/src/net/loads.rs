//! Network and compute load over time: by class, and the busiest second of each node.

use super::Net;
use super::parts::Tally;
use super::peak::share;
use std::ops::Range;
use std::sync::Arc;

/// Bin length of the loads of classes, in nanoseconds.
pub(crate) const LOAD_BIN_NS: u64 = 100_000_000;

/// Load of the nodes of a class in one bin of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Bytes whose transmission started.
    pub(crate) up: u64,
    /// Bytes that arrived.
    pub(crate) down: u64,
    /// Core time in nanoseconds.
    pub(crate) cpu_ns: u64,
}

impl std::ops::AddAssign for Load {
    fn add_assign(&mut self, more: Load) {
        self.up += more.up;
        self.down += more.down;
        self.cpu_ns += more.cpu_ns;
    }
}

/// The loads of all classes.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    class: Arc<[u16]>,
    classes: usize,
    /// By bin, then by class.
    bins: Vec<Load>,
    /// When the last byte was sent or received, or the last work ended, whichever is later.
    until_ns: u64,
}

impl Loads {
    pub(crate) fn new(class: Arc<[u16]>, classes: usize) -> Self {
        Loads {
            class,
            classes,
            bins: Vec::new(),
            until_ns: 0,
        }
    }

    /// When the last byte was sent or received, or the last work ended, whichever is later. Only timers without
    /// effect come later in a run.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Records the end of work that was counted when it started.
    pub(crate) fn last_until(&mut self, end_ns: u64) {
        self.until_ns = self.until_ns.max(end_ns);
    }

    /// Loads by bin number and class.
    pub(crate) fn into_iter(self) -> impl Iterator<Item = (u64, u16, Load)> {
        let classes = self.classes.max(1);
        let loads = self.bins.into_iter().enumerate();
        loads.map(move |(i, load)| ((i / classes) as u64, (i % classes) as u16, load))
    }

    /// Adds the loads of other nodes.
    pub(crate) fn add(&mut self, other: &Loads) {
        self.last_until(other.until_ns);
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), Load::default());
        }
        for (load, other) in self.bins.iter_mut().zip(&other.bins) {
            *load += *other;
        }
    }

    /// The load of a node's class at a given time.
    #[inline]
    pub(crate) fn at(&mut self, now_ns: u64, node: u32) -> &mut Load {
        self.last_until(now_ns);
        let first = (now_ns / LOAD_BIN_NS) as usize * self.classes;
        if self.bins.len() < first + self.classes {
            self.bins.resize(first + self.classes, Load::default());
        }
        &mut self.bins[first + usize::from(self.class[node as usize])]
    }

    /// Counts a node's work on several cores over a span of nanoseconds.
    pub(crate) fn work(&mut self, node: u32, span: Range<u64>, cpu_ns: u64, tally: &mut Tally) {
        let Range {
            start: from_ns,
            end: until_ns,
        } = span;
        let for_ns = until_ns - from_ns;
        // In order of start times, since lanes account for all of their jobs at once.
        tally.jobs.add(from_ns, for_ns, cpu_ns);
        tally.cpu_ns += cpu_ns;
        self.last_until(until_ns);
        let mut at_ns = from_ns;
        while at_ns < until_ns {
            let end_ns = until_ns.min((at_ns / LOAD_BIN_NS + 1) * LOAD_BIN_NS);
            self.at(at_ns, node).cpu_ns += share(cpu_ns, end_ns - at_ns, for_ns);
            at_ns = end_ns;
        }
    }
}

impl<M: Clone> Net<M> {
    /// Counts a message that arrived at a node and was handled.
    #[inline]
    pub(crate) fn received(&mut self, now: u64, node: u32, bytes: u64) {
        self.balance.delivered += bytes;
        let tally = &mut self.tally[node];
        tally.receive(now, bytes);
        tally.cpu_ns += self.handle_ns;
        let load = self.loads.at(now, node);
        load.down += bytes;
        load.cpu_ns += self.handle_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn work_lies_in_the_bins_in_which_it_is_done() {
        let mut loads = Loads::new([0, 1].into(), 2);
        let mut tally = Tally::default();
        // Two cores from 0.95 to 1.15 s.
        loads.work(1, 950 * MS..1150 * MS, 400 * MS, &mut tally);
        loads.at(1199 * MS, 0).down += 7;
        assert_eq!(loads.until_ns(), 1199 * MS);
        let busy: Vec<_> = loads
            .into_iter()
            .filter(|(.., load)| *load != Load::default())
            .map(|(bin, class, load)| (bin, class, load.cpu_ns / MS, load.down))
            .collect();
        let expected = [
            (9, 1, 100, 0),
            (10, 1, 200, 0),
            (11, 0, 0, 7),
            (11, 1, 100, 0),
        ];
        assert_eq!(busy, expected);
        assert_eq!(tally.peak_1s_jobs_ns(), 300 * MS);
        assert_eq!(tally.cpu_ns, 400 * MS);
    }
}
