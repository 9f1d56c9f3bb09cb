//! An oracle: encoded slices, with a tree over their rows. A layer of the tree is the commitment.
//!
//! Row k holds the values at ω^k. It lies at the bit-reversed index of k, where the transform leaves it. So two
//! rows that differ in the lowest bit of k, whose digests are hashed together, lie half the domain apart, and so
//! do sibling nodes on all levels. Vectors of digests are hashed with vectors.

use alphorn_exec::{Exec, Stopped};

use super::ntt::Domain;
use crate::field::Fp;
use crate::hash::{DIGEST, Digest, compress};
use crate::kernel::{Dispatch, Packed, Pass};
use crate::poseidon::{WIDTH_16, compress_vectors_own};
use crate::transcript::tag;

/// Number of digests that lie together: a vector of the widest kernel.
const BLOCK: usize = 16;

/// Number of blocks of digests that one task computes.
const TASK: usize = 64;

/// Encoded slices and their tree.
pub(crate) struct Oracle {
    rows_log2: usize,
    /// The values of each slice on the domain.
    columns: Vec<Vec<Fp>>,
    /// From the leaves up to the cap.
    levels: Vec<Level>,
}

/// Nodes of one height: `[block][element][node of the block]`.
struct Level {
    nodes: usize,
    elements: Vec<Fp>,
}

impl Level {
    fn zero(nodes: usize) -> Level {
        Level {
            nodes,
            elements: vec![Fp::ZERO; nodes * DIGEST],
        }
    }

    /// Nodes of a block.
    fn block(&self) -> usize {
        BLOCK.min(self.nodes)
    }

    fn get(&self, node: usize) -> Digest {
        let block = self.block();
        let at = node / block * block * DIGEST + node % block;
        std::array::from_fn(|i| self.elements[at + i * block])
    }

    /// The level above: each node is paired with the one half a level after it.
    fn above(&self, exec: Exec<'_>) -> Result<Level, Stopped> {
        let half = self.nodes / 2;
        let mut above = Level::zero(half);
        // The last levels do not fill a block, and are hashed node by node.
        if half < BLOCK {
            let block = above.block();
            for i in 0..half {
                let digest = compress(self.get(i), self.get(half + i));
                for (k, x) in digest.into_iter().enumerate() {
                    above.elements[k * block + i] = x;
                }
            }
            return Ok(above);
        }
        // Siblings lie half a level apart, so two vectors are hashed without moving elements between lanes.
        let (low, high) = self.elements.split_at(half * DIGEST);
        let size = TASK * BLOCK * DIGEST;
        exec.try_fill(&mut above.elements, size, |i, out| {
            let range = i * size..i * size + out.len();
            let (low, high) = (&low[range.clone()], &high[range]);
            exec.backend().run(Pairs { low, high, out });
        })?;
        Ok(above)
    }
}

/// The start of every leaf's chain of hashes: C of (tag, width, number of the oracle).
pub(crate) fn leaf_start(width: usize, oracle: usize) -> Digest {
    let mut start = [Fp::ZERO; DIGEST];
    start[0] = tag(b"leaf");
    // The last block of a row is padded with zeros. With the width in front, a row is not the same as one with more
    // zeros.
    start[1] = Fp::new(width as u32);
    start[2] = Fp::new(oracle as u32);
    compress(start, [Fp::ZERO; DIGEST])
}

/// C of nodes and nodes, block by block.
struct Pairs<'a> {
    low: &'a [Fp],
    high: &'a [Fp],
    out: &'a mut [Fp],
}

impl Pass for Pairs<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        let size = BLOCK * DIGEST;
        let blocks = self
            .low
            .chunks_exact(size)
            .zip(self.high.chunks_exact(size));
        for ((low, high), out) in blocks.zip(self.out.chunks_exact_mut(size)) {
            for x in (0..BLOCK).step_by(V::LANES) {
                let mut states = [[V::splat(Fp::ZERO); WIDTH_16]; 1];
                for k in 0..DIGEST {
                    states[0][k] = V::load(&low[k * BLOCK + x..]);
                    states[0][DIGEST + k] = V::load(&high[k * BLOCK + x..]);
                }
                compress_vectors_own(&mut states);
                for k in 0..DIGEST {
                    states[0][k].store(&mut out[k * BLOCK + x..]);
                }
            }
        }
    }
}

/// The digests of rows from `at` on, as many as fit, in blocks.
struct Leaves<'a> {
    columns: &'a [Vec<Fp>],
    start: Digest,
    at: usize,
    out: &'a mut [Fp],
}

impl Leaves<'_> {
    /// `N` vectors of rows: processing two together takes less time than one after the other.
    #[inline(always)]
    fn hash<V: Packed, const N: usize>(&mut self, row: usize) {
        let mut states = [[V::splat(Fp::ZERO); WIDTH_16]; N];
        for state in &mut states {
            for (x, start) in state.iter_mut().zip(self.start) {
                *x = V::splat(start);
            }
        }
        for eight in self.columns.chunks(DIGEST) {
            for (n, state) in states.iter_mut().enumerate() {
                for k in 0..DIGEST {
                    // The first eight elements are the digest so far. What the last call left in the others is
                    // overwritten.
                    state[DIGEST + k] = match eight.get(k) {
                        Some(column) => V::load(&column[self.at + row + n * V::LANES..]),
                        None => V::splat(Fp::ZERO),
                    };
                }
            }
            compress_vectors_own(&mut states);
        }
        for (n, state) in states.iter().enumerate() {
            let row = row + n * V::LANES;
            let at = row / BLOCK * BLOCK * DIGEST + row % BLOCK;
            for (k, x) in state[..DIGEST].iter().enumerate() {
                x.store(&mut self.out[at + k * BLOCK..]);
            }
        }
    }
}

impl Pass for Leaves<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(mut self) {
        let rows = self.out.len() / DIGEST;
        let pairs = rows / (2 * V::LANES) * (2 * V::LANES);
        for row in (0..pairs).step_by(2 * V::LANES) {
            self.hash::<V, 2>(row);
        }
        for row in (pairs..rows).step_by(V::LANES) {
            self.hash::<V, 1>(row);
        }
    }
}

impl Oracle {
    /// Encodes slices on a domain of 2^`rows_log2` points, at least as many as a block has.
    ///
    /// # Errors
    /// [`Stopped`] if the computation is stopped.
    pub(super) fn new(
        exec: Exec<'_>,
        slices: &[&[Fp]],
        rows_log2: usize,
        cap_log2: usize,
        number: usize,
    ) -> Result<Oracle, Stopped> {
        exec.step(if number == 0 {
            "transforms"
        } else {
            "later transforms"
        })?;
        let domain = Domain::new(rows_log2 as u32);
        debug_assert!(domain.size() >= BLOCK, "rows fill a block");
        let columns = exec.try_map(slices.len(), |i| domain.evaluate(exec, slices[i]))?;
        Oracle::of_columns(exec, columns, cap_log2, number)
    }

    /// The tree over the rows of encoded slices.
    fn of_columns(
        exec: Exec<'_>,
        columns: Vec<Vec<Fp>>,
        cap_log2: usize,
        number: usize,
    ) -> Result<Oracle, Stopped> {
        exec.step(if number == 0 { "rows" } else { "later rows" })?;
        let size = columns.first().map_or(BLOCK, Vec::len);
        let rows_log2 = size.ilog2() as usize;
        let mut leaves = Level::zero(size);
        let start = leaf_start(columns.len(), number);
        let rows = TASK * BLOCK;
        exec.try_fill(&mut leaves.elements, rows * DIGEST, |i, out| {
            exec.backend().run(Leaves {
                columns: &columns,
                start,
                at: i * rows,
                out,
            });
        })?;
        let mut levels = vec![leaves];
        for _ in cap_log2..rows_log2 {
            levels.push(levels[levels.len() - 1].above(exec)?);
        }
        Ok(Oracle {
            rows_log2,
            columns,
            levels,
        })
    }

    /// Rows of this oracle and of another alternating, which no honest encoding produces.
    #[cfg(test)]
    pub(super) fn mixed(&self, other: &Oracle, exec: Exec<'_>, cap_log2: usize) -> Oracle {
        let both = self.columns.iter().zip(&other.columns);
        let mixed = both.map(|(ours, theirs)| {
            let mixed = ours.iter().zip(theirs).enumerate();
            mixed
                .map(|(i, (a, b))| if i % 2 == 0 { *a } else { *b })
                .collect()
        });
        Oracle::of_columns(exec, mixed.collect(), cap_log2, 0).unwrap()
    }

    /// The layer of the tree that is the commitment, node by node.
    pub(super) fn cap(&self) -> Vec<Fp> {
        let cap = &self.levels[self.levels.len() - 1];
        let cap_log2 = cap.nodes.ilog2();
        // The cap is sent by row number, as the verifier follows paths; only memory uses the transform's order.
        let node = |i: usize| cap.get(reversed(i, cap_log2 as usize));
        (0..cap.nodes).flat_map(node).collect()
    }

    /// Row k.
    pub(super) fn row(&self, index: usize) -> Vec<Fp> {
        let place = reversed(index, self.rows_log2);
        self.columns.iter().map(|column| column[place]).collect()
    }

    /// The node at some height over the rows whose number begins with `index`.
    pub(super) fn node(&self, height: usize, index: usize) -> Digest {
        self.levels[height].get(reversed(index, self.rows_log2 - height))
    }

    /// Number of levels below the cap.
    pub(super) fn height(&self) -> usize {
        self.levels.len() - 1
    }
}

/// The lowest `bits` bits in reversed order.
fn reversed(index: usize, bits: usize) -> usize {
    match bits {
        0 => 0,
        _ => index.reverse_bits() >> (usize::BITS as usize - bits),
    }
}
