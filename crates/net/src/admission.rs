//! Admission of inbound connections: limits by address, by network, and in total.
//!
//! | limited | per address | per network | total | exceptions |
//! |---|---|---|---|---|
//! | handshakes at once | an eighth | a quarter | three quarters of `pending_in_max` | known addresses share the rest |
//! | connections per second | a 16th | a quarter | `knocks_per_s_max` | known names have as many of their own |
//! | connections at once | an eighth | a quarter | `peers_in_max` minus slots of known names | known names |
//!
//! An address is an IPv4 address or the first 64 bits of an IPv6 one. A network is the first 24 or 48 bits. Addresses
//! and names that this node dials are known. A starting handshake proves neither, so until it ends the address counts
//! as given: a sender that uses a known peer's address, or its name, takes what any address may have plus that peer's
//! share of the last quarter, which is split equally among known addresses, with at least one each. Loopback, and the
//! addresses that many peers may share, have no limit of their own once the name is proven, since one host there may
//! run many nodes.
//!
//! Connections per second are limited because gossipsub remembers penalties against a departed peer for a minute, and
//! names cost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::task::{Context, Poll};
use std::time::Instant;

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::behaviour::{ConnectionClosed, ConnectionEstablished, ListenFailure};
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};

use crate::address::{Address, socket_of};
use crate::bucket::Bucket;
use crate::config::{Config, Limits};

/// Burst of new connections, in seconds of the rate.
const BURST_S: u64 = 4;
/// An address may take one in this many slots, and so may its network.
const SHARE_OF_ADDRESS: u32 = 8;
const SHARE_OF_NETWORK: u32 = 4;
/// The same for connections per second.
const RATE_OF_ADDRESS: u64 = 16;
const RATE_OF_NETWORK: u64 = 4;
/// Maximum number of known addresses and names. More than are dialled.
pub(crate) const KNOWN_MAX: usize = 4_096;

/// Addresses that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Address(IpAddr),
    Network(IpAddr),
}

/// The origins of an address: itself and its network.
fn origins(ip: IpAddr) -> [Origin; 2] {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let network = Ipv4Addr::from_bits(ip.to_bits() & !0xff);
            [Origin::Address(ip.into()), Origin::Network(network.into())]
        }
        IpAddr::V6(ip) => {
            let first = |bits: u32| Ipv6Addr::from_bits(ip.to_bits() >> bits << bits).into();
            [Origin::Address(first(64)), Origin::Network(first(80))]
        }
    }
}

/// Number of connections by origin.
#[derive(Debug, Default)]
struct Tally {
    of: BTreeMap<ConnectionId, IpAddr>,
    counts: BTreeMap<Origin, u32>,
}

impl Tally {
    fn add(&mut self, connection: ConnectionId, ip: IpAddr) {
        if self.of.insert(connection, ip).is_none() {
            for origin in origins(ip) {
                *self.counts.entry(origin).or_default() += 1;
            }
        }
    }

    fn remove(&mut self, connection: ConnectionId) {
        let Some(ip) = self.of.remove(&connection) else {
            return;
        };
        for origin in origins(ip) {
            if let Some(count) = self.counts.get_mut(&origin) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&origin);
                }
            }
        }
    }

    /// Whether an address or its network already has its share of this many slots.
    fn is_full(&self, ip: IpAddr, places: u32) -> bool {
        origins(ip).iter().any(|origin| {
            let share = match origin {
                Origin::Address(_) => SHARE_OF_ADDRESS,
                Origin::Network(_) => SHARE_OF_NETWORK,
            };
            let count = self.counts.get(origin).copied().unwrap_or(0);
            count >= places.div_ceil(share)
        })
    }
}

/// Connections per second, by origin and in total.
#[derive(Debug)]
struct Rates {
    per_s: u64,
    all: Bucket,
    /// The buckets that are not full. They are few, because `all` lets few connections pass.
    of: BTreeMap<Origin, Bucket>,
}

impl Rates {
    fn new(per_s: u64, now: Instant) -> Self {
        Self {
            per_s,
            all: Bucket::new(per_s, BURST_S * per_s, now),
            of: BTreeMap::new(),
        }
    }

    /// Takes a connection from an address, if each of its buckets has one left.
    fn take(&mut self, ip: IpAddr, is_shared: bool, now: Instant) -> bool {
        let per_s = self.per_s;
        let full = |origin: &Origin| {
            let part = match origin {
                Origin::Address(_) => RATE_OF_ADDRESS,
                Origin::Network(_) => RATE_OF_NETWORK,
            };
            let per_s = per_s.div_ceil(part);
            Bucket::new(per_s, BURST_S * per_s, now)
        };
        // On copies, so that a refusal takes nothing from any of them.
        let mut own = origins(ip).map(|origin| {
            let bucket = self.of.get(&origin).copied();
            (origin, bucket.unwrap_or_else(|| full(&origin)))
        });
        let has = |bucket: &mut Bucket| bucket.level(now) > 0;
        // Its own buckets first: an address that has used them up must not take from what all have.
        let fits = is_shared || own.iter_mut().all(|(_, bucket)| has(bucket));
        if !fits || !self.all.try_take(1, now) {
            return false;
        }
        if !is_shared {
            self.of.retain(|_, bucket| !bucket.is_full(now));
            for (origin, mut bucket) in own {
                bucket.take(1);
                self.of.insert(origin, bucket);
            }
        }
        true
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Admission {
    pending_max: u32,
    connected_max: u32,
    shared: BTreeSet<IpAddr>,
    known: BTreeSet<IpAddr>,
    known_names: BTreeSet<PeerId>,
    /// Inbound handshakes and connections.
    pending: Tally,
    /// Handshakes of known addresses in the slots reserved for them.
    pending_known: BTreeMap<ConnectionId, IpAddr>,
    connected: Tally,
    rates: Rates,
    /// For known names.
    known_rate: Bucket,
}

impl Admission {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let limits = &config.limits;
        let per_s = u64::from(limits.knocks_per_s_max);
        let mut admission = Self {
            pending_max: limits.pending_in_max,
            connected_max: limits.peers_in_max,
            shared: config.colocation_allowed.iter().copied().collect(),
            known: BTreeSet::new(),
            known_names: BTreeSet::new(),
            pending: Tally::default(),
            pending_known: BTreeMap::new(),
            connected: Tally::default(),
            rates: Rates::new(per_s, now),
            known_rate: Bucket::new(per_s, BURST_S * per_s, now),
        };
        config
            .peers
            .iter()
            .for_each(|address| admission.know(address));
        admission
    }

    /// Registers an address and a name that this node dials.
    pub(crate) fn know(&mut self, address: &Address) {
        if self.known_names.len() < KNOWN_MAX {
            // In the form in which `ip_of` gives it: an IPv4 address may arrive as an IPv6 one.
            self.known.insert(address.socket().ip().to_canonical());
            self.known_names.insert(address.id().0);
        }
    }

    /// Inbound connections allowed within this many seconds, from known names and all others.
    pub(crate) fn knocks(limits: &Limits, seconds: u64) -> u64 {
        2 * (BURST_S + seconds).saturating_mul(limits.knocks_per_s_max.into())
    }

    /// Whether many nodes may share one address.
    fn is_shared(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.shared.contains(&ip)
    }

    /// Slots reserved for known names: one per known name, up to a quarter of the total.
    fn kept(&self) -> u32 {
        let known = u32::try_from(self.known_names.len()).unwrap_or(u32::MAX);
        known.min(self.connected_max / 4)
    }

    /// Starts a handshake, in an open slot if there is one, otherwise in one reserved for its address.
    fn begin(&mut self, connection: ConnectionId, ip: IpAddr) -> Result<(), Crowd> {
        match self.may_begin(ip) {
            Ok(()) => self.pending.add(connection, ip),
            // Only where an open slot is refused. Otherwise known addresses would use up their reserve for nothing.
            Err(_) if self.is_kept_for(ip) => {
                self.pending_known.insert(connection, ip);
            }
            Err(crowd) => return Err(crowd),
        }
        Ok(())
    }

    /// Ends a handshake, whatever its outcome.
    fn ended(&mut self, connection: ConnectionId) {
        self.pending.remove(connection);
        self.pending_known.remove(&connection);
    }

    /// Whether a handshake from any address may start.
    fn may_begin(&self, ip: IpAddr) -> Result<(), Crowd> {
        let all = u32::try_from(self.pending.of.len()).unwrap_or(u32::MAX);
        // One slot is always open to any address.
        if all >= (self.pending_max - self.pending_max / 4).max(1) {
            return Err(Crowd::Handshakes);
        }
        match self.pending.is_full(ip, self.pending_max) {
            true => Err(Crowd::Origin),
            false => Ok(()),
        }
    }

    /// Whether a slot is left for handshakes of a known address. Each address has an equal part of the last quarter, so
    /// none can take another's.
    fn is_kept_for(&self, ip: IpAddr) -> bool {
        let kept = self.pending_max as usize / 4;
        let begun = &self.pending_known;
        let own = begun.values().filter(|from| **from == ip).count();
        let each = (kept / self.known.len().max(1)).max(1);
        self.known.contains(&ip) && begun.len() < kept && own < each
    }

    /// Whether a peer that proved its name may stay.
    fn may_stay(&mut self, id: &PeerId, ip: IpAddr, now: Instant) -> Result<(), Crowd> {
        let is_known = self.known_names.contains(id);
        // Above that rate a known name competes with all others, so it cannot come back without limit either.
        if is_known && self.known_rate.try_take(1, now) {
            return Ok(());
        }
        let is_shared = self.is_shared(ip);
        let all = u32::try_from(self.connected.of.len()).unwrap_or(u32::MAX);
        if !is_known && all >= self.connected_max - self.kept() {
            return Err(Crowd::Connections);
        }
        if !is_known && !is_shared && self.connected.is_full(ip, self.connected_max) {
            return Err(Crowd::Origin);
        }
        match self.rates.take(ip, is_shared, now) {
            true => Ok(()),
            false => Err(Crowd::Rate),
        }
    }
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crowd {
    /// Too many concurrent handshakes.
    Handshakes,
    /// The remaining slots are reserved for known peers.
    Connections,
    /// An address or its network has used up its share.
    Origin,
    /// Too many per second.
    Rate,
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Crowd::Handshakes => "too many handshakes at a time",
            Crowd::Connections => "the last places are kept for peers that are known",
            Crowd::Origin => "too many connections of one address or network",
            Crowd::Rate => "too many connections in a second",
        })
    }
}

impl std::error::Error for Crowd {}

/// The address of a connection. All connections without one count as the same address.
fn ip_of(address: &Multiaddr) -> IpAddr {
    let ip = socket_of(address).map(|(socket, _)| socket.ip());
    ip.unwrap_or(Ipv4Addr::UNSPECIFIED.into()).to_canonical()
}

impl NetworkBehaviour for Admission {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        connection: ConnectionId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        let begun = self.begin(connection, ip_of(remote));
        begun.map_err(ConnectionDenied::new)
    }

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        id: PeerId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        // Its handshake is over even if it is refused now. A later `ListenFailure` finds nothing left to end.
        self.ended(connection);
        let stays = self.may_stay(&id, ip_of(remote), Instant::now());
        stays.map_err(ConnectionDenied::new)?;
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ListenFailure(ListenFailure { connection_id, .. }) => {
                self.ended(connection_id);
            }
            FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                ..
            // Known names have slots of their own (`kept`), and must not use up those of their address.
            }) if endpoint.is_listener() && !self.known_names.contains(&peer_id) => {
                let ip = ip_of(endpoint.get_remote_address());
                self.connected.add(connection_id, ip);
            }
            FromSwarm::ConnectionClosed(ConnectionClosed { connection_id, .. }) => {
                self.connected.remove(connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
