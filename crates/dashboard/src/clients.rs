//! Clients that are sent a stream: so many, and none that does not read.

use axum::body::Bytes;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

/// Most clients that are sent something at a time, by all sources that share their places.
pub const CLIENTS_MAX: usize = 32;

/// How long a client may leave what it was sent unread before it loses its place.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes after which what was written is sent: a chunk is at most a line longer.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks that wait for a slow client.
const CHUNKS_WAITING_MAX: usize = 2;

/// A part of a body, or why it ends early.
type Chunk = Result<Bytes, io::Error>;

/// The parts of an answer that a client reads.
pub(crate) type Body = ReceiverStream<Chunk>;

/// The places of all clients.
#[derive(Clone, Debug)]
pub struct Clients {
    places: Arc<Semaphore>,
    dropped: Arc<AtomicU64>,
}

/// Where the parts of a body go.
pub(crate) struct Sink {
    chunks: mpsc::Sender<Chunk>,
    dropped: Arc<AtomicU64>,
    /// Given back when the sink is dropped.
    _place: OwnedSemaphorePermit,
}

impl Clients {
    /// All places are free.
    #[must_use]
    pub fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(CLIENTS_MAX)),
            dropped: Arc::default(),
        }
    }

    /// A place for a client and the body that it reads, if there is one left.
    #[must_use]
    pub(crate) fn admit(&self) -> Option<(Sink, Body)> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let (chunks, receiver) = mpsc::channel(CHUNKS_WAITING_MAX);
        let sink = Sink {
            chunks,
            dropped: self.dropped.clone(),
            _place: place,
        };
        Some((sink, ReceiverStream::new(receiver)))
    }

    /// Lines that clients were told they had missed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Places that are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        CLIENTS_MAX - self.places.available_permits()
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self::new()
    }
}

impl Sink {
    /// Sends a part; false if the client is gone or does not read.
    pub(crate) async fn send(&self, chunk: Chunk) -> bool {
        let sent = tokio::time::timeout(SEND_TIMEOUT, self.chunks.send(chunk)).await;
        matches!(sent, Ok(Ok(())))
    }

    /// Counts lines that the client has missed.
    pub(crate) fn missed(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }

    /// Waits until the client is gone.
    pub(crate) async fn closed(&self) {
        self.chunks.closed().await;
    }
}
