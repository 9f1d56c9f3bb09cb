//! Available kernels for bulk sums, and how fast they are.

use std::time::Duration;

use alphorn_exec::{Backend, InstructionSet, Kernels};

use crate::sums::Costs;

/// The kernels of this crate. In addition to the scalar arithmetic of blst there are sixteen lanes of 52-bit
/// limbs, whose products use doubles or IFMA.
pub const KERNELS: Kernels = Kernels {
    of: "bls",
    sets: &[
        InstructionSet::Avx2Fma,
        InstructionSet::Avx512Dq,
        InstructionSet::Avx512Ifma,
    ],
    work: "an addition of keys",
    measure: |backend: Backend| Duration::from_secs_f64(Costs::measure_addition(backend) * 1e-9),
};

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// The kernels other than the portable one that this processor can run. Prints one line for each test that
    /// skips a kernel. It goes past the harness, so that it shows even for a passing test: captured output goes
    /// unnoticed.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn vector_backends() -> Vec<Backend> {
        let test = std::thread::current();
        let test = test.name().unwrap_or("a test").to_owned();
        let found = KERNELS.sets.iter().filter_map(|set| {
            let backend = set.detect();
            if backend.is_none() {
                let (name, needs) = (set.name(), set.needs().join(", "));
                let told = writeln!(
                    std::io::stderr(),
                    "bls: {test} leaves out the kernel {name}: it needs {needs}"
                );
                told.expect("standard error is open");
            }
            backend
        });
        found.collect()
    }

    #[test]
    fn kernels_under_test_are_named() {
        let names: Vec<&str> = KERNELS.available().into_iter().map(Backend::name).collect();
        let told = writeln!(
            std::io::stderr(),
            "bls: kernels under test: {} of {}",
            names.join(", "),
            1 + KERNELS.sets.len(),
        );
        told.expect("standard error is open");
        assert_eq!(names[0], "portable");
        for set in KERNELS.sets {
            assert_eq!(names.contains(&set.name()), set.detect().is_some());
        }
    }
}
