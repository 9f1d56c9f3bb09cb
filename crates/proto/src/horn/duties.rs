//! Duties of the local validators in a slot, and which of them were done.

use alphorn_types::{Slot, Unit, Validator};

use super::effects::index;
use super::machine::Horn;
use crate::wire::Kind;

/// Messages of a slot that were published here, by [`Kind`] in the order of [`Kind::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// In time.
    pub(crate) on_time: [u64; Kind::ALL.len()],
    /// Later than wanted: votes after the phase in which they are summed, aggregates and collections
    /// after the end of the phase following their own, blocks after the phase.
    pub(crate) late: [u64; Kind::ALL.len()],
    /// Aggregates and collections held back by staged publishing because they added too little.
    pub(crate) held_back: [u64; Kind::ALL.len()],
}

impl Done {
    /// Messages of a kind in time.
    pub fn on_time(&self, kind: Kind) -> u64 {
        self.on_time[index(kind)]
    }

    /// Messages of a kind held back by staged publishing.
    pub fn held_back(&self, kind: Kind) -> u64 {
        self.held_back[index(kind)]
    }

    /// Messages of a kind later than wanted.
    pub fn late(&self, kind: Kind) -> u64 {
        self.late[index(kind)]
    }
}

/// A local validator with a position in the committees of a slot's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The validator.
    pub(crate) validator: Validator,
    /// The committee.
    pub committee: u16,
    /// The position in the committee.
    pub position: u32,
}

/// Duties of the local validators in a slot, and which of them were done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duties {
    /// Whether the proposer is local.
    pub proposes: bool,
    /// Local validators that vote.
    pub voters: Vec<Seat>,
    /// The validators serving in each unit, and whether there was anything to make evidence from.
    pub makers: Vec<(Validator, Unit, bool)>,
    /// What was published.
    pub done: Done,
}

impl Horn {
    /// The duties of a slot, if its messages are still accepted and its committees were ready.
    pub fn duties(&self, slot: Slot) -> Option<Duties> {
        let state = self.slots.get(&slot)?;
        let layout = state.layout();
        let mut voters = Vec::new();
        for committee in 0..layout.committees() {
            let first = layout.committee_range(committee).start;
            for validator in state.committees.local_members(committee) {
                let votes = self.local.votes(validator);
                let position = state.committees.assignment.position(validator);
                if let Some(position) = position.filter(|_| votes) {
                    voters.push(Seat {
                        validator,
                        committee,
                        position: position - first,
                    });
                }
            }
        }
        let has_votes = |cell| {
            let votes = state.cell(cell);
            votes.is_some_and(|votes| !votes.is_empty())
        };
        let has_inputs = |unit: Unit| match unit.cell() {
            Some(cell) => has_votes(cell),
            None => layout
                .parts(unit)
                .any(|part| !state.accepted(part).is_empty()),
        };
        let makers = self.roles.makers.iter();
        let serving = makers.flat_map(|maker| maker.roster().all(slot));
        let makers = serving.map(|s| (s.validator, s.unit, has_inputs(s.unit)));
        let proposer = self.chain.proposer(slot);
        Some(Duties {
            // The block of slot 0 is genesis.
            proposes: slot > Slot(0) && self.local.hosts(proposer),
            voters,
            makers: makers.collect(),
            done: self.fx.done(slot),
        })
    }
}
