//! Purposes of jobs.

use alphorn_types::{Slot, Unit};

use super::epochs::Asked;
use super::roster::Draw;
use super::{gate, maker, proposer, voter};

/// A queue of aggregates verified together: those to be combined into evidence of one unit in a slot, or
/// all collections if none.
pub(super) type Queue = Option<(Slot, Unit)>;

/// The purpose of a job, and what its result applies to.
pub(super) enum Purpose {
    /// Draw the committees of an epoch.
    Assign(Asked),
    /// Prepare the keys of an epoch.
    Prepare(Asked),
    /// Find which local members of a committee serve.
    Draw(Draw),
    /// A job of the voter.
    Voter(voter::Job),
    /// A job of a maker.
    Maker(maker::Job),
    /// A job of the proposer.
    Proposer(proposer::Job),
    /// A job of the gate: verify messages.
    Gate(gate::Job),
}
