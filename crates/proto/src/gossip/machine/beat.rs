//! The heartbeat: repairs the mesh, announces, expires.

use super::super::{Class, Ids, Message, MessageId, Payload, PeerSet, Reject, Seen};
use super::Gossip;
use crate::Peer;
use alphorn_types::Time;

/// Heartbeats for which a refusal of a message that is not here is kept.
const REFUSAL_BEATS: u64 = 3;

impl<I: MessageId, P: Payload> Gossip<I, P> {
    pub(super) fn heartbeat(&mut self, now: Time) {
        for peer in self.penalised.iter() {
            self.judge(peer);
        }
        self.expire_ahead(now);
        self.repair_mesh(now);
        self.announce();
        let oldest = (self.beat + 1).saturating_sub(self.config.history_beats.into());
        self.history.expire(oldest);
        let before = now.saturating_sub_ns(self.config.seen_ttl_ns);
        self.hot.seen.expire(now, before);
        self.schedule(now);
    }

    /// Asks others for what was promised and not sent, and forgets old records.
    fn expire_ahead(&mut self, now: Time) {
        let promise_ns = self.config.promise_ns;
        let mut broken = PeerSet::EMPTY;
        let mut ended = Vec::new();
        for (id, ahead) in &mut self.ahead {
            if let Some((peer, _)) = ahead.asked.take_if(|(_, until)| *until <= now) {
                // One that sends some of what it was asked for is slow, not false.
                let kept = self.peers[peer.0 as usize].kept;
                if kept.saturating_add_ns(promise_ns) <= now {
                    broken = broken.or(PeerSet::one(peer));
                }
            }
            if ahead.asked.is_none() && ahead.beat + REFUSAL_BEATS <= self.beat {
                ended.push((*id, ahead.owner));
            }
        }
        for (id, owner) in ended {
            self.ahead.remove(&id);
            self.release(owner);
        }
        for peer in broken.iter() {
            self.misbehaves(peer, Reject::BrokenPromise);
        }
    }

    fn repair_mesh(&mut self, now: Time) {
        for peer in self.mesh.and(self.penalised).iter() {
            self.prune_peer(now, peer);
        }
        let degree = usize::from(self.config.degree);
        if self.mesh.len() < usize::from(self.config.degree_low) {
            let candidates = self.graftable();
            let ready = candidates.iter().filter(|peer| self.backoff(*peer) <= now);
            let ready = ready.fold(PeerSet::EMPTY, |set, peer| set.or(PeerSet::one(peer)));
            let grafted = self.draw.pick(ready, degree - self.mesh.len());
            self.mesh = self.mesh.or(grafted);
            self.send(grafted, Message::Graft, Class::Control);
        }
        if self.mesh.len() > usize::from(self.config.degree_high) {
            let kept = self.draw.pick(self.mesh, degree);
            for peer in self.mesh.minus(kept).iter() {
                self.prune_peer(now, peer);
            }
        }
    }

    /// Peers that may be taken into the mesh when their back-off is over.
    fn graftable(&self) -> PeerSet {
        self.hot.taken.minus(self.mesh).minus(self.penalised)
    }

    fn backoff(&self, peer: Peer) -> Time {
        self.peers[peer.0 as usize].backoff
    }

    /// IHAVE to some peers outside the mesh.
    fn announce(&mut self) {
        let lazy = self.hot.taken.minus(self.mesh).minus(self.quiet);
        if lazy.is_empty() || self.history.is_empty() {
            return;
        }
        let oldest = self.beat.saturating_sub(self.config.gossip_beats.into());
        let max = usize::from(self.config.limits.ids_max);
        if let Some(ids) = Ids::new(self.history.announce(oldest, max)) {
            let count = usize::from(self.config.degree_lazy).max(lazy.len().div_ceil(4));
            let to = self.draw.pick(lazy, count);
            self.send(to, Message::IHave(ids), Class::Answer);
        }
    }

    /// Decides whether and when the next heartbeat is needed.
    fn schedule(&mut self, now: Time) {
        self.hot.due = Time::MAX;
        let active = !self.history.is_empty() || !self.ahead.is_empty();
        if active || !self.penalised.is_empty() {
            self.wake();
        } else if self.mesh.len() < usize::from(self.config.degree_low) {
            // Nobody can be grafted before the first back-off is over.
            let ends = self.graftable().iter().map(|peer| self.backoff(peer));
            let end = ends.min().unwrap_or(Time::MAX);
            self.hot.due = end.max(now.saturating_add_ns(1));
        }
    }
}
