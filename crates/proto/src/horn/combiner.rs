//! The combiner: makes evidence of evidence. It covers each cell of its committee with aggregates,
//! and sums over the cells.

mod parts;

use alphorn_scheme::{
    Bytes, Class, Evidence, Outcome, Product, Role as Signer, SessionId, SignItem, SignJob, Work,
};
use alphorn_types::{Slot, Time, Validator};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::ballot::Ballot;
use super::config::Publish;
use super::deadlines::Lateness;
use super::effects::Request;
use super::role::{Role, Shared};
use super::roster::{Draw, Roster};
use super::state::{Serving, SlotState, evidence_fits};
use super::task::Purpose;
use crate::slot::Phase;
use crate::wire::{Collection, Entry, Kind, digest};
use parts::{adds_enough, collect_job};

/// What happens to a combiner.
pub(super) enum Input {
    /// A slot begins.
    Open { slot: Slot },
    /// The phase begins.
    Begin { slot: Slot },
    /// Evidence of a committee's cells was verified or made.
    Evidence { slot: Slot, committee: u16 },
    /// A collection of a committee was accepted, or published here: own ones may add too little to
    /// it, or be next.
    Accepted { slot: Slot, committee: u16 },
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

/// A job of a combiner.
pub(super) enum Job {
    /// Make the collection of a committee.
    Make { committee: u16, ballot: Arc<Ballot> },
    /// Sign the envelopes of a committee's collections.
    Sign {
        committee: u16,
        ballot: Arc<Ballot>,
        collections: Vec<Collection>,
    },
}

impl Job {
    /// Whose work it is.
    pub(super) fn place(&self) -> (Slot, u16) {
        match self {
            Self::Make { committee, ballot }
            | Self::Sign {
                committee, ballot, ..
            } => (ballot.vote.slot, *committee),
        }
    }
}

/// What a combiner made.
pub(super) enum Made {
    /// For the global topic.
    Collection(Collection),
    /// Too late for gossip: for an own block.
    Late(Entry),
}

/// How far the work on a plan is.
enum Stage {
    /// Aggregates are still being verified, or the first collector's turn has not come.
    Waiting,
    /// The job runs.
    Running,
    /// It is made; collectors publish it in their turn.
    Made(Evidence),
    /// It cannot be made.
    Failed,
}

/// A local collector, and whether it is done.
struct Maker {
    serving: Serving,
    done: bool,
}

/// A collection that is to be made: of one committee, for one vote.
struct Plan {
    ballot: u16,
    /// By rank: first to publish first.
    makers: Vec<Maker>,
    stage: Stage,
    signing: bool,
    /// Senders of the aggregates in the running job, in the order of its parts.
    senders: Vec<Validator>,
    /// Senders whose aggregates a failed job named; it is tried again once, without them.
    without: Option<Vec<Validator>>,
}

/// When a combiner goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// With what it has, in all committees.
    Hurry(Slot),
    /// A collector's turn has come.
    Turn(Slot, u16),
}

/// The collectors among the local validators.
pub(super) struct Combiner {
    roster: Roster,
    /// What is made of a committee's evidence; there once it is planned.
    plans: BTreeMap<(Slot, u16), Vec<Plan>>,
    timers: BTreeSet<(Time, Timer)>,
    /// With their envelopes, to be published.
    signed: VecDeque<Collection>,
    /// Made after their slot was closed.
    salvaged: VecDeque<Entry>,
}

impl Default for Combiner {
    fn default() -> Self {
        Self {
            roster: Roster::new(Kind::Collection),
            plans: BTreeMap::new(),
            timers: BTreeSet::new(),
            signed: VecDeque::new(),
            salvaged: VecDeque::new(),
        }
    }
}

impl Combiner {
    /// Who of the local validators collects.
    pub(super) fn roster(&self) -> &Roster {
        &self.roster
    }

    fn begin(&mut self, shared: &mut Shared<'_>, slot: Slot) {
        let start = shared.clock.phase_start(slot, Phase::Collect);
        let phase_ns = shared
            .deadlines(Kind::Collection, slot)
            .wanted
            .since_ns(start);
        let half = start.saturating_add_ns(phase_ns / 2);
        self.timers.insert((half, Timer::Hurry(slot)));
        for committee in 0..shared.config.layout.committees() {
            self.plan(shared, slot, committee);
        }
    }

    /// Groups the local collectors of a committee by vote, once they are known and the phase has
    /// begun.
    fn plan(&mut self, shared: &mut Shared<'_>, slot: Slot, committee: u16) {
        let Some(state) = shared.slot(slot) else {
            return;
        };
        let Some(own) = state.own else {
            return;
        };
        let serving = self.roster.serving(slot, committee);
        let planned = self.plans.contains_key(&(slot, committee));
        if state.phase < Some(Phase::Collect) || planned || serving.is_empty() {
            return;
        }
        let mut by_ballot: BTreeMap<u16, Vec<Maker>> = BTreeMap::new();
        for serving in serving {
            let ballot = state.vote_of(serving).unwrap_or(own);
            let maker = Maker {
                serving: serving.clone(),
                done: false,
            };
            by_ballot.entry(ballot).or_default().push(maker);
        }
        let plan = |(ballot, mut makers): (u16, Vec<Maker>)| {
            makers.sort_by_key(|maker| (maker.serving.rank, maker.serving.validator));
            Plan {
                ballot,
                makers,
                stage: Stage::Waiting,
                signing: false,
                senders: Vec::new(),
                without: None,
            }
        };
        let plans = by_ballot.into_iter().map(plan).collect();
        self.plans.insert((slot, committee), plans);
        self.advance(shared, slot, committee);
    }

    /// Starts the collections of a committee whose aggregates are all verified (or have to do, at
    /// half of the phase), when the first collector's turn has come.
    fn advance(&mut self, shared: &mut Shared<'_>, slot: Slot, committee: u16) {
        let start = shared.clock.phase_start(slot, Phase::Collect);
        let deadlines = shared.deadlines(Kind::Collection, slot);
        let hurry = shared.now.since_ns(start) >= deadlines.wanted.since_ns(start) / 2;
        let plans = self.plans.get_mut(&(slot, committee));
        let (Some(state), Some(plans)) = (shared.slot(slot), plans) else {
            return;
        };
        let settled = state.aggregates_settled(committee) && self.roster.is_settled(slot);
        if state.phase < Some(Phase::Collect) || !(settled || hurry) {
            return;
        }
        let waiting = |plan: &&mut Plan| matches!(plan.stage, Stage::Waiting);
        for plan in plans.iter_mut().filter(waiting) {
            if let Some(maker) = plan.makers.first() {
                let due = shared.config.turn(start, &maker.serving);
                if due > shared.now {
                    self.timers.insert((due, Timer::Turn(slot, committee)));
                    continue;
                }
            }
            plan.stage = Stage::Failed;
            let (covered, work) = collect_job(state, shared.config, shared.info, committee, plan);
            if !adds_enough(state, shared.config, committee, plan.ballot, &covered) {
                shared.fx.held_back(slot, plan.makers.len() as u64);
            } else if !work.parts.is_empty() {
                plan.stage = Stage::Running;
                let request = Request {
                    session: state.sessions.collect,
                    message: work.statement.message,
                    committee: Some(committee),
                    subcommittee: None,
                    class: Class::Current,
                    soft: deadlines.wanted,
                    hard: deadlines.made,
                    work: Work::Combine(work),
                };
                let ballot = state.ballots.get(plan.ballot).clone();
                let job = Job::Make { committee, ballot };
                shared.fx.spawn(request, Purpose::Combiner(job));
            }
        }
    }

    fn finished(&mut self, shared: &mut Shared<'_>, job: Job, outcome: Outcome<Product>) {
        match job {
            Job::Make { committee, ballot } => self.made(shared, committee, &ballot, outcome),
            Job::Sign {
                committee,
                ballot,
                collections,
            } => self.envelopes(shared, committee, &ballot, collections, outcome),
        }
    }

    fn made(
        &mut self,
        shared: &mut Shared<'_>,
        committee: u16,
        ballot: &Arc<Ballot>,
        outcome: Outcome<Product>,
    ) {
        let slot = ballot.vote.slot;
        let len = shared.config.layout.committee_len(committee) as usize;
        let made = match outcome {
            Outcome::Done(Product::Evidence(evidence)) => Some(evidence)
                .filter(|made| {
                    let length = shared.format.collection_evidence;
                    evidence_fits(made, len, shared.config.multiplicity_max, length)
                })
                .ok_or_else(Vec::new),
            Outcome::Invalid(bad) => Err(bad),
            _ => Err(Vec::new()),
        };
        let Some(state) = shared.slot(slot) else {
            return self.salvage(shared, committee, ballot, made.ok());
        };
        let index = state.ballots.index(ballot);
        let plans = self.plans.get_mut(&(slot, committee)).into_iter();
        let Some(plan) = plans.flatten().find(|plan| Some(plan.ballot) == index) else {
            return;
        };
        match made {
            Ok(evidence) => {
                plan.stage = Stage::Made(evidence);
                self.publish(shared, slot, committee);
            }
            Err(bad) if !bad.is_empty() && plan.without.is_none() => {
                let name = |i: usize| plan.senders.get(i).copied();
                plan.without = Some(bad.into_iter().filter_map(name).collect());
                plan.stage = Stage::Waiting;
                self.advance(shared, slot, committee);
            }
            Err(_) => {
                plan.stage = Stage::Failed;
                shared.fx.counters.jobs_failed += 1;
            }
        }
    }

    /// A collection that was made after its slot was closed: gossip takes it no more, an own block
    /// does. The job has verified it.
    fn salvage(
        &mut self,
        shared: &mut Shared<'_>,
        committee: u16,
        ballot: &Ballot,
        made: Option<Evidence>,
    ) {
        match made {
            Some(evidence) if shared.chain.check_vote(&ballot.vote).is_ok() => {
                shared.fx.counters.salvaged += 1;
                self.salvaged.push_back(Entry {
                    vote: ballot.vote,
                    committee,
                    evidence,
                });
            }
            _ => shared.fx.counters.stale += 1,
        }
    }

    /// Has the envelopes of made collections signed: all at once, or one after the other, each
    /// when its collector's turn has come and only if it adds enough to what was accepted.
    fn publish(&mut self, shared: &mut Shared<'_>, slot: Slot, committee: u16) {
        let start = shared.clock.phase_start(slot, Phase::Collect);
        let plans = self.plans.get_mut(&(slot, committee));
        let (Some(state), Some(plans)) = (shared.slot(slot), plans) else {
            return;
        };
        for plan in plans.iter_mut().filter(|plan| !plan.signing) {
            let Stage::Made(evidence) = &plan.stage else {
                continue;
            };
            let ballot = state.ballots.get(plan.ballot);
            let mut collections = Vec::new();
            for maker in plan.makers.iter_mut().filter(|maker| !maker.done) {
                let due = shared.config.turn(start, &maker.serving);
                if due > shared.now {
                    self.timers.insert((due, Timer::Turn(slot, committee)));
                    break;
                }
                maker.done = true;
                let signers = evidence.support.signers();
                if !adds_enough(state, shared.config, committee, plan.ballot, &signers) {
                    shared.fx.held_back(slot, 1);
                    continue;
                }
                collections.push(Collection {
                    vote: ballot.vote,
                    committee,
                    sender: maker.serving.validator,
                    proof: maker.serving.proof.clone(),
                    evidence: evidence.clone(),
                    envelope: Bytes::from([]),
                });
                if shared.config.publish == Publish::Staged {
                    break;
                }
            }
            if !collections.is_empty() {
                plan.signing = true;
                let session = state.sessions.collect;
                sign(shared, session, committee, ballot.clone(), collections);
            }
        }
    }

    fn envelopes(
        &mut self,
        shared: &mut Shared<'_>,
        committee: u16,
        ballot: &Arc<Ballot>,
        collections: Vec<Collection>,
        outcome: Outcome<Product>,
    ) {
        let slot = ballot.vote.slot;
        let state = shared.slot(slot);
        let index = state.and_then(|state| state.ballots.index(ballot));
        let plans = self.plans.get_mut(&(slot, committee)).into_iter();
        if let Some(plan) = plans.flatten().find(|plan| Some(plan.ballot) == index) {
            plan.signing = false;
        }
        let bytes = shared.info.sizes.duty_signature_bytes;
        let signatures = shared.signatures(outcome, collections.len(), bytes);
        for (mut collection, envelope) in collections
            .into_iter()
            .zip(signatures.into_iter().flatten())
        {
            collection.envelope = envelope;
            self.signed.push_back(collection);
        }
    }

    fn deadline(&mut self, shared: &mut Shared<'_>) {
        match self.timers.pop_first() {
            Some((_, Timer::Hurry(slot))) => {
                for committee in 0..shared.config.layout.committees() {
                    self.advance(shared, slot, committee);
                }
            }
            Some((_, Timer::Turn(slot, committee))) => {
                self.advance(shared, slot, committee);
                self.publish(shared, slot, committee);
            }
            None => {}
        }
    }

    fn drawn(&mut self, shared: &mut Shared<'_>, draw: Draw, outcome: Outcome<Product>) {
        let (slot, committee) = (draw.slot, draw.committee);
        self.roster.drawn(shared, draw, outcome);
        self.plan(shared, slot, committee);
        // All committees wait for the last draw, which may have been this one.
        if self.roster.is_settled(slot) {
            for committee in 0..shared.config.layout.committees() {
                self.advance(shared, slot, committee);
            }
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

impl Role for Combiner {
    type Input = Input;
    type Made = Made;

    fn handle(&mut self, shared: &mut Shared<'_>, input: Input) {
        match input {
            Input::Open { slot } => self.roster.open(shared, slot),
            Input::Begin { slot } => self.begin(shared, slot),
            Input::Evidence { slot, committee } => self.advance(shared, slot, committee),
            Input::Accepted { slot, committee } => self.publish(shared, slot, committee),
            Input::Finished { job, outcome } => self.finished(shared, job, outcome),
            Input::Drawn { draw, outcome } => self.drawn(shared, draw, outcome),
            Input::Deadline => self.deadline(shared),
            Input::Close { slot } => self.close(slot),
        }
    }

    fn poll_output(&mut self, shared: &mut Shared<'_>) -> Option<Made> {
        while let Some(signed) = self.signed.pop_front() {
            let gain = gain(shared.slot(signed.vote.slot), &signed);
            match shared.lateness(Kind::Collection, &signed.vote, gain) {
                Lateness::Publish => return Some(Made::Collection(signed)),
                Lateness::Keep => return Some(Made::Late(Entry::from(&signed))),
                Lateness::Drop => shared.fx.counters.stale += 1,
            }
        }
        self.salvaged.pop_front().map(Made::Late)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }
}

/// Has the envelopes of collections signed.
fn sign(
    shared: &mut Shared<'_>,
    session: SessionId,
    committee: u16,
    ballot: Arc<Ballot>,
    collections: Vec<Collection>,
) {
    let (network, slot) = (shared.config.network(), ballot.vote.slot);
    let item = |collection: &Collection| SignItem {
        validator: collection.sender,
        role: Signer::Collection,
        message: digest::collection_message(network, collection, shared.format),
        guard: None,
    };
    let items: Vec<SignItem> = collections.iter().map(item).collect();
    let deadlines = shared.deadlines(Kind::Collection, slot);
    let request = Request {
        session,
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
        committee,
        ballot,
        collections,
    };
    shared.fx.spawn(request, Purpose::Combiner(job));
}

/// Signers that the best accepted collection of the committee and vote lacks.
fn gain(state: Option<&SlotState>, collection: &Collection) -> u32 {
    let mut signers = collection.evidence.support.signers();
    if let Some(state) = state
        && let Some(ballot) = state.ballots.find(&collection.vote)
        && let Some(ballot) = state.ballots.index(&ballot)
        && let Some(best) = state.best_collection(collection.committee, ballot)
    {
        signers.subtract(&best.evidence.support.signers());
    }
    signers.count_ones() as u32
}
