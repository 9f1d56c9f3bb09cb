//! Affine points of E(Fp) and E'(Fp2), in blst's layout.

use super::field::{Field, Fp, Fp2};

/// A point (x, y) of the curve, or the identity as (0, 0), blst's convention.
///
/// (0, 0) is on neither curve, and no point has y = 0 because both group orders are odd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Affine<F> {
    pub(crate) x: F,
    pub(crate) y: F,
}

/// A point of E(Fp), y² = x³ + 4: public keys are in its subgroup G1. 96 bytes.
pub type G1Affine = Affine<Fp>;
/// A point of E'(Fp2), y² = x³ + 4(1 + u): signatures are in its subgroup G2. 192 bytes.
pub type G2Affine = Affine<Fp2>;

impl<F: Field> Affine<F> {
    /// The identity.
    pub const INFINITY: Self = Affine {
        x: F::ZERO,
        y: F::ZERO,
    };

    /// Returns whether this is the identity.
    pub fn is_infinity(&self) -> bool {
        self.x.is_zero() && self.y.is_zero()
    }

    /// The negative.
    #[must_use]
    pub fn neg(&self) -> Self {
        Affine {
            x: self.x,
            y: self.y.neg(),
        }
    }
}
