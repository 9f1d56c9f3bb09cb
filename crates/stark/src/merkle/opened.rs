//! Rows of a tree that are opened together: shared parts are sent once.
//!
//! Each requested row is sent once, in ascending order. Then come siblings, level by level from the leaves and in
//! ascending order: one for each known node, unless the sibling is known too. So indices and tree determine what
//! is sent.

use std::collections::BTreeSet;

use alphorn_exec::{Backend, Exec};

use super::compress_all;
use crate::error::VerifyError;
use crate::field::Fp;
use crate::hash::{DIGEST, Digest};

/// A tree whose rows are opened: each leaf is a chain of hashes of a row of elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened<'a, B> {
    /// The layer that was sent earlier.
    pub(crate) cap: &'a [[B; DIGEST]],
    /// The start of each leaf's chain.
    pub(crate) start: Digest,
    /// Number of elements in a row.
    pub(crate) width: usize,
    /// The error if a path does not lead to the cap.
    pub(crate) error: VerifyError,
}

/// The rows and nodes that are sent for some indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The rows.
    pub(crate) rows: Vec<usize>,
    /// For each level from the leaves, the nodes.
    pub(crate) nodes: Vec<Vec<usize>>,
}

impl Sent {
    /// The rows and nodes for a tree with this many levels below its cap.
    pub(crate) fn new(indices: &[usize], height: usize) -> Sent {
        let rows: BTreeSet<usize> = indices.iter().copied().collect();
        let rows: Vec<usize> = rows.into_iter().collect();
        let mut known = rows.clone();
        let mut nodes = Vec::with_capacity(height);
        for _ in 0..height {
            let alone = known.iter().map(|node| node ^ 1);
            let alone = alone.filter(|sibling| known.binary_search(sibling).is_err());
            nodes.push(alone.collect());
            known = known.iter().map(|node| node >> 1).collect();
            // Siblings that are both known have one parent. They are neighbours, since the list ascends.
            known.dedup();
        }
        Sent { rows, nodes }
    }

    /// Number of elements in rows of this width and in the nodes.
    pub(crate) fn elements(&self, width: usize) -> usize {
        let nodes: usize = self.nodes.iter().map(Vec::len).sum();
        self.rows.len() * width + nodes * DIGEST
    }
}

/// Maximum number of nodes sent for this many rows of 2^`rows_log2` under a cap of 2^`cap_log2` nodes: at most one
/// of each pair of siblings, and one for each row.
pub(crate) fn nodes_max(rows: usize, rows_log2: usize, cap_log2: usize) -> usize {
    let of_level = |level: usize| rows.min(1 << (level - 1));
    (cap_log2 + 1..=rows_log2).map(of_level).sum()
}

/// Rows that were sent and lead to the cap, and all nodes on their paths.
pub(crate) struct Shown<'a> {
    rows: Vec<usize>,
    width: usize,
    elements: &'a [Fp],
    /// For each level, the nodes that are known and those that were sent, ascending.
    levels: Vec<Vec<(usize, Digest)>>,
}

impl<'a> Shown<'a> {
    /// Checks that all rows of a part of a proof lead to the cap, all of a level together.
    ///
    /// # Errors
    /// The tree's error if a path leads elsewhere.
    pub(crate) fn new(
        backend: Backend,
        tree: &Opened<'_, Fp>,
        sent: Sent,
        part: &'a [Fp],
    ) -> Result<Shown<'a>, VerifyError> {
        let exec = Exec::new(backend, None);
        let (elements, nodes) = part.split_at(sent.rows.len() * tree.width);
        let row = |i: usize| &elements[i * tree.width..][..tree.width];
        let mut digests = vec![tree.start; sent.rows.len()];
        for from in (0..tree.width).step_by(DIGEST) {
            let block = |i: usize| std::array::from_fn(|k| row(i).get(from + k).copied());
            let block = |i: usize| block(i).map(Option::unwrap_or_default);
            digests = compress_all(exec, digests.len(), |i| (digests[i], block(i)));
        }
        let mut known: Vec<(usize, Digest)> = sent.rows.iter().copied().zip(digests).collect();
        let mut nodes = nodes.as_chunks::<DIGEST>().0.iter();
        let mut levels = Vec::with_capacity(sent.nodes.len());
        for of_level in &sent.nodes {
            known.extend(of_level.iter().copied().zip(nodes.by_ref().copied()));
            known.sort_by_key(|(node, _)| *node);
            // Each node is next to its sibling.
            let pair = |i: usize| (known[2 * i].1, known[2 * i + 1].1);
            let above = compress_all(exec, known.len() / 2, pair);
            let numbers = known.iter().step_by(2).map(|(node, _)| node >> 1);
            let above = numbers.zip(above).collect();
            levels.push(std::mem::replace(&mut known, above));
        }
        // All levels below the cap are done, so what is left are nodes of the cap.
        let leads = known
            .iter()
            .all(|(node, digest)| *digest == tree.cap[*node]);
        #[cfg(test)]
        let leads = leads || crate::whir::weak::is_out(crate::whir::weak::Rule::Paths);
        match leads {
            true => Ok(Shown {
                rows: sent.rows,
                width: tree.width,
                elements,
                levels,
            }),
            false => Err(tree.error),
        }
    }

    /// A requested row.
    pub(crate) fn row(&self, index: usize) -> &'a [Fp] {
        let at = self.rows.partition_point(|row| *row < index);
        &self.elements[at * self.width..][..self.width]
    }

    /// The siblings on the path of a requested row, from the leaf.
    pub(crate) fn path(&self, index: usize) -> impl Iterator<Item = Digest> {
        self.levels.iter().enumerate().map(move |(height, level)| {
            let sibling = index >> height ^ 1;
            level[level.partition_point(|(node, _)| *node < sibling)].1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merkle::root;
    use crate::test_random::Random;

    const ERROR: VerifyError = VerifyError::Merkle { oracle: 3 };

    /// Rows of three elements under a tree: what is sent for them, and the root.
    fn shown(indices: &[usize], height: usize) -> (Vec<Fp>, Digest, Vec<Vec<Fp>>) {
        let mut random = Random::new(indices.len() as u64);
        let rows: Vec<Vec<Fp>> = (0..1 << height)
            .map(|_| (0..3).map(|_| random.fp()).collect())
            .collect();
        let exec = Exec::new(Backend::Portable, None);
        let leaf = |row: &Vec<Fp>| {
            let block = std::array::from_fn(|i| row.get(i).copied().unwrap_or_default());
            crate::hash::compress([Fp::ONE; DIGEST], block)
        };
        let mut levels = vec![rows.iter().map(leaf).collect::<Vec<Digest>>()];
        for _ in 0..height {
            let below = &levels[levels.len() - 1];
            let pair = |i: usize| (below[2 * i], below[2 * i + 1]);
            let above = compress_all(exec, below.len() / 2, pair);
            levels.push(above);
        }
        let root = root(exec, levels[0].clone());
        let sent = Sent::new(indices, height);
        let mut part: Vec<Fp> = sent.rows.iter().flat_map(|i| rows[*i].clone()).collect();
        for (level, nodes) in levels.iter().zip(&sent.nodes) {
            part.extend(nodes.iter().flat_map(|node| level[*node]));
        }
        assert_eq!(part.len(), sent.elements(3));
        (part, root, rows)
    }

    #[test]
    fn each_row_and_each_node_that_nothing_gives_is_sent_once() {
        let sent = Sent::new(&[5, 2, 5, 3], 3);
        assert_eq!(sent.rows, [2, 3, 5]);
        // 2 and 3 are siblings; the siblings of their node 1, and of 5 and its node 2, are missing.
        assert_eq!(sent.nodes, [vec![4], vec![0, 3], vec![]]);
        let all: Vec<usize> = (0..8).collect();
        assert_eq!(Sent::new(&all, 3).elements(1), 8);
        assert_eq!(Sent::new(&[], 3).elements(1), 0);
    }

    #[test]
    fn no_rows_have_more_nodes_than_the_limit() {
        for few in [[0usize, 4], [1, 6], [1, 3], [2, 3]] {
            let nodes = Sent::new(&few, 3).elements(0) / DIGEST;
            assert!(nodes <= nodes_max(2, 3, 0), "{few:?}: {nodes}");
        }
        assert_eq!(Sent::new(&[1, 6], 3).elements(0), 4 * DIGEST);
        assert_eq!(nodes_max(2, 3, 0), 2 + 2 + 1);
        assert_eq!(nodes_max(4, 3, 1), 4 + 2);
    }

    #[test]
    fn rows_and_paths_are_those_of_the_tree_and_each_element_counts() {
        for indices in [
            &[5usize][..],
            &[0, 1],
            &[5, 2, 5, 3],
            &[0, 7, 6, 5, 4, 3, 2, 1],
        ] {
            let (part, root, rows) = shown(indices, 3);
            let tree = Opened {
                cap: &[root],
                start: [Fp::ONE; DIGEST],
                width: 3,
                error: ERROR,
            };
            let backend = Backend::Portable;
            let open = |part: &[Fp]| {
                let opened = Shown::new(backend, &tree, Sent::new(indices, 3), part)?;
                for index in indices {
                    assert_eq!(opened.row(*index), rows[*index]);
                    let mut digest = crate::hash::compress(
                        tree.start,
                        std::array::from_fn(|i| rows[*index].get(i).copied().unwrap_or_default()),
                    );
                    for (height, sibling) in opened.path(*index).enumerate() {
                        digest = match index >> height & 1 {
                            0 => crate::hash::compress(digest, sibling),
                            _ => crate::hash::compress(sibling, digest),
                        };
                    }
                    assert_eq!(digest, root);
                }
                Ok::<(), VerifyError>(())
            };
            assert_eq!(open(&part), Ok(()));
            for at in 0..part.len() {
                let mut changed = part.clone();
                changed[at] += Fp::ONE;
                let refused = Shown::new(backend, &tree, Sent::new(indices, 3), &changed);
                assert_eq!(refused.err(), Some(ERROR), "element {at}");
            }
        }
    }
}
