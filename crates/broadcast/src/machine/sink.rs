//! Receiving pieces: cheap checks before expensive ones. Nothing unverified is forwarded.

use super::peers::is_useless;
use super::{Broadcast, NOBODY, TRIES_MAX, Task};
use crate::config::Config;
use crate::live::{Link, Live, NEED_SLACK, PeerIndex, Phase, Waiting};
use crate::reject::Reject;
use crate::rlnc::{Coding, DecodeError, PieceStatus, Verdicts, Weights};
use crate::work::{Product, Work};
use crate::{Convicted, Output, Step, shards};
use alphorn_types::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

impl<C: Coding> Broadcast<C> {
    /// Handles a canonical piece of a live broadcast.
    pub(super) fn on_piece(&mut self, index: usize, from: PeerIndex, piece: C::Piece) {
        let live = &mut self.live[index];
        let generation = self.code.generation(&piece);
        let (hop, rank) = self.code.hop_and_rank(&piece);
        let needed = live.needed();
        if generation >= live.header.generations {
            return self.refuse(from, Reject::BadLength);
        }
        let link = live.spoke(from);
        link.received = link.received.saturating_add(1);
        let share = live.share(from, generation);
        share.rank = share.rank.max(rank.min(needed));
        if let Some(shard) = self.code.shard(&piece) {
            if shard >= live.header.shards_total {
                return self.refuse(from, Reject::BadLength);
            }
            shards::insert(live.shards_of(from), shard);
        }
        // Pushed and requested pieces of an honest peer, and as many again that crossed.
        let received_max = 4 * u32::from(needed) * u32::from(live.header.generations);
        let Link {
            received,
            demoted,
            muted,
            ..
        } = *live.link(from);
        if u32::from(received) > received_max {
            if std::mem::replace(&mut live.link(from).reported, true) {
                return self.refused.add(Reject::BudgetExceeded);
            }
            return self.refuse(from, Reject::BudgetExceeded);
        }
        if live.convicted {
            return self.refused.add(Reject::Equivocation);
        }
        if live.flows[usize::from(generation)].rank == needed {
            if live.is_full() {
                self.on_surplus(index, from);
            }
            return self.refused.add(Reject::GenerationFull);
        }
        if demoted || muted {
            return self.refused.add(Reject::Useless);
        }
        if live.flows[usize::from(generation)].commitments.is_none() {
            return self.keep_for_commitments(index, from, piece);
        }
        self.offer(index, from, piece, hop);
    }

    /// Classifies a piece: verified next, held behind others, or dropped.
    fn offer(&mut self, index: usize, from: PeerIndex, piece: C::Piece, hop: u8) {
        let live = &mut self.live[index];
        if live.link(from).unverified >= self.config.unverified_peer_max {
            return self.refused.add(Reject::BudgetExceeded);
        }
        // `make_mut` copies the decoder if a job still reads it, so jobs see what was there when they began.
        match self.code.offer(Arc::make_mut(&mut live.decoder), &piece) {
            PieceStatus::Full => self.refused.add(Reject::GenerationFull),
            PieceStatus::Dependent => {
                self.refused.add(Reject::Dependent);
                let link = live.link(from);
                link.dependent = link.dependent.saturating_add(1);
                let (is_useless, told) = (is_useless(link), link.told);
                if is_useless && !told {
                    self.tell_rank(index, from);
                } else if is_useless && live.sends_for_nothing(from) {
                    live.link(from).demoted = true;
                    self.refuse(from, Reject::Useless);
                } else if is_useless {
                    let link = live.link(from);
                    link.muted = link.dependent > link.heard_until;
                }
            }
            PieceStatus::Innovative => {
                live.link(from).unverified += 1;
                live.queue.push(Waiting { from, piece, hop });
                self.verify(index);
            }
            PieceStatus::Held => {
                live.link(from).unverified += 1;
                live.held.push(Waiting { from, piece, hop });
                // `memory_bytes` allows for one generation of pieces held behind others.
                if let Some(from) = shed(&mut live.held, live.header.chunks) {
                    let link = live.link(from);
                    link.unverified = link.unverified.saturating_sub(1);
                    self.refused.add(Reject::BudgetExceeded);
                }
            }
        }
    }

    /// Keeps a piece whose commitments have not arrived. They are sent before it, so that is rare.
    fn keep_for_commitments(&mut self, index: usize, from: PeerIndex, piece: C::Piece) {
        let live = &mut self.live[index];
        let (hop, _) = self.code.hop_and_rank(&piece);
        if live.link(from).unverified >= self.config.unverified_peer_max {
            return self.refused.add(Reject::BudgetExceeded);
        }
        live.link(from).unverified += 1;
        live.without_commitments.push(Waiting { from, piece, hop });
        if let Some(from) = shed(&mut live.without_commitments, live.header.chunks) {
            let link = live.link(from);
            link.unverified = link.unverified.saturating_sub(1);
            self.refused.add(Reject::BudgetExceeded);
        }
    }

    /// Handles the commitments of one of several generations; they are already checked.
    pub(super) fn on_commits(
        &mut self,
        index: usize,
        from: PeerIndex,
        generation: u16,
        commitments: Option<C::Commitments>,
    ) {
        let live = &mut self.live[index];
        if generation >= live.header.generations {
            return self.refuse(from, Reject::BadLength);
        }
        live.share(from, generation).commitments = true;
        let flow = &mut live.flows[usize::from(generation)];
        if flow.commitments.is_some() || commitments.is_none() {
            return;
        }
        flow.commitments = commitments;
        let waiting = std::mem::take(&mut live.without_commitments);
        for Waiting { from, piece, hop } in waiting {
            let live = &mut self.live[index];
            live.link(from).unverified -= 1;
            if self.code.generation(&piece) == generation {
                self.offer(index, from, piece, hop);
            } else {
                live.link(from).unverified += 1;
                live.without_commitments.push(Waiting { from, piece, hop });
            }
        }
    }

    /// Starts a verification if none is running. Pieces that arrived in the meantime form the
    /// batch, so the slower the host, the larger the batches.
    fn verify(&mut self, index: usize) {
        let live = &mut self.live[index];
        let Some(first) = live.queue.first().filter(|_| live.verifying.is_none()) else {
            return;
        };
        // A batch is of one generation, as it is verified against one list of commitments.
        let generation = self.code.generation(&first.piece);
        let batch_max = usize::from(self.config.verify_batch_max);
        let mut batch = Vec::new();
        if live.queue.len() == 1 {
            batch.append(&mut live.queue);
        } else {
            // Group by sender, so that a sender's bad pieces are found with few sums.
            live.queue.sort_by_key(|waiting| waiting.from);
            let code = &self.code;
            live.queue.retain(|waiting| {
                let taken =
                    batch.len() < batch_max && code.generation(&waiting.piece) == generation;
                if taken {
                    batch.push(waiting.clone());
                }
                !taken
            });
        }
        let Some(commitments) = live.flows[usize::from(generation)].commitments.clone() else {
            return;
        };
        // No two batches have the same weights.
        live.batches += 1;
        let work = Work::VerifyPieces {
            header: live.header.clone(),
            commitments,
            pieces: batch.iter().map(|waiting| waiting.piece.clone()).collect(),
            weights: Weights::new(&self.secret, &live.id, live.batches),
        };
        let (id, expires) = (live.id, live.expires);
        let seq = self.spawn(expires, Task::Verify { id }, work);
        self.live[index].verifying = Some((seq, batch));
    }

    pub(super) fn on_verified(
        &mut self,
        now: Time,
        index: usize,
        seq: u64,
        product: Option<Product<C>>,
    ) {
        let live = &mut self.live[index];
        let Some((_, batch)) = live.verifying.take_if(|(job, _)| *job == seq) else {
            return self.refused.add(Reject::LateResult);
        };
        // Without verdicts, the pieces are dropped and nobody is blamed for them.
        let verdicts = match product {
            Some(Product::Verified(verdicts)) if verdicts.valid.len() == batch.len() => {
                Some(verdicts)
            }
            _ => None,
        };
        for waiting in &batch {
            if waiting.from != NOBODY {
                let link = live.link(waiting.from);
                link.unverified = link.unverified.saturating_sub(1);
            }
        }
        let all_valid = verdicts
            .as_ref()
            .is_some_and(|verdicts| verdicts.valid.iter().all(|&valid| valid));
        if let Some(Verdicts { valid, .. }) = verdicts {
            live.stats.batches = live.stats.batches.saturating_add(1);
            for (waiting, valid) in batch.into_iter().zip(valid) {
                if valid {
                    self.accept(now, index, waiting);
                } else {
                    self.refuse(waiting.from, Reject::InvalidChunk);
                }
            }
        }
        let live = &mut self.live[index];
        // `begin_decoding` has dropped everything that waited.
        if live.is_full() {
            return;
        }
        if all_valid && !std::mem::take(&mut live.sort_out) {
            self.drop_held(index);
        } else {
            self.offer_again(index);
        }
        self.verify(index);
    }

    /// After a positive result: once nothing waits, the pieces held behind it add nothing.
    fn drop_held(&mut self, index: usize) {
        let live = &mut self.live[index];
        if !live.queue.is_empty() || live.held.is_empty() {
            return;
        }
        for waiting in std::mem::take(&mut live.held) {
            let link = live.link(waiting.from);
            link.unverified = link.unverified.saturating_sub(1);
            self.refused.add(Reject::Dependent);
        }
    }

    /// After a negative result: waiting pieces, and those held because of a bad one, are offered
    /// again.
    fn offer_again(&mut self, index: usize) {
        let live = &mut self.live[index];
        self.code.withdraw(Arc::make_mut(&mut live.decoder));
        let mut waiting = std::mem::take(&mut live.queue);
        waiting.append(&mut live.held);
        for Waiting { from, piece, hop } in waiting {
            let link = self.live[index].link(from);
            link.unverified = link.unverified.saturating_sub(1);
            self.offer(index, from, piece, hop);
        }
    }

    /// Drops the unverified pieces of a peer.
    pub(super) fn drop_unverified(&mut self, index: usize, peer: PeerIndex) {
        let live = &mut self.live[index];
        let waiting = live.queue.len() + live.held.len();
        live.queue.retain(|waiting| waiting.from != peer);
        live.held.retain(|waiting| waiting.from != peer);
        live.without_commitments
            .retain(|waiting| waiting.from != peer);
        let in_batch = live.verifying.as_ref().map_or(0, |(_, batch)| {
            batch.iter().filter(|waiting| waiting.from == peer).count()
        });
        if usize::from(peer) < live.links.len() {
            live.link(peer).unverified = in_batch as u8;
        }
        // Pieces wait only during a batch; the end of the batch sorts out what is left.
        live.sort_out |= live.queue.len() + live.held.len() < waiting;
    }

    /// Accepts a verified piece.
    fn accept(&mut self, now: Time, index: usize, waiting: Waiting<C::Piece>) {
        let live = &mut self.live[index];
        let Waiting { from, piece, hop } = waiting;
        let generation = self.code.generation(&piece);
        if live.flows[usize::from(generation)].rank == live.needed() {
            return self.refused.add(Reject::GenerationFull);
        }
        let shard = self.code.shard(&piece);
        if !self.code.accept(Arc::make_mut(&mut live.decoder), piece) {
            return self.refused.add(Reject::Dependent);
        }
        if let Some(shard) = shard {
            shards::insert(&mut live.held_shards, shard);
        }
        if from != NOBODY {
            let link = live.link(from);
            link.innovative = link.innovative.saturating_add(1);
            live.share(from, generation).innovative += 1;
        }
        let rank = self.code.rank(&live.decoder, generation);
        live.flows[usize::from(generation)].rank = rank;
        live.stats.innovative += 1;
        live.need_rounds = 0;
        // Otherwise a peer that sends a new piece just before each request would postpone all of
        // them.
        let slack_ns = NEED_SLACK * live.piece_ns(&self.config);
        live.need_by = live.need_by.saturating_add_ns(slack_ns);
        let quiet = now.saturating_add_ns(self.config.need_after_quiet_ns);
        live.need_at = quiet.min(live.need_by);
        self.due_changed = true;
        if live.stats.innovative == 1 {
            let id = live.id;
            self.progress(id, Step::First);
        }
        self.on_rank_raised(now, index, generation, hop);
    }

    /// Full rank everywhere: nothing more is needed, and the payload can be recovered.
    pub(super) fn begin_decoding(&mut self, index: usize) {
        let live = &mut self.live[index];
        live.phase = Phase::Decoding;
        live.need_at = Time::MAX;
        live.rank_at = Time::MAX;
        live.queue = Vec::new();
        live.held = Vec::new();
        live.without_commitments = Vec::new();
        for link in &mut live.links {
            link.unverified = 0;
        }
        let id = live.id;
        self.progress(id, Step::Full);
        self.decode_payload(index);
    }

    pub(super) fn decode_payload(&mut self, index: usize) {
        let live = &mut self.live[index];
        live.decode_at = Time::MAX;
        live.decodes += 1;
        let (id, expires) = (live.id, live.expires);
        let work = Work::Decode {
            header: live.header.clone(),
            decoder: live.decoder.clone(),
        };
        self.spawn(expires, Task::Decode { id }, work);
    }

    pub(super) fn on_decoded(&mut self, now: Time, index: usize, product: Option<Product<C>>) {
        let live = &mut self.live[index];
        let id = live.id;
        match product {
            Some(Product::Decoded(Ok((payload, decoder)))) => {
                live.phase = Phase::Decoded;
                live.hold_all(decoder);
                let subject = live.header.subject;
                self.progress(id, Step::Decoded);
                self.out.push_back(Output::Deliver {
                    id,
                    subject,
                    payload,
                });
                self.act_as_source(index);
            }
            Some(Product::Decoded(Err(DecodeError::InvalidSource(why)))) => {
                live.phase = Phase::Invalid;
                let convicted = Convicted {
                    id,
                    subject: live.header.subject,
                    why,
                    header: live.announce.evidence(),
                };
                self.progress(id, Step::Invalid);
                self.out
                    .push_back(Output::InvalidSource(Box::new(convicted)));
            }
            // The job was lost. The pieces are here and served, and no peer sends them again.
            _ => {
                self.refused.add(Reject::LateResult);
                if live.decodes < TRIES_MAX {
                    live.decode_at = now.saturating_add_ns(self.config.need_after_quiet_ns);
                    self.due_changed = true;
                }
            }
        }
    }
}

/// Drops a piece if more than `max` wait, the newest of the peer with the most, and returns its
/// sender.
fn shed<P>(waiting: &mut Vec<Waiting<P>>, max: u16) -> Option<PeerIndex> {
    if waiting.len() <= usize::from(max) {
        return None;
    }
    let mut counts: BTreeMap<PeerIndex, (usize, usize)> = BTreeMap::new();
    for (at, Waiting { from, .. }) in waiting.iter().enumerate() {
        let (count, newest) = counts.entry(*from).or_default();
        (*count, *newest) = (*count + 1, at);
    }
    let (_, newest) = counts.into_values().max()?;
    Some(waiting.remove(newest).from)
}

impl<C: Coding> Live<C> {
    /// Time to send a piece on this node's uplink, or on the network's if that is slower.
    fn piece_ns(&self, config: &Config) -> u64 {
        let bps = config.uplink_bps.min(config.reference_uplink_bps);
        let pieces = u64::from(self.header.chunks) * u64::from(self.header.generations);
        u64::from(self.header.len) * 8_000_000_000 / bps / pieces
    }

    /// Marks everything there is to send as held.
    pub(super) fn hold_all(&mut self, decoder: C::Decoder) {
        self.decoder = Arc::new(decoder);
        for shard in 0..self.shard_sends.len() {
            shards::insert(&mut self.held_shards, shard as u16);
        }
        for flow in &mut self.flows {
            flow.stuck = false;
        }
    }
}
