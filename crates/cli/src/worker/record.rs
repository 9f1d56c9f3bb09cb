//! A job that is remembered: its state, its events, and how both read in JSON.

use super::job::{Kind, Output};
use super::registry::Digest;
use alphorn_dashboard::Live;
use alphorn_scheme::{Outcome, SessionId};
use alphorn_types::trace::{Batch, Lines, RingLimits};
use alphorn_worker::{Finished, Running};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How a job ended.
pub(super) struct Ending {
    pub(super) state: &'static str,
    pub(super) at: Instant,
    details: Map<String, Value>,
    pub(super) proof: Option<Arc<Vec<u8>>>,
}

/// How a job is.
pub(super) enum State {
    Queued,
    Running(Running),
    Ended(Ending),
}

/// A job that is remembered.
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) client: String,
    pub(super) kind: Kind,
    /// As its client calls it.
    pub(super) name: Option<String>,
    /// What was asked for.
    pub(super) asked: Digest,
    pub(super) session: Option<String>,
    pub(super) cancel: SessionId,
    pub(super) bytes: usize,
    pub(super) inputs: usize,
    pub(super) accepted: Instant,
    pub(super) state: State,
    pub(super) events: Arc<Events>,
    pub(super) over: watch::Sender<bool>,
}

/// The lines of a job's stream of events: all of them for a reader that comes late.
pub(super) struct Events(Mutex<Lines>);

impl Live for Events {
    fn instance(&self) -> u64 {
        self.lines().instance()
    }

    fn lag_max(&self) -> u64 {
        self.lines().lag_max()
    }

    fn snapshot(&self) -> Option<Batch> {
        Some(
            self.lines()
                .after(0, EVENTS.low_lines_max + EVENTS.high_lines_max),
        )
    }

    fn after(&self, position: u64, lines_max: usize) -> Batch {
        self.lines().after(position, lines_max)
    }
}

/// A few states, and the last signs of progress.
const EVENTS: RingLimits = RingLimits {
    high_lines_max: 16,
    high_bytes_max: 16 << 10,
    low_lines_max: 8,
    low_bytes_max: 4 << 20,
    snapshot_high_max: 16,
};

impl Events {
    pub(super) fn new(instance: u64) -> Arc<Self> {
        Arc::new(Events(Mutex::new(Lines::new(instance, EVENTS))))
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, kind: &'static str, what: &Value, is_high: bool) {
        self.lines().push(kind, &what.to_string(), is_high);
    }
}

impl Record {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    pub(super) fn is_of_session(&self, session: &str) -> bool {
        self.session.as_deref() == Some(session)
    }

    /// The proof that it made.
    pub(super) fn proof(&self) -> Option<&Arc<Vec<u8>>> {
        match &self.state {
            State::Ended(ending) => ending.proof.as_ref(),
            State::Queued | State::Running(_) => None,
        }
    }

    pub(super) fn ended_at(&self) -> Option<Instant> {
        match &self.state {
            State::Ended(ending) => Some(ending.at),
            State::Queued | State::Running(_) => None,
        }
    }

    pub(super) fn json(&self, instance: u64, now: Instant) -> Value {
        let mut state = json!({
            "id": format!("{instance:016x}-{}", self.number),
            "kind": self.kind.name(),
            "name": self.name,
            "session": self.session,
            "inputs": self.inputs,
            "age_ms": millis(now.saturating_duration_since(self.accepted)),
        });
        let Some(fields) = state.as_object_mut() else {
            return state;
        };
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        match &self.state {
            State::Queued => {
                put("state", json!("queued"));
            }
            State::Running(running) => {
                put("state", json!("running"));
                put("running_ms", json!(running.ran_ns / 1_000_000));
                put("predicted_ms", json!(running.run.predicted_ns / 1_000_000));
                put("lane", json!(running.run.lane));
                put("beats", json!(running.beats));
            }
            State::Ended(ending) => {
                put("state", json!(ending.state));
                fields.extend(ending.details.clone());
            }
        }
        state
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What is reported of a job's end.
pub(super) fn ending(finished: Finished<Output>, inputs: usize, now: Instant) -> Ending {
    let timing = finished.timing;
    let mut details = Map::new();
    let mut put = |name: &str, value: Value| details.insert(name.to_owned(), value);
    put("late", json!(finished.late));
    put("queued_ms", json!(timing.queued_ns / 1_000_000));
    put("ran_ms", json!(timing.ran_ns / 1_000_000));
    put("cpu_ms", json!(timing.cpu_ns / 1_000_000));
    let mut proof = None;
    let state = match finished.outcome {
        Outcome::Done(output) => {
            let leftover = finished.leftover as usize;
            if leftover > 0 {
                put("leftover", json!(leftover));
                put("proved", json!(inputs.saturating_sub(leftover)));
            }
            match output {
                Output::Proof(bytes) => {
                    let digest = Sha256::digest(&bytes);
                    put("proof_bytes", json!(bytes.len()));
                    put("proof_sha256", json!(format!("0x{}", hex::encode(digest))));
                    proof = Some(Arc::new(bytes));
                }
                Output::Verdicts(refused) => {
                    let valid: Vec<bool> = refused.iter().map(Option::is_none).collect();
                    put("valid", json!(valid));
                    put("reasons", json!(refused));
                }
                Output::Bad(bad) => {
                    put("valid", json!(bad.is_empty()));
                    put("bad", json!(bad.iter().map(|(i, _)| i).collect::<Vec<_>>()));
                    put(
                        "reasons",
                        json!(bad.iter().map(|(_, why)| why).collect::<Vec<_>>()),
                    );
                }
            }
            "done"
        }
        Outcome::Invalid(bad) => {
            put("bad", json!(bad));
            if finished.crasher {
                put("crasher", json!(true));
            }
            "invalid"
        }
        Outcome::Refused(reason) => {
            put("reason", json!(reason));
            "refused"
        }
        Outcome::Superseded | Outcome::Cancelled => "cancelled",
        Outcome::Crashed => "crashed",
        Outcome::SelfVerifyFailed => "faulty",
    };
    Ending {
        state,
        at: now,
        details,
        proof,
    }
}
