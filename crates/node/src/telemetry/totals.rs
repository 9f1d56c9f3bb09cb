//! Figures since the start for the summary and the interface, with quantiles, which Prometheus'
//! histograms do not have.

use super::buckets_table::RATIO;
use super::event::Event;
use super::jobs::InFlight;
use crate::engine::{Doppelganger, Judged, Tally};
use crate::lanes::Ended;
use alphorn_scheme::Outcome;
use alphorn_types::Time;
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, VecDeque};

/// Judged slots that are listed one by one.
pub(super) const JUDGED_MAX: usize = 4_096;

/// Duration above which a turn counts as a stall of the loop.
const STALL_NS: u64 = 5_000_000;

/// Longest time that a histogram resolves, in microseconds: ten minutes.
const US_MAX: u64 = 600_000_000;

/// A distribution of times, in microseconds with three digits.
#[derive(Clone, Debug)]
pub(super) struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        // The bounds are constants that the library accepts.
        Times(Histogram::new_with_bounds(1, US_MAX, 3).expect("legal bounds"))
    }
}

impl Times {
    /// Adds a time in nanoseconds.
    pub(super) fn record_ns(&mut self, ns: u64) {
        // The histogram begins at one microsecond and refuses less.
        self.0.saturating_record((ns / 1_000).max(1));
    }

    /// Times recorded.
    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time in milliseconds below which a share of all lies. 0 if there is none.
    pub(super) fn quantile_ms(&self, share: f64) -> f64 {
        match self.0.is_empty() {
            true => 0.0,
            false => self.0.value_at_quantile(share) as f64 / 1e3,
        }
    }

    /// Maximum, in milliseconds.
    pub(super) fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }
}

/// Run times of jobs of an operation, relative to the prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) sum: f64,
    /// Jobs up to each bound of [`RATIO`] and above the previous one. The last count is for those
    /// above all.
    pub(crate) counts: [u64; RATIO.len() + 1],
}

/// Jobs of one operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Jobs {
    /// Queueing times.
    pub(super) queued: Times,
    /// Run times.
    pub(super) ran: Times,
    /// Run times relative to the prediction.
    ratio: Ratio,
    /// Jobs that ended after their soft deadline.
    pub(super) late: u64,
    /// Jobs without a result.
    pub(super) failed: u64,
}

/// Outcomes of the duties so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Duties {
    /// Blocks.
    pub(super) propose: Tally,
    /// Votes.
    pub(super) vote: Tally,
    /// Aggregates.
    pub(super) aggregate: Tally,
    /// Collections.
    pub(super) collect: Tally,
    /// Judged slots.
    pub(super) slots: u64,
    /// Slots whose committees were not ready in time.
    pub(super) unprepared: u64,
    /// The last slots individually.
    pub(super) recent: VecDeque<Judged>,
}

impl Duties {
    /// Adds a slot.
    pub(super) fn add(&mut self, judged: Judged) {
        self.propose.add(judged.propose);
        self.vote.add(judged.vote);
        self.aggregate.add(judged.aggregate);
        self.collect.add(judged.collect);
        self.slots += 1;
        self.unprepared += u64::from(!judged.prepared);
        if self.recent.len() >= JUDGED_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(judged);
    }
}

/// Everything that the loop measures.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// Duties.
    pub(super) duties: Duties,
    /// Lateness of the loop at protocol deadlines.
    pub(super) phase_lag: Times,
    /// Lateness of the loop at probes that are due every ten milliseconds.
    pub(super) probe_lag: Times,
    /// Duration of a turn.
    pub(super) turns: Times,
    /// Turns above [`STALL_NS`].
    pub(super) stalls: u64,
    /// Jobs by operation.
    pub(super) jobs: BTreeMap<&'static str, Jobs>,
    /// Pairs of contradicting statements.
    pub(super) evidence: u64,
    /// Reports of misbehaviour by reason.
    pub(super) reports: BTreeMap<&'static str, u64>,
    /// Blocks fetched from peers to fill a gap.
    pub(super) blocks_fetched: u64,
    /// Blocks that messages waited for and that peers sent on request.
    pub(super) blocks_by_root: u64,
    /// Publications that the network did not accept.
    pub(super) publish_refused: u64,
    /// Milliseconds from the start of a slot until two thirds of all validators were in verified
    /// collections here, by slot.
    pub(super) two_thirds_ms: VecDeque<(u64, f64)>,
    /// As in a snapshot.
    pub(super) fit: [[u64; 2]; 2],
    /// Steps of the wall clock.
    pub(super) clock_steps: u64,
    /// Another process signs with a local key.
    pub(super) doppelganger: Option<Doppelganger>,
}

impl Totals {
    pub(super) fn record(&mut self, now: Time, event: &Event<'_>) {
        match *event {
            Event::ClockStep(_) => self.clock_steps += 1,
            Event::Turn { took_ns, .. } => {
                self.turns.record_ns(took_ns);
                self.stalls += u64::from(took_ns > STALL_NS);
            }
            Event::Phase { lag_ns, .. } => self.phase_lag.record_ns(lag_ns),
            Event::Probe { lag_ns } => self.probe_lag.record_ns(lag_ns),
            Event::PublishRefused(count) => self.publish_refused += count,
            Event::Reported { reason, .. } => *self.reports.entry(reason).or_default() += 1,
            Event::Contradiction => self.evidence += 1,
            Event::Doppelganger(doppelganger) => self.doppelganger = Some(doppelganger),
            Event::Judged(judged) => self.duties.add(*judged),
            Event::JobEnded(ended, job) => self.job(now, ended, job),
            Event::BlocksFetched { count, by_root } => match by_root {
                true => self.blocks_by_root += count,
                false => self.blocks_fetched += count,
            },
            Event::TwoThirds { slot, ms, .. } => {
                if self.two_thirds_ms.len() >= JUDGED_MAX {
                    self.two_thirds_ms.pop_front();
                }
                self.two_thirds_ms.push_back((slot.0, ms));
            }
            _ => {}
        }
    }

    fn job(&mut self, now: Time, ended: &Ended, job: Option<&InFlight>) {
        let jobs = self.jobs.entry(ended.op).or_default();
        jobs.queued.record_ns(ended.queued_ns);
        jobs.ran.record_ns(ended.ran_ns);
        if let Some(run) = ended.run {
            // Nothing is predicted for a job that takes no time.
            let share = ended.ran_ns as f64 / run.predicted_ns.max(1) as f64;
            jobs.ratio.sum += share;
            jobs.ratio.counts[RATIO.partition_point(|bound| *bound < share)] += 1;
        }
        jobs.late += u64::from(ended.late);
        let failed = !matches!(
            ended.outcome,
            Outcome::Done(_) | Outcome::Cancelled | Outcome::Superseded
        );
        jobs.failed += u64::from(failed);
        if let Some(fits) = job.and_then(|job| job.predicted_in_time(now, ended)) {
            self.fit[usize::from(fits)][usize::from(!ended.late)] += 1;
        }
    }

    /// Accuracy of job predictions, by operation.
    pub(super) fn cost(&self) -> BTreeMap<&'static str, Ratio> {
        let jobs = self.jobs.iter();
        jobs.map(|(op, jobs)| (*op, jobs.ratio)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_scheme::{Group, JobId};
    use alphorn_types::Slot;
    use alphorn_worker::Run;

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
        times.record_ns(u64::MAX);
        assert!(
            times.max_ms() <= US_MAX as f64 / 1e3 * 1.01,
            "a bound, no panic"
        );
    }

    #[test]
    fn a_share_is_counted_below_the_first_bound_that_it_does_not_pass() {
        let group = Group::of_slot(Slot(1));
        let mut totals = Totals::default();
        for ran_ns in [0, 25, 80, 110, 120, 400, 90_000] {
            let run = Run {
                lane: 0,
                inputs: 1,
                predicted_ns: 100,
            };
            let ended = Ended {
                run: Some(run),
                ran_ns,
                ..Ended::refused(JobId(1), "sign", group, String::new())
            };
            totals.record(Time::ZERO, &Event::JobEnded(&ended, None));
        }
        let cost = totals.cost();
        assert_eq!(cost["sign"].counts, [2, 0, 1, 0, 1, 1, 0, 0, 1, 1]);
        assert!((cost["sign"].sum - 907.35).abs() < 1e-9);
    }
}
