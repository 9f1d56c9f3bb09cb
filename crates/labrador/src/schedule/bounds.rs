//! The public bounds of a statement, from which all parameters follow.

use thiserror::Error;

use crate::images::Images;
use crate::sis::Profile;

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
