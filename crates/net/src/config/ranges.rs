//! The bounds of every number.

use alphorn_types::{COMMITTEES_MAX, LEVELS_MAX, SUBCOMMITTEES_MAX};

use super::{Config, KIB, MIB, PEERS_MAX, SUBSCRIPTIONS_LIMIT, TOKENS_LIMIT};
use crate::frame::CHUNK_BYTES_LIMIT;
use alphorn_types::Kind;

/// A number: its name, its value, and its smallest and largest allowed value.
type Range = (&'static str, u64, u64, u64);

/// A field under its name, and its bounds.
macro_rules! range {
    ($of:ident.$field:ident, $min:expr, $max:expr) => {
        (
            stringify!($field),
            number($of.$field),
            number($min),
            number($max),
        )
    };
}

fn number(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(u64::MAX)
}

impl Config {
    /// Every number with its bounds.
    pub(super) fn ranges(&self) -> Vec<Range> {
        let mut ranges = self.layout_ranges();
        ranges.extend(self.gossip_ranges());
        ranges.extend(self.connection_ranges());
        ranges.extend(self.queue_ranges());
        ranges.extend(self.exchange_ranges());
        ranges
    }

    fn layout_ranges(&self) -> Vec<Range> {
        let combining = u64::from(LEVELS_MAX) * u64::from(SUBCOMMITTEES_MAX);
        let mut ranges = vec![
            ("listen", self.listen.len() as u64, 0, 16),
            ("peers", self.peers.len() as u64, 0, 4096),
            ("requests", self.requests.len() as u64, 0, 16),
            range!(self.committees, 1, COMMITTEES_MAX),
            range!(self.subcommittees, 1, SUBCOMMITTEES_MAX),
            range!(self.combining_units, 0, combining),
            range!(self.slot_ms, 100, 3_600_000),
        ];
        for kind in Kind::ALL {
            let bytes = self.topic_bytes_max.get(kind) as u64;
            ranges.push((kind.name(), bytes, 1, 64 * MIB as u64));
            let messages = self.topic_messages_per_slot.get(kind).into();
            ranges.push((kind.name(), messages, 1, 1 << 24));
        }
        ranges
    }

    fn gossip_ranges(&self) -> Vec<Range> {
        let gossip = &self.gossip;
        vec![
            range!(gossip.mesh_low, 1, gossip.mesh),
            range!(gossip.mesh, 1, gossip.mesh_high),
            range!(gossip.mesh_high, 1, 64),
            range!(gossip.heartbeat_ms, 100, 60_000),
            range!(gossip.heartbeat_initial_delay_ms, 0, 60_000),
            range!(gossip.history, 1, 64),
            range!(gossip.history_gossip, 1, gossip.history),
            range!(gossip.seen_slots, 1, 64),
            range!(gossip.idontwant_bytes_min, 0, 1_u64 << 32),
        ]
    }

    fn connection_ranges(&self) -> Vec<Range> {
        let limits = &self.limits;
        vec![
            range!(limits.peers_max, 1, PEERS_MAX),
            range!(limits.peers_in_max, 0, limits.peers_max),
            range!(limits.pending_in_max, 1, 1024),
            range!(limits.pending_out_max, 1, 1024),
            range!(limits.knocks_per_s_max, 1, 1024),
            range!(limits.process_bytes_max, 64 * MIB, u64::MAX),
            range!(limits.peer_bytes_per_s_max, 64 * KIB, 1_u64 << 40),
            range!(limits.ban_ms, 1, 1_u64 << 40),
        ]
    }

    /// A queue must hold two of the longest messages, because one kind may use three quarters of
    /// it.
    fn queue_ranges(&self) -> Vec<Range> {
        let limits = &self.limits;
        let longest = self.message_bytes_max();
        let in_min = 2 * longest.max(limits.frame_bytes_max);
        let reserved_max = limits.outbox_messages_max.saturating_sub(1);
        vec![
            range!(limits.subscriptions_max, 1, SUBSCRIPTIONS_LIMIT),
            range!(limits.inbox_messages_max, 16, 1 << 20),
            range!(limits.inbox_bytes_max, in_min, 1_u64 << 36),
            range!(limits.outbox_messages_max, 16, 1 << 20),
            range!(limits.outbox_reserved, 0, reserved_max),
            range!(limits.outbox_bytes_max, 2 * longest, 1_u64 << 36),
            range!(limits.tokens_max, 16, TOKENS_LIMIT),
        ]
    }

    /// The numbers of requests and frames with their bounds.
    fn exchange_ranges(&self) -> Vec<Range> {
        let limits = &self.limits;
        let responses = self.requests.iter().map(|r| r.response_bytes_max);
        let (largest, to_one) = (responses.max().unwrap_or(1), limits.serve_bytes_per_s_max);
        vec![
            range!(limits.requests_per_peer_max, 1, limits.requests_max),
            range!(limits.requests_max, 1, 4096),
            range!(limits.request_timeout_ms, 100, 600_000),
            range!(limits.responses_bytes_max, largest, 1_u64 << 36),
            // A bucket holds one second of its rate, and a piece of `WRITE_BYTES` must fit, or it
            // would wait for ever.
            range!(limits.serve_bytes_per_s_max, 64 * KIB, 1_u64 << 40),
            range!(limits.serve_all_bytes_per_s_max, to_one, 1_u64 << 40),
            range!(limits.frames_per_s_max, 1, 1 << 20),
            range!(limits.requests_per_s_max, 1, 1 << 16),
            range!(limits.frame_bytes_max, 1, CHUNK_BYTES_LIMIT),
            range!(
                limits.send_queue_bytes_max,
                limits.frame_bytes_max,
                1_u64 << 32
            ),
            range!(limits.send_queue_frames_max, 1, 1 << 16),
        ]
    }
}
