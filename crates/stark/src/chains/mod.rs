//! The relation of one-time keys: chains of hashes that end in the leaf of a tree whose root is in a registry.
//!
//! An instance is an *opening* at the slot of the statement. A message and randomness are hashed to 64 digits of
//! base 8 and eight quotients. Each of the first v digits gives the position of the given *tip* on its chain of
//! eight positions. All chains are walked to their ends, the ends are hashed to a leaf, and the leaf to a root.
//! Root and parameter are a row of the registry.
//!
//! The hashes are those of the compact set of `alphorn-xmss`: one compression of width 16 for everything, with
//! tweaks to distinguish its uses (types: chain 0, leaf 1, node 2, encoding 3).
//!
//! A chain step is a row at *place* q = 8·chain + position. Rows take (instance, q, digest) off the bus
//! and put (instance, q + 1, next digest) on it; tips are put on at 8i + digit, ends taken off at
//! 8i + 7. So rows form paths, and the lecture shows that chain i is walked exactly from its digit
//! to 7, and that the number of rows enforces the sum of the digits.

pub(crate) mod cells;
mod fill;
mod group;
mod layout;
pub mod lean;
mod opening_layout;
#[cfg(test)]
pub(crate) mod tests;

pub use fill::Opening;
pub use group::{KeyOpening, Opened};
pub use layout::{Chains, Parameters};

/// Number of field elements in a digest on a chain or in the tree, in a parameter, and in a root.
pub const HALF: usize = 4;

/// Number of field elements in an encoding's randomness.
pub(crate) const RANDOMNESS: usize = 6;

/// Number of elements in the encoding's hash, each with eight digits and a quotient.
pub(crate) const LIMBS: usize = 8;

/// Number of digits in an element.
pub(crate) const LIMB_DIGITS: usize = 8;

/// Kinds of tuples on the bus.
pub(crate) mod kind {
    /// (instance, place, digest).
    pub(crate) const CHAIN: u32 = 1;
    /// A digit.
    pub(crate) const OCTAL: u32 = 2;
    /// A quotient below 127.
    pub(crate) const QUOTIENT: u32 = 3;
    /// (index, root, parameter).
    pub(crate) const REGISTRY: u32 = 4;
}
