//! Message validation: which checks are made in which order before a message is accepted, and what waits
//! in the meantime.
//!
//! The first check that fails decides. Checks 1 to 7 are cheap and run on arrival, 8 to 10 are jobs, and
//! 11 runs when the last job ends:
//!
//! | # | check |
//! |---|---|
//! | 1 | it decodes, within limits and canonically; indices are in range; it came on its topic |
//! | 2 | its slot is the current or previous one, with half a second of tolerance; blocks may be older, to fill a gap |
//! | 3 | the head of its vote is known and can still be one; source and target fit the head's chain |
//! | 4 | the sender or voter is in the committee or cell; the proposer has the slot |
//! | 5 | it has at least one signer; no multiplicity is above the bound |
//! | 6 | the ticket wins, or the rank serves |
//! | 7 | nothing was **accepted** from this sender in the slot; caps; the subset rule; whether the vote can count |
//! | 8 | the selection proof |
//! | 9 | the envelope's signature |
//! | 10 | the evidence of the votes |
//! | 11 | 7 again, against what was accepted while the job ran |
//!
//! For blocks, check 7 remembers the accepted one until the slot is final. Cheap checks come before
//! expensive ones: 8 and 9 are a separate job before 10, so a forged aggregate, collection or block costs
//! no more than its sender's signatures.
//!
//! Messages are compared with accepted messages only, so that a forged message cannot suppress an honest
//! one while its job runs. A message about an unknown block waits for the block for two seconds, if its
//! sender passes 4 and 6 under the committees in force. A block of a branch with other committees waits
//! for them equally long once it has passed 9. Nothing else triggers drawing committees.

mod aggregates;
mod block_job;
mod blocks;
mod closed;
mod lot;
mod verdicts;
mod votes;

use alphorn_scheme::{Bytes, Outcome, Product};
use alphorn_types::{Cell, Epoch, Peer, Slot, Time, Unit, Validator};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use self::lot::{Awaited, Lot, Seat};
use super::ballot::Ballot;
use super::batch::Batch;
use super::cell_votes::WaitingVote;
use super::config::{Config, SchemeInfo, Selection};
use super::deadlines::{TOLERANCE_NS, window_end};
use super::effects::Origin;
use super::fair::Waits;
use super::local::Hosted;
use super::role::Lent;
use super::selection;
use super::state::{SlotState, Waiting};
use super::store::Claimed;
use super::task::Queue;
use crate::maps::forget_before;
use crate::wire::{Aggregate, Block, Kind, Reject, Root, Topic, Vote, VoteMsg};
use block_job::BlockJob;
use blocks::Blocks;
use closed::Closed;
use verdicts::failed_claims;
use votes::{take_own_vote, verify_votes};

pub(super) use aggregates::room as aggregates_room;
pub(super) use blocks::{ROOM as BLOCKS_ROOM, WaitingBlock};
pub(super) use closed::Closed as ClosedSlots;
pub(super) use votes::room as votes_room;

/// Maximum number of messages of one sender and slot whose evidence is verified together: the first, and
/// a second that proves an equivocation.
const SIGNED_PER_SENDER_MAX: u32 = 2;
/// Maximum number of messages in one verification job.
pub const ITEMS_PER_JOB_MAX: usize = 4_096;
/// How long a message waits for a block.
const PARKED_NS: u64 = 2_000_000_000;
/// Maximum number of remembered digests of verified evidence.
const VERIFIED_MAX: usize = 2_048;
/// Number of slots for which they are remembered.
const VERIFIED_SLOTS: u64 = 4;

/// Inputs of the gate.
pub(super) enum Input {
    /// A message from a peer arrived.
    Message {
        origin: Origin,
        topic: Topic,
        data: Bytes,
    },
    /// A message was made and published here.
    Own {
        message: Own,
        topic: Topic,
        data: Bytes,
    },
    /// A job ended.
    Finished { job: Job, outcome: Outcome<Product> },
    /// The chain accepted or rejected a verified block.
    Imported {
        block: WaitingBlock,
        result: Result<(), Reject>,
    },
    /// The committees of a branch are ready.
    Prepared { mix: [u8; 32] },
    /// All messages of this instant have arrived: batches become jobs.
    Verify,
    /// The time of [`Gate::next_deadline`] has come.
    Deadline,
    /// A slot begins: old verification results are forgotten.
    Slot { slot: Slot },
    /// Messages of the slot are no longer accepted.
    Close { slot: Slot },
}

/// A message made here.
pub(super) enum Own {
    Vote(Arc<Ballot>, VoteMsg),
    Aggregate(Aggregate),
    Block(Block),
}

/// Results of verified messages.
pub(super) enum Made {
    /// Votes of a committee were verified.
    Votes { slot: Slot, committee: u16 },
    /// Aggregates to be combined into evidence of a unit were verified.
    Aggregates { slot: Slot, unit: Unit },
    /// An aggregate of a unit was accepted. A committee's aggregate may go into a block.
    Accepted {
        slot: Slot,
        unit: Unit,
        collection: Option<Arc<Claimed>>,
    },
    /// A block for the chain. The result comes back as an input.
    Block(WaitingBlock),
    /// A block with a valid proposer signature waits for the committees of another branch.
    Branch {
        epoch: Epoch,
        mix: [u8; 32],
        proposer: Validator,
    },
}

/// Stage of a verification. The cheap one comes first, so that a forged message costs no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The sender's ticket and envelope.
    Sender,
    /// The evidence of the votes.
    Evidence,
}

/// A verification job of the gate. `tries` counts the jobs for the same messages, including this one.
pub(super) enum Job {
    /// Votes of a cell.
    Votes {
        slot: Slot,
        cell: Cell,
        votes: Vec<WaitingVote>,
        tries: u8,
    },
    /// Aggregates that waited together.
    Aggregates {
        queue: Queue,
        epoch: Epoch,
        stage: Stage,
        aggregates: Vec<Waiting>,
        tries: u8,
    },
    /// The proposers' signatures of blocks.
    Proposers {
        blocks: Vec<WaitingBlock>,
        tries: u8,
    },
    /// Entries of a block that belong to one epoch.
    Block(BlockJob),
}

impl Job {
    /// Bytes of its messages.
    pub(super) fn bytes(&self) -> usize {
        fn sum<M: Waits>(messages: &[M]) -> usize {
            messages.iter().map(Waits::held_bytes).sum()
        }
        match self {
            Self::Votes { votes, .. } => sum(votes),
            Self::Aggregates { aggregates, .. } => sum(aggregates),
            Self::Proposers { blocks, .. } => sum(blocks),
            // The block is counted where it waits for all its jobs to end.
            Self::Block(_) => 0,
        }
    }
}

/// A batch that is verified at the end of the instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// Signatures of proposers.
    Blocks,
    /// Votes of a cell.
    Votes(Slot, Cell),
    /// Aggregates.
    Aggregates(Queue),
}

/// Why a message does not proceed.
pub(super) enum Refusal {
    /// It is rejected.
    Reject(Reject),
    /// It waits for something, under its sender's seat.
    Park(Awaited, Option<Seat>),
    /// The committees of its epoch are not ready at this node.
    Unprepared,
}

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Self {
        Self::Reject(reject)
    }
}

/// Digests of verified evidence, by the slot of its vote. A block of known collections needs no further
/// verification.
#[derive(Default)]
pub(super) struct Verified {
    /// Each list ascending.
    by_slot: BTreeMap<Slot, Vec<Arc<[u8; 32]>>>,
    count: usize,
}

impl Verified {
    fn contains(&self, claimed: &Claimed) -> bool {
        // The digest covers the vote, whose head fixes the committees: what was verified under those of
        // one branch does not pass for another's.
        let of_slot = self.by_slot.get(&claimed.entry.vote.slot);
        of_slot.is_some_and(|of_slot| of_slot.binary_search(&claimed.digest).is_ok())
    }

    /// Remembers a verified digest. Beyond the bound, digests of the oldest slot are dropped first.
    fn insert(&mut self, claimed: &Claimed) {
        let of_slot = self.by_slot.entry(claimed.entry.vote.slot).or_default();
        if let Err(place) = of_slot.binary_search(&claimed.digest) {
            of_slot.insert(place, claimed.digest.clone());
            self.count += 1;
        }
        // Evidence of an old slot evicts evidence that is at least as old: blocks full of old votes do
        // not make the node forget the collections of the present.
        if self.count > VERIFIED_MAX
            && let Some(mut oldest) = self.by_slot.first_entry()
        {
            // Any of that slot will do.
            oldest.get_mut().remove(0);
            self.count -= 1;
            if oldest.get().is_empty() {
                oldest.remove();
            }
        }
    }

    fn prune(&mut self, now: Slot) {
        forget_before(&mut self.by_slot, &now.saturating_sub(VERIFIED_SLOTS));
        self.count = self.by_slot.values().map(Vec::len).sum();
    }
}

/// Validates messages before they count, are forwarded, or go into a block.
pub(super) struct Gate {
    /// Waiting collections of all slots and committees.
    collections: Batch<Waiting>,
    blocks: Blocks,
    closed: Closed,
    lot: Lot,
    verified: Verified,
    due: BTreeSet<Due>,
    made: VecDeque<Made>,
}

impl Gate {
    pub(super) fn new(config: &Config, info: &SchemeInfo, local: &Hosted) -> Self {
        Self {
            collections: Batch::default(),
            blocks: Blocks::default(),
            closed: Closed::default(),
            lot: Lot::new(config.parked_room(info, local)),
            verified: Verified::default(),
            due: BTreeSet::new(),
            made: VecDeque::new(),
        }
    }

    /// Handles an input. Never fails and never blocks.
    pub(super) fn handle(&mut self, lent: &mut Lent<'_>, input: Input) {
        match input {
            Input::Message {
                origin,
                topic,
                data,
            } => self.receive(lent, origin, topic, data),
            Input::Own {
                message,
                topic,
                data,
            } => match lent.local.trusts_own() {
                true => self.take_own(lent, message, data),
                false => self.receive(lent, None, topic, data),
            },
            Input::Finished { job, outcome } => self.finished(lent, job, outcome),
            Input::Imported { block, result } => self.imported(lent, block, result),
            Input::Prepared { mix } => self.unpark(lent, &Awaited::Committees(mix)),
            Input::Verify => self.run_due(lent),
            Input::Deadline => self.expire_parked(lent),
            Input::Slot { slot } => {
                self.verified.prune(slot);
                self.closed.prune(lent.chain.finalised().slot);
            }
            Input::Close { slot } => self.close(lent, slot),
        }
    }

    /// Returns the next result of verified messages, or none if there are no more.
    pub(super) fn poll_output(&mut self) -> Option<Made> {
        let made = self.made.pop_front();
        if self.made.is_empty() {
            // The results of a batch need room that is seldom needed again.
            self.made.shrink_to(1);
        }
        made
    }

    /// When to call the gate again if nothing happens before.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.lot.next_deadline()
    }

    /// Whether batches wait for the end of the instant.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Bytes of all messages waiting here, excluding those in slots and jobs.
    pub(super) fn bytes(&self) -> usize {
        self.collections.bytes() + self.blocks.bytes() + self.lot.bytes()
    }

    /// Whether messages wait for a block.
    pub(super) fn awaits_blocks(&self) -> bool {
        self.lot.awaits_blocks()
    }

    /// The blocks that messages wait for. See [`Horn::missing_blocks`](super::Horn::missing_blocks).
    pub(super) fn awaited_blocks(&self) -> Vec<(Root, Vec<Peer>)> {
        self.lot.blocks()
    }

    /// Bytes of the records about proposers of past slots.
    pub(super) fn closed_bytes(&self) -> usize {
        self.closed.bytes()
    }

    /// Stops accepting messages of a slot, except its blocks.
    fn close(&mut self, lent: &mut Lent<'_>, slot: Slot) {
        let Some(state) = lent.slots.get_mut(&slot) else {
            return;
        };
        // Collections are in a batch of all slots, which gives up those of closed ones itself
        // (`verify_aggregates`).
        for origin in state.give_up() {
            lent.fx.reject(origin, Reject::TooOld);
        }
        if slot > lent.chain.finalised().slot {
            let block = state.block.take();
            self.closed.close(slot, block, state.false_blocks);
        }
    }

    /// Accepts a message for validation, whatever its origin.
    fn receive(&mut self, lent: &mut Lent<'_>, origin: Origin, topic: Topic, data: Bytes) {
        lent.fx.seen(topic.kind());
        self.admit(lent, origin, topic, data);
    }

    fn admit(&mut self, lent: &mut Lent<'_>, origin: Origin, topic: Topic, data: Bytes) {
        let admitted = match topic {
            Topic::Vote { cell } => self.admit_vote(lent, origin, cell, &data),
            Topic::Aggregate { .. } | Topic::Collection => {
                self.admit_aggregate(lent, origin, topic, &data)
            }
            Topic::Block => self.admit_block(lent, origin, &data),
        };
        if let Err(refusal) = admitted {
            self.refuse(lent, refusal, topic, origin, data);
        }
    }

    /// Handles a message that does not proceed, or not yet.
    fn refuse(
        &mut self,
        lent: &mut Lent<'_>,
        refusal: Refusal,
        topic: Topic,
        origin: Origin,
        data: Bytes,
    ) {
        match refusal {
            Refusal::Reject(reason) => lent.fx.reject(origin, reason),
            Refusal::Unprepared => {
                lent.fx.counters.epoch_unprepared += 1;
                lent.fx.ignore(origin);
            }
            Refusal::Park(awaited, seat) => self.park(lent, awaited, seat, topic, origin, data),
        }
    }

    /// Accepts a message made here: the job that made it has verified it.
    fn take_own(&mut self, lent: &mut Lent<'_>, message: Own, data: Bytes) {
        match message {
            Own::Vote(ballot, message) => take_own_vote(lent, ballot, message, data),
            Own::Aggregate(message) => {
                lent.fx.seen(lent.format.kind(message.unit.level));
                let state = lent.slots.get(&message.vote.slot);
                if let Some(ballot) = state.and_then(|of| of.ballots.find(&message.vote)) {
                    let waiting = Waiting {
                        origin: None,
                        ballot,
                        message: lent.store.keep(data, message, lent.format),
                    };
                    self.take_aggregate(lent, waiting);
                }
            }
            // Not accepted yet: the chain decides first, and its result comes back as for a peer's
            // block.
            Own::Block(block) => {
                lent.fx.seen(Kind::Block);
                let block = lent.store.keep(data, block, lent.format);
                let waiting = WaitingBlock::new(lent, None, block);
                self.made.push_back(Made::Block(waiting));
            }
        }
    }

    fn finished(&mut self, lent: &mut Lent<'_>, job: Job, outcome: Outcome<Product>) {
        if let Outcome::Invalid(named) = &outcome {
            return self.verify_rest(lent, job, named);
        }
        match job {
            Job::Votes {
                slot, cell, votes, ..
            } => self.votes_verified(lent, slot, cell, votes, outcome),
            Job::Aggregates {
                queue,
                epoch,
                stage,
                aggregates,
                ..
            } => self.aggregates_verified(lent, queue, epoch, stage, aggregates, outcome),
            Job::Proposers { blocks, .. } => self.proposers_verified(lent, blocks, outcome),
            Job::Block(job) => self.block_verified(lent, job, outcome),
        }
    }

    /// Starts the jobs of all batches that are due.
    fn run_due(&mut self, lent: &mut Lent<'_>) {
        // Taken out whole: a job that cannot start ends at once, and may make its batch due again.
        for due in std::mem::take(&mut self.due) {
            match due {
                Due::Blocks => self.verify_proposers(lent),
                Due::Votes(slot, cell) => verify_votes(lent, slot, cell),
                Due::Aggregates(queue) => self.verify_aggregates(lent, queue),
            }
        }
    }
}

/// Check 2.
fn check_window(lent: &Lent<'_>, slot: Slot) -> Result<(), Reject> {
    // Clocks of honest nodes differ, so a message early by no more than the tolerance is treated as on
    // time.
    let early = lent.now.saturating_add_ns(TOLERANCE_NS);
    if early < lent.clock.slot_start(slot) {
        Err(Reject::TooEarly)
    } else if lent.now >= window_end(lent.clock, slot) {
        Err(Reject::TooOld)
    } else {
        Ok(())
    }
}

/// Runs checks 2 and 3 of a vote. Afterwards the slot's state exists.
fn admit_ballot(lent: &mut Lent<'_>, vote: &Vote) -> Result<Arc<Ballot>, Refusal> {
    check_window(lent, vote.slot)?;
    let state = lent.ensure_slot(vote.slot).ok_or(Refusal::Unprepared)?;
    if let Some(ballot) = state.ballots.find(vote) {
        return Ok(ballot);
    }
    match lent.chain.check_vote(vote) {
        Ok(()) => {}
        Err(Reject::UnknownBlock) => {
            return Err(Refusal::Park(Awaited::Block(vote.head), None));
        }
        Err(reason) => return Err(reason.into()),
    }
    // A vote of a branch with other committees is not accepted here: that branch's blocks show what was
    // voted there.
    let mix = lent.mix_of(vote);
    let state = lent.slots.get_mut(&vote.slot);
    let state = state.filter(|state| Some(state.committees.mix) == mix);
    let ballot = Ballot::new(lent.config.network(), *vote);
    state.ok_or(Refusal::Unprepared)?.ballots.remember(&ballot);
    Ok(ballot)
}

/// The reject reason for claim number `claim` of a sender.
fn reason_of(selection: Selection, claim: usize) -> Reject {
    // Without a lottery there is no ticket, and the first claim is the envelope.
    match claim.saturating_add(usize::from(selection == Selection::Rank)) {
        0 => Reject::BadSelection,
        _ => Reject::BadEnvelope,
    }
}

/// Rejects messages that a job found false or could not judge, and returns the rest. Senders are
/// responsible for what they signed: a sender of invalid evidence is ignored for the rest of the slot,
/// and of many messages signed by one sender two proceed, enough to prove that it contradicts itself.
fn passed(
    lent: &mut Lent<'_>,
    messages: Vec<Waiting>,
    stage: Stage,
    outcome: Outcome<Product>,
) -> Vec<Waiting> {
    let failed = failed_claims(outcome, messages.len());
    lent.fx.counters.jobs_failed += u64::from(failed.is_none());
    let mut passed = Vec::new();
    let mut of_sender: BTreeMap<(Slot, Unit, Validator), u32> = BTreeMap::new();
    for (i, waiting) in messages.into_iter().enumerate() {
        let (origin, slot) = (waiting.origin, waiting.ballot.vote.slot);
        let (sender, unit) = (waiting.message.sender, waiting.message.unit);
        match failed.as_ref().map(|claims| claims[i]) {
            None => lent.fx.ignore(origin),
            Some(None) => {
                let count = of_sender.entry((slot, unit, sender)).or_default();
                *count += 1;
                match *count <= SIGNED_PER_SENDER_MAX {
                    true => passed.push(waiting),
                    false => lent.fx.reject(origin, Reject::Duplicate),
                }
            }
            // Anyone can put another's name on a message. A false envelope or ticket proves nothing
            // against that sender, so its true message is still accepted.
            Some(Some(claim)) if stage == Stage::Sender => {
                lent.fx
                    .reject(origin, reason_of(lent.config.selection, claim));
            }
            Some(Some(_)) => {
                if let Some(state) = lent.slots.get_mut(&slot) {
                    state.refuse(unit, sender);
                }
                lent.fx.reject(origin, Reject::BadEvidence);
            }
        }
    }
    passed
}

/// Check 6: whether the member at a position of a unit serves, by its proof or by its rank.
fn serves(
    state: &SlotState,
    config: &Config,
    unit: Unit,
    position: u32,
    proof: Option<&Bytes>,
) -> bool {
    let target = config.level(unit.level).publishers;
    match (config.selection, proof) {
        (Selection::Lottery, Some(proof)) => {
            // The proof is not verified yet: any bytes whose hash is low enough pass here. Check 8
            // verifies it, in the cheap job.
            let members = state.layout().unit_len(unit);
            selection::selected(selection::ticket(proof), u32::from(target), members)
        }
        (Selection::Lottery, None) => false,
        (Selection::Rank, _) => {
            let order = state.committees.ranked(state.slot, unit, target);
            order.contains(&position)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Entry;
    use alphorn_scheme::Evidence;
    use alphorn_types::{Bitfield, Support};

    fn claimed(slot: u64, number: usize) -> Claimed {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        let vote = Vote {
            slot: Slot(slot),
            ..Vote::default()
        };
        let support = Arc::new(Support::new(1));
        let evidence = Evidence {
            support,
            bytes: Bytes::from([]),
        };
        Claimed {
            entry: Entry {
                vote,
                committee: 0,
                evidence,
            },
            digest: Arc::new(digest),
            signers: Arc::new(Bitfield::new(1)),
        }
    }

    #[test]
    fn a_bounded_number_of_digests_is_remembered_for_some_slots() {
        let mut verified = Verified::default();
        for number in 0..=VERIFIED_MAX {
            let slot = 5 + u64::from(number > 0);
            verified.insert(&claimed(slot, number));
            verified.insert(&claimed(slot, number));
        }
        assert!(
            !verified.contains(&claimed(5, 0)),
            "the oldest is forgotten"
        );
        assert!((1..=VERIFIED_MAX).all(|number| verified.contains(&claimed(6, number))));
        assert_eq!(verified.count, VERIFIED_MAX);
        verified.insert(&claimed(7, 0));
        assert_eq!(verified.count, VERIFIED_MAX);
        assert!(!verified.contains(&claimed(6, 1)) && verified.contains(&claimed(7, 0)));
        verified.prune(Slot(6 + VERIFIED_SLOTS));
        assert_eq!(verified.count, VERIFIED_MAX);
        verified.prune(Slot(7 + VERIFIED_SLOTS));
        assert_eq!((verified.count, verified.by_slot.len()), (1, 1));
    }
}
