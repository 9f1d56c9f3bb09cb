//! Header admission: duty before signature, signature before anything else.

use alphorn_types::{Peer, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Broadcast, NOBODY, TRIES_MAX, Task};
use crate::Evidence;
use crate::live::{Live, PeerIndex, memory_bytes};
use crate::message::{Announce, Message, rides_along};
use crate::reject::Reject;
use crate::rlnc::{Coding, Cut, Header, Id};
use crate::shuffle::shuffle;
use crate::work::{Product, Work};
use crate::{Output, Priority, Step};

/// Maximum number of waiting headers per peer. One of them is verified at a time, so a peer that forges costs one
/// verification and is banned.
const HEADERS_PEER_MAX: u8 = 8;
/// The same, including headers that another peer announced before. The number of peers that announce a header is not
/// bounded, since peers that forge its authenticator would keep the honest ones out.
const ANNOUNCES_PEER_MAX: u8 = 64;
/// Bytes of a waiting header, without its authenticator and commitments.
const ANNOUNCE_BYTES: u64 = 512;

/// A header that is not yet verified.
#[derive(Debug)]
struct Candidate<C: Coding> {
    id: Id,
    /// Its senders, and the form in which each sent it. Signatures need not be unique, so one may be valid and another
    /// not. The first one is verified.
    announces: Vec<(PeerIndex, Arc<Announce<C>>)>,
    /// The commitments. They depend on the id, not on the signature, so they are decoded once.
    commitments: Option<C::Commitments>,
    verifying: bool,
    /// Number of lost verifications.
    lost: u8,
}

impl<C: Coding> Candidate<C> {
    /// Bytes kept of the announcement at this index. The commitments count for the first one.
    fn bytes_of(&self, at: usize, each: u64) -> u64 {
        let commitments = match (at, &self.commitments) {
            (0, Some(_)) => self.announces[0].1.header.commitments_memory_bytes(),
            _ => 0,
        };
        each + commitments
    }

    fn bytes(&self, each: u64) -> u64 {
        let others = self.announces.len().saturating_sub(1) as u64;
        self.bytes_of(0, each) + others * each
    }
}

/// The waiting headers.
#[derive(Debug)]
pub(super) struct Gate<C: Coding> {
    candidates: Vec<Candidate<C>>,
}

impl<C: Coding> Default for Gate<C> {
    fn default() -> Self {
        Gate {
            candidates: Vec::new(),
        }
    }
}

impl<C: Coding> Gate<C> {
    pub(super) fn len(&self) -> usize {
        self.candidates.len()
    }

    pub(super) fn header(&self, id: &Id) -> Option<&Header> {
        let candidate = self.candidates.iter().find(|waiting| waiting.id == *id)?;
        candidate.announces.first().map(|(_, first)| &first.header)
    }

    /// Maximum bytes kept in total, with authenticators of this many bytes.
    pub(super) fn memory_bytes(&self, auth_bytes_max: u16) -> u64 {
        let each = announce_bytes(auth_bytes_max);
        let candidates = self.candidates.iter();
        candidates.map(|waiting| waiting.bytes(each)).sum()
    }

    /// Drops a header if more than `max` bytes are kept, and returns its sender: the newest header of the peer with the
    /// most. A header being verified stays, so there is always one.
    fn shed(&mut self, auth_bytes_max: u16, max: u64) -> Option<PeerIndex> {
        if self.memory_bytes(auth_bytes_max) <= max {
            return None;
        }
        let peers = self.peers(auth_bytes_max).into_values();
        let movable = peers.filter_map(|(bytes, newest)| Some((bytes, newest?)));
        let (_, (index, at)) = movable.max()?;
        let (peer, _) = self.candidates[index].announces.remove(at);
        if self.candidates[index].announces.is_empty() {
            self.candidates.remove(index);
        }
        Some(peer)
    }

    /// Bytes per peer, and the position of its newest header that may be dropped.
    fn peers(&self, auth_bytes_max: u16) -> BTreeMap<PeerIndex, (u64, Option<(usize, usize)>)> {
        let each = announce_bytes(auth_bytes_max);
        let mut peers: BTreeMap<PeerIndex, (u64, Option<(usize, usize)>)> = BTreeMap::new();
        for (index, candidate) in self.candidates.iter().enumerate() {
            for (at, (peer, _)) in candidate.announces.iter().enumerate() {
                let (bytes, newest) = peers.entry(*peer).or_default();
                *bytes += candidate.bytes_of(at, each);
                if at > 0 || !candidate.verifying {
                    *newest = Some((index, at));
                }
            }
        }
        peers
    }

    /// Whether a new header of a peer would be the one dropped.
    fn would_shed(&self, peer: PeerIndex, header: &Header, auth_bytes_max: u16, max: u64) -> bool {
        let bytes = announce_bytes(auth_bytes_max) + header.commitments_memory_bytes();
        let begins = !self.busy().contains(&peer) && self.may_verify(bytes, auth_bytes_max, max);
        if begins || self.memory_bytes(auth_bytes_max) + bytes <= max {
            return false;
        }
        let peers = self.peers(auth_bytes_max);
        let own = bytes + peers.get(&peer).map_or(0, |(bytes, _)| *bytes);
        let has_more = |(other, (bytes, newest)): (&PeerIndex, &(u64, Option<_>))| {
            other != &peer && newest.is_some() && *bytes > own
        };
        !peers.iter().any(has_more)
    }

    /// Whether one more header of this many bytes may be verified concurrently. Headers being verified are never
    /// dropped, so they have the same bound, except for the first.
    fn may_verify(&self, bytes: u64, auth_bytes_max: u16, max: u64) -> bool {
        let each = announce_bytes(auth_bytes_max);
        let verifying = self.candidates.iter().filter(|waiting| waiting.verifying);
        let kept: u64 = verifying.map(|waiting| waiting.bytes_of(0, each)).sum();
        kept == 0 || kept + bytes <= max
    }

    /// Senders of the headers that are being verified.
    fn busy(&self) -> BTreeSet<PeerIndex> {
        let verifying = self.candidates.iter().filter(|waiting| waiting.verifying);
        verifying.map(|waiting| waiting.announces[0].0).collect()
    }
}

fn announce_bytes(auth_bytes_max: u16) -> u64 {
    ANNOUNCE_BYTES + u64::from(auth_bytes_max)
}

impl<C: Coding> Broadcast<C> {
    pub(super) fn on_header(&mut self, now: Time, from: PeerIndex, announce: Arc<Announce<C>>) {
        let id = announce.id;
        if let Some(index) = self.find(&id) {
            self.live[index].spoke(from);
            return;
        }
        if announce.header.strategy != self.code.strategy() {
            return self.refuse(from, Reject::Malformed);
        }
        if let Err(reason) = self.check_header(&announce.header, from) {
            return self.refuse(from, reason);
        }
        let peer = &mut self.peers[usize::from(from)];
        let waiting = &mut self.gate.candidates;
        match waiting.iter_mut().find(|waiting| waiting.id == id) {
            Some(candidate) => {
                let again = candidate.announces.iter().any(|(other, _)| *other == from);
                if again || peer.headers >= ANNOUNCES_PEER_MAX {
                    return self.refused.add(Reject::BudgetExceeded);
                }
                candidate.announces.push((from, announce));
            }
            None if peer.headers >= HEADERS_PEER_MAX => {
                return self.refused.add(Reject::BudgetExceeded);
            }
            // The commitments were skipped because the broadcast was known, and that broadcast is over.
            None if rides_along(&self.code, &announce.header) && announce.commitments.is_none() => {
                return self.refused.add(Reject::UnknownId);
            }
            None => waiting.push(Candidate {
                id,
                commitments: announce.commitments.clone(),
                announces: vec![(from, announce)],
                verifying: false,
                lost: 0,
            }),
        }
        peer.headers += 1;
        // First, so that an arriving header is not dropped when there is room for only one.
        self.verify_headers(now);
        let auth_bytes_max = self.config.limits.header_auth_bytes_max;
        let max = self.config.gate_bytes_max();
        while let Some(from) = self.gate.shed(auth_bytes_max, max) {
            self.release_header(from);
            self.refused.add(Reject::BudgetExceeded);
        }
    }

    /// Checks whether a header may begin a broadcast, as far as possible before verifying its signature.
    pub(super) fn check_header(&self, header: &Header, from: PeerIndex) -> Result<(), Reject> {
        // First: anybody can replay a broadcast that is over, and its duty may be over too.
        self.check_open(header)?;
        if !self.schedule.is_scheduled(&header.subject) {
            return Err(Reject::NotScheduled);
        }
        // Bursts are sized for pieces of this length: under another cut one piece could be the payload.
        // A node scales its policy to its own uplink, but not the cut, on which all nodes of a network agree.
        let policy = self.config.policy_for(header.len);
        let cut = Cut {
            chunks: header.chunks,
            shards_total: header.shards_total,
            generations: header.generations,
        };
        if policy.cut(header.strategy, header.len as usize) != cut {
            return Err(Reject::BadLength);
        }
        self.check_room(header, from)
    }

    /// Checks whether a peer may have one more new header waiting. A header has no more points than the policy cuts a
    /// payload into, so this bounds the points decoded for the peer before a signature is verified: a header that would
    /// be dropped at once does not free any budget.
    pub(super) fn check_budget(&self, peer: PeerIndex, header: &Header) -> Result<(), Reject> {
        let auth_bytes_max = self.config.limits.header_auth_bytes_max;
        let max = self.config.gate_bytes_max();
        if self.peers[usize::from(peer)].headers >= HEADERS_PEER_MAX
            || self.gate.would_shed(peer, header, auth_bytes_max, max)
        {
            return Err(Reject::BudgetExceeded);
        }
        Ok(())
    }

    /// Checks whether a subject may have one more header, and whether its first one finds room. A second one is
    /// evidence, and nothing else is kept of it.
    fn check_room(&self, header: &Header, from: PeerIndex) -> Result<(), Reject> {
        self.check_open(header)?;
        let same = |live: &&Live<C>| live.header.subject == header.subject;
        let count = self.live.iter().filter(same).count();
        if count >= usize::from(self.config.live_subject_max) {
            return Err(Reject::Equivocation);
        }
        if count > 0 {
            return Ok(());
        }
        let fits = || self.fits(header.subject.kind, memory_bytes(header));
        let is_heard = !self.found_none_often(from) || fits();
        match is_heard && self.giving_way(header, Some(from)).is_some() {
            true => Ok(()),
            false => Err(Reject::LiveFull),
        }
    }

    /// Starts verifying every eligible header: one at a time per sender.
    fn verify_headers(&mut self, now: Time) {
        let auth_bytes_max = self.config.limits.header_auth_bytes_max;
        let max = self.config.gate_bytes_max();
        let mut at = 0;
        let mut busy = self.gate.busy();
        while let Some(candidate) = self.gate.candidates.get(at) {
            let free = |(peer, _): &(PeerIndex, _)| !busy.contains(peer);
            let first = candidate.announces.iter().position(free);
            let Some(first) = first.filter(|_| !candidate.verifying) else {
                at += 1;
                continue;
            };
            let bytes = candidate.bytes_of(0, announce_bytes(auth_bytes_max));
            if !self.gate.may_verify(bytes, auth_bytes_max, max) {
                // Later headers do not start either, or small ones would keep this one waiting.
                return;
            }
            let (from, ref announce) = candidate.announces[first];
            // There was room when it arrived, but other broadcasts may have begun since.
            if let Err(reason) = self.check_room(&announce.header, from) {
                let candidate = self.gate.candidates.remove(at);
                self.release_headers(&candidate);
                self.refuse(from, reason);
                continue;
            }
            let candidate = &mut self.gate.candidates[at];
            at += 1;
            // The form that is being verified is always the first: `shed` and `forget_headers` rely on it.
            candidate.announces.swap(0, first);
            candidate.verifying = true;
            busy.insert(candidate.announces[0].0);
            let announce = candidate.announces[0].1.clone();
            let root = announce.header.signing_root(&self.config.limits.network_id);
            let expires = now.saturating_add_ns(self.config.broadcast_ttl_ns);
            let task = Task::Header { id: announce.id };
            self.spawn(expires, task, Work::VerifyHeader { announce, root });
        }
    }

    pub(super) fn on_header_checked(&mut self, now: Time, id: &Id, product: Option<Product<C>>) {
        let mut candidates = self.gate.candidates.iter();
        let Some(at) = candidates.position(|waiting| waiting.id == *id) else {
            return self.refused.add(Reject::LateResult);
        };
        if matches!(product, Some(Product::Header(true))) {
            let candidate = self.gate.candidates.remove(at);
            self.admit(now, candidate);
        } else {
            // A lost job says nothing about the header, so it is tried again a few times.
            let is_judged = matches!(product, Some(Product::Header(_)));
            let candidate = &mut self.gate.candidates[at];
            candidate.verifying = false;
            candidate.lost = candidate.lost.saturating_add(u8::from(!is_judged));
            if is_judged || candidate.lost >= TRIES_MAX {
                let (from, _) = candidate.announces.remove(0);
                if candidate.announces.is_empty() {
                    self.gate.candidates.remove(at);
                }
                self.release_header(from);
                if from != NOBODY && is_judged {
                    self.refuse(from, Reject::BadAuth);
                }
            }
        }
        self.verify_headers(now);
    }

    fn release_headers(&mut self, candidate: &Candidate<C>) {
        for (peer, _) in &candidate.announces {
            self.release_header(*peer);
        }
    }

    fn release_header(&mut self, peer: PeerIndex) {
        if let Some(peer) = self.peers.get_mut(usize::from(peer)) {
            peer.headers = peer.headers.saturating_sub(1);
        }
    }

    /// Admits a valid header: the first of its subject begins a broadcast, the second is evidence.
    fn admit(&mut self, now: Time, candidate: Candidate<C>) {
        self.release_headers(&candidate);
        let announce = self.with_commitments(&candidate);
        let subject = announce.header.subject;
        let (from, _) = candidate.announces[0];
        // Once more, as other headers were verified in the meantime.
        if let Err(reason) = self.check_room(&announce.header, from) {
            return self.refuse(from, reason);
        }
        let same = |live: &Live<C>| live.header.subject == subject;
        let first = self.live.iter().position(same);
        let decoder = self.code.decoder(&announce.header);
        let mut live = Live::new(&self.code, &self.config, announce, decoder, now);
        self.order_peers(&mut live);
        live.convicted = first.is_some();
        if let Some(first) = first {
            // Second headers take no room, so there are no more of them than of first ones.
            live.expires = self.live[first].expires;
        } else {
            if let Some(going) = self.giving_way(&live.header, Some(from)) {
                self.make_room(&going);
            }
            live.need_at = now.saturating_add_ns(self.config.need_after_quiet_ns);
            // Each node breaks ties in its own order, or all would forward the same shards first.
            shuffle(&mut live.shard_ties, &mut self.rng);
        }
        for (peer, _) in &candidate.announces {
            if *peer != NOBODY {
                live.spoke(*peer);
            }
        }
        let id = live.id;
        self.insert(live);
        self.progress(id, Step::Header);
        if let Some(first) = first {
            let second = self.live.len() - 1;
            let evidence = Evidence {
                first: self.live[first].announce.evidence(),
                second: self.live[second].announce.evidence(),
            };
            self.out.push_back(Output::Evidence { subject, evidence });
            // Send both headers, so that a peer that received the second one first learns of the other too.
            self.tell_header(first);
            self.tell_header(second);
        }
        self.adopt(now, &id);
    }

    /// The announcement that was verified, with the commitments added if it was decoded without them.
    fn with_commitments(&self, candidate: &Candidate<C>) -> Arc<Announce<C>> {
        let announce = &candidate.announces[0].1;
        if announce.commitments.is_some() || candidate.commitments.is_none() {
            return announce.clone();
        }
        Arc::new(Announce::new(
            &self.code,
            announce.id,
            announce.header.clone(),
            announce.auth.clone(),
            candidate.commitments.clone(),
        ))
    }

    /// Handles a request for the header from a peer that holds pieces. It is sent once.
    pub(super) fn on_ask(&mut self, index: usize, from: PeerIndex) {
        let link = self.live[index].link(from);
        if std::mem::replace(&mut link.asked, true) {
            return self.refused.add(Reject::BudgetExceeded);
        }
        link.header = true;
        let message = Message::Header(self.live[index].announce.clone());
        self.out.push_back(Output::Send {
            peer: Peer(from.into()),
            message,
            priority: Priority::Control,
            drawn: 0,
        });
    }

    /// Requests headers that pieces have waited for too long: from one sender each, then the next.
    pub(super) fn ask_for_headers(&mut self, now: Time) {
        let gate = &self.gate;
        let announced = |id: &Id| gate.header(id).is_some();
        let after_ns = self.config.header_after_ns;
        for (from, id) in self.orphans.unasked(now, after_ns, announced) {
            self.out.push_back(Output::Send {
                peer: Peer(from.into()),
                message: Message::Ask { id },
                priority: Priority::Control,
                drawn: 0,
            });
        }
    }

    /// Sends a header to every peer that may not know it.
    fn tell_header(&mut self, index: usize) {
        let live = &mut self.live[index];
        for at in 0..live.order.len() {
            let peer = live.order[at];
            if std::mem::replace(&mut live.link(peer).header, true)
                || self.peers[usize::from(peer)].banned
            {
                continue;
            }
            self.out.push_back(Output::Send {
                peer: Peer(peer.into()),
                message: Message::Header(live.announce.clone()),
                priority: Priority::Control,
                drawn: 0,
            });
        }
    }

    /// Forgets what a peer announced. A header being verified stays, but no peer is blamed for it.
    pub(super) fn forget_headers(&mut self, peer: PeerIndex) {
        for candidate in &mut self.gate.candidates {
            if candidate.verifying && candidate.announces[0].0 == peer {
                candidate.announces[0].0 = NOBODY;
            }
            candidate.announces.retain(|(other, _)| *other != peer);
        }
        self.gate
            .candidates
            .retain(|candidate| !candidate.announces.is_empty());
        self.peers[usize::from(peer)].headers = 0;
    }
}
