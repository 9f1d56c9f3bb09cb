//! Passes compiled for AVX2.
#![allow(unsafe_code)]

use super::Pass;

/// Proof that this CPU has AVX2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Avx2> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }

    /// See [`super::Backend::run`].
    #[inline]
    pub(super) fn run<P: Pass>(self, pass: P) -> P::Output {
        // SAFETY: `self` exists only where `detect` found the instructions.
        unsafe { enter(pass) }
    }
}

#[target_feature(enable = "avx2")]
fn enter<P: Pass>(pass: P) -> P::Output {
    pass.run()
}
