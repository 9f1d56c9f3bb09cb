//! Jobs that were handed out and have not ended, the last ones that have, and their sessions.

use super::measures::outcome;
use crate::engine::Spawn;
use crate::lanes::Ended;
use alphorn_scheme::{Group, JobId, SessionId};
use alphorn_types::Time;
use std::collections::{BTreeMap, VecDeque};

/// Jobs in flight that are remembered: what desk and worker take together, twice.
const FLIGHTS_MAX: usize = 4_096;
/// Ended jobs that are remembered.
const ENDED_MAX: usize = 256;
/// Sessions that are remembered.
const SESSIONS_MAX: usize = 256;

/// A job on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Its number.
    pub job: JobId,
    /// Its operation.
    pub op: &'static str,
    /// Its class.
    pub class: &'static str,
    /// What it is about.
    pub group: Group,
    /// When it was handed out.
    pub spawned: Time,
    /// Latest finish that still meets the phase.
    pub soft: Time,
    /// From then on it has no value.
    pub hard: Time,
}

/// A job that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// What was known of it before.
    pub flight: Flight,
    /// When it ended.
    pub at: Time,
    /// How.
    pub outcome: &'static str,
    /// How long it waited, in nanoseconds.
    pub queued_ns: u64,
    /// How long it ran, in nanoseconds.
    pub ran_ns: u64,
    /// What was predicted, in nanoseconds; none if it never ran.
    pub predicted_ns: Option<u64>,
    /// Whether it ended after its soft deadline.
    pub late: bool,
}

/// The jobs of one role for one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionNote {
    /// Which.
    pub id: SessionId,
    /// When its first job was handed out.
    pub open: Time,
    /// Latest finish of its jobs that still meets a phase.
    pub soft: Time,
    /// From then on none of its jobs has a value.
    pub hard: Time,
    /// Jobs that were handed out.
    pub jobs: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flying: BTreeMap<JobId, Flight>,
    pub(super) landed: VecDeque<Landed>,
    pub(super) sessions: VecDeque<SessionNote>,
}

impl Flights {
    pub(super) fn begin(&mut self, now: Time, spawn: &Spawn) {
        if self.flying.len() >= FLIGHTS_MAX {
            self.flying.pop_first();
        }
        let flight = Flight {
            job: spawn.job,
            op: spawn.work.name(),
            class: spawn.class.name(),
            group: spawn.group,
            spawned: now,
            soft: spawn.soft,
            hard: spawn.hard,
        };
        self.flying.insert(spawn.job, flight);
        let mut known = self.sessions.iter_mut().rev();
        if let Some(session) = known.find(|session| session.id == spawn.session) {
            session.soft = session.soft.max(spawn.soft);
            session.hard = session.hard.max(spawn.hard);
            session.jobs = session.jobs.saturating_add(1);
            return;
        }
        if self.sessions.len() >= SESSIONS_MAX {
            self.sessions.pop_front();
        }
        self.sessions.push_back(SessionNote {
            id: spawn.session,
            open: now,
            soft: spawn.soft,
            hard: spawn.hard,
            jobs: 1,
        });
    }

    /// What was known of a job that ended.
    pub(super) fn end(&mut self, now: Time, ended: &Ended) -> Option<Flight> {
        let flight = self.flying.remove(&ended.job)?;
        if self.landed.len() >= ENDED_MAX {
            self.landed.pop_front();
        }
        self.landed.push_back(Landed {
            flight,
            at: now,
            outcome: outcome(&ended.outcome),
            queued_ns: ended.queued_ns,
            ran_ns: ended.ran_ns,
            predicted_ns: ended.run.map(|run| run.predicted_ns),
            late: ended.late,
        });
        Some(flight)
    }

    /// How many are on their way.
    pub(super) fn len(&self) -> usize {
        self.flying.len()
    }

    /// The oldest of those on their way.
    pub(super) fn oldest(&self) -> Vec<Flight> {
        self.flying.values().take(ENDED_MAX).copied().collect()
    }
}
