//! The collector of a committee: covers each cell with aggregates, and sums over the cells.

use alphorn_scheme::{
    self as scheme, Bytes, CombineJob, Evidence, Layer, Op, Outcome, Part, Role, SessionId,
    SignItem, SignJob,
};
use alphorn_types::{Bitfield, Cell, Slot, Validator};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::ballot::Ballot;
use super::config::{Config, PPM, Publish, SchemeInfo};
use super::cover::{self, Candidate};
use super::deadlines::Lateness;
use super::effects::Request;
use super::gate::statement;
use super::machine::{Horn, Timer};
use super::state::{KeptAggregate, Serving, SlotState, Waiting, evidence_fits};
use super::task::Purpose;
use crate::chain::INCLUSION_SLOTS;
use crate::contract::Class;
use crate::job::{Product, Work};
use crate::slot::Phase;
use crate::wire::{Collection, Entry, Topic, digest};

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
    ballot: u8,
    /// By rank: first to publish first.
    makers: Vec<Maker>,
    stage: Stage,
    signing: bool,
    /// Senders of the aggregates in the running job, in the order of its parts.
    senders: Vec<Validator>,
    /// Senders whose aggregates a failed job named; it is tried again once, without them.
    without: Option<Vec<Validator>>,
}

/// The work of a committee's local collectors in a slot.
#[derive(Default)]
pub(super) struct Collecting {
    plans: Vec<Plan>,
    planned: bool,
}

impl Horn {
    /// The collect phase begins.
    pub(super) fn start_collectors(&mut self, slot: Slot) {
        let start = self.clock.phase_start(slot, Phase::Collect);
        let phase_ns = self.clock.phase_start(slot, Phase::Decide).since_ns(start);
        self.set_timer(start.saturating_add_ns(phase_ns / 2), Timer::Collect(slot));
        for committee in 0..self.config.layout.committees() {
            self.plan_collections(slot, committee);
        }
    }

    /// Continues with all committees: a bounded wait has ended.
    pub(super) fn hurry_collectors(&mut self, slot: Slot) {
        for committee in 0..self.config.layout.committees() {
            self.advance_collectors(slot, committee);
        }
    }

    /// Groups the local collectors of a committee by vote, once they are known and the phase has
    /// begun.
    pub(super) fn plan_collections(&mut self, slot: Slot, committee: u16) {
        let Some(state) = self.slots.get_mut(&slot) else {
            return;
        };
        let index = usize::from(committee);
        let Some(own) = state.own else {
            return;
        };
        if state.phase < Some(Phase::Collect)
            || state.collecting[index].planned
            || state.collectors[index].is_empty()
        {
            return;
        }
        let mut by_ballot: BTreeMap<u8, Vec<Maker>> = BTreeMap::new();
        for serving in &state.collectors[index] {
            let ballot = state.vote_of(serving).unwrap_or(own);
            let maker = Maker {
                serving: serving.clone(),
                done: false,
            };
            by_ballot.entry(ballot).or_default().push(maker);
        }
        let plan = |(ballot, mut makers): (u8, Vec<Maker>)| {
            makers.sort_by_key(|maker| (maker.serving.rank, maker.serving.validator));
            let (senders, without) = (Vec::new(), None);
            Plan {
                ballot,
                makers,
                stage: Stage::Waiting,
                signing: false,
                senders,
                without,
            }
        };
        state.collecting[index].plans = by_ballot.into_iter().map(plan).collect();
        state.collecting[index].planned = true;
        self.advance_collectors(slot, committee);
    }

    /// Starts the collections of a committee whose aggregates are all verified (or have to do, at
    /// half of the phase), when the first collector's turn has come.
    pub(super) fn advance_collectors(&mut self, slot: Slot, committee: u16) {
        let start = self.clock.phase_start(slot, Phase::Collect);
        let end = self.clock.phase_start(slot, Phase::Decide);
        let hurry = self.now.since_ns(start) >= end.since_ns(start) / 2;
        let Some(state) = self.slots.get_mut(&slot) else {
            return;
        };
        let index = usize::from(committee);
        if state.phase < Some(Phase::Collect) {
            return;
        }
        let settled = state.aggregates[index].batch.is_idle()
            && state.aggregating[index].is_settled()
            && state.selecting == 0;
        if !(settled || hurry) {
            return;
        }
        let mut plans = std::mem::take(&mut state.collecting[index].plans);
        for plan in plans
            .iter_mut()
            .filter(|plan| matches!(plan.stage, Stage::Waiting))
        {
            if let Some(maker) = plan.makers.first() {
                let due = self.config.turn(start, &maker.serving);
                if due > self.now {
                    self.timers.insert((due, Timer::Stage(slot, committee)));
                    continue;
                }
            }
            plan.stage = Stage::Failed;
            let (covered, job) = collect_job(state, &self.config, &self.info, committee, plan);
            if !adds_enough(state, &self.config, committee, plan.ballot, &covered) {
                self.fx.held_back(slot, plan.makers.len() as u64);
            } else if !job.parts.is_empty() {
                plan.stage = Stage::Running;
                let request = Request {
                    session: state.sessions.collect,
                    message: job.statement.message,
                    committee: Some(committee),
                    subcommittee: None,
                    class: Class::Current,
                    soft: end,
                    // Late, it is still good for a block.
                    hard: self
                        .clock
                        .slot_start(Slot(slot.0.saturating_add(INCLUSION_SLOTS))),
                    work: Work::Scheme(scheme::Work::Combine(job)),
                };
                let ballot = state.ballots.get(plan.ballot).clone();
                self.fx
                    .spawn(request, Purpose::Collect { committee, ballot });
            }
        }
        state.collecting[index].plans = plans;
    }

    pub(super) fn collection_made(
        &mut self,
        committee: u16,
        ballot: &Arc<Ballot>,
        outcome: Outcome<Product>,
    ) {
        let (slot, len) = (
            ballot.vote.slot,
            self.config.layout.committee_len(committee) as usize,
        );
        let made = match outcome {
            Outcome::Done(Product::Scheme(scheme::Product::Evidence(evidence))) => Some(evidence)
                .filter(|made| {
                    let length = self.format.collection_evidence;
                    evidence_fits(made, len, self.config.multiplicity_max, length)
                })
                .ok_or_else(Vec::new),
            Outcome::Invalid(bad) => Err(bad),
            _ => Err(Vec::new()),
        };
        let Some(state) = self.slots.get_mut(&slot) else {
            return self.keep_salvaged(committee, ballot, made.ok());
        };
        let plans = &mut state.collecting[usize::from(committee)].plans;
        let index = state.ballots.index(ballot);
        let Some(plan) = plans.iter_mut().find(|plan| Some(plan.ballot) == index) else {
            return;
        };
        match made {
            Ok(evidence) => {
                plan.stage = Stage::Made(evidence);
                self.stage_collections(slot, committee);
            }
            Err(bad) if !bad.is_empty() && plan.without.is_none() => {
                let name = |i: usize| plan.senders.get(i).copied();
                plan.without = Some(bad.into_iter().filter_map(name).collect());
                plan.stage = Stage::Waiting;
                self.advance_collectors(slot, committee);
            }
            Err(_) => {
                plan.stage = Stage::Failed;
                self.fx.counters.jobs_failed += 1;
            }
        }
    }

    /// A collection that was made after its slot was closed: gossip takes it no more, an own block
    /// does. The job has verified it.
    fn keep_salvaged(&mut self, committee: u16, ballot: &Ballot, made: Option<Evidence>) {
        match made {
            Some(evidence) if self.chain.check_vote(&ballot.vote).is_ok() => {
                self.fx.counters.salvaged += 1;
                self.keep_for_blocks(Entry {
                    vote: ballot.vote,
                    committee,
                    evidence,
                });
            }
            _ => self.fx.counters.stale += 1,
        }
    }

    /// Has the envelopes of made collections signed: all at once, or one after the other, each
    /// when its collector's turn has come and only if it adds enough to what was accepted.
    pub(super) fn stage_collections(&mut self, slot: Slot, committee: u16) {
        let start = self.clock.phase_start(slot, Phase::Collect);
        let index = usize::from(committee);
        let Some(state) = self.slots.get_mut(&slot) else {
            return;
        };
        let mut plans = std::mem::take(&mut state.collecting[index].plans);
        let mut ready = Vec::new();
        for plan in plans.iter_mut().filter(|plan| !plan.signing) {
            let Stage::Made(evidence) = &plan.stage else {
                continue;
            };
            let ballot = state.ballots.get(plan.ballot);
            let mut collections = Vec::new();
            for maker in plan.makers.iter_mut().filter(|maker| !maker.done) {
                let due = self.config.turn(start, &maker.serving);
                if due > self.now {
                    self.timers.insert((due, Timer::Stage(slot, committee)));
                    break;
                }
                maker.done = true;
                let signers = evidence.support.signers();
                if !adds_enough(state, &self.config, committee, plan.ballot, &signers) {
                    self.fx.held_back(slot, 1);
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
                if self.config.publish == Publish::Staged {
                    break;
                }
            }
            if !collections.is_empty() {
                plan.signing = true;
                ready.push((ballot.clone(), collections));
            }
        }
        state.collecting[index].plans = plans;
        let session = state.sessions.collect;
        for (ballot, collections) in ready {
            self.sign_collections(session, committee, ballot, collections);
        }
    }

    fn sign_collections(
        &mut self,
        session: SessionId,
        committee: u16,
        ballot: Arc<Ballot>,
        collections: Vec<Collection>,
    ) {
        let (network, slot) = (self.config.network(), ballot.vote.slot);
        let item = |collection: &Collection| SignItem {
            validator: collection.sender,
            role: Role::Collection,
            message: digest::collection_message(network, collection, &self.format),
            guard: None,
        };
        let items: Vec<SignItem> = collections.iter().map(item).collect();
        let request = Request {
            session,
            // Jobs of one group replace each other, so it is named by what it signs.
            message: items[0].message,
            committee: Some(committee),
            subcommittee: None,
            class: Class::Duty,
            soft: self.clock.phase_start(slot, Phase::Decide),
            hard: self.clock.slot_start(slot.next().next()),
            work: Work::Scheme(scheme::Work::Sign(SignJob::new(slot, items))),
        };
        let purpose = Purpose::SignCollections {
            committee,
            ballot,
            collections,
        };
        self.fx.spawn(request, purpose);
    }

    pub(super) fn collections_signed(
        &mut self,
        committee: u16,
        ballot: &Arc<Ballot>,
        collections: Vec<Collection>,
        outcome: Outcome<Product>,
    ) {
        let slot = ballot.vote.slot;
        if let Some(state) = self.slots.get_mut(&slot) {
            let index = state.ballots.index(ballot);
            let plans = &mut state.collecting[usize::from(committee)].plans;
            if let Some(plan) = plans.iter_mut().find(|plan| Some(plan.ballot) == index) {
                plan.signing = false;
            }
        }
        let bytes = self.info.sizes.duty_signature_bytes;
        if let Some(signatures) = self.signatures(outcome, collections.len(), bytes) {
            let end = self.clock.slot_start(slot.next());
            for (mut collection, envelope) in collections.into_iter().zip(signatures) {
                collection.envelope = envelope;
                let gain = self.collection_gain(&collection);
                match self.lateness(&collection.vote, end, gain) {
                    Lateness::Publish => self.publish_collection(collection),
                    Lateness::Keep => self.keep_for_blocks(Entry::from(&collection)),
                    Lateness::Drop => self.fx.counters.stale += 1,
                }
            }
        }
        self.stage_collections(slot, committee);
    }

    fn publish_collection(&mut self, message: Collection) {
        let references = |vote: &_, committee| self.reference(vote, committee);
        let Ok(data) = message.encode(&self.format, &references) else {
            // The head went away with a branch that was finalised against.
            self.fx.counters.stale += 1;
            return;
        };
        let data: Bytes = data.into();
        let slot = message.vote.slot;
        let late = self.now >= self.clock.phase_start(slot.next(), Phase::Vote);
        self.fx.publish(slot, late, Topic::Collection, data.clone());
        if !self.local.trust_own {
            return self.receive(None, Topic::Collection, data);
        }
        self.fx.seen(Topic::Collection.kind());
        let content = digest::collection_message(self.config.network(), &message, &self.format);
        let inner = Entry::from(&message).digest(&self.format);
        let slot = self.slots.get(&message.vote.slot);
        if let Some(ballot) = slot.and_then(|state| state.ballots.find(&message.vote)) {
            // The job that made it has verified it.
            self.verified.insert(inner, message.vote.slot);
            self.take_collection(Waiting {
                origin: None,
                ballot,
                message,
                data,
                content,
            });
        }
    }

    /// Signers that the best accepted collection of the committee and vote lacks.
    fn collection_gain(&self, collection: &Collection) -> u32 {
        let mut signers = collection.evidence.support.signers();
        if let Some(state) = self.slots.get(&collection.vote.slot)
            && let Some(ballot) = state.ballots.find(&collection.vote)
            && let Some(ballot) = state.ballots.index(&ballot)
            && let Some(best) = state.best_collection(collection.committee, ballot)
        {
            signers.subtract(&best.evidence.support.signers());
        }
        signers.count_ones() as u32
    }
}

/// Under staged publishing: whether `signers` add enough to the best accepted collection.
fn adds_enough(
    state: &SlotState,
    config: &Config,
    committee: u16,
    ballot: u8,
    signers: &Bitfield,
) -> bool {
    if config.publish == Publish::All {
        return true;
    }
    let Some(best) = state.best_collection(committee, ballot) else {
        return true;
    };
    let positions = signers.len() as u64;
    let least = (positions * u64::from(config.stage_gain_ppm))
        .div_ceil(u64::from(PPM))
        .max(1);
    signers.count_and_not(&best.evidence.support.signers()) as u64 >= least
}

/// The job of a plan: the cover of each cell, as parts of the committee; and all that is covered.
fn collect_job(
    state: &SlotState,
    config: &Config,
    info: &SchemeInfo,
    committee: u16,
    plan: &mut Plan,
) -> (Bitfield, CombineJob) {
    let mut by_cell: BTreeMap<u16, Vec<&KeptAggregate>> = BTreeMap::new();
    let usable = |kept: &&KeptAggregate| {
        kept.ballot == plan.ballot
            && !plan
                .without
                .as_ref()
                .is_some_and(|bad| bad.contains(&kept.sender))
    };
    for kept in state.aggregates[usize::from(committee)]
        .kept
        .iter()
        .filter(usable)
    {
        by_cell.entry(kept.subcommittee).or_default().push(kept);
    }
    let (rule, picks_max) = config.cover.under(info.overlap(), config.multiplicity_max);
    let layout = state.layout();
    let mut covered = Bitfield::new(layout.committee_len(committee) as usize);
    let mut parts = Vec::new();
    let mut senders = Vec::new();
    for (subcommittee, kept) in by_cell {
        let signers: Vec<Bitfield> = kept
            .iter()
            .map(|kept| kept.evidence.support.signers())
            .collect();
        let candidates: Vec<Candidate<'_>> = kept
            .iter()
            .zip(&signers)
            .map(|(kept, signers)| Candidate {
                sender: kept.sender,
                signers,
            })
            .collect();
        let picks = cover::cover(&candidates, None, rule, picks_max);
        let offset = layout
            .cell_in_committee(Cell {
                committee,
                subcommittee,
            })
            .start;
        covered.write_range(offset as usize, &picks.covered);
        for pick in picks.chosen {
            senders.push(kept[pick].sender);
            let evidence = kept[pick].evidence.clone();
            parts.push(Part {
                offset,
                layer: Layer::Aggregate,
                evidence,
            });
        }
    }
    plan.senders = senders;
    let message = state.ballots.get(plan.ballot).message;
    let job = CombineJob {
        op: Op::Collect,
        epoch: state.epoch,
        statement: statement(config, committee, state.slot, message),
        parts,
        multiplicity_max: config.multiplicity_max,
    };
    (covered, job)
}
