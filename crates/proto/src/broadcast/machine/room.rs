//! Which broadcasts find room, and which give way to them: by kind, then by source, then by the peers that
//! carry them, never by who came first.

use super::{Broadcast, CLOSED_PER_LIVE, NOBODY};
use crate::broadcast::live::{Live, PeerIndex, memory_bytes};
use crate::broadcast::reject::Reject;
use crate::rlnc::{Coding, Header, Id, Subject};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

/// Parts of a broadcast's load, which the peers that carry it share.
const PARTS: u64 = 1 << 10;

impl<C: Coding> Broadcast<C> {
    /// The subjects whose broadcasts give way to one more, which a peer brings or, without one, is an own;
    /// none if it finds no room.
    pub(super) fn giving_way(
        &self,
        header: &Header,
        from: Option<PeerIndex>,
    ) -> Option<Vec<Subject>> {
        let mut going: Vec<Subject> = Vec::new();
        loop {
            let stays = |live: &&Live<C>| {
                !live.convicted && (live.own || !going.contains(&live.header.subject))
            };
            let stays: Vec<&Live<C>> = self.live.iter().filter(stays).collect();
            let bytes: u64 = stays.iter().map(|live| memory_bytes(&live.header)).sum();
            let is_full = stays.len() >= usize::from(self.config.live_max);
            if !is_full && bytes + memory_bytes(header) <= self.config.live_bytes_max() {
                return Some(going);
            }
            let room = Room {
                stays: &stays,
                header,
                by_count: is_full,
            };
            going.push(room.heaviest(from)?);
        }
    }

    /// Ends what gives way, with the second headers of its subjects.
    pub(super) fn make_room(&mut self, going: &[Subject]) {
        for index in (0..self.live.len()).rev() {
            let live = &self.live[index];
            if !live.own && going.contains(&live.header.subject) {
                self.refused.add(Reject::LiveFull);
                self.close(index);
            }
        }
    }
}

/// What is over.
impl<C: Coding> Broadcast<C> {
    /// Remembers a broadcast that is over. Where they are too many, the oldest of the source that has most
    /// is forgotten: else one source could have that of another forgotten and opened again.
    pub(super) fn remember(&mut self, id: Id, subject: Subject) {
        if self.closed.len() >= CLOSED_PER_LIVE * usize::from(self.config.live_max) {
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            for (_, subject) in &self.closed {
                *counts.entry(subject.source).or_default() += 1;
            }
            let most = counts.values().max().copied();
            let is_of_most =
                |(_, subject): &(Id, Subject)| counts.get(&subject.source) == most.as_ref();
            let oldest = self.closed.iter().position(is_of_most);
            self.closed.remove(oldest.unwrap_or(0));
        }
        self.closed.push_back((id, subject));
    }

    /// Whether a broadcast is over.
    pub(super) fn is_closed(&self, id: &Id) -> bool {
        self.closed.iter().any(|(closed, _)| closed == id)
    }

    /// Whether no broadcast of a header's subject is over. No honest source signs a second header, and with
    /// one after the other it would hold its room as long as its duty lasts.
    pub(super) fn check_open(&self, header: &Header) -> Result<(), Reject> {
        let is_over = |(_, subject): &(Id, Subject)| *subject == header.subject;
        match self.closed.iter().any(is_over) {
            true => Err(Reject::Expired),
            false => Ok(()),
        }
    }
}

/// Those that are alive, and one more that finds no room.
struct Room<'a, C: Coding> {
    stays: &'a [&'a Live<C>],
    header: &'a Header,
    /// They are too many, and not too large.
    by_count: bool,
}

impl<C: Coding> Room<'_, C> {
    fn load(&self, header: &Header) -> u64 {
        match self.by_count {
            true => 1,
            false => memory_bytes(header),
        }
    }

    fn others(&self) -> impl Iterator<Item = &Live<C>> {
        self.stays.iter().copied().filter(|live| !live.own)
    }

    /// What gives way first: of the greatest kind, and of the source that has most of it, the newest. It
    /// gives way to a lesser kind, to an own one, and to a source that has less even with one more. Where
    /// no source has more than others, it is for the peers to share the room.
    fn heaviest(&self, from: Option<PeerIndex>) -> Option<Subject> {
        let mut loads: BTreeMap<(u8, u32), u64> = BTreeMap::new();
        for live in self.others() {
            *loads.entry(source(&live.header)).or_default() += self.load(&live.header);
        }
        let (first, most) = loads
            .iter()
            .max_by_key(|((kind, _), load)| (*kind, **load))?;
        let with_it = loads.get(&source(self.header)).unwrap_or(&0) + self.load(self.header);
        let gives_way = match first.0.cmp(&self.header.subject.kind) {
            Ordering::Greater => true,
            Ordering::Equal => from.is_none() || *most > with_it,
            Ordering::Less => return None,
        };
        if !gives_way {
            let as_much = |live: &Live<C>| loads[&source(&live.header)] >= with_it;
            return self.crowding(from.filter(|&peer| peer != NOBODY)?, as_much);
        }
        let of_it = self.others().filter(|live| source(&live.header) == *first);
        let newest = of_it.max_by_key(|live| live.expires)?;
        Some(newest.header.subject)
    }

    /// What gives way to one that `from` brings, of those of its kind that `may`: first what no peer
    /// carries any more; then, of what the peer with the greatest share carries, what has the fewest
    /// carriers, and the newest of it. Those that carry a broadcast share its load, so what goes through
    /// the network weighs little, and who opens many alone has all of them counted. A share that is less
    /// even with one more finds room: so peers have equal parts, whatever their sources are.
    fn crowding(&self, from: PeerIndex, may: impl Fn(&Live<C>) -> bool) -> Option<Subject> {
        let kind = self.header.subject.kind;
        let of_kind = || {
            self.others()
                .filter(|live| live.header.subject.kind == kind)
        };
        let mut shares: BTreeMap<PeerIndex, u64> = BTreeMap::new();
        for live in of_kind() {
            let part = PARTS * self.load(&live.header) / carriers(live).count().max(1) as u64;
            for peer in carriers(live) {
                *shares.entry(peer).or_default() += part;
            }
        }
        let newest = |live: &&Live<C>| (Reverse(carriers(live).count()), live.expires);
        let may_go = || of_kind().filter(|live| may(live));
        let mut alone = may_go().filter(|live| carriers(live).next().is_none());
        if let Some(alone) = alone.next() {
            return Some(alone.header.subject);
        }
        let with_it = shares.get(&from).unwrap_or(&0) + PARTS * self.load(self.header);
        let (most, share) = shares.iter().max_by_key(|(_, share)| **share)?;
        let carried = may_go().filter(|live| carriers(live).any(|peer| peer == *most));
        let going = carried.max_by_key(newest)?;
        (*share > with_it).then_some(going.header.subject)
    }
}

fn source(header: &Header) -> (u8, u32) {
    (header.subject.kind, header.subject.source)
}

/// The peers that spoke of a broadcast.
fn carriers<C: Coding>(live: &Live<C>) -> impl Iterator<Item = PeerIndex> {
    let links = (0..).zip(&live.links);
    links.filter_map(|(peer, link)| link.carries.then_some(peer))
}
