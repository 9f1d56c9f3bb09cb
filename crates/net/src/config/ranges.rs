//! The bounds of every number.

use alphorn_types::{COMMITTEES_MAX, LEVELS_MAX, SUBCOMMITTEES_MAX};

use super::{Config, KIB, MIB, PEERS_MAX, SUBSCRIPTIONS_LIMIT, TOKENS_LIMIT};
use crate::frame::CHUNK_BYTES_LIMIT;
use alphorn_types::Kind;

/// A number: its name, its value, and the least and the most that it may be.
type Range = (&'static str, u64, u64, u64);

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
        let mut ranges = vec![
            ("listen", self.listen.len() as u64, 0, 16),
            ("peers", self.peers.len() as u64, 0, 4096),
            ("requests", self.requests.len() as u64, 0, 16),
            (
                "committees",
                self.committees.into(),
                1,
                COMMITTEES_MAX.into(),
            ),
            (
                "subcommittees",
                self.subcommittees.into(),
                1,
                SUBCOMMITTEES_MAX.into(),
            ),
            (
                "combining_units",
                self.combining_units.into(),
                0,
                u64::from(LEVELS_MAX) * u64::from(SUBCOMMITTEES_MAX),
            ),
            ("slot_ms", self.slot_ms, 100, 3_600_000),
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
        let delay_ms = gossip.heartbeat_initial_delay_ms;
        let (history, mesh) = (gossip.history as u64, gossip.mesh as u64);
        vec![
            ("mesh_low", gossip.mesh_low as u64, 1, mesh),
            ("mesh", mesh, 1, gossip.mesh_high as u64),
            ("mesh_high", gossip.mesh_high as u64, 1, 64),
            ("heartbeat_ms", gossip.heartbeat_ms, 100, 60_000),
            ("heartbeat_initial_delay_ms", delay_ms, 0, 60_000),
            ("history", history, 1, 64),
            ("history_gossip", gossip.history_gossip as u64, 1, history),
            ("seen_slots", gossip.seen_slots.into(), 1, 64),
            (
                "idontwant_bytes_min",
                gossip.idontwant_bytes_min as u64,
                0,
                1 << 32,
            ),
        ]
    }

    fn connection_ranges(&self) -> Vec<Range> {
        let limits = &self.limits;
        let process_bytes = limits.process_bytes_max as u64;
        let peers = limits.peers_max.into();
        vec![
            ("peers_max", peers, 1, PEERS_MAX.into()),
            ("peers_in_max", limits.peers_in_max.into(), 0, peers),
            ("pending_in_max", limits.pending_in_max.into(), 1, 1024),
            ("pending_out_max", limits.pending_out_max.into(), 1, 1024),
            ("knocks_per_s_max", limits.knocks_per_s_max.into(), 1, 1024),
            (
                "process_bytes_max",
                process_bytes,
                64 * MIB as u64,
                u64::MAX,
            ),
            (
                "peer_bytes_per_s_max",
                limits.peer_bytes_per_s_max,
                64 * KIB as u64,
                1 << 40,
            ),
            ("ban_ms", limits.ban_ms, 1, 1 << 40),
        ]
    }

    /// A queue must hold two of the longest messages: what it holds of one kind is three quarters.
    fn queue_ranges(&self) -> Vec<Range> {
        let limits = &self.limits;
        let longest = self.message_bytes_max();
        let in_min = 2 * longest.max(limits.frame_bytes_max) as u64;
        let (inbox, outbox) = (limits.inbox_messages_max, limits.outbox_messages_max);
        vec![
            (
                "subscriptions_max",
                limits.subscriptions_max as u64,
                1,
                SUBSCRIPTIONS_LIMIT as u64,
            ),
            ("inbox_messages_max", inbox as u64, 16, 1 << 20),
            (
                "inbox_bytes_max",
                limits.inbox_bytes_max as u64,
                in_min,
                1 << 36,
            ),
            ("outbox_messages_max", outbox as u64, 16, 1 << 20),
            (
                "outbox_reserved",
                limits.outbox_reserved as u64,
                0,
                (outbox as u64).saturating_sub(1),
            ),
            (
                "outbox_bytes_max",
                limits.outbox_bytes_max as u64,
                2 * longest as u64,
                1 << 36,
            ),
            (
                "tokens_max",
                limits.tokens_max as u64,
                16,
                TOKENS_LIMIT as u64,
            ),
        ]
    }

    /// The numbers of requests and frames with their bounds.
    fn exchange_ranges(&self) -> Vec<Range> {
        let limits = &self.limits;
        let largest = self.requests.iter().map(|r| r.response_bytes_max).max();
        vec![
            (
                "requests_per_peer_max",
                limits.requests_per_peer_max as u64,
                1,
                limits.requests_max as u64,
            ),
            ("requests_max", limits.requests_max as u64, 1, 4096),
            (
                "request_timeout_ms",
                limits.request_timeout_ms,
                100,
                600_000,
            ),
            (
                "responses_bytes_max",
                limits.responses_bytes_max as u64,
                largest.unwrap_or(1) as u64,
                1 << 36,
            ),
            (
                "serve_bytes_per_s_max",
                limits.serve_bytes_per_s_max,
                64 * 1024,
                1 << 40,
            ),
            (
                "serve_all_bytes_per_s_max",
                limits.serve_all_bytes_per_s_max,
                limits.serve_bytes_per_s_max,
                1 << 40,
            ),
            (
                "frames_per_s_max",
                limits.frames_per_s_max.into(),
                1,
                1 << 20,
            ),
            (
                "requests_per_s_max",
                limits.requests_per_s_max.into(),
                1,
                1 << 16,
            ),
            (
                "frame_bytes_max",
                limits.frame_bytes_max as u64,
                1,
                CHUNK_BYTES_LIMIT as u64,
            ),
            (
                "send_queue_bytes_max",
                limits.send_queue_bytes_max as u64,
                limits.frame_bytes_max as u64,
                1 << 32,
            ),
            (
                "send_queue_frames_max",
                limits.send_queue_frames_max as u64,
                1,
                1 << 16,
            ),
        ]
    }
}
