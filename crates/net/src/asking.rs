//! The requests of this node that are in flight, and how many there may be.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::Limits;
use crate::error::Refused;
use crate::event::{Event, Peer, RequestError};
use crate::inbox::Inbox;
use crate::status::{Counters, add};

/// What a driver asks of a peer.
#[derive(Debug)]
pub(crate) struct Question {
    /// Index in the configuration.
    pub(crate) protocol: usize,
    pub(crate) data: Arc<[u8]>,
    pub(crate) ticket: Ticket,
}

/// The entry of a request among those in flight. Dropping it ends the request.
// It may wait in the outbox, so it holds the queues that it needs, not the shared state, which holds the outbox.
pub(crate) struct Ticket {
    asking: Arc<Asking>,
    inbox: Arc<Inbox>,
    counters: Arc<Counters>,
    peer: Peer,
    id: u64,
    bytes: usize,
    /// Whether the outcome must be reported. False while the driver may still learn that the request was not accepted.
    armed: bool,
    /// The outcome, once there is one.
    result: Option<Result<Vec<Arc<[u8]>>, RequestError>>,
}

#[derive(Debug, Default)]
struct InFlight {
    peers: BTreeMap<Peer, usize>,
    count: usize,
    bytes: usize,
}

/// The requests of this node that are in flight.
#[derive(Debug)]
pub(crate) struct Asking {
    state: Mutex<InFlight>,
    per_peer_max: usize,
    count_max: usize,
    bytes_max: usize,
}

impl Asking {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            state: Mutex::default(),
            per_peer_max: limits.requests_per_peer_max,
            count_max: limits.requests_max,
            bytes_max: limits.responses_bytes_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, InFlight> {
        // A panic under this lock cannot leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, peer: Peer, bytes: usize) -> Result<(), Refused> {
        let mut state = self.lock();
        let with_peer = state.peers.get(&peer).copied().unwrap_or(0);
        for (value, bound, what) in [
            (with_peer + 1, self.per_peer_max, "requests to the peer"),
            (state.count + 1, self.count_max, "requests"),
            (state.bytes + bytes, self.bytes_max, "bytes of responses"),
        ] {
            if value > bound {
                return Err(Refused::Full { what, bound });
            }
        }
        state.peers.insert(peer, with_peer + 1);
        state.count += 1;
        state.bytes += bytes;
        Ok(())
    }

    fn end(&self, peer: Peer, bytes: usize) {
        let mut state = self.lock();
        if let Some(count) = state.peers.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                state.peers.remove(&peer);
            }
            state.count -= 1;
            state.bytes -= bytes;
        }
    }
}

impl Ticket {
    /// Returns a slot for a request, if there is one.
    pub(crate) fn take(
        asking: &Arc<Asking>,
        inbox: &Arc<Inbox>,
        counters: &Arc<Counters>,
        peer: Peer,
        id: u64,
        bytes: usize,
    ) -> Result<Self, Refused> {
        asking.begin(peer, bytes)?;
        Ok(Self {
            asking: Arc::clone(asking),
            inbox: Arc::clone(inbox),
            counters: Arc::clone(counters),
            peer,
            id,
            bytes,
            armed: false,
            result: None,
        })
    }

    /// Reports the outcome from now on.
    pub(crate) fn arm(&mut self) {
        self.armed = true;
        add(&self.counters.requests[1], 1);
    }

    /// Ends the request.
    pub(crate) fn finish(mut self, result: Result<Vec<Arc<[u8]>>, RequestError>) {
        self.result = Some(result);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // The slot is free before the outcome is reported: the driver may ask again at once.
        self.asking.end(self.peer, self.bytes);
        if self.armed {
            let result = self.result.take();
            self.inbox.push_control(Event::Response {
                peer: self.peer,
                id: self.id,
                result: result.unwrap_or(Err(RequestError::Disconnected)),
            });
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({} to peer {})", self.id, self.peer)
    }
}
