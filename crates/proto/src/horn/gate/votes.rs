//! Single votes, on the topics of their cells.

use alphorn_scheme::{Bytes, Claim, Class, Item, Op, Outcome, Product, Role, VerifyJob, Work};
use alphorn_types::{Cell, Slot, Validator};
use std::sync::Arc;

use super::lot::{Seat, with_seat};
use super::verdicts::failed_claims;
use super::{Due, Gate, ITEMS_PER_JOB_MAX, Job, Made, Refusal, admit_ballot};
use crate::horn::ballot::Ballot;
use crate::horn::cell_votes::{FirstVote, WaitingVote};
use crate::horn::deadlines::window_end;
use crate::horn::effects::{Origin, Request};
use crate::horn::fair::Room;
use crate::horn::role::Lent;
use crate::horn::state::SlotState;
use crate::horn::task::Purpose;
use crate::slot::Phase;
use crate::wire::{Kind, Reject, VoteMsg};

/// Maximum number of waiting votes of a cell, per position and in addition: room for forged votes next to
/// the honest one.
const WAITING_PER_POSITION: usize = 4;
const WAITING_BESIDES: usize = 64;

/// Room of the batch of a cell with this many positions.
pub(in crate::horn) fn room(positions: usize) -> Room {
    Room {
        items: WAITING_PER_POSITION * positions + WAITING_BESIDES,
        // The format bounds the length of a vote, so it suffices to count them.
        bytes: usize::MAX,
    }
}

impl Gate {
    pub(super) fn admit_vote(
        &mut self,
        lent: &mut Lent<'_>,
        origin: Origin,
        cell: Cell,
        data: &Bytes,
    ) -> Result<(), Refusal> {
        if !lent.config.layout.has_cell(cell) {
            return Err(Reject::WrongTopic.into());
        }
        let message = VoteMsg::decode(data, lent.format).map_err(Reject::from_decode)?;
        let slot = message.vote.slot;
        let ballot = admit_ballot(lent, &message.vote).map_err(|refusal| {
            let state = lent.slots.get(&slot);
            with_seat(refusal, || seat(state?, cell, message.validator))
        })?;
        let state = lent.slots.get_mut(&slot).ok_or(Refusal::Unprepared)?;
        // Before any check of the voter: from here on the slot is in use and keeps its committees
        // (`SlotState::is_untouched`).
        state.votes_seen += 1;
        let position = state
            .committees
            .position_in(message.validator, cell.into())
            .ok_or(Reject::NotMember)?;
        let choice = state.ballots.index(&ballot);
        let votes = state.cell_mut(cell);
        check_first(votes.first(position), choice)?;
        let room = room(lent.config.layout.cell_len(cell) as usize);
        let waiting = WaitingVote {
            origin,
            position,
            ballot,
            signature: message.signature,
            data: data.clone(),
        };
        let taken = votes.batch.offer(waiting, room).ok_or(Reject::Full)?;
        if taken.due {
            self.due.insert(Due::Votes(slot, cell));
        }
        for gone in taken.displaced {
            lent.fx.reject(gone.origin, Reject::Full);
        }
        Ok(())
    }

    pub(super) fn votes_verified(
        &mut self,
        lent: &mut Lent<'_>,
        slot: Slot,
        cell: Cell,
        votes: Vec<WaitingVote>,
        outcome: Outcome<Product>,
    ) {
        let failed = failed_claims(outcome, votes.len());
        let Some(state) = lent.slots.get_mut(&slot) else {
            votes
                .into_iter()
                .for_each(|vote| lent.fx.reject(vote.origin, Reject::TooOld));
            return;
        };
        lent.fx.counters.jobs_failed += u64::from(failed.is_none());
        for (i, vote) in votes.into_iter().enumerate() {
            let origin = vote.origin;
            let taken = match &failed {
                None => {
                    lent.fx.ignore(origin);
                    continue;
                }
                Some(claims) if claims[i].is_some() => Err(Reject::BadEvidence.into()),
                Some(_) => take_vote(state, cell, vote),
            };
            match taken {
                Ok(()) => lent.fx.accept(Kind::Vote, origin),
                Err(Contradiction::Reject(reason)) => lent.fx.reject(origin, reason),
                Err(Contradiction::Proof([first, second])) => {
                    lent.fx.evidence(slot, first, second);
                    lent.fx.reject(origin, Reject::Duplicate);
                }
            }
        }
        if state.cell_mut(cell).batch.ended() {
            self.due.insert(Due::Votes(slot, cell));
        }
        let committee = cell.committee;
        self.made.push_back(Made::Votes { slot, committee });
    }
}

/// Starts the job of a cell's batch.
pub(super) fn verify_votes(lent: &mut Lent<'_>, slot: Slot, cell: Cell) {
    let Some(state) = lent.slots.get_mut(&slot) else {
        return;
    };
    let votes = state.cell_mut(cell).batch.take(ITEMS_PER_JOB_MAX, |_| true);
    if !votes.is_empty() {
        spawn_votes(lent, slot, cell, votes, 1);
    }
}

/// Verifies votes of an existing slot.
pub(super) fn spawn_votes(
    lent: &mut Lent<'_>,
    slot: Slot,
    cell: Cell,
    votes: Vec<WaitingVote>,
    tries: u8,
) {
    let Some(state) = lent.slots.get(&slot) else {
        return;
    };
    // Positions were looked up under these committees. A slot in which a vote arrived does not restart
    // under others.
    let members = state.committees.assignment.cell_members(cell);
    let claim = |vote: &WaitingVote| Claim::One {
        validator: Validator(members[vote.position as usize]),
        role: Role::Vote,
        slot,
        message: vote.ballot.message,
        signature: vote.signature.clone(),
    };
    let item = |vote| Item {
        claims: vec![claim(vote)],
    };
    let job = VerifyJob {
        op: Op::VerifyVotes,
        epoch: state.epoch,
        items: votes.iter().map(item).collect(),
    };
    let request = Request {
        session: state.sessions.verify,
        // A cell has one job at a time, so its group needs no other name.
        message: [0; 32],
        committee: Some(cell.committee),
        subcommittee: Some(cell.subcommittee),
        class: Class::Verdict,
        soft: lent.deadlines(Phase::Level(1), slot).wanted,
        // Later than gossip can still use the verdict, since the vote counts here.
        hard: window_end(lent.clock, slot),
        work: Work::Verify(job),
    };
    let job = Job::Votes {
        slot,
        cell,
        votes,
        tries,
    };
    lent.fx.spawn(request, Purpose::Gate(job));
}

/// Accepts a vote made here without verification.
pub(super) fn take_own_vote(
    lent: &mut Lent<'_>,
    ballot: Arc<Ballot>,
    message: VoteMsg,
    data: Bytes,
) {
    lent.fx.seen(Kind::Vote);
    let Some(state) = lent.slots.get_mut(&ballot.vote.slot) else {
        return;
    };
    state.votes_seen += 1;
    let voter = message.validator;
    let Some(cell) = state.committees.assignment.cell_of(voter) else {
        return;
    };
    let Some(position) = state.committees.position_in(voter, cell.into()) else {
        return;
    };
    let own = WaitingVote {
        origin: None,
        position,
        ballot,
        signature: message.signature,
        data,
    };
    match take_vote(state, cell, own) {
        Ok(()) => lent.fx.accept(Kind::Vote, None),
        Err(Contradiction::Reject(reason)) => lent.fx.reject(None, reason),
        // Not reported: the voter is hosted here.
        Err(Contradiction::Proof(_)) => lent.fx.reject(None, Reject::Duplicate),
    }
}

/// The seat of a vote for an unknown block.
fn seat(state: &SlotState, cell: Cell, sender: Validator) -> Option<Seat> {
    let position = state.committees.position_in(sender, cell.into())?;
    let votes = state.cell(cell);
    // What an equivocator sends cannot be accepted whatever the block is, so it need not wait.
    let first = votes.and_then(|votes| votes.first(position));
    let (slot, phase) = (state.slot, Phase::Vote);
    first
        .is_none_or(|first| !first.equivocated)
        .then_some(Seat {
            slot,
            phase,
            sender,
        })
}

/// Why a verified vote does not count.
enum Contradiction {
    Reject(Reject),
    /// A second vote of its voter: evidence, together with the first one or an aggregate that contains
    /// it.
    Proof([Bytes; 2]),
}

impl From<Reject> for Contradiction {
    fn from(reject: Reject) -> Self {
        Self::Reject(reject)
    }
}

/// Check 7 of votes: the first of a voter counts; a second for something else is evidence, once. `choice`
/// is the index of the ballot, none if no voter was seen to cast it.
fn check_first(first: Option<FirstVote>, choice: Option<u16>) -> Result<(), Reject> {
    match first {
        Some(first) if first.equivocated || Some(first.ballot) == choice => Err(Reject::Duplicate),
        _ => Ok(()),
    }
}

/// Check 11, and its consequences.
fn take_vote(state: &mut SlotState, cell: Cell, vote: WaitingVote) -> Result<(), Contradiction> {
    let choice = state.ballots.index(&vote.ballot);
    let votes = state.cell_mut(cell);
    let first = votes.first(vote.position);
    check_first(first, choice)?;
    if let Some(first) = first {
        // The voter is marked even if neither a message nor an aggregate is left to prove it, so that no
        // third vote is verified.
        let single = votes.contradict(vote.position).cloned();
        let proof = single.or_else(|| state.proof_of(cell, first).cloned());
        let pair = [proof.ok_or(Reject::Duplicate)?, vote.data];
        return Err(Contradiction::Proof(pair));
    }
    let members = state.committees.assignment.cell_members(cell);
    let validator = Validator(members[vote.position as usize]);
    let weight = state.committees.weights.of_one(validator);
    // Before the vote is inserted: where no index is left, it must not become its voter's first.
    let choice = state.ballots.track_vote(&vote.ballot, weight)?;
    state
        .cell_mut(cell)
        .insert(vote.position, choice, vote.data);
    state.votes_accepted += 1;
    // A vote for a ballot with too few votes counts for its voter, but is not forwarded.
    match state.ballots.counts(choice) {
        true => Ok(()),
        false => Err(Reject::Full.into()),
    }
}
