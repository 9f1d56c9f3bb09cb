//! The network thread: one loop over the swarm, the driver's commands and a clock.

mod commands;
mod events;
mod listeners;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use libp2p::allow_block_list::{self, BlockedPeers};
use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, NetworkBehaviour, Swarm};
use libp2p::{PeerId, identify, memory_connection_limits, ping};
use tokio::runtime::Runtime;
use tokio::time::MissedTickBehavior;

use crate::admission::Admission;
use crate::config::Config;
use crate::dialer::Dialer;
use crate::error::NetError;
use crate::event::{DownReason, Peer};
use crate::handle::{Events, Handle};
use crate::link::{Link, Links, transport};
use crate::outbox::Verdict;
use crate::scores::PeerScores;
use crate::shared::Shared;
use crate::status::{DropReason, PeerStatus};
use crate::throttle::Throttle;
use crate::tokens::Tokens;
use crate::{exchange, gossip};
use alphorn_types::TopicName;
use listeners::Listeners;

/// Interval between checks of timers: dials, tokens, bans.
const TICK: Duration = Duration::from_millis(100);
/// Ticks between the slower tasks: points, scores, peer snapshots.
const SLOW_TICKS: u64 = 10;
/// Commands of one sort processed before the connections get their turn. At most a quarter of the connections' queues,
/// so that a burst of verdicts does not overflow them.
const BATCH_MAX: usize = 64;
/// Turns for the connection tasks after a batch, and the number of their events handled in each.
const TURNS_PER_BATCH: usize = 4;
const EVENTS_PER_TURN: usize = 64;
/// Time between two pings.
const PING_TIME: Duration = Duration::from_secs(15);
/// A peer that has not stated its network by then is disconnected.
const SILENCE_TIME: Duration = Duration::from_secs(10);
/// A connection older than this is not one of two dialled simultaneously.
const SETTLED_TIME: Duration = Duration::from_secs(3);
/// Time for closing connections on shutdown.
const FAREWELL_TIME: Duration = Duration::from_millis(200);
/// Time for the packets that announce it.
const FLUSH_TIME: Duration = Duration::from_millis(30);
/// Packets of a connection that may wait until the swarm has processed the previous one.
pub(crate) const PACKETS_WAITING: usize = 1;

/// All behaviours that are consulted about a connection. Those that deny come first, so that nothing is set up for a
/// connection that will be denied.
#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    limits: connection_limits::Behaviour,
    admission: Admission,
    memory: memory_connection_limits::Behaviour,
    blocked: allow_block_list::Behaviour<BlockedPeers>,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    gossip: Throttle,
    exchange: exchange::Behaviour,
}

impl Behaviour {
    fn new(shared: &Arc<Shared>) -> Result<Self, NetError> {
        let config = &shared.config;
        let limits = ConnectionLimits::default()
            .with_max_pending_incoming(Some(config.limits.pending_in_max))
            .with_max_pending_outgoing(Some(config.limits.pending_out_max))
            .with_max_established_incoming(Some(config.limits.peers_in_max))
            .with_max_established(Some(config.limits.peers_max))
            // The service, the dialer and the meters know one connection for each peer.
            .with_max_established_per_peer(Some(1));
        let identify = identify::Config::new(network_name(config), config.key.pair().public())
            .with_agent_version(config.agent.clone())
            // Addresses that peers announce are not used: only those that the driver gives are dialled.
            .with_cache_size(0);
        Ok(Self {
            limits: connection_limits::Behaviour::new(limits),
            admission: Admission::new(config, Instant::now()),
            memory: memory_connection_limits::Behaviour::with_max_bytes(
                config.limits.process_bytes_max,
            ),
            blocked: allow_block_list::Behaviour::default(),
            identify: identify::Behaviour::new(identify),
            ping: ping::Behaviour::new(ping::Config::new().with_interval(PING_TIME)),
            gossip: Throttle::new(gossip::behaviour(shared)?, shared),
            exchange: exchange::Behaviour::new(shared),
        })
    }
}

/// The network name that peers exchange.
fn network_name(config: &Config) -> String {
    format!("alphorn/{}", config.network)
}

/// A connected peer.
#[derive(Debug)]
struct Connected {
    peer: Peer,
    connection: ConnectionId,
    address: SocketAddr,
    outbound: bool,
    since: Instant,
    client: Option<Arc<str>>,
    link: Option<Arc<Link>>,
    leaving: Option<DownReason>,
}

struct Service {
    swarm: Swarm<Behaviour>,
    shared: Arc<Shared>,
    links: Links,
    tokens: Tokens,
    scores: PeerScores,
    dialer: Dialer,
    peers: BTreeMap<PeerId, Connected>,
    ids: BTreeMap<Peer, PeerId>,
    topics: BTreeSet<TopicName>,
    /// The subscribed topics differ from those whose messages pass.
    topics_changed: bool,
    ticks: u64,
    listeners: Listeners,
}

/// Opens the sockets and starts the network on its own thread.
///
/// # Errors
///
/// The configuration is invalid, a socket cannot be opened, or a thread cannot be created.
pub fn start(config: Config) -> Result<(Handle, Events), NetError> {
    config.validate()?;
    let shared = Arc::new(Shared::new(config));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(NetError::Thread)?;
    let runtime = Background(Some(runtime));
    let service = Service::new(&shared, &runtime)?;
    let handle = Handle {
        shared: Arc::clone(&shared),
    };
    let closed = Closed(Arc::clone(&shared));
    thread::Builder::new()
        .name("net".to_owned())
        .spawn(move || run(runtime, service, closed))
        .map_err(NetError::Thread)?;
    Ok((handle, Events { shared }))
}

fn run(runtime: Background, mut service: Service, closed: Closed) {
    if let Some(runtime) = &runtime.0 {
        runtime.block_on(async {
            service.serve().await;
            service.farewell().await;
            drop(service);
        });
    }
    // Sockets live in its tasks. Once the network is reported as stopped, they can be opened again.
    drop(runtime);
    drop(closed);
}

/// The messages of an error and its causes. libp2p wraps system errors in errors without information.
fn words(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let said = causes
        .map(ToString::to_string)
        .filter(|said| !said.is_empty());
    let mut said: Vec<String> = said.collect();
    said.dedup();
    said.join(": ")
}

/// A runtime that may be dropped where blocking is not allowed: a start that fails inside another runtime drops it
/// there.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Notifies both sides that the network has stopped, for whatever reason.
struct Closed(Arc<Shared>);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.outbox.close();
        self.0.inbox.close();
    }
}

impl Service {
    /// Opens the sockets. They belong to the runtime in whose context they are opened.
    fn new(shared: &Arc<Shared>, runtime: &Background) -> Result<Self, NetError> {
        let _context = runtime.0.as_ref().map(Runtime::enter);
        let config = &shared.config;
        let links = Links::default();
        let id = config.key.id().0;
        let transport = transport(config.key.pair(), shared, &links)?;
        let settings = libp2p::swarm::Config::with_tokio_executor()
            .with_per_connection_event_buffer_size(PACKETS_WAITING);
        let mut dialer = Dialer::new(id);
        let now = Instant::now();
        for address in &config.peers {
            if !dialer.add(address, now) {
                shared.counters.dropped(DropReason::Connections);
            }
        }
        let mut swarm = Swarm::new(transport, Behaviour::new(shared)?, id, settings);
        let mut listeners = Listeners::default();
        for listen in &config.listen {
            for address in listen.transport.bases(listen.address) {
                let opened = swarm.listen_on(address.clone());
                let opened = opened.map_err(|error| NetError::Listen {
                    address: listen.address,
                    reason: words(&error),
                })?;
                listeners.opened(opened, address);
            }
        }
        Ok(Self {
            swarm,
            tokens: Tokens::new(config.limits.tokens_max, config.verdict_time()),
            scores: PeerScores::default(),
            dialer,
            links,
            peers: BTreeMap::new(),
            ids: BTreeMap::new(),
            topics: BTreeSet::new(),
            topics_changed: false,
            ticks: 0,
            listeners,
            shared: Arc::clone(shared),
        })
    }

    async fn serve(&mut self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let shared = Arc::clone(&self.shared);
        let batch_max = BATCH_MAX.min(gossip::queue_messages(&shared.config) / 4);
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_event(event),
                () = shared.outbox.wait() => {
                    let batch = shared.outbox.take(batch_max);
                    if batch.shutdown {
                        return;
                    }
                    self.on_batch(batch);
                    self.let_go().await;
                }
                _ = tick.tick() => self.on_tick(),
            }
        }
    }

    /// Lets the connection tasks send what a batch gave them. A task with a pending event sends nothing until that
    /// event is delivered, and peers send at the same time as this node. Their events are therefore handled as well, or
    /// queues would fill up although connections are free.
    async fn let_go(&mut self) {
        for _ in 0..TURNS_PER_BATCH {
            tokio::task::yield_now().await;
            for _ in 0..EVENTS_PER_TURN {
                match self.swarm.next().now_or_never() {
                    Some(Some(event)) => self.on_event(event),
                    _ => break,
                }
            }
        }
    }

    /// Closes the connections, so that peers notice at once.
    async fn farewell(&mut self) {
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        for id in ids {
            // Fails if it is gone already.
            let _ = self.swarm.disconnect_peer_id(id);
        }
        let closed = async {
            while self.swarm.connected_peers().next().is_some() {
                self.swarm.select_next_some().await;
            }
        };
        // Peers that do not close in time are cut off.
        let _ = tokio::time::timeout(FAREWELL_TIME, closed).await;
        // The last packets leave from other tasks of this thread.
        tokio::time::sleep(FLUSH_TIME).await;
    }

    /// Updates the message rates if the subscribed topics have changed. Once per batch of commands, since it goes
    /// through all of them.
    fn renew_rates(&mut self) {
        if !std::mem::take(&mut self.topics_changed) {
            return;
        }
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        gossip.subscribed(self.topics.iter());
    }

    fn on_tick(&mut self) {
        let now = Instant::now();
        for source in self.tokens.expire(now) {
            self.shared.counters.dropped(DropReason::Expired);
            // It no longer waits, and earned its peer nothing.
            let gossip = &mut self.swarm.behaviour_mut().gossip;
            gossip.judged(&source, Verdict::Ignore);
        }
        self.count_tokens();
        for id in self.scores.released(now) {
            self.let_in(id);
        }
        self.dial_who_is_due(now);
        self.ticks += 1;
        if self.ticks.is_multiple_of(SLOW_TICKS) {
            self.on_slow_tick(now);
        }
    }

    fn dial_who_is_due(&mut self, now: Instant) {
        let counters = self.swarm.network_info();
        let pending = counters.connection_counters().num_pending_outgoing();
        let room = self
            .shared
            .config
            .limits
            .pending_out_max
            .saturating_sub(pending);
        let scores = &self.scores;
        let keeps_out = |id: &PeerId| scores.keeps_out(id);
        for (id, address) in self.dialer.due(now, room as usize, keeps_out) {
            let dial = DialOpts::peer_id(id)
                // The pause after a peer's last address may be shorter than the attempt, which then goes on
                // undisturbed.
                .condition(PeerCondition::DisconnectedAndNotDialing)
                .addresses(vec![address])
                .build();
            if self.swarm.dial(dial).is_err() {
                self.shared.counters.dropped(DropReason::Connections);
            }
        }
    }

    /// Opens the sockets that died. One that cannot be opened is tried again every second.
    fn listen_again(&mut self) {
        for address in self.listeners.take_lost() {
            match self.swarm.listen_on(address.clone()) {
                Ok(id) => self.listeners.opened(id, address),
                Err(_) => self.listeners.failed(address),
            }
        }
    }

    fn on_slow_tick(&mut self, now: Instant) {
        self.scores.fade(TICK * SLOW_TICKS as u32);
        self.listen_again();
        let silent = self.peers.iter().filter(|(_, connected)| {
            let age = now.saturating_duration_since(connected.since);
            // A peer states its agent together with its network (`on_identified`).
            connected.client.is_none() && age > SILENCE_TIME
        });
        let silent: Vec<PeerId> = silent.map(|(id, _)| *id).collect();
        for id in silent {
            self.disconnect(id, DownReason::OtherNetwork);
        }
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        let mut statuses = Vec::with_capacity(self.peers.len());
        for (id, connected) in &self.peers {
            gossip.set_application_score(id, self.scores.score(id));
            let link = connected.link.as_ref();
            let (bytes_in, bytes_out) = link.map_or((0, 0), |link| link.bytes());
            statuses.push(PeerStatus {
                peer: connected.peer,
                id: crate::NodeId(*id),
                address: connected.address,
                outbound: connected.outbound,
                client: connected.client.clone().unwrap_or_default(),
                score: gossip.peer_score(id).unwrap_or(0.0),
                bytes_in,
                bytes_out,
            });
        }
        let topics: Vec<TopicName> = self.topics.iter().copied().collect();
        let mesh_peers = gossip::mesh_peers(gossip, &topics);
        for (kind, peers) in self.shared.counters.kinds.iter().zip(mesh_peers) {
            kind.mesh_peers.store(peers, Ordering::Relaxed);
        }
        self.shared.counters.set_peers(statuses.into());
    }

    /// Closes a peer's connection. The peer may reconnect.
    fn disconnect(&mut self, id: PeerId, reason: DownReason) {
        if let Some(connected) = self.peers.get_mut(&id) {
            // The first reason stays: what follows from it must not hide it.
            connected.leaving.get_or_insert(reason);
        }
        // Fails if it is gone already.
        let _ = self.swarm.disconnect_peer_id(id);
    }
}
