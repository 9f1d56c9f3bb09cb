//! SHA-256 Merkle trees: leaf = H(0x00 ‖ LE16(index) ‖ data), node = H(0x01 ‖ left ‖ right), padded to a power of two
//! with leaves of 32 zero bytes. The prefixes separate leaves from nodes.

use sha2::{Digest, Sha256};

/// A SHA-256 digest.
pub type Hash = [u8; 32];

/// The hash of leaf `index`, whose data is the concatenation of `parts`.
pub(crate) fn leaf<'a>(index: u16, parts: impl IntoIterator<Item = &'a [u8]>) -> Hash {
    let mut hash = Sha256::new();
    hash.update([0]);
    hash.update(index.to_le_bytes());
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

fn node(left: &Hash, right: &Hash) -> Hash {
    let mut hash = Sha256::new();
    hash.update([1]);
    hash.update(left);
    hash.update(right);
    hash.finalize().into()
}

/// Number of hashes in the path of a leaf, in a tree of `leaves` leaves.
pub(crate) fn path_len(leaves: usize) -> usize {
    leaves.next_power_of_two().trailing_zeros() as usize
}

/// All nodes, level by level from the padded leaves to the root.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    levels: Vec<Vec<Hash>>,
}

impl Tree {
    /// Builds the tree over at least one leaf.
    pub(crate) fn new(mut leaves: Vec<Hash>) -> Tree {
        leaves.resize(leaves.len().next_power_of_two(), [0; 32]);
        let mut levels = vec![leaves];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            levels.push(
                below
                    .chunks_exact(2)
                    .map(|pair| node(&pair[0], &pair[1]))
                    .collect(),
            );
        }
        Tree { levels }
    }

    pub(crate) fn root(&self) -> Hash {
        self.levels.last().map_or([0; 32], |top| top[0])
    }

    /// The siblings of a leaf from the bottom up.
    pub(crate) fn path(&self, index: usize) -> Vec<Hash> {
        // The root has no sibling.
        let siblings = &self.levels[..self.levels.len() - 1];
        siblings
            .iter()
            .enumerate()
            .map(|(height, level)| level[(index >> height) ^ 1])
            .collect()
    }
}

/// The root computed from a leaf and its path.
pub(crate) fn climb(leaf: Hash, index: usize, path: &[Hash]) -> Hash {
    path.iter()
        .enumerate()
        .fold(leaf, |hash, (height, sibling)| {
            if index >> height & 1 == 0 {
                node(&hash, sibling)
            } else {
                node(sibling, &hash)
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_the_root_and_only_from_their_leaf() {
        for count in 1..=17_u16 {
            let leaves: Vec<Hash> = (0..count).map(|i| leaf(i, [&[7_u8][..]])).collect();
            let tree = Tree::new(leaves.clone());
            for (index, hash) in leaves.iter().enumerate() {
                let path = tree.path(index);
                assert_eq!(path.len(), path_len(leaves.len()));
                assert_eq!(climb(*hash, index, &path), tree.root());
                for other in 0..leaves.len() {
                    assert_eq!(climb(*hash, other, &path) == tree.root(), other == index);
                }
            }
        }
    }

    #[test]
    fn a_tree_of_one_leaf_is_that_leaf_and_padding_is_zero() {
        let hashes: Vec<Hash> = (0..3).map(|i| leaf(i, [])).collect();
        assert_eq!(Tree::new(hashes[..1].to_vec()).root(), hashes[0]);
        let right = node(&hashes[2], &[0; 32]);
        assert_eq!(
            Tree::new(hashes.clone()).root(),
            node(&node(&hashes[0], &hashes[1]), &right)
        );
    }
}
