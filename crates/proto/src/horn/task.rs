//! What a job was asked for.

use alphorn_types::{Cell, Epoch, Slot};

use super::gate::BlockJob;
use super::roster::Draw;
use super::state::{Waiting, WaitingCollection, WaitingVote};
use super::{aggregator, combiner, voter};
use crate::wire::{Aggregate, Block};

/// What a job was asked for, and what its end is to be applied to.
pub(super) enum Purpose {
    /// Draw the committees of an epoch.
    Assign { epoch: Epoch, mix: [u8; 32] },
    /// Prepare the keys of an epoch.
    Prepare { epoch: Epoch, mix: [u8; 32] },
    /// Find out which local members of a committee serve.
    Draw(Draw),
    /// Of the voter.
    Voter(voter::Job),
    /// Of the aggregator.
    Aggregator(aggregator::Job),
    /// Of the combiner.
    Combiner(combiner::Job),
    /// Of the proposer: sign the own block.
    Proposer(Box<Block>),
    /// Verify votes of a cell.
    VerifyVotes {
        slot: Slot,
        cell: Cell,
        votes: Vec<WaitingVote>,
    },
    /// Verify aggregates of a committee.
    VerifyAggregates {
        slot: Slot,
        committee: u16,
        aggregates: Vec<Waiting<Aggregate>>,
    },
    /// Verify collections of any committee.
    VerifyCollections {
        collections: Vec<WaitingCollection>,
        digests: Vec<[u8; 32]>,
    },
    /// Verify a block, or the entries of one of its epochs.
    VerifyBlock(BlockJob),
}
