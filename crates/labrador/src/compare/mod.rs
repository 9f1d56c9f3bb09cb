//! Other ways to make short vectors of signatures, for comparison with [`crate::DachshundJoint`].
#![doc = include_str!("LECTURE.md")]

mod chihuahua;
mod columns;
mod equations;
mod layout;
mod product;
#[cfg(test)]
mod tests;

pub use chihuahua::Chihuahua;
pub use columns::{Dachshund, Relation};
pub use product::Products;
