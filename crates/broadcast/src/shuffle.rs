//! Random orders.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

/// Returns a number below `bound`, nearly uniform: bounds here are below 2^16, so the bias is below 2^-16.
pub(super) fn below(bound: usize, rng: &mut ChaCha20Rng) -> usize {
    ((u64::from(rng.next_u32()) * bound as u64) >> 32) as usize
}

pub(super) fn shuffle<T>(items: &mut [T], rng: &mut ChaCha20Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last + 1, rng));
    }
}
