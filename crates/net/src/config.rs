//! What a peer carries, where it listens, and every limit with its default.

mod ranges;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use thiserror::Error;

use crate::address::{Address, Transport};
use crate::frame::{CHUNK_BYTES_LIMIT, REQUEST_BYTES_LIMIT};
use crate::key::NodeKey;
use alphorn_types::{Kind, NetworkDigest};

/// One value per kind of topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerKind<T> {
    /// For blocks.
    pub block: T,
    /// For collections.
    pub collection: T,
    /// For the aggregates of one committee.
    pub aggregate: T,
    /// For the votes of one cell.
    pub vote: T,
}

impl<T: Copy> PerKind<T> {
    /// The same value for all kinds.
    pub(crate) const fn all(value: T) -> Self {
        Self {
            block: value,
            collection: value,
            aggregate: value,
            vote: value,
        }
    }

    /// The value of a kind.
    pub(crate) const fn get(&self, kind: Kind) -> T {
        match kind {
            Kind::Block => self.block,
            Kind::Collection => self.collection,
            Kind::Aggregate => self.aggregate,
            Kind::Vote => self.vote,
        }
    }
}

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Interface and port; port 0 asks the system for a free one.
    pub address: SocketAddr,
    /// The transport protocols.
    pub transport: Transport,
}

/// A request protocol `/alphorn/req/{name}/1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestProtocol {
    /// Lower-case letters, digits and `_`, at most 32.
    pub name: String,
    /// Longest request, in bytes.
    pub request_bytes_max: usize,
    /// Longest chunk of a response, in bytes.
    pub chunk_bytes_max: usize,
    /// Most chunks of a response.
    pub chunks_max: usize,
    /// Longest response in total, in bytes.
    pub response_bytes_max: usize,
}

/// Gossip as the beacon chain runs it (consensus-specs, phase0/p2p-interface.md), with the values
/// that differ for anonymous messages of up to 16 MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gossip {
    /// Target number of mesh peers (D).
    pub mesh: usize,
    /// Below this number peers are grafted.
    pub mesh_low: usize,
    /// Above this number peers are pruned.
    pub mesh_high: usize,
    /// Time between heartbeats, in ms.
    pub heartbeat_ms: u64,
    /// Additional time before the first heartbeat, in ms.
    pub heartbeat_initial_delay_ms: u64,
    /// Heartbeats for which a message stays in the cache. A verdict is due within them.
    pub history: usize,
    /// Heartbeats whose messages are advertised.
    pub history_gossip: usize,
    /// Slots for which a message counts as seen.
    pub seen_slots: u32,
    /// Messages longer than this are announced to the mesh before they are forwarded, in bytes.
    pub idontwant_bytes_min: usize,
}

/// Upper bounds on everything that can accumulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Connections in total, one per peer. [`PEERS_MAX`] at most.
    pub peers_max: u32,
    /// Inbound connections.
    pub peers_in_max: u32,
    /// Incoming connections that are not yet established. No address has more than an eighth of them.
    pub pending_in_max: u32,
    /// Outgoing connections that are not yet established.
    pub pending_out_max: u32,
    /// Connections per second accepted from unknown peers, and the same number again from known peers. Bursts may be
    /// four times as large.
    pub knocks_per_s_max: u32,
    /// Process memory above which no connection is made, in bytes.
    pub process_bytes_max: usize,
    /// Bytes read from one peer per second. The rest waits at the sender.
    pub peer_bytes_per_s_max: u64,
    /// Topics that one peer may subscribe to. [`SUBSCRIPTIONS_LIMIT`] at most.
    pub subscriptions_max: usize,
    /// Messages and frames that wait for their reader.
    pub inbox_messages_max: usize,
    /// The same, in bytes.
    pub inbox_bytes_max: usize,
    /// Publications that wait for the network thread.
    pub outbox_messages_max: usize,
    /// How many of these only [`Priority::Duty`](crate::Priority::Duty) may use.
    pub outbox_reserved: usize,
    /// Limit on publications that wait, in bytes.
    pub outbox_bytes_max: usize,
    /// Messages that wait for a verdict, including those in the inbox. [`TOKENS_LIMIT`] at most.
    pub tokens_max: usize,
    /// Requests in flight with one peer, in each direction.
    pub requests_per_peer_max: usize,
    /// Requests in flight in total, in each direction. A quarter of the inbound ones is reserved for peers that this
    /// node dials.
    pub requests_max: usize,
    /// Timeout for a request and its response, in ms.
    pub request_timeout_ms: u64,
    /// Limit on the total size of the responses that may still arrive, and of those that wait to be sent, in bytes. A
    /// quarter of the latter is reserved for peers that this node dials, as long as others can still get the longest
    /// response.
    pub responses_bytes_max: usize,
    /// Bytes served to one peer per second.
    pub serve_bytes_per_s_max: u64,
    /// Bytes served to all peers together per second.
    pub serve_all_bytes_per_s_max: u64,
    /// Requests of one peer handled per second, with bursts of twice as many.
    pub requests_per_s_max: u32,
    /// Frames of the broadcast protocol that are read from one peer per second, which is also the burst. The rest waits
    /// at the sender. Pieces of a broadcast are kilobytes long, so an honest peer reaches its byte limit first. This
    /// limit bounds what short frames cost the receiver.
    pub frames_per_s_max: u32,
    /// Longest frame of the broadcast protocol, in bytes.
    pub frame_bytes_max: usize,
    /// Frames that wait to be sent to one peer, in bytes.
    pub send_queue_bytes_max: usize,
    /// Frames that wait to be sent to one peer.
    pub send_queue_frames_max: usize,
    /// How long a banned peer stays away, in ms.
    pub ban_ms: u64,
}

/// Everything that a network needs to start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Identifies the peer.
    pub key: NodeKey,
    /// Name and version of the program, as sent to peers.
    pub agent: String,
    /// Identifies the network. Part of every topic. Peers of another network are disconnected.
    pub network: NetworkDigest,
    /// Where to listen. Nowhere if empty.
    pub listen: Vec<Listen>,
    /// Peers to dial, and to redial when the connection is lost.
    pub peers: Vec<Address>,
    /// Committees of the layout. Topics of others are refused.
    pub committees: u16,
    /// Subcommittees of each committee.
    pub subcommittees: u16,
    /// Units of each committee in which aggregates are combined, over all levels.
    pub combining_units: u16,
    /// Length of a slot, in ms.
    pub slot_ms: u64,
    /// Longest message of each kind, in bytes.
    pub topic_bytes_max: PerKind<usize>,
    /// Messages expected on one topic per slot. A peer may send twice as many.
    pub topic_messages_per_slot: PerKind<u32>,
    /// The request protocols.
    pub requests: Vec<RequestProtocol>,
    /// Addresses that many peers may share without a penalty, in addition to loopback.
    pub colocation_allowed: Vec<IpAddr>,
    /// Gossip parameters.
    pub gossip: Gossip,
    /// Upper bounds on everything that can accumulate.
    pub limits: Limits,
}

/// The largest allowed [`Limits::tokens_max`].
pub const TOKENS_LIMIT: usize = 1 << 20;
/// The largest allowed [`Limits::subscriptions_max`].
pub const SUBSCRIPTIONS_LIMIT: usize = 1 << 17;
/// The largest allowed [`Limits::peers_max`].
pub const PEERS_MAX: u32 = 1024;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

impl Default for Gossip {
    fn default() -> Self {
        Self {
            mesh: 8,
            mesh_low: 6,
            mesh_high: 12,
            heartbeat_ms: 700,
            heartbeat_initial_delay_ms: 300,
            // With heartbeats of 0.7 s, a message waits 4.2 s for its verdict.
            history: 6,
            history_gossip: 3,
            seen_slots: 6,
            idontwant_bytes_min: 1000,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers_max: 64,
            // Five of eight. The others are left for peers that this node dials.
            peers_in_max: 40,
            pending_in_max: 64,
            pending_out_max: 16,
            knocks_per_s_max: 16,
            process_bytes_max: 1024 * MIB,
            peer_bytes_per_s_max: 4 * MIB as u64,
            subscriptions_max: 4096,
            inbox_messages_max: 4096,
            inbox_bytes_max: 32 * MIB,
            outbox_messages_max: 1024,
            outbox_reserved: 64,
            outbox_bytes_max: 64 * MIB,
            tokens_max: 8192,
            requests_per_peer_max: 2,
            requests_max: 64,
            request_timeout_ms: 10_000,
            responses_bytes_max: 256 * MIB,
            serve_bytes_per_s_max: 8 * MIB as u64,
            serve_all_bytes_per_s_max: 32 * MIB as u64,
            requests_per_s_max: 32,
            frames_per_s_max: 4096,
            frame_bytes_max: 320 * KIB,
            send_queue_bytes_max: 4 * MIB,
            send_queue_frames_max: 1024,
            ban_ms: 600_000,
        }
    }
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A number outside its range.
    #[error("{name} = {value}, must be from {min} to {max}")]
    Range {
        /// The field.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The smallest allowed value.
        min: u64,
        /// The largest allowed value.
        max: u64,
    },
    /// A request protocol has an invalid name.
    #[error(
        "request protocol `{0}`: the name must be 1 to 32 lower-case letters, digits and `_`, \
         and no two may be equal"
    )]
    RequestName(String),
    /// The agent string is too long to send.
    #[error("agent has {0} bytes, must have 1 to {AGENT_BYTES_MAX} printable ASCII characters")]
    Agent(usize),
}

/// Longest agent string that is sent to peers or accepted from them, in bytes.
pub(crate) const AGENT_BYTES_MAX: usize = 64;

impl Config {
    /// A network that listens nowhere and knows no peers, with every limit at its default: messages of at most 8 KiB
    /// (votes), 2 MiB (aggregates) and 16 MiB (collections and blocks), and slots of 4 s.
    pub fn new(key: NodeKey, network: NetworkDigest) -> Self {
        Self {
            key,
            agent: concat!("alphorn/", env!("CARGO_PKG_VERSION")).to_owned(),
            network,
            listen: Vec::new(),
            peers: Vec::new(),
            committees: 1,
            subcommittees: 1,
            combining_units: 1,
            slot_ms: 4000,
            topic_bytes_max: PerKind {
                block: 16 * MIB,
                collection: 16 * MIB,
                aggregate: 2 * MIB,
                vote: 8 * KIB,
            },
            topic_messages_per_slot: PerKind {
                block: 4,
                collection: 512,
                aggregate: 4096,
                vote: 1024,
            },
            requests: Vec::new(),
            colocation_allowed: Vec::new(),
            gossip: Gossip::default(),
            limits: Limits::default(),
        }
    }

    /// Checks every value against its bound.
    ///
    /// # Errors
    ///
    /// Names the first value that is out of bounds, and the bounds.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=AGENT_BYTES_MAX).contains(&self.agent.len())
            || !self.agent.bytes().all(|b| (0x20..0x7f).contains(&b))
        {
            return Err(ConfigError::Agent(self.agent.len()));
        }
        for (name, value, min, max) in self.ranges() {
            if !(min..=max).contains(&value) {
                return Err(ConfigError::Range {
                    name,
                    value,
                    min,
                    max,
                });
            }
        }
        for (index, request) in self.requests.iter().enumerate() {
            request.validate()?;
            if self.requests[..index]
                .iter()
                .any(|r| r.name == request.name)
            {
                return Err(ConfigError::RequestName(request.name.clone()));
            }
        }
        Ok(())
    }

    /// The longest message of any kind, in bytes.
    pub(crate) fn message_bytes_max(&self) -> usize {
        let lengths = Kind::ALL.map(|kind| self.topic_bytes_max.get(kind));
        // At least 1, since queues divide by it.
        lengths.into_iter().fold(1, usize::max)
    }

    /// How long a message waits for its verdict before gossip forgets it.
    pub(crate) fn verdict_time(&self) -> Duration {
        let heartbeats = u64::try_from(self.gossip.history).unwrap_or(u64::MAX);
        Duration::from_millis(self.gossip.heartbeat_ms.saturating_mul(heartbeats))
    }
}

impl RequestProtocol {
    fn validate(&self) -> Result<(), ConfigError> {
        let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if !(1..=32).contains(&self.name.len()) || !self.name.bytes().all(letter) {
            return Err(ConfigError::RequestName(self.name.clone()));
        }
        for (name, value, max) in [
            (
                "request_bytes_max",
                self.request_bytes_max,
                REQUEST_BYTES_LIMIT,
            ),
            ("chunk_bytes_max", self.chunk_bytes_max, CHUNK_BYTES_LIMIT),
            ("chunks_max", self.chunks_max, 1 << 16),
            ("response_bytes_max", self.response_bytes_max, 256 * MIB),
        ] {
            if !(1..=max).contains(&value) {
                return Err(ConfigError::Range {
                    name,
                    value: value as u64,
                    min: 1,
                    max: max as u64,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new(NodeKey::generate(), NetworkDigest([1, 2, 3, 4]))
    }

    #[test]
    fn the_defaults_are_valid_and_verdicts_have_4_2_seconds() {
        assert_eq!(config().validate(), Ok(()));
        assert_eq!(config().verdict_time(), Duration::from_millis(4200));
    }

    #[test]
    fn an_error_names_the_value_and_its_bounds() {
        let mut bad = config();
        bad.limits.peers_in_max = 65;
        let error = bad.validate().expect_err("more in than in all");
        assert_eq!(error.to_string(), "peers_in_max = 65, must be from 0 to 64");
        let mut bad = config();
        bad.limits.inbox_bytes_max = MIB;
        let error = bad.validate().expect_err("no room for a block");
        assert_eq!(
            error.to_string(),
            "inbox_bytes_max = 1048576, must be from 33554432 to 68719476736"
        );
        let mut bad = config();
        bad.topic_bytes_max.vote = 0;
        assert!(bad.validate().is_err());
        let mut bad = config();
        bad.agent = "line\nbreak".to_owned();
        assert_eq!(bad.validate(), Err(ConfigError::Agent(10)));
    }

    #[test]
    fn request_protocols_have_plain_and_different_names() {
        let protocol = |name: &str| RequestProtocol {
            name: name.to_owned(),
            request_bytes_max: 100,
            chunk_bytes_max: 100,
            chunks_max: 1,
            response_bytes_max: 100,
        };
        let mut config = config();
        config.requests = vec![protocol("status"), protocol("votes_by_slot")];
        assert_eq!(config.validate(), Ok(()));
        config.requests.push(protocol("status"));
        assert_eq!(
            config.validate(),
            Err(ConfigError::RequestName("status".to_owned()))
        );
        for name in ["", "a/b", "Status", &"a".repeat(33)] {
            config.requests = vec![protocol(name)];
            assert!(config.validate().is_err(), "{name}");
        }
        config.requests = vec![protocol("status")];
        config.requests[0].request_bytes_max = REQUEST_BYTES_LIMIT + 1;
        assert!(config.validate().is_err());
    }
}
