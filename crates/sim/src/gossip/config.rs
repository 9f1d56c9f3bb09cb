//! Parameters of the mesh.

use super::PEERS_MAX;
use crate::scenario;
use thiserror::Error;

/// Parameters of a [`Gossip`](super::Gossip). The defaults are those of Ethereum's consensus
/// networks (consensus-specs, phase0/p2p-interface.md) and, where those leave a value open, of
/// GossipSub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// Target mesh degree of grafting and pruning (D).
    pub degree: u8,
    /// Mesh degree below which peers are grafted.
    pub degree_low: u8,
    /// Mesh degree above which peers are pruned, and at which a GRAFT is rejected.
    pub degree_high: u8,
    /// Minimum number of peers outside the mesh that get an announcement; a quarter of them if that
    /// is more.
    pub degree_lazy: u8,
    /// Nanoseconds between heartbeats.
    pub heartbeat_ns: u64,
    /// Heartbeats for which a message can be requested.
    pub history_beats: u8,
    /// Heartbeats for which a message is announced.
    pub gossip_beats: u8,
    /// Minimum time in nanoseconds for which a message identity is remembered.
    pub seen_ttl_ns: u64,
    /// Size in bytes above which further copies of a message are declined in advance (IDONTWANT);
    /// none = never.
    pub refuse_above_bytes: Option<u64>,
    /// Whether to send own messages to every peer rather than the mesh.
    pub flood_publish: bool,
    /// Whether to ask the layer above before forwarding a message; otherwise every message is
    /// accepted.
    pub validate: bool,
    /// Maximum number of messages kept to answer requests; the oldest is dropped first.
    pub history_max: u32,
    /// Maximum total bytes of the messages kept; the newest message is kept whatever its size.
    pub history_bytes_max: u64,
    /// Maximum number of messages waiting for a verdict.
    pub waiting_max: u16,
    /// Maximum number of those first sent by one peer, once half of the slots are taken.
    pub waiting_peer_max: u16,
    /// Maximum number of identities in the announcements of one peer per heartbeat.
    pub announced_beat_max: u32,
    /// Maximum number of announcements of one peer per heartbeat.
    pub announcements_beat_max: u16,
    /// Maximum number of identities of unknown messages in one peer's IDONTWANT per heartbeat.
    pub refused_beat_max: u32,
    /// Maximum number of records of unknown messages (requested from a peer, or declined by it in
    /// advance) that one peer may cause.
    pub ahead_peer_max: u16,
    /// Maximum number of messages sent on request to one peer per heartbeat.
    pub answers_beat_max: u16,
    /// Maximum bytes sent on request to one peer per heartbeat, not counting the first message.
    pub answer_bytes_beat_max: u64,
    /// Maximum number of identities in an announcement.
    pub ids_max: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            degree: 8,
            degree_low: 6,
            degree_high: 12,
            degree_lazy: 6,
            heartbeat_ns: 700_000_000,
            history_beats: 6,
            gossip_beats: 3,
            seen_ttl_ns: 24_000_000_000,
            refuse_above_bytes: Some(1000),
            flood_publish: false,
            validate: true,
            history_max: 4096,
            history_bytes_max: 64 << 20,
            waiting_max: 4096,
            waiting_peer_max: 1024,
            announced_beat_max: 10_000,
            announcements_beat_max: 10,
            refused_beat_max: 10_000,
            ahead_peer_max: 1024,
            answers_beat_max: 2048,
            answer_bytes_beat_max: 8 << 20,
            // 60 kB, within the 64 KiB that networks allow for control messages.
            ids_max: 3000,
        }
    }
}

/// Parameters that are invalid for a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A parameter is below its minimum.
    #[error("{name} = {value}, must be at least {min}")]
    Small {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: u64,
        /// Minimum allowed.
        min: u64,
    },
    /// A parameter is above its maximum.
    #[error("{name} = {value}, must be at most {max}")]
    Large {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: u64,
        /// Maximum allowed.
        max: u64,
    },
}

/// Converts a parameter that must fit in a byte.
fn byte(name: &'static str, value: u32) -> Result<u8, ConfigError> {
    u8::try_from(value).map_err(|_| ConfigError::Large {
        name,
        value: value.into(),
        max: PEERS_MAX as u64,
    })
}

impl Config {
    /// Mesh configuration of a scenario; `validates` sets [`Config::validate`].
    ///
    /// # Errors
    ///
    /// [`ConfigError`], as for [`Config::check`].
    pub(crate) fn of(gossip: &scenario::Gossip, validates: bool) -> Result<Self, ConfigError> {
        let ms = |ms: u64| ms.saturating_mul(1_000_000);
        let refused = gossip.idontwant_bytes;
        let config = Self {
            degree: byte("degree", gossip.mesh)?,
            degree_low: byte("degree_low", gossip.mesh_low)?,
            degree_high: byte("degree_high", gossip.mesh_high)?,
            degree_lazy: byte("degree_lazy", gossip.lazy)?,
            heartbeat_ns: ms(gossip.heartbeat_ms),
            history_beats: byte("history_beats", gossip.history)?,
            gossip_beats: byte("gossip_beats", gossip.announced)?,
            seen_ttl_ns: ms(gossip.seen_ms),
            refuse_above_bytes: (refused > 0).then_some(refused),
            flood_publish: gossip.flood_publish,
            validate: validates,
            ..Self::default()
        };
        config.check()?;
        Ok(config)
    }

    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the first parameter out of bounds, and the bound.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let (degree, peers) = (u64::from(self.degree), PEERS_MAX as u64);
        let (beats, waiting) = (self.history_beats.into(), self.waiting_max.into());
        /// A field with its name and its bounds.
        macro_rules! field {
            ($name:ident, $min:expr, $max:expr) => {
                (stringify!($name), u64::from(self.$name), $min, $max)
            };
        }
        for (name, value, min, max) in [
            field!(degree, 1, peers),
            field!(degree_low, 0, degree),
            field!(degree_high, degree, peers),
            field!(degree_lazy, 0, peers),
            field!(heartbeat_ns, 1_000_000, u64::MAX),
            field!(history_beats, 1, 64),
            field!(gossip_beats, 0, beats),
            field!(seen_ttl_ns, self.heartbeat_ns, u64::MAX),
            field!(history_max, 1, 1 << 20),
            field!(waiting_max, 1, 1 << 15),
            field!(waiting_peer_max, 1, waiting),
            field!(ids_max, 1, u64::MAX),
        ] {
            if value < min {
                return Err(ConfigError::Small { name, value, min });
            }
            if value > max {
                return Err(ConfigError::Large { name, value, max });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_checked_and_named() {
        assert_eq!(Config::default().check(), Ok(()));
        let error = Config {
            degree_low: 9,
            ..Config::default()
        }
        .check()
        .unwrap_err();
        assert_eq!(error.to_string(), "degree_low = 9, must be at most 8");
        let error = Config {
            heartbeat_ns: 0,
            ..Config::default()
        }
        .check()
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "heartbeat_ns = 0, must be at least 1000000"
        );
    }
}
