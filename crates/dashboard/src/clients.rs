//! Clients that receive a stream: bounded in total and per address or name. Clients that do not read are
//! dropped. When all seats are taken, an owner with more seats than another gives one up to it.

use axum::body::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

/// Maximum number of clients served at a time, over all sources that share seats.
pub const CLIENTS_MAX: usize = 64;

/// Maximum number of clients per address. Whether a client reads cannot be seen before the system's buffers are
/// full, so this reserves seats for readers at other addresses.
pub const CLIENTS_OF_ADDRESS_MAX: usize = 16;

/// How long a client may leave sent data unread before it loses its seat.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes after which pending output is sent; a chunk exceeds this by at most a line.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// Maximum number of chunks queued for a slow client.
const CHUNKS_WAITING_MAX: usize = 2;

/// A part of a body, or why it ends early.
type Chunk = Result<Bytes, io::Error>;

/// The chunks of a response that a client reads.
pub(crate) type Body = ReceiverStream<Chunk>;

/// Origin of a request. The server puts it among the extensions of each request; without it no address has its
/// own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// Addresses that count as one: an IPv4 address, or the network assigned to a single IPv6 host.
    #[must_use]
    pub fn group(self) -> IpAddr {
        match self.0.to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
            ip @ IpAddr::V4(_) => ip,
        }
    }
}

/// The party whose seats are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Address(IpAddr),
    Name(Arc<str>),
}

/// A seat that is taken.
struct Seat {
    owner: Option<Owner>,
    /// Dropped if another client takes the seat, which ends this one.
    _given_up: oneshot::Sender<()>,
}

/// The taken seats, in the order in which they were taken.
#[derive(Default)]
struct Seats {
    next: u64,
    taken: BTreeMap<u64, Seat>,
}

impl Seats {
    /// Takes a seat for an owner with this limit. The returned receiver ends when another client takes the
    /// seat.
    fn take(&mut self, owner: Option<(Owner, usize)>) -> Option<(u64, oneshot::Receiver<()>)> {
        let max = owner.as_ref().map_or(usize::MAX, |(_, max)| *max);
        let owner = owner.map(|(owner, _)| owner);
        let mut counts: BTreeMap<&Option<Owner>, usize> = BTreeMap::new();
        for seat in self.taken.values() {
            *counts.entry(&seat.owner).or_default() += 1;
        }
        let own = counts.get(&owner).copied().unwrap_or(0);
        if own >= max {
            return None;
        }
        if self.taken.len() >= CLIENTS_MAX {
            let most = counts.values().copied().max().unwrap_or(0);
            // With one seat less the other owner still has as many, so owners cannot take seats back and forth.
            if most <= own + 1 {
                return None;
            }
            let mut newest = self.taken.iter().rev();
            let of_most = newest.find(|(_, seat)| counts.get(&seat.owner) == Some(&most));
            let victim = of_most.map(|(number, _)| *number)?;
            // The victim's task ends when it sees that its sender is gone.
            self.taken.remove(&victim);
        }
        let (sender, given_up) = oneshot::channel();
        let number = self.next;
        self.next += 1;
        let seat = Seat {
            owner,
            _given_up: sender,
        };
        self.taken.insert(number, seat);
        Some((number, given_up))
    }
}

/// The seats of all clients.
#[derive(Clone)]
pub struct Clients {
    seats: Arc<Mutex<Seats>>,
    /// The owner that asks for a seat, and its limit; none if unknown.
    owner: Option<(Owner, usize)>,
    dropped: Arc<AtomicU64>,
}

/// No code that holds the lock leaves the seats half changed.
fn lock(seats: &Mutex<Seats>) -> MutexGuard<'_, Seats> {
    seats.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Destination of the parts of a body.
pub(crate) struct Sink {
    chunks: mpsc::Sender<Chunk>,
    dropped: Arc<AtomicU64>,
    number: u64,
    seats: Arc<Mutex<Seats>>,
    /// `None` once another client has the seat: a completed receiver must not be polled.
    given_up: Option<oneshot::Receiver<()>>,
}

impl Drop for Sink {
    fn drop(&mut self) {
        lock(&self.seats).taken.remove(&self.number);
    }
}

impl Clients {
    /// Creates a set with all seats free.
    #[must_use]
    pub fn new() -> Self {
        Self {
            seats: Arc::default(),
            owner: None,
            dropped: Arc::default(),
        }
    }

    /// The same seats, for a client at an address.
    #[must_use]
    pub fn of(&self, address: Option<ClientAddress>) -> Self {
        Self {
            owner: address.map(|one| (Owner::Address(one.group()), CLIENTS_OF_ADDRESS_MAX)),
            ..self.clone()
        }
    }

    /// The same seats, for a client with a known name and this limit.
    #[must_use]
    pub fn named(&self, name: &str, max: usize) -> Self {
        Self {
            owner: Some((Owner::Name(name.into()), max)),
            ..self.clone()
        }
    }

    /// A seat for a client and the body that it reads, if a seat is left or an owner with more seats gives one
    /// up.
    #[must_use]
    pub(crate) fn admit(&self) -> Option<(Sink, Body)> {
        let (number, given_up) = lock(&self.seats).take(self.owner.clone())?;
        let (chunks, receiver) = mpsc::channel(CHUNKS_WAITING_MAX);
        let sink = Sink {
            chunks,
            dropped: self.dropped.clone(),
            number,
            seats: self.seats.clone(),
            given_up: Some(given_up),
        };
        Some((sink, ReceiverStream::new(receiver)))
    }

    /// Number of lines that clients were notified of having missed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Number of taken seats.
    #[must_use]
    pub fn taken(&self) -> usize {
        lock(&self.seats).taken.len()
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self::new()
    }
}

impl Sink {
    /// Sends a part; false if the client is gone or does not read, or another client has its seat.
    pub(crate) async fn send(&mut self, chunk: Chunk) -> bool {
        let Some(given_up) = &mut self.given_up else {
            return false;
        };
        tokio::select! {
            biased;
            _ = given_up => {
                self.given_up = None;
                // Without an error, the truncated body would look complete.
                let error = io::Error::other("another client has the seat");
                let _ = tokio::time::timeout(SEND_TIMEOUT, self.chunks.send(Err(error))).await;
                false
            }
            sent = tokio::time::timeout(SEND_TIMEOUT, self.chunks.send(chunk)) => {
                matches!(sent, Ok(Ok(())))
            }
        }
    }

    /// Counts lines missed by the client.
    pub(crate) fn missed(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }

    /// Waits until the client is gone, or another client has its seat.
    pub(crate) async fn closed(&mut self) {
        if let Some(given_up) = &mut self.given_up {
            tokio::select! {
                _ = given_up => self.given_up = None,
                () = self.chunks.closed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_stream::StreamExt;

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
        assert!(hog.admit().is_some());
    }

    /// They read everything they are sent.
    #[tokio::test]
    async fn addresses_that_hold_all_places_give_one_up_for_another() {
        let clients = Clients::new();
        let at = |host: u8| clients.of(Some(ClientAddress([192, 0, 2, host].into())));
        let hosts = (0..CLIENTS_MAX / CLIENTS_OF_ADDRESS_MAX).map(|host| at(host as u8));
        let mut held: Vec<_> = hosts
            .flat_map(|host| std::iter::from_fn(move || host.admit()))
            .collect();
        assert_eq!((held.len(), clients.taken()), (CLIENTS_MAX, CLIENTS_MAX));
        let (mut other, _body) = at(99).admit().expect("a seat of one that has many");
        assert!(other.send(Ok("here".into())).await);
        assert_eq!(clients.taken(), CLIENTS_MAX);
        let mut ended = 0;
        for (sink, body) in &mut held {
            let is_sent = sink.send(Ok("more".into())).await;
            let read = body.next().await.expect("a part, or why there is none");
            assert_eq!(is_sent, read.is_ok());
            ended += usize::from(!is_sent);
        }
        assert_eq!(ended, 1);
        assert!(
            at(0).admit().is_none(),
            "nobody takes back what others have"
        );
        let more: Vec<_> = std::iter::from_fn(|| at(99).admit()).collect();
        assert_eq!(more.len(), 11, "as many as the others keep, or one less");
        drop(held);
        assert_eq!(clients.taken(), 12);
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
