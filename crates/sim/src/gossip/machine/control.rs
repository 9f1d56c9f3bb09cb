//! Announcements, requests, IDONTWANT, and the two messages that shape the mesh.

use super::super::{DenseId, Ids, Message, Output, Payload, PeerSet, Peers, Priority, Reject};
use super::peer::state_of;
use super::{Ahead, BACKOFF_NS, Gossip, PROMISE_NS};
use alphorn_proto::Peer;
use alphorn_types::Time;

impl<P: Payload> Gossip<P> {
    /// IHAVE: requests messages that have neither arrived nor been requested yet.
    pub(super) fn announced(&mut self, now: Time, from: Peer, ids: &Ids) {
        if self.rest.quiet.contains(from) {
            return;
        }
        let config = self.rest.config.clone();
        let budget = state_of(&mut self.rest.peers, from).budget(self.rest.beat);
        budget.announcements = budget.announcements.saturating_add(1);
        if budget.announcements > config.announcements_beat_max {
            return self.misbehaves(from, Reject::AnnouncementFlood);
        }
        let ids = ids.as_slice();
        let left = config.announced_beat_max - budget.announced;
        // Of a list above the bound, the first part is still requested: a slightly generous honest peer is
        // penalised, but its messages arrive.
        let ids = match ids.get(..left as usize) {
            Some(first) if first.len() < ids.len() => {
                budget.announced = config.announced_beat_max;
                self.misbehaves(from, Reject::AnnouncementFlood);
                first
            }
            _ => {
                budget.announced += ids.len() as u32;
                ids
            }
        };
        let until = now.saturating_add_ns(PROMISE_NS);
        let mut asked = Vec::new();
        for &id in ids {
            let ask = |ahead: &mut Ahead| {
                let free = ahead.asked.is_none();
                // One request at a time: another peer is asked only if this one breaks its promise. Asking all
                // who announce would fetch the message several times.
                if free {
                    ahead.asked = Some((from, until));
                }
                free
            };
            if !self.hot.seen.contains(&id) && self.ahead_of(from, id, ask) {
                asked.push(id);
            }
        }
        if let Some(ids) = Ids::new(asked) {
            self.send(PeerSet::one(from), Message::IWant(ids), Priority::Control);
        }
    }

    /// Records that a peer has a message that has not arrived, and applies `change` to the record.
    /// Returns false if the peer's share is used up.
    fn ahead_of(
        &mut self,
        from: Peer,
        id: DenseId,
        change: impl FnOnce(&mut Ahead) -> bool,
    ) -> bool {
        let beat = self.rest.beat;
        // The peer that causes the record pays for it. A record that others caused costs nobody more, since
        // `has` is a bit per peer.
        if !self.rest.ahead.contains_key(&id) {
            let share = &mut state_of(&mut self.rest.peers, from).ahead;
            if *share >= self.rest.config.ahead_peer_max {
                return false;
            }
            *share += 1;
            self.wake();
        }
        let ahead = self.rest.ahead.entry(id).or_insert(Ahead {
            has: PeerSet::EMPTY,
            owner: from,
            asked: None,
            beat,
        });
        ahead.has = ahead.has.or(PeerSet::one(from));
        ahead.beat = beat;
        change(ahead)
    }

    /// Ends the record of a message that arrived from `from`, and returns which peers have it.
    pub(super) fn arrived(&mut self, now: Time, from: Peer, id: &DenseId) -> PeerSet {
        if self.rest.ahead.is_empty() {
            return PeerSet::EMPTY;
        }
        let Some(ahead) = self.rest.ahead.remove(id) else {
            return PeerSet::EMPTY;
        };
        self.release(ahead.owner);
        // Only the peer that was asked has kept a promise; a copy from another peer proves nothing about it.
        if ahead.asked.is_some_and(|(asked, _)| asked == from) {
            state_of(&mut self.rest.peers, from).kept = now;
        }
        ahead.has
    }

    pub(super) fn release(&mut self, owner: Peer) {
        let share = &mut state_of(&mut self.rest.peers, owner).ahead;
        *share = share.saturating_sub(1);
    }

    /// IWANT: sends kept messages, once to each peer.
    pub(super) fn requested(&mut self, from: Peer, ids: &Ids) {
        if self.rest.quiet.contains(from) {
            return;
        }
        let one = PeerSet::one(from);
        for id in ids.as_slice() {
            let budget = state_of(&mut self.rest.peers, from).budget(self.rest.beat);
            if budget.answers >= self.rest.config.answers_beat_max {
                return self.misbehaves(from, Reject::RequestFlood);
            }
            // A request for an unknown message costs as much as one that is answered.
            // Counted before the look-up, or unknown identities would be probed for free.
            budget.answers += 1;
            let Some((payload, served)) = self.rest.history.find(id) else {
                continue;
            };
            // A peer that has had the answer needs no second one. Without this check, a request of a few bytes could
            // draw the same large message in every heartbeat.
            if !served.and(one).is_empty() {
                self.misbehaves(from, Reject::RequestReplay);
                continue;
            }
            let answered = u64::from(budget.answer_bytes);
            let bytes = answered.saturating_add(payload.wire_bytes());
            // The first answer of a heartbeat is sent whatever its size, or a message above the bound could
            // never be fetched.
            if answered > 0 && bytes > self.rest.config.answer_bytes_beat_max {
                self.rest.refused.add(Reject::AnswersFull);
                continue;
            }
            budget.answer_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let message = Message::Data {
                id: *id,
                payload: payload.clone(),
            };
            self.rest.history.serve(*id, one);
            self.emit(Output::Send {
                to: Peers::One(from),
                message,
                priority: Priority::Answer,
            });
        }
    }

    /// IDONTWANT: spares the peer a copy, whether the message is waiting for a verdict, queued, or
    /// yet to arrive.
    pub(super) fn refused_ahead(&mut self, from: Peer, ids: &Ids) {
        let one = PeerSet::one(from);
        for &id in ids.as_slice() {
            // Only unknown messages are bounded: for those, state is kept. The other two cases store nothing
            // new.
            if !self.hot.seen.contains(&id) {
                let budget = state_of(&mut self.rest.peers, from).budget(self.rest.beat);
                if budget.refused >= self.rest.config.refused_beat_max {
                    return self.misbehaves(from, Reject::RefusalFlood);
                }
                budget.refused += 1;
                self.ahead_of(from, id, |_| true);
            } else if let Some(note) = self.rest.inbox.find(&id) {
                note.has = note.has.or(one);
            } else {
                self.emit(Output::Cancel { peer: from, id });
            }
        }
    }

    /// GRAFT: adds the peer to the mesh, unless the mesh is full or the peer must back off.
    pub(super) fn graft(&mut self, now: Time, from: Peer) {
        if self.rest.mesh.contains(from) {
            return;
        }
        // An early GRAFT also renews the back-off, by the PRUNE below, so insisting does not shorten the wait.
        let early = self.backoff(from) > now;
        if early {
            self.misbehaves(from, Reject::GraftFlood);
        }
        let full = self.rest.mesh.len() >= usize::from(self.rest.config.degree_high);
        if early || full || self.rest.penalised.contains(from) {
            return self.prune_peer(now, from);
        }
        self.rest.mesh = self.rest.mesh.or(PeerSet::one(from));
    }

    /// PRUNE: removes the peer from the mesh.
    pub(super) fn prune(&mut self, now: Time, from: Peer) {
        // Obeyed from any peer, in the mesh or not: the sender will take no GRAFT before its own back-off ends.
        self.back_off(now, from);
        if self.rest.mesh.len() < usize::from(self.rest.config.degree_low) {
            self.wake();
        }
    }

    /// Removes a peer from the mesh and notifies it, at most once per heartbeat.
    pub(super) fn prune_peer(&mut self, now: Time, peer: Peer) {
        self.back_off(now, peer);
        // The back-off is renewed each time, but answering each GRAFT of a flood with a PRUNE would let a peer
        // fill the queue to it.
        let pruned = &mut state_of(&mut self.rest.peers, peer)
            .budget(self.rest.beat)
            .pruned;
        if !std::mem::replace(pruned, true) {
            self.send(PeerSet::one(peer), Message::Prune, Priority::Control);
        }
    }

    fn back_off(&mut self, now: Time, peer: Peer) {
        self.rest.mesh = self.rest.mesh.minus(PeerSet::one(peer));
        let until = now.saturating_add_ns(BACKOFF_NS);
        state_of(&mut self.rest.peers, peer).backoff = until;
    }
}
