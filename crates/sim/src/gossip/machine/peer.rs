//! The quotas that a peer has used, and its penalties.

use super::super::Reject;
use alphorn_proto::Peer;
use alphorn_types::Time;

/// Heartbeats after which one point of a penalty is forgiven: an invalid message, which costs twenty points, is
/// forgiven after ten minutes.
const FORGIVE_BEATS: u32 = 43;

/// The state of one peer.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerState {
    /// Earliest time for the next GRAFT; zero if there was no PRUNE.
    pub(super) backoff: Time,
    /// When the peer last sent something that it was asked for.
    pub(super) kept: Time,
    /// Penalty points, and the heartbeat from which forgiveness is counted.
    pub(super) penalty: u16,
    pub(super) forgiven: u32,
    /// Number of records of unknown messages that the peer caused.
    pub(super) ahead: u16,
    budget: Budget,
}

/// A peer's usage of the quotas of one heartbeat.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    beat: u32,
    /// Bytes sent on request, saturating.
    pub(super) answer_bytes: u32,
    pub(super) announced: u32,
    pub(super) refused: u32,
    pub(super) announcements: u16,
    pub(super) answers: u16,
    /// Bits of the reasons already reported.
    pub(super) reported: u16,
    /// Whether a PRUNE was sent to it.
    pub(super) pruned: bool,
}

const _: () = assert!(Reject::NAMES.len() <= 16, "a bit for each reason");
const _: () = assert!(
    size_of::<PeerState>() == 48,
    "a node of a million has some twenty"
);

impl PeerState {
    /// The usage in the heartbeat interval `beat`.
    pub(super) fn budget(&mut self, beat: u32) -> &mut Budget {
        // Reset when next used, so that no heartbeat is needed for it.
        if self.budget.beat != beat {
            self.budget = Budget {
                beat,
                ..Budget::default()
            };
        }
        &mut self.budget
    }

    /// Forgives what is due and returns the remaining penalty.
    pub(super) fn forgive(&mut self, beat: u32) -> u16 {
        let points = beat.saturating_sub(self.forgiven) / FORGIVE_BEATS;
        // Advanced by whole points only, so that the remainder counts towards the next one, however often this
        // is called.
        self.forgiven += points * FORGIVE_BEATS;
        self.penalty = self
            .penalty
            .saturating_sub(u16::try_from(points).unwrap_or(u16::MAX));
        self.penalty
    }
}

/// The state of a connected peer, created when it is first written; most peers never use any quota.
pub(super) fn state_of(peers: &mut Vec<PeerState>, peer: Peer) -> &mut PeerState {
    let slot = peer.0 as usize;
    if slot >= peers.len() {
        // Exactly as long as needed: doubling would waste memory at each node of a large run.
        peers.reserve_exact(slot + 1 - peers.len());
        peers.resize_with(slot + 1, PeerState::default);
    }
    &mut peers[slot]
}

/// The state of a peer, if it differs from that of a peer that has just connected.
pub(super) fn of_peer(peers: &[PeerState], peer: Peer) -> Option<&PeerState> {
    peers.get(peer.0 as usize)
}
