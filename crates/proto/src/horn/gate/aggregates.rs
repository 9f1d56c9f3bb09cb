//! Aggregates, on the topics of their committees.

use alphorn_scheme::{
    Bytes, Claim, Class, Item, Layer, Op, Outcome, Product, Role, Statement, VerifyJob, Work,
};
use alphorn_types::{Slot, Validator};

use super::lot::{Seat, with_seat};
use super::{
    Due, Gate, ITEMS_PER_JOB_MAX, Job, Made, Refusal, Stage, admit_ballot, passed, serves,
};
use crate::horn::config::{Config, SubsetRule};
use crate::horn::deadlines::window_end;
use crate::horn::effects::{Effects, Origin, Request};
use crate::horn::fair::Room;
use crate::horn::role::Lent;
use crate::horn::selection::Post;
use crate::horn::state::{KeptAggregate, SlotState, Standing, Waiting};
use crate::horn::task::Purpose;
use crate::slot::Phase;
use crate::wire::{Aggregate, Kind, Reject, digest};

/// Aggregates of a committee that wait at most.
pub(in crate::horn) const ROOM: Room = Room {
    items: 4_096,
    bytes: 512 << 20,
};

impl Gate {
    pub(super) fn admit_aggregate(
        &mut self,
        lent: &mut Lent<'_>,
        origin: Origin,
        committee: u16,
        data: &Bytes,
    ) -> Result<(), Refusal> {
        let head = Aggregate::peek(data, lent.format).map_err(Reject::from_decode)?;
        let (vote, cell, sender, proof) = head;
        if cell.committee != committee {
            return Err(Reject::WrongTopic.into());
        }
        let ballot = admit_ballot(lent, &vote).map_err(|refusal| {
            let state = lent.slots.get_mut(&vote.slot);
            with_seat(refusal, || {
                let (state, slot, kind) = (state?, vote.slot, Kind::Aggregate);
                let position = state.committees.position_in_cell(sender, cell)?;
                let post = Post::Aggregator(cell);
                let serves = serves(state, lent.config, post, position, proof.as_ref());
                serves.then_some(Seat { slot, kind, sender })
            })
        })?;
        let references = |vote: &_, committee| lent.chain.reference(vote, committee);
        let message =
            Aggregate::decode(data, lent.format, &references).map_err(Reject::from_decode)?;
        let slot = ballot.vote.slot;
        let state = lent.slots.get_mut(&slot).ok_or(Refusal::Unprepared)?;
        let position = state
            .committees
            .position_in_cell(message.sender, cell)
            .ok_or(Reject::NotMember)?;
        if message.evidence.support.is_empty() {
            return Err(Reject::NoSigner.into());
        }
        if !serves(
            state,
            lent.config,
            Post::Aggregator(cell),
            position,
            message.proof.as_ref(),
        ) {
            return Err(Reject::NotSelected.into());
        }
        let content = digest::aggregate_message(lent.config.network(), &message, lent.format);
        check_again(state, lent.config, &message, &content)?;
        let waiting = Waiting {
            origin,
            ballot,
            message,
            data: data.clone(),
            content,
        };
        let batch = &mut state.aggregates[usize::from(committee)].batch;
        let taken = batch.offer(waiting, ROOM).ok_or(Reject::Full)?;
        if taken.due {
            self.due.insert(Due::Aggregates(slot, committee));
        }
        for gone in taken.displaced {
            lent.fx.reject(gone.origin, Reject::Full);
        }
        Ok(())
    }

    /// The senders' signatures were verified, or the evidence of those that hold.
    pub(super) fn aggregates_verified(
        &mut self,
        lent: &mut Lent<'_>,
        (slot, committee): (Slot, u16),
        stage: Stage,
        aggregates: Vec<Waiting<Aggregate>>,
        outcome: Outcome<Product>,
    ) {
        let passed = passed(lent, aggregates, stage, outcome);
        if stage == Stage::Sender && !passed.is_empty() {
            return spawn_aggregates(lent, (slot, committee), Stage::Evidence, passed);
        }
        for waiting in passed {
            take_aggregate(lent, waiting);
        }
        if let Some(state) = lent.slots.get_mut(&slot)
            && state.aggregates[usize::from(committee)].batch.ended()
        {
            self.due.insert(Due::Aggregates(slot, committee));
        }
        self.made.push_back(Made::Aggregates { slot, committee });
    }
}

/// Starts the job of a committee's batch.
pub(super) fn verify_aggregates(lent: &mut Lent<'_>, slot: Slot, committee: u16) {
    let Some(state) = lent.slots.get_mut(&slot) else {
        return;
    };
    let batch = &mut state.aggregates[usize::from(committee)].batch;
    let aggregates = batch.take(ITEMS_PER_JOB_MAX, |_| true);
    if aggregates.is_empty() {
        return;
    }
    spawn_aggregates(lent, (slot, committee), Stage::Sender, aggregates);
}

fn spawn_aggregates(
    lent: &mut Lent<'_>,
    (slot, committee): (Slot, u16),
    stage: Stage,
    aggregates: Vec<Waiting<Aggregate>>,
) {
    let Some(state) = lent.slots.get(&slot) else {
        let gone = aggregates.iter();
        gone.for_each(|gone| lent.fx.reject(gone.origin, Reject::TooOld));
        return;
    };
    let seed = &state.committees.seed;
    let ticket = digest::selection_message(lent.config.network(), seed, Kind::Aggregate, slot);
    let claims = |waiting: &Waiting<Aggregate>| match stage {
        Stage::Sender => sender(waiting, &ticket),
        Stage::Evidence => vec![votes(waiting, lent.config)],
    };
    let item = |waiting| Item {
        claims: claims(waiting),
    };
    let verify = VerifyJob {
        op: match stage {
            Stage::Sender => Op::DutyVerify,
            Stage::Evidence => Op::VerifyAggregates,
        },
        epoch: state.epoch,
        items: aggregates.iter().map(item).collect(),
    };
    let request = Request {
        session: state.sessions.verify,
        message: [0; 32],
        committee: Some(committee),
        subcommittee: None,
        class: Class::Verdict,
        soft: lent.clock.phase_start(slot, Phase::Decide),
        hard: window_end(lent.clock, slot),
        work: Work::Verify(verify),
    };
    let job = Job::Aggregates {
        slot,
        committee,
        stage,
        aggregates,
    };
    lent.fx.spawn(request, Purpose::Gate(job));
}

/// Takes a verified aggregate, or an own one: check 11.
pub(super) fn take_aggregate(lent: &mut Lent<'_>, waiting: Waiting<Aggregate>) {
    let origin = waiting.origin;
    let taken = match lent.slots.get_mut(&waiting.ballot.vote.slot) {
        Some(state) => keep(state, lent.config, lent.fx, waiting),
        None => Err(Reject::TooOld),
    };
    match taken {
        Ok(()) => lent.fx.accept(Kind::Aggregate, origin),
        Err(reason) => lent.fx.reject(origin, reason),
    }
}

/// What the sender of an aggregate claims: checks 8 and 9.
fn sender(waiting: &Waiting<Aggregate>, ticket: &[u8; 32]) -> Vec<Claim> {
    let message = &waiting.message;
    let selected = message.proof.as_ref().map(|proof| Claim::Selected {
        validator: message.sender,
        message: *ticket,
        proof: proof.clone(),
    });
    let envelope = Claim::One {
        validator: message.sender,
        role: Role::Aggregate,
        slot: waiting.ballot.vote.slot,
        message: waiting.content,
        signature: message.envelope.clone(),
    };
    selected.into_iter().chain([envelope]).collect()
}

/// What an aggregate claims of the votes: check 10.
fn votes(waiting: &Waiting<Aggregate>, config: &Config) -> Claim {
    let (message, ballot) = (&waiting.message, &waiting.ballot);
    let range = config.layout.cell_range(message.cell);
    Claim::Group {
        statement: Statement {
            layer: Layer::Aggregate,
            first: range.start,
            len: range.end - range.start,
            slot: ballot.vote.slot,
            message: ballot.message,
        },
        evidence: message.evidence.clone(),
    }
}

/// Check 7 of aggregates. A second, different message of a sender passes, so that it can be
/// verified and reported; it is never accepted.
fn check_again<'a>(
    state: &'a SlotState,
    config: &Config,
    message: &Aggregate,
    content: &[u8; 32],
) -> Result<Standing<'a>, Reject> {
    let committee = &state.aggregates[usize::from(message.cell.committee)];
    let standing = committee.senders.admit(message.sender, content)?;
    let of_cell = || {
        committee
            .kept
            .iter()
            .filter(|kept| kept.subcommittee == message.cell.subcommittee)
    };
    if matches!(standing, Standing::Second(_)) {
        return Ok(standing);
    }
    if of_cell().count() >= usize::from(config.aggregates_per_cell_max) {
        return Err(Reject::Full);
    }
    if config.subset_rule == SubsetRule::Both {
        let covers = |kept: &KeptAggregate| {
            state.ballots.get(kept.ballot).vote == message.vote
                && message
                    .evidence
                    .support
                    .is_subset_of(&kept.evidence.support)
        };
        if of_cell().any(covers) {
            return Err(Reject::Subset);
        }
    }
    Ok(standing)
}

fn keep(
    state: &mut SlotState,
    config: &Config,
    fx: &mut Effects,
    waiting: Waiting<Aggregate>,
) -> Result<(), Reject> {
    let Waiting {
        ballot,
        message,
        data,
        content,
        ..
    } = waiting;
    let sender: Validator = message.sender;
    if let Standing::Second(first) = check_again(state, config, &message, &content)? {
        fx.evidence(message.vote.slot, first.clone(), data);
        let senders = &mut state.aggregates[usize::from(message.cell.committee)].senders;
        senders.mark_equivocated(sender);
        return Err(Reject::Duplicate);
    }
    let signers = message.evidence.support.signers();
    let weight = state.committees.weigh_cell(message.cell, &signers);
    let ballot = state.ballots.track_evidence(&ballot, weight)?;
    let committee = &mut state.aggregates[usize::from(message.cell.committee)];
    committee.senders.insert(sender, data, content);
    committee.kept.push(KeptAggregate {
        sender,
        subcommittee: message.cell.subcommittee,
        ballot,
        evidence: message.evidence,
    });
    Ok(())
}
