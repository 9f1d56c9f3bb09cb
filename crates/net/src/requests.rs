//! Requests and responses: how much each peer may ask for, and the two ends of a stream.
//!
//! A request is one frame. A response is a sequence of coded frames (`code || length || payload`). Code 0 carries a
//! chunk, [`CODE_END`] follows the last one, and any other code ends the response without data. The end of the stream
//! alone does not end a response, because transports also close streams cleanly when the writer gives up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;

use crate::bucket::{Bucket, pace};
use crate::config::{Config, Limits, RequestProtocol};
use crate::event::{Event, Peer, RequestError};
use crate::frame::{self, Deframer, Frame};
use crate::frames::READ_BYTES;
use crate::handle::{Refused, Shared};
use crate::status::{DropReason, add};

/// The response code that this node sends by itself when too much is requested at once.
pub const CODE_BUSY: u8 = 255;

/// The code that ends a response.
pub const CODE_END: u8 = 254;

/// Longer responses are sent to a peer one at a time, so a peer that asks and does not read withholds few bytes from
/// others.
const LONG_BYTES: usize = 1 << 20;

/// One in this many pending requests, and bytes of responses, is reserved for peers that this node knows.
const KEPT_PART: usize = 4;

/// Bytes of a response that are written at once.
const WRITE_BYTES: usize = 64 * 1024;

/// What a driver asks of a peer.
#[derive(Debug)]
pub(crate) struct Question {
    /// Index in the configuration.
    pub(crate) protocol: usize,
    pub(crate) data: Arc<[u8]>,
    pub(crate) ticket: Ticket,
}

/// The entry of a request among those in flight. Dropping it ends the request.
pub(crate) struct Ticket {
    shared: Arc<Shared>,
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
        shared: &Arc<Shared>,
        peer: Peer,
        id: u64,
        bytes: usize,
    ) -> Result<Self, Refused> {
        shared.asking.begin(peer, bytes)?;
        Ok(Self {
            shared: Arc::clone(shared),
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
        add(&self.shared.counters.requests[1], 1);
    }

    /// Ends the request.
    pub(crate) fn finish(mut self, result: Result<Vec<Arc<[u8]>>, RequestError>) {
        self.result = Some(result);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // The slot is free before the outcome is reported: the driver may ask again at once.
        self.shared.asking.end(self.peer, self.bytes);
        if self.armed {
            let result = self.result.take();
            self.shared.inbox.push_control(Event::Response {
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
struct Answer {
    response: Result<Vec<Arc<[u8]>>, u8>,
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
    served: Mutex<Bucket>,
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
    fn open(&self, asker: Caller, bytes_max: usize) -> Option<(u64, oneshot::Receiver<Answer>)> {
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

/// Withdraws a request when its stream ends before the response.
struct Waiting<'a> {
    shared: &'a Shared,
    channel: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.asked.lock().take(self.channel);
        self.shared.inbox.forget_request(self.channel);
    }
}

/// Sends a request on its own stream, and reports the outcome.
pub(crate) async fn ask<S>(stream: S, question: Question, shared: Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let protocol = &shared.config.requests[question.protocol];
    let time = Duration::from_millis(shared.config.limits.request_timeout_ms);
    let exchange = exchange(stream, protocol, &question.data);
    let result = tokio::time::timeout(time, exchange).await;
    question
        .ticket
        .finish(result.unwrap_or(Err(RequestError::Timeout)));
}

async fn exchange<S>(
    mut stream: S,
    protocol: &RequestProtocol,
    data: &[u8],
) -> Result<Vec<Arc<[u8]>>, RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let broken = |_: io::Error| RequestError::Malformed;
    let head = frame::head(None, data.len());
    stream.write_all(&head).await.map_err(broken)?;
    stream.write_all(data).await.map_err(broken)?;
    stream.close().await.map_err(broken)?;
    let mut deframer = Deframer::coded(protocol.chunk_bytes_max.min(protocol.response_bytes_max));
    let mut left = protocol.response_bytes_max;
    let mut chunks: Vec<Arc<[u8]>> = Vec::new();
    loop {
        let frame = next_frame(&mut stream, &mut deframer).await?;
        match frame.code {
            0 if chunks.len() < protocol.chunks_max => {
                // Cannot go below zero: the limit of the deframer was at most `left` when this frame began, and nothing
                // of the next frame is read before the limit is changed.
                left -= frame.payload.len();
                deframer.limit(protocol.chunk_bytes_max.min(left));
                chunks.push(frame.payload.into());
            }
            0 => return Err(RequestError::Malformed),
            CODE_END => return Ok(chunks),
            code => return Err(RequestError::Refused(code)),
        }
    }
}

/// Reads one frame at a time, never beyond its end, so that nothing is lost between two calls.
async fn next_frame<S: AsyncRead + Unpin>(
    stream: &mut S,
    deframer: &mut Deframer,
) -> Result<Frame, RequestError> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let wanted = deframer.wanted().min(buffer.len());
        let read = stream.read(&mut buffer[..wanted]).await;
        let count = read.map_err(|_| RequestError::Malformed)?;
        if count == 0 {
            return Err(RequestError::Malformed);
        }
        let pushed = deframer.push(&buffer[..count]);
        pushed.map_err(|_| RequestError::Malformed)?;
        if let Some(frame) = deframer.take() {
            return Ok(frame);
        }
    }
}

/// The peer that sends a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) peer: Peer,
    /// Whether this node dials it.
    pub(crate) is_known: bool,
}

/// Responds to the request on a stream that a peer opened.
pub(crate) async fn answer<S>(
    stream: S,
    protocol: usize,
    caller: Caller,
    served: Arc<Mutex<Bucket>>,
    shared: Arc<Shared>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let time = Duration::from_millis(shared.config.limits.request_timeout_ms);
    let answered = reply(stream, protocol, caller, &served, &shared);
    // A requester that is too slow gets no response. Its own timeout has the same length.
    let _ = tokio::time::timeout(time, answered).await;
}

async fn reply<S>(
    mut stream: S,
    protocol: usize,
    caller: Caller,
    served: &Mutex<Bucket>,
    shared: &Shared,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let limits = &shared.config.requests[protocol];
    let mut deframer = Deframer::plain(limits.request_bytes_max);
    let Ok(question) = next_frame(&mut stream, &mut deframer).await else {
        shared.counters.dropped(DropReason::Malformed);
        return Ok(());
    };
    add(&shared.counters.requests[0], 1);
    let opened = shared.asked.open(caller, limits.response_bytes_max);
    let Some((channel, answer)) = opened else {
        shared.counters.dropped(DropReason::Requests);
        return end(&mut stream, CODE_BUSY).await;
    };
    let waiting = Waiting { shared, channel };
    shared.inbox.push_control(Event::Request {
        peer: caller.peer,
        channel,
        protocol: limits.name.as_str().into(),
        data: question.payload.into(),
    });
    let Ok(answer) = answer.await else {
        return Ok(());
    };
    drop(waiting);
    match &answer.response {
        Err(CODE_BUSY) => end(&mut stream, CODE_BUSY).await,
        // 0 and `CODE_END` have meanings of their own.
        Err(code) => end(&mut stream, (*code).clamp(1, CODE_END - 1)).await,
        Ok(chunks) => {
            for chunk in chunks {
                stream.write_all(&frame::head(Some(0), chunk.len())).await?;
                for piece in chunk.chunks(WRITE_BYTES) {
                    // Its own rate first: a peer that waits for that takes nothing from what all peers share.
                    pace(served, piece.len() as u64).await;
                    pace(&shared.asked.served, piece.len() as u64).await;
                    stream.write_all(piece).await?;
                }
            }
            end(&mut stream, CODE_END).await
        }
    }
}

/// Ends a response with a code.
async fn end<S: AsyncWrite + Unpin>(stream: &mut S, code: u8) -> io::Result<()> {
    stream.write_all(&frame::head(Some(code), 0)).await?;
    stream.close().await
}

#[cfg(test)]
mod tests;
