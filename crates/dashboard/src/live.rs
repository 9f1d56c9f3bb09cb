//! A running trace as server-sent events (WHATWG HTML, section 9.2).
//!
//! A client gets a snapshot, then what follows, every [`TICK`]. It is announced by an event
//! `snapshot` with the number of its lines. Each line is an event of its kind, whose id is the
//! instance and the position: a client that comes back with its last id gets what it missed. A gap
//! is an event `gap` and a comment, both with the number of lines that are lost. A client further
//! behind than the ring reaches is closed, and so is one that does not read.

use crate::Source;
use crate::assets::guards;
use crate::clients::{CHUNK_BYTES, Clients, Sink, full};
use alphorn_types::trace::{Batch, Line, Ring};
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, extract::State};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a client is sent what is new.
pub const TICK: Duration = Duration::from_millis(50);

/// After how much silence a client gets a comment that the connection is alive.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Most lines that are taken from a source at once.
pub const BATCH_LINES_MAX: usize = 1_024;

/// Milliseconds after which a client that lost its connection comes back.
const RETRY_MS: u32 = 500;

/// A trace that goes on. What it gives is bounded, and it never waits.
pub trait Live: Send + Sync + 'static {
    /// What tells the positions of this source from those of the same node before a restart.
    fn instance(&self) -> u64;

    /// Most lines that lie between a client and the newest line before it is closed.
    fn lag_max(&self) -> u64;

    /// What rebuilds the state now, with the position after it.
    fn snapshot(&self) -> Batch;

    /// What came after a position, at most `lines_max` lines.
    fn after(&self, position: u64, lines_max: usize) -> Batch;
}

/// The writer locks for one `push`, readers for one batch of shared lines: no one waits long.
impl Live for Mutex<Ring> {
    fn instance(&self) -> u64 {
        ring(self).instance()
    }

    fn lag_max(&self) -> u64 {
        ring(self).lag_max()
    }

    fn snapshot(&self) -> Batch {
        ring(self).snapshot()
    }

    fn after(&self, position: u64, lines_max: usize) -> Batch {
        ring(self).after(position, lines_max)
    }
}

/// A writer that panicked left a whole ring: `push` changes it last.
fn ring(mutex: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The id of an event: where a client is, and in which life of the source.
#[must_use]
pub fn event_id(instance: u64, position: u64) -> String {
    format!("{instance:x}-{position}")
}

/// Instance and position of an id, as [`event_id`] writes it.
#[must_use]
pub fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (instance, position) = id.split_once('-')?;
    let parsed = (
        u64::from_str_radix(instance, 16).ok()?,
        position.parse().ok()?,
    );
    // Only what we wrote: no signs, no zeros in front.
    (event_id(parsed.0, parsed.1) == id).then_some(parsed)
}

#[derive(Clone)]
struct Shared {
    source: Arc<dyn Live>,
    clients: Clients,
}

/// The routes of a live source.
pub(crate) fn routes(source: Arc<dyn Live>, clients: Clients) -> Router {
    Router::new()
        .route("/trace", get(follow))
        .route("/trace/snapshot", get(snapshot))
        .with_state(Shared { source, clients })
}

/// The snapshot as JSON lines.
async fn snapshot(State(shared): State<Shared>) -> Response {
    let Some((sink, body)) = shared.clients.admit() else {
        return full();
    };
    tokio::spawn(async move {
        let batch = shared.source.snapshot();
        let json = |text: &mut String, line: &Line| {
            text.push_str(&line.json);
            text.push('\n');
        };
        sink_lines(&sink, String::new(), &batch.lines, json).await
    });
    let headers = [
        (CONTENT_TYPE, "application/jsonl; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
    ];
    (guards(), headers, Body::from_stream(body)).into_response()
}

/// The stream of events.
async fn follow(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let known = headers
        .get("last-event-id")
        .and_then(|id| parse_event_id(id.to_str().ok()?))
        .filter(|(instance, _)| *instance == shared.source.instance())
        .map(|(_, position)| position);
    let Some((sink, body)) = shared.clients.admit() else {
        return full();
    };
    tokio::spawn(send(shared.source, sink, known));
    let headers = [
        (CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
    ];
    (guards(), headers, Body::from_stream(body)).into_response()
}

/// Sends what a client does not have, until it is gone, does not read, or fell too far behind.
async fn send(source: Arc<dyn Live>, sink: Sink, known: Option<u64>) {
    let instance = source.instance();
    let mut text = format!("retry: {RETRY_MS}\n\n");
    let mut first = Batch::default();
    let mut position = known.unwrap_or_else(|| {
        first = source.snapshot();
        // No formatting here fails: it goes to memory.
        let lines = first.lines.len();
        let _ = write!(text, "event: snapshot\ndata: {{\"lines\":{lines}}}\n\n");
        first.position
    });
    let event = |text: &mut String, line: &Line| write_event(text, instance, line);
    if !sink_lines(&sink, text, &first.lines, event).await {
        return;
    }
    drop(first);
    let mut silent_for = Duration::ZERO;
    loop {
        let batch = source.after(position, BATCH_LINES_MAX);
        let is_last = batch.lines.len() < BATCH_LINES_MAX;
        let mut text = String::new();
        let is_new = batch.position > position;
        if is_new {
            position = batch.position;
            write_gap(&mut text, batch.dropped);
        } else if silent_for >= KEEP_ALIVE {
            text.push_str(": alive\n\n");
        }
        if text.is_empty() && !is_new {
            silent_for += TICK;
        } else {
            silent_for = Duration::ZERO;
            if !sink_lines(&sink, text, &batch.lines, event).await {
                return;
            }
            // A client that took so long to read this that the rest is gone starts anew.
            let newest = source.after(u64::MAX, 1).position;
            if newest.saturating_sub(position) > source.lag_max() {
                return;
            }
        }
        if is_last {
            tokio::select! {
                () = sink.closed() => return,
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }
}

/// Sends a text and lines after it in chunks, so that a slow client holds few bytes of ours; false
/// if it is gone or does not read.
async fn sink_lines(
    sink: &Sink,
    mut text: String,
    lines: &[Line],
    write: impl Fn(&mut String, &Line),
) -> bool {
    for line in lines {
        write(&mut text, line);
        if text.len() >= CHUNK_BYTES && !sink.send(Ok(std::mem::take(&mut text).into())).await {
            return false;
        }
    }
    text.is_empty() || sink.send(Ok(text.into())).await
}

fn write_gap(text: &mut String, dropped: u64) {
    if dropped > 0 {
        let _ = write!(
            text,
            ": dropped {dropped}\nevent: gap\ndata: {{\"dropped\":{dropped}}}\n\n"
        );
    }
}

fn write_event(text: &mut String, instance: u64, line: &Line) {
    let id = event_id(instance, line.position);
    let (kind, json) = (line.kind, &line.json);
    let _ = write!(text, "event: {kind}\nid: {id}\ndata: {json}\n\n");
}

impl From<Arc<Mutex<Ring>>> for Source {
    fn from(ring: Arc<Mutex<Ring>>) -> Self {
        Source::Live(ring)
    }
}

#[cfg(test)]
mod tests;
