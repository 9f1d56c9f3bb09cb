//! Where everything of a merge lies: the cells of a child, its inputs and outputs, the slices.
//!
//! A child has 2^20 cells, numbered by column (7 bits), row (7 bits) and lane (6 bits). The first columns
//! are the cubes of its permutations, one cell for each; the next has inputs, outputs and the words of
//! the bitfield; the rest are variables. A child's slices are those of its cells; only as many as its
//! circuit uses are committed to.

use std::ops::Range;

use crate::arith::DIGEST;
use crate::circuit;
use crate::extension::DEGREE;
use crate::poseidon::Kind;
use crate::poseidon_gkr::Units;
use crate::whir::Preset;

/// Children of a merge at most.
pub const CHILDREN_MAX: usize = 7;

/// Coordinates of a lane, of a row and of a column.
pub(super) const LANES_LOG2: usize = 6;
pub(super) const ROWS_LOG2: usize = 7;
pub(super) const COLUMNS_LOG2: usize = 7;
pub(super) const CELLS_LOG2: usize = COLUMNS_LOG2 + ROWS_LOG2 + LANES_LOG2;

/// Coordinates of a permutation: a place, a row of it, and a lane.
pub(super) const PLACES_LOG2: usize = 3;
pub(super) const PERMUTATIONS_LOG2: usize = ROWS_LOG2 + LANES_LOG2;

/// Coordinates of a row of a circuit, and of the kinds of its matrices.
pub(super) const PRODUCTS_LOG2: usize = 17;
pub(super) const PARTS_LOG2: usize = 3;

/// Coordinates of a circuit.
pub(super) const CIRCUITS_LOG2: usize = 2;

/// Coordinates of the number of a matrix: which circuit, which of its matrices.
pub(super) const MATRIX_LOG2: usize = CIRCUITS_LOG2 + PARTS_LOG2;

/// Coordinates of a row of the wiring: which matrix, which row of it.
pub(super) const WIRING_LOG2: usize = MATRIX_LOG2 + PRODUCTS_LOG2;

/// Coordinates of a child, as a group of permutations and as a block of slices: child c is c + 1.
pub(super) const CHILD_LOG2: usize = 3;

/// Coordinates of an element of a slice, of a block of slices.
pub(super) const SLICE_LOG2: usize = 16;
pub(super) const BLOCK_LOG2: usize = CELLS_LOG2 - SLICE_LOG2;

/// Rows of the registry, of a bitfield.
pub(super) const REGISTRY_LOG2: usize = 15;
/// Elements of a registry's row.
pub(super) const KEY_LOG2: usize = 3;

/// The column of inputs, outputs and words.
const FIXED_COLUMN: usize = Kind::Own.cubes();

/// Rows of inputs; input 0 is the constant one.
pub(super) const INPUT_ROWS: usize = 3;
pub(super) const INPUTS: usize = INPUT_ROWS << LANES_LOG2;

/// Elements of the extension that are left of a registry: a point and a value.
pub(super) const REGISTRY_OUTPUTS: usize = REGISTRY_LOG2 + KEY_LOG2 + 1;

/// What is left of the registries of a bundle, elements of the extension.
pub(super) const LEFT: usize = CHILDREN_MAX * REGISTRY_OUTPUTS;

/// Outputs, elements of the extension: registry, bitfield, wiring, each a point and a value.
pub(super) const OUTPUTS: usize =
    REGISTRY_OUTPUTS + (REGISTRY_LOG2 + 1) + (WIRING_LOG2 + CELLS_LOG2 + 1);

/// Rows of inputs and outputs together.
pub(super) const FIXED_ROWS: usize = INPUT_ROWS + OUTPUTS.div_ceil(1 << LANES_LOG2) * DEGREE;

/// Words of a bitfield, sixteen bits each, and the rows where they are.
pub(super) const WORD_LOG2: usize = 4;
pub(super) const WORDS_LOG2: usize = REGISTRY_LOG2 - WORD_LOG2;
pub(super) const WORD_ROWS: Range<usize> = 32..64;

/// The cell at a column, row and lane.
pub(super) fn cell(column: usize, row: usize, lane: usize) -> usize {
    (column << ROWS_LOG2 | row) << LANES_LOG2 | lane
}

/// The cell of an input.
pub(super) fn input(i: usize) -> usize {
    cell(FIXED_COLUMN, i >> LANES_LOG2, i % (1 << LANES_LOG2))
}

/// The cells of an output.
pub(super) fn output(j: usize) -> [usize; DEGREE] {
    let row = INPUT_ROWS + (j >> LANES_LOG2) * DEGREE;
    std::array::from_fn(|t| cell(FIXED_COLUMN, row + t, j % (1 << LANES_LOG2)))
}

/// The cell of a word of the bitfield.
pub(super) fn word(w: usize) -> usize {
    let row = WORD_ROWS.start + (w >> LANES_LOG2);
    cell(FIXED_COLUMN, row, w % (1 << LANES_LOG2))
}

/// The layout of a child's circuit.
pub(super) const LAYOUT: circuit::Layout = circuit::Layout {
    cells: 1 << CELLS_LOG2,
    one: ((FIXED_COLUMN << ROWS_LOG2) << LANES_LOG2),
    free: (((FIXED_COLUMN + 1) << ROWS_LOG2) << LANES_LOG2),
    permutations: 1 << PERMUTATIONS_LOG2,
    rows: 1 << PRODUCTS_LOG2,
    form_max: 48,
};

/// The column of inputs, outputs and words, by its number.
pub(super) const fn fixed_column() -> usize {
    FIXED_COLUMN
}

/// The inputs of a child's circuit after the constant one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inputs {
    /// Public values of the relation.
    pub(super) publics: usize,
}

impl Inputs {
    /// Where the low and the high half of the slot are.
    pub(super) fn slot(self) -> usize {
        1 + self.publics
    }

    /// Where the message is.
    pub(super) fn message(self) -> usize {
        self.slot() + 2
    }

    /// Where the digest of the registry is.
    pub(super) fn registry(self) -> usize {
        self.message() + DIGEST
    }

    /// Where the committee is.
    pub(super) fn committee(self) -> usize {
        self.registry() + DIGEST
    }

    /// Where the level of the merge is.
    pub(super) fn level(self) -> usize {
        self.committee() + 1
    }

    /// Where the digest of the circuits is.
    pub(super) fn key(self) -> usize {
        self.level() + 1
    }

    /// Where it says whether a bundle is proved as a whole: 1 in a bundle of bundles, whose message is the
    /// digest of the bundle's statement; 0 where one entry of it is kept.
    pub(super) fn whole(self) -> usize {
        self.key() + DIGEST
    }

    /// The number after the last input.
    pub(super) fn end(self) -> usize {
        self.whole() + 1
    }
}

/// The units of the permutations of so many children.
pub(super) fn units(children: usize) -> Units {
    Units {
        kind: Kind::Own,
        lanes_log2: LANES_LOG2,
        places_log2: PLACES_LOG2,
        groups_log2: CHILD_LOG2,
        first_group: 1,
        groups: children,
        places: (0..1 << PLACES_LOG2).collect(),
    }
}

/// Slices of a child that are committed to: its circuit uses no more.
pub(super) const SLICES: usize = 9;

/// Slices of columns: two bitfields each, and the inverses.
pub(super) const COLUMN_SLICES: usize = (CHILDREN_MAX + 1).div_ceil(2);
const _: () = assert!(CHILDREN_MAX < 1 << CHILD_LOG2 && COLUMN_SLICES <= 1 << BLOCK_LOG2);

/// The number of the first slice of a child.
pub(super) fn first_slice(child: usize) -> usize {
    (child + 1) << BLOCK_LOG2
}

/// The numbers of the slices of a merge of so many children, whose circuits use `used` slices.
pub(super) fn slice_numbers(children: usize, used: usize) -> Vec<usize> {
    let of_child = |c: usize| first_slice(c)..first_slice(c) + used;
    (0..COLUMN_SLICES)
        .chain((0..children).flat_map(of_child))
        .collect()
}

/// Coordinates of what is committed.
pub(super) fn coordinates(preset: &Preset) -> usize {
    preset.oracles[0].slices_log2 + SLICE_LOG2
}
