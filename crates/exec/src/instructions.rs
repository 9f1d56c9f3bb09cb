//! Instruction sets, and the proof that this processor has one.

use core::fmt;

/// A witness: a type whose values are made by [`detect`](Avx2::detect) alone.
macro_rules! witness {
    ($(#[$doc:meta])* $name:ident: $($feature:tt)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(());

        impl $name {
            /// What the processor and the operating system must offer.
            pub const NEEDS: &'static [&'static str] = &[$($feature),*];

            /// A witness, if all of it is there.
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
    /// Proof that this processor has AVX2, and the bit instructions that came with it.
    Avx2: "avx2" "bmi1" "bmi2"
}

witness! {
    /// Proof that this processor has AVX-512 F, BW, DQ, VL and VNNI (Cascade Lake), and what
    /// [`Avx2`] shows.
    Avx512: "avx2" "bmi1" "bmi2" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni"
}

witness! {
    /// Proof that this processor has what [`Avx512`] shows and its multiply-add of 52 bits (Ice Lake,
    /// Zen 4).
    Avx512Ifma:
        "avx2" "bmi1" "bmi2" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx512ifma"
}

impl Avx512Ifma {
    /// The lesser witness: its needs are among these.
    #[must_use]
    pub fn avx512(self) -> Avx512 {
        Avx512(())
    }
}

/// An instruction set for which a crate can have a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// See [`Avx2`].
    Avx2,
    /// See [`Avx512`].
    Avx512,
    /// See [`Avx512Ifma`].
    Avx512Ifma,
}

impl InstructionSet {
    /// Its name on the command line. No crate has kernels for both sets with 512 bits.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            InstructionSet::Avx2 => "avx2",
            InstructionSet::Avx512 | InstructionSet::Avx512Ifma => "avx512",
        }
    }

    /// What the processor and the operating system must offer.
    #[must_use]
    pub fn needs(self) -> &'static [&'static str] {
        match self {
            InstructionSet::Avx2 => Avx2::NEEDS,
            InstructionSet::Avx512 => Avx512::NEEDS,
            InstructionSet::Avx512Ifma => Avx512Ifma::NEEDS,
        }
    }

    /// The backend of this set, on a processor that has it.
    #[must_use]
    pub fn detect(self) -> Option<Backend> {
        match self {
            InstructionSet::Avx2 => Avx2::detect().map(Backend::Avx2),
            InstructionSet::Avx512 => Avx512::detect().map(Backend::Avx512),
            InstructionSet::Avx512Ifma => Avx512Ifma::detect().map(Backend::Avx512Ifma),
        }
    }
}

/// On which instructions a computation runs: a set that this processor has, since a witness can only
/// be made by a check of it. A crate without a kernel for the set runs its portable one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// What every machine has: the oracle of all other kernels.
    #[default]
    Portable,
    /// See [`Avx2`].
    Avx2(Avx2),
    /// See [`Avx512`].
    Avx512(Avx512),
    /// See [`Avx512Ifma`].
    Avx512Ifma(Avx512Ifma),
}

impl Backend {
    /// `portable`, `avx2` or `avx512`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Backend::Portable => "portable",
            Backend::Avx2(_) => InstructionSet::Avx2.name(),
            Backend::Avx512(_) => InstructionSet::Avx512.name(),
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
    fn a_wider_set_needs_all_that_a_narrower_one_does() {
        let sets = [
            InstructionSet::Avx2,
            InstructionSet::Avx512,
            InstructionSet::Avx512Ifma,
        ];
        for pair in sets.windows(2) {
            let has = |need| pair[1].needs().contains(need);
            assert!(pair[0].needs().iter().all(has));
            assert!(pair[0].detect().is_some() || pair[1].detect().is_none());
        }
    }
}
