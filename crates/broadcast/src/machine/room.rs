//! Admission and eviction of broadcasts: by kind, then by source, then by the peers that carry them, and never by order
//! of arrival.

use super::{Broadcast, ENDED_PER_LIVE, Ended, NOBODY};
use crate::live::{Live, PeerIndex, memory_bytes};
use crate::reject::Reject;
use crate::rlnc::{Coding, Header, Id, Subject};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

/// Units into which a broadcast's load is divided among the peers that carry it.
const PARTS: u64 = 1 << 10;

impl<C: Coding> Broadcast<C> {
    /// Returns the subjects whose broadcasts are evicted for one more, sent by peer `from`, or an own one if `from` is
    /// none. Returns none if it finds no room.
    pub(super) fn giving_way(
        &self,
        header: &Header,
        from: Option<PeerIndex>,
    ) -> Option<Vec<Subject>> {
        let mut going: Vec<Subject> = Vec::new();
        let mut room = Room::new(self.live.iter().filter(|live| !live.convicted), header);
        loop {
            let by_count = room.stays.len() >= usize::from(self.config.live_max);
            if !by_count && room.bytes + memory_bytes(header) <= self.config.live_bytes_max() {
                return Some(going);
            }
            room.measure(by_count);
            let subject = room.heaviest(from)?;
            room.remove(&subject);
            going.push(subject);
        }
    }

    /// Whether there is room for one more of a kind, of this many bytes, once all of greater kinds are evicted.
    pub(super) fn fits(&self, kind: u8, bytes: u64) -> bool {
        let stays =
            |live: &&Live<C>| !live.convicted && (live.own || live.header.subject.kind <= kind);
        let (mut count, mut kept) = (0, bytes);
        for live in self.live.iter().filter(stays) {
            count += 1;
            kept += memory_bytes(&live.header);
        }
        count < self.config.live_max && kept <= self.config.live_bytes_max()
    }

    /// Whether so many headers of a peer found no room that further ones are ignored unless there is room: finding the
    /// heaviest holder is expensive. An honest peer that connects sends no more than may be alive.
    pub(super) fn found_none_often(&self, peer: PeerIndex) -> bool {
        let state = self.peers.get(usize::from(peer));
        state.is_some_and(|state| state.found_none >= self.config.live_max)
    }

    /// Resets the counters when headers that found no room may now find some.
    pub(super) fn room_may_be_found(&mut self) {
        for state in &mut self.peers {
            state.found_none = 0;
        }
    }

    /// Ends the evicted broadcasts, with the second headers of their subjects.
    pub(super) fn make_room(&mut self, going: &[Subject]) {
        // Backwards, as `close` moves the last broadcast into the gap.
        for index in (0..self.live.len()).rev() {
            let live = &self.live[index];
            if !live.own && going.contains(&live.header.subject) {
                // A broadcast that is complete, or has a second header, has no reason to return.
                let may_return = !live.is_full() && !live.convicted;
                let gave_way = may_return.then(|| memory_bytes(&live.header));
                self.refused.add(Reject::LiveFull);
                self.close(index, gave_way);
            }
        }
    }
}

/// Ended broadcasts.
impl<C: Coding> Broadcast<C> {
    /// Remembers an ended broadcast. If there are too many, the oldest one of the source with the most is forgotten.
    /// Otherwise one source could have another's forgotten and opened again.
    pub(super) fn remember(&mut self, ended: Ended) {
        if self.ended.len() >= ENDED_PER_LIVE * usize::from(self.config.live_max) {
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            for ended in &self.ended {
                *counts.entry(ended.subject.source).or_default() += 1;
            }
            let most = counts.values().max().copied();
            let is_of_most = |ended: &Ended| counts.get(&ended.subject.source) == most.as_ref();
            let oldest = self.ended.iter().position(is_of_most);
            self.ended.remove(oldest.unwrap_or(0));
        }
        self.ended.push_back(ended);
    }

    /// Checks whether a broadcast may still come: not if it is over, nor if it was evicted and there is no room for it.
    pub(super) fn may_come(&self, id: &Id) -> Result<(), Reject> {
        self.may_open(|ended| ended.id == *id)
    }

    /// Checks that no broadcast of a header's subject is over, or was evicted and finds no room. No honest source signs
    /// a second header, and a dishonest one could use one after the other to hold room for as long as its duty lasts.
    pub(super) fn check_open(&self, header: &Header) -> Result<(), Reject> {
        self.may_open(|ended| ended.subject == header.subject)
    }

    fn may_open(&self, is_it: impl Fn(&Ended) -> bool) -> Result<(), Reject> {
        for ended in self.ended.iter().filter(|ended| is_it(ended)) {
            match ended.gave_way {
                None => return Err(Reject::Expired),
                // Nothing of its own kind is evicted for it, or two headers could displace each other in turn.
                Some(bytes) if !self.fits(ended.subject.kind, bytes) => {
                    return Err(Reject::LiveFull);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// The live broadcasts, and one more that needs room.
struct Room<'a, C: Coding> {
    stays: Vec<&'a Live<C>>,
    /// Bytes of those that stay.
    bytes: u64,
    header: &'a Header,
    /// There are too many, rather than too large ones.
    by_count: bool,
    /// Load of each source, and load of each peer for the header's kind. The latter is computed when needed, because it
    /// requires a scan of all links.
    loads: BTreeMap<(u8, u32), u64>,
    shares: Vec<u64>,
}

impl<'a, C: Coding> Room<'a, C> {
    fn new(stays: impl Iterator<Item = &'a Live<C>>, header: &'a Header) -> Self {
        let stays: Vec<&Live<C>> = stays.collect();
        Room {
            bytes: stays.iter().map(|live| memory_bytes(&live.header)).sum(),
            stays,
            header,
            by_count: false,
            loads: BTreeMap::new(),
            shares: Vec::new(),
        }
    }

    /// Measures load by number or by bytes.
    fn measure(&mut self, by_count: bool) {
        // Measured again only if the reason is another one: `remove` keeps the loads up to date.
        if self.by_count == by_count && !self.loads.is_empty() {
            return;
        }
        (self.by_count, self.shares) = (by_count, Vec::new());
        let mut loads = BTreeMap::new();
        for live in self.others() {
            *loads.entry(source(&live.header)).or_default() += self.load(&live.header);
        }
        self.loads = loads;
    }

    /// Removes an evicted broadcast, unless it is an own one.
    fn remove(&mut self, subject: &Subject) {
        let is_it = |live: &Live<C>| !live.own && live.header.subject == *subject;
        let Some(at) = self.stays.iter().position(|live| is_it(live)) else {
            return;
        };
        let live = self.stays.remove(at);
        self.bytes -= memory_bytes(&live.header);
        let load = self.load(&live.header);
        if let Some(of_source) = self.loads.get_mut(&source(&live.header)) {
            *of_source -= load;
        }
        if !self.is_of_kind(live) || self.shares.is_empty() {
            return;
        }
        let part = self.part(live);
        for peer in carriers(live) {
            self.shares[usize::from(peer)] -= part;
        }
    }

    fn load(&self, header: &Header) -> u64 {
        match self.by_count {
            true => 1,
            false => memory_bytes(header),
        }
    }

    /// Each carrier's part of the load.
    fn part(&self, live: &Live<C>) -> u64 {
        // `max(1)` for a broadcast that nobody carries any more.
        PARTS * self.load(&live.header) / u64::from(live.carriers.max(1))
    }

    fn is_of_kind(&self, live: &Live<C>) -> bool {
        live.header.subject.kind == self.header.subject.kind
    }

    /// Load of each peer for the header's kind.
    fn share(&self) -> Vec<u64> {
        let peers = self.stays.iter().map(|live| live.links.len()).max();
        let mut shares = vec![0; peers.unwrap_or(0)];
        for live in self.others().filter(|live| self.is_of_kind(live)) {
            let part = self.part(live);
            for peer in carriers(live) {
                shares[usize::from(peer)] += part;
            }
        }
        shares
    }

    fn others(&self) -> impl Iterator<Item = &'a Live<C>> {
        self.stays.iter().copied().filter(|live| !live.own)
    }

    /// Selects the broadcast to evict first: of the greatest kind, of the source with the most of it, the newest. It is
    /// evicted for a lesser kind, for an own one, and for a source that has less even with one more. If no source has
    /// more than others, the peers share the room.
    fn heaviest(&mut self, from: Option<PeerIndex>) -> Option<Subject> {
        let (first, most) = self
            .loads
            .iter()
            .filter(|(_, load)| **load > 0)
            .max_by_key(|((kind, _), load)| (*kind, **load))?;
        let with_it = self.loads.get(&source(self.header)).unwrap_or(&0) + self.load(self.header);
        let gives_way = match first.0.cmp(&self.header.subject.kind) {
            Ordering::Greater => true,
            Ordering::Equal => from.is_none() || *most > with_it,
            Ordering::Less => return None,
        };
        if !gives_way {
            return self.crowding(from.filter(|&peer| peer != NOBODY)?, with_it);
        }
        let of_it = self.others().filter(|live| source(&live.header) == *first);
        // All live equally long, so the one that expires last is the newest.
        let newest = of_it.max_by_key(|live| live.expires)?;
        Some(newest.header.subject)
    }

    /// Selects what to evict for a broadcast from `from`, among incomplete ones of its kind whose source has at least
    /// as much as its own would have. First, any that no peer carries any more. Then, of those that the peer with the
    /// greatest share carries, those without any new piece, then those with the fewest carriers, then the newest. The
    /// carriers of a broadcast share its load, so widespread broadcasts weigh little, and a peer that opens many alone
    /// is charged for all of them. A share that is smaller even with one more finds room, so peers get equal parts,
    /// whatever their sources are.
    fn crowding(&mut self, from: PeerIndex, of_source: u64) -> Option<Subject> {
        if self.shares.is_empty() {
            self.shares = self.share();
        }
        let may_go = || {
            let of_kind = self
                .stays
                .iter()
                .filter(|live| !live.own && self.is_of_kind(live));
            // Every source of these is in `loads`, which was measured over the same broadcasts.
            of_kind.filter(|live| !live.is_full() && self.loads[&source(&live.header)] >= of_source)
        };
        if let Some(alone) = may_go().find(|live| live.carriers == 0) {
            return Some(alone.header.subject);
        }
        // A peer beyond the end has no link to any of them and carries nothing.
        let share_of = |peer: PeerIndex| self.shares.get(usize::from(peer)).copied().unwrap_or(0);
        let with_it = share_of(from) + PARTS * self.load(self.header);
        let (most, share) = (0..).zip(&self.shares).max_by_key(|(_, share)| **share)?;
        // With equal shares, two peers could displace each other's broadcasts in turn.
        if *share <= with_it {
            return None;
        }
        let carried = may_go().filter(|live| carriers(live).any(|peer| peer == most));
        let going = carried.max_by_key(|live| {
            let has_none = live.stats.innovative == 0;
            (has_none, Reverse(live.carriers), live.expires)
        })?;
        Some(going.header.subject)
    }
}

fn source(header: &Header) -> (u8, u32) {
    (header.subject.kind, header.subject.source)
}

/// The peers that sent messages about a broadcast.
fn carriers<C: Coding>(live: &Live<C>) -> impl Iterator<Item = PeerIndex> {
    let links = (0..).zip(&live.links);
    links.filter_map(|(peer, link)| link.carries.then_some(peer))
}
