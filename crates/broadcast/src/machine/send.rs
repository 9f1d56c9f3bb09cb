//! Sending. A piece is drawn when it can leave, so it mixes everything received until then.

use super::{Broadcast, NOBODY, Task};
use crate::live::{Live, PeerIndex};
use crate::message::{Message, rides_along};
use crate::reject::Reject;
use crate::rlnc::{Coding, Distribution, Header, Id, Strategy};
use crate::shards;
use crate::work::{Product, Work};
use crate::{CREDIT_ONE, Output, Priority};
use alphorn_types::{Peer, Time};
use rand_chacha::rand_core::Rng;

/// From this number of transmissions on most receivers already have the header.
const HOP_INTRODUCED: u8 = 3;

/// What a piece claims about its sender.
#[derive(Clone, Copy, Debug)]
struct Claim {
    hop: u8,
    /// The claimed rank, if it differs from the true one.
    rank: Option<u16>,
    distribution: Distribution,
}

impl<C: Coding> Broadcast<C> {
    pub(super) fn on_send_ready(&mut self, peer: Peer) {
        let index = usize::try_from(peer.0).unwrap_or(usize::MAX);
        match self.peers.get(index) {
            Some(state) if state.in_flight > 0 => self.release(peer.0 as PeerIndex),
            _ => self.refused.add(Reject::Stranger),
        }
    }

    /// Releases the slot of a piece that is no longer in flight to the peer.
    fn release(&mut self, peer: PeerIndex) {
        let state = &mut self.peers[usize::from(peer)];
        // Only a peer that could take no more may have blocked a burst or an answer.
        let was_busy = state.in_flight >= self.config.sends_in_flight_peer_max;
        // The size of each piece is not kept. The mean serves as well, as it leaves nothing when the last one
        // is gone.
        let bytes = state.in_flight_bytes / u32::from(state.in_flight);
        state.in_flight -= 1;
        state.in_flight_bytes -= bytes;
        self.in_flight_bytes -= u64::from(bytes);
        // The time starts again with each piece that leaves: it matters whether the peer still reads.
        self.watch(peer);
        if was_busy {
            for live in &mut self.live {
                live.answers_stuck = false;
                live.flows.iter_mut().for_each(|flow| flow.stuck = false);
            }
        }
        self.wake = true;
    }

    /// Sets when the pieces in flight to a peer become late, counted from now.
    fn watch(&mut self, peer: PeerIndex) {
        let state = &mut self.peers[usize::from(peer)];
        let after_ns = self.config.late_after_ns(state.in_flight_bytes);
        let late_at = self.now.saturating_add_ns(after_ns);
        state.late_at = (state.in_flight_bytes > 0).then_some(late_at);
        self.late_due = self.late_due.min(state.late_at.unwrap_or(Time::MAX));
    }

    /// Late pieces no longer take room from others: their peer may never read them.
    pub(super) fn forget_late(&mut self, now: Time) {
        if self.late_due > now {
            return;
        }
        for state in &mut self.peers {
            if state.late_at.is_some_and(|at| at <= now) {
                state.late_at = None;
                self.in_flight_bytes -= u64::from(std::mem::take(&mut state.in_flight_bytes));
            }
        }
        self.wake = true;
    }

    fn has_room(&self) -> bool {
        // One piece may always be in flight, whatever its size and the bound.
        self.in_flight_bytes == 0 || self.in_flight_bytes < self.in_flight_bytes_max
    }

    /// Sends what is owed while there is room: answers first, alternating with bursts, then one
    /// piece of each broadcast in turn.
    pub(super) fn pump(&mut self) {
        for index in 0..self.live.len() {
            while self.has_room() && self.live[index].has_answers() {
                // Otherwise peers that request everything would hold up what no other peer has.
                if std::mem::take(&mut self.burst_next) && self.push_burst() {
                    continue;
                }
                self.burst_next = self.answer(index);
            }
        }
        let mut sent = true;
        while sent && self.has_room() {
            sent = false;
            // The first one rotates, or one broadcast would hold up all others.
            self.turn = self.turn.wrapping_add(1);
            let count = self.live.len();
            for step in 0..count {
                let index = (self.turn + step) % count;
                if self.has_room() && self.push(index) {
                    sent = true;
                }
            }
        }
        // While there is room, late pieces are in nobody's way, and no deadline is needed.
        let lates = self.peers.iter().filter_map(|state| state.late_at);
        self.late_due = match self.has_room() {
            true => Time::MAX,
            false => lates.min().unwrap_or(Time::MAX),
        };
    }

    /// Sends one requested piece.
    fn answer(&mut self, index: usize) -> bool {
        for _ in 0..self.live[index].answers.len() {
            let live = &mut self.live[index];
            let Some((peer, generation)) = live.answers.first().copied() else {
                break;
            };
            let done = live.link(peer).done;
            let share = *live.share(peer, generation);
            if done || share.owed == 0 || !live.may_have_new(peer) {
                live.share(peer, generation).owed = 0;
                live.answers.remove(0);
                continue;
            }
            // Also if the peer is busy, so that the next one has a turn.
            live.answers.rotate_left(1);
            if self.is_free(peer) && self.live[index].flows[usize::from(generation)].rank > 0 {
                let hop = self.live[index].hop_of_answer(generation);
                self.send_piece(index, generation, peer, hop, Priority::Answer);
                return true;
            }
        }
        self.live[index].answers_stuck = true;
        false
    }

    /// Sends one piece of a broadcast with an outstanding burst.
    fn push_burst(&mut self) -> bool {
        self.turn = self.turn.wrapping_add(1);
        let count = self.live.len();
        (0..count)
            .map(|step| self.turn.wrapping_add(step) % count)
            .find(|&index| self.live[index].owes_burst())
            .is_some_and(|index| self.push(index))
    }

    /// Sends one piece of the burst or credit of some generation.
    fn push(&mut self, index: usize) -> bool {
        let count = self.live[index].flows.len();
        for step in 0..count {
            // The generations take turns.
            let generation = (self.turn + step) % count;
            if self.push_generation(index, generation as u16) {
                return true;
            }
        }
        false
    }

    fn push_generation(&mut self, index: usize, generation: u16) -> bool {
        let flow = &self.live[index].flows[usize::from(generation)];
        if flow.stuck || flow.rank == 0 {
            return false;
        }
        let burst = flow.burst_owed > 0 && !flow.gathering;
        let credit = flow.credit_milli >= CREDIT_ONE;
        let (hop, paid) = if burst && let Some(peer) = self.next_peer(index, generation, true) {
            let flow = &mut self.live[index].flows[usize::from(generation)];
            flow.burst_owed -= 1;
            (flow.burst_hop, peer)
        } else if credit && let Some(peer) = self.next_peer(index, generation, false) {
            let flow = &mut self.live[index].flows[usize::from(generation)];
            flow.credit_milli -= CREDIT_ONE;
            (flow.credit_hop, peer)
        } else {
            let flow = &mut self.live[index].flows[usize::from(generation)];
            flow.stuck = burst || credit;
            return false;
        };
        let first = self.live[index].share(paid, generation).sent == 0;
        let priority = if first {
            Priority::First
        } else {
            Priority::Rest
        };
        self.send_piece(index, generation, paid, hop, priority);
        true
    }

    /// Returns the next peer that can accept a piece of the burst or credit, and moves the cursor
    /// past it.
    fn next_peer(&mut self, index: usize, generation: u16, burst: bool) -> Option<PeerIndex> {
        let live = &mut self.live[index];
        let flow = &live.flows[usize::from(generation)];
        let repeats = !burst || flow.burst_repeats;
        let count = if burst {
            flow.burst_peers as usize
        } else {
            live.order.len()
        };
        let from = flow.cursor as usize;
        let run = u16::from(live.policy.source_run.max(1));
        for step in 0..count {
            let at = (from + step) % count;
            let peer = live.order[at];
            let state = &self.peers[usize::from(peer)];
            let free = !state.banned && state.in_flight < self.config.sends_in_flight_peer_max;
            let ours = live.stem.is_none_or(|stem| stem == peer);
            if free
                && ours
                && live.wants(peer, generation)
                && (repeats || live.share(peer, generation).sent == 0)
            {
                let sent = live.share(peer, generation).sent + 1;
                let flow = &mut live.flows[usize::from(generation)];
                // The source stays with a peer for the length of a run.
                let stays = burst && flow.burst_repeats && !sent.is_multiple_of(run);
                flow.cursor = (at + usize::from(!stays)) as u32;
                return Some(peer);
            }
        }
        None
    }

    #[inline]
    fn is_free(&self, peer: PeerIndex) -> bool {
        let state = &self.peers[usize::from(peer)];
        !state.banned && state.in_flight < self.config.sends_in_flight_peer_max
    }

    /// Draws a piece for a peer and sends it, preceded by the header if it is the first.
    fn send_piece(
        &mut self,
        index: usize,
        generation: u16,
        peer: PeerIndex,
        hop: u8,
        priority: Priority,
    ) {
        self.introduce(index, generation, peer, hop);
        let live = &mut self.live[index];
        let claim = live.claim(peer, generation, hop);
        let nominal_bytes = nominal_bytes(&live.header);
        let rows = live.flows[usize::from(generation)].rank;
        live.stats.sent = live.stats.sent.saturating_add(1);
        let share = live.share(peer, generation);
        share.sent = share.sent.saturating_add(1);
        if priority == Priority::Answer {
            // Above 0, as `answer` has checked.
            share.owed -= 1;
            live.stats.answered = live.stats.answered.saturating_add(1);
            let link = live.link(peer);
            link.answered = link.answered.saturating_add(1);
        }
        let state = &mut self.peers[usize::from(peer)];
        state.in_flight += 1;
        state.in_flight_bytes += nominal_bytes;
        self.in_flight_bytes += u64::from(nominal_bytes);
        let selector = match live.header.strategy {
            Strategy::Rlnc => generation,
            Strategy::Rs => live.pick_shard(peer),
        };
        let elements = u32::from(rows) * live.header.unit;
        if live.header.strategy == Strategy::Rlnc && elements > self.config.draw_elements_max {
            // Seeded here, so that the result does not depend on when the job runs.
            let mut seed = [0; 32];
            self.draws.fill_bytes(&mut seed);
            let work = Work::Recode {
                header: live.header.clone(),
                decoder: live.decoder.clone(),
                generation,
                distribution: claim.distribution,
                seed,
            };
            let task = Task::Recode {
                id: live.id,
                peer,
                hop: claim.hop,
                rank: claim.rank.unwrap_or(rows),
                priority,
            };
            let expires = live.expires;
            self.spawn(expires, task, work);
            return;
        }
        let drawn = self
            .code
            .draw(&live.decoder, selector, claim.distribution, &mut self.draws);
        let rank = claim.rank.unwrap_or(rows);
        let rows = if live.header.strategy == Strategy::Rlnc {
            rows
        } else {
            0
        };
        match drawn {
            Some(mut piece) => {
                self.code.set_hop_and_rank(&mut piece, claim.hop, rank);
                self.send_drawn(index, peer, piece, priority, rows);
            }
            // Nothing was drawn, so the slot that was taken above is free again.
            None => self.release(peer),
        }
    }

    fn send_drawn(
        &mut self,
        index: usize,
        peer: PeerIndex,
        piece: C::Piece,
        priority: Priority,
        drawn: u16,
    ) {
        let live = &self.live[index];
        let message = Message::piece(&self.code, &live.header, live.id, piece);
        self.out.push_back(Output::Send {
            peer: Peer(peer.into()),
            message,
            priority,
            drawn,
        });
        // A further piece does not extend the time of those already in flight.
        if self.peers[usize::from(peer)].late_at.is_none() {
            self.watch(peer);
        }
    }

    /// Handles a combination drawn by a job.
    pub(super) fn on_drawn(
        &mut self,
        id: &Id,
        peer: PeerIndex,
        hop: u8,
        rank: u16,
        priority: Priority,
        product: Option<Product<C>>,
    ) {
        if peer == NOBODY {
            return self.refused.add(Reject::LateResult);
        }
        let index = self.find(id);
        let wanted = index.filter(|&index| {
            !self.live[index].link(peer).done && !self.peers[usize::from(peer)].banned
        });
        match (wanted, product) {
            (Some(index), Some(Product::Drawn(Some(mut piece)))) => {
                self.code.set_hop_and_rank(&mut piece, hop, rank);
                self.send_drawn(index, peer, piece, priority, 0);
            }
            _ => {
                self.refused.add(Reject::LateResult);
                // The slot was taken when the job began, and no piece will leave to free it.
                self.release(peer);
            }
        }
    }

    /// Sends a peer what it needs before its first piece, unless enough others do.
    fn introduce(&mut self, index: usize, generation: u16, peer: PeerIndex, hop: u8) {
        let live = &mut self.live[index];
        let headers = live.policy.headers;
        let along = live.flows.len() == 1;
        if let Some(place) = self.peers[usize::from(peer)].place
            && hop >= HOP_INTRODUCED
            && (along && headers > 0 && place.rank(live.turn) >= headers)
        {
            return;
        }
        let send = |message| Output::Send {
            peer: Peer(peer.into()),
            message,
            priority: Priority::Control,
            drawn: 0,
        };
        if !std::mem::replace(&mut live.link(peer).header, true) {
            self.out
                .push_back(send(Message::Header(live.announce.clone())));
        }
        if live.header.strategy == Strategy::Rs || rides_along(&self.code, &live.header) {
            return;
        }
        let were_sent = std::mem::replace(&mut live.share(peer, generation).commitments, true);
        if let Some(commitments) = &live.flows[usize::from(generation)].commitments
            && !were_sent
        {
            let commitments = commitments.clone();
            let commits =
                Message::commits(&self.code, &live.header, live.id, generation, commitments);
            self.out.push_back(send(commits));
        }
    }
}

/// Bytes of a piece's data: a close estimate of its uplink use.
fn nominal_bytes(header: &Header) -> u32 {
    match header.strategy {
        Strategy::Rlnc => 32 * header.unit,
        Strategy::Rs => header.unit,
    }
}

impl<C: Coding> Live<C> {
    fn has_answers(&self) -> bool {
        !self.answers_stuck && !self.answers.is_empty()
    }

    fn owes_burst(&self) -> bool {
        let mut flows = self.flows.iter();
        flows.any(|flow| flow.burst_owed > 0 && !flow.gathering && !flow.stuck)
    }

    /// Whether a pushed piece may be new to the peer.
    #[inline]
    fn wants(&mut self, peer: PeerIndex, generation: u16) -> bool {
        if self.link(peer).done {
            return false;
        }
        let needed = self.needed();
        let rank = self.flows[usize::from(generation)].rank;
        let share = *self.share(peer, generation);
        if share.rank == needed {
            return false;
        }
        let sent_max = self.policy.peer_pieces_max(needed, self.order.len());
        if !self.own && u32::from(share.sent) >= sent_max {
            return false;
        }
        if self.held_shards.is_empty() {
            u32::from(share.sent) + u32::from(share.innovative) < u32::from(rank)
        } else {
            self.may_have_new(peer)
        }
    }

    /// Whether there is a shard that the peer is not known to have. Combinations may always be new.
    fn may_have_new(&self, peer: PeerIndex) -> bool {
        let words = self.held_shards.len();
        let from = usize::from(peer) * words;
        let theirs = &self.peer_shards[from..from + words];
        let mut pairs = self.held_shards.iter().zip(theirs);
        words == 0 || pairs.any(|(own, theirs)| own & !theirs != 0)
    }

    /// Returns the least sent shard among those that the peer is not known to have.
    fn pick_shard(&mut self, peer: PeerIndex) -> u16 {
        let words = self.held_shards.len();
        let from = usize::from(peer) * words;
        let theirs = &self.peer_shards[from..from + words];
        let pairs = self.held_shards.iter().zip(theirs);
        let fresh: Vec<u64> = pairs.map(|(own, theirs)| own & !theirs).collect();
        let key = |&shard: &u16| {
            let at = usize::from(shard);
            (self.shard_sends[at], self.shard_ties[at])
        };
        let picked = shards::members(&fresh).min_by_key(key).unwrap_or(0);
        self.shard_sends[usize::from(picked)] =
            self.shard_sends[usize::from(picked)].saturating_add(1);
        shards::insert(self.shards_of(peer), picked);
        picked
    }

    /// Hop carried by a piece sent on request.
    fn hop_of_answer(&self, generation: u16) -> u8 {
        let flow = &self.flows[usize::from(generation)];
        flow.credit_hop.max(flow.burst_hop)
    }

    /// What a piece claims about its sender: the truth, or what a relay would claim.
    fn claim(&mut self, peer: PeerIndex, generation: u16, hop: u8) -> Claim {
        if !self.blend {
            return Claim {
                hop,
                rank: None,
                distribution: Distribution::Fresh,
            };
        }
        let needed = self.needed();
        let sent = self.share(peer, generation).sent;
        Claim {
            hop,
            rank: Some(needed.min(sent.saturating_add(1))),
            distribution: if sent == 0 {
                Distribution::Fresh
            } else {
                Distribution::Blend
            },
        }
    }
}
