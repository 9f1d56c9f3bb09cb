//! Peer state: connections, blame and bans.

use super::{Broadcast, NOBODY, PeerState, Task};
use crate::Output;
use crate::live::{Link, Live, PeerIndex};
use crate::place::Place;
use crate::reject::{Blame, Reject};
use crate::rlnc::Coding;
use crate::shuffle::shuffle;
use alphorn_types::Peer;

impl<C: Coding> Broadcast<C> {
    /// Returns the index of a peer that is connected and not banned.
    #[inline]
    pub(super) fn heard(&self, peer: Peer) -> Option<PeerIndex> {
        let index = usize::try_from(peer.0).ok()?;
        let state = self.peers.get(index)?;
        (state.up && !state.banned).then_some(peer.0 as PeerIndex)
    }

    /// The same, counting messages from unknown peers.
    #[inline]
    pub(super) fn peer_index(&mut self, peer: Peer) -> Option<PeerIndex> {
        let index = self.heard(peer);
        if index.is_none() {
            self.refused.add(Reject::Stranger);
        }
        index
    }

    /// Counts a rejected message and blames its sender.
    pub(super) fn refuse(&mut self, peer: PeerIndex, reason: Reject) {
        self.refused.add(reason);
        let blame = reason.blame();
        if peer == NOBODY || self.peers[usize::from(peer)].banned {
            return;
        }
        if reason == Reject::LiveFull {
            let state = &mut self.peers[usize::from(peer)];
            state.found_none = state.found_none.saturating_add(1);
        }
        if blame == Blame::None {
            return;
        }
        self.out.push_back(Output::Report {
            peer: Peer(peer.into()),
            reason,
        });
        if blame == Blame::Ban {
            self.peers[usize::from(peer)].banned = true;
            self.drop_waiting(peer);
        }
    }

    /// Drops everything pending from a peer.
    pub(super) fn drop_waiting(&mut self, peer: PeerIndex) {
        self.orphans.forget(peer);
        let state = &mut self.peers[usize::from(peer)];
        (state.orphans, state.notes) = (0, 0);
        for index in 0..self.live.len() {
            self.drop_unverified(index, peer);
        }
        self.forget_headers(peer);
    }

    /// Returns the place assigned to a peer, which is announced to it when it connects.
    pub fn place_of(&self, peer: Peer) -> Option<Place> {
        let index = self.places.get(usize::try_from(peer.0).ok()?)?;
        Place::new(*index, self.config.places)
    }

    pub(super) fn on_placed(&mut self, peer: Peer, place: Place) {
        if let Some(index) = self.peer_index(peer) {
            self.peers[usize::from(index)].place = Some(place);
        }
    }

    pub(super) fn on_peer_up(&mut self, peer: Peer) {
        if peer.0 >= u64::from(self.config.peers_max) {
            return self.refused.add(Reject::Stranger);
        }
        let index = peer.0 as usize;
        if index >= self.peers.len() {
            self.peers.resize(index + 1, PeerState::default());
        }
        if self.peers[index].up {
            return;
        }
        self.peers[index] = PeerState {
            up: true,
            ..PeerState::default()
        };
        for live in &mut self.live {
            // Last, and as if without a place, which counts only for broadcasts that begin later.
            live.order.push(peer.0 as PeerIndex);
            live.ranks_there.push(u16::MAX);
            live.flows.iter_mut().for_each(|flow| flow.stuck = false);
        }
        self.welcome(peer.0 as PeerIndex);
        self.wake = true;
    }

    pub(super) fn on_peer_down(&mut self, peer: Peer) {
        let index = usize::try_from(peer.0).unwrap_or(usize::MAX);
        let Some(state) = self.peers.get(index).copied().filter(|state| state.up) else {
            return self.refused.add(Reject::Stranger);
        };
        let peer = peer.0 as PeerIndex;
        // There will be no `SendReady` for these pieces.
        self.in_flight_bytes -= u64::from(state.in_flight_bytes);
        self.drop_waiting(peer);
        for index in 0..self.live.len() {
            self.leave(index, peer);
        }
        // Another peer may have the number before such a job ends.
        for pending in &mut self.jobs {
            if let Task::Recode { peer: to, .. } = &mut pending.task
                && *to == peer
            {
                *to = NOBODY;
            }
        }
        self.peers[index] = PeerState::default();
        self.room_may_be_found();
        self.wake = true;
    }

    /// Sets the service order of a broadcast's peers. Peers that assign this node a place near the front come first;
    /// peers that assign none get a random position.
    pub(super) fn order_peers(&mut self, live: &mut Live<C>) {
        let up = |(index, state): (usize, &PeerState)| state.up.then_some(index as PeerIndex);
        let mut order: Vec<PeerIndex> = self.peers.iter().enumerate().filter_map(up).collect();
        shuffle(&mut order, &mut self.rng);
        let mut ranked: Vec<(u16, PeerIndex)> = (0..)
            .zip(order)
            .map(|(at, peer)| {
                let place = self.peers[usize::from(peer)].place;
                (place.map_or(at, |place| place.rank(live.turn)), peer)
            })
            .collect();
        // Stable: equals stay in random order.
        ranked.sort_by_key(|(rank, _)| *rank);
        (live.ranks_there, live.order) = ranked.into_iter().unzip();
    }
}

/// Whether a peer has sent so many useless pieces that it should be sent the rank of this node.
pub(super) fn is_useless(link: &Link) -> bool {
    const RECEIVED_MIN: u16 = 10;
    let judged = link.innovative.saturating_add(link.dependent);
    judged >= RECEIVED_MIN && u32::from(link.innovative) * 5 < u32::from(judged)
}

impl<C: Coding> Live<C> {
    /// Whether a peer sent more useless pieces than an honest one can. It cannot know what this node has: if both had
    /// the same senders, everything it has may be useless here. But it pushes no more pieces of a generation than its
    /// rank, and each shard that this node has at most once. Beyond that it sends only what it was asked for.
    pub(super) fn sends_for_nothing(&mut self, peer: PeerIndex) -> bool {
        let dependent = u32::from(self.link(peer).dependent);
        let pushed = u32::from(self.needed()) * u32::from(self.header.generations);
        let generations = 0..self.header.generations;
        let asked: u32 = generations
            .map(|generation| u32::from(self.share(peer, generation).asked))
            .sum();
        dependent > pushed + asked
    }
}
