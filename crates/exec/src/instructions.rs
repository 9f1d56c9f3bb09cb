//! Instruction sets, and proof that this processor has one.

use core::fmt;

/// A witness: a type whose values can only be created by [`detect`](Avx2::detect).
macro_rules! witness {
    ($(#[$doc:meta])* $name:ident: $($feature:tt)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(());

        impl $name {
            /// What the processor and the operating system must support.
            pub const NEEDS: &'static [&'static str] = &[$($feature),*];

            /// Returns a witness if everything is supported.
            #[must_use]
            pub fn detect() -> Option<Self> {
                #[cfg(target_arch = "x86_64")]
                if true $(&& std::arch::is_x86_feature_detected!($feature))* {
                    return Some($name(()));
                }
                None
            }
        }
    };
}

witness! {
    /// Proof that this processor has AVX2.
    Avx2: "avx2"
}

witness! {
    /// Proof that this processor has AVX2, and the fused multiply-add of floating point that was introduced
    /// with it (Haswell, Zen): for kernels whose products use doubles.
    Avx2Fma: "avx2" "fma"
}

witness! {
    /// Proof that this processor has AVX-512 F, BW, DQ and VL, as all servers since Skylake do.
    Avx512Dq: "avx512f" "avx512bw" "avx512dq" "avx512vl"
}

witness! {
    /// Proof that this processor has AVX-512 F, BW and VBMI2 (Ice Lake, Zen 4).
    Avx512Vbmi2: "avx512f" "avx512bw" "avx512vbmi2"
}

witness! {
    /// Proof that this processor has AVX-512 F, BW, DQ, VL and VNNI (Cascade Lake), and BMI2.
    Avx512Vnni: "bmi2" "avx2" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni"
}

witness! {
    /// Proof that this processor has the 52-bit multiply-add of AVX-512 (Cannon Lake, Zen 4), and F, BW, DQ and
    /// VL, which every processor with it has.
    Avx512Ifma: "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512ifma"
}

witness! {
    /// Proof that this processor has AVX-512 F and BW, and the AES rounds on vectors of any length (Ice Lake,
    /// Zen 4).
    Avx512Vaes: "avx512f" "avx512bw" "aes" "vaes"
}

impl From<Avx2Fma> for Avx2 {
    fn from(_: Avx2Fma) -> Avx2 {
        Avx2(())
    }
}

impl From<Avx512Ifma> for Avx512Dq {
    fn from(_: Avx512Ifma) -> Avx512Dq {
        Avx512Dq(())
    }
}

/// Proof that this processor has AVX-512 F: a part of each wider witness.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512F(());

#[cfg(target_arch = "x86_64")]
impl From<Avx512Dq> for Avx512F {
    fn from(_: Avx512Dq) -> Avx512F {
        Avx512F(())
    }
}

#[cfg(target_arch = "x86_64")]
impl From<Avx512Vnni> for Avx512F {
    fn from(_: Avx512Vnni) -> Avx512F {
        Avx512F(())
    }
}

#[cfg(target_arch = "x86_64")]
impl From<Avx512Ifma> for Avx512F {
    fn from(_: Avx512Ifma) -> Avx512F {
        Avx512F(())
    }
}

/// An instruction set for which a crate can provide a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// See [`Avx2`].
    Avx2,
    /// See [`Avx2Fma`].
    Avx2Fma,
    /// See [`Avx512Dq`].
    Avx512Dq,
    /// See [`Avx512Vnni`].
    Avx512Vnni,
    /// See [`Avx512Ifma`].
    Avx512Ifma,
}

impl InstructionSet {
    /// Its name on the command line. No crate has kernels for two sets of the same name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            InstructionSet::Avx2 | InstructionSet::Avx2Fma => "avx2",
            InstructionSet::Avx512Dq => "avx512dq",
            InstructionSet::Avx512Vnni | InstructionSet::Avx512Ifma => "avx512",
        }
    }

    /// What the processor and the operating system must support.
    #[must_use]
    pub fn needs(self) -> &'static [&'static str] {
        match self {
            InstructionSet::Avx2 => Avx2::NEEDS,
            InstructionSet::Avx2Fma => Avx2Fma::NEEDS,
            InstructionSet::Avx512Dq => Avx512Dq::NEEDS,
            InstructionSet::Avx512Vnni => Avx512Vnni::NEEDS,
            InstructionSet::Avx512Ifma => Avx512Ifma::NEEDS,
        }
    }

    /// The backend of this set, on a processor that has it.
    #[must_use]
    pub fn detect(self) -> Option<Backend> {
        match self {
            InstructionSet::Avx2 => Avx2::detect().map(Backend::Avx2),
            InstructionSet::Avx2Fma => Avx2Fma::detect().map(Backend::Avx2Fma),
            InstructionSet::Avx512Dq => Avx512Dq::detect().map(Backend::Avx512Dq),
            InstructionSet::Avx512Vnni => Avx512Vnni::detect().map(Backend::Avx512Vnni),
            InstructionSet::Avx512Ifma => Avx512Ifma::detect().map(Backend::Avx512Ifma),
        }
    }
}

/// The instructions a computation runs on: a set that this processor has, since a witness can only be created
/// by a check for it. A crate without a kernel for the set runs its portable one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Available on every host: the oracle for all other kernels.
    #[default]
    Portable,
    /// See [`Avx2`].
    Avx2(Avx2),
    /// See [`Avx2Fma`].
    Avx2Fma(Avx2Fma),
    /// See [`Avx512Dq`].
    Avx512Dq(Avx512Dq),
    /// See [`Avx512Vnni`].
    Avx512Vnni(Avx512Vnni),
    /// See [`Avx512Ifma`].
    Avx512Ifma(Avx512Ifma),
}

impl Backend {
    /// `portable`, `avx2`, `avx512dq` or `avx512`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Backend::Portable => "portable",
            Backend::Avx2(_) => InstructionSet::Avx2.name(),
            Backend::Avx2Fma(_) => InstructionSet::Avx2Fma.name(),
            Backend::Avx512Dq(_) => InstructionSet::Avx512Dq.name(),
            Backend::Avx512Vnni(_) => InstructionSet::Avx512Vnni.name(),
            Backend::Avx512Ifma(_) => InstructionSet::Avx512Ifma.name(),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lesser_witness_comes_only_from_one_that_needs_the_same() {
        let has = |needs: &[&str], need| needs.contains(&need);
        assert!(Avx2::NEEDS.iter().all(|need| has(Avx2Fma::NEEDS, need)));
        let dq = Avx512Dq::NEEDS;
        assert!(dq.iter().all(|need| has(Avx512Ifma::NEEDS, need)));
        assert!(
            [dq, Avx512Vnni::NEEDS]
                .iter()
                .all(|set| has(set, "avx512f"))
        );
    }
}
