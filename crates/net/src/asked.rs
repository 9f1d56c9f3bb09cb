//! The requests of peers that have not been answered yet, and what each peer may ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

use crate::bucket::Bucket;
use crate::config::Config;
use crate::error::Refused;
use crate::event::Peer;

/// Longer responses are sent to a peer one at a time, so a peer that asks and does not read withholds few bytes from
/// others.
pub(crate) const LONG_BYTES: usize = 1 << 20;

/// One in this many pending requests, and bytes of responses, is reserved for peers that this node knows.
const KEPT_PART: usize = 4;

/// The peer that sends a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) peer: Peer,
    /// Whether this node dials it.
    pub(crate) is_known: bool,
}

/// Peers to which a long response is being sent.
type Long = Arc<Mutex<BTreeSet<Peer>>>;

/// Bytes of responses that wait to be sent.
#[derive(Debug, Default)]
struct Used {
    all: AtomicUsize,
    /// Those to peers that this node does not know.
    of_strangers: AtomicUsize,
}

/// Reserved bytes for a response that waits to be sent, and the long-response slot of its peer if it is long. Released
/// when dropped.
#[derive(Debug)]
struct Reserved {
    used: Arc<Used>,
    is_known: bool,
    bytes: usize,
    long: Option<(Long, Peer)>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.used.all.fetch_sub(self.bytes, Ordering::Relaxed);
        if !self.is_known {
            let of_strangers = &self.used.of_strangers;
            of_strangers.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        if let Some((long, peer)) = self.long.take() {
            // The set stays consistent even after a panic.
            long.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&peer);
        }
    }
}

/// A response for the stream that waits for it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) response: Result<Vec<Arc<[u8]>>, u8>,
    _reserved: Reserved,
}

/// The peer that waits for a response.
#[derive(Debug)]
struct Asker {
    peer: Peer,
    is_known: bool,
    /// Maximum length of the response, in bytes.
    bytes_max: usize,
    sender: oneshot::Sender<Answer>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    channels: BTreeMap<u64, Asker>,
    /// Channels of peers that this node does not know.
    of_strangers: usize,
}

impl Open {
    fn take(&mut self, channel: u64) -> Option<Asker> {
        let asker = self.channels.remove(&channel)?;
        self.of_strangers -= usize::from(!asker.is_known);
        Some(asker)
    }
}

/// The requests of peers that have not been answered yet.
///
/// Any peer may connect and ask for data that takes long to send. A share of every limit is therefore reserved for
/// peers that this node knows.
#[derive(Debug)]
pub(crate) struct Asked {
    open: Mutex<Open>,
    used: Arc<Used>,
    long: Long,
    /// Limits on the requests of all peers, and of strangers.
    counts_max: [usize; 2],
    /// Limits on the bytes of responses to all peers, and to strangers.
    bytes_max: [usize; 2],
    /// What may be sent to all peers together.
    pub(crate) served: Mutex<Bucket>,
}

impl Asked {
    pub(crate) fn new(config: &Config) -> Self {
        let limits = &config.limits;
        let of_strangers = |all: usize| all - all / KEPT_PART;
        let (count, bytes) = (limits.requests_max, limits.responses_bytes_max);
        let largest = config.requests.iter().map(|r| r.response_bytes_max).max();
        Self {
            open: Mutex::default(),
            used: Arc::default(),
            long: Arc::default(),
            counts_max: [count, of_strangers(count)],
            // A stranger may get the longest possible response if nothing else is in flight.
            bytes_max: [bytes, of_strangers(bytes).max(largest.unwrap_or(0))],
            served: {
                let per_s = limits.serve_all_bytes_per_s_max;
                Mutex::new(Bucket::new(per_s, per_s, Instant::now()))
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // A panic under this lock cannot leave the state half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a channel for a new request of a peer whose response has at most this many bytes, or none if too many
    /// are open.
    pub(crate) fn open(
        &self,
        asker: Caller,
        bytes_max: usize,
    ) -> Option<(u64, oneshot::Receiver<Answer>)> {
        let Caller { peer, is_known } = asker;
        let mut open = self.lock();
        let [all_max, of_strangers_max] = self.counts_max;
        let is_full = open.channels.len() >= all_max;
        if is_full || !is_known && open.of_strangers >= of_strangers_max {
            return None;
        }
        let channel = open.next;
        open.next += 1;
        open.of_strangers += usize::from(!is_known);
        let (sender, receiver) = oneshot::channel();
        let asker = Asker {
            peer,
            is_known,
            bytes_max,
            sender,
        };
        open.channels.insert(channel, asker);
        Some((channel, receiver))
    }

    /// Forgets a request whose stream ended before the response.
    pub(crate) fn withdraw(&self, channel: u64) {
        self.lock().take(channel);
    }

    /// Whether there is room for the longest response to a request, and its sender still waits for it.
    pub(crate) fn has_room(&self, channel: u64) -> bool {
        let open = self.lock();
        let Some(asker) = open.channels.get(&channel) else {
            return false;
        };
        let all = self.used.all.load(Ordering::Relaxed);
        let of_strangers = self.used.of_strangers.load(Ordering::Relaxed);
        let fits = |used: usize, max: usize| used.saturating_add(asker.bytes_max) <= max;
        let [all_max, of_strangers_max] = self.bytes_max;
        fits(all, all_max) && (asker.is_known || fits(of_strangers, of_strangers_max))
    }

    /// Whether a long response is being sent to the sender of this request, so that there is no room for another.
    pub(crate) fn has_long(&self, channel: u64) -> bool {
        let open = self.lock();
        let long = self.long.lock().unwrap_or_else(PoisonError::into_inner);
        let asker = open.channels.get(&channel);
        asker.is_some_and(|asker| long.contains(&asker.peer))
    }

    /// Reserves room for a response.
    fn reserve(&self, is_known: bool, bytes: usize) -> Result<Reserved, Refused> {
        let reserved = Reserved {
            used: Arc::clone(&self.used),
            is_known,
            bytes,
            long: None,
        };
        // Added before the check. A refusal drops `reserved`, which takes it back.
        let all = self.used.all.fetch_add(bytes, Ordering::Relaxed);
        let of_strangers = match is_known {
            true => 0,
            false => self.used.of_strangers.fetch_add(bytes, Ordering::Relaxed),
        };
        let [all_max, of_strangers_max] = self.bytes_max;
        let over = |before: usize, bound: usize| {
            let is_over = before.saturating_add(bytes) > bound;
            is_over.then_some(bound)
        };
        let of_stranger = || over(of_strangers, of_strangers_max).filter(|_| !is_known);
        if let Some(bound) = over(all, all_max).or_else(of_stranger) {
            let what = "bytes of responses";
            return Err(Refused::Full { what, bound });
        }
        Ok(reserved)
    }

    /// Passes a response to the stream that waits for it, if it still does.
    pub(crate) fn respond(
        &self,
        channel: u64,
        response: Result<Vec<Arc<[u8]>>, u8>,
    ) -> Result<(), Refused> {
        let chunks = response.as_deref().unwrap_or_default();
        let bytes = chunks.iter().map(|chunk| chunk.len()).sum();
        let mut open = self.lock();
        let Some(asker) = open.channels.get(&channel) else {
            return Ok(());
        };
        let (peer, is_known) = (asker.peer, asker.is_known);
        let mut reserved = self.reserve(is_known, bytes)?;
        if bytes > LONG_BYTES {
            let mut long = self.long.lock().unwrap_or_else(PoisonError::into_inner);
            if !long.insert(peer) {
                return Err(Refused::Full {
                    what: "long responses to the peer",
                    bound: 1,
                });
            }
            reserved.long = Some((Arc::clone(&self.long), peer));
        }
        // Only now: after a refusal the driver may answer again, with a code.
        let asker = open.take(channel);
        drop(open);
        if let Some(asker) = asker {
            // Fails if the requester is gone. The response is dropped then.
            let _ = asker.sender.send(Answer {
                response,
                _reserved: reserved,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
