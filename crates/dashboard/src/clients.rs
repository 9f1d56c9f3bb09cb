//! Clients that are sent a trace: so many, and none that does not read.

use crate::assets::guards;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

/// Most clients that one source sends its trace to at a time.
pub const CLIENTS_MAX: usize = 32;

/// How long a client may leave what it was sent unread before it loses its place.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes after which what was written is sent: a chunk is at most a line longer.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks that wait for a slow client.
const CHUNKS_WAITING_MAX: usize = 2;

/// A part of a body, or why it ends early.
type Chunk = Result<Bytes, io::Error>;

/// The places of a source.
#[derive(Clone, Debug)]
pub(crate) struct Clients(Arc<Semaphore>);

/// Where the parts of a body go.
pub(crate) struct Sink {
    chunks: mpsc::Sender<Chunk>,
    /// Given back when the sink is dropped.
    _place: OwnedSemaphorePermit,
}

impl Clients {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(CLIENTS_MAX)))
    }

    /// A place for a client and the body that it reads, if there is one left.
    pub(crate) fn admit(&self) -> Option<(Sink, ReceiverStream<Chunk>)> {
        let place = self.0.clone().try_acquire_owned().ok()?;
        let (chunks, receiver) = mpsc::channel(CHUNKS_WAITING_MAX);
        let sink = Sink {
            chunks,
            _place: place,
        };
        Some((sink, ReceiverStream::new(receiver)))
    }
}

impl Sink {
    /// Sends a part; false if the client is gone or does not read.
    pub(crate) async fn send(&self, chunk: Chunk) -> bool {
        let sent = tokio::time::timeout(SEND_TIMEOUT, self.chunks.send(chunk)).await;
        matches!(sent, Ok(Ok(())))
    }

    /// Waits until the client is gone.
    pub(crate) async fn closed(&self) {
        self.chunks.closed().await;
    }
}

/// The answer when all places are taken.
pub(crate) fn full() -> Response {
    let text = "too many clients read this trace\n";
    let retry = [(RETRY_AFTER, "5")];
    (StatusCode::SERVICE_UNAVAILABLE, guards(), retry, text).into_response()
}
