//! The hash of the proofs themselves: C, and its digests.

use std::sync::LazyLock;

use alphorn_exec::Backend;

use crate::field::Fp;
use crate::poseidon::Permutations;
use crate::poseidon::kernels::{KERNELS, measure_one};

/// Number of elements in a digest.
pub const DIGEST: usize = 8;

/// A digest of the crate's hash.
pub type Digest = [Fp; DIGEST];

/// The fastest level for a single state, since the steps of a transcript wait for each other. It is not always the
/// level with the highest hash throughput, so it is measured separately, once.
pub(crate) static ONE_STATE: LazyLock<Backend> = LazyLock::new(|| {
    let levels = KERNELS.available().into_iter();
    let least = levels.min_by_key(|level| measure_one(*level));
    least.unwrap_or_default()
});

/// C(left, right) of field elements.
pub(crate) fn compress(left: [Fp; DIGEST], right: [Fp; DIGEST]) -> [Fp; DIGEST] {
    let mut states = [std::array::from_fn(|i| match i < DIGEST {
        true => left[i],
        false => right[i - DIGEST],
    })];
    ONE_STATE.compress_own(&mut states);
    std::array::from_fn(|i| states[0][i])
}
