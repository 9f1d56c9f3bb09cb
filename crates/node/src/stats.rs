//! What a node measures of itself.

use crate::engine::{Judged, Stranger, Tally};
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, VecDeque};

/// Slots whose coverage is remembered one by one.
pub const SLOTS_MAX: usize = 4_096;

/// Longest time that a histogram tells apart, in microseconds: ten minutes.
const US_MAX: u64 = 600_000_000;

/// A distribution of times, in microseconds with three digits.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        // The bounds are constants within what the library takes.
        Times(Histogram::new_with_bounds(1, US_MAX, 3).expect("legal bounds"))
    }
}

impl Times {
    /// Adds a time in nanoseconds.
    pub fn record_ns(&mut self, ns: u64) {
        self.0.saturating_record((ns / 1_000).max(1));
    }

    /// Times recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time in milliseconds below which a share of all lies; 0 if there is none.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        match self.0.is_empty() {
            true => 0.0,
            false => self.0.value_at_quantile(share) as f64 / 1e3,
        }
    }

    /// The greatest in milliseconds.
    pub fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// All of them together in seconds, to the precision of the buckets.
    pub fn sum_s(&self) -> f64 {
        self.0.mean() * self.0.len() as f64 / 1e6
    }
}

/// Jobs of one operation.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    /// How long they waited.
    pub queued: Times,
    /// How long they ran.
    pub ran: Times,
    /// Those that ended after their soft deadline.
    pub late: u64,
    /// Those that had no result.
    pub failed: u64,
}

/// What became of the duties so far.
#[derive(Clone, Debug, Default)]
pub struct Duties {
    /// Blocks.
    pub propose: Tally,
    /// Votes.
    pub vote: Tally,
    /// Aggregates.
    pub aggregate: Tally,
    /// Collections.
    pub collect: Tally,
    /// Slots that were judged.
    pub slots: u64,
    /// Slots whose committees were not ready in time.
    pub unprepared: u64,
    /// The last slots, one by one.
    pub recent: VecDeque<Judged>,
}

impl Duties {
    /// Adds a slot.
    pub fn add(&mut self, judged: Judged) {
        self.propose.add(judged.propose);
        self.vote.add(judged.vote);
        self.aggregate.add(judged.aggregate);
        self.collect.add(judged.collect);
        self.slots += 1;
        self.unprepared += u64::from(!judged.prepared);
        if self.recent.len() >= SLOTS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(judged);
    }
}

/// Everything that the loop measures.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Duties.
    pub duties: Duties,
    /// How late the loop woke for a deadline of the protocol.
    pub phase_lag: Times,
    /// How late it woke for a probe that is due every ten milliseconds.
    pub probe_lag: Times,
    /// How long one turn took.
    pub turns: Times,
    /// Turns above [`STALL_NS`](crate::run::STALL_NS).
    pub stalls: u64,
    /// Jobs by operation.
    pub jobs: BTreeMap<&'static str, Jobs>,
    /// Pairs of contradicting statements.
    pub evidence: u64,
    /// Reports of misbehaviour by reason.
    pub reports: BTreeMap<&'static str, u64>,
    /// Blocks that were fetched from peers to fill a gap.
    pub blocks_fetched: u64,
    /// Blocks that messages waited for and that peers sent when they were asked.
    pub blocks_by_root: u64,
    /// Publications that the network did not take.
    pub publish_refused: u64,
    /// Milliseconds from the start of a slot until two thirds of all validators stood in verified
    /// collections here, by slot.
    pub two_thirds_ms: VecDeque<(u64, f64)>,
    /// Steps of the wall clock.
    pub clock_steps: u64,
    /// Another machine signs with a local key.
    pub stranger: Option<Stranger>,
}

impl Stats {
    /// Notes when two thirds were reached.
    pub fn reached_two_thirds(&mut self, slot: u64, ms: f64) {
        if self.two_thirds_ms.len() >= SLOTS_MAX {
            self.two_thirds_ms.pop_front();
        }
        self.two_thirds_ms.push_back((slot, ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_times() {
        let mut times = Times::default();
        assert_eq!(times.quantile_ms(0.5), 0.0);
        for ms in 1..=1000u64 {
            times.record_ns(ms * 1_000_000);
        }
        assert!((times.quantile_ms(0.5) - 500.0).abs() < 1.0);
        assert!((times.quantile_ms(0.999) - 999.0).abs() < 1.0);
        assert!((times.max_ms() - 1000.0).abs() < 1.0);
        assert!((times.sum_s() - 500.5).abs() < 1.0);
        times.record_ns(u64::MAX);
        assert!(
            times.max_ms() <= US_MAX as f64 / 1e3 * 1.01,
            "a bound, no panic"
        );
    }
}
