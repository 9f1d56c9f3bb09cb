//! What a peer may bring, before gossipsub looks at it.
//!
//! Gossipsub remembers the name of every message for some slots, and for two minutes who brought it,
//! whatever the verdict is. So a bound on its memory has to stand before it: here a message that its
//! peer brings above the rate of the kind, or that nobody subscribed to, is dropped before it is
//! hashed, copied or remembered.
//!
//! Rates belong to places, of which there are as many as there may be peers. Whoever connects takes
//! the place that was left last, with what is left in its buckets, which nothing flows into while it
//! is free: coming back under a new name brings nobody more.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::gossipsub::{RawMessage, TopicHash};
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId};

use crate::bucket::Bucket;
use crate::config::{Config, PerKind};
use crate::gossip;
use crate::handle::Shared;
use crate::status::DropReason;
use alphorn_types::{Kind, TopicName};

/// A message costs so much of its bucket, so that slow rates have whole numbers.
const MESSAGE_UNITS: u64 = 1000;

/// Kinds of topics.
const KINDS: usize = Kind::ALL.len();

/// What the handler of a connection tells gossipsub.
type Told = THandlerOutEvent<gossip::Behaviour>;

impl Config {
    /// Messages of a kind that a peer may bring at once, and again in each slot, where so many topics
    /// of the kind are subscribed: twice what is expected.
    pub(crate) fn burst(&self, kind: Kind, topics: u64) -> u64 {
        2 * u64::from(self.topic_messages_per_slot.get(kind)) * topics.max(1)
    }
}

/// Places for peers, each with a bucket for each kind.
#[derive(Debug)]
struct Places {
    taken: BTreeMap<PeerId, [Bucket; KINDS]>,
    /// The one that was left last is the last one.
    free: Vec<[Bucket; KINDS]>,
}

impl Places {
    fn new(count: u32, full: [Bucket; KINDS]) -> Self {
        Self {
            taken: BTreeMap::new(),
            free: (0..count).map(|_| full).collect(),
        }
    }

    /// Gives a peer a place. There is one, since there are no more peers than places.
    fn take(&mut self, peer: PeerId, now: Instant) {
        if !self.taken.contains_key(&peer)
            && let Some(mut place) = self.free.pop()
        {
            place.iter_mut().for_each(|bucket| bucket.resume(now));
            self.taken.insert(peer, place);
        }
    }

    fn leave(&mut self, peer: &PeerId, now: Instant) {
        if let Some(mut place) = self.taken.remove(peer) {
            // Up to now it was filled.
            for bucket in &mut place {
                let _ = bucket.level(now);
            }
            self.free.push(place);
        }
    }

    /// Whether a peer may bring a message of a kind now.
    fn admit(&mut self, peer: &PeerId, kind: Kind, now: Instant) -> bool {
        let place = self.taken.get_mut(peer);
        place.is_some_and(|place| place[kind as usize].try_take(MESSAGE_UNITS, now))
    }

    /// Changes all rates; nobody is given what a larger bucket does not hold more.
    fn resize(&mut self, rates: [(u64, u64); KINDS], now: Instant) {
        for place in self.taken.values_mut().chain(&mut self.free) {
            for (bucket, (per_s, burst)) in place.iter_mut().zip(rates) {
                bucket.resize(per_s, burst, now);
            }
        }
    }
}

/// Gossipsub behind the rates of its peers.
pub(crate) struct Throttle {
    gossip: gossip::Behaviour,
    shared: Arc<Shared>,
    places: Places,
    subscribed: BTreeMap<TopicHash, Kind>,
}

impl Throttle {
    pub(crate) fn new(gossip: gossip::Behaviour, shared: &Arc<Shared>) -> Self {
        let now = Instant::now();
        let rates = rates(&shared.config, PerKind::all(0));
        let full = rates.map(|(per_s, burst)| Bucket::new(per_s, burst, now));
        Self {
            gossip,
            shared: Arc::clone(shared),
            places: Places::new(shared.config.limits.peers_max, full),
            subscribed: BTreeMap::new(),
        }
    }

    /// From now on lets messages of these topics pass, at the rates that follow from their number.
    pub(crate) fn subscribed<'a>(&mut self, topics: impl Iterator<Item = &'a TopicName>) {
        let named = topics.map(|topic| (gossip::ident(*topic).hash(), topic.topic.kind()));
        self.subscribed = named.collect();
        let count = |kind| self.subscribed.values().filter(|one| **one == kind).count() as u64;
        let topics = PerKind {
            block: count(Kind::Block),
            collection: count(Kind::Collection),
            aggregate: count(Kind::Aggregate),
            vote: count(Kind::Vote),
        };
        let rates = rates(&self.shared.config, topics);
        self.places.resize(rates, Instant::now());
    }

    /// Whether gossipsub may see a message.
    fn passes(&mut self, peer: &PeerId, message: &RawMessage, now: Instant) -> bool {
        let dropped = match self.subscribed.get(&message.topic) {
            Some(kind) if self.places.admit(peer, *kind, now) => return true,
            Some(_) => DropReason::Rate,
            // What is no topic of the network is refused by gossipsub, and held against the peer.
            None if gossip::parse(&message.topic, &self.shared).is_none() => return true,
            None => DropReason::Unsubscribed,
        };
        self.shared.counters.dropped(dropped);
        false
    }
}

/// Units in a second and at once, of each kind.
fn rates(config: &Config, topics: PerKind<u64>) -> [(u64, u64); KINDS] {
    Kind::ALL.map(|kind| {
        let burst = config.burst(kind, topics.get(kind)) * MESSAGE_UNITS;
        ((burst * 1000 / config.slot_ms).max(1), burst)
    })
}

impl Deref for Throttle {
    type Target = gossip::Behaviour;

    fn deref(&self) -> &Self::Target {
        &self.gossip
    }
}

impl DerefMut for Throttle {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.gossip
    }
}

impl NetworkBehaviour for Throttle {
    type ConnectionHandler = THandler<gossip::Behaviour>;
    type ToSwarm = <gossip::Behaviour as NetworkBehaviour>::ToSwarm;

    fn handle_pending_inbound_connection(
        &mut self,
        connection: ConnectionId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        { &mut self.gossip }.handle_pending_inbound_connection(connection, local, remote)
    }

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        { &mut self.gossip }.handle_established_inbound_connection(connection, peer, local, remote)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: Option<PeerId>,
        addresses: &[Multiaddr],
        role: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        { &mut self.gossip }.handle_pending_outbound_connection(connection, peer, addresses, role)
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let gossip = &mut self.gossip;
        gossip.handle_established_outbound_connection(connection, peer, address, role, port)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match &event {
            FromSwarm::ConnectionEstablished(new) => self.places.take(new.peer_id, Instant::now()),
            FromSwarm::ConnectionClosed(old) if old.remaining_established == 0 => {
                self.places.leave(&old.peer_id, Instant::now());
            }
            _ => {}
        }
        self.gossip.on_swarm_event(event);
    }

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        mut event: THandlerOutEvent<Self>,
    ) {
        if let Told::Message { rpc, .. } = &mut event {
            let now = Instant::now();
            rpc.messages
                .retain(|message| self.passes(&peer, message, now));
        }
        let gossip = &mut self.gossip;
        gossip.on_connection_handler_event(peer, connection, event);
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        NetworkBehaviour::poll(&mut self.gossip, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_comes_back_under_a_new_name_brings_no_more() {
        let start = Instant::now();
        let bucket = Bucket::new(10 * MESSAGE_UNITS, 10 * MESSAGE_UNITS, start);
        let mut places = Places::new(2, [bucket; KINDS]);
        let mut brought = 0;
        for second in 0..20 {
            let (peer, now) = (PeerId::random(), start + Duration::from_secs(second));
            places.take(peer, now);
            places.take(peer, now);
            while places.admit(&peer, Kind::Vote, now) {
                brought += 1;
            }
            places.leave(&peer, now);
        }
        assert_eq!(
            brought, 10,
            "the other place was never free before this one"
        );
        assert_eq!((places.free.len(), places.taken.len()), (2, 0));
        // Kinds have rates of their own, and whoever has no place brings nothing.
        let peer = PeerId::random();
        assert!(!places.admit(&peer, Kind::Block, start));
        places.take(peer, start);
        assert!(places.admit(&peer, Kind::Block, start));
        // Larger buckets hold more by what they grew.
        let later = start + Duration::from_millis(1);
        places.resize([(1, 12 * MESSAGE_UNITS); KINDS], later);
        let votes = |places: &mut Places| {
            (0..20)
                .filter(|_| places.admit(&peer, Kind::Vote, later))
                .count()
        };
        assert_eq!(votes(&mut places), 2);
        places.resize([(1, 3 * MESSAGE_UNITS); KINDS], later);
        assert_eq!(votes(&mut places), 0);
    }
}
