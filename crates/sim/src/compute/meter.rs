//! Counts and times of computations.

use alphorn_scheme::{Features, Outcome};
use std::collections::BTreeMap;

/// A stage of the scenario, numbered by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stage(pub u8);

/// Counts and times of one operation in one stage. A job belongs to the stage in which it was spawned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Jobs requested by nodes.
    pub jobs: u64,
    /// Inputs of those jobs.
    pub items: u64,
    /// Virtual nanoseconds of one core charged for those jobs.
    pub charged_ns: u64,
    /// Jobs actually computed; the others had equal inputs.
    pub computed_jobs: u64,
    /// Inputs of the computed jobs.
    pub computed_items: u64,
    /// Measured thread time spent on them, in nanoseconds.
    pub busy_ns: u64,
    /// Their share of the measured duration of their batches, in proportion to `busy_ns`, in nanoseconds.
    /// The sum over all meters is the time that the run spent computing.
    pub wall_ns: u64,
}

/// Number of jobs by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Ended with a result.
    pub(crate) done: u64,
    /// Had invalid inputs.
    pub(crate) invalid: u64,
    /// Not run, because admission, keys or capabilities were missing.
    pub(crate) refused: u64,
    /// Abandoned by their session, or too long for their deadline.
    pub(crate) cancelled: u64,
    /// Ended in a panic, or with a result that failed its own verification.
    pub(crate) failed: u64,
}

/// All counts of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meters {
    pub(super) stage: Stage,
    meters: BTreeMap<(Stage, &'static str), Meter>,
    batch: BTreeMap<(Stage, &'static str), u64>,
    /// Number of jobs by how they ended.
    pub(crate) ends: Ends,
    /// Reason of the first refusal.
    pub(crate) first_refusal: Option<String>,
    /// Jobs whose result an earlier run had kept. They are not computed, and no time is counted for them.
    pub(crate) results_loaded: u64,
}

impl Meters {
    /// Every (stage, operation) pair that occurred, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Stage, &'static str, Meter)> + '_ {
        self.meters
            .iter()
            .map(|(&(stage, op), &meter)| (stage, op, meter))
    }

    /// Counts of an operation over all stages.
    pub(crate) fn total(&self, op: &str) -> Meter {
        let of_op = self.meters.iter().filter(|((_, name), _)| *name == op);
        of_op.fold(Meter::default(), |sum, (_, meter)| Meter {
            jobs: sum.jobs + meter.jobs,
            items: sum.items + meter.items,
            charged_ns: sum.charged_ns.saturating_add(meter.charged_ns),
            computed_jobs: sum.computed_jobs + meter.computed_jobs,
            computed_items: sum.computed_items + meter.computed_items,
            busy_ns: sum.busy_ns + meter.busy_ns,
            wall_ns: sum.wall_ns + meter.wall_ns,
        })
    }

    pub(super) fn spawned(&mut self, op: &'static str, features: &Features) {
        let meter = self.meters.entry((self.stage, op)).or_default();
        meter.jobs += 1;
        meter.items += u64::from(features.inputs);
        meter.charged_ns = meter.charged_ns.saturating_add(features.prior_ns);
    }

    pub(super) fn computed(&mut self, stage: Stage, op: &'static str, items: u64, busy_ns: u64) {
        let meter = self.meters.entry((stage, op)).or_default();
        meter.computed_jobs += 1;
        meter.computed_items += items;
        meter.busy_ns += busy_ns;
        *self.batch.entry((stage, op)).or_default() += busy_ns;
    }

    pub(super) fn end_batch(&mut self, wall_ns: u64) {
        let batch = std::mem::take(&mut self.batch);
        let busy_ns: u64 = batch.values().sum();
        for (key, own_ns) in batch {
            let share = u128::from(wall_ns) * u128::from(own_ns) / u128::from(busy_ns.max(1));
            // A share is at most the whole.
            self.meters.entry(key).or_default().wall_ns += share as u64;
        }
    }

    pub(super) fn finished<T>(&mut self, outcome: &Outcome<T>) {
        let count = match outcome {
            Outcome::Done(_) => &mut self.ends.done,
            Outcome::Invalid(_) => &mut self.ends.invalid,
            Outcome::Refused(reason) => {
                self.first_refusal.get_or_insert_with(|| reason.clone());
                &mut self.ends.refused
            }
            Outcome::Superseded | Outcome::Cancelled => &mut self.ends.cancelled,
            Outcome::Crashed | Outcome::SelfVerifyFailed => &mut self.ends.failed,
        };
        *count += 1;
    }
}
