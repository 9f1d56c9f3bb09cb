//! Which duties of a slot were done, late or missed.

use super::{Host, read_at};
use alphorn_proto::chain;
use alphorn_proto::horn::{Config, Duties, Horn};
use alphorn_proto::slot::SlotClock;
use alphorn_proto::wire::Kind;
use alphorn_types::{Bitfield, Slot, Time, Unit};
use std::collections::BTreeMap;

/// Slots within which a vote must be in a block: one more than it takes if nothing is missed.
fn inclusion_slots(config: &Config) -> u64 {
    config.inclusion_slots_min() + 1
}

/// The outcome of the duties of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// In time.
    pub(crate) done: u64,
    /// Done, but later than wanted.
    pub(crate) late: u64,
    /// Not done.
    pub(crate) missed: u64,
}

impl Tally {
    /// Of `due` duties, some were done and some late.
    fn of(due: u64, done: u64, late: u64) -> Self {
        Tally {
            done: done.min(due),
            late: late.min(due.saturating_sub(done)),
            missed: due.saturating_sub(done).saturating_sub(late),
        }
    }

    /// Adds the duties of another slot.
    pub(crate) fn add(&mut self, other: Tally) {
        self.done += other.done;
        self.late += other.late;
        self.missed += other.missed;
    }

    /// All duties.
    pub(crate) fn due(&self) -> u64 {
        self.done + self.late + self.missed
    }
}

/// The duties of a slot, judged when its votes must be in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The slot.
    pub(crate) slot: Slot,
    /// Whether the committees were ready in time. If not, every local validator's vote is missed and nothing is known
    /// about the other duties.
    pub(crate) prepared: bool,
    /// The block: published before the votes, and in the chain.
    pub(crate) propose: Tally,
    /// Votes: included in a block of the next two slots, or of the next three where the block's evidence is made a slot
    /// ahead. Late are those that were published after the phase in which votes are summed, and were still included.
    pub(crate) vote: Tally,
    /// Aggregates of cells that had votes: published before the end of the phase after their own.
    pub(crate) aggregate: Tally,
    /// Collections of committees that had aggregates, except those held back by staged publishing: published before the
    /// next slot's votes.
    pub(crate) collect: Tally,
    /// Validators, local or not, whose vote the chain credits.
    pub(crate) credited: u64,
    /// Number of all validators.
    pub(crate) validators: u64,
}

impl Judged {
    /// All duties of the slot together.
    pub(crate) fn all(&self) -> Tally {
        let mut all = self.propose;
        for tally in [self.vote, self.aggregate, self.collect] {
            all.add(tally);
        }
        all
    }
}

/// Reads the duties of each slot while they are known, and judges them when its votes must be in the chain.
pub(super) struct Judge {
    inclusion_slots: u64,
    read_next: Slot,
    judge_next: Slot,
    /// Slots that were read and not judged yet: at most four.
    read: BTreeMap<Slot, Option<Duties>>,
}

impl Judge {
    pub(super) fn new(first_slot: Slot, config: &Config) -> Self {
        Judge {
            inclusion_slots: inclusion_slots(config),
            read_next: first_slot,
            judge_next: first_slot,
            read: BTreeMap::new(),
        }
    }

    pub(super) fn next_deadline(&self, clock: &SlotClock) -> Time {
        read_at(clock, self.read_next).min(self.judge_at(clock))
    }

    /// Advances to the present. After a sleep longer than votes can wait for a block, only the last slots are judged,
    /// since the chain no longer shows the outcome of the others.
    pub(super) fn walk(&mut self, now: Time, clock: &SlotClock, horn: &Horn, host: &mut dyn Host) {
        let current = clock.slot_at(now).unwrap_or(Slot(0));
        let known = current.saturating_sub(chain::INCLUSION_SLOTS);
        self.read_next = self.read_next.max(known);
        self.judge_next = self.judge_next.max(known);
        while read_at(clock, self.read_next) <= now {
            let duties = horn.duties(self.read_next);
            self.read.insert(self.read_next, duties);
            self.read_next = self.read_next.next();
        }
        while self.judge_at(clock) <= now {
            let duties = self.read.remove(&self.judge_next).flatten();
            host.judged(judged(self.judge_next, duties, horn));
            self.judge_next = self.judge_next.next();
        }
        // Duties of slots that were skipped after a sleep would otherwise stay for ever.
        self.read = self.read.split_off(&self.judge_next);
    }

    /// When the next slot is judged: the blocks that may carry its votes have arrived.
    fn judge_at(&self, clock: &SlotClock) -> Time {
        let slots = self.inclusion_slots + 1;
        clock.slot_start(Slot(self.judge_next.0.saturating_add(slots)))
    }
}

fn judged(slot: Slot, duties: Option<Duties>, horn: &Horn) -> Judged {
    let layout = horn.config().layout;
    let head = horn.head();
    let credited: Vec<Bitfield> = (0..layout.committees())
        .map(|committee| horn.chain().credited(&head, slot, committee))
        .collect();
    let mut judged = Judged {
        slot,
        prepared: duties.is_some(),
        propose: Tally::default(),
        vote: Tally::default(),
        aggregate: Tally::default(),
        collect: Tally::default(),
        credited: credited.iter().map(|bits| bits.count_ones() as u64).sum(),
        validators: u64::from(layout.validators()),
    };
    let Some(duties) = duties else {
        // Without committees the other duties are not even known, but every local voter has a vote in each slot.
        judged.vote.missed = horn.local().voters().len() as u64;
        return judged;
    };
    let done = &duties.done;
    if duties.proposes {
        let mut blocks = horn.chain().ancestors(&head);
        let in_chain = u64::from(blocks.any(|(_, header)| header.slot == slot));
        let on_time = in_chain.min(done.on_time(Kind::Block));
        // A block that was published but is not in the chain is missed, however early it was.
        judged.propose = Tally::of(1, on_time, in_chain.min(done.late(Kind::Block)));
    }
    let is_carried =
        |committee: u16, position: u32| credited[usize::from(committee)].get(position as usize);
    let voters = duties.voters.iter();
    let carried = voters.filter(|seat| is_carried(seat.committee, seat.position));
    let carried = carried.count() as u64;
    let late = done.late(Kind::Vote).min(carried);
    // This cannot underflow, since `late` was cut to what is carried: a vote that no block has is missed, not late.
    judged.vote = Tally::of(duties.voters.len() as u64, carried - late, late);
    let top = layout.levels();
    let tally = |kind, is_of: &dyn Fn(u8) -> bool| {
        let made = |(_, unit, has_inputs): &&(_, Unit, bool)| *has_inputs && is_of(unit.level);
        let due = duties.makers.iter().filter(made).count() as u64;
        let due = due.saturating_sub(done.held_back(kind));
        Tally::of(due, done.on_time(kind), done.late(kind))
    };
    judged.aggregate = tally(Kind::Aggregate, &|level| level < top);
    judged.collect = tally(Kind::Collection, &|level| level == top);
    judged
}
