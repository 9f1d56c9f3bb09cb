//! Jobs, sessions, groups and outcomes, and the handling of late results.

use crate::TaskError;
use alphorn_types::Slot;

/// A job number, assigned by its issuer: a state machine numbers the jobs it requests, a scheduler those it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// Classes of jobs, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Own proposals and signing.
    Duty,
    /// Verification that a gossip verdict waits for.
    Verdict,
    /// Aggregation for the current slot.
    Current,
    /// Late groups, merged for better coverage.
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

    /// Name in metrics.
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

/// Identifies the working interval of one role for one group family in one slot. `seq` comes from a counter of the
/// role's state machine: unique within a process, identical in every replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// The slot that the session works on.
    pub slot: Slot,
    /// Counter.
    pub seq: u32,
}

impl SessionId {
    /// Both combined into one number, as in traces.
    #[must_use]
    pub fn number(self) -> u64 {
        // A slot has 32 bits for 136 years, even at one a second.
        (self.slot.0 << 32) | u64::from(self.seq)
    }
}

/// What a task concerns. A scheduler may let the newer of two waiting tasks of the same role and group replace the
/// older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The slot.
    pub slot: Slot,
    /// The vote's message; zero if the task concerns several.
    pub message: [u8; 32],
    /// The committee; none = all.
    pub committee: Option<u16>,
    /// The subcommittee; none = all.
    pub subcommittee: Option<u16>,
}

impl Group {
    /// Everything in a slot, over all committees.
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
    /// Some inputs are bad, or crash the process that runs them; their indices, ascending. Nothing is implied about the
    /// others, which may not have been checked.
    Invalid(Vec<usize>),
    /// It could not be run, for this reason.
    Refused(String),
    /// A newer submission of the same group replaced it.
    Superseded,
    /// Its session ended before it ran, or it was stopped.
    Cancelled,
    /// It panicked, or its process died.
    Crashed,
    /// Its result failed the public verifier.
    SelfVerifyFailed,
}

impl<T> Outcome<T> {
    /// Maps the result, if there is one.
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

/// Facts about a finished result that determine its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finish {
    /// Slot of the session that produced it.
    pub slot: Slot,
    /// The current slot.
    pub now: Slot,
    /// Its session is still the current one of its group.
    pub session_current: bool,
    /// The block it votes for is unknown or conflicts with finality.
    pub conflicting: bool,
    /// Votes it adds to the best known set for its own slot.
    pub gain_votes: u32,
}

/// What to do with a finished result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// On time: use it.
    Use,
    /// Late, but gossip still accepts its slot: publish it on its own slot's topic.
    PublishLate,
    /// Late: keep it for merging, for the own proposer and for requests from peers.
    Keep,
    /// Worthless.
    Drop(StaleReason),
}

/// Why a late result is worthless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleReason {
    /// Its inclusion window is closed.
    WindowClosed,
    /// Its block conflicts with finality or is unknown.
    Conflicting,
    /// It adds fewer votes than `salvage_gain_votes_min`.
    NoGain,
}

/// Decides the fate of a finished result. A late one must not affect newer state, but usually still contains votes that
/// are covered nowhere else.
pub fn classify(finish: &Finish, salvage_slots_max: u64, salvage_gain_votes_min: u32) -> Fate {
    if finish.session_current {
        return Fate::Use;
    }
    let age = finish.now.0.saturating_sub(finish.slot.0);
    // A result for the current slot is never too late.
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
