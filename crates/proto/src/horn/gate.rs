//! What is checked of a message before it is taken, in which order, and what waits meanwhile.
//!
//! The first check that fails decides. Checks 1 to 7 are cheap and made on arrival, 8 to 10 are
//! one job, 11 is made when the job ends:
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
//! Only accepted messages are compared with: a forged message must not suppress an honest one
//! while its job runs. A message about an unknown block waits for the block, for two seconds; a block
//! of a branch with other committees waits for them as long.

mod aggregates;
mod blocks;
mod collections;
mod votes;

use alphorn_scheme::{self as scheme, Bytes, Outcome, Product};
use alphorn_types::{Slot, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::ballot::Ballot;
use super::config::{Config, Selection};
use super::deadlines::{TOLERANCE_NS, window_end};
use super::effects::Origin;
use super::machine::{Due, Horn, Timer};
use super::selection::{self, Post};
use super::state::SlotState;
use crate::contract::Peer;
use crate::wire::{Kind, Reject, Root, Topic, Vote};

pub(super) use aggregates::ROOM as AGGREGATES_ROOM;
pub(super) use blocks::{BlockJob, Blocks};
pub(super) use collections::{ROOM as COLLECTIONS_ROOM, statement};
pub(super) use votes::room as votes_room;

/// Most messages of one verification job.
pub const ITEMS_PER_JOB_MAX: usize = 4_096;
/// How long a message waits for a block.
const PARKED_NS: u64 = 2_000_000_000;
/// Most messages that wait for one block.
const PARKED_PER_BLOCK_MAX: usize = 64;
/// Most blocks and committees that are waited for.
const PARKED_BLOCKS_MAX: usize = 64;
/// Most bytes of waiting messages.
pub(super) const PARKED_BYTES_MAX: usize = 64 << 20;
/// Digests of verified evidence that are remembered.
const VERIFIED_MAX: usize = 2_048;
/// For how many slots they are remembered.
const VERIFIED_SLOTS: u64 = 4;

/// What a message can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Awaited {
    /// A block.
    Block(Root),
    /// The committees of another branch, by what it supplied for their epoch.
    Committees([u8; 32]),
}

/// Why a message does not go on.
pub(super) enum Refusal {
    /// It is not taken.
    Reject(Reject),
    /// It waits for something.
    Park(Awaited),
    /// The committees of its epoch are not ready here.
    Unprepared,
}

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Self {
        Self::Reject(reject)
    }
}

/// A message that waits.
struct Parked {
    until: Time,
    topic: Topic,
    origin: Origin,
    data: Bytes,
}

/// Messages that wait, by what for.
#[derive(Default)]
pub(super) struct Lot {
    rows: BTreeMap<Awaited, VecDeque<Parked>>,
    bytes: usize,
}

impl Lot {
    /// Parks a message; gives its origin back if there is no room.
    fn park(&mut self, awaited: Awaited, message: Parked) -> Result<(), Origin> {
        let bytes = message.data.len();
        let known = self.rows.contains_key(&awaited);
        let full = (!known && self.rows.len() >= PARKED_BLOCKS_MAX)
            || self.bytes + bytes > PARKED_BYTES_MAX
            || self
                .rows
                .get(&awaited)
                .is_some_and(|row| row.len() >= PARKED_PER_BLOCK_MAX);
        if full {
            return Err(message.origin);
        }
        self.bytes += bytes;
        self.rows.entry(awaited).or_default().push_back(message);
        Ok(())
    }

    /// Bytes of all messages that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a message waits for a block.
    fn awaits(&self, block: &Root) -> bool {
        self.rows.contains_key(&Awaited::Block(*block))
    }

    /// The blocks that are waited for, with the number of messages and the peers that sent them.
    fn blocks(&self) -> Vec<(Root, usize, Vec<Peer>)> {
        let blocks = self.rows.iter().filter_map(|(awaited, row)| match awaited {
            Awaited::Block(root) => Some((root, row)),
            Awaited::Committees(_) => None,
        });
        let with_peers = |(root, row): (&Root, &VecDeque<Parked>)| {
            let mut known = BTreeSet::new();
            let senders = row.iter().filter_map(|parked| parked.origin);
            let peers = senders.map(|(peer, _)| peer);
            let peers = peers.filter(|peer| known.insert(*peer)).collect();
            (*root, row.len(), peers)
        };
        blocks.map(with_peers).collect()
    }

    fn take(&mut self, awaited: &Awaited) -> VecDeque<Parked> {
        let row = self.rows.remove(awaited).unwrap_or_default();
        self.bytes -= row.iter().map(|parked| parked.data.len()).sum::<usize>();
        row
    }

    fn expire(&mut self, now: Time) -> Vec<Origin> {
        let mut gone = Vec::new();
        for row in self.rows.values_mut() {
            while row.front().is_some_and(|parked| parked.until <= now) {
                if let Some(parked) = row.pop_front() {
                    self.bytes -= parked.data.len();
                    gone.push(parked.origin);
                }
            }
        }
        self.rows.retain(|_, row| !row.is_empty());
        gone
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
            Err(Refusal::Park(awaited)) => {
                let until = self.now.saturating_add_ns(PARKED_NS);
                let parked = Parked {
                    until,
                    topic,
                    origin,
                    data,
                };
                match self.lot.park(awaited, parked) {
                    Ok(()) => self.set_timer(until, Timer::Parked),
                    Err(origin) => self.fx.reject(origin, Reject::UnknownBlock),
                }
            }
        }
    }

    /// Something is there now: what waited for it goes on.
    pub(super) fn unpark(&mut self, awaited: &Awaited) {
        for parked in self.lot.take(awaited) {
            self.admit(parked.origin, parked.topic, parked.data);
        }
    }

    pub(super) fn expire_parked(&mut self) {
        for origin in self.lot.expire(self.now) {
            self.fx.counters.parked_expired += 1;
            self.fx.reject(origin, Reject::UnknownBlock);
        }
    }

    /// Blocks that messages wait for, each with the peers that sent those messages: whoever drives
    /// the machine may fetch a block from one of them and hand it in as a message. Blocks that more
    /// peers speak of come first, then those that more messages wait for; of a block's peers, the
    /// one that spoke of it first.
    pub fn missing_blocks(&self) -> impl Iterator<Item = (Root, Vec<Peer>)> {
        let mut missing = self.lot.blocks();
        missing.retain(|(root, _, _)| self.chain.header(root).is_none());
        missing.sort_by_key(|(_, messages, peers)| Reverse((peers.len(), *messages)));
        let named = missing.into_iter();
        named.map(|(root, _, peers)| (root, peers))
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
            Err(Reject::UnknownBlock) => return Err(Refusal::Park(Awaited::Block(vote.head))),
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

    /// Check 1 of a message whose support may refer to its vote's head, up to the vote: the head
    /// must be known before the rest can be read.
    fn peek_vote(&mut self, data: &[u8], kind: Kind) -> Result<Arc<Ballot>, Refusal> {
        let vote = Vote::peek(data, kind).map_err(Reject::from_decode)?;
        self.admit_ballot(&vote)
    }

    /// The reason for which claim number `claim` of an aggregate or a collection stands.
    fn reason_of(&self, claim: usize) -> Reject {
        let without_proof = usize::from(self.config.selection == Selection::Rank);
        match claim.saturating_add(without_proof) {
            0 => Reject::BadSelection,
            1 => Reject::BadEnvelope,
            _ => Reject::BadEvidence,
        }
    }

    /// Starts the jobs of all batches that are due.
    pub(super) fn run_due(&mut self) {
        for due in std::mem::take(&mut self.due) {
            match due {
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
