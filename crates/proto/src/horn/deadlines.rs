//! When a message of a slot is wanted, from when on it is late, and until when it is of use: the one
//! place for all kinds.
//!
//! | kind | wanted by | late from | signed until | made until |
//! |---|---|---|---|---|
//! | block | votes | votes | the slot's end | |
//! | vote | aggregates | aggregates | the slot's end | |
//! | aggregate | collections | the slot's decision | the end of the next slot | the same |
//! | collection | the slot's decision | votes of the next slot | the end of the next slot | no block can include it |
//!
//! What is ready after it was wanted is published only if it adds a vote, and while gossip takes
//! messages of its slot; a collection is good for an own block after that.

use alphorn_scheme::session::Finish;
use alphorn_scheme::{Fate, classify};
use alphorn_types::{Slot, Time};

use super::role::Shared;
use crate::chain::INCLUSION_SLOTS;
use crate::slot::{Phase, SlotClock};
use crate::wire::{Kind, Vote};

/// How far clocks may be apart.
pub(super) const TOLERANCE_NS: u64 = 500_000_000;

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

/// The deadlines of the messages of one kind in one slot.
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
    /// Those of `kind` in `slot`.
    pub(super) fn of(clock: &SlotClock, kind: Kind, slot: Slot) -> Self {
        let phase = |phase| clock.phase_start(slot, phase);
        let next = slot.next();
        let (end, next_end) = (clock.slot_start(next), clock.slot_start(next.next()));
        let (wanted, late, signed, made) = match kind {
            Kind::Block => (phase(Phase::Vote), phase(Phase::Vote), end, end),
            Kind::Vote => (phase(Phase::Aggregate), phase(Phase::Aggregate), end, end),
            Kind::Aggregate => {
                let (wanted, late) = (phase(Phase::Collect), phase(Phase::Decide));
                (wanted, late, next_end, next_end)
            }
            Kind::Collection => {
                let late = clock.phase_start(next, Phase::Vote);
                let included = Slot(slot.0.saturating_add(INCLUSION_SLOTS));
                let made = clock.slot_start(included);
                (phase(Phase::Decide), late, next_end, made)
            }
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

impl Kind {
    /// The phase in which messages of this kind are made.
    pub(super) const fn phase(self) -> Phase {
        match self {
            Self::Block => Phase::Propose,
            Self::Vote => Phase::Vote,
            Self::Aggregate => Phase::Aggregate,
            Self::Collection => Phase::Collect,
        }
    }
}

impl Shared<'_> {
    /// The deadlines of the messages of a kind in a slot.
    pub(super) fn deadlines(&self, kind: Kind, slot: Slot) -> Deadlines {
        Deadlines::of(self.clock, kind, slot)
    }

    /// Decides on a result for `vote` that is ready now and adds `gain` signers.
    pub(super) fn lateness(&mut self, kind: Kind, vote: &Vote, gain: u32) -> Lateness {
        let finish = Finish {
            slot: vote.slot,
            now: self.present(),
            session_current: self.now < self.deadlines(kind, vote.slot).wanted,
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
