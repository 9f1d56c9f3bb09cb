//! Passes compiled for AVX-512 with bytes, words and double words.
#![allow(unsafe_code)]

use super::Pass;

/// Proof that this CPU has AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Avx512(());

impl Avx512 {
    pub(super) fn detect() -> Option<Avx512> {
        let all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        all.then_some(Avx512(()))
    }

    /// See [`super::Backend::run`].
    #[inline]
    pub(super) fn run<P: Pass>(self, pass: P) -> P::Output {
        // SAFETY: `self` exists only where `detect` found the instructions.
        unsafe { enter(pass) }
    }
}

// Without `prefer-256-bit` of some CPU models the compiler uses all 512 bits.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn enter<P: Pass>(pass: P) -> P::Output {
    pass.run()
}
