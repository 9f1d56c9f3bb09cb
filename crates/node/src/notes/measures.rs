//! What is counted and timed of single things: votes, aggregates, blocks, jobs, phases.

use super::buckets_table as buckets;
use super::flights::Flight;
use super::histogram::Histogram;
use crate::clock::Step;
use crate::lanes::Ended;
use alphorn_net::DownReason;
use alphorn_proto::Verdict;
use alphorn_proto::wire::Kind;
use alphorn_scheme::{self as scheme, Op, Outcome, Product};
use alphorn_types::Time;
use std::collections::BTreeMap;

/// Operations whose jobs are timed one by one; there are twelve, with room for more.
const KINDS_MAX: usize = 32;

/// What a turn of the loop was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// A deadline.
    Deadline,
    /// A command of the interface.
    Command,
    /// Jobs that ended.
    Finished,
    /// What the network brought.
    Network,
}

impl Turn {
    /// All.
    pub const ALL: [Turn; 4] = [Turn::Deadline, Turn::Command, Turn::Finished, Turn::Network];

    /// The label in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Turn::Deadline => "deadline",
            Turn::Command => "command",
            Turn::Finished => "finished",
            Turn::Network => "network",
        }
    }
}

/// Jobs of one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct JobMeasures {
    /// How long they waited.
    pub queue: Histogram,
    /// How long they ran.
    pub run: Histogram,
    /// How long they ran, as a share of what was predicted.
    pub ratio: Histogram,
    /// By class and outcome.
    pub ends: BTreeMap<(&'static str, &'static str), u64>,
}

impl Default for JobMeasures {
    fn default() -> Self {
        JobMeasures {
            queue: Histogram::new(buckets::JOB),
            run: Histogram::new(buckets::JOB),
            ratio: Histogram::new(buckets::RATIO),
            ends: BTreeMap::new(),
        }
    }
}

/// Good and bad ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Good ones.
    pub valid: u64,
    /// Bad ones.
    pub invalid: u64,
}

/// Everything since the start; times in seconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Measures {
    /// Votes that were signed here.
    pub votes_signed: u64,
    /// Signing of one vote.
    pub vote_signing: Histogram,
    /// From the request of a vote until it is signed.
    pub vote_production: Histogram,
    /// Signatures of single votes that were verified.
    pub vote_signatures: Split,
    /// Verification of one of them.
    pub vote_verification: Histogram,
    /// Votes of gossip by their verdict.
    pub votes: Split,
    /// Aggregates and collections that were made here.
    pub aggregates_made: u64,
    /// Votes in them.
    pub votes_aggregated: u64,
    /// Making one of them.
    pub aggregate_building: Histogram,
    /// From the request of a cell's aggregate to its end.
    pub cell_aggregation: Histogram,
    /// Aggregates and collections that were verified.
    pub aggregate_signatures: Split,
    /// Verification of one of them.
    pub aggregate_verification: Histogram,
    /// Aggregates and collections that no lane took.
    pub aggregates_not_spawned: u64,
    /// Collections of accepted blocks.
    pub block_payloads: Histogram,
    /// From the phase's start until the own block was published.
    pub block_building: Histogram,
    /// Finalised checkpoints.
    pub finalisations: u64,
    /// Blocks that changes of the head gave up.
    pub reorgs: Histogram,
    /// From one phase to the next.
    pub tick_interval: Histogram,
    /// How late phases began.
    pub tick_lag: Histogram,
    /// How late the loop woke.
    pub probe_lag: Histogram,
    /// How long turns took, in the order of [`Turn::ALL`].
    pub turns: [Histogram; Turn::ALL.len()],
    /// Steps of the wall clock: forward, backward.
    pub clock_steps: [u64; 2],
    /// Connections that came up: made by others, by this machine.
    pub connected: [u64; 2],
    /// Connections that ended, by who made them, in the order of [`DownReason::ALL`].
    pub disconnected: [[u64; DownReason::ALL.len()]; 2],
    /// Sizes of messages, in the order of [`Kind::ALL`].
    pub bytes: [Histogram; Kind::ALL.len()],
    /// From arrival to verdict, in the order of [`Kind::ALL`].
    pub verdicts: [Histogram; Kind::ALL.len()],
    /// By operation.
    pub jobs: BTreeMap<&'static str, JobMeasures>,
    /// Jobs that were predicted to end in time, and did: `[predicted][actual]`, no first.
    pub fit: [[u64; 2]; 2],
    /// How late jobs were that ended after their soft deadline.
    pub late: Histogram,
    /// Inputs of jobs that were found to be bad.
    pub invalid_inputs: u64,
}

impl Default for Measures {
    fn default() -> Self {
        let new = Histogram::new;
        Measures {
            votes_signed: 0,
            vote_signing: new(buckets::VOTE),
            vote_production: new(buckets::PRODUCTION),
            vote_signatures: Split::default(),
            vote_verification: new(buckets::VOTE),
            votes: Split::default(),
            aggregates_made: 0,
            votes_aggregated: 0,
            aggregate_building: new(buckets::AGGREGATE),
            cell_aggregation: new(buckets::AGGREGATION),
            aggregate_signatures: Split::default(),
            aggregate_verification: new(buckets::AGGREGATE),
            aggregates_not_spawned: 0,
            block_payloads: new(buckets::PAYLOADS),
            block_building: new(buckets::BLOCK_BUILDING),
            finalisations: 0,
            reorgs: new(buckets::REORG_DEPTH),
            tick_interval: new(buckets::TICK_INTERVAL),
            tick_lag: new(buckets::LAG),
            probe_lag: new(buckets::LAG),
            turns: Turn::ALL.map(|_| new(buckets::TURN)),
            clock_steps: [0; 2],
            connected: [0; 2],
            disconnected: Default::default(),
            bytes: Kind::ALL.map(|kind| {
                new(match kind {
                    Kind::Vote => buckets::VOTE_BYTES,
                    Kind::Aggregate | Kind::Collection => buckets::AGGREGATE_BYTES,
                    Kind::Block => buckets::BLOCK_BYTES,
                })
            }),
            verdicts: Kind::ALL.map(|kind| {
                new(match kind {
                    Kind::Vote => buckets::VOTE,
                    Kind::Block => buckets::BLOCK_PROCESSING,
                    Kind::Aggregate | Kind::Collection => buckets::VERDICT,
                })
            }),
            jobs: BTreeMap::new(),
            fit: [[0; 2]; 2],
            late: new(buckets::JOB),
            invalid_inputs: 0,
        }
    }
}

/// Nanoseconds in seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Measures {
    /// The place of a kind in arrays.
    pub fn place(kind: Kind) -> usize {
        kind as usize - 1
    }

    pub(super) fn step(&mut self, step: Step) {
        let backward = matches!(step, Step::Backward(_));
        self.clock_steps[usize::from(backward)] += 1;
    }

    pub(super) fn verdict(&mut self, kind: Kind, waited_ns: u64, verdict: Verdict) {
        self.verdicts[Self::place(kind)].observe(seconds(waited_ns));
        if kind == Kind::Vote {
            self.votes.valid += u64::from(verdict == Verdict::Accept);
            self.votes.invalid += u64::from(verdict == Verdict::Reject);
        }
    }

    /// A job ended; `flight` is what was known of it when it was handed out.
    pub(super) fn job(&mut self, now: Time, ended: &Ended, flight: Option<&Flight>) {
        let (queued, ran) = (seconds(ended.queued_ns), seconds(ended.ran_ns));
        let is_known = self.jobs.contains_key(ended.op);
        if is_known || self.jobs.len() < KINDS_MAX {
            let jobs = self.jobs.entry(ended.op).or_default();
            let class = flight.map_or("unknown", |flight| flight.class);
            *jobs
                .ends
                .entry((class, outcome(&ended.outcome)))
                .or_default() += 1;
            if let Some(run) = ended.run {
                jobs.queue.observe(queued);
                jobs.run.observe(ran);
                // Nothing is predicted of a job that takes no time.
                jobs.ratio
                    .observe(ended.ran_ns as f64 / run.predicted_ns.max(1) as f64);
            }
        }
        if let (Some(flight), Some(run)) = (flight, ended.run) {
            let start_ns = now.as_nanos().saturating_sub(ended.ran_ns);
            let predicted = start_ns.saturating_add(run.predicted_ns) <= flight.soft.as_nanos();
            self.fit[usize::from(predicted)][usize::from(!ended.late)] += 1;
            if ended.late {
                self.late.observe(seconds(now.since_ns(flight.soft)));
            }
        }
        match &ended.outcome {
            Outcome::Done(product) => {
                self.product(ended, product, queued, ran);
            }
            Outcome::Invalid(bad) => self.invalid_inputs += bad.len() as u64,
            Outcome::Refused(_) if ended.op == Op::Aggregate.name() && ended.run.is_none() => {
                self.aggregates_not_spawned += 1;
            }
            _ => {}
        }
    }

    fn product(&mut self, ended: &Ended, product: &Product, queued: f64, ran: f64) {
        match product {
            Product::Signed(_) if ended.op == Op::Sign.name() => {
                let votes = ended.run.map_or(1, |run| u64::from(run.inputs.max(1)));
                self.votes_signed += votes;
                self.vote_signing.observe_each(ran / votes as f64, votes);
                self.vote_production.observe_each(queued + ran, votes);
            }
            Product::Verdicts(verdicts) => {
                let all = verdicts.len() as u64;
                let valid = verdicts
                    .iter()
                    .filter(|one| **one == scheme::Verdict::Valid);
                let valid = valid.count() as u64;
                let each = ran / all.max(1) as f64;
                let (split, times) = if ended.op == Op::VerifyVotes.name() {
                    (&mut self.vote_signatures, &mut self.vote_verification)
                } else if ended.op == Op::VerifyAggregates.name()
                    || ended.op == Op::VerifyCollections.name()
                {
                    (
                        &mut self.aggregate_signatures,
                        &mut self.aggregate_verification,
                    )
                } else {
                    return;
                };
                split.valid += valid;
                split.invalid += all - valid;
                self.invalid_inputs += all - valid;
                times.observe_each(each, all);
            }
            Product::Evidence(evidence) => {
                self.aggregates_made += 1;
                self.votes_aggregated += evidence.support.signer_count() as u64;
                self.aggregate_building.observe(ran);
                if ended.op == Op::Aggregate.name() {
                    self.cell_aggregation.observe(queued + ran);
                }
            }
            _ => {}
        }
    }
}

/// The name of an outcome in traces and metrics.
pub(crate) fn outcome(outcome: &Outcome<Product>) -> &'static str {
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::Invalid(_) => "invalid",
        Outcome::Refused(_) => "refused",
        Outcome::Superseded => "superseded",
        Outcome::Cancelled => "cancelled",
        Outcome::Crashed => "crashed",
        Outcome::SelfVerifyFailed => "self_verify_failed",
    }
}
