//! The relation of the keys of the lean consensus specification: chains of width 16; tree, leaf and encoding of
//! width 24.
//!
//! It proves the same as the compact relation (see [`super`]), with these differences.
//!
//! - The leaf is a sponge: its rows have no feed-forward, pass nine lanes on, and overwrite fifteen.
//! - A limb A of the encoding is 127·Σ 8^t·e_t + r with r < 127 by look-up. The digits of the last limb that
//!   belong to no chain are looked up two at a time, as numbers below 64.
//! - A chain step's tweak is an integer, slot·2^24 + chain·2^16 + step·2^8, in two limbs of base p. At *place* κ =
//!   256·chain + position the lower limb is a constant of the slot plus 256·(κ + 1), in F_p; the upper one grows
//!   by 1 where the integer passes a multiple of p. That happens inside the chains for one slot in 700, so the
//!   upper limb is a cell, and (κ, upper limb) is looked up in a public table of all places.

mod fill;
mod layout;
#[cfg(test)]
pub(crate) mod tests;
mod values;

pub use fill::LeanOpening;
pub use layout::LeanChains;
pub use values::LeanParameters;

/// Number of field elements in a digest.
pub const DIGEST: usize = 8;

/// Number of field elements in a key's parameter.
pub(crate) const PARAMETER: usize = 5;

/// Number of field elements in an encoding's randomness.
pub(crate) const RANDOMNESS: usize = 7;

/// Number of field elements in a message.
pub const MESSAGE: usize = 9;

/// Number of lanes of the sponge that no input touches.
pub(crate) const CAPACITY: usize = 9;

/// Number of lanes of the sponge that take input.
pub(crate) const RATE: usize = 15;

/// Kinds of tuples on the bus, in addition to those of [`super::kind`]; a quotient is a remainder here.
pub(crate) mod kind {
    /// (place, upper limb of the tweak).
    pub(crate) const TWEAK: u32 = 5;
    /// Two digits that belong to no chain.
    pub(crate) const TAIL: u32 = 6;
}
