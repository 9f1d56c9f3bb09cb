//! Serves HTTP on its own thread, within limits: the loop must not wait for clients.
//!
//! A connection has some seconds until its first response begins, and then some until more of a response is sent. Bytes
//! from a client buy no extra time, so neither a slowly trickling request nor an unread response holds a slot for long.
//! An event stream stays alive through its comments. When an answered connection sends a new request, it gets as long
//! as for the first response, since its silence before was not part of that request.
//!
//! No client can hold slots against others. When all are taken, the next connection replaces one from the address that
//! has the most: the one idle longest, or else the one whose request has been pending longest. Connections that do
//! nothing, or keep unused connections alive, thus cost other clients nothing.
//!
//! hyper's `header_read_timeout` covers only the first of these cases and tower's timeouts none of them, and read and
//! write timeouts restart with every byte.

use alphorn_dashboard::ClientAddress;
use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::map_request;
use axum::serve::{IncomingStream, Listener};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// Limits on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent connections. The next one replaces an idle one.
    pub connections_max: usize,
    /// Time until the first response begins, and from a later request until its response does.
    pub first: Duration,
    /// Time from one part of a response to the next, or to the next response. Longer than the silence of an event
    /// stream.
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

/// Guaranteed time that a connection keeps its slot, also after each response. Longer than a request takes to arrive
/// and be answered, and short enough to go unnoticed by a client that waits for a slot.
const GRACE: Duration = Duration::from_millis(20);
/// How long to pause when the system provides no connection, for example for lack of descriptors.
const REST: Duration = Duration::from_millis(200);

/// Serves on its own thread for the lifetime of the process.
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
                let app = app.layer(map_request(with_address));
                let app = app.into_make_service_with_connect_info::<Remote>();
                let _ = axum::serve(Guard::new(listener, limits), app).await;
            }
        });
    };
    thread.spawn(run).map(|_| ())
}

/// The remote address of a connection.
#[derive(Clone, Copy, Debug)]
struct Remote(IpAddr);

impl Connected<IncomingStream<'_, Guard>> for Remote {
    fn connect_info(stream: IncomingStream<'_, Guard>) -> Self {
        Remote(stream.remote_addr().ip())
    }
}

/// Passes the remote address of a request to handlers.
async fn with_address(
    ConnectInfo(Remote(ip)): ConnectInfo<Remote>,
    mut request: Request,
) -> Request {
    request.extensions_mut().insert(ClientAddress(ip));
    request
}

/// A connection that holds a slot.
struct OpenConnection {
    group: IpAddr,
    /// It has sent a request since its last response.
    is_asking: bool,
    /// When its request or idle time began.
    since: Instant,
    /// Ends it when another connection takes the slot.
    _given_up: oneshot::Sender<()>,
}

/// The slots of all connections.
struct OpenConnections {
    max: usize,
    next: u64,
    taken: BTreeMap<u64, OpenConnection>,
}

impl OpenConnections {
    /// Returns a slot for a connection, and a receiver that ends when another connection takes it, or how long to wait
    /// until a slot may be taken from another connection.
    fn take(&mut self, ip: IpAddr, now: Instant) -> Result<(u64, oneshot::Receiver<()>), Duration> {
        if self.taken.len() >= self.max {
            let victim = self.victim(now)?;
            // It ends when its own task sees that its sender is gone.
            self.taken.remove(&victim);
        }
        let (sender, given_up) = oneshot::channel();
        let number = self.next;
        self.next += 1;
        let connection = OpenConnection {
            group: ClientAddress(ip).group(),
            is_asking: false,
            since: now,
            _given_up: sender,
        };
        self.taken.insert(number, connection);
        Ok((number, given_up))
    }

    /// Picks the connection to evict, from the address, or one of the addresses, with the most connections.
    fn victim(&self, now: Instant) -> Result<u64, Duration> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for connection in self.taken.values() {
            *counts.entry(connection.group).or_default() += 1;
        }
        let most = counts.values().max();
        let of_most = self
            .taken
            .iter()
            .filter(|(_, connection)| counts.get(&connection.group) == most);
        let age = |connection: &OpenConnection| now.saturating_duration_since(connection.since);
        let old = of_most
            .clone()
            .filter(|(_, connection)| age(connection) >= GRACE);
        // Idle ones first: they lose nothing that was asked for.
        let worst = old.max_by_key(|(number, connection)| {
            (!connection.is_asking, age(connection), Reverse(**number))
        });
        let oldest = of_most.map(|(_, connection)| age(connection)).max();
        // The oldest of them is the first whose guaranteed time ends.
        let wait = GRACE.saturating_sub(oldest.unwrap_or(Duration::ZERO));
        worst.map(|(number, _)| *number).ok_or(wait)
    }

    /// A connection has sent a request, or been sent part of a response.
    fn note(&mut self, number: u64, is_asking: bool) {
        if let Some(connection) = self.taken.get_mut(&number)
            // A request that trickles in counts from its first byte, a response from its last part.
            && (connection.is_asking != is_asking || !is_asking)
        {
            connection.is_asking = is_asking;
            connection.since = Instant::now();
        }
    }
}

fn lock(connections: &Mutex<OpenConnections>) -> MutexGuard<'_, OpenConnections> {
    // No code under this lock can leave the slots half changed.
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A listener that limits its connections.
struct Guard {
    listener: TcpListener,
    connections: Arc<Mutex<OpenConnections>>,
    limits: Limits,
}

impl Guard {
    fn new(listener: TcpListener, limits: Limits) -> Self {
        let connections = OpenConnections {
            max: limits.connections_max,
            next: 0,
            taken: BTreeMap::new(),
        };
        Guard {
            listener,
            connections: Arc::new(Mutex::new(connections)),
            limits,
        }
    }
}

impl Listener for Guard {
    type Io = Guarded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guarded, SocketAddr) {
        let (stream, address) = loop {
            match self.listener.accept().await {
                Ok(accepted) => break accepted,
                Err(_) => sleep(REST).await,
            }
        };
        let (number, given_up) = loop {
            let taken = lock(&self.connections).take(address.ip(), Instant::now());
            match taken {
                Ok(slot) => break slot,
                // Nothing else is accepted meanwhile: further clients wait in the system's queue.
                Err(wait) => sleep(wait).await,
            }
        };
        let guarded = Guarded {
            stream,
            deadline: Box::pin(sleep(self.limits.first)),
            limits: self.limits,
            is_answered: false,
            number,
            given_up: Some(given_up),
            connections: self.connections.clone(),
        };
        (guarded, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when no part of a response is sent for too long, or another connection takes its slot.
struct Guarded {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    limits: Limits,
    /// It has been sent something since its last request.
    is_answered: bool,
    number: u64,
    /// None once another connection has its slot: a completed receiver must not be polled, and the server still writes
    /// and flushes after an error.
    given_up: Option<oneshot::Receiver<()>>,
    connections: Arc<Mutex<OpenConnections>>,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        lock(&self.connections).taken.remove(&self.number);
    }
}

impl Guarded {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let is_over =
            |given_up: &mut oneshot::Receiver<()>| Pin::new(given_up).poll(context).is_ready();
        if self.given_up.as_mut().is_none_or(is_over) {
            self.given_up = None;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match self.deadline.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn sent(&mut self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(bytes)) if *bytes > 0) {
            let until = Instant::now() + self.limits.next;
            self.deadline.as_mut().reset(until);
            self.is_answered = true;
            lock(&self.connections).note(self.number, false);
        }
    }

    /// Records a request. Only the first after each response gives it time, so trickling bytes give none.
    fn asked(&mut self) {
        if std::mem::take(&mut self.is_answered) {
            let until = Instant::now() + self.limits.first;
            // An idle connection may have more time left than a request gets. Asking must not shorten it.
            let until = until.max(self.deadline.deadline());
            self.deadline.as_mut().reset(until);
        }
        lock(&self.connections).note(self.number, true);
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.asked();
        }
        read
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

    // Without `check`, which fails from the end of a connection on: it must still be closed.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Extension;
    use axum::routing::get;
    use std::collections::VecDeque;
    use std::io::{Read, Write};
    use std::net::TcpStream as Client;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Serves a page larger than socket buffers, and a small one.
    fn start(limits: Limits) -> SocketAddr {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/me", get(whose))
            .route("/late", get(late))
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

    /// Whether the other side ended the connection, by EOF or an error.
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
        // All slots are held: by a request that trickles in, one that never begins, and a response that is not read.
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
        assert!(is_cut, "a byte now and then holds a slot for ever");
        for client in [&mut silent, &mut deaf] {
            client
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            assert!(is_ended(client));
        }
        assert!(answer(&mut ask(address, "/")).ends_with("here"));
    }

    /// Clients that hold all slots: some are silent, some were answered and stay, some have not finished their request,
    /// and some do not read.
    #[test]
    fn who_holds_places_costs_the_next_client_nothing() {
        let limits = Limits::default();
        let address = start(limits);
        // A thousand silent clients. Not all of those that have long lost their slots are kept open here, because a
        // process may have 1,024 files.
        let mut held = VecDeque::new();
        for _ in 0..1000 {
            held.push_back(Client::connect(address).unwrap());
            if held.len() > 2 * limits.connections_max {
                held.pop_front();
            }
        }
        let wait = Duration::from_millis(100);
        // The median: slot holders interfere all the time, other programs only occupy processors now and then.
        let quick = |what: &str| {
            let mut times: Vec<Duration> = (0..9)
                .map(|_| {
                    let began = std::time::Instant::now();
                    assert!(answer(&mut ask(address, "/")).ends_with("here"));
                    began.elapsed()
                })
                .collect();
            times.sort();
            assert!(times[4] <= wait, "{what}: {times:?}");
        };
        std::thread::sleep(2 * GRACE);
        quick("idle");
        drop(held);
        let keep_alive = |_| {
            let mut client = Client::connect(address).unwrap();
            write!(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut part = [0; 512];
            assert!(client.read(&mut part).unwrap() > 0);
            client
        };
        let held: Vec<Client> = (0..limits.connections_max).map(keep_alive).collect();
        std::thread::sleep(2 * GRACE);
        quick("kept alive");
        drop(held);
        let half = |_| {
            let mut client = Client::connect(address).unwrap();
            client.write_all(b"GET / HT").unwrap();
            client
        };
        let held: Vec<Client> = (0..limits.connections_max).map(half).collect();
        std::thread::sleep(2 * GRACE);
        quick("half a request");
        drop(held);
        let held: Vec<Client> = (0..16).map(|_| ask(address, "/large")).collect();
        std::thread::sleep(2 * GRACE);
        quick("an answer that is not read");
        drop(held);
    }

    /// Panics of the serving threads, in any test.
    static PANICS: AtomicUsize = AtomicUsize::new(0);

    /// A client that was answered and stays loses its slot to the next one. Its task ends, without panicking over the
    /// slot that it no longer has.
    #[test]
    fn a_connection_that_gives_way_ends_without_a_panic() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let serves = std::thread::current().name() == Some("alphorn-http");
            PANICS.fetch_add(serves.into(), Ordering::Relaxed);
            hook(info);
        }));
        let address = start(Limits {
            connections_max: 1,
            first: Duration::from_secs(30),
            next: Duration::from_secs(30),
        });
        for _ in 0..8 {
            let mut kept = Client::connect(address).unwrap();
            kept.set_read_timeout(Some(Duration::from_secs(30)))
                .unwrap();
            write!(kept, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            assert!(answer_until(&mut kept, "here").ends_with("here"));
            std::thread::sleep(2 * GRACE);
            assert!(answer(&mut ask(address, "/")).ends_with("here"));
            assert!(is_ended(&mut kept));
        }
        assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_place_is_taken_from_the_address_that_has_the_most() {
        let mut connections = OpenConnections {
            max: 8,
            next: 0,
            taken: BTreeMap::new(),
        };
        let (few, many): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let began = Instant::now();
        for ip in [few, many, many, many, many, many, many, many] {
            connections.take(ip, began).unwrap();
        }
        assert_eq!(
            connections.take(few, began).unwrap_err(),
            GRACE,
            "nobody is cut at once"
        );
        connections.note(1, true);
        let later = began + GRACE;
        // The second connection of the crowd is evicted: the first one has a pending request.
        let (_, mut kept) = connections.take(few, later).unwrap();
        assert!(!connections.taken.contains_key(&2) && connections.taken.contains_key(&1));
        let later = later + GRACE;
        connections.take(many, later).unwrap();
        assert!(
            kept.try_recv()
                .is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
        );
        assert!(
            connections.taken.contains_key(&0),
            "the other address keeps its own"
        );
        // All addresses of one IPv6 network count as one.
        let ip = |text: &str| ClientAddress(text.parse().unwrap()).group();
        assert_eq!(ip("2001:db8::1"), ip("2001:db8::2:3"));
        assert_eq!(ip("::ffff:192.0.2.1"), few);
    }

    /// Whichever of their addresses is greater.
    #[test]
    fn of_addresses_that_have_as_many_the_one_that_is_idle_gives_way() {
        for idle in [0, 1] {
            let mut connections = OpenConnections {
                max: 2,
                next: 0,
                taken: BTreeMap::new(),
            };
            let began = Instant::now();
            for host in [1, 2] {
                connections.take([192, 0, 2, host].into(), began).unwrap();
            }
            connections.note(1 - idle, true);
            let later = Instant::now() + 2 * GRACE;
            connections.take([192, 0, 2, 3].into(), later).unwrap();
            assert!(!connections.taken.contains_key(&idle), "{idle}");
        }
    }

    async fn late() -> &'static str {
        sleep(Duration::from_millis(300)).await;
        "late"
    }

    /// Reads until a response has ended with some text, or until the connection ends.
    fn answer_until(client: &mut Client, end: &str) -> String {
        let mut text = String::new();
        let mut part = [0; 512];
        while !text.ends_with(end) {
            match client.read(&mut part) {
                Ok(bytes) if bytes > 0 => {
                    text.push_str(std::str::from_utf8(&part[..bytes]).unwrap())
                }
                _ => break,
            }
        }
        text
    }

    #[test]
    fn silence_between_requests_is_not_taken_from_the_next_one_and_bytes_give_no_time() {
        let address = start(Limits {
            connections_max: 4,
            first: Duration::from_millis(600),
            next: Duration::from_millis(400),
        });
        let mut client = Client::connect(address).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let ask = |client: &mut Client| {
            write!(client, "GET /late HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            answer_until(client, "late")
        };
        assert!(ask(&mut client).ends_with("late"));
        std::thread::sleep(Duration::from_millis(250));
        assert!(ask(&mut client).ends_with("late"), "cut without an answer");
        // What follows is a request that never ends.
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_secs(20) && client.write_all(b"G").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(began.elapsed() < Duration::from_secs(5), "it trickles on");
    }

    async fn whose(Extension(ClientAddress(address)): Extension<ClientAddress>) -> String {
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
