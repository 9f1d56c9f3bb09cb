//! Classes of positions: the bits of a plane at the positions of a class, packed.

use crate::Bitfield;

/// The symbols of a class in position order, as deviations from the majority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    /// One bit per position of the class, set if the symbol is the rarer one. At most half are set.
    pub(super) minority: Bitfield,
    /// Number of bits set in `minority`.
    pub(super) minority_count: usize,
    /// True if the rarer symbol is 0. False on a tie.
    pub(super) inverted: bool,
}

impl Class {
    /// Extracts the symbols of `plane` at the positions of `mask`.
    pub(super) fn gather(plane: &Bitfield, mask: &Bitfield) -> Self {
        let len = mask.count_ones();
        let ones = plane.count_and(mask);
        let inverted = ones > len - ones;
        let flip = if inverted { u64::MAX } else { 0 };
        let mut words = Vec::with_capacity(len.div_ceil(64) + 1);
        let (mut pending, mut pending_bits) = (0u64, 0u32);
        for (&word, &positions) in plane.words().iter().zip(mask.words()) {
            let dense = compress((word ^ flip) & positions, positions);
            pending |= dense << pending_bits;
            let filled = pending_bits + positions.count_ones();
            if filled >= 64 {
                words.push(pending);
                // The overflow; a shift by 64 is undefined, and there is nothing to carry.
                pending = dense.checked_shr(64 - pending_bits).unwrap_or(0);
            }
            pending_bits = filled % 64;
        }
        if pending_bits > 0 {
            words.push(pending);
        }
        Self {
            minority: Bitfield::from_words(words, len).expect("one bit for each position"),
            minority_count: ones.min(len - ones),
            inverted,
        }
    }

    /// Creates a class from its symbols.
    pub(super) fn from_symbols(symbols: Bitfield) -> Self {
        let ones = symbols.count_ones();
        let zeros = symbols.len() - ones;
        let inverted = ones > zeros;
        let mut minority = symbols;
        if inverted {
            minority.invert();
        }
        Self {
            minority,
            minority_count: ones.min(zeros),
            inverted,
        }
    }

    /// The symbols themselves.
    pub(super) fn symbols(&self) -> Bitfield {
        let mut symbols = self.minority.clone();
        if self.inverted {
            symbols.invert();
        }
        symbols
    }

    /// Number of positions of the class.
    pub(super) fn len(&self) -> usize {
        self.minority.len()
    }

    /// Writes the symbols back to the positions of `mask` in `plane`, whose bits there are zero.
    pub(super) fn scatter(&self, mask: &Bitfield, plane: &mut Bitfield) {
        let flip = if self.inverted { u64::MAX } else { 0 };
        let dense = self.minority.words();
        let word = |w: usize| dense.get(w).copied().unwrap_or(0);
        let mut at = 0;
        let words = mask
            .words()
            .iter()
            .map(|&positions| {
                let (first, shift) = (at / 64, at % 64);
                // Two shifts, because a shift by 64 is undefined.
                let bits = word(first) >> shift | (word(first + 1) << (63 - shift) << 1);
                at += positions.count_ones() as usize;
                expand(bits, positions) ^ (flip & positions)
            })
            .collect();
        let symbols = Bitfield::from_words(words, mask.len()).expect("a part of the mask");
        plane.union_with(&symbols);
    }
}

/// The steps of [`compress`] and [`expand`]: in step i the bits of `moves[i]` move by 2^i.
///
/// "Hacker's Delight" (Warren), section 7-4: a bit of the mask moves by the number of zeros below
/// it, one binary digit of that number at a time. The digits are parities, found for all bits at
/// once by a prefix exclusive-or.
fn moves(mask: u64) -> [u64; 6] {
    let mut mask = mask;
    let mut zeros_below = !mask << 1;
    let mut moves = [0; 6];
    for (i, out) in moves.iter_mut().enumerate() {
        let mut parity = zeros_below;
        for shift in [1, 2, 4, 8, 16, 32] {
            parity ^= parity << shift;
        }
        *out = parity & mask;
        mask = (mask ^ *out) | (*out >> (1 << i));
        zeros_below &= !parity;
    }
    moves
}

/// Packs the bits of `bits`, all inside `mask`, into the low positions.
fn compress(bits: u64, mask: u64) -> u64 {
    if bits == 0 || mask == u64::MAX {
        return bits;
    }
    let mut bits = bits;
    for (i, moving) in moves(mask).into_iter().enumerate() {
        let travel = bits & moving;
        bits = (bits ^ travel) | (travel >> (1 << i));
    }
    bits
}

/// Moves the low bits of `bits` to the positions of `mask`; inverse of [`compress`].
fn expand(bits: u64, mask: u64) -> u64 {
    if mask == u64::MAX {
        return bits;
    }
    // The mask is not full here, so the shift is below 64.
    let used = bits & ((1 << mask.count_ones()) - 1);
    if used == 0 {
        return 0;
    }
    let mut bits = used;
    for (i, moving) in moves(mask).into_iter().enumerate().rev() {
        bits = (bits & !moving) | ((bits << (1 << i)) & moving);
    }
    bits & mask
}

#[cfg(test)]
mod tests {
    use super::{Class, compress, expand};
    use crate::Bitfield;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_are_compressed_bit_by_bit(bits in any::<u64>(), a in any::<u64>(), b in any::<u64>()) {
            for mask in [a, a & b, a | b, 0, u64::MAX] {
                let mut dense = 0;
                let mut count = 0;
                for i in 0..64 {
                    if mask >> i & 1 == 1 {
                        dense |= (bits >> i & 1) << count;
                        count += 1;
                    }
                }
                prop_assert_eq!(compress(bits & mask, mask), dense);
                prop_assert_eq!(expand(dense, mask), bits & mask);
                let above = if count < 64 { u64::MAX << count } else { 0 };
                prop_assert_eq!(expand(dense | above, mask), bits & mask);
            }
        }

        #[test]
        fn classes_gather_and_scatter(
            both in proptest::collection::vec((any::<bool>(), any::<bool>()), 0..400)
        ) {
            let mut plane = Bitfield::new(both.len());
            let mut mask = Bitfield::new(both.len());
            let mut symbols = Vec::new();
            for (i, &(bit, inside)) in both.iter().enumerate() {
                if bit {
                    plane.set(i);
                }
                if inside {
                    mask.set(i);
                    symbols.push(bit);
                }
            }
            let class = Class::gather(&plane, &mask);
            prop_assert_eq!(class.len(), symbols.len());
            let dense = class.symbols();
            prop_assert!((0..symbols.len()).all(|i| dense.get(i) == symbols[i]));
            prop_assert!(2 * class.minority_count <= class.len());
            prop_assert_eq!(class.minority_count, class.minority.count_ones());
            prop_assert_eq!(&Class::from_symbols(dense), &class);
            let mut back = Bitfield::new(both.len());
            class.scatter(&mask, &mut back);
            let mut expected = plane.clone();
            expected.intersect_with(&mask);
            prop_assert_eq!(back, expected);
        }
    }
}
