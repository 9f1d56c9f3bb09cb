//! Streams over one encrypted TCP connection: yamux, with a bound on what a peer may send ahead of the reader.
//!
//! The libp2p upgrade keeps the library's window of a gibibyte per connection and offers no way to change it, so this
//! one creates the connection itself.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use futures::future::{Ready, ready as done};
use futures::{AsyncRead, AsyncWrite};
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade, UpgradeInfo};
use yamux::{Config, Connection, ConnectionError, Mode, Stream};

/// Streams of one connection: gossip, frames, requests and negotiations. Each has its own guaranteed minimum window.
const STREAMS_MAX: usize = 32;

/// What a peer may send on one stream before it is read: the yamux minimum.
const STREAM_BYTES: usize = 256 * 1024;

/// How far windows may grow when many bytes are read from far away. A grown window stays for the lifetime of its
/// stream, and a response with blocks needs some of it.
const MORE_BYTES: usize = 12 * 1024 * 1024;

/// What a peer may send ahead of the reader on all streams, in bytes of payload. yamux keeps each frame in its own
/// buffer, so frames of a few bytes take many times that in memory.
pub(crate) const WINDOW_BYTES: usize = STREAMS_MAX * STREAM_BYTES + MORE_BYTES;

/// Inbound streams that have not been accepted yet. More are closed.
const WAITING_MAX: usize = STREAMS_MAX;

/// Creates yamux connections.
#[derive(Clone, Debug)]
pub(crate) struct Upgrade;

impl Upgrade {
    fn begin<C>(socket: C, mode: Mode) -> Muxer<C>
    where
        C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut config = Config::default();
        config.set_max_num_streams(STREAMS_MAX);
        config.set_max_connection_receive_window(Some(WINDOW_BYTES));
        Muxer {
            connection: Connection::new(socket, config, mode),
            waiting: VecDeque::new(),
            waker: None,
        }
    }
}

impl UpgradeInfo for Upgrade {
    type Info = &'static str;
    type InfoIter = std::iter::Once<Self::Info>;

    fn protocol_info(&self) -> Self::InfoIter {
        std::iter::once("/yamux/1.0.0")
    }
}

impl<C> InboundConnectionUpgrade<C> for Upgrade
where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Output = Muxer<C>;
    type Error = io::Error;
    type Future = Ready<io::Result<Muxer<C>>>;

    fn upgrade_inbound(self, socket: C, _: Self::Info) -> Self::Future {
        done(Ok(Upgrade::begin(socket, Mode::Server)))
    }
}

impl<C> OutboundConnectionUpgrade<C> for Upgrade
where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Output = Muxer<C>;
    type Error = io::Error;
    type Future = Ready<io::Result<Muxer<C>>>;

    fn upgrade_outbound(self, socket: C, _: Self::Info) -> Self::Future {
        done(Ok(Upgrade::begin(socket, Mode::Client)))
    }
}

/// A connection.
pub(crate) struct Muxer<C> {
    connection: Connection<C>,
    /// Streams that arrived while the muxer waited for something else. yamux does all of its work when it is polled for
    /// the next stream.
    waiting: VecDeque<Stream>,
    /// Wakes the task that waits for a stream.
    waker: Option<Waker>,
}

impl<C: AsyncRead + AsyncWrite + Unpin> Muxer<C> {
    fn next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let next = ready!(self.connection.poll_next_inbound(context));
        Poll::Ready(next.unwrap_or(Err(ConnectionError::Closed)).map_err(failed))
    }
}

fn failed(error: ConnectionError) -> io::Error {
    match error {
        ConnectionError::Io(error) => error,
        error => io::Error::other(error),
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> StreamMuxer for Muxer<C> {
    type Substream = Stream;
    type Error = io::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Stream>> {
        if let Some(stream) = self.waiting.pop_front() {
            return Poll::Ready(Ok(stream));
        }
        let next = self.next(context);
        if next.is_pending() {
            self.waker = Some(context.waker().clone());
        }
        next
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Stream>> {
        let opened = self.connection.poll_new_outbound(context);
        opened.map_err(failed)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.poll_close(context).map_err(failed)
    }

    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<StreamMuxerEvent>> {
        let stream = ready!(self.next(context))?;
        // A stream beyond that is dropped here, which closes it.
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(stream);
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
        // There may be more, after other tasks had their turn.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// One direction of a connection.
    type Bytes = Arc<Mutex<VecDeque<u8>>>;

    /// One end of a connection that holds everything sent. Its tasks are polled repeatedly.
    struct End {
        from: Bytes,
        to: Bytes,
    }

    impl AsyncRead for End {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            let mut from = self.from.lock().unwrap();
            match io::Read::read(&mut *from, buffer) {
                Ok(0) => Poll::Pending,
                read => Poll::Ready(read),
            }
        }
    }

    impl AsyncWrite for End {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.to.lock().unwrap().extend(buffer);
            Poll::Ready(Ok(buffer.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Bytes that a peer can send if it opens this many streams and writes all that it may without anything being read.
    /// None once the connection has ended.
    fn sent_unread(streams: usize) -> Option<usize> {
        let [there, back]: [Bytes; 2] = Default::default();
        let far = End {
            from: back.clone(),
            to: there.clone(),
        };
        let here = End {
            from: there,
            to: back,
        };
        let mut far = Connection::new(far, Config::default(), Mode::Client);
        let mut here = Upgrade::begin(here, Mode::Server);
        let mut context = Context::from_waker(Waker::noop());
        let (mut opened, mut taken, mut sent) = (Vec::new(), Vec::new(), 0);
        for _ in 0..2_000 {
            if opened.len() < streams
                && let Poll::Ready(Ok(stream)) = far.poll_new_outbound(&mut context)
            {
                opened.push(stream);
            }
            for stream in &mut opened {
                let written = Pin::new(stream).poll_write(&mut context, &[0; 4096]);
                if let Poll::Ready(Ok(bytes)) = written {
                    sent += bytes;
                }
            }
            let far_ends = matches!(far.poll_next_inbound(&mut context), Poll::Ready(_));
            match Pin::new(&mut here).poll_inbound(&mut context) {
                Poll::Ready(Ok(stream)) => taken.push(stream),
                Poll::Ready(Err(_)) => return None,
                Poll::Pending if far_ends => return None,
                Poll::Pending => {}
            }
        }
        assert_eq!(taken.len(), streams);
        Some(sent)
    }

    #[test]
    fn what_is_sent_and_not_read_is_bounded_for_a_connection() {
        assert_eq!(sent_unread(1), Some(STREAM_BYTES));
        assert_eq!(sent_unread(STREAMS_MAX), Some(STREAMS_MAX * STREAM_BYTES));
        assert_eq!(sent_unread(STREAMS_MAX + 1), None, "too many streams");
    }
}
