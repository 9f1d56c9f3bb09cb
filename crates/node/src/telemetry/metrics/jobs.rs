//! Finished jobs, and what they produced: signatures, verdicts, evidence.

use super::super::jobs::InFlight;
use super::counted::{Counted, seconds};
use crate::lanes::Ended;
use crate::telemetry::jobs::outcome;
use alphorn_scheme::{self as scheme, Op, Outcome, Product};
use alphorn_types::Time;
use prometheus_client::metrics::histogram::Histogram;

/// Records a value several times: the time of a batch, divided evenly among its inputs.
fn observe_each(histogram: &Histogram, value: f64, times: u64) {
    (0..times).for_each(|_| histogram.observe(value));
}

impl Counted {
    /// A job ended. `job` holds the facts known at its submission.
    pub(super) fn job_ended(&self, now: Time, ended: &Ended, job: Option<&InFlight>) {
        let (kind, how) = (("kind", ended.op), outcome(&ended.outcome));
        let class = job.map_or("unknown", |job| job.class);
        let end = [kind, ("class", class), ("outcome", how)];
        self.jobs.get_or_create(&end).inc();
        let (queued, ran) = (seconds(ended.queued_ns), seconds(ended.ran_ns));
        if let Some(run) = ended.run {
            for (phase, time) in [("queue", queued), ("run", ran)] {
                let times = self.job_seconds.get_or_create(&[kind, ("phase", phase)]);
                times.observe(time);
            }
            // Nothing is predicted for a job that takes no time.
            let ratio = ended.ran_ns as f64 / run.predicted_ns.max(1) as f64;
            self.predicted_ratio.get_or_create(&[kind]).observe(ratio);
        }
        if let Some(job) = job.filter(|_| ended.late && ended.run.is_some()) {
            self.figures.late.observe(seconds(now.since_ns(job.soft)));
        }
        match &ended.outcome {
            Outcome::Done(product) => self.product(ended, product, queued, ran),
            Outcome::Invalid(bad) => {
                self.figures.invalid_inputs.inc_by(bad.len() as u64);
            }
            Outcome::Refused(_) if ended.op == Op::Aggregate.name() && ended.run.is_none() => {
                self.aggregates_skipped[0].inc();
            }
            _ => {}
        }
    }

    fn product(&self, ended: &Ended, product: &Product, queued: f64, ran: f64) {
        let figures = &self.figures;
        match product {
            Product::Signed(_) if ended.op == Op::Sign.name() => {
                let votes = ended.run.map_or(1, |run| u64::from(run.inputs.max(1)));
                figures.votes_signed.inc_by(votes);
                observe_each(&figures.vote_signing, ran / votes as f64, votes);
                observe_each(&figures.vote_production, queued + ran, votes);
            }
            Product::Verdicts(verdicts) => self.verdicts(ended.op, verdicts, ran),
            Product::Evidence(evidence) => {
                let votes = evidence.support.signer_count() as u64;
                figures.aggregates_made.inc();
                figures.votes_aggregated.inc_by(votes);
                figures.aggregate_building.observe(ran);
                if ended.op == Op::Aggregate.name() {
                    figures.cell_aggregation.observe(queued + ran);
                }
            }
            _ => {}
        }
    }

    fn verdicts(&self, op: &str, verdicts: &[scheme::Verdict], ran: f64) {
        let figures = &self.figures;
        let (good, bad, times) = if op == Op::VerifyVotes.name() {
            let times = &figures.vote_verification;
            (&figures.votes_good, &figures.votes_bad, times)
        } else if op == Op::VerifyAggregates.name() || op == Op::VerifyCollections.name() {
            let times = &figures.aggregate_verification;
            (&figures.aggregates_good, &figures.aggregates_bad, times)
        } else {
            return;
        };
        let all = verdicts.len() as u64;
        let valid = verdicts
            .iter()
            .filter(|one| **one == scheme::Verdict::Valid);
        let valid = valid.count() as u64;
        good.inc_by(valid);
        bad.inc_by(all - valid);
        figures.invalid_inputs.inc_by(all - valid);
        observe_each(times, ran / all.max(1) as f64, all);
    }
}
