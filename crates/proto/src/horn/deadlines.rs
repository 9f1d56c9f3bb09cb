//! Deadlines: when a message of a slot is wanted, when it is late, and until when it is useful. This is
//! the only module that defines them, each by the phase in which the message is made.
//!
//! | message | wanted by | late from | signed until | made until |
//! |---|---|---|---|---|
//! | block | votes | votes | slot end | |
//! | vote | evidence of level 1 | the same | slot end | |
//! | evidence below the top | next level | the slot's decision | end of next slot | the same |
//! | evidence of the top level | the slot's decision | next slot's votes | end of next slot | no block can include it |
//!
//! Making the single piece of evidence of a bundled block starts in the slot before it, at
//! [`BUNDLE_BEGINS`], and may last until the block's slot begins: the block does not wait for it.
//!
//! A result that is ready later than wanted is published only if it adds a vote, and while gossip accepts
//! messages of its slot. After that, a collection can still go into a block made here.

use alphorn_scheme::session::Finish;
use alphorn_scheme::{Fate, classify};
use alphorn_types::{Slot, Time};

use super::role::Shared;
use crate::chain::INCLUSION_SLOTS;
use crate::slot::{Boundary, Phase, SlotClock};
use crate::wire::Vote;

/// Maximum clock difference.
pub(super) const TOLERANCE_NS: u64 = 500_000_000;

/// The phase of the preceding slot in which making the evidence of a bundled block starts. By then the
/// block's parent should have arrived, and the collections of the slot before that are late from here on.
/// Anything later goes into the next block.
pub(super) const BUNDLE_BEGINS: Phase = Phase::Vote;

/// Minimum number of votes that a late result must add.
const GAIN_VOTES_MIN: u32 = 1;

/// What to do with a result of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lateness {
    /// Publish it, late or not.
    Publish,
    /// Gossip no longer accepts it, but a block does.
    Keep,
    /// It is useless everywhere.
    Drop,
}

/// The deadlines of the messages of one phase in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadlines {
    /// When its readers start their work: jobs should end before.
    pub(super) wanted: Time,
    /// From this time on, a published message counts as late.
    pub(super) late: Time,
    /// From this time on, it is no longer signed.
    pub(super) signed: Time,
    /// From this time on, it is no longer made.
    pub(super) made: Time,
}

impl Deadlines {
    /// The deadlines of messages made in a phase of `slot`.
    pub(super) fn of(clock: &SlotClock, phase: Phase, slot: Slot) -> Self {
        let next = slot.next();
        // `next_end` is before `window_end` by the tolerance: a node whose clock is ahead may stop
        // accepting messages of the slot by then.
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

/// When messages of a slot stop being accepted: the tolerance after the end of the next one.
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
