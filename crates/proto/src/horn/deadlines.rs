//! What becomes of a result that comes late: it must not touch newer state, but usually it still
//! holds votes that nobody else covers.

use alphorn_scheme::session::Finish;
use alphorn_scheme::{Fate, classify};
use alphorn_types::{Slot, Time};

use super::machine::Horn;
use crate::chain::INCLUSION_SLOTS;
use crate::wire::Vote;

/// Votes that a late result must add.
const GAIN_VOTES_MIN: u32 = 1;

/// What is done with a result of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lateness {
    /// Publish it, late or not.
    Publish,
    /// Gossip takes it no more, a block does.
    Keep,
    /// Nobody takes it.
    Drop,
}

impl Horn {
    /// Decides on a result for `vote` that was wanted by `end`, and adds `gain` signers.
    pub(super) fn lateness(&mut self, vote: &Vote, end: Time, gain: u32) -> Lateness {
        let now = self.clock.slot_at(self.now).unwrap_or(Slot(0));
        let finish = Finish {
            slot: vote.slot,
            now,
            session_current: self.now < end,
            conflicting: self.chain.check_vote(vote).is_err(),
            gain_votes: gain,
        };
        match classify(&finish, INCLUSION_SLOTS, GAIN_VOTES_MIN) {
            Fate::Use => Lateness::Publish,
            Fate::PublishLate => {
                self.fx.counters.salvaged += 1;
                Lateness::Publish
            }
            Fate::Keep => Lateness::Keep,
            Fate::Drop(_) => Lateness::Drop,
        }
    }
}
