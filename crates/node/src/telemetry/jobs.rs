//! Submitted jobs that have not ended, the last ones that have, and their sessions.

use crate::lanes::Ended;
use alphorn_proto::Spawn;
use alphorn_scheme::{Group, JobId, Outcome, Product, SessionId};
use alphorn_types::Time;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of remembered jobs in flight: twice what signer and worker hold together.
const IN_FLIGHT_MAX: usize = 4_096;
/// Maximum number of remembered finished jobs.
const ENDED_MAX: usize = 256;
/// Maximum number of remembered sessions.
const SESSIONS_MAX: usize = 256;

/// A job in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// Its ID.
    pub(crate) job: JobId,
    /// Its operation.
    pub(crate) op: &'static str,
    /// Its class.
    pub(crate) class: &'static str,
    /// What it is for.
    pub(crate) group: Group,
    /// When it was submitted.
    pub(crate) spawned: Time,
    /// Latest finish that still meets the phase.
    pub(crate) soft: Time,
    /// Time after which it has no value.
    pub(crate) hard: Time,
}

impl InFlight {
    /// Whether it would end in time by its prediction. None if it never ran.
    pub(super) fn predicted_in_time(&self, now: Time, ended: &Ended) -> Option<bool> {
        let start_ns = now.as_nanos().saturating_sub(ended.ran_ns);
        let end_ns = start_ns.saturating_add(ended.run?.predicted_ns);
        Some(end_ns <= self.soft.as_nanos())
    }
}

/// A finished job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedJob {
    /// The facts known before.
    pub(crate) job: InFlight,
    /// When it ended.
    pub(crate) at: Time,
    /// Its outcome.
    pub(crate) outcome: &'static str,
    /// Queueing time, in nanoseconds.
    pub(crate) queued_ns: u64,
    /// Run time, in nanoseconds.
    pub(crate) ran_ns: u64,
    /// Predicted run time, in nanoseconds. None if it never ran.
    pub(crate) predicted_ns: Option<u64>,
    /// Whether it ended after its soft deadline.
    pub(crate) late: bool,
}

/// The jobs of one role for one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Its ID.
    pub(crate) id: SessionId,
    /// When its first job was submitted.
    pub(crate) open: Time,
    /// Latest finish of its jobs that still meets a phase.
    pub(crate) soft: Time,
    /// Time after which none of its jobs has a value.
    pub(crate) hard: Time,
    /// Number of jobs submitted.
    pub(crate) jobs: u32,
}

/// All jobs and sessions.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    in_flight: BTreeMap<JobId, InFlight>,
    pub(super) ended: VecDeque<EndedJob>,
    pub(super) sessions: VecDeque<Session>,
}

impl Jobs {
    pub(super) fn begin(&mut self, now: Time, spawn: &Spawn) {
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            self.in_flight.pop_first();
        }
        let job = InFlight {
            job: spawn.job,
            op: spawn.work.name(),
            class: spawn.class.name(),
            group: spawn.group,
            spawned: now,
            soft: spawn.soft,
            hard: spawn.hard,
        };
        self.in_flight.insert(spawn.job, job);
        // The newest first, to which most jobs belong.
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
        self.sessions.push_back(Session {
            id: spawn.session,
            open: now,
            soft: spawn.soft,
            hard: spawn.hard,
            jobs: 1,
        });
    }

    /// Ends a job. Returns the facts known before.
    pub(super) fn end(&mut self, now: Time, ended: &Ended) -> Option<InFlight> {
        let job = self.in_flight.remove(&ended.job)?;
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(EndedJob {
            job,
            at: now,
            outcome: outcome(&ended.outcome),
            queued_ns: ended.queued_ns,
            ran_ns: ended.ran_ns,
            predicted_ns: ended.run.map(|run| run.predicted_ns),
            late: ended.late,
        });
        Some(job)
    }

    /// Number of jobs in flight.
    pub(super) fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// The oldest jobs in flight.
    pub(super) fn oldest(&self) -> Vec<InFlight> {
        self.in_flight.values().take(ENDED_MAX).copied().collect()
    }
}

/// The name of an outcome in traces and metrics.
pub(super) fn outcome(outcome: &Outcome<Product>) -> &'static str {
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::Invalid(_) => "invalid",
        Outcome::Refused(_) => "refused",
        Outcome::Superseded => "superseded",
        Outcome::Cancelled => "cancelled",
        Outcome::Crashed => "crashed",
        Outcome::SelfVerifyFailed => "self_verify_failed",
    }
}
