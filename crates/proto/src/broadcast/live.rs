//! What is kept of one broadcast.

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

/// Quiet times for which new pieces put a request off, and their times on the uplink: a quiet time is
/// longer than a hop, and no network has so many.
pub(super) const NEED_SLACK: u64 = 8;

/// How far a broadcast has come; never backward. (A header that is not verified yet is no
/// broadcast, see `gate`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Pieces are missing.
    Collecting,
    /// Full rank, the payload is not checked yet.
    Decoding,
    /// The payload is here.
    Decoded,
    /// The source committed to no payload.
    Invalid,
}

/// What a broadcast knows of a peer, whatever the generation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    /// It knows the header: it was sent it, or spoke of the broadcast.
    pub(super) header: bool,
    /// It spoke of the broadcast.
    pub(super) carries: bool,
    /// It needs nothing more.
    pub(super) done: bool,
    /// Its pieces are not taken any more: more of them added nothing than an honest peer sends.
    pub(super) demoted: bool,
    /// Its pieces are not taken until it is asked for some: so far nearly none added anything, which is no
    /// fault of it.
    pub(super) muted: bool,
    /// It was told the rank here, so that it could know what adds nothing.
    pub(super) told: bool,
    /// It sent a piece although everything was here.
    pub(super) surplus: bool,
    /// It was told that nothing more is needed here.
    pub(super) told_done: bool,
    /// It asked for the header.
    pub(super) asked: bool,
    /// It was reported for sending too much.
    pub(super) reported: bool,
    /// Pieces of it that wait for verification.
    pub(super) unverified: u8,
    /// Pieces received.
    pub(super) received: u16,
    /// Those of them that were new, and those that added nothing although something was missing.
    pub(super) innovative: u16,
    pub(super) dependent: u16,
    /// It is not muted before so many added nothing: those under way when it was asked tell nothing.
    pub(super) heard_until: u16,
    /// Pieces sent on request.
    pub(super) answered: u16,
}

/// What a broadcast knows of a peer and one generation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// Pieces sent to it, and new pieces received from it: together they cannot exceed the rank
    /// here, because both lie in both spans.
    pub(super) sent: u16,
    pub(super) innovative: u16,
    /// The rank that it claimed.
    pub(super) rank: u16,
    /// Pieces that it asked for and waits for.
    pub(super) owed: u16,
    /// Pieces that it was asked for.
    pub(super) asked: u16,
    /// It was sent the anchor.
    pub(super) anchor: bool,
}

/// One generation: what is verified, and what is still to be sent.
#[derive(Clone, Debug)]
pub(super) struct Flow<C: Coding> {
    pub(super) anchor: Option<C::Anchor>,
    pub(super) rank: u16,
    /// Hop that pieces of the burst carry.
    pub(super) burst_hop: u8,
    /// Hop that pieces carry for which credit pays.
    pub(super) credit_hop: u8,
    /// The burst waits for the rest of what the source sends in a row.
    pub(super) gathering: bool,
    /// Pieces of the burst that are not sent yet.
    pub(super) burst_owed: u32,
    /// The burst goes to so many peers, the first in order.
    pub(super) burst_peers: u32,
    /// A peer may get more than one piece of the burst: that of a source.
    pub(super) burst_repeats: bool,
    /// Thousandths of pieces that credit pays for and are not sent yet.
    pub(super) credit_milli: u32,
    /// No peer can take a piece until something changes.
    pub(super) stuck: bool,
    /// Where in the order of peers the round goes on.
    pub(super) cursor: u32,
}

/// A piece that waits for verification, and who sent it.
#[derive(Clone, Debug)]
pub(super) struct Waiting<P> {
    pub(super) from: PeerIndex,
    pub(super) piece: P,
    pub(super) hop: u8,
}

/// Counts of a broadcast on one node.
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

/// The most bytes that is kept of a broadcast at a time.
pub(super) fn memory_bytes(header: &Header) -> u64 {
    let each = header.piece_memory_bytes();
    let needed = u64::from(header.chunks) * u64::from(header.generations);
    let pieces = match header.strategy {
        // What is accepted or may raise the rank, with what is held behind it or waits for commitments:
        // of one generation each. When all is there, what was accepted and what comes of it.
        Strategy::Rlnc => 2 * needed,
        // Each shard may wait once, and as many as are needed are held behind them. When all is there,
        // those, the padded payload, and every shard.
        Strategy::Rs => u64::from(header.shards_total) + 2 * needed,
    };
    pieces * each + header.span_memory_bytes() + u64::from(header.len)
}

/// A broadcast whose header is verified.
#[derive(Debug)]
pub(super) struct Live<C: Coding> {
    pub(super) id: Id,
    pub(super) header: Arc<Header>,
    pub(super) announce: Arc<Announce<C>>,
    /// How far the orders of places are turned.
    pub(super) turn: Turn,
    pub(super) phase: Phase,
    /// This node is the source.
    pub(super) own: bool,
    /// The second header of its subject: nothing of it is taken or sent but the header.
    pub(super) convicted: bool,
    pub(super) expires: Time,
    pub(super) policy: Policy,
    pub(super) decoder: Arc<C::Decoder>,
    /// Generations that are complete.
    pub(super) full: u16,
    pub(super) flows: Vec<Flow<C>>,
    pub(super) links: Vec<Link>,
    /// Peers that spoke of it.
    pub(super) carriers: u16,
    /// Peer by peer the generations, or empty while no peer is known.
    pub(super) shares: Vec<Share>,
    /// The peers in the order in which they are served, and how many come before this node in the
    /// order of each.
    pub(super) order: Vec<PeerIndex>,
    pub(super) ranks_there: Vec<u16>,
    /// Shards held here, and peer by peer those it has; empty for the random linear code.
    pub(super) held_shards: Vec<u64>,
    pub(super) peer_shards: Vec<u64>,
    /// How often each shard was sent, and its place in the order of ties.
    pub(super) shard_sends: Vec<u16>,
    pub(super) shard_ties: Vec<u16>,
    pub(super) queue: Vec<Waiting<C::Piece>>,
    pub(super) held: Vec<Waiting<C::Piece>>,
    /// Pieces of generations whose commitments have not come.
    pub(super) unanchored: Vec<Waiting<C::Piece>>,
    /// Something that waited was dropped: after the batch under way the rest is offered again.
    pub(super) sort_out: bool,
    /// The batch that is verified: its job and its pieces.
    pub(super) verifying: Option<(u64, Vec<Waiting<C::Piece>>)>,
    pub(super) batches: u64,
    /// Requests that wait to be answered.
    pub(super) answers: Vec<(PeerIndex, u16)>,
    pub(super) answers_stuck: bool,
    /// When to ask for pieces, and how often that was done without success.
    pub(super) need_at: Time,
    /// New pieces put that off until then, at most.
    pub(super) need_by: Time,
    pub(super) need_rounds: u8,
    pub(super) need_cursor: u32,
    /// Bursts that wait go at that time.
    pub(super) burst_at: Time,
    /// Decoding is tried again at that time, and how often it was begun.
    pub(super) decode_at: Time,
    pub(super) decodes: u8,
    /// RANK is due at that time.
    pub(super) rank_at: Time,
    /// No RANK before that time.
    pub(super) rank_after: Time,
    /// This node hides that it is the source: it says DONE only after somebody else did.
    pub(super) coy: bool,
    /// This node claims in its pieces to be a relay.
    pub(super) blend: bool,
    /// The peer that acts as the source for this one, and whether this one does for another.
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
            // The anchor of shards is empty and never sent, so decoding it cannot fail.
            anchor: match header.strategy {
                Strategy::Rs => code.decode_anchor(&header, generation, &[]).ok(),
                Strategy::Rlnc => announce.anchor.clone(),
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
            unanchored: Vec::new(),
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

    /// Source chunks of a generation, or data shards.
    #[inline]
    pub(super) fn needed(&self) -> u16 {
        self.header.chunks
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.full == self.header.generations
    }

    /// The link to a peer; grows the tables up to it.
    #[inline]
    pub(super) fn link(&mut self, peer: PeerIndex) -> &mut Link {
        if usize::from(peer) >= self.links.len() {
            self.grow(peer);
        }
        &mut self.links[usize::from(peer)]
    }

    /// The link to a peer that spoke of the broadcast.
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
        self.shares
            .resize(count * self.flows.len(), Share::default());
        self.peer_shards.resize(count * self.held_shards.len(), 0);
    }

    /// What is known of a peer and a generation; the link must have been touched.
    #[inline]
    pub(super) fn share(&mut self, peer: PeerIndex, generation: u16) -> &mut Share {
        let generations = self.flows.len();
        &mut self.shares[usize::from(peer) * generations + usize::from(generation)]
    }

    /// The shards that a peer has, as far as is known; the link must have been touched.
    pub(super) fn shards_of(&mut self, peer: PeerIndex) -> &mut [u64] {
        let words = self.held_shards.len();
        let from = usize::from(peer) * words;
        &mut self.peer_shards[from..from + words]
    }

    /// Forgets a peer, whose number may come back as another's.
    pub(super) fn forget(&mut self, peer: PeerIndex) {
        if let Some(at) = self.order.iter().position(|&other| other == peer) {
            self.order.remove(at);
            self.ranks_there.remove(at);
            for flow in &mut self.flows {
                flow.cursor = 0;
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

    /// How many peers a burst goes to: those in whose order this node is among the first `burst`,
    /// and not many more if many claim so.
    pub(super) fn burst_peers(&self, burst: u16) -> u32 {
        let count = self.ranks_there.partition_point(|&rank| rank < burst);
        count.min(2 * usize::from(burst)) as u32
    }

    /// The earliest time at which something is due.
    #[inline]
    pub(super) fn due(&self) -> Time {
        self.expires
            .min(self.need_at)
            .min(self.rank_at)
            .min(self.burst_at)
            .min(self.decode_at)
    }
}
