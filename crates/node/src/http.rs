//! Serves HTTP on a thread of its own, with bounds: the loop must not wait for who asks.
//!
//! A connection has some seconds until its first answer begins, and then some until more of an
//! answer goes out. What a client sends buys it no time, so neither a request that trickles in nor
//! an answer that is not read holds a place for long; a stream of events lives on by its comments.
//!
//! hyper's `header_read_timeout` ends the first of these alone, tower's timeouts none of them, and
//! timeouts of reading and writing begin anew with every byte.

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// What connections may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; more wait in the system's queue.
    pub connections_max: usize,
    /// Until the first answer begins.
    pub first: Duration,
    /// From one part of an answer to the next, or to the next answer; longer than the silence of a
    /// stream of events.
    pub next: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 256,
            first: Duration::from_secs(10),
            next: Duration::from_secs(30),
        }
    }
}

/// Who asks: the address at the other end of a connection, for handlers that take
/// [`ConnectInfo`](axum::extract::ConnectInfo) of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

impl Connected<IncomingStream<'_, Guard>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Guard>) -> Self {
        Peer(stream.remote_addr().ip())
    }
}

/// How long to rest when the system gives no connection, for example for want of descriptors.
const REST: Duration = Duration::from_millis(200);

/// Serves on a thread of its own for as long as the process lives.
///
/// # Errors
/// If the listener or the thread cannot be set up.
pub fn serve(listener: std::net::TcpListener, app: Router, limits: Limits) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = std::thread::Builder::new().name("alphorn-http".into());
    let run = move || {
        runtime.block_on(async {
            if let Ok(listener) = TcpListener::from_std(listener) {
                // It ends with the process.
                let app = app.into_make_service_with_connect_info::<Peer>();
                let _ = axum::serve(Guard::new(listener, limits), app).await;
            }
        });
    };
    thread.spawn(run).map(|_| ())
}

/// A listener that bounds its connections.
struct Guard {
    listener: TcpListener,
    places: Arc<Semaphore>,
    limits: Limits,
}

impl Guard {
    fn new(listener: TcpListener, limits: Limits) -> Self {
        Guard {
            listener,
            places: Arc::new(Semaphore::new(limits.connections_max)),
            limits,
        }
    }
}

impl Listener for Guard {
    type Io = Guarded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guarded, SocketAddr) {
        loop {
            let place = self.places.clone().acquire_owned().await;
            match (place, self.listener.accept().await) {
                (Ok(place), Ok((stream, address))) => {
                    let guarded = Guarded {
                        stream,
                        deadline: Box::pin(sleep(self.limits.first)),
                        next: self.limits.next,
                        _place: place,
                    };
                    return (guarded, address);
                }
                _ => sleep(REST).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when no part of an answer goes out for too long.
struct Guarded {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    next: Duration,
    _place: OwnedSemaphorePermit,
}

impl Guarded {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.deadline.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn sent(&mut self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(bytes)) if *bytes > 0) {
            let until = Instant::now() + self.next;
            self.deadline.as_mut().reset(until);
        }
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.sent(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.sent(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::extract::ConnectInfo;
    use axum::routing::get;
    use std::io::{Read, Write};
    use std::net::TcpStream as Client;

    /// A page that is larger than what sockets hold, and a small one.
    fn start(limits: Limits) -> SocketAddr {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/me", get(whose))
            .route("/large", get(|| async { "x".repeat(64 << 20) }));
        serve(listener, app, limits).unwrap();
        address
    }

    fn ask(address: SocketAddr, path: &str) -> Client {
        let mut client = Client::connect(address).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        write!(client, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        client
    }

    fn answer(client: &mut Client) -> String {
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    /// Whether the other side ends the connection, by an end or an error.
    fn is_ended(client: &mut Client) -> bool {
        let mut bytes = vec![0; 1 << 16];
        loop {
            match client.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
            }
        }
    }

    #[test]
    fn who_does_not_finish_a_request_or_read_an_answer_loses_its_place() {
        let limits = Limits {
            connections_max: 3,
            first: Duration::from_millis(400),
            next: Duration::from_millis(400),
        };
        let address = start(limits);
        // All places are held: by a request that trickles in, one that never begins, and an
        // answer that is not read.
        let mut slow = Client::connect(address).unwrap();
        let mut silent = Client::connect(address).unwrap();
        let mut deaf = ask(address, "/large");
        std::thread::sleep(Duration::from_millis(100));
        let trickle = std::time::Instant::now();
        let mut is_cut = false;
        while trickle.elapsed() < Duration::from_secs(20) && !is_cut {
            is_cut = slow.write_all(b"G").is_err();
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(is_cut, "a byte now and then holds a place for ever");
        for client in [&mut silent, &mut deaf] {
            client
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            assert!(is_ended(client));
        }
        assert!(answer(&mut ask(address, "/")).ends_with("here"));
    }

    async fn whose(ConnectInfo(Peer(address)): ConnectInfo<Peer>) -> String {
        address.to_string()
    }

    #[test]
    fn handlers_know_who_asks() {
        let address = start(Limits::default());
        assert!(answer(&mut ask(address, "/me")).ends_with("127.0.0.1"));
    }

    #[test]
    fn connections_beyond_the_bound_wait_and_are_served() {
        let limits = Limits {
            connections_max: 2,
            first: Duration::from_secs(2),
            next: Duration::from_secs(2),
        };
        let address = start(limits);
        let held: Vec<Client> = (0..2).map(|_| Client::connect(address).unwrap()).collect();
        let mut waiting: Vec<Client> = (0..50).map(|_| ask(address, "/")).collect();
        drop(held);
        for client in &mut waiting {
            assert!(answer(client).ends_with("here"));
        }
    }
}
