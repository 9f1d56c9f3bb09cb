//! The heartbeat: repairs the mesh, announces, expires.

use super::super::{Ids, Message, Payload, PeerSet, Priority, Reject};
use super::peer::of_peer;
use super::{Gossip, PROMISE_NS};
use alphorn_proto::Peer;
use alphorn_types::Time;
use std::collections::BTreeMap;

/// Heartbeats for which a peer's IDONTWANT for an unknown message is remembered.
const REFUSAL_BEATS: u32 = 3;

impl<P: Payload> Gossip<P> {
    pub(super) fn heartbeat(&mut self, now: Time) {
        // Forgiveness first, so that a peer whose penalty ends now can be grafted at once below.
        for peer in self.rest.penalised.iter() {
            self.judge(peer);
        }
        self.expire_ahead(now);
        self.repair_mesh(now);
        self.announce();
        // The current interval counts as one of `history_beats`.
        let oldest = (self.rest.beat + 1).saturating_sub(self.rest.config.history_beats.into());
        self.rest.history.expire(oldest);
        if self.rest.history.is_empty() && self.rest.ahead.is_empty() {
            // As in the history, an idle node keeps no memory after a burst.
            self.rest.ahead = BTreeMap::new();
            self.rest.inbox.shrink();
            self.rest.out.shrink_to_fit();
        }
        let before = now.saturating_sub_ns(self.rest.config.seen_ttl_ns);
        self.hot.seen.expire(now, before);
        self.schedule(now);
    }

    /// Requests from other peers what was promised and not sent, and drops old records.
    fn expire_ahead(&mut self, now: Time) {
        let mut broken = PeerSet::EMPTY;
        let mut ended = Vec::new();
        for (id, ahead) in &mut self.rest.ahead {
            if let Some((peer, _)) = ahead.asked.take_if(|(_, until)| *until <= now) {
                // A peer that sends some of what was requested is slow, not dishonest.
                let kept = of_peer(&self.rest.peers, peer).map_or(Time::ZERO, |state| state.kept);
                if kept.saturating_add_ns(PROMISE_NS) <= now {
                    broken = broken.or(PeerSet::one(peer));
                }
            }
            // A record with an open request outlives the others, or the peer could not be blamed for a broken
            // promise.
            if ahead.asked.is_none() && ahead.beat + REFUSAL_BEATS <= self.rest.beat {
                ended.push((*id, ahead.owner));
            }
        }
        for (id, owner) in ended {
            self.rest.ahead.remove(&id);
            self.release(owner);
        }
        for peer in broken.iter() {
            self.misbehaves(peer, Reject::BrokenPromise);
        }
    }

    fn repair_mesh(&mut self, now: Time) {
        // Penalised peers leave before degrees are compared, so that their slots are filled in the same
        // heartbeat.
        for peer in self.rest.mesh.and(self.rest.penalised).iter() {
            self.prune_peer(now, peer);
        }
        let degree = usize::from(self.rest.config.degree);
        if self.rest.mesh.len() < usize::from(self.rest.config.degree_low) {
            let candidates = self.graftable();
            // Peers in back-off are left out: they would answer an early GRAFT with a penalty and a longer
            // back-off.
            let ready = candidates.iter().filter(|peer| self.backoff(*peer) <= now);
            let ready = ready.fold(PeerSet::EMPTY, |set, peer| set.or(PeerSet::one(peer)));
            let grafted = self.rest.draw.pick(ready, degree - self.rest.mesh.len());
            self.rest.mesh = self.rest.mesh.or(grafted);
            self.send(grafted, Message::Graft, Priority::Control);
        }
        if self.rest.mesh.len() > usize::from(self.rest.config.degree_high) {
            let kept = self.rest.draw.pick(self.rest.mesh, degree);
            for peer in self.rest.mesh.minus(kept).iter() {
                self.prune_peer(now, peer);
            }
        }
    }

    /// Peers that may join the mesh once their back-off has ended.
    fn graftable(&self) -> PeerSet {
        self.hot
            .taken
            .minus(self.rest.mesh)
            .minus(self.rest.penalised)
    }

    pub(super) fn backoff(&self, peer: Peer) -> Time {
        of_peer(&self.rest.peers, peer).map_or(Time::ZERO, |state| state.backoff)
    }

    /// Sends IHAVE to some peers outside the mesh.
    fn announce(&mut self) {
        let lazy = self.hot.taken.minus(self.rest.mesh).minus(self.rest.quiet);
        if lazy.is_empty() || self.rest.history.is_empty() {
            return;
        }
        let oldest = self
            .rest
            .beat
            .saturating_sub(self.rest.config.gossip_beats.into());
        let max = usize::from(self.rest.config.ids_max);
        // `announce` opens the messages for requests even if none is recent enough to be announced.
        if let Some(ids) = Ids::new(self.rest.history.announce(oldest, max)) {
            let count = usize::from(self.rest.config.degree_lazy).max(lazy.len().div_ceil(4));
            let to = self.rest.draw.pick(lazy, count);
            self.send(to, Message::IHave(ids), Priority::Answer);
        }
    }

    /// Decides whether and when the next heartbeat is needed.
    fn schedule(&mut self, now: Time) {
        self.hot.due = Time::MAX;
        let active = !self.rest.history.is_empty() || !self.rest.ahead.is_empty();
        if active || !self.rest.penalised.is_empty() {
            self.wake();
        } else if self.rest.mesh.len() < usize::from(self.rest.config.degree_low) {
            // No peer can be grafted before the first back-off ends.
            let ends = self.graftable().iter().map(|peer| self.backoff(peer));
            let end = ends.min().unwrap_or(Time::MAX);
            // Peers past their back-off were grafted above, so the end lies ahead. The bound excludes a
            // deadline that would be due again at once, forever.
            self.hot.due = end.max(now.saturating_add_ns(1));
        }
    }
}
