//! The layout of the first witness, and the bounds that follow from it.

use crate::error::StatementError;
use crate::images::Images;
use crate::ring::{DEGREE, Q};
use crate::schedule::{Projections, PublicBounds};
use crate::sis::Profile;

/// Maximum number of columns of a statement.
pub const COLUMNS_MAX: usize = 20_480;

/// Maximum degree of the polynomials of a relation.
pub(crate) const POLYNOMIAL_MAX: usize = 1024;

/// Maximum bound on a column's squared norm: the roots of its slack fit 16 bits.
pub(crate) const COLUMN_NORM_SQ_MAX: u64 = 1 << 28;

/// Degree up to which the bound on the quotients is constant.
const QUOTIENT_DEGREE: usize = 512;

/// The squared norm of the quotients `(s1 + h s2 - c) / q` of a column of polynomials of this degree must be
/// below this. It is `2^30` up to degree 512, and from there grows with the square of the degree, as does the norm of
/// honest quotients, since there are more of them and each is a sum of more products. A Falcon
/// signature under an honest key has `2^29.2` in degree 512 and `2^31.2` in degree 1024.
#[must_use]
pub const fn quotient_norm_sq(degree: usize) -> u64 {
    let times = if degree > QUOTIENT_DEGREE {
        degree.div_ceil(QUOTIENT_DEGREE) as u64
    } else {
        1
    };
    (times * times) << 30
}

/// Maximum absolute value of a quotient, which is encoded in 16 bits. Up to degree 512 the norm bound
/// implies it; beyond that, an honest prover checks each quotient.
pub(crate) const QUOTIENT_MAX: u64 = i16::MAX as u64;

/// Bits of a coefficient index.
pub(crate) const COEFFICIENT_BITS: usize = DEGREE.ilog2() as usize;

/// The rows of a column: `s1`, `s2`, the quotients `v`, and slack, each except the last of `extension`
/// ring elements. In the witness they are stacked in pieces of `stack` rows, first `s1`, `s2` and the
/// slack, then `v`, which starts a piece of its own. Alternatively each row is divided into `divisions` pieces, where
/// number `k` has the columns that are `k` modulo `divisions`. The images of all blocks follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) columns: usize,
    /// Ring elements per polynomial.
    pub(crate) extension: usize,
    /// Bound on the squared norm of `s1` and `s2` together.
    pub(crate) norm_sq: u64,
    pub(crate) stack: usize,
    pub(crate) divisions: usize,
}

impl Layout {
    pub(crate) fn new(columns: usize, degree: usize, norm_sq: u64) -> Result<Self, StatementError> {
        if !(1..=COLUMNS_MAX).contains(&columns) {
            let max = COLUMNS_MAX;
            return Err(StatementError::Columns { columns, max });
        }
        if !degree.is_power_of_two() || !(DEGREE..=POLYNOMIAL_MAX).contains(&degree) {
            return Err(StatementError::Degree { degree });
        }
        if norm_sq > COLUMN_NORM_SQ_MAX {
            return Err(StatementError::ColumnNorm { norm_sq });
        }
        let extension = degree / DEGREE;
        // Few pieces where commitments and garbage outweigh the witness, short ones where the next level
        // would be long. The thresholds come from the predicted sizes for 25 rows. None of the 49 rows of degree 1024
        // is divided: it would save no bytes, and each piece adds to the error of the extraction.
        let (stack, divisions) = match columns {
            0..8 => (2 * extension + 1, 1),
            8..32 => (extension + 1, 1),
            32..150 | 300..512 => (4, 1),
            150..300 => (3, 1),
            512..850 => (2, 1),
            850..6144 => (1, 1),
            _ if degree > QUOTIENT_DEGREE => (1, 1),
            _ => (1, 2),
        };
        Ok(Self {
            columns,
            extension,
            norm_sq,
            stack: stack.min(2 * extension + 1),
            divisions,
        })
    }

    /// Returns the bound on the squared norm of the quotients of a column.
    pub(crate) fn quotient_norm_sq(&self) -> u64 {
        quotient_norm_sq(DEGREE * self.extension)
    }

    /// Returns the number of rows per column.
    pub(crate) fn rows(&self) -> usize {
        3 * self.extension + 1
    }

    /// Returns the bits of a row index.
    pub(crate) fn row_bits(&self) -> usize {
        self.rows().next_power_of_two().ilog2() as usize
    }

    /// Returns the bits of a column index.
    pub(crate) fn column_bits(&self) -> usize {
        self.columns.next_power_of_two().ilog2() as usize
    }

    /// Whether a row counts towards the norm.
    pub(crate) fn is_normed(&self, row: usize) -> bool {
        row < 2 * self.extension || row == 3 * self.extension
    }

    /// Returns the first row of `v`.
    pub(crate) fn quotient_row(&self) -> usize {
        2 * self.extension
    }

    /// Returns the row of the slack.
    pub(crate) fn slack_row(&self) -> usize {
        3 * self.extension
    }

    /// Returns the ring elements per piece.
    pub(crate) fn rank(&self) -> usize {
        self.stack * self.columns.div_ceil(self.divisions)
    }

    /// Returns the number of pieces of `s1`, `s2` and the slack, and of `v`.
    fn group_pieces(&self) -> [usize; 2] {
        let pieces = |rows: usize| rows.div_ceil(self.stack) * self.divisions;
        [pieces(2 * self.extension + 1), pieces(self.extension)]
    }

    /// Returns the number of rows of the witness before `v`.
    fn first_rows(&self) -> usize {
        (2 * self.extension + 1).next_multiple_of(self.stack)
    }

    /// Returns the position of a row in the witness.
    fn position(&self, row: usize) -> usize {
        if row == self.slack_row() {
            2 * self.extension
        } else if row >= self.quotient_row() {
            self.first_rows() + row - self.quotient_row()
        } else {
            row
        }
    }

    /// Returns the row at a position, if there is one.
    fn row_at(&self, position: usize) -> Option<usize> {
        (0..self.rows()).find(|&row| self.position(row) == position)
    }

    /// Returns the index in the witness of a row of a column.
    pub(crate) fn place(&self, row: usize, column: usize) -> usize {
        let position = self.position(row);
        if self.divisions == 1 {
            return position * self.columns + column;
        }
        let piece = position * self.divisions + column % self.divisions;
        piece * self.rank() + column / self.divisions
    }

    /// Returns the row and the part in row `layer` of a piece.
    pub(crate) fn row_of(&self, piece: usize, layer: usize) -> Option<(usize, usize)> {
        let position = piece / self.divisions * self.stack + layer;
        let row = self.row_at(position)?;
        Some((row, piece % self.divisions))
    }

    /// Returns the pieces under the block projection, and where their images are stored.
    pub(crate) fn images(&self) -> Images {
        let columns = self.columns as u128;
        let norms = [
            u128::from(self.norm_sq),
            u128::from(self.quotient_norm_sq()),
        ];
        let groups = std::array::from_fn::<_, 2, _>(|group| {
            let norm_sq = columns * norms[group];
            (self.group_pieces()[group], norm_sq.max(1))
        });
        Images::new(self.rank(), &groups)
    }

    /// Returns the number of families of linear forms: three of scalars for each row of a piece, three of blocks, and
    /// one for each piece of images.
    pub(crate) fn families(&self) -> usize {
        3 * self.stack + 3 + self.images().image_pieces()
    }

    /// Whether the garbage is that of families. Where rows are stacked there are few pieces, so there are fewer
    /// pairs of pieces than products with families.
    pub(crate) fn has_families(&self) -> bool {
        self.stack == 1
    }

    /// Whether norms that are equal modulo `Q` must be equal.
    pub(super) fn norms_fit(&self) -> bool {
        self.images().extracted_norm_sq(0) + u128::from(self.norm_sq) < u128::from(Q)
    }

    /// Whether the relation `s1 + h s2 - q v = c` follows from its validity modulo `Q`, given exact norms and
    /// quotients as short as the projection guarantees.
    pub(super) fn relation_fits(&self, modulus: u64) -> bool {
        let half = u128::from(modulus / 2);
        let degree = (DEGREE * self.extension) as u128;
        let beta = u128::from(self.norm_sq.isqrt()) + 1;
        // A coefficient of h s2 by Cauchy-Schwarz, and one each of s1, c and q v.
        let product = half * (degree.isqrt() + 1) * beta;
        let quotient = u128::from(modulus) * (self.images().extracted_norm_sq(1).isqrt() + 1);
        2 * (product + beta + half + quotient) < u128::from(Q)
    }

    /// Checks that neither norms, nor the relation, nor images wrap around `Q`.
    pub(crate) fn check_modulus(&self, modulus: u64) -> Result<(), StatementError> {
        if self.norms_fit() && self.relation_fits(modulus) && self.images().are_legal() {
            Ok(())
        } else {
            Err(StatementError::Wraps {
                columns: self.columns,
            })
        }
    }

    /// Returns the bytes of the sumcheck messages.
    fn sumcheck_bytes(&self) -> u64 {
        // Elements that `sumcheck::sent` counts, of 18 bytes each, and the value at the end.
        let rounds = 2 * COEFFICIENT_BITS + 3 * (self.row_bits() + self.column_bits());
        18 * (rounds as u64 + 1)
    }

    pub(crate) fn bounds(&self, profile: Profile, projections: Projections) -> PublicBounds {
        let images = self.images();
        let norms: u128 = images.groups.iter().map(|group| group.norm_sq).sum();
        PublicBounds {
            pieces: images.pieces() + images.image_pieces(),
            rank: self.rank(),
            norm_sq: norms + images.added_norm_sq(),
            families: if self.has_families() {
                self.families()
            } else {
                0
            },
            images,
            front_bytes: self.sumcheck_bytes(),
            projections,
            profile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_pieces_do_not_overlap() {
        let numbers = [1, 17, 95, 96, 383, 1000, 4096, 10_001, COLUMNS_MAX];
        let of_degree = |degree, norm_sq| numbers.map(|columns| (columns, degree, norm_sq));
        let falcon = [of_degree(512, 34_034_726), of_degree(1024, 70_265_242)];
        for (columns, degree, norm_sq) in falcon.concat() {
            let layout = Layout::new(columns, degree, norm_sq).expect("within limits");
            assert!(layout.check_modulus(12_289).is_ok(), "{columns}");
            let images = layout.images();
            // What the lecture states about the extracted witness.
            for (group, bound) in [norm_sq, quotient_norm_sq(degree)].into_iter().enumerate() {
                let factor = if columns == 1 { 36 } else { 34 };
                let most = factor * columns as u128 * u128::from(bound);
                assert!(
                    images.extracted_norm_sq(group) <= most,
                    "{columns}, {degree}"
                );
            }
            let mut used = std::collections::BTreeSet::new();
            for row in 0..layout.rows() {
                for column in [0, columns / 2, columns - 1] {
                    let place = layout.place(row, column);
                    used.insert((place, row, column));
                    let (piece, within) = (place / layout.rank(), place % layout.rank());
                    let each = layout.columns.div_ceil(layout.divisions);
                    let found = layout.row_of(piece, within / each);
                    assert_eq!(
                        found,
                        Some((row, column % layout.divisions)),
                        "{columns} {row}"
                    );
                    let (first, _) = (images.groups[0].pieces, images.groups[1].pieces);
                    let normed = layout.is_normed(row);
                    assert_eq!(piece < first, normed, "{columns} {row}");
                    assert!(place < images.start());
                }
            }
            let places: std::collections::BTreeSet<usize> =
                used.iter().map(|(place, ..)| *place).collect();
            assert_eq!(places.len(), used.len(), "{columns}");
            let pieces = images.pieces() + images.image_pieces();
            assert!(pieces <= crate::schedule::PIECES_MAX);
        }
    }

    #[test]
    fn quotients_have_the_bound_of_their_degree() {
        for degree in [64, 128, 512] {
            assert_eq!(quotient_norm_sq(degree), 1 << 30, "{degree}");
        }
        assert_eq!(quotient_norm_sq(1024), 1 << 32);
        // Up to 512 the norm bounds each quotient.
        assert!((QUOTIENT_MAX + 1).pow(2) >= quotient_norm_sq(512));
    }

    #[test]
    fn what_is_beyond_the_limits_has_no_layout() {
        let refuse = |columns, degree, norm_sq| Layout::new(columns, degree, norm_sq).err();
        let (columns, max) = (COLUMNS_MAX + 1, COLUMNS_MAX);
        assert_eq!(
            refuse(0, 64, 1),
            Some(StatementError::Columns { columns: 0, max })
        );
        assert_eq!(
            refuse(columns, 64, 1),
            Some(StatementError::Columns { columns, max })
        );
        for degree in [0, 32, 96, 2048] {
            assert_eq!(
                refuse(1, degree, 1),
                Some(StatementError::Degree { degree })
            );
        }
        let norm_sq = COLUMN_NORM_SQ_MAX + 1;
        assert_eq!(
            refuse(1, 64, norm_sq),
            Some(StatementError::ColumnNorm { norm_sq })
        );
    }
}
