//! Messages that wait for a block, or for the committees of another branch.
//!
//! Peers share one room, as in a batch. Waiting messages are unverified, so a peer has one entry for each
//! member and kind of message in a slot, and may refer to a bounded number of blocks, as many as an
//! honest peer needs. Messages are kept in the order in which they expire.

use alphorn_scheme::Bytes;
use alphorn_types::{Peer, Slot, Time, Validator};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{Gate, PARKED_NS, Refusal};
use crate::horn::config::{Config, SchemeInfo};
use crate::horn::effects::Origin;
use crate::horn::fair::{FairQueue, Room, Waits};
use crate::horn::fetch::SEARCHES_MAX;
use crate::horn::local::Hosted;
use crate::horn::role::Lent;
use crate::horn::state::SHARED_BYTES;
use crate::slot::Phase;
use crate::wire::{Kind, Reject, Root, Topic};

/// Maximum number of waiting messages, excluding votes of local cells.
const ITEMS: usize = 4_096;
/// Maximum number of waiting votes per position of the local cells: those of two slots, twice.
const VOTES_PER_POSITION: usize = 4;
/// Maximum bytes of waiting messages, excluding votes of local cells.
const BYTES: usize = 64 << 20;
/// Overhead of a waiting message beyond its data: its entry, and the peers that refer to its block.
const PLACE_BYTES: usize = 256;
/// Maximum number of things that a peer's messages wait for. An answer to a block request has 128 blocks,
/// each of which waits for the one before it. This is twice as many.
const SPOKEN_MAX: u64 = 256;
/// Total weight of a peer's references, before it is divided by the number of things it refers to.
const VOICE: u64 = 1 << 32;

/// What a message can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::horn) enum Awaited {
    /// A block.
    Block(Root),
    /// The committees of another branch, identified by what it supplied for their epoch.
    Committees([u8; 32]),
}

/// Identifies the sender of a waiting message of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::horn) struct Seat {
    pub(in crate::horn) slot: Slot,
    /// The phase in which its messages of this kind are made.
    pub(in crate::horn) phase: Phase,
    pub(in crate::horn) sender: Validator,
}

/// A waiting message.
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

/// The peers that refer to something awaited, in order of first reference, with their number of messages.
type Speakers = Vec<(Option<Peer>, usize)>;

/// The waiting messages.
pub(in crate::horn) struct Lot {
    room: Room,
    queue: FairQueue<Parked>,
    places: BTreeSet<(Peer, Seat)>,
    speakers: BTreeMap<Awaited, Speakers>,
    /// Number of awaited things to which each peer refers.
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

    /// Parks a message. Returns the messages displaced by it.
    fn park(&mut self, message: Parked) -> Result<Vec<Parked>, Reject> {
        let (awaited, peer, place) = (message.awaited, message.peer(), message.place());
        // Both checks come before the room: a message that is refused must not displace another.
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

    /// Removes the records of a message that no longer waits.
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

    /// Takes the messages that wait for something that is now available.
    fn take(&mut self, awaited: &Awaited) -> Vec<Parked> {
        // Most blocks are awaited by nothing, and the search below looks at the whole queue.
        if !self.speakers.contains_key(awaited) {
            return Vec::new();
        }
        let fits = |parked: &Parked| parked.awaited == *awaited;
        let taken = self.queue.take(usize::MAX, fits);
        taken.iter().for_each(|gone| self.forget(gone));
        taken
    }

    /// When the first message expires.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.queue.first().map(|parked| parked.until)
    }

    /// The next message that has waited too long.
    fn take_expired(&mut self, now: Time) -> Option<Parked> {
        let gone = self.queue.take_first(|parked| parked.until <= now)?;
        self.forget(&gone);
        Some(gone)
    }

    /// Bytes of all waiting messages.
    pub(in crate::horn) fn bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Number of peers that sent messages waiting for a block.
    pub(super) fn speakers(&self, block: &Root) -> usize {
        let speakers = self.speakers.get(&Awaited::Block(*block));
        speakers.map_or(0, Vec::len)
    }

    /// Whether any message waits for a block.
    pub(super) fn awaits_blocks(&self) -> bool {
        let is_block = |awaited: &Awaited| matches!(awaited, Awaited::Block(_));
        self.speakers.keys().any(is_block)
    }

    /// Up to [`SEARCHES_MAX`] of the awaited blocks, each with the peers that refer to it. Each peer has
    /// the same weight, split among everything it refers to. The block with the most weight comes first.
    pub(super) fn blocks(&self) -> Vec<(Root, Vec<Peer>)> {
        let peers = |speakers: &Speakers| -> Vec<Peer> {
            speakers.iter().filter_map(|(peer, _)| *peer).collect()
        };
        // A message made here names no peer to ask, and has no voice.
        let voice = |(peer, _): &(Option<Peer>, usize)| {
            let spoken = self.spoken.get(peer).filter(|_| peer.is_some());
            // A share is 2^24 or more, as at most `SPOKEN_MAX` things divide it, and the shares of 2^31
            // peers fit a u64.
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
    /// Room for messages that wait for blocks at a node. While a block is late, all votes of its slot
    /// wait.
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
    /// Parks a message, unless it already waits or there is no room.
    pub(super) fn park(
        &mut self,
        lent: &mut Lent<'_>,
        awaited: Awaited,
        seat: Option<Seat>,
        topic: Topic,
        origin: Origin,
        data: Bytes,
    ) {
        // Equally long for all, so the order of arrival is that of expiry.
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

    /// Something awaited is now available: the messages that waited for it proceed.
    pub(super) fn unpark(&mut self, lent: &mut Lent<'_>, awaited: &Awaited) {
        for parked in self.lot.take(awaited) {
            // Not `receive`: it was counted as seen when it arrived.
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

/// Decides whether a message may wait: it may if its sender has a seat under the committees in force. If
/// an unknown block's branch has other committees, the message would not be accepted here anyway, but its
/// sender is not blamed.
pub(super) fn with_seat(refusal: Refusal, seat: impl FnOnce() -> Option<Seat>) -> Refusal {
    match refusal {
        Refusal::Park(awaited, _) => match seat() {
            None => Reject::UnknownBlock.into(),
            seat => Refusal::Park(awaited, seat),
        },
        refusal => refusal,
    }
}
