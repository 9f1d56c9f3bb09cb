//! Parameters of a broadcasting node.

use super::message::Limits;
use super::policy::{Policy, PolicyChoice};
use crate::rlnc::{PAYLOAD_BYTES_MAX, Subject};
use thiserror::Error;

/// Maximum number of peers; peers are numbered below this.
pub const PEERS_MAX: u16 = 1024;
/// Maximum number of live broadcasts, whatever the configuration.
pub(crate) const LIVE_MAX: u16 = 1024;
/// Maximum number of pieces in flight to one peer, whatever the configuration.
pub const SENDS_IN_FLIGHT_MAX: u8 = 8;
/// Maximum size of a header's authenticator in bytes, whatever the configuration.
pub const AUTH_BYTES_MAX: u16 = 32 << 10;

/// Minimum memory of a state machine, in payloads: the cuts of [`Policy`] take up to eleven.
const PAYLOADS_PER_BROADCAST: u64 = 16;
/// One part in this many of the memory is for waiting headers.
const GATE_PART: u64 = 16;

/// A piece is late after this many times the maximum time for the uplink to send it. The uplink is shared, and piece
/// bytes are not all that is sent.
const LATE_TIMES: u64 = 4;

/// The table of duties as the driver knows it: which broadcasts are due.
///
/// Queried once for each new header, before any signature is checked.
pub trait Schedule: Send + Sync {
    /// Whether the source of `subject` currently has that duty.
    fn is_scheduled(&self, subject: &Subject) -> bool;
}

impl<F: Fn(&Subject) -> bool + Send + Sync> Schedule for F {
    fn is_scheduled(&self, subject: &Subject) -> bool {
        self(subject)
    }
}

/// What a source hides from its neighbours.
///
/// It protects against a single curious neighbour that reads fields. It does not protect against neighbours that
/// compare what they received (a relay of rank one shows them equal rows, the source different ones), against timing,
/// or against an observer of all links. Nor does it protect against a neighbour that lies: the source says that it
/// needs nothing when the first peer does, a relay only when it is complete. Until the number of pieces needed has been
/// sent, such a claim is certainly false and changes nothing; a later one makes a source speak earlier than a relay
/// would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourcePrivacy {
    /// Nothing: true hop and rank.
    None,
    /// First hop drawn from {1, 2}. The first chunk to a peer has the rank and row of a relay of rank one; later chunks
    /// have those of a relay whose rank rises. Only sources send a hop of one, so half of the broadcasts are hidden and
    /// the other half are not.
    #[default]
    Blend,
    /// All pieces of a generation go to one peer, which acts as the source. All nodes of a network must use this
    /// setting, or the peer treats the pieces like any others.
    Stem,
}

/// Parameters of a [`Broadcast`](super::Broadcast).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Network, and message bounds.
    pub limits: Limits,
    /// Maximum payload size in bytes.
    pub payload_bytes_max: u32,
    /// Whether pieces are forwarded. If not, the node is a leaf that only receives and publishes.
    pub relay: bool,
    /// How far pieces are pushed and how payloads are split. Together with `reference_uplink_bps` and
    /// `reference_latency_ns` this must be the same on all nodes of a network, or they reject each other's headers.
    pub policy: PolicyChoice,
    /// Uplink of this node in bits per second.
    pub uplink_bps: u64,
    /// Uplink that the policies assume, in bits per second.
    pub reference_uplink_bps: u64,
    /// One-way latency that the policies assume, in nanoseconds.
    pub reference_latency_ns: u64,
    /// What the source hides.
    pub source_privacy: SourcePrivacy,
    /// Maximum number of peers; they are numbered below this.
    pub peers_max: u16,
    /// Number of places that this node assigns to its peers, see [`Place`](super::Place): its target number of peers,
    /// at most [`PEERS_MAX`]. Further peers have none.
    pub places: u16,
    /// Maximum number of live broadcasts, not counting second headers of their subjects. If they or their bytes would
    /// exceed the bound, those of the greatest kind ([`Subject::kind`]) are evicted first, then those of the source
    /// with the most, then incomplete ones of the peers that carry the most.
    pub live_max: u16,
    /// Maximum number of live broadcasts per (kind, slot, source, index): the second is evidence.
    pub live_subject_max: u8,
    /// Maximum bytes used by all live broadcasts and waiting headers. A sixteenth is for the latter: beyond it, the
    /// newest header of the peer with the most is evicted. The rest is for broadcasts. A broadcast whose maximum memory
    /// would not be available even after evicting others is not accepted.
    pub memory_bytes_max: u64,
    /// Maximum number of waiting messages without a header, per peer and in total.
    pub orphans_peer_max: u8,
    /// See [`Config::orphans_peer_max`].
    pub orphans_max: u16,
    /// Time in nanoseconds that a message waits for its header.
    pub orphan_ttl_ns: u64,
    /// Time in nanoseconds that a piece waits before its sender is asked for the header.
    pub header_after_ns: u64,
    /// Maximum number of pieces per verification.
    pub verify_batch_max: u8,
    /// Maximum number of unverified pieces per peer and broadcast. An honest peer sends several in a row. All waiting
    /// pieces of a broadcast take at most two payloads, because only pieces that may raise the rank wait.
    pub unverified_peer_max: u8,
    /// Maximum number of pieces in flight to one peer. Each is answered by a [`SendReady`](super::Input::SendReady).
    pub sends_in_flight_peer_max: u8,
    /// Maximum time in nanoseconds for which pieces in flight to all peers occupy the uplink, not counting the first. A
    /// piece that has not left after four times its expected time is late and no longer counted: a peer that does not
    /// read occupies others' capacity no longer than that.
    pub sends_in_flight_ns: u64,
    /// Minimum time in nanoseconds between two RANK messages to a peer.
    pub feedback_interval_ns: u64,
    /// Nanoseconds without a new piece after which pieces are requested. It must be longer than a hop, or every node
    /// requests, between two bursts, what is already in flight to it.
    pub need_after_quiet_ns: u64,
    /// Number of peers asked at a time.
    pub need_peers: u8,
    /// Maximum number of request rounds without a new piece. Each waits twice as long as the previous one.
    pub need_rounds_max: u8,
    /// Maximum number of pieces sent to one peer on request, in multiples of all source chunks. The bound applies once
    /// before this node has everything, and once more afterwards.
    pub need_generations_max: u8,
    /// Lifetime of a broadcast in nanoseconds, starting at its header.
    pub broadcast_ttl_ns: u64,
    /// Combinations of at most this many elements (rows times elements) are drawn by the state machine itself, larger
    /// ones by a job. 2^16 take 0.16 ms (EPYC Zen 4, AVX-512), or 1 ms without vectors.
    pub draw_elements_max: u32,
}

impl Default for Config {
    /// The table of the specification, with a lifetime of two slots of 12 s, 50 Mbit/s up (EIP-7870's full node) and 70
    /// ms.
    fn default() -> Self {
        Self {
            limits: Limits {
                network_id: [0; 32],
                header_auth_bytes_max: 4096,
            },
            payload_bytes_max: 16 << 20,
            relay: true,
            policy: PolicyChoice::Auto,
            uplink_bps: 50_000_000,
            reference_uplink_bps: 50_000_000,
            reference_latency_ns: 70_000_000,
            source_privacy: SourcePrivacy::Blend,
            peers_max: PEERS_MAX,
            places: 100,
            live_max: 64,
            live_subject_max: 2,
            memory_bytes_max: 4 << 30,
            orphans_peer_max: 4,
            orphans_max: 64,
            orphan_ttl_ns: 500_000_000,
            header_after_ns: 50_000_000,
            verify_batch_max: 64,
            unverified_peer_max: 8,
            sends_in_flight_peer_max: 2,
            sends_in_flight_ns: 5_000_000,
            feedback_interval_ns: 25_000_000,
            need_after_quiet_ns: 100_000_000,
            need_peers: 2,
            need_rounds_max: 12,
            need_generations_max: 1,
            broadcast_ttl_ns: 24_000_000_000,
            draw_elements_max: 1 << 16,
        }
    }
}

/// A parameter that is out of range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A number beyond its bounds.
    #[error("{name} = {value}, must be {min} to {max}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: u64,
        /// Minimum legal value.
        min: u64,
        /// Maximum legal value.
        max: u64,
    },
}

fn range(name: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::Range {
            name,
            value,
            min,
            max,
        })
    }
}

impl Config {
    /// Checks every parameter.
    ///
    /// # Errors
    ///
    /// The first parameter that is out of bounds, with the bounds.
    pub fn validate(&self) -> Result<(), ConfigError> {
        /// Checks a field under its name.
        macro_rules! within {
            ($of:ident.$field:ident, $min:expr, $max:expr) => {
                range(stringify!($field), $of.$field.into(), $min, $max.into())
            };
        }
        let (limits, hour_ns) = (&self.limits, 3_600_000_000_000_u64);
        within!(self.payload_bytes_max, 1, PAYLOAD_BYTES_MAX)?;
        within!(limits.header_auth_bytes_max, 0, AUTH_BYTES_MAX)?;
        within!(self.uplink_bps, 1, 1_u64 << 50)?;
        within!(self.reference_uplink_bps, 1, 1_u64 << 50)?;
        within!(self.reference_latency_ns, 0, hour_ns)?;
        within!(self.peers_max, 1, PEERS_MAX)?;
        within!(self.live_max, 1, LIVE_MAX)?;
        within!(self.live_subject_max, 1, 2_u64)?;
        within!(self.orphans_peer_max, 0, 64_u64)?;
        within!(self.orphans_max, 0, 4096_u64)?;
        within!(self.orphan_ttl_ns, 1, hour_ns)?;
        within!(self.header_after_ns, 1, hour_ns)?;
        within!(self.places, 0, PEERS_MAX)?;
        within!(self.verify_batch_max, 1, 64_u64)?;
        within!(self.unverified_peer_max, 1, 64_u64)?;
        within!(self.sends_in_flight_peer_max, 1, SENDS_IN_FLIGHT_MAX)?;
        within!(self.sends_in_flight_ns, 0, hour_ns)?;
        within!(self.feedback_interval_ns, 1, hour_ns)?;
        within!(self.need_after_quiet_ns, 1, hour_ns)?;
        within!(self.need_peers, 0, 16_u64)?;
        within!(self.need_rounds_max, 0, 32_u64)?;
        within!(self.need_generations_max, 0, 16_u64)?;
        within!(self.broadcast_ttl_ns, 1, hour_ns)?;
        // For one broadcast of the longest payload, whatever the policy.
        let least = u64::from(self.payload_bytes_max) * PAYLOADS_PER_BROADCAST;
        within!(self.memory_bytes_max, least, u64::MAX)
    }

    /// Returns the policy for a payload of `len` bytes, scaled to this node's uplink.
    pub fn policy_for(&self, len: u32) -> Policy {
        let policy = match self.policy {
            PolicyChoice::Fixed(policy) => policy,
            PolicyChoice::Auto => {
                Policy::auto(len, self.reference_uplink_bps, self.reference_latency_ns)
            }
        };
        policy.scaled(self.uplink_bps, self.reference_uplink_bps)
    }

    /// Maximum bytes in flight to all peers; beyond it only the first piece is sent.
    pub(super) fn in_flight_bytes_max(&self) -> u64 {
        let bits = u128::from(self.uplink_bps) * u128::from(self.sends_in_flight_ns);
        u64::try_from(bits / 8_000_000_000).unwrap_or(u64::MAX)
    }

    /// Maximum bytes used by headers waiting for verification.
    pub(super) fn gate_bytes_max(&self) -> u64 {
        self.memory_bytes_max / GATE_PART
    }

    /// Maximum bytes used by live broadcasts.
    pub(super) fn live_bytes_max(&self) -> u64 {
        self.memory_bytes_max - self.gate_bytes_max()
    }

    /// Nanoseconds after which this many bytes in flight to a peer are late.
    pub(super) fn late_after_ns(&self, bytes: u32) -> u64 {
        let own_ns = u128::from(bytes) * 8_000_000_000 / u128::from(self.uplink_bps);
        let own_ns = u64::try_from(own_ns).unwrap_or(u64::MAX);
        LATE_TIMES.saturating_mul(own_ns.saturating_add(self.sends_in_flight_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_legal_and_bounds_are_named() {
        assert_eq!(Config::default().validate(), Ok(()));
        let error = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        assert!(error(|c| c.payload_bytes_max = 0).starts_with("payload_bytes_max = 0, must be 1"));
        assert!(error(|c| c.verify_batch_max = 65).contains("1 to 64"));
        assert!(error(|c| c.sends_in_flight_peer_max = 9).contains("1 to 8"));
        assert!(error(|c| c.live_max = 1025).contains("1 to 1024"));
        assert!(error(|c| c.memory_bytes_max = 1 << 20).contains("must be 268435456"));
        assert!(error(|c| c.peers_max = 1025).contains("peers_max"));
        assert!(error(|c| c.live_subject_max = 3).contains("live_subject_max"));
    }

    #[test]
    fn policies_follow_length_and_uplink() {
        let config = Config {
            uplink_bps: 160_000_000,
            reference_uplink_bps: 160_000_000,
            ..Config::default()
        };
        assert_eq!(config.policy_for(121_600), Policy::SMALL);
        assert_eq!(config.in_flight_bytes_max(), 100_000);
        assert_eq!(config.late_after_ns(100_000), 40_000_000);
        let slow = Config {
            uplink_bps: 80_000_000,
            ..config
        };
        assert_eq!(slow.policy_for(121_600).burst, [60, 43, 0]);
    }
}
