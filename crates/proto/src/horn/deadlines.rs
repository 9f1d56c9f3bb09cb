//! When a message of a slot is wanted, from when on it is late, and until when it is of use: the one
//! place for all of them, each by the phase in which it is made.
//!
//! | message | wanted by | late from | signed until | made until |
//! |---|---|---|---|---|
//! | block | votes | votes | the slot's end | |
//! | vote | evidence of level 1 | the same | the slot's end | |
//! | evidence below the top | the next level | the slot's decision | the end of the next slot | the same |
//! | evidence of the top level | the slot's decision | votes of the next slot | the end of the next slot | no block can include it |
//!
//! The one piece of evidence of a bundled block is begun in the slot before it, with [`BUNDLE_BEGINS`], and
//! made until the block's slot begins: the block does not wait for it.
//!
//! What is ready after it was wanted is published only if it adds a vote, and while gossip takes
//! messages of its slot; a collection is good for an own block after that.

use alphorn_scheme::session::Finish;
use alphorn_scheme::{Fate, classify};
use alphorn_types::{Slot, Time};

use super::role::Shared;
use crate::chain::INCLUSION_SLOTS;
use crate::slot::{Boundary, Phase, SlotClock};
use crate::wire::Vote;

/// How far clocks may be apart.
pub(super) const TOLERANCE_NS: u64 = 500_000_000;

/// The phase with which, in the slot before its own, the evidence of a bundled block is begun: the block
/// that it will stand on should be here, and the collections of the slot before that are late from here
/// on. What comes later is for the next block.
pub(super) const BUNDLE_BEGINS: Phase = Phase::Vote;

/// Votes that a late result must add.
const GAIN_VOTES_MIN: u32 = 1;

/// What is done with a result of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lateness {
    /// Publish it, late or not.
    Publish,
    /// Gossip takes it no more, a block does.
    Keep,
    /// Nobody takes it.
    Drop,
}

/// The deadlines of the messages of one phase in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadlines {
    /// When its readers begin their work: jobs should end before.
    pub(super) wanted: Time,
    /// From here on a published message counts as late.
    pub(super) late: Time,
    /// When nobody signs it any more.
    pub(super) signed: Time,
    /// When nobody makes it any more.
    pub(super) made: Time,
}

impl Deadlines {
    /// Those of the messages that are made in a phase of `slot`.
    pub(super) fn of(clock: &SlotClock, phase: Phase, slot: Slot) -> Self {
        let next = slot.next();
        let (end, next_end) = (clock.slot_start(next), clock.slot_start(next.next()));
        let wanted = clock.start(clock.after(Boundary { slot, phase }));
        let (late, signed, made) = match phase {
            Phase::Level(level) if level < clock.timing().levels() => {
                (clock.phase_start(slot, Phase::Decide), next_end, next_end)
            }
            Phase::Level(_) => {
                let included = Slot(slot.0.saturating_add(INCLUSION_SLOTS));
                let late = clock.phase_start(next, Phase::Vote);
                (late, next_end, clock.slot_start(included))
            }
            Phase::Propose | Phase::Vote | Phase::Decide => (wanted, end, end),
        };
        Self {
            wanted,
            late,
            signed,
            made,
        }
    }
}

/// When messages of a slot are no longer taken: the tolerance after the end of the next one.
pub(super) fn window_end(clock: &SlotClock, slot: Slot) -> Time {
    clock
        .slot_start(slot.next().next())
        .saturating_add_ns(TOLERANCE_NS)
}

impl<S> Shared<'_, S> {
    /// The deadlines of the messages of a phase in a slot.
    pub(super) fn deadlines(&self, phase: Phase, slot: Slot) -> Deadlines {
        Deadlines::of(self.clock, phase, slot)
    }

    /// Decides on a result for `vote` that is ready now and adds `gain` signers.
    pub(super) fn lateness(&mut self, phase: Phase, vote: &Vote, gain: u32) -> Lateness {
        let finish = Finish {
            slot: vote.slot,
            now: self.present(),
            session_current: self.now < self.deadlines(phase, vote.slot).wanted,
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
