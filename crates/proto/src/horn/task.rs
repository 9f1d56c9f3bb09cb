//! What a job was asked for.

use alphorn_types::Epoch;

use super::roster::Draw;
use super::{aggregator, combiner, gate, voter};
use crate::wire::Block;

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
    /// Of the gate: verify messages.
    Gate(gate::Job),
}
