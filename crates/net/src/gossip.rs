//! Gossipsub, set up for anonymous messages that wait for a verdict.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use libp2p::gossipsub::{
    self, DataTransform, IdentTopic, MaxCountSubscriptionFilter, Message, MessageAuthenticity,
    MessageId, PeerScoreParams, PeerScoreThresholds, RawMessage, TopicHash, TopicScoreParams,
    TopicSubscriptionFilter, ValidationMode,
};
use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::error::NetError;
use crate::scores::{FADED, fade};
use crate::shared::Shared;
use crate::status::{DropReason, add};
use alphorn_types::{Kind, TOPIC_BYTES_MAX, TopicName};

/// Domain separator between message IDs and other uses of SHA-256.
const MESSAGE_DOMAIN: &[u8; 4] = b"aph1";

/// Length of a message ID, in bytes.
const ID_BYTES: usize = 20;

/// Score below which no gossip is exchanged with a peer.
const GOSSIP_THRESHOLD: f64 = -20.0;
/// Score below which nothing is published to a peer.
const PUBLISH_THRESHOLD: f64 = -40.0;
/// Score below which a peer is ignored.
pub(crate) const GRAYLIST_THRESHOLD: f64 = -80.0;

/// Weight of the square of a peer's invalid messages on a topic.
const INVALID_WEIGHT: f64 = -20.0;

/// How long gossipsub remembers a disconnected peer, with a counter per topic. Forgers can fill that memory with new
/// names. Bans and points last longer, in the scores of peers. Only what gossipsub alone counts, malformed messages, is
/// forgotten with this, and a new name would shed it at once anyway.
pub(crate) const RETAIN_TIME: Duration = Duration::from_secs(60);

/// Bytes that one read may return beyond the end of a message. The gossipsub decoder compares everything it has read
/// with its limit, so a message of the maximum size needs this extra room.
const READ_AHEAD_BYTES: usize = 16 * 1024;

/// Control messages of one packet, in bytes. 64 KiB hold the IDs of about 2,800 messages.
const CONTROL_BYTES_MIN: usize = 64 * 1024;

/// Message IDs advertised to one peer, and requested from one peer, between two heartbeats. Gossipsub remembers each
/// one it requested until the message arrives or is overdue.
pub(crate) const CONTROL_NAMES_MAX: usize = 2048;

/// Bytes of messages for one peer that may wait in its connection.
const QUEUE_BYTES: usize = 32 * 1024 * 1024;

/// Gossipsub with our filter and our limits.
pub(crate) type Behaviour =
    gossipsub::Behaviour<Limiter, MaxCountSubscriptionFilter<NetworkFilter>>;

/// Allows subscriptions only to topics of this network.
#[derive(Clone, Debug)]
pub(crate) struct NetworkFilter(Arc<Shared>);

impl TopicSubscriptionFilter for NetworkFilter {
    fn can_subscribe(&mut self, topic: &TopicHash) -> bool {
        parse(topic, &self.0).is_some()
    }
}

/// Rejects messages that break the topic grammar or the limit of their kind before they are hashed, and counts the
/// others.
#[derive(Clone, Debug)]
pub(crate) struct Limiter(Arc<Shared>);

impl DataTransform for Limiter {
    fn inbound_transform(&self, raw: RawMessage) -> io::Result<Message> {
        let topic = parse(&raw.topic, &self.0);
        let fits = |topic: TopicName| {
            raw.data.len() <= self.0.config.topic_bytes_max.get(topic.topic.kind())
        };
        let Some(topic) = topic.filter(|topic| fits(*topic)) else {
            self.0.counters.dropped(DropReason::Malformed);
            return Err(io::ErrorKind::InvalidData.into());
        };
        let kind = &self.0.counters.kinds[topic.topic.kind() as usize];
        add(&kind.messages_in, 1);
        add(&kind.bytes_in, raw.data.len() as u64);
        Ok(Message {
            source: raw.source,
            data: raw.data,
            sequence_number: raw.sequence_number,
            topic: raw.topic,
        })
    }

    fn outbound_transform(&self, _: &TopicHash, data: Vec<u8>) -> io::Result<Vec<u8>> {
        Ok(data)
    }
}

/// Parses a topic name from the wire. None if it is not one of this network's.
pub(crate) fn parse(name: &TopicHash, shared: &Shared) -> Option<TopicName> {
    let topic = name.as_str().parse().ok()?;
    shared.knows(topic).then_some(topic)
}

/// A topic in gossipsub's form.
pub(crate) fn ident(topic: TopicName) -> IdentTopic {
    IdentTopic::new(topic.to_string())
}

/// The ID of a message, which depends only on its topic and its bytes.
fn message_id(message: &Message) -> MessageId {
    let topic = message.topic.as_str();
    let mut hash = Sha256::new();
    hash.update(MESSAGE_DOMAIN);
    // Without the length, bytes could move between topic and data without changing the ID.
    hash.update((topic.len() as u64).to_le_bytes());
    hash.update(topic.as_bytes());
    hash.update(&message.data);
    MessageId::from(&hash.finalize()[..ID_BYTES])
}

/// Messages for one peer that may wait in its connection. Gossipsub bounds their number, not their bytes.
pub(crate) fn queue_messages(config: &Config) -> usize {
    (QUEUE_BYTES / config.message_bytes_max()).clamp(16, 256)
}

/// Control messages of one packet, in bytes. A peer's subscriptions must fit.
fn control_bytes(config: &Config) -> usize {
    let units = usize::from(config.combining_units) + usize::from(config.subcommittees);
    let layout = 2 + usize::from(config.committees) * units;
    let subscriptions = layout.min(config.limits.subscriptions_max) * (TOPIC_BYTES_MAX + 8);
    CONTROL_BYTES_MIN.max(subscriptions)
}

/// The longest packet, in bytes.
pub(crate) fn packet_bytes(config: &Config) -> usize {
    let message = config.message_bytes_max() + TOPIC_BYTES_MAX + READ_AHEAD_BYTES;
    message.max(control_bytes(config))
}

fn config(shared: &Shared) -> Result<gossipsub::Config, NetError> {
    let gossip = &shared.config.gossip;
    let slot = Duration::from_millis(shared.config.slot_ms);
    let control_bytes = control_bytes(&shared.config);
    gossipsub::ConfigBuilder::default()
        .mesh_n(gossip.mesh)
        .mesh_n_low(gossip.mesh_low)
        .mesh_n_high(gossip.mesh_high)
        // Gossipsub wants it below `mesh_n_low` and at most half of `mesh_n`.
        .mesh_outbound_min(2.min(gossip.mesh / 2).min(gossip.mesh_low - 1))
        .heartbeat_interval(Duration::from_millis(gossip.heartbeat_ms))
        .heartbeat_initial_delay(Duration::from_millis(gossip.heartbeat_initial_delay_ms))
        .history_length(gossip.history)
        .history_gossip(gossip.history_gossip)
        .duplicate_cache_time(slot * gossip.seen_slots)
        .validation_mode(ValidationMode::Anonymous)
        .validate_messages()
        .message_id_fn(message_id)
        .idontwant_message_size_threshold(gossip.idontwant_bytes_min)
        .idontwant_on_publish(true)
        .flood_publish(false)
        .max_transmit_size(packet_bytes(&shared.config))
        .max_control_message_size(control_bytes)
        .max_control_messages_sent(CONTROL_NAMES_MAX)
        .connection_handler_queue_len(queue_messages(&shared.config))
        .publish_queue_duration(Duration::from_secs(2))
        .forward_queue_duration(Duration::from_secs(1))
        .build()
        .map_err(|error| NetError::Gossip(error.to_string()))
}

/// What counts for and against a peer on every topic: only invalid messages. Topics are sparse, so a peer that
/// delivered nothing usually has nothing to deliver.
fn topic_score() -> TopicScoreParams {
    TopicScoreParams {
        topic_weight: 1.0,
        time_in_mesh_weight: 0.0,
        first_message_deliveries_weight: 0.0,
        mesh_message_deliveries_weight: 0.0,
        mesh_failure_penalty_weight: 0.0,
        invalid_message_deliveries_weight: INVALID_WEIGHT,
        invalid_message_deliveries_decay: fade(Duration::from_secs(1)),
        ..TopicScoreParams::default()
    }
}

fn score(colocation_allowed: &[IpAddr]) -> PeerScoreParams {
    let loopback = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    let allowed = colocation_allowed.iter().copied().chain(loopback);
    PeerScoreParams {
        app_specific_weight: 1.0,
        ip_colocation_factor_whitelist: allowed.collect::<HashSet<_>>(),
        // Broken promises: a few happen to every peer under load.
        behaviour_penalty_threshold: 6.0,
        behaviour_penalty_decay: fade(Duration::from_secs(10)),
        // A queue that was full for a moment says nothing about the peer, and a score below zero removes it from every
        // mesh for a minute, so a busy slot would partition a network.
        slow_peer_weight: 0.0,
        decay_interval: Duration::from_secs(1),
        decay_to_zero: FADED,
        retain_score: RETAIN_TIME,
        ..PeerScoreParams::default()
    }
}

/// Creates gossipsub for this network, subscribed to nothing.
///
/// # Errors
///
/// If gossipsub rejects its configuration.
pub(crate) fn behaviour(shared: &Arc<Shared>) -> Result<Behaviour, NetError> {
    let filter = MaxCountSubscriptionFilter {
        filter: NetworkFilter(Arc::clone(shared)),
        max_subscribed_topics: shared.config.limits.subscriptions_max,
        max_subscriptions_per_request: shared.config.limits.subscriptions_max,
    };
    let gossip = |error: &str| NetError::Gossip(error.to_owned());
    let mut behaviour = Behaviour::new_with_subscription_filter_and_transform(
        MessageAuthenticity::Anonymous,
        config(shared)?,
        filter,
        Limiter(Arc::clone(shared)),
    )
    .map_err(gossip)?;
    let thresholds = PeerScoreThresholds {
        gossip_threshold: GOSSIP_THRESHOLD,
        publish_threshold: PUBLISH_THRESHOLD,
        graylist_threshold: GRAYLIST_THRESHOLD,
        // No score is above zero: a mesh looks for better peers when half of it is below.
        opportunistic_graft_threshold: 0.0,
        ..PeerScoreThresholds::default()
    };
    behaviour
        .with_peer_score(score(&shared.config.colocation_allowed), thresholds)
        .map_err(|error| NetError::Gossip(error.clone()))?;
    Ok(behaviour)
}

/// Subscribes to a topic, and enables its scoring.
///
/// # Errors
///
/// If the filter rejects a topic that [`parse`] accepts, which cannot happen.
pub(crate) fn subscribe(behaviour: &mut Behaviour, topic: TopicName) -> Result<(), NetError> {
    let gossip = |error: &dyn std::fmt::Display| NetError::Gossip(error.to_string());
    behaviour
        .set_topic_params(ident(topic), topic_score())
        .map_err(|error| gossip(&error))?;
    behaviour
        .subscribe(&ident(topic))
        .map_err(|error| gossip(&error))?;
    Ok(())
}

/// Peers in the meshes of the subscribed topics, by kind.
pub(crate) fn mesh_peers(behaviour: &Behaviour, topics: &[TopicName]) -> [u64; Kind::ALL.len()] {
    let mut sums = [0; Kind::ALL.len()];
    for topic in topics {
        sums[topic.topic.kind() as usize] +=
            behaviour.mesh_peers(&ident(*topic).hash()).count() as u64;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::NodeKey;
    use alphorn_types::NetworkDigest;

    fn shared() -> Arc<Shared> {
        let mut config = Config::new(NodeKey::generate(), NetworkDigest([1, 2, 3, 4]));
        config.committees = 2;
        config.subcommittees = 3;
        config.topic_bytes_max.vote = 10;
        Arc::new(Shared::new(config))
    }

    fn raw(topic: &str, bytes: usize) -> RawMessage {
        RawMessage {
            source: None,
            data: vec![7; bytes],
            sequence_number: None,
            topic: TopicHash::from_raw(topic),
            signature: None,
            key: None,
            validated: false,
        }
    }

    #[test]
    fn only_topics_of_this_network_and_layout_pass() {
        let shared = shared();
        let mut filter = NetworkFilter(Arc::clone(&shared));
        let mut can = |text: &str| filter.can_subscribe(&TopicHash::from_raw(text));
        assert!(can("/alphorn/01020304/block/raw"));
        assert!(can("/alphorn/01020304/vote_1_2/raw"));
        assert!(!can("/alphorn/01020304/vote_2_0/raw"));
        assert!(!can("/alphorn/01020304/vote_0_3/raw"));
        assert!(!can("/alphorn/01020305/block/raw"));
        assert!(!can("block"));
    }

    #[test]
    fn a_message_above_the_limit_of_its_kind_is_refused_and_counted() {
        let shared = shared();
        let limiter = Limiter(Arc::clone(&shared));
        let vote = "/alphorn/01020304/vote_0_0/raw";
        assert!(limiter.inbound_transform(raw(vote, 10)).is_ok());
        assert!(limiter.inbound_transform(raw(vote, 11)).is_err());
        assert!(limiter.inbound_transform(raw("elsewhere", 1)).is_err());
        let status = shared.counters.status();
        assert_eq!(status.dropped(DropReason::Malformed), 2);
        assert_eq!(status.kind(Kind::Vote).bytes_in, 10);
    }

    /// Computed with Python's hashlib: `sha256(b"aph1" + (27).to_bytes(8, "little") + topic + b"abc")`.
    #[test]
    fn the_name_of_a_message_binds_topic_and_bytes() {
        let message = |topic: &str, data: &[u8]| Message {
            source: None,
            data: data.to_vec(),
            sequence_number: None,
            topic: TopicHash::from_raw(topic),
        };
        let id = message_id(&message("/alphorn/01020304/block/raw", b"abc"));
        assert_eq!(
            hex::encode(&id.0),
            "680dcd93e3e8860593f51fd80f69091d96602ff7"
        );
        assert_ne!(
            id,
            message_id(&message("/alphorn/01020304/block/rawa", b"bc"))
        );
    }

    #[test]
    fn gossipsub_takes_every_valid_configuration_at_its_ends() {
        assert!(behaviour(&shared()).is_ok());
        let mut config = Config::new(NodeKey::generate(), NetworkDigest([0; 4]));
        config.committees = 512;
        config.subcommittees = 128;
        config.gossip.mesh = 1;
        config.gossip.mesh_low = 1;
        config.gossip.mesh_high = 1;
        config.gossip.history = 1;
        config.gossip.history_gossip = 1;
        assert_eq!(config.validate(), Ok(()));
        assert!(behaviour(&Arc::new(Shared::new(config))).is_ok());
        let left = fade(Duration::from_secs(1)).powi(600);
        assert!((left - FADED).abs() < 1e-9, "{left}");
    }
}
