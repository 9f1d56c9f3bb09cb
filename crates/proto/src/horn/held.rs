//! Memory accounting: how many bytes of network messages a node holds, and the upper bound.
//!
//! Everything that grows with what others send is counted: signatures of votes, records of who voted for
//! what, aggregates and collections (each as received, because it can prove an equivocation, and
//! decoded), and messages awaiting or undergoing verification, including blocks. Blocks of the chain have
//! a separate limit, except for the first ones of slots that are not final. Local work in progress is
//! bounded by the duties.

use alphorn_types::Unit;

use super::cell_votes::{FIRST_BYTES, WaitingVote};
use super::config::{Config, SchemeInfo};
use super::deadlines::TOLERANCE_NS;
use super::gate::{BLOCKS_ROOM, ClosedSlots, ITEMS_PER_JOB_MAX, aggregates_room, votes_room};
use super::local::Hosted;
use super::machine::Horn;
use super::pool::KEPT_OLD;
use super::proposer::BLOCK_FIXED_BYTES;
use super::state::{MESSAGE_BYTES, SHARED_BYTES, SlotState, accepted_bytes, bits_bytes};
use super::task::Purpose;
use crate::chain::{INCLUSION_SLOTS, SETS_MAX, VOTED_SLOTS};
use crate::wire::{Kind, WireFormat};

/// Number of block rooms that can be full at once: before, in and after the verification of proposers'
/// signatures, and in that of entries.
const BLOCK_STAGES: u64 = 4;

/// Bytes of network messages at a node: currently held, or the maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Single votes, with their signatures kept until the aggregates are made.
    pub votes: u64,
    /// Records of who voted for what, as the fork choice counts it.
    pub voters: u64,
    /// Accepted aggregates.
    pub aggregates: u64,
    /// Accepted collections: those of slots whose messages are accepted, and those that a block may
    /// include.
    pub collections: u64,
    /// The first blocks of slots that are over but not final, kept as proof against a second one, and the
    /// other records about their proposers.
    pub proposals: u64,
    /// Messages, including blocks, that await or undergo verification, or wait for a block.
    pub waiting: u64,
}

impl Held {
    /// Everything except waiting messages.
    pub fn kept(&self) -> u64 {
        self.votes + self.voters + self.aggregates + self.collections + self.proposals
    }
}

impl Config {
    /// Number of slots whose messages are accepted at one time: the current and the previous one, plus
    /// those where the tolerances of two slots overlap.
    fn slots_open(&self) -> u64 {
        let slot_ns = self.timing.slot_ms().saturating_mul(1_000_000).max(1);
        2 + (2 * TOLERANCE_NS).div_ceil(slot_ns)
    }

    /// Maximum number of units of a level that have a local member in an epoch.
    pub(super) fn local_units(&self, local: &Hosted, level: u8) -> u64 {
        let units = self.layout.units(level).count() as u64;
        // A validator has one position in an epoch, hence one unit of each level.
        units.min(local.validators().len() as u64)
    }

    /// The longest block an honest proposer makes, in bytes, with every entry at its maximum length.
    pub fn block_bytes_bound(&self, info: &SchemeInfo) -> usize {
        let format = self.format(info);
        let entries = usize::from(self.collections_per_block_max);
        let around = BLOCK_FIXED_BYTES + format.duty_signature_bytes + self.filler_bytes;
        around
            .saturating_add(format.bundle_bytes_max())
            .saturating_add(entries.saturating_mul(format.entry_bytes_max()))
            .min(self.block_bytes_max)
    }

    /// Maximum bytes of network messages that a node holds: the accepted collections of the slots whose
    /// messages are accepted, and those that blocks may include (at most
    /// [`Config::collections_bytes_max`]); the records of who voted for what; the votes of local
    /// validators' cells, and the aggregates of their units; and for each of these a full batch waiting,
    /// and one in verification. The bound holds if the driver passes in only messages of topics it
    /// subscribed to ([`Horn::topics`]).
    pub fn held_max(&self, info: &SchemeInfo, local: &Hosted) -> Held {
        let format = self.format(info);
        let (layout, slots) = (&self.layout, self.slots_open());
        let (cells, top) = (self.local_units(local, 1), layout.levels());
        let bytes = format.bytes_max(Kind::Vote);
        let vote = (FIRST_BYTES + bytes) as u64;
        let positions = layout.cell_len_max();
        let votes = slots * cells * u64::from(positions) * vote;
        let taken = |level| u64::from(self.level(level).taken_max);
        let (mut aggregates, mut waiting_aggregates) = (0, 0);
        for level in 1..top {
            // All parts of the units in which a local validator may combine them.
            let units = self.local_units(local, level + 1);
            let parts = layout.parts(Unit::new(level + 1, 0, 0)).count() as u64;
            aggregates += units * parts * taken(level) * accepted_max(&format, level);
            waiting_aggregates += units * waiting_max(Kind::Aggregate, &format, level);
        }
        let committees = u64::from(layout.committees());
        let open = slots * committees * taken(top) * accepted_max(&format, top);
        let for_blocks = committees
            * (slots * taken(top) + KEPT_OLD as u64 * INCLUSION_SLOTS)
            * decoded_max(&format, top);
        // A frozen view of the votes has its own sets.
        let views = 1 + u64::from(self.fork_choice.rule().freezes());
        let waiting_vote =
            (size_of::<WaitingVote>() + 2 * SHARED_BYTES + bytes + info.sizes.signature_bytes)
                as u64;
        let room = votes_room(positions as usize).items;
        let waiting_votes = (room + room.min(ITEMS_PER_JOB_MAX)) as u64 * waiting_vote;
        let waiting = slots * cells * waiting_votes
            + 2 * slots * waiting_aggregates
            + 2 * waiting_max(Kind::Collection, &format, top)
            + BLOCK_STAGES * BLOCKS_ROOM.bytes as u64
            + self.parked_room(info, local).bytes as u64;
        Held {
            votes,
            voters: views
                * VOTED_SLOTS
                * SETS_MAX as u64
                * committees
                * bits_bytes(layout.committee_len_max()),
            aggregates: slots * aggregates,
            collections: open + for_blocks.min(self.collections_bytes_max),
            proposals: ClosedSlots::BYTES_MAX as u64,
            waiting,
        }
    }

    /// Maximum number of peers' messages that a node holds without a verdict, with all rooms full at
    /// once.
    pub fn waiting_messages_max(&self, info: &SchemeInfo, local: &Hosted) -> usize {
        let layout = &self.layout;
        let slots = self.slots_open() as usize;
        let votes = votes_room(layout.cell_len_max() as usize).items;
        // One batch waiting, and one in verification.
        let in_batch = |items: usize| items + items.min(ITEMS_PER_JOB_MAX);
        let units = (2..=layout.levels()).map(|level| self.local_units(local, level) as usize);
        slots * self.local_units(local, 1) as usize * in_batch(votes)
            + slots * units.sum::<usize>() * in_batch(aggregates_room(Kind::Aggregate).items)
            + in_batch(aggregates_room(Kind::Collection).items)
            + BLOCK_STAGES as usize * BLOCKS_ROOM.items
            + self.parked_room(info, local).items
    }
}

impl Horn {
    /// Bytes of network messages currently held.
    pub fn held(&self) -> Held {
        let mut held = Held {
            voters: self.chain.voters_bytes(),
            collections: self.roles.proposer.bytes(),
            proposals: self.gate.closed_bytes() as u64,
            waiting: self.gate.bytes() as u64,
            ..Held::default()
        };
        for state in self.slots.values() {
            state.add_held(&mut held);
        }
        let in_jobs = self.fx.purposes().map(|purpose| match purpose {
            Purpose::Gate(job) => job.bytes() as u64,
            _ => 0,
        });
        held.waiting += in_jobs.sum::<u64>();
        held
    }
}

impl SlotState {
    fn add_held(&self, held: &mut Held) {
        for votes in self.filled_cells() {
            held.votes += votes.held_bytes();
            held.waiting += votes.batch.bytes() as u64;
        }
        for (unit, accepted) in self.all_accepted() {
            let bytes = accepted.iter().map(accepted_bytes).sum::<u64>();
            match unit.level == self.layout().levels() {
                true => held.collections += bytes,
                false => held.aggregates += bytes,
            }
        }
        let batches = self.batches.values();
        held.waiting += batches.map(|batch| batch.bytes() as u64).sum::<u64>();
    }
}

/// Maximum bytes of the decoded evidence of a message of a level, including the head of a block's entry.
fn decoded_max(format: &WireFormat, level: u8) -> u64 {
    // A plane for each bit of the highest multiplicity.
    let planes = format.multiplicity(level).max(1).ilog2() + 1;
    let positions = format.layout.unit_len_max(level);
    u64::from(planes) * bits_bytes(positions) + format.level_bytes_max(level) as u64
}

/// Maximum bytes of the messages of a level that wait together, each as received and decoded.
fn waiting_max(kind: Kind, format: &WireFormat, level: u8) -> u64 {
    let room = aggregates_room(kind);
    let one = format.level_bytes_max(level) as u64 + decoded_max(format, level);
    (room.bytes as u64).min((room.items as u64).saturating_mul(one))
}

/// Maximum bytes of an accepted message of a level, as received and decoded.
fn accepted_max(format: &WireFormat, level: u8) -> u64 {
    (MESSAGE_BYTES + format.level_bytes_max(level)) as u64 + decoded_max(format, level)
}
