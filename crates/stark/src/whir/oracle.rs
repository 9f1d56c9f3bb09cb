//! An oracle: slices encoded, row by row under a tree, of which a layer is the commitment.

use super::ntt::Domain;
use crate::arith::{DIGEST, compress};
use crate::exec::Exec;
use crate::field::Fp;
use crate::merkle::{Digest, compress_all};
use crate::transcript::tag;

/// Encoded slices and their tree.
pub(super) struct Oracle {
    /// The values of each slice on the domain.
    columns: Vec<Vec<Fp>>,
    /// From the leaves up to the cap.
    levels: Vec<Vec<Digest>>,
}

/// What every leaf's chain of hashes begins with: C of (tag, width, number of the oracle).
pub(super) fn leaf_start(width: usize, oracle: usize) -> Digest {
    let mut start = [Fp::ZERO; DIGEST];
    start[0] = tag(b"leaf");
    start[1] = Fp::new(width as u32);
    start[2] = Fp::new(oracle as u32);
    compress(start, [Fp::ZERO; DIGEST])
}

impl Oracle {
    /// Encodes slices on a domain of 2^`rows_log2` points.
    pub(super) fn new(
        exec: Exec<'_>,
        slices: &[&[Fp]],
        rows_log2: usize,
        cap_log2: usize,
        number: usize,
    ) -> Oracle {
        let domain = Domain::new(rows_log2 as u32);
        let columns = exec.map(slices.len(), |i| domain.evaluate(exec, slices[i]));
        let rows = 1 << rows_log2;
        let mut leaves = vec![leaf_start(columns.len(), number); rows];
        for eight in columns.chunks(DIGEST) {
            let block = |x: usize| std::array::from_fn(|i| eight.get(i).map_or(Fp::ZERO, |c| c[x]));
            leaves = compress_all(exec, rows, |x| (leaves[x], block(x)));
        }
        let mut levels = vec![leaves];
        for _ in cap_log2..rows_log2 {
            let below = &levels[levels.len() - 1];
            let above = compress_all(exec, below.len() / 2, |i| (below[2 * i], below[2 * i + 1]));
            levels.push(above);
        }
        Oracle { columns, levels }
    }

    /// The layer of the tree that is the commitment.
    pub(super) fn cap(&self) -> Vec<Fp> {
        self.levels[self.levels.len() - 1].concat()
    }

    /// A row, and the siblings on its path from the leaf to the cap.
    pub(super) fn open(&self, index: usize) -> (Vec<Fp>, Vec<Digest>) {
        let row = self.columns.iter().map(|column| column[index]).collect();
        let levels = self.levels[..self.levels.len() - 1].iter().enumerate();
        let path = levels.map(|(height, level)| level[index >> height ^ 1]);
        (row, path.collect())
    }
}
