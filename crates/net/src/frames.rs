//! Frames of the broadcast protocol: a bounded queue per peer, and the ends of its streams.
//!
//! Several streams share one queue, and each takes the next frame when it has sent its last. A stream stuck behind a
//! lost packet thus holds up only part of the traffic.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::bucket::{Bucket, pace};
use crate::event::Peer;
use crate::frame::{self, Deframer};
use crate::frame_queue::FrameQueue;
use crate::shared::Shared;
use crate::status::{DropReason, add};

/// Long-lived streams in each direction of a connection.
pub(crate) const STREAMS: usize = 4;

/// Bytes read from a stream at once.
pub(crate) const READ_BYTES: usize = 16 * 1024;

/// Time for one frame to leave: four of the largest in parallel at 1 Mbit/s. Otherwise a peer that does not read would
/// keep it for ever.
pub(crate) const WRITE_TIME: Duration = Duration::from_secs(10);

/// Sends the frames of a queue on one stream, each within `time`, until the peer is gone or the stream breaks.
pub(crate) async fn write_frames<S: AsyncWrite + Unpin>(
    mut stream: S,
    peer: Peer,
    queue: Arc<FrameQueue>,
    shared: Arc<Shared>,
    time: Duration,
) -> io::Result<()> {
    while let Some(data) = queue.next().await {
        let sent = async {
            stream.write_all(&frame::head(None, data.len())).await?;
            stream.write_all(&data).await?;
            stream.flush().await
        };
        let sent = tokio::time::timeout(time, sent).await;
        // A frame that broke its stream has left the queue as well: it is not sent twice.
        queue.left(data.len());
        shared.inbox.push_sent(peer, 1);
        sent??;
        add(&shared.counters.frames[1], 1);
    }
    stream.close().await
}

/// Drops the queued frames of a peer that does not speak the protocol, since the driver would otherwise wait for them
/// to leave.
pub(crate) async fn drop_frames(peer: Peer, queue: Arc<FrameQueue>, shared: Arc<Shared>) {
    while let Some(data) = queue.next().await {
        queue.left(data.len());
        shared.inbox.push_sent(peer, 1);
    }
}

/// Moves frames from one stream to the inbox, no faster than the rate of its connection, until the stream ends or
/// breaks the framing. An empty frame breaks it: no node sends one, and it would cost no bytes.
pub(crate) async fn read_frames<S: AsyncRead + Unpin>(
    mut stream: S,
    peer: Peer,
    rate: Arc<Mutex<Bucket>>,
    shared: Arc<Shared>,
) {
    let mut deframer = Deframer::plain(shared.config.limits.frame_bytes_max);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let Ok(count) = stream.read(&mut buffer).await else {
            return;
        };
        if count == 0 {
            return;
        }
        let mut input = &buffer[..count];
        while !input.is_empty() {
            let Ok(used) = deframer.push(input) else {
                shared.counters.dropped(DropReason::Malformed);
                return;
            };
            input = &input[used..];
            if let Some(frame) = deframer.take() {
                if frame.payload.is_empty() {
                    shared.counters.dropped(DropReason::Malformed);
                    return;
                }
                // Between a frame and the next read: what exceeds the rate stays in the peer's own buffers and takes no
                // memory here.
                pace(&rate, 1).await;
                add(&shared.counters.frames[0], 1);
                for dropped in shared.inbox.push_frame(peer, frame.payload.into()) {
                    shared.gave_way(dropped);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    const PEER: Peer = 3;

    /// A stream that accepts nothing.
    struct Unread;

    impl AsyncWrite for Unread {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_frame_that_nobody_reads_leaves_the_queue_with_its_stream() {
        let shared = shared();
        let queue = Arc::new(FrameQueue::default());
        shared.frames.open(PEER, Arc::clone(&queue));
        let sent = shared.frames.push(PEER, 1, vec![0; 5000].into());
        assert_eq!(sent, Ok(()));
        let (sending, shares) = (Arc::clone(&queue), Arc::clone(&shared));
        let broken = write_frames(Unread, PEER, sending, shares, Duration::from_millis(20)).await;
        assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(queue.waits(), (0, 0));
        let event = shared.inbox.pop();
        assert!(matches!(
            event,
            Some(crate::Event::SendReady { frames: 1, .. })
        ));
    }

    /// Frames of this many bytes each, in wire format.
    fn stream_of(lengths: &[usize]) -> futures::io::Cursor<Vec<u8>> {
        let mut bytes = Vec::new();
        for &length in lengths {
            bytes.extend_from_slice(&frame::head(None, length));
            bytes.resize(bytes.len() + length, 1);
        }
        futures::io::Cursor::new(bytes)
    }

    fn shared() -> Arc<Shared> {
        let key = crate::NodeKey::generate();
        let config = crate::Config::new(key, crate::NetworkDigest([1, 2, 3, 4]));
        Arc::new(Shared::new(config))
    }

    /// The shortest frames on all streams of a connection at once: together they are held to its rate.
    #[tokio::test]
    async fn short_frames_are_read_no_faster_than_the_rate_of_their_connection() {
        let shared = shared();
        let began = std::time::Instant::now();
        let rate = Arc::new(Mutex::new(Bucket::new(1_000, 100, began)));
        let streams = (0..STREAMS).map(|_| {
            let stream = stream_of(&[1; 100]);
            read_frames(stream, PEER, Arc::clone(&rate), Arc::clone(&shared))
        });
        futures::future::join_all(streams).await;
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(295), "{took:?}");
        assert_eq!(shared.inbox.load(), (400, 400));
    }

    #[tokio::test]
    async fn an_empty_frame_ends_its_stream() {
        let shared = shared();
        let now = std::time::Instant::now();
        let rate = Arc::new(Mutex::new(Bucket::new(1_000, 100, now)));
        let stream = stream_of(&[3, 0, 3]);
        read_frames(stream, PEER, rate, Arc::clone(&shared)).await;
        assert_eq!(shared.inbox.load(), (1, 3));
        assert_eq!(shared.counters.status().dropped(DropReason::Malformed), 1);
    }
}
