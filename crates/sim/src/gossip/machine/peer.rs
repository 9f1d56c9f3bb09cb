//! The quotas that a peer has used, and its penalties.

use super::super::{Ids, Message, Output, PEERS_MAX, Payload, PeerSet, Priority, Reject};
use super::Gossip;
use alphorn_proto::Peer;
use alphorn_types::Time;

/// Penalty from which announcements are neither sent nor accepted.
const GOSSIP_PENALTY: u16 = 20;
/// Penalty from which own messages are not sent.
const PUBLISH_PENALTY: u16 = 40;
/// Penalty from which all messages are rejected.
const GRAYLIST_PENALTY: u16 = 80;
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
    forgiven: u32,
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
    reported: u16,
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
    fn forgive(&mut self, beat: u32) -> u16 {
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

impl<P: Payload> Gossip<P> {
    pub(super) fn peer_up(&mut self, peer: Peer) {
        if peer.0 >= PEERS_MAX as u64 {
            return self.rest.refused.add(Reject::Stranger);
        }
        if self.rest.up.contains(peer) {
            return;
        }
        let one = PeerSet::one(peer);
        self.rest.up = self.rest.up.or(one);
        self.hot.taken = self.hot.taken.or(one);
        if self.rest.mesh.len() < usize::from(self.rest.config.degree_low) {
            self.wake();
        }
        self.introduce(one);
    }

    /// Announces to a new peer everything that it can still request. Heartbeats announce only new messages, so a
    /// peer that was away would never learn of the rest.
    fn introduce(&mut self, peer: PeerSet) {
        if self.rest.history.is_empty() {
            return;
        }
        let max = usize::from(self.rest.config.ids_max);
        if let Some(ids) = Ids::new(self.rest.history.announce(0, max)) {
            self.send(peer, Message::IHave(ids), Priority::Answer);
        }
    }

    pub(super) fn peer_down(&mut self, peer: Peer) {
        if !self.rest.up.contains(peer) {
            return;
        }
        let one = PeerSet::one(peer);
        for set in [
            &mut self.rest.up,
            &mut self.hot.taken,
            &mut self.rest.mesh,
            &mut self.rest.penalised,
            &mut self.rest.quiet,
            &mut self.rest.unserved,
        ] {
            *set = set.minus(one);
        }
        self.rest.history.forget(one);
        // Records that it caused go as well: their share is counted in the state that is reset below.
        self.rest.ahead.retain(|_, ahead| {
            ahead.has = ahead.has.minus(one);
            ahead.asked = ahead.asked.filter(|(asked, _)| *asked != peer);
            ahead.owner != peer
        });
        if let Some(state) = self.rest.peers.get_mut(peer.0 as usize) {
            *state = PeerState::default();
        }
        if self.rest.mesh.len() < usize::from(self.rest.config.degree_low) {
            self.wake();
        }
    }

    /// Counts, penalises and reports. A flood is penalised once per heartbeat, since an honest peer may slightly
    /// exceed a bound; behaviour that no honest peer shows is penalised each time.
    pub(super) fn misbehaves(&mut self, peer: Peer, reason: Reject) {
        self.rest.refused.add(reason);
        let beat = self.rest.beat;
        let state = state_of(&mut self.rest.peers, peer);
        let bit = 1 << reason.index();
        let reported = &mut state.budget(beat).reported;
        let repeated = *reported & bit != 0;
        *reported |= bit;
        let deliberate = matches!(
            reason,
            Reject::Invalid | Reject::Unexpected | Reject::Beyond
        );
        if !repeated || deliberate {
            // Forgiveness is counted from the first offence; from an older heartbeat, an idle past would
            // forgive this one at once.
            if state.penalty == 0 {
                state.forgiven = beat;
            }
            state.penalty = state.penalty.saturating_add(reason.penalty());
            self.judge(peer);
        }
        if !repeated {
            self.emit(Output::Report { peer, reason });
        }
    }

    /// Forgives what is due and puts the peer into the sets that its penalty requires.
    pub(super) fn judge(&mut self, peer: Peer) {
        let state = state_of(&mut self.rest.peers, peer);
        let penalty = state.forgive(self.rest.beat);
        let one = PeerSet::one(peer);
        let mark = |set: &mut PeerSet, from: u16| {
            *set = match penalty >= from {
                true => set.or(one),
                false => set.minus(one),
            };
        };
        mark(&mut self.rest.penalised, 1);
        mark(&mut self.rest.quiet, GOSSIP_PENALTY);
        mark(&mut self.rest.unserved, PUBLISH_PENALTY);
        // Not a set of its own: it is what is connected and not taken. So `taken` alone decides about every
        // message.
        let mut graylisted = self.rest.up.minus(self.hot.taken);
        mark(&mut graylisted, GRAYLIST_PENALTY);
        self.hot.taken = self.rest.up.minus(graylisted);
        // A peer that behaves is forgiven at heartbeats only, so one must come.
        if penalty > 0 {
            self.wake();
        }
    }
}
