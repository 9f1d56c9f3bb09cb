//! What a job was asked for.

use alphorn_types::{Cell, Epoch, Slot, Validator};
use std::sync::Arc;

use super::ballot::Ballot;
use super::gate::BlockJob;
use super::state::{Waiting, WaitingCollection, WaitingVote};
use crate::wire::{Aggregate, Block, Collection, Kind};

/// What a job was asked for, and what its end is to be applied to.
pub(super) enum Purpose {
    /// Draw the committees of an epoch.
    Assign { epoch: Epoch, mix: [u8; 32] },
    /// Prepare the keys of an epoch.
    Prepare { epoch: Epoch, mix: [u8; 32] },
    /// Find out which local members of a committee serve.
    Select {
        slot: Slot,
        role: Kind,
        committee: u16,
        validators: Vec<Validator>,
    },
    /// Sign the votes of local members of a committee.
    SignVotes {
        slot: Slot,
        committee: u16,
        ballot: Arc<Ballot>,
        voters: Vec<Validator>,
    },
    /// Verify votes of a cell.
    VerifyVotes {
        slot: Slot,
        cell: Cell,
        votes: Vec<WaitingVote>,
    },
    /// Make the aggregate of a cell.
    Aggregate {
        slot: Slot,
        cell: Cell,
        ballot: u8,
        positions: Vec<u32>,
    },
    /// Sign the envelopes of own aggregates of a committee.
    SignAggregates {
        slot: Slot,
        committee: u16,
        aggregates: Vec<Aggregate>,
    },
    /// Verify aggregates of a committee.
    VerifyAggregates {
        slot: Slot,
        committee: u16,
        aggregates: Vec<Waiting<Aggregate>>,
    },
    /// Make the collection of a committee.
    Collect { committee: u16, ballot: Arc<Ballot> },
    /// Sign the envelopes of own collections of a committee.
    SignCollections {
        committee: u16,
        ballot: Arc<Ballot>,
        collections: Vec<Collection>,
    },
    /// Verify collections of any committee.
    VerifyCollections {
        collections: Vec<WaitingCollection>,
        digests: Vec<[u8; 32]>,
    },
    /// Sign the own block.
    SignBlock { block: Box<Block> },
    /// Verify a block, or the entries of one of its epochs.
    VerifyBlock(BlockJob),
}
