//! How the witness of a level is divided into pieces.

use crate::ring::DEGREE;

/// How the witness of a level is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Pieces per half of `z`; 0 at the first level, which has no `z`.
    pub(crate) z_pieces: usize,
    /// Total number of pieces (`r`).
    pub pieces: usize,
    /// Ring elements per piece (`n`).
    pub rank: usize,
}

impl Cut {
    /// Returns the number of pairs `i <= j` of pieces.
    #[must_use]
    pub(crate) fn pairs(&self) -> usize {
        self.pieces * (self.pieces + 1) / 2
    }

    /// Returns the ways a level may divide the output of the previous one, two halves of `z` with this many elements
    /// each and this many digits. Each half is cut into `z_pieces`, with a rank such that the digits fill at most
    /// `v_pieces_max`.
    pub(crate) fn of_output(
        z_elements: usize,
        digits: usize,
        z_pieces: usize,
        v_pieces_max: usize,
    ) -> Self {
        let rank = (z_elements.div_ceil(z_pieces)).max(digits.div_ceil(v_pieces_max));
        Self {
            z_pieces,
            pieces: 2 * z_pieces + digits.div_ceil(rank),
            rank,
        }
    }

    /// Returns the coefficients per piece.
    pub(crate) fn coefficients(&self) -> u128 {
        (DEGREE * self.rank) as u128
    }
}
