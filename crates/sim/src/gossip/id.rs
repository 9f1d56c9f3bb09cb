//! Names of messages, and the sets that remember which were seen.

use alphorn_types::Time;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Bytes of a message's name on the wire; the simulator counts as many for its numbers.
pub const ID_BYTES: usize = 20;

/// Numbers above the oldest remembered one that [`SeenBits`] holds, 128 KiB of bits.
pub const DENSE_WINDOW: u32 = 1 << 20;

/// Most names that [`SeenTimes`] holds, about 5 MB; the oldest goes first.
const SEEN_MAX: usize = 1 << 16;

/// Separates these names from every other use of SHA-256.
const ID_DOMAIN: [u8; 4] = *b"aln1";

/// A name of a message, and with it the set that remembers names.
pub trait MessageId: Copy + Ord + fmt::Debug {
    /// Remembers which names were seen.
    type Seen: Seen<Self>;
}

/// What [`Seen::insert`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The name is new and now remembered.
    New,
    /// It was there.
    Known,
    /// It cannot be remembered: a number far above all others.
    Beyond,
}

/// A set of names with a time to live.
pub trait Seen<I>: Default + fmt::Debug {
    /// Whether the name was seen.
    fn contains(&self, id: &I) -> bool;

    /// Remembers a name.
    fn insert(&mut self, now: Time, id: I) -> Mark;

    /// Forgets names inserted at or before `before`, or some time later.
    fn expire(&mut self, now: Time, before: Time);
}

/// A message of the simulator: number in the order of publication on its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DenseId(pub u32);

/// Words of [`SeenBits`] without memory of their own.
const INLINE: usize = 2;

/// One bit a number. A number below those that were forgotten counts as seen.
#[derive(Clone, Debug, Default)]
#[repr(C)] // what a duplicate reads comes first
pub struct SeenBits {
    first: [u64; INLINE],
    /// Number of the first bit, a multiple of 64.
    base: u32,
    /// One above the greatest number.
    end: u32,
    rest: Vec<u64>,
    /// When `end` was last looked at, and what it was: what expires next.
    mark: (Time, u32),
}

impl MessageId for DenseId {
    type Seen = SeenBits;
}

/// Bytes that a look-up of a recent number reads.
#[cfg(test)]
pub(super) const HOT_BYTES: usize = std::mem::offset_of!(SeenBits, end);

impl SeenBits {
    #[inline]
    fn word(&self, index: usize) -> u64 {
        match self.first.get(index) {
            Some(word) => *word,
            None => self.rest.get(index - INLINE).copied().unwrap_or(0),
        }
    }
}

impl Seen<DenseId> for SeenBits {
    #[inline]
    fn contains(&self, id: &DenseId) -> bool {
        match id.0.checked_sub(self.base) {
            Some(bit) => self.word(bit as usize / 64) >> (bit % 64) & 1 == 1,
            None => true,
        }
    }

    #[inline]
    fn insert(&mut self, _: Time, id: DenseId) -> Mark {
        let Some(bit) = id.0.checked_sub(self.base) else {
            return Mark::Known;
        };
        if bit >= DENSE_WINDOW {
            return Mark::Beyond;
        }
        let index = bit as usize / 64;
        let word = match self.first.get_mut(index) {
            Some(word) => word,
            None => {
                let index = index - INLINE;
                if index >= self.rest.len() {
                    self.rest.resize(index + 1, 0);
                }
                &mut self.rest[index]
            }
        };
        let mask = 1 << (bit % 64);
        let known = *word & mask != 0;
        *word |= mask;
        self.end = self.end.max(id.0.saturating_add(1));
        if known { Mark::Known } else { Mark::New }
    }

    fn expire(&mut self, now: Time, before: Time) {
        let (since, end) = self.mark;
        if since > before {
            return;
        }
        let base = end / 64 * 64;
        let words = (base.saturating_sub(self.base) / 64) as usize;
        self.first = std::array::from_fn(|index| self.word(index + words));
        self.rest.drain(..words.min(self.rest.len()));
        self.base = self.base.max(base);
        self.mark = (now, self.end);
    }
}

/// A message of the node, named by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(pub [u8; ID_BYTES]);

impl ContentId {
    /// The first 20 bytes of `SHA-256("aln1" || le64(len(topic)) || topic || payload)`, the form of
    /// Ethereum's consensus networks.
    pub fn of(topic: &[u8], payload: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(ID_DOMAIN);
        hash.update((topic.len() as u64).to_le_bytes());
        hash.update(topic);
        hash.update(payload);
        let digest: [u8; 32] = hash.finalize().into();
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&digest[..ID_BYTES]);
        Self(id)
    }
}

/// An ordered set with the time of each name, bounded; the oldest name goes first.
#[derive(Clone, Debug, Default)]
pub struct SeenTimes {
    names: BTreeMap<ContentId, ()>,
    by_age: VecDeque<(Time, ContentId)>,
}

impl MessageId for ContentId {
    type Seen = SeenTimes;
}

impl SeenTimes {
    fn forget_oldest(&mut self) {
        if let Some((_, id)) = self.by_age.pop_front() {
            self.names.remove(&id);
        }
    }
}

impl Seen<ContentId> for SeenTimes {
    fn contains(&self, id: &ContentId) -> bool {
        self.names.contains_key(id)
    }

    fn insert(&mut self, now: Time, id: ContentId) -> Mark {
        if self.names.insert(id, ()).is_some() {
            return Mark::Known;
        }
        if self.by_age.len() == SEEN_MAX {
            self.forget_oldest();
        }
        self.by_age.push_back((now, id));
        Mark::New
    }

    fn expire(&mut self, _: Time, before: Time) {
        while self.by_age.front().is_some_and(|(at, _)| *at <= before) {
            self.forget_oldest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_forget_what_is_old_and_call_it_seen() {
        let at = Time::from_millis;
        let mut seen = SeenBits::default();
        assert_eq!(seen.insert(at(1), DenseId(70)), Mark::New);
        assert_eq!(seen.insert(at(1), DenseId(70)), Mark::Known);
        assert!(!seen.contains(&DenseId(69)) && !seen.contains(&DenseId(71)));
        seen.expire(at(10), at(0)); // remembers that numbers end at 71
        assert!(!seen.contains(&DenseId(3)));
        assert_eq!(seen.insert(at(11), DenseId(200)), Mark::New);
        seen.expire(at(20), at(9)); // too early
        assert!(!seen.contains(&DenseId(3)));
        seen.expire(at(30), at(10));
        assert!(seen.contains(&DenseId(3)) && seen.contains(&DenseId(70)));
        assert!(!seen.contains(&DenseId(71)) && seen.contains(&DenseId(200)));
        assert_eq!(seen.insert(at(31), DenseId(3)), Mark::Known);
        assert_eq!(
            seen.insert(at(31), DenseId(64 + DENSE_WINDOW)),
            Mark::Beyond
        );
        assert_eq!(seen.insert(at(31), DenseId(u32::MAX)), Mark::Beyond);
    }

    #[test]
    fn a_number_at_the_top_does_not_overflow() {
        let at = Time::from_millis;
        let mut seen = SeenBits {
            base: u32::MAX - 63,
            ..SeenBits::default()
        };
        assert_eq!(seen.insert(at(1), DenseId(u32::MAX)), Mark::New);
        assert!(seen.contains(&DenseId(u32::MAX)));
    }

    #[test]
    fn names_live_their_time_and_are_bounded() {
        let at = Time::from_millis;
        let name = |i: u32| ContentId::of(b"topic", &i.to_le_bytes());
        let mut seen = SeenTimes::default();
        assert_eq!(seen.insert(at(1), name(0)), Mark::New);
        assert_eq!(seen.insert(at(5), name(0)), Mark::Known);
        assert_eq!(seen.insert(at(2), name(1)), Mark::New);
        seen.expire(at(6), at(1));
        assert!(!seen.contains(&name(0)) && seen.contains(&name(1)));
        for i in 2..=SEEN_MAX as u32 + 1 {
            assert_eq!(seen.insert(at(3), name(i)), Mark::New);
        }
        assert_eq!(seen.names.len(), SEEN_MAX);
        assert!(!seen.contains(&name(1)) && seen.contains(&name(2)));
    }

    #[test]
    fn a_name_covers_topic_and_payload() {
        let name = ContentId::of(b"ab", b"c");
        assert_ne!(name, ContentId::of(b"a", b"bc"));
        assert_ne!(name, ContentId::of(b"ab", b"d"));
        assert_eq!(name, ContentId::of(b"ab", b"c"));
    }
}
