//! Per-slot state of a node.

use alphorn_scheme::{Bytes, Evidence, SessionId};
use alphorn_types::{Bitfield, Cell, Epoch, LEVELS_MAX, Layout, Peer, Slot, Unit, Validator};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ballot::{Ballot, Ballots};
use super::batch::Batch;
use super::cell_votes::{CellVotes, FirstVote};
use super::effects::{Effects, Origin};
use super::epochs::Committees;
use super::fair::Waits;
use super::store::Received;
use super::view::{BlockView, CollectionView, SlotView};
use crate::slot::Phase;
use crate::wire::{Aggregate, Reject, Root, Vote, WireFormat};

/// Header size of shared bytes.
pub(super) const SHARED_BYTES: usize = 16;
/// Overhead of an accepted message beyond its bytes: its sender, what was signed, its position.
pub(super) const MESSAGE_BYTES: usize = 256;

/// An aggregate awaiting verification.
pub(super) struct Waiting {
    /// None if it was made here.
    pub(super) origin: Origin,
    pub(super) ballot: Arc<Ballot>,
    pub(super) message: Arc<Received<Aggregate>>,
}

impl Waits for Waiting {
    fn peer(&self) -> Option<Peer> {
        self.origin.map(|(peer, _)| peer)
    }

    /// Bytes of the message on the wire and decoded.
    fn held_bytes(&self) -> usize {
        let support = &self.message.evidence.support;
        // Twice: as received, and for the decoded evidence, which is no longer than the message.
        2 * self.message.data.len() + support.planes_count() * support.len() / 8
    }
}

/// How a message relates to earlier ones from its sender.
pub(super) enum Standing<T> {
    /// None was accepted before.
    First,
    /// Another one was accepted before.
    Second(T),
}

/// The first accepted aggregate of a sender.
pub(super) type Accepted = Arc<Received<Aggregate>>;

/// Bytes of an accepted aggregate including overhead, both as received and decoded.
pub(super) fn accepted_bytes(accepted: &Accepted) -> u64 {
    let (evidence, data) = (&accepted.evidence, &accepted.data);
    let planes = evidence.support.planes_count() as u64;
    let support = planes * bits_bytes(evidence.support.len() as u32);
    support + (MESSAGE_BYTES + data.len() + evidence.bytes.len()) as u64
}

/// The first accepted block of a slot's proposer.
pub(super) struct Proposal {
    pub(super) view: BlockView,
    /// The message on the wire.
    pub(super) data: Bytes,
    /// A second, different block was proven.
    pub(super) equivocated: bool,
}

/// A local validator that serves in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Serving {
    pub(super) validator: Validator,
    pub(super) unit: Unit,
    pub(super) proof: Option<Bytes>,
    /// Its rank, expected or exact. Staged publishing follows this order.
    pub(super) rank: u32,
}

/// What local roles are still making in a committee, by level, starting with votes. Roles that build on
/// it wait for it.
type Making = [bool; LEVELS_MAX as usize + 1];

/// The sessions of a slot: one for each role.
pub(super) struct Sessions {
    pub(super) duty: SessionId,
    pub(super) verify: SessionId,
    /// Evidence below the top level.
    pub(super) aggregate: SessionId,
    /// Evidence of the top level.
    pub(super) collect: SessionId,
}

/// The current slot and those around it whose messages are accepted. Boxed, because a map node reserves
/// room for eleven values.
pub(super) type Slots = BTreeMap<Slot, Box<SlotState>>;

/// Per-slot state of a node. Kept for the current and the previous slot, and for the clock tolerance
/// around them.
pub(super) struct SlotState {
    pub(super) slot: Slot,
    /// The name of its key table.
    pub(super) epoch: Epoch,
    pub(super) committees: Arc<Committees>,
    pub(super) sessions: Sessions,
    pub(super) ballots: Ballots,
    /// Ballot index of the vote cast here.
    pub(super) own: Option<u16>,
    /// The phase whose duties were started last.
    pub(super) phase: Option<Phase>,
    /// Cells for which a vote arrived.
    cells: BTreeMap<Cell, Box<CellVotes>>,
    /// Verified aggregates by unit, in order of arrival.
    gathered: BTreeMap<Unit, Vec<Accepted>>,
    /// Senders that contradicted themselves with a second aggregate of a unit, or signed invalid
    /// evidence.
    refused: BTreeSet<(Unit, Validator)>,
    /// Waiting aggregates, by the unit in which they are combined. Collections wait elsewhere.
    pub(super) batches: BTreeMap<Unit, Batch<Waiting>>,
    /// What local roles are still making, by committee.
    pub(super) making: Vec<Making>,
    /// An aggregate from a serving validator arrived. It may be waiting in batches of many slots.
    pub(super) has_aggregates: bool,
    pub(super) block: Option<Proposal>,
    /// Blocks signed by the proposer with invalid evidence.
    pub(super) false_blocks: u32,
    pub(super) votes_seen: u64,
    pub(super) votes_accepted: u64,
}

impl SlotState {
    pub(super) fn new(
        slot: Slot,
        committees: Arc<Committees>,
        vote_data_max: u16,
        fx: &mut Effects,
    ) -> Self {
        let layout = committees.assignment.layout();
        Self {
            slot,
            epoch: committees.assignment.epoch(),
            sessions: Sessions {
                duty: fx.session(slot),
                verify: fx.session(slot),
                aggregate: fx.session(slot),
                collect: fx.session(slot),
            },
            ballots: Ballots::new(vote_data_max),
            own: None,
            phase: None,
            cells: BTreeMap::new(),
            gathered: BTreeMap::new(),
            refused: BTreeSet::new(),
            batches: BTreeMap::new(),
            making: vec![Making::default(); usize::from(layout.committees())],
            has_aggregates: false,
            block: None,
            false_blocks: 0,
            votes_seen: 0,
            votes_accepted: 0,
            committees,
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        self.committees.assignment.layout()
    }

    /// Whether the slot has not gone beyond the proposal, and no message or job uses its committees.
    pub(super) fn is_untouched(&self) -> bool {
        let waits = self.votes_seen > 0 || self.has_aggregates || self.own.is_some();
        // None, before any phase, is less than every phase.
        self.phase <= Some(Phase::Propose) && !waits
    }

    /// The votes of all cells that have any.
    pub(super) fn filled_cells(&self) -> impl Iterator<Item = &CellVotes> {
        self.cells.values().map(Box::as_ref)
    }

    /// The votes of a cell, if any arrived.
    pub(super) fn cell(&self, cell: Cell) -> Option<&CellVotes> {
        self.cells.get(&cell).map(Box::as_ref)
    }

    /// The votes of a cell.
    pub(super) fn cell_mut(&mut self, cell: Cell) -> &mut CellVotes {
        self.cells.entry(cell).or_default()
    }

    /// Whether a block can be the proposer's first, or the second one that proves an equivocation. In the
    /// latter case the first one is returned with it.
    ///
    /// # Errors
    ///
    /// [`Reject::Duplicate`] if it is the first one again, or an equivocation was already proven.
    pub(super) fn admit_block(&self, root: &Root) -> Result<Standing<&Proposal>, Reject> {
        match &self.block {
            None => Ok(Standing::First),
            Some(first) if first.equivocated || first.view.root == *root => Err(Reject::Duplicate),
            Some(first) => Ok(Standing::Second(first)),
        }
    }

    /// Whether no vote of a cell is awaiting verification or a local signature.
    pub(super) fn votes_settled(&self, cell: Cell) -> bool {
        !self.making[usize::from(cell.committee)][0]
            && self.cell(cell).is_none_or(|votes| votes.batch.is_idle())
    }

    /// Whether none of the inputs to a unit's evidence is awaiting verification or still being made here.
    pub(super) fn is_settled(&self, unit: Unit) -> bool {
        match unit.cell() {
            Some(cell) => self.votes_settled(cell),
            None => {
                let making = &self.making[usize::from(unit.committee)];
                let batch = self.batches.get(&unit);
                !making[usize::from(unit.level) - 1] && batch.is_none_or(Batch::is_idle)
            }
        }
    }

    /// The accepted aggregates of all units with at least one verified.
    pub(super) fn all_accepted(&self) -> impl Iterator<Item = (Unit, &[Accepted])> {
        let all = self.gathered.iter();
        all.map(|(unit, accepted)| (*unit, accepted.as_slice()))
    }

    /// The accepted aggregates of a unit.
    pub(super) fn accepted(&self, unit: Unit) -> &[Accepted] {
        self.gathered.get(&unit).map_or(&[], Vec::as_slice)
    }

    pub(super) fn accept(&mut self, message: Accepted) {
        let accepted = self.gathered.entry(message.unit).or_default();
        if accepted.is_empty() {
            // Usually there is only one.
            accepted.reserve_exact(1);
        }
        accepted.push(message);
    }

    /// Whether an aggregate can be its sender's first, or the second one that proves an equivocation. In
    /// the latter case the first one is returned with it.
    ///
    /// # Errors
    ///
    /// [`Reject::Duplicate`] if it is the first one again, or an equivocation or false evidence was
    /// already proven. `is_same` reports whether it says the same as another one.
    pub(super) fn admit_aggregate(
        &self,
        message: &Received<Aggregate>,
        is_same: impl Fn(&Received<Aggregate>) -> bool,
    ) -> Result<Standing<&Bytes>, Reject> {
        if self.refused.contains(&(message.unit, message.sender)) {
            return Err(Reject::Duplicate);
        }
        let mut accepted = self.accepted(message.unit).iter();
        match accepted.find(|one| one.sender == message.sender) {
            None => Ok(Standing::First),
            Some(first) if is_same(first) => Err(Reject::Duplicate),
            Some(first) => Ok(Standing::Second(&first.data)),
        }
    }

    /// Stops accepting aggregates of a unit from a sender.
    pub(super) fn refuse(&mut self, unit: Unit, sender: Validator) {
        // The sender's envelope has been verified by now, so nobody else can have it refused.
        self.refused.insert((unit, sender));
    }

    /// Called once the aggregates of the slot are made. Drops single votes that an accepted aggregate
    /// proves.
    pub(super) fn end_votes(&mut self) {
        let mut cells = std::mem::take(&mut self.cells);
        for (cell, votes) in &mut cells {
            votes.end(|first| self.proof_of(*cell, first).is_some());
        }
        self.cells = cells;
    }

    /// Returns an accepted aggregate that contains the vote of a voter in a cell.
    pub(super) fn proof_of(&self, cell: Cell, first: FirstVote) -> Option<&Bytes> {
        let layout = self.layout();
        let vote = &self.ballots.get(first.ballot).vote;
        let position = layout.cell_range(cell).start + first.position;
        // Of any level: every aggregate that has the vote proves it as well as the message would.
        let units = (1..=layout.levels()).map(|level| layout.unit_at(level, position));
        let mut accepted = units.flat_map(|unit| {
            let at = (position - layout.unit_range(unit).start) as usize;
            let has = move |one: &&Accepted| one.evidence.support.contains(at);
            self.accepted(unit).iter().filter(has)
        });
        let accepted = accepted.find(|one| one.vote == *vote)?;
        Some(&accepted.data)
    }

    /// Gives up and returns all messages that still wait.
    pub(super) fn give_up(&mut self) -> Vec<Origin> {
        let votes = self
            .cells
            .values_mut()
            .flat_map(|votes| votes.batch.give_up(|_| true));
        let mut origins: Vec<Origin> = votes.map(|vote| vote.origin).collect();
        for batch in self.batches.values_mut() {
            let gone = batch.give_up(|_| true).into_iter();
            origins.extend(gone.map(|waiting| waiting.origin));
        }
        origins
    }

    /// The vote of a local validator, if it was accepted here.
    pub(super) fn vote_of(&self, validator: Validator) -> Option<u16> {
        let cell = self.committees.assignment.cell_of(validator)?;
        let position = self.committees.position_in(validator, cell.into())?;
        Some(self.cell(cell)?.first(position)?.ballot)
    }

    /// The accepted aggregate of a unit with the most weight for a ballot.
    pub(super) fn best(&self, unit: Unit, ballot: u16) -> Option<&Accepted> {
        let vote = &self.ballots.get(ballot).vote;
        let accepted = self.accepted(unit).iter();
        accepted
            .filter(|accepted| accepted.vote == *vote)
            .max_by_key(|accepted| {
                let signers = accepted.evidence.support.signers();
                self.committees.weigh(unit, &signers)
            })
    }

    /// Returns the publicly visible state.
    pub(super) fn view(&self) -> SlotView {
        let counted = self.ballots.counted().into_iter();
        let votes: Vec<Vote> = counted
            .map(|ballot| self.ballots.get(ballot).vote)
            .collect();
        let mut weights = vec![0u64; votes.len()];
        let mut coverage: Vec<Vec<Bitfield>> = Vec::new();
        let top = self.layout().levels();
        for committee in self.layout().units(top) {
            let positions = self.layout().unit_len(committee) as usize;
            let mut by_ballot = vec![Bitfield::new(positions); votes.len()];
            for kept in self.accepted(committee) {
                if let Some(place) = votes.iter().position(|vote| *vote == kept.vote) {
                    by_ballot[place].union_with(&kept.evidence.support.signers());
                }
            }
            for (weight, bits) in weights.iter_mut().zip(&by_ballot) {
                *weight += self.committees.weigh(committee, bits);
            }
            coverage.push(by_ballot);
        }
        // Ties go to the smaller index, which was tracked first.
        let most = (0..weights.len()).rev().max_by_key(|&i| weights[i]);
        let empty = |c: u16| Bitfield::new(self.layout().committee_len(c) as usize);
        let accepted = |of: &dyn Fn(Unit) -> bool| {
            let units = self.all_accepted().filter(|(unit, _)| of(*unit));
            units.map(|(_, accepted)| accepted.len() as u64).sum()
        };
        SlotView {
            slot: self.slot,
            votes_seen: self.votes_seen,
            votes_accepted: self.votes_accepted,
            aggregates_accepted: accepted(&|unit| unit.level < top),
            collections_accepted: accepted(&|unit| unit.level == top),
            vote: most.map(|most| votes[most]),
            coverage: (0u16..)
                .zip(coverage)
                .map(|(c, mut bits)| most.map_or_else(|| empty(c), |most| bits.swap_remove(most)))
                .collect(),
            collections: self.collection_views(),
            block: self.block.as_ref().map(|block| block.view),
        }
    }

    fn collection_views(&self) -> Vec<CollectionView> {
        let committees = self.layout().units(self.layout().levels());
        committees
            .flat_map(|unit| {
                self.accepted(unit).iter().map(move |kept| CollectionView {
                    committee: unit.committee,
                    sender: kept.sender,
                    vote: kept.vote,
                    support: kept.evidence.support.clone(),
                    bytes: kept.data.len(),
                })
            })
            .collect()
    }
}

/// Bytes of a position set.
pub(super) fn bits_bytes(positions: u32) -> u64 {
    u64::from(positions).div_ceil(64) * 8
}

/// Whether evidence made by a job covers a unit, has at least one signer, and has a length that the wire
/// format allows. A child process may answer with anything.
pub(super) fn evidence_fits(evidence: &Evidence, format: &WireFormat, unit: Unit) -> bool {
    let (support, bytes) = (&evidence.support, evidence.bytes.len());
    let length_fits = format.evidence(unit.level).fits(bytes);
    let multiplicities = 1..=format.multiplicity(unit.level);
    length_fits
        && support.len() == format.layout.unit_len(unit) as usize
        && multiplicities.contains(&support.max_multiplicity())
}
