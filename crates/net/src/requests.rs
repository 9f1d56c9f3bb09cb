//! Requests and responses: the two ends of a stream.
//!
//! A request is one frame. A response is a sequence of coded frames (`code || length || payload`). Code 0 carries a
//! chunk, [`CODE_END`] follows the last one, and any other code ends the response without data. The end of the stream
//! alone does not end a response, because transports also close streams cleanly when the writer gives up.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::asked::Caller;
use crate::asking::Question;
use crate::bucket::{Bucket, pace};
use crate::config::RequestProtocol;
use crate::event::{Event, RequestError};
use crate::frame::{self, Deframer, Frame};
use crate::frames::READ_BYTES;
use crate::shared::Shared;
use crate::status::{DropReason, add};

/// The response code that this node sends by itself when too much is requested at once.
pub const CODE_BUSY: u8 = 255;

/// The code that ends a response.
pub const CODE_END: u8 = 254;

/// Bytes of a response that are written at once.
const WRITE_BYTES: usize = 64 * 1024;

/// Withdraws a request when its stream ends before the response.
struct Waiting<'a> {
    shared: &'a Shared,
    channel: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.asked.withdraw(self.channel);
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
