//! Claims of a merge on committed data, and their weights at a point.

use super::layout::{BLOCK_LOG2, CHILD_LOG2, COLUMNS_LOG2, ROWS_LOG2, SLICE_LOG2, WORD_LOG2};
use crate::arith::{Arith, sum};
use crate::extension::Ext;
use crate::field::Fp;
use crate::multilinear::{Scalar, eq_at, eq_points, eq_table};
use crate::whir::Remaining;

/// A committed column as long as the registry; a slice holds two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// The bits of a child.
    Bits(usize),
    /// Inverses of the sums of bits where the bitfield has a bit.
    Inverses,
}

impl Column {
    /// Its index among the columns.
    pub(super) fn number(self) -> usize {
        match self {
            Column::Bits(child) => child,
            Column::Inverses => super::layout::CHILDREN_MAX,
        }
    }
}

/// A part of a claim's weights. The first four kinds cover all children, each with a weight.
#[derive(Clone, Debug)]
pub(super) enum Part<E> {
    /// Cells: column · row · eq(lanes, lane).
    Block {
        /// Weights of the children.
        groups: Vec<E>,
        /// Weights of columns, by their numbers.
        columns: Vec<(usize, E)>,
        /// The first row that has a weight.
        first_row: usize,
        /// Weights of the rows from there on.
        rows: Vec<E>,
        /// The point of the lanes.
        lanes: Vec<E>,
    },
    /// Inputs of permutations: row · eq(lanes, lane) · element.
    Inputs {
        /// Weights of the children.
        groups: Vec<E>,
        /// Weights of the rows of the places.
        rows: Vec<E>,
        /// The point of the lanes.
        lanes: Vec<E>,
        /// Weights of the elements of a state.
        elements: Vec<E>,
    },
    /// Outputs of permutations: eq of a point of permutation and element.
    Outputs {
        /// Weights of the children.
        groups: Vec<E>,
        /// The point.
        point: Vec<E>,
    },
    /// Rows of a matrix of products: eq of a point.
    Products {
        /// A, B or C.
        matrix: usize,
        /// Weights of the children.
        groups: Vec<E>,
        /// The point.
        point: Vec<E>,
    },
    /// scale · eq(point, ·) on a column.
    Column {
        /// The column.
        column: Column,
        /// The factor.
        scale: E,
        /// The point.
        point: Vec<E>,
    },
    /// scale · eq(point, word) · 2^bit on a column of bits.
    Words {
        /// The column.
        column: Column,
        /// The factor.
        scale: E,
        /// The point of the words.
        point: Vec<E>,
    },
}

/// Σ of the parts' weights times the committed values = value.
#[derive(Debug)]
pub(super) struct Claim<E> {
    /// The value.
    pub(super) value: E,
    /// The weights.
    pub(super) parts: Vec<Part<E>>,
}

/// All claims of a proof, in order.
#[derive(Debug)]
#[must_use = "claims that are not opened prove nothing"]
pub(super) struct Claims<E>(Vec<Claim<E>>);

impl<E: Scalar> Claims<E> {
    /// No claims.
    pub(super) fn new() -> Claims<E> {
        Claims(Vec::new())
    }

    /// Enters a claim.
    pub(super) fn enter(&mut self, claim: Claim<E>) {
        self.0.push(claim);
    }

    /// The values.
    pub(super) fn values(&self) -> Vec<E> {
        self.0.iter().map(|claim| claim.value).collect()
    }

    /// All parts with the factors of their claims.
    pub(super) fn parts<'a>(&'a self, factors: &'a [E]) -> impl Iterator<Item = (&'a Part<E>, E)> {
        let claims = self.0.iter().zip(factors);
        claims.flat_map(|(claim, factor)| claim.parts.iter().map(move |part| (part, *factor)))
    }

    /// The weight at a point, except for the part that depends on the circuits' wiring.
    pub(super) fn at<A: Arith<Ext = E>>(&self, arith: &A, remaining: &Remaining<E>) -> E {
        let (zero, one) = (arith.ext(Ext::ZERO), arith.ext(Ext::ONE));
        let point = &remaining.point;
        let (child, cell) = point.split_at(CHILD_LOG2);
        let children = eq_table(one, child);
        let (column, row) = cell.split_at(COLUMNS_LOG2);
        let (row, lane) = row.split_at(ROWS_LOG2);
        let (columns, rows) = (eq_table(one, column), eq_table(one, row));
        // Columns fill block 0, two in a slice. So a column's number is that of its half slice, and the coordinates
        // up to here select it.
        let half = CHILD_LOG2 + BLOCK_LOG2 + 1;
        debug_assert_eq!(half + SLICE_LOG2 - 1, point.len());
        let of_column = |column: &Column| eq_at(one, &point[..half], column.number());
        let dot = |weights: &[E], table: &[E]| {
            let terms = weights.iter().zip(table);
            sum(arith, terms.map(|(w, e)| *w * *e))
        };
        let mut total = zero;
        for (part, factor) in self.parts(&remaining.factors) {
            let weight = match part {
                Part::Block {
                    groups,
                    columns: of_columns,
                    first_row,
                    rows: of_rows,
                    lanes,
                } => {
                    let terms = of_columns.iter().map(|(k, w)| *w * columns[*k]);
                    // The weights are a tensor, so the sum over all cells is a product of four short ones. Index 0
                    // of the children is the block of columns.
                    dot(groups, &children[1..])
                        * sum(arith, terms)
                        * dot(of_rows, &rows[*first_row..])
                        * eq_points(one, lanes, lane)
                }
                // These depend on the wiring. The prover claims their share in one value, which `read_opened` adds.
                Part::Inputs { .. } | Part::Outputs { .. } | Part::Products { .. } => continue,
                Part::Column {
                    column,
                    scale,
                    point: at,
                } => *scale * of_column(column) * eq_points(one, at, &point[half..]),
                Part::Words {
                    column,
                    scale,
                    point: at,
                } => {
                    let (word, bit) = point[half..].split_at(at.len());
                    // 2^bit is a product over the binary digits of `bit`, and so is its extension: 2^(2^k) where
                    // digit k is one, otherwise 1.
                    let powers = bit.iter().enumerate().fold(one, |product, (t, z)| {
                        let power = Fp::new(1 << (1 << (WORD_LOG2 - 1 - t)));
                        product * (one + *z * arith.ext(Ext::from(power - Fp::ONE)))
                    });
                    *scale * of_column(column) * eq_points(one, at, word) * powers
                }
            };
            total = total + factor * weight;
        }
        total
    }
}
