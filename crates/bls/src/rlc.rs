//! Random weights of batch verification: replayable, and unpredictable to the maker of the batch.

use core::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use zeroize::Zeroize;

/// Width of the random weights, and number of random subsets of a bulk subgroup check. A bad item passes one
/// test with probability at most 1 / (2^bits - 1), since no weight is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RlcBits {
    /// 64 bits, as consensus clients use: a false accept needs about 2^64 online attempts.
    #[default]
    Bits64,
    /// 128 bits, for verdicts that hold without a secret.
    Bits128,
}

impl RlcBits {
    /// Number of bits.
    pub(crate) fn bits(self) -> usize {
        match self {
            RlcBits::Bits64 => 64,
            RlcBits::Bits128 => 128,
        }
    }
}

/// How weights are drawn: ChaCha20 keyed by SHA-256(secret || digest of the batch).
///
/// The caller that drives the verification draws the secret once, so that a run is replayable and an outsider
/// cannot grind signatures against the weights.
#[derive(Clone)]
pub struct Rlc {
    secret: [u8; 32],
    bits: RlcBits,
}

impl Drop for Rlc {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl fmt::Debug for Rlc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rlc")
            .field("bits", &self.bits)
            .finish_non_exhaustive()
    }
}

impl Rlc {
    /// Draws weights of the given width from a secret.
    pub fn new(secret: [u8; 32], bits: RlcBits) -> Rlc {
        Rlc { secret, bits }
    }

    /// Draws weights that a third party can reproduce: no secret, hence 128 bits wide.
    pub fn reproducible() -> Rlc {
        Rlc {
            secret: [0; 32],
            bits: RlcBits::Bits128,
        }
    }

    /// Width of the weights.
    pub(crate) fn bits(&self) -> RlcBits {
        self.bits
    }

    /// A seed for bulk subgroup checks of the bytes with this digest.
    pub(crate) fn seed(&self, digest: &[u8; 32]) -> [u8; 32] {
        let mut hasher = Sha256::new_with_prefix(b"alphorn-subgroup-v1");
        hasher.update(self.secret);
        hasher.update(digest);
        hasher.finalize().into()
    }

    /// The weight stream of a batch.
    pub(crate) fn stream(&self, batch_digest: &[u8; 32]) -> WeightStream {
        let key = Sha256::new()
            .chain_update(self.secret)
            .chain_update(batch_digest)
            .finalize();
        WeightStream {
            rng: ChaCha20Rng::from_seed(key.into()),
            bits: self.bits,
        }
    }
}

/// A stream of weights.
pub(crate) struct WeightStream {
    rng: ChaCha20Rng,
    bits: RlcBits,
}

impl WeightStream {
    /// Appends one non-zero weight, little-endian.
    pub(crate) fn push_weight(&mut self, weights: &mut Vec<u8>) {
        let mut weight = [0u8; 16];
        let weight = &mut weight[..self.bits.bits() / 8];
        draw_nonzero(weight, |bytes| self.rng.fill_bytes(bytes));
        weights.extend_from_slice(weight);
    }

    /// Shuffles `items`. The modulo bias of 2^-64 * n does not matter for an order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.rng.next_u64() % (i as u64 + 1);
            items.swap(i, j as usize);
        }
    }
}

/// Fills `weight` until it is not zero: a zero weight would let its item pass unnoticed.
fn draw_nonzero(weight: &mut [u8], mut fill: impl FnMut(&mut [u8])) {
    fill(weight);
    while weight.iter().all(|&byte| byte == 0) {
        fill(weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trap_09_a_zero_weight_is_drawn_again() {
        let mut values = [0u8, 0, 3].into_iter();
        let mut weight = [9; 8];
        draw_nonzero(&mut weight, |bytes| bytes.fill(values.next().unwrap()));
        assert_eq!(weight, [3; 8]);
        assert_eq!(values.next(), None);
    }

    #[test]
    fn trap_09_weights_depend_on_secret_and_batch() {
        let weights = |secret: u8, digest: u8, bits| {
            let mut out = Vec::new();
            let mut stream = Rlc::new([secret; 32], bits).stream(&[digest; 32]);
            (0..4).for_each(|_| stream.push_weight(&mut out));
            out
        };
        let reference = weights(1, 1, RlcBits::Bits64);
        assert_eq!(reference, weights(1, 1, RlcBits::Bits64));
        assert_eq!(
            (reference.len(), weights(1, 1, RlcBits::Bits128).len()),
            (32, 64)
        );
        assert_ne!(reference, weights(2, 1, RlcBits::Bits64));
        assert_ne!(reference, weights(1, 2, RlcBits::Bits64));
    }

    /// Weights of half the width, or with a fixed bit, let a bad batch pass far more often.
    #[test]
    fn trap_09_every_bit_of_a_weight_is_drawn() {
        for bits in [RlcBits::Bits64, RlcBits::Bits128] {
            let mut stream = Rlc::new([3; 32], bits).stream(&[4; 32]);
            let bytes = bits.bits() / 8;
            let (mut set, mut unset) = (vec![0; bytes], vec![0; bytes]);
            for _ in 0..128 {
                let mut weight = Vec::new();
                stream.push_weight(&mut weight);
                assert_eq!(weight.len(), bytes);
                for (i, byte) in weight.into_iter().enumerate() {
                    set[i] |= byte;
                    unset[i] |= !byte;
                }
            }
            assert_eq!((set, unset), (vec![0xff; bytes], vec![0xff; bytes]));
        }
    }

    /// With known subsets, points can be chosen whose bad parts cancel in each of them.
    #[test]
    fn trap_05_the_seed_of_subsets_depends_on_secret_and_encodings() {
        let seed =
            |secret: u8, digest: u8| Rlc::new([secret; 32], RlcBits::Bits64).seed(&[digest; 32]);
        assert_eq!(seed(1, 1), seed(1, 1));
        assert_ne!(seed(1, 1), seed(2, 1));
        assert_ne!(seed(1, 1), seed(1, 2));
    }
}
