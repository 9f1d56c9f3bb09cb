//! Upper bound on the memory of a network: a sum over its limits.

use crate::address::{Address, Transport};
use crate::admission::Admission;
use crate::config::{Config, PerKind};
use crate::gossip::{self, CONTROL_NAMES_MAX, RETAIN_TIME};
use crate::link::CONNECTION_WINDOW_BYTES;
use crate::mux;
use crate::service::PACKETS_WAITING;
use alphorn_types::Kind;

/// Seconds for which gossipsub remembers the senders of a message. A constant of the library.
const DELIVERIES_S: u64 = 120;
/// Seconds for which it waits for a message that it requested. Its default.
const PROMISE_S: u64 = 3;
/// Message IDs that it remembers as unwanted by one peer, and control messages that wait for one peer. Constants of the
/// library.
const UNWANTED_MAX: u64 = 10_000;
const CONTROL_MAX: u64 = 20_000;
/// Unacknowledged data that QUIC keeps per connection. The library's default.
const SEND_WINDOW_BYTES: u64 = 10 << 20;

// Sizes of entries in the library's tables, in bytes: the sizes of their fields, a message ID of 20 bytes in an
// allocation of 32 for each copy, and tables that have just grown, so that the old one still exists and the new one is
// less than half full.

/// A message ID in a map and in the list by age.
const SEEN_BYTES: u64 = 288;
/// The same with the peers that sent it.
const DELIVERY_BYTES: u64 = 640;
/// A message in the cache and in its history, without its data.
const CACHED_BYTES: u64 = 1024;
/// A message ID that a peer does not want, one that a peer promised, or a waiting control message.
const UNWANTED_BYTES: u64 = 160;
const PROMISE_BYTES: u64 = 384;
const CONTROL_BYTES: u64 = 576;
/// The penalties of a peer, and those for one topic.
const PEER_BYTES: u64 = 1024;
const PEER_TOPIC_BYTES: u64 = 512;
/// A message or command in a queue, without its data.
const QUEUED_BYTES: u64 = 512;
/// Buffers and keys of one connection, excluding its windows.
const CONNECTION_BYTES: u64 = 1 << 20;

impl Config {
    /// Maximum memory of the network in bytes, by component, with this many subscribed topics per kind and a driver
    /// that holds at most `held_bytes` of messages that wait for its verdict or that it accepted within `verdict_time`.
    ///
    /// Sizes of entries in library tables are upper estimates. Not counted is the decoded size of a packet of many
    /// empty messages.
    pub fn memory_max(&self, topics: PerKind<u64>, held_bytes: u64) -> Vec<(&'static str, u64)> {
        let limits = &self.limits;
        let peers = u64::from(limits.peers_max);
        let all_topics: u64 = Kind::ALL.map(|kind| topics.get(kind)).iter().sum();
        let bytes = |count: usize| count as u64;
        let heartbeats = |ms: u64| ms.div_ceil(self.gossip.heartbeat_ms.max(1)) + 1;
        let seen_ms = self.slot_ms * u64::from(self.gossip.seen_slots);
        let cached_ms = (bytes(self.gossip.history) + 1) * self.gossip.heartbeat_ms;
        let promises = bytes(CONTROL_NAMES_MAX) * heartbeats(1000 * PROMISE_S);
        let control =
            UNWANTED_MAX * UNWANTED_BYTES + CONTROL_MAX * CONTROL_BYTES + promises * PROMISE_BYTES;
        let waiting = bytes(limits.inbox_messages_max) + bytes(limits.tokens_max);
        let outgoing = bytes(limits.outbox_messages_max) + bytes(crate::outbox::CONTROL_MAX);
        let queue = bytes(gossip::queue_messages(self)) * bytes(self.message_bytes_max());
        let frames = bytes(limits.send_queue_bytes_max)
            + 2 * bytes(crate::frames::STREAMS) * bytes(limits.frame_bytes_max);
        let remembered = peers + Admission::knocks(limits, RETAIN_TIME.as_secs());
        let of_each = PEER_BYTES + all_topics * PEER_TOPIC_BYTES;
        let packets = 2 + bytes(PACKETS_WAITING);
        vec![
            (
                "messages to the driver",
                bytes(limits.inbox_bytes_max) + waiting * QUEUED_BYTES,
            ),
            (
                "messages and commands from the driver",
                bytes(limits.outbox_bytes_max) + outgoing * QUEUED_BYTES,
            ),
            (
                "names of messages that were seen",
                self.admitted(topics, seen_ms) * SEEN_BYTES,
            ),
            (
                "who brought which message",
                self.admitted(topics, 1000 * DELIVERIES_S) * DELIVERY_BYTES,
            ),
            (
                "messages that gossip may still forward",
                held_bytes + self.admitted(topics, cached_ms) * CACHED_BYTES,
            ),
            ("control messages of gossip", peers * control),
            ("what waits for slow peers", peers * (queue + frames)),
            (
                "packets",
                peers * packets * 2 * bytes(gossip::packet_bytes(self)),
            ),
            (
                "connections",
                peers * (self.window_bytes() + SEND_WINDOW_BYTES + CONNECTION_BYTES),
            ),
            (
                "answers, asked and given",
                2 * bytes(limits.responses_bytes_max),
            ),
            ("peers that were here", remembered * of_each),
        ]
    }

    /// What a peer may send ahead of the reader on one connection.
    fn window_bytes(&self) -> u64 {
        let quic = u64::from(CONNECTION_WINDOW_BYTES);
        let listens = self.listen.iter().map(|listen| listen.transport);
        let dials = self.peers.iter().map(Address::transport);
        match listens.chain(dials).all(|one| one == Transport::Quic) {
            true => quic,
            false => quic.max(mux::WINDOW_BYTES as u64),
        }
    }

    /// Messages that all peer slots together let pass within a time.
    fn admitted(&self, topics: PerKind<u64>, ms: u64) -> u64 {
        let burst = |kind| self.burst(kind, topics.get(kind));
        let bursts: u64 = Kind::ALL.map(burst).iter().sum();
        // A full bucket, plus its refill.
        let slots = 1 + ms.div_ceil(self.slot_ms.max(1));
        u64::from(self.limits.peers_max) * bursts * slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Listen;
    use crate::key::NodeKey;
    use alphorn_types::NetworkDigest;

    fn sum(config: &Config, topics: u64, held: u64) -> u64 {
        let parts = config.memory_max(PerKind::all(topics), held);
        parts.iter().map(|(_, bytes)| bytes).sum()
    }

    #[test]
    fn the_sum_follows_the_limits() {
        let mut config = Config::new(NodeKey::generate(), NetworkDigest([1, 2, 3, 4]));
        config.topic_bytes_max.block = 1 << 16;
        config.topic_bytes_max.collection = 1 << 16;
        config.topic_bytes_max.aggregate = 1 << 16;
        let whole = sum(&config, 1, 0);
        assert_eq!(sum(&config, 1, 1000), whole + 1000);
        assert!(sum(&config, 2, 0) > whole);
        let mut fewer = config.clone();
        fewer.limits.peers_max = 8;
        assert!(sum(&fewer, 1, 0) < whole);
        let mut slower = config.clone();
        slower.topic_messages_per_slot.vote *= 2;
        assert!(sum(&slower, 1, 0) > whole);
        let mut tcp = config.clone();
        tcp.listen = vec![Listen {
            address: ([127, 0, 0, 1], 0).into(),
            transport: Transport::Both,
        }];
        let more = mux::WINDOW_BYTES as u64 - u64::from(CONNECTION_WINDOW_BYTES);
        assert_eq!(sum(&tcp, 1, 0), whole + 64 * more);
        let mut longer = config.clone();
        longer.topic_bytes_max.block = 1 << 24;
        assert!(sum(&longer, 1, 0) > whole);
    }

    /// A hundred and twenty seconds are thirty slots of four, preceded by a full bucket.
    #[test]
    fn what_is_admitted_is_a_bucket_and_a_rate() {
        let mut config = Config::new(NodeKey::generate(), NetworkDigest([1, 2, 3, 4]));
        config.topic_messages_per_slot = PerKind::all(10);
        config.limits.peers_max = 3;
        assert_eq!(config.admitted(PerKind::all(0), 0), 3 * 4 * 20);
        assert_eq!(config.admitted(PerKind::all(2), 120_000), 3 * 4 * 40 * 31);
    }
}
