//! Sets of shards, one bit each.

use super::reject::Reject;
use alphorn_types::{Reader, Writer};
use std::sync::Arc;

/// Bits per word.
const WORD_BITS: usize = 64;

/// Number of words for `total` bits.
pub(super) const fn words(total: u16) -> usize {
    (total as usize).div_ceil(WORD_BITS)
}

/// A subset of the K shards of a broadcast. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSet {
    total: u16,
    words: Arc<[u64]>,
}

impl ShardSet {
    /// Creates a set of the shards `indices`, each below `total`.
    ///
    /// # Panics
    ///
    /// If an index is out of range.
    pub fn new(total: u16, indices: impl IntoIterator<Item = u16>) -> ShardSet {
        let mut bits = vec![0; words(total)];
        for index in indices {
            assert!(index < total, "shard {index} of {total}");
            insert(&mut bits, index);
        }
        ShardSet {
            total,
            words: bits.into(),
        }
    }

    pub(super) fn from_words(total: u16, bits: &[u64]) -> ShardSet {
        ShardSet {
            total,
            words: bits.into(),
        }
    }

    /// Whether the shard is in the set.
    pub fn contains(&self, index: u16) -> bool {
        index < self.total && contains(&self.words, index)
    }

    /// Number of shards in the set.
    pub fn len(&self) -> usize {
        count(&self.words)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of the universe: the total number of shards.
    pub(super) fn total(&self) -> u16 {
        self.total
    }

    pub(super) fn as_words(&self) -> &[u64] {
        &self.words
    }

    /// Writes the complement of the set. Bits beyond the last shard stay zero, or they would count as shards.
    pub(super) fn write_others(&self, bits: &mut [u64]) {
        for (word, &here) in bits.iter_mut().zip(&*self.words) {
            *word = !here;
        }
        let beyond = usize::from(self.total) % WORD_BITS;
        if beyond != 0
            && let Some(last) = bits.last_mut()
        {
            *last &= (1 << beyond) - 1;
        }
    }

    pub(super) fn wire_bytes(&self) -> usize {
        usize::from(self.total).div_ceil(8)
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        for byte in 0..self.wire_bytes() {
            writer.u8((self.words[byte / 8] >> (8 * (byte % 8))) as u8);
        }
    }

    /// Reads one bit for each of `total` shards; the remaining bits must be zero.
    pub(super) fn read(reader: &mut Reader<'_>, total: u16) -> Result<ShardSet, Reject> {
        let bytes = reader
            .bytes(usize::from(total).div_ceil(8))
            .map_err(|_| Reject::BadLength)?;
        let mut bits = vec![0_u64; words(total)];
        for (i, &byte) in bytes.iter().enumerate() {
            bits[i / 8] |= u64::from(byte) << (8 * (i % 8));
        }
        let beyond = usize::from(total) % WORD_BITS;
        if beyond != 0 && bits.last().is_some_and(|last| last >> beyond != 0) {
            return Err(Reject::BadLength);
        }
        Ok(ShardSet {
            total,
            words: bits.into(),
        })
    }
}

#[inline]
pub(super) fn insert(bits: &mut [u64], index: u16) {
    bits[usize::from(index) / WORD_BITS] |= 1 << (usize::from(index) % WORD_BITS);
}

#[inline]
pub(super) fn contains(bits: &[u64], index: u16) -> bool {
    bits[usize::from(index) / WORD_BITS] >> (usize::from(index) % WORD_BITS) & 1 == 1
}

pub(super) fn count(bits: &[u64]) -> usize {
    bits.iter().map(|word| word.count_ones() as usize).sum()
}

/// Iterates over the members of a set in order.
pub(super) fn members(bits: &[u64]) -> impl Iterator<Item = u16> + '_ {
    bits.iter().enumerate().flat_map(|(i, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some((i * WORD_BITS) as u16 + bit as u16)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_what_their_bytes_say() {
        for total in [2_u16, 4, 8, 64, 128, 1024] {
            let set = ShardSet::new(total, (0..total).filter(|i| i % 3 == 1));
            let mut writer = Writer::new();
            set.write(&mut writer);
            let bytes = writer.into_vec();
            assert_eq!(bytes.len(), set.wire_bytes());
            let mut reader = Reader::new(&bytes);
            assert_eq!(ShardSet::read(&mut reader, total), Ok(set.clone()));
            assert_eq!(reader.finish(), Ok(()));
            let listed: Vec<u16> = members(set.as_words()).collect();
            assert_eq!(listed.len(), set.len());
            assert!(listed.iter().all(|&index| set.contains(index)));
            assert!(!set.contains(0) && !set.contains(total));
            let mut others = vec![0; words(total)];
            set.write_others(&mut others);
            assert_eq!(count(&others) + set.len(), usize::from(total));
            assert!(members(&others).all(|index| index < total && !set.contains(index)));
        }
    }

    #[test]
    fn bits_beyond_the_last_shard_are_refused() {
        let mut reader = Reader::new(&[0b1_0000]);
        assert_eq!(ShardSet::read(&mut reader, 4), Err(Reject::BadLength));
        assert_eq!(ShardSet::read(&mut reader, 8), Err(Reject::BadLength));
    }
}
