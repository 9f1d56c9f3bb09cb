//! Subgroup checks of many points at once.

use crate::blst_ffi::curve::{Affine, CurveField};
use crate::kernel::Backend;

/// Positions of the points that are not in the prime-order subgroup, in increasing order.
///
/// All points are on the curve; the identity is in the subgroup. `seed` must be unpredictable to
/// whoever chose the points.
pub fn outside_subgroup<F: CurveField>(
    _backend: Backend,
    points: &[Affine<F>],
    _seed: &[u8; 32],
) -> Vec<usize> {
    (0..points.len())
        .filter(|i| !F::in_group(&points[*i]))
        .collect()
}
