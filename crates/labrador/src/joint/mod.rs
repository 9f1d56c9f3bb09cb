//! The front end for many vectors of equal length with an exact norm bound for each, under linear
//! forms over the integers that are drawn after the commitment.
#![doc = include_str!("LECTURE.md")]

mod blend;
#[cfg(test)]
mod dense;
mod fold;
mod layout;
mod lift;
mod statement;
mod sums;
mod tile;
pub(crate) mod witness;

pub use layout::COLUMNS_MAX;
pub(crate) use layout::ROWS_MAX;
pub(crate) use layout::{COLUMN_NORM_SQ_MAX, FORMS_MAX};
pub use statement::DachshundJoint;

use crate::transcript::Seed;

/// Columns whose linear forms are computed at a time.
pub const TILE: usize = 32;

/// A relation modulo a small prime `q` that the columns satisfy, as random linear forms: each
/// `L_k(s) = tau_k` modulo `q`, with coefficients and targets that are drawn after the columns are
/// committed to. This crate does not know what the relation means; whoever implements the trait
/// argues that a false relation survives all forms with negligible probability.
pub trait Forms: Sync {
    /// Number of forms (`K`), 1 to `FORMS_MAX`.
    fn count(&self) -> usize;

    /// The modulus `q`, odd and below `2^15`.
    fn modulus(&self) -> u64;

    /// The forms of a seed.
    fn draw<'a>(&'a self, seed: &Seed) -> Box<dyn DrawnForms + 'a>;
}

/// Linear forms after their coefficients are fixed.
pub trait DrawnForms: Sync {
    /// `tau_k` in `[0, q)`, one for each form.
    fn targets(&self) -> &[u64];

    /// The coefficients on columns `first..first + columns`, at most [`TILE`] of them: for each
    /// form and each coefficient of all elements of a column one number for each column, centred in
    /// `[-(q-1)/2, (q-1)/2]`, so that `L_k(s)` is the sum of the inner products of integers. What
    /// stands behind the last column is not used.
    fn weights(&self, first: usize, columns: usize, out: &mut [[i16; TILE]]);
}

#[cfg(test)]
pub(crate) mod tests;
