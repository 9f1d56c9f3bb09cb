//! What is checked of a message before it is taken, in which order, and what waits meanwhile.
//!
//! The first check that fails decides. Checks 1 to 7 are cheap and made on arrival, 8 to 10 are
//! jobs, 11 is made when the last one ends:
//!
//! | # | check |
//! |---|---|
//! | 1 | it decodes, within limits and canonically; indices are in range; it came on its topic |
//! | 2 | its slot is the current or the previous one, with half a second of tolerance; a block may be older, so that a gap can be filled |
//! | 3 | the head of its vote is known and can still be one, source and target fit the head's chain |
//! | 4 | sender or voter sits in the committee or cell; the proposer has the slot |
//! | 5 | somebody signed; no multiplicity is above the bound |
//! | 6 | the ticket wins, or the rank serves |
//! | 7 | nothing was **accepted** from this sender in the slot; caps; the subset rule |
//! | 8 | the proof of selection |
//! | 9 | the envelope's signature |
//! | 10 | the evidence of the votes |
//! | 11 | 7 again, for what was accepted while the job ran |
//!
//! What is cheap is verified before what is dear: 8 and 9 are a job of their own before 10, so a
//! forged aggregate, collection or block costs no more than its sender's signatures.
//!
//! Only accepted messages are compared with: a forged message must not suppress an honest one
//! while its job runs. A message about an unknown block waits for the block, for two seconds, if its
//! sender passes 4 and 6 by the committees in force; a block of a branch with other committees waits
//! for them as long.

mod aggregates;
mod blocks;
mod collections;
mod lot;
mod votes;

use alphorn_scheme::{self as scheme, Bytes, Outcome, Product};
use alphorn_types::{Slot, Validator};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use self::lot::Seat;
use super::ballot::Ballot;
use super::config::{Config, Selection};
use super::deadlines::{TOLERANCE_NS, window_end};
use super::effects::Origin;
use super::machine::{Due, Horn};
use super::selection::{self, Post};
use super::state::{Posted, SlotState, Waiting};
use super::task::Stage;
use crate::wire::{Reject, Topic, Vote};

pub(super) use aggregates::ROOM as AGGREGATES_ROOM;
pub(super) use blocks::{BlockJob, Blocks, ROOM as BLOCKS_ROOM, WaitingBlock};
pub(super) use collections::{ROOM as COLLECTIONS_ROOM, statement};
pub(super) use lot::{Awaited, Lot};
pub(super) use votes::room as votes_room;

/// Messages of one sender and slot whose evidence is verified together: the first, and a second that
/// proves an equivocation.
const SIGNED_PER_SENDER_MAX: u32 = 2;
/// Most messages of one verification job.
pub const ITEMS_PER_JOB_MAX: usize = 4_096;
/// How long a message waits for a block.
const PARKED_NS: u64 = 2_000_000_000;
/// Digests of verified evidence that are remembered.
const VERIFIED_MAX: usize = 2_048;
/// For how many slots they are remembered.
const VERIFIED_SLOTS: u64 = 4;

/// Why a message does not go on.
pub(super) enum Refusal {
    /// It is not taken.
    Reject(Reject),
    /// It waits for something, at the seat of its sender.
    Park(Awaited, Option<Seat>),
    /// The committees of its epoch are not ready here.
    Unprepared,
}

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Self {
        Self::Reject(reject)
    }
}

/// Digests of evidence that was verified: a block of known collections costs no verification.
#[derive(Default)]
pub(super) struct Verified {
    since: BTreeMap<[u8; 32], Slot>,
    order: VecDeque<[u8; 32]>,
}

impl Verified {
    pub(super) fn contains(&self, digest: &[u8; 32]) -> bool {
        self.since.contains_key(digest)
    }

    /// Remembers a digest that was verified in `slot`.
    pub(super) fn insert(&mut self, digest: [u8; 32], slot: Slot) {
        if self.since.insert(digest, slot).is_some() {
            return;
        }
        self.order.push_back(digest);
        if self.order.len() > VERIFIED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.since.remove(&oldest);
        }
    }

    pub(super) fn prune(&mut self, now: Slot) {
        let (since, oldest) = (&mut self.since, now.saturating_sub(VERIFIED_SLOTS));
        since.retain(|_, slot| *slot >= oldest);
        self.order.retain(|digest| since.contains_key(digest));
    }
}

/// The claim of each message that does not hold, or none; nothing if the job has no verdicts.
/// A worker that found bad inputs by itself names no claim: then it is the last one.
fn failed_claims(outcome: Outcome<Product>, items: usize) -> Option<Vec<Option<usize>>> {
    match outcome {
        Outcome::Done(Product::Verdicts(verdicts)) if verdicts.len() == items => {
            let claim = |verdict| match verdict {
                scheme::Verdict::Valid => None,
                scheme::Verdict::Invalid { claim } => Some(claim),
            };
            Some(verdicts.into_iter().map(claim).collect())
        }
        Outcome::Invalid(bad) => {
            let mut claims = vec![None; items];
            for i in bad {
                *claims.get_mut(i)? = Some(usize::MAX);
            }
            Some(claims)
        }
        _ => None,
    }
}

impl Horn {
    /// Takes a message from the network, or, without an origin, an own one that is to be
    /// validated like anyone's.
    pub(super) fn receive(&mut self, origin: Origin, topic: Topic, data: Bytes) {
        self.fx.seen(topic.kind());
        self.admit(origin, topic, data);
    }

    fn admit(&mut self, origin: Origin, topic: Topic, data: Bytes) {
        let admitted = match topic {
            Topic::Vote { cell } => self.admit_vote(origin, cell, &data),
            Topic::Aggregate { committee } => self.admit_aggregate(origin, committee, &data),
            Topic::Collection => self.admit_collection(origin, &data),
            Topic::Block => self.admit_block(origin, &data),
        };
        match admitted {
            Ok(()) => {}
            Err(Refusal::Reject(reason)) => self.fx.reject(origin, reason),
            Err(Refusal::Unprepared) => {
                self.fx.counters.epoch_unprepared += 1;
                self.fx.ignore(origin);
            }
            Err(Refusal::Park(awaited, seat)) => self.park((awaited, seat), topic, origin, data),
        }
    }

    /// Check 2.
    fn check_window(&self, slot: Slot) -> Result<(), Reject> {
        let early = self.now.saturating_add_ns(TOLERANCE_NS);
        if early < self.clock.slot_start(slot) {
            Err(Reject::TooEarly)
        } else if self.now >= window_end(&self.clock, slot) {
            Err(Reject::TooOld)
        } else {
            Ok(())
        }
    }

    /// Checks 2 and 3 of a vote; the slot's state exists afterwards.
    fn admit_ballot(&mut self, vote: &Vote) -> Result<Arc<Ballot>, Refusal> {
        self.check_window(vote.slot)?;
        let network = self.config.network();
        let state = self.ensure_slot(vote.slot).ok_or(Refusal::Unprepared)?;
        if let Some(ballot) = state.ballots.find(vote) {
            return Ok(ballot);
        }
        match self.chain.check_vote(vote) {
            Ok(()) => {}
            Err(Reject::UnknownBlock) => {
                return Err(Refusal::Park(Awaited::Block(vote.head), None));
            }
            Err(reason) => return Err(reason.into()),
        }
        // Of a branch with other committees: its blocks tell what was voted there.
        let mix = self.mix_of(vote);
        let state = self.slots.get(&vote.slot);
        if state.is_none_or(|state| Some(state.committees.mix) != mix) {
            return Err(Refusal::Unprepared);
        }
        let ballot = Ballot::new(network, *vote);
        if let Some(state) = self.slots.get_mut(&vote.slot) {
            state.ballots.remember(&ballot);
        }
        Ok(ballot)
    }

    /// The reason for which claim number `claim` of a sender stands.
    fn reason_of(&self, claim: usize) -> Reject {
        let without_proof = usize::from(self.config.selection == Selection::Rank);
        match claim.saturating_add(without_proof) {
            0 => Reject::BadSelection,
            _ => Reject::BadEnvelope,
        }
    }

    /// Rejects what a job found false or could not judge, and gives back the rest. What a sender
    /// signed is its own: one whose evidence does not hold is looked at no more in the slot, and of
    /// many that it signed two go on, enough to prove that it contradicts itself.
    fn passed<M: Posted>(
        &mut self,
        messages: Vec<Waiting<M>>,
        stage: Stage,
        outcome: Outcome<Product>,
    ) -> Vec<Waiting<M>> {
        let failed = failed_claims(outcome, messages.len());
        self.fx.counters.jobs_failed += u64::from(failed.is_none());
        let mut passed = Vec::new();
        let mut of_sender: BTreeMap<(Slot, Validator), u32> = BTreeMap::new();
        for (i, waiting) in messages.into_iter().enumerate() {
            let (origin, slot) = (waiting.origin, waiting.ballot.vote.slot);
            let sender = waiting.message.sender();
            match failed.as_ref().map(|claims| claims[i]) {
                None => self.fx.ignore(origin),
                Some(None) => {
                    let count = of_sender.entry((slot, sender)).or_default();
                    *count += 1;
                    match *count <= SIGNED_PER_SENDER_MAX {
                        true => passed.push(waiting),
                        false => self.fx.reject(origin, Reject::Duplicate),
                    }
                }
                Some(Some(claim)) if stage == Stage::Sender => {
                    self.fx.reject(origin, self.reason_of(claim));
                }
                Some(Some(_)) => {
                    if let Some(state) = self.slots.get_mut(&slot) {
                        waiting.message.senders(state).refuse(sender);
                    }
                    self.fx.reject(origin, Reject::BadEvidence);
                }
            }
        }
        passed
    }

    /// Starts the jobs of all batches that are due.
    pub(super) fn run_due(&mut self) {
        for due in std::mem::take(&mut self.due) {
            match due {
                Due::Blocks => self.verify_proposers(),
                Due::Votes(slot, cell) => self.verify_votes(slot, cell),
                Due::Aggregates(slot, committee) => self.verify_aggregates(slot, committee),
                Due::Collections => self.verify_collections(),
            }
        }
    }
}

/// Check 6: whether the member at a position of a post serves, by its proof or by its rank.
fn serves(
    state: &mut SlotState,
    config: &Config,
    post: Post,
    position: u32,
    proof: Option<&Bytes>,
) -> bool {
    let target = config.target(post);
    match (config.selection, proof) {
        (Selection::Lottery, Some(proof)) => {
            let positions = post.positions(state.layout());
            let members = positions.end - positions.start;
            selection::selected(selection::ticket(proof), u32::from(target), members)
        }
        (Selection::Lottery, None) => false,
        (Selection::Rank, _) => state.ranked(post, target).contains(&position),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_digests_is_remembered_for_some_slots() {
        let digest = |i: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&i.to_le_bytes());
            digest
        };
        let mut verified = Verified::default();
        for i in 0..=VERIFIED_MAX {
            verified.insert(digest(i), Slot(i as u64 % 2));
            verified.insert(digest(i), Slot(5));
        }
        assert!(!verified.contains(&digest(0)), "the oldest is forgotten");
        assert!((1..=VERIFIED_MAX).all(|i| verified.contains(&digest(i))));
        assert_eq!((verified.since.len(), verified.order.len()), (2_048, 2_048));
        verified.prune(Slot(5 + VERIFIED_SLOTS));
        assert_eq!(verified.order.len(), 2_048);
        verified.prune(Slot(6 + VERIFIED_SLOTS));
        assert_eq!((verified.since.len(), verified.order.len()), (0, 0));
    }
}
