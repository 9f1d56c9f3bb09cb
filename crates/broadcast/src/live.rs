//! State of one broadcast.

use super::config::Config;
use super::message::Announce;
use super::place::Turn;
use super::policy::Policy;
use super::shards::words;
use crate::rlnc::{Coding, Header, Id, Strategy};
use alphorn_types::Time;
use std::sync::Arc;

/// Index of a peer, below `peers_max`.
pub(super) type PeerIndex = u16;

/// Maximum number of quiet times by which new pieces may delay a request, plus this many times the uplink time of a
/// piece for each. A quiet time is longer than a hop, and no network has this many hops.
pub(super) const NEED_SLACK: u64 = 8;

/// Progress of a broadcast, never backwards. (A header that is not yet verified is not a broadcast, see `gate`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Pieces are missing.
    Collecting,
    /// Full rank; the payload is not verified yet.
    Decoding,
    /// The payload has been recovered.
    Decoded,
    /// The source did not commit to a payload.
    Invalid,
}

/// What a broadcast knows about a peer, independent of the generation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    /// The peer knows the header: it received it from this node, or sent a message about the broadcast.
    pub(super) header: bool,
    /// It sent a message about the broadcast.
    pub(super) carries: bool,
    /// It needs nothing more.
    pub(super) done: bool,
    /// Its pieces are no longer accepted: it sent more useless ones than an honest peer would.
    pub(super) demoted: bool,
    /// Its pieces are not accepted until it is asked for some: so far nearly none were useful, through no fault of its
    /// own.
    pub(super) muted: bool,
    /// It was sent the rank of this node, so it could know what is useless.
    pub(super) told: bool,
    /// It sent a piece after this node was complete.
    pub(super) surplus: bool,
    /// It was informed that this node needs nothing more.
    pub(super) told_done: bool,
    /// It asked for the header.
    pub(super) asked: bool,
    /// It was reported for sending too much.
    pub(super) reported: bool,
    /// Number of its pieces waiting for verification.
    pub(super) unverified: u8,
    /// Number of pieces received.
    pub(super) received: u16,
    /// How many of them were new, and how many were useless while something was missing.
    pub(super) innovative: u16,
    pub(super) dependent: u16,
    /// It is not muted before this many pieces were useless. Those in flight when it was asked prove nothing.
    pub(super) heard_until: u16,
    /// Number of pieces sent on request.
    pub(super) answered: u16,
}

/// What a broadcast knows about a peer and one generation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// Pieces sent to it, and new pieces received from it. Together they cannot exceed the rank of this node, because
    /// both lie in both spans.
    pub(super) sent: u16,
    pub(super) innovative: u16,
    /// The rank it claimed.
    pub(super) rank: u16,
    /// Pieces it requested and is waiting for.
    pub(super) owed: u16,
    /// Pieces requested from it.
    pub(super) asked: u16,
    /// The commitments were sent to it.
    pub(super) commitments: bool,
}

/// One generation: what is verified, and what remains to be sent.
#[derive(Clone, Debug)]
pub(super) struct Flow<C: Coding> {
    pub(super) commitments: Option<C::Commitments>,
    pub(super) rank: u16,
    /// Hop that pieces of the burst carry.
    pub(super) burst_hop: u8,
    /// Hop carried by pieces paid for by credit.
    pub(super) credit_hop: u8,
    /// The burst waits for the rest of the source's run.
    pub(super) gathering: bool,
    /// Pieces of the burst not sent yet.
    pub(super) burst_owed: u32,
    /// The burst goes to this many peers, the first in order.
    pub(super) burst_peers: u32,
    /// A peer may get more than one piece of the burst. Set for the burst of a source.
    pub(super) burst_repeats: bool,
    /// Credit in thousandths of a piece, not sent yet.
    pub(super) credit_milli: u32,
    /// No peer can accept a piece until something changes.
    pub(super) stuck: bool,
    /// Position in the peer order where the round continues.
    pub(super) cursor: u32,
}

/// A piece waiting for verification, with its sender.
#[derive(Clone, Debug)]
pub(super) struct Waiting<P> {
    pub(super) from: PeerIndex,
    pub(super) piece: P,
    pub(super) hop: u8,
}

/// Counters of a broadcast on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// Pieces that raised the rank.
    pub(crate) innovative: u32,
    /// Pieces sent, whether pushed or asked for.
    pub(crate) sent: u32,
    /// Of those, pieces sent on request.
    pub(crate) answered: u32,
    /// Verifications.
    pub(crate) batches: u32,
}

/// Maximum bytes kept for a broadcast at a time.
pub(super) fn memory_bytes(header: &Header) -> u64 {
    let each = header.piece_memory_bytes();
    let needed = u64::from(header.chunks) * u64::from(header.generations);
    let pieces = match header.strategy {
        // Accepted pieces or pieces that may raise the rank, plus those held behind them or waiting for commitments:
        // one generation each. Once complete, the accepted pieces and the result.
        Strategy::Rlnc => 2 * needed,
        // Each shard may wait once, with as many as are needed held behind them. Once complete, those, the padded
        // payload, and every shard.
        Strategy::Rs => u64::from(header.shards_total) + 2 * needed,
    };
    pieces * each + header.span_memory_bytes() + u64::from(header.len)
}

/// A broadcast with a verified header.
#[derive(Debug)]
pub(super) struct Live<C: Coding> {
    pub(super) id: Id,
    pub(super) header: Arc<Header>,
    pub(super) announce: Arc<Announce<C>>,
    /// Rotation of the place orders.
    pub(super) turn: Turn,
    pub(super) phase: Phase,
    /// This node is the source.
    pub(super) own: bool,
    /// Second header of its subject: only the header is accepted or sent.
    pub(super) convicted: bool,
    pub(super) expires: Time,
    pub(super) policy: Policy,
    pub(super) decoder: Arc<C::Decoder>,
    /// Number of complete generations.
    pub(super) full: u16,
    pub(super) flows: Vec<Flow<C>>,
    pub(super) links: Vec<Link>,
    /// Number of peers that sent messages about it.
    pub(super) carriers: u16,
    /// Generations by peer; empty while no peer is known.
    pub(super) shares: Vec<Share>,
    /// The peers in service order, and this node's rank in the order of each.
    pub(super) order: Vec<PeerIndex>,
    pub(super) ranks_there: Vec<u16>,
    /// Shards held by this node, and by each peer; empty for the random linear code.
    pub(super) held_shards: Vec<u64>,
    pub(super) peer_shards: Vec<u64>,
    /// How often each shard was sent, and its position in the tie order.
    pub(super) shard_sends: Vec<u16>,
    pub(super) shard_ties: Vec<u16>,
    pub(super) queue: Vec<Waiting<C::Piece>>,
    pub(super) held: Vec<Waiting<C::Piece>>,
    /// Pieces of generations whose commitments have not arrived.
    pub(super) without_commitments: Vec<Waiting<C::Piece>>,
    /// A waiting piece was dropped: after the current batch the rest is offered again.
    pub(super) sort_out: bool,
    /// The batch being verified: its job and its pieces.
    pub(super) verifying: Option<(u64, Vec<Waiting<C::Piece>>)>,
    pub(super) batches: u64,
    /// Requests waiting to be answered.
    pub(super) answers: Vec<(PeerIndex, u16)>,
    pub(super) answers_stuck: bool,
    /// When to request pieces, and how often that was done without success.
    pub(super) need_at: Time,
    /// Latest time to which new pieces can delay that.
    pub(super) need_by: Time,
    pub(super) need_rounds: u8,
    pub(super) need_cursor: u32,
    /// Time at which waiting bursts are sent.
    pub(super) burst_at: Time,
    /// Time at which decoding is retried, and number of attempts so far.
    pub(super) decode_at: Time,
    pub(super) decodes: u8,
    /// Time at which RANK is due.
    pub(super) rank_at: Time,
    /// Earliest time for the next RANK.
    pub(super) rank_after: Time,
    /// This node hides that it is the source: it sends DONE only after another peer did.
    pub(super) coy: bool,
    /// This node's pieces claim that it is a relay.
    pub(super) blend: bool,
    /// The peer acting as the source for this node, and whether this node does so for another.
    pub(super) stem: Option<PeerIndex>,
    pub(super) stem_of: bool,
    pub(super) stats: Stats,
}

impl<C: Coding> Live<C> {
    pub(super) fn new(
        code: &C,
        config: &Config,
        announce: Arc<Announce<C>>,
        decoder: C::Decoder,
        now: Time,
    ) -> Live<C> {
        let header = Arc::new(announce.header.clone());
        let total = match header.strategy {
            Strategy::Rlnc => 0,
            Strategy::Rs => header.shards_total,
        };
        let flow = |generation: u16| Flow {
            // The commitments of shards are empty and never sent, so decoding them cannot fail.
            commitments: match header.strategy {
                Strategy::Rs => code.decode_commitments(&header, generation, &[]).ok(),
                Strategy::Rlnc => announce.commitments.clone(),
            },
            rank: code.rank(&decoder, generation),
            burst_hop: 0,
            credit_hop: 0,
            gathering: false,
            burst_owed: 0,
            burst_peers: 0,
            burst_repeats: false,
            credit_milli: 0,
            stuck: false,
            cursor: 0,
        };
        Live {
            id: announce.id,
            turn: Turn::of(&header.subject),
            flows: (0..header.generations).map(flow).collect(),
            phase: Phase::Collecting,
            own: false,
            convicted: false,
            expires: now.saturating_add_ns(config.broadcast_ttl_ns),
            policy: config.policy_for(header.len),
            decoder: Arc::new(decoder),
            full: 0,
            links: Vec::new(),
            carriers: 0,
            shares: Vec::new(),
            order: Vec::new(),
            ranks_there: Vec::new(),
            held_shards: vec![0; words(total)],
            peer_shards: Vec::new(),
            shard_sends: vec![0; usize::from(total)],
            shard_ties: (0..total).collect(),
            queue: Vec::new(),
            held: Vec::new(),
            without_commitments: Vec::new(),
            sort_out: false,
            verifying: None,
            batches: 0,
            answers: Vec::new(),
            answers_stuck: false,
            need_at: Time::MAX,
            need_by: now.saturating_add_ns(NEED_SLACK * config.need_after_quiet_ns),
            need_rounds: 0,
            need_cursor: 0,
            burst_at: Time::MAX,
            decode_at: Time::MAX,
            decodes: 0,
            rank_at: Time::MAX,
            rank_after: now,
            coy: false,
            blend: false,
            stem: None,
            stem_of: false,
            stats: Stats::default(),
            header,
            announce,
        }
    }

    /// Number of source chunks of a generation, or of data shards.
    #[inline]
    pub(super) fn needed(&self) -> u16 {
        self.header.chunks
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.full == self.header.generations
    }

    /// Returns the link to a peer, growing the tables up to it.
    #[inline]
    pub(super) fn link(&mut self, peer: PeerIndex) -> &mut Link {
        if usize::from(peer) >= self.links.len() {
            self.grow(peer);
        }
        &mut self.links[usize::from(peer)]
    }

    /// Returns the link to a peer that sent a message about the broadcast.
    #[inline]
    pub(super) fn spoke(&mut self, peer: PeerIndex) -> &mut Link {
        let link = self.link(peer);
        link.header = true;
        let is_first = !std::mem::replace(&mut link.carries, true);
        self.carriers += u16::from(is_first);
        &mut self.links[usize::from(peer)]
    }

    #[cold]
    fn grow(&mut self, peer: PeerIndex) {
        let count = usize::from(peer) + 1;
        self.links.resize(count, Link::default());
        // All of one peer in a row, so that growing leaves the others where they are.
        self.shares
            .resize(count * self.flows.len(), Share::default());
        self.peer_shards.resize(count * self.held_shards.len(), 0);
    }

    /// Returns what is known of a peer and a generation. The link must have been touched.
    #[inline]
    pub(super) fn share(&mut self, peer: PeerIndex, generation: u16) -> &mut Share {
        let generations = self.flows.len();
        &mut self.shares[usize::from(peer) * generations + usize::from(generation)]
    }

    /// Returns the shards that a peer is known to have. The link must have been touched.
    pub(super) fn shards_of(&mut self, peer: PeerIndex) -> &mut [u64] {
        let words = self.held_shards.len();
        let from = usize::from(peer) * words;
        &mut self.peer_shards[from..from + words]
    }

    /// Forgets a peer, whose number may be reused for another.
    pub(super) fn forget(&mut self, peer: PeerIndex) {
        if let Some(at) = self.order.iter().position(|&other| other == peer) {
            self.order.remove(at);
            self.ranks_there.remove(at);
            for flow in &mut self.flows {
                // The order has shifted, so the round starts again.
                flow.cursor = 0;
                // The burst goes to the front of the order, which is one shorter if the peer was in it.
                flow.burst_peers -= u32::from((at as u32) < flow.burst_peers);
            }
        }
        self.answers.retain(|&(other, _)| other != peer);
        if usize::from(peer) >= self.links.len() {
            return;
        }
        let link = std::mem::take(self.link(peer));
        self.carriers -= u16::from(link.carries);
        for generation in 0..self.header.generations {
            *self.share(peer, generation) = Share::default();
        }
        self.shards_of(peer).fill(0);
    }

    /// Number of peers that a burst goes to: those in whose order this node is among the first `burst`, capped in case
    /// many claim so.
    pub(super) fn burst_peers(&self, burst: u16) -> u32 {
        let count = self.ranks_there.partition_point(|&rank| rank < burst);
        count.min(2 * usize::from(burst)) as u32
    }

    /// Earliest time at which something is due.
    #[inline]
    pub(super) fn due(&self) -> Time {
        self.expires
            .min(self.need_at)
            .min(self.rank_at)
            .min(self.burst_at)
            .min(self.decode_at)
    }
}
