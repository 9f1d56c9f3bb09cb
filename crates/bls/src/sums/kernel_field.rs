//! The vector kernel that sums points with coordinates of a field.

#[cfg(target_arch = "x86_64")]
use super::segments::SumKernel;
#[cfg(target_arch = "x86_64")]
use super::vector::VectorSums;
use crate::blst_ffi::curve_field::CurveField;
#[cfg(target_arch = "x86_64")]
use crate::blst_ffi::field::{Fp, Fp2};
#[cfg(target_arch = "x86_64")]
use crate::vector::Multiplier;

/// The vector kernel of a field.
pub(crate) trait KernelField: CurveField {
    /// Adds points with coordinates of this field.
    #[cfg(target_arch = "x86_64")]
    type Vector<M: Multiplier>: SumKernel<Field = Self>;

    /// The kernel of a host.
    #[cfg(target_arch = "x86_64")]
    fn vector<M: Multiplier>(m: M) -> Self::Vector<M>;
}

impl KernelField for Fp {
    #[cfg(target_arch = "x86_64")]
    type Vector<M: Multiplier> = VectorSums<M, Fp, 1>;

    #[cfg(target_arch = "x86_64")]
    fn vector<M: Multiplier>(m: M) -> Self::Vector<M> {
        VectorSums::new(m)
    }
}

impl KernelField for Fp2 {
    #[cfg(target_arch = "x86_64")]
    type Vector<M: Multiplier> = VectorSums<M, Fp2, 2>;

    #[cfg(target_arch = "x86_64")]
    fn vector<M: Multiplier>(m: M) -> Self::Vector<M> {
        VectorSums::new(m)
    }
}
