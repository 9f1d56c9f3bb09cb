//! The results of a run, in the form that callers get.

use super::heads::Fate;
use super::milestones::Milestones;
use super::paid::PaidBlock;
use crate::report::Outcome;
use alphorn_types::Bitfield;

/// The fate of the votes that validators of honest nodes cast in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotVotes {
    /// The slot.
    pub slot: u64,
    /// Votes that were published.
    pub cast: u64,
    /// Number of those in the block that is to carry them.
    pub in_block: u64,
    /// Number of those in the chain of the honest node whose chain has the fewest.
    pub in_chain: u64,
    /// Nodes that have that block at the end.
    pub imported: u64,
}

/// The result of a run. Votes, messages and times are those of the last slot; records, bytes and the verdict's
/// traffic cover all slots.
#[derive(Clone, Debug)]
pub struct HornRun {
    /// Records, times and the verdict. Delays are times from the start of the vote phase until a node has
    /// collections with 99 % of the votes, counting the best collection of each committee: a lower bound of what it
    /// has.
    pub outcome: Outcome,
    /// Votes signed, in published aggregates, in published collections, at the proposer, in its block.
    pub votes: [u64; 5],
    /// Every slot.
    pub slots: Vec<SlotVotes>,
    /// The blocks of an honest node's chain with votes of these slots, and what they are paid for.
    pub blocks: Vec<PaidBlock>,
    /// Slots between a vote and the first block that can include it.
    pub inclusion_slots_min: u64,
    /// The validators of nodes with a fault.
    pub attackers: Bitfield,
    /// The newest slot that is final at every honest node.
    pub finalised: u64,
    /// The fate of the chain.
    pub fate: Fate,
    /// Aggregates and collections that were published.
    pub published: (u64, u64),
    /// The longest message of votes, of evidence of each level, and of collections; 0 if there was none.
    pub longest: Vec<u64>,
    /// When the proposer had 2/3, 90 % and 99 % of the votes, from the start of the slot; exact.
    pub at_proposer: Milestones,
    /// The same for nodes: the median, and the 99th percentile.
    pub at_nodes: [Milestones; 2],
    /// Collections in the block, and its bytes.
    pub block: (u64, u64),
    /// Aggregates and collections that were not made although the node had something to sum.
    pub unfinished: u64,
}
