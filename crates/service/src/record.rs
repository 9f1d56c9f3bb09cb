//! A job that is remembered: its state, its events, and both in JSON.

use crate::job::{Kind, Output};
use crate::registry::Digest;
use alphorn_dashboard::Live;
use alphorn_scheme::{Outcome, SessionId};
use alphorn_types::trace::{Batch, Lines, RingLimits};
use alphorn_worker::{Finished, Running};
use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How a job ended.
pub(crate) struct Ending {
    pub(crate) state: &'static str,
    pub(crate) at: Instant,
    /// A few fields of bounded length.
    facts: Map<String, Value>,
    /// Verdicts, one per input: kept as the text of a JSON object, since its lists take several times
    /// as much memory as values.
    lists: Option<Arc<str>>,
    pub(crate) proof: Option<Bytes>,
}

impl Ending {
    /// Returns the bytes kept: the proof, and the verdicts both here and in the final event.
    pub(crate) fn bytes(&self) -> usize {
        let lists = self.lists.as_ref().map_or(0, |lists| lists.len());
        self.proof.as_ref().map_or(0, Bytes::len) + 2 * lists
    }
}

/// The state of a job at one time, as sent to its client.
pub(crate) struct Snapshot {
    facts: Map<String, Value>,
    lists: Option<Arc<str>>,
}

impl Snapshot {
    /// Returns a JSON object. It can be long, so answers build it once the book is no longer locked.
    pub(crate) fn text(self) -> String {
        let mut text = Value::Object(self.facts).to_string();
        let lists = self.lists.as_deref();
        if let Some(fields) = lists.and_then(|lists| lists.strip_prefix('{')) {
            // Two non-empty objects with distinct fields are joined into one.
            text.pop();
            text.push(',');
            text.push_str(fields);
        }
        text
    }
}

impl IntoResponse for Snapshot {
    fn into_response(self) -> Response {
        let media = [(header::CONTENT_TYPE, "application/json")];
        (media, self.text()).into_response()
    }
}

/// The state of a job.
pub(crate) enum State {
    Queued,
    Running(Running),
    Ended(Ending),
}

/// A job that is remembered.
pub(crate) struct Record {
    pub(crate) number: u64,
    pub(crate) client: String,
    pub(crate) kind: Kind,
    /// Name chosen by its client.
    pub(crate) name: Option<String>,
    /// Digest of the request.
    pub(crate) asked: Digest,
    pub(crate) session: Option<String>,
    pub(crate) cancel: SessionId,
    pub(crate) bytes: usize,
    pub(crate) inputs: usize,
    pub(crate) accepted: Instant,
    pub(crate) state: State,
    pub(crate) events: Arc<Events>,
    pub(crate) over: watch::Sender<bool>,
}

/// The lines of a job's event stream; a late reader gets all of them.
pub(crate) struct Events {
    lines: Mutex<Lines>,
    is_over: AtomicBool,
}

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

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

/// A few states, and the latest progress events.
const EVENTS: RingLimits = RingLimits {
    high_lines_max: 16,
    high_bytes_max: 16 << 10,
    low_lines_max: 8,
    low_bytes_max: 4 << 20,
    snapshot_high_max: 16,
};

impl Events {
    pub(crate) fn new(instance: u64) -> Arc<Self> {
        Arc::new(Events {
            lines: Mutex::new(Lines::new(instance, EVENTS)),
            is_over: AtomicBool::new(false),
        })
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, kind: &'static str, snapshot: Snapshot, is_high: bool) {
        self.lines().push(kind, &snapshot.text(), is_high);
    }

    /// Appends the last line: no reader needs to wait for more.
    pub(crate) fn end(&self, snapshot: Snapshot) {
        self.push("ended", snapshot, false);
        // After the line is in the ring, so that a reader that sees the end finds its last line there.
        self.is_over.store(true, Ordering::Release);
    }
}

impl Record {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    pub(crate) fn is_of_session(&self, session: &str) -> bool {
        self.session.as_deref() == Some(session)
    }

    pub(crate) fn ending(&self) -> Option<&Ending> {
        match &self.state {
            State::Ended(ending) => Some(ending),
            State::Queued | State::Running(_) => None,
        }
    }

    /// Returns the proof that it made.
    pub(crate) fn proof(&self) -> Option<&Bytes> {
        self.ending().and_then(|ending| ending.proof.as_ref())
    }

    /// Returns the bytes kept of its end.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.ending().map_or(0, Ending::bytes)
    }

    /// Returns its whole state.
    pub(crate) fn snapshot(&self, instance: u64, now: Instant) -> Snapshot {
        Snapshot {
            facts: self.facts(instance, now),
            lists: self.ending().and_then(|ending| ending.lists.clone()),
        }
    }

    /// Returns its state without lists of verdicts.
    pub(crate) fn facts(&self, instance: u64, now: Instant) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("id", json!(format!("{instance:016x}-{}", self.number)));
        put("kind", json!(self.kind.name()));
        put("name", json!(self.name));
        put("session", json!(self.session));
        put("inputs", json!(self.inputs));
        let age = now.saturating_duration_since(self.accepted);
        put("age_ms", json!(millis(age)));
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
                fields.extend(ending.facts.clone());
            }
        }
        fields
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns what is reported of a job's end.
pub(crate) fn ending(finished: Finished<Output>, inputs: usize, now: Instant) -> Ending {
    let timing = finished.timing;
    let mut facts = Map::new();
    let mut put = |name: &str, value: Value| facts.insert(name.to_owned(), value);
    put("late", json!(finished.late));
    put("queued_ms", json!(timing.queued_ns / 1_000_000));
    put("ran_ms", json!(timing.ran_ns / 1_000_000));
    put("cpu_ms", json!(timing.cpu_ns / 1_000_000));
    let (mut proof, mut lists) = (None, None);
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
                    proof = Some(bytes.into());
                }
                Output::Verdicts(refused) => {
                    let valid: Vec<bool> = refused.iter().map(Option::is_none).collect();
                    let bad = valid.iter().filter(|valid| !**valid).count();
                    put("bad_count", json!(bad));
                    lists = Some(json!({"valid": valid, "reasons": refused}));
                }
                Output::Bad(bad) => {
                    put("valid", json!(bad.is_empty()));
                    put("bad_count", json!(bad.len()));
                    let (bad, why): (Vec<usize>, Vec<String>) = bad.into_iter().unzip();
                    lists = Some(json!({"bad": bad, "reasons": why}));
                }
            }
            "done"
        }
        Outcome::Invalid(bad) => {
            put("bad_count", json!(bad.len()));
            lists = Some(json!({"bad": bad}));
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
        facts,
        lists: lists.map(|lists: Value| lists.to_string().into()),
        proof,
    }
}
