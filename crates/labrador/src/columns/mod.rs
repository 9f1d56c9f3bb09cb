//! The front end for many columns with an exact norm bound for each, under one relation modulo a small
//! prime.
#![doc = include_str!("LECTURE.md")]

mod layout;
mod opening;
mod relation;
mod statement;
mod sumcheck;
mod tables;
#[cfg(test)]
mod tests;
mod witness;

pub(crate) use layout::{COLUMN_NORM_SQ_MAX, QUOTIENT_MAX};
pub use layout::{COLUMNS_MAX, quotient_norm_sq};
pub use relation::{Relation, Targets};
pub use statement::Columns;
