//! Messages that wait for a block, or for the committees of another branch.
//!
//! Peers share one room, as in a batch. Nothing that waits was verified, so a peer has one place for
//! each member and kind of message in a slot, and speaks of a bounded number of blocks: as many as
//! an honest one needs. Messages come in the order in which they are given up.

use alphorn_scheme::Bytes;
use alphorn_types::{Slot, Time, Validator};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{Gate, PARKED_NS, Refusal};
use crate::contract::Peer;
use crate::horn::config::{Config, SchemeInfo};
use crate::horn::effects::Origin;
use crate::horn::fair::{FairQueue, Room, Waits};
use crate::horn::fetch::SEARCHES_MAX;
use crate::horn::local::Hosted;
use crate::horn::role::Lent;
use crate::horn::state::SHARED_BYTES;
use crate::slot::Phase;
use crate::wire::{Kind, Reject, Root, Topic};

/// Messages that wait at most, besides votes of local cells.
const ITEMS: usize = 4_096;
/// Votes that wait at most, for each position of the local cells: those of two slots, twice.
const VOTES_PER_POSITION: usize = 4;
/// Bytes of messages that wait at most, besides votes of local cells.
const BYTES: usize = 64 << 20;
/// What is remembered of a message that waits, besides the message: its place and who speaks of
/// its block.
const PLACE_BYTES: usize = 256;
/// What a peer's messages wait for at most. An answer to a question for blocks is 128 of them, each
/// of which waits for the one before it; this is twice as many.
const SPOKEN_MAX: u64 = 256;
/// What a peer's word weighs, before it is divided by what it speaks of.
const VOICE: u64 = 1 << 32;

/// What a message can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::horn) enum Awaited {
    /// A block.
    Block(Root),
    /// The committees of another branch, by what it supplied for their epoch.
    Committees([u8; 32]),
}

/// Whose message of a slot waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::horn) struct Seat {
    pub(in crate::horn) slot: Slot,
    /// In which its messages of this sort are made.
    pub(in crate::horn) phase: Phase,
    pub(in crate::horn) sender: Validator,
}

/// A message that waits.
pub(super) struct Parked {
    awaited: Awaited,
    /// None for a block.
    seat: Option<Seat>,
    until: Time,
    topic: Topic,
    origin: Origin,
    data: Bytes,
}

impl Parked {
    fn place(&self) -> Option<(Peer, Seat)> {
        self.peer().zip(self.seat)
    }
}

impl Waits for Parked {
    fn peer(&self) -> Option<Peer> {
        self.origin.map(|(peer, _)| peer)
    }

    fn held_bytes(&self) -> usize {
        PLACE_BYTES + SHARED_BYTES + self.data.len()
    }
}

/// Who speaks of something that is awaited, the first one first, with the number of messages.
type Speakers = Vec<(Option<Peer>, usize)>;

/// Messages that wait.
pub(in crate::horn) struct Lot {
    room: Room,
    queue: FairQueue<Parked>,
    places: BTreeSet<(Peer, Seat)>,
    speakers: BTreeMap<Awaited, Speakers>,
    /// How much each speaks of.
    spoken: BTreeMap<Option<Peer>, u64>,
}

impl Lot {
    pub(in crate::horn) fn new(room: Room) -> Self {
        Self {
            room,
            queue: FairQueue::default(),
            places: BTreeSet::new(),
            speakers: BTreeMap::new(),
            spoken: BTreeMap::new(),
        }
    }

    /// Has a message wait; those that give way for it are returned.
    fn park(&mut self, message: Parked) -> Result<Vec<Parked>, Reject> {
        let (awaited, peer, place) = (message.awaited, message.peer(), message.place());
        if place.is_some_and(|place| self.places.contains(&place)) {
            return Err(Reject::Duplicate);
        }
        let mut speakers = self.speakers.get(&awaited).into_iter().flatten();
        let speaks = speakers.any(|(other, _)| *other == peer);
        let spoken = self.spoken.get(&peer).copied().unwrap_or(0);
        if !speaks && spoken >= SPOKEN_MAX {
            return Err(Reject::Full);
        }
        let displaced = self.queue.offer(message, self.room);
        let displaced = displaced.map_err(|_| Reject::Full)?;
        self.places.extend(place);
        let speakers = self.speakers.entry(awaited).or_default();
        match speakers.iter_mut().find(|(other, _)| *other == peer) {
            Some((_, messages)) => *messages += 1,
            None => {
                speakers.push((peer, 1));
                *self.spoken.entry(peer).or_default() += 1;
            }
        }
        displaced.iter().for_each(|gone| self.forget(gone));
        Ok(displaced)
    }

    /// A message waits no longer.
    fn forget(&mut self, gone: &Parked) {
        if let Some(place) = gone.place() {
            self.places.remove(&place);
        }
        let (awaited, peer) = (gone.awaited, gone.peer());
        let Some(speakers) = self.speakers.get_mut(&awaited) else {
            return;
        };
        let Some(at) = speakers.iter().position(|(other, _)| *other == peer) else {
            return;
        };
        speakers[at].1 -= 1;
        if speakers[at].1 > 0 {
            return;
        }
        speakers.remove(at);
        if speakers.is_empty() {
            self.speakers.remove(&awaited);
        }
        if let Some(spoken) = self.spoken.get_mut(&peer) {
            *spoken -= 1;
            if *spoken == 0 {
                self.spoken.remove(&peer);
            }
        }
    }

    /// What waits for something that is there.
    fn take(&mut self, awaited: &Awaited) -> Vec<Parked> {
        if !self.speakers.contains_key(awaited) {
            return Vec::new();
        }
        let fits = |parked: &Parked| parked.awaited == *awaited;
        let taken = self.queue.take(usize::MAX, fits);
        taken.iter().for_each(|gone| self.forget(gone));
        taken
    }

    /// When the first message is given up.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.queue.first().map(|parked| parked.until)
    }

    /// The next message that has waited too long.
    fn take_expired(&mut self, now: Time) -> Option<Parked> {
        let gone = self.queue.take_first(|parked| parked.until <= now)?;
        self.forget(&gone);
        Some(gone)
    }

    /// Bytes of all messages that wait.
    pub(in crate::horn) fn bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// How many peers sent messages that wait for a block.
    pub(super) fn speakers(&self, block: &Root) -> usize {
        let speakers = self.speakers.get(&Awaited::Block(*block));
        speakers.map_or(0, Vec::len)
    }

    /// Whether a block is waited for.
    pub(super) fn awaits_blocks(&self) -> bool {
        let is_block = |awaited: &Awaited| matches!(awaited, Awaited::Block(_));
        self.speakers.keys().any(is_block)
    }

    /// Up to [`SEARCHES_MAX`] of the blocks that are waited for, each with the peers that speak of
    /// it. Each peer has one voice, shared by all that it speaks of; the block with most voice comes
    /// first.
    pub(super) fn blocks(&self) -> Vec<(Root, Vec<Peer>)> {
        let peers = |speakers: &Speakers| -> Vec<Peer> {
            speakers.iter().filter_map(|(peer, _)| *peer).collect()
        };
        let voice = |(peer, _): &(Option<Peer>, usize)| {
            let spoken = self.spoken.get(peer).filter(|_| peer.is_some());
            spoken.map_or(0, |spoken| VOICE / spoken)
        };
        let all = self.speakers.iter();
        let mut blocks: Vec<(Reverse<u64>, Root, &Speakers)> = all
            .filter_map(|(awaited, speakers)| match awaited {
                Awaited::Block(root) => {
                    let voices = speakers.iter().map(voice).sum();
                    Some((Reverse(voices), *root, speakers))
                }
                Awaited::Committees(_) => None,
            })
            .collect();
        blocks.sort_by_key(|(voices, ..)| *voices);
        let first = blocks.into_iter().take(SEARCHES_MAX);
        first
            .map(|(_, root, speakers)| (root, peers(speakers)))
            .collect()
    }
}

impl Config {
    /// What may wait for blocks at a machine: a block that is late has all votes of its slot wait.
    pub(in crate::horn) fn parked_room(&self, info: &SchemeInfo, local: &Hosted) -> Room {
        let cells = self.local_units(local, 1) as usize;
        let votes = VOTES_PER_POSITION * cells * self.layout.cell_len_max() as usize;
        let vote = PLACE_BYTES + SHARED_BYTES + self.format(info).bytes_max(Kind::Vote);
        Room {
            items: ITEMS + votes,
            bytes: BYTES + votes * vote,
        }
    }
}

impl Gate {
    /// A message is to wait, unless it already does or there is no room.
    pub(super) fn park(
        &mut self,
        lent: &mut Lent<'_>,
        awaited: Awaited,
        seat: Option<Seat>,
        topic: Topic,
        origin: Origin,
        data: Bytes,
    ) {
        let until = lent.now.saturating_add_ns(PARKED_NS);
        let message = Parked {
            awaited,
            seat,
            until,
            topic,
            origin,
            data,
        };
        match self.lot.park(message) {
            Ok(displaced) => {
                for gone in displaced {
                    lent.fx.reject(gone.origin, Reject::Full);
                }
            }
            Err(reason) => lent.fx.reject(origin, reason),
        }
    }

    /// Something is there now: what waited for it goes on.
    pub(super) fn unpark(&mut self, lent: &mut Lent<'_>, awaited: &Awaited) {
        for parked in self.lot.take(awaited) {
            self.admit(lent, parked.origin, parked.topic, parked.data);
        }
    }

    pub(super) fn expire_parked(&mut self, lent: &mut Lent<'_>) {
        while let Some(parked) = self.lot.take_expired(lent.now) {
            lent.fx.counters.parked_expired += 1;
            lent.fx.reject(parked.origin, Reject::UnknownBlock);
        }
    }
}

/// What becomes of a message that would wait: it does if its sender has a seat, as far as the
/// committees in force tell. Where those of an unknown block's branch are others, it would not be
/// taken here either; but nobody is blamed for it.
pub(super) fn with_seat(refusal: Refusal, seat: impl FnOnce() -> Option<Seat>) -> Refusal {
    match refusal {
        Refusal::Park(awaited, _) => match seat() {
            None => Reject::UnknownBlock.into(),
            seat => Refusal::Park(awaited, seat),
        },
        refusal => refusal,
    }
}
