//! Why a cost table is rejected.

use crate::Layer;
use alphorn_types::MULTIPLICITY_LIMIT;

/// Version of the JSON format.
pub const SCHEMA: u32 = 1;
/// Maximum number of rows in a table.
pub(crate) const ROWS_MAX: usize = 4096;

/// Why a cost table is rejected.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// It is not JSON of this form.
    #[error("cost table: {0}")]
    Json(serde_json::Error),
    /// Another version.
    #[error("cost table has schema {0}, this program reads {SCHEMA}")]
    Schema(u32),
    /// Too many rows.
    #[error("cost table has {0} rows, at most {ROWS_MAX}")]
    Rows(usize),
    /// Rows out of order or twice.
    #[error("cost table: row {0} is not above the row before it in (op, n, m)")]
    Order(usize),
    /// The rows of an operation do not cover every combination of n and m.
    #[error("cost table: the rows of {0} are not each of its n with each of its m")]
    Product(&'static str),
    /// More work costs less.
    #[error("cost table: {op} of n = {n}, m = {m} takes less than a part of it")]
    Falls {
        /// The operation.
        op: &'static str,
        /// The first size.
        n: u64,
        /// The second size.
        m: u64,
    },
    /// A layer has no evidence size.
    #[error("cost table has no evidence bytes for layer {0:?}")]
    NoEvidence(Layer),
    /// A layer counts multiplicities that exceed those of a support.
    #[error("cost table: layer {layer:?} counts up to {max}, allowed 1 to {MULTIPLICITY_LIMIT}")]
    Multiplicity {
        /// The layer.
        layer: Layer,
        /// Its maximum multiplicity.
        max: u8,
    },
    /// A size outside its range.
    #[error("cost table: {what} = {value} bytes, allowed {min} to {max}")]
    Size {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The minimum value.
        min: u64,
        /// The maximum value.
        max: u64,
    },
}
