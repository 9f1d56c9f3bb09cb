//! Hash trees of C, and hashes of rows, sixteen at a time.

mod opened;

use alphorn_exec::Exec;

use crate::field::Fp;
use crate::hash::{DIGEST, Digest};
use crate::poseidon::Permutations;

pub(crate) use opened::Opened;
pub(crate) use opened::{Sent, Shown, nodes_max};

/// Number of hashes that one task computes.
const TASK: usize = 1024;

/// C of each pair.
pub(crate) fn compress_all(
    exec: Exec<'_>,
    pairs: usize,
    pair: impl Fn(usize) -> (Digest, Digest) + Sync,
) -> Vec<Digest> {
    let tasks = exec.map(pairs.div_ceil(TASK), |task| {
        let range = task * TASK..pairs.min((task + 1) * TASK);
        let mut states: Vec<[Fp; 16]> = range
            .map(|i| {
                let (left, right) = pair(i);
                let mut state = [Fp::ZERO; 16];
                state[..DIGEST].copy_from_slice(&left);
                state[DIGEST..].copy_from_slice(&right);
                state
            })
            .collect();
        exec.backend().compress_own(&mut states);
        states
    });
    let first_half = |state: [Fp; 16]| std::array::from_fn(|i| state[i]);
    tasks.into_iter().flatten().map(first_half).collect()
}

/// The root of a binary tree of C.
///
/// # Panics
/// If the number of leaves is not a power of two.
pub(crate) fn root(exec: Exec<'_>, leaves: Vec<Digest>) -> Digest {
    assert!(leaves.len().is_power_of_two(), "a full binary tree");
    let mut level = leaves;
    while level.len() > 1 {
        level = compress_all(exec, level.len() / 2, |i| (level[2 * i], level[2 * i + 1]));
    }
    level[0]
}

/// The digest of a list of blocks: h ← C(h, block), from h = C(start, 0).
pub(crate) fn chain(start: Digest, blocks: impl IntoIterator<Item = Digest>) -> Digest {
    // Every chain begins with a tag, so that lists of one kind are not those of another.
    let first = crate::hash::compress(start, [Fp::ZERO; DIGEST]);
    blocks.into_iter().fold(first, crate::hash::compress)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::hash::compress;
    use crate::poseidon::kernels::KERNELS;
    use crate::transcript::tag;
    use alphorn_exec::Backend;

    /// The root over the rows of slices: leaf x is the digest of the x-th element of each slice.
    ///
    /// # Panics
    /// If slices differ in length, or the length is not a power of two.
    pub(crate) fn commit(exec: Exec<'_>, slices: &[Vec<Fp>], oracle: u32) -> Digest {
        let rows = slices.first().map_or(1, Vec::len);
        assert!(
            slices.iter().all(|slice| slice.len() == rows),
            "equal slices"
        );
        let mut start = [Fp::ZERO; DIGEST];
        start[..3].copy_from_slice(&[tag(b"leaf"), Fp::new(slices.len() as u32), Fp::new(oracle)]);
        let first = crate::hash::compress(start, [Fp::ZERO; DIGEST]);
        let mut leaves = vec![first; rows];
        for eight in slices.chunks(DIGEST) {
            let block = |x: usize| std::array::from_fn(|i| eight.get(i).map_or(Fp::ZERO, |s| s[x]));
            leaves = compress_all(exec, rows, |x| (leaves[x], block(x)));
        }
        root(exec, leaves)
    }

    fn numbered(i: usize) -> Digest {
        std::array::from_fn(|k| Fp::new((8 * i + k) as u32))
    }

    #[test]
    fn a_root_is_the_hash_of_hashes_whatever_the_kernel_and_the_threads() {
        let by_hand = compress(
            compress(numbered(0), numbered(1)),
            compress(numbered(2), numbered(3)),
        );
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(3)
            .build()
            .unwrap();
        for backend in KERNELS.available() {
            let exec = Exec::new(backend, Some(&pool));
            assert_eq!(root(exec, (0..4).map(numbered).collect()), by_hand);
            let large: Vec<Digest> = (0..4096).map(numbered).collect();
            let alone = Exec::new(Backend::Portable, None);
            assert_eq!(root(exec, large.clone()), root(alone, large));
        }
        assert_eq!(
            root(Exec::new(Backend::Portable, None), vec![numbered(3)]),
            numbered(3)
        );
    }

    #[test]
    fn a_commitment_binds_each_element_its_place_and_the_width() {
        let exec = Exec::new(Backend::Portable, None);
        let slices: Vec<Vec<Fp>> = (0..9)
            .map(|i| (0..4).map(|x| Fp::new(4 * i + x)).collect())
            .collect();
        let honest = commit(exec, &slices, 0);
        assert_ne!(commit(exec, &slices, 1), honest);
        assert_ne!(commit(exec, &slices[..8], 0), honest);
        for i in 0..9 {
            for x in 0..4 {
                let mut changed = slices.clone();
                changed[i][x] += Fp::ONE;
                assert_ne!(commit(exec, &changed, 0), honest, "slice {i}, row {x}");
            }
        }
        let start = {
            let mut start = [Fp::ZERO; 8];
            start[..3].copy_from_slice(&[tag(b"leaf"), Fp::new(9), Fp::ZERO]);
            start
        };
        let row = |x: usize| -> [Digest; 2] {
            let all: Vec<Fp> = slices.iter().map(|slice| slice[x]).collect();
            [
                std::array::from_fn(|i| all[i]),
                std::array::from_fn(|i| all.get(8 + i).copied().unwrap_or_default()),
            ]
        };
        let leaves = (0..4).map(|x| chain(start, row(x))).collect();
        assert_eq!(root(exec, leaves), honest);
    }
}
