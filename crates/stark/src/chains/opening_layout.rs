//! Layout of an opening's cells and rows: the same order in every relation of chains.

use crate::relation::UNIT_ROWS;

/// The sizes of the three kinds of rows: chain steps, nodes of the tree, calls of the sponge.
pub(super) struct Sizes {
    /// Number of field elements in a digest, and in a parameter.
    pub(super) digest: usize,
    pub(super) parameter: usize,
    pub(super) chains: usize,
    /// Number of digits that have a cell, including those that belong to no chain, and of the limbs they come
    /// from.
    pub(super) digits: usize,
    pub(super) limbs: usize,
    /// Number of rows of each kind, and of columns of cells that a row has.
    pub(super) rows: [usize; 3],
    pub(super) columns: [usize; 3],
    /// The first row of the tree's permutations.
    pub(super) node_row: usize,
}

/// The cells of an opening: for each kind of rows one column after the other, then the cells that are in no row.
#[derive(Clone, Debug)]
pub(crate) struct OpeningLayout {
    digest: usize,
    parameter: usize,
    chains: usize,
    digits: usize,
    limbs: usize,
    /// First cells of each kind of rows, and the number of rows in a column of it.
    first: [usize; 3],
    column: [usize; 3],
    node_row: usize,
    sponge_row: usize,
    /// Cells that no row needs, in the order tips, digits, limbs, root, parameter, index.
    free: Vec<usize>,
    /// One past the last cell.
    pub(super) end: usize,
}

impl OpeningLayout {
    pub(super) fn new(sizes: &Sizes) -> OpeningLayout {
        let column = sizes.rows.map(usize::next_power_of_two);
        // A column of cells holds the same element of all rows of a kind, so the cell of a row is the column plus
        // the row's number.
        let mut first = [0; 3];
        let mut end = 0;
        for kind in 0..first.len() {
            first[kind] = end;
            end += sizes.columns[kind] * column[kind];
        }
        let free = sizes.digest * sizes.chains
            + (sizes.digits + sizes.limbs)
            + (sizes.digest + sizes.parameter + 1);
        // A column of chain steps is padded to a power of two; the padding is used first.
        let [steps, levels, _] = sizes.rows;
        let unused = (0..sizes.columns[0])
            .flat_map(|c| (steps..column[0]).map(move |row| c * column[0] + row));
        let free: Vec<usize> = unused.chain(end..).take(free).collect();
        let last = free.iter().copied().max().unwrap_or_default().max(end - 1);
        OpeningLayout {
            digest: sizes.digest,
            parameter: sizes.parameter,
            chains: sizes.chains,
            digits: sizes.digits,
            limbs: sizes.limbs,
            first,
            column,
            node_row: sizes.node_row,
            sponge_row: sizes.node_row + levels.div_ceil(UNIT_ROWS) * UNIT_ROWS,
            free,
            end: last + 1,
        }
    }

    /// Number of chains.
    pub(super) fn chains(&self) -> usize {
        self.chains
    }

    /// Number of rows in a column of chain steps, of nodes and of the sponge.
    pub(super) fn column(&self) -> [usize; 3] {
        self.column
    }

    /// Column of chain row t: the digest, the values for its place, then cubes.
    pub(crate) fn step(&self, column: usize, t: usize) -> usize {
        self.first[0] + column * self.column[0] + t
    }

    /// Column of the tree's row at a level: left, right, then cubes.
    pub(crate) fn node(&self, column: usize, level: usize) -> usize {
        self.first[1] + column * self.column[1] + level
    }

    /// Column of row k of the sponge, then of the encoding: inputs, then cubes.
    pub(crate) fn sponge(&self, column: usize, k: usize) -> usize {
        self.first[2] + column * self.column[2] + k
    }

    pub(crate) fn tip(&self, chain: usize, x: usize) -> usize {
        self.free[self.digest * chain + x]
    }

    pub(crate) fn digit(&self, i: usize) -> usize {
        self.free[self.digest * self.chains + i]
    }

    /// The remainder of a limb after its digits: a quotient or a remainder below 127.
    pub(crate) fn limb(&self, limb: usize) -> usize {
        self.digit(self.digits + limb)
    }

    pub(crate) fn root(&self, x: usize) -> usize {
        self.limb(self.limbs + x)
    }

    pub(crate) fn parameter(&self, x: usize) -> usize {
        self.root(self.digest + x)
    }

    /// The index of the registry's row.
    pub(crate) fn index(&self) -> usize {
        self.parameter(self.parameter)
    }

    pub(crate) fn node_row(&self, level: usize) -> usize {
        self.node_row + level
    }

    pub(crate) fn sponge_row(&self, k: usize) -> usize {
        self.sponge_row + k
    }
}
