//! The hash tree of a key, in little memory.
//!
//! A key is active in a range of indices. A node with no active leaf below it is not hashed but drawn from the
//! seed: any value verifies, and no one can sign under it. Of the other nodes only those of level 8 and above stay
//! in memory (all of them if the range is short), so 131,072 indices take 32 kB. The 256 leaves under a node of
//! level 8 are recomputed when an index among them signs.

use std::ops::Range;

use alphorn_exec::{Backend, Exec, Stopped};

use crate::hash::{Children, Digest, Parameter, Tips, Walk};
use crate::params::{BASE, Set};
use crate::prf::{Prf, Value};
use crate::wiped::Wiped;

/// Log2 of the number of leaves that are recomputed together.
const BLOCK_LOG2: u8 = 8;

/// Number of active indices up to which every node stays in memory.
const WHOLE_MAX: u64 = 1024;

/// Number of leaves that one thread makes between two checks of the stop flag.
// They fill two of the longest vectors, which are walked together: see `Fresh`.
const LEAVES: u64 = 32;

/// Number of leaves up to which vectors take the chains of one leaf side by side. With more leaves, leaves side by
/// side fill the vectors, and nothing is moved between the steps.
const FEW_LEAVES: u64 = 8;

/// The inputs from which nodes are computed.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) set: Set,
    pub(crate) prf: Prf,
    pub(crate) parameter: Parameter,
    /// Active indices, not empty and below the lifetime.
    pub(crate) active: Range<u64>,
}

/// Nodes of some levels under one node, without padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    /// Level of the first row.
    lowest: u8,
    /// For each level, the index of the first node and the nodes.
    rows: Vec<(u64, Vec<Digest>)>,
}

impl Levels {
    /// The node, if it is one of these.
    fn node(&self, level: u8, index: u64) -> Option<Digest> {
        let (first, row) = self
            .rows
            .get(usize::from(level.checked_sub(self.lowest)?))?;
        row.get(usize::try_from(index.checked_sub(*first)?).ok()?)
            .copied()
    }
}

impl Source {
    /// Indices of the nodes of a level that have active leaves below them.
    fn span(&self, level: u8) -> Range<u64> {
        self.active.start >> level..((self.active.end - 1) >> level) + 1
    }

    /// The lowest level whose nodes stay in memory.
    pub(crate) fn lowest(&self) -> u8 {
        match self.active.end - self.active.start {
            0..=WHOLE_MAX => 0,
            _ => BLOCK_LOG2,
        }
    }

    /// Leaves of active indices.
    pub(crate) fn leaves(&self, backend: Backend, slots: Range<u64>) -> Vec<Digest> {
        let params = self.set.params();
        let chains = 0..params.chains as u8;
        let wanted: Vec<Value<'_>> = slots
            .clone()
            .flat_map(|slot| {
                let slot = slot as u32;
                chains
                    .clone()
                    .map(move |chain| Value::Start { slot, chain })
            })
            .collect();
        let starts = self.prf.values(backend, &wanted);
        let first = slots.start as u32;
        let instance = self.set.instance();
        if slots.end - slots.start > FEW_LEAVES {
            return instance.fresh_leaves(backend, &self.parameter, first, &starts);
        }
        let (parameter, chains) = (self.parameter, self.set.params().chains);
        let walks = starts.iter().enumerate().map(|(i, &digest)| Walk {
            parameter,
            slot: first + (i / chains) as u32,
            chain: (i % chains) as u8,
            from: 0,
            to: BASE - 1,
            digest,
        });
        let mut walks: Wiped<Walk> = Wiped(walks.collect());
        instance.walk(backend, &mut walks);
        let ends: Vec<Digest> = walks.iter().map(|walk| walk.digest).collect();
        let tips: Vec<Tips<'_>> = (ends.chunks_exact(chains).enumerate())
            .map(|(i, digests)| Tips {
                parameter,
                slot: first + i as u32,
                digests,
            })
            .collect();
        instance.leaves(backend, &tips)
    }

    /// The rows above a row, up to and including level `top`.
    fn grow(&self, backend: Backend, lowest: u8, first: u64, row: Vec<Digest>, top: u8) -> Levels {
        let mut levels = Levels {
            lowest,
            rows: vec![(first, row)],
        };
        for level in lowest..top {
            let (first, row) = &levels.rows[usize::from(level - lowest)];
            let end = first + row.len() as u64;
            let child = |index: u64| match levels.node(level, index) {
                Some(node) => node,
                // No active leaf is below: any value verifies, and drawn from the seed it is the same whenever the
                // tree is rebuilt.
                None => self.prf.value(backend, Value::Padding { level, index }),
            };
            let parents = first >> 1..((end - 1) >> 1) + 1;
            let children: Vec<Children> = parents
                .clone()
                .map(|index| Children {
                    parameter: self.parameter,
                    level: level + 1,
                    index: index as u32,
                    left: child(2 * index),
                    right: child(2 * index + 1),
                })
                .collect();
            let row = self.set.instance().nodes(backend, &children);
            levels.rows.push((parents.start, row));
        }
        levels
    }

    /// All nodes under a node of level `top`, including that node.
    pub(crate) fn block(&self, exec: Exec<'_>, top: u8, index: u64) -> Result<Levels, Stopped> {
        let start = (index << top).max(self.active.start);
        let end = ((index + 1) << top).min(self.active.end);
        let parts: Vec<u64> = (start..end).step_by(LEAVES as usize).collect();
        let leaves = exec.try_map(parts.len(), |i| {
            self.leaves(exec.backend(), parts[i]..end.min(parts[i] + LEAVES))
        });
        Ok(self.grow(exec.backend(), 0, start, leaves?.concat(), top))
    }

    /// The resident levels of the whole tree, from its leaves. `progress` receives the number of indices done.
    pub(crate) fn build(
        &self,
        exec: Exec<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Levels, Stopped> {
        let lowest = self.lowest();
        let span = self.span(lowest);
        if lowest == 0 {
            return self.block(exec, self.set.params().log2_lifetime, 0);
        }
        let done = std::sync::atomic::AtomicU64::new(0);
        // Each block is a task, so within it nothing is divided further.
        let one_thread = Exec::new(exec.backend(), None);
        let nodes = exec.try_map((span.end - span.start) as usize, |i| {
            let levels = self.block(one_thread, lowest, span.start + i as u64)?;
            let before = done.fetch_add(1 << lowest, std::sync::atomic::Ordering::Relaxed);
            // Blocks at the ends of the range may be active in part only, so the sum can exceed it.
            progress((before + (1 << lowest)).min(self.active.end - self.active.start));
            let node = levels.node(lowest, span.start + i as u64);
            Ok(node.expect("a block ends in its node"))
        });
        let nodes = nodes?.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(self.restore(exec.backend(), nodes))
    }

    /// Number of nodes in the lowest resident level.
    pub(crate) fn resident(&self) -> u64 {
        let span = self.span(self.lowest());
        span.end - span.start
    }

    /// Rebuilds the resident levels from the nodes of the lowest.
    pub(crate) fn restore(&self, backend: Backend, nodes: Vec<Digest>) -> Levels {
        let (lowest, top) = (self.lowest(), self.set.params().log2_lifetime);
        self.grow(backend, lowest, self.span(lowest).start, nodes, top)
    }

    /// The siblings along the path from a leaf to the root.
    pub(crate) fn path(
        &self,
        backend: Backend,
        resident: &Levels,
        block: Option<&Levels>,
        index: u64,
    ) -> Vec<Digest> {
        let sibling = |level: u8| {
            let index = (index >> level) ^ 1;
            let known = block.and_then(|block| block.node(level, index));
            known
                // Block and resident levels hold every sibling with an active leaf below. What neither has was
                // drawn when the tree was built.
                .or_else(|| resident.node(level, index))
                .unwrap_or_else(|| self.prf.value(backend, Value::Padding { level, index }))
        };
        (0..self.set.params().log2_lifetime).map(sibling).collect()
    }
}

impl Levels {
    /// The top node.
    pub(crate) fn root(&self) -> Digest {
        let (_, row) = self.rows.last().expect("a tree has levels");
        row[0]
    }

    /// The nodes of the lowest level.
    pub(crate) fn lowest_row(&self) -> &[Digest] {
        &self.rows[0].1
    }
}
