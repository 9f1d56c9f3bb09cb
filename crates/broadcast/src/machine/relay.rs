//! Reactions to received messages: bursts and credit, RANK, DONE, NEED and its answers.

use super::{Broadcast, NOBODY};
use crate::config::SourcePrivacy;
use crate::live::{Live, NEED_SLACK, PeerIndex};
use crate::message::{Message, Ranks, Want};
use crate::reject::Reject;
use crate::rlnc::{Coding, Strategy};
use crate::shards::{self, ShardSet};
use crate::{Output, Priority};
use alphorn_types::{Peer, Time};
use std::cmp::Reverse;

impl<C: Coding> Broadcast<C> {
    /// Handles a piece with `hop` transmissions that raised the rank of a generation.
    pub(super) fn on_rank_raised(&mut self, now: Time, index: usize, generation: u16, hop: u8) {
        let live = &mut self.live[index];
        let needed = live.needed();
        let policy = live.policy;
        // If sources blend in, half of them claim one transmission too many. The bursts that reach every node must be
        // sent for those as well.
        let blended = u8::from(self.config.source_privacy == SourcePrivacy::Blend);
        let burst_peers = live.burst_peers(policy.burst_after(hop.saturating_sub(blended)));
        if hop == 0 && self.config.source_privacy == SourcePrivacy::Stem {
            live.stem_of = true;
        }
        let flow = &mut live.flows[usize::from(generation)];
        flow.stuck = false;
        live.answers_stuck = false;
        if self.config.relay && !live.stem_of {
            // Hop 0 marks pieces for a stem. A node that does not act as one treats them like any others.
            let next_hop = hop.max(1).saturating_add(1);
            if flow.rank == 1 {
                flow.burst_hop = next_hop;
                flow.burst_owed = burst_peers;
                flow.burst_peers = burst_peers;
                // Only a relay next to the source is sent a run, so only there does more follow at once.
                if hop <= 1 && policy.source_run > 1 && needed > 1 {
                    flow.gathering = true;
                    live.burst_at = live.burst_at.min(now.saturating_add_ns(policy.gather_ns));
                    self.due_changed = true;
                }
            } else {
                flow.gathering &= flow.rank < u16::from(policy.source_run);
                flow.credit_hop = next_hop;
                flow.credit_milli = flow.credit_milli.saturating_add(policy.credit_milli);
            }
        }
        self.wake = true;
        let rank = flow.rank;
        if rank == needed {
            live.full += 1;
            if live.is_full() {
                // Pieces answered so far may have been of little value.
                live.links.iter_mut().for_each(|link| link.answered = 0);
                if policy.feedback {
                    self.send_done(index);
                }
                return self.begin_decoding(index);
            }
        }
        let half = (needed / 2).max(1);
        let telling = match live.header.strategy {
            Strategy::Rlnc => rank == 1 || rank == half || rank == needed,
            Strategy::Rs => rank >= half,
        };
        // Otherwise one is planned already; it will carry the ranks of that time.
        if telling && policy.feedback && live.rank_at == Time::MAX {
            live.rank_at = live.rank_after.max(now);
            if live.rank_at <= now {
                self.send_ranks(now, index);
            }
        }
    }

    /// Stops waiting for more: bursts go out with what is here.
    pub(super) fn end_gathering(&mut self, index: usize) {
        let live = &mut self.live[index];
        live.burst_at = Time::MAX;
        for flow in &mut live.flows {
            flow.gathering = false;
            flow.stuck = false;
        }
        self.wake = true;
    }

    /// Sends this node's ranks to every peer that still needs pieces.
    pub(super) fn send_ranks(&mut self, now: Time, index: usize) {
        let live = &mut self.live[index];
        live.rank_at = Time::MAX;
        live.rank_after = now.saturating_add_ns(self.config.feedback_interval_ns);
        self.due_changed = true;
        let ranks = live.ranks();
        for at in 0..live.order.len() {
            let peer = live.order[at];
            let link = live.link(peer);
            if link.done || self.peers[usize::from(peer)].banned {
                continue;
            }
            link.told = true;
            self.out.push_back(Output::Send {
                peer: Peer(peer.into()),
                message: Message::Rank {
                    id: live.id,
                    ranks: ranks.clone(),
                },
                priority: Priority::Control,
                drawn: 0,
            });
        }
    }

    /// Sends this node's ranks to one peer, because its pieces are useless.
    pub(super) fn tell_rank(&mut self, index: usize, peer: PeerIndex) {
        let live = &mut self.live[index];
        live.link(peer).told = true;
        let (id, ranks) = (live.id, live.ranks());
        self.out.push_back(Output::Send {
            peer: Peer(peer.into()),
            message: Message::Rank { id, ranks },
            priority: Priority::Control,
            drawn: 0,
        });
    }

    /// Handles a piece received after completion. A peer that sends a second one is informed.
    pub(super) fn on_surplus(&mut self, index: usize, from: PeerIndex) {
        let live = &mut self.live[index];
        let link = live.link(from);
        if !link.surplus {
            link.surplus = true;
        } else if !link.told_done {
            link.told_done = true;
            // A hiding source that answered would give itself away: it never had anything missing.
            if !link.done && !live.coy {
                let id = live.id;
                self.out.push_back(Output::Send {
                    peer: Peer(from.into()),
                    message: Message::Done { id },
                    priority: Priority::Control,
                    drawn: 0,
                });
            }
        }
    }

    /// Sends DONE to every peer that may still send.
    pub(super) fn send_done(&mut self, index: usize) {
        let live = &mut self.live[index];
        for at in 0..live.order.len() {
            let peer = live.order[at];
            if live.link(peer).done || self.peers[usize::from(peer)].banned {
                continue;
            }
            live.link(peer).told_done = true;
            self.out.push_back(Output::Send {
                peer: Peer(peer.into()),
                message: Message::Done { id: live.id },
                priority: Priority::Control,
                drawn: 0,
            });
        }
    }

    pub(super) fn on_done(&mut self, index: usize, from: PeerIndex) {
        let live = &mut self.live[index];
        if std::mem::replace(&mut live.link(from).done, true) {
            return;
        }
        if self.peers[usize::from(from)].in_flight > 0 {
            self.out.push_back(Output::Cancel {
                peer: Peer(from.into()),
                id: live.id,
            });
        }
        // No peer can have everything before this many pieces were sent. A peer that claims so is probing which nodes
        // answer, and a relay would not.
        let needed = u32::from(live.needed()) * u32::from(live.header.generations);
        if live.coy && live.stats.sent >= needed {
            live.coy = false;
            self.send_done(index);
        }
    }

    pub(super) fn on_rank(&mut self, index: usize, from: PeerIndex, ranks: &Ranks) {
        let live = &mut self.live[index];
        let needed = live.needed();
        let known = match (ranks, live.header.strategy) {
            (Ranks::One(rank), Strategy::Rlnc) => std::slice::from_ref(rank),
            (Ranks::Many(ranks), Strategy::Rlnc) => ranks,
            (Ranks::Shards(set), Strategy::Rs) if set.total() == live.header.shards_total => {
                let known = live.shards_of(from);
                for (word, &more) in known.iter_mut().zip(set.as_words()) {
                    *word |= more;
                }
                // More shards than are needed are no higher rank.
                let rank = shards::count(known).min(usize::from(needed)) as u16;
                let share = live.share(from, 0);
                share.rank = share.rank.max(rank);
                return;
            }
            _ => return self.refuse(from, Reject::BadLength),
        };
        if known.len() != live.flows.len() || known.iter().any(|&rank| rank > needed) {
            return self.refuse(from, Reject::BadLength);
        }
        for (generation, &rank) in (0..).zip(known) {
            let share = live.share(from, generation);
            share.rank = share.rank.max(rank);
        }
    }

    pub(super) fn on_need(&mut self, index: usize, from: PeerIndex, generation: u16, want: &Want) {
        let live = &mut self.live[index];
        if generation >= live.header.generations {
            return self.refuse(from, Reject::BadLength);
        }
        let needed = live.needed();
        let asked = match (want, live.header.strategy) {
            (Want::Count(count), Strategy::Rlnc) => {
                // Pieces beyond this node's rank cannot be new to any peer.
                (*count).min(live.flows[usize::from(generation)].rank)
            }
            (Want::Shards(set), Strategy::Rs) if set.total() == live.header.shards_total => {
                // A peer has the shards it does not request; so a lost shard is sent again.
                set.write_others(live.shards_of(from));
                let has = live.header.shards_total - set.len() as u16;
                needed.saturating_sub(has)
            }
            _ => return self.refuse(from, Reject::BadLength),
        };
        if !(self.config.relay || live.own) || live.convicted {
            return;
        }
        let generations = u32::from(live.header.generations);
        let budget = u32::from(self.config.need_generations_max) * u32::from(needed) * generations;
        // Without this generation, whose earlier request is replaced below.
        let waiting: u32 = (0..live.header.generations)
            .filter(|&other| other != generation)
            .map(|other| u32::from(live.share(from, other).owed))
            .sum();
        let link = *live.link(from);
        let left = budget.saturating_sub(u32::from(link.answered) + waiting);
        let owed = u32::from(asked).min(left) as u16;
        if owed < asked {
            self.refused.add(Reject::BudgetExceeded);
        }
        if owed == 0 || link.done {
            return;
        }
        live.share(from, generation).owed = owed;
        if !live.answers.contains(&(from, generation)) {
            live.answers.push((from, generation));
        }
        live.answers_stuck = false;
        self.wake = true;
    }

    /// Requests everything missing from some peers, after a while with no or too few new pieces.
    pub(super) fn ask(&mut self, now: Time, index: usize) {
        let live = &mut self.live[index];
        self.due_changed = true;
        if live.is_full() || live.need_rounds >= self.config.need_rounds_max {
            live.need_at = Time::MAX;
            return;
        }
        let wait_ns = self.config.need_after_quiet_ns;
        live.need_rounds += 1;
        // Cannot overflow: a wait is an hour at most, and 2^16 hours in nanoseconds fit 64 bits.
        live.need_at = now.saturating_add_ns(wait_ns << live.need_rounds.min(16));
        live.need_by = live.need_at.saturating_add_ns(NEED_SLACK * wait_ns);
        for generation in 0..live.header.generations {
            let live = &mut self.live[index];
            let rank = live.flows[usize::from(generation)].rank;
            let missing = live.needed() - rank;
            if missing == 0 {
                continue;
            }
            let want = match live.header.strategy {
                Strategy::Rlnc => Want::Count(missing),
                Strategy::Rs => {
                    let total = live.header.shards_total;
                    let lacks = |&shard: &u16| !shards::contains(&live.held_shards, shard);
                    Want::Shards(ShardSet::new(total, (0..total).filter(lacks)))
                }
            };
            let id = live.id;
            for peer in self.best_sources(index, generation, missing) {
                self.out.push_back(Output::Send {
                    peer: Peer(peer.into()),
                    message: Message::Need {
                        id,
                        generation,
                        want: want.clone(),
                    },
                    priority: Priority::Control,
                    drawn: 0,
                });
            }
        }
    }

    /// Selects the peers to ask. First those that delivered most of what they were asked for, then among these those
    /// that are not muted, then those that are done, then those of the highest rank, taking turns among equals. A
    /// peer's claims cost it nothing, so one of several has sent something new, if any peer has.
    fn best_sources(&mut self, index: usize, generation: u16, missing: u16) -> Vec<PeerIndex> {
        let live = &mut self.live[index];
        let count = live.order.len();
        let from = live.need_cursor as usize;
        let mut known = Vec::with_capacity(count);
        for step in 0..count {
            let peer = live.order[(from + step) % count];
            let link = *live.link(peer);
            if !link.header || link.demoted || self.peers[usize::from(peer)].banned {
                continue;
            }
            let share = live.share(peer, generation);
            let lacking = share.asked.saturating_sub(share.innovative);
            let claims = Reverse((link.done, share.rank));
            // Peers with nothing new so far come after others, but not after peers that did not answer.
            known.push((lacking, link.muted, claims, step, peer, link.innovative > 0));
        }
        known.sort_unstable();
        let asked = usize::from(self.config.need_peers);
        let proven = known.iter().position(|&(.., proven)| proven);
        if let Some(proven) = proven.filter(|&proven| asked > 1 && proven >= asked) {
            known.swap(asked - 1, proven);
        }
        known.truncate(asked);
        // The next round starts after the peers asked now.
        let last = known.iter().map(|(_, _, _, step, ..)| step + 1).max();
        live.need_cursor = last.map_or(0, |step| ((from + step) % count.max(1)) as u32);
        let peers: Vec<PeerIndex> = known.into_iter().map(|(.., peer, _)| peer).collect();
        for &peer in &peers {
            let link = live.link(peer);
            link.muted = false;
            // Pieces it pushed before are still in flight: as many as requested may be among those.
            link.heard_until = link.heard_until.max(link.dependent).saturating_add(missing);
            let share = live.share(peer, generation);
            share.asked = share.asked.saturating_add(missing);
        }
        peers
    }

    /// Handles a departed peer: nothing is awaited from it or sent to it.
    pub(super) fn leave(&mut self, index: usize, peer: PeerIndex) {
        let live = &mut self.live[index];
        live.forget(peer);
        // The job runs on, but its pieces are now nobody's: the number may go to another peer.
        if let Some((_, batch)) = &mut live.verifying {
            for waiting in batch.iter_mut().filter(|waiting| waiting.from == peer) {
                waiting.from = NOBODY;
            }
        }
        for flow in &mut live.flows {
            flow.stuck = false;
        }
        live.answers_stuck = false;
        // The peer may have left before it passed anything on, so this node sends as the source itself.
        if live.stem == Some(peer) {
            live.stem = None;
            self.push_as_source(index, 1);
        }
    }
}

impl<C: Coding> Live<C> {
    /// This node's ranks.
    fn ranks(&self) -> Ranks {
        match self.header.strategy {
            Strategy::Rs => {
                let total = self.header.shards_total;
                Ranks::Shards(ShardSet::from_words(total, &self.held_shards))
            }
            Strategy::Rlnc => match &self.flows[..] {
                [flow] => Ranks::One(flow.rank),
                flows => Ranks::Many(flows.iter().map(|flow| flow.rank).collect()),
            },
        }
    }
}
