//! Limits what a peer may send, before gossipsub looks at it.
//!
//! Gossipsub remembers every message ID for some slots, and for two minutes which peers sent the message, whatever the
//! verdict is. A bound on its memory therefore has to be enforced in front of it. This module drops a message that
//! exceeds its peer's rate for the kind, or whose topic nothing subscribed to, before it is hashed, copied or
//! remembered.
//!
//! Rates belong to peer slots, as many as the maximum number of peers. A new connection gets the peer slot that was
//! vacated last, with whatever is left in its buckets. Buckets do not refill while a peer slot is free, so reconnecting
//! under a new name gains nothing.
//!
//! A peer slot has a reputation, which its next peer inherits. An accepted message raises it and a rejected one sets it
//! to the minimum. A message that is ignored, or has no verdict in time or when its peer leaves, lowers it by one. A
//! peer slot with a reputation below zero is on probation: its peer may send an eighth of the rate until enough
//! messages are accepted. Forgers can thus make gossipsub remember only an eighth, whether they change their names or
//! vote for unknown blocks. A peer that has one message in nine accepted is never on probation.

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
use crate::outbox::Verdict;
use crate::shared::Shared;
use crate::status::DropReason;
use alphorn_types::{Kind, TopicName};

/// Cost of a message in bucket units, so that slow rates are whole numbers.
const MESSAGE_UNITS: u64 = 1000;

/// What an accepted message adds to the reputation.
// It makes up for eight messages that are not accepted, and 32 of them lead from the minimum back to zero.
const ACCEPTED: i32 = 8;

/// The maximum reputation, which every peer slot starts with. The minimum is its negative.
const REPUTATION_MAX: i32 = 256;

/// Divisor of the rates on probation.
const PROBATION_PART: u64 = 8;

/// Burst of a kind on probation, if the normal burst is at least this large: blocks come one by one.
const PROBATION_BURST_MIN: u64 = 8;

/// Kinds of topics.
const KINDS: usize = Kind::ALL.len();

/// The events that a connection handler sends to gossipsub.
type Told = THandlerOutEvent<gossip::Behaviour>;

impl Config {
    /// Messages of a kind that a peer may send at once, and again in each slot, with this many topics of the kind
    /// subscribed. This is twice the expected number.
    pub(crate) fn burst(&self, kind: Kind, topics: u64) -> u64 {
        2 * u64::from(self.topic_messages_per_slot.get(kind)) * topics.max(1)
    }
}

/// Units per second and burst, for each kind.
type Rates = [(u64, u64); KINDS];

/// What one peer may send.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    buckets: [Bucket; KINDS],
    reputation: i32,
    /// Messages of its peer without a verdict yet.
    waiting: i32,
}

impl Allowance {
    fn is_on_probation(&self) -> bool {
        self.reputation < 0
    }

    /// Changes the reputation, and the rates if this starts or ends probation. Ending probation adds nothing to the
    /// buckets. Otherwise a peer that goes in and out of probation could send more than one that never is.
    fn change(&mut self, reputation: i32, rates: &Rates, now: Instant) {
        let before = self.is_on_probation();
        self.reputation = reputation.clamp(-REPUTATION_MAX, REPUTATION_MAX);
        if self.is_on_probation() != before {
            let levels = self.buckets.each_mut().map(|bucket| bucket.level(now));
            self.resize(rates, now);
            for (bucket, level) in self.buckets.iter_mut().zip(levels) {
                let given = bucket.level(now).saturating_sub(level);
                bucket.take(given);
            }
        }
    }

    fn resize(&mut self, rates: &Rates, now: Instant) {
        let is_on_probation = self.is_on_probation();
        for (bucket, (per_s, burst)) in self.buckets.iter_mut().zip(*rates) {
            let (per_s, burst) = if is_on_probation {
                let least = burst.min(PROBATION_BURST_MIN * MESSAGE_UNITS);
                let part = (burst / PROBATION_PART).max(least);
                // In the same proportion, so that a bucket takes as long to fill.
                let per_s = u128::from(per_s) * u128::from(part) / u128::from(burst);
                ((per_s as u64).max(1), part)
            } else {
                (per_s, burst)
            };
            bucket.resize(per_s, burst, now);
        }
    }
}

/// Peer slots, each with a bucket per kind.
#[derive(Debug)]
struct Allowances {
    taken: BTreeMap<PeerId, Allowance>,
    /// A stack: the peer slot that was vacated last is at the end.
    free: Vec<Allowance>,
    rates: Rates,
}

impl Allowances {
    fn new(count: u32, rates: Rates, now: Instant) -> Self {
        let full = Allowance {
            buckets: rates.map(|(per_s, burst)| Bucket::new(per_s, burst, now)),
            reputation: REPUTATION_MAX,
            waiting: 0,
        };
        Self {
            taken: BTreeMap::new(),
            free: (0..count).map(|_| full).collect(),
            rates,
        }
    }

    /// Assigns a peer slot to a peer. One is always free, since there are no more peers than slots.
    fn take(&mut self, peer: PeerId, now: Instant) {
        if !self.taken.contains_key(&peer)
            && let Some(mut allowance) = self.free.pop()
        {
            allowance
                .buckets
                .iter_mut()
                .for_each(|bucket| bucket.resume(now));
            self.taken.insert(peer, allowance);
        }
    }

    fn leave(&mut self, peer: &PeerId, now: Instant) {
        if let Some(mut allowance) = self.taken.remove(peer) {
            // The bucket was refilled up to now.
            for bucket in &mut allowance.buckets {
                let _ = bucket.level(now);
            }
            let reputation = allowance.reputation.saturating_sub(allowance.waiting);
            allowance.change(reputation, &self.rates, now);
            allowance.waiting = 0;
            self.free.push(allowance);
        }
    }

    /// Whether a peer may send a message of a kind now.
    fn admit(&mut self, peer: &PeerId, kind: Kind, now: Instant) -> bool {
        let allowance = self.taken.get_mut(peer);
        allowance
            .is_some_and(|allowance| allowance.buckets[kind as usize].try_take(MESSAGE_UNITS, now))
    }

    /// Counts a message that now waits for its verdict.
    fn carried(&mut self, peer: &PeerId) {
        if let Some(allowance) = self.taken.get_mut(peer) {
            allowance.waiting = allowance.waiting.saturating_add(1);
        }
    }

    /// Credits a verdict to the peer that sent the message.
    fn judged(&mut self, peer: &PeerId, verdict: Verdict, now: Instant) {
        let Some(allowance) = self.taken.get_mut(peer) else {
            return;
        };
        // A ban counts as a verdict here although no message waited for it.
        allowance.waiting = (allowance.waiting - 1).max(0);
        let reputation = match verdict {
            Verdict::Accept => allowance.reputation + ACCEPTED,
            Verdict::Ignore => allowance.reputation - 1,
            Verdict::Reject => -REPUTATION_MAX,
        };
        allowance.change(reputation, &self.rates, now);
    }

    /// Changes all rates. A bucket gains only what the larger capacity adds.
    fn resize(&mut self, rates: Rates, now: Instant) {
        self.rates = rates;
        for allowance in self.taken.values_mut().chain(&mut self.free) {
            allowance.resize(&rates, now);
        }
    }
}

/// Gossipsub behind the rates of its peers.
pub(crate) struct Throttle {
    gossip: gossip::Behaviour,
    shared: Arc<Shared>,
    allowances: Allowances,
    subscribed: BTreeMap<TopicHash, Kind>,
}

impl Throttle {
    pub(crate) fn new(gossip: gossip::Behaviour, shared: &Arc<Shared>) -> Self {
        let now = Instant::now();
        let rates = rates(&shared.config, PerKind::all(0));
        Self {
            gossip,
            shared: Arc::clone(shared),
            allowances: Allowances::new(shared.config.limits.peers_max, rates, now),
            subscribed: BTreeMap::new(),
        }
    }

    /// Lets messages of these topics pass from now on, at the rates that follow from their number.
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
        self.allowances.resize(rates, Instant::now());
    }

    /// Records that a message of a peer waits for its verdict.
    pub(crate) fn carried(&mut self, peer: &PeerId) {
        self.allowances.carried(peer);
    }

    /// Records the verdict on a message that a peer sent.
    pub(crate) fn judged(&mut self, peer: &PeerId, verdict: Verdict) {
        self.allowances.judged(peer, verdict, Instant::now());
    }

    /// Whether gossipsub may see a message.
    fn passes(&mut self, peer: &PeerId, message: &RawMessage, now: Instant) -> bool {
        let dropped = match self.subscribed.get(&message.topic) {
            Some(kind) if self.allowances.admit(peer, *kind, now) => return true,
            Some(_) => DropReason::Rate,
            // Gossipsub rejects anything that is not a topic of the network, and penalises the peer.
            None if gossip::parse(&message.topic, &self.shared).is_none() => return true,
            None => DropReason::Unsubscribed,
        };
        self.shared.counters.dropped(dropped);
        false
    }
}

/// The rates of a peer slot that is not on probation.
fn rates(config: &Config, topics: PerKind<u64>) -> Rates {
    Kind::ALL.map(|kind| {
        let burst = config.burst(kind, topics.get(kind)) * MESSAGE_UNITS;
        // The least burst is 2,000 units. In slots above 2,000 s that would round to zero, a rate that no bucket has.
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
            FromSwarm::ConnectionEstablished(new) => {
                self.allowances.take(new.peer_id, Instant::now())
            }
            FromSwarm::ConnectionClosed(old) if old.remaining_established == 0 => {
                self.allowances.leave(&old.peer_id, Instant::now());
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

    /// This many messages of each kind at once, and again in each second.
    fn rates_of(messages: u64) -> Rates {
        [(messages * MESSAGE_UNITS, messages * MESSAGE_UNITS); KINDS]
    }

    /// Applies a verdict to this many messages of a peer.
    fn judge(
        allowances: &mut Allowances,
        peer: &PeerId,
        count: usize,
        verdict: Verdict,
        now: Instant,
    ) {
        for _ in 0..count {
            allowances.carried(peer);
            allowances.judged(peer, verdict, now);
        }
    }

    fn brought(allowances: &mut Allowances, peer: &PeerId, kind: Kind, now: Instant) -> u64 {
        (0..)
            .take_while(|_| allowances.admit(peer, kind, now))
            .count() as u64
    }

    #[test]
    fn who_comes_back_under_a_new_name_brings_no_more() {
        let start = Instant::now();
        let mut allowances = Allowances::new(2, rates_of(10), start);
        let mut brought = 0;
        for second in 0..20 {
            let (peer, now) = (PeerId::random(), start + Duration::from_secs(second));
            allowances.take(peer, now);
            allowances.take(peer, now);
            while allowances.admit(&peer, Kind::Vote, now) {
                brought += 1;
            }
            allowances.leave(&peer, now);
        }
        assert_eq!(
            brought, 10,
            "the other allowance was never free before this one"
        );
        assert_eq!((allowances.free.len(), allowances.taken.len()), (2, 0));
        // Each kind has its own rate, and a peer without a peer slot may send nothing.
        let peer = PeerId::random();
        assert!(!allowances.admit(&peer, Kind::Block, start));
        allowances.take(peer, start);
        assert!(allowances.admit(&peer, Kind::Block, start));
        // Larger buckets hold more by the amount they grew.
        let later = start + Duration::from_millis(1);
        allowances.resize([(1, 12 * MESSAGE_UNITS); KINDS], later);
        let votes = |allowances: &mut Allowances| {
            (0..20)
                .filter(|_| allowances.admit(&peer, Kind::Vote, later))
                .count()
        };
        assert_eq!(votes(&mut allowances), 2);
        allowances.resize([(1, 3 * MESSAGE_UNITS); KINDS], later);
        assert_eq!(votes(&mut allowances), 0);
    }

    /// Forgers send 512 votes a second and stay a second each. With one peer slot they get an eighth of its normal rate
    /// through, whether they are disconnected, leave before the verdict, or send some good votes first.
    #[test]
    fn forgers_under_ever_new_names_bring_an_eighth() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut allowances = Allowances::new(1, rates_of(512), start);
        let mut votes = Vec::new();
        for second in 0..20 {
            let peer = PeerId::random();
            allowances.take(peer, at(second));
            judge(
                &mut allowances,
                &peer,
                (second % 5) as usize,
                Verdict::Accept,
                at(second),
            );
            let count = brought(&mut allowances, &peer, Kind::Vote, at(second + 1));
            (0..count).for_each(|_| allowances.carried(&peer));
            if second % 2 == 0 {
                allowances.judged(&peer, Verdict::Reject, at(second + 1));
            }
            allowances.leave(&peer, at(second + 1));
            votes.push(count);
        }
        assert_eq!(votes[0], 512);
        assert!(votes[1..].iter().all(|count| *count == 64), "{votes:?}");
    }

    /// A peer that goes in and out of probation gets no more through than one that never is.
    #[test]
    fn the_end_of_probation_adds_nothing() {
        let start = Instant::now();
        let mut allowances = Allowances::new(1, rates_of(512), start);
        let peer = PeerId::random();
        allowances.take(peer, start);
        let mut votes = 0;
        for _ in 0..20 {
            judge(&mut allowances, &peer, 100, Verdict::Accept, start);
            votes += brought(&mut allowances, &peer, Kind::Vote, start);
            judge(&mut allowances, &peer, 600, Verdict::Ignore, start);
            votes += brought(&mut allowances, &peer, Kind::Vote, start);
        }
        assert_eq!(votes, 512);
    }

    /// Votes for unknown blocks are ignored. A peer that sends nothing else goes on probation without leaving, and one
    /// that has one message in nine accepted does not.
    #[test]
    fn a_peer_with_nothing_accepted_brings_an_eighth_until_enough_is() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut rates = rates_of(512);
        rates[Kind::Block as usize] = (2 * MESSAGE_UNITS, 2 * MESSAGE_UNITS);
        let mut allowances = Allowances::new(2, rates, start);
        let (forger, mixed) = (PeerId::random(), PeerId::random());
        allowances.take(forger, start);
        allowances.take(mixed, start);
        for _ in 0..1000 {
            judge(&mut allowances, &mixed, 8, Verdict::Ignore, at(1));
            judge(&mut allowances, &mixed, 1, Verdict::Accept, at(1));
        }
        judge(&mut allowances, &forger, 256, Verdict::Ignore, at(1));
        let votes = |allowances: &mut Allowances, peer, second| {
            brought(allowances, peer, Kind::Vote, at(second))
        };
        assert_eq!(votes(&mut allowances, &forger, 1), 512);
        judge(&mut allowances, &forger, 1000, Verdict::Ignore, at(1));
        assert_eq!(votes(&mut allowances, &forger, 2), 64);
        assert_eq!(votes(&mut allowances, &mixed, 2), 512);
        // Blocks pass on probation too, and accepted messages end it.
        assert_eq!(brought(&mut allowances, &forger, Kind::Block, at(3)), 2);
        judge(&mut allowances, &forger, 31, Verdict::Accept, at(3));
        assert_eq!(votes(&mut allowances, &forger, 3), 64);
        judge(&mut allowances, &forger, 1, Verdict::Accept, at(3));
        assert_eq!(votes(&mut allowances, &forger, 4), 512);
        // An honest peer leaves its peer slot as it found it.
        allowances.leave(&mixed, at(4));
        let next = PeerId::random();
        allowances.take(next, at(4));
        assert_eq!(votes(&mut allowances, &next, 5), 512);
    }
}
