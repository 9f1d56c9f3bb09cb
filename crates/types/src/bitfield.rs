//! Bits over positions, in words.

use std::ops::Range;

use thiserror::Error;

/// Bits per word.
const WORD: usize = 64;

/// Words or bytes that are not the canonical form of a bitfield.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BitfieldError {
    /// Not exactly the number of bytes or words that the bits need.
    #[error("{value} {unit} for {len} bits, must be {expected}")]
    Length {
        /// `bytes` or `words`.
        unit: &'static str,
        /// The number given.
        value: usize,
        /// The number needed.
        expected: usize,
        /// The number of bits.
        len: usize,
    },
    /// A bit is set beyond the last position.
    #[error("a padding bit is set after bit {len}")]
    Padding {
        /// The number of bits.
        len: usize,
    },
}

/// A fixed number of bits, stored in 64-bit words, least significant bit first.
///
/// The unused bits of the last word are always zero, so equality and counts need no mask. Operands
/// of different lengths are a programming error and panic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bitfield {
    words: Vec<u64>,
    len: usize,
}

impl Bitfield {
    /// `len` bits, all zero.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(WORD)],
            len,
        }
    }

    /// `len` bits, all one.
    #[must_use]
    pub fn ones(len: usize) -> Self {
        let mut words = vec![u64::MAX; len.div_ceil(WORD)];
        if let Some(last) = words.last_mut() {
            *last &= last_mask(len);
        }
        Self { words, len }
    }

    /// Bits from `words`, least significant bit first.
    ///
    /// # Errors
    ///
    /// If there are not exactly ⌈len/64⌉ words, or a bit beyond `len` is set.
    pub fn from_words(words: Vec<u64>, len: usize) -> Result<Self, BitfieldError> {
        let expected = len.div_ceil(WORD);
        if words.len() != expected {
            return Err(BitfieldError::Length {
                unit: "words",
                value: words.len(),
                expected,
                len,
            });
        }
        match words.last() {
            Some(last) if last & !last_mask(len) != 0 => Err(BitfieldError::Padding { len }),
            _ => Ok(Self { words, len }),
        }
    }

    /// Bits from `bytes`, least significant bit first.
    ///
    /// # Errors
    ///
    /// If there are not exactly ⌈len/8⌉ bytes, or a bit beyond `len` is set.
    pub fn from_bytes(bytes: &[u8], len: usize) -> Result<Self, BitfieldError> {
        let expected = len.div_ceil(8);
        if bytes.len() != expected {
            return Err(BitfieldError::Length {
                unit: "bytes",
                value: bytes.len(),
                expected,
                len,
            });
        }
        let words = bytes
            .chunks(8)
            .map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(word)
            })
            .collect();
        Self::from_words(words, len)
    }

    /// The ⌈len/8⌉ bytes of the bits, least significant bit first, padding zero.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.words.len() * 8);
        for word in &self.words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(self.len.div_ceil(8));
        bytes
    }

    /// Number of bits, set or not.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if the bitfield has no position at all; see [`Bitfield::none`] for "no bit set".
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if no bit is set.
    #[must_use]
    pub fn none(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// True if a bit is set.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.none()
    }

    /// The words, least significant bit first; unused bits of the last one are zero.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Bit `i`.
    ///
    /// # Panics
    ///
    /// If `i` is not below the length. The same applies to `set` and `clear`.
    #[must_use]
    pub fn get(&self, i: usize) -> bool {
        self.check_index(i);
        self.words[i / WORD] >> (i % WORD) & 1 == 1
    }

    /// Sets bit `i` to one.
    pub fn set(&mut self, i: usize) {
        self.check_index(i);
        self.words[i / WORD] |= 1 << (i % WORD);
    }

    /// Sets bit `i` to zero.
    pub fn clear(&mut self, i: usize) {
        self.check_index(i);
        self.words[i / WORD] &= !(1 << (i % WORD));
    }

    /// Number of bits set.
    #[must_use]
    pub fn count_ones(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Adds the bits of `other`.
    pub fn union_with(&mut self, other: &Self) {
        self.combine(other, |a, b| a | b);
    }

    /// Keeps only bits of `other`.
    pub fn intersect_with(&mut self, other: &Self) {
        self.combine(other, |a, b| a & b);
    }

    /// Removes the bits of `other`.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, |a, b| a & !b);
    }

    /// True if every bit set here is set in `other`.
    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.pairs(other).all(|(a, b)| a & !b == 0)
    }

    /// Number of bits set in both.
    #[must_use]
    pub fn count_and(&self, other: &Self) -> usize {
        self.pairs(other)
            .map(|(a, b)| (a & b).count_ones() as usize)
            .sum()
    }

    /// Number of bits set here and not in `other`.
    #[must_use]
    pub fn count_and_not(&self, other: &Self) -> usize {
        self.pairs(other)
            .map(|(a, b)| (a & !b).count_ones() as usize)
            .sum()
    }

    /// Number of bits set inside `range`.
    ///
    /// # Panics
    ///
    /// If the range is reversed or ends beyond the length.
    #[must_use]
    pub fn count_range(&self, range: Range<usize>) -> usize {
        self.check_range(&range);
        word_masks(range)
            .map(|(w, mask)| (self.words[w] & mask).count_ones() as usize)
            .sum()
    }

    /// Sets all bits of `range` to one.
    ///
    /// # Panics
    ///
    /// If the range is reversed or ends beyond the length.
    pub fn set_range(&mut self, range: Range<usize>) {
        self.check_range(&range);
        for (w, mask) in word_masks(range) {
            self.words[w] |= mask;
        }
    }

    /// Inverts all bits.
    pub(crate) fn invert(&mut self) {
        for word in &mut self.words {
            *word = !*word;
        }
        if let Some(last) = self.words.last_mut() {
            *last &= last_mask(self.len);
        }
    }

    /// Inverts the bits that are set in `other`.
    pub fn toggle(&mut self, other: &Self) {
        self.combine(other, |a, b| a ^ b);
    }

    /// Positions of the bits set, ascending.
    pub fn iter_ones(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            std::iter::successors((word != 0).then_some(word), |&w| {
                // Clears the lowest bit.
                let rest = w & (w - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |w| i * WORD + w.trailing_zeros() as usize)
        })
    }

    /// Adds the bits of `part`, moved up by `offset` positions.
    ///
    /// # Panics
    ///
    /// If the moved part ends beyond the length.
    pub fn write_range(&mut self, offset: usize, part: &Self) {
        assert!(
            offset <= self.len && part.len <= self.len - offset,
            "{} bits at offset {offset} of {} bits",
            part.len,
            self.len
        );
        let (first, shift) = (offset / WORD, offset % WORD);
        for (i, &word) in part.words.iter().enumerate() {
            if word == 0 {
                continue;
            }
            self.words[first + i] |= word << shift;
            // A carry into the next word exists only if that word holds bits of the part.
            let carry = if shift == 0 {
                0
            } else {
                word >> (WORD - shift)
            };
            if carry != 0 {
                self.words[first + i + 1] |= carry;
            }
        }
    }

    /// The bits of `range` as a separate bitfield.
    ///
    /// # Panics
    ///
    /// If the range is reversed or ends beyond the length.
    #[must_use]
    pub fn extract(&self, range: Range<usize>) -> Self {
        self.check_range(&range);
        let len = range.end - range.start;
        let (first, shift) = (range.start / WORD, range.start % WORD);
        let mut words: Vec<u64> = (0..len.div_ceil(WORD))
            .map(|i| {
                let low = self.words[first + i] >> shift;
                let next = self.words.get(first + i + 1).copied().unwrap_or(0);
                // Two shifts, because a shift by 64 is undefined.
                low | (next << (WORD - 1 - shift) << 1)
            })
            .collect();
        if let Some(last) = words.last_mut() {
            *last &= last_mask(len);
        }
        Self { words, len }
    }

    fn combine(&mut self, other: &Self, op: impl Fn(u64, u64) -> u64) {
        self.check_len(other);
        for (a, &b) in self.words.iter_mut().zip(&other.words) {
            *a = op(*a, b);
        }
    }

    fn pairs<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.check_len(other);
        self.words.iter().copied().zip(other.words.iter().copied())
    }

    fn check_len(&self, other: &Self) {
        assert_eq!(self.len, other.len, "bitfields of different length");
    }

    fn check_range(&self, range: &Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "range {range:?} of {} bits",
            self.len
        );
    }

    fn check_index(&self, i: usize) {
        assert!(i < self.len, "bit {i} of {}", self.len);
    }
}

/// The bits of the last word that a bitfield of `len` bits uses (all, for a multiple of 64).
const fn last_mask(len: usize) -> u64 {
    // The shift is the number of unused bits: 64 - len % 64, or 0 for a multiple of 64.
    u64::MAX >> (len.wrapping_neg() % WORD)
}

/// The words touched by `range`, each with the mask of the bits that belong to it.
fn word_masks(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let (start, end) = (range.start, range.end);
    (start / WORD..end.div_ceil(WORD)).map(move |w| {
        let low = u64::MAX << start.saturating_sub(w * WORD).min(WORD - 1);
        (w, low & last_mask((end - w * WORD).min(WORD)))
    })
}

#[cfg(test)]
mod tests {
    use super::{Bitfield, BitfieldError};
    use proptest::prelude::*;

    fn from_bools(bools: &[bool]) -> Bitfield {
        let mut bits = Bitfield::new(bools.len());
        for (i, &bit) in bools.iter().enumerate() {
            if bit {
                bits.set(i);
            }
        }
        bits
    }

    fn to_bools(bits: &Bitfield) -> Vec<bool> {
        (0..bits.len()).map(|i| bits.get(i)).collect()
    }

    fn two() -> impl Strategy<Value = (Vec<bool>, Vec<bool>)> {
        (0usize..300).prop_flat_map(|n| {
            let bits = || proptest::collection::vec(any::<bool>(), n);
            (bits(), bits())
        })
    }

    proptest! {
        #[test]
        fn operations_equal_those_on_bools((a, b) in two()) {
            let (x, y) = (from_bools(&a), from_bools(&b));
            prop_assert_eq!(&to_bools(&x), &a);
            let zip = |f: fn(bool, bool) -> bool| -> Vec<bool> {
                a.iter().zip(&b).map(|(&p, &q)| f(p, q)).collect()
            };
            let count = |v: &[bool]| v.iter().filter(|&&p| p).count();
            let mut z = x.clone();
            z.union_with(&y);
            prop_assert_eq!(to_bools(&z), zip(|p, q| p | q));
            let mut z = x.clone();
            z.intersect_with(&y);
            prop_assert_eq!(to_bools(&z), zip(|p, q| p & q));
            let mut z = x.clone();
            z.toggle(&y);
            prop_assert_eq!(to_bools(&z), zip(|p, q| p ^ q));
            z.invert();
            prop_assert_eq!(to_bools(&z), zip(|p, q| p == q));
            let mut z = x.clone();
            z.subtract(&y);
            prop_assert_eq!(to_bools(&z), zip(|p, q| p & !q));
            prop_assert!(z.is_subset_of(&x));
            prop_assert_eq!(x.is_subset_of(&y), count(&zip(|p, q| p & !q)) == 0);
            prop_assert_eq!(x.count_ones(), count(&a));
            prop_assert_eq!(x.count_and(&y), count(&zip(|p, q| p & q)));
            prop_assert_eq!(x.count_and_not(&y), count(&zip(|p, q| p & !q)));
            prop_assert_eq!((x.any(), x.none()), (count(&a) > 0, count(&a) == 0));
            let ones: Vec<usize> = (0..a.len()).filter(|&i| a[i]).collect();
            prop_assert_eq!(x.iter_ones().collect::<Vec<_>>(), ones);
            prop_assert_eq!(&Bitfield::from_bytes(&x.to_bytes(), a.len()).unwrap(), &x);
            prop_assert_eq!(&Bitfield::from_words(x.words().to_vec(), a.len()).unwrap(), &x);
        }

        #[test]
        fn ranges_are_moved_exactly((a, b) in two(), cut in 0usize..300, end in 0usize..300) {
            let end = end.min(a.len());
            let cut = cut.min(end);
            let part = from_bools(&a).extract(cut..end);
            prop_assert_eq!(to_bools(&part), &a[cut..end]);
            prop_assert_eq!(from_bools(&a).count_range(cut..end), part.count_ones());
            let mut filled = from_bools(&a);
            filled.set_range(cut..end);
            let expected: Vec<bool> =
                (0..a.len()).map(|i| a[i] | (cut..end).contains(&i)).collect();
            prop_assert_eq!(to_bools(&filled), expected);
            let mut whole = from_bools(&b);
            whole.write_range(cut, &part);
            let expected: Vec<bool> =
                (0..a.len()).map(|i| b[i] | ((cut..end).contains(&i) && a[i])).collect();
            prop_assert_eq!(to_bools(&whole), expected);
        }
    }

    #[test]
    fn all_ones_leave_the_padding_zero() {
        for len in [0, 1, 63, 64, 65, 128, 130] {
            let mut bits = Bitfield::ones(len);
            assert_eq!(bits.count_ones(), len);
            assert_eq!(bits.is_empty(), len == 0);
            if len > 0 {
                bits.clear(len - 1);
                assert_eq!(bits.count_ones(), len - 1);
            }
        }
    }

    #[test]
    fn bytes_with_padding_or_of_another_length_are_refused() {
        assert_eq!(
            Bitfield::from_bytes(&[0x08], 3),
            Err(BitfieldError::Padding { len: 3 })
        );
        assert_eq!(
            Bitfield::from_words(vec![1 << 63], 63),
            Err(BitfieldError::Padding { len: 63 })
        );
        assert!(Bitfield::from_bytes(&[0, 0], 8).is_err());
        assert!(Bitfield::from_bytes(&[], 1).is_err());
        assert!(Bitfield::from_words(vec![0; 2], 64).is_err());
        assert!(Bitfield::from_bytes(&[], 0).is_ok());
    }

    #[test]
    #[should_panic(expected = "different length")]
    fn operands_of_different_length_are_a_bug() {
        Bitfield::new(3).union_with(&Bitfield::new(4));
    }
}
