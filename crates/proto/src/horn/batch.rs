//! Messages that wait for a verification job: batches form by load, not by a timer.
//!
//! A batch has at most one job. While it runs, the next messages queue; when it ends, they are the
//! next job. A batch that has work and no job is *due* at the end of the current instant, so
//! messages that arrive together are verified together.
//!
//! Room is shared by peers, and only when it is short: a full batch takes the message of a peer
//! that has fewer waiting than another, in place of the newest one of the peer that has most. So a
//! flood takes what nobody else needs, and displaces itself.

use std::collections::{BTreeMap, VecDeque};

use crate::contract::Peer;

/// A message that can wait.
pub(super) trait Waits {
    /// Who sent it; none for an own one, which always finds room at the cost of a peer's.
    fn peer(&self) -> Option<Peer>;
    /// Bytes that it holds while it waits.
    fn held_bytes(&self) -> usize;
}

/// What waits of one peer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    items: usize,
    bytes: usize,
}

/// Messages of one key, in the order of their arrival.
pub(super) struct Batch<M> {
    waiting: VecDeque<M>,
    bytes: usize,
    by_peer: BTreeMap<Peer, Load>,
    running: bool,
    due: bool,
}

impl<M> Default for Batch<M> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            by_peer: BTreeMap::new(),
            running: false,
            due: false,
        }
    }
}

/// What a batch may hold.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) items: usize,
    pub(super) bytes: usize,
}

/// A message was taken.
pub(super) struct Taken<M> {
    /// The batch was not due before and is now.
    pub(super) due: bool,
    /// Messages that had to go for it.
    pub(super) displaced: Vec<M>,
}

impl<M: Waits> Batch<M> {
    /// Adds a message, if need be in place of others. None if there is no room for it: the batch
    /// is full and no peer has so much more waiting that it would have to give way.
    pub(super) fn offer(&mut self, message: M, room: Room) -> Option<Taken<M>> {
        let (peer, bytes) = (message.peer(), message.held_bytes());
        let mut displaced = Vec::new();
        loop {
            let full = self.waiting.len() >= room.items;
            if !full && self.bytes.saturating_add(bytes) <= room.bytes {
                break;
            }
            let Some(at) = self.heaviest(peer, bytes, full) else {
                // What gave way for it in vain comes back to its place: the newest.
                displaced
                    .into_iter()
                    .rev()
                    .for_each(|message| self.append(message));
                return None;
            };
            displaced.extend(self.remove(at));
        }
        self.append(message);
        let due = self.become_due();
        Some(Taken { due, displaced })
    }

    /// The newest message of the peer that has most waiting, counted in items or in bytes, if that
    /// is more than `peer` would have with one more of `bytes`.
    fn heaviest(&self, peer: Option<Peer>, bytes: usize, by_items: bool) -> Option<usize> {
        let count = |load: &Load| if by_items { load.items } else { load.bytes };
        let others = self
            .by_peer
            .iter()
            .filter(|(other, _)| Some(**other) != peer);
        let (heaviest, load) = others.max_by_key(|(_, load)| count(load))?;
        let own = peer.and_then(|peer| self.by_peer.get(&peer));
        let own = own.copied().unwrap_or_default();
        let with_it = count(&Load {
            items: own.items + 1,
            bytes: own.bytes + bytes,
        });
        let gives_way = peer.is_none() || count(load) > with_it;
        let newest = || {
            let mut waiting = self.waiting.iter();
            waiting.rposition(|message| message.peer() == Some(*heaviest))
        };
        gives_way.then(newest)?
    }

    fn append(&mut self, message: M) {
        let bytes = message.held_bytes();
        self.bytes += bytes;
        if let Some(peer) = message.peer() {
            let load = self.by_peer.entry(peer).or_default();
            load.items += 1;
            load.bytes += bytes;
        }
        self.waiting.push_back(message);
    }

    fn remove(&mut self, at: usize) -> Option<M> {
        let message = self.waiting.remove(at)?;
        self.forget(&message);
        Some(message)
    }

    /// A message waits no longer.
    fn forget(&mut self, message: &M) {
        let bytes = message.held_bytes();
        self.bytes -= bytes;
        if let Some(peer) = message.peer()
            && let Some(load) = self.by_peer.get_mut(&peer)
        {
            load.items -= 1;
            load.bytes -= bytes;
            if load.items == 0 {
                self.by_peer.remove(&peer);
            }
        }
    }

    /// Takes up to `max` messages that `fits` for a job, which from now on runs. None if nothing
    /// is to be done.
    pub(super) fn take(&mut self, max: usize, fits: impl Fn(&M) -> bool) -> Vec<M> {
        self.due = false;
        if self.running {
            return Vec::new();
        }
        let mut taken = Vec::with_capacity(self.waiting.len().min(max));
        let mut left = VecDeque::new();
        for message in std::mem::take(&mut self.waiting) {
            if taken.len() < max && fits(&message) {
                self.forget(&message);
                taken.push(message);
            } else {
                left.push_back(message);
            }
        }
        self.waiting = left;
        self.running = !taken.is_empty();
        taken
    }

    /// The job ended; true if the batch is due again.
    pub(super) fn ended(&mut self) -> bool {
        self.running = false;
        !self.waiting.is_empty() && self.become_due()
    }

    /// Bytes of all messages that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing waits and nothing runs.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.running
    }

    /// The first message that waits.
    pub(super) fn first(&self) -> Option<&M> {
        self.waiting.front()
    }

    /// Gives all waiting messages back.
    pub(super) fn drain(&mut self) -> Vec<M> {
        self.bytes = 0;
        self.by_peer.clear();
        self.waiting.drain(..).collect()
    }

    fn become_due(&mut self) -> bool {
        let becomes = !self.running && !self.due;
        self.due |= becomes;
        becomes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message of a peer (0 = an own one), with a number and its bytes.
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
    fn one_job_at_a_time_and_nothing_is_lost() {
        let mut batch = Batch::default();
        let offer = |batch: &mut Batch<Mail>, number| {
            batch.offer(Mail(1, number, 10), ROOM).map(|taken| {
                assert_eq!(taken.displaced, []);
                taken.due
            })
        };
        assert_eq!(offer(&mut batch, 1), Some(true));
        assert_eq!(offer(&mut batch, 2), Some(false), "already due");
        assert_eq!(numbers(&batch.take(10, |_| true)), [1, 2]);
        assert!(!batch.is_idle());
        assert_eq!(offer(&mut batch, 3), Some(false), "a job runs");
        assert!(batch.take(10, |_| true).is_empty());
        assert!(batch.ended());
        assert!(batch.take(10, |mail| mail.1 != 3).is_empty());
        assert_eq!(offer(&mut batch, 4), Some(true));
        assert_eq!(numbers(&batch.take(1, |_| true)), [3]);
        assert!(batch.ended());
        assert_eq!(numbers(&batch.take(10, |_| true)), [4]);
        assert!(!batch.ended());
        assert!(batch.is_idle() && batch.by_peer.is_empty() && batch.bytes == 0);
    }

    #[test]
    fn a_flood_displaces_itself_and_nobody_else() {
        let mut batch = Batch::default();
        for number in 0..20 {
            let taken = batch.offer(Mail(9, number, 1), ROOM);
            assert_eq!(taken.is_some(), number < 8, "alone it may fill the batch");
        }
        // Four honest peers with two messages each, while the flood goes on.
        for (honest, peer) in (1..=4).flat_map(|peer| [(2 * peer, peer), (2 * peer + 1, peer)]) {
            let honest = honest as u32;
            if let Some(taken) = batch.offer(Mail(peer, 100 + honest, 1), ROOM) {
                assert!(
                    taken.displaced.iter().all(|gone| gone.0 == 9),
                    "{:?}",
                    taken.displaced
                );
            } else {
                // Everybody has as many as everybody else: first come, first served.
                assert!(batch.by_peer.values().all(|load| load.items <= 2));
            }
            assert!(batch.offer(Mail(9, 50, 1), ROOM).is_none());
        }
        let taken = batch.take(10, |_| true);
        let of = |peer| taken.iter().filter(|mail| mail.0 == peer).count();
        assert_eq!([1, 2, 3, 4].map(of), [2, 2, 2, 1]);
        assert_eq!(of(9), 1, "what is left of the flood");
        assert_eq!(numbers(&taken)[0], 0, "the oldest stays");
    }

    #[test]
    fn bytes_are_shared_like_places() {
        let mut batch = Batch::default();
        assert!(batch.offer(Mail(9, 1, 90), ROOM).is_some());
        // Too little would be gained for it: nothing changes.
        assert!(batch.offer(Mail(1, 2, 95), ROOM).is_none());
        assert_eq!((batch.bytes, batch.waiting.len()), (90, 1));
        let taken = batch.offer(Mail(1, 3, 20), ROOM).unwrap();
        assert_eq!(numbers(&taken.displaced), [1]);
        assert!(
            batch.offer(Mail(2, 4, 101), ROOM).is_none(),
            "no batch has room for it"
        );
        assert_eq!(batch.bytes, 20);
    }

    #[test]
    fn own_messages_find_room_and_stay() {
        let mut batch = Batch::default();
        for number in 0..8 {
            assert!(batch.offer(Mail(9, number, 1), ROOM).is_some());
        }
        for number in 100..108 {
            let taken = batch.offer(Mail(0, number, 1), ROOM).unwrap();
            assert_eq!(numbers(&taken.displaced), [107 - number]);
        }
        assert!(batch.offer(Mail(0, 108, 1), ROOM).is_none());
        assert!(batch.offer(Mail(9, 8, 1), ROOM).is_none());
    }

    proptest! {
        #[test]
        fn a_peer_within_its_share_loses_nothing(
            mails in proptest::collection::vec((0u64..6, 0usize..30), 1..120)
        ) {
            let mut batch = Batch::default();
            let mut held: BTreeMap<u64, usize> = BTreeMap::new();
            for (number, (peer, bytes)) in (0..).zip(mails) {
                let mail = Mail(peer, number, bytes);
                if let Some(taken) = batch.offer(mail, ROOM) {
                    *held.entry(peer).or_default() += 1;
                    for gone in taken.displaced {
                        prop_assert_ne!(gone.0, 0, "own messages stay");
                        *held.get_mut(&gone.0).unwrap() -= 1;
                    }
                }
                let sum: usize = batch.waiting.iter().map(Waits::held_bytes).sum();
                prop_assert_eq!(batch.bytes, sum);
                prop_assert!(batch.bytes <= ROOM.bytes && batch.waiting.len() <= ROOM.items);
                for (peer, count) in &held {
                    let waiting = batch.waiting.iter().filter(|mail| mail.0 == *peer).count();
                    prop_assert_eq!(waiting, *count);
                    let load = batch.by_peer.get(&Peer(*peer)).map_or(0, |load| load.items);
                    prop_assert_eq!(load, if *peer == 0 { 0 } else { *count });
                }
            }
        }
    }
}
