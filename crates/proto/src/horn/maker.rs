//! Making of evidence by serving validators: from votes (an aggregator, level 1) or from evidence of the
//! level below (a combiner, every other level).
//!
//! Local validators that serve in a unit and cast the same vote share one piece of evidence. It is made
//! when all its possible inputs are verified, or at half of the phase. Each validator publishes it under
//! its own envelope, all at once or in turn.

use alphorn_scheme::{
    Bytes, Class, Evidence, Outcome, Product, Role as Signer, SignItem, SignJob, Work,
};
use alphorn_types::{Bitfield, Slot, Time, Unit};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::ballot::Ballot;
use super::config::{Config, PPM, Publish};
use super::deadlines::Lateness;
use super::effects::Request;
use super::role::{Role, Shared};
use super::roster::{Draw, Roster};
use super::state::{Serving, SlotState, evidence_fits};
use super::task::Purpose;
use super::{aggregator, combiner};
use crate::slot::Phase;
use crate::wire::{Aggregate, Entry, digest};

/// Inputs of a maker.
pub(super) enum Input {
    /// A slot begins.
    Open { slot: Slot },
    /// The phase of the level begins.
    Begin { slot: Slot },
    /// The inputs to evidence of a committee's units were verified or made.
    Ready { slot: Slot, committee: u16 },
    /// Evidence of a unit was accepted, or published here. Own evidence may add too little to it, or be
    /// next.
    Accepted { slot: Slot, unit: Unit },
    /// A job ended.
    Finished { job: Job, outcome: Outcome<Product> },
    /// The tickets of a committee were drawn.
    Drawn {
        draw: Draw,
        outcome: Outcome<Product>,
    },
    /// The time of [`Role::next_deadline`] has come.
    Deadline,
    /// Messages of the slot are no longer accepted.
    Close { slot: Slot },
}

/// A job of a maker.
pub(super) struct Job {
    pub(super) unit: Unit,
    ballot: Arc<Ballot>,
    task: Task,
}

enum Task {
    /// Make the evidence.
    Make,
    /// Sign the envelopes.
    Sign(Vec<Aggregate>),
}

impl Job {
    /// The slot in which the votes were cast.
    pub(super) fn slot(&self) -> Slot {
        self.ballot.vote.slot
    }
}

/// Outputs of a maker.
pub(super) enum Made {
    /// An aggregate to be published.
    Aggregate(Aggregate),
    /// Evidence of the top level made too late for gossip, for a block made here.
    Late(Entry),
}

/// Evidence that can be made now.
pub(super) struct Draft {
    /// The origin of each input of the job: a position of the cell, or a sender.
    pub(super) inputs: Vec<u32>,
    /// The voters it will cover.
    pub(super) covered: Bitfield,
    pub(super) work: Work,
}

/// Progress of a plan.
enum Stage {
    /// Inputs are still being verified, or the first turn has not come.
    Waiting,
    /// The job runs.
    Running,
    /// The evidence is made. The serving validators publish it in turn.
    Made(Evidence),
    /// It cannot be made.
    Failed,
}

/// A local serving validator, and whether it is done.
struct Member {
    serving: Serving,
    done: bool,
}

/// Evidence to be made for one unit and one vote.
struct Plan {
    ballot: u16,
    /// By rank, the first to publish first.
    members: Vec<Member>,
    stage: Stage,
    signing: bool,
    /// Origins of the inputs of the running job.
    inputs: Vec<u32>,
    /// Inputs named by a failed job. The job is retried once, without them.
    without: Option<Vec<u32>>,
}

impl Plan {
    /// Whether the plan will produce nothing more.
    fn is_settled(&self) -> bool {
        match self.stage {
            Stage::Waiting | Stage::Running => false,
            Stage::Made(_) => !self.signing && self.members.iter().all(|member| member.done),
            Stage::Failed => true,
        }
    }
}

/// Wake-up of a maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Proceed with the inputs available, in all committees.
    Hurry(Slot),
    /// A turn has come.
    Turn(Slot, Unit),
}

/// The local validators that serve at a level.
pub(super) struct Maker {
    level: u8,
    roster: Roster,
    /// Plans of each unit. Present once the unit is planned.
    plans: BTreeMap<(Slot, Unit), Vec<Plan>>,
    timers: BTreeSet<(Time, Timer)>,
    /// Aggregates with their envelopes, to be published.
    signed: VecDeque<Aggregate>,
    /// Evidence made after its slot was closed.
    salvaged: VecDeque<Entry>,
}

/// The keys of a committee's plans.
fn of_committee(level: u8, slot: Slot, committee: u16) -> std::ops::RangeInclusive<(Slot, Unit)> {
    let unit = |index| Unit::new(level, committee, index);
    (slot, unit(0))..=(slot, unit(u16::MAX))
}

impl Maker {
    pub(super) fn new(level: u8) -> Self {
        Self {
            level,
            roster: Roster::new(level),
            plans: BTreeMap::new(),
            timers: BTreeSet::new(),
            signed: VecDeque::new(),
            salvaged: VecDeque::new(),
        }
    }

    /// The local validators that serve.
    pub(super) fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Whether this maker will produce nothing more for a committee.
    pub(super) fn is_settled(&self, slot: Slot, committee: u16) -> bool {
        let plans = self.plans.range(of_committee(self.level, slot, committee));
        let mut plans = plans.flat_map(|(_, plans)| plans);
        self.roster.is_settled(slot) && plans.all(Plan::is_settled)
    }

    fn phase(&self) -> Phase {
        Phase::Level(self.level)
    }

    fn begin(&mut self, shared: &mut Shared<'_>, slot: Slot) {
        let start = shared.clock.phase_start(slot, self.phase());
        let wanted = shared.deadlines(self.phase(), slot).wanted;
        // At half of the phase, proceed with whatever is available. Missing inputs must not cost the
        // others their votes, and making, signing and the network need the second half.
        let half = start.saturating_add_ns(wanted.since_ns(start) / 2);
        self.timers.insert((half, Timer::Hurry(slot)));
        for committee in 0..shared.config.layout.committees() {
            self.plan(shared, slot, committee);
        }
    }

    /// Groups the local serving validators of a committee by unit and vote, once they are known and the
    /// phase has begun.
    fn plan(&mut self, shared: &mut Shared<'_>, slot: Slot, committee: u16) {
        let Some(state) = shared.slot(slot) else {
            return;
        };
        let Some(own) = state.own else {
            return;
        };
        let serving = self.roster.serving(slot, committee);
        let mut planned = self.plans.range(of_committee(self.level, slot, committee));
        if state.phase < Some(self.phase()) || planned.next().is_some() || serving.is_empty() {
            return;
        }
        let mut groups: BTreeMap<(Unit, u16), Vec<Member>> = BTreeMap::new();
        for serving in serving {
            // A validator aggregates the vote it cast itself, whatever the other validators of this node
            // saw. One that has not voted aggregates what this node would vote for.
            let ballot = state.vote_of(serving.validator).unwrap_or(own);
            let member = Member {
                serving: serving.clone(),
                done: false,
            };
            let group = groups.entry((serving.unit, ballot)).or_default();
            group.push(member);
        }
        for ((unit, ballot), mut members) in groups {
            members.sort_by_key(|member| (member.serving.rank, member.serving.validator));
            let plan = Plan {
                ballot,
                members,
                stage: Stage::Waiting,
                signing: false,
                inputs: Vec::new(),
                without: None,
            };
            self.plans.entry((slot, unit)).or_default().push(plan);
        }
        self.advance(shared, slot, committee);
    }

    /// Starts making the evidence of a committee's units whose inputs are all verified (or at half of the
    /// phase, with what there is), once the first turn has come.
    fn advance(&mut self, shared: &mut Shared<'_>, slot: Slot, committee: u16) {
        let start = shared.clock.phase_start(slot, self.phase());
        let deadlines = shared.deadlines(self.phase(), slot);
        let hurry = shared.now.since_ns(start) >= deadlines.wanted.since_ns(start) / 2;
        let Some(state) = shared.slot(slot) else {
            return;
        };
        if state.phase < Some(self.phase()) {
            return;
        }
        let keys = of_committee(self.level, slot, committee);
        for (&(_, unit), plans) in self.plans.range_mut(keys) {
            if !(hurry || state.is_settled(unit)) {
                continue;
            }
            let waiting = |plan: &&mut Plan| matches!(plan.stage, Stage::Waiting);
            for plan in plans.iter_mut().filter(waiting) {
                if let Some(first) = plan.members.first() {
                    let due = shared.config.turn(start, &first.serving);
                    if due > shared.now {
                        self.timers.insert((due, Timer::Turn(slot, unit)));
                        continue;
                    }
                }
                start_plan(shared, state, unit, plan);
            }
        }
    }

    fn finished(&mut self, shared: &mut Shared<'_>, job: Job, outcome: Outcome<Product>) {
        let Job { unit, ballot, task } = job;
        match task {
            Task::Make => self.made(shared, unit, &ballot, outcome),
            Task::Sign(aggregates) => {
                if let Some(plan) = self.plan_of(shared, unit, &ballot) {
                    plan.signing = false;
                }
                let bytes = shared.info.sizes.duty_signature_bytes;
                let signatures = shared.signatures(outcome, aggregates.len(), bytes);
                let signatures = signatures.into_iter().flatten();
                for (mut aggregate, envelope) in aggregates.into_iter().zip(signatures) {
                    aggregate.envelope = envelope;
                    self.signed.push_back(aggregate);
                }
            }
        }
    }

    /// The plan of a ballot in a unit.
    fn plan_of(&mut self, shared: &Shared<'_>, unit: Unit, ballot: &Ballot) -> Option<&mut Plan> {
        let slot = ballot.vote.slot;
        let index = shared.slot(slot)?.ballots.index(ballot)?;
        let mut plans = self.plans.get_mut(&(slot, unit))?.iter_mut();
        plans.find(|plan| plan.ballot == index)
    }

    fn made(
        &mut self,
        shared: &mut Shared<'_>,
        unit: Unit,
        ballot: &Arc<Ballot>,
        outcome: Outcome<Product>,
    ) {
        let slot = ballot.vote.slot;
        let made = match outcome {
            Outcome::Done(Product::Evidence(evidence))
                if evidence_fits(&evidence, shared.format, unit) =>
            {
                Ok(evidence)
            }
            Outcome::Invalid(bad) => Err(bad),
            _ => Err(Vec::new()),
        };
        if shared.slot(slot).is_none() {
            return self.salvage(shared, unit, ballot, made.ok());
        }
        let Some(plan) = self.plan_of(shared, unit, ballot) else {
            return;
        };
        match made {
            Ok(evidence) => {
                plan.stage = Stage::Made(evidence);
                self.publish(shared, slot, unit);
            }
            // Retry once: a job that named other inputs each time would go on for ever.
            Err(bad) if !bad.is_empty() && plan.without.is_none() => {
                let name = |i: usize| plan.inputs.get(i).copied();
                plan.without = Some(bad.into_iter().filter_map(name).collect());
                plan.stage = Stage::Waiting;
                self.advance(shared, slot, unit.committee);
            }
            // The sum of these votes may not be a signature (a cell of two keys that cancel, for BLS), or
            // the job was not run.
            Err(_) => {
                plan.stage = Stage::Failed;
                shared.fx.counters.jobs_failed += 1;
            }
        }
    }

    /// Handles evidence made after its slot was closed. Gossip no longer accepts it, but a block made
    /// here can take evidence of the top level. The job has verified it.
    fn salvage(
        &mut self,
        shared: &mut Shared<'_>,
        unit: Unit,
        ballot: &Ballot,
        made: Option<Evidence>,
    ) {
        let is_top = self.level == shared.config.layout.levels();
        match made {
            Some(evidence) if is_top && shared.chain.check_vote(&ballot.vote).is_ok() => {
                shared.fx.counters.salvaged += 1;
                self.salvaged.push_back(Entry {
                    vote: ballot.vote,
                    committee: unit.committee,
                    evidence,
                });
            }
            _ => shared.fx.counters.stale += 1,
        }
    }

    /// Signs the envelopes of finished evidence: all at once, or one after the other, each when its turn
    /// has come and only if it adds enough to what was accepted.
    fn publish(&mut self, shared: &mut Shared<'_>, slot: Slot, unit: Unit) {
        let start = shared.clock.phase_start(slot, self.phase());
        let plans = self.plans.get_mut(&(slot, unit));
        let (Some(state), Some(plans)) = (shared.slot(slot), plans) else {
            return;
        };
        for plan in plans.iter_mut().filter(|plan| !plan.signing) {
            let Stage::Made(evidence) = &plan.stage else {
                continue;
            };
            let ballot = state.ballots.get(plan.ballot);
            let mut aggregates = Vec::new();
            for member in plan.members.iter_mut().filter(|member| !member.done) {
                let due = shared.config.turn(start, &member.serving);
                if due > shared.now {
                    self.timers.insert((due, Timer::Turn(slot, unit)));
                    // They are sorted by rank, so none after it is due either.
                    break;
                }
                // Done even if it is held back: accepted evidence only grows, so it would not add more
                // later.
                member.done = true;
                let signers = evidence.support.signers();
                if !adds_enough(state, shared.config, unit, plan.ballot, &signers) {
                    shared.fx.held_back(slot, shared.format.kind(unit.level), 1);
                    continue;
                }
                aggregates.push(Aggregate {
                    vote: ballot.vote,
                    unit,
                    sender: member.serving.validator,
                    proof: member.serving.proof.clone(),
                    evidence: evidence.clone(),
                    envelope: Bytes::from([]),
                });
                // The next one is judged by what it adds once this one is accepted.
                if shared.config.level(self.level).publish == Publish::Staged {
                    break;
                }
            }
            if !aggregates.is_empty() {
                plan.signing = true;
                sign(shared, state, unit, ballot.clone(), aggregates);
            }
        }
    }

    fn deadline(&mut self, shared: &mut Shared<'_>) {
        match self.timers.pop_first() {
            Some((_, Timer::Hurry(slot))) => {
                for committee in 0..shared.config.layout.committees() {
                    self.advance(shared, slot, committee);
                }
            }
            Some((_, Timer::Turn(slot, unit))) => {
                self.advance(shared, slot, unit.committee);
                self.publish(shared, slot, unit);
            }
            None => {}
        }
    }

    fn close(&mut self, slot: Slot) {
        self.roster.close(slot);
        self.plans.retain(|(of, _), _| *of != slot);
        let of = |timer: &Timer| match timer {
            Timer::Hurry(of) | Timer::Turn(of, _) => *of,
        };
        self.timers.retain(|(_, timer)| of(timer) != slot);
    }
}

impl Role for Maker {
    type Input = Input;
    type Made = Made;

    fn handle(&mut self, shared: &mut Shared<'_>, input: Input) {
        match input {
            Input::Open { slot } => self.roster.open(shared, slot),
            Input::Begin { slot } => self.begin(shared, slot),
            Input::Ready { slot, committee } => self.advance(shared, slot, committee),
            Input::Accepted { slot, unit } => self.publish(shared, slot, unit),
            Input::Finished { job, outcome } => self.finished(shared, job, outcome),
            Input::Drawn { draw, outcome } => {
                let (slot, committee) = (draw.slot, draw.committee);
                self.roster.drawn(shared, draw, outcome);
                self.plan(shared, slot, committee);
            }
            Input::Deadline => self.deadline(shared),
            Input::Close { slot } => self.close(slot),
        }
    }

    fn poll_output(&mut self, shared: &mut Shared<'_>) -> Option<Made> {
        while let Some(signed) = self.signed.pop_front() {
            // Judge lateness when the message leaves, not when it was planned: a signature may have
            // waited behind a long job, and what others published in the meantime counts.
            let gain = gain(shared.slot(signed.vote.slot), &signed);
            let is_top = self.level == shared.config.layout.levels();
            match shared.lateness(self.phase(), &signed.vote, gain) {
                Lateness::Publish => return Some(Made::Aggregate(signed)),
                Lateness::Keep if is_top => return Some(Made::Late(Entry::from(&signed))),
                // No combiner uses evidence of an older slot.
                Lateness::Keep | Lateness::Drop => shared.fx.counters.stale += 1,
            }
        }
        self.salvaged.pop_front().map(Made::Late)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }
}

/// Starts the job of a plan, if there are inputs and the evidence would add enough.
fn start_plan(shared: &mut Shared<'_>, state: &SlotState, unit: Unit, plan: &mut Plan) {
    // Unless a job starts below.
    plan.stage = Stage::Failed;
    let without = plan.without.as_deref().unwrap_or_default();
    let draft = match unit.level {
        1 => aggregator::draft,
        _ => combiner::draft,
    };
    let Some(draft) = draft(shared, state, unit, plan.ballot, without) else {
        return;
    };
    if !adds_enough(state, shared.config, unit, plan.ballot, &draft.covered) {
        let (kind, count) = (shared.format.kind(unit.level), plan.members.len() as u64);
        return shared.fx.held_back(state.slot, kind, count);
    }
    plan.stage = Stage::Running;
    plan.inputs = draft.inputs;
    let ballot = state.ballots.get(plan.ballot).clone();
    let (message, task) = (ballot.message, Task::Make);
    let job = Job { unit, ballot, task };
    spawn(shared, state, message, Class::Current, draft.work, job);
}

/// Signs the envelopes of aggregates.
fn sign(
    shared: &mut Shared<'_>,
    state: &SlotState,
    unit: Unit,
    ballot: Arc<Ballot>,
    aggregates: Vec<Aggregate>,
) {
    let item = |aggregate: &Aggregate| SignItem {
        validator: aggregate.sender,
        role: Signer::of_level(unit.level),
        message: digest::aggregate_message(shared.config.network(), aggregate, shared.format),
        guard: None,
    };
    let items: Vec<SignItem> = aggregates.iter().map(item).collect();
    // A driver may let a newer job of a group replace one that waits, so the group is named after
    // what it signs.
    let message = items[0].message;
    let work = Work::Sign(SignJob::new(state.slot, items));
    let task = Task::Sign(aggregates);
    let job = Job { unit, ballot, task };
    spawn(shared, state, message, Class::Duty, work, job);
}

fn spawn(
    shared: &mut Shared<'_>,
    state: &SlotState,
    message: [u8; 32],
    class: Class,
    work: Work,
    job: Job,
) {
    let unit = job.unit;
    let deadlines = shared.deadlines(Phase::Level(unit.level), state.slot);
    let is_top = unit.level == shared.config.layout.levels();
    let request = Request {
        session: match is_top {
            true => state.sessions.collect,
            false => state.sessions.aggregate,
        },
        message,
        committee: Some(unit.committee),
        subcommittee: (!is_top).then(|| number(shared.config, unit)),
        class,
        soft: deadlines.wanted,
        hard: match job.task {
            Task::Make => deadlines.made,
            Task::Sign(_) => deadlines.signed,
        },
        work,
    };
    shared.fx.spawn(request, Purpose::Maker(job));
}

/// A number unique among all units of a committee, at any level. For a cell it is the subcommittee's.
fn number(config: &Config, unit: Unit) -> u16 {
    // A driver may let a newer job of a group replace one that waits, so a cell and a group of cells
    // must not share a number.
    let below = (1..unit.level).map(|level| config.layout.units_of_committee(level));
    below.sum::<u16>() + unit.index
}

/// Under staged publishing: whether `signers` add enough to the best accepted evidence.
fn adds_enough(
    state: &SlotState,
    config: &Config,
    unit: Unit,
    ballot: u16,
    signers: &Bitfield,
) -> bool {
    let level = config.level(unit.level);
    let best = match level.publish {
        Publish::All => None,
        Publish::Staged => state.best(unit, ballot),
    };
    let Some(best) = best else {
        return true;
    };
    let committees = &state.committees;
    let all = Bitfield::ones(signers.len());
    // All validators weigh at most 2^33, so the product stays below 2^53.
    let least = (committees.weigh(unit, &all) * u64::from(level.stage_gain_ppm))
        .div_ceil(u64::from(PPM))
        // Even where any gain will do, there must be one.
        .max(1);
    committees.weigh_gain(unit, signers, &best.evidence.support.signers()) >= least
}

/// Signers that no accepted evidence of the unit and vote contains.
fn gain(state: Option<&SlotState>, aggregate: &Aggregate) -> u32 {
    let mut signers = aggregate.evidence.support.signers();
    if let Some(state) = state {
        for accepted in state.accepted(aggregate.unit) {
            if accepted.vote == aggregate.vote {
                signers.subtract(&accepted.evidence.support.signers());
            }
        }
    }
    signers.count_ones() as u32
}
