//! From columns of bits to items: which positions differ from the reference, and in which columns.

use super::segments::Entry;
use super::tree::{Item, WIDTH_MAX};

/// What a column is compared with. Only positions that differ are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// The empty vector: the sum of the differences is the sum.
    Zero,
    /// The full vector: the sum is the committee's total minus the differences.
    Full,
    /// The base with this index: the sum is the base's, plus gained and minus lost keys.
    Base(usize),
    /// The first column of the group, whose own sum follows from the committee's total.
    First,
}

/// A group of columns over one committee.
pub(crate) struct Group<'a> {
    /// At most [`WIDTH_MAX`] planes of ceil(n / 64) words.
    pub(crate) columns: &'a [&'a [u64]],
    /// `!0` where the column's reference is the full vector, one mask per column.
    pub(crate) flips: &'a [u64],
    /// The base, if it is the reference of all columns; `flips` are 0 then.
    pub(crate) base: Option<&'a [u64]>,
    /// Whether the base is the first column. Then every position is an item, and bit 0 of its value, in which
    /// no column differs, is set. Column 0 therefore yields the sum of all keys, with the lost ones negative.
    pub(crate) folded: bool,
    /// Number of positions n.
    pub(crate) positions: usize,
}

impl Group<'_> {
    /// Bits of a word that represent positions.
    fn valid(&self, word: usize) -> u64 {
        match self.positions - 64 * word {
            0..64 => (1 << (self.positions % 64)) - 1,
            _ => !0,
        }
    }

    /// Computes the word of every column XOR its reference, and returns their OR.
    #[inline]
    fn differences(&self, word: usize, out: &mut [u64; WIDTH_MAX]) -> u64 {
        let base = self.base.map_or(0, |base| base[word]);
        let valid = self.valid(word);
        let mut any = 0;
        for ((column, flip), out) in self.columns.iter().zip(self.flips).zip(&mut *out) {
            *out = (column[word] ^ flip ^ base) & valid;
            any |= *out;
        }
        if self.folded {
            out[0] = valid;
            any = valid;
        }
        any
    }

    /// Number of positions where some column differs from its reference.
    pub(crate) fn touched(&self) -> usize {
        let mut words = [0; WIDTH_MAX];
        (0..self.positions.div_ceil(64))
            .map(|word| self.differences(word, &mut words).count_ones() as usize)
            .sum()
    }

    /// Pushes one item per position where some column differs; position i is point `first` + i.
    ///
    /// Words without a difference cost one test, so the cost is proportional to the number of differences.
    pub(crate) fn extract(&self, first: usize, items: &mut Vec<Item>) {
        let mut words = [0; WIDTH_MAX];
        for word in 0..self.positions.div_ceil(64) {
            let mut any = self.differences(word, &mut words);
            if any == 0 {
                continue;
            }
            // Where the base has the bit, a difference means that the column lacks the key.
            let lost = self.base.map_or(0, |base| base[word]);
            let values = patterns(&words, self.columns.len() > 8);
            items.reserve(any.count_ones() as usize);
            while any != 0 {
                let bit = any.trailing_zeros() as usize;
                let entry = Entry::new(first + 64 * word + bit, lost >> bit & 1 == 1);
                items.push(Item {
                    value: values[bit],
                    entry,
                });
                any &= any - 1;
            }
        }
    }
}

/// Transposes: bit j of pattern i is bit i of word j.
#[inline]
fn patterns(words: &[u64; WIDTH_MAX], wide: bool) -> [u16; 64] {
    let (low, high) = words.split_at(8);
    let mut out = transpose_words(low).map(u16::from);
    if wide {
        for (out, high) in out.iter_mut().zip(transpose_words(high)) {
            *out |= u16::from(high) << 8;
        }
    }
    out
}

/// Bit j of byte i is bit i of word j, for eight words. First byte b of word j is swapped with byte j of word
/// b, by blocks of 4, 2 and 1; then each word is a matrix of 8 x 8 bits.
#[inline]
fn transpose_words(words: &[u64]) -> [u8; 64] {
    let mut rows: [u64; 8] = core::array::from_fn(|j| words[j]);
    let masks = [
        0x0000_0000_ffff_ffff,
        0x0000_ffff_0000_ffff,
        0x00ff_00ff_00ff_00ff,
    ];
    for (mask, step) in masks.into_iter().zip([4, 2, 1]) {
        for j in (0..8).filter(|j| j & step == 0) {
            let t = ((rows[j] >> (8 * step)) ^ rows[j + step]) & mask;
            rows[j + step] ^= t;
            rows[j] ^= t << (8 * step);
        }
    }
    let mut out = [0; 64];
    for (out, row) in out.chunks_exact_mut(8).zip(rows) {
        out.copy_from_slice(&transpose(row).to_le_bytes());
    }
    out
}

/// Transposes an 8 x 8 bit matrix, row i in byte i: swaps off-diagonal blocks of 1, 2 and 4 bits
/// (Hacker's Delight, section 7-3).
#[inline]
fn transpose(x: u64) -> u64 {
    let t = (x ^ (x >> 7)) & 0x00aa_00aa_00aa_00aa;
    let x = x ^ t ^ (t << 7);
    let t = (x ^ (x >> 14)) & 0x0000_cccc_0000_cccc;
    let x = x ^ t ^ (t << 14);
    let t = (x ^ (x >> 28)) & 0x0000_0000_f0f0_f0f0;
    x ^ t ^ (t << 28)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transpose_moves_bit_j_of_row_i_to_bit_i_of_row_j() {
        for i in 0..8 {
            for j in 0..8 {
                assert_eq!(transpose(1 << (8 * i + j)), 1 << (8 * j + i));
            }
        }
    }

    #[test]
    fn items_are_exactly_the_differing_positions_with_their_patterns() {
        let positions = 131;
        let words: Vec<Vec<u64>> = (1..=11u64)
            .map(|j| {
                let mix = |w: u64| (j * 4 + w).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                vec![mix(0), mix(1) & mix(2), mix(3) & 7]
            })
            .collect();
        let columns: Vec<&[u64]> = words.iter().map(Vec::as_slice).collect();
        let flips: Vec<u64> = (0..11).map(|j| if j % 3 == 0 { !0 } else { 0 }).collect();
        let base = vec![0x00ff_1234_5678_9abc, 0, 5];
        for (base, folded) in [
            (None, false),
            (Some(base.as_slice()), false),
            (Some(columns[0]), true),
        ] {
            let flips = if base.is_some() {
                vec![0; 11]
            } else {
                flips.clone()
            };
            let group = Group {
                columns: &columns,
                flips: &flips,
                base,
                folded,
                positions,
            };
            let mut items = Vec::new();
            group.extract(100, &mut items);
            assert_eq!(items.len(), group.touched());
            let mut found = items.iter();
            for i in 0..positions {
                let bit = |words: &[u64]| words[i / 64] >> (i % 64) & 1;
                let lost = base.map_or(0, bit);
                let value = (0..11).fold(0, |value, j| {
                    value | ((bit(columns[j]) ^ (flips[j] & 1) ^ lost) as u16) << j
                }) | u16::from(folded);
                if value != 0 {
                    let item = found.next().expect("an item for each difference");
                    assert_eq!(item.value, value);
                    assert_eq!(item.entry, Entry::new(100 + i, lost == 1));
                }
            }
            assert!(found.next().is_none());
        }
    }
}
