//! The transports, with a meter on each connection that counts bytes and reads no faster than a
//! peer may send.
//!
//! The limit applies before any decoder. Excess data stays in the sender's own buffers: the streams
//! are not read, so the windows of QUIC and yamux close.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures::future::Either;
use futures::{AsyncRead, AsyncWrite, FutureExt};
use libp2p::core::muxing::{StreamMuxer, StreamMuxerBox, StreamMuxerEvent, SubstreamBox};
use libp2p::core::transport::{Boxed, Transport};
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::{PeerId, noise, quic, tcp};
use tokio::time::Sleep;

use crate::bucket::Bucket;
use crate::error::NetError;
use crate::mux;
use crate::shared::Shared;
use crate::status::add;

/// Time for a TCP connection to be encrypted and multiplexed. QUIC has the same. Silent connections
/// hold pending slots for this long, and honest ones need four round trips.
const HANDSHAKE_TIME: Duration = Duration::from_secs(3);

/// Streams of one QUIC connection: gossip, frames, requests and negotiations.
const STREAMS_MAX: usize = 128;

/// What a QUIC peer may send ahead of the reader on one stream, and on all, in bytes.
const STREAM_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 8 * 1024 * 1024;

/// Reads shorter than this wait until they are worth a wake-up.
const READ_BYTES_MIN: u64 = 4096;

/// The meter of one connection.
#[derive(Debug)]
pub(crate) struct Link {
    bucket: Mutex<Bucket>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    shared: Arc<Shared>,
}

impl Link {
    fn new(shared: &Arc<Shared>) -> Self {
        let per_s = shared.config.limits.peer_bytes_per_s_max;
        Self {
            bucket: Mutex::new(Bucket::new(per_s, per_s, Instant::now())),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            shared: Arc::clone(shared),
        }
    }

    /// Bytes so far: in, out.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.bytes_in), load(&self.bytes_out))
    }

    /// How many of `wanted` bytes may be read now, or how long to wait.
    fn allowance(&self, wanted: usize) -> Result<usize, Duration> {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let level = bucket.level(Instant::now());
        // A smaller buffer cannot take more, so waiting for more would only delay it.
        let least = READ_BYTES_MIN.min(wanted as u64);
        if level < least {
            return Err(bucket.wait(least));
        }
        Ok(usize::try_from(level).map_or(wanted, |level| level.min(wanted)))
    }

    fn read(&self, bytes: usize) {
        let bytes = bytes as u64;
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.take(bytes);
        drop(bucket);
        add(&self.bytes_in, bytes);
        add(&self.shared.counters.link_bytes[0], bytes);
    }

    fn wrote(&self, bytes: usize) {
        add(&self.bytes_out, bytes as u64);
        add(&self.shared.counters.link_bytes[1], bytes as u64);
    }
}

/// The meters of the existing connections, by peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links(Arc<Mutex<BTreeMap<PeerId, Weak<Link>>>>);

impl Links {
    /// The meter of a peer's newest connection.
    pub(crate) fn of(&self, peer: &PeerId) -> Option<Arc<Link>> {
        let links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(peer)?.upgrade()
    }

    fn begin(&self, peer: PeerId, shared: &Arc<Shared>) -> Arc<Link> {
        let link = Arc::new(Link::new(shared));
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Connections are few and rarely established, so each new one sweeps.
        links.retain(|_, link| link.strong_count() > 0);
        links.insert(peer, Arc::downgrade(&link));
        link
    }
}

/// A stream with a meter.
struct Metered {
    inner: SubstreamBox,
    link: Arc<Link>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.poll_unpin(cx));
                self.sleep = None;
            }
            match self.link.allowance(buffer.len()) {
                Err(wait) => self.sleep = Some(Box::pin(tokio::time::sleep(wait))),
                Ok(allowed) => {
                    let read = Pin::new(&mut self.inner).poll_read(cx, &mut buffer[..allowed]);
                    let bytes = ready!(read)?;
                    // Nothing else has read since the allowance was computed: all connections run
                    // on one thread.
                    self.link.read(bytes);
                    return Poll::Ready(Ok(bytes));
                }
            }
        }
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, buffer))?;
        self.link.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

/// A connection with a meter.
struct MeteredMuxer {
    inner: StreamMuxerBox,
    link: Arc<Link>,
}

impl MeteredMuxer {
    fn metered(&self, inner: SubstreamBox) -> Metered {
        Metered {
            inner,
            link: Arc::clone(&self.link),
            sleep: None,
        }
    }
}

impl StreamMuxer for MeteredMuxer {
    type Substream = Metered;
    type Error = io::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Self::Substream>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_inbound(cx))?;
        Poll::Ready(Ok(self.metered(stream)))
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Self::Substream>> {
        let stream = ready!(Pin::new(&mut self.inner).poll_outbound(cx))?;
        Poll::Ready(Ok(self.metered(stream)))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
        Pin::new(&mut self.inner).poll(cx)
    }
}

/// QUIC, and TCP with Noise and yamux, with a meter on every connection.
///
/// # Errors
///
/// If Noise cannot use the key.
pub(crate) fn transport(
    pair: &Keypair,
    shared: &Arc<Shared>,
    links: &Links,
) -> Result<Boxed<(PeerId, StreamMuxerBox)>, NetError> {
    let mut quic_config = quic::Config::new(pair);
    quic_config.max_concurrent_stream_limit = STREAMS_MAX as u32;
    quic_config.max_stream_data = STREAM_WINDOW_BYTES;
    quic_config.max_connection_data = CONNECTION_WINDOW_BYTES;
    quic_config.handshake_timeout = HANDSHAKE_TIME;
    let quic = quic::tokio::Transport::new(quic_config)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let noise_config =
        noise::Config::new(pair).map_err(|error| NetError::Crypto(error.to_string()))?;
    let tcp = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true))
        .upgrade(Version::V1Lazy)
        .authenticate(noise_config)
        .multiplex(mux::Upgrade)
        .timeout(HANDSHAKE_TIME)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let (shared, links) = (Arc::clone(shared), links.clone());
    let transport = quic.or_transport(tcp).map(move |either, _| {
        let (peer, inner) = match either {
            Either::Left(connection) | Either::Right(connection) => connection,
        };
        let link = links.begin(peer, &shared);
        (peer, StreamMuxerBox::new(MeteredMuxer { inner, link }))
    });
    Ok(transport.boxed())
}
