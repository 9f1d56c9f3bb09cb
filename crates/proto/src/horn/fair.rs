//! Waiting room shared by peers: messages that wait for something, in order of arrival.
//!
//! Room is divided only when it is short. A full room accepts the message of a peer that has fewer
//! waiting than another, and drops the newest one of the peer that has the most. So a flood only takes
//! room that no other peer needs, and displaces itself. Per-peer counts are kept only from the first
//! shortage until nothing waits, since most rooms are never short.

use std::collections::{BTreeMap, VecDeque};

use alphorn_types::Peer;

/// A message that can wait.
pub(super) trait Waits {
    /// The sender. None for a local message, which always finds room at the expense of a peer's.
    fn peer(&self) -> Option<Peer>;
    /// Bytes it occupies while it waits.
    fn held_bytes(&self) -> usize;
}

/// Waiting messages of one peer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    items: usize,
    bytes: usize,
}

/// Capacity of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) items: usize,
    pub(super) bytes: usize,
}

/// Waiting messages, in order of arrival.
pub(super) struct FairQueue<M> {
    waiting: VecDeque<M>,
    bytes: usize,
    /// Present from the first shortage until nothing waits.
    by_peer: Option<BTreeMap<Peer, Load>>,
}

impl<M> Default for FairQueue<M> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            by_peer: None,
        }
    }
}

impl<M: Waits> FairQueue<M> {
    /// Adds a message, displacing others if necessary. Returns the displaced ones.
    ///
    /// # Errors
    ///
    /// Returns the message if there is no room for it: the queue is full and no peer has so much more
    /// waiting that it would have to give way.
    pub(super) fn offer(&mut self, message: M, room: Room) -> Result<Vec<M>, M> {
        let (peer, bytes) = (message.peer(), message.held_bytes());
        let mut displaced = Vec::new();
        loop {
            // The two limits are judged one at a time: the peer that gives way is the heaviest in what
            // is short.
            let full = self.waiting.len() >= room.items;
            if !full && self.bytes.saturating_add(bytes) <= room.bytes {
                break;
            }
            let Some(at) = self.heaviest(peer, bytes, full) else {
                // Messages displaced in vain are put back where they were.
                for (at, message) in displaced.into_iter().rev() {
                    self.insert(at, message);
                }
                return Err(message);
            };
            displaced.extend(self.remove(at).map(|message| (at, message)));
        }
        self.insert(self.waiting.len(), message);
        Ok(displaced.into_iter().map(|(_, message)| message).collect())
    }

    /// Index of the newest message of the peer that has the most waiting, counted in items or in bytes,
    /// if that is more than `peer` would have with one more message of `bytes`.
    fn heaviest(&mut self, peer: Option<Peer>, bytes: usize, by_items: bool) -> Option<usize> {
        let count = |load: &Load| if by_items { load.items } else { load.bytes };
        let waiting = &self.waiting;
        let by_peer = self.by_peer.get_or_insert_with(|| {
            let mut loads = BTreeMap::new();
            waiting.iter().for_each(|message| add(&mut loads, message));
            loads
        });
        // A peer does not displace its own messages: it would lose one to gain another.
        let others = by_peer.iter().filter(|(other, _)| Some(**other) != peer);
        let (heaviest, load) = others.max_by_key(|(_, load)| count(load))?;
        let own = peer.and_then(|peer| by_peer.get(&peer));
        let own = own.copied().unwrap_or_default();
        let with_it = count(&Load {
            items: own.items + 1,
            bytes: own.bytes + bytes,
        });
        // Strictly more: peers with equal shares would displace each other in turn.
        let gives_way = peer.is_none() || count(load) > with_it;
        // The newest: the peer keeps what has waited longest.
        let newest = || {
            let mut waiting = waiting.iter();
            waiting.rposition(|message| message.peer() == Some(*heaviest))
        };
        gives_way.then(newest)?
    }

    fn insert(&mut self, at: usize, message: M) {
        self.bytes += message.held_bytes();
        if let Some(by_peer) = &mut self.by_peer {
            add(by_peer, &message);
        }
        self.waiting.insert(at, message);
    }

    fn remove(&mut self, at: usize) -> Option<M> {
        let message = self.waiting.remove(at)?;
        self.forget(&message);
        Some(message)
    }

    /// Updates the counts when a message stops waiting.
    fn forget(&mut self, message: &M) {
        let bytes = message.held_bytes();
        self.bytes -= bytes;
        if let Some(by_peer) = &mut self.by_peer
            && let Some(peer) = message.peer()
            && let Some(load) = by_peer.get_mut(&peer)
        {
            load.items -= 1;
            load.bytes -= bytes;
            if load.items == 0 {
                by_peer.remove(&peer);
            }
        }
    }

    /// Takes up to `max` messages for which `fits` holds, the oldest first.
    pub(super) fn take(&mut self, max: usize, fits: impl Fn(&M) -> bool) -> Vec<M> {
        let mut taken = Vec::new();
        let mut left = VecDeque::new();
        for message in std::mem::take(&mut self.waiting) {
            if taken.len() < max && fits(&message) {
                self.forget(&message);
                taken.push(message);
            } else {
                left.push_back(message);
            }
        }
        if left.is_empty() {
            self.by_peer = None;
        }
        self.waiting = left;
        taken
    }

    /// Takes the oldest message if `fits` holds for it.
    pub(super) fn take_first(&mut self, fits: impl FnOnce(&M) -> bool) -> Option<M> {
        self.first().filter(|message| fits(message))?;
        let first = self.remove(0);
        if self.waiting.is_empty() {
            self.by_peer = None;
        }
        first
    }

    /// Bytes of all messages.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The oldest message.
    pub(super) fn first(&self) -> Option<&M> {
        self.waiting.front()
    }
}

/// Adds a message to its peer's load.
fn add<M: Waits>(by_peer: &mut BTreeMap<Peer, Load>, message: &M) {
    if let Some(peer) = message.peer() {
        let load = by_peer.entry(peer).or_default();
        load.items += 1;
        load.bytes += message.held_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message of a peer (0 = a local one), with a number and its size in bytes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Mail(u64, u32, usize);

    impl Waits for Mail {
        fn peer(&self) -> Option<Peer> {
            (self.0 > 0).then_some(Peer(self.0))
        }

        fn held_bytes(&self) -> usize {
            self.2
        }
    }

    const ROOM: Room = Room {
        items: 8,
        bytes: 100,
    };

    fn numbers(mails: &[Mail]) -> Vec<u32> {
        mails.iter().map(|mail| mail.1).collect()
    }

    #[test]
    fn a_flood_displaces_itself_and_nobody_else() {
        let mut queue = FairQueue::default();
        for number in 0..20 {
            let taken = queue.offer(Mail(9, number, 1), ROOM);
            assert_eq!(taken.is_ok(), number < 8, "alone it may fill the room");
        }
        // Four honest peers with two messages each, while the flood continues.
        for (honest, peer) in (1..=4).flat_map(|peer| [(2 * peer, peer), (2 * peer + 1, peer)]) {
            let honest = honest as u32;
            if let Ok(displaced) = queue.offer(Mail(peer, 100 + honest, 1), ROOM) {
                assert!(displaced.iter().all(|gone| gone.0 == 9), "{displaced:?}");
            } else {
                // All peers have the same number: first come, first served.
                let loads = queue.by_peer.as_ref().unwrap();
                assert!(loads.values().all(|load| load.items <= 2));
            }
            assert!(queue.offer(Mail(9, 50, 1), ROOM).is_err());
        }
        let taken = queue.take(10, |_| true);
        let of = |peer| taken.iter().filter(|mail| mail.0 == peer).count();
        assert_eq!([1, 2, 3, 4].map(of), [2, 2, 2, 1]);
        assert_eq!(of(9), 1, "what is left of the flood");
        assert_eq!(numbers(&taken)[0], 0, "the oldest stays");
        assert!(queue.by_peer.is_none(), "nothing waits: nobody is counted");
        assert!(queue.offer(Mail(9, 60, 1), ROOM).is_ok() && queue.by_peer.is_none());
    }

    #[test]
    fn bytes_are_shared_like_places() {
        let mut queue = FairQueue::default();
        assert!(queue.offer(Mail(9, 1, 90), ROOM).is_ok());
        // The sender would then hold more than the heaviest peer: nothing changes.
        assert!(queue.offer(Mail(1, 2, 95), ROOM).is_err());
        assert_eq!((queue.bytes, queue.waiting.len()), (90, 1));
        assert!(queue.offer(Mail(2, 5, 5), ROOM).is_ok());
        assert!(queue.offer(Mail(1, 6, 99), ROOM).is_err());
        let order: Vec<Mail> = queue.waiting.iter().copied().collect();
        assert_eq!(numbers(&order), [1, 5], "not even the order");
        assert_eq!(queue.take(9, |mail| mail.0 == 2).len(), 1);
        let displaced = queue.offer(Mail(1, 3, 20), ROOM).unwrap();
        assert_eq!(numbers(&displaced), [1]);
        assert!(
            queue.offer(Mail(2, 4, 101), ROOM).is_err(),
            "no queue has room for it"
        );
        assert_eq!(queue.bytes, 20);
    }

    #[test]
    fn what_is_taken_from_the_front_is_looked_at_once() {
        const MAILS: u32 = 20_000;
        let room = Room {
            items: MAILS as usize,
            bytes: usize::MAX,
        };
        let mut queue = FairQueue::default();
        for time in 0..MAILS {
            assert!(queue.offer(Mail(1, time, 1), room).is_ok());
        }
        assert!(queue.offer(Mail(1, MAILS, 1), room).is_err());
        let mut looks = 0;
        for now in 0..MAILS {
            let mut expired = || {
                queue.take_first(|mail| {
                    looks += 1;
                    mail.1 <= now
                })
            };
            assert_eq!(expired(), Some(Mail(1, now, 1)));
            assert_eq!(expired(), None);
        }
        assert_eq!(looks, 2 * MAILS - 1, "two for each, none when it is empty");
        assert!(queue.by_peer.is_none() && queue.bytes == 0);
    }

    #[test]
    fn own_messages_find_room_and_stay() {
        let mut queue = FairQueue::default();
        for number in 0..8 {
            assert!(queue.offer(Mail(9, number, 1), ROOM).is_ok());
        }
        for number in 100..108 {
            let displaced = queue.offer(Mail(0, number, 1), ROOM).unwrap();
            assert_eq!(numbers(&displaced), [107 - number]);
        }
        assert!(queue.offer(Mail(0, 108, 1), ROOM).is_err());
        assert!(queue.offer(Mail(9, 8, 1), ROOM).is_err());
    }

    proptest! {
        #[test]
        fn a_peer_within_its_share_loses_nothing(
            mails in proptest::collection::vec((0u64..6, 0usize..30), 1..120)
        ) {
            let mut queue = FairQueue::default();
            let mut held: BTreeMap<u64, usize> = BTreeMap::new();
            for (number, (peer, bytes)) in (0..).zip(mails) {
                let mail = Mail(peer, number, bytes);
                if let Ok(displaced) = queue.offer(mail, ROOM) {
                    *held.entry(peer).or_default() += 1;
                    for gone in displaced {
                        prop_assert_ne!(gone.0, 0, "own messages stay");
                        *held.get_mut(&gone.0).unwrap() -= 1;
                    }
                }
                let sum: usize = queue.waiting.iter().map(Waits::held_bytes).sum();
                prop_assert_eq!(queue.bytes, sum);
                prop_assert!(queue.bytes <= ROOM.bytes && queue.waiting.len() <= ROOM.items);
                for (peer, count) in &held {
                    let waiting = queue.waiting.iter().filter(|mail| mail.0 == *peer).count();
                    prop_assert_eq!(waiting, *count);
                    if let Some(loads) = &queue.by_peer {
                        let load = loads.get(&Peer(*peer)).map_or(0, |load| load.items);
                        prop_assert_eq!(load, if *peer == 0 { 0 } else { *count });
                    }
                }
            }
        }
    }
}
