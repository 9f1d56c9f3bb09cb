//! Message identities, and the set of those seen.

use alphorn_types::Time;

/// Size of an identity on the wire in bytes, the same as in Ethereum's consensus networks.
pub(crate) const ID_BYTES: usize = 20;

/// Range of numbers that [`SeenBits`] holds, starting at the oldest remembered one: 128 KiB of
/// bits.
pub(crate) const DENSE_WINDOW: u32 = 1 << 20;

/// Result of [`SeenBits::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The identity is new and now remembered.
    New,
    /// The identity was already known.
    Known,
    /// The identity cannot be remembered because its number is far above all others.
    Beyond,
}

/// Identity of a message: its number in order of publication on its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DenseId(pub u32);

/// Words of [`SeenBits`] that are stored inline.
const INLINE: usize = 2;

/// One bit per number. Numbers below the forgotten ones count as seen.
#[derive(Clone, Debug, Default)]
#[repr(C)] // fields read for a duplicate come first
pub(crate) struct SeenBits {
    first: [u64; INLINE],
    /// Number of the first bit, a multiple of 64.
    base: u32,
    /// One above the highest number.
    end: u32,
    rest: Vec<u64>,
    /// When `end` was last sampled, and its value then, which is the next to expire.
    mark: (Time, u32),
}

/// Number of bytes read by a look-up of a recent number.
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

    /// Whether the message has been seen.
    #[inline]
    pub(crate) fn contains(&self, id: &DenseId) -> bool {
        match id.0.checked_sub(self.base) {
            Some(bit) => self.word(bit as usize / 64) >> (bit % 64) & 1 == 1,
            // What was forgotten counts as seen. The other answer would let anybody send old messages through
            // the network again.
            None => true,
        }
    }

    /// Remembers a message.
    #[inline]
    pub(crate) fn insert(&mut self, _: Time, id: DenseId) -> Mark {
        let Some(bit) = id.0.checked_sub(self.base) else {
            return Mark::Known;
        };
        // One far number would otherwise allocate a bit for each number below it.
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

    /// Forgets messages inserted at or before `before`, or some time later than that.
    pub(crate) fn expire(&mut self, now: Time, before: Time) {
        let (since, end) = self.mark;
        // The sampled `end` is forgotten once the sample is old enough. A time for each number would take 64
        // times the memory; the price is that some are remembered up to twice as long.
        if since > before {
            return;
        }
        // Rounded down to whole words, so that expiry moves words and never shifts bits.
        let base = end / 64 * 64;
        let words = (base.saturating_sub(self.base) / 64) as usize;
        self.first = std::array::from_fn(|index| self.word(index + words));
        self.rest.drain(..words.min(self.rest.len()));
        self.base = self.base.max(base);
        self.mark = (now, self.end);
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
        seen.expire(at(10), at(0)); // samples the end of the numbers, 71
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
}
