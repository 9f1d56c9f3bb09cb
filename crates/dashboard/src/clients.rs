//! Clients that are sent a stream: so many in all, so many of an address or a name, and none that does not
//! read.

use axum::body::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
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

impl ClientAddress {
    /// Addresses that count as one: an IPv4 address, or the network that one host of IPv6 has.
    #[must_use]
    pub fn group(self) -> IpAddr {
        match self.0.to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
            ip @ IpAddr::V4(_) => ip,
        }
    }
}

/// Whose places are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Address(IpAddr),
    Name(Arc<str>),
}

/// Places that are taken, by owner.
type ByOwner = Arc<Mutex<BTreeMap<Owner, usize>>>;

/// The places of all clients.
#[derive(Clone, Debug)]
pub struct Clients {
    places: Arc<Semaphore>,
    by_owner: ByOwner,
    /// Who asks for a place, and how many it may have; none if that is not known.
    owner: Option<(Owner, usize)>,
    dropped: Arc<AtomicU64>,
}

/// One of the places of an owner.
struct Owned {
    owner: Option<Owner>,
    by_owner: ByOwner,
}

impl Owned {
    /// A place, if the owner has one left.
    fn take(owner: Option<&(Owner, usize)>, by_owner: &ByOwner) -> Option<Self> {
        if let Some((owner, max)) = owner {
            let mut taken = lock(by_owner);
            let count = taken.get(owner).copied().unwrap_or(0);
            if count >= *max {
                return None;
            }
            taken.insert(owner.clone(), count + 1);
        }
        Some(Self {
            owner: owner.map(|(owner, _)| owner.clone()),
            by_owner: by_owner.clone(),
        })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let Some(owner) = &self.owner else {
            return;
        };
        let mut taken = lock(&self.by_owner);
        match taken.get_mut(owner) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                taken.remove(owner);
            }
        }
    }
}

/// No code that holds the lock leaves the counts half changed.
fn lock(by_owner: &ByOwner) -> MutexGuard<'_, BTreeMap<Owner, usize>> {
    by_owner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the parts of a body go.
pub(crate) struct Sink {
    chunks: mpsc::Sender<Chunk>,
    dropped: Arc<AtomicU64>,
    /// Given back when the sink is dropped.
    _place: OwnedSemaphorePermit,
    _owned: Owned,
}

impl Clients {
    /// All places are free.
    #[must_use]
    pub fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(CLIENTS_MAX)),
            by_owner: Arc::default(),
            owner: None,
            dropped: Arc::default(),
        }
    }

    /// The same places, for a client of an address.
    #[must_use]
    pub fn of(&self, address: Option<ClientAddress>) -> Self {
        Self {
            owner: address.map(|one| (Owner::Address(one.group()), CLIENTS_OF_ADDRESS_MAX)),
            ..self.clone()
        }
    }

    /// The same places, for a client that is known by a name and may have so many of them.
    #[must_use]
    pub fn named(&self, name: &str, max: usize) -> Self {
        Self {
            owner: Some((Owner::Name(name.into()), max)),
            ..self.clone()
        }
    }

    /// A place for a client and the body that it reads, if there is one left.
    #[must_use]
    pub(crate) fn admit(&self) -> Option<(Sink, Body)> {
        let owned = Owned::take(self.owner.as_ref(), &self.by_owner)?;
        let place = self.places.clone().try_acquire_owned().ok()?;
        let (chunks, receiver) = mpsc::channel(CHUNKS_WAITING_MAX);
        let sink = Sink {
            chunks,
            dropped: self.dropped.clone(),
            _place: place,
            _owned: owned,
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
        assert!(lock(&clients.by_owner).is_empty());
        assert!(hog.admit().is_some());
    }

    #[test]
    fn a_host_that_has_a_network_of_its_own_is_one_address() {
        let clients = Clients::new();
        let at = |text: &str| clients.of(Some(ClientAddress(text.parse().unwrap())));
        let hosts = 0..=CLIENTS_OF_ADDRESS_MAX;
        let hosts = hosts.map(|host| at(&format!("2001:db8:0:1:{host:x}::1")).admit());
        let held: Vec<_> = hosts.flatten().collect();
        assert_eq!(held.len(), CLIENTS_OF_ADDRESS_MAX);
        assert!(at("2001:db8:0:2::1").admit().is_some(), "another network");
    }

    #[test]
    fn a_name_has_the_places_that_it_is_given_and_no_more() {
        let clients = Clients::new();
        let alice = clients.named("alice", 8);
        let held: Vec<_> = std::iter::from_fn(|| alice.admit()).collect();
        assert_eq!(held.len(), 8);
        assert!(clients.named("bob", 8).admit().is_some(), "another name");
        drop(held);
        assert!(alice.admit().is_some());
    }
}
