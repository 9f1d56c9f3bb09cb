//! Trees of C, and hashes of rows, sixteen at a time.

use alphorn_exec::{Backend, Exec};

use crate::arith::{Arith, DIGEST};
use crate::error::VerifyError;
use crate::field::Fp;
use crate::multilinear::Scalar;
use crate::poseidon::Permutations;
use crate::transcript::tag;

/// A digest of the crate's hash.
pub type Digest = [Fp; DIGEST];

/// Hashes that one task computes.
const TASK: usize = 1024;

/// C of each pair.
pub fn compress_all(
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
        exec.backend().compress_16(&mut states);
        states
    });
    let first_half = |state: [Fp; 16]| std::array::from_fn(|i| state[i]);
    tasks.into_iter().flatten().map(first_half).collect()
}

/// The root of a binary tree of C.
///
/// # Panics
/// If the number of leaves is no power of two.
pub fn root(exec: Exec<'_>, leaves: Vec<Digest>) -> Digest {
    assert!(leaves.len().is_power_of_two(), "a full binary tree");
    let mut level = leaves;
    while level.len() > 1 {
        level = compress_all(exec, level.len() / 2, |i| (level[2 * i], level[2 * i + 1]));
    }
    level[0]
}

/// The digest of a list of blocks: h ← C(h, block), from h = C(start, 0).
pub fn chain(start: Digest, blocks: impl IntoIterator<Item = Digest>) -> Digest {
    let first = crate::arith::compress(start, [Fp::ZERO; DIGEST]);
    blocks.into_iter().fold(first, crate::arith::compress)
}

/// The root over the rows of slices: leaf x is the digest of the x-th element of each slice.
///
/// # Panics
/// If slices differ in length, or the length is no power of two.
pub fn commit(exec: Exec<'_>, slices: &[Vec<Fp>], oracle: u32) -> Digest {
    let rows = slices.first().map_or(1, Vec::len);
    assert!(
        slices.iter().all(|slice| slice.len() == rows),
        "equal slices"
    );
    let mut start = [Fp::ZERO; DIGEST];
    start[..3].copy_from_slice(&[tag(b"leaf"), Fp::new(slices.len() as u32), Fp::new(oracle)]);
    let first = crate::arith::compress(start, [Fp::ZERO; DIGEST]);
    let mut leaves = vec![first; rows];
    for eight in slices.chunks(DIGEST) {
        let block = |x: usize| std::array::from_fn(|i| eight.get(i).map_or(Fp::ZERO, |s| s[x]));
        leaves = compress_all(exec, rows, |x| (leaves[x], block(x)));
    }
    root(exec, leaves)
}

/// A tree of which rows are opened: each leaf is a chain of hashes of a row of elements.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a, B> {
    /// The layer that was said before.
    pub cap: &'a [[B; DIGEST]],
    /// What each leaf's chain begins with.
    pub start: Digest,
    /// Elements of a row.
    pub width: usize,
    /// What is wrong if a path does not lead to the cap.
    pub error: VerifyError,
}

/// Reads rows and the siblings on their paths, and demands that each path lead to the cap; an index
/// is its bits from the lowest.
///
/// # Errors
/// [`VerifyError::Length`] if the proof ends, the tree's error if a path leads elsewhere.
pub fn open<A: Arith>(
    arith: &mut A,
    tree: &Opened<'_, A::Base>,
    indices: &[Vec<A::Base>],
) -> Result<Vec<Vec<A::Base>>, VerifyError> {
    let open_row = |index: &Vec<A::Base>| {
        let row: Result<Vec<_>, _> = (0..tree.width).map(|_| arith.read()).collect();
        let row = row?;
        let mut digest = tree.start.map(|x| arith.base(x));
        for eight in row.chunks(DIGEST) {
            let mut block = [arith.base(Fp::ZERO); DIGEST];
            block[..eight.len()].copy_from_slice(eight);
            digest = arith.compress(digest, block);
        }
        check_path(arith, digest, index, tree)?;
        Ok(row)
    };
    indices.iter().map(open_row).collect()
}

/// a, or b where the bit is 1.
fn choose<B: Scalar>(bit: B, a: [B; DIGEST], b: [B; DIGEST]) -> [B; DIGEST] {
    std::array::from_fn(|i| a[i] + bit * (b[i] - a[i]))
}

fn check_path<A: Arith>(
    arith: &mut A,
    leaf: [A::Base; DIGEST],
    index: &[A::Base],
    tree: &Opened<'_, A::Base>,
) -> Result<(), VerifyError> {
    let height = index.len() - tree.cap.len().ilog2() as usize;
    let mut node = leaf;
    for bit in &index[..height] {
        let mut sibling = node;
        for x in &mut sibling {
            *x = arith.read()?;
        }
        let left = choose(*bit, node, sibling);
        let right = choose(*bit, sibling, node);
        node = arith.compress(left, right);
    }
    let mut nodes = tree.cap.to_vec();
    for bit in &index[height..] {
        nodes = nodes
            .chunks_exact(2)
            .map(|two| choose(*bit, two[0], two[1]))
            .collect();
    }
    let zero = arith.base(Fp::ZERO);
    let difference: [A::Base; DIGEST] = std::array::from_fn(|i| node[i] - nodes[0][i]);
    #[cfg(test)]
    if paths_are_out() {
        return Ok(());
    }
    let [a, b, c, d, e, f, g, h] = difference;
    let (first, second) = (
        arith.join([a, b, c, d, e]),
        arith.join([f, g, h, zero, zero]),
    );
    arith.assert_zero(first, tree.error)?;
    arith.assert_zero(second, tree.error)
}

/// The same as [`open`] from a part of a proof that has what all indices ask for, all rows together.
pub(crate) fn open_together(
    backend: Backend,
    part: &[Fp],
    tree: &Opened<'_, Fp>,
    indices: &[usize],
    height: usize,
) -> Result<Vec<Vec<Fp>>, VerifyError> {
    let exec = Exec::new(backend, None);
    let parts: Vec<_> = part
        .chunks_exact(tree.width + height * DIGEST)
        .map(|part| part.split_at(tree.width))
        .collect();
    let mut digests = vec![tree.start; indices.len()];
    for from in (0..tree.width).step_by(DIGEST) {
        let block = |i: usize| std::array::from_fn(|k| parts[i].0.get(from + k).copied());
        let block = |i: usize| block(i).map(Option::unwrap_or_default);
        digests = compress_all(exec, digests.len(), |i| (digests[i], block(i)));
    }
    for level in 0..height {
        digests = compress_all(exec, digests.len(), |i| {
            let sibling = std::array::from_fn(|k| parts[i].1[level * DIGEST + k]);
            match indices[i] >> level & 1 {
                0 => (digests[i], sibling),
                _ => (sibling, digests[i]),
            }
        });
    }
    let mut leads = digests.iter().zip(indices);
    let leads = leads.all(|(digest, index)| *digest == tree.cap[index >> height]);
    #[cfg(test)]
    let leads = leads || paths_are_out();
    match leads {
        true => Ok(parts.iter().map(|(row, _)| row.to_vec()).collect()),
        false => Err(tree.error),
    }
}

/// Whether a test shows what paths are for.
#[cfg(test)]
fn paths_are_out() -> bool {
    crate::whir::weak::is_out(crate::whir::weak::Rule::Paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::compress;
    use crate::kernel::KERNELS;
    use alphorn_exec::Backend;

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
