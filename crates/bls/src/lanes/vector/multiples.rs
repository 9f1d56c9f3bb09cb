//! Multiples of sixteen points of G2, each by a scalar of full length.

use super::curve::{Jacobian, PARAMETER, lanes};
use crate::vector::{LANES, Multiplier};

/// Digits of a scalar of 32 little-endian bytes in base |x|, least significant first; `None` unless four digits
/// suffice, as they do for every number below the order r = x⁴ - x² + 1.
pub(super) fn digits(scalar: &[u8; 32]) -> Option<[u64; 4]> {
    let mut words = [0u64; 4];
    for (word, bytes) in words.iter_mut().zip(scalar.chunks_exact(8)) {
        *word = bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    let digits = core::array::from_fn(|_| {
        let mut rest = 0;
        for word in words.iter_mut().rev() {
            let number = u128::from(rest) << 64 | u128::from(*word);
            // The rest is below the divisor, so the quotient fits 64 bits.
            *word = (number / u128::from(PARAMETER)) as u64;
            rest = (number % u128::from(PARAMETER)) as u64;
        }
        rest
    });
    (words == [0; 4]).then_some(digits)
}

impl<M: Multiplier> Jacobian<M, 2> {
    /// Σ digits[lane][i]·|x|^i times the point of each lane, which has prime order.
    ///
    /// |x|·P = -ψ(P), so the four digits are multipliers of four known points, of 64 bits each. An
    /// odd one is Σ d·2^j over j < 64 with every d = ±1: the uppermost d is 1, and any other d is given by bit
    /// j + 1. So a step is one doubling and one addition of Q0 ± Q1 ± Q2 ± Q3 or its negative (Faz-Hernández,
    /// Longa and Sánchez, "Efficient and secure algorithms for GLV-based scalar multiplication", 2015, without
    /// the parts that hide the scalar). An even digit is one less than an odd one.
    #[inline(always)]
    pub(super) fn vartime_times_digits(&self, digits: &[[u64; 4]; LANES]) -> Jacobian<M, 2> {
        let (one, two) = (self.psi(), self.psi().psi());
        let q = [*self, one.neg(), two, two.psi().neg()];
        let low = [q[0].add(&q[1]), q[0].add(&q[1].neg())];
        let high = [q[2].add(&q[3]), q[2].add(&q[3].neg())];
        // Bit i - 1 of the index means that Qi is subtracted.
        let table: [Jacobian<M, 2>; 8] = core::array::from_fn(|index| {
            // Q2 + Q3 or its negative if their signs agree, otherwise Q2 - Q3 or its negative.
            let high = high[(index >> 1 ^ index >> 2) & 1];
            let high = if index & 2 == 0 { high } else { high.neg() };
            low[index & 1].add(&high)
        });
        // The uppermost digits are all 1.
        let mut sum = table[0];
        for bit in (1..64).rev() {
            let negative: [u16; 4] =
                core::array::from_fn(|i| lanes(|lane| digits[lane][i] >> bit & 1 == 0));
            // Signs relative to that of Q0, which is applied to the whole entry.
            let [b1, b2, b3] = [1, 2, 3].map(|i| negative[i] ^ negative[0]);
            let of_low = |index: usize| table[index].select(b1, &table[index + 1]);
            let of_pair = |index: usize| of_low(index).select(b2, &of_low(index + 2));
            let entry = of_pair(0).select(b3, &of_pair(4));
            sum.double();
            sum = sum.add(&entry.select(negative[0], &entry.neg()));
        }
        for i in 0..4 {
            let even = lanes(|lane| digits[lane][i] & 1 == 0);
            sum = sum.select(even, &sum.add(&q[i].neg()));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_make_up_the_scalar() {
        let bytes = |words: [u64; 4]| -> [u8; 32] {
            core::array::from_fn(|i| words[i / 8].to_le_bytes()[i % 8])
        };
        // One less than the order.
        let below = [
            0xffff_ffff_0000_0000,
            0x53bd_a402_fffe_5bfe,
            0x3339_d808_09a1_d805,
            0x73ed_a753_299d_7d48,
        ];
        for words in [[0; 4], [1, 0, 0, 0], [PARAMETER, 7, 0, 1 << 50], below] {
            let digits = digits(&bytes(words)).unwrap();
            let mut number = [0u64; 4];
            for digit in digits.into_iter().rev() {
                assert!(digit < PARAMETER);
                let mut carry = u128::from(digit);
                for word in &mut number {
                    carry += u128::from(*word) * u128::from(PARAMETER);
                    (*word, carry) = (carry as u64, carry >> 64);
                }
                assert_eq!(carry, 0);
            }
            assert_eq!(number, words);
        }
        assert_eq!(digits(&[0xff; 32]), None);
    }
}
