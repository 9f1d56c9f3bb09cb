//! The aggregator: makes evidence of the votes of its cell that equal its own.
//!
//! Local aggregators of a cell who cast the same vote share one sum, and all local aggregators of
//! a committee share one signing job for their envelopes.

use alphorn_scheme::{
    AggregateJob, Bytes, Class, Evidence, Layer, Outcome, Product, Role as Signer, SignItem,
    SignJob, Statement, Work,
};
use alphorn_types::{Cell, Slot, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::deadlines::Lateness;
use super::effects::Request;
use super::role::{Role, Shared};
use super::roster::{Draw, Roster};
use super::state::{Record, Serving, SlotState, evidence_fits};
use super::task::Purpose;
use crate::slot::Phase;
use crate::wire::{Aggregate, Kind, digest};

/// What happens to an aggregator.
pub(super) enum Input {
    /// A slot begins.
    Open { slot: Slot },
    /// The phase begins.
    Begin { slot: Slot },
    /// Votes of a committee were verified or signed.
    Votes { slot: Slot, committee: u16 },
    /// A job ended.
    Finished { job: Job, outcome: Outcome<Product> },
    /// The tickets of a committee were drawn.
    Drawn {
        draw: Draw,
        outcome: Outcome<Product>,
    },
    /// The time of [`Role::next_deadline`] has come.
    Deadline,
    /// Messages of the slot are no longer taken.
    Close { slot: Slot },
}

/// A job of an aggregator.
pub(super) enum Job {
    /// Make the evidence of a cell.
    Make {
        slot: Slot,
        cell: Cell,
        ballot: u16,
        /// Positions in the cell, in the order of the job's votes.
        positions: Vec<u32>,
    },
    /// Sign the envelopes of a committee's aggregates.
    Sign {
        slot: Slot,
        committee: u16,
        aggregates: Vec<Aggregate>,
    },
}

impl Job {
    /// Whose work it is.
    pub(super) fn place(&self) -> (Slot, u16) {
        match self {
            Self::Make { slot, cell, .. } => (*slot, cell.committee),
            Self::Sign {
                slot, committee, ..
            } => (*slot, *committee),
        }
    }
}

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
    ballot: u16,
    makers: Vec<Serving>,
    stage: Stage,
    /// Positions whose signatures a failed job named; it is tried again once, without them.
    without: Option<Vec<u32>>,
}

/// The work of a committee's local aggregators in a slot.
#[derive(Default)]
struct Making {
    plans: Vec<Plan>,
    planned: bool,
    unsigned: Vec<Aggregate>,
    signing: u32,
}

impl Making {
    /// Whether nothing more will come.
    fn is_settled(&self) -> bool {
        self.plans.iter().all(|plan| plan.stage == Stage::Done)
            && self.unsigned.is_empty()
            && self.signing == 0
    }
}

/// The aggregators among the local validators.
pub(super) struct Aggregator {
    roster: Roster,
    by_committee: BTreeMap<(Slot, u16), Making>,
    /// When it goes on with the votes that it has.
    timers: BTreeSet<(Time, Slot)>,
    signed: VecDeque<Aggregate>,
}

impl Default for Aggregator {
    fn default() -> Self {
        Self {
            roster: Roster::new(Kind::Aggregate),
            by_committee: BTreeMap::new(),
            timers: BTreeSet::new(),
            signed: VecDeque::new(),
        }
    }
}

impl Aggregator {
    /// Who of the local validators aggregates.
    pub(super) fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Whether nothing more of a committee will come from here.
    pub(super) fn is_settled(&self, slot: Slot, committee: u16) -> bool {
        let making = self.by_committee.get(&(slot, committee));
        self.roster.is_settled(slot) && making.is_none_or(Making::is_settled)
    }

    fn begin(&mut self, shared: &mut Shared<'_>, slot: Slot) {
        let start = shared.clock.phase_start(slot, Phase::Aggregate);
        let wanted = shared.deadlines(Kind::Aggregate, slot).wanted;
        let quarter_ns = wanted.since_ns(start) / 4;
        for quarters in [2, 3] {
            let at = start.saturating_add_ns(quarters * quarter_ns);
            self.timers.insert((at, slot));
        }
        for committee in 0..shared.config.layout.committees() {
            self.plan(shared, slot, committee);
        }
    }

    /// Groups the local aggregators of a committee by cell and vote, once they are known and the
    /// phase has begun.
    fn plan(&mut self, shared: &mut Shared<'_>, slot: Slot, committee: u16) {
        let Some(state) = shared.slot(slot) else {
            return;
        };
        let Some(own) = state.own else {
            return;
        };
        let serving = self.roster.serving(slot, committee);
        if state.phase < Some(Phase::Aggregate) || serving.is_empty() {
            return;
        }
        let making = self.by_committee.entry((slot, committee)).or_default();
        if making.planned {
            return;
        }
        making.planned = true;
        for maker in serving {
            let ballot = state.vote_of(maker).unwrap_or(own);
            let cell = maker.cell;
            let of = |plan: &&mut Plan| plan.cell == cell && plan.ballot == ballot;
            match making.plans.iter_mut().find(of) {
                Some(plan) => plan.makers.push(maker.clone()),
                None => making.plans.push(Plan {
                    cell,
                    ballot,
                    makers: vec![maker.clone()],
                    stage: Stage::Waiting,
                    without: None,
                }),
            }
        }
        self.advance(shared, slot, committee);
    }

    /// Starts what can be started: sums of cells whose votes are all verified (or have to do, at
    /// half of the phase), then signatures when all sums are there (or have to do, at three
    /// quarters).
    fn advance(&mut self, shared: &mut Shared<'_>, slot: Slot, committee: u16) {
        let start = shared.clock.phase_start(slot, Phase::Aggregate);
        let deadlines = shared.deadlines(Kind::Aggregate, slot);
        let passed_ns = shared.now.since_ns(start);
        let phase_ns = deadlines.wanted.since_ns(start);
        let hurry = passed_ns >= phase_ns / 2;
        let state = shared.slot(slot);
        let (Some(state), Some(making)) = (state, self.by_committee.get_mut(&(slot, committee)))
        else {
            return;
        };
        if state.phase < Some(Phase::Aggregate) {
            return;
        }
        let waiting = |plan: &&mut Plan| plan.stage == Stage::Waiting;
        for plan in making.plans.iter_mut().filter(waiting) {
            if !(hurry || state.votes_settled(plan.cell)) {
                continue;
            }
            plan.stage = Stage::Done;
            let Some(work) = aggregate_job(state, plan) else {
                continue;
            };
            plan.stage = Stage::Running;
            let request = Request {
                session: state.sessions.aggregate,
                message: work.statement.message,
                committee: Some(committee),
                subcommittee: Some(plan.cell.subcommittee),
                class: Class::Current,
                soft: deadlines.wanted,
                hard: deadlines.made,
                work: Work::Aggregate(work),
            };
            let job = Job::Make {
                slot,
                cell: plan.cell,
                ballot: plan.ballot,
                positions: summed(state, plan).map(|(position, _)| position).collect(),
            };
            shared.fx.spawn(request, Purpose::Aggregator(job));
        }
        let all_done = making.plans.iter().all(|plan| plan.stage == Stage::Done);
        if all_done || passed_ns >= phase_ns / 4 * 3 {
            self.sign(shared, slot, committee);
        }
    }

    fn finished(&mut self, shared: &mut Shared<'_>, job: Job, outcome: Outcome<Product>) {
        match job {
            Job::Make {
                slot,
                cell,
                ballot,
                positions,
            } => {
                self.made(shared, slot, cell, ballot, &positions, outcome);
                self.advance(shared, slot, cell.committee);
            }
            Job::Sign {
                slot,
                committee,
                aggregates,
            } => self.envelopes(shared, slot, committee, aggregates, outcome),
        }
    }

    fn made(
        &mut self,
        shared: &mut Shared<'_>,
        slot: Slot,
        cell: Cell,
        ballot: u16,
        positions: &[u32],
        outcome: Outcome<Product>,
    ) {
        let making = self.by_committee.get_mut(&(slot, cell.committee));
        let (Some(state), Some(making)) = (shared.slot(slot), making) else {
            return;
        };
        let of = |plan: &&mut Plan| plan.cell == cell && plan.ballot == ballot;
        let Some(plan) = making.plans.iter_mut().find(of) else {
            return;
        };
        plan.stage = Stage::Done;
        let len = state.layout().cell_len(cell) as usize;
        let fits = |made: &Evidence| evidence_fits(made, len, 1, shared.format.aggregate_evidence);
        match outcome {
            Outcome::Done(Product::Evidence(evidence)) if fits(&evidence) => {
                let vote = state.ballots.get(ballot).vote;
                let unsigned = plan.makers.iter().map(|maker| Aggregate {
                    vote,
                    cell,
                    sender: maker.validator,
                    proof: maker.proof.clone(),
                    evidence: evidence.clone(),
                    envelope: Bytes::from([]),
                });
                making.unsigned.extend(unsigned);
            }
            Outcome::Invalid(bad) if plan.without.is_none() => {
                let name = |i: usize| positions.get(i).copied();
                plan.without = Some(bad.into_iter().filter_map(name).collect());
                plan.stage = Stage::Waiting;
            }
            // The sum of these votes is no signature: nothing is published (a cell of two keys
            // that cancel, for BLS). Or the job was not run.
            _ => shared.fx.counters.jobs_failed += 1,
        }
    }

    fn sign(&mut self, shared: &mut Shared<'_>, slot: Slot, committee: u16) {
        let making = self.by_committee.get_mut(&(slot, committee));
        let (Some(state), Some(making)) = (shared.slot(slot), making) else {
            return;
        };
        let aggregates = std::mem::take(&mut making.unsigned);
        if aggregates.is_empty() {
            return;
        }
        making.signing += 1;
        let item = |aggregate: &Aggregate| SignItem {
            validator: aggregate.sender,
            role: Signer::Aggregate,
            message: digest::aggregate_message(shared.config.network(), aggregate, shared.format),
            guard: None,
        };
        let items: Vec<SignItem> = aggregates.iter().map(item).collect();
        let deadlines = shared.deadlines(Kind::Aggregate, slot);
        let request = Request {
            session: state.sessions.aggregate,
            // Jobs of one group replace each other, so it is named by what it signs.
            message: items[0].message,
            committee: Some(committee),
            subcommittee: None,
            class: Class::Duty,
            soft: deadlines.wanted,
            hard: deadlines.signed,
            work: Work::Sign(SignJob::new(slot, items)),
        };
        let job = Job::Sign {
            slot,
            committee,
            aggregates,
        };
        shared.fx.spawn(request, Purpose::Aggregator(job));
    }

    fn envelopes(
        &mut self,
        shared: &mut Shared<'_>,
        slot: Slot,
        committee: u16,
        aggregates: Vec<Aggregate>,
        outcome: Outcome<Product>,
    ) {
        if let Some(making) = self.by_committee.get_mut(&(slot, committee)) {
            making.signing -= 1;
        }
        let bytes = shared.info.sizes.duty_signature_bytes;
        let signatures = shared.signatures(outcome, aggregates.len(), bytes);
        for (mut aggregate, envelope) in
            aggregates.into_iter().zip(signatures.into_iter().flatten())
        {
            aggregate.envelope = envelope;
            self.signed.push_back(aggregate);
        }
    }

    fn close(&mut self, slot: Slot) {
        self.roster.close(slot);
        self.by_committee.retain(|(of, _), _| *of != slot);
        self.timers.retain(|(_, of)| *of != slot);
    }
}

impl Role for Aggregator {
    type Input = Input;
    type Made = Aggregate;

    fn handle(&mut self, shared: &mut Shared<'_>, input: Input) {
        match input {
            Input::Open { slot } => self.roster.open(shared, slot),
            Input::Begin { slot } => self.begin(shared, slot),
            Input::Votes { slot, committee } => self.advance(shared, slot, committee),
            Input::Finished { job, outcome } => self.finished(shared, job, outcome),
            Input::Drawn { draw, outcome } => {
                let (slot, committee) = (draw.slot, draw.committee);
                self.roster.drawn(shared, draw, outcome);
                self.plan(shared, slot, committee);
            }
            Input::Deadline => {
                if let Some((_, slot)) = self.timers.pop_first() {
                    for committee in 0..shared.config.layout.committees() {
                        self.advance(shared, slot, committee);
                    }
                }
            }
            Input::Close { slot } => self.close(slot),
        }
    }

    fn poll_output(&mut self, shared: &mut Shared<'_>) -> Option<Aggregate> {
        while let Some(signed) = self.signed.pop_front() {
            let gain = gain(shared.slot(signed.vote.slot), &signed);
            match shared.lateness(Kind::Aggregate, &signed.vote, gain) {
                Lateness::Publish => return Some(signed),
                // Nobody merges single aggregates of an older slot.
                Lateness::Keep | Lateness::Drop => shared.fx.counters.stale += 1,
            }
        }
        None
    }

    fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }
}

/// Signers that no accepted aggregate of the cell and vote contains.
fn gain(state: Option<&SlotState>, aggregate: &Aggregate) -> u32 {
    let mut signers = aggregate.evidence.support.signers();
    if let Some(state) = state {
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

/// Positions of the cell whose votes go into a plan's aggregate, with their signatures.
fn summed<'a>(state: &'a SlotState, plan: &'a Plan) -> impl Iterator<Item = (u32, &'a Bytes)> + 'a {
    let is_bad = |position: &u32| {
        let bad = plan.without.as_ref();
        bad.is_some_and(|bad| bad.contains(position))
    };
    let records = state
        .cell(plan.cell)
        .map_or(&[][..], |votes| &votes.records);
    let of_plan = move |(position, record): (u32, &'a Record)| match &record.first {
        Some((ballot, Some(signature))) if *ballot == plan.ballot && !is_bad(&position) => {
            Some((position, signature))
        }
        _ => None,
    };
    (0u32..).zip(records).filter_map(of_plan)
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
