//! Where the vectors of [`super::Dachshund`] lie, and the bounds that follow.

use super::product::Products;
use crate::challenge::CHALLENGE_NORM_SQ;
use crate::digits::decompose;
use crate::error::StatementError;
use crate::joint::{COLUMN_NORM_SQ_MAX, COLUMNS_MAX, ROWS_MAX};
use crate::ring::{DEGREE, Ntt, Q, Rq, Small};
use crate::schedule::{PublicBounds, with_slack};
use crate::sis::Profile;

/// Bits of a lower digit of the products.
pub(super) const BASE: u32 = 9;

/// Digits of the products `<s, sigma s>`; the products of the bits have one.
pub(super) const PRODUCT_DIGITS: usize = 3;

/// Where everything lies: a piece is `stack` rows of one element for each column.
///
/// - the columns, and squares where their last piece is longer;
/// - one piece of bits, of which the first row is slack;
/// - the quotients;
/// - three digits of each column's product, one of its bits' product;
/// - the conjugates of the columns and of the bits, each times its column's challenge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) norm_sq: u64,
    pub(super) stack: usize,
    pub(super) quotient_rows: usize,
}

impl Layout {
    pub(super) fn new(
        columns: usize,
        rows: usize,
        norm_sq: u64,
        quotient_rows: usize,
    ) -> Result<Self, StatementError> {
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
        // From predicted sizes for 16 rows.
        let stack = match columns {
            0..48 => rows,
            48..512 => 8,
            512..4096 => 4,
            _ => 1,
        };
        let layout = Self {
            columns,
            rows,
            norm_sq,
            stack: stack.min(rows),
            quotient_rows,
        };
        if layout.wraps() {
            return Err(StatementError::Wraps { columns });
        }
        Ok(layout)
    }

    pub(super) fn rank(&self) -> usize {
        self.stack * self.columns
    }

    pub(super) fn long_pieces(&self) -> usize {
        self.rows.div_ceil(self.stack)
    }

    /// Pieces that have conjugates: the columns and the bits.
    pub(super) fn twin_pieces(&self) -> usize {
        self.long_pieces() + 1
    }

    pub(super) fn digit_piece(&self) -> usize {
        self.twin_pieces() + self.quotient_rows.div_ceil(self.stack)
    }

    /// Pieces that are committed to before the challenges of columns.
    pub(super) fn first_pieces(&self) -> usize {
        self.digit_piece() + (PRODUCT_DIGITS + 1).div_ceil(self.stack)
    }

    pub(super) fn pieces(&self) -> usize {
        self.first_pieces() + self.twin_pieces()
    }

    pub(super) fn elements(&self) -> usize {
        self.pieces() * self.rank()
    }

    /// The place of a row of the columns, at the first column.
    pub(super) fn long_row(&self, row: usize) -> usize {
        row * self.columns
    }

    /// The place of a row of the bits.
    pub(super) fn bit_row(&self, row: usize) -> usize {
        self.long_pieces() * self.rank() + row * self.columns
    }

    pub(super) fn quotient_row(&self, row: usize) -> usize {
        self.twin_pieces() * self.rank() + row * self.columns
    }

    /// The place of a digit of the products; the digit of the bits' product is the last.
    pub(super) fn digit_row(&self, digit: usize) -> usize {
        self.digit_piece() * self.rank() + digit * self.columns
    }

    /// The place of the conjugate of a row of the columns or of the bits.
    pub(super) fn twin_row(&self, row: usize) -> usize {
        self.first_pieces() * self.rank() + row * self.columns
    }

    /// Rows that have conjugates.
    pub(super) fn twin_rows(&self) -> usize {
        self.twin_pieces() * self.stack
    }

    /// Bits of slack.
    pub(super) fn bits(&self) -> u32 {
        u64::BITS - self.norm_sq.leading_zeros()
    }

    /// The squared norm of the conjugates up to which a prover accepts its challenges: a little
    /// over the mean, which is 80 times that of columns and bits.
    pub(super) fn twins_norm_sq(&self) -> u128 {
        let column = u128::from(self.norm_sq) + u128::from(self.bits());
        let mean = CHALLENGE_NORM_SQ * self.columns as u128 * column;
        if self.columns >= 128 {
            mean / 8 * 9
        } else {
            mean / 4 * 5
        }
    }

    /// The bound of the squared norm of the whole witness.
    pub(super) fn norm_sq(&self) -> u128 {
        let (columns, bits) = (self.columns as u128, u128::from(self.bits()));
        let norm_sq = u128::from(self.norm_sq);
        let lower = 1u128 << (2 * (BASE - 1));
        // No coefficient of a product exceeds the norm, none of the slack 2^bits.
        let top = ((norm_sq + (1 << bits)) >> (2 * BASE)) + 1;
        let digits = 2 * lower + top * top + bits * bits;
        let quotients = Products::quotients_norm_sq(self.columns, self.quotient_rows, self.norm_sq);
        columns * (norm_sq + bits + DEGREE as u128 * digits) + self.twins_norm_sq() + quotients
    }

    /// Whether a norm, a product of bits or the projection might wrap around `Q`.
    fn wraps(&self) -> bool {
        let (all, q) = (with_slack(self.norm_sq()), u128::from(Q));
        let norms = all + (1 << self.bits()) + u128::from(self.norm_sq) < q;
        let ones = (DEGREE * self.stack) as u128;
        let bits = all + (ones * all).isqrt() + 1 < q;
        let lemma = all <= (q / 125).pow(2);
        !(norms && bits && lemma)
    }

    /// The bound of the absolute value of every form.
    pub(super) fn form_max(&self, modulus: u64) -> u128 {
        let column = ((DEGREE * self.rows) as u128 * u128::from(self.norm_sq)).isqrt() + 1;
        self.columns as u128 * u128::from(modulus / 2) * column
    }

    pub(super) fn bounds(&self, profile: Profile) -> PublicBounds {
        PublicBounds {
            pieces: self.pieces(),
            rank: self.rank(),
            norm_sq: self.norm_sq(),
            extracted_norm_sq: Some(with_slack(self.norm_sq())),
            openings: 2,
            quadratic: true,
            profile,
        }
    }

    /// The element whose product with the slack has the constant coefficient `sum 2^k e_k`.
    pub(super) fn gadget(&self) -> Rq {
        let bits = self.bits() as usize;
        Rq::from_integers(&std::array::from_fn(|k| match k < bits {
            true => 1 << k,
            false => 0,
        }))
        .sigma()
    }

    /// The digits of a column's product and of that of its bits. None if one does not fit.
    pub(super) fn digits(&self, column: &[Small], bits: &Small) -> Option<Vec<Small>> {
        let long: Vec<Ntt> = column.iter().map(Ntt::from_small).collect();
        let turned: Vec<Ntt> = long.iter().map(Ntt::sigma).collect();
        let bits = Ntt::from_small(bits);
        let mut product = Ntt::dot(long.iter().zip(&turned)).to_rq();
        product.add(&Ntt::from_rq(&self.gadget()).times(&bits).to_rq());
        product.sub(&Rq::constant(self.norm_sq as i64));
        let mut digits = decompose(&product.centred(), BASE, PRODUCT_DIGITS)?;
        let squares = bits.times(&bits.sigma()).to_rq().centred();
        digits.append(&mut decompose(&squares, BASE, 1)?);
        Some(digits)
    }
}
