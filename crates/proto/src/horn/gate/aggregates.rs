//! Aggregates of all levels. They come on the topic of the unit in which they are combined; those of the
//! top level come on the global topic, where every node verifies them.

use alphorn_scheme::{Bytes, Claim, Class, Item, Op, Outcome, Product, Role, VerifyJob, Work};
use alphorn_types::Epoch;
use std::sync::Arc;

use super::lot::{Seat, with_seat};
use super::{
    Due, Gate, ITEMS_PER_JOB_MAX, Job, Made, Refusal, Stage, admit_ballot, passed, serves,
};
use crate::horn::ballot::Ballot;
use crate::horn::batch::Batch;
use crate::horn::config::{Config, SubsetRule};
use crate::horn::deadlines::window_end;
use crate::horn::effects::{Effects, Origin, Request};
use crate::horn::fair::Room;
use crate::horn::role::Lent;
use crate::horn::state::{Accepted, SlotState, Standing, Waiting};
use crate::horn::store::{Claimed, Received};
use crate::horn::task::{Purpose, Queue};
use crate::slot::Phase;
use crate::wire::{Aggregate, Head, Kind, Reject, Topic, WireFormat, digest};

/// Limit on aggregates that wait together: those of a unit's parts, or all collections.
pub(in crate::horn) fn room(kind: Kind) -> Room {
    Room {
        items: 4_096,
        bytes: match kind {
            Kind::Collection => 1 << 30,
            _ => 512 << 20,
        },
    }
}

impl Gate {
    /// The batch of messages that wait together. None if their slot is over.
    fn queue<'a>(
        &'a mut self,
        lent: &'a mut Lent<'_>,
        queue: Queue,
    ) -> Option<&'a mut Batch<Waiting>> {
        match queue {
            None => Some(&mut self.collections),
            Some((slot, unit)) => {
                let state = lent.slots.get_mut(&slot)?;
                Some(state.batches.entry(unit).or_default())
            }
        }
    }

    pub(super) fn admit_aggregate(
        &mut self,
        lent: &mut Lent<'_>,
        origin: Origin,
        topic: Topic,
        data: &Bytes,
    ) -> Result<(), Refusal> {
        // Only the head at first: the support may be coded relative to the chain of the vote, which must
        // be known to decode the rest.
        let head = Aggregate::peek(data, lent.format).map_err(Reject::from_decode)?;
        let (slot, unit) = (head.vote.slot, head.unit);
        if Topic::of(&lent.config.layout, unit) != topic {
            return Err(Reject::WrongTopic.into());
        }
        let ballot = admit_ballot(lent, &head.vote).map_err(|refusal| {
            let state = lent.slots.get(&slot);
            with_seat(refusal, || seat(state?, lent.config, &head))
        })?;
        let references = |vote: &_, committee| lent.chain.reference(vote, committee);
        let message = lent.store.read::<Aggregate>(data, lent.format, &references);
        let message = message.map_err(Reject::from_decode)?;
        let state = lent.slots.get(&slot).ok_or(Refusal::Unprepared)?;
        let position = state.committees.position_in(message.sender, unit);
        let position = position.ok_or(Reject::NotMember)?;
        if message.evidence.support.is_empty() {
            return Err(Reject::NoSigner.into());
        }
        let proof = message.proof.as_ref();
        if !serves(state, lent.config, unit, position, proof) {
            return Err(Reject::NotSelected.into());
        }
        let standing = check_again(state, lent.config, lent.format, &message)?;
        // A second message only has to prove that its sender contradicts itself. For that its votes need
        // not count.
        if matches!(standing, Standing::First) {
            check_counts(state, &ballot, &message)?;
        }
        // From here on the slot no longer restarts under other committees: these verify the message
        // (`SlotState::is_untouched`).
        if let Some(state) = lent.slots.get_mut(&slot) {
            state.has_aggregates = true;
        }
        let waiting = Waiting {
            origin,
            ballot,
            message,
        };
        let parent = lent.config.layout.parent(unit);
        let queue = parent.map(|parent| (slot, parent));
        let batch = self.queue(lent, queue).ok_or(Refusal::Unprepared)?;
        let taken = batch
            .offer(waiting, room(topic.kind()))
            .ok_or(Reject::Full)?;
        if taken.due {
            self.due.insert(Due::Aggregates(queue));
        }
        for gone in taken.displaced {
            lent.fx.reject(gone.origin, Reject::Full);
        }
        Ok(())
    }

    /// Puts all messages that wait together into one job, sorted by unit, so that keys are summed for all
    /// aggregates of a unit together.
    pub(super) fn verify_aggregates(&mut self, lent: &mut Lent<'_>, queue: Queue) {
        let epochs = lent.slots.iter().map(|(slot, state)| (*slot, state.epoch));
        let epochs: Vec<_> = epochs.collect();
        let epoch_of = |waiting: &Waiting| {
            let of_slot = |(slot, _): &&_| *slot == waiting.ballot.vote.slot;
            epochs.iter().find(of_slot).map(|(_, epoch)| *epoch)
        };
        let Some(batch) = self.queue(lent, queue) else {
            return;
        };
        let closed = batch.give_up(|waiting| epoch_of(waiting).is_none());
        let epoch = batch.first().and_then(epoch_of);
        // A job has one key table. Aggregates of another epoch wait for the next job.
        let mut aggregates = match epoch {
            Some(_) => batch.take(ITEMS_PER_JOB_MAX, |waiting| epoch_of(waiting) == epoch),
            None => Vec::new(),
        };
        for gone in closed {
            lent.fx.reject(gone.origin, Reject::TooOld);
        }
        if let Some(epoch) = epoch.filter(|_| !aggregates.is_empty()) {
            aggregates.sort_by_key(|waiting| waiting.message.unit);
            self.spawn_aggregates(lent, queue, epoch, Stage::Sender, aggregates, 1);
        }
    }

    pub(super) fn spawn_aggregates(
        &mut self,
        lent: &mut Lent<'_>,
        queue: Queue,
        epoch: Epoch,
        stage: Stage,
        aggregates: Vec<Waiting>,
        tries: u8,
    ) {
        // Use the newest slot for a queue of many slots, so that the end of an older one does not cancel
        // the job.
        let state = match queue {
            Some((slot, _)) => lent.slots.get(&slot),
            None => lent.slots.values().next_back(),
        };
        let Some(state) = state else {
            let gone = aggregates.iter();
            gone.for_each(|gone| lent.fx.reject(gone.origin, Reject::TooOld));
            return self.aggregates_ended(lent, queue);
        };
        let item = |waiting: &Waiting| Item {
            claims: match stage {
                Stage::Sender => sender(lent, waiting),
                Stage::Evidence => vec![votes(lent, waiting)],
            },
        };
        let job = VerifyJob {
            op: match (stage, queue) {
                (Stage::Sender, _) => Op::DutyVerify,
                (Stage::Evidence, Some(_)) => Op::VerifyAggregates,
                (Stage::Evidence, None) => Op::VerifyCollections,
            },
            epoch,
            items: aggregates.iter().map(item).collect(),
        };
        let request = Request {
            session: state.sessions.verify,
            message: [0; 32],
            committee: queue.map(|(_, unit)| unit.committee),
            subcommittee: None,
            class: Class::Verdict,
            soft: lent.clock.phase_start(state.slot, Phase::Decide),
            hard: window_end(lent.clock, state.slot),
            work: Work::Verify(job),
        };
        let job = Job::Aggregates {
            queue,
            epoch,
            stage,
            aggregates,
            tries,
        };
        lent.fx.spawn(request, Purpose::Gate(job));
    }

    /// Handles the result of verifying the senders' signatures, or the evidence of those that are valid.
    /// Evidence verified before, in a block or in another collection, is not verified again.
    pub(super) fn aggregates_verified(
        &mut self,
        lent: &mut Lent<'_>,
        queue: Queue,
        epoch: Epoch,
        stage: Stage,
        aggregates: Vec<Waiting>,
        outcome: Outcome<Product>,
    ) {
        let mut left = Vec::new();
        for waiting in passed(lent, aggregates, stage, outcome) {
            let claimed = collection(lent, &waiting);
            let cached = claimed.is_some_and(|claimed| self.verified.contains(claimed));
            if stage == Stage::Sender && !cached {
                left.push(waiting);
                continue;
            }
            lent.fx.counters.evidence_cached += u64::from(stage == Stage::Sender);
            self.take_aggregate(lent, waiting);
        }
        // The batch stays busy between the two stages: only the end of the second one lets the next job
        // start.
        match left.is_empty() {
            false => self.spawn_aggregates(lent, queue, epoch, Stage::Evidence, left, 1),
            true => self.aggregates_ended(lent, queue),
        }
    }

    fn aggregates_ended(&mut self, lent: &mut Lent<'_>, queue: Queue) {
        if self.queue(lent, queue).is_some_and(Batch::ended) {
            self.due.insert(Due::Aggregates(queue));
        }
        if let Some((slot, unit)) = queue {
            self.made.push_back(Made::Aggregates { slot, unit });
        }
    }

    /// Accepts a verified aggregate, or one made here: check 11.
    pub(super) fn take_aggregate(&mut self, lent: &mut Lent<'_>, waiting: Waiting) {
        let (origin, unit) = (waiting.origin, waiting.message.unit);
        let slot = waiting.ballot.vote.slot;
        let kind = lent.format.kind(unit.level);
        let collection = collection(lent, &waiting).cloned();
        let mix = lent.mix_of(&waiting.ballot.vote);
        let taken = match lent.slots.get_mut(&slot) {
            // It was verified under the committees of another branch.
            Some(state) if mix.is_some_and(|mix| mix != state.committees.mix) => {
                Err(Reject::UnknownBlock)
            }
            Some(state) => {
                if let Some(claimed) = &collection {
                    // It was verified, or made by a job that verified it.
                    self.verified.insert(claimed);
                }
                keep(state, lent.config, lent.format, lent.fx, waiting)
            }
            None => Err(Reject::TooOld),
        };
        if let Err(reason) = taken {
            return lent.fx.reject(origin, reason);
        }
        lent.fx.accept(kind, origin);
        self.made.push_back(Made::Accepted {
            slot,
            unit,
            collection,
        });
    }
}

/// The claims of an aggregate's sender: checks 8 and 9.
fn sender(lent: &Lent<'_>, waiting: &Waiting) -> Vec<Claim> {
    let (message, slot) = (&waiting.message, waiting.ballot.vote.slot);
    let (validator, level) = (message.sender, message.unit.level);
    let network = lent.config.network();
    let envelope = Claim::One {
        validator,
        role: Role::of_level(level),
        slot,
        message: *waiting.message.content(network, lent.format),
        signature: message.envelope.clone(),
    };
    let seed = lent.slots.get(&slot).map(|state| state.committees.seed);
    let selected = message.proof.as_ref().zip(seed).map(|(proof, seed)| {
        let message = digest::selection_message(network, &seed, level, slot);
        let proof = proof.clone();
        Claim::Selected {
            validator,
            message,
            proof,
        }
    });
    selected.into_iter().chain([envelope]).collect()
}

/// The claim of a collection, which blocks repeat. None below the top level.
fn collection<'a>(lent: &Lent<'_>, waiting: &'a Waiting) -> Option<&'a Arc<Claimed>> {
    let is_top = lent.format.kind(waiting.message.unit.level) == Kind::Collection;
    is_top.then(|| waiting.message.claims(lent.format, lent.store))
}

/// The seat of an aggregate for an unknown block.
fn seat(state: &SlotState, config: &Config, head: &Head) -> Option<Seat> {
    let (unit, sender) = (head.unit, head.sender);
    let (slot, phase) = (state.slot, Phase::Level(unit.level));
    let position = state.committees.position_in(sender, unit)?;
    let serves = serves(state, config, unit, position, head.proof.as_ref());
    serves.then_some(Seat {
        slot,
        phase,
        sender,
    })
}

/// The claim of an aggregate about the votes: check 10.
fn votes(lent: &Lent<'_>, waiting: &Waiting) -> Claim {
    let (message, ballot) = (&waiting.message, &waiting.ballot);
    let (unit, slot) = (message.unit, ballot.vote.slot);
    Claim::Group {
        statement: (lent.config).statement(lent.info, unit, slot, ballot.message),
        evidence: message.evidence.clone(),
    }
}

/// Check 7. A second, different message of a sender passes, so that it can be verified and reported, but
/// it is never accepted. An aggregate is compared with single accepted ones, never with their union: two
/// halves must not suppress the whole that a block wants.
fn check_again<'a>(
    state: &'a SlotState,
    config: &Config,
    format: &WireFormat,
    message: &Received<Aggregate>,
) -> Result<Standing<&'a Bytes>, Reject> {
    let content = |one: &Received<Aggregate>| *one.content(config.network(), format);
    let is_same = |first: &Received<Aggregate>| content(first) == content(message);
    let standing = state.admit_aggregate(message, is_same)?;
    if matches!(standing, Standing::Second(_)) {
        return Ok(standing);
    }
    let (level, accepted) = (message.unit.level, state.accepted(message.unit));
    // Not a room to be filled first: a sender has one message, and chance seldom selects more senders
    // than this (docs/horn.md, "> 48 of a group").
    if accepted.len() >= usize::from(config.level(level).taken_max) {
        return Err(Reject::Full);
    }
    let compares = match config.subset_rule {
        SubsetRule::Global => level == config.layout.levels(),
        SubsetRule::Both => true,
        SubsetRule::Off => false,
    };
    let support = &message.evidence.support;
    let covers = |accepted: &Accepted| {
        accepted.vote == message.vote && support.is_subset_of(&accepted.evidence.support)
    };
    match compares && accepted.iter().any(covers) {
        true => Err(Reject::Subset),
        false => Ok(standing),
    }
}

/// Check 7 of a sender's first message: evidence is not verified if its vote would not count even if all
/// of it were true.
fn check_counts(
    state: &SlotState,
    ballot: &Ballot,
    message: &Received<Aggregate>,
) -> Result<(), Reject> {
    let weight = || {
        let signers = message.evidence.support.signers();
        state.committees.weigh(message.unit, &signers)
    };
    match state.ballots.would_count(ballot, weight) {
        true => Ok(()),
        false => Err(Reject::Full),
    }
}

/// Records a verified aggregate. Its sender has one per slot: if the votes in it do not count, nothing
/// more from the sender is verified.
fn keep(
    state: &mut SlotState,
    config: &Config,
    format: &WireFormat,
    fx: &mut Effects,
    waiting: Waiting,
) -> Result<(), Reject> {
    let Waiting {
        ballot, message, ..
    } = waiting;
    let (sender, unit) = (message.sender, message.unit);
    if let Standing::Second(first) = check_again(state, config, format, &message)? {
        fx.evidence(message.vote.slot, first.clone(), message.data.clone());
        state.refuse(unit, sender);
        return Err(Reject::Duplicate);
    }
    let signers = message.evidence.support.signers();
    fx.show(&state.committees, unit, &signers, &message.vote);
    let weight = state.committees.weigh(unit, &signers);
    if let Err(reason) = state.ballots.track_evidence(&ballot, weight) {
        state.refuse(unit, sender);
        return Err(reason);
    }
    state.accept(message);
    Ok(())
}
