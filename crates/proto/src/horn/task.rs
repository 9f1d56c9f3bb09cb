//! What a job was asked for.

use alphorn_types::{Slot, Unit};

use super::epochs::Asked;
use super::roster::Draw;
use super::{gate, maker, proposer, voter};

/// Where aggregates wait together for their verification: those that are combined to evidence of one
/// unit in a slot, and all collections, none.
pub(super) type Queue = Option<(Slot, Unit)>;

/// What a job was asked for, and what its end is to be applied to.
pub(super) enum Purpose {
    /// Draw the committees of an epoch.
    Assign(Asked),
    /// Prepare the keys of an epoch.
    Prepare(Asked),
    /// Find out which local members of a committee serve.
    Draw(Draw),
    /// Of the voter.
    Voter(voter::Job),
    /// Of those who serve at a level.
    Maker(maker::Job),
    /// Of the proposer.
    Proposer(proposer::Job),
    /// Of the gate: verify messages.
    Gate(gate::Job),
}
