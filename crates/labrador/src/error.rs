//! Reasons why a proof is not made or not accepted.

use alphorn_exec::Stopped;
use thiserror::Error;

use crate::columns::{COLUMN_NORM_SQ_MAX, QUOTIENT_MAX};

/// Reason why a verifier rejects; one variant per check.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Reject {
    /// Stopped because the verdict is no longer needed. Says nothing about the proof.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The first bytes name another format, front end or profile.
    #[error("byte {offset} of the header is not that of this format, front end and profile")]
    Header {
        /// Offset of the first byte that differs.
        offset: usize,
    },
    /// The proof is too short or too long.
    #[error("the proof has {bytes} bytes, and its fields end elsewhere")]
    Length {
        /// Length of the proof in bytes.
        bytes: usize,
    },
    /// A value is not in its canonical encoding.
    #[error("field {field} of level {level} is not in its canonical form")]
    NonCanonical {
        /// The level, from 1.
        level: usize,
        /// The name of the field.
        field: &'static str,
    },
    /// A projection is longer than a short vector's would be.
    #[error("the projection of level {level} is too long")]
    ProjectionLong {
        /// The level, from 1.
        level: usize,
    },
    /// The last claim of a sumcheck does not match the opened value.
    #[error("the sumcheck does not end in the opened value")]
    Sumcheck,
    /// The last response is too long.
    #[error("the last response is too long")]
    NormBound,
    /// The last response does not open the inner commitments.
    #[error("the last response does not open the inner commitments")]
    InnerOpening,
    /// The linear garbage does not match the last response.
    #[error("the linear garbage does not belong to the last response")]
    LinearGarbage,
    /// The sum of all equations, of the statement and of every level, does not hold.
    #[error("the sum of all equations does not hold")]
    Equations,
}

/// Defect of a statement itself.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StatementError {
    /// There are no columns, or too many.
    #[error("{columns} columns are not 1 to {max}")]
    Columns {
        /// Columns of the statement.
        columns: usize,
        /// Maximum that the front end supports.
        max: usize,
    },
    /// The degree of the polynomials is not a power of two, or is out of range.
    #[error("the degree {degree} is no power of two from 64 to 1024")]
    Degree {
        /// The degree.
        degree: usize,
    },
    /// Columns may be longer than their digits allow.
    #[error("a squared norm of {norm_sq} for each column is above {COLUMN_NORM_SQ_MAX}")]
    ColumnNorm {
        /// The bound on the squared norm of a column.
        norm_sq: u64,
    },
    /// The modulus of the relation is even, or does not fit in 15 bits.
    #[error("the modulus {modulus} of the relation is not odd and below 2^15")]
    Modulus {
        /// The modulus.
        modulus: u64,
    },
    /// Polynomials of a relation are missing or incomplete.
    #[error("{coefficients} coefficients are not one polynomial of degree {degree} a column")]
    Polynomials {
        /// Coefficients given.
        coefficients: usize,
        /// Coefficients per polynomial.
        degree: usize,
    },
    /// A coefficient of a relation is not the centred representative of its residue.
    #[error("coefficient {place} is not centred modulo {modulus}")]
    Residue {
        /// Its index: factors first, then targets.
        place: usize,
        /// The modulus.
        modulus: u64,
    },
    /// Norms, images or relations of this many columns might wrap around the modulus of the proof.
    #[error("norms or relations of {columns} such columns might wrap around the modulus")]
    Wraps {
        /// Columns of the statement.
        columns: usize,
    },
}

/// Reason why a witness does not satisfy a statement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Invalid {
    /// Stopped because the result is no longer needed. Says nothing about the witness.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The dimensions of the witness differ from those of the statement.
    #[error("the witness has {elements} ring elements instead of {expected}")]
    Shape {
        /// Elements of the witness.
        elements: usize,
        /// Elements that the statement requires.
        expected: usize,
    },
    /// A column of the witness is too long.
    #[error("the squared norm of column {column} is {norm_sq}, above {max}")]
    Column {
        /// The first column that is too long.
        column: usize,
        /// Its squared norm.
        norm_sq: u128,
        /// The bound.
        max: u64,
    },
    /// A column does not satisfy its relation.
    #[error("the relation of column {column} does not hold")]
    Relation {
        /// The first column that fails.
        column: usize,
    },
    /// The quotients of some columns' relations are too long; those of honest keys never are.
    #[error(
        "quotients of columns {columns:?} are too long: the first have {norm_sq}, must be below {max}, and one of \
         {largest}, must be at most {QUOTIENT_MAX}"
    )]
    Quotients {
        /// All columns that fail, ascending. A prover that leaves them out can prove the rest.
        columns: Vec<usize>,
        /// The squared norm of the quotients of the first.
        norm_sq: u128,
        /// The bound.
        max: u64,
        /// The largest absolute value of a quotient of the first.
        largest: u64,
    },
}

/// Reason why no proof was made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProveError {
    /// Stopped because the proof is no longer needed.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The witness does not satisfy the statement.
    #[error("the witness does not satisfy the statement: {0}")]
    Witness(#[from] Invalid),
    /// A predicted size was exceeded in every attempt, which by definition is an error of the parameters.
    #[error("{step} of level {level} exceeded its predicted size in every attempt")]
    ScheduleMargin {
        /// The level, from 1.
        level: usize,
        /// What grew too large.
        step: &'static str,
    },
}
