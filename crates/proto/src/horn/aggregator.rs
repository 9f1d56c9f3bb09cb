//! The aggregator of a cell: sums the votes that equal its own.
//!
//! Local aggregators of a cell who cast the same vote share one sum, and all local aggregators of
//! a committee share one signing job for their envelopes.

use alphorn_scheme::{
    self as scheme, AggregateJob, Bytes, Layer, Outcome, Role, SignItem, SignJob, Statement,
};
use alphorn_types::{Cell, Slot};

use super::deadlines::Lateness;
use super::effects::Request;
use super::machine::{Horn, Timer};
use super::state::{Serving, SlotState, Waiting, evidence_fits};
use super::task::Purpose;
use crate::contract::Class;
use crate::job::{Product, Work};
use crate::slot::Phase;
use crate::wire::{Aggregate, Topic, digest};

/// How far the work on a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Votes are still being verified.
    Waiting,
    /// The job runs.
    Running,
    /// It is made, or cannot be made.
    Done,
}

/// An aggregate that is to be made: of one cell, for one vote.
struct Plan {
    cell: Cell,
    ballot: u8,
    makers: Vec<Serving>,
    stage: Stage,
    /// Positions whose signatures a failed job named; it is tried again once, without them.
    without: Option<Vec<u32>>,
}

/// The work of a committee's local aggregators in a slot.
#[derive(Default)]
pub(super) struct Aggregating {
    plans: Vec<Plan>,
    planned: bool,
    unsigned: Vec<Aggregate>,
    signing: u32,
}

impl Aggregating {
    /// Whether nothing more will come.
    pub(super) fn is_settled(&self) -> bool {
        self.plans.iter().all(|plan| plan.stage == Stage::Done)
            && self.unsigned.is_empty()
            && self.signing == 0
    }
}

impl Horn {
    /// The aggregate phase begins.
    pub(super) fn start_aggregators(&mut self, slot: Slot) {
        let start = self.clock.phase_start(slot, Phase::Aggregate);
        let phase_ns = self.clock.phase_start(slot, Phase::Collect).since_ns(start);
        self.set_timer(
            start.saturating_add_ns(phase_ns / 2),
            Timer::Aggregate(slot),
        );
        self.set_timer(
            start.saturating_add_ns(phase_ns / 4 * 3),
            Timer::Aggregate(slot),
        );
        for committee in 0..self.config.layout.committees() {
            self.plan_aggregates(slot, committee);
        }
    }

    /// Continues with all committees: a bounded wait has ended.
    pub(super) fn hurry_aggregators(&mut self, slot: Slot) {
        for committee in 0..self.config.layout.committees() {
            self.advance_aggregators(slot, committee);
        }
    }

    /// Groups the local aggregators of a committee by cell and vote, once they are known and the
    /// phase has begun.
    pub(super) fn plan_aggregates(&mut self, slot: Slot, committee: u16) {
        let Some(state) = self.slots.get_mut(&slot) else {
            return;
        };
        let index = usize::from(committee);
        let Some(own) = state.own else {
            return;
        };
        if state.phase < Some(Phase::Aggregate)
            || state.aggregating[index].planned
            || state.aggregators[index].is_empty()
        {
            return;
        }
        let mut plans: Vec<Plan> = Vec::new();
        for maker in &state.aggregators[index] {
            let ballot = state.vote_of(maker).unwrap_or(own);
            let cell = maker.cell;
            match plans
                .iter_mut()
                .find(|plan| plan.cell == cell && plan.ballot == ballot)
            {
                Some(plan) => plan.makers.push(maker.clone()),
                None => plans.push(Plan {
                    cell,
                    ballot,
                    makers: vec![maker.clone()],
                    stage: Stage::Waiting,
                    without: None,
                }),
            }
        }
        let aggregating = &mut state.aggregating[index];
        aggregating.plans = plans;
        aggregating.planned = true;
        self.advance_aggregators(slot, committee);
    }

    /// Starts what can be started: sums of cells whose votes are all verified (or have to do, at
    /// half of the phase), then signatures when all sums are there (or have to do, at three
    /// quarters).
    pub(super) fn advance_aggregators(&mut self, slot: Slot, committee: u16) {
        let start = self.clock.phase_start(slot, Phase::Aggregate);
        let end = self.clock.phase_start(slot, Phase::Collect);
        let passed_ns = self.now.since_ns(start);
        let phase_ns = end.since_ns(start);
        let hurry = passed_ns >= phase_ns / 2;
        let Some(state) = self.slots.get_mut(&slot) else {
            return;
        };
        if state.phase < Some(Phase::Aggregate) {
            return;
        }
        let index = usize::from(committee);
        let mut plans = std::mem::take(&mut state.aggregating[index].plans);
        for plan in plans.iter_mut().filter(|plan| plan.stage == Stage::Waiting) {
            if !(hurry || state.votes_settled(plan.cell)) {
                continue;
            }
            plan.stage = Stage::Done;
            if let Some(job) = aggregate_job(state, plan) {
                plan.stage = Stage::Running;
                let request = Request {
                    session: state.sessions.aggregate,
                    message: job.statement.message,
                    committee: Some(committee),
                    subcommittee: Some(plan.cell.subcommittee),
                    class: Class::Current,
                    soft: end,
                    hard: self.clock.slot_start(slot.next().next()),
                    work: Work::Scheme(scheme::Work::Aggregate(job)),
                };
                let (cell, ballot) = (plan.cell, plan.ballot);
                let positions = summed_positions(state, plan);
                self.fx.spawn(
                    request,
                    Purpose::Aggregate {
                        slot,
                        cell,
                        ballot,
                        positions,
                    },
                );
            }
        }
        let all_done = plans.iter().all(|plan| plan.stage == Stage::Done);
        state.aggregating[index].plans = plans;
        if all_done || passed_ns >= phase_ns / 4 * 3 {
            self.sign_aggregates(slot, committee);
        }
        self.advance_collectors(slot, committee);
    }

    pub(super) fn aggregate_made(
        &mut self,
        slot: Slot,
        cell: Cell,
        ballot: u8,
        positions: &[u32],
        outcome: Outcome<Product>,
    ) {
        let Some(state) = self.slots.get_mut(&slot) else {
            return;
        };
        let vote = state.ballots.get(ballot).vote;
        let len = state.layout().cell_len(cell) as usize;
        let aggregating = &mut state.aggregating[usize::from(cell.committee)];
        let found = aggregating
            .plans
            .iter_mut()
            .find(|plan| plan.cell == cell && plan.ballot == ballot);
        let Some(plan) = found else {
            return;
        };
        plan.stage = Stage::Done;
        match outcome {
            Outcome::Done(Product::Scheme(scheme::Product::Evidence(evidence)))
                if evidence_fits(&evidence, len, 1, self.format.aggregate_evidence) =>
            {
                let unsigned = plan.makers.iter().map(|maker| Aggregate {
                    vote,
                    cell,
                    sender: maker.validator,
                    proof: maker.proof.clone(),
                    evidence: evidence.clone(),
                    envelope: Bytes::from([]),
                });
                aggregating.unsigned.extend(unsigned);
            }
            Outcome::Invalid(bad) if plan.without.is_none() => {
                let name = |i: usize| positions.get(i).copied();
                plan.without = Some(bad.into_iter().filter_map(name).collect());
                plan.stage = Stage::Waiting;
            }
            // The sum of these votes is no signature: nothing is published (a cell of two keys
            // that cancel, for BLS). Or the job was not run.
            _ => self.fx.counters.jobs_failed += 1,
        }
        self.advance_aggregators(slot, cell.committee);
    }

    fn sign_aggregates(&mut self, slot: Slot, committee: u16) {
        let Some(state) = self.slots.get_mut(&slot) else {
            return;
        };
        let aggregating = &mut state.aggregating[usize::from(committee)];
        let aggregates = std::mem::take(&mut aggregating.unsigned);
        if aggregates.is_empty() {
            return;
        }
        aggregating.signing += 1;
        let item = |aggregate: &Aggregate| SignItem {
            validator: aggregate.sender,
            role: Role::Aggregate,
            message: digest::aggregate_message(self.config.network(), aggregate, &self.format),
            guard: None,
        };
        let items: Vec<SignItem> = aggregates.iter().map(item).collect();
        let request = Request {
            session: state.sessions.aggregate,
            // Jobs of one group replace each other, so it is named by what it signs.
            message: items[0].message,
            committee: Some(committee),
            subcommittee: None,
            class: Class::Duty,
            soft: self.clock.phase_start(slot, Phase::Collect),
            hard: self.clock.slot_start(slot.next().next()),
            work: Work::Scheme(scheme::Work::Sign(SignJob::new(slot, items))),
        };
        self.fx.spawn(
            request,
            Purpose::SignAggregates {
                slot,
                committee,
                aggregates,
            },
        );
    }

    pub(super) fn aggregates_signed(
        &mut self,
        slot: Slot,
        committee: u16,
        aggregates: Vec<Aggregate>,
        outcome: Outcome<Product>,
    ) {
        if let Some(state) = self.slots.get_mut(&slot) {
            state.aggregating[usize::from(committee)].signing -= 1;
        }
        if let Some(signatures) = self.signatures(
            outcome,
            aggregates.len(),
            self.info.sizes.duty_signature_bytes,
        ) {
            let end = self.clock.phase_start(slot, Phase::Collect);
            for (mut aggregate, envelope) in aggregates.into_iter().zip(signatures) {
                aggregate.envelope = envelope;
                let gain = self.aggregate_gain(&aggregate);
                match self.lateness(&aggregate.vote, end, gain) {
                    Lateness::Publish => self.publish_aggregate(aggregate),
                    // Nobody merges single aggregates of an older slot.
                    Lateness::Keep | Lateness::Drop => self.fx.counters.stale += 1,
                }
            }
        }
        self.advance_collectors(slot, committee);
    }

    fn publish_aggregate(&mut self, message: Aggregate) {
        let committee = message.cell.committee;
        let references = |vote: &_, committee| self.reference(vote, committee);
        let Ok(data) = message.encode(&self.format, &references) else {
            // The head went away with a branch that was finalised against.
            self.fx.counters.stale += 1;
            return;
        };
        let data: Bytes = data.into();
        let topic = Topic::Aggregate { committee };
        let slot = message.vote.slot;
        let late = self.now >= self.clock.phase_start(slot, Phase::Decide);
        self.fx.publish(slot, late, topic, data.clone());
        if !self.local.trust_own {
            return self.receive(None, topic, data);
        }
        self.fx.seen(topic.kind());
        let content = digest::aggregate_message(self.config.network(), &message, &self.format);
        let slot = self.slots.get(&message.vote.slot);
        if let Some(ballot) = slot.and_then(|state| state.ballots.find(&message.vote)) {
            self.take_aggregate(Waiting {
                origin: None,
                ballot,
                message,
                data,
                content,
            });
        }
    }

    /// Signers that no accepted aggregate of the cell and vote contains.
    fn aggregate_gain(&self, aggregate: &Aggregate) -> u32 {
        let mut signers = aggregate.evidence.support.signers();
        if let Some(state) = self.slots.get(&aggregate.vote.slot) {
            let committee = &state.aggregates[usize::from(aggregate.cell.committee)];
            for kept in &committee.kept {
                if kept.subcommittee == aggregate.cell.subcommittee
                    && state.ballots.get(kept.ballot).vote == aggregate.vote
                {
                    signers.subtract(&kept.evidence.support.signers());
                }
            }
        }
        signers.count_ones() as u32
    }
}

/// Positions of the cell whose votes go into a plan's aggregate, with their signatures.
fn summed<'a>(state: &'a SlotState, plan: &'a Plan) -> impl Iterator<Item = (u32, &'a Bytes)> + 'a {
    let records = state
        .cell(plan.cell)
        .map_or(&[][..], |votes| &votes.records);
    (0u32..)
        .zip(records)
        .filter_map(|(position, record)| match &record.first {
            Some((ballot, Some(signature)))
                if *ballot == plan.ballot
                    && !plan
                        .without
                        .as_ref()
                        .is_some_and(|bad| bad.contains(&position)) =>
            {
                Some((position, signature))
            }
            _ => None,
        })
}

fn summed_positions(state: &SlotState, plan: &Plan) -> Vec<u32> {
    summed(state, plan).map(|(position, _)| position).collect()
}

/// The job of a plan; none if nobody cast the vote.
fn aggregate_job(state: &SlotState, plan: &Plan) -> Option<AggregateJob> {
    let votes: Vec<(u32, Bytes)> = summed(state, plan)
        .map(|(position, signature)| (position, signature.clone()))
        .collect();
    let range = state.layout().cell_range(plan.cell);
    let statement = Statement {
        layer: Layer::Aggregate,
        first: range.start,
        len: range.end - range.start,
        slot: state.slot,
        message: state.ballots.get(plan.ballot).message,
    };
    (!votes.is_empty()).then_some(AggregateJob {
        epoch: state.epoch,
        statement,
        votes,
    })
}
