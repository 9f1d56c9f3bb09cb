//! Jobs, sessions and groups, outcomes, and what to do with a result that comes late.

use crate::TaskError;
use alphorn_types::Slot;

/// A job, numbered by whoever hands it out: a state machine those that it asks for, a scheduler those
/// that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// Classes of jobs, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Own proposals, and signing.
    Duty,
    /// Verification that a gossip verdict waits for.
    Verdict,
    /// Aggregation for the current slot.
    Current,
    /// Late groups, merging toward better coverage.
    Backfill,
    /// Key tables and committees of the next epoch.
    Maintenance,
}

impl Class {
    /// Every class, best first.
    pub const ALL: [Class; 5] = [
        Class::Duty,
        Class::Verdict,
        Class::Current,
        Class::Backfill,
        Class::Maintenance,
    ];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Class::Duty => "duty",
            Class::Verdict => "verdict",
            Class::Current => "current",
            Class::Backfill => "backfill",
            Class::Maintenance => "maintenance",
        }
    }
}

/// Names the working interval of one role for one group family in one slot. `seq` comes from a
/// counter of the role's state machine: unique in a process, the same in every replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// The slot that the session works for.
    pub slot: Slot,
    /// Counter.
    pub seq: u32,
}

impl SessionId {
    /// One number for both, as traces have it.
    #[must_use]
    pub fn number(self) -> u64 {
        (self.slot.0 << 32) | u64::from(self.seq)
    }
}

/// What a task is about. Two queued tasks of one role and group never wait at the same time: the
/// newer one replaces the older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The slot.
    pub slot: Slot,
    /// The vote's message; zero where the task is about several.
    pub message: [u8; 32],
    /// The committee; none = all.
    pub committee: Option<u16>,
    /// The subcommittee; none = all.
    pub subcommittee: Option<u16>,
}

impl Group {
    /// Whatever a slot has in all committees.
    pub fn of_slot(slot: Slot) -> Self {
        Group {
            slot,
            message: [0; 32],
            committee: None,
            subcommittee: None,
        }
    }
}

/// How a task ended. Every accepted submission yields exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The result.
    Done(T),
    /// Inputs are bad, or end whoever runs them; their indices, ascending. Of the others nothing is said:
    /// they need not have been looked at.
    Invalid(Vec<usize>),
    /// It could not be run; the reason.
    Refused(String),
    /// A newer submission of the same group replaced it.
    Superseded,
    /// Its session ended before it ran, or it was stopped.
    Cancelled,
    /// It panicked or its process died.
    Crashed,
    /// Its result failed the public verifier.
    SelfVerifyFailed,
}

impl<T> Outcome<T> {
    /// The same with another result, made of this one if there is one.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Outcome::Done(result) => Outcome::Done(make(result)),
            Outcome::Invalid(bad) => Outcome::Invalid(bad),
            Outcome::Refused(reason) => Outcome::Refused(reason),
            Outcome::Superseded => Outcome::Superseded,
            Outcome::Cancelled => Outcome::Cancelled,
            Outcome::Crashed => Outcome::Crashed,
            Outcome::SelfVerifyFailed => Outcome::SelfVerifyFailed,
        }
    }
}

impl<T> From<Result<T, TaskError>> for Outcome<T> {
    fn from(result: Result<T, TaskError>) -> Self {
        match result {
            Ok(value) => Outcome::Done(value),
            Err(TaskError::Stopped) => Outcome::Cancelled,
            Err(TaskError::Invalid(bad)) => Outcome::Invalid(bad),
            Err(TaskError::Refused(reason)) => Outcome::Refused(reason),
            Err(TaskError::SelfVerifyFailed) => Outcome::SelfVerifyFailed,
        }
    }
}

/// Facts about a finished result that decide its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finish {
    /// Slot of the session that made it.
    pub slot: Slot,
    /// The slot now.
    pub now: Slot,
    /// Its session is still the current one of its group.
    pub session_current: bool,
    /// The block that it votes for is unknown or conflicts with finality.
    pub conflicting: bool,
    /// Votes that it adds to the best known set of its own slot.
    pub gain_votes: u32,
}

/// What to do with a finished result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// On time: use it.
    Use,
    /// Late, but gossip still takes its slot: publish it on its own slot's topic.
    PublishLate,
    /// Late: keep it for merging, for the own proposer and for peers that ask.
    Keep,
    /// Worthless.
    Drop(StaleReason),
}

/// Why a late result is worthless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleReason {
    /// Its window of inclusion is closed.
    WindowClosed,
    /// Its block conflicts with finality or is unknown.
    Conflicting,
    /// It adds fewer votes than `salvage_gain_votes_min`.
    NoGain,
}

/// Decides the fate of a finished result: a late one must not touch newer state, but usually
/// still holds votes that nobody else covers.
pub fn classify(finish: &Finish, salvage_slots_max: u64, salvage_gain_votes_min: u32) -> Fate {
    if finish.session_current {
        return Fate::Use;
    }
    let age = finish.now.0.saturating_sub(finish.slot.0);
    if age >= salvage_slots_max.max(1) {
        Fate::Drop(StaleReason::WindowClosed)
    } else if finish.conflicting {
        Fate::Drop(StaleReason::Conflicting)
    } else if finish.gain_votes < salvage_gain_votes_min {
        Fate::Drop(StaleReason::NoGain)
    } else if age <= 1 {
        Fate::PublishLate
    } else {
        Fate::Keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_result_is_kept_while_it_adds_votes() {
        let late = Finish {
            slot: Slot(10),
            now: Slot(10),
            session_current: false,
            conflicting: false,
            gain_votes: 3,
        };
        let at = |now, finish: Finish| {
            classify(
                &Finish {
                    now: Slot(now),
                    ..finish
                },
                32,
                1,
            )
        };
        assert_eq!(
            at(
                50,
                Finish {
                    session_current: true,
                    ..late
                }
            ),
            Fate::Use
        );
        assert_eq!(at(10, late), Fate::PublishLate);
        assert_eq!(at(11, late), Fate::PublishLate);
        assert_eq!(at(12, late), Fate::Keep);
        assert_eq!(at(41, late), Fate::Keep);
        assert_eq!(at(42, late), Fate::Drop(StaleReason::WindowClosed));
        assert_eq!(
            at(
                12,
                Finish {
                    conflicting: true,
                    ..late
                }
            ),
            Fate::Drop(StaleReason::Conflicting)
        );
        assert_eq!(
            at(
                12,
                Finish {
                    gain_votes: 0,
                    ..late
                }
            ),
            Fate::Drop(StaleReason::NoGain)
        );
    }
}
