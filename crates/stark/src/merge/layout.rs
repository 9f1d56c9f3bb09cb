//! Layout of a merge: the cells of a child, its inputs and outputs, the slices.
//!
//! A child has 2^20 cells, numbered by column (7 bits), row (7 bits) and lane (6 bits). The first columns are the
//! cubes of its permutations, one cell for each; the next has inputs, outputs and the words of the bitfield; the
//! rest are variables. A child's slices are those of its cells; only those its circuit uses are committed.

use std::ops::Range;

use crate::circuit;
use crate::extension::DEGREE;
use crate::hash::DIGEST;
use crate::poseidon::Kind;
use crate::poseidon_gkr::Units;
use crate::relation::Relation;
use crate::whir::Preset;

/// Maximum number of children of a merge.
pub const CHILDREN_MAX: usize = 7;

/// Number of coordinates of a lane, of a row and of a column.
pub(super) const LANES_LOG2: usize = 6;
pub(super) const ROWS_LOG2: usize = 7;
pub(super) const COLUMNS_LOG2: usize = 7;
pub(super) const CELLS_LOG2: usize = COLUMNS_LOG2 + ROWS_LOG2 + LANES_LOG2;

/// Number of coordinates of a permutation: a place, a row of it, and a lane.
pub(super) const PLACES_LOG2: usize = 3;
pub(super) const PERMUTATIONS_LOG2: usize = ROWS_LOG2 + LANES_LOG2;

/// Number of coordinates of a circuit's row, and of the kinds of its matrices.
// The inputs of permutations, sixteen for each of 2^13, fill these rows exactly. Five matrices are rounded up to
// eight.
pub(super) const PRODUCTS_LOG2: usize = 17;
pub(super) const PARTS_LOG2: usize = 3;

/// Number of coordinates of a circuit.
pub(super) const CIRCUITS_LOG2: usize = 2;

/// Number of coordinates of a matrix: which circuit, and which of its matrices.
pub(super) const MATRIX_LOG2: usize = CIRCUITS_LOG2 + PARTS_LOG2;

/// Number of coordinates of a row of the wiring: which matrix, and which row of it.
pub(super) const WIRING_LOG2: usize = MATRIX_LOG2 + PRODUCTS_LOG2;

/// Number of coordinates of a child, as a group of permutations and as a block of slices: child c is c + 1.
// Block 0 of the slices holds the columns, so children begin at 1. Groups of permutations are numbered alike.
pub(super) const CHILD_LOG2: usize = 3;

/// Number of coordinates of an element of a slice, and of a block of slices.
pub(super) const SLICE_LOG2: usize = 16;
pub(super) const BLOCK_LOG2: usize = CELLS_LOG2 - SLICE_LOG2;

/// Log2 of the rows of the registry and of a bitfield.
pub(super) const REGISTRY_LOG2: usize = 15;
/// The column of inputs, outputs and words.
const FIXED_COLUMN: usize = Kind::Own.cubes();

/// Words of a bitfield, sixteen bits each, and the rows that hold them.
pub(super) const WORD_LOG2: usize = 4;
pub(super) const WORDS_LOG2: usize = REGISTRY_LOG2 - WORD_LOG2;
// 2,048 words take 32 rows of 64 lanes. Inputs and outputs fit the 32 rows before, which `Dimensions::of` asserts.
pub(super) const WORD_ROWS: Range<usize> = 32..64;

/// The cell at a column, row and lane.
pub(super) fn cell(column: usize, row: usize, lane: usize) -> usize {
    (column << ROWS_LOG2 | row) << LANES_LOG2 | lane
}

/// The cell of an input; input 0 is the constant one.
pub(super) fn input(i: usize) -> usize {
    cell(FIXED_COLUMN, i >> LANES_LOG2, i % (1 << LANES_LOG2))
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

/// The sizes that follow from the relation of the leaves: the inputs of a child's circuit, which begin with the
/// constant one and the public values, the outputs, and the size of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dimensions {
    /// Number of public values of the relation.
    pub(super) publics: usize,
    /// Number of elements of a message.
    message: usize,
    /// Number of coordinates of an element in a registry row.
    pub(super) key_log2: usize,
    /// Maximum number of groups of instances in a leaf.
    pub(super) leaf_groups: usize,
    /// Number of slices of a child that are committed; its circuit uses no more.
    pub(super) slices: usize,
}

impl Dimensions {
    /// The sizes of a relation. Leaves are as large as fits the circuit that verifies them: rows of 64 elements,
    /// or of 56 where permutations of two widths must be verified.
    pub(super) fn of(relation: &Relation) -> Dimensions {
        let (leaf_groups, slices) = match relation.parts(0).len() {
            // The largest sizes that fit, found by recording the circuits and asserted when the circuits are made.
            // The next larger size of either doubles the work of every merge.
            1 => (12, 9),
            _ => (7, 10),
        };
        let dimensions = Dimensions {
            publics: relation.publics,
            message: relation.message,
            key_log2: relation.registry_width.next_power_of_two().ilog2() as usize,
            leaf_groups,
            slices,
        };
        debug_assert!(dimensions.fixed_rows() <= WORD_ROWS.start);
        debug_assert_eq!(relation.shape.column_log2(), REGISTRY_LOG2);
        dimensions
    }

    /// Number of rows of inputs.
    pub(super) fn input_rows(self) -> usize {
        self.end().div_ceil(1 << LANES_LOG2)
    }

    /// Number of extension elements of a remaining registry claim: a point and a value.
    pub(super) fn registry_outputs(self) -> usize {
        REGISTRY_LOG2 + self.key_log2 + 1
    }

    /// Number of extension elements in the remaining registry claims of a bundle.
    pub(super) fn left(self) -> usize {
        CHILDREN_MAX * self.registry_outputs()
    }

    /// Number of outputs in extension elements: registry, bitfield, wiring, each a point and a value.
    pub(super) fn outputs(self) -> usize {
        self.registry_outputs() + (REGISTRY_LOG2 + 1) + (WIRING_LOG2 + CELLS_LOG2 + 1)
    }

    /// Number of rows of inputs and outputs together.
    pub(super) fn fixed_rows(self) -> usize {
        self.input_rows() + self.outputs().div_ceil(1 << LANES_LOG2) * DEGREE
    }

    /// The cells of an output.
    pub(super) fn output(self, j: usize) -> [usize; DEGREE] {
        let row = self.input_rows() + (j >> LANES_LOG2) * DEGREE;
        std::array::from_fn(|t| cell(FIXED_COLUMN, row + t, j % (1 << LANES_LOG2)))
    }

    /// Maximum number of cells that circuits use: whole slices.
    pub(super) fn cells(self) -> usize {
        self.slices << SLICE_LOG2
    }

    /// The numbers of the slices of a merge of this many children.
    pub(super) fn slice_numbers(self, children: usize) -> Vec<usize> {
        let of_child = |c: usize| first_slice(c)..first_slice(c) + self.slices;
        (0..COLUMN_SLICES)
            .chain((0..children).flat_map(of_child))
            .collect()
    }

    /// Number of elements in a row of the first oracle of a merge of this many children.
    pub(super) fn row_width(self, children: usize) -> usize {
        COLUMN_SLICES + children * self.slices
    }

    /// Index of the low half of the slot; the high half follows.
    pub(super) fn slot(self) -> usize {
        1 + self.publics
    }

    /// Range of the message.
    pub(super) fn message(self) -> Range<usize> {
        let first = self.slot() + 2;
        first..first + self.message
    }

    /// Index of the digest of the registry.
    pub(super) fn registry(self) -> usize {
        self.message().end
    }

    /// Index of the committee.
    pub(super) fn committee(self) -> usize {
        self.registry() + DIGEST
    }

    /// Index of the level of the merge.
    pub(super) fn level(self) -> usize {
        self.committee() + 1
    }

    /// Index of the digest of the circuits.
    pub(super) fn key(self) -> usize {
        self.level() + 1
    }

    /// Index of the flag for a bundle proved as a whole: 1 in a bundle of bundles, whose message is the digest of
    /// the bundle's statement; 0 if one entry of the bundle is kept.
    pub(super) fn whole(self) -> usize {
        self.key() + DIGEST
    }

    /// Index of the flag for the digest of the bitfield as an input: 1 if a bundle lists an entry; 0 if the bits
    /// of the child are bound as those of a column, or if there are none.
    pub(super) fn bound(self) -> usize {
        self.whole() + 1
    }

    /// Index of that digest.
    pub(super) fn bitfield(self) -> usize {
        self.bound() + 1
    }

    /// The number after the last input.
    pub(super) fn end(self) -> usize {
        self.bitfield() + DIGEST
    }
}

/// The units of the permutations of this many children.
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

/// Number of slices of columns: two bitfields each, and the inverses.
pub(super) const COLUMN_SLICES: usize = (CHILDREN_MAX + 1).div_ceil(2);
const _: () = assert!(CHILDREN_MAX < 1 << CHILD_LOG2 && COLUMN_SLICES <= 1 << BLOCK_LOG2);

/// The number of the first slice of a child.
pub(super) fn first_slice(child: usize) -> usize {
    (child + 1) << BLOCK_LOG2
}

/// Number of coordinates of the committed vector.
pub(super) fn coordinates(preset: &Preset) -> usize {
    preset.oracles[0].slices_log2 + SLICE_LOG2
}
