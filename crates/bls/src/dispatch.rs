//! The choice of the multiplier that a backend has.

/// Evaluates an expression with the multiplier of a backend, or the portable expression.
macro_rules! with_multiplier {
    ($backend:expr, $m:ident => $vector:expr, _ => $portable:expr $(,)?) => {
        match $backend {
            #[cfg(target_arch = "x86_64")]
            alphorn_exec::Backend::Avx512Ifma(witness) => {
                let $m = $crate::vector::Avx512Ifma52::new(witness);
                $vector
            }
            #[cfg(target_arch = "x86_64")]
            alphorn_exec::Backend::Avx512Dq(witness) => {
                let $m = $crate::vector::Avx512Doubles::new(witness);
                $vector
            }
            #[cfg(target_arch = "x86_64")]
            alphorn_exec::Backend::Avx2Fma(witness) => {
                let $m = $crate::vector::Avx2Doubles::new(witness);
                $vector
            }
            _ => $portable,
        }
    };
}
pub(crate) use with_multiplier;
