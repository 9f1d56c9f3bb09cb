//! Pseudo-random streams of a run: each has a label and a node, so that none affects another.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

/// 32 bytes for a purpose: `SHA-256("alphorn-sim/1" || le64(seed) || label || le32(node))`. No
/// label in the simulator is a prefix of another.
pub(crate) fn bytes(seed: u64, label: &str, node: u32) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"alphorn-sim/1");
    hash.update(seed.to_le_bytes());
    hash.update(label.as_bytes());
    hash.update(node.to_le_bytes());
    hash.finalize().into()
}

/// The stream of a purpose, keyed by [`bytes`].
pub(crate) fn stream(seed: u64, label: &str, node: u32) -> ChaCha8Rng {
    ChaCha8Rng::from_seed(bytes(seed, label, node))
}
