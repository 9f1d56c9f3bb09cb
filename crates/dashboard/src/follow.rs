//! A running source as server-sent events (WHATWG HTML, section 9.2).
//!
//! A client receives new lines every [`TICK`]. If the source has snapshots, a client without state first
//! receives one, announced by an event `snapshot` with the number of its lines. Each line is an event of its
//! kind, whose id is the instance and the position: a client that reconnects with its last id gets what it
//! missed. A gap is a comment with the number of lost lines, and for a source with snapshots also an event
//! `gap`. A client that is further behind than the ring reaches is disconnected, and so is one that does not
//! read. When a source ends, its streams end once everything is sent.
//!
//! `axum::response::sse` would send each event on its own, and wait for a client that does not read for as long
//! as the connection lasts; a broadcast channel has no history for a client that reconnects.

use crate::clients::{CHUNK_BYTES, Clients, Sink};
use alphorn_types::trace::{Batch, Line, Lines, Ring};
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often new lines are sent to a client.
const TICK: Duration = Duration::from_millis(50);

/// Silence after which a client is sent a keep-alive comment.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Maximum number of lines taken from a source at once.
const BATCH_LINES_MAX: usize = 1_024;

/// Milliseconds after which a client that lost its connection reconnects.
const RETRY_MS: u32 = 500;

/// A stream of lines. Results are bounded, and calls never wait.
pub trait Live: Send + Sync + 'static {
    /// Distinguishes the positions of this source from those of the same node before a restart.
    fn instance(&self) -> u64;

    /// Maximum number of lines between a client and the newest line before it is disconnected.
    fn lag_max(&self) -> u64;

    /// The lines that rebuild the current state, with the position after it; none if a new client only gets new
    /// lines.
    fn snapshot(&self) -> Option<Batch>;

    /// The lines after a position, at most `lines_max`.
    fn after(&self, position: u64, lines_max: usize) -> Batch;

    /// Returns whether no more lines will come.
    fn is_over(&self) -> bool {
        false
    }
}

/// The writer locks for one `push`, readers for one batch of shared lines, so waits are short.
impl Live for Mutex<Ring> {
    fn instance(&self) -> u64 {
        lock(self).instance()
    }

    fn lag_max(&self) -> u64 {
        lock(self).lag_max()
    }

    fn snapshot(&self) -> Option<Batch> {
        Some(lock(self).snapshot())
    }

    fn after(&self, position: u64, lines_max: usize) -> Batch {
        lock(self).after(position, lines_max)
    }
}

/// Like the implementation for a ring.
impl Live for Mutex<Lines> {
    fn instance(&self) -> u64 {
        lock(self).instance()
    }

    fn lag_max(&self) -> u64 {
        lock(self).lag_max()
    }

    fn snapshot(&self) -> Option<Batch> {
        None
    }

    fn after(&self, position: u64, lines_max: usize) -> Batch {
        lock(self).after(position, lines_max)
    }
}

/// After a panic of the writer the lines are whole: `push` changes them last.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lines of a source that a client asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All.
    All,
    /// Lines of some kinds.
    Kinds {
        /// The kinds.
        kinds: Vec<&'static str>,
        /// Whether one of them is a high-rate kind. A client that requests none of these is notified of a gap
        /// only if low-rate lines are gone.
        has_high: bool,
    },
}

impl Wanted {
    fn takes(&self, kind: &str) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Kinds { kinds, .. } => kinds.contains(&kind),
        }
    }

    /// Number of lost lines of all kinds, if requested lines may be among them.
    fn lost(&self, batch: &Batch) -> u64 {
        match self {
            Wanted::Kinds {
                has_high: false, ..
            } if !batch.dropped_low => 0,
            _ => batch.dropped,
        }
    }
}

/// The id of an event: the client's position, and the instance of the source.
#[must_use]
fn event_id(instance: u64, position: u64) -> String {
    format!("{instance:x}-{position}")
}

/// Parses instance and position from an id written by [`event_id`].
#[must_use]
fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (instance, position) = id.split_once('-')?;
    let parsed = (
        u64::from_str_radix(instance, 16).ok()?,
        position.parse().ok()?,
    );
    // Accept only what we wrote: no signs, no leading zeros.
    (event_id(parsed.0, parsed.1) == id).then_some(parsed)
}

/// The stream of a source for a client, starting after its `Last-Event-ID`; none if all seats are taken.
pub fn follow(
    source: Arc<dyn Live>,
    clients: &Clients,
    headers: &HeaderMap,
    wanted: Wanted,
) -> Option<Response> {
    let known = headers
        .get("last-event-id")
        .and_then(|id| parse_event_id(id.to_str().ok()?))
        .filter(|(instance, _)| *instance == source.instance())
        .map(|(_, position)| position);
    let (sink, body) = clients.admit()?;
    tokio::spawn(send(source, sink, known, wanted));
    let headers = [
        (CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
    ];
    Some((headers, axum::body::Body::from_stream(body)).into_response())
}

/// Sends what a client does not have, until it is gone, does not read, is too far behind, or has everything.
async fn send(source: Arc<dyn Live>, mut sink: Sink, known: Option<u64>, wanted: Wanted) {
    let instance = source.instance();
    let mut text = format!("retry: {RETRY_MS}\n\n");
    let snapshot = source.snapshot();
    let has_snapshots = snapshot.is_some();
    let mut first = Batch::default();
    let mut position = match (known, snapshot) {
        (Some(known), _) => known,
        (None, None) => source.after(u64::MAX, 1).position,
        (None, Some(snapshot)) => {
            first = snapshot;
            // Formatting cannot fail here: it writes to memory.
            let lines = first.lines.len();
            let _ = write!(text, "event: snapshot\ndata: {{\"lines\":{lines}}}\n\n");
            first.position
        }
    };
    let event = |text: &mut String, line: &Line| {
        if wanted.takes(line.kind) {
            write_event(text, instance, line);
        }
    };
    if !sink_lines(&mut sink, text, &first.lines, event).await {
        return;
    }
    drop(first);
    let mut silent_for = Duration::ZERO;
    loop {
        // Checked first, so that the last line is among those taken below.
        let is_over = source.is_over();
        let batch = source.after(position, BATCH_LINES_MAX);
        let is_last = batch.lines.len() < BATCH_LINES_MAX;
        let mut text = String::new();
        let is_behind = batch.position > position;
        position = batch.position;
        let lost = wanted.lost(&batch);
        if lost > 0 {
            sink.missed(lost);
            write_gap(&mut text, lost, has_snapshots);
        }
        let is_new = lost > 0 || batch.lines.iter().any(|line| wanted.takes(line.kind));
        if !is_new && silent_for >= KEEP_ALIVE {
            text.push_str(": alive\n\n");
        }
        if text.is_empty() && !is_new {
            silent_for += TICK;
        } else {
            silent_for = Duration::ZERO;
            if !sink_lines(&mut sink, text, &batch.lines, event).await {
                return;
            }
        }
        if is_behind {
            // A client that took so long to read this that the rest is gone starts over.
            let newest = source.after(u64::MAX, 1).position;
            if newest.saturating_sub(position) > source.lag_max() {
                return;
            }
        }
        if is_last && is_over {
            return;
        }
        if is_last {
            tokio::select! {
                () = sink.closed() => return,
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }
}

/// Sends a text followed by lines in chunks, so that a slow client holds few of our bytes; false if it is gone
/// or does not read.
pub(crate) async fn sink_lines(
    sink: &mut Sink,
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

fn write_gap(text: &mut String, dropped: u64, as_event: bool) {
    let _ = writeln!(text, ": dropped {dropped}");
    if as_event {
        let _ = write!(text, "event: gap\ndata: {{\"dropped\":{dropped}}}\n");
    }
    text.push('\n');
}

fn write_event(text: &mut String, instance: u64, line: &Line) {
    let id = event_id(instance, line.position);
    let (kind, json) = (line.kind, &line.json);
    let _ = write!(text, "event: {kind}\nid: {id}\ndata: {json}\n\n");
}

#[cfg(test)]
mod tests;
