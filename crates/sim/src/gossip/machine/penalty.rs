//! Peers come and go, and are penalised for what they do.

use super::super::{Ids, Message, Output, PEERS_MAX, Payload, PeerSet, Priority, Reject};
use super::Gossip;
use super::peer::{PeerState, state_of};
use alphorn_proto::Peer;

/// Penalty from which announcements are neither sent nor accepted.
const GOSSIP_PENALTY: u16 = 20;
/// Penalty from which own messages are not sent.
const PUBLISH_PENALTY: u16 = 40;
/// Penalty from which all messages are rejected.
const GRAYLIST_PENALTY: u16 = 80;

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
