//! The parameters of every level, derived from public bounds alone by integer arithmetic. Both
//! sides run this code, and the proof carries none of its results.

mod bounds;
pub mod estimate;
mod row;
mod search;

pub use crate::cut::Cut;
pub(crate) use bounds::PIECES_MAX;
pub use bounds::{ParamError, Projections, PublicBounds};
pub use row::{Level, Schedule, Tail};

use bounds::ELEMENTS_MAX;

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

    /// Returns the minimum size of a proof in bytes.
    #[must_use]
    pub fn least_bytes(&self) -> u64 {
        search::least_bytes(self)
    }
}

#[cfg(test)]
mod tests;
