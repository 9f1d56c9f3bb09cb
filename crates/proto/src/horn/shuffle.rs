//! The swap-or-not shuffle of Ethereum's consensus specifications (`compute_shuffled_index`), which
//! determines the committee assignment of an epoch, and the order in which members of a group serve.
//!
//! Round t of the permutation pairs every index i with its mirror image around a pivot and swaps
//! the pair or not, by one pseudo-random bit that belongs to the larger of the two:
//!
//! ```text
//! pivot = le64(SHA-256(seed || t)[0..8]) mod n
//! flip  = (pivot + n - i) mod n ;  pos = max(i, flip)
//! bit   = bit (pos mod 8) of byte (pos mod 256) / 8 of SHA-256(seed || t || le32(pos / 256))
//! if bit: i = flip
//! ```
//!
//! Each round is its own inverse, so a whole list is permuted by the same swaps with the rounds in
//! **reverse** order, and unpermuted with the rounds in forward order.

use sha2::{Digest, Sha256};

/// Number of rounds of the shuffle, as `SHUFFLE_ROUND_COUNT` in the consensus specifications.
pub(crate) const SHUFFLE_ROUNDS: u8 = 90;

/// Number of positions whose swap bits one hash supplies.
const BLOCK_BITS: u32 = 256;

/// A permutation π of `0..n`, fixed by a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    seed: [u8; 32],
    n: u32,
}

impl Shuffle {
    /// The permutation of `0..n` under `seed`.
    pub fn new(seed: [u8; 32], n: u32) -> Self {
        Self { seed, n }
    }

    /// π(`index`), using two hashes per round.
    ///
    /// # Panics
    ///
    /// If `index` is not below `n`.
    pub(crate) fn index(&self, index: u32) -> u32 {
        (0..SHUFFLE_ROUNDS).fold(self.checked(index), |i, t| self.step(i, t))
    }

    /// π⁻¹(`index`): the position whose image is `index`.
    ///
    /// # Panics
    ///
    /// If `index` is not below `n`.
    pub(crate) fn inverse_index(&self, index: u32) -> u32 {
        (0..SHUFFLE_ROUNDS)
            .rev()
            .fold(self.checked(index), |i, t| self.step(i, t))
    }

    /// π(0), π(1), ..., π(n − 1). About n / 512 hashes per round.
    pub fn list(&self) -> Vec<u32> {
        let mut list: Vec<u32> = (0..self.n).collect();
        let mut bits = Vec::new();
        for t in (0..SHUFFLE_ROUNDS).rev() {
            self.round(&mut list, t, &mut bits);
        }
        list
    }

    /// π⁻¹(0), π⁻¹(1), ..., π⁻¹(n − 1).
    #[cfg(test)]
    pub(crate) fn inverse_list(&self) -> Vec<u32> {
        let mut list: Vec<u32> = (0..self.n).collect();
        let mut bits = Vec::new();
        for t in 0..SHUFFLE_ROUNDS {
            self.round(&mut list, t, &mut bits);
        }
        list
    }

    /// The first `count` values of [`list`](Self::list) (all n of them if `count` is larger), by
    /// whichever way needs fewer hashes.
    pub(crate) fn first(&self, count: u32) -> Vec<u32> {
        let count = count.min(self.n);
        // Per round: a pivot and a block of bits for each index, or one pivot and the blocks of half the
        // positions.
        let hashes_one_by_one = 2 * u64::from(count);
        let hashes_whole_list = 2 + u64::from(self.n / (2 * BLOCK_BITS));
        if hashes_one_by_one < hashes_whole_list {
            (0..count).map(|k| self.index(k)).collect()
        } else {
            let mut list = self.list();
            list.truncate(count as usize);
            list.shrink_to_fit();
            list
        }
    }

    fn checked(&self, index: u32) -> u32 {
        assert!(index < self.n, "index {index} of a shuffle of {}", self.n);
        index
    }

    fn pivot(&self, t: u8) -> u32 {
        let mut message = [0; 33];
        message[..32].copy_from_slice(&self.seed);
        message[32] = t;
        let hash = Sha256::digest(message);
        let (head, _) = hash.split_first_chunk::<8>().expect("a hash has 32 bytes");
        (u64::from_le_bytes(*head) % u64::from(self.n)) as u32
    }

    /// The swap bits of positions `256 * block ..`, least significant bit first.
    fn block(&self, t: u8, block: u32) -> [u8; 32] {
        let mut message = [0; 37];
        message[..32].copy_from_slice(&self.seed);
        message[32] = t;
        message[33..].copy_from_slice(&block.to_le_bytes());
        Sha256::digest(message).into()
    }

    fn step(&self, i: u32, t: u8) -> u32 {
        // In 64 bits, as the sum of pivot and n may exceed 32.
        let (i64, n64) = (u64::from(i), u64::from(self.n));
        let flip = ((u64::from(self.pivot(t)) + n64 - i64) % n64) as u32;
        let pos = i.max(flip);
        let bits = self.block(t, pos / BLOCK_BITS);
        let byte = bits[(pos % BLOCK_BITS / 8) as usize];
        if byte >> (pos % 8) & 1 == 1 { flip } else { i }
    }

    /// Applies round `t` to a whole list. Indices up to the pivot are mirrored among themselves,
    /// and so are those beyond it; in both parts only the upper half owns swap bits, so only that
    /// half is hashed.
    fn round(&self, list: &mut [u32], t: u8, bits: &mut Vec<u8>) {
        if list.len() < 2 {
            return;
        }
        let pivot = self.pivot(t) as usize;
        let (low, high) = list.split_at_mut(pivot + 1);
        self.mirror(low, 0, t, bits);
        self.mirror(high, pivot + 1, t, bits);
    }

    /// Swaps or keeps each pair (k, len − 1 − k) of `part`, which begins at position `start`.
    fn mirror(&self, part: &mut [u32], start: usize, t: u8, bits: &mut Vec<u8>) {
        let pairs = part.len() / 2;
        if pairs == 0 {
            return;
        }
        // In a part of odd length the last position of `front` is its own mirror image and stays.
        let (front, back) = part.split_at_mut(part.len() - pairs);
        // Positions start + len − pairs .. start + len own the bits of this part.
        let first = start + front.len();
        let last = first + pairs - 1;
        let block_bits = BLOCK_BITS as usize;
        let block_first = first / block_bits;
        bits.clear();
        for block in block_first..=last / block_bits {
            bits.extend_from_slice(&self.block(t, block as u32));
        }
        let offset = first - block_first * block_bits;
        let mirrored = front[..pairs].iter_mut().rev();
        for (k, (upper, lower)) in back.iter_mut().zip(mirrored).enumerate() {
            let at = offset + k;
            let bit = u32::from(bits[at / 8] >> (at % 8) & 1);
            // Branch-free: the bit is random, so a branch would be mispredicted half the time.
            let change = (*upper ^ *lower) & bit.wrapping_neg();
            *upper ^= change;
            *lower ^= change;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed() -> [u8; 32] {
        std::array::from_fn(|i| i as u8)
    }

    #[test]
    fn known_permutation_of_ten() {
        let shuffle = Shuffle::new(seed(), 10);
        assert_eq!(shuffle.list(), [5, 2, 3, 1, 9, 6, 7, 4, 0, 8]);
    }

    #[test]
    fn index_list_and_inverses_agree() {
        for n in [1, 2, 3, 255, 256, 257, 511, 512, 513, 2047] {
            let shuffle = Shuffle::new(seed(), n);
            let list = shuffle.list();
            let inverse = shuffle.inverse_list();
            for i in 0..n {
                assert_eq!(list[i as usize], shuffle.index(i), "n = {n}, i = {i}");
                assert_eq!(inverse[list[i as usize] as usize], i, "n = {n}, i = {i}");
            }
            for i in (0..n).step_by(17) {
                assert_eq!(inverse[i as usize], shuffle.inverse_index(i));
            }
        }
    }

    #[test]
    fn first_is_a_prefix_either_way() {
        for n in [0, 1, 5, 512, 20_000] {
            let shuffle = Shuffle::new(seed(), n);
            let list = shuffle.list();
            for count in [0, 1, 16, 600] {
                let expected = &list[..(count as usize).min(list.len())];
                assert_eq!(shuffle.first(count), expected, "n = {n}, count = {count}");
            }
        }
    }

    #[test]
    fn empty_shuffle_is_empty() {
        assert!(Shuffle::new(seed(), 0).list().is_empty());
        assert!(Shuffle::new(seed(), 0).inverse_list().is_empty());
    }

    #[test]
    #[should_panic(expected = "index 3 of a shuffle of 3")]
    fn index_out_of_range_is_a_programmer_error() {
        Shuffle::new(seed(), 3).index(3);
    }
}
