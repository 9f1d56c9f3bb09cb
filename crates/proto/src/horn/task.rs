//! What a job was asked for.

use alphorn_types::{Cell, Epoch, Slot};

use super::gate::{BlockJob, WaitingBlock};
use super::roster::Draw;
use super::state::{Waiting, WaitingCollection, WaitingVote};
use super::{aggregator, combiner, voter};
use crate::wire::{Aggregate, Block};

/// What a verification looks at: what is cheap comes first, so that a forged message costs no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The sender's ticket and envelope.
    Sender,
    /// The evidence of the votes.
    Evidence,
}

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
        stage: Stage,
        aggregates: Vec<Waiting<Aggregate>>,
    },
    /// Verify collections of any committee.
    VerifyCollections {
        epoch: Epoch,
        stage: Stage,
        collections: Vec<WaitingCollection>,
    },
    /// Verify the proposers' signatures of blocks.
    VerifyProposers { blocks: Vec<WaitingBlock> },
    /// Verify the entries of a block, those of one of its epochs.
    VerifyBlock(BlockJob),
}
