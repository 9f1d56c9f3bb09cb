//! Parameters of a broadcasting node.

use super::message::Limits;
use super::policy::{Policy, PolicyChoice};
use crate::rlnc::{PAYLOAD_BYTES_MAX, Subject};
use thiserror::Error;

/// Most peers of a machine; they are numbered below.
pub const PEERS_MAX: u16 = 1024;
/// Most broadcasts alive at a time, whatever the configuration.
pub(crate) const LIVE_MAX: u16 = 1024;
/// Most pieces on the way to one peer, whatever the configuration.
pub const SENDS_IN_FLIGHT_MAX: u8 = 8;
/// Most bytes of a header's authenticator, whatever the configuration.
pub const AUTH_BYTES_MAX: u16 = 32 << 10;

/// Payloads of memory that a machine must have at least: the cuts of [`Policy`] take up to eleven.
const PAYLOADS_PER_BROADCAST: u64 = 16;
/// Of its memory one part in so many is for headers that wait.
const GATE_PART: u64 = 16;

/// A piece is late after so many times what the uplink takes at most until it has left: others share
/// it, and bytes of a piece are not all that is sent.
const LATE_TIMES: u64 = 4;

/// Which broadcasts are due: the table of duties, as the driver knows it.
///
/// Asked once for each new header, before any signature is checked.
pub trait Schedule: Send + Sync {
    /// Whether the source of `subject` has that duty now.
    fn is_scheduled(&self, subject: &Subject) -> bool;
}

impl<F: Fn(&Subject) -> bool + Send + Sync> Schedule for F {
    fn is_scheduled(&self, subject: &Subject) -> bool {
        self(subject)
    }
}

/// What a source hides from its neighbours.
///
/// It protects against one curious neighbour that reads fields. It does not protect against
/// neighbours that compare what they got (a relay of rank one shows them equal rows, the source
/// different ones), against timing, or against whoever sees all links. Nor against one that lies: the source
/// says that it needs nothing when the first peer does, and a relay only when it is complete. Before as
/// many pieces have left as are needed such a claim is false for sure and changes nothing; one after that
/// makes a source speak earlier than a relay would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourcePrivacy {
    /// Nothing: true hop and rank.
    None,
    /// First hop from {1, 2}; in the first chunk to a peer the rank and the row of a relay of rank
    /// one, later those of a relay whose rank rises. A hop of one is said by sources alone, so half
    /// of the broadcasts are hidden, and the other half are not.
    #[default]
    Blend,
    /// All pieces of a generation go to one peer, which acts as the source. All nodes of a network
    /// must be configured so, or the peer treats the pieces as any others.
    Stem,
}

/// Parameters of a [`Broadcast`](super::Broadcast).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Network, and bounds of messages.
    pub limits: Limits,
    /// Bytes of a payload, at most.
    pub payload_bytes_max: u32,
    /// Whether pieces are sent on; without, the node is a leaf that only receives and publishes.
    pub relay: bool,
    /// How far pieces are pushed, and how payloads are cut: with `reference_uplink_bps` and
    /// `reference_latency_ns` the same on all nodes of a network, or they refuse each other's headers.
    pub policy: PolicyChoice,
    /// Uplink of this node, bits a second.
    pub uplink_bps: u64,
    /// Uplink for which policies are made, bits a second.
    pub reference_uplink_bps: u64,
    /// One-way latency for which policies are made, nanoseconds.
    pub reference_latency_ns: u64,
    /// What the source hides.
    pub source_privacy: SourcePrivacy,
    /// Peers, at most; they are numbered below.
    pub peers_max: u16,
    /// Places that this node deals to its peers, see [`Place`](super::Place): as many as it seeks to
    /// have, at most [`PEERS_MAX`]. Peers beyond have none.
    pub places: u16,
    /// Broadcasts alive, at most, without the second headers of their subjects. Where they or their
    /// bytes would be more, those of the greatest kind ([`Subject::kind`]) give way first, and of it
    /// those of the source that has most, then those of the peers that carry most that are not complete.
    pub live_max: u16,
    /// Broadcasts of one (kind, slot, source, index) alive, at most: the second is evidence.
    pub live_subject_max: u8,
    /// Bytes that all live broadcasts and the headers that wait may take. A sixteenth is for the latter:
    /// where they are more, the newest of the peer that has most gives way. The rest is for broadcasts: one
    /// that could not have all that may be kept of it, even if others give way, is not taken.
    pub memory_bytes_max: u64,
    /// Messages without header that wait, of one peer and of all, at most.
    pub orphans_peer_max: u8,
    /// See [`Config::orphans_peer_max`].
    pub orphans_max: u16,
    /// Nanoseconds that a message waits for its header.
    pub orphan_ttl_ns: u64,
    /// A piece that has waited so long for its header has its sender asked for it, in ns.
    pub header_after_ns: u64,
    /// Pieces in one verification, at most.
    pub verify_batch_max: u8,
    /// Unverified pieces of one peer and broadcast, at most. An honest peer sends several in a row;
    /// all that wait of a broadcast are at most two payloads, because only what may raise the rank
    /// waits.
    pub unverified_peer_max: u8,
    /// Pieces on the way to one peer, at most: each is answered by a
    /// [`SendReady`](super::Input::SendReady).
    pub sends_in_flight_peer_max: u8,
    /// Pieces on the way to all peers take the uplink for at most so long, but for the first;
    /// nanoseconds. What did not leave in four times so long as it should is late, and not counted:
    /// a peer that does not read takes no other's room for longer.
    pub sends_in_flight_ns: u64,
    /// Nanoseconds between two RANK messages to a peer, at least.
    pub feedback_interval_ns: u64,
    /// Nanoseconds without a new piece after which pieces are asked for. Longer than a hop, or every
    /// node asks between two bursts for what is on its way to it.
    pub need_after_quiet_ns: u64,
    /// Peers asked at a time.
    pub need_peers: u8,
    /// Rounds of asking without a new piece, at most; each waits twice as long as the one before.
    pub need_rounds_max: u8,
    /// Pieces sent to one peer on request, at most, in multiples of all source chunks: so many before
    /// this node has everything, and so many afterwards.
    pub need_generations_max: u8,
    /// Nanoseconds from the header to the end of a broadcast.
    pub broadcast_ttl_ns: u64,
    /// Combinations of at most so many elements (rows times elements) are drawn by the machine
    /// itself, larger ones by a job: 2^16 take 0.16 ms (EPYC Zen 4, AVX-512), without vectors 1 ms.
    pub draw_elements_max: u32,
}

impl Default for Config {
    /// The table of the specification, with two slots of 12 s as the life of a broadcast, 50
    /// Mbit/s up (EIP-7870's full node) and 70 ms.
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

/// A parameter out of range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A number beyond its bounds.
    #[error("{name} = {value}, must be {min} to {max}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: u64,
        /// Least legal value.
        min: u64,
        /// Greatest legal value.
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
    /// The first that is out of its bounds, with the bounds.
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
        // One of the longest payload, whatever the policy.
        let least = u64::from(self.payload_bytes_max) * PAYLOADS_PER_BROADCAST;
        within!(self.memory_bytes_max, least, u64::MAX)
    }

    /// The policy for a payload of `len` bytes, scaled to the own uplink.
    pub fn policy_for(&self, len: u32) -> Policy {
        let policy = match self.policy {
            PolicyChoice::Fixed(policy) => policy,
            PolicyChoice::Auto => {
                Policy::auto(len, self.reference_uplink_bps, self.reference_latency_ns)
            }
        };
        policy.scaled(self.uplink_bps, self.reference_uplink_bps)
    }

    /// Bytes on the way to all peers, at most, beyond which only the first piece is sent.
    pub(super) fn in_flight_bytes_max(&self) -> u64 {
        let bits = u128::from(self.uplink_bps) * u128::from(self.sends_in_flight_ns);
        u64::try_from(bits / 8_000_000_000).unwrap_or(u64::MAX)
    }

    /// Bytes that headers may take which wait to be verified.
    pub(super) fn gate_bytes_max(&self) -> u64 {
        self.memory_bytes_max / GATE_PART
    }

    /// Bytes that live broadcasts may take.
    pub(super) fn live_bytes_max(&self) -> u64 {
        self.memory_bytes_max - self.gate_bytes_max()
    }

    /// Nanoseconds after which so many bytes on the way to a peer are late.
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
