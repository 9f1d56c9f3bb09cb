//! The parameters of every level, derived from public bounds alone by integer arithmetic. Both
//! sides run this code, and the proof carries none of its results.

use thiserror::Error;

use crate::images::Images;
use crate::sis::Profile;

pub mod estimate;
mod row;
mod search;

pub use row::{Cut, Level, Tail};

/// Maximum number of pieces of a level: garbage grows with its square.
pub(crate) const PIECES_MAX: usize = 128;

/// Maximum number of ring elements of a first witness.
pub(crate) const ELEMENTS_MAX: usize = 1 << 21;

/// The public properties of a statement that decide every parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicBounds {
    /// Vectors of the witness, 1 to `PIECES_MAX`.
    pub(crate) pieces: usize,
    /// Ring elements per vector.
    pub(crate) rank: usize,
    /// Bound on the squared norm of all vectors together.
    pub(crate) norm_sq: u128,
    /// The block projection of the first level, whose images are the last of the vectors.
    pub(crate) images: Images,
    /// Families of linear forms that all vectors share; 0 if each vector has a form of its own.
    pub(crate) families: usize,
    /// Bytes of further messages of the first level.
    pub(crate) front_bytes: u64,
    /// How levels show that their witnesses are short.
    pub(crate) projections: Projections,
    /// How hard breaking a commitment must be.
    pub(crate) profile: Profile,
}

/// Options that make a proof faster to verify, and longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projections {
    /// Number of levels, from the second on, with a block projection instead of a dense one.
    pub block_levels: usize,
    /// Maximum number of parts into which a dense projection divides a witness. A verifier generates each matrix
    /// column once for all of them, and each part has an image of its own.
    pub parts: usize,
}

impl Projections {
    /// The setting of the smallest proofs.
    pub const SMALLEST: Self = Self {
        block_levels: 0,
        parts: 1,
    };
}

/// Reason why there are no parameters for a statement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParamError {
    /// A statement has too few or too many vectors.
    #[error("{pieces} vectors are not 1 to {PIECES_MAX}")]
    Pieces {
        /// Vectors of the statement.
        pieces: usize,
    },
    /// A statement has too few or too many ring elements.
    #[error("{elements} ring elements are not 1 to {ELEMENTS_MAX}")]
    Elements {
        /// Ring elements of the statement.
        elements: usize,
    },
    /// No commitment of 32 rows binds vectors of this length, or the modulus is too small for
    /// the projection, whatever the number of levels.
    #[error("a squared norm of {norm_sq} is too large for the modulus or for 32 rows")]
    Norm {
        /// The bound on the squared norm.
        norm_sq: u128,
    },
}

/// All parameters of a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The levels in order; the first works on the statement's vectors.
    pub levels: Vec<Level>,
    /// The last level.
    pub tail: Tail,
    /// How hard breaking a commitment is.
    pub profile: Profile,
    /// The predicted size of a proof.
    pub bytes: u64,
}

impl Schedule {
    /// Finds the parameters with the smallest predicted size.
    ///
    /// # Errors
    /// If the statement is empty, too large, or not short enough for any parameters.
    pub fn derive(bounds: &PublicBounds) -> Result<Self, ParamError> {
        if !(1..=PIECES_MAX).contains(&bounds.pieces) {
            return Err(ParamError::Pieces {
                pieces: bounds.pieces,
            });
        }
        let elements = bounds.pieces.saturating_mul(bounds.rank);
        if !(1..=ELEMENTS_MAX).contains(&elements) {
            return Err(ParamError::Elements { elements });
        }
        search::best(bounds).ok_or(ParamError::Norm {
            norm_sq: bounds.norm_sq,
        })
    }

    /// Returns the lengths of the longest vectors that the inner key and the outer keys commit to, in ring
    /// elements.
    #[must_use]
    pub fn key_lengths(&self) -> (usize, usize) {
        let inner = self.levels.iter().map(|l| l.cut.rank).max().unwrap_or(0);
        let outer = self.levels.iter().map(Level::digits).max().unwrap_or(0);
        (inner.max(self.tail.cut.rank), outer)
    }

    /// Returns the minimum size of a proof in bytes.
    #[must_use]
    pub fn least_bytes(&self) -> u64 {
        search::least_bytes(self)
    }

    /// Encodes every number of the schedule, for the transcript.
    #[must_use]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.profile.id()];
        for level in &self.levels {
            level.encode(&mut out);
        }
        self.tail.encode(&mut out);
        out
    }
}

#[cfg(test)]
mod tests;
