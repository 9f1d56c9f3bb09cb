//! Which kernels there are for the bulk sums, and how fast they are.

use std::time::Duration;

use alphorn_exec::{Backend, InstructionSet, Kernels};

use crate::sums::Costs;

/// The kernels of this crate: beside the scalar arithmetic of blst, sixteen lanes of 52-bit limbs.
pub const KERNELS: Kernels = Kernels {
    of: "bls",
    sets: &[InstructionSet::Avx512Ifma],
    work: "an addition of keys",
    measure: |backend: Backend| Duration::from_secs_f64(Costs::measure(backend).add_ns * 1e-9),
};

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;
    use alphorn_exec::Avx512Ifma;

    /// Where the processor cannot run the kernel, a line for each test that leaves it out, which a
    /// test that passes shows too: what the harness captures, nobody counts.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn witness() -> Option<Avx512Ifma> {
        match Avx512Ifma::detect() {
            Some(witness) => Some(witness),
            None => {
                let test = std::thread::current();
                let test = test.name().unwrap_or("a test").to_owned();
                let told = writeln!(
                    std::io::stderr(),
                    "bls: {test} leaves out the kernel avx512: no avx512ifma here"
                );
                told.expect("standard error is open");
                None
            }
        }
    }

    #[test]
    fn kernels_under_test_are_named() {
        let names: Vec<&str> = KERNELS.available().into_iter().map(Backend::name).collect();
        let told = writeln!(
            std::io::stderr(),
            "bls: kernels under test: {}",
            names.join(", ")
        );
        told.expect("standard error is open");
        assert_eq!(names[0], "portable");
        assert_eq!(names.contains(&"avx512"), Avx512Ifma::detect().is_some());
    }
}
