//! Requests and responses: who may ask how much, and the two ends of a stream.
//!
//! A request is one frame, a response a sequence of coded ones (`code || length || payload`). Code 0
//! carries a chunk, [`CODE_END`] stands behind the last one, and any other ends the response without
//! data. The end of the stream alone is no end of a response: transports close streams in order also
//! when whoever writes to them gives up.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;

use crate::bucket::Bucket;
use crate::config::{Limits, RequestProtocol};
use crate::event::{Event, Peer, RequestError};
use crate::frame::{self, Deframer, Frame};
use crate::frames::READ_BYTES;
use crate::handle::{Refused, Shared};
use crate::status::{DropReason, add};

/// The code of a response that this machine gives by itself when too much is asked at once.
pub const CODE_BUSY: u8 = 255;

/// The code that ends a response.
pub const CODE_END: u8 = 254;

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

/// The place of a request among those in flight; ends it when dropped.
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    peer: Peer,
    id: u64,
    bytes: usize,
    /// Whether an end must be told; not while the driver may still learn that it was not accepted.
    armed: bool,
}

#[derive(Debug, Default)]
struct InFlight {
    peers: BTreeMap<Peer, usize>,
    count: usize,
    bytes: usize,
}

/// The requests of this machine that are in flight.
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
        // No code that holds the lock can leave the state half changed by a panic.
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
    /// A place for a request, if there is one.
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
        })
    }

    /// From now on the end is told.
    pub(crate) fn arm(&mut self) {
        self.armed = true;
        add(&self.shared.counters.requests[1], 1);
    }

    /// Ends the request.
    pub(crate) fn finish(mut self, result: Result<Vec<Arc<[u8]>>, RequestError>) {
        self.tell(result);
    }

    fn tell(&mut self, result: Result<Vec<Arc<[u8]>>, RequestError>) {
        if std::mem::take(&mut self.armed) {
            self.shared.inbox.push_control(Event::Response {
                peer: self.peer,
                id: self.id,
                result,
            });
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.asking.end(self.peer, self.bytes);
        self.tell(Err(RequestError::Disconnected));
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({} to peer {})", self.id, self.peer)
    }
}

/// Bytes of answers that wait to be sent; given back when dropped.
#[derive(Debug)]
struct Reserved {
    total: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An answer on its way to the stream that waits for it.
#[derive(Debug)]
struct Answer {
    response: Result<Vec<Arc<[u8]>>, u8>,
    _reserved: Reserved,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    channels: BTreeMap<u64, oneshot::Sender<Answer>>,
}

/// The questions of peers that are not answered yet.
#[derive(Debug)]
pub(crate) struct Asked {
    open: Mutex<Open>,
    bytes: Arc<AtomicUsize>,
    count_max: usize,
    bytes_max: usize,
    /// What may be sent to all peers together.
    served: Mutex<Bucket>,
}

impl Asked {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            open: Mutex::default(),
            bytes: Arc::default(),
            count_max: limits.requests_max,
            bytes_max: limits.responses_bytes_max,
            served: {
                let per_s = limits.serve_all_bytes_per_s_max;
                Mutex::new(Bucket::new(per_s, per_s, Instant::now()))
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // No code that holds the lock can leave the state half changed by a panic.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A channel for a new question, none if too many are open.
    fn open(&self) -> Option<(u64, oneshot::Receiver<Answer>)> {
        let mut open = self.lock();
        if open.channels.len() >= self.count_max {
            return None;
        }
        let channel = open.next;
        open.next += 1;
        let (sender, receiver) = oneshot::channel();
        open.channels.insert(channel, sender);
        Some((channel, receiver))
    }

    /// Gives an answer to the stream that waits for it, if it still does.
    pub(crate) fn respond(
        &self,
        channel: u64,
        response: Result<Vec<Arc<[u8]>>, u8>,
    ) -> Result<(), Refused> {
        let chunks = response.as_deref().unwrap_or_default();
        let bytes = chunks.iter().map(|chunk| chunk.len()).sum();
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let reserved = Reserved {
            total: Arc::clone(&self.bytes),
            bytes,
        };
        if before.saturating_add(bytes) > self.bytes_max {
            return Err(Refused::Full {
                what: "bytes of responses",
                bound: self.bytes_max,
            });
        }
        if let Some(sender) = self.lock().channels.remove(&channel) {
            // Fails if the asker is gone; the answer is dropped then.
            let _ = sender.send(Answer {
                response,
                _reserved: reserved,
            });
        }
        Ok(())
    }
}

/// Takes a question back when its stream ends before the answer.
struct Waiting<'a> {
    shared: &'a Shared,
    channel: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.asked.lock().channels.remove(&self.channel);
        self.shared.inbox.forget_request(self.channel);
    }
}

/// Asks on a stream of its own, and tells the end.
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

/// Reads bytes one frame at a time: never beyond the end of the frame, so that nothing is lost
/// between two calls.
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

/// Answers the question on a stream that a peer opened.
pub(crate) async fn answer<S>(
    stream: S,
    protocol: usize,
    peer: Peer,
    served: Arc<Mutex<Bucket>>,
    shared: Arc<Shared>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let time = Duration::from_millis(shared.config.limits.request_timeout_ms);
    let answered = reply(stream, protocol, peer, &served, &shared);
    // An asker that is too slow gets no answer; its own clock says the same.
    let _ = tokio::time::timeout(time, answered).await;
}

async fn reply<S>(
    mut stream: S,
    protocol: usize,
    peer: Peer,
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
    let Some((channel, answer)) = shared.asked.open() else {
        shared.counters.dropped(DropReason::Requests);
        return end(&mut stream, CODE_BUSY).await;
    };
    let waiting = Waiting { shared, channel };
    shared.inbox.push_control(Event::Request {
        peer,
        channel,
        protocol: limits.name.as_str().into(),
        data: question.payload.into(),
    });
    let Ok(answer) = answer.await else {
        return Ok(());
    };
    drop(waiting);
    match &answer.response {
        Err(code) => end(&mut stream, (*code).clamp(1, CODE_END - 1)).await,
        Ok(chunks) => {
            for chunk in chunks {
                stream.write_all(&frame::head(Some(0), chunk.len())).await?;
                for piece in chunk.chunks(WRITE_BYTES) {
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

/// Waits until so many bytes may be served, to a peer or in all.
async fn pace(served: &Mutex<Bucket>, bytes: u64) {
    loop {
        let wait = {
            let mut bucket = served.lock().unwrap_or_else(PoisonError::into_inner);
            if bucket.try_take(bytes, Instant::now()) {
                return;
            }
            bucket.wait(bytes)
        };
        tokio::time::sleep(wait).await;
    }
}
