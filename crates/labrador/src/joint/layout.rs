//! Where everything lies in the first witness, and the bounds that follow.

use crate::challenge::CHALLENGE_NORM_SQ;
use crate::error::StatementError;
use crate::projection::ROWS;
use crate::ring::{DEGREE, Q};
use crate::schedule::PublicBounds;
use crate::sis::Profile;

/// Columns of a statement are at most this many: the upper digits of images fit 16 bits.
pub const COLUMNS_MAX: usize = 20_480;

/// Elements of a column, slack included, are at most this many.
pub(crate) const ROWS_MAX: usize = 64;

/// Linear forms of a statement are at most this many.
pub(crate) const FORMS_MAX: usize = 16;

/// The bound of a column's squared norm is at most this: its root and its digits fit 16 bits.
pub(crate) const COLUMN_NORM_SQ_MAX: u64 = 1 << 28;

/// Columns under one copy of the block projection.
pub(crate) const BLOCK: usize = 1024;

/// Bits of the lower digits of products and of images.
pub(crate) const BASE: u32 = 9;

/// Digits of the products `<s, sigma s>`.
pub(crate) const PRODUCT_DIGITS: usize = 3;

/// `||alpha||_1` of every column's challenge: 32 of one and 12 of two.
const ALPHA_NORM_1: u128 = 56;

/// An image is accepted up to this multiple of the squared norm of what it is an image of, which
/// one image in 256 exceeds.
pub(crate) const IMAGE_FACTOR: u128 = 160;

/// What the projection lemma guarantees of an image over that norm, for an error of `2^-132.9`.
const LEMMA_FACTOR: u128 = 28;

/// Elements of all ring vectors of the first witness, piece after piece:
///
/// - `S0`: the columns, one row after another, with the slack as last row and further rows of
///   slack where the pieces are longer;
/// - `S1`: three digits of each column's product `<s, sigma s>`, row by row;
/// - `S2`: `alpha_i sigma(S0)`;
/// - `Y`: two digits of the images of all blocks of `S0` and `S1`, then zeros.
///
/// A row has one element for each column, and `stack` rows are one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) columns: usize,
    /// Rows of a column without slack.
    pub(crate) rows: usize,
    pub(crate) stack: usize,
    /// The bound of the squared norm of a column.
    pub(crate) norm_sq: u64,
}

impl Layout {
    pub(crate) fn new(columns: usize, rows: usize, norm_sq: u64) -> Result<Self, StatementError> {
        if !(1..=COLUMNS_MAX).contains(&columns) {
            let max = COLUMNS_MAX;
            return Err(StatementError::Columns { columns, max });
        }
        if !(1..ROWS_MAX).contains(&rows) {
            return Err(StatementError::Rows { rows });
        }
        if norm_sq > COLUMN_NORM_SQ_MAX {
            return Err(StatementError::ColumnNorm { norm_sq });
        }
        // Few pieces where garbage outweighs the witness, short ones where the next level would
        // be long: thresholds from the predicted sizes for 17 rows.
        let stack = match columns {
            0..48 => rows + 1,
            48..512 => 6,
            512..4096 => 3,
            _ => 1,
        };
        Ok(Self {
            columns,
            rows,
            stack: stack.min(rows + 1),
            norm_sq,
        })
    }

    /// Ring elements of a piece.
    pub(crate) fn rank(&self) -> usize {
        self.stack * self.columns
    }

    /// Pieces of `S0`, and of `S2`.
    pub(crate) fn long_pieces(&self) -> usize {
        (self.rows + 1).div_ceil(self.stack)
    }

    /// Rows of `S0`, all slack included.
    pub(crate) fn long_rows(&self) -> usize {
        self.long_pieces() * self.stack
    }

    /// Pieces of `S0` and `S1`, which the first commitment holds.
    pub(crate) fn first_pieces(&self) -> usize {
        self.long_pieces() + PRODUCT_DIGITS.div_ceil(self.stack)
    }

    /// Blocks of a piece.
    pub(crate) fn piece_blocks(&self) -> usize {
        self.rank().div_ceil(BLOCK)
    }

    /// Blocks of `S0` and `S1`, numbered piece by piece.
    pub(crate) fn blocks(&self) -> usize {
        self.first_pieces() * self.piece_blocks()
    }

    /// Ring elements of one digit of all images.
    pub(crate) fn image_elements(&self) -> usize {
        self.blocks() * ROWS / DEGREE
    }

    /// The first piece of `Y`.
    pub(crate) fn image_piece(&self) -> usize {
        self.first_pieces() + self.long_pieces()
    }

    /// Pieces of the whole witness.
    pub(crate) fn pieces(&self) -> usize {
        self.image_piece() + (2 * self.image_elements()).div_ceil(self.rank())
    }

    /// The place of a row of `S0`, at its first column.
    pub(crate) fn long_row(&self, row: usize) -> usize {
        row * self.columns
    }

    /// The place of a digit of the products, at the first column.
    pub(crate) fn digit_row(&self, digit: usize) -> usize {
        self.long_pieces() * self.rank() + digit * self.columns
    }

    /// The place of a row of `S2`, at its first column.
    pub(crate) fn conjugate_row(&self, row: usize) -> usize {
        self.first_pieces() * self.rank() + row * self.columns
    }

    /// The place of the first element of `Y`.
    pub(crate) fn image_start(&self) -> usize {
        self.image_piece() * self.rank()
    }

    /// Elements of the witness.
    pub(crate) fn elements(&self) -> usize {
        self.pieces() * self.rank()
    }

    /// `N beta^2 + E1`: what `S0`, which has exactly the first term, and `S1` have together at
    /// most, whatever the columns. No coefficient of a product exceeds `beta^2`.
    pub(crate) fn first_norm_sq(&self) -> u128 {
        let (columns, norm_sq) = (self.columns as u128, u128::from(self.norm_sq));
        let top = (norm_sq >> (2 * BASE)) + 1;
        let lower = 1 << (2 * (BASE - 1));
        columns * (norm_sq + DEGREE as u128 * (2 * lower + top * top))
    }

    /// The bound of the squared norm of all images, which an honest prover meets by trying.
    pub(crate) fn images_norm_sq(&self) -> u128 {
        IMAGE_FACTOR * self.first_norm_sq()
    }

    /// The bound of the squared norm of images and their digits: `y`, `y_0` and `y_1` with
    /// `|y_0| <= 2^8` and `|y_1| <= |y| / 2^9 + 1/2`.
    pub(crate) fn digits_norm_sq(&self) -> u128 {
        let images = self.images_norm_sq();
        let count = (self.blocks() * ROWS) as u128;
        images + (images >> 17) + count * ((1 << (2 * (BASE - 1))) + 1)
    }

    /// The squared norm of `S2` up to which a prover accepts its challenges: the mean is
    /// `tau = 80` times that of `S0`, and one column may well have twice as much.
    pub(crate) fn conjugates_norm_sq(&self) -> u128 {
        let mean = CHALLENGE_NORM_SQ * self.columns as u128 * u128::from(self.norm_sq);
        if self.columns >= 128 {
            mean / 8 * 9
        } else {
            mean / 4 * 5
        }
    }

    /// The squared norm of `S0` and `S1` that the verifier may rely on: `||y||^2 / 28` of each
    /// block, and of `y` what the second projection guarantees.
    pub(crate) fn extracted_norm_sq(&self) -> u128 {
        (self.extracted_digits_norm_sq() / LEMMA_FACTOR) + 1
    }

    fn extracted_digits_norm_sq(&self) -> u128 {
        IMAGE_FACTOR * self.digits_norm_sq() / LEMMA_FACTOR + 1
    }

    /// The bound of `|L_k(s)|` for forms with coefficients of at most half of `modulus`.
    pub(crate) fn form_max(&self, modulus: u64) -> u128 {
        let column = ((DEGREE * self.rows) as u128 * u128::from(self.norm_sq)).isqrt() + 1;
        self.columns as u128 * u128::from(modulus / 2) * column
    }

    /// Nothing wraps around `Q`: exact norms, forms, and the lemma for both projections.
    pub(crate) fn check_modulus(&self, modulus: u64) -> Result<(), StatementError> {
        let q = u128::from(Q);
        let norms = self.extracted_norm_sq() + u128::from(self.norm_sq) < q;
        let lemma = self.extracted_digits_norm_sq() <= (q / 125).pow(2);
        let forms = 2 * self.form_max(modulus) + 2 * u128::from(modulus) < q;
        // The upper digit of an image, which no bound of a single number but the norm limits.
        let digits = (self.images_norm_sq().isqrt() >> BASE) + 1 < 1 << 15;
        if norms && lemma && forms && digits {
            Ok(())
        } else {
            Err(StatementError::Wraps {
                columns: self.columns,
            })
        }
    }

    pub(crate) fn bounds(&self, profile: Profile) -> PublicBounds {
        let digits = self.digits_norm_sq() - self.images_norm_sq();
        let first = self.extracted_norm_sq();
        PublicBounds {
            pieces: self.pieces(),
            rank: self.rank(),
            norm_sq: self.first_norm_sq() + self.conjugates_norm_sq() + digits,
            extracted_norm_sq: Some(
                first * (1 + ALPHA_NORM_1 * ALPHA_NORM_1) + self.extracted_digits_norm_sq(),
            ),
            openings: 2,
            quadratic: true,
            profile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_pieces_do_not_overlap() {
        for columns in [1, 17, 47, 48, 511, 512, 1000, 4096, 10_000, COLUMNS_MAX] {
            let layout = Layout::new(columns, 16, 34_034_726).expect("within limits");
            assert!(layout.check_modulus(12_289).is_ok(), "{columns}");
            assert!(layout.long_rows() > 16);
            let digits = layout.digit_row(PRODUCT_DIGITS - 1) + columns;
            assert!(layout.long_row(layout.long_rows()) == layout.digit_row(0));
            assert!(digits <= layout.conjugate_row(0));
            assert_eq!(
                layout.conjugate_row(layout.long_rows()),
                layout.image_start()
            );
            let end = layout.image_start() + 2 * layout.image_elements();
            assert!(end <= layout.elements());
            assert!(layout.pieces() <= crate::schedule::PIECES_MAX);
        }
    }

    /// The numbers of the argument for 10,000 signatures.
    #[test]
    fn bounds_are_those_of_the_lecture() {
        let layout = Layout::new(10_000, 16, 34_034_726).expect("within limits");
        let log = |x: u128| (x as f64).log2();
        assert!((log(layout.extracted_norm_sq()) - 43.7).abs() < 0.1);
        let bounds = layout.bounds(Profile::Core128);
        let extracted = bounds.extracted_norm_sq.expect("a front end");
        assert!((log(extracted) / 2.0 - 27.7).abs() < 0.1);
    }

    #[test]
    fn what_is_beyond_the_limits_has_no_layout() {
        let refuse = |columns, rows, norm_sq| Layout::new(columns, rows, norm_sq).err();
        let (columns, max) = (COLUMNS_MAX + 1, COLUMNS_MAX);
        assert_eq!(
            refuse(0, 1, 1),
            Some(StatementError::Columns { columns: 0, max })
        );
        assert_eq!(
            refuse(columns, 1, 1),
            Some(StatementError::Columns { columns, max })
        );
        assert_eq!(refuse(1, 0, 1), Some(StatementError::Rows { rows: 0 }));
        let rows = ROWS_MAX;
        assert_eq!(refuse(1, rows, 1), Some(StatementError::Rows { rows }));
        let norm_sq = COLUMN_NORM_SQ_MAX + 1;
        assert_eq!(
            refuse(1, 1, norm_sq),
            Some(StatementError::ColumnNorm { norm_sq })
        );
        let wide = Layout::new(COLUMNS_MAX, 63, COLUMN_NORM_SQ_MAX).expect("within limits");
        let columns = COLUMNS_MAX;
        assert_eq!(
            wide.check_modulus(12_289),
            Err(StatementError::Wraps { columns })
        );
    }
}
