//! Other ways to make short vectors of signatures, for comparison with [`crate::DachshundJoint`].
#![doc = include_str!("LECTURE.md")]

mod chihuahua;
mod columns;
mod equations;
mod layout;
mod product;
#[cfg(test)]
mod tests;

pub use chihuahua::{COLUMNS_MAX as CHIHUAHUA_COLUMNS_MAX, Chihuahua};
pub use columns::{Dachshund, Relation};
pub use product::Products;
