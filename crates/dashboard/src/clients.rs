//! Clients that are sent a stream: so many in all, so many of an address, and none that does not read.

use axum::body::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

/// Most clients that are sent something at a time, by all sources that share their places.
pub const CLIENTS_MAX: usize = 64;

/// Most of them behind one address: whether a client reads is not seen before the system's buffers are
/// full, so readers of other addresses have places that it cannot take.
pub const CLIENTS_OF_ADDRESS_MAX: usize = 16;

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

/// Where a request comes from: whoever serves puts it among the extensions of each request, or no address
/// has a bound of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// Places that are taken, by address.
type ByAddress = Arc<Mutex<BTreeMap<IpAddr, usize>>>;

/// The places of all clients.
#[derive(Clone, Debug)]
pub struct Clients {
    places: Arc<Semaphore>,
    by_address: ByAddress,
    /// Who asks for a place; none if that is not known.
    from: Option<IpAddr>,
    dropped: Arc<AtomicU64>,
}

/// One of the places of an address.
struct OfAddress {
    from: Option<IpAddr>,
    by_address: ByAddress,
}

impl OfAddress {
    /// A place, if the address has one left.
    fn take(from: Option<IpAddr>, by_address: &ByAddress) -> Option<Self> {
        if let Some(ip) = from {
            let mut taken = lock(by_address);
            let count = taken.entry(ip).or_default();
            if *count >= CLIENTS_OF_ADDRESS_MAX {
                return None;
            }
            *count += 1;
        }
        let by_address = by_address.clone();
        Some(Self { from, by_address })
    }
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let Some(ip) = self.from else {
            return;
        };
        let mut taken = lock(&self.by_address);
        match taken.get_mut(&ip) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                taken.remove(&ip);
            }
        }
    }
}

/// No code that holds the lock leaves the counts half changed.
fn lock(by_address: &ByAddress) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
    by_address.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the parts of a body go.
pub(crate) struct Sink {
    chunks: mpsc::Sender<Chunk>,
    dropped: Arc<AtomicU64>,
    /// Given back when the sink is dropped.
    _place: OwnedSemaphorePermit,
    _of_address: OfAddress,
}

impl Clients {
    /// All places are free.
    #[must_use]
    pub fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(CLIENTS_MAX)),
            by_address: Arc::default(),
            from: None,
            dropped: Arc::default(),
        }
    }

    /// The same places, for a client of an address.
    #[must_use]
    pub fn of(&self, address: Option<ClientAddress>) -> Self {
        Self {
            from: address.map(|ClientAddress(ip)| ip.to_canonical()),
            ..self.clone()
        }
    }

    /// A place for a client and the body that it reads, if there is one left.
    #[must_use]
    pub(crate) fn admit(&self) -> Option<(Sink, Body)> {
        let of_address = OfAddress::take(self.from, &self.by_address)?;
        let place = self.places.clone().try_acquire_owned().ok()?;
        let (chunks, receiver) = mpsc::channel(CHUNKS_WAITING_MAX);
        let sink = Sink {
            chunks,
            dropped: self.dropped.clone(),
            _place: place,
            _of_address: of_address,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_takes_all_it_can_leaves_places_for_others() {
        let clients = Clients::new();
        let at = |host: u8| clients.of(Some(ClientAddress([192, 0, 2, host].into())));
        let hog = at(1);
        let held: Vec<_> = std::iter::from_fn(|| hog.admit()).collect();
        assert_eq!(held.len(), CLIENTS_OF_ADDRESS_MAX);
        let other = at(2).admit();
        assert!(other.is_some(), "another address");
        let mapped = clients.of(Some(ClientAddress("::ffff:192.0.2.1".parse().unwrap())));
        assert!(
            mapped.admit().is_none(),
            "the same address in the other family"
        );
        drop(held);
        assert_eq!(clients.taken(), 1);
        drop(other);
        assert!(lock(&clients.by_address).is_empty());
        assert!(hog.admit().is_some());
    }
}
